//! Prints what a GGUF file holds: `cargo run --example inspect [FILE]`. Without a file it is the demo model.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};

use zinc_model::config::{ModelConfig, check_tensors};
use zinc_model::gguf::File;
use zinc_model::{Special, Tokenizer};

#[expect(clippy::print_stdout, reason = "an example prints")]
fn main() -> Result<(), Box<dyn Error>> {
    let demo = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/zinc-demo-q4_k_m.gguf");
    let path = std::env::args_os().nth(1).map_or_else(demo, PathBuf::from);
    let file = File::open(&path)?;
    for (key, value) in file.metadata().iter() {
        println!("{key} = {}", value.to_string().chars().take(100).collect::<String>());
    }

    let mut formats: BTreeMap<&str, (usize, u64)> = BTreeMap::new();
    for tensor in file.tensors() {
        let (count, bytes) = formats.entry(tensor.format.name()).or_default();
        *count += 1;
        *bytes += tensor.bytes;
    }
    for (format, (count, bytes)) in formats {
        println!("{format:8} {count:5} tensors {bytes:14} bytes");
    }
    // A file of a vocabulary alone has no model to describe.
    if !file.tensors().is_empty() {
        let config = ModelConfig::from_gguf(&file)?;
        check_tensors(&file, &config)?;
        println!("{config:#?}");
    }

    let tokenizer = Tokenizer::from_gguf(&file)?;
    let text = "What is a telescope?";
    let ids = tokenizer.encode(text, Special::Plain)?;
    println!("{text:?} is {ids:?}, which is {:?}", tokenizer.decode(&ids));
    Ok(())
}
