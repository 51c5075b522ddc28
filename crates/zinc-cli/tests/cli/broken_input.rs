//! Whatever is wrong with the input: one clear line, an exit status that is not 0, and no panic.

use std::fs;
use std::path::Path;

use crate::support::{
    Change, TINY, altered, argument, command, source_argument, source_file, zinc, zinc_with_input, zinc_with_variables,
};

/// Every command that opens a model, with what else it needs.
const COMMANDS: [&[&str]; 5] = [
    &["run", "--raw", "-p", "x", "-m"],
    &["chat", "-m"],
    &["logits", "--ids", "1", "-m"],
    &["tokenize", "-p", "x", "-m"],
    &["inspect", "-m"],
];

fn each_command(model: &Path, parts: &[&str]) {
    let model = argument(model);
    for arguments in COMMANDS {
        zinc(&[arguments, &[&model]].concat()).failure(1, parts);
    }
}

#[test]
fn a_missing_file() {
    each_command(Path::new("/nonexistent/model.gguf"), &["/nonexistent/model.gguf", "No such file"]);
}

#[test]
fn an_empty_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("empty.gguf");
    fs::write(&path, "").unwrap();
    each_command(&path, &["empty.gguf"]);
}

#[test]
fn a_text_file_and_a_directory() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("text.gguf");
    fs::write(&path, "This is a text, and quite a long one, but it is not a model.\n".repeat(100)).unwrap();
    each_command(&path, &["text.gguf"]);
    each_command(directory.path(), &["directory"]);
}

#[test]
fn a_file_cut_at_twenty_places() {
    let directory = tempfile::tempdir().unwrap();
    let whole = fs::read(source_file(TINY)).unwrap();
    for twentieth in 0..20 {
        let path = directory.path().join(format!("cut-{twentieth}.gguf"));
        // Quadratic, so that half of the cuts fall into the header and the metadata at the start of the file.
        let bytes = whole.len() * twentieth * twentieth / 400;
        fs::write(&path, &whole[..bytes]).unwrap();
        let path = argument(&path);
        zinc(&["run", "--raw", "-p", "x", "-m", &path]).failure(1, &["cut-"]);
        zinc(&["inspect", &path]).failure(1, &["cut-"]);
    }
}

#[test]
fn another_architecture() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("other.gguf");
    altered(&path, &[("general.architecture", "mamba".to_owned().into())], None);
    let path = argument(&path);
    zinc(&["run", "--raw", "-p", "x", "-m", &path]).failure(1, &["'mamba'", "not supported", "qwen3moe"]);
    zinc(&["logits", "--ids", "1", "-m", &path]).failure(1, &["'mamba'"]);
    // What is in the file can still be looked at.
    assert!(zinc(&["inspect", &path]).success().contains("cannot run it"));
}

#[test]
fn a_tensor_of_the_wrong_shape() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("shape.gguf");
    altered(&path, &[], Some(&("blk.1.attn_q.weight", Change::Shape(vec![256, 64]))));
    let outcome = zinc(&["run", "--raw", "-p", "x", "-m", &argument(&path)]);
    outcome.failure(1, &["blk.1.attn_q.weight", "[256, 512]", "[256, 64]"]);
}

#[test]
fn an_unsupported_format_is_named() {
    const IQ2_XXS: u32 = 16;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("format.gguf");
    altered(&path, &[], Some(&("blk.0.ffn_gate_exps.weight", Change::Format(IQ2_XXS))));
    let path = argument(&path);
    zinc(&["run", "--raw", "-p", "x", "-m", &path]).failure(1, &["blk.0.ffn_gate_exps.weight", "IQ2_XXS", "Q4_K"]);
    let rows = zinc(&["inspect", "--json", &path]).json()["formats"].clone();
    let unsupported = rows.as_array().unwrap().iter().find(|row| row["format"] == "IQ2_XXS").unwrap();
    assert_eq!(unsupported["supported"], false);
}

#[test]
fn a_context_larger_than_memory() {
    zinc(&["run", "-p", "x", "-c", "4000000000"]).failure(1, &["needs", "GiB of device memory", "are available"]);
    zinc(&["logits", "--ids", "1", "-c", "4000000000"]).failure(1, &["GiB"]);
}

#[test]
fn no_vulkan_loader() {
    let directory = tempfile::tempdir().unwrap();
    // The dynamic linker finds this file first and it is no library.
    fs::write(directory.path().join("libvulkan.so.1"), "").unwrap();
    for arguments in [&["devices"][..], &["run", "-p", "x"]] {
        let output = command(arguments).env("LD_LIBRARY_PATH", directory.path()).output().unwrap();
        crate::support::Outcome::from(output).failure(1, &["no Vulkan loader", "apt-get install libvulkan1"]);
    }
}

