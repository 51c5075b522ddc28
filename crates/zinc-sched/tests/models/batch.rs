//! Steps of several tokens of tiny models: whatever the drafts are, the tokens, their logits and the cache are those of steps of one token,
//! to the bit.

use std::path::Path;
use std::sync::Arc;

use zinc_kernels::generated::state::{
    FINISH_BUDGET, FINISH_CONTEXT_FULL, FINISH_END_OF_GENERATION, FINISH_NONE, STATUS_FED, STATUS_NO_OP,
    STATUS_SAMPLED, StepReport, StepState,
};
use zinc_kernels::ops::{ActFormat, CacheFormat, MAX_BATCH};
use zinc_model::Model;
use zinc_model::device::{DeviceModel, StepIo};
use zinc_model::interpret::Interpreter;
use zinc_model::memory::LoadOptions;
use zinc_model::plan::{Array, CacheOptions, PlanKind, StepPlan};
use zinc_vk::{Access, Buffer, Placement, QueueKind, RecordingBuilder};

use crate::gpu::Gpu;
use crate::matrix;
use crate::tiny::models;

const PROMPT: [u32; 6] = [336, 250, 473, 62, 250, 473];
const CONTEXT: u32 = 96;
/// Tokens that a sequence generates.
const GENERATED: u32 = 30;
/// The most drafts of a step.
const DRAFTS: u32 = MAX_BATCH - 1;

/// What runs steps of a sequence, one after the other.
trait Steps {
    fn model(&self) -> &Arc<Model>;
    fn state(&self) -> StepState;
    fn set_state(&mut self, state: StepState);
    fn set_tokens(&mut self, first: u32, tokens: &[u32]);
    fn set_end_tokens(&mut self, tokens: &[u32]);
    /// The report, and the logits of each token of the step.
    fn step(&mut self, plan: &StepPlan) -> (StepReport, Vec<Vec<f32>>);

    /// A plan for so many tokens.
    fn plan(&self, kind: PlanKind, act: ActFormat) -> StepPlan {
        StepPlan::new(&self.model().weights, kind, act)
    }
}

/// Where the parts of a sequence lie in its buffer.
const REPORT_OFFSET: u64 = 256;
const CANCELLED_OFFSET: u64 = 512;
const END_TOKENS_OFFSET: u64 = 768;
const TOKENS_OFFSET: u64 = 1_024;

/// A sequence of a model on a device.
struct OnDevice<'a> {
    gpu: &'a Gpu,
    model: DeviceModel,
    sequence: Arc<Buffer>,
}

impl<'a> OnDevice<'a> {
    fn new(gpu: &'a Gpu, model: &Arc<Model>, cache: CacheOptions, batch: u32) -> Self {
        let options = LoadOptions::new(cache, batch);
        let model = DeviceModel::load(&gpu.pipelines, model, options, &mut |_| {}).expect("a tiny model loads");
        let bytes = TOKENS_OFFSET + 4 * cache.token_places();
        let sequence =
            Buffer::new(gpu.pipelines.device(), "sequence", bytes, Placement::Readback).expect("a sequence's buffer");
        sequence.write(CANCELLED_OFFSET, &0u32.to_le_bytes());
        Self { gpu, model, sequence }
    }

