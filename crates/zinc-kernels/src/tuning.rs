//! Numbers that were chosen by measuring. Any of them gives right results; docs/perf-log.md has the measurements.

use crate::step::{FeedShapes, StepShape};

/// The most items of a lane that are summed over the lanes at once: rows, quarters and vectors at a time. What a tuning asks for beyond it is
/// not done.
pub(crate) const MOST_ITEMS: u32 = 4;

/// The most of [`Tuning::attention_workgroups`]: memory for the shares of a context is reserved for as many. What a tuning asks for beyond it is
/// not done.
pub(crate) const MOST_WORKGROUPS: u32 = 128;

/// How a workgroup shares out what matrix units multiply: rows of a matrix with a tile of vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitBlock {
    /// The most vectors of a tile: a power of two.
    pub vectors: u32,
    /// Subgroups of the workgroup: a power of two.
    pub width: u32,
    /// Those of them that share the rows of the block, a power of two; the others share its vectors.
    pub row_subgroups: u32,
    /// Fragments of 16 rows that each of these subgroups has.
    pub row_fragments: u32,
}

/// How work is shared out on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// Workgroups of a matrix product that are worth their preparation (the normalisation of the input): above that, each takes several
    /// rows after another.
    pub product_workgroups: u32,
    /// Subgroups in a workgroup of a matrix product.
    pub product_width: u32,
    /// Subgroups in a workgroup of the first half of a feed-forward layer: a divisor of 16.
    pub gate_up_width: u32,
    /// Subgroups in a workgroup of the second half of an expert layer.
    pub expert_down_width: u32,
    /// Workgroups that attention over a long context is spread over: at most 128.
    pub attention_workgroups: u32,
    /// Subgroups that a matrix product should have before one takes several rows at a time.
    pub product_subgroups: u32,
    /// The most rows that a lane takes at a time: 1, 2 or 4.
    pub most_rows: u32,
    /// Rows that a lane takes at a time in a step of several rows: 1, 2 or 4.
    pub several_rows: u32,
    /// [`Tuning::several_rows`] of matrices with more than 4,096 columns.
    pub several_long_rows: u32,
    /// [`Tuning::product_width`] of matrices with more than 4,096 columns, in a step of several rows.
    pub several_long_width: u32,
    /// [`Tuning::product_subgroups`] in a step of several rows.
    pub several_subgroups: u32,
    /// [`Tuning::gate_up_width`] in a step of several rows.
    pub several_gate_up_width: u32,
    /// Runs of 16 elements that a workgroup of the first half of a feed-forward layer computes in a step of eight rows or more: it ranks the
    /// experts once for all of them. In a step of two to four rows it computes half as many.
    pub several_gate_up_runs: u32,
    /// Runs of 16 elements that a workgroup of the first half of a dense layer computes in a step of several rows, one after the other.
    pub dense_gate_up_runs: u32,
    /// The most vectors that weights are multiplied with once they are unpacked, in a step of many rows: a power of two.
    pub tile_vectors: u32,
    /// [`Tuning::tile_vectors`] of products with experts that have fewer than those on average: a power of two.
    pub sparse_tile_vectors: u32,
    /// Rows of matrices that four lanes take at a time in such a step: of one matrix, or half as many of each of two.
    pub tile_rows: u32,
    /// Subgroups in a workgroup of such a step's products.
    pub tile_width: u32,
    /// Whether products by dot products, in a step of many rows, take the vectors of a tile one after the other, instead of by sets of four that are computed whole.
    pub tile_in_turn: bool,
    /// The fewest rows of a step whose products go by matrix units: a block's weights are brought for a whole tile, however many vectors it has.
    pub unit_rows: u32,
    /// [`Tuning::unit_rows`] for the products with experts, each of which has few of the step's rows.
    pub expert_unit_rows: u32,
    /// The fewest rows of a step that samples after each of them whose products go by tiles of vectors: in those with fewer, each row is multiplied for itself.
    pub sampling_tiled_rows: u32,
    /// [`Tuning::sampling_tiled_rows`] of a model without experts whose width is at least [`Tuning::wide`]: its matrices give workgroups enough.
    pub wide_tiled_rows: u32,
    /// The least width of such a model.
    pub wide: u32,
    /// The blocks that matrix units multiply, from the largest to the smallest. Experts have the first.
    pub unit_blocks: [UnitBlock; 3],
    /// The block for steps of no more rows than it has vectors, without experts.
    pub few_vectors_block: UnitBlock,
    /// Without experts a smaller block is taken where a larger one would give no more workgroups than this.
    pub unit_workgroups: u32,
    /// Several workgroups share the groups of a block of matrix units only in launches that would have fewer workgroups than this. Experts' launches never do so.
    pub few_workgroups: u32,
    /// Several workgroups share the groups of a block only in launches that would have fewer workgroups than so many times the groups of a row: of short rows there is
    /// little to share out.
    pub few_workgroups_a_group: u32,
    /// The workgroups that a launch has at least where several share the groups of a block, if a row has groups enough for them.
    pub split_workgroups: u32,
    /// The most rows of a step in which several workgroups share the groups of a block: what they leave in memory grows with the rows.
    pub split_rows: u32,
    /// Runs of a group that such a product has in shared memory at a time: 4, 8 or 16.
    pub unit_stage_runs: u32,
    /// The most rows of a step that a workgroup of the router takes, where there are many.
    pub router_rows: u32,
    /// Logits that it computes of each of them: a power of two, at most as many as a subgroup has lanes.
    pub router_logits: u32,
    /// The rows of steps that feed prompts unless asked otherwise.
    pub feed_shapes: FeedShapes,
    /// Quarters of groups of weights that a lane of a matrix product loads before it uses the first: 1, 2 or 4.
    pub quarters_ahead: u32,
    /// [`Tuning::quarters_ahead`] for the second half of an expert layer, whose lanes have the quarters of several experts: 1 to 4.
    pub expert_quarters_ahead: u32,
    /// Candidates that a lane of the sampler chain's last kernel takes at a time: 1 or 4.
    pub candidates_at_a_time: u32,
    /// Whether workgroups of attention that have nothing to do read the weights of the operation that follows, so that they are in the cache.
    pub warm_cache: bool,
    /// The most query heads that one workgroup of attention takes, for long contexts: each key and value is read once for all of them. For short
    /// ones it takes half as many, which are ready sooner.
    pub attention_heads: u32,
    /// The context from which on [`Tuning::attention_heads`] applies.
    pub long_context: u32,
    /// Teams of 32 lanes that share the query heads of a row, where attention goes by matrix units: a power of two.
    pub attention_teams: u32,
    /// The most workgroups that share the splits of a context, for each of a row's groups of query heads, where attention goes by matrix units.
    pub attention_splits: u32,
    /// The fewest rows of a step that share out the workgroups of attention by the lengths of their contexts, where it goes by matrix units. Fewer rows have
    /// [`Tuning::attention_splits`] each.
    pub attention_sharing_rows: u32,
    /// Teams of 32 lanes in a workgroup of attention for many rows, where it goes by matrix units: a power of two up to 8.
    pub attention_rows_teams: u32,
}

