//! Traces of generations: the file that `zinc run --trace` writes, and what is made of it.
//!
//! A [`Recorded`] trace holds raw times. `Lanes` puts them on one clock as spans of the host and of the GPU, which are written
//! as trace events for Perfetto ([`perfetto`]) or drawn ([`picture`], [`page`]). All of it is pure; only [`write()`] and [`read`]
//! touch files.

mod lanes;
mod page;
mod perfetto;
mod picture;
mod recorded;

use std::fs;
use std::path::Path;

use serde_json::Value;

pub(crate) use picture::Cut;
pub(crate) use recorded::{Recorded, Taken};

use crate::error::{Error, Result};

/// What a trace or its picture is written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Trace events with the raw trace beside them.
    Json,
    /// A picture that stands alone.
    Svg,
    /// A page with the picture and the figures.
    Html,
}

impl Form {
    /// What the file's name asks for; `None` for a name that asks for nothing.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let extension = path.extension()?.to_str()?.to_ascii_lowercase();
        match &extension[..] {
            "json" => Some(Self::Json),
            "svg" => Some(Self::Svg),
            "html" | "htm" => Some(Self::Html),
            _ => None,
        }
    }
}

/// Writes a trace that has just been taken, as its name asks for; JSON where it asks for nothing.
///
/// # Errors
/// [`Error::Write`].
pub(crate) fn write(path: &Path, document: &Value) -> Result<()> {
    let recorded = Recorded::from_document(document).expect("what was just written down can be read");
    let text = match Form::of(path) {
        None | Some(Form::Json) => perfetto::file(&recorded, document).to_string() + "\n",
        Some(Form::Svg) => picture::svg(&[recorded], Cut::default()),
        Some(Form::Html) => page::html(&[recorded], Cut::default()),
    };
    write_text(path, &text)
}

/// Draws traces below one another, as the name of the file asks for.
///
/// # Errors
/// A usage error for a name that is not one of a picture, [`Error::Write`].
pub(crate) fn draw(path: &Path, traces: &[Recorded], cut: Cut) -> Result<()> {
    let text = match Form::of(path) {
        Some(Form::Svg) => picture::svg(traces, cut),
        Some(Form::Html) => page::html(traces, cut),
        None | Some(Form::Json) => {
            return Err(Error::usage(format!("{}: a picture's name ends in .svg or .html", path.display())));
        }
    };
    write_text(path, &text)
}

/// Reads a trace that `zinc run --trace FILE.json` has written.
///
/// # Errors
/// [`Error::Read`], [`Error::Content`].
pub(crate) fn read(path: &Path) -> Result<Recorded> {
    let text = fs::read_to_string(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
    recorded::parse(&text).map_err(|reason| Error::Content { path: path.to_owned(), reason })
}

fn write_text(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(|source| Error::Write { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_extension_decides() {
        for (name, form) in [
            ("a.json", Some(Form::Json)),
            ("a/b.SVG", Some(Form::Svg)),
            ("a.html", Some(Form::Html)),
            ("a.htm", Some(Form::Html)),
            ("a.svg.gz", None),
            ("svg", None),
            (".svg", None),
        ] {
            assert_eq!(Form::of(Path::new(name)), form, "{name}");
        }
    }
}
