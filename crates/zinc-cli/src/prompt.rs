//! The texts that a user gives: on the command line, in files, on stdin.

use std::path::Path;

use crate::args::TextArgs;
use crate::error::{Error, Result};
use crate::surroundings::{self, Stdin};
use crate::{output, text_file};

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
        (None, Some(path)) => text_file::read(path)?,
        (None, None) if surroundings::stdin_is_terminal() => {
            return Err(Error::usage("no text: give -p TEXT or -f FILE, or pipe it in"));
        }
        (None, None) => text_file::read(Path::new("-"))?,
    };
    Ok(match newline {
        Newline::Keep => text,
        Newline::DropLast => without_newline(text),
    })
}

/// The text of `-p` with that of stdin behind it on a new line, where stdin is a pipe or a file and not empty; without `-p` as [`read_text`],
/// less a newline at the end.
///
/// # Errors
/// As [`read_text`].
pub(crate) fn read_prompt(args: &TextArgs) -> Result<String> {
    let Some(prompt) = &args.prompt else {
        return read_text(args, Newline::DropLast);
    };
    if !is_text_piped_in() {
        return Ok(prompt.clone());
    }
    Ok(joined(prompt, without_newline(text_file::read(Path::new("-"))?)))
}

fn joined(prompt: &str, text: String) -> String {
    match (prompt, text.as_str()) {
        (prompt, "") => prompt.to_owned(),
        ("", _) => text,
        (prompt, text) => format!("{prompt}\n{text}"),
    }
}

/// Whether stdin is a pipe or a file. Terminals and devices such as `/dev/null` hold no text, and neither do sockets, which programs hand down
/// without meaning it.
///
/// A pipe that nobody closes holds up the program; the user is told where nothing comes for a second.
fn is_text_piped_in() -> bool {
    let kind = surroundings::stdin_kind();
    if kind == Stdin::SilentPipe {
        output::notice("the prompt goes on with what comes through the pipe on stdin; < /dev/null does without");
    }
    kind != Stdin::NoText
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
    fn a_text_follows_the_prompt_on_a_new_line() {
        for (prompt, text, expected) in [
            ("Sum up:", "a\nb", "Sum up:\na\nb"),
            ("Sum up:", "", "Sum up:"),
            ("", "a", "a"),
            ("", "", ""),
            ("Q\n", "\na", "Q\n\n\na"),
        ] {
            assert_eq!(joined(prompt, text.to_owned()), expected);
        }
    }

    #[test]
    fn one_newline_is_dropped() {
        for (text, expected) in
            [("a", "a"), ("a\n", "a"), ("a\r\n", "a"), ("a\n\n", "a\n"), ("\n", ""), ("", ""), ("a\r", "a\r")]
        {
            assert_eq!(without_newline(text.to_owned()), expected, "{text:?}");
        }
    }
}
