//! What can go wrong between a model file and the text of an answer.

use std::path::PathBuf;

use zinc_sched::grammar::GrammarError;

/// A result whose error is this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a model was not opened, or why there is no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A conversation needs a chat template, and the model's file has none.
    #[error("the model has no chat template")]
    NoTemplate,
    /// A draft model whose ids mean something else than the ids of the model that it is to draft for.
    #[error(
        "{} has {draft} tokens and the model {target}{}; a draft model needs the same vocabulary",
        path.display(),
        different.map_or(String::new(), |id| format!(", and they differ at id {id}"))
    )]
    DraftVocabulary {
        /// The draft model's file.
        path: PathBuf,
        /// Tokens of the draft model's vocabulary.
        draft: u32,
        /// Tokens of the model's vocabulary.
        target: u32,
        /// The first id that stands for different bytes, if any does.
        different: Option<u32>,
    },
    /// A draft model with a recurrent state, which would have to go back when drafts are not accepted.
    #[error(
        "{} has a recurrent state, and a draft model needs a cache alone: use another draft model, or drafts by look-up",
        path.display()
    )]
    DraftRecurrent {
        /// The draft model's file.
        path: PathBuf,
    },
    /// Drafts by the block for multi-token prediction of a file that was opened without it.
    #[error("the model was opened without its block for multi-token prediction, and so cannot draft by it")]
    DraftMtp,
    /// A constraint that cannot be made: a schema, a grammar or a regular expression with a fault.
    #[error(transparent)]
    Constraint(#[from] GrammarError),
    /// A token of a prompt whose log-probability cannot be had.
    #[error("the log-probability of token {token} of the prompt cannot be had: {why}")]
    Scored {
        /// The token.
        token: u32,
        /// What keeps it from being had.
        why: &'static str,
    },
    /// The Vulkan validation layer reported messages while a model was loaded and used.
    #[error("the Vulkan validation layer reported {count} messages, the first: {first}")]
    Validation {
        /// How many messages there are.
        count: usize,
        /// The first message.
        first: String,
    },
    /// From the model's file, tokenizer or template, or from loading its weights.
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
    /// Whether the failure concerns one request alone, so that the same model can be asked something else: a prompt that is empty or does
    /// not fit, a template that refuses the messages, a constraint that fails, logits that are not finite.
    #[must_use]
    pub fn concerns_one_request(&self) -> bool {
        match self {
            Self::NoTemplate | Self::Constraint(_) | Self::Scored { .. } => true,
            Self::Model(error) => matches!(
                error,
                zinc_model::Error::Template { .. }
                    | zinc_model::Error::NoByteToken { .. }
                    | zinc_model::Error::Tokenizer(_)
            ),
            Self::Scheduler(error) => !error.is_fatal() && !matches!(error, zinc_sched::Error::Spawn { .. }),
            Self::DraftVocabulary { .. }
            | Self::DraftRecurrent { .. }
            | Self::DraftMtp
            | Self::Validation { .. }
            | Self::Vulkan(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_of_the_model_concern_every_request() {
        assert!(Error::from(zinc_sched::Error::EmptyPrompt).concerns_one_request());
        assert!(Error::from(zinc_sched::Error::NonFinite { step: 1, position: 2 }).concerns_one_request());
        assert!(Error::from(zinc_model::Error::NoByteToken { byte: 7 }).concerns_one_request());
        assert!(Error::NoTemplate.concerns_one_request());
        assert!(!Error::from(zinc_sched::Error::Stopped).concerns_one_request());
        assert!(!Error::Validation { count: 1, first: "VUID".to_owned() }.concerns_one_request());
    }

    #[test]
    fn a_draft_model_that_does_not_fit_is_described_by_numbers() {
        let error = |different| Error::DraftVocabulary { path: "d.gguf".into(), draft: 5, target: 7, different };
        assert_eq!(
            error(None).to_string(),
            "d.gguf has 5 tokens and the model 7; a draft model needs the same vocabulary"
        );
        assert!(error(Some(3)).to_string().contains("and the model 7, and they differ at id 3; "));
    }
}
