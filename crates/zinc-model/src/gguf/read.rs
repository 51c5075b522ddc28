//! Opens files: maps them into memory, and joins the parts of a split model.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use memmap2::Mmap;
#[cfg(unix)]
use memmap2::UncheckedAdvice;

use crate::error::{Error, Result};
use crate::gguf::parse::Header;
use crate::gguf::split::{self, PartName};
use crate::gguf::{Metadata, TensorFormat};

/// An open GGUF file, or all the files of a split one.
///
/// Tensor data are mapped, not read: pages come in when [`Self::data`] is touched. The files must not be changed or
/// cut while they are open, as with any mapped file: the process would then read other bytes, or be killed.
pub struct File {
    metadata: Metadata,
    tensors: Vec<TensorInfo>,
    by_name: HashMap<String, usize>,
    parts: Vec<FilePart>,
}

/// A tensor in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TensorInfo {
    /// The name, unique in the model.
    pub name: String,
    /// Elements per dimension, fastest first: `[columns, rows]` for a matrix. At most four.
    pub shape: Vec<u64>,
    /// How the elements are stored.
    pub format: TensorFormat,
    /// Index in [`File::parts`] of the file that holds the data.
    pub part: usize,
    /// Where the data start in that file, in bytes.
    pub offset: u64,
    /// Length of the data.
    pub bytes: u64,
}

impl TensorInfo {
    /// Number of elements.
    pub fn elements(&self) -> u64 {
        // The product was checked when the file was opened.
        self.shape.iter().product()
    }
}

/// One file of a model, mapped into memory.
struct FilePart {
    path: PathBuf,
    map: Mmap,
}

impl File {
    /// Opens a file. Of a split model, any part's path opens them all; the parts lie in one directory.
    ///
    /// # Errors
    /// [`Error::Io`] if a file cannot be opened, [`Error::InFile`] around everything that is wrong with one.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let (part, header) = open_part(path)?;
        let parts = in_file(path, part_count(&header.metadata))?;
        if parts == 1 {
            let mut file = Self::empty(header.metadata);
            file.add(part, header.tensors)?;
            return Ok(file);
        }
        let name = PartName::parse(path).filter(|name| name.parts == parts);
        let name = in_file(path, name.ok_or(Error::PartName { parts }))?;
        Self::open_parts(&name)
    }

    fn open_parts(name: &PartName) -> Result<Self> {
        let parts = name.parts;
        let mut file: Option<Self> = None;
        for index in 0..parts {
            let path = name.sibling(index + 1).path();
            let (part, header) = match open_part(&path) {
                Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                    return in_file(&name.path(), Err(Error::MissingPart { part: index + 1, parts, path }));
                }
                other => other?,
            };
            in_file(&path, check_part(&header.metadata, index, parts))?;
            file.get_or_insert_with(|| Self::empty(header.metadata)).add(part, header.tensors)?;
        }
        let file = file.expect("a split file has parts");
        let found = file.tensors.len() as u64;
        let expected = in_file(&file.parts[0].path, file.metadata.get_u64(split::KEY_TENSORS))?;
        match expected {
            Some(expected) if expected != found => in_file(
                &file.parts[0].path,
                // The number that the first part announces is the one that differs from the parts' contents.
                Err(Error::PartMismatch { key: split::KEY_TENSORS, expected: found, found: expected }),
            ),
            _ => Ok(file),
        }
    }

    fn empty(metadata: Metadata) -> Self {
        Self { metadata, tensors: Vec::new(), by_name: HashMap::new(), parts: Vec::new() }
    }

    fn add(&mut self, part: FilePart, tensors: Vec<super::parse::TensorEntry>) -> Result<()> {
        for tensor in tensors {
            if self.by_name.insert(tensor.name.clone(), self.tensors.len()).is_some() {
                return in_file(&part.path, Err(Error::DuplicateTensor { name: tensor.name }));
            }
            self.tensors.push(TensorInfo {
                name: tensor.name,
                shape: tensor.shape,
                format: tensor.format,
                part: self.parts.len(),
                offset: tensor.start,
                bytes: tensor.bytes,
            });
        }
        self.parts.push(part);
        Ok(())
    }

    /// The key-value section; of a split model, the first part's.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// The tensors in the order of the file.
    pub fn tensors(&self) -> &[TensorInfo] {
        &self.tensors
    }

    /// The tensor of this name.
    pub fn tensor(&self, name: &str) -> Option<&TensorInfo> {
        self.by_name.get(name).map(|&index| &self.tensors[index])
    }

    /// The bytes of a tensor of this file: its rows one after the other, each a whole number of blocks.
    ///
    /// # Panics
    /// If the tensor is another file's and lies outside of this one.
    pub fn data(&self, tensor: &TensorInfo) -> &[u8] {
        let map = &self.parts[tensor.part].map;
        let range = usize::try_from(tensor.offset).ok().zip(usize::try_from(tensor.bytes).ok());
        let data = range.and_then(|(start, bytes)| map.get(start..start.checked_add(bytes)?));
        data.unwrap_or_else(|| {
            panic!("{tensor:?} lies outside of the {} bytes of this file", map.len());
        })
    }

    /// Gives the memory of a range of a tensor's bytes back to the system. The bytes are read again, most likely from the system's cache, when
    /// that range of [`Self::data`] is touched next. This is a hint, which some systems ignore.
    ///
    /// # Panics
    /// As [`Self::data`], and if the range is not inside the tensor.
    pub fn release(&self, tensor: &TensorInfo, range: Range<usize>) {
        let bytes = self.data(tensor)[range.clone()].len();
        // `data` has found the offset in the mapping.
        release(&self.parts[tensor.part].map, tensor.offset as usize + range.start, bytes);
    }

    /// The files: one, or the parts of a split model in order.
    pub fn parts(&self) -> impl ExactSizeIterator<Item = &Path> {
        self.parts.iter().map(|part| part.path.as_path())
    }
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("File")
            .field("parts", &self.parts().collect::<Vec<_>>())
            .field("keys", &self.metadata.len())
            .field("tensors", &self.tensors.len())
            .finish()
    }
}

