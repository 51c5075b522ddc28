//! Attention of one token over the cache, in shares.

use super::CacheFormat;
use crate::generated::attention::{Constants, KERNEL, MAX_TILE, Push};
use crate::{Dispatch, Target};

/// The largest head, in elements.
pub const MAX_HEAD_SIZE: u32 = crate::generated::attention::MAX_HEAD_SIZE;

/// Positions that one workgroup takes at a time.
const TILE: u32 = 128;
const _: () = assert!(TILE <= MAX_TILE);

/// The unnormalised shares of attention, for [`AttentionMerge`](super::AttentionMerge) to join.
#[derive(Clone, Copy, Debug)]
pub struct Attention {
    /// The step state: positions up to and including its `position` are attended.
    pub state: u64,
    /// `[query_heads, head_size]` f32.
    pub q: u64,
    /// `[context, kv_heads * head_size]`.
    pub key_cache: u64,
    /// `[context, kv_heads * head_size]`.
    pub value_cache: u64,
    /// `[query_heads, splits, head_size + 2]` f32.
    pub partials: u64,
    /// How keys are stored.
    pub key_format: CacheFormat,
    /// How values are stored.
    pub value_format: CacheFormat,
    /// Query heads: a multiple of `kv_heads`.
    pub query_heads: u32,
    /// Key and value heads.
    pub kv_heads: u32,
    /// Elements of a head: a multiple of 4, at most [`MAX_HEAD_SIZE`].
    pub head_size: u32,
    /// Shares the context is split into.
    pub splits: u32,
}

impl Attention {
    /// A number of splits for a context of `context` positions: one for each eight tiles, at most 16. It bounds the work of one
    /// workgroup while the merge stays small.
    #[must_use]
    pub fn splits_for(context: u32) -> u32 {
        context.div_ceil(8 * TILE).clamp(1, 16)
    }

    /// The launch: one workgroup a split and query head, whatever the position.
    #[must_use]
    pub fn dispatch(&self, target: &Target) -> Dispatch {
        assert!(
            self.head_size <= MAX_HEAD_SIZE && self.head_size.is_multiple_of(4),
            "heads of {} elements: a multiple of 4 up to {MAX_HEAD_SIZE} is supported",
            self.head_size
        );
        assert!(
            self.kv_heads > 0 && self.query_heads.is_multiple_of(self.kv_heads),
            "{} query heads do not share {} key and value heads evenly",
            self.query_heads,
            self.kv_heads
        );
        let constants = Constants {
            workgroup: TILE,
            subgroup: target.subgroup,
            key_format: self.key_format.code(),
            value_format: self.value_format.code(),
        };
        let push = Push {
            state: self.state,
            q: self.q,
            key_cache: self.key_cache,
            value_cache: self.value_cache,
            partials: self.partials,
            query_heads: self.query_heads,
            kv_heads: self.kv_heads,
            head_size: self.head_size,
            splits: self.splits,
            scale: 1.0 / (self.head_size as f32).sqrt(),
            ..Push::default()
        };
        Dispatch::new(&KERNEL, constants.values(), &push, [self.splits, self.query_heads, 1])
    }
}
