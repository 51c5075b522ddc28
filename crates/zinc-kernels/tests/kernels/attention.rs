//! `attention` against its reference: the append to the cache, and the result whatever the splits.

use crate::matrix;
use crate::support::attention_case::{
    Case, Contents, EPSILON, PLAIN, cache, context, first_attended, heads, pages, read_cache, rotation, sinks, target,
};
use crate::support::data::{Random, live};
use crate::support::rows::{self, Builder, Use, View};
use crate::support::{Arena, compare, operand, tolerance};
use zinc_kernels::ops::{ActFormat, Attention, CacheFormat, HeadNorm, Heads, Pairing};
use zinc_kernels::reference::{self, AttentionShape};
use zinc_kernels::step::{Lane, MOST_RUN, StepShape};

/// Rows that the cache has beyond the position.
const BEYOND: usize = 5;

pub(crate) fn check(case: &Case) {
    let name = format!("{case:?}");
    let &Case { query_heads, kv_heads, head_size, rotated, position, .. } = case;
    let mut random = Random::new(&name);
    let mut arena = Arena::new();
    let target = target(case);
    let pages = pages(&mut random, case, position + 1 + BEYOND);
    let state = arena.state_with_pages(Lane { position: position as u32, ..live() }, &pages);
    let q = random.vector(query_heads * head_size, case.size);
    let k = random.vector(kv_heads * head_size, case.size);
    let v = random.vector(kv_heads * head_size, 1.0);
    let (q_norm, k_norm) = (random.vector(head_size, 1.5), random.vector(head_size, 1.5));
    let pairs = rotated / 2;
    let rotation = rotation(position + 1, pairs);
    let (key_cache, mut keys) = cache(&mut arena, &mut random, case, &pages, Contents::Keys, BEYOND);
    let (value_cache, mut values) = cache(&mut arena, &mut random, case, &pages, Contents::Values, BEYOND);
    let heads = heads(case);
    let n = query_heads * head_size;
    let (context, sinks) = (context(case, position + 1 + BEYOND), sinks(&mut random, case));
    let y = arena.output::<u8>(operand::stored_bytes(case.out, n));
    let counters = arena.in_out(&vec![0u32; query_heads]);
    let op = Attention {
        state,
        q: arena.input(&q).row(),
        k: arena.input(&k).row(),
        v: arena.input(&v).row(),
        norm: case.norm.then(|| HeadNorm {
            q: arena.input(&q_norm).address,
            k: arena.input(&k_norm).address,
            epsilon: EPSILON,
        }),
        rotation: arena.input(rotation.as_flattened()).address,
        key_cache: key_cache.address,
        value_cache: value_cache.address,
        lane_pages: pages.room(),
        ring_pages: pages.ring(),
        partials: arena.scratch(&vec![0.0f32; heads.partials(context) as usize]).address,
        counters: counters.address,
        y: y.row(),
        rounded: case.out == ActFormat::Q14,
        key_format: case.keys,
        value_format: case.values,
        heads,
        rotated: rotated as u32,
        pairing: case.pairing,
        next: Some((arena.input(&[1u32; 4_100]).address, 4 * 4_100)),
        context,
        window: case.window,
        sinks: sinks.as_ref().map(|sinks| arena.input(sinks).address),
        shape: StepShape::ONE,
    };
    let launch = op.dispatch(&target);
    assert_eq!(launch.kernel.name.starts_with("attention_units"), case.units, "{name}: {}", launch.kernel.name);
    arena.run(&[launch]);
    assert!(arena.read(counters).iter().all(|count| *count == 0), "{name}: the counters are left as they were found");

    // The place of the token in the cache, and nothing else of it.
    let angles = &rotation[position * pairs..];
    let prepared = |x: &[f32], weight: &[f32]| {
        let mut heads = x.to_vec();
        for head in heads.chunks_mut(head_size) {
            reference::rope_head(head, case.norm.then_some((weight, EPSILON)), angles, case.pairing);
        }
        heads
    };
    let width = kv_heads * head_size;
    let own = position * width..(position + 1) * width;
    let (mut key, mut stored_value) = (prepared(&k, &k_norm), v.clone());
    reference::cache_row(case.values, &mut stored_value);
    let read = |cache, format| read_cache(&arena, cache, case, &pages, format, position + 1 + BEYOND);
    let (found_keys, found_values) = (read(key_cache, case.keys), read(value_cache, case.values));
    let head_error = tolerance::rotated_head(head_size, key.iter().fold(0.0f32, |m, x| m.max(x.abs())));
    reference::cache_row(case.keys, &mut key);
    compare::within(&format!("{name}: key"), &found_keys[own.clone()], &key, |i| {
        head_error + if case.keys == CacheFormat::F16 { tolerance::half_step(key[i]) } else { 0.0 }
    });
    compare::equal_bits(&format!("{name}: value"), &found_values[own.clone()], &stored_value);
    // A ring has lost those that are further behind than it is long.
    let earlier = pages.first_kept(position + 1 + BEYOND) * width..own.start;
    compare::equal_bits(&format!("{name}: earlier keys"), &found_keys[earlier.clone()], &keys[earlier.clone()]);
    compare::equal_bits(&format!("{name}: earlier values"), &found_values[earlier.clone()], &values[earlier]);
    assert!(found_keys[own.end..].iter().chain(&found_values[own.end..]).all(|x| x.is_nan()), "{name}: beyond");

    // Attention over the cache as the device has it.
    keys[own.clone()].copy_from_slice(&found_keys[own.clone()]);
    values[own.clone()].copy_from_slice(&found_values[own]);
    let q = prepared(&q, &q_norm);
    let shape = AttentionShape { kv_heads, head_size, group: query_heads / kv_heads, window: case.window };
    let mut expected = vec![f32::NAN; n];
    let mut bounds = Vec::with_capacity(n);
    let attended = first_attended(case, position)..position + 1;
    let key_size = keys[attended.start * width..attended.end * width].iter().fold(0.0f32, |m, x| m.max(x.abs()));
    for (head, y) in expected.chunks_mut(head_size).enumerate() {
        let own_q = &q[head * head_size..(head + 1) * head_size];
        reference::attention(shape, head, own_q, [&keys, &values], sinks.as_deref(), position, y);
        let q_size = own_q.iter().fold(0.0f32, |m, x| m.max(x.abs()));
        let q_error = tolerance::rotated_head(head_size, q_size) * f64::from(key_size) * (head_size as f64).sqrt();
        let mut error = tolerance::attention_score(own_q, key_size) + q_error;
        let mut rounding = 0.0;
        // Without queries all keys have the weight 1 exactly.
        if case.units && case.size > 0.0 {
            // Queries are rounded to halves, and so are weights: 2^-11 of each, and 2^-25 where that is more, of their sum, which is at least 1.
            let magnitude: f64 = own_q.iter().map(|q| f64::from(q.abs() * key_size)).sum();
            error += magnitude / 2_048.0 / (head_size as f64).sqrt();
            rounding = 2.0 * (1.0 / 2_048.0 + attended.len() as f64 / f64::from(1 << 25));
        }
        // Values are at most 1.
        bounds.extend(std::iter::repeat_n(2.0 * tolerance::attention(attended.len(), error) + rounding, head_size));
    }
    let found = operand::stored(case.out, &arena.read::<u8>(y), n, false);
    compare::within(&name, &found, &expected, |i| bounds[i] + operand::step(case.out, &expected, i));
}

