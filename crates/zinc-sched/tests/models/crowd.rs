//! Requests on one device that are answered beside each other, and compared with what each gets alone, to the bit: tokens, log-probabilities, keys and values.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use zinc_kernels::ops::CacheFormat;
use zinc_kernels::step::{PAGE_POSITIONS, StepShape};
use zinc_model::Model;
use zinc_model::device::DeviceModel;
use zinc_model::memory::LoadOptions;
use zinc_model::plan::{CacheOptions, RowCounts};
use zinc_sched::adapter::{DraftSource, VulkanModel, VulkanOptions};
use zinc_sched::{
    Engine, EngineOptions, FinishReason, FnClock, InflightDepth, Outlet, Request, SequenceId, SpeculationMode,
    SpeculationStats, Started, Token,
};
use zinc_vk::host_now_ns;

use crate::cache::read_cache;
use crate::gpu::Gpu;
use crate::poisoned::Poisoned;

/// How sequences share a device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    pub(crate) lanes: u32,
    /// Pages of all sequences together.
    pub(crate) pages: u32,
    /// Steps in flight.
    pub(crate) depth: u32,
    /// Positions that a sequence may have.
    pub(crate) context: u32,
    /// The most rows of steps that feed prompts.
    pub(crate) feed_rows: u32,
    /// How long others may wait for their next token because of a prompt.
    pub(crate) max_gap: Duration,
    /// How many drafts are looked up for each step of a sequence that runs alone; 0 is none.
    pub(crate) max_drafts: u32,
    /// Whether layers with a window have rings.
    pub(crate) rings: bool,
}

impl Way {
    /// A sequence alone, without pages.
    fn alone(context: u32) -> Self {
        let max_gap = EngineOptions::MAX_GAP;
        Self { lanes: 1, pages: 0, depth: 2, context, feed_rows: 32, max_gap, max_drafts: 0, rings: false }
    }

    fn load(self, gpu: &Gpu, model: &Arc<Model>) -> Arc<DeviceModel> {
        let tokens = (self.lanes > 1).then_some(self.pages * PAGE_POSITIONS);
        let cache = CacheOptions::new(self.context, CacheFormat::F16, CacheFormat::F16);
        let cache = cache.with_lanes(self.lanes).with_cache_tokens(tokens).with_drafts(self.max_drafts);
        let sampling_shape = StepShape::of(self.lanes.max(1 + self.max_drafts));
        let counts = RowCounts::new(self.feed_rows, sampling_shape.rows());
        let options = LoadOptions::new(cache).with_counts(counts).with_windows(!self.rings);
        Arc::new(DeviceModel::load(&gpu.pipelines, model, options, &mut |_| {}).expect("a tiny model loads"))
    }

    fn drive(self, loaded: &Arc<DeviceModel>) -> VulkanModel {
        let max_drafts = self.max_drafts;
        let lookup = (max_drafts > 0).then_some(DraftSource::Lookup { ngrams: 1..=3, max_drafts });
        let options = VulkanOptions::new(self.in_flight())
            .with_feed_shape(StepShape::of(self.feed_rows))
            .with_draft_source(lookup);
        VulkanModel::new(loaded.clone(), options).expect("the model is driven")
    }

    fn in_flight(self) -> InflightDepth {
        InflightDepth::new(self.depth).expect("a depth")
    }

    fn options(self) -> EngineOptions {
        EngineOptions::default()
            .with_depth(self.in_flight())
            .with_max_gap(self.max_gap)
            .with_reserve_tokens(8)
            .with_speculation(SpeculationMode::Always)
    }
}

/// The file of a tiny model by its name.
pub(crate) fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/tiny").join(name).with_extension("gguf")
}

/// A tiny model by the name of its file.
pub(crate) fn open(name: &str) -> Arc<Model> {
    Arc::new(Model::open(path(name)).expect("a tiny model opens"))
}

/// A token and the bits of its log-probabilities.
pub(crate) fn bits(token: &Token) -> (u32, Vec<u32>) {
    let logprobs = token.logprobs.iter().flat_map(|logprobs| {
        let top = logprobs.top.iter().flat_map(|(id, value)| [*id, value.to_bits()]);
        std::iter::once(logprobs.chosen.to_bits()).chain(top).collect::<Vec<u32>>()
    });
    (token.id, logprobs.collect())
}

