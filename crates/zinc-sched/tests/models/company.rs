//! Company changes nothing: a request gets the tokens and the log-probabilities that it gets alone, to the bit, whoever else is asking.

use std::sync::Arc;

use zinc_kernels::ops::CacheFormat;
use zinc_kernels::step::{PAGE_POSITIONS, StepShape};
use zinc_model::Model;
use zinc_model::device::DeviceModel;
use zinc_model::gguf::File;
use zinc_model::memory::LoadOptions;
use zinc_model::plan::{CacheOptions, RowCounts};
use zinc_model::tokenizer::Tokenizer;
use zinc_sched::adapter::{Queues, Sync, VulkanModel, VulkanOptions};
use zinc_sched::grammar::{GrammarCompiler, GrammarSource};
use zinc_sched::{
    Control, Engine, EngineHandle, EngineOptions, Event, FinishReason, Gate, Generation, Guide, InflightDepth, Request,
    Sampling, SequenceId, SequenceStart, Step, StepLane, StepModel, SystemClock,
};

use crate::crowd::{bits, open, path};
use crate::gpt_oss::GPT_OSS;
use crate::gpu::Gpu;
use crate::matrix;
use crate::qwen35::{QWEN35, QWEN35_MOE};
use crate::ways::cases::kinds;

const CONTEXT: u32 = 3 * PAGE_POSITIONS;
/// Tokens of the longest answers: of the part of the matrix that every run goes through, and of the whole.
const TOKENS: [u32; 2] = [24, 64];
/// Tokens of a long prompt, at least: more than a page has, so that requests find pages of others, and than steps with matrix units and steps without them have rows
/// at once.
const LONG_PROMPT: u32 = PAGE_POSITIONS + 6;
/// Tokens of a middling prompt, at least. Its answer is twice as long as others: it needs a second and a third page, and one of them at most is kept free for it.
const MIDDLING_PROMPT: u32 = PAGE_POSITIONS / 2;

/// How a model of several lanes is driven.
#[derive(Clone, Copy, Debug)]
struct Driven {
    lanes: u32,
    depth: u32,
    /// Rows of steps that feed prompts.
    feed_rows: u32,
    sync: Sync,
    queues: Queues,
    /// Pages of all sequences together; `None` is as many as all may need.
    pages: Option<u32>,
}

impl Driven {
    const fn new(lanes: u32, depth: u32) -> Self {
        Self { lanes, depth, feed_rows: 4, sync: Sync::Timeline, queues: Queues::One, pages: None }
    }

    fn model(self, gpu: &Gpu, model: &Arc<Model>) -> VulkanModel {
        let cache = CacheOptions::new(CONTEXT, CacheFormat::F16, CacheFormat::F16)
            .with_lanes(self.lanes)
            .with_cache_tokens(self.pages.map(|pages| pages * PAGE_POSITIONS));
        let sampling_rows = StepShape::of(self.lanes).rows();
        let options = LoadOptions::new(cache).with_counts(RowCounts::new(self.feed_rows, sampling_rows));
        let loaded = DeviceModel::load(&gpu.pipelines, model, options, &mut |_| {}).expect("a tiny model loads");
        let depth = InflightDepth::new(self.depth).expect("a depth");
        let options = VulkanOptions::new(depth)
            .with_sync(self.sync)
            .with_queues(self.queues)
            .with_feed_shape(StepShape::of(self.feed_rows));
        VulkanModel::new(loaded, options).expect("the model is driven")
    }

    fn engine(self, gpu: &Gpu, model: &Arc<Model>) -> EngineHandle {
        let depth = InflightDepth::new(self.depth).expect("a depth");
        let options = EngineOptions::default().with_depth(depth).with_queue_capacity(1_000).with_reserve_tokens(8);
        Engine::spawn(self.model(gpu, model), SystemClock::new(), options).expect("the engine starts")
    }
}

/// A constraint by a JSON schema, of which no answer comes to the end.
fn numbers(name: &str) -> Control {
    let tokenizer = Tokenizer::from_gguf(&File::open(path(name)).expect("a tiny model opens")).expect("a tokenizer");
    let schema = r#"{"type": "array", "items": {"type": "integer"}, "minItems": 100}"#;
    let grammar = GrammarCompiler::new(&tokenizer)
        .and_then(|compiler| compiler.compile(&GrammarSource::JsonSchema(schema.to_owned())));
    grammar.expect("a grammar").control()
}

