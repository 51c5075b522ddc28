//! Parses the header of one file: bytes become metadata and descriptions of tensors. No file is touched here; [`super::read`] maps files and
//! joins the parts of split models.

use std::collections::HashSet;

use crate::error::{Error, Result};
use crate::gguf::metadata::{Inserted, Metadata};
use crate::gguf::value::{ARRAY_ID, Array, Element, Value};
use crate::gguf::{ALIGNMENT_KEY, DEFAULT_ALIGNMENT, MAGIC, MAX_ALIGNMENT, TensorFormat};

/// The longest key, name or string value, in bytes. The longest in real files are chat templates of some kilobytes.
const MAX_STRING_BYTES: u64 = 64 << 20;
const MAX_DIMENSIONS: u32 = 4;
/// How deep arrays may be nested. In known files arrays hold arrays of scalars at most, which is a depth of two.
const MAX_ARRAY_DEPTH: usize = 8;
/// The fewest bytes of a metadata entry: the length of the key, the type of the value, and one byte of the value.
const MIN_ENTRY_BYTES: u64 = 8 + 4 + 1;
/// The fewest bytes of a tensor's description: the length of the name, the number of dimensions, the format and the offset.
const MIN_TENSOR_BYTES: u64 = 8 + 4 + 4 + 8;

/// What the header of a file says, checked against the length of the file.
#[derive(Debug)]
pub(super) struct Header {
    pub(super) metadata: Metadata,
    pub(super) tensors: Vec<TensorEntry>,
}

/// The description of a tensor, whose data are at `start..start + bytes` of the file.
#[derive(Debug)]
pub(super) struct TensorEntry {
    pub(super) name: String,
    pub(super) shape: Vec<u64>,
    pub(super) format: TensorFormat,
    pub(super) start: u64,
    pub(super) bytes: u64,
}

impl Header {
    /// Reads the header of `file`, the bytes of a whole file.
    pub(super) fn parse(file: &[u8]) -> Result<Self> {
        let mut cursor = Cursor { bytes: file, offset: 0 };
        check_start(&mut cursor)?;
        let tensor_count = cursor.count("the number of tensors", "the tensors", MIN_TENSOR_BYTES)?;
        let entry_count = cursor.count("the number of metadata keys", "the metadata", MIN_ENTRY_BYTES)?;

        let mut metadata = Metadata::default();
        for _ in 0..entry_count {
            let offset = cursor.offset();
            let key = cursor.string("a metadata key")?;
            let value = cursor.value(&key)?;
            if metadata.insert(key.clone(), value) == Inserted::KeyExists {
                return Err(Error::DuplicateKey { offset, key });
            }
        }
        let alignment = alignment(&metadata)?;

        let mut tensors = Vec::with_capacity(tensor_count);
        let mut names = HashSet::with_capacity(tensor_count);
        for _ in 0..tensor_count {
            let tensor = cursor.tensor(alignment)?;
            if !names.insert(tensor.name.clone()) {
                return Err(Error::DuplicateTensor { name: tensor.name });
            }
            tensors.push(tensor);
        }
        // A file without tensors may end without the padding before the data.
        let data = cursor.offset().next_multiple_of(alignment);
        place(&mut tensors, data, file.len() as u64)?;
        Ok(Self { metadata, tensors })
    }
}

fn check_start(cursor: &mut Cursor<'_>) -> Result<()> {
    let magic = &cursor.bytes[..cursor.bytes.len().min(MAGIC.len())];
    if magic != MAGIC {
        // A file that was cut off within its first four bytes also counts as no GGUF file.
        return Err(Error::NotGguf { found: magic.to_vec() });
    }
    cursor.take(MAGIC.len() as u64, "the magic")?;
    let version = u32::from_le_bytes(cursor.array("the version")?);
    match version {
        2 | 3 => Ok(()),
        // Version numbers are small, so one whose lower 16 bits are 0 was written with the other order of bytes.
        _ if version & 0xffff == 0 && version != 0 => Err(Error::BigEndian { version: version.swap_bytes() }),
        _ => Err(Error::Version { version }),
    }
}

fn alignment(metadata: &Metadata) -> Result<u64> {
    let Some(alignment) = metadata.get_u32(ALIGNMENT_KEY)? else {
        return Ok(DEFAULT_ALIGNMENT);
    };
    let alignment = u64::from(alignment);
    if alignment.is_power_of_two() && alignment <= MAX_ALIGNMENT {
        return Ok(alignment);
    }
    Err(Error::BadValue {
        key: ALIGNMENT_KEY.to_owned(),
        found: alignment.to_string(),
        expected: format!("a power of two and at most {MAX_ALIGNMENT}"),
    })
}

