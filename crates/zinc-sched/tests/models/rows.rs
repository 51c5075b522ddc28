//! Steps of several rows of tiny models: whatever a prompt is cut into and whatever the drafts are, the tokens, their logits and the cache are
//! those of steps of one row, to the bit.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use zinc_kernels::generated::lane::{
    FINISH_BUDGET, FINISH_CONTEXT_FULL, FINISH_END_OF_GENERATION, FINISH_NONE, STATUS_FED, STATUS_NO_OP, STATUS_SAMPLED,
};
use zinc_kernels::ops::{ActFormat, CacheFormat, PerLane};
use zinc_kernels::step::{Lane, MOST_ROWS, MOST_RUN, StepLanes, StepReport, StepShape, StepState};
use zinc_model::Model;
use zinc_model::device::{DeviceModel, MOST_RANGE, StepIo};
use zinc_model::interpret::Interpreter;
use zinc_model::memory::LoadOptions;
use zinc_model::plan::{Array, CacheOptions, Drafts, Lookup, PlanKind, PlanOptions, RowCounts, StepPlan};
use zinc_vk::{Access, Buffer, Placement, QueueKind, RecordingBuilder};

use crate::gpt_oss::GPT_OSS;
use crate::gpu::Gpu;
use crate::matrix;
use crate::qwen35::{QWEN35, QWEN35_MOE};
use crate::tiny::models;

const PROMPT: [u32; 6] = [336, 250, 473, 62, 250, 473];
const CONTEXT: u32 = 96;
/// Tokens that a sequence generates.
const GENERATED: u32 = 40;
/// The most drafts of a step.
const DRAFTS: u32 = MOST_RUN - 1;

/// What runs steps of a sequence, one after the other.
trait Steps {
    fn model(&self) -> &Arc<Model>;
    fn state(&self) -> StepState;
    fn set_state(&mut self, state: StepState);
    fn set_tokens(&mut self, first: u32, tokens: &[u32]);
    fn set_end_tokens(&mut self, tokens: &[u32]);
    /// Sets the lane of a draft model, which has moved on over the drafts of the next step.
    fn set_draft(&mut self, lane: Lane);
    /// The report, and the logits of each row of a step that samples.
    fn step(&mut self, plan: &StepPlan) -> (StepReport, Vec<Vec<f32>>);

    /// A plan for steps of this shape.
    fn plan(&self, kind: PlanKind, act: ActFormat, shape: StepShape) -> StepPlan {
        StepPlan::new(&self.model().weights, &PlanOptions::new(kind, act).with_shape(shape))
    }

    /// A plan for steps that verify as many drafts as there can be.
    fn verifying_plan(&self, act: ActFormat) -> StepPlan {
        let options = PlanOptions::new(PlanKind::Decode, act).with_shape(StepShape::SEVERAL);
        StepPlan::new(&self.model().weights, &options.with_drafts(Drafts::Proposed(DRAFTS)))
    }

    /// Whether the sequence has not ended.
    fn goes_on(&self) -> bool {
        self.state().lane.finish == FINISH_NONE
    }
}

/// Where the parts of a sequence lie in its buffer, behind its state.
const DRAFT_OFFSET: u64 = (size_of::<StepState>() as u64).next_multiple_of(128);
const WANTED_OFFSET: u64 = 2 * DRAFT_OFFSET;
const REPORT_OFFSET: u64 = WANTED_OFFSET + (size_of::<StepLanes>() as u64).next_multiple_of(128);
const CANCELLED_OFFSET: u64 = REPORT_OFFSET + 128;
const END_TOKENS_OFFSET: u64 = CANCELLED_OFFSET + 256;
const TOKENS_OFFSET: u64 = END_TOKENS_OFFSET + 256;

/// A sequence of a model on a device.
struct OnDevice<'a> {
    gpu: &'a Gpu,
    model: DeviceModel,
    sequence: Arc<Buffer>,
    /// The address of the state of the model that drafts.
    draft: u64,
}

