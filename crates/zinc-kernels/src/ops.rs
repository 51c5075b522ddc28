//! The operations: typed arguments in, a [`Dispatch`](crate::Dispatch) out.
//!
//! Fields that are addresses are device addresses (`u64`) of the arrays whose shapes they state. `state` is the address of a
//! [`StepState`](crate::generated::state::StepState). Sizes that a kernel cannot handle are misuse and panic with the numbers; a model
//! that has them is refused before it gets here.

mod advance;
mod attention;
mod attention_merge;
mod expert_down;
mod gate_up;
mod gather;
mod mat_vec;
mod rms_norm;
mod rope_kv;
mod router;
mod sample;

pub use advance::Advance;
pub use attention::{Attention, MAX_HEAD_SIZE};
pub use attention_merge::AttentionMerge;
pub use expert_down::ExpertDown;
pub use gate_up::{GateUp, Routing};
pub use gather::Gather;
pub use mat_vec::{Epilogue, MatVec};
pub use rms_norm::RmsNorm;
pub use rope_kv::{HeadNorm, Pairing, RopeKv};
pub use router::{MAX_EXPERTS, Router, Weighting};
pub use sample::{CANDIDATE_BYTES, Sample, candidate_count};

use crate::formats::Format;

/// How keys or values are stored in the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CacheFormat {
    /// IEEE binary32.
    F32,
    /// IEEE binary16, rounded to nearest even.
    #[default]
    F16,
}

impl CacheFormat {
    /// Bytes of one element.
    #[must_use]
    pub fn bytes(self) -> u32 {
        match self {
            Self::F32 => 4,
            Self::F16 => 2,
        }
    }

    fn code(self) -> u32 {
        use crate::generated::cache::{CACHE_F16, CACHE_F32};
        match self {
            Self::F32 => CACHE_F32,
            Self::F16 => CACHE_F16,
        }
    }
}

/// Elements that one lane decodes at a time: row lengths are multiples of it.
pub const UNIT: u32 = 32;

/// A matrix of weights on the device, or a stack of them, one an expert.
#[derive(Clone, Copy, Debug)]
pub struct Matrix {
    /// Address of the first row.
    pub address: u64,
    /// How the elements are stored.
    pub format: Format,
    /// Rows (outputs) of one matrix.
    pub rows: u32,
    /// Columns (inputs): a multiple of [`UNIT`].
    pub columns: u32,
}

impl Matrix {
    fn row_bytes(&self) -> u64 {
        assert!(
            self.columns.is_multiple_of(UNIT) && self.columns > 0,
            "a row of {} elements is not a whole number of units of {UNIT}",
            self.columns
        );
        self.format.row_bytes(self.columns as usize) as u64
    }
}
