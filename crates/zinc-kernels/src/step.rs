//! The rows and the lanes of a step, as kernels and the host share them.
//!
//! A row is one token at one position, which a step takes through the layers. A lane is a sequence's place in a step. `shaders/include/rows.glsl`
//! and `shaders/include/lane.glsl` declare both.

use bytemuck::{Pod, Zeroable};

pub use crate::generated::grids::Grid;
pub use crate::generated::lane::{GrownPage, Lane, StepReport, WantedLane};
pub use crate::generated::rows::Row;
pub use crate::generated::tile_list::Tile;

use crate::generated::lane::{GROWN_BYTES, GROWN_OFFSET, LANE_BYTES, WANTED_BYTES, WANTED_OFFSET, WantedLanes};
use crate::generated::rows::{
    LANE_COUNT_OFFSET, LANES_ADDRESS_OFFSET, LISTED_OFFSET, OWN_LANE_OFFSET, PAGES_OFFSET, ROW_BYTES, ROWS_OFFSET,
};

/// The most rows of a step.
pub const MOST_ROWS: u32 = crate::generated::rows::MOST_ROWS;

/// The most rows of a step that samples behind each of them.
pub const MOST_SAMPLING_ROWS: u32 = crate::generated::rows::MOST_SAMPLING_ROWS;

/// The most lanes of a step, and of a model.
pub const MOST_LANES: u32 = crate::generated::rows::MOST_LANES;

/// The most tokens of a lane that one step samples: one more than its drafts.
pub const MOST_RUN: u32 = crate::generated::lane::MOST_RUN;

/// Positions of a page of the KV cache, in a model of several lanes.
pub const PAGE_POSITIONS: u32 = crate::generated::cache::PAGE_POSITIONS;

/// What the kernels of a step are told: its rows, and the lanes whose rows they are. The first kernel of a step lists both.
/// The rows come last, so that the state of a step of few rows is a prefix: see [`StepState::bytes`]. In a model of several lanes the tables of their pages lie
/// behind the state, `[lanes, pages of a lane]` u32: see [`position_in_pool`].
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
pub struct StepState {
    /// Rows that are listed. With 0 of them a step changes nothing.
    pub row_count: u32,
    /// Lanes that are listed.
    pub lane_count: u32,
    /// Device address of the [`Lane`]s that several states share, by their numbers; 0 if the state's own lane, number 0, is its only one.
    pub lanes: u64,
    /// What keeps the rows aligned.
    pub spare: [u32; 4],
    /// The state's own lane.
    pub lane: Lane,
    /// The numbers of the step's lanes, in order. Those from `lane_count` on mean nothing.
    pub listed: [u32; MOST_LANES as usize],
    /// The rows. Those from `row_count` on mean nothing.
    pub rows: [Row; MOST_ROWS as usize],
}

const _: () = {
    assert!(std::mem::offset_of!(StepState, rows) == ROWS_OFFSET as usize);
    assert!(std::mem::offset_of!(StepState, lane_count) == LANE_COUNT_OFFSET as usize);
    assert!(std::mem::offset_of!(StepState, lanes) == LANES_ADDRESS_OFFSET as usize);
    assert!(std::mem::offset_of!(StepState, lane) == OWN_LANE_OFFSET as usize);
    assert!(std::mem::offset_of!(StepState, listed) == LISTED_OFFSET as usize);
    assert!(size_of::<StepState>() == PAGES_OFFSET as usize);
    assert!(size_of::<Row>() == ROW_BYTES as usize && size_of::<Lane>() == LANE_BYTES as usize);
};

impl Default for StepState {
    fn default() -> Self {
        Self::zeroed()
    }
}

impl StepState {
    /// The state of a step that takes these tokens of the lane, its own and only one, the first of them at the lane's position.
    ///
    /// # Panics
    /// If there are more than [`MOST_ROWS`].
    #[must_use]
    pub fn new(lane: Lane, tokens: &[u32]) -> Self {
        let mut state = Self { lane, lane_count: 1, ..Self::default() };
        state.list(tokens);
        state
    }

    /// Bytes of a state that lists at most so many rows: all that comes before the rows, and those.
    ///
    /// # Panics
    /// If there are more than [`MOST_ROWS`].
    #[must_use]
    pub const fn bytes(rows: u32) -> u64 {
        assert!(rows <= MOST_ROWS, "a state of more rows than are supported");
        ROWS_OFFSET as u64 + rows as u64 * ROW_BYTES as u64
    }

    /// Lists these tokens as rows of the state's own lane, the first of them at its position. Without tokens the step does nothing.
    ///
    /// # Panics
    /// If there are more than [`MOST_ROWS`].
    pub fn list(&mut self, tokens: &[u32]) {
        assert!(tokens.len() <= MOST_ROWS as usize, "{} rows: at most {MOST_ROWS} are supported", tokens.len());
        self.row_count = tokens.len() as u32;
        self.lane.first_row = 0;
        self.lane.rows = self.row_count;
        for ((offset, row), token) in (0..).zip(&mut self.rows).zip(tokens) {
            *row = Row { offset, token: *token, position: self.lane.position + offset, lane: 0 };
        }
    }
}

