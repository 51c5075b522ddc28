//! How tokens are chosen: flags with llama.cpp's names and defaults.

use zinc_engine::SamplerChain;
use zinc_sched::{Dry, LastTokens, Penalties, Sampling, Xtc};

/// The values of the sampling flags that are not given on the command line.
pub(crate) const DEFAULTS: Sampling = Sampling {
    temperature: 0.8,
    seed: 0,
    top_k: 40,
    top_p: 0.95,
    min_p: 0.05,
    typical_p: 1.0,
    top_n_sigma: -1.0,
    xtc: Xtc { probability: 0.0, threshold: 0.1 },
    penalties: Penalties { last_n: LastTokens::Count(64), repeat: 1.0, frequency: 0.0, presence: 0.0 },
    dry: Some(DRY),
    logit_bias: Vec::new(),
};

/// The values of DRY's flags that are not given on the command line. The multiplier of 0 switches DRY off.
const DRY: Dry = Dry { multiplier: 0.0, base: 1.75, allowed_length: 2, last_n: LastTokens::All, breakers: None };

/// DRY's sequence breakers if none are given: texts that end a repetition, so that what stands before one and what
/// stands behind it are never counted as one repetition.
pub(crate) const DEFAULT_BREAKERS: [&str; 4] = ["\n", ":", "\"", "*"];

/// The value of `--dry-sequence-breaker` that removes all breakers given before it, the default ones included.
const NO_BREAKER: &str = "none";

/// Every stage switched on, each with a value in common use.
pub(crate) fn every_stage() -> Sampling {
    Sampling {
        typical_p: 0.95,
        top_n_sigma: 2.0,
        xtc: Xtc { probability: 0.5, threshold: 0.1 },
        penalties: Penalties { last_n: LastTokens::Count(64), repeat: 1.1, frequency: 0.1, presence: 0.1 },
        dry: Some(Dry { multiplier: 0.8, ..DRY }),
        logit_bias: vec![(0, -1.0)],
        ..DEFAULTS
    }
}

