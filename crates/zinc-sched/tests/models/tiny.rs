//! Small models of every architecture against values computed by other programs in double precision: logits at every position, and the
//! greedy continuation, on the device and on the interpreter.
//!
//! The models are those of `tests/data/tiny`; `ZINC_TINY_DIR` names another folder of the same form.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use zinc_kernels::ops::{ActFormat, CacheFormat};
use zinc_kernels::step::{MOST_RUN, StepShape};
use zinc_model::Model;
use zinc_model::device::DeviceModel;
use zinc_model::memory::LoadOptions;
use zinc_model::plan::{CacheOptions, RowCounts};
use zinc_sched::adapter::{InterpreterModel, Score, Sync, VulkanModel, VulkanOptions};
use zinc_sched::{Engine, EngineOptions, InflightDepth, Request, StepModel, SystemClock, Token};

use crate::gpu::Gpu;
use crate::matrix;

/// How far logits may be from the golden ones.
pub(crate) struct Bounds {
    pub(crate) largest: f32,
    /// Of the root mean square.
    pub(crate) rms: f64,
}

/// With f32 activations and an f32 cache every value is computed in f32 from the same weights. The references are float64 and lie 1e-5 from a
/// float32 forward pass; 1e-3 leaves room for other orders of summation. Rounding K and V to f16 alone moves a float64 model by up to 6.4e-3
/// (RMS 1.0e-3), and rounding activations to 14 bits by up to 3.6e-3 (RMS 7e-4); a little more than twice that.
fn bounds(act: ActFormat, cache: CacheFormat) -> Bounds {
    match (act, cache) {
        (ActFormat::F32, CacheFormat::F32) => Bounds { largest: 1e-3, rms: 1e-3 },
        (ActFormat::F32, CacheFormat::F16) => Bounds { largest: 1.5e-2, rms: 3e-3 },
        (ActFormat::Q14, CacheFormat::F32) => Bounds { largest: 1e-2, rms: 2e-3 },
        (ActFormat::Q14, CacheFormat::F16) => Bounds { largest: 2e-2, rms: 3e-3 },
    }
}

fn cache(format: CacheFormat) -> CacheOptions {
    CacheOptions::new(96, format, format)
}

fn load(gpu: &Gpu, model: &Arc<Model>, format: CacheFormat) -> Arc<DeviceModel> {
    Arc::new(DeviceModel::load(&gpu.pipelines, model, cache(format), &mut |_| {}).expect("a tiny model loads"))
}

/// A cache with room for a prompt and its continuation.
pub(crate) fn cache_for(golden: &Tiny, format: CacheFormat) -> CacheOptions {
    CacheOptions::new(golden.ids.len() as u32 + 16, format, format)
}

/// Loads a model for steps that feed prompts in this shape.
pub(crate) fn load_feeding(gpu: &Gpu, model: &Arc<Model>, cache: CacheOptions, shape: StepShape) -> Arc<DeviceModel> {
    let options = LoadOptions::new(cache).with_counts(RowCounts::new(shape.rows(), shape.rows().min(MOST_RUN)));
    Arc::new(DeviceModel::load(&gpu.pipelines, model, options, &mut |_| {}).expect("a tiny model loads"))
}

/// A loaded model, driven in one way.
pub(crate) fn drive(loaded: &Arc<DeviceModel>, act: ActFormat, sync: Sync, depth: u32) -> VulkanModel {
    let depth = InflightDepth::new(depth).expect("a depth in range");
    VulkanModel::new(loaded.clone(), VulkanOptions::new(depth).with_sync(sync).with_act(act))
        .expect("a tiny model is recorded")
}

/// Largest and root-mean-square distance of the logits from the golden ones.
fn errors<M: Score>(model: &mut M, tiny: &Tiny) -> (f32, f64)
where
    M::Error: std::fmt::Debug,
{
    let (mut largest, mut squares, mut compared) = (0.0f32, 0.0f64, 0);
    model
        .score(&tiny.ids, &mut |position, logits| {
            let Some(golden) = tiny.logits(position) else {
                return;
            };
            for (ours, theirs) in logits.iter().zip(golden) {
                let error = (ours - theirs).abs();
                assert!(error.is_finite(), "{}: position {position} is not finite", tiny.name);
                largest = largest.max(error);
                squares += f64::from(error) * f64::from(error);
            }
            compared += 1;
        })
        .expect("the model scores");
    assert_eq!(compared, tiny.positions.len(), "{}: positions", tiny.name);
    (largest, (squares / tiny.logits.len() as f64).sqrt())
}

