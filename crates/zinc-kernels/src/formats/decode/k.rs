//! The K formats: blocks of 256 whose parts have small integer scales under one or two scales of the block.

use super::half;

/// Elements that share a 6-bit scale and minimum in `Q4_K` and `Q5_K`.
const SUB_BLOCK: usize = 32;

/// Scale, scale of the minimums, packed 6-bit scales and minimums, nibbles: each 32 bytes hold 32 elements in their low
/// halves and the next 32 in their high halves.
pub(in crate::formats) fn q4_k(block: &[u8; 144], out: &mut [f32; 256]) {
    let (head, nibbles) = block.split_at(16);
    for (sub, out) in out.chunks_exact_mut(SUB_BLOCK).enumerate() {
        let (scale, minimum) = k_scale_and_minimum(head, sub);
        let pairs = &nibbles[sub / 2 * SUB_BLOCK..][..SUB_BLOCK];
        for (out, &pair) in out.iter_mut().zip(pairs) {
            let value = pair >> (sub % 2 * 4) & 15;
            *out = scale * f32::from(value) - minimum;
        }
    }
}

/// As [`q4_k`], with 32 bytes of fifth bits before the nibbles: bit `s` of byte `i` belongs to element `i` of sub-block `s`.
pub(in crate::formats) fn q5_k(block: &[u8; 176], out: &mut [f32; 256]) {
    let (head, rest) = block.split_at(16);
    let (high, nibbles) = rest.split_at(SUB_BLOCK);
    for (sub, out) in out.chunks_exact_mut(SUB_BLOCK).enumerate() {
        let (scale, minimum) = k_scale_and_minimum(head, sub);
        let pairs = &nibbles[sub / 2 * SUB_BLOCK..][..SUB_BLOCK];
        for ((out, &pair), &high) in out.iter_mut().zip(pairs).zip(high) {
            let value = pair >> (sub % 2 * 4) & 15 | (high >> sub & 1) << 4;
            *out = scale * f32::from(value) - minimum;
        }
    }
}

/// 128 bytes of low nibbles, 64 bytes of high bit pairs, 16 signed scales, scale. Each half of the block (128 elements,
/// 64 low bytes, 32 high bytes) holds four runs of 32: run `r` has the low nibbles of bytes `32 * (r % 2)..`, upper half
/// for `r >= 2`, and the bits `2 * r` of the high bytes. Values are offset by 32.
pub(in crate::formats) fn q6_k(block: &[u8; 210], out: &mut [f32; 256]) {
    let (low, rest) = block.split_at(128);
    let (high, rest) = rest.split_at(64);
    let (scales, scale) = rest.split_at(16);
    let scale = half(scale);
    for (run_of_all, out) in out.chunks_exact_mut(32).enumerate() {
        let (part, run) = (run_of_all / 4, run_of_all % 4);
        let low = &low[part * 64 + run % 2 * 32..][..32];
        let high = &high[part * 32..][..32];
        for (i, out) in out.iter_mut().enumerate() {
            let value = low[i] >> (run / 2 * 4) & 15 | (high[i] >> (run * 2) & 3) << 4;
            let sub_scale = scale * f32::from(scales[run_of_all * 2 + i / 16].cast_signed());
            *out = sub_scale * (f32::from(value) - 32.0);
        }
    }
}

/// 16 bytes of sub-scales (low nibbles) and sub-minimums (high nibbles), 64 bytes of bit pairs, scale, scale of the minimums. Each half of
/// the block (128 elements, 32 bytes) holds four runs of 32: run `r` has the bits `2 * r` of the bytes.
pub(in crate::formats) fn q2_k(block: &[u8; 84], out: &mut [f32; 256]) {
    let (scales, rest) = block.split_at(16);
    let (pairs, halves) = rest.split_at(64);
    let (scale, minimum_scale) = (half(halves), half(&halves[2..]));
    for (part, out) in out.chunks_exact_mut(16).enumerate() {
        let sub_scale = scale * f32::from(scales[part] & 15);
        let minimum = minimum_scale * f32::from(scales[part] >> 4);
        for (out, value) in out.iter_mut().zip(bit_pairs(pairs, part)) {
            *out = sub_scale * f32::from(value) - minimum;
        }
    }
}

/// 32 bytes of third bits, bit pairs as in [`q2_k`], packed 6-bit sub-scales offset by 32, scale. Bit `r` of byte `i` of the third bits
/// belongs to element `i` of run `r` of 32; values are offset by 4.
pub(in crate::formats) fn q3_k(block: &[u8; 110], out: &mut [f32; 256]) {
    let (high, rest) = block.split_at(32);
    let (pairs, rest) = rest.split_at(64);
    let (packed, scale) = rest.split_at(12);
    let scale = half(scale);
    for (part, out) in out.chunks_exact_mut(16).enumerate() {
        let six_bits = packed[part % 8] >> (part / 8 * 4) & 15 | (packed[8 + part % 4] >> (part / 4 * 2) & 3) << 4;
        let sub_scale = scale * (f32::from(six_bits) - 32.0);
        let high = &high[part % 2 * 16..][..16];
        for ((out, low), high) in out.iter_mut().zip(bit_pairs(pairs, part)).zip(high) {
            let value = low | (high >> (part / 2) & 1) << 2;
            *out = sub_scale * (f32::from(value) - 4.0);
        }
    }
}

/// The bit pairs of elements `16 * part..` in `Q2_K` and `Q3_K`.
fn bit_pairs(bytes: &[u8], part: usize) -> impl Iterator<Item = u8> {
    let (half, run) = (part / 8, part / 2 % 4);
    bytes[half * 32 + part % 2 * 16..][..16].iter().map(move |byte| byte >> (run * 2) & 3)
}

/// Scale and minimum of sub-block `sub` (0-7) from the 16-byte head of `Q4_K` and `Q5_K`: two binary16 followed by
/// eight 6-bit scales and eight 6-bit minimums in 12 bytes. The first four of each are the low six bits of bytes 0-3 and
/// 4-7; the last four have their low nibbles in bytes 8-11 and their top two bits on top of the first four.
fn k_scale_and_minimum(head: &[u8], sub: usize) -> (f32, f32) {
    let (scale, minimum_scale) = (half(head), half(&head[2..]));
    let packed = &head[4..];
    let (six_bit_scale, six_bit_minimum) = if sub < 4 {
        (packed[sub] & 63, packed[sub + 4] & 63)
    } else {
        let low = packed[sub + 4];
        (low & 15 | packed[sub - 4] >> 6 << 4, low >> 4 | packed[sub] >> 6 << 4)
    };
    (scale * f32::from(six_bit_scale), minimum_scale * f32::from(six_bit_minimum))
}
