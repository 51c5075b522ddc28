//! The operands of the launches of every kernel.

use zinc_kernels::Format;
use zinc_kernels::ops::{Input, Matrix, Norm};
use zinc_kernels::reference::Q14;

use super::arena::Arena;
use super::data::{Random, Scales, device_rows, weights};

/// Rows and columns of a matrix.
pub(super) const ROWS: u32 = 144;
pub(super) const COLUMNS: u32 = 512;

/// What a launch is built from: its arrays, its numbers, the address of its step state.
pub(super) struct Builder {
    pub(super) arena: Arena,
    pub(super) random: Random,
    pub(super) state: u64,
}

impl Builder {
    pub(super) fn vector(&mut self, len: u32) -> u64 {
        self.arena.input(&self.random.vector(len as usize, 1.0)).address
    }

    pub(super) fn residual(&mut self, len: u32) -> u64 {
        self.arena.in_out(&self.random.vector(len as usize, 1.0)).address
    }

    pub(super) fn output(&mut self, len: u32) -> u64 {
        self.arena.output::<f32>(len as usize).address
    }

    pub(super) fn words(&mut self, words: &[u32]) -> u64 {
        self.arena.input(words).address
    }

    pub(super) fn matrix(&mut self, format: Format, experts: u32) -> Matrix {
        let bytes = weights(&mut self.random, format, (experts * ROWS) as usize, COLUMNS as usize, Scales::Sane);
        let bytes = device_rows(format, COLUMNS as usize, &bytes);
        Matrix { address: self.arena.input(&bytes).address, format, rows: ROWS, columns: COLUMNS }
    }

    pub(super) fn norm(&mut self, len: u32) -> Norm {
        Norm { weight: self.vector(len), epsilon: 1e-6 }
    }

    /// Rounded activations.
    pub(super) fn rounded(&mut self, len: u32) -> Input {
        let x = Q14::new(&self.random.vector(len as usize, 1.0));
        Input::Rounded(self.arena.input(&x.bytes(false)).row())
    }

    /// Counters, which a kernel leaves as it finds them: 0.
    pub(super) fn counters(&mut self, count: usize) -> u64 {
        self.arena.scratch(&vec![0u32; count]).address
    }

    /// What a kernel writes for itself, and perhaps not wholly.
    pub(super) fn scratch(&mut self, len: u64) -> u64 {
        self.arena.scratch(&vec![0.0f32; len as usize]).address
    }
}
