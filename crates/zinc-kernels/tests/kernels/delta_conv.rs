//! `delta_conv` against its reference. What it does with the positions of earlier steps, the tests of `delta_net` look at.

use zinc_kernels::reference;

use crate::support::data::Random;
use crate::support::delta::{Layer, OnDevice, Part, Results, SHAPES, Token};
use crate::support::{compare, tolerance};

/// The convolution of the tokens of a sequence, in steps of so many rows; and of each row what the reference says, and the sum before silu.
fn convolve(layer: &Layer, tokens: &[Token], rows_of_step: usize) -> Vec<(Results, Vec<f32>, Vec<f32>)> {
    let (device, mut found) = (OnDevice::new(layer, 1), Vec::new());
    for (step, rows) in tokens.chunks(rows_of_step).enumerate() {
        let (position, prompt_length) = (step * rows_of_step, tokens.len());
        found.extend(device.step(&[Part { lane: 0, position, prompt_length, rows }]).remove(0));
    }
    let zeros = vec![0.0; layer.heads.channels() as usize];
    let taps = layer.taps.as_deref().expect("a convolution");
    let of_row = |(row, results): (usize, Results)| {
        let before = |back: usize| if row < back { &zeros } else { &tokens[row - back].x };
        let window = [3, 2, 1, 0].map(before);
        let mut expected = vec![f32::NAN; zeros.len()];
        reference::delta_conv([0, 1, 2, 3].map(|i| &window[i][..]), taps, &mut expected);
        let sum = |c: usize| (1..4).fold(taps[c * 4] * window[0][c], |sum, i| sum + taps[c * 4 + i] * window[i][c]);
        let sums = (0..zeros.len()).map(sum).collect();
        (results, expected, sums)
    };
    found.into_iter().enumerate().map(of_row).collect()
}

#[test]
fn channels_of_every_shape_in_steps_of_few_and_many_rows() {
    for heads in SHAPES {
        let mut random = Random::new(&format!("convolution of {heads:?}"));
        let layer = Layer::random(&mut random, heads, 0);
        let tokens = layer.tokens(&mut random, 75);
        for (count, rows) in [(7, 1), (9, 2), (75, 75)] {
            for (row, (found, expected, sums)) in convolve(&layer, &tokens[..count], rows).iter().enumerate() {
                let name = format!("{heads:?}, steps of {rows} rows, row {row}");
                compare::within(&name, &found.mixed, expected, |c| tolerance::gate_up(sums[c], 0.0, 1.0, 0.0));
            }
        }
    }
}

/// Where silu is its argument, to the bit, so is the result the sum in its order.
#[test]
fn sums_have_one_order() {
    let heads = SHAPES[0];
    let mut random = Random::new("order of a convolution");
    let mut layer = Layer::random(&mut random, heads, 0);
    let taps = layer.taps.as_mut().expect("a convolution");
    taps.iter_mut().for_each(|weight| *weight = 0.75 + 0.25 * *weight);
    let mut tokens = layer.tokens(&mut random, 70);
    tokens.iter_mut().flat_map(|token| &mut token.x).for_each(|x| *x = 100.0 + 10.0 * *x);
    for (count, rows) in [(9, 1), (70, 70)] {
        for (row, (found, expected, sums)) in convolve(&layer, &tokens[..count], rows).iter().enumerate() {
            let name = format!("steps of {rows} rows, row {row}");
            compare::equal_bits(&name, &found.mixed, sums);
            compare::equal_bits(&name, expected, sums);
        }
    }
}
