//! What the fuzz targets check. The programs in `fuzz_targets`, which libFuzzer drives, call these functions; `cargo xtask fuzz` runs them.
//!
//! Each target takes any bytes, and fails by a panic.

pub mod answer;
pub mod gbnf;
pub mod gguf;
pub mod grammar;
pub mod schema;
pub mod seeds;
pub mod template;
pub mod text;
