//! Steps that feed the end of a prompt and sample behind its last token: the bits are those of a prompt that is taken in token by token.

use std::path::Path;
use std::sync::Arc;

use zinc_kernels::ops::{ActFormat, CacheFormat};
use zinc_kernels::step::{FeedShapes, Lane, StepShape};
use zinc_model::Model;
use zinc_model::device::DeviceModel;
use zinc_model::interpret::Interpreter;
use zinc_model::memory::LoadOptions;
use zinc_model::plan::{CacheOptions, MANY_ROWS, PlanKind, PlanOptions, RowCounts, StepPlan};
use zinc_sched::adapter::{Sync, VulkanModel, VulkanOptions};
use zinc_sched::{
    Completion, DeviceFinish, Dry, Engine, EngineOptions, FinishReason, InflightDepth, LastToken, LastTokens, Outlet,
    Penalties, Request, Sampling, SequenceStart, Step, StepKind, StepLane, StepModel, StepStatus, SystemClock, Token,
    Tracing,
};

use crate::cache::{poison_cache, read_cache};
use crate::gpt_oss::GPT_OSS;
use crate::gpu::Gpu;
use crate::matrix;
use crate::qwen35::{QWEN35, QWEN35_MOE};

const CONTEXT: u32 = 144;
const MOST_FED: u32 = 2 * MANY_ROWS;
const GENERATED: u32 = 3;

fn open(path: &str) -> Arc<Model> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/tiny").join(path).with_extension("gguf");
    Arc::new(Model::open(path).expect("a tiny model opens"))
}

fn load(gpu: &Gpu, path: &str) -> Arc<DeviceModel> {
    let model = open(path);
    let cache = CacheOptions::new(CONTEXT, CacheFormat::F16, CacheFormat::F16);
    let options = LoadOptions::new(cache).with_counts(RowCounts::new(MOST_FED, 1));
    Arc::new(DeviceModel::load(&gpu.pipelines, &model, options, &mut |_| {}).expect("a tiny model loads"))
}

fn driven(model: &Arc<DeviceModel>, rows: u32, sync: Sync) -> VulkanModel {
    let options = VulkanOptions::new(InflightDepth::DEFAULT).with_feed_shape(StepShape::of(rows)).with_sync(sync);
    VulkanModel::new(model.clone(), options).expect("the model is driven")
}

fn engine(model: VulkanModel) -> Engine<VulkanModel> {
    let depth = InflightDepth::new(model.limits().ring_slots).expect("a depth");
    let options = EngineOptions::default().with_depth(depth);
    Engine::new(model, SystemClock::new(), options).expect("the engine starts")
}

fn prompt(length: u32) -> Vec<u32> {
    (0..length).map(|i| (i * i + 7 * i) % 500).collect()
}

/// Every part of the chain that reads the tokens before, so that they must be those of the prompt.
fn chain() -> Sampling {
    Sampling {
        temperature: 0.9,
        seed: 5,
        top_k: 40,
        top_p: 0.95,
        penalties: Penalties { repeat: 1.2, frequency: 0.1, presence: 0.1, ..Penalties::OFF },
        dry: Some(Dry { multiplier: 0.8, base: 1.75, allowed_length: 1, last_n: LastTokens::All, breakers: None }),
        ..Sampling::GREEDY
    }
}

fn request(length: u32) -> Request {
    Request::new(prompt(length), []).with_max_tokens(GENERATED).with_trace(Tracing::On)
}

/// What a request leaves: its tokens, the logits of the last one, and the keys and values.
type Left = (Vec<Token>, Vec<f32>, Vec<Vec<u8>>);

/// Answers a request, and says how it ended.
fn answer(engine: &mut Engine<VulkanModel>, request: &Request, gpu: &Gpu) -> (Left, Completion) {
    let mut tokens: Vec<Token> = Vec::new();
    let completion = engine.run(request, &mut tokens).expect("the model runs");
    let model = engine.model();
    let cache = read_cache(gpu, model.model(), engine.kv().tokens().len() as u32);
    ((tokens, model.last_logits().expect("logits"), cache), completion)
}

