//! Weight formats: the block layout table, the host decoder, and the layout of rows on a device (`planes`).
//!
//! A weight row is a sequence of blocks. A block packs [`Layout::elements`] values into [`Layout::bytes`] bytes; the
//! unquantised formats are blocks of one element. This is one of exactly two decoders (the other one is GLSL) and the
//! two agree bit for bit: every product and sum is rounded to f32 on its own, in the order written here, and never fused.
//!
//! Quantising is not here: files arrive quantised.

mod blocks;
mod decode;
mod device_codes;
mod planes;

pub use blocks::{Block, Block32, Block256, Minimums};
pub use device_codes::mxfp4_device_byte;
pub use planes::{PLANE_ALIGNMENT, Plane, repack_rows};

use std::fmt;

/// How the elements of a tensor are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Format {
    /// IEEE binary32.
    F32,
    /// IEEE binary16.
    F16,
    /// The upper half of a binary32.
    BF16,
    /// 4-bit values around 8, one scale per 32.
    Q4_0,
    /// 4-bit values, one scale and one minimum per 32.
    Q4_1,
    /// 5-bit values around 16, one scale per 32.
    Q5_0,
    /// 5-bit values, one scale and one minimum per 32.
    Q5_1,
    /// 8-bit signed values, one scale per 32.
    Q8_0,
    /// 4-bit values; 6-bit scales and minimums per 32 under a scale and a minimum per 256.
    Q4K,
    /// 5-bit values; 6-bit scales and minimums per 32 under a scale and a minimum per 256.
    Q5K,
    /// 6-bit values around 32; 8-bit scales per 16 under a scale per 256.
    Q6K,
    /// 2-bit values; 4-bit scales and minimums per 16 under a scale and a minimum per 256.
    Q2K,
    /// 3-bit values around 4; 6-bit scales per 16 under a scale per 256.
    Q3K,
    /// 4-bit indices into a table of 16 values, one scale per 32.
    IQ4NL,
    /// 4-bit indices into the table of `IQ4NL`; 6-bit scales per 32 under a scale per 256.
    IQ4XS,
    /// 4-bit floats (E2M1), one power of two per 32.
    MXFP4,
}

/// The shape of one block of a [`Format`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The name that GGUF tools print.
    pub name: &'static str,
    /// Elements per block.
    pub elements: usize,
    /// Bytes per block.
    pub bytes: usize,
}

const fn layout(name: &'static str, elements: usize, bytes: usize) -> Layout {
    Layout { name, elements, bytes }
}

impl Format {
    /// Every format, in the order of the declaration.
    pub const ALL: [Self; 16] = [
        Self::F32,
        Self::F16,
        Self::BF16,
        Self::Q4_0,
        Self::Q4_1,
        Self::Q5_0,
        Self::Q5_1,
        Self::Q8_0,
        Self::Q4K,
        Self::Q5K,
        Self::Q6K,
        Self::Q2K,
        Self::Q3K,
        Self::IQ4NL,
        Self::IQ4XS,
        Self::MXFP4,
    ];

    /// The block layout: the one table of sizes.
    pub const fn layout(self) -> Layout {
        match self {
            Self::F32 => layout("F32", 1, 4),
            Self::F16 => layout("F16", 1, 2),
            Self::BF16 => layout("BF16", 1, 2),
            Self::Q4_0 => layout("Q4_0", 32, 2 + 16),
            Self::Q4_1 => layout("Q4_1", 32, 2 + 2 + 16),
            Self::Q5_0 => layout("Q5_0", 32, 2 + 4 + 16),
            Self::Q5_1 => layout("Q5_1", 32, 2 + 2 + 4 + 16),
            Self::Q8_0 => layout("Q8_0", 32, 2 + 32),
            Self::Q4K => layout("Q4_K", 256, 2 + 2 + 12 + 128),
            Self::Q5K => layout("Q5_K", 256, 2 + 2 + 12 + 32 + 128),
            Self::Q6K => layout("Q6_K", 256, 128 + 64 + 16 + 2),
            Self::Q2K => layout("Q2_K", 256, 16 + 64 + 2 + 2),
            Self::Q3K => layout("Q3_K", 256, 32 + 64 + 12 + 2),
            Self::IQ4NL => layout("IQ4_NL", 32, 2 + 16),
            Self::IQ4XS => layout("IQ4_XS", 256, 2 + 2 + 4 + 128),
            Self::MXFP4 => layout("MXFP4", 32, 1 + 16),
        }
    }

