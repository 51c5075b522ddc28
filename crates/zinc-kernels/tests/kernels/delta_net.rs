//! `delta_net` against its reference; and sequences through it and `delta_conv`, which come to the same bits however they are cut into steps.

use zinc_kernels::ops::{DeltaHeads, HeadOrder};
use zinc_kernels::reference;

use crate::support::data::Random;
use crate::support::delta::{Layer, OnDevice, Part, Results, SHAPES, Token, assert_equal, one_by_one};
use crate::support::{compare, tolerance};

const PROMPT: usize = 90;

/// A prompt of which the whole is one step, or several.
fn fed(device: &OnDevice, lane: u32, tokens: &[Token], cuts: &[usize]) -> Vec<Results> {
    let (mut position, mut results) = (0, Vec::new());
    for &rows in cuts {
        let rows = &tokens[position..position + rows];
        results.extend(device.step(&[Part { lane, position, prompt_length: tokens.len(), rows }]).remove(0));
        position += rows.len();
    }
    assert_eq!(position, tokens.len());
    results
}

/// The length of the longest column of memories.
fn longest(memories: &[f32], size: usize) -> f64 {
    let length = |column: &[f32]| column.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
    memories.chunks(size).map(length).fold(0.0, f64::max)
}

#[test]
fn rows_of_every_shape() {
    for heads in SHAPES {
        let name = format!("{heads:?}");
        let mut random = Random::new(&name);
        let layer = Layer { taps: None, ..Layer::random(&mut random, heads, 0) };
        let tokens = layer.tokens(&mut random, 24);
        let device = OnDevice::new(&layer, 1);
        let found = fed(&device, 0, &tokens, &[24]);
        let size = heads.head_size as usize;
        let mut memories = vec![0.0; layer.memory_len()];
        let (mut error, mut largest) = (0.0, 0.0f64);
        for (row, (token, found)) in tokens.iter().zip(&found).enumerate() {
            let mut expected = vec![f32::NAN; heads.values() as usize];
            reference::delta_net(&heads, &mut memories, &token.x, &layer.gates(token), &mut expected);
            let gates = (0..heads.value_heads as usize)
                .map(|h| tolerance::delta_gates(token.alpha[h], layer.alpha_bias[h], layer.decay[h], token.beta[h]));
            error += gates.fold(0.0, f64::max) + tolerance::delta_row(size);
            largest = largest.max(longest(&memories, size) + 2.0);
            let bound = tolerance::delta_result(size, error) * largest;
            compare::within(&format!("{name}, row {row}"), &found.y, &expected, |_| bound);
        }
        compare::within(&format!("{name}: memories"), &device.memories(0), &memories, |_| error * largest);
    }
}

/// With gates of 0, 1/2 and 1, and keys and queries whose length is 8, what the device computes with exponentials and roots is exact, and so is all
/// the rest to the bit.
#[test]
fn with_exact_gates_and_lengths_every_bit_is_the_references() {
    for heads in SHAPES {
        let name = format!("exact gates and lengths, {heads:?}");
        let mut random = Random::new(&name);
        let mut layer = Layer { taps: None, ..Layer::random(&mut random, heads, 0) };
        layer.decay.fill(-1_000.0);
        layer.alpha_bias.fill(0.0);
        let (size, keys) = (heads.head_size as usize, (2 * heads.key_heads * heads.head_size) as usize);
        let mut tokens = layer.tokens(&mut random, 20);
        for token in &mut tokens {
            for vector in token.x[..keys].chunks_exact_mut(size) {
                vector.fill(0.0);
                // 64 elements of 1, or 16 of 2.
                let (count, element) = if size < 64 { (16, 2.0) } else { (64, 1.0) };
                let mut places: Vec<usize> = (0..size).collect();
                for _ in 0..count {
                    vector[places.swap_remove(random.below(places.len()))] =
                        element * (random.below(2) as f32 * 2.0 - 1.0);
                }
            }
            // Most memories are kept, some are dropped.
            token.alpha.iter_mut().for_each(|x| *x = if random.below(8) == 0 { 30.0 } else { -200.0 });
            token.beta.iter_mut().for_each(|x| *x = [0.0, 0.0, 200.0, -200.0][random.below(4)]);
        }
        let device = OnDevice::new(&layer, 1);
        let found = fed(&device, 0, &tokens, &[20]);
        let mut memories = vec![0.0; layer.memory_len()];
        for (row, (token, found)) in tokens.iter().zip(&found).enumerate() {
            let mut expected = vec![f32::NAN; heads.values() as usize];
            reference::delta_net(&heads, &mut memories, &token.x, &layer.gates(token), &mut expected);
            compare::equal_bits(&format!("{name}, row {row}"), &found.y, &expected);
        }
        compare::equal_bits(&format!("{name}: memories"), &device.memories(0), &memories);
    }
}

