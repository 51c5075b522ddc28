//! `mat_vec` against its reference: every format and form of activations, odd row counts, one matrix to three.

use crate::support::batch::{self, Builder, Use, View};
use crate::support::data::{Random, Scales, device_rows, host, live, magnitudes, weights};
use crate::support::operand::{self, Operand};
use crate::support::{Arena, compare, tolerance};
use zinc_kernels::ops::{ActFormat, Batch, MatVec, Matrix, Norm, Product};
use zinc_kernels::{Format, Target, Tuning, reference};

/// What becomes of the product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Store,
    AddBias,
    Accumulate,
}
use Kind::{Accumulate, AddBias, Store};

#[derive(Clone, Debug)]
struct Case<'a> {
    /// Format and rows of each matrix.
    matrices: &'a [(Format, usize)],
    columns: usize,
    act: ActFormat,
    /// Whether the vector is normalised on the way.
    norm: bool,
    kind: Kind,
    scales: Scales,
}

fn check(case: &Case<'_>, target: &Target) {
    let name = format!("{case:?}, {:?}", target.tuning);
    let &Case { matrices, columns, act, norm, kind, scales } = case;
    let mut random = Random::new(&name);
    let mut arena = Arena::new();
    let state = arena.state(live());
    let operand = Operand::new(&mut random, &mut arena, columns, act, norm, scales);

    let mut products = Vec::new();
    let mut outputs = Vec::new();
    for &(format, rows) in matrices {
        let bytes = weights(&mut random, format, rows, columns, scales);
        let addend = if scales == Scales::Whole { random.whole(rows, 1_000) } else { random.vector(rows, 1.0) };
        let address = arena.input(&device_rows(format, columns, &bytes)).address;
        let y = if kind == Accumulate { arena.in_out(&addend) } else { arena.output(rows) };
        let bias = (kind == AddBias).then(|| arena.input(&addend).address);
        let matrix = Matrix { address, format, rows: rows as u32, columns: columns as u32 };
        products.push(Product { weights: matrix, bias, y: y.address });
        outputs.push((format, bytes, addend, y));
    }
    let norm = norm.then_some(Norm { weight: operand.norm, epsilon: operand::EPSILON });
    let accumulate = kind == Accumulate;
    let op = MatVec { state, products: &products, x: operand.x, act, norm, accumulate, batch: Batch::ONE };
    arena.run(&[op.dispatch(target)]);

    for (index, (format, bytes, addend, y)) in outputs.iter().enumerate() {
        let name = format!("{name}, matrix {index}");
        let matrix = host(*format, columns, bytes);
        let mut expected = vec![f32::NAN; y.len];
        reference::mat_vec(&matrix, &operand.values, &mut expected);
        let mut magnitude = magnitudes(&matrix, 0..y.len, &operand.values);
        if kind != Store {
            for ((sum, addend), magnitude) in expected.iter_mut().zip(addend).zip(&mut magnitude) {
                *sum += addend;
                *magnitude += f64::from(addend.abs());
            }
        }
        if scales == Scales::Whole && operand.is_exact() {
            let largest = magnitude.iter().copied().fold(0.0, f64::max);
            assert!(largest < f64::from(1 << 24), "{name}: sums up to {largest} are not exact");
            compare::equal_bits(&name, &arena.read(*y), &expected);
        } else {
            let bounds = operand.bounds(&matrix, 0..y.len);
            compare::within(&name, &arena.read(*y), &expected, |row| {
                bounds[row] + tolerance::sum(columns, magnitude[row])
            });
        }
    }
}

/// Format, form of the activations, width and normalisation. Building a pipeline for each takes nearly all of the time, so forms, widths and
/// normalisation take turns: each format meets each form, each width that it can have and either normalisation, and so does each form each
/// width.
fn shapes() -> Vec<(Format, ActFormat, usize, bool)> {
    let mut shapes = Vec::new();
    for (index, format) in Format::ALL.into_iter().enumerate() {
        let forms = operand::forms(format);
        let widths: Vec<_> = [32usize, 160, 256, 768]
            .into_iter()
            .filter(|width| width.is_multiple_of(format.block_elements()))
            .collect();
        for case in 0..forms.len().max(widths.len()) {
            let turn = index + case;
            shapes.push((format, forms[turn % forms.len()], widths[case % widths.len()], turn % 2 == 1));
        }
    }
    shapes
}

