//! Prompts that make a model fill in the gap of a text.

use zinc_model::Special;

use crate::core::{Prompt, PromptPart};
use crate::error::{ApiError, ApiResult, ErrorKind};
use crate::state::Served;

/// A file beside the one with the gap.
#[derive(Clone, Debug)]
pub(crate) struct OtherFile {
    pub(crate) name: String,
    pub(crate) text: String,
}

/// The prompt for the gap between `prefix` and `suffix`, with other files before it. Behind the mark of the gap `begun` may stand, with which its
/// text begins.
///
/// # Errors
/// 501 if the model has no tokens for that.
pub(crate) fn infill(
    served: &Served,
    others: &[OtherFile],
    (prefix, suffix): (&str, &str),
    begun: &str,
) -> ApiResult<Prompt> {
    let tokens = served.backend.facts().infill;
    let (Some(before), Some(behind), Some(middle)) = (tokens.prefix, tokens.suffix, tokens.middle) else {
        let message = "the model has no tokens for filling in gaps";
        return Err(ApiError::new(ErrorKind::NotSupported, message));
    };
    let text = |text: &str| PromptPart::Text(text.to_owned(), Special::Plain);
    let token = |id: u32| PromptPart::Tokens(vec![id]);
    let mut parts = Vec::new();
    if let (Some(repository), Some(separator), false) = (tokens.repository, tokens.separator, others.is_empty()) {
        parts.extend([token(repository), text("project\n")]);
        for file in others {
            parts.extend([token(separator), text(&format!("{}\n{}", file.name, file.text))]);
        }
        parts.extend([token(separator), text("current\n")]);
    }
    parts.extend([token(before), text(prefix), token(behind), text(suffix), token(middle)]);
    if !begun.is_empty() {
        parts.push(text(begun));
    }
    Ok(Prompt::Parts(parts))
}

/// The prompt for what comes between a prompt and `suffix`.
///
/// # Errors
/// Those of [`infill`], and a prompt that is not one text.
pub(crate) fn between(served: &Served, prompt: Prompt, suffix: &str) -> ApiResult<Prompt> {
    match prompt {
        Prompt::Parts(parts) => match parts.as_slice() {
            [PromptPart::Text(prefix, _)] => infill(served, &[], (prefix, suffix), ""),
            _ => Err(ApiError::invalid("suffix", "a suffix needs a prompt that is a text")),
        },
        Prompt::Conversation(_) => Err(ApiError::invalid("suffix", "a suffix needs a prompt that is a text")),
    }
}