#[test]
fn no_vulkan_driver() {
    let mut devices = command(&["devices"]);
    devices.env("VK_DRIVER_FILES", "/nonexistent.json").env("VK_ICD_FILENAMES", "/nonexistent.json");
    let outcome = crate::support::Outcome::from(devices.output().unwrap());
    outcome.failure(1, &["no device", "apt-get install mesa-vulkan-drivers"]);
}

#[test]
fn a_device_that_does_not_exist() {
    zinc(&["run", "-p", "x", "--device", "99"]).failure(1, &["index 99", "there are: 0: "]);
    zinc(&["run", "-p", "x", "-dev", "voodoo"]).failure(1, &["\"voodoo\"", "there are: 0: "]);
}

#[test]
fn ids_outside_the_vocabulary() {
    zinc(&["logits", "--ids", "1,8192"]).failure(1, &["8192", "place 2", "0 to 8191"]);
    zinc(&["logits", "--ids", "4294967295"]).failure(1, &["4294967295"]);
    zinc(&["logits", "--ids", "4294967296"]).failure(2, &["4294967296"]);
    zinc(&["logits", "--ids", "-1"]).failure(2, &["-1"]);
    zinc(&["logits", "--ids", ""]).failure(2, &["--ids"]);
    zinc(&["logits"]).failure(2, &["--ids"]);
}

#[test]
fn a_prompt_longer_than_the_context() {
    zinc(&["run", "--raw", "-p", "one two three four five six", "-c", "4"]).failure(1, &["context holds 4"]);
    let outcome = zinc_with_input(&["run"], &"word ".repeat(5000));
    outcome.failure(1, &["tokens", "context holds 1024"]);
    zinc(&["logits", "--ids", "1,2,3", "-c", "2"]).failure(1, &["3 tokens", "context holds 2"]);
}

#[test]
fn flags_that_are_not_understood() {
    zinc(&["run", "--unknown"]).failure(2, &["--unknown"]);
    zinc(&["unknown"]).failure(2, &["unknown"]);
    zinc(&["run", "-p", "x", "-f", "y"]).failure(2, &["--prompt", "--file"]);
    zinc(&["run", "-p", "x", "--depth", "9"]).failure(2, &["--depth", "1..=8"]);
    zinc(&["run", "-p", "x", "--sync", "hope"]).failure(2, &["hope", "timeline", "fence"]);
    zinc(&["run", "-p", "x", "--temp", "-1"]).failure(2, &["-1"]);
    zinc(&["run", "-p", "x", "--temp", "NaN"]).failure(2, &["NaN"]);
    zinc(&["run", "-p", "x", "-ctk", "q8_0"]).failure(2, &["q8_0", "f16", "f32"]);
    zinc(&["template", "--messages", "-", "--kwargs", "[1]"]).failure(2, &["JSON object"]);
}

#[test]
fn texts_that_cannot_be_read() {
    zinc(&["run", "-f", "/nonexistent.txt"]).failure(1, &["/nonexistent.txt"]);
    zinc(&["run", "--raw", "-p", ""]).failure(1, &["empty"]);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("latin1.txt");
    fs::write(&path, b"caf\xe9").unwrap();
    zinc(&["tokenize", "-f", &argument(&path)]).failure(1, &["latin1.txt", "UTF-8"]);
}

#[test]
fn messages_that_are_none() {
    let vocabulary = source_argument("tests/data/host/qwen3-vocab.gguf");
    let template = |messages: &str| zinc_with_input(&["template", "-m", &vocabulary, "--messages", "-"], messages);
    template("not JSON").failure(1, &["JSON"]);
    template("{}").failure(1, &["array"]);
    template(r#"[{"role": "user"}]"#).failure(1, &["chat template"]);
    zinc(&["template", "-m", &vocabulary, "--messages", "/nonexistent.json"]).failure(1, &["/nonexistent.json"]);
    // The tiny models have a vocabulary and no template.
    let tiny = source_argument(TINY);
    zinc_with_input(&["template", "-m", &tiny, "--messages", "-"], "[]").failure(1, &["no chat template"]);
    zinc(&["run", "-m", &tiny, "-p", "x"]).failure(1, &["no chat template", "--raw"]);
}

#[test]
fn a_demo_model_that_is_not_there() {
    let outcome = zinc_with_variables(&["run", "-p", "x"], &[("ZINC_DEMO_MODEL", "/nonexistent/demo.gguf")]);
    outcome.failure(1, &["/nonexistent/demo.gguf", "-m FILE"]);
}

#[test]
fn a_part_of_a_split_model_that_is_missing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("model-00001-of-00002.gguf");
    altered(&path, &[("split.count", 2u16.into()), ("split.no", 0u16.into())], None);
    zinc(&["inspect", &argument(&path)]).failure(1, &["part 2 of 2", "model-00002-of-00002.gguf"]);
}
