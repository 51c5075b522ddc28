//! The cost model counts what a step reads from the memory of a device.

use std::path::Path;

use zinc_kernels::ops::{ActFormat, CacheFormat};
use zinc_kernels::step::StepShape;
use zinc_model::Model;
use zinc_model::plan::{CacheOptions, Cost, Op, PlanKind, PlanOptions, Sizes, StepPlan};

#[test]
fn weights_count_as_they_lie_on_a_device() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/tiny/qwen3moe-a-q4_k_m.gguf");
    let model = Model::open(&path).expect("a tiny model opens");
    let cache = CacheOptions::new(16, CacheFormat::F16, CacheFormat::F16);
    let sizes = Sizes { config: &model.config, cache };
    let ops = StepPlan::new(&model.weights, &PlanOptions::new(PlanKind::Decode, ActFormat::Q14)).ops;
    let Some(Op::Gather { table }) = ops.first() else { panic!("a step begins with {:?}", ops.first()) };
    let table = model.weights.tensor(*table);
    let is_tied = model.weights.tensors.iter().filter(|tensor| tensor.rows == model.config.n_vocab).count() == 1;
    let (experts, used) = sizes.experts();
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
