//! The append of a step's keys and values to the KV cache, and the preparation of its queries.

use super::{CacheFormat, HeadNorm, Heads, Pairing};
use crate::generated::append::{Constants, KERNEL, Push};
use crate::step::{Rows, StepShape};
use crate::{Dispatch, Target};

/// Normalises (where asked) and rotates the queries, where there are any, and the keys of each row, and stores its keys and values in the cache, to the bit as
/// [`Attention`](super::Attention) does for itself.
#[derive(Clone, Copy, Debug)]
pub struct Append {
    /// The step state: a row's position is its angle's and its place in the cache.
    pub state: u64,
    /// `[query_heads, head_size]` f32, prepared in place; `None`: there are keys and values alone.
    pub q: Option<Rows>,
    /// `[kv_heads, head_size]` f32.
    pub k: Rows,
    /// `[kv_heads, head_size]` f32.
    pub v: Rows,
    /// RMS normalisation of each head, where the model has it.
    pub norm: Option<HeadNorm>,
    /// `[context, rotated / 2]` pairs (cos, sin), f32.
    pub rotation: u64,
    /// `[positions, kv_heads * head_size]`, of all lanes.
    pub key_cache: u64,
    /// `[positions, kv_heads * head_size]`, of all lanes.
    pub value_cache: u64,
    /// Pages that the tables behind the state have room for, for each lane; 0 if there are no tables.
    pub lane_pages: u32,
    /// Pages of the ring that each lane has instead, where the layer has a window; 0 if there are no rings.
    pub ring_pages: u32,
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
    /// The rows that the launch has workgroups for.
    pub shape: StepShape,
}

impl Append {
    /// The launch: a subgroup for each query head of each row, and for each key head with its value.
    ///
    /// # Panics
    /// If the heads' number or size does not suit the kernel.
    #[must_use]
    pub fn dispatch(&self, target: &Target) -> Dispatch {
        self.heads.check(self.rotated);
        let Heads { query_heads, kv_heads, head_size } = self.heads;
        let (q, query_heads) = self.q.map_or((Rows::one(0), 0), |q| (q, query_heads));
        let norm = self.norm.unwrap_or(HeadNorm::NONE);
        let constants = Constants {
            workgroup: target.workgroup_of(4),
            subgroup: target.subgroup,
            head_size,
            key_format: self.key_format.code(),
            value_format: self.value_format.code(),
            pairing: self.pairing.code(),
            normalise: u32::from(self.norm.is_some()),
            rotated: self.rotated,
            kv_heads,
            epsilon: norm.epsilon.to_bits(),
            lane_pages: self.lane_pages,
            ring_pages: self.ring_pages,
        };
        let push = Push {
            state: self.state,
            q: q.address,
            k: self.k.address,
            v: self.v.address,
            q_norm: norm.q,
            k_norm: norm.k,
            rotation: self.rotation,
            key_cache: self.key_cache,
            value_cache: self.value_cache,
            query_heads,
            q_stride: q.stride_in(self.shape),
            k_stride: self.k.stride_in(self.shape),
            v_stride: self.v.stride_in(self.shape),
        };
        let subgroups = kv_heads + query_heads;
        let grid = target.grid(subgroups.div_ceil(constants.workgroup / target.subgroup));
        Dispatch::new(&KERNEL, constants.values(), &push, self.shape.grid(grid))
    }
}
