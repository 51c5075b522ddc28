//! `expert_down` against its reference.

use crate::support::data::{Random, Scales, device_rows, host, live, magnitudes, weights, widths};
use crate::support::operand::Source;
use crate::support::rows::{self, Builder, Use, View};
use crate::support::{Arena, compare, tolerance};
use zinc_kernels::ops::{ActFormat, ExpertDown, Input, Matrix};
use zinc_kernels::reference::{self, Q14};
use zinc_kernels::step::StepShape;
use zinc_kernels::{Format, Target, Tuning};

#[derive(Clone, Copy, Debug)]
struct Case {
    format: Format,
    rows: usize,
    columns: usize,
    experts: usize,
    ids: &'static [u32],
    scales: Scales,
}

const PLAIN: Case =
    Case { format: Format::Q8_0, rows: 37, columns: 96, experts: 6, ids: &[5, 0, 3, 3], scales: Scales::Sane };

/// What the kernel makes of `residual`, with `experts` stacked matrices whose blocks are `bytes`.
fn run(
    mut arena: Arena,
    case: &Case,
    bytes: &[u8],
    shares: &[f32],
    (act, h): (ActFormat, Input),
    residual: &[f32],
    target: &Target,
) -> Vec<f32> {
    let &Case { format, rows, columns, experts, ids, .. } = case;
    let y = arena.in_out(residual);
    let down = Matrix {
        address: arena.input(&device_rows(format, columns, bytes)).address,
        format,
        rows: rows as u32,
        columns: columns as u32,
    };
    let op = ExpertDown {
        state: arena.state(live()),
        down,
        ids: arena.input(ids).row(),
        weights: arena.input(shares).row(),
        h,
        act,
        experts: experts as u32,
        y: y.row(),
        slots: ids.len() as u32,
        shape: StepShape::ONE,
    };
    arena.run(&[op.dispatch(target)]);
    arena.read(y)
}

/// With f32 activations.
fn check(case: &Case) {
    let name = format!("{case:?}, f32");
    let &Case { format, rows, columns, experts, ids, scales } = case;
    let mut random = Random::new(&name);
    let bytes = weights(&mut random, format, experts * rows, columns, scales);
    let (h, shares, residual): (_, Vec<f32>, _) = if scales == Scales::Whole {
        let shares = ids.iter().enumerate().map(|(slot, _)| [0.5, 0.25, 1.0][slot % 3]).collect();
        (random.whole(ids.len() * columns, 2), shares, random.whole(rows, 100))
    } else {
        (random.vector(ids.len() * columns, 1.0), random.vector(ids.len(), 1.0), random.vector(rows, 1.0))
    };

    let mut arena = Arena::new();
    let input = Input::Floats(arena.input(&h).row());
    let target = arena.gpu.target();
    let found = run(arena, case, &bytes, &shares, (ActFormat::F32, input), &residual, &target);

    let matrix = host(format, columns, &bytes);
    let mut expected = residual.clone();
    reference::expert_down(&matrix, ids, &shares, &h, &mut expected);
    let mut magnitude: Vec<f64> = residual.iter().map(|y| f64::from(y.abs())).collect();
    for ((&id, share), h) in ids.iter().zip(&shares).zip(h.chunks(columns)) {
        let first = id as usize * rows;
        for (total, row) in magnitude.iter_mut().zip(magnitudes(&matrix, first..first + rows, h)) {
            *total += f64::from(share.abs()) * row;
        }
    }
    if scales == Scales::Whole {
        // In quarters, which the smallest share makes.
        let largest = 4.0 * magnitude.iter().copied().fold(0.0, f64::max);
        assert!(largest < f64::from(1 << 24), "{name}: sums up to {largest} quarters are not exact");
        compare::equal_bits(&name, &found, &expected);
    } else {
        compare::within(&name, &found, &expected, |row| {
            // Scaled values and offsets are summed apart, and each may be thrice the largest weight (see `support::operand`), which is less than
            // three times the mean of a row: 8 of the summed magnitudes.
            let apart = if format.is_float() { 1.0 } else { 8.0 };
            tolerance::sum(columns * ids.len(), apart * magnitude[row])
        });
    }
}

#[test]
fn every_format() {
    for format in Format::ALL {
        for scales in [Scales::Sane, Scales::Whole] {
            check(&Case { format, columns: 256, ids: &[5], scales, ..PLAIN });
        }
    }
}

