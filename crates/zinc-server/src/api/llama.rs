//! llama.cpp's own API, besides what it has of OpenAI's.

pub mod completion;
pub mod infill;
pub mod info;
pub mod text;
