//! `mat_vec` against its reference: every format and form of activations, odd row counts, one matrix to three.

use crate::matrix;
use crate::support::data::{Random, Scales, device_rows, host, live, magnitudes, weights, widths};
use crate::support::operand::{self, Operand, Source};
use crate::support::rows::{self, Builder, Use, View};
use crate::support::{Arena, compare, tolerance};
use zinc_kernels::ops::{ActFormat, Input, MatVec, Matrix, Norm, Product};
use zinc_kernels::reference::{self, Q14};
use zinc_kernels::step::{Rows, StepShape};
use zinc_kernels::{Format, Target, Tuning};

/// What becomes of the product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Store,
    AddBias,
    Accumulate,
    AccumulateWithBias,
}
use Kind::{Accumulate, AccumulateWithBias, AddBias, Store};
use Source::{Floats, Normalised, Rounded};

impl Kind {
    fn has_bias(self) -> bool {
        matches!(self, AddBias | AccumulateWithBias)
    }

    fn accumulates(self) -> bool {
        matches!(self, Accumulate | AccumulateWithBias)
    }

    /// What becomes of a product where this bias and what stood there before may be added.
    fn finish(self, product: f32, bias: f32, before: f32) -> f32 {
        let sum = if self.has_bias() { product + bias } else { product };
        if self.accumulates() { before + sum } else { sum }
    }
}

const NOWHERE: Rows = Rows::one(0);

#[derive(Clone, Debug)]
struct Case<'a> {
    /// Format and rows of each matrix.
    matrices: &'a [(Format, usize)],
    columns: usize,
    act: ActFormat,
    source: Source,
    kind: Kind,
    scales: Scales,
    /// Of the vector's elements and of what is added.
    size: f32,
}

fn check(case: &Case<'_>, target: &Target) {
    let name = format!("{case:?}, {:?}", target.tuning);
    let &Case { matrices, columns, act, source, kind, scales, size } = case;
    let mut random = Random::new(&name);
    let mut arena = Arena::new();
    let state = arena.state(live());
    let operand = Operand::new(&mut random, &mut arena, columns, (act, source), (scales, size));

    let mut products = Vec::new();
    let mut outputs = Vec::new();
    for &(format, rows) in matrices {
        let bytes = weights(&mut random, format, rows, columns, scales);
        let [bias, before] = [(); 2]
            .map(|()| if scales == Scales::Whole { random.whole(rows, 1_000) } else { random.vector(rows, size) });
        let address = arena.input(&device_rows(format, columns, &bytes)).address;
        let y = if kind.accumulates() { arena.in_out(&before) } else { arena.output(rows) };
        let of_bias = kind.has_bias().then(|| arena.input(&bias).address);
        let matrix = Matrix { address, format, rows: rows as u32, columns: columns as u32 };
        products.push(Product { weights: matrix, bias: of_bias, y: y.row() });
        outputs.push((format, bytes, bias, before, y));
    }
    let accumulate = kind.accumulates();
    let op = MatVec { state, products: &products, x: operand.input, act, accumulate, shape: StepShape::ONE };
    arena.run(&[op.dispatch(target)]);

    for (index, (format, bytes, bias, before, y)) in outputs.iter().enumerate() {
        let name = format!("{name}, matrix {index}");
        if let Some(x) = &operand.rounded {
            let rows = bytes.chunks(format.row_bytes(columns)).zip(bias).zip(before);
            let expected: Vec<f32> = rows
                .map(|((row, &bias), &before)| kind.finish(reference::quantised_product(*format, row, x), bias, before))
                .collect();
            compare::equal_bits(&format!("{name}, {format}"), &arena.read(*y), &expected);
            continue;
        }
        let matrix = host(*format, columns, bytes);
        let mut expected = vec![f32::NAN; y.len];
        reference::mat_vec(&matrix, &operand.values, &mut expected);
        let of_rows = || bias.iter().copied().zip(before.iter().copied());
        expected.iter_mut().zip(of_rows()).for_each(|(y, (bias, before))| *y = kind.finish(*y, bias, before));
        if source == Floats {
            compare::equal_bits_or_flushed(&format!("{name}, {format}"), &arena.read(*y), &expected, columns);
            continue;
        }
        // The root of the normalisation is the device's.
        let mut magnitude = magnitudes(&matrix, 0..y.len, &operand.values);
        let size = |(bias, before): (f32, f32)| f64::from(kind.finish(0.0, bias.abs(), before.abs()));
        magnitude.iter_mut().zip(of_rows()).for_each(|(sum, added)| *sum += size(added));
        let bounds = operand.bounds(&matrix, 0..y.len);
        compare::within(&name, &arena.read(*y), &expected, |row| bounds[row] + tolerance::sum(columns, magnitude[row]));
    }
}