    fn io(&self) -> StepIo {
        let at = |offset| self.sequence.address() + offset;
        StepIo {
            state: at(0),
            report: at(REPORT_OFFSET),
            tokens: at(TOKENS_OFFSET),
            end_tokens: at(END_TOKENS_OFFSET),
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

    fn set_state(&mut self, state: StepState) {
        self.sequence.write(0, bytemuck::bytes_of(&state));
    }

    fn set_tokens(&mut self, first: u32, tokens: &[u32]) {
        self.sequence.write(TOKENS_OFFSET + 4 * u64::from(first), bytemuck::cast_slice(tokens));
    }

    fn set_end_tokens(&mut self, tokens: &[u32]) {
        self.sequence.write(END_TOKENS_OFFSET, bytemuck::cast_slice(tokens));
    }

    fn step(&mut self, plan: &StepPlan) -> (StepReport, Vec<Vec<f32>>) {
        let bytes = self.model.activation(Array::Logits).2;
        let device = self.gpu.pipelines.device();
        let size = bytes * u64::from(plan.batch);
        let readback = Buffer::new(device, "logits", size, Placement::Readback).expect("a buffer");
        self.submit(|recording| {
            self.model.record(plan, &self.io(), recording).expect("a step is recorded");
            recording.barrier(Access::SHADER_WRITE, Access::TRANSFER_READ);
            for token in 0..plan.batch {
                let (activations, offset, bytes) = self.model.activation_of(Array::Logits, token);
                recording.copy(activations, offset, &readback, u64::from(token) * bytes, bytes);
            }
        });
        let mut report = [0; size_of::<StepReport>()];
        self.sequence.read(REPORT_OFFSET, &mut report);
        let mut logits = vec![0.0f32; size as usize / 4];
        readback.read(0, bytemuck::cast_slice_mut(&mut logits));
        (bytemuck::pod_read_unaligned(&report), logits.chunks(bytes as usize / 4).map(<[f32]>::to_vec).collect())
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

    fn step(&mut self, plan: &StepPlan) -> (StepReport, Vec<Vec<f32>>) {
        let report = self.step_of(plan, 0);
        (report, (0..plan.batch as usize).map(|token| self.logits_of(token).to_vec()).collect())
    }
}

/// How a sequence is sampled.
#[derive(Clone, Copy, Debug)]
enum Draw {
    Greedy,
    Sampled,
}

fn start(draw: Draw) -> StepState {
    StepState {
        live: 1,
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
        ..StepState::default()
    }
}

/// Begins a sequence and feeds its prompt but for the last token.
fn begin<S: Steps>(steps: &mut S, state: StepState, end_tokens: &[u32], act: ActFormat) {
    steps.set_state(StepState { end_token_count: end_tokens.len() as u32, ..state });
    steps.set_tokens(0, &[u32::MAX; CONTEXT as usize + MAX_BATCH as usize]);
    steps.set_tokens(0, &PROMPT);
    steps.set_end_tokens(end_tokens);
    let feed = steps.plan(PlanKind::Feed, act);
    for position in 1..PROMPT.len() as u32 {
        let (report, _) = steps.step(&feed);
        assert_eq!((report.status, report.position, report.count), (STATUS_FED, position, 1));
    }
}

/// Tokens of a sequence from the first generated one on, and the logits that each was chosen from.
struct Truth {
    tokens: Vec<u32>,
    logits: Vec<Vec<f32>>,
}

impl Truth {
    /// By steps of one token.
    fn generate<S: Steps>(steps: &mut S, draw: Draw, act: ActFormat) -> Self {
        begin(steps, start(draw), &[], act);
        let decode = steps.plan(PlanKind::Decode, act);
        let (mut tokens, mut all_logits) = (Vec::new(), Vec::new());
        while steps.state().live > 0 {
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
        for (token, logits) in logits[..count].iter().enumerate() {
            let at = position as usize + 1 - PROMPT.len() + token;
            let equal = logits.iter().zip(&self.logits[at]).all(|(a, b)| a.to_bits() == b.to_bits());
            assert!(equal, "{what}: logits of token {token} of the step from {position} on");
        }
    }
}

/// A step with as many drafts as the context has room for, whatever the budget: the truth, but for the draft at place `wrong`.
fn speculate<S: Steps>(
    steps: &mut S,
    plan: &StepPlan,
    truth: &Truth,
    wrong: Option<u32>,
) -> (u32, StepReport, Vec<Vec<f32>>) {
    let state = steps.state();
    let room = (plan.batch - 1).min(state.context_length - state.position - 1);
    let mut drafts: Vec<u32> = truth.after(state.position).iter().copied().take(room as usize).collect();
    let vocabulary = steps.model().config.n_vocab;
    if let Some(draft) = wrong.and_then(|place| drafts.get_mut(place as usize)) {
        *draft = (*draft + 1) % vocabulary;
    }
    steps.set_tokens(state.position + 1, &drafts);
    steps.set_state(StepState { live: 1 + drafts.len() as u32, ..state });
    let (report, logits) = steps.step(plan);
    (state.position, report, logits)
}

/// Right drafts are all accepted, wrong ones from the first wrong one on are not, and the sequence goes on as without drafts.
fn check<S: Steps>(what: &str, steps: &mut S, draw: Draw, act: ActFormat) {
    let what = &format!("{what}, {draw:?}, {act:?}");
    let truth = Truth::generate(steps, draw, act);
    let plan = steps.plan(PlanKind::Decode, act).with_batch(MAX_BATCH);

    begin(steps, start(draw), &[], act);
    for _ in 0..3 {
        let (position, report, logits) = speculate(steps, &plan, &truth, None);
        truth.check(what, position, &report, &logits);
        assert_eq!((report.count, report.finish), (MAX_BATCH, FINISH_NONE), "{what}: right drafts");
    }

    // A wrong draft at each place; each step stands on the cache that the one before left.
    begin(steps, start(draw), &[], act);
    let decode = steps.plan(PlanKind::Decode, act);
    for place in (0..DRAFTS).cycle() {
        let budget = steps.state().budget;
        let (position, report, logits) = speculate(steps, &plan, &truth, Some(place));
        truth.check(what, position, &report, &logits);
        assert_eq!(report.count, (1 + place).min(budget), "{what}: draft {place} is wrong");
        if steps.state().live > 0 {
            let position = steps.state().position;
            let (report, logits) = steps.step(&decode);
            truth.check(what, position, &report, &logits);
        }
        if steps.state().live == 0 {
            break;
        }
    }
    assert_eq!(steps.state().finish, FINISH_BUDGET, "{what}");
}

/// Whatever ends a sequence ends it within a step, too, and the steps behind it do nothing.
fn check_ends<S: Steps>(what: &str, steps: &mut S, act: ActFormat) {
    let truth = Truth::generate(steps, Draw::Greedy, act);
    let plan = steps.plan(PlanKind::Decode, act).with_batch(MAX_BATCH);
    let first = start(Draw::Greedy);
    let length = PROMPT.len() as u32;
    // The first of the generated tokens that is not among those before it, from the fourth on: it ends the sequence there.
    let ending =
        (3..GENERATED as usize).find(|&at| !truth.tokens[..at].contains(&truth.tokens[at])).expect("a new token");
    for (finish, state, end_tokens, count) in [
        (FINISH_BUDGET, StepState { budget: 3, ..first }, vec![], 3),
        (FINISH_CONTEXT_FULL, StepState { context_length: length + 4, ..first }, vec![], 5),
        (FINISH_END_OF_GENERATION, first, vec![truth.tokens[ending]], ending as u32 + 1),
    ] {
        begin(steps, state, &end_tokens, act);
        let mut reported = 0;
        while steps.state().live > 0 {
            let (position, report, logits) = speculate(steps, &plan, &truth, None);
            truth.check(what, position, &report, &logits);
            reported += report.count;
        }
        assert_eq!((steps.state().finish, reported), (finish, count), "{what}");
        let stopped = steps.state();
        let (report, _) = steps.step(&plan);
        assert_eq!((report.status, report.count, report.finish), (STATUS_NO_OP, 0, finish), "{what}");
        assert_eq!(steps.state(), stopped, "{what}");
    }
}

fn cache(format: CacheFormat) -> CacheOptions {
    CacheOptions::new(CONTEXT, format, format)
}

fn open(name: &str) -> Arc<Model> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../tests/data/tiny/{name}.gguf"));
    Arc::new(Model::open(path).expect("a tiny model opens"))
}

#[test]
fn a_step_of_several_tokens_is_as_good_as_several_steps() {
    let gpu = Gpu::borrow();
    let model = open("qwen3moe-a-q4_k_m");
    // Without whole matrices two pairs are tried: that of the oracle, and the default.
    const PART: [(CacheFormat, ActFormat); 2] =
        [(CacheFormat::F32, ActFormat::F32), (CacheFormat::F16, ActFormat::Q14)];
    const REST: [(CacheFormat, ActFormat); 2] =
        [(CacheFormat::F32, ActFormat::Q14), (CacheFormat::F16, ActFormat::F32)];
    for (format, act) in PART.into_iter().chain(REST.into_iter().filter(|_| matrix::is_full())) {
        let mut steps = OnDevice::new(&gpu, &model, cache(format), MAX_BATCH);
        check(&format!("{format:?} cache"), &mut steps, Draw::Greedy, act);
        check(&format!("{format:?} cache"), &mut steps, Draw::Sampled, act);
    }
}

#[test]
fn so_it_is_with_every_model() {
    let gpu = Gpu::borrow();
    for path in models() {
        let model = Arc::new(Model::open(&path).expect("a tiny model opens"));
        let mut steps = OnDevice::new(&gpu, &model, cache(CacheFormat::F16), MAX_BATCH);
        check(&path.display().to_string(), &mut steps, Draw::Sampled, ActFormat::Q14);
        check_ends(&path.display().to_string(), &mut steps, ActFormat::Q14);
    }
}

#[test]
fn so_it_is_with_the_interpreter() {
    for name in ["qwen3moe-a-q4_k_m", "qwen2-f16"] {
        let mut steps = Interpreter::new(open(name), cache(CacheFormat::F16));
        check(name, &mut steps, Draw::Sampled, ActFormat::F32);
        check_ends(name, &mut steps, ActFormat::F32);
    }
}

/// Tokens of a sequence whose drafts are looked up, and the steps that they took.
fn looked_up<S: Steps>(what: &str, steps: &mut S, draw: Draw, act: ActFormat) -> u32 {
    let truth = Truth::generate(steps, draw, act);
    let plan = steps.plan(PlanKind::Decode, act).with_batch(MAX_BATCH).with_lookup(1..=3);
    begin(steps, start(draw), &[], act);
    let mut count = 0;
    while steps.state().live > 0 {
        let position = steps.state().position;
        let (report, logits) = steps.step(&plan);
        truth.check(what, position, &report, &logits);
        count += 1;
    }
    assert_eq!(steps.state().position, PROMPT.len() as u32 - 1 + GENERATED, "{what}");
    count
}

#[test]
fn looked_up_drafts_change_no_token() {
    let gpu = Gpu::borrow();
    let mut fewest = GENERATED;
    for name in ["qwen3moe-a-q4_k_m", "qwen3moe-b-q8_0", "qwen2-f16", "llama-f16"] {
        let model = open(name);
        let mut steps = OnDevice::new(&gpu, &model, cache(CacheFormat::F16), MAX_BATCH);
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
    let mut steps = OnDevice::new(&gpu, &model, cache(CacheFormat::F16), MAX_BATCH);
    let mut draft = OnDevice::new(&gpu, &model, cache(CacheFormat::F16), 1);
    for draw in [Draw::Greedy, Draw::Sampled] {
        let truth = Truth::generate(&mut steps, draw, act);
        begin(&mut steps, start(draw), &[], act);
        begin(&mut draft, start(draw), &[], act);
        let (decode, verify) =
            (draft.plan(PlanKind::Decode, act), steps.plan(PlanKind::Decode, act).with_batch(MAX_BATCH));
        // The draft model's own state, over the other's tokens.
        let io = StepIo { tokens: steps.io().tokens, ..draft.io() };
        let mut counts = Vec::new();
        while steps.state().live > 0 {
            let position = steps.state().position;
            draft.set_state(StepState { live: 1, ..steps.state() });
            draft.submit(|recording| {
                recording.keep(steps.sequence.clone());
                // One more than there are drafts: the last one's keys and values are needed if all are right.
                for _ in 0..=DRAFTS {
                    draft.model.record(&decode, &io, recording).expect("a step is recorded");
                    recording.barrier(Access::SHADER_WRITE, Access::SHADER_READ | Access::SHADER_WRITE);
                }
                draft.model.record_proposal(&io, steps.io().state, DRAFTS, recording).expect("recorded");
            });
            let (report, logits) = steps.step(&verify);
            truth.check("a draft model", position, &report, &logits);
            counts.push(report.count);
        }
        assert_eq!(counts, [MAX_BATCH, MAX_BATCH, MAX_BATCH, GENERATED - 3 * MAX_BATCH]);
    }
}

#[test]
#[should_panic(expected = "a step of 3 tokens of a model that was loaded for 2")]
fn a_plan_for_more_tokens_than_the_model_is_refused() {
    let gpu = Gpu::borrow();
    let model = open("qwen2-f16");
    let mut steps = OnDevice::new(&gpu, &model, cache(CacheFormat::F16), 2);
    let plan = steps.plan(PlanKind::Decode, ActFormat::F32).with_batch(3);
    steps.step(&plan);
}
