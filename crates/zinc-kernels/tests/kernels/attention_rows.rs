//! `attention_rows` to the bit against `attention`, which computes the same of each row and is compared with its reference.

use crate::append::run;
use crate::attention::{fits, paged_part};
use crate::support::arena::{self, Arena};
use crate::support::attention_case::{self, Case, EPSILON, LANE_PAGES, PLAIN};
use crate::support::data::Random;
use half::f16;
use zinc_kernels::ops::{Attention, CacheFormat, HeadNorm, Pairing};
use zinc_kernels::step::{PAGE_POSITIONS, Row, Rows, StepShape, StepState};

/// What `attention` computes of the rows of a step, which it appends itself.
pub(crate) fn check_attention(case: &Case) {
    check_steps(case, &[(1, 1), (4, 3), (16, 16), (16, 5)]);
}

pub(crate) fn check_steps(case: &Case, steps: &[(u32, u32)]) {
    for step in steps.iter().copied() {
        let ([_, alone], _) = run(case, step, |op, target| vec![op.dispatch(target)]);
        let ([before, behind], _) = run(case, step, |op, target| {
            let (append, rows) = op.in_two();
            let rows = rows.dispatch(target);
            assert_eq!(rows.kernel.name.starts_with("attention_rows_units"), case.units, "{}", rows.kernel.name);
            vec![append.dispatch(target), rows]
        });
        let differs = arena::values::<f32>(&alone[1]).into_iter().zip(arena::values::<f32>(&behind[1])).position(
            // The sign of NaN is the device's.
            |(alone, behind)| alone.to_bits() != behind.to_bits() && !(alone.is_nan() && behind.is_nan()),
        );
        assert_eq!(differs, None, "{case:?}, {step:?}: where results differ");
        // Counters, keys and values; `append` prepares the queries, which come first, in place.
        assert!(alone[2..] == behind[2..], "{case:?}, {step:?}: something else differs");
        assert!(behind[1] != before[1], "{case:?}, {step:?}: something is attended");
    }
}

#[test]
fn rows_around_tiles_and_workgroups() {
    for position in [0, 1, 5, 8, 9, 14, 28, 57, 60, 63, 64, 121, 127, 250, 255, 257, 700] {
        for (splits, warm, heads) in [(1, false, 4), (3, true, 2), (16, true, 4)] {
            check_attention(&Case { position, splits, warm, heads, ..PLAIN });
        }
    }
}

#[test]
fn every_form() {
    use CacheFormat::{F16, F32};
    for (keys, values, head_size, norm, pairing) in [
        (F32, F32, 64, true, Pairing::Halves),
        (F16, F16, 80, false, Pairing::Interleaved),
        (F16, F16, 128, true, Pairing::Interleaved),
        (F32, F16, 256, false, Pairing::Halves),
    ] {
        for position in [3, 250] {
            let case = Case { keys, values, head_size, rotated: head_size, norm, pairing, position, ..PLAIN };
            check_attention(&Case { query_heads: 4, kv_heads: 2, ..case });
        }
    }
}

#[test]
fn rows_in_pages() {
    for case in paged_part() {
        check_attention(&case);
        if case.units {
            check_steps(&case, &[(128, 100)]);
        }
    }
}

#[test]
fn a_long_context() {
    check_attention(&Case { position: 5_000, splits: 20, query_heads: 8, head_size: 128, rotated: 128, ..PLAIN });
}

/// By matrix units, query heads that fill fragments and blocks of rows, and that do not.
#[test]
fn by_matrix_units() {
    for (query_heads, kv_heads, head_size) in
        [(4, 1, 64), (8, 1, 128), (10, 2, 64), (3, 3, 64), (17, 1, 64), (12, 2, 256)]
    {
        for (position, splits) in [(0, 1), (57, 3), (250, 1), (255, 3), (760, 2)] {
            let case = Case { query_heads, kv_heads, head_size, rotated: head_size, position, splits, ..PLAIN };
            let case = Case { units: true, ..case };
            if fits(&case) {
                check_attention(&case);
            }
        }
    }
}

/// Rows that fill several workgroups, over more than a split, so that whole tiles are masked for some rows of a workgroup.
#[test]
fn many_rows_by_matrix_units() {
    for (query_heads, kv_heads, head_size, position) in
        [(8, 2, 64, 0), (4, 1, 64, 200), (3, 1, 64, 430), (6, 1, 256, 200)]
    {
        let case = Case { query_heads, kv_heads, head_size, rotated: head_size, position, splits: 2, ..PLAIN };
        let case = Case { units: true, ..case };
        if fits(&case) {
            check_steps(&case, &[(128, 100), (64, 64)]);
        }
    }
}