impl<'a> OnDevice<'a> {
    fn new(gpu: &'a Gpu, model: &Arc<Model>, cache: CacheOptions, rows: u32) -> Self {
        let counts = RowCounts::new(rows, rows.min(MOST_RUN));
        let options = LoadOptions::new(cache).with_counts(counts);
        let model = DeviceModel::load(&gpu.pipelines, model, options, &mut |_| {}).expect("a tiny model loads");
        let bytes = TOKENS_OFFSET + 4 * cache.token_places();
        let sequence =
            Buffer::new(gpu.pipelines.device(), "sequence", bytes, Placement::Readback).expect("a sequence's buffer");
        sequence.write(CANCELLED_OFFSET, &0u32.to_le_bytes());
        Self { gpu, model, draft: sequence.address() + DRAFT_OFFSET, sequence }
    }

    fn io(&self) -> StepIo {
        let at = |offset| self.sequence.address() + offset;
        StepIo {
            state: at(0),
            wanted: at(WANTED_OFFSET),
            draft: (self.draft, 0),
            reports: PerLane { address: at(REPORT_OFFSET), stride: 0 },
            cancelled: at(CANCELLED_OFFSET),
            ..StepIo::default()
        }
    }

    fn submit(&self, record: impl FnOnce(&mut RecordingBuilder)) {
        let device = self.gpu.pipelines.device();
        let mut recording = RecordingBuilder::new(device, QueueKind::Compute, "step").expect("a recording");
        recording.keep(self.sequence.clone());
        record(&mut recording);
        let recording = recording.finish().expect("a recording");
        device.compute_queue().submit(&recording, &[]).expect("submitted").wait().expect("done");
    }
}

impl Steps for OnDevice<'_> {
    fn model(&self) -> &Arc<Model> {
        self.model.model()
    }

    fn state(&self) -> StepState {
        let mut bytes = [0; size_of::<StepState>()];
        self.sequence.read(0, &mut bytes);
        bytemuck::pod_read_unaligned(&bytes)
    }

    fn set_state(&mut self, mut state: StepState) {
        let at = |offset| self.sequence.address() + offset;
        (state.lane.tokens, state.lane.end_tokens) = (at(TOKENS_OFFSET), at(END_TOKENS_OFFSET));
        self.sequence.write(0, bytemuck::bytes_of(&state));
    }

    fn set_draft(&mut self, lane: Lane) {
        self.sequence.write(DRAFT_OFFSET, bytemuck::bytes_of(&StepState::from(lane)));
    }

    fn set_tokens(&mut self, first: u32, tokens: &[u32]) {
        self.sequence.write(TOKENS_OFFSET + 4 * u64::from(first), bytemuck::cast_slice(tokens));
    }

    fn set_end_tokens(&mut self, tokens: &[u32]) {
        self.sequence.write(END_TOKENS_OFFSET, bytemuck::cast_slice(tokens));
    }

    fn step(&mut self, plan: &StepPlan) -> (StepReport, Vec<Vec<f32>>) {
        let bytes = self.model.activation(Array::Logits, 0).2;
        let device = self.gpu.pipelines.device();
        let rows = if plan.kind == PlanKind::Decode { plan.shape.rows() } else { 0 };
        let readback = Buffer::new(device, "logits", bytes * u64::from(rows.max(1)), Placement::Readback);
        let readback = readback.expect("a buffer");
        let lane = self.state().lane;
        // The last token of a prompt counts as sampled only if it is the first row of a step. A recurrent state would take it in twice.
        let fed = lane.prompt_length.saturating_sub(1 + lane.position);
        let is_fed = fed > 0 && self.model.model().config.recurrent_bytes(0) > 0;
        self.want(if is_fed { plan.shape.rows().min(fed) } else { plan.shape.rows() });
        // Each range is a submission, as those of a model are, since a processor takes long for a step of thousands of rows.
        let mut ranges = self.model.ranges(plan.clone(), MOST_RANGE);
        let last = ranges.pop().expect("a plan has a range at least");
        for range in &ranges {
            self.submit(|recording| self.model.record(range, &self.io(), recording).expect("a step is recorded"));
        }
        self.submit(|recording| {
            self.model.record(&last, &self.io(), recording).expect("a step is recorded");
            recording.barrier(Access::SHADER_WRITE, Access::TRANSFER_READ);
            for row in 0..rows {
                let (activations, offset, bytes) = self.model.activation(Array::Logits, row);
                recording.copy(activations, offset, &readback, u64::from(row) * bytes, bytes);
            }
        });
        let mut report = [0; size_of::<StepReport>()];
        self.sequence.read(REPORT_OFFSET, &mut report);
        let mut logits = vec![0.0f32; (bytes * u64::from(rows)) as usize / 4];
        readback.read(0, bytemuck::cast_slice_mut(&mut logits));
        (bytemuck::pod_read_unaligned(&report), logits.chunks(bytes as usize / 4).map(<[f32]>::to_vec).collect())
    }
}

