//! GGUF files: [`File`] reads them, [`Writer`] writes them.
//!
//! Versions 2 and 3 are read, little endian, split over several files or not. Nothing in a file is believed: every
//! length is compared with the bytes that are left before anything is allocated, and what is wrong is an error that says where. What the
//! metadata mean is decided by [`crate::config`] and [`crate::tokenizer`].

mod format;
mod metadata;
mod parse;
mod read;
pub mod split;
mod value;
mod write;

pub use format::TensorFormat;
pub use metadata::Metadata;
pub use read::{File, TensorInfo};
pub use value::{Array, Value};
pub use write::Writer;

const MAGIC: [u8; 4] = *b"GGUF";
const DEFAULT_ALIGNMENT: u64 = 32;
/// The largest alignment that is accepted, in bytes. It is far above any page size, so a larger one means that the file is damaged.
const MAX_ALIGNMENT: u64 = 64 << 10;
const ALIGNMENT_KEY: &str = "general.alignment";