#[test]
fn experts_in_any_order() {
    for ids in [&[0u32][..], &[5], &[3, 1, 4, 0, 5, 2], &[2, 2, 2], &[5, 4, 3, 2, 1, 0, 5, 4]] {
        for rows in [1, 3, 4, 37, 130] {
            for scales in [Scales::Sane, Scales::Whole] {
                check(&Case { ids, rows, scales, ..PLAIN });
            }
        }
    }
}

#[test]
fn narrow_and_wide() {
    for columns in [32, 768] {
        for scales in [Scales::Sane, Scales::Whole] {
            check(&Case { columns, scales, ..PLAIN });
        }
    }
}

/// However many subgroups a workgroup has and however much a lane loads beforehand.
#[test]
fn every_tuning() {
    let target = Arena::new().gpu.target();
    for (expert_down_width, expert_quarters_ahead) in [(1, 1), (4, 2), (8, 3), (16, 4)] {
        let tuning = Tuning { expert_down_width, expert_quarters_ahead, ..target.tuning };
        let target = Target { tuning, ..target };
        check_rounded(&Case { columns: 768, ..PLAIN }, Source::Floats, 1.0, &target);
    }
}

/// Each row has chosen experts of its own.
#[test]
fn rows_of_a_step() {
    let (experts, slots) = (6, 3);
    for act in [ActFormat::Q14, ActFormat::F32] {
        rows::check(
            &format!("{act:?}"),
            |_| live(),
            |b: &mut Builder| {
                let down = b.matrix(Format::Q6K, experts, 37, 256);
                let ids = b.operand(Use::Input, |random| (0..slots).map(|_| random.below(experts) as u32).collect());
                let weights = b.vector(Use::Input, slots);
                let h = b.vector(Use::Input, slots * 256);
                let y = b.vector(Use::InOut, 37);
                let target = b.arena.gpu.target();
                move |v: &View| {
                    ExpertDown {
                        state: v.state,
                        down,
                        experts: experts as u32,
                        ids: v.own(ids),
                        weights: v.own(weights),
                        h: Input::Floats(v.own(h)),
                        act,
                        y: v.own(y),
                        slots: slots as u32,
                        shape: v.shape,
                    }
                    .dispatch(&target)
                }
            },
        );
    }
}

/// With rounded activations the result is the reference's, to the bit.
fn check_rounded(case: &Case, source: Source, sizes: f32, target: &Target) {
    let name = format!("{case:?}, {source:?}, sizes {sizes:e}, {:?}", target.tuning);
    let &Case { format, rows, columns, experts, ids, scales } = case;
    let mut random = Random::new(&name);
    let bytes = weights(&mut random, format, experts * rows, columns, scales);
    let (h, shares, residual) =
        (random.vector(ids.len() * columns, sizes), random.vector(ids.len(), 1.0), random.vector(rows, sizes));
    let mut arena = Arena::new();
    let rounded: Vec<Q14> = h.chunks(columns).map(Q14::new).collect();
    let h = match source {
        Source::Rounded => {
            Input::Rounded(arena.input(&rounded.iter().flat_map(|x| x.bytes(false)).collect::<Vec<u8>>()).row())
        }
        _ => Input::Floats(arena.input(&h).row()),
    };
    let found = run(arena, case, &bytes, &shares, (ActFormat::Q14, h), &residual, target);

    let row_bytes = format.row_bytes(columns);
    let expected: Vec<f32> = (0..rows)
        .map(|row| {
            let products = ids.iter().zip(&rounded).map(|(&id, h)| {
                let row = &bytes[(id as usize * rows + row) * row_bytes..][..row_bytes];
                reference::quantised_product(format, row, h)
            });
            let shares = products.zip(&shares).map(|(product, share)| share * product);
            residual[row] + shares.reduce(|sum, share| sum + share).unwrap_or(0.0)
        })
        .collect();
    compare::equal_bits(&name, &found, &expected);
}

#[test]
fn rounded_products_have_the_bits_of_the_reference() {
    let target = Arena::new().gpu.target();
    for (turn, format) in Format::ALL.into_iter().filter(|format| !format.is_float()).enumerate() {
        for (case, columns) in widths(format, &[32, 96, 256, 288, 768]).into_iter().enumerate() {
            let ids: &[u32] = [&[5, 0][..], &[5, 0, 3, 3], &[1], &[5, 4, 1], &[2, 3, 1, 0, 4]][(turn + case) % 5];
            let source = [Source::Floats, Source::Rounded][(turn + case) % 2];
            for (scales, size) in [(Scales::Sane, 1.0), (Scales::Odd, 1e-3), (Scales::Sane, 1e-20)] {
                check_rounded(&Case { format, columns, ids, scales, ..PLAIN }, source, size, &target);
            }
        }
    }
}
