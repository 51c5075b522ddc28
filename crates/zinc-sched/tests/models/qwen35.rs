//! Models of the kind of Qwen3.5, dense and with experts, and of Qwen3-Next: gated delta nets, gated attention, shared experts and partial rotations,
//! against values of other programs in double precision: a short prompt at every position, and one of 150 tokens or more, longer than any tile of rows or keys.
//!
//! The models are those of `tests/data/arch`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use zinc_kernels::ops::{ActFormat, CacheFormat};
use zinc_kernels::step::StepShape;
use zinc_model::Model;
use zinc_sched::adapter::{InterpreterModel, Score, Sync};
use zinc_sched::{DeviceFinish, Sampling, SequenceStart, Step, StepLane, StepModel as _};

use crate::gpu::Gpu;
use crate::matrix;
use crate::tiny::{
    Bounds, Tiny, cache_for, check_continuation_within, check_logits_within, continuation, drive, load_feeding,
};

/// The dense model, by its name beside the models of `tests/data/tiny`.
pub(crate) const QWEN35: &str = "../arch/qwen35-a-f16";

/// The model with experts, most matrices of which have quantised formats.
pub(crate) const QWEN35_MOE: &str = "../arch/qwen35moe-b-q4_k";

/// A dense model in F16; one with experts and a shared one in Q4_K, Q5_K, Q6_K and Q8_0; Qwen3-Next, whose value heads are in another order; one
/// whose file has the gates and ups of experts in one tensor and lists its delta nets; and one whose file has a block that drafts tokens.
const MODELS: [&str; 5] =
    ["qwen35-a-f16", "qwen35moe-b-q4_k", "qwen3next-a-f16", "qwen35moe-fused-a-f16", "qwen35-mtp-a-f16"];

/// With f32 activations and an f32 cache every value is computed in f32 from the same weights, as in other models. Rounding K and V to f16 alone moves a float64 model
/// by up to 2.0e-3, and one whose router has large logits by up to 9e-3.
const EXACT: Bounds = Bounds { largest: 1e-3, rms: 1e-3 };
const DEFAULT: Bounds = Bounds { largest: 2e-2, rms: 3e-3 };

/// Where a model of such a name lies.
pub(crate) fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/tiny").join(name).with_extension("gguf")
}

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/arch").join(name)
}

fn open(name: &str) -> Arc<Model> {
    Arc::new(Model::open(data(name).with_extension("gguf")).expect("a tiny model opens"))
}

/// The values of the short prompt and of the long one.
fn golden(name: &str) -> [Tiny; 2] {
    ["", "-long"].map(|prompt| Tiny::read(&data(&format!("{name}{prompt}.json"))))
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

/// A measurement pretends that a lane has taken in so many positions: its steps have numbers behind these, and behind no others.
#[test]
fn filled_states_go_on_at_their_position() {
    let gpu = Gpu::borrow();
    for name in MODELS {
        let [golden, _] = golden(name);
        let loaded = load_feeding(&gpu, &open(name), cache_for(&golden, CacheFormat::F16), StepShape::ONE);
        let mut model = drive(&loaded, ActFormat::Q14, Sync::Timeline, 1);
        let (last, greedy) = (golden.ids.len() as u32 - 1, Sampling::GREEDY);
        for (filled, finish) in [(last, None), (last - 1, Some(DeviceFinish::NonFinite)), (last, None)] {
            loaded.fill_cache(filled).expect("the cache is filled");
            let state = model.state(0).expect("the state is read");
            model.put_checkpoint(0, &state).expect("it is written");
            let start = SequenceStart { restored: Some(0), ..SequenceStart::new(&golden.ids, last, 4, &greedy) };
            let sequence = model.open(&start).expect("opened");
            let step = Step { lanes: &[StepLane::decode(sequence)], grown: &[] };
            let ticket = model.submit(&step).expect("submitted");
            let output = model.wait(ticket).expect("done");
            model.close(sequence);
            assert_eq!(output.lanes[0].finish, finish, "{name}, filled for position {filled}");
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

/// Unless whole matrices are asked for, the default forms of activations and of the cache are tried, with three of the models and
/// of the numbers.
#[test]
fn logits_have_the_same_bits_however_many_tokens_are_computed_together() {
    const ALL: [u32; 7] = [4, 32, 128, 2, 8, 16, 64];
    const FORMS: [(ActFormat, CacheFormat); 2] =
        [(ActFormat::Q14, CacheFormat::F16), (ActFormat::F32, CacheFormat::F32)];
    let gpu = Gpu::borrow();
    let (counts, forms) = if matrix::is_full() { (&ALL[..], &FORMS[..]) } else { (&ALL[..3], &FORMS[..1]) };
    for name in MODELS.into_iter().take(if matrix::is_full() { MODELS.len() } else { 3 }) {
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
