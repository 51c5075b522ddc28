//! What each kernel means, on the host.
//!
//! A reference defines which entries are read, what is computed from them and how ties break. Ids, tokens and integers compare exactly. Nothing
//! here is tuned; it is written to be read. [`Q14`], [`quantised_product`], [`float_product`] and [`ordered_sum`] define every bit, by
//! `docs/arithmetic.md`, and so do the references of matrix products and of the choice of experts, but for exponentials, roots and divisions, which
//! are the device's. The others do not define the order in which floats are added: those sums agree within the bound that the kernel's test states.
//!
//! Each kernel has a file of its stem here. The other files hold what several references share, or a part of a kernel that is worth a
//! reference of its own, such as [`select_experts`], which is a part of `gate_up`.

mod adjust;
mod advance;
mod append;
mod attention;
mod attention_rows;
mod cancel;
mod check_bytes;
mod check_halves;
mod choose;
mod delta_conv;
mod delta_net;
mod drafts;
mod draw;
mod dry;
mod expert_down;
mod gate_up;
mod gate_up_mul;
mod gather;
mod head_gate;
mod heads;
mod join;
mod last_accepted;
mod last_rows;
mod list;
mod logprob_shares;
mod logprobs;
mod lookup;
pub mod mass;
mod mat_mul;
mod mat_vec;
mod mtp_norms;
mod ordered_sum;
mod products;
mod propose;
pub mod random;
mod read;
mod rms_norm;
mod round;
mod route;
mod router;
mod router_mul;
mod sample;
mod select_experts;
mod shares;
mod token_behind;

pub use adjust::{HistoryCounts, StepLimits, adjust, adjusted, window_counts};
pub use advance::advance;
pub use append::append;
pub use attention::{AttentionShape, attention};
pub use attention_rows::attention_rows;
pub use cancel::cancel;
pub use check_bytes::check_bytes;
pub use check_halves::check_halves;
pub use choose::{choose, survivors};
pub use delta_conv::delta_conv;
pub use delta_net::{delta_gates, delta_net};
pub use draw::draw;
pub use dry::dry;
pub use expert_down::{SharedExpert, expert_down};
pub use gate_up::{GateUpBiases, activated, gate_up};
pub use gate_up_mul::gate_up_mul;
pub use gather::gather;
pub use head_gate::head_gate;
pub use heads::{cache_row, rope_head};
pub use join::join;
pub use last_accepted::last_accepted;
pub use last_rows::last_rows;
pub use list::list;
pub use logprob_shares::logprob_shares;
pub use logprobs::logprobs;
pub use lookup::lookup;
pub use mat_mul::mat_mul;
pub use mat_vec::mat_vec;
pub use mtp_norms::mtp_norms;
pub use ordered_sum::ordered_sum;
pub use products::{float_product, quantised_product};
pub use propose::propose;
pub use read::read;
pub use rms_norm::rms_norm;
pub use round::Q14;
pub use route::{route, tile_grid};
pub use router::router;
pub use router_mul::router_mul;
pub use sample::{Candidate, sample, sample_best};
pub use select_experts::select_experts;
pub use shares::{Item, ShareList, order_key};
pub use token_behind::token_behind;

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

    /// The product of row `index` with `x`, as [`float_product`] defines it.
    fn product(&self, index: usize, x: &[f32]) -> f32 {
        let row_bytes = self.format.row_bytes(self.columns);
        float_product(self.format, &self.bytes[index * row_bytes..][..row_bytes], x)
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

/// `1 / (1 + exp(-x))`.
#[must_use]
pub fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}

/// `x * sigmoid(x)`. (Elfwing, Uchibe, Doya, 2017.)
fn silu(x: f32) -> f32 {
    x / (1.0 + (-x).exp())
}