pub(crate) fn check_logits<M: Score>(what: &str, model: &mut M, tiny: &Tiny, act: ActFormat, format: CacheFormat)
where
    M::Error: std::fmt::Debug,
{
    check_logits_within(&bounds(act, format), &format!("{what}, {act:?}, {format:?} cache"), model, tiny);
}

pub(crate) fn check_logits_within<M: Score>(bounds: &Bounds, what: &str, model: &mut M, tiny: &Tiny)
where
    M::Error: std::fmt::Debug,
{
    let (largest, rms) = errors(model, tiny);
    let what = format!("{}, {what}", tiny.name);
    println!("{what}: largest {largest:.2e}, rms {rms:.2e}");
    assert!(largest <= bounds.largest, "{what}: {largest}");
    assert!(rms <= bounds.rms, "{what}: rms {rms}");
}

#[test]
fn logits_of_the_device_agree_at_every_position() {
    let gpu = Gpu::borrow();
    for path in models() {
        let tiny = Tiny::read(&path);
        let model = Arc::new(Model::open(&path).expect("a tiny model opens"));
        for (format, acts) in
            [(CacheFormat::F32, [ActFormat::F32, ActFormat::Q14]), (CacheFormat::F16, [ActFormat::Q14, ActFormat::F32])]
        {
            let loaded = load(&gpu, &model, format);
            // Unless whole matrices are asked for, rounded activations meet both forms of cache, and f32 ones an f32 cache.
            let all = format == CacheFormat::F32 || matrix::is_full();
            for act in acts.into_iter().take(if all { 2 } else { 1 }) {
                check_logits("device", &mut drive(&loaded, act, Sync::Timeline, 1), &tiny, act, format);
            }
        }
    }
}

#[test]
fn logits_of_the_interpreter_agree_at_every_position() {
    for path in models() {
        let tiny = Tiny::read(&path);
        let model = Arc::new(Model::open(&path).expect("a tiny model opens"));
        for format in [CacheFormat::F32, CacheFormat::F16] {
            let mut model = InterpreterModel::new(&model, cache(format));
            check_logits("interpreter", &mut model, &tiny, ActFormat::F32, format);
        }
    }
}

#[test]
fn the_greedy_continuation_agrees_wherever_the_margin_allows() {
    let gpu = Gpu::borrow();
    for (number, path) in models().into_iter().enumerate() {
        let tiny = Tiny::read(&path);
        let model = Arc::new(Model::open(&path).expect("a tiny model opens"));
        let interpreter = InterpreterModel::new(&model, cache(CacheFormat::F16));
        let expected = continuation(interpreter, &tiny, 1);
        check_continuation("interpreter", ActFormat::F32, &expected, &tiny);
        let loaded = load(&gpu, &model, CacheFormat::F16);
        let usual = [(ActFormat::F32, Sync::Timeline, 4), (ActFormat::Q14, Sync::Timeline, 4)];
        let others = [1, 2, 3, 8].map(|depth| (Sync::Timeline, depth)).into_iter().chain([(Sync::Fence, 1)]);
        // Without whole matrices, only the first model is driven in other ways than the usual one.
        let others =
            others.filter(|_| number == 0 || matrix::is_full()).map(|(sync, depth)| (ActFormat::Q14, sync, depth));
        for (act, sync, depth) in usual.into_iter().chain(others) {
            let ids = continuation(drive(&loaded, act, sync, depth), &tiny, depth);
            check_continuation(&format!("{act:?}, {sync:?} at depth {depth}"), act, &ids, &tiny);
        }
    }
}