const _: () = assert!(
    Tuning::CARD.attention_workgroups <= MOST_WORKGROUPS && Tuning::CPU.attention_workgroups <= MOST_WORKGROUPS
);

impl Tuning {
    /// For graphics cards.
    pub const CARD: Self = Self {
        product_workgroups: 1_056,
        product_width: 8,
        gate_up_width: 8,
        expert_down_width: 16,
        attention_workgroups: 128,
        product_subgroups: 4_096,
        most_rows: 2,
        several_rows: 2,
        several_long_rows: 4,
        several_long_width: 4,
        several_subgroups: 256,
        several_gate_up_width: 4,
        several_gate_up_runs: 4,
        dense_gate_up_runs: 1,
        tile_vectors: 8,
        sparse_tile_vectors: 2,
        tile_rows: 4,
        tile_width: 4,
        tile_in_turn: false,
        unit_rows: 16,
        expert_unit_rows: 128,
        sampling_tiled_rows: 32,
        wide_tiled_rows: 16,
        wide: 4_096,
        unit_blocks: [
            UnitBlock { vectors: 64, width: 16, row_subgroups: 4, row_fragments: 2 },
            UnitBlock { vectors: 64, width: 8, row_subgroups: 4, row_fragments: 1 },
            UnitBlock { vectors: 32, width: 4, row_subgroups: 2, row_fragments: 1 },
        ],
        few_vectors_block: UnitBlock { vectors: 16, width: 4, row_subgroups: 4, row_fragments: 1 },
        unit_workgroups: 64,
        few_workgroups: 128,
        few_workgroups_a_group: 8,
        split_workgroups: 384,
        split_rows: 64,
        unit_stage_runs: 8,
        router_rows: 32,
        router_logits: 16,
        feed_shapes: FeedShapes::always(StepShape::of(512)),
        quarters_ahead: 4,
        expert_quarters_ahead: 1,
        candidates_at_a_time: 4,
        warm_cache: true,
        attention_heads: 4,
        long_context: 4_097,
        attention_teams: 8,
        attention_splits: 32,
        attention_sharing_rows: 8,
        attention_rows_teams: 8,
    };
    /// For graphics processors that share the host's memory: as for cards, but with fewer tokens of a prompt together, so that no step of a slow one takes
    /// seconds.
    pub const INTEGRATED: Self = Self { feed_shapes: FeedShapes::always(StepShape::of(128)), ..Self::CARD };
    /// For drivers that run on the CPU: few workgroups, since each costs, and nothing kept over a barrier, since that goes through memory. Such a driver takes seconds to
    /// build the kernels of steps of many rows, so that only long prompts have these.
    pub const CPU: Self = Self {
        product_workgroups: 8,
        product_width: 2,
        gate_up_width: 2,
        expert_down_width: 4,
        attention_workgroups: 4,
        product_subgroups: 16,
        most_rows: 4,
        several_rows: 2,
        several_long_rows: 2,
        several_long_width: 2,
        several_subgroups: 0,
        several_gate_up_width: 2,
        several_gate_up_runs: 4,
        dense_gate_up_runs: 4,
        tile_vectors: 8,
        sparse_tile_vectors: 8,
        tile_rows: 8,
        tile_width: 2,
        tile_in_turn: true,
        unit_rows: 32,
        expert_unit_rows: 32,
        sampling_tiled_rows: 8,
        wide_tiled_rows: 8,
        wide: 0,
        unit_blocks: [UnitBlock { vectors: 32, width: 8, row_subgroups: 4, row_fragments: 1 }; 3],
        few_vectors_block: UnitBlock { vectors: 32, width: 8, row_subgroups: 4, row_fragments: 1 },
        unit_workgroups: 0,
        few_workgroups: 0,
        few_workgroups_a_group: 8,
        split_workgroups: 1,
        split_rows: 64,
        unit_stage_runs: 8,
        router_rows: 4,
        router_logits: 8,
        feed_shapes: FeedShapes::by_length(StepShape::of(16), 512, StepShape::of(64)),
        quarters_ahead: 4,
        expert_quarters_ahead: 4,
        candidates_at_a_time: 1,
        warm_cache: false,
        attention_heads: 4,
        long_context: 0,
        attention_teams: 4,
        attention_splits: 4,
        attention_sharing_rows: 2,
        attention_rows_teams: 8,
    };