impl From<Lane> for StepState {
    /// The state of a step that takes the lane's last token alone.
    fn from(lane: Lane) -> Self {
        Self::new(lane, &[lane.token])
    }
}

/// Where a position of a lane lies in the KV cache of a layer, in positions, if the lane has these pages. Without pages it lies at itself.
///
/// # Panics
/// If the lane has no page for it, but has others.
#[must_use]
pub fn position_in_pool(pages: &[u32], position: u32) -> u64 {
    if pages.is_empty() {
        return u64::from(position);
    }
    let page = pages[(position / PAGE_POSITIONS) as usize];
    u64::from(page) * u64::from(PAGE_POSITIONS) + u64::from(position % PAGE_POSITIONS)
}

/// What the host wants of a step: which lanes take part, how many rows each may have, and which pages lanes get with it.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
pub struct StepLanes {
    /// Lanes of the step.
    pub count: u32,
    /// Pages that lanes have from this step on.
    pub grown_count: u32,
    /// The lanes. Those from `count` on mean nothing.
    pub lanes: [WantedLane; MOST_LANES as usize],
    /// The pages that lanes get. Those from `grown_count` on mean nothing.
    pub grown: [GrownPage; MOST_LANES as usize],
}

const _: () = {
    assert!(std::mem::offset_of!(StepLanes, lanes) == WANTED_OFFSET as usize);
    assert!(std::mem::offset_of!(StepLanes, grown) == GROWN_OFFSET as usize);
    assert!(size_of::<WantedLanes>() == WANTED_OFFSET as usize);
    assert!(size_of::<WantedLane>() == WANTED_BYTES as usize && size_of::<GrownPage>() == GROWN_BYTES as usize);
};

impl StepLanes {
    /// What the host wants of a step of these lanes, in order, each of which may have at most so many rows.
    ///
    /// # Panics
    /// If there are more than [`MOST_LANES`].
    #[must_use]
    pub fn of(numbers: &[u32], rows: u32) -> Self {
        let wanted: Vec<WantedLane> = numbers.iter().map(|lane| WantedLane { lane: *lane, rows }).collect();
        Self::with_rows(&wanted)
    }

    /// What the host wants of a step of these lanes, in order, each of which may have at most the rows that it says.
    ///
    /// # Panics
    /// If there are more than [`MOST_LANES`].
    #[must_use]
    pub fn with_rows(wanted: &[WantedLane]) -> Self {
        assert!(wanted.len() <= MOST_LANES as usize, "{} lanes: at most {MOST_LANES} are supported", wanted.len());
        let mut lanes = [WantedLane::default(); MOST_LANES as usize];
        lanes[..wanted.len()].copy_from_slice(wanted);
        let grown = [GrownPage::default(); MOST_LANES as usize];
        Self { count: wanted.len() as u32, grown_count: 0, lanes, grown }
    }

    /// Gives a lane a page with this step, which becomes number `index` of its pages. Tables have room for `lane_pages` of each lane.
    ///
    /// # Panics
    /// If the tables have no room for it, or the step has given [`MOST_LANES`] pages already.
    pub fn grow(&mut self, lane: u32, index: u32, page: u32, lane_pages: u32) {
        assert!(
            lane < MOST_LANES && index < lane_pages && self.grown_count < MOST_LANES,
            "page {index} of lane {lane} beside {} others of the step: tables have room for {lane_pages}, and a step for {MOST_LANES}",
            self.grown_count
        );
        self.grown[self.grown_count as usize] = GrownPage { entry: lane * lane_pages + index, page };
        self.grown_count += 1;
    }
}

/// How many rows the launches of a step have workgroups for: a power of two up to [`MOST_ROWS`]. The step takes as many of the rows listed in its [`StepState`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StepShape(u32);

impl StepShape {
    /// One row.
    pub const ONE: Self = Self(1);
    /// Four rows.
    pub const FOUR: Self = Self(4);
    /// The most rows for which products go row by row: each shape up to it has kernels of its own.
    pub const SEVERAL: Self = Self(16);
    /// The most rows.
    pub const MOST: Self = Self(MOST_ROWS);

    /// The smallest shape with room for so many rows.
    ///
    /// # Panics
    /// If there are none or more than [`MOST_ROWS`].
    #[must_use]
    pub const fn of(rows: u32) -> Self {
        assert!(rows >= 1 && rows <= MOST_ROWS, "a step of no rows, or of more than are supported");
        Self(rows.next_power_of_two())
    }

    /// The largest shape that so many rows fill.
    ///
    /// # Panics
    /// If there are none.
    #[must_use]
    pub const fn filled_by(rows: u32) -> Self {
        assert!(rows >= 1, "no rows fill no step");
        let rows = if rows < MOST_ROWS { rows } else { MOST_ROWS };
        Self(1 << rows.ilog2())
    }

