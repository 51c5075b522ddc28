//! gpt-oss, with its windows, sinks, biases, clamped gates and YaRN, against values computed by another program in double precision: a short prompt at every position, and one
//! of 150 tokens, longer than the windows and than any tile of keys.
//!
//! The models are those of `tests/data/arch`. The values are those of files whose names end with `-hframp`: their YaRN blends as gpt-oss was trained, not between whole pairs.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use zinc_kernels::ops::{ActFormat, CacheFormat};
use zinc_kernels::step::StepShape;
use zinc_model::Model;
use zinc_sched::adapter::{InterpreterModel, Score, Sync};

use crate::gpu::Gpu;
use crate::matrix;
use crate::tiny::{
    Bounds, Tiny, cache_for, check_continuation_within, check_logits_within, continuation, drive, load_feeding,
};

/// The model with experts in MXFP4 and the rest in BF16, by its name beside the models of `tests/data/tiny`.
pub(crate) const GPT_OSS: &str = "../arch/gptoss-a-mxfp4";

/// The model in F16, and that with experts in MXFP4 and the rest in BF16.
const MODELS: [&str; 2] = ["gptoss-a-f16", "gptoss-a-mxfp4"];

/// With f32 activations and an f32 cache every value is computed in f32 from the same weights, as in other models. Rounding K and V to f16 alone moves a float64 model
/// by up to 1.7e-2 (RMS 2.2e-3), since YaRN's factor sharpens scores by 1.8.
const EXACT: Bounds = Bounds { largest: 1e-3, rms: 1e-3 };
const DEFAULT: Bounds = Bounds { largest: 4e-2, rms: 6e-3 };

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/arch").join(name)
}

fn open(name: &str) -> Arc<Model> {
    Arc::new(Model::open(data(name).with_extension("gguf")).expect("a tiny model opens"))
}

/// The values of the short prompt and of the long one.
fn golden(name: &str) -> [Tiny; 2] {
    ["hframp", "long-hframp"].map(|prompt| Tiny::read(&data(&format!("{name}-{prompt}.json"))))
}

#[test]
fn logits_of_the_interpreter_agree() {
    for name in MODELS {
        let model = open(name);
        for golden in golden(name) {
            let mut exact = InterpreterModel::new(&model, cache_for(&golden, CacheFormat::F32));
            check_logits_within(&EXACT, "interpreter, f32 cache", &mut exact, &golden);
            let mut model = InterpreterModel::new(&model, cache_for(&golden, CacheFormat::F16));
            check_logits_within(&DEFAULT, "interpreter, f16 cache", &mut model, &golden);
        }
    }
}

#[test]
fn logits_of_the_device_agree() {
    let gpu = Gpu::borrow();
    for name in MODELS {
        let model = open(name);
        for golden in golden(name) {
            for (bounds, act, format) in
                [(EXACT, ActFormat::F32, CacheFormat::F32), (DEFAULT, ActFormat::Q14, CacheFormat::F16)]
            {
                let loaded = load_feeding(&gpu, &model, cache_for(&golden, format), StepShape::of(64));
                let mut model = drive(&loaded, act, Sync::Timeline, 1);
                check_logits_within(&bounds, &format!("device, {act:?}, {format:?} cache"), &mut model, &golden);
            }
        }
    }
}

#[test]
fn the_greedy_continuation_agrees_wherever_the_margin_allows() {
    let gpu = Gpu::borrow();
    for name in MODELS {
        let model = open(name);
        for golden in golden(name) {
            let interpreter = InterpreterModel::new(&model, cache_for(&golden, CacheFormat::F32));
            check_continuation_within(&EXACT, "interpreter", &continuation(interpreter, &golden, 1), &golden);
            let loaded = load_feeding(&gpu, &model, cache_for(&golden, CacheFormat::F16), StepShape::of(64));
            let ids = continuation(drive(&loaded, ActFormat::Q14, Sync::Timeline, 4), &golden, 4);
            check_continuation_within(&DEFAULT, "device", &ids, &golden);
        }
    }
}

/// The bits of the logits at every position.
fn bits<M: Score>(model: &mut M, golden: &Tiny) -> Vec<u32>
where
    M::Error: std::fmt::Debug,
{
    let mut bits = Vec::new();
    let mut keep = |_, logits: &[f32]| bits.extend(logits.iter().map(|logit| logit.to_bits()));
    model.score(&golden.ids, &mut keep).expect("the model scores");
    bits
}

/// Unless whole matrices are asked for, the default forms of activations and of the cache are tried, with three of the numbers.
#[test]
fn logits_have_the_same_bits_however_many_tokens_are_computed_together() {
    const ALL: [u32; 7] = [4, 32, 128, 2, 8, 16, 64];
    const FORMS: [(ActFormat, CacheFormat); 2] =
        [(ActFormat::Q14, CacheFormat::F16), (ActFormat::F32, CacheFormat::F32)];
    let gpu = Gpu::borrow();
    let (counts, forms) = if matrix::is_full() { (&ALL[..], &FORMS[..]) } else { (&ALL[..3], &FORMS[..1]) };
    for name in MODELS {
        let model = open(name);
        let [_, golden] = golden(name);
        for (act, format) in forms.iter().copied() {
            let logits = |together: u32| {
                let loaded = load_feeding(&gpu, &model, cache_for(&golden, format), StepShape::of(together));
                bits(&mut drive(&loaded, act, Sync::Timeline, 1), &golden)
            };
            let alone = logits(1);
            for together in counts.iter().copied() {
                assert!(logits(together) == alone, "{name}, {act:?}, {format:?} cache: {together} tokens together");
            }
        }
    }
}
