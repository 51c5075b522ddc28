//! The texts that a user gives: on the command line, in files, on stdin.

use std::path::Path;

use crate::args::TextArgs;
use crate::error::{Error, Result};
use crate::surroundings::{self, Stdin};
use crate::{output, text_file};

/// Whether a newline at the end of a file or of stdin belongs to the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Newline {
    /// The newline is part of the text.
    Keep,
    /// One newline is left out, since editors and `echo` put it there.
    DropLast,
}

/// Returns the text of `-p`, or of the file of `-f`, or of stdin if stdin is not a terminal. `newline` applies to files
/// and stdin, not to `-p`.
///
/// # Errors
/// A usage error if there is no text, and an error for a file that cannot be read or is not UTF-8.
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

/// Returns the prompt of `zinc run`. With `-p` it is that text, followed on a new line by the text of stdin if stdin is
/// a pipe or a file and not empty. Without `-p` it is the text of [`read_text`]. One newline at the end of a file or of
/// stdin is left out.
///
/// # Errors
/// The errors of [`read_text`].
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

/// Whether stdin is a pipe or a file. Terminals and devices such as `/dev/null` hold no text. Sockets do not count
/// either, since a program that starts zinc may hand one down without meaning to pass text.
///
/// A pipe that its writer never closes makes the program wait for ever, so a notice is printed if nothing has come
/// through a pipe for a second.
fn is_text_piped_in() -> bool {
    let kind = surroundings::stdin_kind();
    if kind == Stdin::SilentPipe {
        output::notice(
            "waiting for the pipe on stdin, whose text is added to the prompt; with < /dev/null nothing is added",
        );
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
