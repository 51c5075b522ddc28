//! A prompt of 1,100 tokens with YaRN against values computed by other programs in double precision, however many tokens are computed together.
//!
//! The values are those of `tests/data/long`. Their model is that of `tests/data/tiny/qwen3-f16.gguf`, with its 512 positions extended to 2,048.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use zinc_kernels::ops::{ActFormat, CacheFormat};
use zinc_kernels::step::StepShape;
use zinc_model::Model;
use zinc_model::config::{ModelOptions, RopeOverrides, RopeScalingKind};
use zinc_sched::adapter::{InterpreterModel, Sync};

use crate::gpu::Gpu;
use crate::matrix;
use crate::tiny::{Tiny, cache_for, check_continuation, check_logits, continuation, drive, load_feeding};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data").join(name)
}

fn open() -> Arc<Model> {
    let overrides = RopeOverrides {
        scaling: Some(RopeScalingKind::Yarn),
        factor: Some(4.0),
        original_context: Some(512),
        ..RopeOverrides::default()
    };
    let options = ModelOptions { rope: overrides, ..ModelOptions::default() };
    Arc::new(Model::open_with(data("tiny/qwen3-f16.gguf"), &options).expect("a tiny model opens"))
}

fn golden() -> Tiny {
    Tiny::read(&data("long/qwen3-f16-yarn.json"))
}

/// Unless whole matrices are asked for, 64 tokens are computed together.
#[test]
fn logits_with_yarn_agree_however_many_tokens_are_computed_together() {
    const ALL: [u32; 11] = [1, 2, 3, 7, 8, 16, 33, 64, 128, 256, 512];
    let gpu = Gpu::borrow();
    let (model, golden) = (open(), golden());
    for tokens in if matrix::is_full() { ALL.to_vec() } else { vec![64] } {
        for (act, format) in [(ActFormat::F32, CacheFormat::F32), (ActFormat::Q14, CacheFormat::F16)] {
            let loaded = load_feeding(&gpu, &model, cache_for(&golden, format), StepShape::filled_by(tokens));
            let mut model = drive(&loaded, act, Sync::Timeline, 1);
            check_logits(&format!("device, {tokens} together"), &mut model, &golden, act, format);
        }
    }
}

#[test]
fn the_continuation_with_yarn_agrees_wherever_the_margin_allows() {
    let gpu = Gpu::borrow();
    let (model, golden) = (open(), golden());
    let loaded = load_feeding(&gpu, &model, cache_for(&golden, CacheFormat::F16), StepShape::of(64));
    let ids = continuation(drive(&loaded, ActFormat::Q14, Sync::Timeline, 4), &golden, 4);
    check_continuation("device", ActFormat::Q14, &ids, &golden);
}

#[test]
fn logits_of_the_interpreter_agree_with_yarn() {
    let (model, golden) = (open(), golden());
    let mut model = InterpreterModel::new(&model, cache_for(&golden, CacheFormat::F32));
    check_logits("interpreter", &mut model, &golden, ActFormat::F32, CacheFormat::F32);
}
