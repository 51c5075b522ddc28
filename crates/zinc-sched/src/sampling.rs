//! The parameters by which a token is chosen from the logits. The model does the choosing.
//!
//! Names, meanings and order of the stages are llama.cpp's: logit bias, penalties, DRY, top-n-sigma, top-k, typical, top-p, min-p, XTC,
//! temperature, and the draw.

use std::sync::Arc;

use crate::error::{Error, Result};

/// Sampling parameters of one request. [`Request::check`](crate::Request::check) compares them with their ranges.
///
/// A stage at its neutral value changes nothing. The stages never remove all tokens; only logit biases can.
#[derive(Debug, Clone, PartialEq)]
pub struct Sampling {
    /// Divides the logits before the softmax. 0 takes the most likely token that the other stages leave, and of equals the lower id.
    pub temperature: f32,
    /// Seed of the counter-based random generator. The same seed gives the same tokens at every depth.
    pub seed: u64,
    /// Keeps this many of the most likely tokens; 0 keeps all.
    pub top_k: u32,
    /// Keeps the most likely tokens until their probabilities sum to this; 1 keeps all.
    pub top_p: f32,
    /// Keeps tokens whose probability is at least this share of the likeliest token's; 0 keeps all.
    pub min_p: f32,
    /// Keeps the tokens whose information content is closest to the entropy, until their probabilities sum to this; 1 keeps all.
    pub typical_p: f32,
    /// Keeps logits within this many standard deviations of the highest; 0 or less keeps all.
    pub top_n_sigma: f32,
    /// Parameters of XTC, which excludes top choices.
    pub xtc: Xtc,
    /// Penalties for tokens that occurred before.
    pub penalties: Penalties,
    /// Parameters of DRY, which penalises tokens that continue a repetition; `None` is off.
    pub dry: Option<Dry>,
    /// Added to the logits of these ids before everything else; minus infinity forbids one.
    pub logit_bias: Vec<(u32, f32)>,
}

/// XTC (exclude top choices): with some probability, all tokens above a threshold but the least likely of them are removed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Xtc {
    /// Probability with which a step excludes top choices, 0 to 1; 0 is off.
    pub probability: f32,
    /// The least probability of a top choice, 0 to 1. Above 0.5 XTC is off, since there cannot be two of them.
    pub threshold: f32,
}

/// Penalties for tokens that occur among the last tokens of the prompt and of what was generated.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Penalties {
    /// How far back tokens count.
    pub last_n: LastTokens,
    /// Divides the positive logits of tokens that occurred, and multiplies their other logits; 1 is off.
    pub repeat: f32,
    /// Subtracted from a token's logit for each occurrence; 0 is off.
    pub frequency: f32,
    /// Subtracted from a token's logit if it occurred at all; 0 is off.
    pub presence: f32,
}

/// DRY (don't repeat yourself): a penalty that grows with the length of the repetition that a token would continue. A repetition of `n`
/// tokens costs `multiplier * base ^ (n - allowed_length)`.
#[derive(Debug, Clone, PartialEq)]
pub struct Dry {
    /// Scale of the penalty; 0 is off.
    pub multiplier: f32,
    /// Factor of the penalty for each further token of the repetition; below 1 is off.
    pub base: f32,
    /// Repetitions of fewer tokens cost nothing.
    pub allowed_length: u32,
    /// How far back repetitions are looked for.
    pub last_n: LastTokens,
    /// Token sequences that repetitions do not reach across; `None` is none.
    pub breakers: Option<Arc<SequenceBreakers>>,
}

/// Token sequences that end a repetition.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SequenceBreakers {
    /// Tokens that end a repetition by themselves.
    pub tokens: Vec<u32>,
    /// Sequences of at least two tokens that end a repetition together.
    pub sequences: Vec<Vec<u32>>,
}

impl SequenceBreakers {
    /// The most tokens of one breaker. The Vulkan adapter asserts that the kernels have the same limit.
    pub const MAX_TOKENS: usize = 21;

    /// Checks the lengths of the breakers, and also their ids unless `vocabulary_tokens` is 0, which stands for an
    /// unknown vocabulary.
    fn check(&self, vocabulary_tokens: u32) -> Result<()> {
        let allowed = 1..=Self::MAX_TOKENS;
        if let Some(sequence) = self.sequences.iter().find(|sequence| !allowed.contains(&sequence.len())) {
            return Err(Error::BreakerLength { tokens: sequence.len(), most: Self::MAX_TOKENS });
        }
        let mut ids = self.tokens.iter().chain(self.sequences.iter().flatten());
        match ids.find(|&&token| vocabulary_tokens > 0 && token >= vocabulary_tokens) {
            Some(&token) => Err(Error::BreakerOutsideVocabulary { token, vocabulary_tokens }),
            None => Ok(()),
        }
    }
}