impl OnDevice<'_> {
    /// Says how many rows the next steps may have.
    fn want(&self, rows: u32) {
        self.sequence.write(WANTED_OFFSET, bytemuck::bytes_of(&StepLanes::of(&[0], rows)));
    }

    /// Keys and values of the first `positions` positions, layer by layer.
    fn cache(&self, positions: u32) -> Vec<Vec<u8>> {
        let device = self.gpu.pipelines.device();
        let caches = self.model.caches();
        let read = caches.iter().map(|cache| {
            let bytes = cache.size() / u64::from(self.model.cache().context) * u64::from(positions);
            let readback = Buffer::new(device, "keys or values", bytes, Placement::Readback).expect("a buffer");
            self.submit(|recording| {
                recording.copy(cache, 0, &readback, 0, bytes);
            });
            let mut found = vec![0; bytes as usize];
            readback.read(0, &mut found);
            found
        });
        read.collect()
    }

    /// Overwrites all keys and values, and recurrent states, with NaN.
    fn poison_cache(&self) {
        let device = self.gpu.pipelines.device();
        let states: Vec<Arc<Buffer>> = self.model.state(0, 0).into_iter().map(|part| part.buffer).collect();
        for cache in self.model.caches().iter().chain(&states) {
            let poison = Buffer::new(device, "poison", cache.size(), Placement::Upload).expect("a buffer");
            poison.write(0, &vec![0xff; cache.size() as usize]);
            self.submit(|recording| {
                recording.keep(poison.clone());
                recording.copy(&poison, 0, cache, 0, cache.size());
            });
        }
    }
}

impl Steps for Interpreter {
    fn model(&self) -> &Arc<Model> {
        self.model()
    }

    fn state(&self) -> StepState {
        self.state
    }

    fn set_state(&mut self, state: StepState) {
        self.state = state;
    }

    fn set_tokens(&mut self, first: u32, tokens: &[u32]) {
        self.tokens[first as usize..][..tokens.len()].copy_from_slice(tokens);
    }

    fn set_end_tokens(&mut self, tokens: &[u32]) {
        self.end_tokens = tokens.to_vec();
    }

    fn set_draft(&mut self, lane: Lane) {
        self.draft = lane;
    }

    fn step(&mut self, plan: &StepPlan) -> (StepReport, Vec<Vec<f32>>) {
        let report = self.step_of(plan);
        (report, (0..plan.shape.rows() as usize).map(|row| self.logits_of(row).to_vec()).collect())
    }
}

/// How a sequence is sampled.
#[derive(Clone, Copy, Debug)]
enum Draw {
    Greedy,
    Sampled,
}

fn start(draw: Draw) -> Lane {
    Lane {
        token: PROMPT[0],
        prompt_length: PROMPT.len() as u32,
        budget: GENERATED,
        context_length: CONTEXT,
        seed_low: 17,
        inverse_temperature: match draw {
            Draw::Greedy => 0.0,
            Draw::Sampled => 1.25,
        },
        sequence: 1,
        ..Lane::default()
    }
}

