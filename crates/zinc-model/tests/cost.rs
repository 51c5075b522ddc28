//! The cost model counts what a step reads from the memory of a device, and steps are cut into ranges of layers by it.

use std::path::Path;

use zinc_kernels::ops::{ActFormat, CacheFormat};
use zinc_kernels::step::StepShape;
use zinc_model::Model;
use zinc_model::plan::{Array, CacheOptions, Cost, MANY_ROWS, Op, PlanKind, PlanOptions, Sizes, StepPlan};

#[test]
fn weights_count_as_they_lie_on_a_device() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/tiny/qwen3moe-a-q4_k_m.gguf");
    let model = Model::open(&path).expect("a tiny model opens");
    let cache = CacheOptions::new(16, CacheFormat::F16, CacheFormat::F16);
    let sizes = Sizes { config: &model.config, cache };
    let ops = StepPlan::new(&model.weights, &PlanOptions::new(PlanKind::Decode, ActFormat::Q14)).ops;
    let [Op::List, Op::Gather { table, .. }, ..] = &ops[..] else { panic!("a step begins with {:?}", ops.first()) };
    let table = model.weights.tensor(*table);
    let is_tied = model.weights.tensors.iter().filter(|tensor| tensor.rows == model.config.n_vocab).count() == 1;
    let (experts, used) = model.config.feed_forward(0).experts();
    let mut expected = table.device_row_bytes();
    for tensor in &model.weights.tensors {
        expected += match tensor.matrices {
            1 if std::ptr::eq(tensor, table) && !is_tied => 0,
            1 => tensor.device_bytes(),
            _ => tensor.device_bytes() / u64::from(experts) * u64::from(used),
        };
    }
    let counted: u64 = ops.iter().map(|op| op.cost(&model.weights, &sizes, 3, StepShape::ONE).weight_bytes).sum();
    assert_eq!(counted, expected);
    // Rows share the matrices that all of them are multiplied with, and have experts, positions and operations of their own.
    for op in &ops {
        let [one, four] = [StepShape::ONE, StepShape::FOUR].map(|shape| op.cost(&model.weights, &sizes, 3, shape));
        let shared = !matches!(op, Op::Gather { .. } | Op::GateUp { .. } | Op::ExpertDown { .. });
        assert_eq!(four.weight_bytes, one.weight_bytes * if shared { 1 } else { 4 }, "{op:?}");
        let alone: Cost = (3..7).map(|position| op.cost(&model.weights, &sizes, position, StepShape::ONE)).sum();
        assert_eq!((four.cache_bytes, four.flops), (alone.cache_bytes, alone.flops), "{op:?}");
    }
    let grown = |tensor: &zinc_model::weights::WeightTensor| tensor.device_bytes() > tensor.bytes;
    assert!(model.weights.tensors.iter().any(grown), "no tensor tells the device's bytes from the file's");
}

/// A window bounds what attention reads, in the layers that have one.
#[test]
fn windows_bound_what_attention_reads() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/arch/gptoss-a-mxfp4.gguf");
    let model = Model::open(&path).expect("a tiny model opens");
    let cache = CacheOptions::new(256, CacheFormat::F16, CacheFormat::F16);
    let sizes = Sizes { config: &model.config, cache };
    let ops = StepPlan::new(&model.weights, &PlanOptions::new(PlanKind::Decode, ActFormat::Q14)).ops;
    let bytes = |layer: u32, position: u32| -> u64 {
        let op = ops.iter().find(|op| matches!(op, Op::Attention { layer: of, .. } if *of == layer)).unwrap();
        op.cost(&model.weights, &sizes, position, StepShape::ONE).cache_bytes
    };
    // A key and a value head of 64 halves; the one of the position itself is written, and read.
    let of_position = 2 * 64 * 2;
    for (position, in_window) in [(0, 1), (30, 31), (31, 32), (32, 32), (200, 32)] {
        assert_eq!(bytes(0, position), (1 + in_window) * of_position, "position {position} with a window");
        assert_eq!(bytes(1, position), (2 + u64::from(position)) * of_position, "position {position} without");
    }
}