/// How many of the last tokens of a sequence are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LastTokens {
    /// This many of the last tokens; 0 looks at none.
    Count(u32),
    /// All tokens that the context holds.
    All,
}

impl Sampling {
    /// Takes the most likely token each time, and the one with the lowest id if several are equally likely.
    pub const GREEDY: Self = Self {
        temperature: 0.0,
        seed: 0,
        top_k: 0,
        top_p: 1.0,
        min_p: 0.0,
        typical_p: 1.0,
        top_n_sigma: 0.0,
        xtc: Xtc::OFF,
        penalties: Penalties::OFF,
        dry: None,
        logit_bias: Vec::new(),
    };

    /// Samples from `softmax(logits / temperature)`.
    ///
    /// # Errors
    /// [`Error::InvalidSampling`] unless `temperature` is finite and at least 0.
    pub fn new(temperature: f32, seed: u64) -> Result<Self> {
        let sampling = Self { temperature, seed, ..Self::GREEDY };
        sampling.check(0).map(|()| sampling)
    }

    /// Whether the most likely token is taken.
    pub fn is_greedy(&self) -> bool {
        self.temperature == 0.0
    }

    /// Whether no stage but the temperature is on.
    pub fn is_plain(&self) -> bool {
        let Self { temperature, seed, .. } = *self;
        *self == Self { temperature, seed, ..Self::GREEDY }
    }

    /// Whether DRY is on.
    pub fn has_dry(&self) -> bool {
        self.dry.as_ref().is_some_and(Dry::is_on)
    }

    /// Equivalent parameters, in which every stage that cannot change the chosen tokens is at its neutral value, so that
    /// [`Self::is_greedy`] and [`Self::is_plain`] hold wherever they can. For parameters that [`Self::check`] accepts.
    #[must_use]
    pub fn normalized(mut self) -> Self {
        self.top_p = self.top_p.min(1.0);
        self.typical_p = self.typical_p.min(1.0);
        self.top_n_sigma = self.top_n_sigma.max(0.0);
        if self.xtc.probability == 0.0 || self.xtc.threshold > 0.5 {
            self.xtc = Xtc::OFF;
        }
        let Penalties { last_n, repeat, frequency, presence } = self.penalties;
        if last_n == LastTokens::Count(0) || (repeat, frequency, presence) == (1.0, 0.0, 0.0) {
            self.penalties = Penalties::OFF;
        }
        self.dry = self.dry.filter(Dry::is_on);
        self.logit_bias.retain(|&(_, bias)| bias != 0.0);
        if self.top_k == 1 {
            // Only one token is left, and no stage removes the last one.
            self = Self { typical_p: 1.0, xtc: Xtc::OFF, temperature: 0.0, ..self };
        }
        if self.is_greedy() && self.typical_p == 1.0 && self.xtc == Xtc::OFF {
            // The other stages never remove the likeliest token.
            self = Self { top_k: 0, top_p: 1.0, min_p: 0.0, top_n_sigma: 0.0, ..self };
        }
        self
    }

