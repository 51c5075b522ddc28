//! Models of the kind of Qwen3.5, dense and with experts, and of Qwen3-Next: gated delta nets, gated attention, shared experts and partial rotations,
//! against values of other programs in double precision: a short prompt at every position, and one of 150 tokens or more, longer than any tile of rows or keys.
//!
//! The models are those of `tests/data/arch`.

use std::path::{Path, PathBuf};

use zinc_kernels::ops::{ActFormat, CacheFormat};
use zinc_kernels::step::StepShape;
use zinc_sched::adapter::Sync;
use zinc_sched::{DeviceFinish, Sampling, SequenceStart, Step, StepLane, StepModel as _};

use crate::arch::{Arch, open};
use crate::gpu::Gpu;
use crate::tiny::{Bounds, cache_for, drive, load_feeding};

/// The dense model, by its name beside the models of `tests/data/tiny`.
pub(crate) const QWEN35: &str = "../arch/qwen35-a-f16";

/// The model with experts, most matrices of which have quantised formats.
pub(crate) const QWEN35_MOE: &str = "../arch/qwen35moe-b-q4_k";

/// A dense model in F16; one with experts and a shared one in Q4_K, Q5_K, Q6_K and Q8_0; Qwen3-Next, whose value heads are in another order; one
/// whose file has the gates and ups of experts in one tensor and lists its delta nets; and one whose file has a block that drafts tokens.
///
/// Rounding K and V to f16 alone moves a float64 model by up to 2.0e-3, and one whose router has large logits by up to 9e-3.
const ARCH: Arch = Arch {
    models: &["qwen35-a-f16", "qwen35moe-b-q4_k", "qwen3next-a-f16", "qwen35moe-fused-a-f16", "qwen35-mtp-a-f16"],
    prompts: ["", "-long"],
    default: Bounds { largest: 2e-2, rms: 3e-3 },
};

/// Where a model of such a name lies.
pub(crate) fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/tiny").join(name).with_extension("gguf")
}

#[test]
fn logits_of_the_interpreter_agree() {
    ARCH.logits_of_the_interpreter_agree();
}

#[test]
fn logits_of_the_device_agree() {
    ARCH.logits_of_the_device_agree();
}

#[test]
fn the_greedy_continuation_agrees_wherever_the_margin_allows() {
    ARCH.the_greedy_continuation_agrees_wherever_the_margin_allows();
}

#[test]
fn logits_have_the_same_bits_however_many_tokens_are_computed_together() {
    ARCH.logits_have_the_same_bits_however_many_tokens_are_computed_together();
}

/// A measurement pretends that a lane has taken in so many positions: its steps have numbers behind these, and behind no others.
#[test]
fn filled_states_go_on_at_their_position() {
    let gpu = Gpu::borrow();
    for name in ARCH.models.iter().copied() {
        let [golden, _] = ARCH.golden(name);
        let loaded = load_feeding(&gpu, &open(name), cache_for(&golden, CacheFormat::F16), StepShape::ONE);
        let mut model = drive(&loaded, ActFormat::Q14, Sync::Timeline, 1);
        let (last, greedy) = (golden.ids.len() as u32 - 1, Sampling::GREEDY);
        for (filled, finish) in [(last, None), (last - 1, Some(DeviceFinish::NonFinite)), (last, None)] {
            loaded.fill_cache(filled).expect("the cache is filled");
            let state = model.state(0, filled).expect("the state is read");
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