/// Begins a sequence and feeds its prompt but for the last token.
fn begin<S: Steps>(steps: &mut S, lane: Lane, end_tokens: &[u32], act: ActFormat) {
    steps.set_state(StepState::from(Lane { end_token_count: end_tokens.len() as u32, ..lane }));
    steps.set_tokens(0, &[u32::MAX; CONTEXT as usize + MOST_RUN as usize]);
    steps.set_tokens(0, &PROMPT);
    steps.set_end_tokens(end_tokens);
    let feed = steps.plan(PlanKind::Feed, act, StepShape::ONE);
    for position in 1..PROMPT.len() as u32 {
        let (report, _) = steps.step(&feed);
        assert_eq!((report.status, report.position, report.fed, report.count), (STATUS_FED, position, 1, 0));
    }
}

/// Tokens of a sequence from the first generated one on, and the logits that each was chosen from.
struct Truth {
    tokens: Vec<u32>,
    logits: Vec<Vec<f32>>,
}

impl Truth {
    /// By steps of one row.
    fn generate<S: Steps>(steps: &mut S, draw: Draw, act: ActFormat) -> Self {
        begin(steps, start(draw), &[], act);
        let decode = steps.plan(PlanKind::Decode, act, StepShape::ONE);
        let (mut tokens, mut all_logits) = (Vec::new(), Vec::new());
        while steps.goes_on() {
            let (report, mut logits) = steps.step(&decode);
            assert_eq!((report.status, report.count), (STATUS_SAMPLED, 1));
            tokens.push(report.tokens[0]);
            all_logits.append(&mut logits);
        }
        assert_eq!(tokens.len(), GENERATED as usize);
        Self { tokens, logits: all_logits }
    }

    /// Tokens that come after the one at `position`.
    fn after(&self, position: u32) -> &[u32] {
        &self.tokens[position as usize + 1 - PROMPT.len()..]
    }

    /// Checks what a step from `position` on reported, and the logits of all that it took rightly.
    fn check(&self, what: &str, position: u32, report: &StepReport, logits: &[Vec<f32>]) {
        let count = report.count as usize;
        assert_eq!(report.tokens[..count], self.after(position)[..count], "{what}: tokens from {position} on");
        assert_eq!(report.position, position + report.count, "{what}");
        for (row, logits) in (0..).zip(&logits[..count]) {
            self.check_logits(&format!("{what}: row {row} of the step from {position} on"), position + row, logits);
        }
    }

    /// Checks the logits after the token at `position`.
    fn check_logits(&self, what: &str, position: u32, logits: &[f32]) {
        let expected = &self.logits[position as usize + 1 - PROMPT.len()];
        assert!(logits.iter().zip(expected).all(|(a, b)| a.to_bits() == b.to_bits()), "{what}: logits");
    }
}

/// A step with as many drafts as the context has room for, whatever the budget: the truth, but for the draft at place `wrong`.
fn speculate<S: Steps>(
    steps: &mut S,
    plan: &StepPlan,
    truth: &Truth,
    wrong: Option<u32>,
) -> (u32, StepReport, Vec<Vec<f32>>) {
    let lane = steps.state().lane;
    let room = (plan.shape.rows() - 1).min(lane.context_length - lane.position - 1);
    let mut drafts: Vec<u32> = truth.after(lane.position).iter().copied().take(room as usize).collect();
    let vocabulary = steps.model().config.n_vocab;
    if let Some(draft) = wrong.and_then(|place| drafts.get_mut(place as usize)) {
        *draft = (*draft + 1) % vocabulary;
    }
    steps.set_tokens(lane.position + 1, &drafts);
    steps.set_draft(Lane { position: lane.position + drafts.len() as u32, ..lane });
    let (report, logits) = steps.step(plan);
    (lane.position, report, logits)
}

