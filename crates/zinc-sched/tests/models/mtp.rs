//! Multi-token prediction: what the block computes, against values computed by other programs in double precision; that its drafts change no token; and that as many of
//! them are accepted as the interpreter says.
//!
//! The models are two of `tests/data/arch`: one whose block uses the model's embedding and head, and one whose block has its own.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use zinc_kernels::ops::{ActFormat, CacheFormat};
use zinc_kernels::step::{Lane, MOST_RUN, Row, StepShape};
use zinc_model::Model;
use zinc_model::config::ModelOptions;
use zinc_model::device::DeviceModel;
use zinc_model::interpret::Interpreter;
use zinc_model::memory::LoadOptions;
use zinc_model::plan::{Array, CacheOptions, MtpDraft, PlanKind, PlanOptions, RowCounts, StepPlan};
use zinc_sched::adapter::{DraftSource, VulkanModel, VulkanOptions};
use zinc_sched::{
    Engine, EngineOptions, InflightDepth, Request, Sampling, SpeculationMode, SpeculationStats, SystemClock, Token,
};

use crate::gpu::Gpu;
use crate::matrix;
use crate::ways::cases::kinds;

const MODELS: [&str; 2] = ["qwen35-mtp-a-f16", "qwen35-mtp-b-f16"];

const CONTEXT: u32 = 160;

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/arch").join(name)
}

fn open(name: &str) -> Arc<Model> {
    let options = ModelOptions { mtp: true, ..ModelOptions::default() };
    Arc::new(Model::open_with(data(name).with_extension("gguf"), &options).expect("a tiny model opens"))
}

/// The block on the interpreter, behind the layers of its model.
struct Predictor {
    interpreter: Interpreter,
    feed: StepPlan,
    first: StepPlan,
    next: StepPlan,
}

impl Predictor {
    /// Behind a sequence that begins with `tokens`, of which none is taken in.
    fn new(model: &Arc<Model>, format: CacheFormat, tokens: &[u32]) -> Self {
        let mut interpreter = Interpreter::new(model.clone(), CacheOptions::new(CONTEXT, format, format));
        interpreter.tokens[..tokens.len()].copy_from_slice(tokens);
        interpreter.state.lane = Lane {
            token: tokens[0],
            prompt_length: tokens.len() as u32,
            context_length: CONTEXT,
            budget: 1,
            // Not that of the sequence which is to be cancelled.
            sequence: 1,
            ..Lane::default()
        };
        let options = PlanOptions::new(PlanKind::Feed, ActFormat::F32);
        let layers = StepPlan::forward(&model.weights, &options);
        let draft = |draft| StepPlan::mtp_draft(&model.weights, ActFormat::F32, draft);
        Self {
            interpreter,
            feed: layers.followed_by(StepPlan::mtp_rows(&model.weights, &options)),
            first: draft(MtpDraft::First),
            next: draft(MtpDraft::Next),
        }
    }

    /// Takes in the next token.
    fn feed(&mut self) {
        self.interpreter.layers(&self.feed);
        self.interpreter.advance(&[]);
    }

    fn run(&mut self, plan: &StepPlan) -> Vec<f32> {
        plan.ops.iter().for_each(|op| self.interpreter.run(op));
        self.interpreter.array(Array::Logits).expect("logits")
    }

    /// The logits of so many drafts behind the token taken in last, which is at `position`.
    fn drafts(&mut self, position: u32, count: u32) -> Vec<Vec<f32>> {
        let (first, next) = (self.first.clone(), self.next.clone());
        let mut logits = vec![self.run(&first)];
        for draft in 1..count {
            let token = best(&logits[logits.len() - 1]);
            self.interpreter.state.rows[0] = Row { offset: 0, token, position: position + draft, lane: 0 };
            self.interpreter.begin_row();
            logits.push(self.run(&next));
        }
        logits
    }
}

fn best(logits: &[f32]) -> u32 {
    let better = |best: usize, id: usize| if logits[id] > logits[best] { id } else { best };
    (0..logits.len()).reduce(better).expect("a vocabulary") as u32
}

/// What the block is to compute behind a prompt.
struct Golden {
    prompt: Vec<u32>,
    /// The tokens behind those of each row.
    behind: Vec<u32>,
    /// `[rows][vocabulary]`: of the tokens of the prompt, and of the drafts.
    logits: Vec<f32>,
    vocabulary: usize,
}

impl Golden {
    fn read(name: &str) -> Self {
        let path = data(&format!("{name}-predicted"));
        let json = std::fs::read(path.with_extension("json")).expect("the golden values");
        let json: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
        let ids = |key: &str| -> Vec<u32> {
            json[key].as_array().expect(key).iter().map(|id| id.as_u64().expect("an id") as u32).collect()
        };
        let bytes = std::fs::read(path.with_extension("logits.f32")).expect("the golden logits");
        let logits: Vec<f32> = bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        let vocabulary = json["vocab"].as_u64().expect("a vocabulary") as usize;
        let behind = ids("tokens");
        assert_eq!(logits.len(), behind.len() * vocabulary, "{name}: logits");
        Self { prompt: ids("ids"), behind, logits, vocabulary }
    }

