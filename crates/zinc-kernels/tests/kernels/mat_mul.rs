//! `mat_mul` against its reference, bit for bit.

use zinc_kernels::ops::{MatMul, Product};
use zinc_kernels::reference;
use zinc_kernels::step::{Rows, StepShape};
use zinc_kernels::{Format, Target, Tuning};

use crate::matrix;
use crate::support::data::{Random, host, in_turn, widths};
use crate::support::many::{self, Choice, Output, Splits, Vectors};
use crate::support::{Arena, compare};

/// What becomes of products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    Store,
    AddBias,
    Accumulate,
    AccumulateWithBias,
}

impl Then {
    fn has_bias(self) -> bool {
        matches!(self, Self::AddBias | Self::AccumulateWithBias)
    }

    fn accumulates(self) -> bool {
        matches!(self, Self::Accumulate | Self::AccumulateWithBias)
    }

    /// What a product becomes where this bias and what stood there before may be added.
    fn finish(self, product: f32, bias: f32, before: f32) -> f32 {
        let sum = if self.has_bias() { product + bias } else { product };
        if self.accumulates() { before + sum } else { sum }
    }
}

/// The device without matrix units, with tiles of these numbers of vectors, rows and subgroups, in one of both forms.
fn tuned((tile_vectors, tile_rows, tile_width, tile_in_turn): (u32, u32, u32, bool)) -> Target {
    let target = many::without_units();
    Target { tuning: Tuning { tile_vectors, tile_rows, tile_width, tile_in_turn, ..target.tuning }, ..target }
}

/// Matrices of a dense layer, in a step that has room for `room` rows and lists `rows`. Returns how many workgroups share the groups of a block.
fn check(matrices: &[(Format, usize)], columns: usize, (rows, room): (usize, u32), then: Then, target: &Target) -> u32 {
    let name = format!("{matrices:?} x {columns}, {rows} of {room} rows, {then:?}, {:?}", target.tuning);
    let mut random = Random::new(&name);
    let mut arena = Arena::new();
    let x = Vectors::new(&mut random, &mut arena, (room as usize, 1), columns, 2.0);
    let mut launched = Vec::new();
    for &(format, height) in matrices {
        let (weights, bytes) = many::matrices(&mut random, &mut arena, format, 1, (height, columns));
        let bias = random.vector(height, 1.0);
        let before: Vec<Vec<f32>> = (0..room).map(|_| random.vector(height, 1.0)).collect();
        let y = Output::new(&mut arena, &before);
        let address = then.has_bias().then(|| arena.input(&bias).address);
        launched.push((Product { weights, bias: address, y: y.operand }, bytes, bias, before, y));
    }
    let products: Vec<Product> = launched.iter().map(|(product, ..)| *product).collect();
    let heights: Vec<usize> = matrices.iter().map(|(_, height)| *height).collect();
    let splits = Splits::new(&mut arena, &heights, columns, room);
    let op = MatMul {
        state: arena.state(many::listed(rows)),
        products: &products,
        x: x.operand,
        accumulate: then.accumulates(),
        tiles: None,
        group_values: Some(splits.memory),
        shape: StepShape::of(room),
    };
    let without_rows = MatMul { state: arena.state(many::listed(0)), ..op };
    let shared_by = splits.run(&arena, &op.dispatch(target), &without_rows.dispatch(target));
    let runs = if shared_by > 1 { 2 } else { 1 };
    for (product, bytes, bias, before, y) in &launched {
        let matrix = host(product.weights.format, columns, bytes);
        for (row, found) in y.read(&arena).iter().enumerate() {
            let mut expected = before[row].clone();
            if row < rows {
                let mut products = vec![0.0; expected.len()];
                reference::mat_mul(&matrix, 0, &x.rounded[row][0], &mut products);
                for ((y, product), bias) in expected.iter_mut().zip(products).zip(bias) {
                    (0..runs).for_each(|_| *y = then.finish(product, *bias, *y));
                }
            }
            compare::equal_bits(&format!("{name}, row {row}"), found, &expected);
        }
    }
    shared_by
}

