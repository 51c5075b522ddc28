//! What steps need of those before them: why other steps may run between the ranges of one that feeds.

use std::collections::BTreeSet;
use std::path::Path;

use zinc_kernels::ops::{ActFormat, CacheFormat};
use zinc_kernels::step::StepShape;
use zinc_model::Model;
use zinc_model::memory::{LoadOptions, MemoryPlan};
use zinc_model::plan::{
    Array, CacheOptions, MANY_ROWS, PlanKind, PlanOptions, RowCounts, Sampler, SamplingStage, StepPlan,
};

/// Models of every kind of layer.
const MODELS: [&str; 8] = [
    "qwen3moe-a-q4_k_m",
    "qwen3moe-b-q8_0",
    "qwen3-f16",
    "qwen2-f16",
    "llama-f16",
    "../arch/gptoss-a-mxfp4",
    "../arch/qwen35-a-f16",
    "../arch/qwen35moe-b-q4_k",
];

fn open(name: &str) -> Model {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/tiny");
    Model::open(directory.join(name).with_extension("gguf")).expect("a tiny model opens")
}

/// The arrays that an op may find as another step has left them, with a state, tokens, parts of the cache and recurrent states of its own. Counters, and the lengths of
/// repetitions, are 0 whenever none of their ops runs; occurrences of tokens are a lane's own.
fn is_left_alone(array: &Array) -> bool {
    let between_steps = [Array::State, Array::Tokens, Array::Counters, Array::DryLengths, Array::TokenCounts];
    let of_layers = matches!(array, Array::KeyCache(_) | Array::ValueCache(_) | Array::Recurrent(_));
    between_steps.contains(array) || of_layers || matches!(array, Array::GroupValues(_))
}

#[test]
fn a_range_needs_the_residual_stream_and_what_steps_leave_alone() {
    for name in MODELS {
        let model = open(name);
        for act in [ActFormat::Q14, ActFormat::F32] {
            for rows in [MANY_ROWS, 4 * MANY_ROWS] {
                let feed = PlanOptions::new(PlanKind::Feed, act).with_shape(StepShape::of(rows));
                let decode = PlanOptions::new(PlanKind::Decode, act);
                let ranges = StepPlan::forward(&model.weights, &feed).into_ranges(0.0, |_| 1.0);
                assert_eq!(ranges.len() as u32, model.config.n_layer(), "{name}: a range for each layer");
                for (index, range) in ranges.iter().enumerate() {
                    let carried: BTreeSet<Array> =
                        range.carried().into_iter().filter(|array| !is_left_alone(array)).collect();
                    let expected = if index == 0 { BTreeSet::new() } else { BTreeSet::from([Array::Residual]) };
                    assert_eq!(carried, expected, "{name}, {act:?}, {rows} rows, range {index}");
                }
                let behind = StepPlan::behind_last_rows(&model.weights, &decode).carried();
                let more: Vec<_> = behind.iter().filter(|array| !is_left_alone(array)).collect();
                assert_eq!(more, [&Array::Residual], "{name}, {act:?}: behind the layers");
            }
        }
    }
}

#[test]
fn a_whole_step_needs_nothing_that_steps_do_not_leave_alone() {
    let stages = [Sampler::Plain, Sampler::Host, Sampler::Chain { dry: false }, Sampler::Chain { dry: true }];
    for name in MODELS {
        let model = open(name);
        for sampler in stages {
            for shape in [1, 4, 16, 64].map(StepShape::of) {
                let stage = SamplingStage { sampler, logprobs: true };
                let options = PlanOptions::new(PlanKind::Decode, ActFormat::Q14).with_shape(shape).with_sampling(stage);
                let carried = StepPlan::new(&model.weights, &options).carried();
                // What the host chooses from is no array.
                let expected =
                    |array: &Array| is_left_alone(array) || sampler == Sampler::Host && *array == Array::Candidates;
                assert!(carried.iter().all(expected), "{name}, {sampler:?}, {} rows: {carried:?}", shape.rows());
            }
        }
    }
}

/// The recurrent states of all lanes are planned, with room for drafts.
#[test]
fn recurrent_states_are_planned() {
    let model = open("../arch/qwen35-a-f16");
    let plan = |lanes, drafts| {
        let cache = CacheOptions::new(96, CacheFormat::F16, CacheFormat::F16).with_lanes(lanes).with_drafts(drafts);
        MemoryPlan::new(&model.config, &model.weights, cache)
    };
    // Three layers: six matrices of 64 x 64, a position of each of their columns, and three positions of 640 channels, all of four bytes.
    let state = 3 * 4 * (6 * 64 * 64 + 6 * 64 + 3 * 640);
    assert_eq!((plan(1, 0).recurrent, plan(5, 0).recurrent), (state, 5 * state));
    assert_eq!(plan(1, 3).recurrent, model.config.recurrent_bytes(3));
    assert!(plan(1, 3).recurrent > state);
    let rest = |plan: MemoryPlan| plan.weights + plan.kv_cache + plan.work;
    assert_eq!(plan(2, 3).total(), rest(plan(2, 3)) + 2 * model.config.recurrent_bytes(3));
    let without = open("qwen2-f16");
    let cache = CacheOptions::new(96, CacheFormat::F16, CacheFormat::F16).with_drafts(3);
    assert_eq!(MemoryPlan::new(&without.config, &without.weights, cache).recurrent, 0);
}

/// The memory of the residual stream that is carried is planned: one row of it for each row of a step, where steps are cut and lanes can come between.
#[test]
fn what_is_carried_is_planned() {
    let model = open("qwen3moe-a-q4_k_m");
    let work = |lanes, rows| {
        let cache = CacheOptions::new(96, CacheFormat::F16, CacheFormat::F16).with_lanes(lanes);
        let options = LoadOptions::new(cache).with_counts(RowCounts::new(rows, 4));
        MemoryPlan::new(&model.config, &model.weights, options).work
    };
    let row = (u64::from(model.config.n_embd) * 4).next_multiple_of(256);
    let of_a_lane = work(4, 16) - work(3, 16);
    assert_eq!(work(2, 16) - work(1, 16), of_a_lane, "steps of few rows are not cut");
    assert_eq!(work(2, 64) - work(1, 64), of_a_lane + 64 * row);
    assert_eq!(work(3, 64) - work(2, 64), of_a_lane);
}