/// A request, and what it gets alone.
pub(crate) struct Known {
    pub(crate) request: Arc<Request>,
    /// Its tokens with their log-probabilities.
    pub(crate) tokens: Vec<(u32, Vec<u32>)>,
    /// Keys and values of each layer at the positions of all tokens but the last.
    cache: Vec<Vec<u8>>,
}

/// A model that answers one request at a time, and keeps nothing from one to the next.
pub(crate) struct Alone<'a> {
    gpu: &'a Gpu,
    loaded: Arc<DeviceModel>,
    engine: Engine<VulkanModel>,
}

impl<'a> Alone<'a> {
    pub(crate) fn new(gpu: &'a Gpu, model: &Arc<Model>, context: u32) -> Self {
        let way = Way::alone(context);
        let loaded = way.load(gpu, model);
        let engine = Engine::new(way.drive(&loaded), FnClock(host_now_ns), way.options()).expect("an engine");
        Self { gpu, loaded, engine }
    }

    /// Answers a request, which must end by its length.
    pub(crate) fn answer(&mut self, request: Request) -> Known {
        self.engine.roll_back(0);
        let mut tokens: Vec<Token> = Vec::new();
        let completion = self.engine.run(&request, &mut tokens).expect("answered");
        assert_eq!(completion.reason, FinishReason::Length);
        let positions = request.prompt.len() + tokens.len() - 1;
        let cache = read_cache(self.gpu, &self.loaded, positions as u32);
        Known { request: Arc::new(request), tokens: tokens.iter().map(bits).collect(), cache }
    }
}

/// A request to be answered in a crowd.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask {
    /// Its number among those that are known.
    pub(crate) number: usize,
    /// Its reader goes away when it has so many tokens.
    pub(crate) most: usize,
    /// It comes when so many tokens have come of all answers together, or when nobody else runs.
    pub(crate) after: usize,
}

impl Ask {
    /// Asks at once, and stays to the end.
    pub(crate) fn now(number: usize) -> Self {
        Self { number, most: usize::MAX, after: 0 }
    }
}

/// Requests for about 100 tokens, whose prompts of 92 or 152 tokens below `vocabulary` have beginnings in common, with what each gets alone in this context. A third of them
/// want log-probabilities.
pub(crate) fn answered_alone(
    gpu: &Gpu,
    model: &Arc<Model>,
    (context, vocabulary): (u32, u32),
    count: u32,
) -> Vec<Known> {
    let mut alone = Alone::new(gpu, model, context);
    let request = |number: u32| {
        let common = (0..90 + 60 * (number % 2)).map(|i| (i * i + number % 3) % vocabulary);
        let prompt: Vec<u32> = common.chain([number, 2 * number + 1].map(|token| token % vocabulary)).collect();
        Request::new(prompt, []).with_max_tokens(100 - number % 11).with_logprobs((number % 3 == 1).then_some(5))
    };
    (0..count).map(|number| alone.answer(request(number))).collect()
}

/// Asks so many requests one after the other, each `spacing` tokens behind the one before; a fifth of their readers leave early. Then asks all of them at once, from the last
/// to the first.
pub(crate) fn asked_twice(count: usize, spacing: usize) -> Vec<Ask> {
    let leaves = |number: usize| if number % 5 == 2 { 1 + number % 30 } else { usize::MAX };
    let first = (0..count).map(|number| Ask { number, most: leaves(number), after: spacing * number });
    first.chain((0..count).rev().map(Ask::now)).collect()
}

/// The answer to an [`Ask`].
pub(crate) struct Answer {
    pub(crate) number: usize,
    pub(crate) tokens: Vec<u32>,
    /// Tokens of its prompt that were found in pages.
    pub(crate) cached: u32,
    /// Whether its reader stayed to the end.
    pub(crate) is_whole: bool,
    /// Its steps with drafts.
    pub(crate) speculation: SpeculationStats,
}

/// Sequences that share a model all of whose pages are poisoned before a sequence gets them.
pub(crate) struct Crowd<'a> {
    way: Way,
    engine: Engine<Poisoned<'a>>,
}