/// Turns offsets in the data section, which starts at `data`, into offsets in the file, and checks them.
fn place(tensors: &mut [TensorEntry], data: u64, file_bytes: u64) -> Result<()> {
    for tensor in &mut *tensors {
        let start = tensor.start.checked_add(data);
        let end = start.and_then(|start| start.checked_add(tensor.bytes));
        match (start, end) {
            (Some(start), Some(end)) if end <= file_bytes => tensor.start = start,
            _ => {
                let end = end.unwrap_or(u64::MAX);
                return Err(Error::TensorOutside { name: tensor.name.clone(), end, file_bytes });
            }
        }
    }
    let mut by_start: Vec<&TensorEntry> = tensors.iter().filter(|tensor| tensor.bytes > 0).collect();
    by_start.sort_by_key(|tensor| tensor.start);
    for pair in by_start.windows(2) {
        let end = pair[0].start + pair[0].bytes;
        if pair[1].start < end {
            return Err(Error::Overlap {
                first: pair[0].name.clone(),
                end,
                second: pair[1].name.clone(),
                start: pair[1].start,
            });
        }
    }
    Ok(())
}

/// The bytes of a file, and the offset up to which they have been read.
struct Cursor<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> Cursor<'a> {
    fn offset(&self) -> u64 {
        self.offset as u64
    }

    fn left(&self) -> u64 {
        (self.bytes.len() - self.offset) as u64
    }

    /// Returns an error that names `what` unless `need` bytes are left.
    fn check(&self, need: u64, what: &'static str) -> Result<()> {
        let left = self.left();
        if need <= left {
            return Ok(());
        }
        Err(Error::Truncated { offset: self.offset(), what, need, left })
    }

    fn take(&mut self, count: u64, what: &'static str) -> Result<&'a [u8]> {
        self.check(count, what)?;
        let start = self.offset;
        // `count` is at most the number of bytes left, so it fits `usize`.
        self.offset += count as usize;
        Ok(&self.bytes[start..self.offset])
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N]> {
        let bytes = self.take(N as u64, what)?;
        Ok(bytes.try_into().expect("as many bytes as were asked for"))
    }

    fn u32(&mut self, what: &'static str) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array(what)?))
    }

    fn u64(&mut self, what: &'static str) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array(what)?))
    }

    /// Reads the number of `things`, each of at least `min_bytes`, that follow in the file, and checks that the file is long enough for them.
    fn count(&mut self, what: &'static str, things: &'static str, min_bytes: u64) -> Result<usize> {
        let count = self.u64(what)?;
        self.check(count.saturating_mul(min_bytes), things)?;
        // The count is at most the number of bytes left, so it fits `usize`.
        Ok(count as usize)
    }

    fn string(&mut self, what: &'static str) -> Result<String> {
        let offset = self.offset();
        let length = self.u64(what)?;
        self.check(length, what)?;
        if length > MAX_STRING_BYTES {
            return Err(Error::TooLong { offset, what, length, limit: MAX_STRING_BYTES });
        }
        let bytes = self.take(length, what)?;
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => Err(Error::NotUtf8 { offset, what }),
        }
    }

    fn bool(&mut self, key: &str) -> Result<bool> {
        let offset = self.offset();
        match self.array("a boolean")? {
            [0] => Ok(false),
            [1] => Ok(true),
            [byte] => Err(Error::NotBool { offset, key: key.to_owned(), byte }),
        }
    }

    /// Reads a value's type and the value. Errors name `key`.
    fn value(&mut self, key: &str) -> Result<Value> {
        const WHAT: &str = "a metadata value";
        let offset = self.offset();
        let id = self.u32("a metadata type")?;
        Ok(match id {
            0 => Value::U8(u8::from_le_bytes(self.array(WHAT)?)),
            1 => Value::I8(i8::from_le_bytes(self.array(WHAT)?)),
            2 => Value::U16(u16::from_le_bytes(self.array(WHAT)?)),
            3 => Value::I16(i16::from_le_bytes(self.array(WHAT)?)),
            4 => Value::U32(u32::from_le_bytes(self.array(WHAT)?)),
            5 => Value::I32(i32::from_le_bytes(self.array(WHAT)?)),
            6 => Value::F32(f32::from_le_bytes(self.array(WHAT)?)),
            7 => Value::Bool(self.bool(key)?),
            8 => Value::String(self.string("a metadata string")?),
            ARRAY_ID => Value::Array(self.array_value(key, 1)?),
            10 => Value::U64(u64::from_le_bytes(self.array(WHAT)?)),
            11 => Value::I64(i64::from_le_bytes(self.array(WHAT)?)),
            12 => Value::F64(f64::from_le_bytes(self.array(WHAT)?)),
            _ => {
                return Err(Error::ValueType { offset, key: key.to_owned(), id });
            }
        })
    }

    /// An array at `depth`, which is one for an array that lies within no other.
    fn array_value(&mut self, key: &str, depth: usize) -> Result<Array> {
        let offset = self.offset();
        let id = self.u32("an array's type")?;
        Ok(match id {
            0 => Array::U8(self.numbers(u8::from_le_bytes)?),
            1 => Array::I8(self.numbers(i8::from_le_bytes)?),
            2 => Array::U16(self.numbers(u16::from_le_bytes)?),
            3 => Array::I16(self.numbers(i16::from_le_bytes)?),
            4 => Array::U32(self.numbers(u32::from_le_bytes)?),
            5 => Array::I32(self.numbers(i32::from_le_bytes)?),
            6 => Array::F32(self.numbers(f32::from_le_bytes)?),
            7 => Array::Bool(self.elements(|cursor| cursor.bool(key))?),
            8 => Array::String(self.elements(|cursor| cursor.string("a string of an array"))?),
            ARRAY_ID if depth == MAX_ARRAY_DEPTH => {
                return Err(Error::NestedArray { offset, key: key.to_owned(), limit: MAX_ARRAY_DEPTH });
            }
            ARRAY_ID => Array::Array(self.elements(|cursor| cursor.array_value(key, depth + 1))?),
            10 => Array::U64(self.numbers(u64::from_le_bytes)?),
            11 => Array::I64(self.numbers(i64::from_le_bytes)?),
            12 => Array::F64(self.numbers(f64::from_le_bytes)?),
            _ => {
                return Err(Error::ValueType { offset, key: key.to_owned(), id });
            }
        })
    }

    fn numbers<T: Element, const N: usize>(&mut self, read: impl Fn([u8; N]) -> T) -> Result<Vec<T>> {
        let count = self.count("an array's length", "an array", N as u64)?;
        let bytes = self.take((count * N) as u64, "an array")?;
        Ok(bytes.as_chunks::<N>().0.iter().map(|bytes| read(*bytes)).collect())
    }

    fn elements<T: Element>(&mut self, mut read: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let count = self.count("an array's length", "an array", T::MIN_BYTES)?;
        (0..count).map(|_| read(self)).collect()
    }

    /// Reads the description of a tensor. Its `start` counts from the start of the data section until [`place`] has changed it.
    fn tensor(&mut self, alignment: u64) -> Result<TensorEntry> {
        let offset = self.offset();
        let name = self.string("a tensor's name")?;

        let dimensions_offset = self.offset();
        let dimensions = self.u32("a tensor's number of dimensions")?;
        if dimensions > MAX_DIMENSIONS {
            return Err(Error::Dimensions { offset: dimensions_offset, name, dimensions });
        }
        let shape: Vec<u64> = (0..dimensions).map(|_| self.u64("a tensor's dimension")).collect::<Result<_>>()?;

        let format_offset = self.offset();
        let id = self.u32("a tensor's format")?;
        let Some(format) = TensorFormat::from_id(id) else {
            return Err(Error::TensorFormat { offset: format_offset, name, id });
        };
        let start = self.u64("a tensor's offset")?;
        if !start.is_multiple_of(alignment) {
            return Err(Error::Misaligned { name, offset: start, alignment });
        }

        let columns = shape.first().copied().unwrap_or(1);
        if !columns.is_multiple_of(format.block_elements()) {
            let (format, block) = (format.name(), format.block_elements());
            return Err(Error::PartialBlock { name, columns, format, block });
        }
        match tensor_bytes(&shape, format) {
            Some(bytes) => Ok(TensorEntry { name, shape, format, start, bytes }),
            None => Err(Error::TensorSize { offset, name, shape }),
        }
    }
}

/// Returns the bytes of a tensor that consists of whole blocks; `None` if the number of bytes or of elements does not
/// fit 64 bits.
pub(super) fn tensor_bytes(shape: &[u64], format: TensorFormat) -> Option<u64> {
    let elements = shape.iter().try_fold(1u64, |product, &dimension| product.checked_mul(dimension))?;
    (elements / format.block_elements()).checked_mul(format.block_bytes())
}

#[cfg(test)]
mod tests;
