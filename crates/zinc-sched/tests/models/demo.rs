//! The demo model against texts computed by another program: every way of driving it gives the same tokens.

use std::path::Path;
use std::sync::Arc;

use zinc_kernels::ops::CacheFormat;
use zinc_model::Model;
use zinc_model::device::DeviceModel;
use zinc_model::plan::CacheOptions;
use zinc_sched::adapter::{Sync, VulkanModel, VulkanOptions};
use zinc_sched::{Engine, EngineOptions, FinishReason, InflightDepth, Request, SystemClock, Token, Tracing};

use crate::gpu::Gpu;

const END_OF_TURN: u32 = 8_185;
/// Room for the longest golden text.
const CACHE: CacheOptions = CacheOptions { context: 128, key_format: CacheFormat::F16, value_format: CacheFormat::F16 };

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

#[test]
fn every_way_of_driving_the_device_gives_the_golden_texts() {
    let gpu = Gpu::open();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/zinc-demo-q4_k_m.gguf");
    let model = Arc::new(Model::open(path).expect("the demo model opens"));
    let texts = texts();
    assert_eq!(texts.len(), 6);
    let ways = [1, 2, 3, 4, 8].map(|depth| (Sync::Timeline, depth)).into_iter().chain([(Sync::Fence, 1)]);
    for (sync, depth) in ways {
        let loaded = DeviceModel::load(&gpu.pipelines, &model, CACHE, &mut |_| {}).expect("the demo model loads");
        let depth = InflightDepth::new(depth).expect("in range");
        let driven = VulkanModel::new(loaded, VulkanOptions { sync, depth, stamps: Tracing::Off })
            .expect("the demo model is recorded");
        let options = EngineOptions { depth, ..EngineOptions::default() };
        let mut engine = Engine::new(driven, SystemClock::new(), options).expect("the engine starts");
        for text in &texts {
            let mut tokens: Vec<Token> = Vec::new();
            let request = Request::new(text.prompt.clone(), vec![END_OF_TURN]);
            let completion = engine.run(&request, &mut tokens).expect("the demo model generates");
            let (end, before) = text.greedy.split_last().expect("a golden text is not empty");
            assert_eq!(*end, END_OF_TURN);
            let ids: Vec<u32> = tokens.iter().map(|token| token.id).collect();
            assert_eq!(ids, before, "{sync:?} at depth {}", depth.get());
            assert!(matches!(completion.reason, FinishReason::Stop { .. }), "{:?}", completion.reason);
        }
    }
}