    /// Compares the parameters with their ranges, and ids with the size of the vocabulary; 0 stands for an unknown size.
    /// The kernels have the same ranges, which a test of the adapter asserts.
    ///
    /// # Errors
    /// [`Error::InvalidSampling`], [`Error::BiasOutsideVocabulary`], [`Error::BreakerOutsideVocabulary`], [`Error::BreakerLength`], and
    /// [`Error::BiasesForbidAll`] where the size of the vocabulary is given.
    pub fn check(&self, vocabulary_tokens: u32) -> Result<()> {
        /// The largest factor or term of a logit, so that no adjustment overflows.
        const MOST: f32 = 65_536.0;
        let dry = self.dry.as_ref();
        let Penalties { repeat, frequency, presence, .. } = self.penalties;
        let at_least_0 = |value: f32| value.is_finite() && value >= 0.0;
        let probability = |value: f32| (0.0..=1.0).contains(&value);
        let signed = |value: f32| (-MOST..=MOST).contains(&value);
        let unsigned = |value: f32| (0.0..=MOST).contains(&value);
        for (parameter, value, valid, expected) in [
            ("temperature", self.temperature, at_least_0(self.temperature), "a finite number >= 0; 0 is greedy"),
            ("top-p", self.top_p, at_least_0(self.top_p), "a finite number >= 0; 1 and more keep all"),
            ("min-p", self.min_p, probability(self.min_p), "0 to 1"),
            ("typical", self.typical_p, at_least_0(self.typical_p), "a finite number >= 0; 1 and more keep all"),
            (
                "top-n-sigma",
                self.top_n_sigma,
                self.top_n_sigma.is_finite() && self.top_n_sigma <= 255.0,
                "a finite number up to 255; 0 and less are off",
            ),
            ("xtc-probability", self.xtc.probability, probability(self.xtc.probability), "0 to 1"),
            ("xtc-threshold", self.xtc.threshold, probability(self.xtc.threshold), "0 to 1"),
            ("repeat-penalty", repeat, (1.0 / MOST..=MOST).contains(&repeat), "1/65536 to 65536; 1 is off"),
            ("frequency-penalty", frequency, signed(frequency), "-65536 to 65536; 0 is off"),
            ("presence-penalty", presence, signed(presence), "-65536 to 65536; 0 is off"),
            (
                "dry-multiplier",
                dry.map_or(0.0, |dry| dry.multiplier),
                dry.is_none_or(|dry| unsigned(dry.multiplier)),
                "0 to 65536; 0 is off",
            ),
            (
                "dry-base",
                dry.map_or(1.0, |dry| dry.base),
                dry.is_none_or(|dry| unsigned(dry.base)),
                "0 to 65536; less than 1 is off",
            ),
        ] {
            if !valid {
                return Err(Error::InvalidSampling { parameter, value, expected });
            }
        }
        if let Some(breakers) = dry.and_then(|dry| dry.breakers.as_ref()) {
            breakers.check(vocabulary_tokens)?;
        }
        for &(token, bias) in &self.logit_bias {
            if bias.is_nan() || bias == f32::INFINITY {
                let expected = "a number or -inf";
                return Err(Error::InvalidSampling { parameter: "logit-bias", value: bias, expected });
            }
            if vocabulary_tokens > 0 && token >= vocabulary_tokens {
                return Err(Error::BiasOutsideVocabulary { token, vocabulary_tokens });
            }
        }
        let totals = total_biases(self.logit_bias.iter().copied());
        if let Some(&(_, value)) = totals.iter().find(|(_, total)| *total == f32::INFINITY) {
            let expected = "a finite number or -inf, as the sum of the biases of one token";
            return Err(Error::InvalidSampling { parameter: "logit-bias", value, expected });
        }
        let forbidden = totals.iter().filter(|(_, total)| *total == f32::NEG_INFINITY).count();
        if vocabulary_tokens > 0 && forbidden == vocabulary_tokens as usize {
            return Err(Error::BiasesForbidAll { vocabulary_tokens });
        }
        Ok(())
    }
}

/// The sum of the biases of each token, by growing id: those of one token add up, and minus infinity forbids it.
pub(crate) fn total_biases(biases: impl Iterator<Item = (u32, f32)>) -> Vec<(u32, f32)> {
    let mut biases: Vec<(u32, f32)> = biases.collect();
    biases.sort_by_key(|(id, _)| *id);
    biases.dedup_by(|next, total| {
        let same = next.0 == total.0;
        if same {
            total.1 += next.1;
        }
        same
    });
    biases
}

impl Xtc {
    /// XTC switched off.
    pub const OFF: Self = Self { probability: 0.0, threshold: 0.1 };
}

impl Dry {
    /// Whether these parameters can penalise a token at all.
    pub fn is_on(&self) -> bool {
        self.multiplier > 0.0 && self.base >= 1.0 && self.last_n != LastTokens::Count(0)
    }
}

impl Penalties {
    /// All penalties switched off.
    pub const OFF: Self = Self { last_n: LastTokens::Count(64), repeat: 1.0, frequency: 0.0, presence: 0.0 };
}

impl LastTokens {
    /// The number of tokens to look at, in a context of `context_tokens`.
    pub fn within(self, context_tokens: u32) -> u32 {
        match self {
            Self::Count(count) => count.min(context_tokens),
            Self::All => context_tokens,
        }
    }
}

