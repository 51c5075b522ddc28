//! How a row of weights lies on a device: the fields of its blocks, parted into planes.
//!
//! Blocks of 18, 34 or 210 bytes start at odd addresses. On the device the same field of every block of a row is put together, in block
//! order, so that lanes load 16 aligned bytes at a time. A row is its planes one after another, each padded with zeros to a multiple of
//! [`PLANE_ALIGNMENT`] bytes. The bytes of a field do not change, so this knows nothing of what they mean; that is the decoders' matter. Only the codes of
//! MXFP4 have other numbers on a device (`device_codes`).

use super::{Format, Layout, mxfp4_device_byte};

/// Planes, and so rows, start at multiples of this and are a multiple of it long, in bytes: the widest load of a lane.
pub const PLANE_ALIGNMENT: usize = 16;

/// One field of each block of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plane {
    /// Bytes of the field in one block.
    pub bytes: usize,
    /// Where the field starts in a block of the file.
    pub from: usize,
}

const fn plane(bytes: usize, from: usize) -> Plane {
    Plane { bytes, from }
}

impl Plane {
    /// Bytes of the plane of a row of `blocks` blocks, padding included.
    #[must_use]
    pub const fn row_bytes(self, blocks: usize) -> usize {
        (blocks * self.bytes).next_multiple_of(PLANE_ALIGNMENT)
    }
}

impl Format {
    /// The planes of a row, in device order: the table that shaders agree with. Together they are the whole block.
    #[must_use]
    pub const fn planes(self) -> &'static [Plane] {
        match self {
            Self::F32 => const { &[plane(4, 0)] },
            Self::F16 | Self::BF16 => const { &[plane(2, 0)] },
            // Nibbles, scale.
            Self::Q4_0 | Self::IQ4NL => const { &[plane(16, 2), plane(2, 0)] },
            // Nibbles, scale and minimum.
            Self::Q4_1 => const { &[plane(16, 4), plane(4, 0)] },
            // Nibbles, fifth bits, scale.
            Self::Q5_0 => const { &[plane(16, 6), plane(4, 2), plane(2, 0)] },
            // Nibbles, fifth bits, scale and minimum.
            Self::Q5_1 => const { &[plane(16, 8), plane(4, 4), plane(4, 0)] },
            // Values, scale.
            Self::Q8_0 => const { &[plane(32, 2), plane(2, 0)] },
            // Bit pairs, sub-scales and sub-minimums, scales of the two.
            Self::Q2K => const { &[plane(64, 16), plane(16, 0), plane(4, 80)] },
            // Bit pairs, third bits, sub-scales, scale.
            Self::Q3K => const { &[plane(64, 32), plane(32, 0), plane(12, 96), plane(2, 108)] },
            // Nibbles, all scales and minimums.
            Self::Q4K => const { &[plane(128, 16), plane(16, 0)] },
            // Nibbles, fifth bits, all scales and minimums.
            Self::Q5K => const { &[plane(128, 48), plane(32, 16), plane(16, 0)] },
            // Low nibbles, high bit pairs, sub-scales, scale.
            Self::Q6K => const { &[plane(128, 0), plane(64, 128), plane(16, 192), plane(2, 208)] },
            // Nibbles, all scales.
            Self::IQ4XS => const { &[plane(128, 8), plane(8, 0)] },
            // Nibbles, which are renumbered; exponent.
            Self::MXFP4 => const { &[plane(16, 1), plane(1, 0)] },
        }
    }

    /// Bytes of a row of `columns` elements on a device: a multiple of [`PLANE_ALIGNMENT`].
    ///
    /// # Panics
    /// If `columns` is not a whole number of blocks.
    #[must_use]
    pub fn device_row_bytes(self, columns: usize) -> usize {
        let blocks = self.row_bytes(columns) / self.block_bytes();
        self.planes().iter().map(|plane| plane.row_bytes(blocks)).sum()
    }
}

/// Writes `rows`, whole rows of `columns` elements as files have them, to `out` as devices have them. Writes every byte of `out` once, in
/// ascending order, and reads none, as suits memory that is mapped from a device.
///
/// # Panics
/// If `columns` is zero or not a whole number of blocks, or the lengths are not those of the same number of rows.
pub fn repack_rows(format: Format, columns: usize, rows: &[u8], out: &mut [u8]) {
    let (row_bytes, device_row_bytes) = (format.row_bytes(columns), format.device_row_bytes(columns));
    assert!(
        columns > 0 && rows.len().is_multiple_of(row_bytes) && rows.len() / row_bytes * device_row_bytes == out.len(),
        "repacking rows of {columns} {format} elements: {} bytes in rows of {row_bytes} are not {} bytes in rows of {device_row_bytes}",
        rows.len(),
        out.len(),
    );
    for (row, out) in rows.chunks_exact(row_bytes).zip(out.chunks_exact_mut(device_row_bytes)) {
        repack_row(format, row, out);
    }
}

fn repack_row(format: Format, row: &[u8], out: &mut [u8]) {
    let Layout { bytes: block_bytes, .. } = format.layout();
    let blocks = row.len() / block_bytes;
    let mut rest = out;
    for plane in format.planes() {
        let (out, later) = rest.split_at_mut(plane.row_bytes(blocks));
        let (fields, padding) = out.split_at_mut(blocks * plane.bytes);
        // Copies of a size known to the compiler are a few moves each.
        match plane.bytes {
            whole if whole == block_bytes => fields.copy_from_slice(row),
            1 => gather::<1>(row, block_bytes, plane.from, fields),
            2 => gather::<2>(row, block_bytes, plane.from, fields),
            4 => gather::<4>(row, block_bytes, plane.from, fields),
            8 => gather::<8>(row, block_bytes, plane.from, fields),
            12 => gather::<12>(row, block_bytes, plane.from, fields),
            16 if format == Format::MXFP4 => gather_codes(row, block_bytes, plane.from, fields),
            16 => gather::<16>(row, block_bytes, plane.from, fields),
            32 => gather::<32>(row, block_bytes, plane.from, fields),
            64 => gather::<64>(row, block_bytes, plane.from, fields),
            128 => gather::<128>(row, block_bytes, plane.from, fields),
            other => unreachable!("{format} has a plane of {other} bytes, which no copy is made for"),
        }
        padding.fill(0);
        rest = later;
    }
}

/// Writes the 16 bytes of codes of MXFP4 at `from` of each block of `row` to `fields`, as devices have them.
fn gather_codes(row: &[u8], block_bytes: usize, from: usize, fields: &mut [u8]) {
    let (fields, _) = fields.as_chunks_mut::<16>();
    for (block, field) in row.chunks_exact(block_bytes).zip(fields) {
        *field = std::array::from_fn(|i| mxfp4_device_byte(block[from + i]));
    }
}

/// Copies the `F` bytes at `from` of each block of `row` to `fields`.
fn gather<const F: usize>(row: &[u8], block_bytes: usize, from: usize, fields: &mut [u8]) {
    let (fields, _) = fields.as_chunks_mut::<F>();
    for (block, field) in row.chunks_exact(block_bytes).zip(fields) {
        field.copy_from_slice(&block[from..from + F]);
    }
}