/// Format, form of the activations, width and source. Building a pipeline for each takes nearly all of the time, so sources take turns: each
/// format meets each form with each width that it can have, and each source. The sources of rounded activations that the test below has are
/// left to it, and, unless whole matrices are asked for, floats that are not normalised, too.
fn shapes() -> Vec<(Format, ActFormat, usize, Source)> {
    let mut shapes = Vec::new();
    for (index, format) in Format::ALL.into_iter().enumerate() {
        let fit: Vec<_> = [32usize, 160, 256, 768]
            .into_iter()
            .filter(|width| width.is_multiple_of(format.block_elements()))
            .collect();
        for (case, &width) in fit.iter().enumerate() {
            let source = [Floats, Normalised][(index + case) % 2];
            if source == Normalised || matrix::is_full() {
                shapes.push((format, ActFormat::F32, width, source));
            }
        }
        if !format.is_float() {
            shapes.push((format, ActFormat::Q14, fit[index % fit.len()], Normalised));
        }
    }
    shapes
}

#[test]
fn every_format_and_width() {
    let target = Arena::new().gpu.target();
    for (format, act, columns, source) in shapes() {
        let matrices = &[(format, 31)];
        // Whether there is a bias takes a pipeline, too. Without whole matrices, biases are left to the test below.
        let kinds = [(Store, Scales::Sane), (Store, Scales::Whole), (Store, Scales::Odd), (AddBias, Scales::Whole)];
        for (kind, scales) in kinds.into_iter().take(if matrix::is_full() { 4 } else { 3 }) {
            check(&Case { matrices, columns, act, source, kind, scales, size: 1.0 }, &target);
        }
    }
}

/// What is not normalised has the bits of the reference: widths that are not whole groups, odd numbers of rows.
#[test]
fn products_have_the_bits_of_the_reference() {
    let target = Arena::new().gpu.target();
    for (turn, format) in Format::ALL.into_iter().enumerate() {
        let cases = widths(format, &[32, 160, 256, 288, 768, 2_304], operand::forms(format));
        for (case, (columns, act)) in cases.into_iter().enumerate() {
            let source = if act == ActFormat::F32 { Floats } else { [Floats, Rounded][(turn + case / 2) % 2] };
            for (kind, scales, size) in [
                (Store, Scales::Sane, 1.0),
                (Store, Scales::Whole, 1.0),
                (Store, Scales::Odd, 1e-3),
                (AddBias, Scales::Whole, 1.0),
                (AddBias, Scales::Sane, 1e-20),
            ] {
                let matrices = &[(format, 31)];
                check(&Case { matrices, columns, act, source, kind, scales, size }, &target);
            }
        }
    }
    let act = ActFormat::Q14;
    let matrices = &[(Format::Q4K, 131), (Format::Q8_0, 17), (Format::Q6K, 19)];
    for (kind, source) in [(Store, Floats), (AddBias, Rounded), (Accumulate, Rounded)] {
        check(&Case { matrices, columns: 512, act, source, kind, scales: Scales::Sane, size: 1.0 }, &target);
    }
}

#[test]
fn every_format_accumulates() {
    let target = Arena::new().gpu.target();
    for (turn, format) in Format::ALL.into_iter().enumerate() {
        let (matrices, forms) = (&[(format, 5)], operand::forms(format));
        let act = forms[turn % forms.len()];
        let source = if act == ActFormat::F32 { [Floats, Normalised] } else { [Rounded, Normalised] }[turn / 2 % 2];
        for kind in [Accumulate, AccumulateWithBias] {
            for scales in [Scales::Sane, Scales::Whole] {
                check(&Case { matrices, columns: 256, act, source, kind, scales, size: 1.0 }, &target);
            }
        }
    }
}