impl<'a> Crowd<'a> {
    pub(crate) fn new(gpu: &'a Gpu, model: &Arc<Model>, way: Way) -> Self {
        let loaded = way.load(gpu, model);
        let model = Poisoned::new(gpu, way.drive(&loaded), loaded);
        let engine = Engine::new(model, FnClock(host_now_ns), way.options()).expect("an engine");
        Self { way, engine }
    }

    /// Answers requests, as many at a time as there are lanes and pages, in the order in which they end.
    ///
    /// # Panics
    /// If one gets other tokens or log-probabilities than alone, or leaves other keys or values; or a page is lost.
    pub(crate) fn answer(&mut self, known: &[Known], asks: &[Ask]) -> Vec<Answer> {
        let (mut waiting, mut readers) = (asks.iter().peekable(), Vec::<(SequenceId, Reader)>::new());
        let (mut answers, mut left) = (Vec::new(), Vec::new());
        let begun = self.engine.counts().tokens;
        while waiting.peek().is_some() || self.engine.running() > 0 {
            let comes = |engine: &Engine<Poisoned<'_>>, ask: &Ask| {
                let tokens = engine.counts().tokens - begun;
                (tokens >= ask.after as u64 || engine.running() == 0) && engine.admits(&known[ask.number].request)
            };
            while let Some(ask) = waiting.next_if(|ask| comes(&self.engine, ask)) {
                let reader = Reader { ask: *ask, tokens: Vec::new() };
                match self.engine.start(&known[ask.number].request, &reader).expect("started") {
                    Started::Running(id) => readers.push((id, reader)),
                    Started::Ended(completion) => panic!("{completion:?}"),
                }
            }
            for ended in self.engine.turn(&mut readers).expect("the model goes on") {
                let place = readers.iter().position(|(id, _)| *id == ended.sequence).expect("it ran");
                let (_, Reader { ask: Ask { number, .. }, tokens }) = readers.swap_remove(place);
                let completion = ended.result.expect("the sequence has an end");
                let Known { request, tokens: expected, .. } = &known[number];
                let found: Vec<_> = tokens.iter().map(bits).collect();
                let is_whole = completion.reason != FinishReason::Cancelled;
                if is_whole {
                    assert!(found == *expected, "request {number}, {:?}: tokens and log-probabilities", self.way);
                    // It is the last one that was closed with this prompt.
                    let closed = self.engine.model().closed.borrow();
                    let own = closed.iter().rposition(|closed| closed.tokens.starts_with(&request.prompt));
                    left.push((number, own.expect("it was closed")));
                } else {
                    assert!(expected.starts_with(&found), "request {number}, {:?}: tokens up to its end", self.way);
                }
                let cached = completion.usage.cached_tokens;
                answers.push(Answer {
                    number,
                    tokens: tokens.iter().map(|token| token.id).collect(),
                    cached,
                    is_whole,
                    speculation: completion.speculation_stats,
                });
            }
        }
        let closed = self.engine.model().closed.take();
        for (number, place) in left {
            let compared = closed[place].compare(&known[number].cache);
            assert_eq!(compared, Ok(()), "request {number}, {:?}: keys or values of this layer", self.way);
        }
        let counts = self.engine.pages().expect("the cache has pages");
        assert_eq!((counts.used, counts.free + counts.cached), (0, self.way.pages), "a page is lost");
        answers
    }

    /// How often sequences gave their pages back to others.
    pub(crate) fn preemptions(&self) -> u64 {
        self.engine.counts().preemptions
    }

    /// How often a sequence began or went on with a checkpoint.
    pub(crate) fn restored(&self) -> u64 {
        self.engine.counts().checkpoints_restored
    }

    /// How often a page was given to a sequence that did not find in it what it needed.
    pub(crate) fn given_pages(&self) -> u64 {
        self.engine.model().given_pages
    }

    /// How many sequences a step had that sampled, each number once, in order.
    pub(crate) fn sampled(&self) -> Vec<u32> {
        self.engine.model().sampled.iter().copied().collect()
    }
}

/// The reader of a request.
struct Reader {
    ask: Ask,
    tokens: Vec<Token>,
}

impl Outlet for Reader {
    fn tokens(&mut self, tokens: &[Token]) -> usize {
        self.tokens.extend_from_slice(tokens);
        tokens.len()
    }

    fn cancelled(&self) -> bool {
        self.tokens.len() >= self.ask.most
    }
}
