//! Steps that feed many rows are submitted as ranges of layers: the bits are those of a step in one piece, and a cancellation between two ranges
//! ends the step.

use std::path::Path;
use std::sync::Arc;

use zinc_kernels::ops::CacheFormat;
use zinc_kernels::step::StepShape;
use zinc_model::Model;
use zinc_model::device::DeviceModel;
use zinc_model::memory::LoadOptions;
use zinc_model::plan::{CacheOptions, MANY_ROWS, RowCounts};
use zinc_sched::adapter::{Sync, VulkanModel, VulkanOptions};
use zinc_sched::{
    DeviceFinish, Engine, EngineOptions, FinishReason, InflightDepth, Outlet, PromptProgress, Request, Sampling,
    SequenceStart, Step, StepKind, StepLane, StepModel, StepOutput, StepStatus, SystemClock, Token, Tracing,
};
use zinc_vk::AdapterKind;

use crate::cache::{POISON, poison_cache, read_cache};
use crate::gpt_oss::GPT_OSS;
use crate::gpu::Gpu;
use crate::matrix;
use crate::qwen35::QWEN35_MOE;

const CONTEXT: u32 = 96;
/// Tokens of the prompt but the last: a full step of the fewest rows that are submitted in ranges, and another one.
const FED: u32 = MANY_ROWS + 8;
/// Tokens that are generated behind it.
const GENERATED: u32 = 5;

fn load(gpu: &Gpu, path: &str) -> Arc<DeviceModel> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/tiny").join(path).with_extension("gguf");
    let model = Arc::new(Model::open(path).expect("a tiny model opens"));
    let cache = CacheOptions::new(CONTEXT, CacheFormat::F16, CacheFormat::F16);
    let options = LoadOptions::new(cache).with_counts(RowCounts::new(MANY_ROWS, 1));
    Arc::new(DeviceModel::load(&gpu.pipelines, &model, options, &mut |_| {}).expect("a tiny model loads"))
}

fn driven(model: &Arc<DeviceModel>, rows: u32, sync: Sync) -> VulkanModel {
    let options = VulkanOptions::new(InflightDepth::DEFAULT).with_feed_shape(StepShape::of(rows)).with_sync(sync);
    VulkanModel::new(model.clone(), options.with_stamps(Tracing::On)).expect("the model is driven")
}

fn tokens(model: &VulkanModel) -> Vec<u32> {
    let vocabulary = model.limits().vocabulary_tokens;
    (0..=FED).map(|i| (i * i + 7 * i) % vocabulary).collect()
}

/// Feeds the prompt and generates: the tokens, and the logits of the last one.
fn generate(model: &mut VulkanModel) -> (Vec<u32>, Vec<f32>) {
    let tokens = tokens(model);
    let sequence = model.open(&SequenceStart::new(&tokens, 0, GENERATED, &Sampling::GREEDY)).expect("opened");
    let mut left = FED;
    while left > 0 {
        let rows = left.min(model.limits().feed_rows);
        let ticket = model
            .submit(&Step { lanes: &[StepLane { sequence, kind: StepKind::Feed, rows }], grown: &[] })
            .expect("submitted");
        let StepOutput { lanes: outputs, timing } = model.wait(ticket).expect("done");
        let [output] = &outputs[..] else { panic!("{outputs:?}") };
        assert_eq!((output.status, output.fed, output.position), (StepStatus::Fed, rows, FED - left));
        let gpu = timing.gpu.expect("timestamps");
        assert!(gpu.begin_ns < gpu.end_ns, "{gpu:?}");
        left -= rows;
    }
    let mut generated = Vec::new();
    for _ in 0..GENERATED {
        let ticket = model.submit(&Step { lanes: &[StepLane::decode(sequence)], grown: &[] }).expect("submitted");
        generated.extend(model.wait(ticket).expect("done").lanes[0].tokens.as_slice());
    }
    model.close(sequence);
    (generated, model.last_logits().expect("logits"))
}

/// Whether each layer of a step of many rows is a submission.
fn is_cpu(gpu: &Gpu) -> bool {
    gpu.pipelines.device().facts().kind == AdapterKind::Cpu
}