/// So many requests, of every kind of sampling in turn and under a JSON schema, every third with log-probabilities and every fifth with a long prompt, which begins with
/// one of three texts, and two of five with a middling one and a longer
/// answer.
fn requests(name: &str, vocabulary: u32, count: u32) -> Vec<Request> {
    let (kinds, numbers) = (kinds(), numbers(name));
    let request = |number: u32| {
        let kind = kinds.get(number as usize % (kinds.len() + 1));
        // Lanes become free at different times.
        let tokens = TOKENS[usize::from(matrix::is_full())] * (1 + u32::from(number % 5 > 2)) - number % 7;
        let mut request = kind.unwrap_or(&kinds[2]).request(number, vocabulary, tokens);
        if kind.is_none() {
            request.control = numbers.clone();
        }
        if number % 5 == 2 {
            request.prompt = (0..LONG_PROMPT).map(|i| (i * i + 7 * (number % 3)) % (vocabulary - 1)).collect();
            request.prompt.extend((0..number % 20).map(|i| (i + 7 * number) % (vocabulary - 1)));
        }
        if number % 5 > 2 {
            request.prompt =
                (0..MIDDLING_PROMPT + number % 20).map(|i| (i * i + 13 * number) % (vocabulary - 1)).collect();
        }
        request.with_logprobs((number % 3 == 1).then_some(5))
    };
    (0..count).map(request).collect()
}

/// What a request was answered: its tokens, and the bits of their log-probabilities.
fn answer(generation: Generation) -> Vec<(u32, Vec<u32>)> {
    let (tokens, completion) = generation.complete().expect("the request is answered");
    assert_eq!(completion.reason, FinishReason::Length);
    tokens.iter().map(bits).collect()
}

/// Numbers below `count` in a random order.
fn shuffled(count: u32, seed: u64) -> Vec<u32> {
    let mut state = seed;
    let mut below = |most: u32| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) % u64::from(most)) as u32
    };
    let mut order: Vec<u32> = (0..count).collect();
    for place in (1..count).rev() {
        order.swap(place as usize, below(place + 1) as usize);
    }
    order
}

/// All requests at once, in random orders, beside others that go away while they are answered.
fn check(gpu: &Gpu, name: &str, ways: &[Driven], count: u32) {
    let model = &open(name);
    let requests = requests(name, model.config.n_vocab, count);
    let alone = Driven::new(1, 2).engine(gpu, model);
    let truth: Vec<_> =
        requests.iter().map(|request| answer(alone.generate(request.clone()).expect("it is queued"))).collect();
    drop(alone);
    let mut all_preemptions = 0;
    for (round, way) in (1..).zip(ways) {
        let engine = way.engine(gpu, model);
        let mut generations = Vec::new();
        let mut leaving = Vec::new();
        for number in shuffled(count, round) {
            if number % 4 == 0 {
                let request = requests[(number as usize + 1) % requests.len()].clone();
                leaving.push(engine.generate(request).expect("it is queued"));
            }
            generations.push((number, engine.generate(requests[number as usize].clone()).expect("it is queued")));
        }
        let leaver = std::thread::spawn(move || {
            for (index, mut generation) in (0..).zip(leaving) {
                let tokens = generation.by_ref().filter(|event| matches!(event, Event::Token(_)));
                assert_eq!(tokens.take(index % 4).count(), index % 4, "tokens before the reader goes away");
            }
        });
        for (number, generation) in generations {
            assert_eq!(answer(generation), truth[number as usize], "request {number}, {way:?}");
        }
        leaver.join().expect("the readers that go away have read");
        let preemptions = engine.status().counts.preemptions;
        assert!(preemptions == 0 || way.pages.is_some(), "{preemptions} times pages were given back, {way:?}");
        all_preemptions += preemptions;
    }
    let is_short = ways.iter().any(|way| way.pages.is_some());
    assert_eq!(all_preemptions > 0, is_short, "{all_preemptions} times pages were given back");
}