/// Right drafts are all accepted, wrong ones from the first wrong one on are not, and the sequence goes on as without drafts.
fn check<S: Steps>(what: &str, steps: &mut S, draw: Draw, act: ActFormat) {
    let what = &format!("{what}, {draw:?}, {act:?}");
    let truth = Truth::generate(steps, draw, act);
    let plan = steps.verifying_plan(act);

    begin(steps, start(draw), &[], act);
    for _ in 0..2 {
        let (position, report, logits) = speculate(steps, &plan, &truth, None);
        truth.check(what, position, &report, &logits);
        assert_eq!((report.count, report.finish), (MOST_RUN, FINISH_NONE), "{what}: right drafts");
    }

    // A wrong draft at each place; each step stands on the cache that the one before left.
    begin(steps, start(draw), &[], act);
    let decode = steps.plan(PlanKind::Decode, act, StepShape::ONE);
    for place in (0..DRAFTS).cycle() {
        let budget = steps.state().lane.budget;
        let (position, report, logits) = speculate(steps, &plan, &truth, Some(place));
        truth.check(what, position, &report, &logits);
        assert_eq!(report.count, (1 + place).min(budget), "{what}: draft {place} is wrong");
        if steps.goes_on() {
            let position = steps.state().lane.position;
            let (report, logits) = steps.step(&decode);
            truth.check(what, position, &report, &logits);
        }
        if !steps.goes_on() {
            break;
        }
    }
    assert_eq!(steps.state().lane.finish, FINISH_BUDGET, "{what}");
}

/// Whatever ends a sequence ends it within a step, too, and the steps behind it do nothing.
fn check_ends<S: Steps>(what: &str, steps: &mut S, act: ActFormat) {
    let truth = Truth::generate(steps, Draw::Greedy, act);
    let plan = steps.verifying_plan(act);
    let first = start(Draw::Greedy);
    let length = PROMPT.len() as u32;
    // The first of the generated tokens that is not among those before it, from the fourth on: it ends the sequence there.
    let ending =
        (3..GENERATED as usize).find(|&at| !truth.tokens[..at].contains(&truth.tokens[at])).expect("a new token");
    for (finish, lane, end_tokens, count) in [
        (FINISH_BUDGET, Lane { budget: 3, ..first }, vec![], 3),
        (FINISH_CONTEXT_FULL, Lane { context_length: length + 4, ..first }, vec![], 5),
        (FINISH_END_OF_GENERATION, first, vec![truth.tokens[ending]], ending as u32 + 1),
    ] {
        begin(steps, lane, &end_tokens, act);
        let mut reported = 0;
        while steps.goes_on() {
            let (position, report, logits) = speculate(steps, &plan, &truth, None);
            truth.check(what, position, &report, &logits);
            reported += report.count;
        }
        assert_eq!((steps.state().lane.finish, reported), (finish, count), "{what}");
        let stopped = steps.state().lane;
        let (report, _) = steps.step(&plan);
        assert_eq!((report.status, report.count, report.finish), (STATUS_NO_OP, 0, finish), "{what}");
        assert_eq!(steps.state().lane, Lane { first_row: 0, rows: 0, ..stopped }, "{what}");
    }
}

fn cache(format: CacheFormat) -> CacheOptions {
    CacheOptions::new(CONTEXT, format, format).with_drafts(DRAFTS)
}

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../tests/data/tiny/{name}.gguf"))
}

fn open(name: &str) -> Arc<Model> {
    Arc::new(Model::open(path(name)).expect("a tiny model opens"))
}

#[test]
fn a_step_of_several_rows_is_as_good_as_several_steps() {
    let gpu = Gpu::borrow();
    let model = open("qwen3moe-a-q4_k_m");
    // Without whole matrices two pairs are tried: that of the oracle, and the default.
    const PART: [(CacheFormat, ActFormat); 2] =
        [(CacheFormat::F32, ActFormat::F32), (CacheFormat::F16, ActFormat::Q14)];
    const REST: [(CacheFormat, ActFormat); 2] =
        [(CacheFormat::F32, ActFormat::Q14), (CacheFormat::F16, ActFormat::F32)];
    for (format, act) in PART.into_iter().chain(REST.into_iter().filter(|_| matrix::is_full())) {
        let mut steps = OnDevice::new(&gpu, &model, cache(format), MOST_RUN);
        check(&format!("{format:?} cache"), &mut steps, Draw::Greedy, act);
        check(&format!("{format:?} cache"), &mut steps, Draw::Sampled, act);
    }
}

