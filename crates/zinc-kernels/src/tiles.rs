//! The tiles of products for steps of many rows.

use crate::formats::Format;
use crate::step::StepShape;
use crate::tuning::UnitBlock;
use crate::{Groups, Target, Tuning, Units};

/// Bytes of one [`Tile`](crate::step::Tile) of the list.
pub const TILE_BYTES: u32 = crate::generated::tile_list::TILE_BYTES;
/// Bytes of the grids of the products that take the tiles.
pub const GRIDS_BYTES: u32 = crate::generated::grids::GRIDS_BYTES;

/// Rows and vectors of a fragment of matrix units.
const FRAGMENT: u32 = 16;

/// The most tiles that a step's vectors are cut into for the sake of smaller blocks.
const MOST_SMALL_TILES: u32 = 4;

/// The pairs of a row of the step and one of the slots of its chosen experts, sorted by expert, and the tiles that products take them in.
/// [`Route`](crate::ops::Route) makes both lists, and writes how many workgroups the products have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tiles {
    /// `[experts, rows]` u32: `row * used + slot` of each pair of an expert, as many as its tiles say, in any order.
    pub pairs: u64,
    /// `[rows, used]` [`Tile`](crate::step::Tile).
    pub tiles: u64,
    /// `[2]` [`Grid`](crate::step::Grid), at a multiple of 4: the workgroups of [`GateUpMul`](crate::ops::GateUpMul), and those of
    /// [`MatMul`](crate::ops::MatMul), for these tiles.
    pub grids: u64,
    /// Experts.
    pub experts: u32,
    /// Chosen experts of each row.
    pub used: u32,
}

impl Tiles {
    /// The most tiles that the rows of a step can have: one for each full tile, and one for each expert's rest.
    fn most(&self, listed: u32, shape: StepShape) -> u32 {
        let pairs = shape.rows() * self.used;
        pairs.min(pairs / listed + self.experts)
    }
}

impl Target {
    /// The matrix units, if products of a step of this shape go by them.
    #[must_use]
    pub fn units_for(&self, shape: StepShape) -> Option<Units> {
        self.units.filter(|_| shape.rows() >= self.tuning.unit_rows)
    }

    /// The matrix units, if the products with experts in a step of this shape go by them.
    #[must_use]
    pub fn expert_units_for(&self, shape: StepShape) -> Option<Units> {
        self.units_for(shape).filter(|_| shape.rows() >= self.tuning.expert_unit_rows)
    }

    /// The largest shape of a step whose products go by dot products, where those of larger ones go by matrix units.
    #[must_use]
    pub fn most_without_units(&self) -> Option<StepShape> {
        self.units.filter(|_| self.tuning.unit_rows > 1).map(|_| StepShape::filled_by(self.tuning.unit_rows - 1))
    }

    /// The most pairs of a tile of the list that [`Route`](crate::ops::Route) makes in a step of this shape, each row of which uses `used` of so many
    /// experts: a power of two.
    #[must_use]
    pub fn listed_pairs(&self, shape: StepShape, experts: u32, used: u32) -> u32 {
        match self.expert_units_for(shape) {
            Some(_) => self.tuning.unit_blocks[0].tile(),
            None => expert_quad_tile(self, shape, experts, used),
        }
    }
}

/// The most vectors of a workgroup's tile, by dot products: a power of two.
fn quad_tile(target: &Target) -> u32 {
    1 << target.tuning.tile_vectors.max(1).ilog2()
}

/// [`quad_tile`] of products with experts, of which each row of the step uses `used`: smaller where an expert has fewer vectors on average.
fn expert_quad_tile(target: &Target, shape: StepShape, experts: u32, used: u32) -> u32 {
    let tile = quad_tile(target);
    match shape.rows() * used / experts < tile {
        true => tile.min(1 << target.tuning.sparse_tile_vectors.max(1).ilog2()),
        false => tile,
    }
}

impl UnitBlock {
    /// The most vectors of a workgroup's tile: a power of two, and at least a fragment's.
    fn tile(&self) -> u32 {
        (1 << self.vectors.max(1).ilog2()).max(FRAGMENT)
    }

    /// Rows of a block.
    fn rows(&self) -> u32 {
        self.row_subgroups * self.row_fragments * FRAGMENT
    }
}

impl Tuning {
    /// The block of products by matrix units with matrices of so many rows together, and the vectors of a step of this shape: the largest one that gives
    /// more than [`Tuning::unit_workgroups`], or the smallest that has few tiles, since weights are read and unpacked once for each. Few vectors have a block of
    /// their own.
    fn unit_block_for(&self, rows: u32, shape: StepShape) -> UnitBlock {
        if shape.rows() <= self.few_vectors_block.tile() {
            return self.few_vectors_block;
        }
        let tiles = |block: &UnitBlock| shape.rows().div_ceil(block.tile());
        let mut chosen = self.unit_blocks[0];
        for block in &self.unit_blocks[1..] {
            let workgroups = rows.div_ceil(chosen.rows()) * tiles(&chosen);
            if workgroups > self.unit_workgroups || tiles(block) > MOST_SMALL_TILES {
                break;
            }
            chosen = *block;
        }
        chosen
    }
}