#[test]
fn a_prompt_comes_to_the_same_bits_however_it_is_cut() {
    for heads in [SHAPES[0], SHAPES[3]] {
        let mut random = Random::new(&format!("cuts of {heads:?}"));
        let layer = Layer::random(&mut random, heads, 0);
        let tokens = layer.tokens(&mut random, PROMPT);
        let (expected, memories) = one_by_one(&layer, &tokens);
        for cuts in [&[PROMPT][..], &[2, 1, 64, 3, 1, 16, 3], &[70, 20], &[30; 3], &[45, 45]] {
            let name = format!("{heads:?}, cut into {cuts:?}");
            let device = OnDevice::new(&layer, 1);
            assert_equal(&name, &fed(&device, 0, &tokens, cuts), &expected);
            compare::equal_bits(&name, &device.memories(0), &memories);
        }
    }
}

/// Lanes of one step: two that decode, one that reads a prompt, one that begins in the place of another sequence, one that has ended, and one whose
/// numbers are not finite. Another is not in the step.
#[test]
fn lanes_side_by_side_do_not_notice_each_other() {
    const LANES: u32 = 7;
    let mut random = Random::new("lanes side by side");
    let layer = Layer::random(&mut random, SHAPES[0], 0);
    let lengths = [9, 70, 7, 40, 6, 5, 5];
    let mut sequences: Vec<Vec<Token>> = lengths.iter().map(|&length| layer.tokens(&mut random, length)).collect();
    sequences[5].iter_mut().for_each(|token| token.x.fill(f32::NAN));
    let before = [8, 3, 6, 0, 6, 4, 5];
    let device = OnDevice::new(&layer, LANES);
    for (lane, (tokens, &count)) in (0..).zip(sequences.iter().zip(&before)) {
        // Lane 3 had another sequence before.
        let (tokens, count) = if lane == 3 { (&sequences[1], 12) } else { (tokens, count) };
        device.step(&[Part { lane, position: 0, prompt_length: count, rows: &tokens[..count] }]);
    }
    let states: Vec<Vec<u32>> = (0..LANES).map(|lane| device.recurrent(lane)).collect();
    let order = [2, 1, 5, 4, 3, 0];
    let parts = order.map(|lane| {
        let (position, prompt_length) = (before[lane], lengths[lane]);
        Part { lane: lane as u32, position, prompt_length, rows: &sequences[lane][position..] }
    });
    for (results, lane) in device.step(&parts).iter().zip(order) {
        if lane == 5 {
            assert!(results[0].y.iter().all(|y| y.is_nan()), "the lane whose numbers are not finite");
            continue;
        }
        let (expected, memories) = one_by_one(&layer, &sequences[lane]);
        let name = format!("lane {lane}");
        assert_equal(&name, results, &expected[before[lane]..]);
        compare::equal_bits(&name, &device.memories(lane as u32), &memories);
    }
    for lane in [4, 6] {
        let kept = device.recurrent(lane) == states[lane as usize];
        assert!(kept, "lane {lane}, which has no rows, keeps its state");
    }
}

/// Decodes behind a prompt with up to `layer.drafts` drafts a step, of which a random number is right, and the last token alone. Returns the results
/// of all tokens, and the memories.
fn speculated(layer: &Layer, tokens: &[Token], random: &mut Random) -> (Vec<Results>, Vec<f32>) {
    const PROMPT: usize = 10;
    let (device, drafts) = (OnDevice::new(layer, 2), layer.drafts as usize);
    let (mut position, mut results) = (0, Vec::new());
    let mut step = |position: usize, rows: &[Token], count: usize| {
        let found = device.step(&[Part { lane: 1, position, prompt_length: PROMPT, rows }]).remove(0);
        results.extend_from_slice(&found[..count]);
    };
    for rows in [7, 3] {
        step(position, &tokens[position..position + rows], rows);
        position += rows;
    }
    let last = tokens.len() - 1;
    while position < last {
        let right = random.below(drafts + 1).min(last - 1 - position);
        let wrong = random.below(drafts + 1 - right);
        let rows = [&tokens[position..=position + right], &layer.tokens(random, wrong)].concat();
        step(position, &rows, 1 + right);
        position += 1 + right;
    }
    step(last, &tokens[last..], 1);
    (results, device.memories(1))
}