#[test]
fn a_step_in_ranges_has_the_bits_of_one_in_one_piece() {
    let gpu = Gpu::borrow();
    // Without whole matrices, a model of each kind: dense, with experts, windows and sinks, and with delta nets.
    let names = ["llama-f16", GPT_OSS, QWEN35_MOE, "qwen3moe-a-q4_k_m"];
    for path in names.into_iter().take(if matrix::is_full() { 4 } else { 3 }) {
        let model = load(&gpu, path);
        let mut truth = None;
        for (rows, sync) in [
            (MANY_ROWS / 2, Sync::Timeline),
            (MANY_ROWS, Sync::Timeline),
            (MANY_ROWS, Sync::FenceKept),
            (MANY_ROWS, Sync::Fence),
        ] {
            poison_cache(&gpu, &model);
            let mut driven = driven(&model, rows, sync);
            let before = driven.counters().submits;
            let generated = generate(&mut driven);
            let submits = driven.counters().submits - before;
            let found = (generated, read_cache(&gpu, &model, FED));
            let truth = truth.get_or_insert_with(|| found.clone());
            assert!(found == *truth, "{path}, {rows} rows, {sync:?}");
            if is_cpu(&gpu) {
                // What begins the sequence, the copy of the logits, the tokens, and the steps of the prompt. One of these, if any, has so many rows that
                // it is a submission for each layer. With fences what is behind the layers of a step is a submission of its own.
                let more = if rows == MANY_ROWS { u64::from(model.model().config.n_layer()) - 1 } else { 0 };
                let steps = FED.div_ceil(rows);
                let ends = if sync == Sync::Timeline { 0 } else { steps };
                let expected = u64::from(2 + GENERATED + steps + ends) + more;
                assert_eq!(submits, expected, "{path}, {rows} rows, {sync:?}");
            }
        }
    }
}

/// Wants no more once some of the prompt is in the cache.
#[derive(Default)]
struct UntilFed {
    done: u32,
}

impl Outlet for UntilFed {
    fn prompt(&mut self, progress: PromptProgress) {
        self.done = progress.done;
    }

    fn tokens(&mut self, tokens: &[Token]) -> usize {
        tokens.len()
    }

    fn cancelled(&self) -> bool {
        self.done > 0
    }
}

/// Two more steps are in flight when the first one has fed its part of the prompt. They end, and what they wrote does not count.
#[test]
fn a_cancelled_prompt_leaves_what_was_fed() {
    let gpu = Gpu::borrow();
    let model = load(&gpu, "qwen3moe-a-q4_k_m");
    let engine = |rows| {
        let model = driven(&model, rows, Sync::Timeline);
        Engine::new(model, SystemClock::new(), EngineOptions::default()).expect("the engine starts")
    };
    let prompt: Vec<u32> = (0..2 * MANY_ROWS + 9).map(|i| (i * i + 7 * i) % 500).collect();
    let request = Request::new(prompt, []).with_max_tokens(GENERATED);
    let answer = |engine: &mut Engine<VulkanModel>| {
        let mut tokens: Vec<Token> = Vec::new();
        let completion = engine.run(&request, &mut tokens).expect("the model runs");
        (tokens.iter().map(|token| token.id).collect::<Vec<u32>>(), completion.usage.cached_tokens)
    };
    let (expected, _) = answer(&mut engine(MANY_ROWS / 2));
    poison_cache(&gpu, &model);
    let mut engine = engine(MANY_ROWS);
    let completion = engine.run(&request, &mut UntilFed::default()).expect("the model runs");
    assert_eq!(completion.reason, FinishReason::Cancelled);
    assert_eq!(answer(&mut engine), (expected, MANY_ROWS));
}

/// The host's word is there before the step begins, which then lists no rows.
#[test]
fn a_cancelled_sequence_writes_nothing() {
    let gpu = Gpu::borrow();
    let model = load(&gpu, "qwen3moe-a-q4_k_m");
    poison_cache(&gpu, &model);
    let truth = (generate(&mut driven(&model, MANY_ROWS / 2, Sync::Timeline)), read_cache(&gpu, &model, FED));
    for sync in [Sync::Timeline, Sync::FenceKept, Sync::Fence] {
        let mut driven = driven(&model, MANY_ROWS, sync);
        let tokens = tokens(&driven);
        poison_cache(&gpu, &model);
        let sequence = driven.open(&SequenceStart::new(&tokens, 0, GENERATED, &Sampling::GREEDY)).expect("opened");
        driven.cancel(sequence);
        let [output, behind] = [MANY_ROWS, FED - MANY_ROWS].map(|rows| {
            let step = Step { lanes: &[StepLane { sequence, kind: StepKind::Feed, rows }], grown: &[] };
            let ticket = driven.submit(&step).expect("submitted");
            driven.wait(ticket).expect("done")
        });
        driven.close(sequence);
        for output in [&output.lanes[0], &behind.lanes[0]] {
            let (status, finish) = (output.status, output.finish);
            assert_eq!((status, finish), (StepStatus::NoOp, Some(DeviceFinish::Cancelled)), "{sync:?}");
            assert_eq!((output.fed, output.position), (0, 0), "{sync:?}");
        }
        for (index, found) in read_cache(&gpu, &model, FED).iter().enumerate() {
            assert!(found.iter().all(|byte| *byte == POISON), "{sync:?}: keys or values {index}");
        }
        // The next sequence finds nothing of it.
        assert!((generate(&mut driven), read_cache(&gpu, &model, FED)) == truth, "{sync:?}");
    }
}
