//! What the tests of the architectures in `tests/data/arch` have in common: their tiny models against values computed by other programs in double precision, and against
//! themselves.

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

/// With f32 activations and an f32 cache every value is computed in f32 from the same weights, as in other models.
const EXACT: Bounds = Bounds { largest: 1e-3, rms: 1e-3 };

/// The models of an architecture.
pub(crate) struct Arch {
    /// Their names in `tests/data/arch`.
    pub(crate) models: &'static [&'static str],
    /// What the names of the files with the values of a model have behind its own: of the short prompt and of the long one.
    pub(crate) prompts: [&'static str; 2],
    /// How far the default forms of activations and of the cache may be off.
    pub(crate) default: Bounds,
}

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/arch").join(name)
}

/// The model of a name.
pub(crate) fn open(name: &str) -> Arc<Model> {
    Arc::new(Model::open(data(name).with_extension("gguf")).expect("a tiny model opens"))
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

impl Arch {
    /// The values of the short prompt and of the long one.
    pub(crate) fn golden(&self, name: &str) -> [Tiny; 2] {
        self.prompts.map(|prompt| Tiny::read(&data(&format!("{name}{prompt}.json"))))
    }

    /// The interpreter's logits, with both forms of the cache.
    pub(crate) fn logits_of_the_interpreter_agree(&self) {
        for name in self.models.iter().copied() {
            let model = open(name);
            for golden in self.golden(name) {
                let mut exact = InterpreterModel::new(&model, cache_for(&golden, CacheFormat::F32));
                check_logits_within(&EXACT, "interpreter, f32 cache", &mut exact, &golden);
                let mut model = InterpreterModel::new(&model, cache_for(&golden, CacheFormat::F16));
                check_logits_within(&self.default, "interpreter, f16 cache", &mut model, &golden);
            }
        }
    }

    /// The device's logits, exact and by default.
    pub(crate) fn logits_of_the_device_agree(&self) {
        let gpu = Gpu::borrow();
        for name in self.models.iter().copied() {
            let model = open(name);
            for golden in self.golden(name) {
                for (bounds, act, format) in
                    [(&EXACT, ActFormat::F32, CacheFormat::F32), (&self.default, ActFormat::Q14, CacheFormat::F16)]
                {
                    let loaded = load_feeding(&gpu, &model, cache_for(&golden, format), StepShape::of(64));
                    let mut model = drive(&loaded, act, Sync::Timeline, 1);
                    check_logits_within(bounds, &format!("device, {act:?}, {format:?} cache"), &mut model, &golden);
                }
            }
        }
    }

    /// What the interpreter and the device generate behind the prompts.
    pub(crate) fn the_greedy_continuation_agrees_wherever_the_margin_allows(&self) {
        let gpu = Gpu::borrow();
        for name in self.models.iter().copied() {
            let model = open(name);
            for golden in self.golden(name) {
                let interpreter = InterpreterModel::new(&model, cache_for(&golden, CacheFormat::F32));
                check_continuation_within(&EXACT, "interpreter", &continuation(interpreter, &golden, 1), &golden);
                let loaded = load_feeding(&gpu, &model, cache_for(&golden, CacheFormat::F16), StepShape::of(64));
                let ids = continuation(drive(&loaded, ActFormat::Q14, Sync::Timeline, 4), &golden, 4);
                check_continuation_within(&self.default, "device", &ids, &golden);
            }
        }
    }

    /// Unless whole matrices are asked for, the first two of the models and the default forms of activations and of the cache are tried, with three of the numbers.
    pub(crate) fn logits_have_the_same_bits_however_many_tokens_are_computed_together(&self) {
        const ALL: [u32; 7] = [4, 32, 128, 2, 8, 16, 64];
        const FORMS: [(ActFormat, CacheFormat); 2] =
            [(ActFormat::Q14, CacheFormat::F16), (ActFormat::F32, CacheFormat::F32)];
        let gpu = Gpu::borrow();
        let (counts, forms) = if matrix::is_full() { (&ALL[..], &FORMS[..]) } else { (&ALL[..3], &FORMS[..1]) };
        for name in self.models.iter().copied().take(if matrix::is_full() { usize::MAX } else { 2 }) {
            let model = open(name);
            let [_, golden] = self.golden(name);
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
}