/// The kinds of the steps that did something.
fn kinds(completion: &Completion) -> Vec<StepKind> {
    let steps = &completion.trace.as_ref().expect("a trace was asked for").steps;
    steps.iter().filter(|step| step.status != StepStatus::NoOp).map(|step| step.kind).collect()
}

#[test]
fn long_prompts_have_larger_steps() {
    let gpu = Gpu::borrow();
    let model = load(&gpu, "qwen3moe-a-q4_k_m");
    let shapes = FeedShapes::by_length(StepShape::of(2), 8, StepShape::of(MANY_ROWS));
    let options = VulkanOptions::new(InflightDepth::DEFAULT).with_feed_shapes(shapes);
    let mut by_length = engine(VulkanModel::new(model.clone(), options).expect("the model is driven"));
    let mut by_one = engine(driven(&model, 1, Sync::Timeline));
    let (feed, sampling) = (StepKind::Feed, [StepKind::Decode; GENERATED as usize - 1]);
    for (length, prompt) in [
        (8, vec![feed, feed, feed, StepKind::FeedDecode]),
        (9, vec![StepKind::FeedDecode]),
        (MANY_ROWS + 1, vec![feed, StepKind::Decode]),
        (7, vec![feed, feed, feed, StepKind::Decode]),
    ] {
        by_length.roll_back(0);
        by_one.roll_back(0);
        let (left, completion) = answer(&mut by_length, &request(length), &gpu);
        assert_eq!(kinds(&completion), [&prompt[..], &sampling].concat(), "a prompt of {length}");
        let (truth, _) = answer(&mut by_one, &request(length), &gpu);
        assert!(left == truth, "a prompt of {length}");
    }
}

#[test]
fn the_bits_are_those_of_a_prompt_taken_in_token_by_token() {
    let gpu = Gpu::borrow();
    let whole = matrix::is_full();
    let all: Vec<u32> = (1..=40).chain([64, 65, 130]).collect();
    // Without whole matrices, a model of each kind is tried: dense, with experts, windows and sinks, and with delta nets; and each way to sample has lengths of its own.
    let names = ["llama-f16", GPT_OSS, QWEN35, "qwen3moe-a-q4_k_m", QWEN35_MOE];
    for path in names.into_iter().take(if whole { 5 } else { 3 }) {
        let model = load(&gpu, path);
        let rows = [1, MANY_ROWS, MOST_FED];
        let mut engines = rows.map(|rows| engine(driven(&model, rows, Sync::Timeline)));
        for (sampling, logprobs, part) in [
            (Sampling::GREEDY, Some(3), &[1, 33, MANY_ROWS][..]),
            (chain(), None, &[130][..]),
            (chain(), Some(0), &[2, 40][..]),
        ] {
            for &length in if whole { &all[..] } else { part } {
                let request = request(length).with_sampling(sampling.clone()).with_logprobs(logprobs);
                let mut truth = None;
                for (engine, rows) in engines.iter_mut().zip(rows) {
                    let what = format!("{path}, {sampling:?}, {logprobs:?}, {length} tokens by {rows}");
                    engine.roll_back(0);
                    poison_cache(&gpu, &model);
                    let (left, completion) = answer(engine, &request, &gpu);
                    let truth = truth.get_or_insert_with(|| left.clone());
                    assert_eq!(left.0, truth.0, "{what}: tokens");
                    assert!(left.1 == truth.1, "{what}: logits");
                    assert!(left.2 == truth.2, "{what}: keys and values");
                    let kinds = kinds(&completion);
                    let joined = length % rows != 1 && rows > 1;
                    assert_eq!(kinds.iter().filter(|kind| **kind == StepKind::FeedDecode).count(), usize::from(joined));
                    assert_eq!(kinds.len() as u32, length.div_ceil(rows) + GENERATED - 1, "{what}: {kinds:?}");
                }
            }
        }
    }
}

