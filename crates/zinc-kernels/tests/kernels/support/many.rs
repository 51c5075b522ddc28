//! The operands of kernels for many rows of a step.

use bytemuck::Pod;
use zinc_kernels::ops::{GROUP_COUNTERS_BYTES, GroupValues, Tiles};
use zinc_kernels::reference::{self, Q14};
use zinc_kernels::step::{Grid, Rows, StepShape, StepState};
use zinc_kernels::{Dispatch, Format, Groups, HalfUnits, Target, Tuning, UnitBlock, Units, ops};

use super::Gpu;
use super::arena::{Arena, Array, GAP};
use super::data::{Random, Scales, device_rows, in_turn, live, weights};

/// The device with matrix units, or with what stands in for them.
pub(crate) fn with_units() -> Target {
    let target = Gpu::get().target();
    let units = Some(target.units.unwrap_or(Units { depth: 32, emulated: true }));
    let half_units = Some(target.half_units.unwrap_or(HalfUnits { emulated: true }));
    Target { units, half_units, tuning: Tuning { unit_rows: 1, expert_unit_rows: 1, ..target.tuning }, ..target }
}

/// The device with matrix units, or with what stands in for them, and with blocks of these numbers of vectors, subgroups, subgroups that share the rows,
/// fragments of rows, and runs of a stage.
pub(crate) fn blocks_of([vectors, width, row_subgroups, row_fragments, unit_stage_runs]: [u32; 5]) -> Target {
    let target = with_units();
    let block = UnitBlock { vectors, width, row_subgroups, row_fragments };
    let tuning = Tuning { unit_blocks: [block; 3], few_vectors_block: block, unit_stage_runs, ..target.tuning };
    Target { tuning, ..target }
}

/// Rows and vectors of the blocks of [`splitting`].
const SPLIT_BLOCK: [usize; 2] = [64, 32];

/// The device with matrix units, or with what stands in for them, where workgroups share the groups of a block until a launch has so many of them.
pub(crate) fn splitting(split_workgroups: u32) -> Target {
    let target = blocks_of([32, 8, 4, 1, 8]);
    Target {
        tuning: Tuning {
            few_workgroups: u32::MAX,
            few_workgroups_a_group: u32::MAX,
            split_workgroups,
            ..target.tuning
        },
        ..target
    }
}

/// Memory for the values of groups, as much as a launch of [`splitting`] has use for.
pub(crate) struct Splits {
    pub(crate) memory: GroupValues,
    words: Array<u32>,
}

impl Splits {
    /// For matrices of these heights and so many columns, and a step that has room for so many rows. The values are NaN.
    pub(crate) fn new(arena: &mut Arena, heights: &[usize], columns: usize, room: u32) -> Self {
        let [rows, vectors] = SPLIT_BLOCK;
        let blocks: usize = heights.iter().map(|height| height.div_ceil(rows)).sum();
        let values = blocks * (room as usize).div_ceil(vectors) * columns.div_ceil(256) * rows * vectors;
        let counters = GROUP_COUNTERS_BYTES as usize / 4;
        let words = [vec![0; counters], vec![f32::NAN.to_bits(); values]].concat();
        let words = arena.scratch(&words);
        let memory = GroupValues { address: words.address, bytes: 4 * words.len as u64 };
        Self { memory, words }
    }

    /// Runs the launch; where workgroups share its groups twice, with one that has no rows between. Returns how many workgroups share those of a block.
    ///
    /// # Panics
    /// If a counter is not 0 afterwards.
    pub(crate) fn run(&self, arena: &Arena, launch: &Dispatch, without_rows: &Dispatch) -> u32 {
        // SPLITS is the last constant of the forms for matrix units.
        let constant = launch.constants.last().filter(|_| launch.kernel.name.contains("_units"));
        let splits = constant.map_or(1, |(_, splits)| *splits);
        match splits {
            1 => arena.run(std::slice::from_ref(launch)),
            _ => arena.run(&[launch.clone(), without_rows.clone(), launch.clone()]),
        }
        let counters = &arena.read(self.words)[..GROUP_COUNTERS_BYTES as usize / 4];
        assert!(counters.iter().all(|count| *count == 0), "counters behind {}", launch.kernel.name);
        splits
    }
}

