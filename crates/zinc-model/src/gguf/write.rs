//! Writes GGUF files of version 3: first the header, then one tensor after the other, so that only one tensor needs to be in memory.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use crate::error::{Error, Result};
use crate::gguf::parse::tensor_bytes;
use crate::gguf::value::{write_str, write_value};
use crate::gguf::{ALIGNMENT_KEY, DEFAULT_ALIGNMENT, MAGIC, MAX_ALIGNMENT, Metadata, TensorFormat, TensorInfo, Value};

const VERSION: u32 = 3;

/// A file to be written: metadata and the list of tensors. The data come last, from the caller, in the order of the list.
#[derive(Clone, Debug, Default)]
pub struct Writer {
    metadata: Metadata,
    tensors: Vec<TensorInfo>,
    /// Bytes of the data section so far, without the padding after the last tensor.
    data_bytes: u64,
}

impl Writer {
    /// A file with neither metadata nor tensors.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a metadata key; a value that is already there is replaced in its place.
    ///
    /// # Panics
    /// If the key is `general.alignment`, and the value is not a power of two of at most 64 KiB, or tensors have been
    /// placed by another one.
    pub fn set(&mut self, key: &str, value: impl Into<Value>) -> &mut Self {
        let value = value.into();
        if key == ALIGNMENT_KEY {
            let alignment = value.as_integer().unwrap_or(0);
            assert!(
                (1..=i128::from(MAX_ALIGNMENT)).contains(&alignment) && (alignment & (alignment - 1)) == 0,
                "{ALIGNMENT_KEY} = {value} is no power of two of at most {MAX_ALIGNMENT}"
            );
            assert!(self.tensors.is_empty(), "{ALIGNMENT_KEY} is set after {} tensors", self.tensors.len());
        }
        self.metadata.set(key, value);
        self
    }

    /// Adds a tensor: `shape` counts elements, fastest first.
    ///
    /// # Panics
    /// If there are more than four dimensions, rows are not whole blocks, or the size does not fit 64 bits.
    pub fn tensor(&mut self, name: &str, shape: &[u64], format: impl Into<TensorFormat>) -> &mut Self {
        let format = format.into();
        let columns = shape.first().copied().unwrap_or(1);
        assert!(
            shape.len() <= 4 && columns.is_multiple_of(format.block_elements()),
            "tensor '{name}' of shape {shape:?} cannot be {format}: blocks have {} elements",
            format.block_elements(),
        );
        let bytes = tensor_bytes(shape, format);
        let offset = self.data_bytes.next_multiple_of(self.alignment());
        let end = bytes.and_then(|bytes| offset.checked_add(bytes));
        let (Some(bytes), Some(end)) = (bytes, end) else {
            panic!("tensor '{name}' of shape {shape:?} is too large");
        };
        self.data_bytes = end;
        self.tensors.push(TensorInfo { name: name.to_owned(), shape: shape.to_vec(), format, part: 0, offset, bytes });
        self
    }

    /// The metadata set so far.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// The tensors added so far; their offsets count from the start of the data section.
    pub fn tensors(&self) -> &[TensorInfo] {
        &self.tensors
    }

    /// Writes the file. `data` is called for each tensor in order and writes its bytes.
    ///
    /// # Errors
    /// [`Error::Io`] with what writing or `data` failed with; what was written by then stays.
    ///
    /// # Panics
    /// If `data` writes another number of bytes than the tensor has.
    pub fn write(
        &self,
        path: impl AsRef<Path>,
        data: impl FnMut(&TensorInfo, &mut dyn Write) -> io::Result<()>,
    ) -> Result<()> {
        let path = path.as_ref();
        let write = || {
            let mut out = BufWriter::with_capacity(1 << 20, fs::File::create(path)?);
            self.write_to(&mut out, data)?;
            out.into_inner()?.sync_all()
        };
        write().map_err(|source| Error::Io { path: path.to_owned(), source })
    }

    /// Writes the file to `out`, see [`Self::write`].
    ///
    /// # Errors
    /// Whatever `out` or `data` fail with.
    ///
    /// # Panics
    /// If `data` writes another number of bytes than the tensor has.
    pub fn write_to(
        &self,
        out: &mut dyn Write,
        mut data: impl FnMut(&TensorInfo, &mut dyn Write) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut out = Counting { out, written: 0 };
        out.write_all(&self.header())?;
        out.pad(self.alignment())?;
        let start = out.written;
        for tensor in &self.tensors {
            out.pad(self.alignment())?;
            debug_assert_eq!(out.written - start, tensor.offset, "tensor '{}' is not in its place", tensor.name);
            let before = out.written;
            data(tensor, &mut out)?;
            let written = out.written - before;
            assert!(
                written == tensor.bytes,
                "tensor '{}' has {} bytes, but {written} were written",
                tensor.name,
                tensor.bytes
            );
        }
        out.pad(self.alignment())?;
        out.flush()
    }

    fn header(&self) -> Vec<u8> {
        let mut header = MAGIC.to_vec();
        header.extend_from_slice(&VERSION.to_le_bytes());
        header.extend_from_slice(&(self.tensors.len() as u64).to_le_bytes());
        header.extend_from_slice(&(self.metadata.len() as u64).to_le_bytes());
        for (key, value) in self.metadata.iter() {
            write_str(key, &mut header);
            write_value(value, &mut header);
        }
        for tensor in &self.tensors {
            write_str(&tensor.name, &mut header);
            // At most four.
            header.extend_from_slice(&(tensor.shape.len() as u32).to_le_bytes());
            for dimension in &tensor.shape {
                header.extend_from_slice(&dimension.to_le_bytes());
            }
            header.extend_from_slice(&tensor.format.id().to_le_bytes());
            header.extend_from_slice(&tensor.offset.to_le_bytes());
        }
        header
    }

    fn alignment(&self) -> u64 {
        let set = self.metadata.get(ALIGNMENT_KEY).and_then(Value::as_integer);
        set.map_or(DEFAULT_ALIGNMENT, |alignment| alignment as u64)
    }
}

/// Passes bytes on to `out` and counts them.
struct Counting<'a> {
    out: &'a mut dyn Write,
    written: u64,
}

impl Counting<'_> {
    /// Writes zeros up to the next multiple of `alignment`, which is at most [`MAX_ALIGNMENT`].
    fn pad(&mut self, alignment: u64) -> io::Result<()> {
        let zeros = self.written.next_multiple_of(alignment) - self.written;
        self.write_all(&vec![0; zeros as usize])
    }
}

impl Write for Counting<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.written += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
