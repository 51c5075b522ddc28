//! One function per format: a block's bytes to its elements. Fields are little endian and in the order of the destructuring.
//!
//! The unquantised formats and those with one scale per 32 are here; `k` has those with scales under a scale, `table` those whose values
//! come from a table.

pub(super) mod k;
pub(super) mod table;

use half::{bf16 as Bf16, f16 as F16};

/// Applies `block` to each block of `bytes` and its `N` places of `out`; the caller has checked that the lengths agree.
pub(super) fn each<const B: usize, const N: usize>(
    bytes: &[u8],
    out: &mut [f32],
    block: impl Fn(&[u8; B], &mut [f32; N]),
) {
    let (blocks, _) = bytes.as_chunks::<B>();
    let (values, _) = out.as_chunks_mut::<N>();
    for (bytes, values) in blocks.iter().zip(values) {
        block(bytes, values);
    }
}

pub(super) fn f32(block: &[u8; 4], out: &mut [f32; 1]) {
    out[0] = f32::from_le_bytes(*block);
}

pub(super) fn f16(block: &[u8; 2], out: &mut [f32; 1]) {
    out[0] = half(block);
}

pub(super) fn bf16(block: &[u8; 2], out: &mut [f32; 1]) {
    out[0] = Bf16::from_le_bytes(*block).to_f32();
}

/// Scale, 16 bytes of nibbles: the low ones are elements 0-15, the high ones 16-31. Values are offset by 8.
pub(super) fn q4_0(block: &[u8; 18], out: &mut [f32; 32]) {
    let (scale, nibbles) = block.split_at(2);
    let scale = half(scale);
    for (i, &pair) in nibbles.iter().enumerate() {
        out[i] = scale * (f32::from(pair & 15) - 8.0);
        out[i + 16] = scale * (f32::from(pair >> 4) - 8.0);
    }
}

/// Scale, minimum, nibbles as in [`q4_0`] without the offset.
pub(super) fn q4_1(block: &[u8; 20], out: &mut [f32; 32]) {
    let (scale, rest) = block.split_at(2);
    let (minimum, nibbles) = rest.split_at(2);
    let (scale, minimum) = (half(scale), half(minimum));
    for (i, &pair) in nibbles.iter().enumerate() {
        out[i] = scale * f32::from(pair & 15) + minimum;
        out[i + 16] = scale * f32::from(pair >> 4) + minimum;
    }
}

/// Scale, 32 fifth bits (bit i belongs to element i), nibbles as in [`q4_0`]. Values are offset by 16.
pub(super) fn q5_0(block: &[u8; 22], out: &mut [f32; 32]) {
    let (scale, rest) = block.split_at(2);
    let (high, nibbles) = rest.split_at(4);
    let scale = half(scale);
    for (i, &pair) in nibbles.iter().enumerate() {
        out[i] = scale * (f32::from(pair & 15 | fifth_bit(high, i)) - 16.0);
        out[i + 16] = scale * (f32::from(pair >> 4 | fifth_bit(high, i + 16)) - 16.0);
    }
}

/// Scale, minimum, fifth bits and nibbles as in [`q5_0`] without the offset.
pub(super) fn q5_1(block: &[u8; 24], out: &mut [f32; 32]) {
    let (scale, rest) = block.split_at(2);
    let (minimum, rest) = rest.split_at(2);
    let (high, nibbles) = rest.split_at(4);
    let (scale, minimum) = (half(scale), half(minimum));
    for (i, &pair) in nibbles.iter().enumerate() {
        out[i] = scale * f32::from(pair & 15 | fifth_bit(high, i)) + minimum;
        out[i + 16] = scale * f32::from(pair >> 4 | fifth_bit(high, i + 16)) + minimum;
    }
}

/// Scale, 32 signed bytes.
pub(super) fn q8_0(block: &[u8; 34], out: &mut [f32; 32]) {
    let (scale, values) = block.split_at(2);
    let scale = half(scale);
    for (out, &value) in out.iter_mut().zip(values) {
        *out = scale * f32::from(value.cast_signed());
    }
}

/// The first two bytes as binary16.
fn half(bytes: &[u8]) -> f32 {
    F16::from_le_bytes([bytes[0], bytes[1]]).to_f32()
}

/// Bit `i` of a 32-bit mask, at the place of a fifth bit.
fn fifth_bit(mask: &[u8], i: usize) -> u8 {
    (mask[i / 8] >> (i % 8) & 1) << 4
}