/// Whether dot products stand in for matrix units.
pub(crate) fn is_emulated(target: &Target) -> bool {
    target.units.is_some_and(|units| units.emulated)
}

/// The device without its matrix units.
pub(crate) fn without_units() -> Target {
    Target { units: None, half_units: None, ..Gpu::get().target() }
}

/// The device without its matrix units, whose tiles take their vectors one after the other or by sets.
pub(crate) fn tiles(tile_in_turn: bool) -> Target {
    let target = without_units();
    Target { tuning: Tuning { tile_in_turn, ..target.tuning }, ..target }
}

/// [`tiles`] of each form in the whole matrix of tests, else of the one whose turn it is.
pub(crate) fn tile_forms(turn: usize) -> impl Iterator<Item = Target> {
    in_turn(&[true, false], turn).iter().copied().map(tiles)
}

/// A step that lists so many rows.
pub(crate) fn listed(rows: usize) -> StepState {
    StepState::new(live(), &vec![0; rows])
}

/// An operand that is only read, of which each row has these bytes. What lies between two rows' is filled with a pattern.
fn input(arena: &mut Arena, rows: &[Vec<u8>]) -> Rows {
    let longest = rows.iter().map(Vec::len).max().unwrap_or(0);
    let stride = longest.next_multiple_of(16) + 32;
    let mut bytes = Vec::new();
    for (row, values) in rows.iter().enumerate() {
        bytes.resize(row * stride, GAP);
        bytes.extend_from_slice(values);
    }
    Rows { address: arena.input(&bytes).address, stride: stride as u32 }
}

/// An operand that is only read, of which each row has these values.
pub(crate) fn values<T: Pod>(arena: &mut Arena, rows: &[Vec<T>]) -> Rows {
    let bytes: Vec<Vec<u8>> = rows.iter().map(|row| bytemuck::cast_slice(row).to_vec()).collect();
    input(arena, &bytes)
}

/// Rounded vectors, `[rows][slots]`, with their runs in order.
pub(crate) struct Vectors {
    pub(crate) operand: Rows,
    /// The same with their runs as steps of few rows have them.
    pub(crate) unordered: Rows,
    pub(crate) rounded: Vec<Vec<Q14>>,
}

impl Vectors {
    /// Random ones of `columns` elements up to `size`. One element of some rows is not finite: their results are of no interest, but those of the
    /// rows beside them are.
    pub(crate) fn new(
        random: &mut Random,
        arena: &mut Arena,
        (rows, slots): (usize, usize),
        columns: usize,
        size: f32,
    ) -> Self {
        let mut vector = |row: usize| {
            let mut x = random.vector(columns, size);
            match row % 5 {
                3 => x[columns / 2] = f32::NAN,
                4 => x[columns - 1] = f32::INFINITY,
                _ => {}
            }
            Q14::new(&x)
        };
        let rounded: Vec<Vec<Q14>> = (0..rows).map(|row| (0..slots).map(|_| vector(row)).collect()).collect();
        let bytes = |ordered| -> Vec<Vec<u8>> {
            rounded.iter().map(|row| row.iter().flat_map(|x| x.bytes(ordered)).collect()).collect()
        };
        Self { operand: input(arena, &bytes(true)), unordered: input(arena, &bytes(false)), rounded }
    }
}

/// An operand that is written: `[rows][len]` f32.
pub(crate) struct Output {
    pub(crate) operand: Rows,
    array: Array<f32>,
    len: usize,
}

impl Output {
    /// With these contents, `[rows][len]`.
    pub(crate) fn new(arena: &mut Arena, rows: &[Vec<f32>]) -> Self {
        let len = rows[0].len();
        let stride = (len * 4).next_multiple_of(16) + 48;
        let mut all = vec![f32::from_bits(0x7fc0_1234); rows.len() * stride / 4];
        for (all, row) in all.chunks_exact_mut(stride / 4).zip(rows) {
            all[..len].copy_from_slice(row);
        }
        let array = arena.in_out(&all);
        Self { operand: Rows { address: array.address, stride: stride as u32 }, array, len }
    }

