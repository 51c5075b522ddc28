//! Cases of attention: the shape of the heads, the cache before the launch, the window and the sinks, and how the work is shared out.

use half::f16;
use zinc_kernels::ops::{ActFormat, CacheFormat, Heads, Pairing};
use zinc_kernels::reference;
use zinc_kernels::step::PAGE_POSITIONS;
use zinc_kernels::{Target, Tuning};

use super::arena::{Arena, Array, values};
use super::data::Random;
use super::many;
use super::pages::Pages;

pub(crate) const EPSILON: f32 = 1e-6;

/// The sinks of heads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sinks {
    /// There are none.
    None,
    /// Each is about as heavy as all keys that a row attends to.
    Heavy,
    /// Beside them no key counts.
    Overwhelming,
    /// Beside any key they do not count.
    Negligible,
    /// They are minus infinity.
    Nothing,
    /// That of the second head is not a number.
    NotANumber,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) query_heads: usize,
    pub(crate) kv_heads: usize,
    pub(crate) head_size: usize,
    /// Leading elements that rotate.
    pub(crate) rotated: usize,
    pub(crate) pairing: Pairing,
    /// Whether heads are normalised.
    pub(crate) norm: bool,
    pub(crate) position: usize,
    /// The most shares.
    pub(crate) splits: usize,
    /// Whether workgroups without positions read something else.
    pub(crate) warm: bool,
    /// The most query heads of a workgroup.
    pub(crate) heads: u32,
    pub(crate) keys: CacheFormat,
    pub(crate) values: CacheFormat,
    pub(crate) out: ActFormat,
    /// The largest magnitude of queries and keys.
    pub(crate) size: f32,
    /// Whether it goes by matrix units, or by what stands in for them.
    pub(crate) units: bool,
    /// Whether the lane has pages, in random order among others that are full of NaN; else its positions lie one behind the other.
    pub(crate) paged: bool,
    /// Pages of the ring that each lane has instead, if any: for the window, and for the rows of a step.
    pub(crate) ring: u32,
    /// The keys that a row attends to, or all.
    pub(crate) window: Option<u32>,
    pub(crate) sinks: Sinks,
}

pub(crate) const PLAIN: Case = Case {
    query_heads: 4,
    kv_heads: 1,
    head_size: 64,
    rotated: 64,
    pairing: Pairing::Halves,
    norm: true,
    position: 200,
    splits: 3,
    warm: true,
    heads: 2,
    keys: CacheFormat::F16,
    values: CacheFormat::F16,
    out: ActFormat::F32,
    size: 1.0,
    units: false,
    paged: false,
    ring: 0,
    window: None,
    sinks: Sinks::None,
};

/// Pages that tables have room for: of the longest context here with pages, so that cases share their pipelines.
pub(crate) const LANE_PAGES: u32 = 14;

/// The pages of the lane of a case, for so many positions.
pub(crate) fn pages(random: &mut Random, case: &Case, positions: usize) -> Pages {
    match case {
        Case { ring: 1.., .. } => Pages::in_ring(case.ring, positions, LANE_PAGES),
        Case { paged: true, .. } => Pages::scrambled(random, positions, LANE_PAGES),
        Case { .. } => Pages::default(),
    }
}

pub(crate) fn heads(case: &Case) -> Heads {
    let [query_heads, kv_heads, head_size] = [case.query_heads, case.kv_heads, case.head_size].map(|n| n as u32);
    Heads { query_heads, kv_heads, head_size }
}

/// The device, tuned as the case says.
pub(crate) fn target(case: &Case) -> Target {
    let target = if case.units { many::with_units() } else { many::without_units() };
    let tuning = Tuning {
        attention_workgroups: (case.splits * case.query_heads) as u32,
        warm_cache: case.warm,
        attention_heads: case.heads,
        long_context: 0,
        attention_splits: case.splits as u32,
        ..target.tuning
    };
    Target { tuning, ..target }
}

