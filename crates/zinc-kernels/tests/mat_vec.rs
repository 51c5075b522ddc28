//! `mat_vec` against its reference: every format, odd row counts, every epilogue.

#![cfg(feature = "vk")]

mod support;

use support::data::{Random, Scales, host, live, magnitudes, weights};
use support::{Arena, compare, tolerance};
use zinc_kernels::ops::{Epilogue, MatVec, Matrix};
use zinc_kernels::{Format, Target, reference};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Store,
    AddBias,
    Accumulate,
}
use Kind::{Accumulate, AddBias, Store};

#[derive(Debug)]
struct Case {
    format: Format,
    rows: usize,
    columns: usize,
    epilogue: Kind,
    scales: Scales,
}

fn check(case: &Case, target: &Target) {
    let &Case { format, rows, columns, epilogue, scales } = case;
    let name = format!("{format} {rows} x {columns}, {epilogue:?}, {scales:?}");
    let mut random = Random::new(&name);
    let bytes = weights(&mut random, format, rows, columns, scales);
    let (x, addend) = match scales {
        Scales::Whole => (random.whole(columns, 2), random.whole(rows, 1_000)),
        _ => (random.vector(columns, 1.0), random.vector(rows, 1.0)),
    };

    let mut arena = Arena::new();
    let state = arena.state(live());
    let matrix = Matrix { address: arena.input(&bytes).address, format, rows: rows as u32, columns: columns as u32 };
    let x_on_device = arena.input(&x).address;
    let y = if epilogue == Accumulate { arena.in_out(&addend) } else { arena.output(rows) };
    let epilogue = match epilogue {
        Store => Epilogue::Store,
        AddBias => Epilogue::AddBias(arena.input(&addend).address),
        Accumulate => Epilogue::Accumulate,
    };
    let op = MatVec { state, weights: matrix, x: x_on_device, y: y.address, epilogue };
    arena.run(&[op.dispatch(target)]);

    let matrix = host(format, columns, &bytes);
    let mut expected = vec![f32::NAN; rows];
    reference::mat_vec(&matrix, &x, &mut expected);
    let mut magnitude = magnitudes(&matrix, 0..rows, &x);
    if epilogue != Epilogue::Store {
        for ((expected, magnitude), addend) in expected.iter_mut().zip(&mut magnitude).zip(&addend) {
            *expected += addend;
            *magnitude += f64::from(addend.abs());
        }
    }
    if scales == Scales::Whole {
        let largest = magnitude.iter().copied().fold(0.0, f64::max);
        assert!(largest < f64::from(1 << 24), "{name}: sums up to {largest} are not exact");
        compare::equal_bits(&name, &arena.read(y), &expected);
    } else {
        compare::within(&name, &arena.read(y), &expected, |row| tolerance::sum(columns, magnitude[row]));
    }
}

fn check_all(formats: &[Format], rows: &[usize], columns: &[usize], epilogues: &[Kind], scales: &[Scales]) {
    let target = Arena::new().gpu.target();
    for &format in formats {
        for &rows in rows {
            for &columns in columns.iter().filter(|columns| columns.is_multiple_of(format.block_elements())) {
                for &epilogue in epilogues {
                    for &scales in scales {
                        check(&Case { format, rows, columns, epilogue, scales }, &target);
                    }
                }
            }
        }
    }
}

const ROWS: [usize; 7] = [1, 3, 4, 5, 31, 257, 1_031];
const COLUMNS: [usize; 5] = [32, 160, 256, 768, 2_048];

#[test]
fn every_format_and_shape() {
    check_all(&Format::ALL, &ROWS, &COLUMNS, &[Store], &[Scales::Sane, Scales::Whole]);
}

#[test]
fn every_format_and_epilogue() {
    check_all(&Format::ALL, &[5, 31], &[256], &[AddBias, Accumulate], &[Scales::Sane, Scales::Whole]);
}

#[test]
fn scales_at_the_edges() {
    check_all(&Format::ALL, &[31], &[256], &[Store], &[Scales::Odd]);
}

/// A grid above the device's limit in x wraps into y; every row is computed all the same.
#[test]
fn grids_that_wrap() {
    let target = Arena::new().gpu.target();
    for (max_x, rows) in [(1, 9), (7, 112), (7, 113), (64, 257), (100, 1_031)] {
        let small = Target { max_groups: [max_x, 65_535], ..target };
        for scales in [Scales::Sane, Scales::Whole] {
            check(&Case { format: Format::Q8_0, rows, columns: 64, epilogue: Store, scales }, &small);
        }
    }
}

#[test]
#[should_panic(expected = "a row of 48 elements is not a whole number of units of 32")]
fn a_row_of_no_whole_units_is_refused() {
    let weights = Matrix { address: 0, format: Format::F16, rows: 1, columns: 48 };
    let _ = MatVec { state: 0, weights, x: 0, y: 0, epilogue: Epilogue::Store }.dispatch(&Target::new(32));
}
