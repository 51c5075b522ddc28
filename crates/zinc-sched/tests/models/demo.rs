//! The demo model against texts computed by another program: every way of driving it gives the same tokens.

use std::path::Path;
use std::sync::Arc;

use zinc_kernels::ops::{ActFormat, CacheFormat};
use zinc_model::Model;
use zinc_model::device::DeviceModel;
use zinc_model::plan::CacheOptions;
use zinc_sched::adapter::{Sync, VulkanModel, VulkanOptions};
use zinc_sched::{
    Engine, EngineOptions, FinishReason, InflightDepth, Outlet, Request, Sampling, SequenceStart, StepKind, StepModel,
    SystemClock, Token,
};

use crate::gpu::Gpu;
use crate::matrix;

const END_OF_TURN: u32 = 8_185;
/// Room for the longest golden text.
const CACHE: CacheOptions = CacheOptions::new(128, CacheFormat::F16, CacheFormat::F16);

struct Text {
    prompt: Vec<u32>,
    greedy: Vec<u32>,
}

fn texts() -> Vec<Text> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/demo/q4_k_m.json");
    let json: serde_json::Value =
        serde_json::from_slice(&std::fs::read(path).expect("the golden texts")).expect("JSON");
    let ids = |value: &serde_json::Value| -> Vec<u32> {
        value.as_array().expect("ids").iter().map(|id| id.as_u64().expect("an id") as u32).collect()
    };
    json.as_array()
        .expect("texts")
        .iter()
        .map(|text| Text { prompt: ids(&text["prompt_ids"]), greedy: ids(&text["greedy"]) })
        .collect()
}

/// The demo model, on the device.
fn load(gpu: &Gpu) -> Arc<DeviceModel> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/zinc-demo-q4_k_m.gguf");
    let model = Arc::new(Model::open(path).expect("the demo model opens"));
    Arc::new(DeviceModel::load(&gpu.pipelines, &model, CACHE, &mut |_| {}).expect("the demo model loads"))
}

/// A loaded model, driven in one way.
fn drive(loaded: &Arc<DeviceModel>, sync: Sync, depth: u32, act: ActFormat) -> Engine<VulkanModel> {
    let depth = InflightDepth::new(depth).expect("in range");
    let options = VulkanOptions::new(depth).with_sync(sync).with_act(act);
    let driven = VulkanModel::new(loaded.clone(), options).expect("the demo model is recorded");
    let options = EngineOptions::default().with_depth(depth);
    Engine::new(driven, SystemClock::new(), options).expect("the engine starts")
}

/// Generates the text and compares it with the golden one.
fn check(engine: &mut Engine<VulkanModel>, text: &Text, what: &str) {
    let mut tokens: Vec<Token> = Vec::new();
    let request = Request::new(text.prompt.clone(), vec![END_OF_TURN]);
    let completion = engine.run(&request, &mut tokens).expect("the demo model generates");
    let (end, before) = text.greedy.split_last().expect("a golden text is not empty");
    assert_eq!(*end, END_OF_TURN);
    let ids: Vec<u32> = tokens.iter().map(|token| token.id).collect();
    assert_eq!(ids, before, "{what}");
    assert!(matches!(completion.reason, FinishReason::Stop { .. }), "{what}: {:?}", completion.reason);
}

#[test]
fn every_way_of_driving_the_device_gives_the_golden_texts() {
    let gpu = Gpu::borrow();
    let (loaded, texts) = (load(&gpu), texts());
    assert_eq!(texts.len(), 6);
    let ways = [1, 2, 3, 4, 8].map(|depth| (Sync::Timeline, depth)).into_iter().chain([(Sync::Fence, 1)]);
    for (turn, (sync, depth)) in ways.enumerate() {
        let mut engine = drive(&loaded, sync, depth, ActFormat::Q14);
        // Without whole matrices, each way but the one with the usual depth gives two of the texts, which differ from way to way.
        let all = matrix::is_full() || (sync, depth) == (Sync::Timeline, InflightDepth::DEFAULT.get());
        let (first, step) = if all { (0, 1) } else { (turn % 3, 3) };
        for text in texts.iter().skip(first).step_by(step) {
            check(&mut engine, text, &format!("{sync:?} at depth {depth}"));
        }
    }
}