    /// Filled with NaN.
    pub(crate) fn empty(arena: &mut Arena, rows: usize, len: usize) -> Self {
        Self::new(arena, &vec![vec![f32::NAN; len]; rows])
    }

    /// What each row has now. Nothing may have touched what lies between two rows'.
    pub(crate) fn read(&self, arena: &Arena) -> Vec<Vec<f32>> {
        let all = arena.read(self.array);
        let rows = all.chunks_exact(self.operand.stride as usize / 4);
        rows.map(|row| {
            assert!(row[self.len..].iter().all(|gap| gap.to_bits() == 0x7fc0_1234), "what lies between two rows");
            row[..self.len].to_vec()
        })
        .collect()
    }
}

/// A stack of random matrices: on the device, and the blocks they are made of.
pub(crate) fn matrices(
    random: &mut Random,
    arena: &mut Arena,
    format: Format,
    matrices: usize,
    (rows, columns): (usize, usize),
) -> (ops::Matrix, Vec<u8>) {
    let bytes = weights(random, format, matrices * rows, columns, Scales::Sane);
    let address = arena.input(&device_rows(format, columns, &bytes)).address;
    (ops::Matrix { address, format, rows: rows as u32, columns: columns as u32 }, bytes)
}

/// How the rows of a step choose among experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// Each row chooses at random.
    Random,
    /// All rows choose the same experts.
    Same,
    /// Each row chooses experts that no row has chosen before, as long as there are any.
    Spread,
}

/// The experts of each row, `[rows][used]`, all different within a row.
pub(crate) fn chosen(
    random: &mut Random,
    choice: Choice,
    rows: usize,
    (experts, used): (usize, usize),
) -> Vec<Vec<u32>> {
    let of_row = |row: usize, random: &mut Random| -> Vec<u32> {
        let first = match choice {
            Choice::Same => experts - 1,
            Choice::Spread => row * used,
            Choice::Random => {
                let mut all: Vec<u32> = (0..experts as u32).collect();
                return (0..used).map(|_| all.swap_remove(random.below(all.len()))).collect();
            }
        };
        (0..used).map(|slot| ((first + slot) % experts) as u32).collect()
    };
    (0..rows).map(|row| of_row(row, random)).collect()
}

/// The grid that `route` writes for a product, of which this is a launch, and so many tiles.
pub(crate) fn grid(launch: &Dispatch, tiles: usize) -> Grid {
    let constant = |id: u32| launch.constants.iter().find(|(of, _)| *of == id).map_or(1, |(_, value)| *value);
    // LISTED and TILE, of every form of products with tiles.
    let parts = constant(3) / constant(4);
    let [x, y, most] = launch.groups.most();
    let grid = reference::tile_grid([x, y, parts], tiles);
    assert!(grid.z <= most, "{}: {grid:?}, and at most {most} tiles", launch.kernel.name);
    grid
}

/// The launch of a product for rows that have made these choices, by the lists and with the workgroups that `route` would make of them. The other
/// product has no workgroups.
pub(crate) fn tiled(
    arena: &mut Arena,
    target: &Target,
    shape: StepShape,
    ids: &[Vec<u32>],
    experts: usize,
    launch: impl Fn(Tiles) -> Dispatch,
) -> Dispatch {
    let used = ids[0].len() as u32;
    let (pairs, tiles) =
        reference::route(&ids.concat(), experts as u32, shape.rows(), target.listed_pairs(shape, experts as u32, used));
    let (pairs, list) = (arena.input(&pairs).address, arena.input(&tiles).address);
    let lists = Tiles { pairs, tiles: list, grids: 0, experts: experts as u32, used };
    let at_0 = launch(lists);
    let Groups::Indirect { address, .. } = at_0.groups else { panic!("the device does not read {:?}", at_0.groups) };
    let mut grids = [Grid::default(); 2];
    grids[address as usize / size_of::<Grid>()] = grid(&at_0, tiles.len());
    launch(Tiles { grids: arena.input(&grids).address, ..lists })
}
