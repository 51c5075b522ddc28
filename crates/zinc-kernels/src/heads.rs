//! Attention's heads: their shape, and how the forms of attention share them out.

use crate::generated::attention_share::{MAX_SPLITS, STEPS};
use crate::generated::attention_tile::{MOST_KEYS, SPLIT};
use crate::generated::attention_units::JOINED;
use crate::generated::half_fragments::TEAM;
use crate::generated::heads::{HALVES, INTERLEAVED};
use crate::ops::{CacheFormat, GROUP, RUN};
use crate::step::StepShape;
use crate::tuning::MOST_WORKGROUPS;
use crate::{HalfUnits, Target};

/// The largest head, in elements.
pub const MAX_HEAD_SIZE: u32 = 256;

/// Subgroups in a workgroup of `attention` without matrix units.
pub(crate) const SUBGROUPS: u32 = 8;

/// Rows of a fragment of matrix units.
const FRAGMENT: u32 = 16;

/// Which elements of a head rotate together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pairing {
    /// `i` with `i + rotated / 2` (GPT-NeoX; the Qwen family).
    Halves,
    /// `2 i` with `2 i + 1` (the original; LLaMA files in GGUF).
    Interleaved,
}

impl Pairing {
    pub(crate) fn code(self) -> u32 {
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

impl HeadNorm {
    pub(crate) const NONE: Self = Self { q: 0, k: 0, epsilon: 0.0 };
}

/// Which positions rows attend to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reach {
    context: u32,
    window: Option<u32>,
}

impl Reach {
    /// Of a context of `context` positions the last `window` up to the row's own, or all.
    ///
    /// # Panics
    /// If the window has no keys.
    pub(crate) fn new(context: u32, window: Option<u32>) -> Self {
        assert!(window != Some(0), "a window of 0 keys: a row attends to one at least, its own");
        // A window that the context fits into is none.
        Self { context, window: window.filter(|window| *window < context) }
    }

    /// The kernels' constant WINDOW.
    pub(crate) fn window(self) -> u32 {
        self.window.unwrap_or(0)
    }

    /// The most turns of `positions` positions each, which begin at multiples of that, that hold what a row attends to.
    pub(crate) fn turns(self, positions: u32) -> u32 {
        let all = self.context.div_ceil(positions);
        // Its last key may be the first of a turn.
        self.window.map_or(all, |window| all.min((window - 1).div_ceil(positions) + 1))
    }
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
    pub(crate) fn at_a_time(&self, target: &Target, context: u32) -> u32 {
        let shared = self.query_heads / self.kv_heads;
        let halved = context < target.tuning.long_context;
        let most = target.tuning.attention_heads >> u32::from(halved);
        // Registers grow with the heads' size, too.
        let most = (most * 128 / self.head_size.max(128)).max(1);
        let fits = |heads: u32| self.shared_bytes(heads) <= target.shared_bytes;
        (1..=most.min(shared)).rev().find(|heads| shared.is_multiple_of(*heads) && fits(*heads)).unwrap_or(1)
    }

    /// Shared memory of a workgroup of `attention` with so many heads: what a set has, what is kept of the splits before each, and the word of arrivals.
    fn shared_bytes(&self, heads: u32) -> u32 {
        self.set_bytes(heads, SUBGROUPS, MAX_SPLITS) + heads * 4 * MAX_SPLITS + 16
    }

    /// Shared memory for so many heads of a row: queries, the values of a split's `shares`, and their sum; and three numbers each of so many shares or
    /// splits as there are `places` for.
    pub(crate) fn set_bytes(&self, heads: u32, shares: u32, places: u32) -> u32 {
        heads * (self.head_size * 4 * (1 + shares) + 4 + 3 * 4 * places)
    }

    /// Positions that a subgroup takes at a time, as the kernel works it out.
    fn tile(&self, target: &Target) -> u32 {
        let lanes = if self.head_size > 128 && target.subgroup > 8 { 16 } else { 8 };
        target.subgroup / lanes * STEPS
    }

    /// The float matrix units, if attention over caches of keys and values in these formats goes by them: whatever the rows of a step, so that a row
    /// has the same bits in all of them.
    pub(crate) fn units(&self, target: &Target, formats: [CacheFormat; 2]) -> Option<HalfUnits> {
        let suits = [64, 128, 256].contains(&self.head_size) && formats == [CacheFormat::F16; 2];
        target.half_units.filter(|_| suits && self.unit_shared_bytes(target) <= target.shared_bytes)
    }

    /// What queries are multiplied with before matrix units take them, so that scores are in base 2.
    pub(crate) fn query_scale(&self) -> f32 {
        std::f32::consts::LOG2_E / (self.head_size as f32).sqrt()
    }

