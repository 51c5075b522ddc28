//! The parameters of the sampler chain: as users give them, and as the kernels take them.
//!
//! The chain is `dry`, `adjust` and `choose` on a device, or [`reference::draw`](crate::reference::draw) on the host. Temperature and seed are not
//! parameters of it: they belong to every kind of sampling and are in the [`Lane`](crate::step::Lane).

use std::collections::BTreeMap;

use crate::error::Error;
use crate::generated::sampler::{BEGINS_BREAKER, BREAKS_ALONE, MAX_TAIL, PROBABILITY_ONE, SIGMA_OFF, TAIL_WORDS};
use crate::reference::mass::probability;

pub use crate::generated::sampler::{Bias, SamplerParams};

/// What samplers are on, and how. Names, order and meaning are llama.cpp's; the default is every sampler off.
#[derive(Clone, Debug, PartialEq)]
pub struct SamplerSettings {
    /// Added to the logits of tokens: id and bias; minus infinity forbids a token. Biases of the same token add up.
    pub logit_bias: Vec<(u32, f32)>,
    /// Tokens of the history, prompt included, that the three penalties look at: 0 none, -1 all. llama.cpp's default is 64.
    pub penalty_last_n: i32,
    /// Positive logits of tokens that have occurred are divided by it, others multiplied; 1 is off. (Keskar et al., CTRL, 2019.)
    pub penalty_repeat: f32,
    /// Subtracted from the logit for each occurrence of the token; 0 is off. (OpenAI's frequency penalty.)
    pub penalty_freq: f32,
    /// Subtracted from the logit of a token that has occurred; 0 is off. (OpenAI's presence penalty.)
    pub penalty_present: f32,
    /// DRY: a token that would extend a repetition of `length` tokens loses `dry_multiplier * dry_base ^ (length - dry_allowed_length)`; 0 is off.
    pub dry_multiplier: f32,
    /// See [`Self::dry_multiplier`]; below 1 is off. llama.cpp's default is 1.75.
    pub dry_base: f32,
    /// See [`Self::dry_multiplier`]; shorter repetitions are free. llama.cpp's default is 2.
    pub dry_allowed_length: i32,
    /// Tokens of the history that DRY looks at: 0 none, -1 all. llama.cpp's default is -1.
    pub dry_penalty_last_n: i32,
    /// Keeps the tokens whose logits are within so many standard deviations of the highest; 0 and below are off.
    pub top_n_sigma: f32,
    /// Keeps the tokens with the highest logits; 0 and below are off. llama.cpp's default is 40.
    pub top_k: i32,
    /// Keeps the tokens whose information content is nearest to the entropy, until their probability exceeds this; 1 and above are off.
    pub typical_p: f32,
    /// Keeps the most probable tokens until their probability reaches this; 1 and above are off. llama.cpp's default is 0.95.
    pub top_p: f32,
    /// Keeps the tokens that are at least so probable, relative to the most probable one; 0 is off. llama.cpp's default is 0.05.
    pub min_p: f32,
    /// With this probability, XTC drops all but the least probable of the tokens that reach the threshold; 0 is off.
    pub xtc_probability: f32,
    /// See [`Self::xtc_probability`]; above 0.5 is off. llama.cpp's default is 0.1.
    pub xtc_threshold: f32,
}

impl SamplerSettings {
    /// Every sampler off.
    pub const OFF: Self = Self {
        logit_bias: Vec::new(),
        penalty_last_n: 64,
        penalty_repeat: 1.0,
        penalty_freq: 0.0,
        penalty_present: 0.0,
        dry_multiplier: 0.0,
        dry_base: 1.75,
        dry_allowed_length: 2,
        dry_penalty_last_n: -1,
        top_n_sigma: -1.0,
        top_k: 0,
        typical_p: 1.0,
        top_p: 1.0,
        min_p: 0.0,
        xtc_probability: 0.0,
        xtc_threshold: 0.1,
    };

    /// Whether no sampler is on: then [`Sample`](crate::ops::Sample) draws the same token for less.
    #[must_use]
    pub fn is_off(&self) -> bool {
        let filters = self.top_n_sigma > 0.0
            || self.top_k > 0
            || self.typical_p < 1.0
            || self.top_p < 1.0
            || self.min_p > 0.0
            || self.has_xtc();
        self.logit_bias.is_empty() && !self.has_penalties() && !self.has_dry() && !filters
    }

