//! Cancels requests at random moments on one engine, and checks the requests that follow.

use std::sync::Arc;
use std::time::{Duration, Instant};

use zinc_kernels::step::StepShape;
use zinc_model::device::DeviceModel;
use zinc_model::memory::LoadOptions;
use zinc_model::plan::{CacheOptions, RowCounts};
use zinc_sched::adapter::{DraftSource, VulkanModel, VulkanOptions};
use zinc_sched::{
    Constraint, Control, ControlError, Engine, EngineHandle, EngineOptions, Event, FinishReason, Guide, InflightDepth,
    Request, Sampling, SpeculationMode, SystemClock, Token, TokenSampler, Verdict,
};

/// The errors of a trial.
pub(crate) type Failure = Box<dyn std::error::Error>;

/// How many tokens the request has that follows each cancel, to show whether anything is wrong.
const PROBE_TOKENS: u32 = 8;
/// The most tokens of a request that is cancelled.
const LONGEST: u32 = 48;
const PROMPT: [u32; 5] = [3, 1, 4, 1, 5];
/// Positions of the context, enough for the longest sequence.
pub(crate) const CONTEXT: u32 = 64;
/// The most drafts of a speculative step.
pub(crate) const DRAFTS: u32 = 4;
/// Rows of the steps that feed the prompt.
const FEED_SHAPE: StepShape = StepShape::of(2);

/// How the model of [`trial`] is loaded.
pub(crate) fn load_options(cache: CacheOptions) -> LoadOptions {
    LoadOptions::new(cache).with_counts(RowCounts::new(FEED_SHAPE.rows(), StepShape::of(DRAFTS + 1).rows()))
}

/// The results of a trial.
pub(crate) struct Outcome {
    /// How many requests were cut short.
    pub(crate) cut: u32,
    /// How many answers after a cancel were wrong.
    pub(crate) wrong: Vec<String>,
    /// The kinds of requests, with the times that were measured for each.
    pub(crate) kinds: Vec<Kind>,
    /// Bytes of the device's buffers before the first cancel and after the last.
    pub(crate) memory_bytes: (u64, u64),
}

/// A kind of request, and what was measured of it.
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    request: Request,
    /// The tokens of the request if it is not cancelled.
    expected: Vec<u32>,
    /// The time of one of its steps.
    pub(crate) step: Duration,
    /// The time from each cancel until nothing is in flight, in rising order.
    pub(crate) rests: Vec<Duration>,
}

/// Cancels `cancels` requests, each at a random moment, and runs a short request after each. `progress` is called with the number of cancels
/// that are done.
pub(crate) fn trial(
    loaded: &Arc<DeviceModel>,
    cancels: u32,
    progress: &mut dyn FnMut(u32),
) -> Result<Outcome, Failure> {
    let depth = InflightDepth::DEFAULT;
    let draft_source = Some(DraftSource::Lookup { ngrams: 1..=3, max_drafts: DRAFTS });
    let driven = VulkanModel::new(
        loaded.clone(),
        VulkanOptions::new(depth).with_feed_shape(FEED_SHAPE).with_draft_source(draft_source),
    )?;
    let options = EngineOptions::default().with_depth(depth).with_speculation(SpeculationMode::Always);
    let handle = Engine::spawn(driven, SystemClock::new(), options)?;

    let sampled = request(chain(), Control::Device).with_logprobs(3);
    let mut kinds = vec![
        // Requests with log-probabilities do not speculate.
        Kind::new(&handle, "plain", request(Sampling::GREEDY, Control::Device).with_logprobs(0))?,
        Kind::new(&handle, "speculative", request(Sampling::GREEDY, Control::Device))?,
        Kind::new(&handle, "sampled", sampled)?,
        Kind::new(&handle, "masked", request(chain(), Control::masked(|| Ok(Even))))?,
        Kind::new(&handle, "host-fed", request(Sampling::GREEDY, Control::host_fed(|| Ok(Best))))?,
    ];
    let used = || loaded.device().memory_report().heaps.iter().map(|heap| heap.ours).sum::<u64>();
    let before = used();

    let mut random = 1u64;
    let mut below = |limit: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % limit
    };
    let (mut wrong, mut cut) = (Vec::new(), 0);
    for number in 0..cancels {
        let [cancelled, probed] = [(); 2].map(|()| below(kinds.len() as u64) as usize);
        let cancelled = &mut kinds[cancelled];
        let moment = cancelled.step * below(u64::from(LONGEST) * 4) as u32 / 4;
        let failed = |name: &str, error: Failure| format!("cancel {number}, {moment:?} into a {name} request: {error}");
        let rest = cancel_after(&handle, cancelled.request.clone(), moment);
        if let Some(rest) = rest.map_err(|error| failed(cancelled.name, error))? {
            cut += 1;
            cancelled.rests.push(rest);
        }
        let cancelled = cancelled.name;
        // The next request shares the prompt, so it uses the keys and values that the cancelled one left in the cache.
        let probed = &kinds[probed];
        let probe = probed.request.clone().with_max_tokens(PROBE_TOKENS);
        let answer = handle.generate(probe)?.complete();
        let after = format!("{} request, then {}", cancelled, probed.name);
        let ids = ids_of(&answer.map_err(|error| failed(&after, error.into()))?.0);
        if ids[..] != probed.expected[..PROBE_TOKENS as usize] {
            wrong.push(format!("cancel {number}, of a {cancelled} request: then {} gave {ids:?}", probed.name));
        }
        progress(number + 1);
    }
    for kind in &mut kinds {
        kind.rests.sort_unstable();
    }
    Ok(Outcome { cut, wrong, kinds, memory_bytes: (before, used()) })
}

