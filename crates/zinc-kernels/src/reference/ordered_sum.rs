//! The order in which the floats of a row are summed, as `docs/arithmetic.md` defines it.

/// Places that the elements of a row are summed in.
const PLACES: usize = 256;

/// The sum of a row: element `e` is added to place `e / 4 % 256`, in order; then neighbouring places are joined until one is left.
#[must_use]
pub fn ordered_sum(x: &[f32]) -> f32 {
    let mut places = vec![0.0f32; PLACES];
    for (part, x) in x.chunks(4).enumerate() {
        for x in x {
            places[part % PLACES] += x;
        }
    }
    while places.len() > 1 {
        places = places.chunks(2).map(|pair| pair[0] + pair[1]).collect();
    }
    places[0]
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
        let place = |j: usize| {
            let own = x.iter().enumerate().filter(|(e, _)| e / 4 % 256 == j);
            own.fold(0.0f32, |sum, (_, x)| sum + x)
        };
        fn joined(first: usize, count: usize, place: &dyn Fn(usize) -> f32) -> f32 {
            if count == 1 {
                return place(first);
            }
            joined(first, count / 2, place) + joined(first + count / 2, count / 2, place)
        }
        assert_eq!(ordered_sum(&x), joined(0, 256, &place));
        assert_ne!(ordered_sum(&x), x.iter().fold(0.0, |sum, x| sum + x));
        assert_eq!(ordered_sum(&[]), 0.0);
        assert_eq!(ordered_sum(&[1.0, 2.0, 3.0]), 6.0);
    }
}
