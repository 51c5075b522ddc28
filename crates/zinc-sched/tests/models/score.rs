//! The logits after each of given tokens: their bits do not depend on how many tokens are taken through the layers together, or have their logits
//! computed together.

use std::path::Path;
use std::sync::Arc;

use zinc_kernels::ops::CacheFormat;
use zinc_model::Model;
use zinc_model::device::DeviceModel;
use zinc_model::memory::LoadOptions;
use zinc_model::plan::{CacheOptions, MANY_ROWS, RowCounts};
use zinc_sched::InflightDepth;
use zinc_sched::adapter::{Score as _, VulkanModel, VulkanOptions};

use crate::gpu::Gpu;

/// Two chunks of many rows and a part of a third, whose slices end within a chunk.
const TOKENS: u32 = 2 * MANY_ROWS + 13;

fn logits(gpu: &Gpu, model: &Arc<Model>, counts: RowCounts) -> Vec<Vec<u32>> {
    let cache = CacheOptions::new(TOKENS + 1, CacheFormat::F16, CacheFormat::F16);
    let options = LoadOptions::new(cache).with_counts(counts);
    let loaded = Arc::new(DeviceModel::load(&gpu.pipelines, model, options, &mut |_| {}).expect("a tiny model loads"));
    let mut model = VulkanModel::new(loaded, VulkanOptions::new(InflightDepth::ONE)).expect("the model is driven");
    let tokens: Vec<u32> = (0..TOKENS).map(|i| (i * i + 7 * i) % 500).collect();
    let mut rows = Vec::new();
    let mut keep = |position: usize, logits: &[f32]| {
        assert_eq!(position, rows.len(), "{counts:?}: positions come in order");
        rows.push(logits.iter().map(|logit| logit.to_bits()).collect());
    };
    model.score(&tokens, &mut keep).expect("the model scores");
    rows
}

#[test]
fn chunks_and_slices_change_no_bit() {
    let gpu = Gpu::borrow();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/tiny/qwen3moe-a-q4_k_m.gguf");
    let model = Arc::new(Model::open(&path).expect("a tiny model opens"));
    let one_by_one = logits(&gpu, &model, RowCounts::ONE);
    assert_eq!(one_by_one.len(), TOKENS as usize);
    for counts in [RowCounts::new(MANY_ROWS, 16), RowCounts::new(2 * MANY_ROWS, 4), RowCounts::new(8, 8)] {
        let found = logits(&gpu, &model, counts);
        let differs = (0..TOKENS as usize).find(|row| found[*row] != one_by_one[*row]);
        assert_eq!(differs, None, "{counts:?}: the first row whose logits differ");
    }
}
