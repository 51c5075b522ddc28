//! Reference of `dry`.

use crate::generated::sampler::{BEGINS_BREAKER, BREAKS_ALONE, SamplerParams, TAIL_WORDS};
use crate::sampler::SamplerTables;

/// Of each token of the vocabulary, one more than the length of the longest repetition that it would extend at the end of `history`, 0 for
/// none that costs anything.
///
/// A repetition of length n that a token extends: the last n tokens of the history occur once more in it, followed by the token. Both are in the
/// window, and neither reaches across a sequence breaker. (DRY, by p-e-w: oobabooga/text-generation-webui, pull request 5677, 2024; sequence
/// breakers and limits as in llama.cpp.) Lengths beyond the last entry of the table of penalties count as that.
#[must_use]
pub fn dry(history: &[u32], tables: &SamplerTables, vocabulary: u32) -> Vec<u32> {
    let SamplerParams { dry_window, dry_allowed_length: allowed, dry_penalty_count, .. } = tables.params;
    let mut lengths = vec![0; vocabulary as usize];
    let window = &history[history.len() - history.len().min(dry_window as usize)..];
    if window.len() <= allowed as usize {
        return lengths;
    }
    let limit = unbroken(window, tables).min((allowed + dry_penalty_count - 1) as usize);
    for end in 1..window.len() {
        let token = window[end];
        let pairs = window[..end].iter().rev().zip(window.iter().rev());
        let length = pairs.take_while(|(earlier, last)| earlier == last).count().min(limit) as u32;
        if length >= allowed && tables.breakers[token as usize] & BREAKS_ALONE as u8 == 0 {
            lengths[token as usize] = lengths[token as usize].max(length + 1);
        }
    }
    lengths
}

/// Tokens at the end of the window that no sequence breaker is among: those behind the breaker that begins last. Of several breakers that begin at
/// the same token, the longest counts.
fn unbroken(window: &[u32], tables: &SamplerTables) -> usize {
    for (start, token) in window.iter().enumerate().rev() {
        let behind = &window[start + 1..];
        let flags = u32::from(tables.breakers[*token as usize]);
        let mut longest = (flags & BREAKS_ALONE != 0).then_some(0);
        if flags & BEGINS_BREAKER != 0 {
            for entry in tables.tails.chunks_exact(TAIL_WORDS as usize) {
                let tail = &entry[2..2 + entry[1] as usize];
                if entry[0] == *token && behind.starts_with(tail) {
                    longest = longest.max(Some(tail.len()));
                }
            }
        }
        if let Some(length) = longest {
            return behind.len() - length;
        }
    }
    window.len()
}