impl Kind {
    /// Runs a request twice without a cancel. The first run also records its steps, so only the second is timed.
    fn new(handle: &EngineHandle, name: &'static str, request: Request) -> Result<Self, Failure> {
        handle.generate(request.clone())?.complete()?;
        let started = Instant::now();
        let (tokens, completion) = handle.generate(request.clone())?.complete()?;
        let speculation_stats = completion.speculation_stats;
        let undrafted = u64::from(completion.usage.completion_tokens) - speculation_stats.tokens;
        let steps = undrafted + speculation_stats.steps;
        let step = started.elapsed() / u32::try_from(steps)?;
        Ok(Self { name, request, expected: ids_of(&tokens), step, rests: Vec::new() })
    }
}

fn ids_of(tokens: &[Token]) -> Vec<u32> {
    tokens.iter().map(|token| token.id).collect()
}

/// Runs a request and cancels it after a while. Returns the time from the cancel to the end, when nothing is in flight any more.
fn cancel_after(handle: &EngineHandle, request: Request, moment: Duration) -> Result<Option<Duration>, Failure> {
    let generation = handle.generate(request)?;
    let cancel = generation.cancel_handle();
    std::thread::sleep(moment);
    let cancelled = Instant::now();
    cancel.cancel();
    for event in generation {
        match event {
            Event::Prompt(_) | Event::Token(_) => {}
            Event::Finished(completion) => {
                return Ok((completion.reason == FinishReason::Cancelled).then(|| cancelled.elapsed()));
            }
            Event::Failed(error) => return Err(error.into()),
        }
    }
    Ok(None)
}

fn request(sampling: Sampling, control: Control) -> Request {
    Request::new(PROMPT, []).with_max_tokens(LONGEST).with_sampling(sampling).with_control(control)
}

fn chain() -> Sampling {
    Sampling { temperature: 0.8, seed: 7, top_k: 40, top_p: 0.95, min_p: 0.05, ..Sampling::GREEDY }
}

/// A constraint that allows even ids.
struct Even;

impl Constraint for Even {
    fn guide(&mut self, guide: &mut Guide) -> Result<Verdict, ControlError> {
        guide.set_mask(&vec![0x5555_5555; guide.mask().len()]);
        Ok(Verdict::Choose)
    }

    fn accept(&mut self, token: u32) -> Result<(), ControlError> {
        if token.is_multiple_of(2) { Ok(()) } else { Err(format!("token {token} was not allowed").into()) }
    }
}

/// A sampler on the host that takes the token with the highest logit.
struct Best;

impl TokenSampler for Best {
    fn sample(&mut self, logits: &[f32], _tokens: &[u32]) -> Result<u32, ControlError> {
        let best = (0..logits.len()).max_by(|a, b| logits[*a].total_cmp(&logits[*b]));
        best.map(|id| id as u32).ok_or_else(|| "no logits".into())
    }
}
