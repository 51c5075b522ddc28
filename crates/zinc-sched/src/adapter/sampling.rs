//! Translates sampling parameters into what the kernels read, and what kernels report into the scheduler's types.

use zinc_kernels::generated::logprob_report::LogprobReport;
use zinc_kernels::generated::sampler::MAX_TAIL;
use zinc_kernels::reference::Candidate;
use zinc_kernels::sampler::{Breakers, SamplerSettings, SamplerTables};

use crate::model::HostChoice;
use crate::sampling::{LastTokens, Sampling, SequenceBreakers};
use crate::step::TokenLogprobs;

/// The kernels take sequence breakers of as many tokens as requests may have: a head and a tail.
const _: () = assert!(SequenceBreakers::MAX_TOKENS == MAX_TAIL as usize + 1);

/// The tables that the kernels of the sampler chain read, made of parameters that [`Sampling::check`] has accepted.
pub(super) fn sampler_tables(sampling: &Sampling, vocabulary: u32, context: u32) -> SamplerTables {
    let dry = sampling.dry.as_ref();
    let breakers = dry.and_then(|dry| dry.breakers.as_deref()).map_or_else(Breakers::default, |given| Breakers {
        tokens: given.tokens.clone(),
        sequences: given.sequences.clone(),
    });
    settings(sampling)
        .tables(vocabulary, context, &breakers)
        .unwrap_or_else(|error| panic!("sampling parameters that were checked with the request: {error}"))
}

/// The parameters under the names and in the types of the kernels' settings.
fn settings(sampling: &Sampling) -> SamplerSettings {
    let last = |tokens: LastTokens| match tokens {
        LastTokens::Count(count) => i32::try_from(count).unwrap_or(i32::MAX),
        LastTokens::All => -1,
    };
    let mut settings = SamplerSettings {
        logit_bias: sampling.logit_bias.clone(),
        penalty_last_n: last(sampling.penalties.last_n),
        penalty_repeat: sampling.penalties.repeat,
        penalty_freq: sampling.penalties.frequency,
        penalty_present: sampling.penalties.presence,
        top_n_sigma: sampling.top_n_sigma,
        top_k: i32::try_from(sampling.top_k).unwrap_or(i32::MAX),
        typical_p: sampling.typical_p,
        top_p: sampling.top_p,
        min_p: sampling.min_p,
        xtc_probability: sampling.xtc.probability,
        xtc_threshold: sampling.xtc.threshold,
        ..SamplerSettings::OFF
    };
    if let Some(dry) = &sampling.dry {
        settings.dry_multiplier = dry.multiplier;
        settings.dry_base = dry.base;
        settings.dry_allowed_length = i32::try_from(dry.allowed_length).unwrap_or(i32::MAX);
        settings.dry_penalty_last_n = last(dry.last_n);
    }
    settings
}

/// The token that the host chose, as a candidate of the kernels.
pub(super) fn candidate(choice: HostChoice) -> Candidate {
    match choice {
        HostChoice::Token { id, logit } => Candidate { score: logit, logit, id, non_finite: 0 },
        HostChoice::NonFinite => Candidate { non_finite: 1, ..Candidate::NONE },
    }
}

/// The log-probabilities of a token with the logit `chosen`, and of the `top` likeliest ones.
pub(super) fn log_probabilities(report: &LogprobReport, chosen: f32, top: u32) -> TokenLogprobs {
    TokenLogprobs { chosen: report.logprob(chosen), top: report.top().take(top as usize).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampling::{Dry, Penalties, Xtc};

    /// Values at the limits of every range, just beyond them, and those that are no numbers.
    fn values() -> Vec<f32> {
        let limits = [0.0f32, 0.5, 1.0, 255.0, 65_536.0, 1.0 / 65_536.0];
        let around = limits.into_iter().flat_map(|limit| [limit.next_down(), limit, limit.next_up()]);
        let both = around.flat_map(|value| [value, -value]);
        both.chain([f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, f32::MIN_POSITIVE]).collect()
    }

    /// Sampling parameters, one of which has the given value.
    type WithValue = fn(f32) -> Sampling;

    /// [`Sampling::check`] refuses what the kernels refuse, so that [`sampler_tables`] never panics. Of finite numbers it refuses no others;
    /// it refuses infinities where the kernels would take one for "off".
    #[test]
    fn requests_and_kernels_have_the_same_ranges() {
        const DRY: Dry =
            Dry { multiplier: 0.8, base: 1.75, allowed_length: 2, last_n: LastTokens::All, breakers: None };
        let parameters: [(&str, WithValue); 11] = [
            ("top_p", |x| Sampling { top_p: x, ..Sampling::GREEDY }),
            ("min_p", |x| Sampling { min_p: x, ..Sampling::GREEDY }),
            ("typical_p", |x| Sampling { typical_p: x, ..Sampling::GREEDY }),
            ("top_n_sigma", |x| Sampling { top_n_sigma: x, ..Sampling::GREEDY }),
            ("xtc probability", |x| Sampling { xtc: Xtc { probability: x, ..Xtc::OFF }, ..Sampling::GREEDY }),
            ("xtc threshold", |x| Sampling { xtc: Xtc { threshold: x, ..Xtc::OFF }, ..Sampling::GREEDY }),
            ("repeat", |x| Sampling { penalties: Penalties { repeat: x, ..Penalties::OFF }, ..Sampling::GREEDY }),
            ("frequency", |x| Sampling { penalties: Penalties { frequency: x, ..Penalties::OFF }, ..Sampling::GREEDY }),
            ("presence", |x| Sampling { penalties: Penalties { presence: x, ..Penalties::OFF }, ..Sampling::GREEDY }),
            ("dry multiplier", |x| Sampling { dry: Some(Dry { multiplier: x, ..DRY }), ..Sampling::GREEDY }),
            ("dry base", |x| Sampling { dry: Some(Dry { base: x, ..DRY }), ..Sampling::GREEDY }),
        ];
        for (name, parameter) in parameters {
            for value in values() {
                let sampling = parameter(value);
                let request = sampling.check(100).is_ok();
                let kernels = settings(&sampling).tables(100, 64, &Breakers::default()).is_ok();
                assert!(kernels || !request, "{name} {value:e}: the request passes, the kernels refuse it");
                assert!(request == kernels || value.is_infinite(), "{name} {value:e}: only the kernels take it");
            }
        }
    }
}
