//! Attention of a step's rows: head norms, rotary embedding, the append to the KV cache, and attention over it.

use super::{ActFormat, Append, AttentionRows, CacheFormat, GROUP, Norm, RUN};
use crate::generated::attention::{Constants, KERNEL, Push};
use crate::generated::attention_share::{MAX_SHARES, STEPS};
use crate::generated::heads::{HALVES, INTERLEAVED};
use crate::step::{Rows, StepShape};
use crate::tuning::MOST_WORKGROUPS;
use crate::{Dispatch, Target};

/// The largest head, in elements.
pub const MAX_HEAD_SIZE: u32 = 256;

/// Subgroups in a workgroup.
pub(super) const SUBGROUPS: u32 = 8;

/// The most shares that a context is split into.
const MAX_SPLITS: u32 = MAX_SHARES;

/// Which elements of a head rotate together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pairing {
    /// `i` with `i + rotated / 2` (GPT-NeoX; the Qwen family).
    Halves,
    /// `2 i` with `2 i + 1` (the original; LLaMA files in GGUF).
    Interleaved,
}

impl Pairing {
    pub(super) fn code(self) -> u32 {
        match self {
            Self::Halves => HALVES,
            Self::Interleaved => INTERLEAVED,
        }
    }
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

/// The shape of attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heads {
    /// Query heads: a multiple of `kv_heads`.
    pub query_heads: u32,
    /// Key and value heads.
    pub kv_heads: u32,
    /// Elements of a head: a multiple of 16, at most [`MAX_HEAD_SIZE`].
    pub head_size: u32,
}

impl Heads {
    /// Query heads of one workgroup: a divisor of those that share a key and value head.
    pub(super) fn at_a_time(&self, target: &Target, context: u32) -> u32 {
        let shared = self.query_heads / self.kv_heads;
        let halved = context < target.tuning.long_context;
        let most = target.tuning.attention_heads >> u32::from(halved);
        // Registers grow with the heads' size, too.
        let most = (most * 128 / self.head_size.max(128)).max(1);
        let fits = |heads: u32| self.shared_bytes(heads) <= target.shared_bytes;
        (1..=most.min(shared)).rev().find(|heads| shared.is_multiple_of(*heads) && fits(*heads)).unwrap_or(1)
    }

    /// Shared memory of a workgroup with so many heads: queries, a share for each subgroup, and three numbers of each share and head.
    fn shared_bytes(&self, heads: u32) -> u32 {
        self.set_bytes(heads, SUBGROUPS) + 16
    }

    /// Shared memory for so many heads of a row, in a workgroup that keeps so many shares of a split.
    pub(super) fn set_bytes(&self, heads: u32, shares: u32) -> u32 {
        heads * (self.head_size * 4 * (1 + shares) + 3 * 4 * MAX_SPLITS)
    }

    /// Positions that a subgroup takes at a time, as the kernel works it out.
    fn tile(&self, target: &Target) -> u32 {
        let lanes = if self.head_size > 128 && target.subgroup > 8 { 16 } else { 8 };
        target.subgroup / lanes * STEPS
    }

    /// Whether a workgroup of attention over a context of `context` positions has whole groups of [`GROUP`] elements of the result, so that it can
    /// round them.
    #[must_use]
    pub fn whole_groups(&self, target: &Target, context: u32) -> bool {
        (self.at_a_time(target, context) * self.head_size).is_multiple_of(GROUP)
    }

    /// Shares that a context of `context` positions is split into: as many as it has tiles for, but no more workgroups than keep the device busy.
    /// Where idle ones are to warm the cache, they are as many in any case.
    pub(super) fn splits(&self, target: &Target, context: u32) -> u32 {
        let groups = self.query_heads / self.at_a_time(target, context);
        let busy = target.tuning.attention_workgroups.div_ceil(groups).clamp(1, self.most_splits());
        let useful = context.div_ceil(self.tile(target) * SUBGROUPS).max(1);
        if target.tuning.warm_cache { busy } else { busy.min(useful) }
    }

    /// The most shares that any tuning splits a context into: there is a workgroup or more for each key and value head.
    fn most_splits(&self) -> u32 {
        MOST_WORKGROUPS.div_ceil(self.kv_heads).min(MAX_SPLITS)
    }

    /// Elements of [`Attention::partials`], whatever the context and the tuning.
    #[must_use]
    pub fn partials(&self) -> u64 {
        u64::from(self.most_splits()) * u64::from(self.query_heads) * u64::from(self.head_size + 4)
    }

