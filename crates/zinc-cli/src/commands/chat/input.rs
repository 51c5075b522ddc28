//! What a message typed in `zinc chat` asks for: a command, or an answer.

use std::path::PathBuf;

/// What can be typed, for the user.
pub(crate) const HELP: &str = "/exit leaves, /clear starts again, /regen answers again, /read FILE adds a file to the next message, /help says \
                               this; // or a blank before a slash sends what looks like a command; Ctrl-C stops an answer, and leaves where there is none";

/// What a message asks for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Input {
    /// Nothing: it is blank.
    Nothing,
    /// To leave.
    Exit,
    /// To start again.
    Clear,
    /// To answer again.
    Regenerate,
    /// To say what can be typed.
    Help,
    /// To add a file to the next message.
    Read(PathBuf),
    /// What is not understood, with the reason for the user. It should be mended rather than sent.
    Mistake(String),
    /// To answer this.
    Say(String),
}

impl Input {
    /// Reads a message.
    ///
    /// A message of one line that begins with a slash is a command if its first word is one. It is a mistake if it is a command
    /// with something missing or something too much, or a single word of letters, digits and dashes behind the slash. Anything else is sent as it is.
    /// A second slash or a blank before what would be a command or a mistake is left out, and the rest is sent.
    pub(crate) fn parse(message: &str) -> Self {
        let message = message.trim_end_matches(['\n', '\r']);
        if message.trim().is_empty() {
            return Self::Nothing;
        }
        if let Some(asked) = command(message) {
            return asked;
        }
        let escaped = message.strip_prefix(['/', ' ', '\t']).filter(|rest| command(rest).is_some());
        Self::Say(escaped.unwrap_or(message).to_owned())
    }
}

/// What a message asks for if it is a command or should have been one.
fn command(message: &str) -> Option<Input> {
    let line = message.trim_end();
    let name = line.strip_prefix('/').filter(|_| !line.contains('\n'))?;
    let (name, rest) = name.split_once(char::is_whitespace).map_or((name, ""), |(name, rest)| (name, rest.trim()));
    let alone = |asked: Input| match rest {
        "" => asked,
        _ => mistake(&format!("/{name} stands alone"), line),
    };
    Some(match name {
        "exit" => alone(Input::Exit),
        "clear" => alone(Input::Clear),
        "regen" => alone(Input::Regenerate),
        "help" => alone(Input::Help),
        "read" if rest.is_empty() => mistake("/read needs the name of a file", line),
        "read" => Input::Read(PathBuf::from(rest)),
        _ if rest.is_empty() && is_word(name) => mistake(&format!("/{name} is no command"), line),
        _ => return None,
    })
}

fn is_word(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '-' || c == '_')
}

fn mistake(what: &str, line: &str) -> Input {
    Input::Mistake(format!("{what}, and nothing was sent; /{line} sends it as a message, /help shows the commands"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn say(text: &str) -> Input {
        Input::Say(text.to_owned())
    }

    #[test]
    fn commands_are_lines_of_their_own() {
        for (line, expected) in [
            (" \n", Input::Nothing),
            ("\t\r\n", Input::Nothing),
            ("/exit\r\n", Input::Exit),
            ("/exit", Input::Exit),
            ("/clear \n", Input::Clear),
            ("/regen", Input::Regenerate),
            ("/help\n", Input::Help),
            ("/read  a b.txt\n", Input::Read(PathBuf::from("a b.txt"))),
            ("/read\t/tmp/x", Input::Read(PathBuf::from("/tmp/x"))),
        ] {
            assert_eq!(Input::parse(line), expected, "{line:?}");
        }
    }

    #[test]
    fn what_only_begins_with_a_slash_is_a_message() {
        for text in [
            "/usr/bin, what is it?",
            "/usr/bin",
            "/etc holds what?",
            "/",
            "/ is the root",
            "/exit\nis what I typed",
            "/read me\nand this",
            "// is a comment",
            "//",
            "/*",
            "/r/rust",
            "/1+1=?",
            "  What is 1/2? ",
            "What is /exit?",
        ] {
            assert_eq!(Input::parse(text), say(text), "{text:?}");
            assert_eq!(Input::parse(&format!("{text}\r\n")), say(text), "{text:?}");
        }
    }

    #[test]
    fn a_slash_or_a_blank_sends_what_looks_like_a_command() {
        for (line, text) in [
            ("//exit", "/exit"),
            (" /exit\n", "/exit"),
            ("\t/clear", "/clear"),
            ("//read file.txt", "/read file.txt"),
            ("//exti", "/exti"),
            (" /nonsense", "/nonsense"),
            ("///exit", "///exit"),
            ("  /exit", "  /exit"),
            (" /usr/bin", " /usr/bin"),
            ("//usr/bin", "//usr/bin"),
        ] {
            assert_eq!(Input::parse(line), say(text), "{line:?}");
        }
    }

    #[test]
    fn what_was_meant_as_a_command_is_not_sent() {
        for (line, parts) in [
            ("/exti\n", ["/exti is no command", "//exti sends it"]),
            ("/quit", ["/quit is no command", "/help"]),
            ("/Exit", ["/Exit is no command", "//Exit"]),
            ("/usr", ["/usr is no command", "//usr"]),
            ("/größe ", ["/größe is no command", "//größe "]),
            ("/read", ["/read needs the name of a file", "//read"]),
            ("/read  \n", ["/read needs the name of a file", "//read"]),
            ("/exit now\n", ["/exit stands alone", "//exit now"]),
            ("/clear all", ["/clear stands alone", "//clear all"]),
        ] {
            let Input::Mistake(reason) = Input::parse(line) else { panic!("{line:?} is taken") };
            for part in parts {
                assert!(reason.contains(part), "no {part} in {reason}");
            }
        }
    }
}