/// The answers of an engine that takes a prompt in token by token, and of one that feeds it together with its last token.
fn both(gpu: &Gpu, model: &Arc<DeviceModel>, request: &Request) -> [(Left, Completion); 2] {
    let answers = [1, MOST_FED].map(|rows| {
        poison_cache(gpu, model);
        answer(&mut engine(driven(model, rows, Sync::Timeline)), request, gpu)
    });
    let [(truth, one), (left, many)] = &answers;
    assert!(left == truth, "the answers differ: {:?} and {:?}", left.0, truth.0);
    assert_eq!((one.reason, one.usage), (many.reason, many.usage));
    assert_eq!(kinds(many)[0], StepKind::FeedDecode);
    answers
}

#[test]
fn a_sequence_may_end_in_the_step_that_feeds() {
    let gpu = Gpu::borrow();
    let model = load(&gpu, "qwen3moe-a-q4_k_m");
    let [_, ((tokens, ..), one)] = both(&gpu, &model, &request(40).with_max_tokens(1));
    assert_eq!((one.reason, kinds(&one)), (FinishReason::Length, vec![StepKind::FeedDecode]));

    let first = tokens[0].id;
    let [_, ((tokens, _, cache), stopped)] = both(&gpu, &model, &request(40).with_eog([first]));
    assert_eq!((stopped.reason, kinds(&stopped)), (FinishReason::Stop { token: first }, vec![StepKind::FeedDecode]));
    assert!(tokens.is_empty() && stopped.usage.completion_tokens == 0);
    assert!(cache == read_cache(&gpu, &model, 40), "the whole prompt is in the cache");

    // The context ends with the prompt.
    let full = request(CONTEXT).with_max_tokens(None);
    let mut truth = None;
    for rows in [1, MOST_FED] {
        poison_cache(&gpu, &model);
        let (left, completion) = answer(&mut engine(driven(&model, rows, Sync::Timeline)), &full, &gpu);
        assert_eq!((completion.reason, left.0.len()), (FinishReason::ContextFull, 1));
        assert!(left == *truth.get_or_insert_with(|| left.clone()), "{rows} rows");
    }
}

#[test]
fn a_prefix_from_the_cache_may_come_before_it() {
    let gpu = Gpu::borrow();
    let model = load(&gpu, "qwen3moe-a-q4_k_m");
    let answers_of = |rows, sync| {
        poison_cache(&gpu, &model);
        let mut engine = engine(driven(&model, rows, sync));
        let first = answer(&mut engine, &request(20), &gpu).0;
        let said: Vec<u32> = first.0.iter().map(|token| token.id).collect();
        let next = Request::new([prompt(20), said, prompt(30)].concat(), []).with_max_tokens(GENERATED);
        let (left, completion) = answer(&mut engine, &next, &gpu);
        (first, left, completion.usage)
    };
    let truth = answers_of(1, Sync::Timeline);
    assert_eq!(truth.2.cached_tokens, 20 + GENERATED - 1);
    let ways =
        [Sync::Timeline, Sync::FenceKept, Sync::Fence].into_iter().flat_map(|sync| [(16, sync), (MOST_FED, sync)]);
    // Without whole matrices, a fence is tried with one number of rows, and recordings that are kept are left to the cancellations below.
    let is_part =
        |way: &(u32, Sync)| [(16, Sync::Timeline), (MOST_FED, Sync::Timeline), (MOST_FED, Sync::Fence)].contains(way);
    for (rows, sync) in ways.filter(|way| matrix::is_full() || is_part(way)) {
        assert!(answers_of(rows, sync) == truth, "{rows} rows, {sync:?}");
    }
}

/// Cancels when it is asked for the n-th time.
struct CancelsAt(std::cell::Cell<u32>);

impl Outlet for CancelsAt {
    fn tokens(&mut self, tokens: &[Token]) -> usize {
        tokens.len()
    }

