//! What a user types in a chat: reading lines, and telling commands from messages.

use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::output;

/// What a line asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Input {
    /// Nothing: a blank line.
    Nothing,
    /// The end of the chat.
    Exit,
    /// A new conversation.
    Clear,
    /// Another answer to the last message.
    Regenerate,
    /// A file to go with the next message.
    Read(PathBuf),
    /// A word that looks like a command and is none.
    Unknown(String),
    /// A message to the model.
    Say(String),
}

impl Input {
    /// Reads the next line of stdin, with a prompt where that is a terminal; `None` at its end.
    ///
    /// # Errors
    /// [`Error::Read`].
    pub(super) fn read() -> Result<Option<Self>> {
        let interactive = io::stdin().is_terminal();
        if interactive {
            output::stderr("> ");
        }
        let mut line = String::new();
        let read =
            io::stdin().read_line(&mut line).map_err(|source| Error::Read { path: PathBuf::from("stdin"), source })?;
        if read == 0 && interactive {
            output::stderr("\n");
        }
        Ok((read > 0).then(|| Self::parse(&line)))
    }

    fn parse(line: &str) -> Self {
        let line = line.trim_end_matches(['\n', '\r']);
        let words = line.trim();
        if words.is_empty() {
            return Self::Nothing;
        }
        if !words.starts_with('/') {
            return Self::Say(line.to_owned());
        }
        let (word, rest) =
            words.split_once(char::is_whitespace).map_or((words, ""), |(word, rest)| (word, rest.trim()));
        match (word, rest) {
            ("/exit", "") => Self::Exit,
            ("/clear", "") => Self::Clear,
            ("/regen", "") => Self::Regenerate,
            ("/read", path) if !path.is_empty() => Self::Read(Path::new(path).to_owned()),
            _ => Self::Unknown(word.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_commands_or_messages() {
        assert_eq!(Input::parse(" \n"), Input::Nothing);
        assert_eq!(Input::parse("/exit\r\n"), Input::Exit);
        assert_eq!(Input::parse(" /clear \n"), Input::Clear);
        assert_eq!(Input::parse("/regen"), Input::Regenerate);
        assert_eq!(Input::parse("/read  a b.txt\n"), Input::Read(PathBuf::from("a b.txt")));
        assert_eq!(Input::parse("/read\n"), Input::Unknown("/read".to_owned()));
        assert_eq!(Input::parse("/exit now\n"), Input::Unknown("/exit".to_owned()));
        assert_eq!(Input::parse("  What is 1/2? \n"), Input::Say("  What is 1/2? ".to_owned()));
    }
}
