//! Head normalisation, rotary embedding and the append to the KV cache.

use super::{CacheFormat, MAX_HEAD_SIZE};
use crate::generated::rope_kv::{Constants, HALVES, INTERLEAVED, KERNEL, Push};
use crate::{Dispatch, Target};

/// Which elements of a head rotate together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pairing {
    /// `i` with `i + rotated / 2` (GPT-NeoX; the Qwen family).
    Halves,
    /// `2 i` with `2 i + 1` (the original; LLaMA files in GGUF).
    Interleaved,
}

/// Weights of the normalisation of query and key heads.
#[derive(Clone, Copy, Debug)]
pub struct HeadNorm {
    /// `[head_size]` f32.
    pub q: u64,
    /// `[head_size]` f32.
    pub k: u64,
    /// Added to the mean square.
    pub epsilon: f32,
}

/// Normalises (where asked) and rotates the queries and keys of one token, and appends its keys and values to the cache.
#[derive(Clone, Copy, Debug)]
pub struct RopeKv {
    /// The step state, whose `position` is the angle's and the cache's.
    pub state: u64,
    /// `[query_heads, head_size]` f32, changed in place.
    pub q: u64,
    /// `[kv_heads, head_size]` f32.
    pub k: u64,
    /// `[kv_heads, head_size]` f32.
    pub v: u64,
    /// RMS normalisation of each head, where the model has it.
    pub norm: Option<HeadNorm>,
    /// `[context, rotated / 2]` pairs (cos, sin), f32.
    pub rotation: u64,
    /// `[context, kv_heads * head_size]`.
    pub key_cache: u64,
    /// `[context, kv_heads * head_size]`.
    pub value_cache: u64,
    /// How keys are stored.
    pub key_format: CacheFormat,
    /// How values are stored.
    pub value_format: CacheFormat,
    /// Query heads.
    pub query_heads: u32,
    /// Key and value heads.
    pub kv_heads: u32,
    /// Elements of a head: at most [`MAX_HEAD_SIZE`].
    pub head_size: u32,
    /// Leading elements of a head that rotate: even.
    pub rotated: u32,
    /// Which of them rotate together.
    pub pairing: Pairing,
}

impl RopeKv {
    /// The launch: one workgroup a head, queries first, then keys, then values.
    #[must_use]
    pub fn dispatch(&self, target: &Target) -> Dispatch {
        assert!(
            self.head_size <= MAX_HEAD_SIZE && self.rotated <= self.head_size && self.rotated.is_multiple_of(2),
            "heads of {} elements, {} rotated: at most {MAX_HEAD_SIZE}, of which an even number rotate",
            self.head_size,
            self.rotated
        );
        let constants = Constants {
            workgroup: target.wide_workgroup(self.head_size),
            subgroup: target.subgroup,
            pairing: match self.pairing {
                Pairing::Halves => HALVES,
                Pairing::Interleaved => INTERLEAVED,
            },
            normalise: u32::from(self.norm.is_some()),
            key_format: self.key_format.code(),
            value_format: self.value_format.code(),
        };
        let norm = self.norm.unwrap_or(HeadNorm { q: 0, k: 0, epsilon: 0.0 });
        let push = Push {
            state: self.state,
            q: self.q,
            k: self.k,
            v: self.v,
            q_norm: norm.q,
            k_norm: norm.k,
            rotation: self.rotation,
            key_cache: self.key_cache,
            value_cache: self.value_cache,
            query_heads: self.query_heads,
            kv_heads: self.kv_heads,
            head_size: self.head_size,
            rotated: self.rotated,
            epsilon: norm.epsilon,
            ..Push::default()
        };
        Dispatch::new(&KERNEL, constants.values(), &push, [self.query_heads + 2 * self.kv_heads, 1, 1])
    }
}