/// A stack of experts, perhaps with biases.
fn check_experts(
    (format, then): (Format, Then),
    (height, columns): (usize, usize),
    (experts, used): (usize, usize),
    (rows, room): (usize, u32),
    choice: Choice,
    target: &Target,
) {
    let name = format!(
        "{format} {height} x {columns}, {then:?}, {used} of {experts}, {rows} of {room} rows, {choice:?}, {:?}",
        target.tuning
    );
    let mut random = Random::new(&name);
    let mut arena = Arena::new();
    let x = Vectors::new(&mut random, &mut arena, (room as usize, used), columns, 2.0);
    let (weights, bytes) = many::matrices(&mut random, &mut arena, format, experts, (height, columns));
    let ids = many::chosen(&mut random, choice, rows, (experts, used));
    let y = Output::empty(&mut arena, room as usize, used * height);
    let biases = random.vector(experts * height, 1.0);
    let bias = then.has_bias().then(|| arena.input(&biases).address);
    let products = [Product { weights, bias, y: y.operand }];
    let shape = StepShape::of(room);
    let state = arena.state(many::listed(rows));
    let op =
        MatMul { state, products: &products, x: x.operand, accumulate: false, tiles: None, group_values: None, shape };
    let launch = many::tiled(&mut arena, target, shape, &ids, experts, |tiles| {
        MatMul { tiles: Some(tiles), ..op }.dispatch(target)
    });
    arena.run(&[launch]);
    let matrix = host(format, columns, &bytes);
    for (row, found) in y.read(&arena).iter().enumerate() {
        let mut expected = vec![f32::NAN; used * height];
        for (slot, y) in expected.chunks_exact_mut(height).enumerate() {
            if row < rows {
                let expert = ids[row][slot];
                reference::mat_mul(&matrix, expert, &x.rounded[row][slot], y);
                let biases = biases.chunks_exact(height).nth(expert as usize).into_iter().flatten();
                y.iter_mut().zip(biases).for_each(|(y, bias)| *y = then.finish(*y, *bias, 0.0));
            }
        }
        compare::equal_bits(&format!("{name}, row {row}"), found, &expected);
    }
}

/// Without whole matrices every other format has experts, and the others have none.
#[test]
fn every_format_has_the_bits_of_the_reference() {
    for (turn, format) in Format::ALL.into_iter().filter(|format| !format.is_float()).enumerate() {
        let cases = widths(format, &[32, 96, 256, 288, 768], &[false, true]);
        let is_tried = |experts: bool| matrix::is_full() || experts == turn.is_multiple_of(2);
        for (case, (columns, experts)) in cases.into_iter().enumerate().filter(|(_, (_, experts))| is_tried(*experts)) {
            for target in many::tile_forms(turn / 3 + case) {
                if experts {
                    let choice = [Choice::Random, Choice::Same, Choice::Spread][(turn + case / 2) % 3];
                    for &then in in_turn(&[Then::Store, Then::AddBias], turn / 3 + case / 2) {
                        check_experts((format, then), (21, columns), (5, 2), (9, 16), choice, &target);
                    }
                } else {
                    check(&[(format, 37)], columns, (11, 16), Then::Store, &target);
                }
            }
        }
    }
}

#[test]
fn up_to_three_matrices_of_any_formats() {
    for then in [Then::Store, Then::AddBias, Then::Accumulate, Then::AccumulateWithBias] {
        for target in many::tile_forms(usize::from(then.accumulates())) {
            check(&[(Format::Q4K, 80), (Format::Q4K, 20), (Format::Q6K, 20)], 512, (6, 8), then, &target);
            check(&[(Format::Q8_0, 3), (Format::Q5K, 130)], 256, (6, 8), then, &target);
        }
    }
}

/// Every number of rows around that of a tile, in every form of a tile; without whole matrices in the first two of those by sets and of those one by one.
#[test]
fn tiles_of_every_form() {
    let by_sets = [(2, 2, 2, false), (8, 2, 4, false), (1, 1, 1, false), (4, 1, 4, false), (16, 4, 8, false)];
    let one_by_one = [(4, 2, 2, true), (8, 8, 1, true), (1, 1, 1, true), (16, 4, 8, true)];
    let most = if matrix::is_full() { by_sets.len() } else { 2 };
    for tile in by_sets.into_iter().take(most).chain(one_by_one.into_iter().take(most)) {
        let target = tuned(tile);
        for rows in [1, 3, 4, 5, 8, 15, 17, 32] {
            check(&[(Format::Q4K, 50)], 256, (rows, 32), Then::Store, &target);
            check_experts((Format::Q6K, Then::AddBias), (18, 256), (6, 3), (rows, 32), Choice::Random, &target);
        }
    }
}