/// The rows of a lane in a step: where they begin, and how many there are.
pub(crate) type Part = (u32, u32);

/// Which kernels attend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kernels {
    /// `append` and `attention_rows`.
    OfManyRows,
    /// `attention`.
    OfFewRows,
}

/// Runs steps of lanes, each of which has these rows: in each step the rows of the lanes from one number to another. The operands and the pages are the same
/// whatever the steps. The pages of rings are found by their numbers where `ring_pages` is 0. Returns the outputs: queries, results, keys and values.
fn run_lanes(
    (kernels, ring_pages): (Kernels, u32),
    case: &Case,
    parts: &[Part],
    steps: &[(usize, usize)],
) -> Vec<Vec<u8>> {
    let &Case { query_heads, kv_heads, head_size, rotated, pairing, keys, values, .. } = case;
    let (mut random, mut arena) = (Random::new(&format!("{case:?}, {parts:?}")), Arena::new());
    let rows: u32 = parts.iter().map(|(_, rows)| rows).sum();
    let positions = parts.iter().map(|(position, rows)| position + rows).max().unwrap_or(0);
    // Pages of all lanes in random order, or in the order of their rings.
    let pages = |(position, rows): &Part| (position + rows).div_ceil(PAGE_POSITIONS);
    let mut numbers: Vec<u32> = (0..parts.iter().map(pages).sum()).collect();
    let pool_pages = if case.ring > 0 { case.ring as usize * parts.len() } else { numbers.len() };
    let pool = pool_pages * PAGE_POSITIONS as usize;
    let mut tables = vec![0; parts.len() * LANE_PAGES as usize];
    for (lane, (table, part)) in (0..).zip(tables.chunks_exact_mut(LANE_PAGES as usize).zip(parts)) {
        if case.ring > 0 {
            (0..).zip(table).for_each(|(page, entry)| *entry = lane * case.ring + page % case.ring);
        } else {
            table[..pages(part) as usize].fill_with(|| numbers.swap_remove(random.below(numbers.len())));
        }
    }
    let (query_width, width) = (query_heads * head_size, kv_heads * head_size);
    let mut operand = |arena: &mut Arena, width: usize| {
        let address = arena.in_out(&random.vector(rows as usize * width, 1.0)).address;
        Rows { address, stride: 4 * width as u32 }
    };
    let [q, y] = [(); 2].map(|()| operand(&mut arena, query_width));
    let [k, v] = [(); 2].map(|()| operand(&mut arena, width));
    let mut cache = |format| {
        let rows = random.vector(pool * width, 1.0);
        let bytes: Vec<u8> = match format {
            CacheFormat::F32 => bytemuck::cast_slice(&rows).to_vec(),
            CacheFormat::F16 => rows.iter().flat_map(|x| f16::from_f32(*x).to_le_bytes()).collect(),
        };
        arena.in_out(&bytes).address
    };
    let (key_cache, value_cache) = (cache(keys), cache(values));
    let norms = [(); 2].map(|()| arena.input(&random.vector(head_size, 1.5)).address);
    let rotation = attention_case::rotation(positions as usize, rotated / 2);
    let sinks = attention_case::sinks(&mut random, case);
    let (heads, context) = (attention_case::heads(case), attention_case::context(case, positions as usize));
    let room = rows.next_power_of_two() as usize;
    let op = Attention {
        state: 0,
        q,
        k,
        v,
        norm: case.norm.then_some(HeadNorm { q: norms[0], k: norms[1], epsilon: EPSILON }),
        rotation: arena.input(rotation.as_flattened()).address,
        key_cache,
        value_cache,
        lane_pages: LANE_PAGES,
        ring_pages,
        partials: arena.scratch(&vec![f32::NAN; room * heads.partials(context) as usize]).address,
        counters: arena.in_out(&vec![0u32; room * query_heads]).address,
        y,
        rounded: false,
        key_format: keys,
        value_format: values,
        heads,
        rotated: rotated as u32,
        pairing,
        next: Some((arena.input(&[1u32; 4_100]).address, 4 * 4_100)),
        context,
        window: case.window,
        sinks: sinks.map(|sinks| arena.input(&sinks).address),
        shape: StepShape::ONE,
    };
    let target = attention_case::target(case);
    let mut launches = Vec::new();
    for &(from, to) in steps {
        let first: u32 = parts[..from].iter().map(|(_, rows)| rows).sum();
        let mut state = StepState { lane_count: (to - from) as u32, ..StepState::default() };
        for (place, (lane, &(position, rows))) in (0..).zip(parts).skip(from).take(to - from).enumerate() {
            state.listed[place] = lane;
            for offset in 0..rows {
                let row = Row { offset, token: 1, position: position + offset, lane };
                state.rows[state.row_count as usize] = row;
                state.row_count += 1;
            }
        }
        let with_tables = [bytemuck::bytes_of(&state), bytemuck::cast_slice(&tables)].concat();
        let own = |rows: Rows| Rows { address: rows.address + u64::from(first * rows.stride), ..rows };
        let (q, k, v, y) = (own(q), own(k), own(v), own(y));
        let (state, shape) = (arena.input(&with_tables).address, StepShape::of(state.row_count));
        let op = Attention { state, q, k, v, y, shape, ..op };
        let (append, rows) = op.in_two();
        let (before, attends) = match kernels {
            Kernels::OfManyRows => (Some(append.dispatch(&target)), rows.dispatch(&target)),
            Kernels::OfFewRows => (None, op.dispatch(&target)),
        };
        let name = attends.kernel.name;
        assert_eq!(name.contains("_units"), case.units, "{name}");
        launches.extend(before.into_iter().chain([attends]));
    }
    arena.run(&launches);
    arena.outputs()
}