#[test]
fn every_number_of_rows() {
    let target = Arena::new().gpu.target();
    for (format, act, source) in [
        (Format::Q4K, ActFormat::Q14, Normalised),
        (Format::Q6K, ActFormat::Q14, Rounded),
        (Format::Q6K, ActFormat::F32, Normalised),
        (Format::F16, ActFormat::F32, Floats),
    ] {
        for rows in [1, 3, 4, 5, 257, 1_031] {
            let matrices = &[(format, rows)];
            check(&Case { matrices, columns: 256, act, source, kind: Store, scales: Scales::Sane, size: 1.0 }, &target);
        }
    }
}

#[test]
fn a_wide_matrix() {
    let target = Arena::new().gpu.target();
    for (format, rows, columns, act, source) in [
        (Format::Q4K, 37, 4_096, ActFormat::Q14, Normalised),
        (Format::Q6K, 37, 2_048, ActFormat::Q14, Rounded),
        (Format::Q6K, 37, 4_096, ActFormat::F32, Normalised),
        (Format::Q8_0, 37, 8_192, ActFormat::Q14, Floats),
        (Format::Q8_0, 5, 28_672, ActFormat::Q14, Rounded),
        (Format::F32, 5, 2_048, ActFormat::F32, Normalised),
        // So many rows of a head that a CPU driver's workgroups take turns a thousand times.
        (Format::F16, 70_000, 1_024, ActFormat::F32, Floats),
        (Format::Q6K, 70_000, 1_024, ActFormat::F32, Floats),
    ] {
        let matrices = &[(format, rows)];
        check(&Case { matrices, columns, act, source, kind: Store, scales: Scales::Sane, size: 1.0 }, &target);
    }
}

/// However few workgroups a tuning asks for, there are enough that none takes more rounds than a CPU driver's threads do before they leave every loop.
#[test]
fn few_workgroups_share_a_tall_matrix() {
    let target = Arena::new().gpu.target();
    let tuning = Tuning { product_workgroups: 1, product_width: 1, most_rows: 1, ..target.tuning };
    let matrices = &[(Format::Q4_0, 12_000)];
    let (act, source, kind, scales) = (ActFormat::Q14, Rounded, Store, Scales::Sane);
    check(&Case { matrices, columns: 2_880, act, source, kind, scales, size: 1.0 }, &Target { tuning, ..target });
}

/// As gpt-oss has them: 2,880 columns, of which the last group has 64, and a bias for every product; and fewer such columns.
#[test]
fn a_last_group_of_64() {
    let target = Arena::new().gpu.target();
    for (format, act) in [
        (Format::MXFP4, ActFormat::Q14),
        (Format::MXFP4, ActFormat::F32),
        (Format::Q8_0, ActFormat::Q14),
        (Format::BF16, ActFormat::F32),
    ] {
        let stored = if act == ActFormat::F32 { Floats } else { Rounded };
        for columns in [320, 2_880] {
            for (kind, source) in [(AddBias, Normalised), (AccumulateWithBias, stored)] {
                let matrices = &[(format, 23)];
                check(&Case { matrices, columns, act, source, kind, scales: Scales::Sane, size: 1.0 }, &target);
            }
        }
    }
}

/// Products with scales of MXFP4 that are subnormal or little more: some of a block count as 0 and others do not, and so do those of a group with
/// activations that are small.
#[test]
fn the_smallest_scales() {
    let target = Arena::new().gpu.target();
    let (matrices, act, kind, scales) = (&[(Format::MXFP4, 31)], ActFormat::Q14, Store, Scales::Smallest);
    for (columns, source) in [(256, Rounded), (288, Floats), (2_880, Rounded)] {
        for size in [8192.0, 1e20] {
            check(&Case { matrices, columns, act, source, kind, scales, size }, &target);
        }
    }
}