    /// Query heads of a workgroup of `attention` with matrix units: a divisor of those that share a key and value head, and no more than a fragment
    /// has rows.
    pub(crate) fn in_fragment(&self) -> u32 {
        let shared = self.query_heads / self.kv_heads;
        (1..=shared.min(FRAGMENT)).rev().find(|heads| shared.is_multiple_of(*heads)).unwrap_or(1)
    }

    /// Teams of 32 lanes in a workgroup of `attention` with matrix units: a divisor of the fragments of a head.
    pub(crate) fn teams(&self, target: &Target) -> u32 {
        let most = target.tuning.attention_teams.min(target.max_workgroup / TEAM).min(self.head_size / FRAGMENT);
        1 << most.max(1).ilog2()
    }

    /// Keys of a tile of attention with matrix units, as the kernels work it out.
    fn unit_tile(&self) -> u32 {
        if self.head_size > 128 { MOST_KEYS / 2 } else { MOST_KEYS }
    }

    /// Teams of 32 lanes that share a fragment of `attention_rows` with matrix units, as the kernel works it out.
    pub(crate) fn sharers(&self) -> u32 {
        if self.head_size > 128 { 2 } else { 1 }
    }

    /// Shared memory of a workgroup of `attention` with matrix units: a tile of keys and one of values, the weights of a tile and the maxima of each
    /// team, what is kept of splits, and the word of arrivals. `attention_rows` needs less: the tiles, and where teams share them the weights and maxima of
    /// four fragments.
    fn unit_shared_bytes(&self, target: &Target) -> u32 {
        let keys = self.unit_tile();
        let tile = keys * (self.head_size / 8 + 1) * 16;
        2 * tile + FRAGMENT * ((keys / 8 + 1) * 16 + self.teams(target) * 4) + 4 * JOINED * 4 + FRAGMENT * 4 + 16
    }

    /// Whether a workgroup of attention over a context of `context` positions has whole groups of [`GROUP`] elements of the result, so that it can
    /// round them. `formats` are those of keys and values in the cache.
    #[must_use]
    pub fn whole_groups(&self, target: &Target, formats: [CacheFormat; 2], context: u32) -> bool {
        let heads = match self.units(target, formats) {
            Some(_) => self.in_fragment(),
            None => self.at_a_time(target, context),
        };
        (heads * self.head_size).is_multiple_of(GROUP)
    }

    /// Workgroups that the splits of a context are shared out to, with matrix units: one for each split that a row attends to, or where idle ones are to
    /// warm the cache as many as keep the device busy if that is more, up to [`Tuning::attention_splits`](crate::Tuning).
    pub(crate) fn split_workgroups(&self, target: &Target, reach: Reach) -> u32 {
        let groups = self.query_heads / self.in_fragment();
        let busy = if target.tuning.warm_cache { target.tuning.attention_workgroups.div_ceil(groups) } else { 1 };
        let useful = reach.turns(SPLIT).max(busy.min(self.most_splits()));
        useful.min(target.tuning.attention_splits).max(1)
    }

    /// Splits of a context without matrix units: as many as have tiles that a row attends to, but no more workgroups than keep the device busy.
    /// Where idle ones are to warm the cache, they are as many in any case.
    pub(crate) fn splits(&self, target: &Target, reach: Reach) -> u32 {
        let groups = self.query_heads / self.at_a_time(target, reach.context);
        let busy = target.tuning.attention_workgroups.div_ceil(groups).clamp(1, self.most_splits());
        let useful = reach.turns(self.tile(target) * SUBGROUPS).max(1);
        if target.tuning.warm_cache { busy } else { busy.min(useful) }
    }

    /// The most shares that any tuning splits a context into: there is a workgroup or more for each key and value head.
    fn most_splits(&self) -> u32 {
        MOST_WORKGROUPS.div_ceil(self.kv_heads).min(MAX_SPLITS)
    }

    /// Elements of [`Attention::partials`](crate::ops::Attention::partials) of a row, over a context of `context` positions, whatever the tuning.
    #[must_use]
    pub fn partials(&self, context: u32) -> u64 {
        self.split_elements(self.most_splits().max(context.div_ceil(SPLIT)))
    }

    /// Elements of the partial results of so many splits.
    fn split_elements(&self, splits: u32) -> u64 {
        u64::from(splits) * u64::from(self.query_heads) * u64::from(self.head_size + 4)
    }

    /// Panics if kernels cannot reach the partial results of all rows.
    pub(crate) fn check_partials(&self, splits: u32, shape: StepShape) {
        let partials = self.split_elements(splits) * u64::from(shape.rows());
        assert!(
            u32::try_from(4 * partials).is_ok(),
            "{partials} partial results of {} rows: less than 4 GiB is supported for all of them",
            shape.rows()
        );
    }

