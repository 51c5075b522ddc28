//! `attention` against its reference, share by share, and joined by `attention_merge`.

#![cfg(feature = "vk")]

mod support;

use half::f16;
use support::data::{Random, live};
use support::{Arena, compare, tolerance};
use zinc_kernels::generated::state::StepState;
use zinc_kernels::ops::{Attention, AttentionMerge, CacheFormat};
use zinc_kernels::reference::{self, AttentionShape};

#[derive(Clone, Copy, Debug)]
struct Case {
    query_heads: usize,
    kv_heads: usize,
    head_size: usize,
    position: usize,
    splits: usize,
    keys: CacheFormat,
    values: CacheFormat,
    numbers: Numbers,
}

/// Queries and keys.
#[derive(Clone, Copy, Debug)]
enum Numbers {
    /// Any numbers up to a magnitude.
    Real(f32),
    /// Whole numbers up to a magnitude. Their scores are exact where the root of the head size is a power of two.
    Whole(i32),
}

impl Numbers {
    fn draw(self, random: &mut Random, len: usize) -> Vec<f32> {
        match self {
            Self::Real(size) => random.vector(len, size),
            Self::Whole(limit) => random.whole(len, limit),
        }
    }
}

const PLAIN: Case = Case {
    query_heads: 4,
    kv_heads: 1,
    head_size: 64,
    position: 200,
    splits: 3,
    keys: CacheFormat::F16,
    values: CacheFormat::F16,
    numbers: Numbers::Real(1.0),
};

/// Rows that the cache has beyond the position.
const BEYOND: usize = 5;

/// A cache whose rows after the position are NaN: what stands there must not reach the result.
fn cache(
    arena: &mut Arena,
    random: &mut Random,
    case: &Case,
    format: CacheFormat,
    numbers: Numbers,
) -> (u64, Vec<f32>) {
    let width = case.kv_heads * case.head_size;
    let mut rows = numbers.draw(random, (case.position + 1) * width);
    reference::cache_row(format, &mut rows);
    rows.resize(rows.len() + BEYOND * width, f32::NAN);
    let address = match format {
        CacheFormat::F32 => arena.input(&rows).address,
        CacheFormat::F16 => arena.input(&rows.iter().copied().map(f16::from_f32).collect::<Vec<_>>()).address,
    };
    (address, rows)
}

fn check(case: &Case) {
    let name = format!("{case:?}");
    let &Case { query_heads, kv_heads, head_size, position, splits, .. } = case;
    let mut random = Random::new(&name);
    let mut arena = Arena::new();
    let target = arena.gpu.target();
    let state = arena.state(StepState { position: position as u32, ..live() });
    let q = case.numbers.draw(&mut random, query_heads * head_size);
    let (key_cache, keys) = cache(&mut arena, &mut random, case, case.keys, case.numbers);
    let (value_cache, values) = cache(&mut arena, &mut random, case, case.values, Numbers::Real(1.0));
    let stride = head_size + 2;
    let partials = arena.output::<f32>(query_heads * splits * stride);
    let y = arena.output::<f32>(query_heads * head_size);
    let attention = Attention {
        state,
        q: arena.input(&q).address,
        key_cache,
        value_cache,
        partials: partials.address,
        key_format: case.keys,
        value_format: case.values,
        query_heads: query_heads as u32,
        kv_heads: kv_heads as u32,
        head_size: head_size as u32,
        splits: splits as u32,
    };
    let merge = AttentionMerge {
        state,
        partials: partials.address,
        y: y.address,
        heads: query_heads as u32,
        head_size: head_size as u32,
        splits: splits as u32,
    };
    let attention = attention.dispatch(&target);
    let tile = attention.workgroup_size() as usize;
    arena.run(&[attention, merge.dispatch(&target)]);

    let shape = AttentionShape { kv_heads, head_size, group: query_heads / kv_heads };
    let (partials, y) = (arena.read(partials), arena.read(y));
    for head in 0..query_heads {
        let own_q = &q[head * head_size..(head + 1) * head_size];
        let error = match case.numbers {
            Numbers::Real(size) => tolerance::attention_score(own_q, size),
            Numbers::Whole(_) => 0.0,
        };
        let mut shares = Vec::new();
        for split in 0..splits {
            let own = (0..=position).filter(|p| p / tile % splits == split);
            let expected = reference::attention(shape, head, own_q, &keys, &values, own.clone());
            let found = &partials[(head * splits + split) * stride..][..stride];
            let name = format!("{name}, head {head}, split {split}");
            let bound = tolerance::attention(own.count(), error) * f64::from(expected.sum);
            compare::within(&format!("{name}, maximum"), &found[head_size..=head_size], &[expected.maximum], |_| error);
            compare::within(&format!("{name}, sum"), &found[head_size + 1..], &[expected.sum], |_| bound);
            // Values are at most 1, so that a weighted sum of them is at most the sum of the weights.
            compare::within(&format!("{name}, values"), &found[..head_size], &expected.values, |_| bound);
            shares.push(expected);
        }
        let mut expected = vec![f32::NAN; head_size];
        reference::attention_merge(&shares, &mut expected);
        let bound = 2.0 * tolerance::attention(position + 1, error);
        let found = &y[head * head_size..(head + 1) * head_size];
        compare::within(&format!("{name}, head {head}, merged"), found, &expected, |_| bound);

        // How the context is split must not matter.
        let whole = reference::attention(shape, head, own_q, &keys, &values, 0..=position);
        reference::attention_merge(&[whole], &mut expected);
        compare::within(&format!("{name}, head {head}, whole"), found, &expected, |_| bound);
    }
}