/// Of what stands in for matrix units, whose kernels take a CPU's compiler long, fewer shapes are tested.
#[test]
fn matrix_units_have_the_bits_of_the_reference() {
    let target = many::with_units();
    let formats: &[Format] = match many::is_emulated(&target) {
        true => &[Format::Q2K, Format::Q4K, Format::Q5_1, Format::Q6K],
        false => &Format::ALL,
    };
    for (turn, format) in formats.iter().copied().filter(|format| !format.is_float()).enumerate() {
        let choice = [Choice::Random, Choice::Same, Choice::Spread][turn % 3];
        let dense = turn % 2 == 0;
        if dense || !many::is_emulated(&target) {
            let columns = if format.has_sub_blocks() { 768 } else { 288 };
            check(&[(format, 37)], columns, (19, 32), Then::Store, &target);
        }
        if !dense || !many::is_emulated(&target) {
            // Heights of whole quads of rows, and others: results are stored otherwise.
            for height in [21, 24] {
                let then = [Then::AddBias, Then::Store][turn / 2 % 2];
                check_experts((format, then), (height, 256), (5, 2), (9, 16), choice, &target);
            }
        }
    }
}

#[test]
fn up_to_three_matrices_by_matrix_units() {
    let target = many::with_units();
    // Heights of whole quads of rows, and others: results are stored otherwise.
    check(&[(Format::Q4K, 80), (Format::Q4K, 20), (Format::Q6K, 21)], 512, (35, 64), Then::AddBias, &target);
    for height in [80, 37] {
        for then in [Then::Accumulate, Then::AccumulateWithBias] {
            check(&[(Format::Q4K, height)], 512, (35, 64), then, &target);
        }
    }
    check(&[(Format::Q8_0, 3), (Format::Q5K, 130)], 256, (6, 32), Then::Store, &target);
}

/// Every number of rows around that of a tile and of a fragment, in every form of a block; in one form of what stands in for matrix units.
#[test]
fn blocks_of_every_form() {
    for form in [
        [32, 4, 2, 1, 8],
        [64, 8, 4, 1, 8],
        [64, 4, 2, 1, 4],
        [32, 2, 1, 2, 8],
        [16, 4, 4, 1, 16],
        [32, 8, 4, 1, 8],
        [64, 16, 4, 2, 8],
    ] {
        let target = many::blocks_of(form);
        for rows in [1, 15, 17, 33, 64] {
            check(&[(Format::Q4K, 50)], 512, (rows, 64), Then::Store, &target);
            check_experts((Format::Q6K, Then::AddBias), (18, 512), (6, 3), (rows, 64), Choice::Random, &target);
        }
        if many::is_emulated(&target) {
            break;
        }
    }
}

/// As many workgroups as a block has groups, or the power of two below, though more are asked for. Of the rows of a step that is twice as long as a
/// block has vectors, both tiles have some, or one has none. Unless whole matrices are asked for, what stands in for matrix units, whose kernels take a
/// CPU's compiler long, has a format of each kind.
#[test]
fn workgroups_share_the_groups_of_every_format() {
    let target = many::splitting(1_024);
    let shapes = [(512, 2), (768, 2), (1_024, 4), (1_280, 4), (2_048, 8)];
    let shapes_of_32 = [(288, 2), (1_184, 4), (2_080, 8)];
    // One kernel has both forms of a pair.
    let pairs = [[Then::Store, Then::AddBias], [Then::AccumulateWithBias, Then::Accumulate]];
    let formats: &[Format] = match many::is_emulated(&target) && !matrix::is_full() {
        true => &[Format::Q4K, Format::Q5_1, Format::Q6K],
        false => &Format::ALL,
    };
    for (turn, format) in formats.iter().copied().filter(|format| !format.is_float()).enumerate() {
        let (columns, splits) =
            if format.has_sub_blocks() { shapes[turn % shapes.len()] } else { shapes_of_32[turn % shapes_of_32.len()] };
        for ((height, rows), then) in [(70, 35), (48, 20)].into_iter().zip(pairs[turn % 2]) {
            let found = check(&[(format, height)], columns, (rows, 64), then, &target);
            assert_eq!(found, splits, "{format}, {columns} columns");
        }
    }
}

