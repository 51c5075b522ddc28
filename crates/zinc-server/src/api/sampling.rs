//! How an answer is chosen, what ends it and whether it is streamed, by llama.cpp's and OpenAI's names, which most APIs share.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;
use zinc_engine::{AnswerOptions, EndTokens, SamplerChain, random_seed};
use zinc_model::Special;
use zinc_sched::grammar::GrammarSource;
use zinc_sched::{Dry, LastTokens};

use super::openai::StopField;
use super::whole::Whole;
use crate::core::{Ask, Constraint, Prompt};
use crate::error::{ApiError, ApiResult};
use crate::options::ServerOptions;
use crate::state::Served;

/// Fields of a request that say how its answer is chosen, what ends it, and whether it is streamed. What is not given is as the server was started.
#[derive(Debug, Default, Deserialize, ToSchema)]
pub struct SamplingFields {
    temperature: Option<f32>,
    top_k: Option<Whole>,
    top_p: Option<f32>,
    min_p: Option<f32>,
    typical_p: Option<f32>,
    top_n_sigma: Option<f32>,
    top_nsigma: Option<f32>,
    xtc_probability: Option<f32>,
    xtc_threshold: Option<f32>,
    repeat_last_n: Option<Whole>,
    repeat_penalty: Option<f32>,
    repetition_penalty: Option<f32>,
    presence_penalty: Option<f32>,
    frequency_penalty: Option<f32>,
    dry_multiplier: Option<f32>,
    dry_base: Option<f32>,
    dry_allowed_length: Option<Whole>,
    dry_penalty_last_n: Option<Whole>,
    dry_sequence_breakers: Option<Vec<String>>,
    samplers: Option<SamplersField>,
    seed: Option<Whole>,
    logit_bias: Option<BiasField>,
    ignore_eos: Option<bool>,
    max_completion_tokens: Option<Whole>,
    max_tokens: Option<Whole>,
    n_predict: Option<Whole>,
    stop: Option<StopField>,
    grammar: Option<String>,
    json_schema: Option<Value>,
    t_max_predict_ms: Option<Whole>,
    stream: Option<bool>,
    sse_ping: Option<bool>,
}

/// Samplers by names in a list, or by letters in a text.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(untagged, expecting = "a list of names or a text of letters is expected")]
enum SamplersField {
    Names(Vec<String>),
    Letters(String),
}

/// Biases: by id as OpenAI has them, or in llama.cpp's lists, where `false` forbids a token and a text stands for all its tokens.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(untagged, expecting = "an object of token ids and biases or a list of pairs is expected")]
enum BiasField {
    ById(BTreeMap<String, f32>),
    List(Vec<(BiasedTokens, Bias)>),
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(untagged, expecting = "a token id or a text is expected")]
enum BiasedTokens {
    Id(u32),
    Text(String),
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(untagged, expecting = "a number or false is expected")]
enum Bias {
    Number(f32),
    Allowed(bool),
}

/// The limits of requests that the fields are compared with.
pub type Limits = ServerOptions;

impl SamplingFields {
    /// Fields that are known and change nothing here: the cache is always used, and no request chooses its lane.
    pub const ACCEPTED: [&str; 3] = ["cache_prompt", "id_slot", "n_keep"];

    /// Whether the answer is to come as it is made.
    pub fn is_streamed(&self) -> bool {
        self.stream == Some(true)
    }

    /// The silence in a stream that is broken, unless the request does not want that.
    pub fn ping(&self, limits: &Limits) -> Option<Duration> {
        limits.ping.filter(|_| self.sse_ping != Some(false))
    }

    /// What these fields ask of the core, for a prompt.
    ///
    /// # Errors
    /// A field with a value that it cannot have.
    pub fn ask(self, limits: &Limits, served: &Served, prompt: Prompt) -> ApiResult<Ask> {
        let constraint = self.constraint(limits)?;
        let options = self.options(limits, served)?;
        let stops = self.stop.map_or(Vec::new(), StopField::texts);
        if stops.len() > limits.most_stops {
            let message = format!("{} stop strings; at most {} are taken", stops.len(), limits.most_stops);
            return Err(ApiError::invalid("stop", message));
        }
        let most_time = self.t_max_predict_ms.and_then(Whole::count).filter(|ms| *ms > 0);
        let most_time = most_time.map(|ms| Duration::from_millis(u64::from(ms)));
        Ok(Ask { constraint, stops, most_time, ..Ask::new(prompt, options) })
    }

    /// The constraint of the answer.
    fn constraint(&self, limits: &Limits) -> ApiResult<Option<Constraint>> {
        let grammar = self.grammar.as_ref().filter(|text| !text.trim().is_empty());
        let source = match (grammar, &self.json_schema) {
            (Some(_), Some(_)) => {
                return Err(ApiError::invalid(
                    "grammar",
                    "a grammar and a JSON schema do not go together; leave one out",
                ));
            }
            (Some(text), None) => ("grammar", text.len(), GrammarSource::grammar(text.clone())),
            (None, Some(schema)) => {
                let text = schema.to_string();
                ("json_schema", text.len(), GrammarSource::JsonSchema(text))
            }
            (None, None) => return Ok(None),
        };
        let (field, bytes, source) = source;
        check_constraint(limits, field, bytes)?;
        Ok(Some(Constraint { field, source }))
    }