/// Building a pipeline takes nearly all of the time, the more the more query heads a workgroup takes: each size has one number of them. In the whole
/// matrix of tests each size meets each group that this number divides; else two of these groups, so that all sizes together meet every group.
#[test]
fn head_sizes_and_groups() {
    for (turn, (head_size, heads)) in
        [(16, 1usize), (32, 2), (64, 1), (80, 1), (128, 4), (256, 1)].into_iter().enumerate()
    {
        let groups = [(2usize, 2), (4, 1), (16, 2), (14, 2), (16, 1), (11, 1)];
        let fit = groups.into_iter().filter(|(query_heads, kv_heads)| (query_heads / kv_heads).is_multiple_of(heads));
        let fit: Vec<_> = fit.collect();
        let first = turn % fit.len();
        let part = first..if matrix::is_full() { first + fit.len() } else { first + 2 };
        for (query_heads, kv_heads) in part.map(|index| fit[index % fit.len()]) {
            let heads = heads as u32;
            check(&Case { head_size, rotated: head_size, query_heads, kv_heads, heads, ..PLAIN });
        }
    }
}

/// Positions around the edges of tiles and workgroups, with splits that stay empty.
#[test]
fn positions_and_splits() {
    for position in [0, 1, 7, 8, 31, 32, 63, 64, 127, 128, 255, 256, 257, 700] {
        for splits in [1, 3, 16] {
            for (warm, heads) in [(false, 4), (true, 2)] {
                check(&Case { position, splits, warm, heads, ..PLAIN });
            }
        }
    }
}