#[test]
fn every_format_and_width() {
    let target = Arena::new().gpu.target();
    for (format, act, columns, norm) in shapes() {
        let matrices = &[(format, 31)];
        for (kind, scales) in
            [(Store, Scales::Sane), (Store, Scales::Whole), (Store, Scales::Odd), (AddBias, Scales::Whole)]
        {
            check(&Case { matrices, columns, act, norm, kind, scales }, &target);
        }
    }
}

#[test]
fn every_format_accumulates() {
    let target = Arena::new().gpu.target();
    for (turn, format) in Format::ALL.into_iter().enumerate() {
        let (matrices, forms) = (&[(format, 5)], operand::forms(format));
        let (act, norm) = (forms[turn % forms.len()], turn % 2 == 1);
        for scales in [Scales::Sane, Scales::Whole] {
            check(&Case { matrices, columns: 256, act, norm, kind: Accumulate, scales }, &target);
        }
    }
}

#[test]
fn every_number_of_rows() {
    let target = Arena::new().gpu.target();
    for (format, act, norm) in [
        (Format::Q4K, ActFormat::Q16, true),
        (Format::Q6K, ActFormat::Q8, false),
        (Format::Q6K, ActFormat::F32, true),
        (Format::F16, ActFormat::F32, false),
    ] {
        for rows in [1, 3, 4, 5, 257, 1_031] {
            let matrices = &[(format, rows)];
            check(&Case { matrices, columns: 256, act, norm, kind: Store, scales: Scales::Sane }, &target);
        }
    }
}

#[test]
fn a_wide_matrix() {
    let target = Arena::new().gpu.target();
    for (format, rows, columns, act, norm) in [
        (Format::Q4K, 37, 2_048, ActFormat::Q8, true),
        (Format::Q4K, 37, 4_096, ActFormat::Q16, true),
        (Format::Q6K, 37, 2_048, ActFormat::Q16, false),
        (Format::Q6K, 37, 4_096, ActFormat::F32, true),
        (Format::Q8_0, 37, 4_096, ActFormat::Q8, false),
        (Format::F32, 5, 2_048, ActFormat::F32, true),
    ] {
        let matrices = &[(format, rows)];
        check(&Case { matrices, columns, act, norm, kind: Store, scales: Scales::Sane }, &target);
    }
}

#[test]
fn three_matrices_of_different_formats() {
    let target = Arena::new().gpu.target();
    let (plain, normalised) = (&[(Store, false), (Accumulate, false)][..], &[(Store, true), (AddBias, true)][..]);
    for (matrices, act, kinds) in [
        (&[(Format::Q4K, 131), (Format::Q4K, 17), (Format::Q6K, 17)][..], ActFormat::Q8, normalised),
        (&[(Format::Q8_0, 64), (Format::Q5K, 1), (Format::Q4_0, 3)], ActFormat::Q16, normalised),
        (&[(Format::F32, 33), (Format::Q4K, 16), (Format::F16, 9)], ActFormat::F32, normalised),
        (&[(Format::Q6K, 5), (Format::Q4_1, 70)], ActFormat::Q8, plain),
    ] {
        for &(kind, norm) in kinds {
            check(&Case { matrices, columns: 256, act, norm, kind, scales: Scales::Sane }, &target);
        }
    }
}

/// However many rows a subgroup takes at a time, whatever it loads beforehand and however few workgroups there are.
#[test]
fn every_tuning() {
    let target = Arena::new().gpu.target();
    for (most_rows, chunks_ahead, early_weights, product_width) in
        [(1, 1, false, 8), (1, 2, true, 4), (2, 4, true, 8), (2, 2, false, 1), (4, 4, false, 2), (4, 8, true, 4)]
    {
        for product_workgroups in [1, 3, 10_000] {
            let tuning = Tuning {
                most_rows,
                chunks_ahead,
                early_weights,
                product_width,
                product_workgroups,
                product_subgroups: 1,
                ..target.tuning
            };
            let target = Target { tuning, ..target };
            let format = if most_rows == 2 { Format::Q4K } else { Format::Q8_0 };
            let matrices = &[(format, 203), (Format::Q6K, 9)];
            let (act, norm, kind, scales) = (ActFormat::Q8, true, Store, Scales::Sane);
            check(&Case { matrices, columns: 512, act, norm, kind, scales }, &target);
        }
    }
}