    fn row(&self, row: usize) -> &[f32] {
        &self.logits[row * self.vocabulary..][..self.vocabulary]
    }
}

/// The golden logits of each row of the block and those of the drafts behind the last token of the prompt.
#[test]
fn the_block_predicts_what_it_should() {
    const DRAFTS: u32 = 4;
    for name in MODELS {
        let model = open(name);
        let golden = Golden::read(name);
        // f32 throughout, and K and V rounded to halves.
        for (format, largest) in [(CacheFormat::F32, 1e-3), (CacheFormat::F16, 1.5e-2)] {
            let mut predictor = Predictor::new(&model, format, &[&golden.prompt[..1], &golden.behind].concat());
            let mut error = 0.0f32;
            let mut compare = |logits: &[f32], row: usize| {
                for (ours, theirs) in logits.iter().zip(golden.row(row)) {
                    error = error.max((ours - theirs).abs());
                }
            };
            let last = golden.prompt.len() - 1;
            for position in 0..=last {
                predictor.feed();
                let count = if position == last { DRAFTS } else { 1 };
                for (draft, logits) in predictor.drafts(position as u32, count).iter().enumerate() {
                    compare(logits, position + draft);
                }
            }
            println!("{name}, {format:?} cache: largest {error:.2e}");
            assert!(error <= largest, "{name}, {format:?} cache: {error}");
        }
    }
}

fn load(gpu: &Gpu, model: &Arc<Model>, format: CacheFormat, feed: StepShape, drafts: u32) -> Arc<DeviceModel> {
    let cache = CacheOptions::new(CONTEXT, format, format).with_drafts(drafts);
    let counts = RowCounts::new(feed.rows(), StepShape::of(drafts + 1).rows().min(MOST_RUN));
    let options = LoadOptions::new(cache).with_counts(counts);
    Arc::new(DeviceModel::load(&gpu.pipelines, model, options, &mut |_| {}).expect("a tiny model loads"))
}

/// An engine that drafts by multi-token prediction, or does not draft.
fn engine(
    loaded: &Arc<DeviceModel>,
    act: ActFormat,
    feed: StepShape,
    depth: u32,
    source: Option<DraftSource>,
) -> Engine<VulkanModel> {
    let depth = InflightDepth::new(depth).expect("a depth in range");
    let options = VulkanOptions::new(depth).with_act(act).with_feed_shape(feed).with_draft_source(source);
    let model = VulkanModel::new(loaded.clone(), options).expect("a tiny model is recorded");
    let options = EngineOptions::default().with_depth(depth).with_speculation(SpeculationMode::Always);
    Engine::new(model, SystemClock::new(), options).expect("the engine starts")
}

/// The tokens of an answer, the bits of the logits of the last one, and what drafts did.
fn answer(engine: &mut Engine<VulkanModel>, request: &Request) -> (Vec<u32>, Vec<u32>, SpeculationStats) {
    let mut tokens: Vec<Token> = Vec::new();
    let completion = engine.run(request, &mut tokens).expect("the model runs");
    let logits = engine.model().last_logits().expect("logits are read");
    let bits = logits.iter().map(|logit| logit.to_bits()).collect();
    (tokens.iter().map(|token| token.id).collect(), bits, completion.speculation_stats)
}

/// What drafts do for an answer: at each step those are accepted that the interpreter drafts rightly.
fn expected_stats(
    model: &Arc<Model>,
    prompt: &[u32],
    answer: &[u32],
    feed: StepShape,
    drafts: u32,
) -> SpeculationStats {
    let sequence = [prompt, answer].concat();
    let mut predictor = Predictor::new(model, CacheFormat::F32, &sequence);
    let mut fed = 0;
    // The first step has no drafts, because no such step was before it. It takes the first token of the answer, or the last one of a prompt that is fed by one row.
    let mut stats = SpeculationStats { steps: 1, tokens: 1, drafts: 0 };
    let mut position = prompt.len() + usize::from(feed > StepShape::ONE);
    while position + 1 < sequence.len() {
        while fed < position {
            predictor.feed();
            fed += 1;
        }
        let room = (sequence.len() - 1 - position).min(CONTEXT as usize - position) - 1;
        let logits = predictor.drafts(position as u32 - 1, drafts);
        let drafted = logits.len().min(room);
        let behind = &sequence[position + 1..];
        let right = logits[..drafted].iter().zip(behind).take_while(|(logits, token)| best(logits) == **token).count();
        stats.steps += 1;
        stats.tokens += right as u64 + 1;
        stats.drafts += drafted as u64;
        position += right + 1;
    }
    stats
}