/// How tokens are chosen.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Sampling, in the order of the stages")]
pub(crate) struct SamplingArgs {
    /// Seed of the sampler, which gives the same tokens however the model is driven; -1 is a new one each time
    #[arg(short, long, value_name = "SEED", default_value = "-1", allow_negative_numbers = true, value_parser = seed)]
    pub(crate) seed: Seed,
    /// Add to the logits of tokens, as in 15043+1 or 15043-inf; may be given several times
    #[arg(short, long, value_name = "TOKEN_ID(+/-)BIAS,...", value_delimiter = ',', value_parser = logit_bias)]
    logit_bias: Vec<(u32, f32)>,
    /// Samplers that are on, of the stages below, with llama.cpp's names in llama.cpp's order and semicolons between them [default: all]
    #[arg(long, value_name = "NAME;NAME;...", value_parser = SamplerChain::from_names, overrides_with = "sampler_seq")]
    samplers: Option<SamplerChain>,
    /// Samplers that are on, by llama.cpp's letters [default: edskypmxt]
    #[arg(long, value_name = "LETTERS", value_parser = SamplerChain::from_letters, overrides_with = "samplers")]
    sampler_seq: Option<SamplerChain>,
    /// Last tokens whose repetition is penalised; 0 is none, -1 all of the context
    #[arg(long, value_name = "N", default_value = "64", allow_negative_numbers = true, value_parser = last_tokens)]
    repeat_last_n: LastTokens,
    /// Divide positive logits of repeated tokens by this and multiply others with it; 1 is off
    #[arg(long, value_name = "X", default_value_t = DEFAULTS.penalties.repeat, allow_negative_numbers = true)]
    repeat_penalty: f32,
    /// Subtract this from the logits of repeated tokens; 0 is off
    #[arg(long, value_name = "X", default_value_t = DEFAULTS.penalties.presence, allow_negative_numbers = true)]
    presence_penalty: f32,
    /// Subtract this from the logits of repeated tokens once for each time; 0 is off
    #[arg(long, value_name = "X", default_value_t = DEFAULTS.penalties.frequency, allow_negative_numbers = true)]
    frequency_penalty: f32,
    /// DRY: scale of the penalty of tokens that continue a repetition; 0 is off
    #[arg(long, value_name = "X", default_value_t = DRY.multiplier, allow_negative_numbers = true)]
    dry_multiplier: f32,
    /// DRY: what each further token of the repetition multiplies the penalty with; less than 1 is off
    #[arg(long, value_name = "X", default_value_t = DRY.base, allow_negative_numbers = true)]
    dry_base: f32,
    /// DRY: length from which a repetition is penalised
    #[arg(long, value_name = "N", default_value_t = DRY.allowed_length)]
    dry_allowed_length: u32,
    /// DRY: last tokens in which repetitions are looked for; 0 is none, -1 all of the context
    #[arg(long, value_name = "N", default_value = "-1", allow_negative_numbers = true, value_parser = last_tokens)]
    dry_penalty_last_n: LastTokens,
    /// DRY: text that repetitions do not reach across, instead of \n, :, " and *; may be given several times; none is none
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true, value_parser = text)]
    dry_sequence_breaker: Vec<String>,
    /// Keep tokens within so many standard deviations of the highest logit; 0 and less are off
    #[arg(long, alias = "top-nsigma", value_name = "X", default_value_t = DEFAULTS.top_n_sigma)]
    #[arg(allow_negative_numbers = true)]
    top_n_sigma: f32,
    /// Keep so many of the most likely tokens; 0 is off
    #[arg(long, value_name = "N", default_value_t = DEFAULTS.top_k, allow_negative_numbers = true, value_parser = top_k)]
    top_k: u32,
    /// Keep the tokens closest to the expected surprise, up to this share of the probability; 1 is off
    #[arg(long = "typical", alias = "typical-p", value_name = "P", default_value_t = DEFAULTS.typical_p)]
    #[arg(allow_negative_numbers = true)]
    typical_p: f32,
    /// Keep the most likely tokens, up to this share of the probability; 1 is off
    #[arg(long, value_name = "P", default_value_t = DEFAULTS.top_p, allow_negative_numbers = true)]
    top_p: f32,
    /// Keep tokens at least this share as likely as the likeliest; 0 is off
    #[arg(long, value_name = "P", default_value_t = DEFAULTS.min_p, allow_negative_numbers = true)]
    min_p: f32,
    /// XTC: probability with which all top choices but the least likely one are removed; 0 is off
    #[arg(long, value_name = "P", default_value_t = DEFAULTS.xtc.probability, allow_negative_numbers = true)]
    xtc_probability: f32,
    /// XTC: least probability of a token that counts as a top choice; more than 0.5 is off
    #[arg(long, value_name = "P", default_value_t = DEFAULTS.xtc.threshold, allow_negative_numbers = true)]
    xtc_threshold: f32,
    /// Temperature; 0 always takes the most likely token
    #[arg(long, alias = "temperature", value_name = "T", default_value_t = DEFAULTS.temperature)]
    #[arg(allow_negative_numbers = true)]
    temp: f32,
}

impl SamplingArgs {
    /// The sampling parameters that were given, with this seed. They lack the sequence breakers, which
    /// [`Self::breakers`] returns as texts, since only a tokenizer can turn them into tokens.
    pub(crate) fn sampling(&self, seed: u64) -> Sampling {
        let sampling = Sampling {
            temperature: self.temp,
            seed,
            top_k: self.top_k,
            top_p: self.top_p,
            min_p: self.min_p,
            typical_p: self.typical_p,
            top_n_sigma: self.top_n_sigma,
            xtc: Xtc { probability: self.xtc_probability, threshold: self.xtc_threshold },
            penalties: Penalties {
                last_n: self.repeat_last_n,
                repeat: self.repeat_penalty,
                frequency: self.frequency_penalty,
                presence: self.presence_penalty,
            },
            dry: Some(Dry {
                multiplier: self.dry_multiplier,
                base: self.dry_base,
                allowed_length: self.dry_allowed_length,
                last_n: self.dry_penalty_last_n,
                breakers: None,
            }),
            logit_bias: self.logit_bias.clone(),
        };
        match self.samplers.as_ref().or(self.sampler_seq.as_ref()) {
            Some(chain) => chain.applied(sampling),
            None => sampling,
        }
    }

    /// DRY's sequence breakers: the texts that end a repetition.
    pub(crate) fn breakers(&self) -> Vec<String> {
        if self.dry_sequence_breaker.is_empty() {
            return DEFAULT_BREAKERS.map(str::to_owned).to_vec();
        }
        // Breakers before the last "none" do not count.
        let given = &self.dry_sequence_breaker;
        let first = given.iter().rposition(|text| text == NO_BREAKER).map_or(0, |none| none + 1);
        given[first..].to_vec()
    }
}