    /// The options of zinc-engine.
    fn options(&self, limits: &Limits, served: &Served) -> ApiResult<AnswerOptions> {
        let mut options: AnswerOptions = limits.defaults.clone();
        let sampling = &mut options.sampling;
        set(&mut sampling.temperature, self.temperature);
        if let Some(Whole(count)) = self.top_k {
            sampling.top_k = u32::try_from(count.max(0)).unwrap_or(u32::MAX);
        }
        set(&mut sampling.top_p, self.top_p);
        set(&mut sampling.min_p, self.min_p);
        set(&mut sampling.typical_p, self.typical_p);
        set(&mut sampling.top_n_sigma, self.top_n_sigma.or(self.top_nsigma));
        set(&mut sampling.xtc.probability, self.xtc_probability);
        set(&mut sampling.xtc.threshold, self.xtc_threshold);
        set(&mut sampling.penalties.last_n, last_tokens("repeat_last_n", self.repeat_last_n)?);
        set(&mut sampling.penalties.repeat, self.repeat_penalty.or(self.repetition_penalty));
        set(&mut sampling.penalties.presence, self.presence_penalty);
        set(&mut sampling.penalties.frequency, self.frequency_penalty);
        self.set_dry(sampling.dry.get_or_insert(DRY_OFF))?;
        sampling.seed = match self.seed {
            None if limits.fixed_seed => sampling.seed,
            None | Some(Whole(-1)) => random_seed(),
            // Negative seeds of other clients are as good as any.
            Some(Whole(seed)) => seed.cast_unsigned(),
        };
        set(&mut options.breakers, self.dry_sequence_breakers.clone());
        if let Some(biases) = &self.logit_bias {
            options.sampling.logit_bias = biases.by_id(served)?;
        }
        if let Some(samplers) = &self.samplers {
            options.sampling = samplers.chain()?.applied(options.sampling);
        }
        if let Some(ignored) = self.ignore_eos {
            options.end_tokens = if ignored { EndTokens::GoOn } else { EndTokens::End };
        }
        match self.max_completion_tokens.or(self.max_tokens).or(self.n_predict) {
            None => {}
            Some(Whole(-1 | -2)) => options.max_tokens = None,
            Some(most) => {
                let refuse = || ApiError::invalid("max_tokens", format!("max_tokens {} is not -1, 0 or more", most.0));
                options.max_tokens = Some(most.count().ok_or_else(refuse)?);
            }
        }
        options.check()?;
        Ok(options)
    }

    fn set_dry(&self, dry: &mut Dry) -> ApiResult<()> {
        set(&mut dry.multiplier, self.dry_multiplier);
        set(&mut dry.base, self.dry_base);
        if let Some(length) = self.dry_allowed_length {
            let refuse = || ApiError::invalid("dry_allowed_length", format!("{} is not 0 or more", length.0));
            dry.allowed_length = length.count().ok_or_else(refuse)?;
        }
        set(&mut dry.last_n, last_tokens("dry_penalty_last_n", self.dry_penalty_last_n)?);
        Ok(())
    }
}

/// DRY as llama.cpp has it where nothing is said of it.
const DRY_OFF: Dry = Dry { multiplier: 0.0, base: 1.75, allowed_length: 2, last_n: LastTokens::All, breakers: None };

/// Sets a parameter that was given.
fn set<T>(parameter: &mut T, given: Option<T>) {
    if let Some(given) = given {
        *parameter = given;
    }
}

fn last_tokens(param: &'static str, given: Option<Whole>) -> ApiResult<Option<LastTokens>> {
    match given {
        None => Ok(None),
        Some(Whole(-1)) => Ok(Some(LastTokens::All)),
        Some(count) => match count.count() {
            Some(count) => Ok(Some(LastTokens::Count(count))),
            None => Err(ApiError::invalid(param, format!("{param} {} is not -1, 0 or more", count.0))),
        },
    }
}

/// Checks the size of the text of a constraint.
///
/// # Errors
/// That it is too large.
pub(crate) fn check_constraint(limits: &Limits, param: &str, bytes: usize) -> ApiResult<()> {
    let most = limits.most_constraint_bytes;
    if bytes <= most {
        return Ok(());
    }
    Err(ApiError::invalid(param, format!("{param} has {bytes} bytes; at most {most} are taken")))
}

impl SamplersField {
    fn chain(&self) -> ApiResult<SamplerChain> {
        let chain = match self {
            Self::Names(names) => SamplerChain::from_list(names.iter().map(String::as_str)),
            Self::Letters(letters) => SamplerChain::from_letters(letters),
        };
        chain.map_err(|reason| ApiError::invalid("samplers", reason))
    }
}

impl BiasField {
    fn by_id(&self, served: &Served) -> ApiResult<Vec<(u32, f32)>> {
        let mut biases = Vec::new();
        match self {
            Self::ById(map) => {
                for (id, bias) in map {
                    let refuse = |_| ApiError::invalid("logit_bias", format!("{id:?} is not the id of a token"));
                    biases.push((id.parse().map_err(refuse)?, *bias));
                }
            }
            Self::List(list) => {
                for (tokens, bias) in list {
                    let bias = match bias {
                        Bias::Number(bias) => *bias,
                        Bias::Allowed(false) => f32::NEG_INFINITY,
                        Bias::Allowed(true) => continue,
                    };
                    match tokens {
                        BiasedTokens::Id(id) => biases.push((*id, bias)),
                        BiasedTokens::Text(text) => {
                            let ids = served.backend.encode(text, Special::Plain)?;
                            biases.extend(ids.into_iter().map(|id| (id, bias)));
                        }
                    }
                }
            }
        }
        Ok(biases)
    }
}

/// Whether requests may have so many answers.
///
/// # Errors
/// That they may not.
pub(crate) fn choices(limits: &Limits, asked: Option<Whole>) -> ApiResult<u32> {
    let asked = asked.unwrap_or(Whole(1));
    let most = limits.most_choices;
    match asked.count() {
        Some(choices) if (1..=most).contains(&choices) => Ok(choices),
        _ => Err(ApiError::invalid("n", format!("n {} is not 1 to {most}", asked.0))),
    }
}