impl Default for Sampling {
    fn default() -> Self {
        Self::GREEDY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn biases_that_forbid_every_token_are_refused() {
        let check = |vocabulary_tokens: u32, logit_bias: &[(u32, f32)]| {
            Sampling { logit_bias: logit_bias.to_vec(), ..Sampling::GREEDY }.check(vocabulary_tokens)
        };
        const FORBID: f32 = f32::NEG_INFINITY;
        for (vocabulary, biases) in [
            (1, &[(0, FORBID)][..]),
            (3, &[(2, FORBID), (0, FORBID), (1, FORBID)]),
            (2, &[(0, FORBID), (0, 5.0), (1, 1.0), (1, FORBID)]),
            (2, &[(0, -3e38), (1, FORBID), (0, -3e38)]),
            (2, &[(1, FORBID), (0, FORBID), (1, FORBID)]),
        ] {
            let error = check(vocabulary, biases).unwrap_err();
            assert!(matches!(error, Error::BiasesForbidAll { vocabulary_tokens } if vocabulary_tokens == vocabulary));
            assert!(error.to_string().contains("forbid every token"), "{error}");
            // Before the size of the vocabulary is known nothing can be said.
            check(0, biases).unwrap();
        }
        for (vocabulary, biases) in [
            (2, &[(0, FORBID)][..]),
            (2, &[(0, FORBID), (0, FORBID)]),
            (2, &[(0, -3e38), (1, -3e38)]),
            (3, &[(0, FORBID), (2, FORBID), (1, -1e30)]),
            (2, &[(0, 3e38), (0, -3e38), (1, FORBID)]),
        ] {
            check(vocabulary, biases).unwrap();
        }
        let overflow = check(2, &[(0, 3e38), (1, FORBID), (0, 3e38)]).unwrap_err();
        assert!(matches!(overflow, Error::InvalidSampling { parameter: "logit-bias", .. }), "{overflow:?}");
    }

    #[test]
    fn temperatures_are_checked() {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.1, -f32::MIN_POSITIVE] {
            let error = Sampling::new(bad, 1).unwrap_err();
            assert!(matches!(error, Error::InvalidSampling { parameter: "temperature", .. }), "{bad}: {error}");
        }
        for good in [0.0, -0.0, f32::MIN_POSITIVE, 0.7, 1.0, 100.0] {
            assert_eq!(Sampling::new(good, 7).unwrap().temperature, good);
        }
        assert!(Sampling::new(-0.0, 3).unwrap().is_greedy());
    }

    #[test]
    fn parameters_outside_their_range_are_named_with_the_value() {
        let bad = [
            Sampling { top_p: -0.5, ..Sampling::GREEDY },
            Sampling { min_p: 1.5, ..Sampling::GREEDY },
            Sampling { typical_p: f32::NAN, ..Sampling::GREEDY },
            Sampling { top_n_sigma: f32::INFINITY, ..Sampling::GREEDY },
            Sampling { xtc: Xtc { probability: 2.0, threshold: 0.1 }, ..Sampling::GREEDY },
            Sampling { xtc: Xtc { probability: 0.5, threshold: -1.0 }, ..Sampling::GREEDY },
            Sampling { penalties: Penalties { repeat: 0.0, ..Penalties::OFF }, ..Sampling::GREEDY },
            Sampling { penalties: Penalties { frequency: f32::NAN, ..Penalties::OFF }, ..Sampling::GREEDY },
            Sampling { penalties: Penalties { presence: f32::INFINITY, ..Penalties::OFF }, ..Sampling::GREEDY },
            Sampling { penalties: Penalties { presence: -70_000.0, ..Penalties::OFF }, ..Sampling::GREEDY },
            Sampling { penalties: Penalties { repeat: 1e-5, ..Penalties::OFF }, ..Sampling::GREEDY },
            Sampling { top_n_sigma: 256.0, ..Sampling::GREEDY },
            Sampling { dry: Some(Dry { base: -1.0, ..DRY }), ..Sampling::GREEDY },
            Sampling { dry: Some(Dry { multiplier: f32::INFINITY, ..DRY }), ..Sampling::GREEDY },
            Sampling { logit_bias: vec![(1, f32::NAN)], ..Sampling::GREEDY },
        ];
        for sampling in bad {
            let error = sampling.check(10).unwrap_err();
            assert!(matches!(error, Error::InvalidSampling { .. }), "{sampling:?}: {error}");
        }
        let outside = Sampling { logit_bias: vec![(10, 1.0)], ..Sampling::GREEDY }.check(10).unwrap_err();
        assert_eq!(outside.to_string(), "logit bias for token 10, and the vocabulary has ids 0 to 9");
        let extreme =
            Sampling { top_k: u32::MAX, top_p: 7.0, logit_bias: vec![(9, f32::NEG_INFINITY)], ..Sampling::GREEDY };
        extreme.check(10).unwrap();
    }

