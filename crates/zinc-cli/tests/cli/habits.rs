//! What users of llama.cpp are used to, and text as it comes from other programs. On the interpreter, since no answer depends on the device.

use std::fs::{self, File};

use crate::support::{ANSWER, Outcome, QUESTION, argument, command, source_argument, zinc, zinc_with_input};

/// Runs a command on the interpreter.
fn interpreted(arguments: &[&str], input: &(impl AsRef<[u8]> + ?Sized)) -> Outcome {
    zinc_with_input(&[&arguments[..1], &["--device", "interpreter"], &arguments[1..]].concat(), input)
}

#[test]
fn a_command_line_of_llama_cpp_is_answered_with_notes() {
    let line = "-ngl 99 -fa on -cnv -st --no-mmap -t 8 -b 512 -ub 256 -fit off --no_display_prompt --top_k 5 --temp 1 --temp 0";
    let words: Vec<&str> = line.split(' ').collect();
    let outcome = zinc(&[&["run", "--device", "interpreter", "-n", "2", "-p", QUESTION], &words[..]].concat());
    let notes = outcome.stderr.lines().filter(|line| line.starts_with("note: -")).count();
    assert_eq!(notes, 9, "{outcome:?}");
    let text = outcome.success();
    assert!(ANSWER.starts_with(text.trim_end()) && text.len() > 2, "{text}");
}

#[test]
fn what_would_change_the_answer_is_refused_before_a_file_is_opened() {
    for (arguments, parts) in [
        (&["run", "--lora", "x"][..], ["--lora", "merge"]),
        (&["run", "--mirostat", "2"], ["--mirostat", "docs/sampling.md"]),
        (&["chat", "-p", "x"], ["-p", "zinc run"]),
        (&["run", "--samplers", "top_p;top_k"], ["--samplers", "top_p comes before top_k"]),
        (&["run", "--chat-template", "nonsense"], ["nonsense", "chatml"]),
        (&["run", "--draft", "16"], ["--draft", "--draft-max"]),
    ] {
        zinc(&[arguments, &["-m", "/nonexistent.gguf"]].concat()).failure(2, &parts);
    }
}

#[test]
fn biases_that_forbid_everything_are_named() {
    let model = source_argument("tests/data/tiny/llama-f16.gguf");
    let report = zinc(&["inspect", "--json", &model]).json();
    let vocabulary = report["metadata"]["tokenizer.ggml.tokens"]["length"].as_u64().unwrap();
    let all: Vec<String> = (0..vocabulary).map(|id| format!("{id}-inf")).collect();
    let run = |biases: &str| {
        zinc(&["run", "--device", "interpreter", "--raw", "-n", "1", "-p", "a", "-m", &model, "-l", biases])
    };
    run(&all.join(",")).failure(1, &["the logit biases forbid every token"]);
    run(&all[1..].join(",")).success();
}

#[test]
fn a_text_that_is_piped_in_follows_the_prompt() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("text.txt");
    // Too long on purpose: the number of tokens tells what the prompt is.
    let tokens = |outcome: Outcome| {
        let stderr = outcome.stderr;
        let (_, rest) = stderr.split_once("the prompt has ").unwrap_or_else(|| panic!("{stderr}"));
        rest.split(' ').next().unwrap().to_owned()
    };
    fs::write(&path, "one two three\nfour five six seven\n").unwrap();
    let both = tokens(zinc(&["run", "-c", "4", "--device", "interpreter", "-f", &argument(&path)]));
    let alone = tokens(interpreted(&["run", "-c", "4", "-p", "one two three"], ""));
    assert_ne!(alone, both);
    assert_eq!(tokens(interpreted(&["run", "-c", "4", "-p", "one two three"], "four five six seven\n")), both);
    fs::write(&path, "\u{feff}four five six seven").unwrap();
    let run = ["run", "-c", "4", "--device", "interpreter", "-p", "one two three"];
    let from_file = command(&run).stdin(File::open(&path).unwrap()).output().unwrap();
    assert_eq!(tokens(from_file.into()), both);
    assert_eq!(tokens(zinc(&run)), alone);
}