#[test]
fn head_sizes_and_groups() {
    for head_size in [4, 32, 64, 80, 128, 256, 512] {
        for (query_heads, kv_heads) in [(2, 2), (4, 1), (16, 2)] {
            check(&Case { head_size, query_heads, kv_heads, ..PLAIN });
        }
    }
}

/// Positions around a tile's edge, with splits that stay empty.
#[test]
fn positions_and_splits() {
    for position in [0, 1, 126, 127, 128, 500] {
        for splits in [1, 3, 16] {
            check(&Case { position, splits, ..PLAIN });
        }
    }
}

#[test]
fn cache_formats() {
    for keys in [CacheFormat::F32, CacheFormat::F16] {
        for values in [CacheFormat::F32, CacheFormat::F16] {
            check(&Case { keys, values, ..PLAIN });
        }
    }
}

/// Scores up to tens of thousands: their exponentials overflow unless the maximum is taken off first.
#[test]
fn huge_scores() {
    for numbers in [Numbers::Real(30.0), Numbers::Whole(5), Numbers::Whole(30), Numbers::Whole(300)] {
        for splits in [1, 3] {
            check(&Case { numbers, splits, ..PLAIN });
        }
    }
}

/// Keys that all score the same give the mean of the values; whole values in a number of positions that is a power of two make it exact.
#[test]
fn equal_scores_give_the_mean() {
    let (head_size, count, splits) = (32, 256, 3);
    let mut arena = Arena::new();
    let target = arena.gpu.target();
    let state = arena.state(StepState { position: count - 1, ..live() });
    let values: Vec<f32> = (0..count).flat_map(|p| (0..32).map(move |i| ((p * 7 + i) % 64) as f32)).collect();
    let partials = arena.output::<f32>(splits * (head_size + 2));
    let y = arena.output::<f32>(head_size);
    let attention = Attention {
        state,
        q: arena.input(&vec![0.0f32; head_size]).address,
        key_cache: arena.input(&vec![1.0f32; head_size * count as usize]).address,
        value_cache: arena.input(&values).address,
        partials: partials.address,
        key_format: CacheFormat::F32,
        value_format: CacheFormat::F32,
        query_heads: 1,
        kv_heads: 1,
        head_size: head_size as u32,
        splits: splits as u32,
    };
    let merge = AttentionMerge {
        state,
        partials: partials.address,
        y: y.address,
        heads: 1,
        head_size: head_size as u32,
        splits: splits as u32,
    };
    arena.run(&[attention.dispatch(&target), merge.dispatch(&target)]);
    let mean = |i: usize| values.iter().skip(i).step_by(head_size).sum::<f32>() / count as f32;
    compare::equal_bits("mean", &arena.read(y), &(0..head_size).map(mean).collect::<Vec<_>>());
}

/// A query that is not a number must stay visible: the sampler stops a sequence whose logits are not finite.
#[test]
fn not_a_number_is_not_hidden() {
    let mut arena = Arena::new();
    let target = arena.gpu.target();
    let state = arena.state(StepState { position: 9, ..live() });
    let partials = arena.output::<f32>(3 * 34);
    let y = arena.output::<f32>(32);
    let attention = Attention {
        state,
        q: arena.input(&[f32::NAN; 32]).address,
        key_cache: arena.input(&[0.5f32; 320]).address,
        value_cache: arena.input(&[0.5f32; 320]).address,
        partials: partials.address,
        key_format: CacheFormat::F32,
        value_format: CacheFormat::F32,
        query_heads: 1,
        kv_heads: 1,
        head_size: 32,
        splits: 3,
    };
    let merge = AttentionMerge { state, partials: partials.address, y: y.address, heads: 1, head_size: 32, splits: 3 };
    arena.run(&[attention.dispatch(&target), merge.dispatch(&target)]);
    let y: Vec<f32> = arena.read(y);
    assert!(y.iter().all(|y| y.is_nan()), "{y:?}");
}
