//! The K formats: blocks of 256 whose parts have small integer scales under one or two scales of the block.

use super::super::blocks::{Block256, Minimums};
use super::half;

/// Elements that share a 6-bit scale and minimum in `Q4_K` and `Q5_K`.
const SUB_BLOCK: usize = 32;

/// Scale, scale of the minimums, packed 6-bit scales and minimums, nibbles: each 32 bytes hold 32 elements in their low
/// halves and the next 32 in their high halves.
pub(in crate::formats) fn q4_k(block: &[u8; 144]) -> Block256 {
    let (head, nibbles) = block.split_at(16);
    let mut codes = [0; 256];
    for (sub, codes) in codes.chunks_exact_mut(SUB_BLOCK).enumerate() {
        let pairs = &nibbles[sub / 2 * SUB_BLOCK..][..SUB_BLOCK];
        for (code, &pair) in codes.iter_mut().zip(pairs) {
            *code = (pair >> (sub % 2 * 4) & 15).cast_signed();
        }
    }
    with_k_head(head, codes)
}

/// As [`q4_k`], with 32 bytes of fifth bits before the nibbles: bit `s` of byte `i` belongs to element `i` of sub-block `s`.
pub(in crate::formats) fn q5_k(block: &[u8; 176]) -> Block256 {
    let (head, rest) = block.split_at(16);
    let (high, nibbles) = rest.split_at(SUB_BLOCK);
    let mut codes = [0; 256];
    for (sub, codes) in codes.chunks_exact_mut(SUB_BLOCK).enumerate() {
        let pairs = &nibbles[sub / 2 * SUB_BLOCK..][..SUB_BLOCK];
        for ((code, &pair), &high) in codes.iter_mut().zip(pairs).zip(high) {
            *code = (pair >> (sub % 2 * 4) & 15 | (high >> sub & 1) << 4).cast_signed();
        }
    }
    with_k_head(head, codes)
}

/// 128 bytes of low nibbles, 64 bytes of high bit pairs, 16 signed scales, scale. Each half of the block (128 elements,
/// 64 low bytes, 32 high bytes) holds four runs of 32: run `r` has the low nibbles of bytes `32 * (r % 2)..`, upper half
/// for `r >= 2`, and the bits `2 * r` of the high bytes. Values are offset by 32.
pub(in crate::formats) fn q6_k(block: &[u8; 210]) -> Block256 {
    let (low, rest) = block.split_at(128);
    let (high, rest) = rest.split_at(64);
    let (packed, scale) = rest.split_at(16);
    let mut codes = [0; 256];
    for (run_of_all, codes) in codes.chunks_exact_mut(32).enumerate() {
        let (part, run) = (run_of_all / 4, run_of_all % 4);
        let low = &low[part * 64 + run % 2 * 32..][..32];
        let high = &high[part * 32..][..32];
        for ((code, low), high) in codes.iter_mut().zip(low).zip(high) {
            *code = (low >> (run / 2 * 4) & 15 | (high >> (run * 2) & 3) << 4).cast_signed() - 32;
        }
    }
    let mut scales = [0; 16];
    for (scale, packed) in scales.iter_mut().zip(packed) {
        *scale = packed.cast_signed();
    }
    Block256 { codes, sub_block: 16, scale: half(scale), scales, minimums: None }
}

/// 16 bytes of sub-scales (low nibbles) and sub-minimums (high nibbles), 64 bytes of bit pairs, scale, scale of the minimums. Each half of
/// the block (128 elements, 32 bytes) holds four runs of 32: run `r` has the bits `2 * r` of the bytes.
pub(in crate::formats) fn q2_k(block: &[u8; 84]) -> Block256 {
    let (packed, rest) = block.split_at(16);
    let (pairs, halves) = rest.split_at(64);
    let (mut codes, mut scales, mut minimums) = ([0; 256], [0; 16], [0; 16]);
    for (part, codes) in codes.chunks_exact_mut(16).enumerate() {
        scales[part] = (packed[part] & 15).cast_signed();
        minimums[part] = packed[part] >> 4;
        for (code, value) in codes.iter_mut().zip(bit_pairs(pairs, part)) {
            *code = value.cast_signed();
        }
    }
    let minimums = Minimums { scale: half(&halves[2..]), minimums };
    Block256 { codes, sub_block: 16, scale: half(halves), scales, minimums: Some(minimums) }
}

/// 32 bytes of third bits, bit pairs as in [`q2_k`], packed 6-bit sub-scales offset by 32, scale. Bit `r` of byte `i` of the third bits
/// belongs to element `i` of run `r` of 32; values are offset by 4.
pub(in crate::formats) fn q3_k(block: &[u8; 110]) -> Block256 {
    let (high, rest) = block.split_at(32);
    let (pairs, rest) = rest.split_at(64);
    let (packed, scale) = rest.split_at(12);
    let (mut codes, mut scales) = ([0; 256], [0; 16]);
    for (part, codes) in codes.chunks_exact_mut(16).enumerate() {
        let six_bits = packed[part % 8] >> (part / 8 * 4) & 15 | (packed[8 + part % 4] >> (part / 4 * 2) & 3) << 4;
        scales[part] = six_bits.cast_signed() - 32;
        let high = &high[part % 2 * 16..][..16];
        for ((code, low), high) in codes.iter_mut().zip(bit_pairs(pairs, part)).zip(high) {
            *code = (low | (high >> (part / 2) & 1) << 2).cast_signed() - 4;
        }
    }
    Block256 { codes, sub_block: 16, scale: half(scale), scales, minimums: None }
}

/// The bit pairs of elements `16 * part..` in `Q2_K` and `Q3_K`.
fn bit_pairs(bytes: &[u8], part: usize) -> impl Iterator<Item = u8> {
    let (half, run) = (part / 8, part / 2 % 4);
    bytes[half * 32 + part % 2 * 16..][..16].iter().map(move |byte| byte >> (run * 2) & 3)
}

/// A block with the 16-byte head of `Q4_K` and `Q5_K`: two binary16 followed by eight 6-bit scales and eight 6-bit minimums in 12 bytes. The
/// first four of each are the low six bits of bytes 0-3 and 4-7; the last four have their low nibbles in bytes 8-11 and their top two bits on
/// top of the first four.
fn with_k_head(head: &[u8], codes: [i8; 256]) -> Block256 {
    let packed = &head[4..];
    let (mut scales, mut minimums) = ([0; 16], [0; 16]);
    for sub in 0..8 {
        let (scale, minimum) = if sub < 4 {
            (packed[sub] & 63, packed[sub + 4] & 63)
        } else {
            let low = packed[sub + 4];
            (low & 15 | packed[sub - 4] >> 6 << 4, low >> 4 | packed[sub] >> 6 << 4)
        };
        scales[sub] = scale.cast_signed();
        minimums[sub] = minimum;
    }
    let minimums = Minimums { scale: half(&head[2..]), minimums };
    Block256 { codes, sub_block: SUB_BLOCK, scale: half(head), scales, minimums: Some(minimums) }
}
