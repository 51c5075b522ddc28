//! Every way of driving a model gives the same tokens with every kind of sampling, and a cancel at any moment leaves nothing behind: small
//! runs of what the examples `ways` and `cancels` do at length.

#[path = "../../examples/ways/cases.rs"]
pub(crate) mod cases;
#[path = "../../examples/cancels/trial.rs"]
mod trial;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use zinc_kernels::Pipelines;
use zinc_kernels::ops::CacheFormat;
use zinc_kernels::step::StepShape;
use zinc_model::Model;
use zinc_model::device::DeviceModel;
use zinc_model::memory::LoadOptions;
use zinc_model::plan::CacheOptions;
use zinc_sched::adapter::{DraftSource, VulkanModel, VulkanOptions};
use zinc_sched::{
    DeviceFinish, Engine, EngineOptions, Gate, Guide, HostChoice, InflightDepth, ModelLimits, Request, Sampling,
    SequenceStart, SpeculationMode, Step, StepLane, StepModel, SystemClock, Token,
};

use crate::gpu::{Gpu, with_own_device};
use crate::matrix;

/// Prompts of each way with each kind of sampling, and tokens of each text: of the part of the matrix that every run goes through, and of the
/// whole.
const TEXTS: [(u32, u32); 2] = [(2, 10), (8, 40)];
/// Cancels, likewise.
const CANCELS: [u32; 2] = [24, 500];

fn load(pipelines: &Arc<Pipelines>, context: u32, options: impl Fn(CacheOptions) -> LoadOptions) -> Arc<DeviceModel> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/tiny/qwen3moe-a-q4_k_m.gguf");
    let model = Arc::new(Model::open(path).expect("a tiny model opens"));
    let cache = CacheOptions::new(context, CacheFormat::F16, CacheFormat::F16);
    Arc::new(DeviceModel::load(pipelines, &model, options(cache), &mut |_| {}).expect("a tiny model loads"))
}

#[test]
fn every_way_gives_the_same_tokens() {
    let gpu = Gpu::borrow();
    let (prompts, tokens) = TEXTS[usize::from(matrix::is_full())];
    let context = cases::PROMPT_TOKENS + tokens;
    let (target, draft) =
        (load(&gpu.pipelines, context, cases::load_options), load(&gpu.pipelines, context, cases::load_options));
    let mut expected: Vec<Vec<Vec<u32>>> = Vec::new();
    for way in cases::ways() {
        let mut driven = cases::Driven::new(&target, &draft, &way).expect("the model is driven");
        for (index, kind) in cases::kinds().iter().enumerate() {
            let texts = driven.texts(kind, prompts, tokens).expect("the model runs");
            assert!(texts.iter().all(|text| text.len() == tokens as usize), "{} by {}", kind.name, way.name);
            match expected.get(index) {
                Some(expected) => assert_eq!(texts, *expected, "{} by {}", kind.name, way.name),
                None => expected.push(texts),
            }
        }
    }
}

/// A sequence that is not drafted leaves a draft model behind. It catches up when the next one begins, while prompt tokens are queued right
/// behind; and as it is the model itself, all that it drafts then is right.
#[test]
fn a_draft_model_catches_up_with_what_it_has_not_seen() {
    const DRAFTED: u32 = 2 * (cases::DRAFTS + 1);
    let gpu = Gpu::borrow();
    let (target, draft) =
        (load(&gpu.pipelines, 48, cases::load_options), load(&gpu.pipelines, 48, cases::load_options));
    let engine = |draft_source| {
        let options =
            VulkanOptions::new(InflightDepth::DEFAULT).with_feed_shape(StepShape::FOUR).with_draft_source(draft_source);
        let model = VulkanModel::new(target.clone(), options).expect("the model is driven");
        let options = EngineOptions::default().with_speculation(SpeculationMode::Always);
        Engine::new(model, SystemClock::new(), options).expect("the engine starts")
    };
    let run = |engine: &mut Engine<VulkanModel>, request: &Request| {
        let mut tokens: Vec<Token> = Vec::new();
        let completion = engine.run(request, &mut tokens).expect("the model runs");
        (tokens.iter().map(|token| token.id).collect::<Vec<u32>>(), completion)
    };

    let mut drafted = engine(Some(DraftSource::Model { model: draft, max_drafts: cases::DRAFTS }));
    let first = Request::new([3, 1, 4, 1, 5, 9], []).with_logprobs(0).with_max_tokens(10);
    let (answer, completion) = run(&mut drafted, &first);
    assert_eq!(completion.speculation_stats.steps, 0, "what reports log-probabilities is not drafted");
    let conversation = [&first.prompt[..], &answer, &[2, 6, 5, 3, 5]].concat();
    let second = Request::new(conversation, []).with_max_tokens(DRAFTED);
    let (tokens, completion) = run(&mut drafted, &second);
    assert!(completion.usage.cached_tokens > 10, "the cache holds {}", completion.usage.cached_tokens);
    assert_eq!((completion.speculation_stats.steps, completion.speculation_stats.tokens), (2, u64::from(DRAFTED)));
    drop(drafted);
    assert_eq!(tokens, run(&mut engine(None), &second).0);
}

