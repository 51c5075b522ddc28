//! One function per format: the bytes of a block to what they hold. Fields are little endian and in the order of the destructuring.
//!
//! The unquantised formats and those with one scale per 32 are here; `k` has those with scales under a scale, `table` those whose values
//! come from a table.

pub(super) mod k;
pub(super) mod table;

use half::{bf16 as Bf16, f16 as F16};

use super::blocks::Block32;

/// Applies `element` to each `N` bytes of `bytes` and its place of `out`; the caller has checked that the lengths agree.
pub(super) fn each<const N: usize>(bytes: &[u8], out: &mut [f32], element: fn(&[u8; N]) -> f32) {
    for (bytes, out) in bytes.as_chunks().0.iter().zip(out) {
        *out = element(bytes);
    }
}

pub(super) fn f32(element: &[u8; 4]) -> f32 {
    f32::from_le_bytes(*element)
}

pub(super) fn f16(element: &[u8; 2]) -> f32 {
    half(element)
}

pub(super) fn bf16(element: &[u8; 2]) -> f32 {
    Bf16::from_le_bytes(*element).to_f32()
}

/// Scale, 16 bytes of nibbles: the low ones are elements 0-15, the high ones 16-31. Values are offset by 8.
pub(super) fn q4_0(block: &[u8; 18]) -> Block32 {
    let (scale, nibbles) = block.split_at(2);
    Block32 { codes: nibbles_32(nibbles, |nibble, _| nibble.cast_signed() - 8), scale: half(scale), offset: None }
}

/// Scale, offset, nibbles as in [`q4_0`] without the offset of values.
pub(super) fn q4_1(block: &[u8; 20]) -> Block32 {
    let (scale, rest) = block.split_at(2);
    let (offset, nibbles) = rest.split_at(2);
    let codes = nibbles_32(nibbles, |nibble, _| nibble.cast_signed());
    Block32 { codes, scale: half(scale), offset: Some(half(offset)) }
}

/// Scale, 32 fifth bits (bit i belongs to element i), nibbles as in [`q4_0`]. Values are offset by 16.
pub(super) fn q5_0(block: &[u8; 22]) -> Block32 {
    let (scale, rest) = block.split_at(2);
    let (high, nibbles) = rest.split_at(4);
    let codes = nibbles_32(nibbles, |nibble, i| (nibble | fifth_bit(high, i)).cast_signed() - 16);
    Block32 { codes, scale: half(scale), offset: None }
}

/// Scale, offset, fifth bits and nibbles as in [`q5_0`] without the offset of values.
pub(super) fn q5_1(block: &[u8; 24]) -> Block32 {
    let (scale, rest) = block.split_at(2);
    let (offset, rest) = rest.split_at(2);
    let (high, nibbles) = rest.split_at(4);
    let codes = nibbles_32(nibbles, |nibble, i| (nibble | fifth_bit(high, i)).cast_signed());
    Block32 { codes, scale: half(scale), offset: Some(half(offset)) }
}

/// Scale, 32 signed bytes.
pub(super) fn q8_0(block: &[u8; 34]) -> Block32 {
    let (scale, values) = block.split_at(2);
    let mut codes = [0; 32];
    for (code, &value) in codes.iter_mut().zip(values) {
        *code = value.cast_signed();
    }
    Block32 { codes, scale: half(scale), offset: None }
}

/// The codes of 16 bytes of nibbles: the low ones are elements 0-15, the high ones 16-31. `code` is given a nibble and its element.
fn nibbles_32(nibbles: &[u8], code: impl Fn(u8, usize) -> i8) -> [i8; 32] {
    let mut codes = [0; 32];
    for (i, &pair) in nibbles.iter().enumerate() {
        codes[i] = code(pair & 15, i);
        codes[i + 16] = code(pair >> 4, i + 16);
    }
    codes
}

/// The first two bytes as binary16.
fn half(bytes: &[u8]) -> f32 {
    F16::from_le_bytes([bytes[0], bytes[1]]).to_f32()
}

/// Bit `i` of a 32-bit mask, at the place of a fifth bit.
fn fifth_bit(mask: &[u8], i: usize) -> u8 {
    (mask[i / 8] >> (i % 8) & 1) << 4
}
