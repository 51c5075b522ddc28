//! `expert_down` against its reference.

#![cfg(feature = "vk")]

mod support;

use support::data::{Random, Scales, host, live, magnitudes, weights};
use support::{Arena, compare, tolerance};
use zinc_kernels::ops::{ExpertDown, Matrix};
use zinc_kernels::{Format, reference};

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
    let name = format!("{case:?}");
    let &Case { format, rows, columns, experts, ids, scales } = case;
    let mut random = Random::new(&name);
    let bytes = weights(&mut random, format, experts * rows, columns, scales);
    let (h, shares, residual) = if scales == Scales::Whole {
        let shares = ids.iter().enumerate().map(|(slot, _)| [0.5, 0.25, 1.0][slot % 3]).collect();
        (random.whole(ids.len() * columns, 2), shares, random.whole(rows, 100))
    } else {
        (random.vector(ids.len() * columns, 1.0), random.vector(ids.len(), 1.0), random.vector(rows, 1.0))
    };

    let mut arena = Arena::new();
    let y = arena.in_out(&residual);
    let down = Matrix { address: arena.input(&bytes).address, format, rows: rows as u32, columns: columns as u32 };
    let op = ExpertDown {
        state: arena.state(live()),
        down,
        ids: arena.input(ids).address,
        weights: arena.input(&shares).address,
        h: arena.input(&h).address,
        y: y.address,
        slots: ids.len() as u32,
    };
    arena.run(&[op.dispatch(&arena.gpu.target())]);

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
        compare::within(&name, &arena.read(y), &expected, |row| tolerance::sum(columns * ids.len(), magnitude[row]));
    }
}

#[test]
fn every_format() {
    for format in Format::ALL {
        for scales in [Scales::Sane, Scales::Whole] {
            check(&Case { format, columns: 256, ids: &[5, 3], scales, ..PLAIN });
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
    for columns in [32, 64, 768, 1_024] {
        for scales in [Scales::Sane, Scales::Whole] {
            check(&Case { columns, scales, ..PLAIN });
        }
    }
}