#[test]
fn three_matrices_of_different_formats() {
    let target = Arena::new().gpu.target();
    let (plain, normalised) =
        (&[(Store, Floats), (AccumulateWithBias, Floats)][..], &[(Store, Normalised), (AddBias, Normalised)][..]);
    for (matrices, act, kinds) in [
        (&[(Format::Q4K, 131), (Format::Q4K, 17), (Format::Q6K, 17)][..], ActFormat::Q14, normalised),
        (&[(Format::Q8_0, 64), (Format::Q5K, 1), (Format::Q4_0, 3)], ActFormat::Q14, normalised),
        (&[(Format::F32, 33), (Format::Q4K, 16), (Format::F16, 9)], ActFormat::F32, normalised),
        (&[(Format::Q6K, 5), (Format::Q4_1, 70)], ActFormat::Q14, plain),
    ] {
        for &(kind, source) in kinds {
            check(&Case { matrices, columns: 256, act, source, kind, scales: Scales::Sane, size: 1.0 }, &target);
        }
    }
}

/// However many rows a subgroup takes at a time, whatever it loads beforehand and however few workgroups there are.
#[test]
fn every_tuning() {
    let target = Arena::new().gpu.target();
    for (turn, (most_rows, quarters_ahead, product_width)) in
        [(1, 1, 8), (1, 2, 4), (2, 4, 8), (2, 2, 1), (4, 4, 2), (4, 2, 4)].into_iter().enumerate()
    {
        for product_workgroups in [1, 3, 10_000] {
            let tuning = Tuning {
                most_rows,
                quarters_ahead,
                product_width,
                product_workgroups,
                product_subgroups: 1,
                ..target.tuning
            };
            let target = Target { tuning, ..target };
            let format = if most_rows == 2 { Format::Q4K } else { Format::Q8_0 };
            let matrices = &[(format, 203), (Format::Q6K, 9)];
            let (act, source, kind, scales) = (ActFormat::Q14, [Floats, Rounded][turn % 2], Store, Scales::Sane);
            check(&Case { matrices, columns: 1_280, act, source, kind, scales, size: 1.0 }, &target);
        }
    }
}

/// The sums of floats have the same order, too.
#[test]
fn every_tuning_with_f32_activations() {
    let target = Arena::new().gpu.target();
    for (most_rows, product_width) in [(1, 8), (2, 2), (4, 1)] {
        let tuning = Tuning { most_rows, product_width, product_subgroups: 1, ..target.tuning };
        let target = Target { tuning, ..target };
        let matrices = &[(Format::F16, 203), (Format::Q6K, 9), (Format::Q4K, 5)];
        let (act, source, kind, scales) = (ActFormat::F32, Floats, Store, Scales::Sane);
        check(&Case { matrices, columns: 1_280, act, source, kind, scales, size: 1.0 }, &target);
    }
}

/// A grid above the device's limit in x wraps into y; every row is computed all the same.
#[test]
fn grids_that_wrap() {
    let target = Arena::new().gpu.target();
    for (max_x, rows) in [(1, 9), (7, 112), (7, 113), (64, 257), (100, 1_031)] {
        let small = Target { max_groups: [max_x, 65_535], ..target };
        let matrices = &[(Format::Q8_0, rows)];
        let (act, source, kind, scales) = (ActFormat::Q14, Rounded, Store, Scales::Sane);
        check(&Case { matrices, columns: 64, act, source, kind, scales, size: 1.0 }, &small);
    }
}