    /// Whether DRY is on: then [`Dry`](crate::ops::Dry) must run before [`Adjust`](crate::ops::Adjust).
    #[must_use]
    pub fn has_dry(&self) -> bool {
        self.dry_multiplier != 0.0 && self.dry_base >= 1.0 && self.dry_penalty_last_n != 0
    }

    /// Whether a penalty is on that counts occurrences: then the counts must be kept.
    #[must_use]
    pub fn has_penalties(&self) -> bool {
        let neutral = self.penalty_repeat == 1.0 && self.penalty_freq == 0.0 && self.penalty_present == 0.0;
        self.penalty_last_n != 0 && !neutral
    }

    fn has_xtc(&self) -> bool {
        self.xtc_probability > 0.0 && self.xtc_threshold <= 0.5
    }

    /// What the kernels take, for a model of `vocabulary` tokens and a sequence of at most `context`.
    ///
    /// # Errors
    /// [`Error`] with the numbers, for a parameter that is outside its range or no number, and for a token that does not exist.
    pub fn tables(&self, vocabulary: u32, context: u32, breakers: &Breakers) -> Result<SamplerTables, Error> {
        self.check()?;
        let biases = self.biases(vocabulary)?;
        let (flags, tails) = breakers.tables(vocabulary)?;
        let window = |last_n: i32| if last_n < 0 { context } else { (last_n as u32).min(context) };
        let dry_penalties = self.dry_penalties(window(self.dry_penalty_last_n));
        let params = SamplerParams {
            bias_count: biases.len() as u32,
            penalty_window: if self.has_penalties() { window(self.penalty_last_n) } else { 0 },
            repeat: self.penalty_repeat,
            inverse_repeat: 1.0 / self.penalty_repeat,
            frequency: self.penalty_freq,
            presence: self.penalty_present,
            dry_window: if self.has_dry() { window(self.dry_penalty_last_n) } else { 0 },
            dry_allowed_length: self.dry_allowed_length as u32,
            dry_penalty_count: dry_penalties.len() as u32,
            tail_count: tails.len() as u32 / TAIL_WORDS,
            sigma_squared: match self.top_n_sigma {
                n if n > 0.0 => (f64::from(n).powi(2) * 65_536.0).round() as u32,
                _ => SIGMA_OFF,
            },
            top_k: self.top_k.max(0) as u32,
            typical: truncation(self.typical_p),
            top_p: truncation(self.top_p),
            log_min_p: f64::from(self.min_p).ln() as f32,
            xtc_probability: if self.has_xtc() { probability(self.xtc_probability) } else { 0 },
            xtc_threshold: probability(self.xtc_threshold),
            // Where the lists lie is for the owner of their memory to say.
            ..SamplerParams::default()
        };
        Ok(SamplerTables { params, biases, dry_penalties, breakers: flags, tails })
    }

    fn check(&self) -> Result<(), Error> {
        let most_tokens = f64::from(i32::MAX);
        let ranges = [
            ("penalty_last_n", f64::from(self.penalty_last_n), -1.0, most_tokens),
            // So that no adjustment of a logit overflows.
            ("penalty_repeat", self.penalty_repeat.into(), 1.0 / 65_536.0, 65_536.0),
            ("penalty_freq", self.penalty_freq.into(), -65_536.0, 65_536.0),
            ("penalty_present", self.penalty_present.into(), -65_536.0, 65_536.0),
            ("dry_multiplier", self.dry_multiplier.into(), 0.0, 65_536.0),
            ("dry_base", self.dry_base.into(), 0.0, 65_536.0),
            ("dry_allowed_length", f64::from(self.dry_allowed_length), 0.0, most_tokens),
            ("dry_penalty_last_n", f64::from(self.dry_penalty_last_n), -1.0, most_tokens),
            ("top_n_sigma", self.top_n_sigma.into(), f64::NEG_INFINITY, 255.0),
            ("typical_p", self.typical_p.into(), 0.0, f64::INFINITY),
            ("top_p", self.top_p.into(), 0.0, f64::INFINITY),
            ("min_p", self.min_p.into(), 0.0, 1.0),
            ("xtc_probability", self.xtc_probability.into(), 0.0, 1.0),
            ("xtc_threshold", self.xtc_threshold.into(), 0.0, 1.0),
        ];
        for (name, value, least, most) in ranges {
            if !(least..=most).contains(&value) {
                return Err(Error::OutOfRange { name, value, least, most });
            }
        }
        Ok(())
    }