#[test]
fn seconds_are_those_of_weights_or_of_operations() {
    // A fifth of a second of reading, and of operations.
    let (reads, computes) = (
        Cost { weight_bytes: 128_000_000_000, ..Cost::default() },
        Cost { flops: 2_393_750_000_000, ..Cost::default() },
    );
    for (cost, seconds) in [(reads, 0.2), (computes, 0.2), (reads + computes, 0.2), (reads + computes + computes, 0.4)]
    {
        assert!((cost.seconds() - seconds).abs() < 1e-9, "{cost:?}: {}", cost.seconds());
    }
    assert!(
        Cost { cache_bytes: 1 << 40, ..Cost::default() }.seconds() < 1e-9,
        "rows share what they read of the cache"
    );
}

/// Whatever a layer consists of, a cut finds its first op.
#[test]
fn steps_of_every_architecture_are_cut_between_layers() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/tiny");
    for name in ["qwen3moe-a-q4_k_m", "qwen3-f16", "qwen2-f16", "llama-f16", "../arch/gptoss-a-mxfp4"] {
        let model = Model::open(directory.join(name).with_extension("gguf")).expect("a tiny model opens");
        for act in [ActFormat::Q14, ActFormat::F32] {
            let options = PlanOptions::new(PlanKind::Feed, act).with_shape(StepShape::of(MANY_ROWS));
            let plan = StepPlan::new(&model.weights, &options);
            let ranges = plan.clone().into_ranges(0.0, |_| 1.0);
            assert_eq!(ranges.len(), model.config.layers.len(), "{name}, {act:?}");
            let mut whole = Vec::new();
            for (layer, range) in ranges.iter().enumerate() {
                let ops = range.ops.strip_prefix(&[Op::Cancel]).unwrap_or(&range.ops);
                assert_eq!(ops.len() < range.ops.len(), layer > 0, "{name}, {act:?}: {layer}");
                let writes = |array| ops.iter().filter(|op| op.writes().contains(&array)).count();
                assert_eq!(writes(Array::KeyCache(layer as u32)), 1, "{name}, {act:?}: {layer}");
                // Attention and the feed-forward part each add to the residual stream, which the embeddings begin.
                assert_eq!(writes(Array::Residual), if layer == 0 { 3 } else { 2 }, "{name}, {act:?}: {layer}");
                whole.extend_from_slice(ops);
            }
            assert_eq!(whole, plan.ops, "{name}, {act:?}");
        }
    }
}

/// A recurrent state is read and written once, whatever the rows and the position; other layers have the cache.
#[test]
fn recurrent_states_cost_the_same_at_every_position() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/arch/qwen35-a-f16.gguf");
    let model = Model::open(&path).expect("a tiny model opens");
    let sizes = Sizes { config: &model.config, cache: CacheOptions::new(256, CacheFormat::F16, CacheFormat::F16) };
    let ops = StepPlan::new(&model.weights, &PlanOptions::new(PlanKind::Decode, ActFormat::Q14)).ops;
    let delta_nets: Vec<&Op> = ops.iter().filter(|op| matches!(op, Op::DeltaNet { .. })).collect();
    assert_eq!(delta_nets.len(), 3);
    for op in delta_nets {
        let cost = |position, rows| op.cost(&model.weights, &sizes, position, StepShape::of(rows));
        let elements = 6 * 64 * 64;
        // The weights are those of six heads in two vectors, of which each is filled up to 32 bytes.
        assert_eq!(cost(0, 1), Cost { weight_bytes: 2 * 32, cache_bytes: 8 * elements, flops: 7 * elements });
        assert_eq!(cost(200, 4), Cost { flops: 4 * 7 * elements, ..cost(0, 1) });
    }
}
