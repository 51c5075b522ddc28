//! Every way of driving a model gives the same tokens with every kind of sampling, and a cancel at any moment leaves nothing behind: small
//! runs of what the examples `ways` and `cancels` do at length.

#[path = "../../examples/ways/cases.rs"]
mod cases;
#[path = "../../examples/cancels/trial.rs"]
mod trial;

use std::path::Path;
use std::sync::Arc;

use zinc_kernels::ops::CacheFormat;
use zinc_model::Model;
use zinc_model::device::DeviceModel;
use zinc_model::memory::LoadOptions;
use zinc_model::plan::CacheOptions;

use crate::gpu::Gpu;

const PROMPTS: u32 = 2;
const TOKENS: u32 = 10;
const CANCELS: u32 = 24;

fn load(gpu: &Gpu, context: u32) -> Arc<DeviceModel> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/tiny/qwen3moe-a-q4_k_m.gguf");
    let model = Arc::new(Model::open(path).expect("a tiny model opens"));
    let cache = CacheOptions { context, key_format: CacheFormat::F16, value_format: CacheFormat::F16 };
    let options = LoadOptions { cache, batch: cases::DRAFTS + 1 };
    Arc::new(DeviceModel::load(&gpu.pipelines, &model, options, &mut |_| {}).expect("a tiny model loads"))
}

#[test]
fn every_way_gives_the_same_tokens() {
    let gpu = Gpu::open();
    let (target, draft) = (load(&gpu, cases::PROMPT_TOKENS + TOKENS), load(&gpu, cases::PROMPT_TOKENS + TOKENS));
    for kind in cases::kinds() {
        let mut expected = None;
        for way in cases::ways() {
            let texts = cases::texts(&target, &draft, &way, &kind, PROMPTS, TOKENS).expect("the model runs");
            let expected = expected.get_or_insert_with(|| texts.clone());
            assert_eq!(texts, *expected, "{} by {}", kind.name, way.name);
            assert!(texts.iter().all(|text| text.len() == TOKENS as usize), "{} by {}", kind.name, way.name);
        }
    }
}

#[test]
fn cancels_at_random_moments_leave_nothing_behind() {
    let gpu = Gpu::open();
    let outcome = trial::trial(&load(&gpu, trial::CONTEXT), CANCELS).expect("the model runs");
    assert!(outcome.wrong.is_empty(), "{:#?}", outcome.wrong);
    assert!(outcome.cut > 0, "no request was cut short");
    assert_eq!((outcome.rests.len() as u32, outcome.step.is_zero()), (outcome.cut, false));
    assert_eq!(outcome.memory_bytes.0, outcome.memory_bytes.1);
}