/// Where the sampler's seed comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seed {
    /// A new random seed each time.
    Random,
    /// A seed that the user gave.
    Fixed(u64),
}

fn seed(text: &str) -> Result<Seed, String> {
    match text {
        "-1" => Ok(Seed::Random),
        _ => text.parse::<u64>().map(Seed::Fixed).map_err(|error| error.to_string()),
    }
}

fn last_tokens(text: &str) -> Result<LastTokens, String> {
    match text {
        "-1" => Ok(LastTokens::All),
        _ => text.parse::<u32>().map(LastTokens::Count).map_err(|_| "must be -1 or 0 to 4294967295".to_owned()),
    }
}

/// Parses `--top-k`. Numbers below 1 become 0, which keeps all tokens.
fn top_k(text: &str) -> Result<u32, String> {
    let count = text.parse::<i64>().map_err(|error| error.to_string())?;
    u32::try_from(count.max(0)).map_err(|_| "must be at most 4294967295".to_owned())
}

fn logit_bias(text: &str) -> Result<(u32, f32), String> {
    let expected = || "must be a token id, + or -, and a number, as in 15043+1 or 15043-inf".to_owned();
    let sign = text.find(['+', '-']).ok_or_else(expected)?;
    let id = text[..sign].trim().parse().map_err(|_| expected())?;
    let bias: f32 = text[sign + 1..].trim().parse().map_err(|_| expected())?;
    Ok((id, if text[sign..].starts_with('-') { -bias } else { bias }))
}