#[test]
fn f32_activations_give_the_golden_texts() {
    let gpu = Gpu::borrow();
    let loaded = load(&gpu);
    let mut engine = drive(&loaded, Sync::Timeline, 4, ActFormat::F32);
    for text in &texts() {
        check(&mut engine, text, "f32 activations");
    }
}

/// Cancels once it has got some tokens.
struct CancelAfter(usize);

impl Outlet for CancelAfter {
    fn tokens(&mut self, tokens: &[Token]) -> usize {
        let taken = tokens.len().min(self.0 - 1);
        self.0 -= taken;
        taken
    }
}

#[test]
fn what_follows_a_cancelled_text_is_right() {
    let gpu = Gpu::borrow();
    let (loaded, texts) = (load(&gpu), texts());
    for depth in [1, 4, 8] {
        let mut engine = drive(&loaded, Sync::Timeline, depth, ActFormat::Q14);
        for tokens in [1, 4] {
            // The cancelled text and the next one begin alike, so that the cache it leaves behind is used.
            let request = Request::new(texts[0].prompt.clone(), vec![END_OF_TURN]);
            let cancelled = engine.run(&request, &mut CancelAfter(tokens)).expect("a cancellation is no failure");
            assert!(matches!(cancelled.reason, FinishReason::Cancelled), "{:?}", cancelled.reason);
            check(&mut engine, &texts[1], &format!("after {tokens} tokens at depth {depth}"));
        }
    }
}

#[test]
fn one_loaded_model_is_driven_in_several_ways_over_one_cache() {
    let gpu = Gpu::borrow();
    let loaded = load(&gpu);
    let text = &texts()[0];
    let mut first = drive(&loaded, Sync::Timeline, 4, ActFormat::Q14);
    check(&mut first, text, "the first");
    let logits = first.model().last_logits().expect("logits are read");
    let kept = u32::try_from(text.prompt.len()).expect("a short prompt") - 1;
    first.roll_back(kept);
    let mut second = drive(&loaded, Sync::Fence, 1, ActFormat::Q14).with_cache(first.kv().clone());
    drop(first);
    let submits = second.model().counters().submits;
    check(&mut second, text, "the second");
    // One copy of the sequence's start, and no step for what the first has left in the cache.
    assert_eq!(second.model().counters().submits - submits, 1 + text.greedy.len() as u64);
    assert!(second.model().counters().waited_ns > 0);
    assert_eq!(second.model().last_logits().expect("logits are read"), logits);
}

#[test]
fn a_profile_has_a_time_for_every_op_and_leaves_the_same_logits() {
    let gpu = Gpu::borrow();
    let text = &texts()[0];
    let tokens = &text.prompt[..];
    let kept = u32::try_from(tokens.len()).expect("a short prompt") - 1;
    let mut engine = drive(&load(&gpu), Sync::Timeline, 2, ActFormat::Q14);
    let request = Request::new(tokens, []).with_max_tokens(1);
    engine.run(&request, &mut Vec::<Token>::new()).expect("the demo model generates");
    let logits = engine.model().last_logits().expect("logits are read");
    let options = VulkanOptions::new(InflightDepth::ONE);
    let mut model = VulkanModel::new(engine.model().model().clone(), options).expect("the demo model is recorded");
    drop(engine);
    let greedy = Sampling::GREEDY;
    let start = SequenceStart::new(tokens, kept, 1, &greedy);
    let times = model.profile(&[start], StepKind::Decode, 1).expect("the device has timestamps");
    assert_eq!(times.ops_ns.len(), times.plan.ops.len());
    assert!(times.ops_ns.iter().all(|ns| *ns >= 0.0) && times.ops_ns.iter().sum::<f64>() > 0.0, "{times:?}");
    assert!(times.empty_ns.is_finite() && times.empty_ns >= 0.0, "{times:?}");
    assert_eq!(model.last_logits().expect("logits are read"), logits);
}
