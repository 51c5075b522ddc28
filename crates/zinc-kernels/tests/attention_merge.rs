//! `attention_merge` against its reference, on shares that attention would not leave together. What attention does leave, its own test joins.

#![cfg(feature = "vk")]

mod support;

use support::data::live;
use support::{Arena, compare, tolerance};
use zinc_kernels::ops::AttentionMerge;
use zinc_kernels::reference::{self, Partial};

#[test]
fn the_table() {
    let share = |values: [f32; 4], maximum, sum| Partial { values: values.to_vec(), maximum, sum };
    let empty = || share([0.0; 4], f32::NEG_INFINITY, 0.0);
    let cases = [
        ("one share", vec![share([1.0, -2.0, 3.0, 0.5], 7.0, 2.0)]),
        ("no position at all", vec![empty(), empty(), empty()]),
        ("empty ones before and after", vec![empty(), share([4.0, 8.0, -2.0, 0.0], -3.0, 4.0), empty()]),
        ("far apart", vec![share([1.0; 4], -1e30, 1.0), share([2.0, 4.0, 6.0, 8.0], 1e30, 2.0)]),
        ("equal maxima", vec![share([1.0, 2.0, 3.0, 4.0], 5.0, 1.0), share([3.0, 2.0, 1.0, 0.0], 5.0, 3.0)]),
        ("near", vec![share([1.0; 4], 0.3, 1.5), share([2.0; 4], 0.1, 2.5), share([3.0; 4], -0.7, 1.0)]),
        ("many heads' worth of shares", (0..64).map(|i| share([i as f32 / 8.0; 4], (i % 5) as f32, 1.0)).collect()),
        ("a share that is not a number", vec![share([1.0; 4], 0.0, 1.0), share([f32::NAN; 4], f32::NAN, f32::NAN)]),
    ];
    for (name, shares) in cases {
        let mut arena = Arena::new();
        let flat: Vec<f32> = shares.iter().flat_map(|s| s.values.iter().copied().chain([s.maximum, s.sum])).collect();
        let y = arena.output(4);
        let merge = AttentionMerge {
            state: arena.state(live()),
            partials: arena.input(&flat).address,
            y: y.address,
            heads: 1,
            head_size: 4,
            splits: shares.len() as u32,
        };
        arena.run(&[merge.dispatch(&arena.gpu.target())]);
        let mut expected = vec![f32::NAN; 4];
        reference::attention_merge(&shares, &mut expected);
        // No value is above 8.
        compare::within(name, &arena.read(y), &expected, |_| 8.0 * 2.0 * tolerance::attention(shares.len(), 0.0));
    }
}
