//! Cancels at random moments on one engine, and what is left behind them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use zinc_model::device::DeviceModel;
use zinc_sched::adapter::{Drafts, VulkanModel, VulkanOptions};
use zinc_sched::{
    Constraint, Control, ControlError, Engine, EngineHandle, EngineOptions, Event, FinishReason, Guide, InflightDepth,
    Request, Sampling, Speculation, SystemClock, TokenSampler, Verdict,
};

/// What a trial's errors are.
pub(crate) type Failure = Box<dyn std::error::Error>;

/// Tokens of the request that shows whether anything is wrong.
const PROBE_TOKENS: u32 = 8;
/// Tokens of the request that is cancelled, at most.
const LONGEST: u32 = 48;
const PROMPT: [u32; 5] = [3, 1, 4, 1, 5];
/// Room for the longest sequence.
pub(crate) const CONTEXT: u32 = 64;
/// Drafts of a speculative step.
pub(crate) const DRAFTS: u32 = 4;

/// What a trial has shown.
pub(crate) struct Outcome {
    /// Requests that were cut short.
    pub(crate) cut: u32,
    /// Answers behind a cancel that were not what they should be.
    pub(crate) wrong: Vec<String>,
    /// From each cancel to rest, in growing order.
    pub(crate) rests: Vec<Duration>,
    /// How long a step takes, of the slowest kind.
    pub(crate) step: Duration,
    /// Bytes of the device's buffers before the first cancel and after the last.
    pub(crate) memory_bytes: (u64, u64),
}

/// Cancels as many requests, each at a random moment, and asks a short one behind it.
pub(crate) fn trial(loaded: &Arc<DeviceModel>, cancels: u32) -> Result<Outcome, Failure> {
    let depth = InflightDepth::DEFAULT;
    let drafts = Some(Drafts::Lookup { ngrams: 1..=3, drafts: DRAFTS });
    let driven = VulkanModel::new(loaded.clone(), VulkanOptions { drafts, ..VulkanOptions::new(depth) })?;
    let options = EngineOptions { depth, speculation: Speculation::Always, ..EngineOptions::default() };
    let handle = Engine::spawn(driven, SystemClock::new(), options)?;

    let kinds: [(&str, Request); 4] = [
        ("speculative", request(Sampling::GREEDY, Control::Device)),
        ("sampled", Request { logprobs: Some(3), ..request(chain(), Control::Device) }),
        ("masked", request(chain(), Control::masked(|| Ok(Even)))),
        ("host-fed", request(Sampling::GREEDY, Control::host_fed(|| Ok(Best)))),
    ];
    // What comes out undisturbed, and how long a step takes once everything is recorded.
    let mut expected = Vec::new();
    let mut step = Duration::ZERO;
    for (_, request) in &kinds {
        handle.generate(request.clone())?.complete()?;
        let started = Instant::now();
        let (tokens, completion) = handle.generate(request.clone())?.complete()?;
        let steps = completion.usage.completion_tokens + completion.usage.prompt_tokens;
        step = step.max(started.elapsed() / steps);
        expected.push(tokens.iter().map(|token| token.id).collect::<Vec<_>>());
    }
    let used = || loaded.device().memory_report().heaps.iter().map(|heap| heap.ours).sum::<u64>();
    let before = used();

    let mut random = 1u64;
    let mut below = |limit: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % limit
    };
    let (mut wrong, mut cut) = (Vec::new(), 0);
    let mut rests = Vec::new();
    for number in 0..cancels {
        let kind = below(kinds.len() as u64) as usize;
        let request = Request { max_tokens: Some(LONGEST), ..kinds[kind].1.clone() };
        let moment = step * below(u64::from(LONGEST) * 4) as u32 / 4;
        if let Some(rest) = cancel_after(&handle, request, moment)? {
            cut += 1;
            rests.push(rest);
        }
        // The next request shares the prompt, so it builds on what the cancelled one left in the cache.
        let probed = below(kinds.len() as u64) as usize;
        let probe = Request { max_tokens: Some(PROBE_TOKENS), ..kinds[probed].1.clone() };
        let (tokens, _) = handle.generate(probe)?.complete()?;
        let ids: Vec<u32> = tokens.iter().map(|token| token.id).collect();
        if ids[..] != expected[probed][..PROBE_TOKENS as usize] {
            wrong.push(format!(
                "cancel {number}, of a {} request: then {} gave {ids:?}",
                kinds[kind].0, kinds[probed].0
            ));
        }
    }
    rests.sort_unstable();
    Ok(Outcome { cut, wrong, rests, step, memory_bytes: (before, used()) })
}

/// Runs a request and cancels it after a while; gives the time from the cancel to the end, when nothing is in flight any more.
fn cancel_after(handle: &EngineHandle, request: Request, moment: Duration) -> Result<Option<Duration>, Failure> {
    let generation = handle.generate(request)?;
    let cancel = generation.cancel_handle();
    std::thread::sleep(moment);
    let cancelled = Instant::now();
    cancel.cancel();
    for event in generation {
        match event {
            Event::Token(_) => {}
            Event::Finished(completion) => {
                return Ok((completion.reason == FinishReason::Cancelled).then(|| cancelled.elapsed()));
            }
            Event::Failed(error) => return Err(error.into()),
        }
    }
    Ok(None)
}

fn request(sampling: Sampling, control: Control) -> Request {
    Request { max_tokens: Some(LONGEST), sampling, control, ..Request::new(PROMPT, []) }
}

fn chain() -> Sampling {
    Sampling { temperature: 0.8, seed: 7, top_k: 40, top_p: 0.95, min_p: 0.05, ..Sampling::GREEDY }
}

/// Allows even ids.
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

/// Takes the highest logit.
struct Best;

impl TokenSampler for Best {
    fn sample(&mut self, logits: &[f32], _tokens: &[u32]) -> Result<u32, ControlError> {
        let best = (0..logits.len()).max_by(|a, b| logits[*a].total_cmp(&logits[*b]));
        best.map(|id| id as u32).ok_or_else(|| "no logits".into())
    }
}
