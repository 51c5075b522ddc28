//! Few pages for many sequences, on the device: they take pages that hold the beginnings of their prompts, give their pages back to others and go on later, and get
//! the tokens, the log-probabilities, the keys and the values that they get alone, to the bit. Whatever a page held before is poisoned when a sequence gets it.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use zinc_kernels::ops::CacheFormat;
use zinc_kernels::step::{PAGE_POSITIONS, StepShape};
use zinc_model::device::DeviceModel;
use zinc_model::memory::LoadOptions;
use zinc_model::plan::{CacheOptions, RowCounts};
use zinc_model::{Error, Model};
use zinc_sched::adapter::{VulkanModel, VulkanOptions};
use zinc_sched::{
    Engine, EngineOptions, FinishReason, FnClock, Guide, HostChoice, InflightDepth, ModelCounters, ModelLimits, Outlet,
    Outlets, Request, SequenceId, SequenceStart, Started, Step, StepModel, StepOutput, Ticket, Token,
};
use zinc_vk::{Access, Buffer, Placement, QueueKind, RecordingBuilder, TimelinePoint, host_now_ns};

use crate::cache::{POISON, poison_cache, read_cache};
use crate::gpu::Gpu;
use crate::matrix;
use crate::ways::cases::kinds;

const CONTEXT: u32 = 320;

/// What a sequence had in the cache when it was closed: keys and values of each layer, in turn, at its positions.
struct Closed {
    /// Its tokens when it was opened.
    tokens: Vec<u32>,
    /// They are there once the point is reached. Nobody waits before all is answered: steps of others may wait for their gates meanwhile.
    layers: Vec<Arc<Buffer>>,
    copied: TimelinePoint,
}

/// A model on the device that poisons pages before a sequence gets them, and keeps what lies in them when it is closed.
struct Poisoning<'a> {
    gpu: &'a Gpu,
    driven: VulkanModel,
    loaded: Arc<DeviceModel>,
    open: HashMap<SequenceId, (Vec<u32>, Vec<u32>)>,
    closed: Vec<Closed>,
}

impl Poisoning<'_> {
    /// Poisons pages behind all that was submitted so far.
    fn poison(&self, pages: &[u32]) -> Result<(), Error> {
        let device = self.gpu.pipelines.device();
        let mut recording = RecordingBuilder::new(device, QueueKind::Compute, "poison")?;
        recording.barrier(Access::SHADER_READ | Access::SHADER_WRITE, Access::TRANSFER_WRITE);
        for cache in self.loaded.caches() {
            let bytes = cache.size() / u64::from(self.loaded.cache().pages());
            for page in pages {
                recording.fill(cache, u64::from(*page) * bytes, bytes, u32::from_ne_bytes([POISON; 4]));
            }
        }
        recording.barrier(Access::TRANSFER_WRITE, Access::SHADER_READ | Access::SHADER_WRITE);
        device.compute_queue().submit(&recording.finish()?, &[])?;
        Ok(())
    }
}

impl StepModel for Poisoning<'_> {
    type Error = Error;

    fn limits(&self) -> ModelLimits {
        self.driven.limits()
    }

    fn feed_rows(&self, fed: u32) -> u32 {
        self.driven.feed_rows(fed)
    }

    fn open(&mut self, start: &SequenceStart<'_>) -> Result<SequenceId, Error> {
        self.poison(&start.pages[(start.cached / PAGE_POSITIONS) as usize..])?;
        let sequence = self.driven.open(start)?;
        self.open.insert(sequence, (start.tokens.to_vec(), start.pages.to_vec()));
        Ok(sequence)
    }

    fn close(&mut self, sequence: SequenceId) {
        let (tokens, pages) = self.open.remove(&sequence).expect("it is open");
        let device = self.gpu.pipelines.device();
        let mut recording = RecordingBuilder::new(device, QueueKind::Compute, "closed").expect("a recording");
        recording.barrier(Access::SHADER_WRITE, Access::TRANSFER_READ);
        let mut layers = Vec::new();
        for cache in self.loaded.caches() {
            let bytes = cache.size() / u64::from(self.loaded.cache().pages());
            let layer =
                Buffer::new(device, "closed", pages.len() as u64 * bytes, Placement::Readback).expect("a buffer");
            for (index, page) in (0..).zip(&pages) {
                recording.copy(cache, u64::from(*page) * bytes, &layer, index * bytes, bytes);
            }
            layers.push(layer);
        }
        let recording = recording.finish().expect("a recording");
        let copied = device.compute_queue().submit(&recording, &[]).expect("submitted");
        self.closed.push(Closed { tokens, layers, copied });
        self.driven.close(sequence);
    }

    fn submit(&mut self, step: &Step<'_>) -> Result<Ticket, Error> {
        if !step.grown.is_empty() {
            self.poison(&step.grown.iter().map(|grown| grown.page).collect::<Vec<_>>())?;
        }
        for grown in step.grown {
            self.open.get_mut(&grown.sequence).expect("it is open").1.push(grown.page);
        }
        self.driven.submit(step)
    }

    fn ranges(&mut self, rows: u32, position: u32) -> Vec<Duration> {
        self.driven.ranges(rows, position)
    }

    fn submit_range(&mut self, step: &Step<'_>, range: u32) -> Result<Option<Ticket>, Error> {
        self.driven.submit_range(step, range)
    }

    fn guide(&mut self, ticket: Ticket, sequence: SequenceId, guide: &Guide) -> Result<(), Error> {
        self.driven.guide(ticket, sequence, guide)
    }

    fn logits(&mut self, ticket: Ticket, sequence: SequenceId) -> Result<&[f32], Error> {
        self.driven.logits(ticket, sequence)
    }

    fn choose(&mut self, ticket: Ticket, sequence: SequenceId, choice: HostChoice) -> Result<(), Error> {
        self.driven.choose(ticket, sequence, choice)
    }

    fn wait(&mut self, ticket: Ticket) -> Result<StepOutput, Error> {
        self.driven.wait(ticket)
    }

    fn wait_or_stop(&mut self, ticket: Ticket, stop: &dyn Fn(SequenceId) -> bool) -> Result<StepOutput, Error> {
        self.driven.wait_or_stop(ticket, stop)
    }

    fn cancel(&mut self, sequence: SequenceId) {
        self.driven.cancel(sequence);
    }

    fn counters(&self) -> ModelCounters {
        self.driven.counters()
    }
}