/// Without whole matrices, a dense model, one with windows, sinks and experts, and one with delta nets and a shared expert are tried.
#[test]
fn so_it_is_with_every_model() {
    let gpu = Gpu::borrow();
    let others = [GPT_OSS, QWEN35_MOE, QWEN35].map(path);
    let part = || ["llama-f16", GPT_OSS, QWEN35_MOE].map(path).to_vec();
    for path in if matrix::is_full() { [&models()[..], &others].concat() } else { part() } {
        let model = Arc::new(Model::open(&path).expect("a tiny model opens"));
        let mut steps = OnDevice::new(&gpu, &model, cache(CacheFormat::F16), MOST_RUN);
        check(&path.display().to_string(), &mut steps, Draw::Sampled, ActFormat::Q14);
        check_ends(&path.display().to_string(), &mut steps, ActFormat::Q14);
    }
}

#[test]
fn so_it_is_with_the_interpreter() {
    for name in ["qwen3moe-a-q4_k_m", "qwen2-f16", GPT_OSS, QWEN35_MOE] {
        let mut steps = Interpreter::new(open(name), cache(CacheFormat::F16));
        check(name, &mut steps, Draw::Sampled, ActFormat::F32);
        check_ends(name, &mut steps, ActFormat::F32);
    }
}

/// Tokens of a sequence whose drafts are looked up, and the steps that they took.
fn looked_up<S: Steps>(what: &str, steps: &mut S, draw: Draw, act: ActFormat) -> u32 {
    let truth = Truth::generate(steps, draw, act);
    let options = PlanOptions::new(PlanKind::Decode, act).with_shape(StepShape::SEVERAL);
    let options = options.with_drafts(Drafts::Lookup(Lookup { ngrams: 1..=3, drafts: DRAFTS }));
    let plan = StepPlan::new(&steps.model().weights, &options);
    begin(steps, start(draw), &[], act);
    let mut count = 0;
    while steps.goes_on() {
        let position = steps.state().lane.position;
        let (report, logits) = steps.step(&plan);
        truth.check(what, position, &report, &logits);
        count += 1;
    }
    assert_eq!(steps.state().lane.position, PROMPT.len() as u32 - 1 + GENERATED, "{what}");
    count
}

#[test]
fn looked_up_drafts_change_no_token() {
    let gpu = Gpu::borrow();
    let mut fewest = GENERATED;
    // Without whole matrices, a model of each kind: dense, with experts, windows and sinks, and with delta nets.
    let names = ["qwen2-f16", GPT_OSS, QWEN35, "qwen3moe-a-q4_k_m", "qwen3moe-b-q8_0", "llama-f16"];
    for name in names.into_iter().take(if matrix::is_full() { 6 } else { 3 }) {
        let model = open(name);
        let mut steps = OnDevice::new(&gpu, &model, cache(CacheFormat::F16), MOST_RUN);
        for draw in [Draw::Greedy, Draw::Sampled] {
            let count = looked_up(name, &mut steps, draw, ActFormat::Q14);
            println!("{name}, {draw:?}: {GENERATED} tokens in {count} steps");
            fewest = fewest.min(count);
        }
    }
    assert!(fewest < GENERATED, "no draft was ever right");
    let mut interpreter = Interpreter::new(open("qwen2-f16"), cache(CacheFormat::F16));
    looked_up("interpreter", &mut interpreter, Draw::Greedy, ActFormat::F32);
}