    /// Panics if the heads' number or size, or how many of their elements rotate, does not suit the kernels.
    pub(crate) fn check(&self, rotated: u32) {
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
                    let splits = heads.splits(&target, Reach::new(context, None));
                    let used = u64::from(splits) * u64::from(query_heads) * u64::from(head_size + 4);
                    assert!(
                        used <= heads.partials(context),
                        "{heads:?}, {attention_workgroups} workgroups: {used} used"
                    );
                }
            }
        }
    }

    /// No row of a context attends to keys in more turns than a window is said to reach into, and some row does in as many.
    #[test]
    fn a_window_reaches_into_as_many_turns_as_it_is_said_to() {
        for (context, window, turn) in
            [(300, 1, 16), (300, 2, 16), (300, 16, 16), (300, 17, 16), (300, 18, 16), (40, 39, 16), (300, 128, 256)]
        {
            let turns = |position: u32| position / turn - (position + 1).saturating_sub(window) / turn + 1;
            let most = (0..context).map(turns).max();
            assert_eq!(
                most,
                Some(Reach::new(context, Some(window)).turns(turn)),
                "{window} of {context} keys, by {turn}"
            );
        }
        // A window that holds the context is none.
        assert_eq!(Reach::new(300, Some(300)).window(), 0);
        assert_eq!(Reach::new(300, Some(299)).window(), 299);
    }

    /// The shader works out its tile and its shared memory from the same numbers as [`Heads`]. When one of these lines changes, so must
    /// [`Heads::tile`] or [`Heads::shared_bytes`].
    #[test]
    fn the_shader_has_the_tile_and_the_shared_memory_that_the_host_assumes() {
        let shader = include_str!("../../../shaders/include/attention_share.glsl");
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
            "float maxima[SETS * PLACES * HEADS]",
            "float sums[SETS * PLACES * HEADS]",
            "float keeps[SETS * PLACES * HEADS]",
            "float totals[SETS * HEADS]",
        ];
        assert_eq!(shared, expected);
        let heads = Heads { query_heads: 4, kv_heads: 4, head_size: 128 };
        assert!(include_str!("../../../shaders/attention.comp").contains("shared float before_keeps[PLACES * HEADS];"));
        // Three heads: queries, shares of eight subgroups, a sum, four arrays of 64 shares or splits; and the word of arrivals, in 16 bytes.
        assert_eq!(heads.shared_bytes(3), 3 * (128 * 4 + 8 * 128 * 4 + 4 + 4 * 64 * 4) + 16);
        let shared = |source: &str| {
            source
                .lines()
                .filter_map(|line| line.strip_prefix("shared ")?.split(';').next())
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        let tile = shared(include_str!("../../../shaders/include/attention_tile.glsl"));
        let staged = "uvec4 staged[2 * TILE * STRIDE]";
        let weights = "uvec4 weights[SHARERS > 1 ? FRAGMENTS * 16 * WEIGHT_STRIDE : 1]";
        assert_eq!(tile, [staged, weights, "float maxima[SHARERS > 1 ? FRAGMENTS * 16 * SHARERS : 1]"]);
        let source = include_str!("../../../shaders/include/attention_tile.glsl");
        assert!(source.contains("const uint TILE = HEAD_SIZE > 128 ? MOST_KEYS / 2 : MOST_KEYS;"));
        let source = include_str!("../../../shaders/attention_rows_units.comp");
        assert!(source.contains("#define SHARERS (HEAD_SIZE > 128 ? 2 : 1)"));
        let joined =
            ["split_maxima", "split_sums", "before_kept", "own_kept"].map(|name| format!("float {name}[JOINED]"));
        let units = shared(include_str!("../../../shaders/attention_units.comp"));
        assert_eq!(units[..4], joined);
        assert_eq!(units[4..], ["float carried[HEADS]"]);
        assert_eq!(shared(include_str!("../../../shaders/attention_rows_units.comp")), [""; 0]);
        // A tile of keys and one of values, 17 times 16 bytes a row; weights, 9 times 16 bytes a row; maxima of eight teams; four arrays, and what is
        // carried of 16 heads; and the word of arrivals.
        let bytes = 2 * 64 * 17 * 16 + 16 * (9 * 16 + 8 * 4) + 4 * 512 * 4 + 16 * 4 + 16;
        assert_eq!(heads.unit_shared_bytes(&Target::new(32)), bytes);
        // Of heads of 256 elements, half as many keys, each of twice the size.
        let bytes = 2 * 32 * 33 * 16 + 16 * (5 * 16 + 8 * 4) + 4 * 512 * 4 + 16 * 4 + 16;
        assert_eq!(Heads { head_size: 256, ..heads }.unit_shared_bytes(&Target::new(32)), bytes);
    }
}