#[test]
fn whoever_else_asks_a_request_is_answered_as_alone() {
    const PART: [Driven; 3] = [
        Driven { feed_rows: 32, ..Driven::new(3, 4) },
        Driven { sync: Sync::Fence, ..Driven::new(2, 1) },
        Driven::new(8, 2),
    ];
    const REST: [Driven; 9] = [
        Driven { queues: Queues::Two, ..Driven::new(5, 4) },
        Driven { sync: Sync::FenceKept, ..Driven::new(4, 1) },
        Driven { feed_rows: 64, ..Driven::new(16, 4) },
        Driven { feed_rows: 1, ..Driven::new(3, 4) },
        Driven { feed_rows: 128, ..Driven::new(32, 4) },
        Driven::new(33, 8),
        Driven::new(64, 4),
        // A request that begins with one page comes to need two, and one that begins with two may come to need three.
        Driven { pages: Some(5), ..Driven::new(8, 4) },
        Driven { pages: Some(16), ..Driven::new(64, 4) },
    ];
    let gpu = Gpu::borrow();
    let ways: Vec<Driven> = PART.into_iter().chain(REST.into_iter().filter(|_| matrix::is_full())).collect();
    check(&gpu, "qwen3moe-a-q4_k_m", &ways, if matrix::is_full() { 200 } else { 30 });
}

/// Without whole matrices, three other models are tried: a dense one, one with windows and sinks, and one with delta nets.
#[test]
fn so_it_is_with_other_models() {
    let gpu = Gpu::borrow();
    const OTHERS: [&str; 6] = ["qwen2-f16", GPT_OSS, QWEN35, "qwen3moe-b-q8_0", "llama-f16", QWEN35_MOE];
    for name in &OTHERS[..if matrix::is_full() { OTHERS.len() } else { 3 }] {
        check(&gpu, name, &[Driven { feed_rows: 16, ..Driven::new(4, 4) }], if matrix::is_full() { 60 } else { 12 });
    }
}

/// The sequence of a lane may end before it has had a step, while steps of another lane keep the device from having opened it: steps that wait for what only
/// the thread that opens lanes says later.
#[test]
fn a_lane_is_opened_again_at_once() {
    let gpu = Gpu::borrow();
    let mut model = Driven::new(2, 4).model(&gpu, &open("qwen3moe-a-q4_k_m"));
    let prompts = [[3], [4], [5]];
    let sampling = Sampling { top_k: 5, seed: 1, temperature: 0.8, ..Sampling::GREEDY };
    let mut guide = Guide::new(model.limits().vocabulary_tokens);
    guide.reset();
    guide.bias(7, 1e6);
    let pool = model.limits().pages.expect("several lanes share pages");
    let pages = [0, 1].map(|lane| pool.equal_part(lane, 2));
    let start = |lane: u32, prompt| SequenceStart {
        lane,
        pages: &pages[lane as usize],
        ..SequenceStart::new(prompt, 0, 20, &sampling)
    };
    let step = |model: &mut VulkanModel, lanes: &[SequenceId]| {
        let lanes: Vec<StepLane> = lanes.iter().copied().map(StepLane::decode).collect();
        model.submit(&Step { lanes: &lanes, grown: &[] }).expect("submitted")
    };
    let mut first_tokens = |others: u32| -> [u32; 2] {
        let busy = model.open(&SequenceStart { gate: Gate::Guide, ..start(0, &prompts[0]) }).expect("opened");
        let ahead: Vec<_> = (0..3).map(|_| step(&mut model, &[busy])).collect();
        for _ in 0..others {
            let unused = model.open(&start(1, &prompts[1])).expect("opened");
            model.close(unused);
        }
        let own = model.open(&start(1, &prompts[2])).expect("opened");
        let last = step(&mut model, &[own, busy]);
        for ticket in ahead {
            model.guide(ticket, busy, &guide).expect("guided");
            model.wait(ticket).expect("done");
        }
        model.guide(last, busy, &guide).expect("guided");
        let output = model.wait(last).expect("done");
        model.close(busy);
        model.close(own);
        [0, 1].map(|lane: usize| output.lanes[lane].tokens.as_slice()[0])
    };
    let expected = first_tokens(0);
    assert_eq!(expected[1], 7, "the guide wants this token");
    assert_eq!(first_tokens(3), expected);
}