/// A draft model that is the model itself is always right, greedily or not: it draws with the same random numbers.
#[test]
fn proposed_drafts_are_verified() {
    let gpu = Gpu::borrow();
    let model = open("qwen3moe-a-q4_k_m");
    let act = ActFormat::Q14;
    let mut steps = OnDevice::new(&gpu, &model, cache(CacheFormat::F16), MOST_RUN);
    let mut draft = OnDevice::new(&gpu, &model, cache(CacheFormat::F16), 1);
    for draw in [Draw::Greedy, Draw::Sampled] {
        let truth = Truth::generate(&mut steps, draw, act);
        begin(&mut steps, start(draw), &[], act);
        begin(&mut draft, start(draw), &[], act);
        let decode = draft.plan(PlanKind::Decode, act, StepShape::ONE);
        let verify = steps.verifying_plan(act);
        let io = draft.io();
        steps.draft = io.state;
        let mut counts = Vec::new();
        while steps.goes_on() {
            let position = steps.state().lane.position;
            // The draft model's own lane, over the other's tokens.
            draft.sequence.write(0, bytemuck::bytes_of(&StepState::from(steps.state().lane)));
            draft.want(1);
            draft.submit(|recording| {
                recording.keep(steps.sequence.clone());
                // One more than there are drafts: the last one's keys and values are needed if all are right.
                for _ in 0..=DRAFTS {
                    draft.model.record(&decode, &io, recording).expect("a step is recorded");
                    recording.barrier(Access::SHADER_WRITE, Access::SHADER_READ | Access::SHADER_WRITE);
                }
            });
            let (report, logits) = steps.step(&verify);
            truth.check("a draft model", position, &report, &logits);
            counts.push(report.count);
        }
        assert_eq!(counts, [MOST_RUN, MOST_RUN, GENERATED - 2 * MOST_RUN]);
    }
}

#[test]
#[should_panic(expected = "Decode of 4 rows; the model is loaded for 2")]
fn a_plan_for_more_rows_than_the_model_is_refused() {
    let gpu = Gpu::borrow();
    let model = open("qwen2-f16");
    let mut steps = OnDevice::new(&gpu, &model, cache(CacheFormat::F16), 2);
    let plan = steps.plan(PlanKind::Decode, ActFormat::F32, StepShape::FOUR);
    steps.step(&plan);
}

/// What was generated by steps of one row is read again as a prompt, by steps of each of these shapes: the keys and values are the same, and so are
/// the logits, of the last token alone and of every one.
fn check_cuts(what: &str, steps: &mut OnDevice<'_>, shapes: &[StepShape], act: ActFormat) {
    let truth = Truth::generate(steps, Draw::Greedy, act);
    // The last token that was generated was not taken in.
    let tokens = [&PROMPT[..], &truth.tokens[..GENERATED as usize - 1]].concat();
    let length = tokens.len() as u32;
    let generated = steps.cache(length);
    let lane = Lane { prompt_length: length, ..start(Draw::Greedy) };
    let begin = |steps: &mut OnDevice<'_>| {
        steps.poison_cache();
        steps.set_tokens(0, &tokens);
        steps.set_state(lane.into());
    };
    for &shape in shapes {
        let what = format!("{what}, {act:?}, {} rows", shape.rows());
        begin(steps);
        let (feed, decode) =
            (steps.plan(PlanKind::Feed, act, shape), steps.plan(PlanKind::Decode, act, StepShape::ONE));
        let mut position = 0;
        while position + 1 < length {
            let (report, _) = steps.step(&feed);
            let rows = shape.rows().min(length - 1 - position);
            assert_eq!((report.status, report.fed, report.count), (STATUS_FED, rows, 0), "{what}: at {position}");
            position += rows;
        }
        let (report, logits) = steps.step(&decode);
        assert_eq!((report.status, report.position), (STATUS_SAMPLED, length), "{what}");
        truth.check_logits(&format!("{what}, as a prompt"), length - 1, &logits[0]);
        assert!(steps.cache(length) == generated, "{what}: keys and values as a prompt");
        if shape > StepShape::SEVERAL {
            continue; // such a step has no logits
        }

        begin(steps);
        let decode = steps.plan(PlanKind::Decode, act, shape);
        let mut position = 0;
        while position < length {
            let (report, logits) = steps.step(&decode);
            for logits in &logits[..(report.fed + report.count) as usize] {
                if position as usize + 1 >= PROMPT.len() {
                    truth.check_logits(&format!("{what}, after {position}"), position, logits);
                }
                position += 1;
            }
        }
        assert!(steps.cache(length) == generated, "{what}: keys and values with logits");
    }
}