#[test]
fn a_long_context() {
    check(&Case { position: 5_000, splits: 20, query_heads: 8, head_size: 128, rotated: 128, ..PLAIN });
}

/// Every two of the formats of keys, values and results.
#[test]
fn cache_formats_and_results() {
    use CacheFormat::{F16, F32};
    for (keys, values, out) in [
        (F32, F32, ActFormat::F32),
        (F16, F16, ActFormat::F32),
        (F32, F16, ActFormat::Q14),
        (F16, F32, ActFormat::Q14),
        (F32, F32, ActFormat::Q14),
        (F16, F16, ActFormat::Q14),
    ] {
        for splits in [1, 4] {
            check(&Case { keys, values, out, splits, heads: 4, ..PLAIN });
        }
    }
}

#[test]
fn rotations() {
    for (pairing, rotated, norm) in [
        (Pairing::Halves, 0, true),
        (Pairing::Halves, 2, false),
        (Pairing::Halves, 32, true),
        (Pairing::Halves, 64, false),
        (Pairing::Interleaved, 2, true),
        (Pairing::Interleaved, 32, false),
        (Pairing::Interleaved, 64, true),
    ] {
        check(&Case { pairing, rotated, norm, heads: 1, ..PLAIN });
    }
}

/// Scores up to thousands: their exponentials overflow unless the maximum is taken off first.
#[test]
fn huge_scores() {
    for size in [30.0, 100.0] {
        for splits in [1, 3] {
            check(&Case { size, norm: false, keys: CacheFormat::F32, splits, ..PLAIN });
        }
    }
}

/// Whether a workgroup has the shared memory that a case by matrix units needs: not every device has as much as tiles of the larger heads take.
pub(crate) fn fits(case: &Case) -> bool {
    !case.units || case.head_size == 64 || target(case).shared_bytes >= 46_080
}

/// By matrix units: heads of both sizes, in groups that do and do not fill a fragment, around the edges of tiles and splits, with every number of
/// workgroups.
#[test]
fn by_matrix_units() {
    for (query_heads, kv_heads, head_size, out) in [
        (8usize, 2usize, 64usize, ActFormat::Q14),
        (5, 5, 64, ActFormat::F32),
        (17, 1, 64, ActFormat::F32),
        (16, 1, 128, ActFormat::Q14),
    ] {
        let case = Case { query_heads, kv_heads, head_size, rotated: head_size, out, units: true, ..PLAIN };
        if !fits(&case) {
            continue;
        }
        for position in [0, 63, 64, 255, 256, 700] {
            for splits in [1, 16] {
                check(&Case { position, splits, ..case });
            }
        }
    }
    for (pairing, rotated, norm) in [(Pairing::Interleaved, 32, false), (Pairing::Halves, 2, true)] {
        check(&Case { pairing, rotated, norm, units: true, ..PLAIN });
    }
    check(&Case { size: 30.0, norm: false, units: true, ..PLAIN });
    check(&Case { position: 5_000, splits: 3, query_heads: 8, units: true, ..PLAIN });
    // More splits than are joined between two barriers: 32 with 16 heads.
    check(&Case { position: 8_500, splits: 6, query_heads: 16, units: true, ..PLAIN });
}

