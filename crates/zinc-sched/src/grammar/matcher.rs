//! One text under a grammar.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use llguidance::TokenParser;
use llguidance::api::StopReason;
use llguidance::panic_utils::catch_unwind;
use llguidance::toktrie::SimpleVob;

use super::error::GrammarError;
use super::first_line;
use crate::control::{Constraint, ControlError, Guide, Verdict};

/// Bytes of the text that errors quote.
const QUOTED_BYTES: usize = 40;

/// Follows one text along a grammar.
///
/// After an error it is of no more use.
pub struct GrammarMatcher {
    /// The parser of the stage that the text is in.
    parser: TokenParser,
    /// Those of the stages behind it, the last one first.
    later: Vec<TokenParser>,
    eog: Arc<[u32]>,
}

impl GrammarMatcher {
    /// A matcher of headers and the text behind them.
    pub(super) fn new(headers: Vec<TokenParser>, text: TokenParser, eog: Arc<[u32]>) -> Self {
        let (mut parser, mut later) = (text, Vec::new());
        for header in headers.into_iter().rev() {
            later.push(std::mem::replace(&mut parser, header));
        }
        Self { parser, later, eog }
    }

    /// Whether the text so far is a text of the grammar; it may still be the beginning of a longer one.
    pub fn is_accepting(&mut self) -> bool {
        self.later.is_empty() && self.parser.is_accepting()
    }

    /// Forbids what may not come next.
    ///
    /// # Errors
    /// [`GrammarError::NoContinuation`], [`GrammarError::TooComplex`].
    pub fn guide(&mut self, guide: &mut Guide) -> Result<Verdict, GrammarError> {
        loop {
            match self.guide_stage(guide)? {
                Verdict::Complete if self.next_stage() => {}
                verdict => return Ok(verdict),
            }
        }
    }

    /// Goes on to the stage behind this one, if there is one.
    fn next_stage(&mut self) -> bool {
        let Some(next) = self.later.pop() else { return false };
        self.parser = next;
        true
    }

    /// Forbids what may not come next in this stage.
    fn guide_stage(&mut self, guide: &mut Guide) -> Result<Verdict, GrammarError> {
        match self.parser.stop_reason() {
            StopReason::NotStopped => {}
            _ if self.is_complete() => return Ok(Verdict::Complete),
            other => return Err(self.failure(other.to_string())),
        }
        let parser = &mut self.parser;
        // Parsers have limits in many places. llguidance's own entry points turn panics into errors, too.
        let computed = catch_unwind(AssertUnwindSafe(|| Ok((parser.is_accepting(), parser.compute_mask()))));
        let (accepting, mask) = computed.map_err(|error| self.failure(first_line(&error)))?;
        match mask {
            Ok(mask) if accepting && self.is_only_eog(&mask) => Ok(Verdict::Complete),
            Ok(mask) => {
                guide.set_mask(mask.as_slice());
                Ok(Verdict::Choose)
            }
            // Nothing at all is allowed, and the vocabulary has nothing that ends a generation.
            Err(_) if accepting && self.parser.stop_reason() == StopReason::NoExtensionBias => Ok(Verdict::Complete),
            Err(error) => Err(self.failure(first_line(&error))),
        }
    }

    /// Takes the token that was chosen.
    ///
    /// # Errors
    /// [`GrammarError::NotAllowed`], [`GrammarError::TooComplex`].
    pub fn accept(&mut self, token: u32) -> Result<(), GrammarError> {
        while self.is_complete() && self.next_stage() {}
        let trie = self.parser.token_env.tok_trie();
        let is_known = (token as usize) < trie.vocab_size() && trie.token_len(token) > 0;
        if !is_known || !self.may_follow(token)? {
            return Err(self.not_allowed(token));
        }
        let parser = &mut self.parser;
        let consumed = catch_unwind(AssertUnwindSafe(|| {
            parser.consume_token(token)?;
            parser.check_stop()
        }));
        consumed.map_err(|error| self.failure(first_line(&error)))?;
        Ok(())
    }

    /// Whether nothing more may follow in this stage.
    fn is_complete(&self) -> bool {
        matches!(self.parser.stop_reason(), StopReason::NoExtension | StopReason::EndOfSentence)
    }

    fn may_follow(&mut self, token: u32) -> Result<bool, GrammarError> {
        let parser = &mut self.parser;
        let valid = catch_unwind(AssertUnwindSafe(|| parser.validate_token(token)));
        valid.map_err(|error| self.failure(first_line(&error)))
    }

    fn is_only_eog(&self, mask: &SimpleVob) -> bool {
        let eog = self.eog.iter().filter(|&&id| mask.is_allowed(id)).count();
        mask.num_set() == eog
    }

    fn failure(&self, reason: String) -> GrammarError {
        let (tokens, end) = self.place();
        match self.parser.stop_reason() {
            StopReason::NoExtensionBias => GrammarError::NoContinuation { tokens, end },
            _ => GrammarError::TooComplex { tokens, end, reason },
        }
    }

    fn not_allowed(&self, token: u32) -> GrammarError {
        let (tokens, end) = self.place();
        let trie = self.parser.token_env.tok_trie();
        let text = if (token as usize) < trie.vocab_size() { trie.decode_str(&[token]) } else { String::new() };
        GrammarError::NotAllowed { token, text, tokens, end }
    }

    /// Where the text is: the number of its tokens and its last characters.
    fn place(&self) -> (usize, String) {
        let bytes = self.parser.final_bytes();
        let end = &bytes[bytes.len().saturating_sub(QUOTED_BYTES)..];
        (self.parser.num_tokens(), String::from_utf8_lossy(end).into_owned())
    }
}

/// The request's error is whatever the grammar's is.
impl Constraint for GrammarMatcher {
    fn guide(&mut self, guide: &mut Guide) -> Result<Verdict, ControlError> {
        Ok(Self::guide(self, guide)?)
    }

    fn accept(&mut self, token: u32) -> Result<(), ControlError> {
        Ok(Self::accept(self, token)?)
    }
}

impl std::fmt::Debug for GrammarMatcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (tokens, end) = self.place();
        f.debug_struct("GrammarMatcher").field("tokens", &tokens).field("end", &end).finish_non_exhaustive()
    }
}
