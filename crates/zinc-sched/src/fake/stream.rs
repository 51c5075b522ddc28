//! Which tokens the simulated model chooses.

use crate::sampling::Sampling;

/// Which tokens the simulated model chooses.
#[derive(Debug, Clone)]
pub enum TokenStream {
    /// The n-th decode step of a sequence chooses the n-th of these, from the front again after the last.
    Script(Vec<u32>),
    /// Every token is a function of all tokens whose K/V the step sees ([`next_token`]), so that a wrong token in the cache changes the
    /// output.
    History,
}

/// The token that [`TokenStream::History`] chooses after `history`: a hash of all of it.
pub fn next_token(history: &[u32], sampling: &Sampling, vocabulary_tokens: u32) -> u32 {
    let seed = if sampling.is_greedy() { 0 } else { sampling.seed ^ u64::from(sampling.temperature.to_bits()) << 32 };
    let hash = history.iter().fold(mix(seed), |hash, &token| mix(hash ^ u64::from(token)));
    (hash % u64::from(vocabulary_tokens)) as u32
}

/// The first `count` tokens that [`TokenStream::History`] chooses after `prompt`, computed without a model, a window or a cache, for
/// tests to compare with.
pub fn continuation(prompt: &[u32], count: usize, sampling: &Sampling, vocabulary_tokens: u32) -> Vec<u32> {
    let mut history = prompt.to_vec();
    for _ in 0..count {
        history.push(next_token(&history, sampling, vocabulary_tokens));
    }
    history.split_off(prompt.len())
}

/// A bijection of 64 bits in which every input bit reaches every output bit: two rounds of multiply and shift.
pub(super) fn mix(x: u64) -> u64 {
    let x = (x ^ 0x9e37_79b9_7f4a_7c15).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let x = (x ^ (x >> 32)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    x ^ (x >> 29)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_token_of_the_history_matters() {
        let base = next_token(&[1, 2, 3], &Sampling::GREEDY, u32::MAX);
        for other in [&[1, 2, 4][..], &[9, 2, 3], &[1, 3, 2], &[1, 2], &[0, 1, 2, 3]] {
            assert_ne!(next_token(other, &Sampling::GREEDY, u32::MAX), base, "{other:?}");
        }
        let warm = |seed| next_token(&[1, 2, 3], &Sampling::new(0.8, seed).unwrap(), u32::MAX);
        assert_ne!(warm(1), warm(2));
        assert_ne!(warm(1), base);
    }
}