/// Heads of every size that kernels differ in, in every form, whose keys and values lie in pages in random order: around the edges of pages and splits.
pub(crate) fn paged_cases() -> Vec<Case> {
    use CacheFormat::{F16, F32};
    let mut cases = Vec::new();
    for (head_size, query_heads, heads, keys, values, units) in [
        (16, 4, 1, F16, F16, false),
        (32, 4, 2, F32, F16, false),
        (64, 8, 2, F16, F16, false),
        (80, 4, 1, F16, F32, false),
        (128, 4, 2, F16, F16, false),
        (256, 4, 1, F32, F32, false),
        (64, 8, 2, F16, F16, true),
        (128, 8, 2, F16, F16, true),
        (256, 16, 2, F16, F16, true),
    ] {
        for (position, splits) in [(0, 1), (63, 3), (64, 1), (130, 3), (700, 3)] {
            let rotated = head_size;
            let case =
                Case { head_size, rotated, query_heads, kv_heads: 2, heads, keys, values, position, splits, ..PLAIN };
            cases.push(Case { units, paged: true, ..case });
        }
    }
    cases.retain(fits);
    cases
}

/// Those of [`paged_cases`] for comparisons with other kernels: in the whole matrix all of them, else a size of heads of each form, since nearly all of the time goes
/// to building pipelines.
pub(crate) fn paged_part() -> Vec<Case> {
    let is_part = |case: &Case| if case.units { case.head_size > 64 } else { [80, 256].contains(&case.head_size) };
    paged_cases().into_iter().filter(|case| matrix::is_full() || is_part(case)).collect()
}

/// Against the reference, and several rows to the bit against one by one. One test, so that both have the same pipelines.
#[test]
fn pages_in_any_order() {
    for case in paged_cases() {
        check(&case);
        check_rows(&case);
    }
}

/// One head of 32 elements that does not rotate, over f32 caches.
fn plain_head(arena: &mut Arena, count: u32, q: &[f32], key: f32, earlier_values: &[f32], v: &[f32]) -> Vec<f32> {
    let size = 32;
    let state = arena.state(Lane { position: count - 1, ..live() });
    let heads = Heads { query_heads: 1, kv_heads: 1, head_size: size as u32 };
    let mut values = earlier_values.to_vec();
    values.resize(size * count as usize, f32::NAN);
    let y = arena.output::<f32>(size);
    let op = Attention {
        state,
        q: arena.input(q).row(),
        k: arena.input(&vec![key; size]).row(),
        v: arena.input(v).row(),
        norm: None,
        rotation: arena.input(&[0.0f32; 4]).address,
        key_cache: arena.in_out(&vec![key; size * count as usize]).address,
        value_cache: arena.in_out(&values).address,
        lane_pages: 0,
        ring_pages: 0,
        partials: arena.scratch(&vec![0.0f32; heads.partials(count) as usize]).address,
        counters: arena.in_out(&[0u32]).address,
        y: y.row(),
        rounded: false,
        key_format: CacheFormat::F32,
        value_format: CacheFormat::F32,
        heads,
        rotated: 0,
        pairing: Pairing::Halves,
        next: None,
        context: count,
        window: None,
        sinks: None,
        shape: StepShape::ONE,
    };
    arena.run(&[op.dispatch(&arena.gpu.target())]);
    arena.read(y)
}

/// Keys that all score the same give the mean of the values; whole values in a number of positions that is a power of two make it exact.
#[test]
fn equal_scores_give_the_mean() {
    let count = 256;
    let values: Vec<f32> = (0..count).flat_map(|p| (0..32).map(move |i| ((p * 7 + i) % 64) as f32)).collect();
    let (earlier, own) = values.split_at(values.len() - 32);
    let found = plain_head(&mut Arena::new(), count, &[0.0; 32], 1.0, earlier, own);
    let mean = |i: usize| values.iter().skip(i).step_by(32).sum::<f32>() / count as f32;
    compare::equal_bits("mean", &found, &(0..32).map(mean).collect::<Vec<_>>());
}

/// A query that is not a number must stay visible: the sampler stops a sequence whose logits are not finite.
#[test]
fn not_a_number_is_not_hidden() {
    for count in [10, 300] {
        let earlier = vec![0.5; 32 * (count as usize - 1)];
        let y = plain_head(&mut Arena::new(), count, &[f32::NAN; 32], 0.5, &earlier, &[0.5; 32]);
        assert!(y.iter().all(|y| y.is_nan()), "{y:?}");
    }
}