    /// Rows of a product of `rows` rows that one subgroup takes at a time.
    #[must_use]
    pub fn rows_at_a_time(&self, rows: u32) -> u32 {
        let mut at_a_time = 1;
        while 2 * at_a_time <= self.most_rows.min(MOST_ITEMS) && rows / (2 * at_a_time) >= self.product_subgroups {
            at_a_time *= 2;
        }
        at_a_time
    }

    /// Rows of a product of `rows` rows, long ones or not, that one subgroup takes at a time in a step of several rows: fewer where the matrix would give
    /// few subgroups something to do.
    pub(crate) fn several_rows_at_a_time(&self, rows: u32, are_long: bool) -> u32 {
        let mut at_a_time = if are_long { self.several_long_rows } else { self.several_rows }.min(MOST_ITEMS);
        while at_a_time > 1 && rows / at_a_time < self.several_subgroups {
            at_a_time /= 2;
        }
        at_a_time
    }

    /// Quarters of each of `rows` rows of `groups` groups that a lane loads before it uses the first.
    #[must_use]
    pub fn quarters_ahead(&self, rows: u32, groups: u32, subgroup: u32) -> u32 {
        (self.quarters_ahead.min(MOST_ITEMS) / rows).clamp(1, (groups * 4).div_ceil(subgroup))
    }
}