    /// Panics if kernels cannot reach the partial results of all rows.
    pub(super) fn check_partials(&self, splits: u32, shape: StepShape) {
        let of_row = u64::from(splits) * u64::from(self.query_heads) * u64::from(self.head_size + 4);
        let partials = of_row * u64::from(shape.rows());
        assert!(
            u32::try_from(4 * partials).is_ok(),
            "{partials} partial results of {} rows: less than 4 GiB is supported for all of them",
            shape.rows()
        );
    }

    /// Panics if the heads' number or size, or how many of their elements rotate, does not suit the kernels.
    pub(super) fn check(&self, rotated: u32) {
        let &Self { query_heads, kv_heads, head_size } = self;
        assert!(
            head_size <= MAX_HEAD_SIZE && head_size.is_multiple_of(RUN),
            "heads of {head_size} elements: a multiple of {RUN} up to {MAX_HEAD_SIZE} is supported",
        );
        assert!(
            rotated <= head_size && rotated.is_multiple_of(2),
            "{rotated} of {head_size} elements rotate: an even number of them is supported",
        );
        assert!(
            kv_heads > 0 && query_heads.is_multiple_of(kv_heads),
            "{query_heads} query heads do not share {kv_heads} key and value heads evenly",
        );
    }
}

/// Normalises (where asked) and rotates the queries and keys of each row, appends its keys and values to the cache, and attends.
#[derive(Clone, Copy, Debug)]
pub struct Attention {
    /// The step state: a row's position is its angle's and its place in the cache, and positions up to and including it are attended.
    pub state: u64,
    /// `[query_heads, head_size]` f32.
    pub q: Rows,
    /// `[kv_heads, head_size]` f32.
    pub k: Rows,
    /// `[kv_heads, head_size]` f32.
    pub v: Rows,
    /// RMS normalisation of each head, where the model has it.
    pub norm: Option<HeadNorm>,
    /// `[context, rotated / 2]` pairs (cos, sin), f32.
    pub rotation: u64,
    /// `[context, kv_heads * head_size]`.
    pub key_cache: u64,
    /// `[context, kv_heads * head_size]`.
    pub value_cache: u64,
    /// `[rows]` of [`Heads::partials`] f32.
    pub partials: u64,
    /// `[rows, query_heads]` u32 that are 0, and are left 0.
    pub counters: u64,
    /// `[query_heads, head_size]` f32, or rounded.
    pub y: Rows,
    /// Whether `y` is stored rounded. A workgroup must then have whole groups of its elements: [`Heads::whole_groups`] says whether it does.
    pub rounded: bool,
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
    /// Address and bytes, a multiple of 16, of what the operation that follows will read: splits that have nothing to do bring it into the cache.
    pub next: Option<(u64, u32)>,
    /// Positions that the cache has room for.
    pub context: u32,
    /// The rows that the launch has workgroups for.
    pub shape: StepShape,
}

impl Attention {
    /// The two operations that compute the same in steps of many rows: the append, and attention to what it has stored. Their result is not
    /// rounded.
    #[must_use]
    pub fn in_two(&self) -> (Append, AttentionRows) {
        let &Self { state, q, k, v, norm, rotation, key_cache, value_cache, partials, y, .. } = self;
        let &Self { key_format, value_format, heads, rotated, pairing, context, shape, .. } = self;
        let norm_of =
            |weight: fn(&HeadNorm) -> u64| norm.map(|norm| Norm { weight: weight(&norm), epsilon: norm.epsilon });
        let append = Append {
            state,
            k,
            v,
            norm: norm_of(|norm| norm.k),
            rotation,
            key_cache,
            value_cache,
            key_format,
            value_format,
            heads,
            rotated,
            pairing,
            shape,
        };
        let rows = AttentionRows {
            state,
            q,
            norm: norm_of(|norm| norm.q),
            rotation,
            key_cache,
            value_cache,
            partials,
            y,
            key_format,
            value_format,
            heads,
            rotated,
            pairing,
            context,
            shape,
        };
        (append, rows)
    }

