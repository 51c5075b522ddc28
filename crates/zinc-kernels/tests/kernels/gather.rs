//! `gather` decodes rows bit for bit as the host does.

use crate::support::data::{Random, Scales, decoded, device_rows, golden, live, weights};
use crate::support::rows::{self, Builder, View};
use crate::support::{Arena, compare};
use zinc_kernels::Format;
use zinc_kernels::ops::{Gather, Matrix};
use zinc_kernels::reference;
use zinc_kernels::step::{Lane, Rows, StepShape, StepState};

/// Gathers each of `tokens` from a table of `rows` rows.
fn check(case: &str, format: Format, columns: usize, table: &[u8], tokens: &[usize]) {
    let row_bytes = format.row_bytes(columns);
    let rows = table.len() / row_bytes;
    let mut arena = Arena::new();
    let address = arena.input(&device_rows(format, columns, table)).address;
    let table_on_device = Matrix { address, format, rows: rows as u32, columns: columns as u32 };
    let (mut outputs, mut dispatches) = (Vec::new(), Vec::new());
    for &token in tokens {
        let state = arena.state(Lane { token: token as u32, ..live() });
        let y = arena.output::<f32>(columns);
        let gather = Gather { state, behind: false, table: table_on_device, y: y.row(), shape: StepShape::ONE };
        dispatches.push(gather.dispatch(&arena.gpu.target()));
        outputs.push(y);
    }
    arena.run(&dispatches);
    for (&token, y) in tokens.iter().zip(outputs) {
        let expected = decoded(format, &table[token * row_bytes..(token + 1) * row_bytes]);
        compare::equal_bits(&format!("{case}, {format}, {columns} columns, token {token}"), &arena.read(y), &expected);
    }
}

#[test]
fn random_blocks() {
    for format in Format::ALL {
        for columns in [32_usize, 64, 160, 256, 768, 1_024, 2_048, 8_192 + 256] {
            if !columns.is_multiple_of(format.block_elements()) {
                continue;
            }
            for scales in [Scales::Sane, Scales::Odd] {
                let case = format!("{scales:?}");
                let table = weights(&mut Random::new(&format!("{format} {columns}")), format, 5, columns, scales);
                check(&case, format, columns, &table, &[0, 3, 4]);
            }
        }
    }
}

#[test]
fn golden_blocks() {
    for format in Format::ALL {
        let Some((blocks, values)) = golden(format) else { continue };
        let columns = format.block_elements().max(32);
        let rows = values.len() / columns;
        compare::equal_bits(&format!("{format} on the host"), &decoded(format, &blocks), &values);
        check("golden", format, columns, &blocks, &(0..rows).collect::<Vec<_>>());
    }
}

#[test]
fn every_half_including_subnormals_infinities_and_nan() {
    for format in [Format::F16, Format::BF16] {
        let table: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
        check("every value", format, 8_192, &table, &(0..8).collect::<Vec<_>>());
    }
}

#[test]
fn edges_of_f32() {
    let mut values = vec![0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MAX, f32::MIN, f32::EPSILON];
    values.extend([f32::MIN_POSITIVE, f32::MIN_POSITIVE / 2.0, -f32::from_bits(1), f32::from_bits(0x7f_ffff)]);
    values.resize(32, 1.5);
    check("edges", Format::F32, 32, bytemuck::cast_slice(&values), &[0]);
}

/// Each row has a token of its own.
#[test]
fn rows_of_a_step() {
    let lane_of = |row| Lane { token: (row * 5 + 2) % 13, position: 40 + row, ..live() };
    for (format, behind) in [(Format::Q4K, false), (Format::F16, false), (Format::F16, true)] {
        rows::check(&format!("{format}, behind: {behind}"), lane_of, |b: &mut Builder| {
            let (table, y) = (b.matrix(format, 1, 13, 768), b.output(768 * 4));
            let target = b.arena.gpu.target();
            move |v: &View| Gather { state: v.state, behind, table, y: v.own(y), shape: v.shape }.dispatch(&target)
        });
    }
}

/// Rows at positions 20 to 23 of a lane whose prompt has so many tokens and which stands at such a position: the tokens that are found behind them. Those of the
/// sequence are 100 and its position, and those of the rows 200 and more.
#[test]
fn tokens_behind_rows() {
    for (prompt_length, position, expected) in [
        // A prompt that goes on, and one that ends in the step.
        (40, 20, [121, 122, 123, 124]),
        (24, 20, [121, 122, 123, 203]),
        // A step that has ended: of three drafts one was accepted, all, or none.
        (10, 22, [121, 122, 202, 203]),
        (10, 24, [121, 122, 123, 124]),
        (10, 21, [121, 201, 202, 203]),
    ] {
        let mut arena = Arena::new();
        let tokens: Vec<u32> = (0..40).map(|position| 100 + position).collect();
        let lane = Lane { position: 20, prompt_length, tokens: arena.input(&tokens).address, ..live() };
        let mut state = StepState::new(lane, &[200, 201, 202, 203]);
        state.lane.position = position;
        let table: Vec<f32> = (0..204 * 32).map(|i| (i / 32) as f32).collect();
        let address = arena.input(&table).address;
        let y = arena.output::<f32>(4 * 32);
        let gather = Gather {
            state: arena.state(state),
            behind: true,
            table: Matrix { address, format: Format::F32, rows: 204, columns: 32 },
            y: Rows { address: y.address, stride: 4 * 32 },
            shape: StepShape::FOUR,
        };
        arena.run(&[gather.dispatch(&arena.gpu.target())]);
        let found: Vec<u32> = arena.read(y).chunks_exact(32).map(|row| row[0] as u32).collect();
        assert_eq!(found, expected, "{prompt_length} tokens of a prompt, position {position}");
        let by_reference = state.rows[..4].iter().map(|row| reference::token_behind(&state.lane, row, &tokens));
        assert_eq!(by_reference.collect::<Vec<_>>(), expected, "the reference, position {position}");
    }
}
