//! Which tokens have valid keys and values (K/V) in a lane that has a part of the cache for itself, where the positions lie one behind the other. Where lanes
//! share pages that is in `pages.rs`. This is bookkeeping only; the model owns the K/V.

use crate::pages::{Holding, PageBook};

/// Where it is noted which K/V of a sequence are valid.
pub(crate) trait ValidKv {
    /// Notes that a step which took in `token` at `position` has been observed.
    fn push(&mut self, position: u32, token: u32);

    /// Forgets what is known of the sequence's K/V, because they may be broken.
    fn forget(&mut self);
}

impl ValidKv for KvCache {
    fn push(&mut self, position: u32, token: u32) {
        Self::push(self, position, token);
    }

    fn forget(&mut self) {
        Self::forget(self);
    }
}

/// The pages of a sequence and the book of all pages.
impl ValidKv for (&mut PageBook, &mut Holding) {
    fn push(&mut self, position: u32, token: u32) {
        self.0.push(self.1, position, token);
    }

    fn forget(&mut self) {
        self.0.distrust(self.1);
    }
}

/// The tokens whose K/V are valid, in order of position.
///
/// A token enters when the step that took it in has been observed and its output delivered. The tokens of steps that ran past the end of a
/// sequence never enter, so that nothing has to be rolled back. The K/V that those steps wrote lie beyond the end of this list, and are
/// written again before they are read.
#[derive(Debug, Clone, Default)]
pub struct KvCache {
    tokens: Vec<u32>,
}

impl KvCache {
    /// An empty cache.
    pub fn new() -> Self {
        Self::default()
    }

    /// A cache of which the caller knows that the device holds the K/V of `tokens`, from position 0 on.
    pub fn holding(tokens: impl Into<Vec<u32>>) -> Self {
        Self { tokens: tokens.into() }
    }

    /// The tokens with valid K/V; the first is at position 0.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// How many leading tokens of `prompt` need no step: the length of the longest common prefix, but never the whole prompt, because the
    /// logits of its last token are needed.
    pub fn reusable(&self, prompt: &[u32]) -> u32 {
        let common = self.tokens.iter().zip(prompt).take_while(|(a, b)| a == b).count();
        let most = prompt.len().saturating_sub(1);
        u32::try_from(common.min(most)).expect("prompts are checked against the context, whose size is a u32")
    }

    /// Forgets all but the leading `len` tokens, because the next sequence keeps only those and overwrites the K/V of the rest.
    ///
    /// # Panics
    /// If fewer than `len` tokens are valid.
    pub fn keep(&mut self, len: u32) {
        let len = len as usize;
        assert!(len <= self.tokens.len(), "kept {len} tokens of a cache that holds {}", self.tokens.len());
        self.tokens.truncate(len);
    }

    /// Notes that a step which took in `token` at `position` has been observed.
    ///
    /// # Panics
    /// If `position` is not the next one.
    pub fn push(&mut self, position: u32, token: u32) {
        let next = self.tokens.len();
        assert!(position as usize == next, "K/V noted at position {position} of a cache that holds {next} tokens");
        self.tokens.push(token);
    }

    /// Forgets all tokens, because it is no longer known what the device holds.
    pub fn forget(&mut self) {
        self.tokens.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(tokens: &[u32]) -> KvCache {
        KvCache { tokens: tokens.to_vec() }
    }

    #[test]
    fn reuse_is_the_common_prefix_less_the_last_prompt_token() {
        let kv = cache(&[1, 2, 3, 4]);
        for (prompt, reused) in [
            (&[1, 2, 3, 4, 5][..], 4),
            (&[1, 2, 3, 4], 3),
            (&[1, 2, 3], 2),
            (&[1, 2, 9, 4, 5], 2),
            (&[9, 2, 3], 0),
            (&[1], 0),
            (&[], 0),
        ] {
            assert_eq!(kv.reusable(prompt), reused, "{prompt:?}");
        }
        assert_eq!(KvCache::new().reusable(&[1, 2, 3]), 0);
    }

    #[test]
    fn keeping_and_pushing_moves_the_end() {
        let mut kv = cache(&[1, 2, 3]);
        kv.keep(2);
        kv.push(2, 7);
        assert_eq!(kv.tokens(), [1, 2, 7]);
        kv.forget();
        assert!(kv.tokens().is_empty());
    }

    #[test]
    #[should_panic(expected = "position 5 of a cache that holds 3")]
    fn a_gap_is_refused() {
        cache(&[1, 2, 3]).push(5, 1);
    }

    #[test]
    #[should_panic(expected = "kept 4 tokens of a cache that holds 3")]
    fn keeping_more_than_there_is_is_refused() {
        cache(&[1, 2, 3]).keep(4);
    }
}