    /// The shape in which a step feeds so many rows of a prompt, where the largest has the shape `most`. These are few, because each shape up to
    /// [`Self::SEVERAL`] needs kernels of its own: one row, [`Self::SEVERAL`], and those above it.
    ///
    /// # Panics
    /// If there are none, or more than the rows of `most`.
    #[must_use]
    pub fn feeding(rows: u32, most: Self) -> Self {
        assert!(rows <= most.0, "a step of at most {} rows is to feed {rows}", most.0);
        if rows == 1 { Self::ONE } else { Self::of(rows).max(Self::SEVERAL).min(most) }
    }

    /// The largest of the shapes of [`Self::feeding`] that so many rows fill.
    ///
    /// # Panics
    /// If there are none.
    #[must_use]
    pub fn filled_feeding(rows: u32, most: Self) -> Self {
        let shape = Self::filled_by(rows).min(most);
        if shape < most && shape < Self::SEVERAL { Self::ONE } else { shape }
    }

    /// All shapes from that of one row to `most`.
    pub fn up_to(most: Self) -> impl Iterator<Item = Self> {
        (0..=most.0.ilog2()).map(|doublings| Self(1 << doublings))
    }

    /// Its rows.
    #[must_use]
    pub const fn rows(self) -> u32 {
        self.0
    }

    /// The workgroups of one row, for each row.
    pub(crate) fn grid(self, [x, y, _]: [u32; 3]) -> [u32; 3] {
        [x, y, self.0]
    }
}

/// The shapes of the steps that feed prompts: those of long prompts may have more rows than those of short ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeedShapes {
    short: StepShape,
    /// The tokens that the shortest of the long prompts feeds.
    long_prompt: u32,
    long: StepShape,
}

impl FeedShapes {
    /// The same shape for prompts of every length.
    #[must_use]
    pub const fn always(shape: StepShape) -> Self {
        Self { short: shape, long_prompt: 0, long: shape }
    }

    /// `short` for prompts of fewer than `long_prompt` tokens, and `long`, which has more rows, for the others. What steps of `long` need is made when the first such
    /// prompt comes.
    #[must_use]
    pub const fn by_length(short: StepShape, long_prompt: u32, long: StepShape) -> Self {
        Self { short, long_prompt, long }
    }

    /// The largest shape of the steps that feed so many tokens of a prompt.
    #[must_use]
    pub fn of_prompt(self, tokens: u32) -> StepShape {
        if tokens < self.long_prompt { self.short } else { self.long }
    }

    /// The largest shape of all.
    #[must_use]
    pub fn most(self) -> StepShape {
        self.long
    }

    /// The largest shape of the steps for which everything is made when a model is loaded.
    #[must_use]
    pub fn made_at_load(self) -> StepShape {
        self.of_prompt(0)
    }

    /// These shapes, none of them larger than `most`.
    #[must_use]
    pub fn at_most(self, most: StepShape) -> Self {
        Self { short: self.short.min(most), long: self.long.min(most), ..self }
    }
}

/// An operand of which each row of a step has its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rows {
    /// Device address of the first row's.
    pub address: u64,
    /// Bytes from one row's to the next one's: a multiple of 16.
    pub stride: u32,
}

impl Rows {
    /// The operand of a step of one row.
    #[must_use]
    pub const fn one(address: u64) -> Self {
        Self { address, stride: 0 }
    }

    /// The stride, for the rows of a step.
    ///
    /// # Panics
    /// If it is not aligned, or the rows are further apart than kernels can reach.
    pub(crate) fn stride_in(self, shape: StepShape) -> u32 {
        let Self { stride, .. } = self;
        assert!(
            stride.is_multiple_of(16) && stride.checked_mul(shape.rows()).is_some(),
            "the operands of {} rows are {stride} bytes apart: a multiple of 16 is supported, and less than 4 GiB for all of them",
            shape.rows()
        );
        stride
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_hold_rows_and_are_filled_by_them() {
        for (rows, of, filled_by) in [
            (1, 1, 1),
            (2, 2, 2),
            (3, 4, 2),
            (5, 8, 4),
            (8, 8, 8),
            (9, 16, 8),
            (16, 16, 16),
            (17, 32, 16),
            (513, 1_024, 512),
            (2_048, 2_048, 2_048),
        ] {
            assert_eq!((StepShape::of(rows).rows(), StepShape::filled_by(rows).rows()), (of, filled_by), "{rows}");
        }
        assert_eq!(StepShape::filled_by(5_000), StepShape::MOST);
        assert!(StepShape::SEVERAL <= StepShape::MOST);
    }

    #[test]
    fn prompts_are_fed_by_few_shapes() {
        for (rows, most, feeding, filled) in [
            (1, 512, 1, 1),
            (2, 512, 16, 1),
            (16, 512, 16, 16),
            (17, 512, 32, 16),
            (500, 512, 512, 256),
            (512, 512, 512, 512),
            (513, 2_048, 1_024, 512),
            (2_048, 2_048, 2_048, 2_048),
            (3, 4, 4, 1),
            (4, 4, 4, 4),
            (1, 1, 1, 1),
        ] {
            let most = StepShape::of(most);
            let found = (StepShape::feeding(rows, most).rows(), StepShape::filled_feeding(rows, most).rows());
            assert_eq!(found, (feeding, filled), "{rows} of at most {}", most.rows());
        }
    }
}
