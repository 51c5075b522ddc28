//! `append` against its reference, and to the bit against `attention`, which appends for itself.

use crate::attention::{of_rows, paged_cases, paged_part};
use crate::support::arena::Array;
use crate::support::attention_case::{self, Case, Contents, EPSILON, PLAIN};
use crate::support::data::{Random, live};
use crate::support::pages::Pages;
use crate::support::rows::Builder;
use crate::support::{Arena, compare, tolerance};
use zinc_kernels::ops::{Append, Attention, CacheFormat, HeadNorm, Pairing};
use zinc_kernels::reference;
use zinc_kernels::step::{Lane, Rows, StepShape, StepState};
use zinc_kernels::{Dispatch, Target};

/// Rows that launches have workgroups for, and how many of them the step lists.
const STEPS: [(u32, u32); 5] = [(1, 1), (4, 3), (16, 16), (8, 1), (4, 0)];

/// Every form of a head in the cache, with numbers of heads that do and do not fill workgroups, at positions of which many are odd.
fn cases() -> Vec<Case> {
    use CacheFormat::{F16, F32};
    use Pairing::{Halves, Interleaved};
    let mut cases = Vec::new();
    for (kv_heads, head_size, rotated, keys, values, norm, pairing) in [
        (1, 64, 64, F16, F16, true, Halves),
        (2, 64, 32, F32, F32, false, Interleaved),
        (3, 64, 0, F16, F16, true, Halves),
        (4, 80, 80, F16, F32, true, Interleaved),
        (5, 80, 2, F32, F16, false, Halves),
        (4, 128, 128, F16, F16, true, Halves),
        (1, 128, 96, F32, F32, true, Interleaved),
        (2, 256, 256, F16, F16, false, Interleaved),
        (3, 256, 64, F32, F32, true, Halves),
    ] {
        for position in [0, 7, 201] {
            let query_heads = 2 * kv_heads;
            let (splits, heads) = (2, 1);
            let case = Case { query_heads, kv_heads, head_size, rotated, position, splits, heads, ..PLAIN };
            cases.push(Case { keys, values, norm, pairing, ..case });
        }
    }
    cases
}

/// Runs launches of a step that lists `listed` rows of a lane, on the same operands every time. Returns the outputs before and after: queries, results,
/// counters, keys and values; and the pages of the lane.
pub(crate) fn run(
    case: &Case,
    (rows, listed): (u32, u32),
    launches: impl Fn(&Attention, &Target) -> Vec<Dispatch>,
) -> ([Vec<Vec<u8>>; 2], Pages) {
    let mut b = Builder::new(&format!("{case:?}"), rows);
    let lane = Lane { position: case.position as u32, ..live() };
    let attention = of_rows(&mut b, case);
    let state = b.state(StepState::new(lane, &vec![1; listed as usize]));
    let attention = Attention { state, shape: StepShape::of(rows), ..attention };
    let before = b.arena.outputs();
    b.arena.run(&launches(&attention, &attention_case::target(case)));
    ([before, b.arena.outputs()], b.pages)
}

fn check_cache(case: &Case) {
    for step in STEPS {
        let name = format!("{case:?}, {step:?}");
        let ([before, appended], pages) = run(case, step, |op, target| vec![op.in_two().0.dispatch(target)]);
        let ([_, attended], _) = run(case, step, |op, target| vec![op.dispatch(target)]);
        assert!(appended[1..3] == before[1..3], "{name}: only queries and the caches are written");
        for (output, format) in [(3, case.keys), (4, case.values)] {
            let (before, appended, attended) = (&before[output], &appended[output], &attended[output]);
            let differs = appended.iter().zip(attended).position(|(append, attention)| append != attention);
            assert_eq!(differs, None, "{name}: where output {output} differs from what attention appends");
            // Only the rows that the step lists are written, and each element of them: there was NaN.
            let row_bytes = case.kv_heads * case.head_size * format.bytes() as usize;
            let (first, end) = (case.position * row_bytes, (case.position + step.1 as usize) * row_bytes);
            let positions = case.position + step.1 as usize;
            let [(before, others_before), (appended, others)] =
                [before, appended].map(|cache| pages.gather(cache, row_bytes, positions));
            assert!(others == others_before, "{name}: pages of others, or positions behind the rows");
            assert!(appended[..first] == before[..first] && appended[end..] == before[end..], "{name}: other rows");
            let element = format.bytes() as usize;
            let (own, own_before) = (&appended[first..end], &before[first..end]);
            let mut elements = own.chunks_exact(element).zip(own_before.chunks_exact(element));
            assert!(elements.all(|(after, before)| after != before), "{name}: every element is written");
        }
    }
}