/// The reader of a request, who goes away after so many tokens.
struct Reader {
    request: usize,
    tokens: Vec<Token>,
    most: usize,
}

impl Outlet for Reader {
    fn tokens(&mut self, tokens: &[Token]) -> usize {
        self.tokens.extend_from_slice(tokens);
        tokens.len()
    }

    fn cancelled(&self) -> bool {
        self.tokens.len() >= self.most
    }
}

#[derive(Default)]
struct Readers(Vec<(SequenceId, Reader)>);

impl Outlets for Readers {
    fn outlet(&mut self, sequence: SequenceId) -> &mut dyn Outlet {
        &mut self.0.iter_mut().find(|(own, _)| *own == sequence).expect("it runs").1
    }

    fn cancelled(&self, sequence: SequenceId) -> bool {
        self.0.iter().find(|(own, _)| *own == sequence).expect("it runs").1.cancelled()
    }
}

/// Requests of every kind of sampling, whose prompts begin with one of three texts of up to three pages, for answers of up to so many tokens.
fn requests(vocabulary: u32, count: u32, tokens: u32) -> Vec<Request> {
    let kinds = kinds();
    let request = |number: u32| {
        let mut request = kinds[number as usize % kinds.len()].request(number, vocabulary, tokens - number % 11);
        let (text, common) = (number % 3, PAGE_POSITIONS * (number % 4) / 2 + 40);
        request.prompt = (0..common).map(|i| (i * i + 5 * text + 3) % (vocabulary - 1)).collect();
        request.prompt.extend([number, 2 * number + 1, 7].map(|token| token % (vocabulary - 1)));
        request.with_logprobs((number % 3 == 1).then_some(5))
    };
    (0..count).map(request).collect()
}

fn load(gpu: &Gpu, model: &Arc<Model>, lanes: u32, pages: u32) -> Arc<DeviceModel> {
    let tokens = (lanes > 1).then_some(pages * PAGE_POSITIONS);
    let cache = CacheOptions::new(CONTEXT, CacheFormat::F16, CacheFormat::F16);
    let cache = cache.with_lanes(lanes).with_cache_tokens(tokens);
    let options = LoadOptions::new(cache).with_counts(RowCounts::new(32, StepShape::of(lanes).rows()));
    Arc::new(DeviceModel::load(&gpu.pipelines, model, options, &mut |_| {}).expect("a tiny model loads"))
}

fn drive(loaded: &Arc<DeviceModel>, depth: u32) -> VulkanModel {
    let options = VulkanOptions::new(InflightDepth::new(depth).expect("a depth")).with_feed_shape(StepShape::of(32));
    VulkanModel::new(loaded.clone(), options).expect("the model is driven")
}

fn options(depth: u32) -> EngineOptions {
    EngineOptions::default().with_depth(InflightDepth::new(depth).expect("a depth")).with_reserve_tokens(8)
}

/// A token and the bits of its log-probabilities.
fn bits(token: &Token) -> (u32, Vec<u32>) {
    let logprobs = token.logprobs.iter().flat_map(|logprobs| {
        let top = logprobs.top.iter().flat_map(|(id, value)| [*id, value.to_bits()]);
        std::iter::once(logprobs.chosen.to_bits()).chain(top).collect::<Vec<u32>>()
    });
    (token.id, logprobs.collect())
}

/// What a request gets alone: its tokens, and keys and values of each layer at the positions of all tokens but the last.
struct Truth {
    tokens: Vec<(u32, Vec<u32>)>,
    cache: Vec<Vec<u8>>,
}