    /// The launch: one workgroup a split, group of query heads and row, whatever the position.
    ///
    /// # Panics
    /// If the heads' number or size does not suit the kernel, or the partial results of all rows take 4 GiB or more.
    #[must_use]
    pub fn dispatch(&self, target: &Target) -> Dispatch {
        self.heads.check(self.rotated);
        let Heads { query_heads, kv_heads, head_size } = self.heads;
        let heads = self.heads.at_a_time(target, self.context);
        assert!(
            !self.rounded || self.heads.whole_groups(target, self.context),
            "{heads} heads of {head_size} elements are not whole groups of {GROUP}"
        );
        let constants = Constants {
            workgroup: target.workgroup_of(SUBGROUPS),
            subgroup: target.subgroup,
            head_size,
            heads,
            key_format: self.key_format.code(),
            value_format: self.value_format.code(),
            pairing: self.pairing.code(),
            normalise: u32::from(self.norm.is_some()),
            out: if self.rounded { ActFormat::Q14 } else { ActFormat::F32 }.code(),
            rotated: self.rotated,
            kv_heads,
            epsilon: self.norm.map_or(0.0, |norm| norm.epsilon).to_bits(),
            groups: query_heads / heads / kv_heads,
        };
        let norm = self.norm.unwrap_or(HeadNorm { q: 0, k: 0, epsilon: Norm::NONE.epsilon });
        let push = Push {
            state: self.state,
            q: self.q.address,
            k: self.k.address,
            v: self.v.address,
            q_norm: norm.q,
            k_norm: norm.k,
            rotation: self.rotation,
            key_cache: self.key_cache,
            value_cache: self.value_cache,
            partials: self.partials,
            y: self.y.address,
            counters: self.counters,
            next: self.next.map_or(0, |(address, _)| address),
            next_bytes: self.next.map_or(0, |(_, bytes)| bytes),
            q_stride: self.q.stride_in(self.shape),
            k_stride: self.k.stride_in(self.shape),
            v_stride: self.v.stride_in(self.shape),
            y_stride: self.y.stride_in(self.shape),
            ..Push::default()
        };
        let splits = self.heads.splits(target, self.context);
        self.heads.check_partials(splits, self.shape);
        let grid = self.shape.grid([splits, query_heads / heads, 1]);
        Dispatch::new(&KERNEL, constants.values(), &push, grid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tuning;

    /// However many workgroups a tuning asks for, and whatever the context, the shares of a launch fit into what is reserved for them.
    #[test]
    fn partials_have_room_for_the_shares_of_every_tuning() {
        for (query_heads, kv_heads, head_size) in [(32, 4, 128), (32, 32, 64), (14, 2, 64), (8, 1, 256), (71, 1, 64)] {
            let heads = Heads { query_heads, kv_heads, head_size };
            for attention_workgroups in [1, 4, 100, 128, 129, 1_000] {
                for (attention_heads, context) in [(1, 100), (4, 4_096), (4, 40_000), (16, 40_000)] {
                    let mut target = Target::new(32);
                    target.tuning = Tuning { attention_workgroups, attention_heads, ..Tuning::CARD };
                    let splits = heads.splits(&target, context);
                    let used = u64::from(splits) * u64::from(query_heads) * u64::from(head_size + 4);
                    assert!(used <= heads.partials(), "{heads:?}, {attention_workgroups} workgroups: {used} used");
                }
            }
        }
    }

    /// The shader works out its tile and its shared memory from the same numbers as [`Heads`]. When one of these lines changes, so must
    /// [`Heads::tile`] or [`Heads::shared_bytes`].
    #[test]
    fn the_shader_has_the_tile_and_the_shared_memory_that_the_host_assumes() {
        let shader = include_str!("../../../../shaders/include/attention_share.glsl");
        for line in [
            "const uint PARTS = HEAD_SIZE / 4;",
            "const uint ROW_LANES = HEAD_SIZE > 128 && SUBGROUP > 8 ? 16 : 8;",
            "const uint ROWS = SUBGROUP / ROW_LANES;",
            "const uint TILE = ROWS * STEPS;",
        ] {
            assert!(shader.contains(line), "{line}");
        }
        let shared: Vec<&str> = shader
            .lines()
            .filter_map(|line| line.strip_prefix("shared "))
            .filter_map(|line| line.split(';').next())
            .collect();
        let expected = [
            "vec4 query[SETS * HEADS * PARTS]",
            "vec4 joined[SETS * SHARES * HEADS * PARTS]",
            "float maxima[SETS * MAX_SHARES * HEADS]",
            "float sums[SETS * MAX_SHARES * HEADS]",
            "float keeps[SETS * MAX_SHARES * HEADS]",
        ];
        assert_eq!(shared, expected);
        let heads = Heads { query_heads: 4, kv_heads: 4, head_size: 128 };
        // Three heads: queries, shares of eight subgroups, three arrays of 64 shares; and the word of arrivals, in 16 bytes.
        assert_eq!(heads.shared_bytes(3), 3 * (128 * 4 + 8 * 128 * 4 + 3 * 64 * 4) + 16);
    }
}
