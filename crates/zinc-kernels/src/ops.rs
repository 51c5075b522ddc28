//! The operations: typed arguments in, a [`Dispatch`](crate::Dispatch) out.
//!
//! Fields that are addresses are device addresses (`u64`) of the arrays whose shapes they state. Operands of which each row of the step has its own
//! are [`Rows`]; the shape stated is that of one row's. `state` is the address of a
//! [`StepState`](crate::step::StepState). Sizes that a kernel cannot handle are misuse and panic with the numbers; a model
//! that has them is refused before it gets here.

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
mod dry;
mod expert_down;
mod gate_up;
mod gate_up_mul;
mod gather;
mod head_gate;
mod join;
mod last_accepted;
mod last_rows;
mod list;
mod logprob_shares;
mod logprobs;
mod lookup;
mod mat_mul;
mod mat_vec;
mod mtp_norms;
mod propose;
mod read;
mod round;
mod route;
mod router;
mod router_mul;
mod sample;

pub use crate::delta::{DELTA_HEAD_SIZES, DeltaHeads, HeadOrder};
pub use crate::heads::{HeadNorm, Heads, MAX_HEAD_SIZE, Pairing};
pub use crate::splits::{GROUP_COUNTERS_BYTES, GroupValues};
pub use crate::tiles::{GRIDS_BYTES, TILE_BYTES, Tiles};
pub use adjust::{
    Adjust, MAX_CHAIN_VOCABULARY, STEP_MASK_OFFSET, items_bytes, moments_bytes, share_count, shares_bytes,
    step_input_bytes,
};
pub use advance::Advance;
pub use append::Append;
pub use attention::Attention;
pub use attention_rows::AttentionRows;
pub use cancel::Cancel;
pub use check_bytes::{CHECK_BYTES_RESULTS, CHECK_ROUND_PRODUCTS, CheckBytes};
pub use check_halves::{CHECK_HALVES_RESULTS, CheckHalves};
pub use choose::Choose;
pub use delta_conv::DeltaConv;
pub use delta_net::DeltaNet;
pub use dry::Dry;
pub use expert_down::{ExpertDown, SharedExpert};
pub use gate_up::{Activation, ExpertSelection, GateUp, GateUpBiases, MAX_EXPERTS, MAX_USED, Routing, Weighting};
pub use gate_up_mul::GateUpMul;
pub use gather::Gather;
pub use head_gate::{HeadGate, Opening};
pub use join::Join;
pub use last_accepted::LastAccepted;
pub use last_rows::LastRows;
pub use list::List;
pub use logprob_shares::{LogprobBuffers, LogprobShares, masses_bytes};
pub use logprobs::{LOGPROB_REPORT_BYTES, Logprobs};
pub use lookup::Lookup;
pub use mat_mul::MatMul;
pub use mat_vec::{MAX_PRODUCTS, MatVec, Product};
pub use mtp_norms::MtpNorms;
pub use propose::Propose;
pub use read::{READ_TILE_BYTES, Read};
pub use round::Round;
pub use route::Route;
pub use router::Router;
pub use router_mul::RouterMul;
pub use sample::{CANDIDATE_BYTES, Sample, candidate_count};

use crate::Target;
use crate::formats::Format;
use crate::step::Rows;

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

/// What the kernels of the sampler chain hand to each other.
#[derive(Clone, Copy, Debug, Default)]
pub struct SamplerBuffers {
    /// `[vocabulary]` u32, 16-byte aligned: 0 between steps. Not read without DRY.
    pub dry_lengths: Rows,
    /// [`items_bytes`].
    pub items: Rows,
    /// [`shares_bytes`].
    pub shares: Rows,
    /// [`moments_bytes`]. Neither written nor read without top-n-sigma.
    pub moments: Rows,
}

/// Something of which each lane has its own; of one ring slot, if each slot has its own too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PerLane {
    /// Device address of that of lane 0.
    pub address: u64,
    /// Bytes from one lane's to the next one's.
    pub stride: u32,
}

/// What matrix products compute with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ActFormat {
    /// IEEE binary32: products with decoded weights ([`reference::float_product`](crate::reference::float_product)), whose bits
    /// `docs/arithmetic.md` defines.
    F32,
    /// Integers of 14 bits with a scale for each 256 ([`reference::Q14`](crate::reference::Q14)): exact products with quantised weights, whose
    /// bits `docs/arithmetic.md` defines.
    #[default]
    Q14,
}