/// What is known to follow is accepted wholly; what is not so is refused, and changes no token.
#[test]
fn replayed_drafts_are_verified() {
    const TOKENS: u32 = 3 * (cases::DRAFTS + 1);
    let gpu = Gpu::borrow();
    let target = load(&gpu.pipelines, 48, cases::load_options);
    let request = Request::new([3, 1, 4, 1, 5, 9], []).with_max_tokens(TOKENS);
    let run = |replayed: Option<&[u32]>| {
        let draft_source =
            replayed.map(|tokens| DraftSource::Replay { tokens: tokens.into(), mtp: false, max_drafts: cases::DRAFTS });
        let options = VulkanOptions::new(InflightDepth::DEFAULT).with_draft_source(draft_source);
        let model = VulkanModel::new(target.clone(), options).expect("the model is driven");
        let options = EngineOptions::default().with_speculation(SpeculationMode::Always);
        let mut engine = Engine::new(model, SystemClock::new(), options).expect("the engine starts");
        let mut tokens: Vec<Token> = Vec::new();
        let completion = engine.run(&request, &mut tokens).expect("the model runs");
        (tokens.iter().map(|token| token.id).collect::<Vec<u32>>(), completion.speculation_stats.steps)
    };
    let (known, _) = run(None);
    assert_eq!(run(Some(&known)), (known.clone(), 3));
    // A token that is known wrongly costs a step, as the end of what is known does.
    let mut wrong = known.clone();
    wrong[2] = (wrong[2] + 1) % 16;
    assert_eq!(run(Some(&wrong)), (known.clone(), 4));
    let (tokens, steps) = run(Some(&known[..5]));
    assert_eq!(tokens, known);
    assert!(steps > 5, "{steps} steps, of which the first has drafts");
    let long = known.repeat(4);
    assert_eq!(run(Some(&long)), (known, 3), "the context has no room for all that is known");
}

/// A cancellation opens gates for which the host has written nothing. A step behind one finds nothing, or what was written in its ring slot for an earlier
/// sequence of its own kind: a candidate is no guide, and a guide no candidate.
#[test]
fn an_opened_gate_shows_a_step_nothing_of_another_kind() {
    const CHOSEN: u32 = 5;
    const GUIDED: u32 = 7;
    let gpu = Gpu::borrow();
    let loaded = load(&gpu.pipelines, 48, cases::load_options);
    let mut model = VulkanModel::new(loaded, VulkanOptions::new(InflightDepth::DEFAULT)).expect("the model is driven");
    let ModelLimits { ring_slots, vocabulary_tokens, .. } = model.limits();
    let mut guide = Guide::new(vocabulary_tokens);
    guide.reset();
    guide.bias(GUIDED, 1e6);
    let greedy = Sampling::GREEDY;
    // The first token of a sequence whose host writes for each ring slot in turn, or cancels after a while instead; `None` if the cancellation came before the
    // device had begun the step.
    let mut try_run = |gate: Gate, cancelled_after: Option<Duration>| -> Option<u32> {
        let start = SequenceStart { gate, ..SequenceStart::new(&[3], 0, 2 * ring_slots, &greedy) };
        let sequence = model.open(&start).expect("opened");
        let mut first = None;
        for _ in 0..if cancelled_after.is_some() { 1 } else { ring_slots } {
            let step = Step { lanes: &[StepLane::decode(sequence)], grown: &[] };
            let ticket = model.submit(&step).expect("submitted");
            match (gate, cancelled_after) {
                (_, Some(time)) => {
                    std::thread::sleep(time);
                    model.cancel(sequence);
                }
                (Gate::Open, None) => {}
                (Gate::Guide, None) => model.guide(ticket, sequence, &guide).expect("guided"),
                (Gate::Token, None) => {
                    model.logits(ticket, sequence).expect("logits");
                    let choice = HostChoice::Token { id: CHOSEN, logit: 5.0 };
                    model.choose(ticket, sequence, choice).expect("chosen");
                }
            }
            let output = &model.wait(ticket).expect("the step is done").lanes[0];
            assert_eq!(output.finish, cancelled_after.map(|_| DeviceFinish::Cancelled), "{output:?}");
            first = first.or(output.tokens.as_slice().first().copied());
        }
        model.close(sequence);
        first
    };
    let mut run = |gate: Gate, cancelled: bool| -> u32 {
        let times = (0..10).map(|doublings| cancelled.then(|| Duration::from_millis(5 << doublings)));
        times.into_iter().find_map(|time| try_run(gate, time)).expect("a step has run")
    };
    let plain = run(Gate::Open, false);
    assert!(![CHOSEN, GUIDED].contains(&plain), "the host's tokens can be told from {plain}");
    assert_eq!(run(Gate::Token, false), CHOSEN);
    assert_eq!(run(Gate::Guide, true), plain, "no guide was written yet");
    assert_eq!(run(Gate::Guide, false), GUIDED);
    assert_eq!(run(Gate::Token, true), CHOSEN, "what an earlier sequence chose");
    assert_eq!(run(Gate::Token, false), CHOSEN);
    assert_eq!(run(Gate::Guide, true), GUIDED, "the guide of an earlier sequence");
}

#[test]
fn cancels_at_random_moments_leave_nothing_behind() {
    with_own_device(|pipelines| {
        let outcome = trial::trial(
            &load(pipelines, trial::CONTEXT, trial::load_options),
            CANCELS[usize::from(matrix::is_full())],
            &mut |_| {},
        )
        .expect("the model runs");
        assert!(outcome.wrong.is_empty(), "{:#?}", outcome.wrong);
        assert!(outcome.cut > 0, "no request was cut short");
        assert_eq!(outcome.kinds.iter().map(|kind| kind.rests.len()).sum::<usize>(), outcome.cut as usize);
        assert!(outcome.kinds.iter().all(|kind| !kind.step.is_zero()));
        assert_eq!(outcome.memory_bytes.0, outcome.memory_bytes.1);
    });
}
