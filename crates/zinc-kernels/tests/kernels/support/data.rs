//! Deterministic data: random numbers, vectors, weight blocks of every format, golden blocks.

use std::path::Path;

use crate::matrix;
use half::{bf16, f16};
use zinc_kernels::formats::{Format, decode, repack_rows};
use zinc_kernels::reference::HostMatrix;
use zinc_kernels::step::Lane;

/// SplitMix64 (Steele, Lea, Flood, 2014).
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// A generator named by what it is for, so that cases do not share their numbers.
    pub(crate) fn new(name: &str) -> Self {
        Self(
            name.bytes()
                .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)),
        )
    }

    pub(crate) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in `0..end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.bits() % end as u64) as usize
    }

    /// Uniform in [-1, 1).
    pub(crate) fn unit(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }

    /// A vector of [`Random::unit`] times `size`.
    pub(crate) fn vector(&mut self, len: usize, size: f32) -> Vec<f32> {
        (0..len).map(|_| self.unit() * size).collect()
    }

    /// Whole numbers from -`limit` to `limit`.
    pub(crate) fn whole(&mut self, len: usize, limit: i32) -> Vec<f32> {
        (0..len).map(|_| (self.below(2 * limit as usize + 1) as i32 - limit) as f32).collect()
    }
}

/// How the scales of random blocks are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scales {
    /// As in a model: values below about 1.
    Sane,
    /// One: every element is a whole number, so that sums are exact in any order.
    Whole,
    /// Any finite half: zero, subnormal, negative, the largest.
    Odd,
    /// Halves as small as they get; powers of two from subnormal ones to such that products with integers are near the smallest that does not count as 0.
    Smallest,
}

impl Scales {
    fn half(self, random: &mut Random) -> [u8; 2] {
        let value = match self {
            Self::Sane => f16::from_f32((1.0 + random.unit() * 0.5) / 512.0),
            Self::Whole => f16::ONE,
            Self::Odd => match random.below(4) {
                0 => [f16::ZERO, f16::NEG_ZERO, f16::MAX, f16::MIN, f16::from_bits(1), f16::MIN_POSITIVE]
                    [random.below(6)],
                1 => f16::from_bits(random.below(0x400) as u16 | (random.below(2) as u16) << 15),
                _ => finite_half(random),
            },
            Self::Smallest => f16::from_bits(1),
        };
        value.to_le_bytes()
    }

    /// The exponent of a power of two with bias 127.
    fn exponent(self, random: &mut Random) -> u8 {
        match self {
            Self::Sane => 127 - 3,
            // The smallest magnitude of an E2M1 float but zero is a half.
            Self::Whole => 127 + 1,
            // Down to subnormal elements; far enough from the largest that sums stay finite.
            Self::Odd => random.below(200) as u8,
            // Products with sums of about 2^18 are then between 2^-110 and 2^-94.
            Self::Smallest => random.below(17) as u8,
        }
    }

    fn element(self, random: &mut Random) -> f32 {
        match self {
            Self::Sane => random.unit(),
            Self::Whole => random.below(201) as f32 - 100.0,
            Self::Odd => finite_half(random).to_f32(),
            Self::Smallest => f16::from_bits(1).to_f32(),
        }
    }
}

fn finite_half(random: &mut Random) -> f16 {
    loop {
        let half = f16::from_bits(random.bits() as u16);
        if half.is_finite() {
            return half;
        }
    }
}

/// `rows` rows of `columns` random weights.
pub(crate) fn weights(random: &mut Random, format: Format, rows: usize, columns: usize, scales: Scales) -> Vec<u8> {
    let blocks = rows * columns / format.block_elements();
    let mut bytes = Vec::with_capacity(blocks * format.block_bytes());
    for _ in 0..blocks {
        push_block(random, format, scales, &mut bytes);
    }
    bytes
}

/// Where a block of a file keeps its halves, in bytes: the scale, and the scale of the minimums where the format has them.
pub(crate) fn halves(format: Format) -> &'static [usize] {
    match format {
        Format::F32 | Format::F16 | Format::BF16 | Format::MXFP4 => &[],
        Format::Q4_0 | Format::Q5_0 | Format::Q8_0 | Format::IQ4NL | Format::IQ4XS => &[0],
        Format::Q4_1 | Format::Q5_1 | Format::Q4K | Format::Q5K => &[0, 2],
        Format::Q2K => &[80, 82],
        Format::Q3K => &[108],
        Format::Q6K => &[208],
    }
}

fn push_block(random: &mut Random, format: Format, scales: Scales, bytes: &mut Vec<u8>) {
    let first = bytes.len();
    match format {
        Format::F32 => bytes.extend(scales.element(random).to_le_bytes()),
        Format::F16 => bytes.extend(f16::from_f32(scales.element(random)).to_le_bytes()),
        Format::BF16 => bytes.extend(bf16::from_f32(scales.element(random)).to_le_bytes()),
        _ => bytes.extend((0..format.block_bytes()).map(|_| random.bits() as u8)),
    }
    if format == Format::MXFP4 {
        bytes[first] = scales.exponent(random);
    }
    for &at in halves(format) {
        bytes[first + at..first + at + 2].copy_from_slice(&scales.half(random));
    }
}

/// Rows of a file's bytes as a device has them.
pub(crate) fn device_rows(format: Format, columns: usize, rows: &[u8]) -> Vec<u8> {
    let mut out = vec![0; rows.len() / format.row_bytes(columns) * format.device_row_bytes(columns)];
    repack_rows(format, columns, rows, &mut out);
    out
}

/// Rows and columns of weights, on the host.
pub(crate) fn host(format: Format, columns: usize, bytes: &[u8]) -> HostMatrix<'_> {
    HostMatrix { format, columns, bytes }
}

/// The sum of `|w x|` over each row: what rounding errors of the dot product are relative to.
pub(crate) fn magnitudes(matrix: &HostMatrix<'_>, rows: std::ops::Range<usize>, x: &[f32]) -> Vec<f64> {
    let mut row = vec![0.0; matrix.columns];
    rows.map(|index| {
        matrix.decode_row(index, &mut row);
        row.iter().zip(x).map(|(w, x)| (f64::from(*w) * f64::from(*x)).abs()).sum()
    })
    .collect()
}

/// Blocks of edge cases that the reference implementation of GGUF decoded, and their values. `None` for the formats that have none.
pub(crate) fn golden(format: Format) -> Option<(Vec<u8>, Vec<f32>)> {
    if matches!(format, Format::F32 | Format::F16) {
        return None;
    }
    let read = |extension: &str| {
        let name = format!("{}.{extension}", format.name().to_lowercase());
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/host").join(name);
        std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    Some((read("blocks"), super::arena::values(&read("f32"))))
}

/// Blocks as values.
pub(crate) fn decoded(format: Format, blocks: &[u8]) -> Vec<f32> {
    let mut values = vec![f32::NAN; blocks.len() / format.block_bytes() * format.block_elements()];
    decode(format, blocks, &mut values);
    values
}

/// A lane in the middle of a context.
pub(crate) fn live() -> Lane {
    Lane { context_length: 4_096, budget: 100, ..Lane::default() }
}

/// Widths that rows of a format can have, out of `all`, each with one of the `uses` that a test makes of a matrix, forms of activations for example. In
/// the whole matrix of tests each width meets each use. Else each use meets one width, and a lone use two: formats with blocks of one size take
/// turns, so that together they meet every width in every use.
pub(crate) fn widths<T: Copy>(format: Format, all: &[usize], uses: &[T]) -> Vec<(usize, T)> {
    let block = format.block_elements();
    let fit: Vec<usize> = all.iter().copied().filter(|width| width.is_multiple_of(block)).collect();
    if matrix::is_full() {
        return fit.iter().flat_map(|&width| uses.iter().map(move |&of| (width, of))).collect();
    }
    let alike = Format::ALL.into_iter().filter(|other| other.block_elements() == block);
    let turn = alike.take_while(|other| *other != format).count();
    let width = |case: usize| fit[(turn + case * fit.len().div_ceil(2)) % fit.len()];
    uses.iter().cycle().take(uses.len().max(2)).enumerate().map(|(case, &of)| (width(case), of)).collect()
}

/// All of `all` in the whole matrix of tests, else the one whose turn it is.
pub(crate) fn in_turn<T>(all: &[T], turn: usize) -> &[T] {
    if matrix::is_full() { all } else { &all[turn % all.len()..][..1] }
}
