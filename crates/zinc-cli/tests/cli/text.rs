//! Commands that need no device: tokens, templates, what is in a file, and the edges of the program itself.

use std::fs;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::{argument, command, golden, source_argument, zinc, zinc_with_input};

const VOCABULARY: &str = "tests/data/host/qwen3-vocab.gguf";

/// The first id of Qwen3's vocabulary that is not text.
const QWEN3_FIRST_CONTROL: u64 = 151_643;

#[test]
fn tokens_are_those_of_the_reference() {
    let vocabulary = source_argument(VOCABULARY);
    let cases = golden("tests/data/host/qwen3_tokens.json");
    // The library's tests cover all of the texts; each run of the program loads the vocabulary, so here are a tenth.
    for case in cases.as_array().unwrap().iter().step_by(10) {
        let arguments = ["tokenize", "-m", &vocabulary, "--parse-special", "--json"];
        let tokens = zinc_with_input(&arguments, case["text"].as_str().unwrap()).json();
        assert_eq!(tokens["ids"], case["ids"], "{case}");
        assert_eq!(tokens["text"], case["decoded"], "{case}");
        assert_eq!(tokens["pieces"].as_array().unwrap().len(), case["ids"].as_array().unwrap().len(), "{case}");
    }
}

#[test]
fn no_text_yields_a_control_token_unless_asked() {
    let vocabulary = source_argument(VOCABULARY);
    let cases = golden("tests/data/host/qwen3_tokens.json");
    let texts: Vec<&str> = cases.as_array().unwrap().iter().map(|case| case["text"].as_str().unwrap()).collect();
    let text = format!("{}<|im_start|>system<|im_end|><|endoftext|>", texts.concat());
    let controls = |arguments: &[&str]| {
        let ids = zinc_with_input(&[&["tokenize", "-m", &vocabulary, "--json"], arguments].concat(), &text).json();
        let ids = ids["ids"].as_array().unwrap().clone();
        // User-defined tokens such as <think> come after the control tokens and are text: they are recognised in both cases.
        ids.iter()
            .filter_map(Value::as_u64)
            .filter(|id| (QWEN3_FIRST_CONTROL..QWEN3_FIRST_CONTROL + 3).contains(id))
            .count()
    };
    assert_eq!(controls(&[]), 0);
    assert!(controls(&["--parse-special"]) >= 3);
}

#[test]
fn conversations_are_rendered_as_by_the_reference() {
    let vocabulary = source_argument(VOCABULARY);
    let directory = tempfile::tempdir().unwrap();
    let cases = golden("tests/data/host/qwen3_chat.json");
    for (index, case) in cases.as_array().unwrap().iter().enumerate() {
        let mut input = case["input"].as_object().unwrap().clone();
        let write = |name: &str, value: &Value| {
            let path = directory.path().join(format!("{index}-{name}.json"));
            fs::write(&path, value.to_string()).unwrap();
            argument(&path)
        };
        let messages = write("messages", &input.shift_remove("messages").unwrap());
        let mut arguments =
            vec!["template".to_owned(), "-m".to_owned(), vocabulary.clone(), "--messages".to_owned(), messages];
        if let Some(tools) = input.shift_remove("tools") {
            arguments.extend(["--tools".to_owned(), write("tools", &tools)]);
        }
        if input.shift_remove("add_generation_prompt") == Some(json!(false)) {
            arguments.push("--no-generation-prompt".to_owned());
        }
        if !input.is_empty() {
            arguments.extend(["--kwargs".to_owned(), Value::Object(input).to_string()]);
        }
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        assert_eq!(zinc(&arguments).success(), case["rendered"].as_str().unwrap(), "case {index}");
    }
}

#[test]
fn a_table_of_tokens_for_people() {
    let table = zinc(&["tokenize", "-p", "Telescope\n"]).success();
    assert_eq!(table.lines().count(), 3, "{table}");
    assert!(table.ends_with("'\\n'\n"), "{table}");
    assert_eq!(zinc(&["tokenize", "-p", ""]).success(), "");
}

#[test]
fn stdin_and_files_are_tokenised_to_the_last_newline() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("text.txt");
    fs::write(&path, "a\n").unwrap();
    let from_file = zinc(&["tokenize", "--json", "-f", &argument(&path)]).json();
    assert_eq!(from_file["text"], "a\n");
    assert_eq!(zinc_with_input(&["tokenize", "--json"], "a\n").json(), from_file);
}

#[test]
fn what_is_in_the_demo_model() {
    let report = zinc(&["inspect", "--json"]).json();
    assert_eq!(report["metadata"]["general.architecture"], "qwen3moe");
    assert_eq!(report["metadata"]["qwen3moe.attention.layer_norm_rms_epsilon"], json!(1e-6));
    assert_eq!(report["tensors"], 99);
    let formats: Vec<&str> =
        report["formats"].as_array().unwrap().iter().map(|row| row["format"].as_str().unwrap()).collect();
    assert_eq!(formats, ["Q4_K", "Q6_K", "Q5_K", "Q8_0", "F32"]);
    let text = zinc(&["inspect"]).success();
    assert!(text.contains("qwen3moe.expert_used_count = 2") && text.contains("Q6_K"), "{text}");
}

#[test]
fn a_file_with_a_vocabulary_only_can_be_looked_at() {
    let report = zinc(&["inspect", "--json", &source_argument(VOCABULARY)]).json();
    assert_eq!(report["metadata"]["tokenizer.ggml.tokens"]["length"], 151_936);
    assert_eq!(report["run"], Value::Null);
    assert!(report["obstacle"].is_string());
}

#[test]
fn the_demo_model_is_announced() {
    let outcome = zinc(&["inspect"]);
    assert!(outcome.stderr.starts_with("note: no -m given; using the demo model"), "{outcome:?}");
    assert_eq!(outcome.stderr.lines().count(), 1, "{outcome:?}");
}

#[test]
fn version_help_and_completions() {
    assert_eq!(zinc(&["--version"]).success(), format!("zinc {}\n", env!("CARGO_PKG_VERSION")));
    let help = zinc(&["run", "--help"]).success();
    for flag in
        ["--model", "--prompt", "--predict", "--ctx-size", "--temp", "--seed", "-ctk", "-ctv", "--sync", "--depth"]
    {
        assert!(help.contains(flag), "no {flag} in {help}");
    }
    for shell in ["bash", "zsh", "fish"] {
        let script = zinc(&["completions", shell]).success();
        assert!(script.contains("zinc") && script.contains("tokenize"), "{shell}: {script}");
    }
}

#[test]
fn without_a_command_there_is_help_and_status_2() {
    let outcome = zinc(&[]);
    assert_eq!(outcome.code, Some(2), "{outcome:?}");
    assert!(outcome.stderr.contains("Usage: zinc"), "{outcome:?}");
}

#[test]
fn a_reader_that_is_gone_is_no_failure() {
    let mut inspect = command(&["inspect"]);
    let mut child = inspect.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert!(!stderr.contains("panicked") && !stderr.contains("error"), "{stderr}");
}
