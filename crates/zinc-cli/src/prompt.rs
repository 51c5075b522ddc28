//! The texts that a user gives: on the command line, in files, on stdin.

use std::fs;
use std::io::{self, IsTerminal as _, Read as _};
use std::path::Path;

use crate::args::TextArgs;
use crate::error::{Error, Result};

/// What becomes of a newline at the end of a file or of stdin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Newline {
    /// It is part of the text.
    Keep,
    /// One is left out: editors and `echo` put it there.
    DropLast,
}

/// The text of `-p`, of the file of `-f`, or of stdin where that is not a terminal. `newline` does not concern `-p`.
///
/// # Errors
/// Nothing given, or a file that cannot be read or is not UTF-8.
pub(crate) fn read_text(args: &TextArgs, newline: Newline) -> Result<String> {
    let text = match (&args.prompt, &args.file) {
        (Some(text), _) => return Ok(text.clone()),
        (None, Some(path)) => read_file(path)?,
        (None, None) if io::stdin().is_terminal() => {
            return Err(Error::usage("no text: give -p TEXT or -f FILE, or pipe it in"));
        }
        (None, None) => read_file(Path::new("-"))?,
    };
    Ok(match newline {
        Newline::Keep => text,
        Newline::DropLast => without_newline(text),
    })
}

/// The text of a file; `-` is stdin.
///
/// # Errors
/// [`Error::Read`].
pub(crate) fn read_file(path: &Path) -> Result<String> {
    let (name, text) = if path == Path::new("-") {
        let mut text = String::new();
        (Path::new("stdin"), io::stdin().read_to_string(&mut text).map(|_| text))
    } else {
        (path, fs::read_to_string(path))
    };
    text.map_err(|source| Error::Read { path: name.to_owned(), source })
}

fn without_newline(mut text: String) -> String {
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_newline_is_dropped() {
        for (text, expected) in
            [("a", "a"), ("a\n", "a"), ("a\r\n", "a"), ("a\n\n", "a\n"), ("\n", ""), ("", ""), ("a\r", "a\r")]
        {
            assert_eq!(without_newline(text.to_owned()), expected, "{text:?}");
        }
    }
}