/// Fewer workgroups than groups, several matrices, and no sharing where there is no need, where there are many rows, or where there is no room.
#[test]
fn workgroups_share_groups_as_they_are_asked() {
    for (split_workgroups, splits) in [(1, 1), (2, 1), (3, 2), (8, 4), (9, 8)] {
        let target = many::splitting(split_workgroups);
        let found = check(&[(Format::Q4K, 70)], 2_048, (27, 32), Then::AccumulateWithBias, &target);
        assert_eq!(found, splits, "{split_workgroups} workgroups are asked for, of 2 blocks");
    }
    let target = many::splitting(8);
    let matrices = [(Format::Q4K, 80), (Format::Q4K, 20), (Format::Q6K, 21)];
    assert_eq!(check(&matrices, 512, (30, 32), Then::AddBias, &target), 2);
    assert_eq!(check(&matrices[..1], 512, (100, 128), Then::Store, &target), 1);
}

#[test]
fn experts_however_rows_choose_them() {
    let target = many::without_units();
    for choice in [Choice::Random, Choice::Same, Choice::Spread] {
        for (experts, used) in [(1, 1), (4, 4), (40, 3)] {
            check_experts((Format::Q4K, Then::AddBias), (40, 256), (experts, used), (33, 64), choice, &target);
        }
    }
}

/// As gpt-oss has them: experts in MXFP4 of 2,880 columns, of which the last group has 64, with biases; and fewer such columns. All rows choose the same
/// experts, so that these have every row, or choose at random.
#[test]
fn a_last_group_of_64() {
    for target in [many::without_units(), many::with_units()] {
        for (columns, choice) in [(320, Choice::Same), (320, Choice::Random), (2_880, Choice::Random)] {
            check_experts((Format::MXFP4, Then::AddBias), (24, columns), (8, 4), (19, 32), choice, &target);
            if columns == 2_880 && many::is_emulated(&target) {
                continue;
            }
            check(&[(Format::Q8_0, 37)], columns, (19, 32), Then::AccumulateWithBias, &target);
        }
    }
}

/// A step that lists more rows than it has room for takes the first of them, though a tile has room for more.
#[test]
fn rows_beyond_the_room_are_left_out() {
    for target in [tuned((16, 2, 2, false)), tuned((16, 4, 2, true)), many::with_units()] {
        let mut arena = Arena::new();
        let mut random = Random::new("beyond");
        let x = Vectors::new(&mut random, &mut arena, (9, 1), 256, 1.0);
        let (weights, _) = many::matrices(&mut random, &mut arena, Format::Q4K, 1, (20, 256));
        let y = Output::empty(&mut arena, 9, 20);
        let products = [Product { weights, bias: None, y: y.operand }];
        let (state, shape) = (arena.state(many::listed(9)), StepShape::of(8));
        let op = MatMul {
            state,
            products: &products,
            x: x.operand,
            accumulate: false,
            tiles: None,
            group_values: None,
            shape,
        };
        arena.run(&[op.dispatch(&target)]);
        assert!(y.read(&arena)[8].iter().all(|y| y.is_nan()), "row 8 of a step with room for 8");
        assert!(y.read(&arena)[0].iter().all(|y| y.is_finite()));
    }
}

#[test]
#[should_panic(expected = "experts have one product, which is added to nothing")]
fn accumulation_with_experts_is_refused() {
    let nowhere = Rows::one(0);
    let weights = zinc_kernels::ops::Matrix { address: 0, format: Format::Q4K, rows: 16, columns: 256 };
    let products = [Product { weights, bias: None, y: nowhere }];
    let tiles = Some(zinc_kernels::ops::Tiles { pairs: 0, tiles: 0, grids: 0, experts: 2, used: 1 });
    let op = MatMul {
        state: 0,
        products: &products,
        x: nowhere,
        accumulate: true,
        tiles,
        group_values: None,
        shape: StepShape::ONE,
    };
    let _ = op.dispatch(&Target::new(32));
}
