//! Model files with random weights: the shapes and the format mix of a real model, for measuring without downloading one.
//!
//! [`preset`] knows the shapes, [`mix`] the formats, [`blocks`] makes weights, [`vocabulary`] a tokenizer, and [`stream`] writes
//! it all. A file depends on its preset, its mix, its number of layers and its seed alone, not on the number of threads.

mod blocks;
mod mix;
mod preset;
mod stream;
mod vocabulary;

pub(crate) use mix::Mix;
pub(crate) use preset::Preset;
pub(crate) use stream::Synthesis;
