//! The order in which the floats of a row are summed, as `docs/arithmetic.md` defines it.

use super::round::GROUP;

/// Elements of a part, which are summed one after the other.
const PART: usize = 4;

/// The sum of a row: the sums of its groups of 256 in order. In a group, part `i` of four elements is joined with part `i + 32`, then with part
/// `i + 16`, down to its neighbour.
#[must_use]
pub fn ordered_sum(x: &[f32]) -> f32 {
    x.chunks(GROUP).map(group_sum).reduce(|sum, group| sum + group).unwrap_or(0.0)
}

/// The sum of one group; parts that it does not have are 0.
fn group_sum(x: &[f32]) -> f32 {
    let mut parts = [0.0; GROUP / PART];
    for (sum, part) in parts.iter_mut().zip(x.chunks(PART)) {
        *sum = part.iter().copied().reduce(|sum, x| sum + x).unwrap_or(0.0);
    }
    let mut joined = parts.len() / 2;
    while joined > 0 {
        let (low, high) = parts.split_at_mut(joined);
        low.iter_mut().zip(high).for_each(|(sum, part)| *sum += *part);
        joined /= 2;
    }
    parts[0]
}

#[cfg(test)]
mod tests {
    use super::super::random::philox;
    use super::*;

    #[test]
    fn sums_have_one_order() {
        // Of these numbers each order of summation has a sum of its own.
        let bits = (0..525).flat_map(|i| philox([i, 5, 1, 0], [0; 2]));
        let x: Vec<f32> = bits.map(|bits| (bits.cast_signed() as f32 / 2.0f32.powi(28)).powi(3)).collect();
        // The parts whose number has the low bits `i`, of which there are 64 / `apart`.
        fn joined(group: &[f32], i: usize, apart: usize) -> f32 {
            if apart == 64 {
                let part = group.chunks(4).nth(i).unwrap_or(&[]);
                return part.iter().fold(0.0, |sum, x| sum + x);
            }
            joined(group, i, 2 * apart) + joined(group, i + apart, 2 * apart)
        }
        let expected = x.chunks(256).map(|group| joined(group, 0, 1)).fold(0.0, |sum, group| sum + group);
        assert_eq!(ordered_sum(&x), expected);
        assert_ne!(ordered_sum(&x), x.iter().fold(0.0, |sum, x| sum + x));
        assert_eq!(ordered_sum(&[]), 0.0);
        assert_eq!(ordered_sum(&[1.0, 2.0, 3.0]), 6.0);
    }
}