    #[test]
    fn sequence_breakers_are_checked() {
        let with = |tokens: Vec<u32>, sequences: Vec<Vec<u32>>| {
            let breakers = Some(Arc::new(SequenceBreakers { tokens, sequences }));
            Sampling { dry: Some(Dry { breakers, ..DRY }), ..Sampling::GREEDY }
        };
        for (tokens, sequences) in [(vec![10], vec![]), (vec![], vec![vec![1, 10]])] {
            let error = with(tokens, sequences).check(10).unwrap_err();
            assert!(matches!(error, Error::BreakerOutsideVocabulary { token: 10, vocabulary_tokens: 10 }), "{error}");
        }
        for length in [0, SequenceBreakers::MAX_TOKENS + 1] {
            let error = with(vec![], vec![vec![1; length]]).check(10).unwrap_err();
            assert!(matches!(error, Error::BreakerLength { tokens, .. } if tokens == length), "{error}");
        }
        with(vec![9], vec![vec![1; SequenceBreakers::MAX_TOKENS], vec![2]]).check(10).unwrap();
    }

    #[test]
    fn plain_sampling_is_temperature_alone() {
        assert!(Sampling::new(0.8, 5).unwrap().is_plain());
        assert!(!Sampling { top_k: 40, ..Sampling::GREEDY }.is_plain());
    }
    const DRY: Dry = Dry { multiplier: 0.8, base: 1.75, allowed_length: 2, last_n: LastTokens::All, breakers: None };

    #[test]
    fn stages_that_change_nothing_become_neutral() {
        let idle = Sampling {
            temperature: 0.7,
            top_p: 3.0,
            typical_p: 1.5,
            top_n_sigma: -1.0,
            xtc: Xtc { probability: 0.0, threshold: 0.3 },
            penalties: Penalties { last_n: LastTokens::All, ..Penalties::OFF },
            dry: Some(Dry { multiplier: 0.0, ..DRY }),
            logit_bias: vec![(3, 0.0)],
            ..Sampling::GREEDY
        };
        assert_eq!(idle.clone().normalized(), Sampling { temperature: 0.7, ..Sampling::GREEDY });
        let no_window = Penalties { last_n: LastTokens::Count(0), repeat: 1.3, ..Penalties::OFF };
        let others = Sampling {
            xtc: Xtc { probability: 1.0, threshold: 0.51 },
            penalties: no_window,
            dry: Some(Dry { last_n: LastTokens::Count(0), ..DRY }),
            ..idle
        };
        assert!(others.normalized().is_plain());
        assert!(!Dry { base: 0.9, ..DRY }.is_on() && DRY.is_on());
    }

    #[test]
    fn the_likeliest_token_needs_no_stage_that_keeps_it() {
        let filters = Sampling { top_k: 40, top_p: 0.9, min_p: 0.1, top_n_sigma: 1.0, ..Sampling::GREEDY };
        assert_eq!(filters.clone().normalized(), Sampling::GREEDY);
        let one = Sampling { top_k: 1, typical_p: 0.5, temperature: 1.2, seed: 4, ..filters.clone() };
        assert_eq!(one.normalized(), Sampling { seed: 4, ..Sampling::GREEDY });
        // These two stages may remove the most likely token, and what they remove depends on which tokens the other
        // stages have left. So the parameters stay as they are.
        for stage in [
            Sampling { typical_p: 0.5, ..filters.clone() },
            Sampling { xtc: Xtc { probability: 0.5, threshold: 0.1 }, ..filters },
        ] {
            assert_eq!(stage.clone().normalized(), stage);
        }
    }

    #[test]
    fn stages_that_change_something_stay() {
        let busy = Sampling {
            temperature: 0.7,
            seed: 9,
            top_k: 40,
            top_p: 0.95,
            min_p: 0.05,
            typical_p: 0.9,
            top_n_sigma: 1.0,
            xtc: Xtc { probability: 0.1, threshold: 0.5 },
            penalties: Penalties { presence: 0.1, ..Penalties::OFF },
            dry: Some(DRY),
            logit_bias: vec![(3, f32::NEG_INFINITY)],
        };
        assert_eq!(busy.clone().normalized(), busy);
    }
}