/// As many greedy tokens as the golden continuation has, end-of-generation ids not being looked for.
pub(crate) fn continuation<M: StepModel>(model: M, tiny: &Tiny, depth: u32) -> Vec<u32> {
    let options = EngineOptions::default().with_depth(InflightDepth::new(depth).expect("in range"));
    let mut engine = Engine::new(model, SystemClock::new(), options).expect("the engine starts");
    let request = Request::new(tiny.ids.clone(), Vec::new()).with_max_tokens(tiny.greedy.len() as u32);
    let mut tokens: Vec<Token> = Vec::new();
    engine.run(&request, &mut tokens).expect("the model generates");
    tokens.iter().map(|token| token.id).collect()
}

pub(crate) fn check_continuation(what: &str, act: ActFormat, ids: &[u32], tiny: &Tiny) {
    check_continuation_within(&bounds(act, CacheFormat::F16), what, ids, tiny);
}

/// Once one token differs the rest is another text, so the comparison ends at the first margin below the bound.
pub(crate) fn check_continuation_within(bounds: &Bounds, what: &str, ids: &[u32], tiny: &Tiny) {
    assert_eq!(ids.len(), tiny.greedy.len(), "{} {what}", tiny.name);
    for (index, ((ours, theirs), margin)) in ids.iter().zip(&tiny.greedy).zip(&tiny.margins).enumerate() {
        // Both candidates may move by the bound, towards each other.
        if *margin <= 2.0 * f64::from(bounds.largest) && ours != theirs {
            println!("{} {what}: token {index} differs at a margin of {margin}", tiny.name);
            return;
        }
        assert_eq!(ours, theirs, "{} {what}: token {index}, margin {margin}", tiny.name);
    }
}

pub(crate) fn models() -> Vec<PathBuf> {
    let directory = std::env::var_os("ZINC_TINY_DIR")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/tiny"), PathBuf::from);
    let mut paths: Vec<PathBuf> = std::fs::read_dir(&directory)
        .unwrap_or_else(|e| panic!("{}: {e}", directory.display()))
        .map(|entry| entry.expect("a directory entry").path())
        .filter(|path| path.extension().is_some_and(|e| e == "gguf"))
        .collect();
    paths.sort();
    assert!(!paths.is_empty(), "no models in {}", directory.display());
    paths
}

/// Golden values of a tiny model.
pub(crate) struct Tiny {
    name: String,
    pub(crate) ids: Vec<u32>,
    greedy: Vec<u32>,
    margins: Vec<f64>,
    /// The positions whose logits there are, in order.
    positions: Vec<usize>,
    /// `[positions][vocabulary]`.
    logits: Vec<f32>,
    vocabulary: usize,
}

impl Tiny {
    /// Reads the golden values whose files have this path, but for their extensions: those of a model lie beside it.
    pub(crate) fn read(path: &Path) -> Self {
        let json = std::fs::read(path.with_extension("json")).expect("the golden values");
        let json: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
        let ids = |key: &str| -> Vec<u32> {
            json[key].as_array().expect(key).iter().map(|id| id.as_u64().expect("an id") as u32).collect()
        };
        let logits: Vec<f32> = std::fs::read(path.with_extension("logits.f32"))
            .expect("the golden logits")
            .as_chunks()
            .0
            .iter()
            .map(|bytes| f32::from_le_bytes(*bytes))
            .collect();
        let vocabulary = json["vocab"].as_u64().or(json["shape"][1].as_u64()).expect("a vocabulary") as usize;
        let positions: Vec<usize> = match json["positions"].as_array() {
            Some(listed) => listed.iter().map(|position| position.as_u64().expect("a position") as usize).collect(),
            None => (0..ids("ids").len()).collect(),
        };
        assert_eq!(logits.len(), positions.len() * vocabulary, "{}: logits", path.display());
        Self {
            name: path.file_stem().expect("a name").to_string_lossy().into_owned(),
            ids: ids("ids"),
            greedy: ids("greedy"),
            margins: json["margins"].as_array().expect("margins").iter().filter_map(|m| m.as_f64()).collect(),
            positions,
            logits,
            vocabulary,
        }
    }

    /// The golden logits after the token at a position, if there are any.
    fn logits(&self, position: usize) -> Option<&[f32]> {
        let place = self.positions.binary_search(&position).ok()?;
        Some(&self.logits[place * self.vocabulary..][..self.vocabulary])
    }
}
