//! Attention for many rows.

use super::attention::SUBGROUPS;
use super::{CacheFormat, Heads, Norm, Pairing};
use crate::generated::attention_rows::{Constants, KERNEL, Push};
use crate::step::{Rows, StepShape};
use crate::{Dispatch, Target};

/// The most subgroups in a workgroup.
const MOST_SETS: u32 = 4;

/// Normalises (where asked) and rotates the queries of each row, and attends to the cache, where [`Append`](super::Append) has put the keys and
/// values of the step's rows: what [`Attention`](super::Attention) computes, to the bit.
#[derive(Clone, Copy, Debug)]
pub struct AttentionRows {
    /// The step state: positions up to and including a row's are attended.
    pub state: u64,
    /// `[query_heads, head_size]` f32.
    pub q: Rows,
    /// RMS normalisation of each query head, `[head_size]`, where the model has it.
    pub norm: Option<Norm>,
    /// `[context, rotated / 2]` pairs (cos, sin), f32.
    pub rotation: u64,
    /// `[context, kv_heads * head_size]`.
    pub key_cache: u64,
    /// `[context, kv_heads * head_size]`.
    pub value_cache: u64,
    /// `[rows]` of [`Heads::partials`] f32.
    pub partials: u64,
    /// `[query_heads, head_size]` f32.
    pub y: Rows,
    /// How keys are stored.
    pub key_format: CacheFormat,
    /// How values are stored.
    pub value_format: CacheFormat,
    /// The shape.
    pub heads: Heads,
    /// Leading elements of a head that rotate: even.
    pub rotated: u32,
    /// Which of them rotate together.
    pub pairing: Pairing,
    /// Positions that the cache has room for.
    pub context: u32,
    /// The rows that the launch has subgroups for.
    pub shape: StepShape,
}

impl AttentionRows {
    /// The launch: one subgroup a row and group of query heads, whatever the position.
    ///
    /// # Panics
    /// If the heads' number or size does not suit the kernel, or the partial results of all rows take 4 GiB or more.
    #[must_use]
    pub fn dispatch(&self, target: &Target) -> Dispatch {
        self.heads.check(self.rotated);
        let Heads { query_heads, kv_heads, head_size } = self.heads;
        let heads = self.heads.at_a_time(target, self.context);
        let splits = self.heads.splits(target, self.context);
        self.heads.check_partials(splits, self.shape);
        let shares = target.subgroups_of(SUBGROUPS);
        let mut sets = target.subgroups_of(MOST_SETS);
        while sets > 1 && sets * self.heads.set_bytes(heads, shares) > target.shared_bytes {
            sets /= 2;
        }
        let norm = self.norm.unwrap_or(Norm::NONE);
        let constants = Constants {
            workgroup: sets * target.subgroup,
            subgroup: target.subgroup,
            head_size,
            heads,
            key_format: self.key_format.code(),
            value_format: self.value_format.code(),
            pairing: self.pairing.code(),
            normalise: u32::from(self.norm.is_some()),
            rotated: self.rotated,
            kv_heads,
            epsilon: norm.epsilon.to_bits(),
            groups: query_heads / heads / kv_heads,
            shares,
        };
        let push = Push {
            state: self.state,
            q: self.q.address,
            q_norm: norm.weight,
            rotation: self.rotation,
            key_cache: self.key_cache,
            value_cache: self.value_cache,
            partials: self.partials,
            y: self.y.address,
            rows: self.shape.rows(),
            splits,
            q_stride: self.q.stride_in(self.shape),
            y_stride: self.y.stride_in(self.shape),
        };
        let grid = [query_heads / heads, 1, self.shape.rows().div_ceil(sets)];
        Dispatch::new(&KERNEL, constants.values(), &push, grid)
    }
}
