//! The formats whose 4-bit codes are indices into a table of values.

use super::super::blocks::{Block32, Block256};
use super::{half, nibbles_32};

/// The values of `IQ4_NL` and `IQ4_XS`.
const NON_LINEAR: [i8; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

/// The values of E2M1 floats, doubled.
const DOUBLED_E2M1: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/// Scale, 16 bytes of nibbles: the low ones are elements 0-15, the high ones 16-31.
pub(in crate::formats) fn iq4_nl(block: &[u8; 18]) -> Block32 {
    let (scale, nibbles) = block.split_at(2);
    Block32 { codes: looked_up(&NON_LINEAR, nibbles), scale: half(scale), offset: None }
}

/// Scale, the top two bits of eight 6-bit sub-scales in 16 bits, their low nibbles in four bytes, and nibbles as in [`iq4_nl`] for each 32
/// elements. Sub-scales are offset by 32.
pub(in crate::formats) fn iq4_xs(block: &[u8; 136]) -> Block256 {
    let (head, nibbles) = block.split_at(8);
    let (high, low) = (u16::from_le_bytes([head[2], head[3]]), &head[4..]);
    let (mut codes, mut scales) = ([0; 256], [0; 16]);
    for (sub, (codes, nibbles)) in codes.chunks_exact_mut(32).zip(nibbles.chunks_exact(16)).enumerate() {
        let six_bits = low[sub / 2] >> (sub % 2 * 4) & 15 | ((high >> (sub * 2) & 3) as u8) << 4;
        scales[sub] = six_bits.cast_signed() - 32;
        codes.copy_from_slice(&looked_up(&NON_LINEAR, nibbles));
    }
    Block256 { codes, sub_block: 32, scale: half(head), scales, minimums: None }
}

/// The exponent of a power of two with bias 127, nibbles as in [`iq4_nl`].
pub(in crate::formats) fn mxfp4(block: &[u8; 17]) -> Block32 {
    Block32 { codes: looked_up(&DOUBLED_E2M1, &block[1..]), scale: half_of_power(block[0]), offset: None }
}

/// 2^(`exponent` - 128): half of the block's scale, since the table holds doubled values.
fn half_of_power(exponent: u8) -> f32 {
    let bits = match exponent {
        // Below the smallest normal number.
        0 | 1 => 0x0020_0000 << exponent,
        _ => (u32::from(exponent) - 1) << 23,
    };
    f32::from_bits(bits)
}

fn looked_up(table: &[i8; 16], nibbles: &[u8]) -> [i8; 32] {
    nibbles_32(nibbles, |nibble, _| table[usize::from(nibble)])
}
