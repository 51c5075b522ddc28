//! What can go wrong, as one line for people and an exit status for programs.

use std::io;
use std::path::PathBuf;

use crate::output;

/// A result whose error is this program's [`Error`].
pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a command ended without having done what it was asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// Help or the version was asked for, or no command was given.
    #[error("{0}")]
    Help(clap::Error),
    /// The arguments are not understood, or do not go together.
    #[error("{message}")]
    Usage {
        /// What is wrong, and what to do.
        message: String,
    },
    /// The only device is the processor, and nobody has asked for that.
    #[error(
        "no GPU was found, only {used}, which is the processor: {reason}; --cpu serves on it, at a fraction of a GPU's speed"
    )]
    NoGpu {
        /// The device that would be used.
        used: String,
        /// Why there is likely no GPU, and what to do.
        reason: String,
    },
    /// Ctrl-C.
    #[error("interrupted")]
    Interrupted,
    /// Nobody reads stdout any more; not a failure.
    #[error("stdout is closed")]
    OutputClosed,
    /// Stdout cannot be written.
    #[error("cannot write to stdout: {0}")]
    Output(io::Error),
    /// A file given on the command line cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file given on the command line cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file given on the command line holds something else than it should.
    #[error("{}: {reason}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// No model was given and the demo model is not there.
    #[error("no model given, and the demo model is not at {}; give one with -m FILE", list(tried))]
    NoDemoModel {
        /// Where it could have been.
        tried: Vec<PathBuf>,
    },
    /// Token ids that the vocabulary does not have.
    #[error("token id {id} at place {place} is outside the vocabulary, whose ids are 0 to {}", vocabulary.saturating_sub(1))]
    TokenOutsideVocabulary {
        /// The id.
        id: u32,
        /// Where in the list, counted from 1.
        place: usize,
        /// Size of the vocabulary.
        vocabulary: usize,
    },
    /// From the server.
    #[error(transparent)]
    Server(#[from] zinc_server::ServeError),
    /// From opening a model, or from an answer of it.
    #[error(transparent)]
    Engine(#[from] zinc_engine::Error),
    /// From the model's file, tokenizer or template.
    #[error(transparent)]
    Model(#[from] zinc_model::Error),
    /// From the scheduler.
    #[error(transparent)]
    Scheduler(#[from] zinc_sched::Error),
    /// From Vulkan.
    #[error(transparent)]
    Vulkan(#[from] zinc_vk::Error),
}

impl Error {
    /// A usage error with this message.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::Usage { message: message.into() }
    }

    /// 0 for what is no failure, 2 for usage and for constraints or rope scaling that cannot be used, 130 for Ctrl-C as shells have it, 1 for everything else.
    pub(crate) fn status(&self) -> u8 {
        match self {
            Self::OutputClosed => 0,
            // Help that nobody asked for, where the command is missing, has status 2.
            Self::Help(help) => u8::try_from(help.exit_code()).unwrap_or(1),
            Self::Usage { .. }
            | Self::Server(zinc_server::ServeError::Open { .. })
            | Self::Engine(zinc_engine::Error::Constraint(_)) => 2,
            Self::Engine(error) if is_of_overrides(error) => 2,
            Self::Interrupted => INTERRUPTED,
            _ => 1,
        }
    }

    /// Which flag helps, where one does: the libraries know no flags.
    fn advice(&self) -> &'static str {
        let error = match self {
            Self::Engine(error) => error,
            Self::Server(zinc_server::ServeError::Bind { .. }) => return "; --port chooses another port",
            _ => return "",
        };
        match error {
            zinc_engine::Error::NoTemplate => "; `zinc run --raw` continues a text without one",
            zinc_engine::Error::Scheduler(zinc_sched::Error::PromptTooLong { .. }) => " with -c",
            zinc_engine::Error::Model(zinc_model::Error::RopeFactorMissing { .. }) => "; give one with --rope-scale",
            zinc_engine::Error::Model(zinc_model::Error::RopeNumberUnused { .. }) => {
                "; choose one that has it with --rope-scaling, or leave the number out"
            }
            _ => "",
        }
    }
}

/// Whether a model was not opened because the flags of its position embedding do not go with it or with each other.
pub(crate) fn is_of_overrides(error: &zinc_engine::Error) -> bool {
    use zinc_model::Error::{RopeFactorMissing, RopeNumber, RopeNumberUnused};
    matches!(error, zinc_engine::Error::Model(RopeFactorMissing { .. } | RopeNumber { .. } | RopeNumberUnused { .. }))
}

/// The exit status after Ctrl-C: 128 and the number of SIGINT.
pub(crate) const INTERRUPTED: u8 = 130;

/// Tells the user, in one line on stderr; help goes to stdout.
pub(crate) fn report(error: &Error) {
    match error {
        Error::Help(help) => {
            // Where stdout is closed nobody wants the help.
            let _ = output::help(help);
        }
        Error::OutputClosed | Error::Interrupted => {}
        _ => output::stderr_line(&format!("error: {}{}", one_line(&error.to_string()), error.advice())),
    }
}

impl From<clap::Error> for Error {
    fn from(error: clap::Error) -> Self {
        use clap::error::ErrorKind;
        match error.kind() {
            ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => Self::Help(error),
            _ => Self::usage(usage_message(&error.render().to_string())),
        }
    }
}

/// clap's message without its paragraphs on usage and help, in one line.
fn usage_message(rendered: &str) -> String {
    let paragraphs = rendered.split("\n\n").map(str::trim);
    let kept: Vec<&str> = paragraphs
        .filter(|paragraph| !paragraph.starts_with("Usage:") && !paragraph.starts_with("For more information"))
        .collect();
    let message = one_line(&kept.join("; "));
    let message = message.strip_prefix("error: ").unwrap_or(&message);
    format!("{message} (see --help)")
}

/// The text with every run of white space as one space.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn list(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" or ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_messages_are_one_line() {
        let rendered = "error: unexpected argument '--foo' found\n\n  tip: a similar argument exists: '--for'\n\n\
                        Usage: zinc run --for\n\nFor more information, try '--help'.\n";
        let expected = "unexpected argument '--foo' found; tip: a similar argument exists: '--for' (see --help)";
        assert_eq!(usage_message(rendered), expected);
    }
}