/// A grid above the device's limit in x wraps into y; every row is computed all the same.
#[test]
fn grids_that_wrap() {
    let target = Arena::new().gpu.target();
    for (max_x, rows) in [(1, 9), (7, 112), (7, 113), (64, 257), (100, 1_031)] {
        let small = Target { max_groups: [max_x, 65_535], ..target };
        let matrices = &[(Format::Q8_0, rows)];
        let (act, norm, kind, scales) = (ActFormat::Q16, false, Store, Scales::Sane);
        check(&Case { matrices, columns: 64, act, norm, kind, scales }, &small);
    }
}

#[test]
fn batches() {
    const MATRICES: [(Format, usize); 3] = [(Format::Q4K, 37), (Format::Q6K, 9), (Format::Q4K, 3)];
    let target = Arena::new().gpu.target();
    let early = Target { tuning: Tuning { early_weights: true, product_workgroups: 2, ..target.tuning }, ..target };
    for (act, norm, kind, target) in [
        (ActFormat::Q16, true, AddBias, target),
        (ActFormat::Q16, true, Store, early),
        (ActFormat::Q8, false, Accumulate, target),
        (ActFormat::F32, true, Store, target),
        (ActFormat::F32, false, Accumulate, target),
    ] {
        let name = format!("{act:?}, normalised: {norm}, {kind:?}");
        batch::check(
            &name,
            2_560,
            |_| live(),
            |b: &mut Builder| {
                let x = b.operand(if norm { ActFormat::F32 } else { act }, 512);
                let norm = norm.then(|| Norm { weight: b.shared(512), epsilon: operand::EPSILON });
                let products = MATRICES.map(|(format, rows)| Product {
                    weights: b.matrix(format, 1, rows, 512),
                    bias: (kind == AddBias).then(|| b.shared(rows)),
                    y: if kind == Accumulate { b.vector(Use::InOut, rows) } else { b.output(rows * 4) },
                });
                move |v: &View| {
                    let products = products.map(|product| Product { y: v.own(product.y), ..product });
                    let accumulate = kind == Accumulate;
                    let op = MatVec {
                        state: v.state,
                        products: &products,
                        x: v.own(x),
                        act,
                        norm,
                        accumulate,
                        batch: v.batch,
                    };
                    op.dispatch(&target)
                }
            },
        );
    }
}

fn refused(format: Format, columns: u32, act: ActFormat) {
    let weights = Matrix { address: 0, format, rows: 1, columns };
    let products = &[Product { weights, bias: None, y: 0 }];
    let op = MatVec { state: 0, products, x: 0, act, norm: None, accumulate: false, batch: Batch::ONE };
    let _ = op.dispatch(&Target::new(32));
}

#[test]
#[should_panic(expected = "a row of 48 elements is not a whole number of units of 32")]
fn a_row_of_no_whole_units_is_refused() {
    refused(Format::F16, 48, ActFormat::F32);
}

#[test]
#[should_panic(expected = "weights in F16 meet f32 activations, not quantised ones")]
fn float_weights_with_quantised_activations_are_refused() {
    refused(Format::F16, 64, ActFormat::Q8);
}

#[test]
#[should_panic(expected = "a step of 9 tokens: 1 to 8 are supported")]
fn too_many_tokens_are_refused() {
    let weights = Matrix { address: 0, format: Format::F16, rows: 1, columns: 64 };
    let products = &[Product { weights, bias: None, y: 0 }];
    let (act, batch) = (ActFormat::F32, Batch { tokens: 9, stride: 256 });
    let _ = MatVec { state: 0, products, x: 0, act, norm: None, accumulate: false, batch }.dispatch(&Target::new(32));
}
