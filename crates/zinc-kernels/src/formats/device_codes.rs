//! The numbers that the codes of MXFP4 have on a device.
//!
//! A code of a file is a float of E2M1: a sign, two bits of exponent and one of significand. To find its value takes many operations where a lane unpacks
//! eight codes of a word together. On a device codes are numbered anew, one to one, so that with `n` the number a doubled value is `n - 14`, plus 13 where
//! of bit 0 of `n` and the complements of its bits 1 and 3 at least two are set. The twin is `biased_values` in `formats.glsl`.

/// The number of each code.
const NUMBERS: [u8; 16] = [1, 15, 3, 4, 5, 7, 9, 13, 14, 0, 12, 11, 10, 8, 6, 2];

/// The numbers of both codes of each byte.
const BYTES: [u8; 256] = {
    let mut bytes = [0; 256];
    let mut byte = 0;
    while byte < bytes.len() {
        bytes[byte] = NUMBERS[byte % 16] | NUMBERS[byte / 16] << 4;
        byte += 1;
    }
    bytes
};

/// A byte of two codes of MXFP4, as files have it, as devices have it.
#[must_use]
pub const fn mxfp4_device_byte(byte: u8) -> u8 {
    BYTES[byte as usize]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::{Block, Format, read_block};

    /// By the rule of this page, which the kernels follow, the numbers of all codes stand for the values of the decoder.
    #[test]
    fn numbers_stand_for_values() {
        for code in 0..16 {
            let block: Vec<u8> = [127].into_iter().chain([code; 16]).collect();
            let Some(Block::Of32(block)) = read_block(Format::MXFP4, &block) else { panic!("not a block of 32") };
            let number = mxfp4_device_byte(code) & 15;
            let raised =
                [number & 1 != 0, number & 2 == 0, number & 8 == 0].into_iter().filter(|set| *set).count() >= 2;
            assert_eq!(number as i8 - 14 + if raised { 13 } else { 0 }, block.codes[0], "code {code}, number {number}");
        }
    }

    #[test]
    fn every_byte_has_its_own() {
        let mut bytes = BYTES;
        bytes.sort_unstable();
        assert!((0..=255).eq(bytes));
    }
}