/// How what is staged in shared memory lies there, in products by matrix units: the constants of `shaders/include/blocks.glsl` of the same names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stage {
    /// Runs of a group that are there at a time.
    pub(crate) runs: u32,
    /// 1: a run of zeros stands between the two runs of 32 weights.
    pub(crate) gaps: u32,
    /// Words with scales of 32 weights.
    pub(crate) part_scales: u32,
    /// 1: there are minimums.
    pub(crate) minimums: u32,
    /// 1: there are sums of 32 activations.
    pub(crate) chunk_sums: u32,
}

impl Stage {
    /// For matrices of these formats.
    fn new(units: Units, runs: u32, formats: &[Format]) -> Self {
        let any = |of: fn(Format) -> bool| u32::from(formats.iter().any(|format| of(*format)));
        let run_parts = any(|format| matches!(format, Format::Q2K | Format::Q3K | Format::Q6K));
        Self {
            runs,
            gaps: if units.depth == 32 { run_parts } else { 0 },
            part_scales: 1 + run_parts.max(any(|format| !format.has_sub_blocks())),
            minimums: any(|format| matches!(format, Format::Q2K | Format::Q4K | Format::Q5K)),
            chunk_sums: any(|format| matches!(format, Format::Q4_1 | Format::Q5_1)),
        }
    }

    /// Whether where the results of a tile of so many vectors lie finds room in the place of the scales of parts, as `blocks.glsl` puts it there.
    fn has_offsets(&self, rows: u32, tile: u32) -> bool {
        self.part_scales * self.runs / 2 * rows >= tile
    }

    /// Bytes of shared memory that a block of so many rows and a tile of so many vectors need: what `blocks.glsl` and `tile_vectors.glsl` declare.
    fn shared_bytes(&self, rows: u32, tile: u32) -> u32 {
        let Self { runs, gaps, part_scales, minimums, chunk_sums } = self;
        let vectors = tile * (2 * runs + 1) - 1;
        let staged = rows * (runs + gaps * runs / 2 + 1) + vectors + minimums * (rows * 2 + tile * 4);
        let sums = 1 + chunk_sums * (runs / 2 * tile - 1);
        let words = part_scales * runs / 2 * rows + rows + (1 + minimums * (rows - 1)) + tile + sums;
        16 * staged + 4 * words + 4 * tile
    }
}

/// How a launch shares a product out among workgroups: each has a block of rows and a tile of vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Blocks {
    /// Threads of a workgroup.
    pub(crate) workgroup: u32,
    /// The most vectors of a tile of the list.
    pub(crate) listed: u32,
    /// The most vectors that a workgroup takes of them.
    pub(crate) tile: u32,
    /// Rows of a block, of each of the matrices that it has rows of.
    pub(crate) rows: u32,
    /// Workgroups that share the groups of a block, see [`Blocks::with_splits`].
    pub(crate) splits: u32,
    /// Who multiplies, and how a block is shared out within the workgroup.
    pub(crate) form: Form,
}

/// Who multiplies a block with its tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Four lanes take so many rows of each matrix, by dot products.
    Quads { quad_rows: u32, in_turn: bool },
    /// Matrix units.
    Units(UnitBlocks),
}

/// How fragments are shared out among subgroups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnitBlocks {
    pub(crate) units: Units,
    /// Subgroups that share the rows of a block; the others share its vectors.
    pub(crate) row_subgroups: u32,
    /// Fragments of rows of each.
    pub(crate) row_fragments: u32,
    /// How weights and vectors are staged.
    pub(crate) stage: Stage,
}

impl UnitBlocks {
    /// Rows of a block, of all its matrices together.
    pub(crate) fn rows(&self) -> u32 {
        self.row_subgroups * self.row_fragments * FRAGMENT
    }
}

