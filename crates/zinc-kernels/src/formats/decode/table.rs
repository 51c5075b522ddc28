//! The formats whose 4-bit codes are indices into a table of values.

use super::half;

/// The values of `IQ4_NL` and `IQ4_XS`.
const NON_LINEAR: [i8; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

/// The values of E2M1 floats, doubled.
const DOUBLED_E2M1: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/// Scale, 16 bytes of nibbles: the low ones are elements 0-15, the high ones 16-31.
pub(in crate::formats) fn iq4_nl(block: &[u8; 18], out: &mut [f32; 32]) {
    let (scale, nibbles) = block.split_at(2);
    look_up(&NON_LINEAR, half(scale), nibbles, out);
}

/// Scale, the top two bits of eight 6-bit sub-scales in 16 bits, their low nibbles in four bytes, and nibbles as in [`iq4_nl`] for each 32
/// elements. Sub-scales are offset by 32.
pub(in crate::formats) fn iq4_xs(block: &[u8; 136], out: &mut [f32; 256]) {
    let (head, nibbles) = block.split_at(8);
    let scale = half(head);
    let (high, low) = (u16::from_le_bytes([head[2], head[3]]), &head[4..]);
    for (sub, (out, nibbles)) in out.chunks_exact_mut(32).zip(nibbles.chunks_exact(16)).enumerate() {
        let six_bits = u16::from(low[sub / 2] >> (sub % 2 * 4) & 15) | (high >> (sub * 2) & 3) << 4;
        look_up(&NON_LINEAR, scale * (f32::from(six_bits) - 32.0), nibbles, out);
    }
}

/// The exponent of a power of two with bias 127, nibbles as in [`iq4_nl`].
pub(in crate::formats) fn mxfp4(block: &[u8; 17], out: &mut [f32; 32]) {
    look_up(&DOUBLED_E2M1, half_of_power(block[0]), &block[1..], out);
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

fn look_up(table: &[i8; 16], scale: f32, nibbles: &[u8], out: &mut [f32]) {
    let (low, high) = out.split_at_mut(nibbles.len());
    for ((low, high), &pair) in low.iter_mut().zip(high).zip(nibbles) {
        *low = scale * f32::from(table[usize::from(pair & 15)]);
        *high = scale * f32::from(table[usize::from(pair >> 4)]);
    }
}
