//! What the scheduler says of sampling, in the kernels' terms, and what they report in the scheduler's.

use zinc_kernels::generated::logprob_report::LogprobReport;
use zinc_kernels::reference::Candidate;
use zinc_kernels::sampler::{Breakers, SamplerSettings, SamplerTables};

use crate::model::HostChoice;
use crate::sampling::{LastTokens, Sampling};
use crate::step::TokenLogprobs;

/// The tables of the chain of samplers.
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

/// The same parameters as the kernels name them.
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

/// What the host chose, as a candidate.
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
