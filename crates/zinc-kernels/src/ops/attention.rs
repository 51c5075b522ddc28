//! Attention of a step's rows: head norms, rotary embedding, the append to the KV cache, and attention over it.

use super::{ActFormat, Append, AttentionRows, CacheFormat, GROUP};
use crate::generated::attention::{Constants, KERNEL, Push};
use crate::generated::attention_tile::SPLIT;
use crate::generated::attention_units as units;
use crate::generated::half_fragments::TEAM;
use crate::heads::{HeadNorm, Heads, Pairing, Reach, SUBGROUPS};
use crate::step::{Rows, StepShape};
use crate::{Dispatch, Target};

const _: () = assert!(size_of::<Push>() == size_of::<units::Push>(), "both forms of the kernel have the same operands");

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
    /// `[positions, kv_heads * head_size]`, of all lanes.
    pub key_cache: u64,
    /// `[positions, kv_heads * head_size]`, of all lanes.
    pub value_cache: u64,
    /// Pages that the tables behind the state have room for, for each lane; 0 if there are no tables.
    pub lane_pages: u32,
    /// Pages of the ring that each lane has instead, where the layer has a window; 0 if there are no rings.
    pub ring_pages: u32,
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
    /// Positions that a sequence may have.
    pub context: u32,
    /// How many keys each row attends to, its own and those before it; `None`: all.
    pub window: Option<u32>,
    /// `[query_heads]` f32: a score of each query head that joins the maximum and the sum of the softmax, and has no value. Not where heads are normalised.
    pub sinks: Option<u64>,
    /// The rows that the launch has workgroups for.
    pub shape: StepShape,
}

impl Attention {
    /// The two operations that compute the same in steps of many rows: the append, which prepares the queries too, and attention to what it has
    /// stored. Their result is not rounded.
    #[must_use]
    pub fn in_two(&self) -> (Append, AttentionRows) {
        let &Self { state, q, k, v, norm, rotation, key_cache, value_cache, lane_pages, ring_pages, y, .. } = self;
        let &Self { key_format, value_format, heads, rotated, pairing, context, window, sinks, shape, .. } = self;
        let append = Append {
            state,
            q: Some(q),
            k,
            v,
            norm,
            rotation,
            key_cache,
            value_cache,
            lane_pages,
            ring_pages,
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
            key_cache,
            value_cache,
            lane_pages,
            ring_pages,
            y,
            key_format,
            value_format,
            heads,
            context,
            window,
            sinks,
            shape,
        };
        (append, rows)
    }

    /// The launch: one workgroup a split, group of query heads and row, whatever the position. By matrix units a workgroup may take several splits, and the rows
    /// of a step share out its workgroups.
    ///
    /// # Panics
    /// If the heads' number or size does not suit the kernel, the partial results of all rows take 4 GiB or more, the window has no keys, or there are both
    /// norms and sinks.
    #[must_use]
    pub fn dispatch(&self, target: &Target) -> Dispatch {
        self.heads.check(self.rotated);
        let Heads { query_heads, kv_heads, head_size } = self.heads;
        let formats = [self.key_format, self.value_format];
        let units = self.heads.units(target, formats);
        let reach = Reach::new(self.context, self.window);
        let (heads, splits, room) = match units {
            Some(_) => {
                let splits = self.heads.split_workgroups(target, reach);
                (self.heads.in_fragment(), splits, reach.turns(SPLIT).max(splits))
            }
            None => {
                let splits = self.heads.splits(target, reach);
                (self.heads.at_a_time(target, self.context), splits, splits)
            }
        };
        assert!(
            !self.rounded || self.heads.whole_groups(target, formats, self.context),
            "{heads} heads of {head_size} elements are not whole groups of {GROUP}"
        );
        self.heads.check_partials(room, self.shape);
        assert!(self.norm.is_none() || self.sinks.is_none(), "attention with norms of heads has no operand for sinks");
        let norm = self.norm.unwrap_or(HeadNorm::NONE);
        let push = Push {
            state: self.state,
            q: self.q.address,
            k: self.k.address,
            v: self.v.address,
            q_norm: self.sinks.unwrap_or(norm.q),
            k_norm: norm.k,
            rotation: self.rotation,
            key_cache: self.key_cache,
            value_cache: self.value_cache,
            partials: self.partials,
            y: self.y.address,
            counters: self.counters,
            next: self.next.map_or(0, |(address, _)| address),
            next_bytes: self.next.map_or(0, |(_, bytes)| bytes),
            splits: room,
            q_stride: self.q.stride_in(self.shape),
            k_stride: self.k.stride_in(self.shape),
            v_stride: self.v.stride_in(self.shape),
            y_stride: self.y.stride_in(self.shape),
        };
        let (subgroup, rotated, groups) = (target.subgroup, self.rotated, query_heads / heads / kv_heads);
        let (pairing, normalise) = (self.pairing.code(), u32::from(self.norm.is_some()));
        let out = if self.rounded { ActFormat::Q14 } else { ActFormat::F32 }.code();
        let epsilon = norm.epsilon.to_bits();
        let (window, sinks) = (reach.window(), u32::from(self.sinks.is_some()));
        match units {
            Some(form) => {
                // The rows of a step share out its workgroups by the lengths of their contexts. Launched for each row, most of many would find nothing to do, and to
                // launch them takes as long as attention does.
                let rows = self.shape.rows();
                let (grid, sharing_rows) = match rows >= target.tuning.attention_sharing_rows {
                    true => ([splits.max(rows + splits / 2), query_heads / heads, 1], rows),
                    false => (self.shape.grid([splits, query_heads / heads, 1]), 0),
                };
                let constants = units::Constants {
                    workgroup: self.heads.teams(target) * TEAM,
                    subgroup,
                    head_size,
                    heads,
                    pairing,
                    normalise,
                    out,
                    rotated,
                    kv_heads,
                    epsilon,
                    groups,
                    query_scale: self.heads.query_scale().to_bits(),
                    lane_pages: self.lane_pages,
                    ring_pages: self.ring_pages,
                    window,
                    sinks,
                    sharing_rows,
                };
                let kernel = if form.emulated { &units::EMULATED } else { &units::KERNEL };
                Dispatch::new(kernel, constants.values(), &push, grid)
            }
            None => {
                let constants = Constants {
                    workgroup: target.workgroup_of(SUBGROUPS),
                    subgroup,
                    head_size,
                    heads,
                    key_format: self.key_format.code(),
                    value_format: self.value_format.code(),
                    pairing,
                    normalise,
                    out,
                    rotated,
                    kv_heads,
                    epsilon,
                    groups,
                    lane_pages: self.lane_pages,
                    ring_pages: self.ring_pages,
                    window,
                    sinks,
                };
                let grid = self.shape.grid([splits, query_heads / heads, 1]);
                Dispatch::new(&KERNEL, constants.values(), &push, grid)
            }
        }
    }
}
