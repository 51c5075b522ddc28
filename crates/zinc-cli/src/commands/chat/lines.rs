//! Where the messages of a conversation come from: an editor in a terminal, plain lines elsewhere.

use std::fs::File;
use std::io::{self, IsTerminal as _};
use std::path::PathBuf;

use rustyline::config::Behavior;
use rustyline::error::ReadlineError;
use rustyline::history::MemHistory;
use rustyline::{Config, Editor};

use crate::error::{Error, Result};
use crate::terminal::{self, Held};
use crate::{output, surroundings, text_file};

/// What is shown where a message is expected.
const PROMPT: &str = "> ";

/// Messages so many back can be fetched in a terminal.
const HISTORY: usize = 1000;

/// A source of messages.
pub(crate) enum Lines {
    /// A terminal. What is pasted into it is one message, whatever its lines.
    Edited {
        /// What reads and shows them.
        editor: Box<Editor<(), MemHistory>>,
        /// Keeps what is typed while nothing is read.
        _held: Held,
    },
    /// Anything else, or a terminal that cannot be edited in; each line is a message.
    Plain {
        /// Lines read so far.
        read: u64,
        /// Whether the input is a terminal, in which a prompt is shown.
        is_terminal: bool,
    },
}

/// What came from the source.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// A message.
    Message(String),
    /// A line that is no text, with the reason for the user.
    Broken(String),
    /// The end of the input.
    End,
}

/// Whether lines can be edited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Editing {
    /// Where the input is a terminal that has what it takes.
    WherePossible,
    /// Never.
    Off,
}

impl Lines {
    /// The messages on stdin.
    pub(crate) fn open(editing: Editing) -> Self {
        let is_terminal = surroundings::stdin_is_terminal();
        let is_dumb = std::env::var_os("TERM").is_none_or(|terminal| terminal == "dumb" || terminal.is_empty());
        if editing == Editing::WherePossible
            && is_terminal
            && !is_dumb
            && let Some(editor) = editor()
        {
            return Self::Edited { editor: Box::new(editor), _held: Held::new() };
        }
        Self::Plain { read: 0, is_terminal }
    }

    /// The next message. In an editor, `kept` is already on the line.
    ///
    /// # Errors
    /// [`Error::Interrupted`] for Ctrl-C in the editor, [`Error::Read`], and [`Error::Content`] where stdin begins with the mark of another
    /// encoding.
    pub(crate) fn next(&mut self, kept: &str) -> Result<Line> {
        match self {
            Self::Edited { editor, .. } => match editor.readline_with_initial(PROMPT, (kept, "")) {
                Ok(text) => {
                    // A message that is not kept for later can be sent all the same.
                    let _ = editor.add_history_entry(&text);
                    Ok(Line::Message(text))
                }
                Err(ReadlineError::Eof) => Ok(Line::End),
                Err(ReadlineError::Interrupted) => Err(Error::Interrupted),
                Err(ReadlineError::Io(error)) if error.kind() == io::ErrorKind::InvalidData => {
                    // What waits is the rest of the line. Where it stays, it is read as a line of its own.
                    terminal::forget_typed();
                    Ok(Line::Broken("what was typed is not UTF-8, and is left out".to_owned()))
                }
                Err(error) => Err(read_error(io::Error::other(error))),
            },
            Self::Plain { read, is_terminal } => {
                if *is_terminal {
                    output::stderr(PROMPT);
                }
                let bytes = surroundings::read_stdin_line().map_err(read_error)?;
                if bytes.is_empty() {
                    if *is_terminal {
                        output::stderr("\n");
                    }
                    return Ok(Line::End);
                }
                *read += 1;
                line(bytes, *read)
            }
        }
    }
}

/// The editor, where the terminal can be used.
fn editor() -> Option<Editor<(), MemHistory>> {
    // The editor draws on stdout, which must be left to the answers where it goes to a file.
    let behavior = if io::stdout().is_terminal() {
        Behavior::Stdio
    } else if cfg!(not(unix)) || File::open("/dev/tty").is_ok() {
        Behavior::PreferTerm
    } else {
        return None;
    };
    let config = Config::builder().behavior(behavior).bracketed_paste(true).max_history_size(HISTORY).ok()?.build();
    let history = MemHistory::with_config(&config);
    Editor::with_history(config, history).ok()
}

fn read_error(source: io::Error) -> Error {
    Error::Read { path: PathBuf::from(text_file::STDIN), source }
}

/// A line of the input, `number` counted from 1.
///
/// # Errors
/// [`Error::Content`] where it is the first and begins with the mark of another encoding: then all lines are broken.
fn line(bytes: Vec<u8>, number: u64) -> Result<Line> {
    let is_first = number == 1;
    if is_first && let Some(reason) = text_file::other_encoding(&bytes) {
        return Err(Error::Content { path: PathBuf::from(text_file::STDIN), reason });
    }
    Ok(match String::from_utf8(bytes) {
        // Only at the beginning of the input is a byte order mark one.
        Ok(text) => Line::Message(if is_first { text_file::without_mark(text) } else { text }),
        Err(error) => {
            let offset = error.utf8_error().valid_up_to();
            let byte = error.as_bytes()[offset];
            Line::Broken(format!(
                "line {number} is not UTF-8: byte 0x{byte:02x} at offset {offset} of the line, which is left out"
            ))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(text: &str) -> Line {
        Line::Message(text.to_owned())
    }

    #[test]
    fn a_broken_line_is_located() {
        for (bytes, number, place) in [
            (&b"caf\xe9?\n"[..], 1, "line 1 is not UTF-8: byte 0xe9 at offset 3"),
            (b"\xef\xbb\xbfcaf\xe9?\n", 1, "byte 0xe9 at offset 6"),
            (b"\xff\n", 7, "line 7 is not UTF-8: byte 0xff at offset 0"),
            (b"\xff\xfe\n", 2, "byte 0xff at offset 0"),
            (b"\xe4\xb8\n", 1, "byte 0xe4 at offset 0"),
            (b"gr\xc3", 3, "line 3 is not UTF-8: byte 0xc3 at offset 2"),
        ] {
            let Line::Broken(reason) = line(bytes.to_vec(), number).unwrap() else { panic!("{bytes:?} is taken") };
            assert!(reason.contains(place), "{bytes:?}: {reason}");
        }
    }

    #[test]
    fn a_mark_is_left_out_of_the_first_line_only() {
        assert_eq!(line(b"\xef\xbb\xbfhi\n".to_vec(), 1).unwrap(), message("hi\n"));
        assert_eq!(line(b"\xef\xbb\xbfhi\n".to_vec(), 2).unwrap(), message("\u{feff}hi\n"));
        assert!(matches!(line(b"\xff\xfeh\0i\0\n".to_vec(), 1), Err(Error::Content { .. })));
    }
}
