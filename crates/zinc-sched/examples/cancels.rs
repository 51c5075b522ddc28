//! Cancels generations at random moments, and looks at what is left: the device's memory, and the tokens of the request that follows.
//!
//! `cargo run --release --example cancels -- MODEL.gguf [cancels] [validate]`
//!
//! Every kind of step takes part: plain, through the chain of samplers, masked, host-fed, speculative. How long the device takes from a cancel
//! to rest is printed in step times.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use zinc_kernels::Pipelines;
use zinc_kernels::ops::CacheFormat;
use zinc_model::Model;
use zinc_model::device::DeviceModel;
use zinc_model::memory::LoadOptions;
use zinc_model::plan::CacheOptions;
use zinc_sched::adapter::{Drafts, VulkanModel, VulkanOptions};
use zinc_sched::{
    Constraint, Control, ControlError, Engine, EngineHandle, EngineOptions, Event, FinishReason, Guide, InflightDepth,
    Request, Sampling, Speculation, SystemClock, TokenSampler, Verdict,
};
use zinc_vk::{Device, DevicePlan, Instance, InstanceOptions, Validation, Wants};

/// Tokens of the request that shows whether anything is wrong.
const PROBE_TOKENS: u32 = 8;
/// Tokens of the request that is cancelled, at most.
const LONGEST: u32 = 48;
const PROMPT: [u32; 5] = [3, 1, 4, 1, 5];
const CONTEXT: u32 = 64;

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<bool, Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: cancels MODEL.gguf [cancels]")?;
    let cancels: u32 = arguments.next().map_or(Ok(100), |text| text.parse())?;

    let validation = if arguments.next().is_some() { Validation::On } else { Validation::Off };
    let vulkan = Instance::new(&InstanceOptions { validation })?;
    let device = Device::open(&vulkan, &DevicePlan::choose(&vulkan.adapters()?, &Wants::default())?)?;
    println!("{}, {cancels} cancels", device.facts().name);
    let pipelines = Arc::new(Pipelines::new(device.clone()));
    let model = Arc::new(Model::open(path)?);
    let cache = CacheOptions { context: CONTEXT, key_format: CacheFormat::F16, value_format: CacheFormat::F16 };
    let loaded = Arc::new(DeviceModel::load(&pipelines, &model, LoadOptions { cache, batch: 5 }, &mut |_| {})?);
    let depth = InflightDepth::DEFAULT;
    let drafts = Some(Drafts::Lookup { ngrams: 1..=3, drafts: 4 });
    let driven = VulkanModel::new(loaded, VulkanOptions { drafts, ..VulkanOptions::new(depth) })?;
    let options = EngineOptions { depth, speculation: Speculation::Always, ..EngineOptions::default() };
    let handle = Engine::spawn(driven, SystemClock::new(), options)?;

    let kinds: [(&str, Request); 4] = [
        ("speculative", request(Sampling::GREEDY, Control::Device)),
        ("sampled", Request { logprobs: Some(3), ..request(chain(), Control::Device) }),
        ("masked", request(chain(), Control::masked(|| Ok(Even)))),
        ("host-fed", request(Sampling::GREEDY, Control::host_fed(|| Ok(Best)))),
    ];
    // What comes out undisturbed, and how long a step takes.
    let mut expected = Vec::new();
    let mut step = Duration::ZERO;
    for (_, request) in &kinds {
        let started = Instant::now();
        let (tokens, completion) = handle.generate(request.clone())?.complete()?;
        let steps = completion.usage.completion_tokens + completion.usage.prompt_tokens;
        step = step.max(started.elapsed() / steps);
        expected.push(tokens.iter().map(|token| token.id).collect::<Vec<_>>());
    }
    let before = device.memory_report();

    let mut random = 1u64;
    let mut below = |limit: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % limit
    };
    let (mut wrong, mut cut) = (0, 0);
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
            wrong += 1;
            println!("cancel {number} of a {} request: then {} gave {ids:?}", kinds[kind].0, kinds[probed].0);
        }
    }
    let after = device.memory_report();
    rests.sort_unstable();
    let in_steps = |rest: Option<&Duration>| rest.map_or(0.0, |rest| rest.as_secs_f64() / step.as_secs_f64());
    println!("{cut} requests cut short, {wrong} wrong answers behind them");
    println!(
        "from cancel to rest: median {:.2}, most {:.2} steps of {:.2} ms",
        in_steps(rests.get(rests.len() / 2)),
        in_steps(rests.last()),
        step.as_secs_f64() * 1e3
    );
    let used = |report: &zinc_vk::MemoryReport| report.heaps.iter().map(|heap| heap.ours).sum::<u64>();
    println!("device memory: {} bytes before, {} after", used(&before), used(&after));
    let messages = vulkan.validation_messages().len();
    println!("validation messages: {messages}");
    Ok(wrong == 0 && used(&before) == used(&after) && messages == 0)
}

/// Runs a request and cancels it after a while; gives the time from the cancel to the end, when nothing is in flight any more.
fn cancel_after(
    handle: &EngineHandle,
    request: Request,
    moment: Duration,
) -> Result<Option<Duration>, Box<dyn std::error::Error>> {
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
        if token % 2 == 0 { Ok(()) } else { Err(format!("token {token} was not allowed").into()) }
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
