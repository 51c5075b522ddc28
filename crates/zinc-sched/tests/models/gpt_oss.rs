//! gpt-oss, with its windows, sinks, biases, clamped gates and YaRN, against values computed by another program in double precision: a short prompt at every position, and one
//! of 150 tokens, longer than the windows and than any tile of keys.
//!
//! The models are those of `tests/data/arch`. The values are those of files whose names end with `-hframp`: their YaRN blends as gpt-oss was trained, not between whole pairs.

use crate::arch::Arch;
use crate::tiny::Bounds;

/// The model with experts in MXFP4 and the rest in BF16, by its name beside the models of `tests/data/tiny`.
pub(crate) const GPT_OSS: &str = "../arch/gptoss-a-mxfp4";

/// The model in F16, and that with experts in MXFP4 and the rest in BF16. Rounding K and V to f16 alone moves a float64 model by up to 1.7e-2 (RMS 2.2e-3), since
/// YaRN's factor sharpens scores by 1.8.
const ARCH: Arch = Arch {
    models: &["gptoss-a-f16", "gptoss-a-mxfp4"],
    prompts: ["-hframp", "-long-hframp"],
    default: Bounds { largest: 4e-2, rms: 6e-3 },
};

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
