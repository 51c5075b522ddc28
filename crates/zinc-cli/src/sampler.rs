//! The sampler of a command: from flags to the requests that are made with it.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

use zinc_model::Tokenizer;
use zinc_model::tokenizer::StopMatcher;
use zinc_sched::adapter::grammar::{GrammarCompiler, GrammarSource};
use zinc_sched::{Control, LastTokens, Request, Sampling, SequenceBreakers, Tracing};

use crate::args::{GenerationArgs, Seed, TokenCount};
use crate::error::{Error, Result};
use crate::session::HostModel;

/// How the tokens of an answer are chosen, and what ends it.
#[derive(Clone, Debug)]
pub(crate) struct Sampler {
    sampling: Sampling,
    /// Texts whose tokens DRY wants; see [`Self::for_model`].
    breakers: Vec<String>,
    /// What the text has to match, and who therefore chooses; see [`Self::for_model`].
    constraint: Option<GrammarSource>,
    control: Control,
    stops: Vec<String>,
    max_tokens: Option<u32>,
    end: End,
}

/// What ends an answer, besides its length and stop strings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// An end-of-generation token.
    Model,
    /// Nothing.
    Never,
}

impl Sampler {
    /// From the flags, before a model is opened; a random seed is drawn here, and the file of a constraint read.
    ///
    /// # Errors
    /// [`Error::Usage`] for a parameter outside its range, or a file that cannot be read.
    pub(crate) fn new(args: &GenerationArgs) -> Result<Self> {
        let seed = match args.sampling.seed {
            Seed::Fixed(seed) => seed,
            // The standard library's hash keys are random; the hash of nothing under them is as good as a draw.
            Seed::Random => RandomState::new().hash_one(()),
        };
        let max_tokens = match args.predict {
            TokenCount::Unlimited => None,
            TokenCount::AtMost(count) => Some(count),
        };
        let sampling = args.sampling.sampling(seed);
        sampling.check(0).map_err(|error| Error::usage(error.to_string()))?;
        let end = if args.ignore_eos { End::Never } else { End::Model };
        let (sampling, breakers) = (sampling.normalized(), args.sampling.breakers());
        let (constraint, control) = (args.constraint.source()?, Control::Device);
        Ok(Self { sampling, breakers, constraint, control, stops: args.stop.clone(), max_tokens, end })
    }

    /// The same sampler for a model's vocabulary: ids are checked, texts become ids, and the constraint is made.
    ///
    /// # Errors
    /// An id that is not in the vocabulary, or [`Error::Usage`] for a constraint that cannot be used.
    pub(crate) fn for_model(mut self, host: &HostModel) -> Result<Self> {
        self.sampling.check(host.model.config.n_vocab)?;
        set_breakers(&mut self.sampling, &self.breakers, &host.tokenizer)?;
        if let Some(source) = &self.constraint {
            let grammar = GrammarCompiler::new(&host.tokenizer).and_then(|compiler| compiler.compile(source));
            self.control = grammar.map_err(|error| Error::usage(error.to_string()))?.control();
        }
        Ok(self)
    }

    /// The seed.
    pub(crate) fn seed(&self) -> u64 {
        self.sampling.seed
    }

    /// Whether the seed matters.
    pub(crate) fn is_random(&self) -> bool {
        !self.sampling.is_greedy()
    }

    /// The same sampler for the next answer, which should not be drawn like this one.
    pub(crate) fn advance(&mut self) {
        self.sampling.seed = self.sampling.seed.wrapping_add(1);
    }

    /// The search for stop strings in an answer.
    pub(crate) fn stop_matcher(&self) -> StopMatcher {
        StopMatcher::new(&self.stops)
    }

    /// The request that continues `ids`.
    pub(crate) fn request(&self, host: &HostModel, ids: Vec<u32>, trace: Tracing) -> Request {
        let end_tokens = match self.end {
            End::Model => host.tokenizer.eog(),
            End::Never => &[],
        };
        let mut request = Request::new(ids, end_tokens);
        request.max_tokens = self.max_tokens;
        request.sampling = self.sampling.clone();
        request.control = self.control.clone();
        request.trace = trace;
        request
    }
}

/// Gives DRY, where it is on, the tokens of these texts.
///
/// # Errors
/// What the tokenizer says.
pub(crate) fn set_breakers<S: AsRef<str>>(sampling: &mut Sampling, texts: &[S], tokenizer: &Tokenizer) -> Result<()> {
    if let Some(dry) = &mut sampling.dry {
        let found = tokenizer.breakers(texts)?;
        dry.breakers = Some(Arc::new(SequenceBreakers { tokens: found.tokens, sequences: found.sequences }));
    }
    Ok(())
}

/// The stages of a sampler that do something, with their parameters by the names of their flags.
pub(crate) fn description(sampling: &Sampling) -> String {
    let Sampling { temperature, seed: _, top_k, top_p, min_p, typical_p, top_n_sigma, xtc, penalties, dry, logit_bias } =
        sampling.clone().normalized();
    let off = Sampling::GREEDY;
    let mut stages = Vec::new();
    let mut stage = |is_on: bool, text: String| stages.extend(is_on.then_some(text));
    let biases: Vec<String> = logit_bias.iter().map(|(id, bias)| format!("{id}{bias:+}")).collect();
    stage(!biases.is_empty(), format!("logit-bias {}", biases.join(",")));
    stage(
        penalties != off.penalties,
        format!(
            "repeat-penalty {}, presence-penalty {}, frequency-penalty {} over {}",
            penalties.repeat,
            penalties.presence,
            penalties.frequency,
            window(penalties.last_n)
        ),
    );
    if let Some(dry) = dry {
        let over = window(dry.last_n);
        stage(true, format!("dry {} * {}^(n - {}) over {over}", dry.multiplier, dry.base, dry.allowed_length));
    }
    stage(top_n_sigma != off.top_n_sigma, format!("top-n-sigma {top_n_sigma}"));
    stage(top_k != off.top_k, format!("top-k {top_k}"));
    stage(typical_p != off.typical_p, format!("typical {typical_p}"));
    stage(top_p != off.top_p, format!("top-p {top_p}"));
    stage(min_p != off.min_p, format!("min-p {min_p}"));
    stage(xtc != off.xtc, format!("xtc {} from {}", xtc.probability, xtc.threshold));
    stage(true, format!("temp {temperature}"));
    stages.join(", ")
}

fn window(last: LastTokens) -> String {
    match last {
        LastTokens::Count(count) => format!("{count} tokens"),
        LastTokens::All => "the context".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args;

    #[test]
    fn what_is_on_is_described() {
        assert_eq!(description(&Sampling::GREEDY), "temp 0");
        assert_eq!(description(&args::DEFAULTS), "top-k 40, top-p 0.95, min-p 0.05, temp 0.8");
        assert_eq!(
            description(&args::every_stage()),
            "logit-bias 0-1, repeat-penalty 1.1, presence-penalty 0.1, frequency-penalty 0.1 over 64 tokens, \
             dry 0.8 * 1.75^(n - 2) over the context, top-n-sigma 2, top-k 40, typical 0.95, top-p 0.95, min-p 0.05, \
             xtc 0.5 from 0.1, temp 0.8"
        );
    }
}
