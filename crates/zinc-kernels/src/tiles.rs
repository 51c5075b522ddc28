//! The tiles of products with experts, in steps of many rows.

use crate::Target;
use crate::step::StepShape;

/// Bytes of one [`Tile`](crate::step::Tile) of the list.
pub const TILE_BYTES: u32 = crate::generated::tile_list::TILE_BYTES;

/// The pairs of a row of the step and one of the slots of its chosen experts, sorted by expert, and the tiles that products take them in.
/// [`Route`](crate::ops::Route) makes both lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tiles {
    /// `[rows, used]` u32: `row * used + slot` of each pair.
    pub pairs: u64,
    /// `[rows, used]` [`Tile`](crate::step::Tile).
    pub tiles: u64,
    /// Experts.
    pub experts: u32,
    /// Chosen experts of each row.
    pub used: u32,
}

impl Tiles {
    /// The most tiles that the rows of a step can have: one for each full tile, and one for each expert's rest.
    fn most(&self, target: &Target, shape: StepShape) -> u32 {
        let pairs = shape.rows() * self.used;
        pairs.min(pairs / tile(target) + self.experts)
    }
}

/// The most vectors of a tile: a power of two.
pub(crate) fn tile(target: &Target) -> u32 {
    1 << target.tuning.tile_vectors.max(1).ilog2()
}

/// Threads of a workgroup.
pub(crate) fn workgroup(target: &Target) -> u32 {
    target.workgroup_of(target.tuning.tile_width)
}

/// Rows that four lanes take of each of so many matrices.
pub(crate) fn quad_rows(target: &Target, matrices: u32) -> u32 {
    (target.tuning.tile_rows / matrices).max(1)
}

/// A grid with workgroups for the rows of matrices of these heights, each with so many tiles of vectors.
pub(crate) fn grid(target: &Target, heights: &[u32], quad_rows: u32, tiles: u32) -> [u32; 3] {
    let rows = workgroup(target) / 4 * quad_rows;
    let [x, y, _] = target.grid(heights.iter().map(|height| height.div_ceil(rows)).sum());
    [x, y, tiles]
}

/// The tiles of a launch: those of the experts that rows have chosen, or of all rows.
pub(crate) fn count(target: &Target, tiles: Option<Tiles>, shape: StepShape) -> u32 {
    tiles.map_or(shape.rows().div_ceil(tile(target)), |tiles| tiles.most(target, shape))
}