#[test]
fn rows_of_a_step() {
    const MATRICES: [(Format, usize); 3] = [(Format::Q4K, 37), (Format::Q6K, 9), (Format::Q4K, 3)];
    let target = Arena::new().gpu.target();
    // There is room for two vectors in a workgroup.
    let small = Target { shared_bytes: 9 << 10, ..target };
    let few = Target { tuning: Tuning { product_workgroups: 2, ..target.tuning }, ..target };
    // Of rows of more than 16 groups, whose values are added to the results window by window.
    let tall = Target { tuning: Tuning { several_long_rows: 4, several_long_width: 4, ..target.tuning }, ..target };
    for (act, source, kind, columns, target) in [
        (ActFormat::Q14, Normalised, AddBias, 512, target),
        (ActFormat::Q14, Normalised, Store, 512, few),
        (ActFormat::Q14, Normalised, Store, 512, small),
        (ActFormat::Q14, Floats, Accumulate, 512, target),
        (ActFormat::Q14, Rounded, AccumulateWithBias, 512, target),
        (ActFormat::Q14, Rounded, AccumulateWithBias, 4_608, target),
        (ActFormat::Q14, Rounded, Store, 5_120, tall),
        (ActFormat::F32, Normalised, Store, 512, target),
        (ActFormat::F32, Floats, AccumulateWithBias, 512, target),
    ] {
        let name = format!("{act:?}, {source:?}, {kind:?}, {columns} columns");
        rows::check(
            &name,
            |_| live(),
            |b: &mut Builder| {
                let mut row = 0;
                let x = b.operand(Use::Input, |random| {
                    // A row beside others that are not finite is as good as alone.
                    let mut x = random.vector(columns, 1.0);
                    x[row * 30] = [1.0, f32::NAN, 2.0, f32::INFINITY, 3.0, f32::NEG_INFINITY, 4.0, 5.0][row % 8];
                    row += 1;
                    if source == Rounded { Q14::new(&x).bytes(false) } else { bytemuck::cast_slice(&x).to_vec() }
                });
                let norm = Norm { weight: b.shared(columns), epsilon: operand::EPSILON };
                let products = MATRICES.map(|(format, rows)| Product {
                    weights: b.matrix(format, 1, rows, columns),
                    bias: kind.has_bias().then(|| b.shared(rows)),
                    y: if kind.accumulates() { b.vector(Use::InOut, rows) } else { b.output(rows * 4) },
                });
                move |v: &View| {
                    let products = products.map(|product| Product { y: v.own(product.y), ..product });
                    let accumulate = kind.accumulates();
                    let x = match source {
                        Floats => Input::Floats(v.own(x)),
                        Normalised => Input::Normalised(v.own(x), norm),
                        Rounded => Input::Rounded(v.own(x)),
                    };
                    MatVec { state: v.state, products: &products, x, act, accumulate, shape: v.shape }.dispatch(&target)
                }
            },
        );
    }
}

fn refused(format: Format, columns: u32, x: Input, act: ActFormat) {
    let weights = Matrix { address: 0, format, rows: 1, columns };
    let products = &[Product { weights, bias: None, y: NOWHERE }];
    let op = MatVec { state: 0, products, x, act, accumulate: false, shape: StepShape::ONE };
    let _ = op.dispatch(&Target::new(32));
}

#[test]
#[should_panic(expected = "a row of 48 elements is not a whole number of units of 32")]
fn a_row_of_no_whole_units_is_refused() {
    refused(Format::F16, 48, Input::Floats(NOWHERE), ActFormat::F32);
}

#[test]
#[should_panic(expected = "weights in F16 meet f32 activations, not rounded ones")]
fn float_weights_with_rounded_activations_are_refused() {
    refused(Format::F16, 64, Input::Floats(NOWHERE), ActFormat::Q14);
}

#[test]
#[should_panic(expected = "products with f32 activations take f32")]
fn a_rounded_vector_for_products_of_floats_is_refused() {
    refused(Format::F16, 64, Input::Rounded(NOWHERE), ActFormat::F32);
}

#[test]
#[should_panic(expected = "a workgroup keeps 16384 activations")]
fn a_vector_that_a_workgroup_cannot_keep_is_refused() {
    refused(Format::Q8_0, 16_384, Input::Floats(NOWHERE), ActFormat::Q14);
}

#[test]
#[should_panic(expected = "the operands of 8 rows are 24 bytes apart: a multiple of 16 is supported")]
fn operands_that_are_not_aligned_are_refused() {
    let weights = Matrix { address: 0, format: Format::F16, rows: 1, columns: 64 };
    let products = &[Product { weights, bias: None, y: Rows { address: 0, stride: 24 } }];
    let (x, act, shape) = (Input::Floats(NOWHERE), ActFormat::F32, StepShape::of(8));
    let _ = MatVec { state: 0, products, x, act, accumulate: false, shape }.dispatch(&Target::new(32));
}
