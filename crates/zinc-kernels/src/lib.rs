//! Compute kernels for transformer inference: SPIR-V, typed interfaces, quantised formats and a CPU reference of each.

pub mod formats;

pub use formats::Format;
