//! Names of the parts of a model that is split over several files: `NAME-00001-of-00003.gguf`, counted from 1.
//!
//! In the metadata of a part its index counts from 0 ([`KEY_PART`]). The first part has the metadata of the model.

use std::path::{Path, PathBuf};

/// Index of a part, counted from 0.
pub const KEY_PART: &str = "split.no";
/// Number of parts.
pub const KEY_PARTS: &str = "split.count";
/// Number of tensors in all parts together.
pub const KEY_TENSORS: &str = "split.tensors.count";

/// A file name that says which part of how many a file is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PartName {
    directory: PathBuf,
    stem: String,
    /// The part, counted from 1.
    pub part: u32,
    /// Number of parts.
    pub parts: u32,
}

impl PartName {
    /// The name of part `part` (counted from 1) of `parts` of the model `directory/stem`.
    pub fn new(directory: impl Into<PathBuf>, stem: impl Into<String>, part: u32, parts: u32) -> Self {
        Self { directory: directory.into(), stem: stem.into(), part, parts }
    }

    /// Reads a name; `None` if it is not the name of a part.
    pub fn parse(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?.strip_suffix(".gguf")?;
        let (name, parts) = name.rsplit_once("-of-")?;
        let (stem, part) = name.rsplit_once('-')?;
        let (part, parts) = (number(part)?, number(parts)?);
        if part == 0 || part > parts {
            return None;
        }
        let directory = path.parent().unwrap_or(Path::new("")).to_owned();
        Some(Self { directory, stem: stem.to_owned(), part, parts })
    }

    /// The name of part `part` of the same model, counted from 1.
    pub fn sibling(&self, part: u32) -> Self {
        Self { part, ..self.clone() }
    }

    /// The path.
    pub fn path(&self) -> PathBuf {
        let Self { directory, stem, part, parts } = self;
        directory.join(format!("{stem}-{part:05}-of-{parts:05}.gguf"))
    }
}

/// The number that five digits stand for; `None` if the text is not five digits.
fn number(text: &str) -> Option<u32> {
    if text.len() == 5 && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().ok();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        let path = Path::new("models/a-b-of-c-00002-of-00013.gguf");
        let name = PartName::parse(path).unwrap();
        assert_eq!((name.part, name.parts, name.stem.as_str()), (2, 13, "a-b-of-c"));
        assert_eq!(name.path(), path);
        assert_eq!(name.sibling(13).path(), Path::new("models/a-b-of-c-00013-of-00013.gguf"));
    }

    #[test]
    fn other_names_are_no_parts() {
        for name in [
            "a.gguf",
            "a-00001-of-00002.bin",
            "a-1-of-2.gguf",
            "a-00000-of-00002.gguf",
            "a-00003-of-00002.gguf",
            "a-00001-of-0000x.gguf",
            "a-+0001-of-00002.gguf",
            "-of-.gguf",
            "",
        ] {
            assert_eq!(PartName::parse(Path::new(name)), None, "{name}");
        }
    }
}