fn alone(gpu: &Gpu, model: &Arc<Model>, requests: &[Request]) -> Vec<Truth> {
    let loaded = load(gpu, model, 1, 0);
    let mut engine = Engine::new(drive(&loaded, 2), FnClock(host_now_ns), options(2)).expect("an engine");
    let truth = |request: &Request| {
        engine.roll_back(0);
        let mut tokens: Vec<Token> = Vec::new();
        let completion = engine.run(request, &mut tokens).expect("answered");
        assert_eq!(completion.reason, FinishReason::Length);
        let positions = request.prompt.len() + tokens.len() - 1;
        Truth { tokens: tokens.iter().map(bits).collect(), cache: read_cache(gpu, &loaded, positions as u32) }
    };
    requests.iter().map(truth).collect()
}

/// Answers all requests, as many at a time as there are lanes and pages, some of whose readers go away. Returns how often sequences gave their pages back, and how many
/// tokens of prompts were found in pages.
fn check(gpu: &Gpu, model: &Arc<Model>, truth: &[Truth], requests: &[Request], way: (u32, u32, u32)) -> (u64, u64) {
    let (lanes, pages, depth) = way;
    let loaded = load(gpu, model, lanes, pages);
    poison_cache(gpu, &loaded);
    let driven = drive(&loaded, depth);
    let model = Poisoning { gpu, driven, loaded, open: HashMap::new(), closed: Vec::new() };
    let mut engine = Engine::new(model, FnClock(host_now_ns), options(depth)).expect("an engine");
    // Each request twice; the first time every fifth reader goes away early.
    let asked: Vec<usize> = (0..requests.len()).chain((0..requests.len()).rev()).collect();
    let (mut next, mut readers, mut cached, mut left) = (0, Readers::default(), 0, Vec::new());
    while next < asked.len() || engine.running() > 0 {
        while next < asked.len() && engine.admits(&requests[asked[next]]) {
            let request = asked[next];
            let leaves = next < requests.len() && request % 5 == 2;
            let reader =
                Reader { request, tokens: Vec::new(), most: if leaves { 1 + request % 30 } else { usize::MAX } };
            next += 1;
            match engine.start(&Arc::new(requests[request].clone()), &reader).expect("started") {
                Started::Running(id) => readers.0.push((id, reader)),
                Started::Ended(completion) => panic!("{completion:?}"),
            }
        }
        for ended in engine.turn(&mut readers).expect("the model goes on") {
            let place = readers.0.iter().position(|(id, _)| *id == ended.sequence).expect("it ran");
            let (_, reader) = readers.0.remove(place);
            let completion = ended.result.expect("the sequence has an end");
            let tokens = &truth[reader.request].tokens;
            let found: Vec<_> = reader.tokens.iter().map(bits).collect();
            let name = format!("request {}, {way:?}", reader.request);
            cached += u64::from(completion.usage.cached_tokens);
            if completion.reason == FinishReason::Cancelled {
                assert!(tokens.starts_with(&found), "{name}: tokens up to its end");
                continue;
            }
            assert!(&found == tokens, "{name}: tokens and log-probabilities");
            // It is the last one that was closed with this prompt.
            let own = |closed: &Closed| closed.tokens.starts_with(&requests[reader.request].prompt);
            let place = engine.model().closed.iter().rposition(own).expect("it was closed");
            left.push((reader.request, place));
        }
    }
    for (request, place) in &left {
        let Closed { layers, copied, .. } = &engine.model().closed[*place];
        copied.wait().expect("the device goes on");
        for (layer, (left, expected)) in layers.iter().zip(&truth[*request].cache).enumerate() {
            let mut found = vec![0; expected.len()];
            left.read(0, &mut found);
            assert!(&found == expected, "request {request}, {way:?}: keys or values of layer {layer}");
        }
    }
    let counts = engine.pages().expect("the cache has pages");
    assert_eq!((counts.used, counts.free + counts.cached), (0, pages), "a page is lost");
    assert!(left.len() > requests.len(), "{} requests were answered", left.len());
    (engine.counts().preemptions, cached)
}

#[test]
fn few_pages_and_known_ones_change_nothing() {
    let gpu = Gpu::borrow();
    let names = ["qwen3moe-a-q4_k_m", "llama-f16"];
    // Lanes, pages and depth: pages for one sequence and a little more, and for about half of what all may need.
    let ways = [(4, 6, 4), (8, 12, 2), (3, 4, 1), (16, 20, 4)];
    // A sequence that needs one page more than it began with nearly always finds one, so that most have to need two.
    let (names, ways, count, tokens) =
        if matrix::is_full() { (&names[..], &ways[..], 60, 110) } else { (&names[..1], &ways[..1], 14, 70) };
    for name in names {
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/tiny").join(name).with_extension("gguf");
        let model = Arc::new(Model::open(path).expect("a tiny model opens"));
        let requests = requests(model.config.n_vocab, count, tokens);
        let truth = alone(&gpu, &model, &requests);
        for way in ways {
            let (preemptions, cached) = check(&gpu, &model, &truth, &requests, *way);
            println!(
                "{name}, {way:?}: {preemptions} times pages were given back, {cached} tokens of prompts were known"
            );
            assert!(
                preemptions > 0 && cached > 0,
                "{name}, {way:?}: {preemptions} preemptions, {cached} tokens cached"
            );
        }
    }
}