/// Drafts are those of the block, whatever number of them a step has, and however many rows of the prompt were computed together.
#[test]
fn drafts_are_accepted_as_the_interpreter_says() {
    const TOKENS: u32 = 40;
    let gpu = Gpu::borrow();
    let shapes = [1, 4, 64].map(StepShape::of);
    for name in MODELS {
        let model = open(name);
        let prompt = Golden::read(name).prompt;
        let request = Request::new(prompt.clone(), []).with_max_tokens(TOKENS);
        for (drafts, feed) in (1..=4).zip(shapes.into_iter().cycle()) {
            let loaded = load(&gpu, &model, CacheFormat::F32, feed, drafts);
            let source = Some(DraftSource::Mtp { max_drafts: drafts });
            let (tokens, _, stats) = answer(&mut engine(&loaded, ActFormat::F32, feed, 1, source), &request);
            let expected = expected_stats(&model, &prompt, &tokens, feed, drafts);
            println!("{name}, {drafts} drafts, fed by {feed:?}: {stats:?}");
            assert_eq!(stats, expected, "{name}, {drafts} drafts, fed by {feed:?}");
            assert!(name == MODELS[1] || stats.tokens > stats.steps, "{name}: no draft was right");
        }
    }
}

/// Whatever samples, and whatever was answered before.
#[test]
fn tokens_are_the_same_with_drafts_and_without() {
    let gpu = Gpu::borrow();
    let forms = [(ActFormat::Q14, CacheFormat::F16), (ActFormat::F32, CacheFormat::F32)];
    let forms = if matrix::is_full() { &forms[..] } else { &forms[..1] };
    for (name, feed, depth) in [(MODELS[0], StepShape::of(64), 4), (MODELS[1], StepShape::FOUR, 1)] {
        let model = open(name);
        let vocabulary = model.config.n_vocab;
        let greedy = Request::new(Golden::read(name).prompt, []).with_max_tokens(40);
        let warm = |seed| Sampling { temperature: 0.7, seed, ..Sampling::default() };
        let seeded = (1..3).map(|seed| greedy.clone().with_sampling(warm(seed)));
        let kinds = kinds();
        let others = (0..).zip(&kinds).map(|(number, kind)| kind.request(number, vocabulary, 20));
        let requests: Vec<Request> = [greedy.clone()].into_iter().chain(seeded).chain(others).collect();
        for &(act, format) in forms {
            let loaded = load(&gpu, &model, format, feed, 4);
            let mut plain = engine(&loaded, act, feed, depth, None);
            let expected: Vec<_> = requests.iter().map(|request| answer(&mut plain, request)).collect();
            drop(plain);
            // Without whole matrices, the fewest and the most.
            for max_drafts in (1..=4).step_by(if matrix::is_full() { 1 } else { 3 }) {
                let source = Some(DraftSource::Mtp { max_drafts });
                let mut drafted = engine(&loaded, act, feed, depth, source);
                let mut accepted = 0;
                for (request, (tokens, logits, _)) in requests.iter().zip(&expected) {
                    let found = answer(&mut drafted, request);
                    assert!(
                        (&found.0, &found.1) == (tokens, logits),
                        "{name}, {max_drafts} drafts, {:?}: {:?} instead of {tokens:?}",
                        request.sampling,
                        found.0
                    );
                    accepted += found.2.tokens - found.2.steps;
                }
                println!("{name}, {max_drafts} drafts, {act:?}: {accepted} accepted");
                assert!(accepted > 0 || name == MODELS[1], "{name}, {max_drafts} drafts: none is accepted");
            }
        }
    }
}

/// What is known to follow is accepted wholly while the block drafts beside, and the block's own drafts go nowhere.
#[test]
fn the_block_drafts_beside_an_oracle() {
    const DRAFTS: u32 = 3;
    let gpu = Gpu::borrow();
    let model = open(MODELS[0]);
    let feed = StepShape::of(64);
    let loaded = load(&gpu, &model, CacheFormat::F16, feed, DRAFTS);
    let prompt = Golden::read(MODELS[0]).prompt;
    let request = Request::new(prompt, []).with_max_tokens(1 + 5 * (DRAFTS + 1));
    let (known, _, _) = answer(&mut engine(&loaded, ActFormat::Q14, feed, 4, None), &request);
    let tokens: Arc<[u32]> = known.clone().into();
    let source = DraftSource::Replay { tokens, mtp: true, max_drafts: DRAFTS };
    let (tokens, _, stats) = answer(&mut engine(&loaded, ActFormat::Q14, feed, 4, Some(source)), &request);
    assert_eq!((tokens, stats.steps), (known, 5));
}