#[test]
fn rejected_drafts_leave_no_trace() {
    for (heads, drafts) in [(SHAPES[0], 3), (SHAPES[3], 1), (SHAPES[1], 15), (SHAPES[2], 5)] {
        for run in 0..3 {
            let name = format!("{heads:?}, {drafts} drafts, run {run}");
            let mut random = Random::new(&name);
            let layer = Layer::random(&mut random, heads, drafts);
            let tokens = layer.tokens(&mut random, 60);
            let (found, memories) = speculated(&layer, &tokens, &mut random);
            let (expected, expected_memories) = one_by_one(&layer, &tokens);
            assert_equal(&name, &found, &expected);
            compare::equal_bits(&name, &memories, &expected_memories);
        }
    }
}

/// A copy of a lane's recurrent state is a checkpoint: another lane goes on behind it.
#[test]
fn a_copied_state_goes_on() {
    let mut random = Random::new("checkpoint");
    let layer = Layer::random(&mut random, SHAPES[1], 2);
    let tokens = layer.tokens(&mut random, 30);
    let (expected, memories) = one_by_one(&layer, &tokens);
    let device = OnDevice::new(&layer, 1);
    fed(&device, 0, &tokens[..20], &[20]);
    let other = OnDevice::with_state(&layer, 3, 2, &device.recurrent(0));
    let found = other.step(&[Part { lane: 2, position: 20, prompt_length: 30, rows: &tokens[20..] }]).remove(0);
    assert_equal("behind a copy", &found, &expected[20..]);
    compare::equal_bits("behind a copy", &other.memories(2), &memories);
}

/// A state that is not that of the positions before gives no results, rather than wrong ones.
#[test]
fn a_state_of_other_positions_gives_nan() {
    let mut random = Random::new("other positions");
    let layer = Layer::random(&mut random, SHAPES[0], 2);
    let tokens = layer.tokens(&mut random, 20);
    for (position, usable) in [(9, false), (10, true), (11, false), (15, false)] {
        let device = OnDevice::new(&layer, 1);
        fed(&device, 0, &tokens[..10], &[10]);
        let found = device.step(&[Part { lane: 0, position, prompt_length: 0, rows: &tokens[10..11] }]).remove(0);
        let all = |test: fn(&f32) -> bool| found[0].y.iter().all(test);
        assert!(if usable { all(|y| y.is_finite()) } else { all(|y| y.is_nan()) }, "at position {position}");
    }
}

/// What is not finite stays in the heads that it belongs to.
#[test]
fn nan_stays_in_its_heads() {
    for order in [HeadOrder::Tiled, HeadOrder::Grouped] {
        let heads = DeltaHeads { key_heads: 2, value_heads: 4, head_size: 32, order };
        let mut random = Random::new(&format!("NaN, {order:?}"));
        let layer = Layer { taps: None, ..Layer::random(&mut random, heads, 0) };
        let clean = layer.tokens(&mut random, 6);
        let expected = fed(&OnDevice::new(&layer, 1), 0, &clean, &[6]);
        // In the third token: an element of key head 1, of value head 2, and the gate of value head 3.
        type Poison = fn(&mut Token);
        let key: Poison = |token| token.x[2 * 32 + 32 + 5] = f32::NAN;
        let value: Poison = |token| token.x[4 * 32 + 2 * 32 + 7] = f32::INFINITY;
        let gate: Poison = |token| token.alpha[3] = f32::NAN;
        for (what, poison) in [("key", key), ("value", value), ("gate", gate)] {
            let mut tokens = clean.clone();
            poison(&mut tokens[2]);
            let found = fed(&OnDevice::new(&layer, 1), 0, &tokens, &[6]);
            for (row, (found, expected)) in found.iter().zip(&expected).enumerate() {
                for (i, (found, expected)) in found.y.iter().zip(&expected.y).enumerate() {
                    let head = i as u32 / 32;
                    let poisoned = row >= 2
                        && match what {
                            "key" => heads.key_head(head) == 1,
                            "value" => i == 2 * 32 + 7,
                            _ => head == 3,
                        };
                    let same = found.to_bits() == expected.to_bits();
                    assert!(
                        if poisoned { !found.is_finite() } else { same },
                        "{order:?}, {what}, row {row}, element {i}: {found}"
                    );
                }
            }
        }
    }
}
