//! What each kernel means, on the host.
//!
//! A reference defines the result: which entries are read, how ties break, in which order sums run. Ids and tokens compare exactly
//! between a kernel and its reference; sums of floats agree within the bound that the kernel's test states, because a subgroup adds in an
//! order of its own. Nothing here is tuned; it is written to be read.

mod activations;
mod advance;
mod attention;
mod drafts;
mod expert_down;
mod gate_up;
mod gather;
mod heads;
mod lookup;
mod mat_vec;
mod propose;
pub mod random;
mod read;
mod rms_norm;
mod router;
mod sample;

pub use activations::Quantised;
pub use advance::advance;
pub use attention::{AttentionShape, attention};
pub use expert_down::expert_down;
pub use gate_up::gate_up;
pub use gather::gather;
pub use heads::{cache_row, rope_head};
pub use lookup::lookup;
pub use mat_vec::mat_vec;
pub use propose::propose;
pub use read::read;
pub use rms_norm::rms_norm;
pub use router::router;
pub use sample::{Candidate, sample, sample_best};

use crate::formats::{Format, decode};

/// A matrix of weights on the host, or a stack of them.
#[derive(Clone, Copy, Debug)]
pub struct HostMatrix<'a> {
    /// How the elements are stored.
    pub format: Format,
    /// Elements of a row.
    pub columns: usize,
    /// Rows, in order.
    pub bytes: &'a [u8],
}

impl HostMatrix<'_> {
    /// Decodes row `index` into `out`.
    ///
    /// # Panics
    /// If there is no such row, or `out` has not `columns` places.
    pub fn decode_row(&self, index: usize, out: &mut [f32]) {
        let row_bytes = self.format.row_bytes(self.columns);
        decode(self.format, &self.bytes[index * row_bytes..(index + 1) * row_bytes], out);
    }

    /// The dot product of row `index` with `x`; `row` is scratch of `columns` places.
    fn dot(&self, index: usize, x: &[f32], row: &mut [f32]) -> f32 {
        self.decode_row(index, row);
        dot(row, x)
    }
}

/// The sum of products, in eight interleaved partial sums.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    assert!(a.len() == b.len(), "vectors of {} and {} elements", a.len(), b.len());
    let mut sums = [0.0f32; 8];
    for (a, b) in a.chunks(8).zip(b.chunks(8)) {
        for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
            *sum += a * b;
        }
    }
    sums.iter().sum()
}

/// `x * sigmoid(x)`. (Elfwing, Uchibe, Doya, 2017.)
fn silu(x: f32) -> f32 {
    x / (1.0 + (-x).exp())
}