/// A text in which `\n`, `\r`, `\t`, `\"`, `\'` and `\\` stand for characters that are hard to write in a shell, as in llama.cpp.
///
/// # Errors
/// An empty text.
pub(super) fn text(written: &str) -> Result<String, String> {
    if written.is_empty() {
        return Err("must not be empty".to_owned());
    }
    let mut text = String::new();
    let mut rest = written.chars();
    while let Some(c) = rest.next() {
        let escaped = match (c, rest.as_str().chars().next()) {
            ('\\', Some('n')) => '\n',
            ('\\', Some('r')) => '\r',
            ('\\', Some('t')) => '\t',
            ('\\', Some(itself @ ('\\' | '"' | '\''))) => itself,
            _ => {
                text.push(c);
                continue;
            }
        };
        text.push(escaped);
        rest.next();
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: SamplingArgs,
    }

    fn parsed(line: &[&str]) -> Result<SamplingArgs, clap::Error> {
        Line::try_parse_from([&["zinc"], line].concat()).map(|line| line.args)
    }

    fn sampling(line: &[&str]) -> Sampling {
        parsed(line).unwrap().sampling(7)
    }

    fn breakers(line: &[&str]) -> Vec<String> {
        parsed(line).unwrap().breakers()
    }

    #[test]
    fn defaults_are_those_of_llama_cpp() {
        assert_eq!(sampling(&[]), Sampling { seed: 7, ..DEFAULTS });
        assert_eq!(breakers(&[]), DEFAULT_BREAKERS);
        let at_work = DEFAULTS.normalized();
        let expected = Sampling { temperature: 0.8, top_k: 40, top_p: 0.95, min_p: 0.05, ..Sampling::GREEDY };
        assert_eq!(at_work, expected);
    }

    #[test]
    fn each_flag_sets_its_parameter() {
        let line = "--temp 0.5 --top-k 3 --top-p 0.9 --min-p 0.2 --typical 0.8 --top-n-sigma 1.5 --xtc-probability 0.25 \
                    --xtc-threshold 0.3 --repeat-last-n -1 --repeat-penalty 1.25 --frequency-penalty -0.5 --presence-penalty 0.75 \
                    --dry-multiplier 0.8 --dry-base 2 --dry-allowed-length 4 --dry-penalty-last-n 100 --logit-bias 9-0.5";
        let expected = Sampling {
            temperature: 0.5,
            seed: 7,
            top_k: 3,
            top_p: 0.9,
            min_p: 0.2,
            typical_p: 0.8,
            top_n_sigma: 1.5,
            xtc: Xtc { probability: 0.25, threshold: 0.3 },
            penalties: Penalties { last_n: LastTokens::All, repeat: 1.25, frequency: -0.5, presence: 0.75 },
            dry: Some(Dry {
                multiplier: 0.8,
                base: 2.0,
                allowed_length: 4,
                last_n: LastTokens::Count(100),
                breakers: None,
            }),
            logit_bias: vec![(9, -0.5)],
        };
        assert_eq!(sampling(&line.split_whitespace().collect::<Vec<_>>()), expected);
        let aliases = sampling(&["--temperature", "0.5", "--typical-p", "0.8", "--top-nsigma", "1.5"]);
        assert_eq!((aliases.temperature, aliases.typical_p, aliases.top_n_sigma), (0.5, 0.8, 1.5));
        assert_eq!(sampling(&["--top-k", "-1"]).top_k, 0);
    }

    #[test]
    fn the_last_list_of_samplers_counts() {
        let of = |line: &[&str]| {
            let sampling = sampling(line);
            (sampling.top_k, sampling.top_p, sampling.temperature)
        };
        assert_eq!(of(&["--top-k", "7", "--samplers", "top_k"]), (7, 1.0, 1.0));
        assert_eq!(of(&["--samplers", "top_k", "--sampler-seq", "pt"]), (0, 0.95, 0.8));
        assert_eq!(of(&["--sampler-seq", "pt", "--samplers", "top_k", "--temp", "0"]), (40, 1.0, 1.0));
        assert!(parsed(&["--samplers", "top_p;top_k"]).is_err() && parsed(&["--sampler-seq", "q"]).is_err());
    }

    #[test]
    fn every_stage_is_one_that_does_something() {
        let every = every_stage();
        every.check(1).unwrap();
        assert_eq!(every.clone().normalized(), every);
        let off = Sampling::GREEDY;
        assert!(every.temperature != off.temperature && every.top_k != off.top_k && every.top_p != off.top_p);
        assert!(every.min_p != off.min_p && every.typical_p != off.typical_p && every.top_n_sigma != off.top_n_sigma);
        assert!(every.xtc != off.xtc && every.dry.is_some() && !every.logit_bias.is_empty());
        let Penalties { repeat, frequency, presence, .. } = every.penalties;
        assert!(repeat != 1.0 && frequency != 0.0 && presence != 0.0);
    }

    #[test]
    fn breakers_replace_the_defaults_and_none_forgets_them() {
        assert_eq!(breakers(&["--dry-sequence-breaker", "a", "--dry-sequence-breaker", r"\n"]), ["a", "\n"]);
        assert_eq!(breakers(&["--dry-sequence-breaker", "none"]), [""; 0]);
        assert_eq!(
            breakers(&[
                "--dry-sequence-breaker",
                "a",
                "--dry-sequence-breaker",
                "none",
                "--dry-sequence-breaker",
                "-b"
            ]),
            ["-b"]
        );
    }

    #[test]
    fn biases_are_lists_and_may_be_repeated() {
        let biases = sampling(&["-l", "15043+1,15043-1.5", "--logit-bias", "3-inf", "-l", "4+-2"]).logit_bias;
        assert_eq!(biases, [(15043, 1.0), (15043, -1.5), (3, f32::NEG_INFINITY), (4, -2.0)]);
        for bad in ["", "1", "+1", "1+", "-1+1", "a+1", "1*2", "1+1,"] {
            assert!(parsed(&["-l", bad]).is_err(), "{bad}");
        }
    }

    #[test]
    fn numbers_that_make_no_sense_are_refused() {
        for bad in [
            ["--repeat-last-n", "-2"],
            ["--dry-penalty-last-n", "-2"],
            ["--dry-allowed-length", "-1"],
            ["--dry-sequence-breaker", ""],
            ["--top-k", "x"],
            ["--top-k", "4294967296"],
            ["--seed", "-2"],
            ["--temp", "warm"],
        ] {
            assert!(parsed(&bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn escapes_stand_for_what_is_hard_to_write() {
        for (written, meant) in [
            (r"\n\r\t", "\n\r\t"),
            (r#"\"\'\\n"#, "\"'\\n"),
            (r"\x41 \", r"\x41 \"),
            ("é\\né", "é\né"),
            (r"\\\n", "\\\n"),
        ] {
            assert_eq!(text(written).as_deref(), Ok(meant), "{written}");
        }
        assert!(text("").is_err());
    }
}
