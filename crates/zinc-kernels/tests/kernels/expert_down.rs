//! `expert_down` against its reference.

use crate::support::batch::{self, Builder, Use, View};
use crate::support::data::{Random, Scales, device_rows, host, live, magnitudes, weights};
use crate::support::{Arena, compare, operand, tolerance};
use zinc_kernels::ops::{ActFormat, Batch, ExpertDown, Matrix};
use zinc_kernels::reference::{self, Quantised};
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

fn check(case: &Case) {
    for &act in operand::forms(case.format) {
        check_form(case, act, &Arena::new().gpu.target());
    }
}

fn check_form(case: &Case, act: ActFormat, target: &Target) {
    let name = format!("{case:?}, {act:?}, {:?}", target.tuning);
    let &Case { format, rows, columns, experts, ids, scales } = case;
    let mut random = Random::new(&name);
    let bytes = weights(&mut random, format, experts * rows, columns, scales);
    let (mut h, shares, residual): (_, Vec<f32>, _) = if scales == Scales::Whole {
        let shares = ids.iter().enumerate().map(|(slot, _)| [0.5, 0.25, 1.0][slot % 3]).collect();
        (random.whole(ids.len() * columns, 2), shares, random.whole(rows, 100))
    } else {
        (random.vector(ids.len() * columns, 1.0), random.vector(ids.len(), 1.0), random.vector(rows, 1.0))
    };

    let mut arena = Arena::new();
    let h_on_device = match act {
        ActFormat::F32 => arena.input(&h).address,
        ActFormat::Q8 | ActFormat::Q16 => {
            if scales == Scales::Whole {
                // The largest element of each run makes its scale 1, or 1/256.
                h.iter_mut().step_by(16).for_each(|x| *x = 127.0);
            }
            let slots: Vec<Quantised> = h.chunks(columns).map(|h| Quantised::new(act, h)).collect();
            h = slots.iter().flat_map(Quantised::values).collect();
            arena.input(&slots.iter().flat_map(Quantised::bytes).collect::<Vec<u8>>()).address
        }
    };
    let y = arena.in_out(&residual);
    let down = Matrix {
        address: arena.input(&device_rows(format, columns, &bytes)).address,
        format,
        rows: rows as u32,
        columns: columns as u32,
    };
    let op = ExpertDown {
        state: arena.state(live()),
        down,
        ids: arena.input(ids).address,
        weights: arena.input(&shares).address,
        h: h_on_device,
        act,
        experts: experts as u32,
        y: y.address,
        slots: ids.len() as u32,
        batch: Batch::ONE,
    };
    arena.run(&[op.dispatch(target)]);

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
        compare::equal_bits(&name, &arena.read(y), &expected);
    } else {
        compare::within(&name, &arena.read(y), &expected, |row| {
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
fn widths() {
    let target = Arena::new().gpu.target();
    for (columns, act) in [
        (32, ActFormat::Q16),
        (64, ActFormat::Q8),
        (768, ActFormat::F32),
        (768, ActFormat::Q16),
        (1_024, ActFormat::Q8),
    ] {
        for scales in [Scales::Sane, Scales::Whole] {
            check_form(&Case { columns, scales, ..PLAIN }, act, &target);
        }
    }
}

/// However many subgroups a workgroup has and however much a lane loads beforehand.
#[test]
fn every_tuning() {
    let target = Arena::new().gpu.target();
    for (expert_down_width, expert_chunks_ahead, act) in
        [(1, 2, ActFormat::Q8), (4, 6, ActFormat::Q16), (8, 64, ActFormat::Q8)]
    {
        let tuning = Tuning { expert_down_width, expert_chunks_ahead, ..target.tuning };
        check_form(&Case { columns: 768, ..PLAIN }, act, &Target { tuning, ..target });
    }
}

/// Each token has chosen experts of its own.
#[test]
fn batches() {
    let (experts, slots) = (6, 3);
    for act in [ActFormat::Q16, ActFormat::F32] {
        batch::check(
            &format!("{act:?}"),
            4_096,
            |_| live(),
            |b: &mut Builder| {
                let down = b.matrix(Format::Q6K, experts, 37, 256);
                let ids = b.activation(Use::Input, |random| (0..slots).map(|_| random.below(experts) as u32).collect());
                let weights = b.vector(Use::Input, slots);
                let h = b.activation(Use::Input, |random| {
                    (0..slots)
                        .flat_map(|_| {
                            let h = random.vector(256, 1.0);
                            if act == ActFormat::F32 {
                                bytemuck::cast_slice(&h).to_vec()
                            } else {
                                Quantised::new(act, &h).bytes()
                            }
                        })
                        .collect::<Vec<u8>>()
                });
                let y = b.vector(Use::InOut, 37);
                let target = b.arena.gpu.target();
                move |v: &View| {
                    ExpertDown {
                        state: v.state,
                        down,
                        experts: experts as u32,
                        ids: v.own(ids),
                        weights: v.own(weights),
                        h: v.own(h),
                        act,
                        y: v.own(y),
                        slots: slots as u32,
                        batch: v.batch,
                    }
                    .dispatch(&target)
                }
            },
        );
    }
}