/// Without whole matrices, four models have their prompts cut, which together have every kind of layer and meet one row, few rows and many.
#[test]
fn a_prompt_may_be_cut_anywhere() {
    const ALL: &[u32] = &[1, 2, 4, 8, 16, 32, 64];
    const PART: [(&str, &[u32]); 4] =
        [("qwen2-f16", &[1, 32]), ("qwen3moe-a-q4_k_m", &[2, 64]), (GPT_OSS, &[8, 64]), (QWEN35_MOE, &[4, 16, 64])];
    let gpu = Gpu::borrow();
    let part = || PART.map(|(name, rows)| (path(name), rows)).to_vec();
    let whole =
        || models().into_iter().chain([GPT_OSS, QWEN35, QWEN35_MOE].map(path)).map(|path| (path, ALL)).collect();
    for (path, rows) in if matrix::is_full() { whole() } else { part() } {
        let model = Arc::new(Model::open(&path).expect("a tiny model opens"));
        let mut steps = OnDevice::new(&gpu, &model, cache(CacheFormat::F16), 64);
        let shapes: Vec<StepShape> = rows.iter().copied().map(StepShape::of).collect();
        check_cuts(&path.display().to_string(), &mut steps, &shapes, ActFormat::Q14);
        if matrix::is_full() {
            check_cuts(&path.display().to_string(), &mut steps, &shapes, ActFormat::F32);
        }
    }
}

/// A prompt against steps of sixteen rows: the keys and values are the same, and the logits. In the whole matrix it fills a step of the most rows; without it, a dense
/// model, one with windows, sinks and experts, and one with delta nets are tried.
#[test]
fn a_long_prompt_may_be_fed_by_thousands_of_rows() {
    let length = if matrix::is_full() { MOST_ROWS + 50 } else { 560 };
    let gpu = Gpu::borrow();
    let formats = if matrix::is_full() { vec![CacheFormat::F16, CacheFormat::F32] } else { vec![CacheFormat::F16] };
    let names = ["qwen3moe-a-q4_k_m", "qwen2-f16", GPT_OSS, QWEN35];
    for (path, format) in names.into_iter().zip(formats.into_iter().cycle()).skip(usize::from(!matrix::is_full())) {
        let model = open(path);
        let vocabulary = model.config.n_vocab;
        let tokens: Vec<u32> = (0..length).map(|i| (i * i + 7 * i) % vocabulary).collect();
        let mut steps = OnDevice::new(&gpu, &model, CacheOptions::new(length + 4, format, format), MOST_ROWS);
        let lane = Lane { prompt_length: length, context_length: length + 4, ..start(Draw::Greedy) };
        let acts = if matrix::is_full() { vec![ActFormat::Q14, ActFormat::F32] } else { vec![ActFormat::Q14] };
        for act in acts {
            let mut truth = None;
            let rows = if matrix::is_full() { vec![16, 32, 128, 512, 1_024, MOST_ROWS] } else { vec![16, MOST_ROWS] };
            for shape in rows.into_iter().map(StepShape::of) {
                let what = format!("{path}, {act:?}, {} rows", shape.rows());
                steps.poison_cache();
                steps.set_tokens(0, &tokens);
                steps.set_state(lane.into());
                let feed = steps.plan(PlanKind::Feed, act, shape);
                while steps.state().lane.position + 1 < length {
                    let before = steps.state().lane.position;
                    let (report, _) = steps.step(&feed);
                    assert_eq!(report.fed, shape.rows().min(length - 1 - before), "{what}: at {before}");
                }
                let decode = steps.plan(PlanKind::Decode, act, StepShape::ONE);
                let (report, logits) = steps.step(&decode);
                assert_eq!((report.status, report.position), (STATUS_SAMPLED, length), "{what}");
                let found = (steps.cache(length), logits);
                let truth = truth.get_or_insert_with(|| found.clone());
                assert!(found.0 == truth.0, "{what}: keys and values");
                assert!(found.1 == truth.1, "{what}: logits");
            }
        }
    }
}