#[test]
fn a_line_that_is_no_text_costs_itself_and_not_the_conversation() {
    let outcome = interpreted(&["chat", "--temp", "0", "-n", "1"], b"\xef\xbb\xbf/help\ncaf\xe9?\n\xff\n/usr/bin?\n");
    assert!(outcome.stderr.contains("line 2 is not UTF-8: byte 0xe9 at offset 3"), "{outcome:?}");
    assert!(outcome.stderr.contains("line 3 is not UTF-8: byte 0xff at offset 0"), "{outcome:?}");
    assert_eq!(outcome.success().lines().count(), 1);
    let wide = interpreted(&["chat"], b"\xff\xfeh\0i\0\n\0");
    assert!(wide.code == Some(1) && wide.stderr.contains("UTF-16") && wide.stderr.contains("stdin"), "{wide:?}");
}

#[test]
fn text_that_is_not_utf_8_is_located_wherever_it_comes_from() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("latin1.txt");
    fs::write(&path, b"a\ncaf\xe9").unwrap();
    let path = argument(&path);
    let parts = ["latin1.txt", "byte 0xe9 at offset 5, in line 2"];
    let vocabulary = source_argument("tests/data/host/qwen3-vocab.gguf");
    for arguments in [
        &["tokenize", "-m", &vocabulary, "-f", &path][..],
        &["run", "-m", &vocabulary, "-p", "x", "-jf", &path],
        &["run", "-m", &vocabulary, "-p", "x", "--grammar-file", &path],
        &["template", "-m", &vocabulary, "--messages", &path],
        &["template", "-m", &vocabulary, "--messages", "-", "--chat-template-file", &path],
        &["chat", "-m", &vocabulary, "-sysf", &path],
    ] {
        zinc(arguments).failure(1, &parts);
    }
    let read = interpreted(&["chat"], &format!("/read {path}\n"));
    assert!(parts.iter().all(|part| read.stderr.contains(part)), "{read:?}");
    let stdin = zinc_with_input(&["tokenize", "-m", &vocabulary], b"caf\xe9");
    stdin.failure(1, &["stdin", "byte 0xe9 at offset 3"]);
}

#[test]
fn a_template_of_another_name_or_file_takes_the_place_of_the_models() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = directory.path().join(name);
        fs::write(&path, text).unwrap();
        argument(&path)
    };
    let messages = write("messages.json", "\u{feff}[{\"role\": \"user\", \"content\": \"hi\"}]");
    let file = write("own.jinja", "\u{feff}{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}");
    let vocabulary = source_argument("tests/data/host/qwen3-vocab.gguf");
    let rendered = |arguments: &[&str]| {
        zinc(&[&["template", "-m", &vocabulary, "--messages", &messages], arguments].concat()).success()
    };
    assert_eq!(
        rendered(&["--chat-template", "openchat"]),
        "GPT4 Correct User: hi<|end_of_turn|>GPT4 Correct Assistant:"
    );
    assert_eq!(rendered(&["--chat-template-file", &file]), "hi<|im_end|>");
    assert_eq!(rendered(&["--chat-template", "{{ messages[0].role }}"]), "user");
}

#[test]
fn an_answer_that_is_cut_inside_its_constraint_says_so() {
    let run = |arguments: &[&str]| interpreted(&[&["run", "-p", "x", "--temp", "0"], arguments].concat(), "");
    let cut = run(&["--regex", "[a-z]{40}", "-n", "2"]);
    assert!(cut.stderr.contains("may not match its constraint"), "{cut:?}");
    let whole = run(&["--regex", "(a|b)", "-n", "2"]);
    assert!(!whole.stderr.contains("constraint"), "{whole:?}");
}

#[test]
fn verbosity_goes_to_stderr() {
    let run = ["run", "-v", "--device", "interpreter", "-n", "1", "--temp", "0", "-p", QUESTION];
    let outcome: Outcome = command(&run).output().unwrap().into();
    assert!(outcome.stderr.contains("sequence ended"), "{outcome:?}");
    let text = outcome.success();
    assert!(ANSWER.starts_with(text.trim_end()), "{text}");
}