/// Attention of as many rows as the builder has operands for, the first of them at the case's position.
pub(crate) fn of_rows(b: &mut Builder, case: &Case) -> Attention {
    let positions = case.position + b.rows().max(MOST_RUN as usize);
    let context = context(case, positions);
    let heads = heads(case);
    let (query_width, width) = (case.query_heads * case.head_size, case.kv_heads * case.head_size);
    // The last row has a value that is not finite, and the row before it a query: no other row may tell.
    let poisoned = |b: &mut Builder, usage, len, poison: f32, from_last: usize| {
        let mut rows_left = b.rows();
        b.operand(usage, |random| {
            let mut x = random.vector(len, 1.0);
            rows_left -= 1;
            if rows_left == from_last {
                x[len / 2] = poison;
            }
            x
        })
    };
    // `append` prepares the queries in place.
    let q = poisoned(b, Use::InOut, query_width, f32::NAN, 1);
    let (k, v) = (b.vector(Use::Input, width), poisoned(b, Use::Input, width, f32::INFINITY, 0));
    let y = b.output(operand::stored_bytes(case.out, query_width));
    let partials = b.arena.scratch(&vec![f32::NAN; b.rows() * heads.partials(context) as usize]).address;
    let counters = b.arena.in_out(&vec![0u32; b.rows() * case.query_heads]).address;
    let norm = |b: &mut Builder| b.shared(case.head_size);
    let norm = case.norm.then(|| HeadNorm { q: norm(b), k: norm(b), epsilon: EPSILON });
    let rotation = b.arena.input(rotation(positions, case.rotated / 2).as_flattened()).address;
    let beyond = positions - case.position;
    b.pages = pages(&mut b.random, case, positions + 1);
    let sinks = sinks(&mut b.random, case).map(|sinks| b.arena.input(&sinks).address);
    let Builder { arena, random, pages, .. } = b;
    let [key_cache, value_cache] = [Contents::Keys, Contents::Values]
        .map(|contents| cache(arena, random, case, pages, contents, beyond).0.address);
    Attention {
        state: 0,
        q,
        k,
        v,
        norm,
        rotation,
        key_cache,
        value_cache,
        lane_pages: b.pages.room(),
        ring_pages: b.pages.ring(),
        partials,
        counters,
        y,
        rounded: case.out == ActFormat::Q14,
        key_format: case.keys,
        value_format: case.values,
        heads,
        rotated: case.rotated as u32,
        pairing: case.pairing,
        next: Some((b.arena.input(&[1u32; 4_100]).address, 4 * 4_100)),
        context,
        window: case.window,
        sinks,
        shape: StepShape::ONE,
    }
}

/// A row sees what the rows before it in its step append, wherever these lie in tiles and workgroups.
pub(crate) fn check_rows(case: &Case) {
    let lane_of = |row| Lane { position: case.position as u32 + row, ..live() };
    rows::check(&format!("{case:?}"), lane_of, |b: &mut Builder| {
        let op = of_rows(b, case);
        let target = target(case);
        move |view: &View| {
            let [q, k, v, y] = [op.q, op.k, op.v, op.y].map(|operand| view.own(operand));
            Attention { state: view.state, q, k, v, y, shape: view.shape, ..op }.dispatch(&target)
        }
    });
}

#[test]
fn rows_around_tiles_and_workgroups() {
    for position in [0, 1, 5, 8, 9, 14, 28, 57, 60, 63, 64, 121, 127, 250, 255, 257, 700] {
        for (splits, warm, heads) in [(1, false, 4), (3, true, 2), (16, true, 4)] {
            check_rows(&Case { position, splits, warm, heads, ..PLAIN });
        }
    }
}

#[test]
fn rows_by_matrix_units() {
    for position in [0, 1, 57, 60, 250, 255, 700] {
        for splits in [1, 3] {
            check_rows(&Case { position, splits, units: true, ..PLAIN });
        }
    }
}

#[test]
fn rows_of_every_form() {
    use CacheFormat::{F16, F32};
    for (keys, values, out, head_size, norm, pairing) in [
        (F32, F32, ActFormat::F32, 64, true, Pairing::Halves),
        (F16, F16, ActFormat::Q14, 128, true, Pairing::Interleaved),
        (F32, F16, ActFormat::Q14, 256, false, Pairing::Halves),
    ] {
        for position in [3, 250] {
            let case = Case { keys, values, out, head_size, rotated: head_size, norm, pairing, position, ..PLAIN };
            check_rows(&Case { query_heads: 4, kv_heads: 2, ..case });
        }
    }
}