/// Without queries the caches are the same, and queries stay as they are.
fn check_without_queries(case: &Case) {
    let step = (4, 3);
    let append = |q: bool| {
        move |op: &Attention, target: &Target| {
            let append = op.in_two().0;
            vec![Append { q: append.q.filter(|_| q), ..append }.dispatch(target)]
        }
    };
    let ([before, without], _) = run(case, step, append(false));
    let ([_, with], _) = run(case, step, append(true));
    assert!(without[..3] == before[..3] && without[3..] == with[3..], "{case:?}: the caches alone are written");
    assert!(without[3..] != before[3..], "{case:?}: the caches are written");
}

#[test]
fn keys_and_values_alone() {
    for case in cases().into_iter().chain(paged_part()) {
        check_without_queries(&case);
    }
}

#[test]
fn the_cache_is_what_attention_makes_it() {
    for case in cases().into_iter().chain(paged_part()) {
        check_cache(&case);
    }
}

fn check_reference(case: &Case) {
    const ROWS: usize = 3;
    let name = format!("{case:?}");
    let &Case { kv_heads, head_size, rotated, pairing, position, .. } = case;
    let (width, pairs) = (kv_heads * head_size, rotated / 2);
    let (mut random, mut arena) = (Random::new(&name), Arena::new());
    let query_width = case.query_heads * head_size;
    let mut q = random.vector(ROWS * query_width, 1.0);
    let [mut k, mut v] = [(); 2].map(|()| random.vector(ROWS * width, 1.0));
    // One value is beyond what a cache can hold.
    v[width + head_size / 2] = f32::INFINITY;
    let [q_norm, k_norm] = [(); 2].map(|()| random.vector(head_size, 1.5));
    let rotation = attention_case::rotation(position + ROWS, pairs);
    let formats = [case.keys, case.values];
    let pages = attention_case::pages(&mut random, case, position + ROWS);
    let caches = [Contents::Keys, Contents::Values]
        .map(|contents| attention_case::cache(&mut arena, &mut random, case, &pages, contents, ROWS - 1).0);
    let rows = |x: Array<f32>, width: usize| Rows { address: x.address, stride: 4 * width as u32 };
    let queries = arena.in_out(&q);
    let lane = Lane { position: position as u32, ..live() };
    let op = Append {
        state: arena.state_with_pages(StepState::new(lane, &[1; ROWS]), &pages),
        q: Some(rows(queries, query_width)),
        k: rows(arena.input(&k), width),
        v: rows(arena.input(&v), width),
        norm: case.norm.then(|| HeadNorm {
            q: arena.input(&q_norm).address,
            k: arena.input(&k_norm).address,
            epsilon: EPSILON,
        }),
        rotation: arena.input(rotation.as_flattened()).address,
        key_cache: caches[0].address,
        value_cache: caches[1].address,
        lane_pages: pages.room(),
        ring_pages: pages.ring(),
        key_format: case.keys,
        value_format: case.values,
        heads: attention_case::heads(case),
        rotated: rotated as u32,
        pairing,
        shape: StepShape::of(ROWS as u32),
    };
    arena.run(&[op.dispatch(&attention_case::target(case))]);
    let prepared = arena.read(queries);
    let [keys, values] =
        [0, 1].map(|i| attention_case::read_cache(&arena, caches[i], case, &pages, formats[i], position + ROWS));
    for row in 0..ROWS {
        let (k, v) = (&mut k[row * width..][..width], &mut v[row * width..][..width]);
        let (at, own) = (position + row, (position + row) * width..(position + row + 1) * width);
        let [q_norm, k_norm] = [&q_norm, &k_norm].map(|norm| case.norm.then_some((&norm[..], EPSILON)));
        let angles = &rotation[at * pairs..][..pairs];
        reference::append(head_size, k_norm, angles, pairing, formats, [&mut *k, &mut *v]);
        let largest = |heads: &[f32]| heads.iter().fold(0.0f32, |m, x| m.max(x.abs()));
        let error = tolerance::rotated_head(head_size, largest(k));
        let (q, found) = (&mut q[row * query_width..][..query_width], &prepared[row * query_width..][..query_width]);
        for head in q.chunks_exact_mut(head_size) {
            reference::rope_head(head, q_norm, angles, pairing);
        }
        let q_error = tolerance::rotated_head(head_size, largest(q));
        compare::within(&format!("{name}: query of row {row}"), found, q, |_| q_error);
        compare::within(&format!("{name}: key of row {row}"), &keys[own.clone()], k, |i| {
            error + if case.keys == CacheFormat::F16 { tolerance::half_step(k[i]) } else { 0.0 }
        });
        compare::equal_bits(&format!("{name}: value of row {row}"), &values[own], v);
    }
}

#[test]
fn keys_and_values_of_rows() {
    for case in cases().into_iter().chain(paged_cases()) {
        check_reference(&case);
    }
}
