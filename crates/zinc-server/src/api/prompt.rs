//! Prompts that are not conversations: texts, tokens, mixtures of both, and lists of these.

use serde::Deserialize;
use utoipa::ToSchema;
use zinc_model::Special;

use crate::core::{Prompt, PromptPart};
use crate::error::{ApiError, ApiResult};

/// One prompt or several.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(untagged, expecting = "a text or a list of texts and tokens is expected")]
pub enum PromptField {
    /// A text.
    Text(String),
    /// A list: of tokens and texts that are one prompt, of texts that are a prompt each, or of prompts.
    List(Vec<PromptItem>),
}

/// An item of a list.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(untagged, expecting = "a text, a token or a list of these is expected")]
pub enum PromptItem {
    /// A token.
    Token(u32),
    /// A text.
    Text(String),
    /// A prompt of tokens and texts.
    Parts(Vec<PromptPiece>),
}

/// A token or a text within a prompt.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(untagged, expecting = "a text or a token is expected")]
pub enum PromptPiece {
    /// A token.
    Token(u32),
    /// A text.
    Text(String),
}

/// A prompt that is a text. Control tokens in it count as such, since nothing else could write them.
pub(crate) fn text_prompt(text: String) -> Prompt {
    Prompt::Parts(vec![PromptPart::Text(text, Special::Parse)])
}

impl PromptField {
    /// The prompts, one at least and `most` at most.
    ///
    /// # Errors
    /// None or too many, or a list that mixes prompts with their parts.
    pub fn prompts(self, most: usize) -> ApiResult<Vec<Prompt>> {
        let items = match self {
            Self::Text(text) => return Ok(vec![text_prompt(text)]),
            Self::List(items) => items,
        };
        let has_tokens = items.iter().any(|item| matches!(item, PromptItem::Token(_)));
        if has_tokens {
            let pieces = items.into_iter().map(|item| match item {
                PromptItem::Token(id) => Ok(PromptPiece::Token(id)),
                PromptItem::Text(text) => Ok(PromptPiece::Text(text)),
                PromptItem::Parts(_) => Err(ApiError::invalid("prompt", "the list mixes tokens with whole prompts")),
            });
            return Ok(vec![joined(pieces.collect::<ApiResult<Vec<_>>>()?)]);
        }
        let count = items.len();
        if count == 0 || count > most {
            return Err(ApiError::invalid("prompt", format!("{count} prompts; 1 to {most} are taken")));
        }
        let prompts = items.into_iter().map(|item| match item {
            PromptItem::Token(id) => joined(vec![PromptPiece::Token(id)]),
            PromptItem::Text(text) => text_prompt(text),
            PromptItem::Parts(pieces) => joined(pieces),
        });
        Ok(prompts.collect())
    }
}

/// A prompt of pieces, in which tokens next to each other are one part.
fn joined(pieces: Vec<PromptPiece>) -> Prompt {
    let mut parts: Vec<PromptPart> = Vec::new();
    for piece in pieces {
        match (parts.last_mut(), piece) {
            (Some(PromptPart::Tokens(ids)), PromptPiece::Token(id)) => ids.push(id),
            (_, PromptPiece::Token(id)) => parts.push(PromptPart::Tokens(vec![id])),
            (_, PromptPiece::Text(text)) => parts.push(PromptPart::Text(text, Special::Parse)),
        }
    }
    Prompt::Parts(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prompts(json: &str) -> ApiResult<Vec<Vec<PromptPart>>> {
        let field: PromptField = serde_json::from_str(json).unwrap();
        let parts = |prompt| match prompt {
            Prompt::Parts(parts) => parts,
            Prompt::Conversation(_) => panic!("a conversation"),
        };
        Ok(field.prompts(3)?.into_iter().map(parts).collect())
    }

    fn text(text: &str) -> PromptPart {
        PromptPart::Text(text.to_owned(), Special::Parse)
    }

    #[test]
    fn prompts_come_in_all_forms_of_llama_cpp() {
        assert_eq!(prompts(r#""a""#).unwrap(), [[text("a")]]);
        assert_eq!(prompts(r#"["a", "b"]"#).unwrap(), [[text("a")], [text("b")]]);
        assert_eq!(prompts("[1, 2]").unwrap(), [[PromptPart::Tokens(vec![1, 2])]]);
        let mixed = vec![text("a"), PromptPart::Tokens(vec![1, 2]), text("b")];
        assert_eq!(prompts(r#"["a", 1, 2, "b"]"#).unwrap(), std::slice::from_ref(&mixed));
        assert_eq!(prompts(r#"["x", ["a", 1, 2, "b"]]"#).unwrap(), [vec![text("x")], mixed]);
    }

    #[test]
    fn lists_have_sizes_and_one_kind() {
        assert_eq!(prompts("[]").unwrap_err().param.as_deref(), Some("prompt"));
        assert!(prompts(r#"["a", "b", "c", "d"]"#).is_err());
        assert!(prompts(r#"[1, ["a"]]"#).is_err());
    }
}
