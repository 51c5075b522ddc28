//! Steps of several rows against steps of one, bit for bit: whatever a kernel does for a row, it must do as if the row were alone.

use bytemuck::Pod;
use zinc_kernels::ops::{ActFormat, Matrix};
use zinc_kernels::reference::Q14;
use zinc_kernels::step::{Lane, Row, Rows, StepShape, StepState};
use zinc_kernels::{Dispatch, Format};

use super::arena::{Arena, GAP};
use super::data::{Random, Scales, device_rows, weights};
use super::pages::Pages;
use crate::matrix;

/// Rows that a launch has workgroups for, and how many of them the step lists: of the part of the matrix that every run of the tests goes through, and of the rest. A row
/// stands alone and among 2 and 15 others, and in the rest among 7. Each number of rows that a launch has workgroups for takes a pipeline.
const CASES: [&[(u32, u32)]; 2] = [&[(4, 3), (16, 16), (16, 1), (4, 0)], &[(8, 8), (8, 1)]];

/// The operands of a step, one of each for each row.
pub(crate) struct Builder {
    pub(crate) arena: Arena,
    pub(crate) random: Random,
    /// The pages of the lane whose rows they are.
    pub(crate) pages: Pages,
    rows: u32,
    operands: u32,
}

/// How a launch sees the operands: from the first row, for all of them, or from one row, for it alone.
pub(crate) struct View {
    pub(crate) state: u64,
    pub(crate) shape: StepShape,
    first: u32,
}

impl View {
    /// Where the launch finds an operand.
    pub(crate) fn own(&self, operand: Rows) -> Rows {
        Rows { address: operand.address + u64::from(self.first * operand.stride), ..operand }
    }
}

/// How operands are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// Only read.
    Input,
    /// Read, perhaps, and written.
    InOut,
}

impl Builder {
    /// Operands for so many rows; those of the same name are the same.
    pub(crate) fn new(name: &str, rows: u32) -> Self {
        Self { arena: Arena::new(), random: Random::new(name), pages: Pages::default(), rows, operands: 0 }
    }

    /// A step state that kernels only read, of the lane.
    pub(crate) fn state(&mut self, state: StepState) -> u64 {
        self.arena.state_with_pages(state, &self.pages)
    }

    /// How many rows have operands.
    pub(crate) fn rows(&self) -> usize {
        self.rows as usize
    }

    /// An operand: what `of_row` makes for each row. Nothing may touch what lies between two rows'. Each operand has a stride of its own.
    pub(crate) fn operand<T: Pod>(&mut self, usage: Use, mut of_row: impl FnMut(&mut Random) -> Vec<T>) -> Rows {
        let rows: Vec<Vec<T>> = (0..self.rows).map(|_| of_row(&mut self.random)).collect();
        let longest = rows.iter().map(|row| size_of_val(&row[..])).max().unwrap_or(0);
        self.operands += 1;
        let stride = (longest as u32 + 1).next_multiple_of(16) + 16 * (self.operands % 5);
        let mut bytes: Vec<u8> = Vec::new();
        for (row, values) in (0..).zip(&rows) {
            bytes.resize((row * stride) as usize, GAP);
            bytes.extend_from_slice(bytemuck::cast_slice(values));
        }
        let address = match usage {
            Use::Input => self.arena.input(&bytes).address,
            Use::InOut => self.arena.in_out(&bytes).address,
        };
        Rows { address, stride }
    }

    /// An operand of random numbers.
    pub(crate) fn vector(&mut self, usage: Use, len: usize) -> Rows {
        self.operand(usage, |random| random.vector(len, 1.0))
    }

    /// An operand of random numbers in the form that products with `act` take.
    pub(crate) fn activations(&mut self, act: ActFormat, len: usize) -> Rows {
        self.operand(Use::Input, |random| {
            let x = random.vector(len, 1.0);
            match act {
                ActFormat::F32 => bytemuck::cast_slice(&x).to_vec(),
                ActFormat::Q14 => Q14::new(&x).bytes(false),
            }
        })
    }

    /// An operand that is written, of so many bytes that were never written.
    pub(crate) fn output(&mut self, bytes: usize) -> Rows {
        self.operand(Use::InOut, |_| vec![GAP; bytes])
    }

    /// A stack of `matrices` random ones.
    pub(crate) fn matrix(&mut self, format: Format, matrices: usize, rows: usize, columns: usize) -> Matrix {
        let bytes = weights(&mut self.random, format, matrices * rows, columns, Scales::Sane);
        let address = self.arena.input(&device_rows(format, columns, &bytes)).address;
        Matrix { address, format, rows: rows as u32, columns: columns as u32 }
    }

    /// The same numbers for all rows: a bias, the weights of a norm.
    pub(crate) fn shared(&mut self, len: usize) -> u64 {
        self.arena.input(&self.random.vector(len, 1.0)).address
    }
}

/// Compares a step of several rows with steps of one. `lane_of` is the lane in a step of the given row alone; `make` makes the operands of all
/// rows, and says how an operation is launched on them.
pub(crate) fn check<L: Fn(&View) -> Dispatch>(
    name: &str,
    lane_of: impl Fn(u32) -> Lane,
    make: impl Fn(&mut Builder) -> L,
) {
    let cases = &CASES[..if matrix::is_full() { 2 } else { 1 }];
    for (rows, listed) in cases.concat() {
        let name = format!("{name}, {listed} of {rows} rows");
        let run = |steps: &[(u32, StepState, StepShape)]| {
            let mut builder = Builder::new(&name, rows);
            let launch = make(&mut builder);
            let launches: Vec<Dispatch> = steps
                .iter()
                .map(|&(first, state, shape)| launch(&View { state: builder.state(state), shape, first }))
                .collect();
            let before = builder.arena.outputs();
            builder.arena.run(&launches);
            (before, builder.arena.outputs())
        };
        let mut state = StepState { row_count: listed, ..StepState::from(lane_of(0)) };
        for (row, offset) in state.rows.iter_mut().zip(0..listed) {
            let Lane { token, position, .. } = lane_of(offset);
            *row = Row { offset, token, position, lane: 0 };
        }
        let (_, together) = run(&[(0, state, StepShape::of(rows))]);
        let alone: Vec<_> = (0..listed).map(|row| (row, StepState::from(lane_of(row)), StepShape::ONE)).collect();
        let (before, one_by_one) = run(&alone);
        for (output, (found, expected)) in together.iter().zip(&one_by_one).enumerate() {
            let differs = found.iter().zip(expected).position(|(found, expected)| found != expected);
            if let Some(byte) = differs {
                panic!("{name}: output {output} differs from byte {byte} of {}", found.len());
            }
        }
        assert_eq!(one_by_one != before, listed > 0, "{name}: something was written");
    }
}