    /// The name that GGUF tools print, e.g. `Q4_K`.
    pub const fn name(self) -> &'static str {
        self.layout().name
    }

    /// Whether elements are floats of their own, without a scale that several share.
    #[must_use]
    pub const fn is_float(self) -> bool {
        matches!(self, Self::F32 | Self::F16 | Self::BF16)
    }

    /// Whether 256 elements share a scale, and parts of them have scales that are small integers.
    #[must_use]
    pub const fn has_sub_blocks(self) -> bool {
        matches!(self, Self::Q2K | Self::Q3K | Self::Q4K | Self::Q5K | Self::Q6K | Self::IQ4XS)
    }

    /// Elements per block: 1, 32 or 256.
    pub const fn block_elements(self) -> usize {
        self.layout().elements
    }

    /// Bytes per block.
    pub const fn block_bytes(self) -> usize {
        self.layout().bytes
    }

    /// Bytes of a row of `cols` elements.
    ///
    /// # Panics
    /// If `cols` is not a whole number of blocks.
    pub const fn row_bytes(self, cols: usize) -> usize {
        let Layout { elements, bytes, .. } = self.layout();
        assert!(cols.is_multiple_of(elements), "a row must be a whole number of blocks");
        cols / elements * bytes
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Decodes whole blocks of `format` into `out`.
///
/// # Panics
/// If `blocks` is not a whole number of blocks, or `out` does not have one place for each of their elements.
pub fn decode(format: Format, blocks: &[u8], out: &mut [f32]) {
    let Layout { name, elements, bytes } = format.layout();
    assert!(
        blocks.len().is_multiple_of(bytes) && blocks.len() / bytes * elements == out.len(),
        "decoding {name}: {} bytes are not {} elements in blocks of {elements} elements and {bytes} bytes",
        blocks.len(),
        out.len(),
    );
    match reader(format) {
        Reader::Floats(read) => read(blocks, out),
        Reader::Of32(read) => {
            for (block, out) in blocks.chunks_exact(bytes).zip(out.as_chunks_mut().0) {
                read(block).elements(out);
            }
        }
        Reader::Of256(read) => {
            for (block, out) in blocks.chunks_exact(bytes).zip(out.as_chunks_mut().0) {
                read(block).elements(out);
            }
        }
    }
}

/// What the bytes of one block of a quantised format hold; `None` if elements of the format are floats of their own.
///
/// # Panics
/// If `bytes` has not the size of a block.
#[must_use]
pub fn read_block(format: Format, bytes: &[u8]) -> Option<Block> {
    assert!(bytes.len() == format.block_bytes(), "{} bytes are no block of {format}", bytes.len());
    match reader(format) {
        Reader::Floats(_) => None,
        Reader::Of32(read) => Some(Block::Of32(read(bytes))),
        Reader::Of256(read) => Some(Block::Of256(read(bytes))),
    }
}

/// How the bytes of a format are read. The functions for blocks take the bytes of one block, and panic if there are more or fewer.
enum Reader {
    /// Elements that are floats of their own, any number of them.
    Floats(fn(&[u8], &mut [f32])),
    /// A block of 32 elements.
    Of32(fn(&[u8]) -> Block32),
    /// A block of 256 elements.
    Of256(fn(&[u8]) -> Block256),
}

/// The reader of each format.
const fn reader(format: Format) -> Reader {
    match format {
        Format::F32 => Reader::Floats(|bytes, out| decode::each(bytes, out, decode::f32)),
        Format::F16 => Reader::Floats(|bytes, out| decode::each(bytes, out, decode::f16)),
        Format::BF16 => Reader::Floats(|bytes, out| decode::each(bytes, out, decode::bf16)),
        Format::Q4_0 => Reader::Of32(|block| decode::q4_0(sized(block))),
        Format::Q4_1 => Reader::Of32(|block| decode::q4_1(sized(block))),
        Format::Q5_0 => Reader::Of32(|block| decode::q5_0(sized(block))),
        Format::Q5_1 => Reader::Of32(|block| decode::q5_1(sized(block))),
        Format::Q8_0 => Reader::Of32(|block| decode::q8_0(sized(block))),
        Format::Q4K => Reader::Of256(|block| decode::k::q4_k(sized(block))),
        Format::Q5K => Reader::Of256(|block| decode::k::q5_k(sized(block))),
        Format::Q6K => Reader::Of256(|block| decode::k::q6_k(sized(block))),
        Format::Q2K => Reader::Of256(|block| decode::k::q2_k(sized(block))),
        Format::Q3K => Reader::Of256(|block| decode::k::q3_k(sized(block))),
        Format::IQ4NL => Reader::Of32(|block| decode::table::iq4_nl(sized(block))),
        Format::IQ4XS => Reader::Of256(|block| decode::table::iq4_xs(sized(block))),
        Format::MXFP4 => Reader::Of32(|block| decode::table::mxfp4(sized(block))),
    }
}

fn sized<const B: usize>(block: &[u8]) -> &[u8; B] {
    block.try_into().expect("the callers pass whole blocks")
}