impl ActFormat {
    fn code(self) -> u32 {
        use crate::generated::activations::{ACT_F32, ACT_Q14};
        match self {
            Self::F32 => ACT_F32,
            Self::Q14 => ACT_Q14,
        }
    }
}

/// Rows of `columns` weights that a subgroup of so many lanes takes side by side, in products with [`ActFormat::Q14`]: lanes that a row's quarters
/// of groups have no use for take another row. The shaders' `LANE_ROWS`.
fn lane_rows(columns: u32, subgroup: u32) -> u32 {
    let quarters = columns.div_ceil(GROUP) * 4;
    (subgroup / quarters.next_power_of_two()).max(1)
}

/// Bytes of a row of `n` activations that are rounded to [`ActFormat::Q14`]: `shaders/include/activations.glsl` has the layout.
#[must_use]
pub fn rounded_bytes(n: u64) -> u64 {
    let groups = n.div_ceil(u64::from(GROUP));
    let planes = 2 * (groups * u64::from(GROUP) + u64::from(RUN));
    let sums = groups * u64::from(GROUP / RUN);
    planes + 4 * sums + (4 * groups).next_multiple_of(16) + 4 * sums
}

/// The vector that a matrix product takes.
#[derive(Clone, Copy, Debug)]
pub enum Input {
    /// `[columns]` f32. To meet [`ActFormat::Q14`], each workgroup rounds it for itself.
    Floats(Rows),
    /// `[columns]` f32, normalised by each workgroup, and then rounded like [`Input::Floats`].
    Normalised(Rows, Norm),
    /// [`rounded_bytes`], with [`ActFormat::Q14`] alone.
    Rounded(Rows),
}

impl Input {
    fn source(self) -> u32 {
        use crate::generated::operand::{FLOATS, NORMALISED, ROUNDED};
        match self {
            Self::Floats(_) => FLOATS,
            Self::Normalised(..) => NORMALISED,
            Self::Rounded(_) => ROUNDED,
        }
    }

    fn rows(self) -> Rows {
        match self {
            Self::Floats(rows) | Self::Normalised(rows, _) | Self::Rounded(rows) => rows,
        }
    }

    fn norm(self) -> Norm {
        if let Self::Normalised(_, norm) = self { norm } else { Norm::NONE }
    }

    /// How many of so many vectors a workgroup keeps: none that are rounded in memory.
    fn staged(self, vectors: u32) -> u32 {
        if matches!(self, Self::Rounded(_)) { 0 } else { vectors }
    }

    /// Panics if a workgroup cannot keep `elements` rounded elements, or the products cannot take this form of them.
    fn check(self, act: ActFormat, elements: u32, target: &Target) {
        let rounded = matches!(self, Self::Rounded(_));
        assert!(act == ActFormat::Q14 || !rounded, "products with f32 activations take f32");
        assert!(
            rounded || act == ActFormat::F32 || elements <= target.widest_staged(),
            "a workgroup keeps {elements} activations: {} are supported, beyond them they must be rounded before",
            target.widest_staged()
        );
    }
}

/// A root-mean-square normalisation.
#[derive(Clone, Copy, Debug)]
pub struct Norm {
    /// `[columns]` f32.
    pub weight: u64,
    /// Added to the mean square.
    pub epsilon: f32,
}

impl Norm {
    const NONE: Self = Self { weight: 0, epsilon: 0.0 };
}

/// Elements that one lane decodes at a time: row lengths are multiples of it.
pub const UNIT: u32 = 32;

/// Rows of the first half of a feed-forward layer are a multiple of this.
pub const RUN: u32 = crate::generated::activations::RUN;

/// The most activations that [`MatVec`] and [`ExpertDown`] should be left to round for themselves. More are rounded by [`Round`] before.
pub const MOST_STAGED: u32 = 8_192;

/// Activations that share a scale in [`ActFormat::Q14`].
pub const GROUP: u32 = 256;

/// A matrix of weights on the device, or a stack of them, one an expert. Its rows lie in planes: see [`Format::planes`].
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
        self.format.device_row_bytes(self.columns as usize) as u64
    }

    fn check_columns(&self) {
        assert!(
            self.columns.is_multiple_of(UNIT) && self.columns > 0,
            "a row of {} elements is not a whole number of units of {UNIT}",
            self.columns
        );
    }

    fn check(&self, act: ActFormat) {
        self.check_columns();
        assert!(
            act == ActFormat::F32 || !self.format.is_float(),
            "weights in {} meet f32 activations, not rounded ones",
            self.format
        );
    }
}