/// Rows of several lanes in a step have the bits of those of each lane in a step of its own: lanes of one row and of many, whose rows share blocks and fill them,
/// from the beginning and behind others, over one split and several.
#[test]
fn a_row_does_not_depend_on_the_lanes_beside_it() {
    let many: Vec<Part> = (0..31).map(|lane| (lane * 23 % 90, 1 + lane % 4)).collect();
    for (units, query_heads, kv_heads, head_size) in [
        (false, 4, 2, 64),
        (true, 8, 2, 64),
        (true, 3, 1, 64),
        (true, 17, 1, 64),
        (true, 8, 1, 128),
        (true, 12, 2, 256),
    ] {
        let case = Case { units, query_heads, kv_heads, head_size, rotated: head_size, paged: true, ..PLAIN };
        if fits(&case) {
            for parts in [&SOME_LANES[..], &[(700, 33), (0, 31), (250, 20), (0, 16)], &[(0, 64), (0, 64)], &many] {
                check_lanes(&case, parts);
            }
        }
    }
}

/// Lanes of one row each, which share out the workgroups of `attention` by the lengths of their contexts: one of them much longer than the others, all of one
/// length, and more of them than a subgroup has lanes.
#[test]
fn lanes_share_out_workgroups() {
    let lanes = |positions: &[u32]| -> Vec<Part> { positions.iter().map(|position| (*position, 1)).collect() };
    let many: Vec<u32> = (0..37).map(|lane| if lane % 9 == 4 { 850 } else { lane * 31 % 300 }).collect();
    for (query_heads, kv_heads, head_size, splits, window) in [
        (8, 2, 64, 1, None),
        (8, 2, 64, 4, None),
        (3, 1, 64, 3, Some(200)),
        (8, 1, 128, 2, None),
        (16, 2, 256, 2, None),
    ] {
        let case = Case { query_heads, kv_heads, head_size, rotated: head_size, splits, window, ..PLAIN };
        let case = Case { units: true, paged: true, warm: true, ..case };
        if fits(&case) {
            for positions in [&[890, 0][..], &[0, 3, 890, 2, 255, 256], &[600; 16], &many] {
                check_lanes_by(Kernels::OfFewRows, &case, &lanes(positions));
            }
        }
    }
}

/// Lanes of one row and of many, whose rows share blocks.
pub(crate) const SOME_LANES: [Part; 7] = [(0, 5), (0, 1), (0, 40), (300, 3), (0, 2), (63, 1), (0, 60)];

/// The rows of these lanes have the same bits in one step as in a step for each lane. There the pages of rings are those of a table.
pub(crate) fn check_lanes(case: &Case, parts: &[Part]) {
    check_lanes_by(Kernels::OfManyRows, case, parts);
}

pub(crate) fn check_lanes_by(kernels: Kernels, case: &Case, parts: &[Part]) {
    let together = run_lanes((kernels, case.ring), case, parts, &[(0, parts.len())]);
    let alone: Vec<(usize, usize)> = (0..parts.len()).map(|lane| (lane, lane + 1)).collect();
    let alone = run_lanes((kernels, 0), case, parts, &alone);
    for (output, (found, expected)) in together.iter().zip(alone).enumerate() {
        let differs = found.iter().zip(&expected).position(|(found, expected)| found != expected);
        assert_eq!(differs, None, "{case:?}, {parts:?}: where output {output} differs");
    }
}