/// Adds the file to an error.
fn in_file<T>(path: &Path, result: Result<T>) -> Result<T> {
    result.map_err(|source| Error::InFile { path: path.to_owned(), source: Box::new(source) })
}

fn open_part(path: &Path) -> Result<(FilePart, Header)> {
    let map = map(path).map_err(|source| Error::Io { path: path.to_owned(), source })?;
    let header = in_file(path, Header::parse(&map))?;
    Ok((FilePart { path: path.to_owned(), map }, header))
}

#[expect(unsafe_code, reason = "a file of many gigabytes is mapped, not read")]
fn map(path: &Path) -> io::Result<Mmap> {
    let file = std::fs::File::open(path)?;
    if file.metadata()?.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    // SAFETY: the mapping is private and read-only, and `Mmap` keeps it alive for as long as slices of it are. That no
    // other process changes or cuts the file meanwhile is the contract stated at `File`; nothing here writes to it.
    unsafe { Mmap::map(&file) }
}

#[cfg(unix)]
#[expect(unsafe_code, reason = "giving back pages, which are the file's and come back as they were")]
fn release(map: &Mmap, offset: usize, bytes: usize) {
    // SAFETY: the advice would discard what was written to the pages, but the mapping is read-only; the pages of a file that
    // does not change, as `File` demands, have the same bytes when they are touched again, also through slices that exist now.
    let advised = unsafe { map.unchecked_advise_range(UncheckedAdvice::DontNeed, offset, bytes) };
    if let Err(error) = advised {
        tracing::debug!(%error, offset, bytes, "the pages of a tensor stay mapped");
    }
}

#[cfg(not(unix))]
fn release(_: &Mmap, _: usize, _: usize) {}

/// Number of parts that a file says its model has.
fn part_count(metadata: &Metadata) -> Result<u32> {
    match metadata.get_u32(split::KEY_PARTS)? {
        None | Some(0) => Ok(1),
        Some(parts) => Ok(parts),
    }
}

/// Checks that the metadata of part `index` (from 0) of `parts` say just that.
fn check_part(metadata: &Metadata, index: u32, parts: u32) -> Result<()> {
    for (key, expected) in [(split::KEY_PART, index), (split::KEY_PARTS, parts)] {
        let found = metadata.require_u32(key)?;
        if found != expected {
            let (expected, found) = (expected.into(), found.into());
            return Err(Error::PartMismatch { key, expected, found });
        }
    }
    Ok(())
}
