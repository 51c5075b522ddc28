//! Traces of generations: the file that `zinc run --trace` writes, and the pictures and trace events that are made of it.
//!
//! A [`Recorded`] trace holds raw times. `Lanes` puts them on one clock as spans of the host and of the GPU, which are written
//! as trace events for Perfetto ([`perfetto`]) or drawn ([`picture`], [`page`]). All of it is pure; only [`write()`] and [`read`]
//! touch files.

mod crowd;
mod lanes;
mod page;
mod perfetto;
mod picture;
mod recorded;

use std::fs;
use std::path::Path;

use serde_json::Value;

pub(crate) use crowd::LaneTrace;
pub(crate) use picture::Cut;
pub(crate) use recorded::{Recorded, Taken};

use crate::error::{Error, Result};

/// The kinds of files that a trace can be written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// JSON: trace events, and the raw trace beside them.
    Json,
    /// An SVG file: a picture that needs no other file.
    Svg,
    /// An HTML page with the picture and the figures.
    Html,
}

impl Form {
    /// Tells the kind of file from the ending of its name; `None` for an unknown ending.
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

/// Writes a trace that has just been taken, as the kind of file that the ending of its name says; JSON if the ending is unknown.
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

/// Draws traces below one another into an SVG or HTML file, depending on the ending of the file's name.
///
/// # Errors
/// A usage error if the ending of the name is not that of a picture; [`Error::Write`].
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

/// Draws the sequences of a run into an SVG file, a row for each lane.
///
/// # Errors
/// A usage error if the ending of the name is not `.svg`; [`Error::Write`].
pub(crate) fn draw_lanes(path: &Path, title: &str, sequences: &[LaneTrace]) -> Result<()> {
    check_lanes_path(path)?;
    write_text(path, &crowd::svg(title, sequences))
}

/// Checks that [`draw_lanes`] can write to a file of this name.
///
/// # Errors
/// A usage error if its ending is not `.svg`.
pub(crate) fn check_lanes_path(path: &Path) -> Result<()> {
    match Form::of(path) {
        Some(Form::Svg) => Ok(()),
        _ => Err(Error::usage(format!("{}: the name of a picture of lanes ends in .svg", path.display()))),
    }
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
