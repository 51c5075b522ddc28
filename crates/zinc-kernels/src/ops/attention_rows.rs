//! Attention for many rows.

use super::CacheFormat;
use crate::generated::attention_rows::{Constants, KERNEL, Push};
use crate::generated::attention_rows_units as units;
use crate::generated::half_fragments::TEAM;
use crate::heads::{Heads, Reach, SUBGROUPS};
use crate::step::{Rows, StepShape};
use crate::{Dispatch, HalfUnits, Target};

/// The most subgroups in a workgroup without matrix units.
const MOST_SETS: u32 = 4;

/// Attends to the cache, where [`Append`](super::Append) has put the keys and values of the step's rows, with the queries that it has prepared: what
/// [`Attention`](super::Attention) computes, to the bit. The rows of a lane stand together, at positions one behind the other.
#[derive(Clone, Copy, Debug)]
pub struct AttentionRows {
    /// The step state: positions up to and including a row's are attended.
    pub state: u64,
    /// `[query_heads, head_size]` f32, prepared.
    pub q: Rows,
    /// `[positions, kv_heads * head_size]`, of all lanes.
    pub key_cache: u64,
    /// `[positions, kv_heads * head_size]`, of all lanes.
    pub value_cache: u64,
    /// Pages that the tables behind the state have room for, for each lane; 0 if there are no tables.
    pub lane_pages: u32,
    /// Pages of the ring that each lane has instead, where the layer has a window; 0 if there are no rings.
    pub ring_pages: u32,
    /// `[query_heads, head_size]` f32. It holds what is joined of the splits of a context, until all is.
    pub y: Rows,
    /// How keys are stored.
    pub key_format: CacheFormat,
    /// How values are stored.
    pub value_format: CacheFormat,
    /// The shape.
    pub heads: Heads,
    /// Positions that a sequence may have.
    pub context: u32,
    /// How many keys each row attends to, its own and those before it; `None`: all.
    pub window: Option<u32>,
    /// `[query_heads]` f32: a score of each query head that joins the maximum and the sum of the softmax, and has no value.
    pub sinks: Option<u64>,
    /// The rows that the launch has subgroups for.
    pub shape: StepShape,
}

impl AttentionRows {
    /// The launch: one subgroup a row and group of query heads, whatever the position; by matrix units, one workgroup a block of rows and key and
    /// value head.
    ///
    /// # Panics
    /// If the heads' number or size does not suit the kernel, or the window has no keys.
    #[must_use]
    pub fn dispatch(&self, target: &Target) -> Dispatch {
        self.heads.check(0);
        match self.heads.units(target, [self.key_format, self.value_format]) {
            Some(form) => self.by_units(target, form),
            None => self.by_subgroups(target),
        }
    }

    fn by_units(&self, target: &Target, form: HalfUnits) -> Dispatch {
        let Heads { query_heads, kv_heads, head_size } = self.heads;
        let heads = query_heads / kv_heads;
        // A workgroup stages its queries where it stages the keys and values of a tile.
        let sharers = self.heads.sharers();
        let teams = target.tuning.attention_rows_teams.min(target.max_workgroup / TEAM).clamp(sharers, 8);
        let constants = units::Constants {
            workgroup: (1 << teams.ilog2()) * TEAM,
            subgroup: target.subgroup,
            head_size,
            heads,
            kv_heads,
            query_scale: self.heads.query_scale().to_bits(),
            lane_pages: self.lane_pages,
            ring_pages: self.ring_pages,
            window: Reach::new(self.context, self.window).window(),
            sinks: u32::from(self.sinks.is_some()),
        };
        let push = units::Push {
            state: self.state,
            q: self.q.address,
            key_cache: self.key_cache,
            value_cache: self.value_cache,
            y: self.y.address,
            sinks: self.sinks.unwrap_or(0),
            rows: self.shape.rows(),
            q_stride: self.q.stride_in(self.shape),
            y_stride: self.y.stride_in(self.shape),
            ..units::Push::default()
        };
        let pairs = constants.workgroup / TEAM / sharers * 16;
        let grid = [(self.shape.rows() * heads).div_ceil(pairs), kv_heads, 1];
        let kernel = if form.emulated { &units::EMULATED } else { &units::KERNEL };
        Dispatch::new(kernel, constants.values(), &push, grid)
    }

    fn by_subgroups(&self, target: &Target) -> Dispatch {
        let Heads { query_heads, kv_heads, head_size } = self.heads;
        let heads = self.heads.at_a_time(target, self.context);
        let reach = Reach::new(self.context, self.window);
        let splits = self.heads.splits(target, reach);
        let shares = target.subgroups_of(SUBGROUPS);
        let mut sets = target.subgroups_of(MOST_SETS);
        while sets > 1 && sets * self.heads.set_bytes(heads, shares, shares) > target.shared_bytes {
            sets /= 2;
        }
        let constants = Constants {
            workgroup: sets * target.subgroup,
            subgroup: target.subgroup,
            head_size,
            heads,
            key_format: self.key_format.code(),
            value_format: self.value_format.code(),
            kv_heads,
            groups: query_heads / heads / kv_heads,
            shares,
            lane_pages: self.lane_pages,
            ring_pages: self.ring_pages,
            window: reach.window(),
            sinks: u32::from(self.sinks.is_some()),
        };
        let push = Push {
            state: self.state,
            q: self.q.address,
            key_cache: self.key_cache,
            value_cache: self.value_cache,
            y: self.y.address,
            sinks: self.sinks.unwrap_or(0),
            rows: self.shape.rows(),
            splits,
            q_stride: self.q.stride_in(self.shape),
            y_stride: self.y.stride_in(self.shape),
        };
        let grid = [query_heads / heads, 1, self.shape.rows().div_ceil(sets)];
        Dispatch::new(&KERNEL, constants.values(), &push, grid)
    }
}