impl Blocks {
    /// For products with matrices of these formats and heights, `together` of which a workgroup has rows of at a time: they must be of one format for
    /// matrix units. With experts `tiles` has their numbers.
    pub(crate) fn new(
        target: &Target,
        formats: &[Format],
        together: u32,
        heights: &[u32],
        shape: StepShape,
        tiles: Option<Tiles>,
    ) -> Self {
        let suits = together == 1 || formats.iter().all(|format| *format == formats[0]);
        let units = if tiles.is_some() { target.expert_units_for(shape) } else { target.units_for(shape) };
        if let Some(units) = units.filter(|_| suits) {
            let block = match tiles {
                Some(_) => target.tuning.unit_blocks[0],
                None => target.tuning.unit_block_for(heights.iter().sum::<u32>() * together, shape),
            };
            return Self::of_units(target, units, formats, together, block);
        }
        let workgroup = target.workgroup_of(target.tuning.tile_width);
        let quad_rows = (target.tuning.tile_rows / together).max(1);
        let (listed, tile) = match tiles {
            Some(Tiles { experts, used, .. }) => {
                (target.listed_pairs(shape, experts, used), expert_quad_tile(target, shape, experts, used))
            }
            None => (quad_tile(target), quad_tile(target)),
        };
        let rows = workgroup / 4 * quad_rows;
        let form = Form::Quads { quad_rows, in_turn: target.tuning.tile_in_turn };
        Self { workgroup, listed, tile, rows, splits: 1, form }
    }

    /// With such blocks, or smaller ones where shared memory has no room for those.
    fn of_units(target: &Target, units: Units, formats: &[Format], together: u32, block: UnitBlock) -> Self {
        let listed = block.tile();
        let (mut subgroups, mut tile) = (target.subgroups_of(block.width), listed);
        let mut fragments = block.row_fragments.max(1);
        let stage = Stage::new(units, target.tuning.unit_stage_runs, formats);
        loop {
            // A subgroup has a fragment of vectors at least, and a block rows of all matrices.
            let row_subgroups = block.row_subgroups.max(subgroups * FRAGMENT / tile).clamp(1, subgroups);
            let row_fragments = fragments.max(together.div_ceil(row_subgroups));
            let rows = row_subgroups * row_fragments * FRAGMENT;
            let has_room = stage.shared_bytes(rows, tile) <= target.shared_bytes && stage.has_offsets(rows, tile);
            if has_room || (subgroups, tile) == (1, FRAGMENT) {
                let form = Form::Units(UnitBlocks { units, row_subgroups, row_fragments, stage });
                let workgroup = subgroups * target.subgroup;
                return Self { workgroup, listed, tile, rows: rows / together, splits: 1, form };
            }
            if fragments > 1 {
                fragments -= 1;
            } else if tile > 2 * FRAGMENT || subgroups == 1 {
                tile /= 2;
            } else {
                subgroups /= 2;
            }
        }
    }

    /// The workgroups for matrices of these heights, one after the other, and a tile of the list.
    pub(crate) fn tile_groups(&self, target: &Target, heights: &[u32]) -> TileGroups {
        let blocks: u32 = heights.iter().map(|height| height.div_ceil(self.rows)).sum();
        let [x, y, _] = target.grid(blocks * self.splits);
        TileGroups { x, y, parts: self.listed / self.tile }
    }

    /// The workgroups for matrices of these heights and all rows of the step; or, with experts, for the tiles that rows need, whose number lies `grid`
    /// bytes behind the beginning of the grids.
    pub(crate) fn groups(
        &self,
        target: &Target,
        heights: &[u32],
        tiles: Option<Tiles>,
        grid: u32,
        shape: StepShape,
    ) -> Groups {
        let TileGroups { x, y, parts } = self.tile_groups(target, heights);
        match tiles {
            Some(tiles) => Groups::Indirect {
                address: tiles.grids + u64::from(grid),
                most: [x, y, tiles.most(self.listed, shape) * parts],
            },
            None => Groups::Fixed([x, y, shape.rows().div_ceil(self.tile)]),
        }
    }
}

