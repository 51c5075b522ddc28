//! One function per format: a block's bytes to its elements. Fields are little endian and in the order of the destructuring.

use half::{bf16 as Bf16, f16 as F16};

/// Elements that share a 6-bit scale and minimum in `Q4_K` and `Q5_K`.
const SUB_BLOCK: usize = 32;

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

/// Scale, scale of the minimums, packed 6-bit scales and minimums, nibbles: each 32 bytes hold 32 elements in their low
/// halves and the next 32 in their high halves.
pub(super) fn q4_k(block: &[u8; 144], out: &mut [f32; 256]) {
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
pub(super) fn q5_k(block: &[u8; 176], out: &mut [f32; 256]) {
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
pub(super) fn q6_k(block: &[u8; 210], out: &mut [f32; 256]) {
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

/// The first two bytes as binary16.
fn half(bytes: &[u8]) -> f32 {
    F16::from_le_bytes([bytes[0], bytes[1]]).to_f32()
}

/// Bit `i` of a 32-bit mask, at the place of a fifth bit.
fn fifth_bit(mask: &[u8], i: usize) -> u8 {
    (mask[i / 8] >> (i % 8) & 1) << 4
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