/// The first position that a row at `position` attends to.
pub(crate) fn first_attended(case: &Case, position: usize) -> usize {
    case.window.map_or(0, |window| (position + 1).saturating_sub(window as usize))
}

/// A context of so many positions, or one that the case's window does not hold: such a window would be none.
pub(crate) fn context(case: &Case, positions: usize) -> u32 {
    (positions as u32).max(case.window.map_or(0, |window| window + 1))
}

/// The sinks of a case, of each query head.
pub(crate) fn sinks(random: &mut Random, case: &Case) -> Option<Vec<f32>> {
    let attended = case.position + 1 - first_attended(case, case.position);
    let of_head = |head: usize, unit: f32| match case.sinks {
        Sinks::Overwhelming => 1e4 + unit,
        Sinks::Negligible => -1e4 + unit,
        Sinks::Nothing => f32::NEG_INFINITY,
        Sinks::NotANumber if head == 1 => f32::NAN,
        _ => (attended as f32).ln() + unit,
    };
    (case.sinks != Sinks::None).then(|| (0..case.query_heads).map(|head| of_head(head, random.unit())).collect())
}

/// What a cache holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contents {
    Keys,
    Values,
}

/// A table of rotations for so many positions.
pub(crate) fn rotation(positions: usize, pairs: usize) -> Vec<[f32; 2]> {
    (0..positions * pairs)
        .map(|i| ((i / pairs) as f32 * (0.9f32).powi((i % pairs) as i32)).sin_cos())
        .map(|(sine, cosine)| [cosine, sine])
        .collect()
}

/// A cache whose rows from the position on are NaN: what stands there before the launch must not reach the result. `beyond` rows follow that
/// of the position. So is everything that is not in the lane's pages, and whole pages before the window. Of the rows behind these and before the window keys
/// are NaN, and values are large.
pub(crate) fn cache(
    arena: &mut Arena,
    random: &mut Random,
    case: &Case,
    pages: &Pages,
    contents: Contents,
    beyond: usize,
) -> (Array<u8>, Vec<f32>) {
    let width = case.kv_heads * case.head_size;
    let (format, size, masked) = match contents {
        Contents::Keys => (case.keys, case.size, f32::NAN),
        Contents::Values => (case.values, 1.0, 1_000.0),
    };
    let mut rows = random.vector(case.position * width, size);
    // Not the NaN that an append writes, so that one can be told from the other.
    let empty = f32::from_bits(0x7fc0_2000);
    let first = first_attended(case, case.position);
    rows[..first * width].fill(masked);
    rows[..first / PAGE_POSITIONS as usize * PAGE_POSITIONS as usize * width].fill(empty);
    reference::cache_row(format, &mut rows);
    rows.resize(rows.len() + (1 + beyond) * width, empty);
    let pool = pages.scatter(&rows, width, empty);
    let bytes: Vec<u8> = match format {
        CacheFormat::F32 => bytemuck::cast_slice(&pool).to_vec(),
        CacheFormat::F16 => pool.iter().flat_map(|x| f16::from_f32(*x).to_le_bytes()).collect(),
    };
    (arena.in_out(&bytes), rows)
}

/// The first `positions` rows of the lane of a case, as they read back. Nothing else in the cache may have been written.
pub(crate) fn read_cache(
    arena: &Arena,
    cache: Array<u8>,
    case: &Case,
    pages: &Pages,
    format: CacheFormat,
    positions: usize,
) -> Vec<f32> {
    let bytes: Vec<u8> = arena.read(cache);
    let pool: Vec<f32> = match format {
        CacheFormat::F32 => values(&bytes),
        CacheFormat::F16 => values::<f16>(&bytes).into_iter().map(f16::to_f32).collect(),
    };
    let (rows, others) = pages.gather(&pool, case.kv_heads * case.head_size, positions);
    assert!(others.iter().all(|x| x.is_nan()), "{case:?}: pages of others are as they were");
    rows
}