    fn cancelled(&self) -> bool {
        let left = self.0.get();
        self.0.set(left.saturating_sub(1));
        left == 0
    }
}

#[test]
fn a_cancelled_step_reports_that_nothing_was_fed() {
    let gpu = Gpu::borrow();
    let model = load(&gpu, "qwen3moe-a-q4_k_m");
    let (truth, _) = answer(&mut engine(driven(&model, 1, Sync::Timeline)), &request(60), &gpu);
    for sync in [Sync::Timeline, Sync::FenceKept, Sync::Fence] {
        // The host's word is there before the step, of several ranges on a processor, begins.
        let mut model_driven = driven(&model, MOST_FED, sync);
        let (tokens, greedy) = (prompt(60), Sampling::GREEDY);
        let start = SequenceStart::new(&tokens, 0, GENERATED, &greedy);
        let sequence = model_driven.open(&SequenceStart { last_token: LastToken::Fed, ..start }).expect("opened");
        model_driven.cancel(sequence);
        let step = Step { lanes: &[StepLane { sequence, kind: StepKind::FeedDecode, rows: 60 }], grown: &[] };
        let ticket = model_driven.submit(&step).expect("submitted");
        let output = &model_driven.wait(ticket).expect("done").lanes[0];
        model_driven.close(sequence);
        assert_eq!(output.finish, Some(DeviceFinish::Cancelled), "{sync:?}");
        if output.status == StepStatus::NoOp {
            assert_eq!((output.fed, output.position, output.tokens.as_slice()), (0, 0, &[][..]), "{sync:?}");
        }

        let mut engine = engine(model_driven);
        // Without whole matrices, every fourth moment is tried.
        for asked in (0..9).step_by(if matrix::is_full() { 1 } else { 4 }) {
            engine.roll_back(0);
            let cancelled = engine.run(&request(60), &mut CancelsAt(asked.into())).expect("the model runs");
            let kept = engine.kv().tokens().len() as u32;
            assert!(cancelled.reason != FinishReason::Cancelled || [0, 60, 61].contains(&kept), "{sync:?}: {kept}");
            engine.roll_back(0);
            poison_cache(&gpu, &model);
            assert!(answer(&mut engine, &request(60), &gpu).0 == truth, "{sync:?}, cancelled at {asked}");
        }
    }
}

/// The reference of plans runs the layers of several rows, and what is behind the last of them, by the plans that the device has.
#[test]
fn the_interpreter_samples_behind_the_last_row() {
    const LENGTH: u32 = 9;
    let model = open("qwen3moe-a-q4_k_m");
    let tokens = prompt(LENGTH);
    let begin = || {
        let cache = CacheOptions::new(CONTEXT, CacheFormat::F16, CacheFormat::F16);
        let mut interpreter = Interpreter::new(model.clone(), cache);
        let lane = Lane { prompt_length: LENGTH, budget: 2, context_length: CONTEXT, sequence: 1, ..Lane::default() };
        interpreter.state = Lane { token: tokens[0], ..lane }.into();
        interpreter.tokens[..tokens.len()].copy_from_slice(&tokens);
        interpreter
    };
    let mut truth = begin();
    for _ in 1..LENGTH {
        truth.step(PlanKind::Feed);
    }
    let expected = truth.step(PlanKind::Decode);

    let options = |kind| PlanOptions::new(kind, ActFormat::F32);
    let feed = options(PlanKind::Feed).with_shape(StepShape::SEVERAL);
    let mut found = begin();
    found.layers(&StepPlan::forward(&model.weights, &feed));
    let behind = StepPlan::behind_last_rows(&model.weights, &options(PlanKind::Decode));
    assert_eq!(found.step_of(&behind), expected);
    assert_eq!((expected.position, expected.count), (LENGTH, 1));
    assert!(found.logits() == truth.logits(), "logits");
    assert_eq!((found.state.row_count, found.state.lane), (truth.state.row_count, truth.state.lane));
    assert_eq!(found.state.rows[0], truth.state.rows[0]);
}
