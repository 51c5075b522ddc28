//! Every storage format that a GGUF file can name. Those without a kernel are known by name and size, for messages.

use std::fmt;

use zinc_kernels::Format;

/// How a tensor is stored in a file. There are more of them than of [`Format`], the formats that kernels read.
#[derive(Clone, Copy)]
pub struct TensorFormat {
    entry: &'static Entry,
}

struct Entry {
    id: u32,
    name: &'static str,
    block_elements: u64,
    block_bytes: u64,
    kernel: Option<Format>,
}

const fn kernel(id: u32, format: Format) -> Entry {
    Entry {
        id,
        name: format.name(),
        block_elements: format.block_elements() as u64,
        block_bytes: format.block_bytes() as u64,
        kernel: Some(format),
    }
}

const fn other(id: u32, name: &'static str, block_elements: u64, block_bytes: u64) -> Entry {
    Entry { id, name, block_elements, block_bytes, kernel: None }
}

/// All formats, by id. Missing ids were withdrawn, and occur in no file that other programs still read.
static TABLE: [Entry; 34] = [
    kernel(0, Format::F32),
    kernel(1, Format::F16),
    kernel(2, Format::Q4_0),
    kernel(3, Format::Q4_1),
    kernel(6, Format::Q5_0),
    kernel(7, Format::Q5_1),
    kernel(8, Format::Q8_0),
    other(9, "Q8_1", 32, 36),
    kernel(10, Format::Q2K),
    kernel(11, Format::Q3K),
    kernel(12, Format::Q4K),
    kernel(13, Format::Q5K),
    kernel(14, Format::Q6K),
    other(15, "Q8_K", 256, 292),
    other(16, "IQ2_XXS", 256, 66),
    other(17, "IQ2_XS", 256, 74),
    other(18, "IQ3_XXS", 256, 98),
    other(19, "IQ1_S", 256, 50),
    kernel(20, Format::IQ4NL),
    other(21, "IQ3_S", 256, 110),
    other(22, "IQ2_S", 256, 82),
    kernel(23, Format::IQ4XS),
    other(24, "I8", 1, 1),
    other(25, "I16", 1, 2),
    other(26, "I32", 1, 4),
    other(27, "I64", 1, 8),
    other(28, "F64", 1, 8),
    other(29, "IQ1_M", 256, 56),
    kernel(30, Format::BF16),
    other(34, "TQ1_0", 256, 54),
    other(35, "TQ2_0", 256, 66),
    kernel(39, Format::MXFP4),
    other(40, "NVFP4", 64, 36),
    other(41, "Q1_0", 128, 18),
];

impl TensorFormat {
    /// The format with this number in the file, if there is one.
    pub fn from_id(id: u32) -> Option<Self> {
        let index = TABLE.binary_search_by_key(&id, |entry| entry.id).ok()?;
        Some(Self { entry: &TABLE[index] })
    }

    /// Every format, by number.
    pub fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().map(|entry| Self { entry })
    }

    /// The number in the file.
    pub fn id(self) -> u32 {
        self.entry.id
    }

    /// The name, e.g. `IQ4_XS`.
    pub fn name(self) -> &'static str {
        self.entry.name
    }

    /// Elements per block.
    pub fn block_elements(self) -> u64 {
        self.entry.block_elements
    }

    /// Bytes per block.
    pub fn block_bytes(self) -> u64 {
        self.entry.block_bytes
    }

    /// The format as kernels know it; `None` if no kernel reads it.
    pub fn to_kernel(self) -> Option<Format> {
        self.entry.kernel
    }
}

impl From<Format> for TensorFormat {
    fn from(format: Format) -> Self {
        let entry = TABLE.iter().find(|entry| entry.kernel == Some(format));
        Self { entry: entry.expect("every kernel format is in the table") }
    }
}

impl PartialEq for TensorFormat {
    fn eq(&self, other: &Self) -> bool {
        self.id() == other.id()
    }
}

impl Eq for TensorFormat {}

impl fmt::Debug for TensorFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for TensorFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_finds_each_of_its_formats() {
        for format in TensorFormat::all() {
            assert_eq!(TensorFormat::from_id(format.id()), Some(format), "{format}");
        }
        assert_eq!(TensorFormat::from_id(4), None);
        assert_eq!(TensorFormat::from_id(u32::MAX), None);
    }

    #[test]
    fn every_kernel_format_has_a_number() {
        for format in Format::ALL {
            assert_eq!(TensorFormat::from(format).to_kernel(), Some(format), "{format}");
        }
    }
}