/// The workgroups of a product for a tile of the list: so many in x and y for each of its parts, which lie in z.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TileGroups {
    pub(crate) x: u32,
    pub(crate) y: u32,
    pub(crate) parts: u32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tuning;

    /// Every device has shared memory for some block, and what the tuning asks for is kept where there is room.
    #[test]
    fn blocks_fit_into_shared_memory() {
        let units = Units { depth: 32, emulated: false };
        let [mut largest, ..] = Tuning::CARD.unit_blocks;
        largest.row_fragments = 4;
        let tall = Tuning { unit_blocks: [largest; 3], ..Tuning::CARD };
        for (subgroup, tuning) in [(32, Tuning::CARD), (64, Tuning::CARD), (32, tall), (8, Tuning::CPU)] {
            for shared_bytes in [16 << 10, 32 << 10, 48 << 10, 64 << 10] {
                for (format, together) in [(Format::Q4K, 1), (Format::Q4K, 2), (Format::Q6K, 1), (Format::Q5_1, 1)] {
                    let target = Target { units: Some(units), shared_bytes, tuning, ..Target::new(subgroup) };
                    let formats = &[format; 2][..together as usize];
                    let blocks = Blocks::new(&target, formats, together, &[1 << 16], StepShape::MOST, None);
                    let Form::Units(of) = blocks.form else { panic!("{blocks:?}") };
                    let rows = of.rows();
                    assert!(of.stage.shared_bytes(rows, blocks.tile) <= shared_bytes, "{blocks:?}");
                    assert!((of.row_subgroups * of.row_fragments).is_multiple_of(together), "{blocks:?}");
                    let vector_subgroups = blocks.workgroup / subgroup / of.row_subgroups;
                    assert!(blocks.tile >= vector_subgroups * FRAGMENT, "{blocks:?}");
                    assert_eq!(blocks.rows * together, rows);
                    if shared_bytes >= 48 << 10 && tuning != tall {
                        assert_eq!(blocks.tile, tuning.unit_blocks[0].vectors);
                    }
                }
            }
        }
        let declared = |source: &str| -> Vec<String> {
            source
                .lines()
                .filter(|line| line.starts_with("shared "))
                .map(|line| line.split(';').next().unwrap_or("").to_owned())
                .collect()
        };
        assert_eq!(
            declared(include_str!("../../../shaders/include/tile_vectors.glsl")),
            ["shared uint tile_offsets[TILE]"]
        );
        assert_eq!(
            declared(include_str!("../../../shaders/include/blocks.glsl")),
            [
                "shared uvec4 staged[MINIMUMS_AT + MINIMUMS * (BLOCK_ROWS * 2 + TILE * 4)]",
                "shared uint part_scales[PART_SCALES * STAGE_CHUNKS * BLOCK_ROWS]",
                "shared float row_scales[BLOCK_ROWS]",
                "shared float row_minimum_scales[1 + MINIMUMS * (BLOCK_ROWS - 1)]",
                "shared float vector_scales[TILE]",
                "shared float chunk_sums[1 + CHUNK_SUMS * (STAGE_CHUNKS * TILE - 1)]"
            ]
        );
    }

    #[test]
    fn steps_of_few_rows_go_by_dot_products() {
        let target = Target { units: Some(Units { depth: 16, emulated: false }), ..Target::new(32) };
        let few = StepShape::of(target.tuning.unit_rows / 2);
        let blocks = Blocks::new(&target, &[Format::Q4K], 1, &[256], few, None);
        assert!(matches!(blocks.form, Form::Quads { .. }), "{blocks:?}");
        assert_eq!(blocks.listed, target.tuning.tile_vectors);
        assert_eq!((target.most_without_units(), Target::new(32).most_without_units()), (Some(few), None));
    }

    #[test]
    fn pairs_of_two_formats_go_by_dot_products() {
        let target = Target { units: Some(Units { depth: 16, emulated: false }), ..Target::new(32) };
        let formats = [Format::Q4K, Format::Q8_0];
        let tiles = Some(Tiles { pairs: 0, tiles: 0, grids: 0, experts: 8, used: 2 });
        let apart = Blocks::new(&target, &formats, 1, &[256], StepShape::MOST, tiles);
        assert!(matches!(apart.form, Form::Units(_)), "{apart:?}");
        let blocks = Blocks::new(&target, &formats, 2, &[256], StepShape::MOST, tiles);
        assert!(matches!(blocks.form, Form::Quads { .. }), "{blocks:?}");
        assert_eq!((blocks.listed, blocks.tile), (target.tuning.unit_blocks[0].vectors, target.tuning.tile_vectors));
    }

    /// Few workgroups would leave most of a card idle.
    #[test]
    fn blocks_are_smaller_where_there_are_few() {
        let units = Some(Units { depth: 32, emulated: false });
        let target = Target { units, shared_bytes: 48 << 10, ..Target::new(32) };
        let rows_and_tile = |height: u32, rows: u32| {
            let blocks = Blocks::new(&target, &[Format::Q4K], 1, &[height], StepShape::of(rows), None);
            (blocks.rows, blocks.tile)
        };
        // The output of attention and the head of a model with 2,048 columns and 151,936 tokens.
        assert_eq!(
            [64, 128, 256, 512].map(|rows| rows_and_tile(2_048, rows)),
            [(32, 32), (32, 32), (64, 64), (128, 64)]
        );
        assert_eq!(rows_and_tile(151_936, 64), (128, 64));
    }

    /// A tile of more vectors than an expert has is computed in vain.
    #[test]
    fn tiles_of_experts_with_few_vectors_are_smaller() {
        let target = Target::new(32);
        let Tuning { tile_vectors, sparse_tile_vectors, .. } = target.tuning;
        assert_eq!(
            [32, 64, 128].map(|rows| target.listed_pairs(StepShape::of(rows), 128, 8)),
            [sparse_tile_vectors, sparse_tile_vectors, tile_vectors]
        );
        assert_eq!(target.listed_pairs(StepShape::of(32), 8, 2), tile_vectors);
    }
}