    fn biases(&self, vocabulary: u32) -> Result<Vec<Bias>, Error> {
        let mut sums = BTreeMap::new();
        for &(token, bias) in &self.logit_bias {
            check_token(token, vocabulary)?;
            if bias.is_nan() || bias == f32::INFINITY {
                return Err(Error::Bias { token, bias });
            }
            *sums.entry(token).or_insert(0.0) += bias;
        }
        Ok(sums.into_iter().map(|(id, bias)| Bias { id, bias }).collect())
    }

    /// What a repetition costs that is longer than is allowed by as many tokens as the index says, for windows of so many tokens.
    ///
    /// As in llama.cpp the exponent is limited so that the power is a finite float.
    fn dry_penalties(&self, window: u32) -> Vec<f32> {
        /// The logarithm of the largest float.
        const LARGEST: f32 = 88.722_84;
        if !self.has_dry() {
            return vec![0.0];
        }
        let most = match self.dry_base {
            1.0 => 0,
            base if base > 1.000_001 => (LARGEST / base.ln()) as u32,
            _ => u32::MAX,
        };
        // A repetition and what it repeats are both in the window.
        let longest = window.saturating_sub(1).saturating_sub(self.dry_allowed_length as u32);
        (0..=most.min(longest))
            .map(|excess| {
                let penalty = f64::from(self.dry_multiplier) * f64::from(self.dry_base).powf(f64::from(excess));
                penalty.min(f64::from(f32::MAX)) as f32
            })
            .collect()
    }
}

impl Default for SamplerSettings {
    fn default() -> Self {
        Self::OFF
    }
}

/// A probability that truncates: what is below 1 does so however near it is.
fn truncation(p: f32) -> u32 {
    if p >= 1.0 { PROBABILITY_ONE } else { probability(p).min(PROBABILITY_ONE - 1) }
}

fn check_token(token: u32, vocabulary: u32) -> Result<(), Error> {
    if token < vocabulary { Ok(()) } else { Err(Error::UnknownToken { token, vocabulary }) }
}

/// What ends the repetitions that DRY looks for. How strings become tokens is the tokenizer's matter.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Breakers {
    /// Tokens that break a sequence by themselves.
    pub tokens: Vec<u32>,
    /// Breakers of several tokens; those of one count as [`Self::tokens`].
    pub sequences: Vec<Vec<u32>>,
}

impl Breakers {
    /// The flags of all tokens, in whole words, and the list of tails.
    fn tables(&self, vocabulary: u32) -> Result<(Vec<u8>, Vec<u32>), Error> {
        let mut flags = vec![0; vocabulary.next_multiple_of(4) as usize];
        let mut flag = |token: u32, flag: u32| {
            check_token(token, vocabulary)?;
            flags[token as usize] |= flag as u8;
            Ok(())
        };
        self.tokens.iter().try_for_each(|token| flag(*token, BREAKS_ALONE))?;
        let mut tails = Vec::new();
        for sequence in &self.sequences {
            sequence.iter().try_for_each(|token| check_token(*token, vocabulary))?;
            match sequence.as_slice() {
                [token] => flag(*token, BREAKS_ALONE)?,
                [head, tail @ ..] if tail.len() <= MAX_TAIL as usize => {
                    flag(*head, BEGINS_BREAKER)?;
                    tails.extend([*head, tail.len() as u32]);
                    tails.extend(tail);
                    tails.resize(tails.len().next_multiple_of(TAIL_WORDS as usize), 0);
                }
                _ => return Err(Error::BreakerLength { tokens: sequence.len() }),
            }
        }
        Ok((flags, tails))
    }
}

/// What the kernels of the chain read besides the tokens, made once a sequence. Each is an array on the device; empty ones are never read.
#[derive(Clone, Debug, PartialEq)]
pub struct SamplerTables {
    /// The scalars.
    pub params: SamplerParams,
    /// Logit biases, by id.
    pub biases: Vec<Bias>,
    /// What repetitions cost.
    pub dry_penalties: Vec<f32>,
    /// `[vocabulary]` flags, padded to whole words.
    pub breakers: Vec<u8>,
    /// Breakers of several tokens, [`TAIL_WORDS`] words each.
    pub tails: Vec<u32>,
}
