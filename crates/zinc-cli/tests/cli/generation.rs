//! Commands that run a model: answers, conversations, logits, and Ctrl-C.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::Stdio;

use crate::support::{ANSWER, QUESTION, argument, command, golden, interrupt, source_argument, zinc, zinc_with_input};

/// Largest difference of a logit from its reference with a cache of float32: the references are float64, and sums of float32
/// over at most 1,031 products of logits with a spread of 1.4 stay well within it.
const LOGIT_TOLERANCE: f32 = 1e-3;

#[test]
fn the_question_is_answered_from_a_flag_a_file_and_stdin() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("question.txt");
    std::fs::write(&path, format!("{QUESTION}\n")).unwrap();
    assert_eq!(zinc(&["run", "--temp", "0", "-p", QUESTION]).success(), ANSWER);
    assert_eq!(zinc(&["run", "--temp", "0", "-f", &argument(&path)]).success(), ANSWER);
    assert_eq!(zinc_with_input(&["run", "--temp", "0"], &format!("{QUESTION}\n")).success(), ANSWER);
}

#[test]
fn every_text_of_the_demo_comes_out() {
    for case in golden("tests/data/demo/q4_k_m.json").as_array().unwrap() {
        let text = zinc(&["run", "--temp", "0", "-p", case["user"].as_str().unwrap()]).success();
        assert_eq!(text, format!("{}\n", case["text"].as_str().unwrap()));
        let text = zinc(&["run", "--temp", "0", "--raw", "-p", case["prompt"].as_str().unwrap()]).success();
        assert_eq!(text, format!("{}\n", case["text"].as_str().unwrap()));
    }
}

#[test]
fn neither_depth_nor_fence_changes_the_answer() {
    for arguments in
        [&["--depth", "1"][..], &["--depth", "2"], &["--depth", "3"], &["--depth", "8"], &["--sync", "fence"]]
    {
        let run = [&["run", "--temp", "0", "-p", QUESTION], arguments].concat();
        assert_eq!(zinc(&run).success(), ANSWER, "{arguments:?}");
    }
}

#[test]
fn the_interpreter_answers_too() {
    let text = zinc(&["run", "--temp", "0", "-n", "3", "--device", "interpreter", "-p", QUESTION]).success();
    assert!(text.len() > 3 && ANSWER.starts_with(text.trim_end()), "{text}");
}

#[test]
fn a_seed_gives_the_same_text_at_every_depth() {
    let run = |arguments: &[&str]| {
        zinc(&[&["run", "--temp", "1.5", "-n", "24", "-p", "Hello!"], arguments].concat()).success()
    };
    let text = run(&["-s", "7"]);
    assert_eq!(run(&["-s", "7", "--depth", "1"]), text);
    assert_eq!(run(&["-s", "7", "--sync", "fence"]), text);
    assert_ne!(run(&["-s", "8"]), text);
}

#[test]
fn no_more_tokens_than_asked_for() {
    let ids = |text: &str| zinc(&["tokenize", "--json", "-p", text]).json()["ids"].as_array().unwrap().len();
    let text = zinc(&["run", "--temp", "0", "-n", "3", "-p", QUESTION]).success();
    assert!(ANSWER.starts_with(text.trim_end()), "{text}");
    assert_eq!(ids(text.trim_end_matches('\n')), 3);
    assert_eq!(zinc(&["run", "-n", "0", "-p", QUESTION]).success(), "\n");
}

#[test]
fn rates_and_notes_go_to_stderr() {
    let outcome = zinc(&["run", "--temp", "0", "-p", QUESTION]);
    for part in ["using the demo model", "load:", "prompt:", "generation:", "tokens/s"] {
        assert!(outcome.stderr.contains(part), "no {part} in {outcome:?}");
    }
    assert!(!outcome.stderr.contains("seed:"), "{outcome:?}");
    assert!(zinc(&["run", "--temp", "1", "-n", "1", "-p", QUESTION]).stderr.contains("seed:"));
}

#[test]
fn a_full_context_ends_the_answer_and_says_so() {
    let outcome = zinc(&["run", "--temp", "0", "-c", "16", "-p", QUESTION]);
    assert!(outcome.stderr.contains("context is full"), "{outcome:?}");
    let text = outcome.success();
    assert!(ANSWER.starts_with(text.trim_end()), "{text}");
}

#[test]
fn a_conversation() {
    let input = format!("{QUESTION}\n/regen\n/clear\n/regen\n/nonsense\n\nHello!\n/exit\nnot read\n");
    let outcome = zinc_with_input(&["chat", "--temp", "0"], &input);
    assert!(outcome.stderr.contains("there is no answer yet"), "{outcome:?}");
    assert!(outcome.stderr.contains("/nonsense is no command"), "{outcome:?}");
    assert_eq!(outcome.success(), format!("{ANSWER}{ANSWER}Hello! Ask me what a word means.\n"));
}

#[test]
fn a_conversation_reads_files_and_outlives_what_does_not_fit() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("question.txt");
    std::fs::write(&path, "word ".repeat(3000)).unwrap();
    let input = format!("/read /nonexistent.txt\n/read {}\nWell?\nHello!\n", argument(&path));
    let outcome = zinc_with_input(&["chat", "--temp", "0"], &input);
    assert!(outcome.stderr.contains("/nonexistent.txt"), "{outcome:?}");
    assert!(outcome.stderr.contains("the context holds 1024"), "{outcome:?}");
    assert_eq!(outcome.success(), "Hello! Ask me what a word means.\n");
}

#[test]
fn logits_of_device_and_interpreter_are_those_of_the_reference() {
    let directory = tempfile::tempdir().unwrap();
    for stem in ["qwen3moe-a-q4_0", "llama-f16"] {
        let model = source_argument(&format!("tests/data/tiny/{stem}.gguf"));
        let ids: Vec<String> = golden(&format!("tests/data/tiny/{stem}.json"))["ids"]
            .as_array()
            .unwrap()
            .iter()
            .take(8)
            .map(ToString::to_string)
            .collect();
        let ids = ids.join(",");
        let expected =
            floats(&std::fs::read(crate::support::source_file(&format!("tests/data/tiny/{stem}.logits.f32"))).unwrap());
        // The interpreter computes with f32. On the device rounded activations move logits by up to 4.2e-3.
        let tolerances =
            [(&[][..], 1e-2), (&["--act", "f32"], LOGIT_TOLERANCE), (&["--device", "interpreter"], LOGIT_TOLERANCE)];
        for (device, tolerance) in tolerances {
            let out = argument(&directory.path().join("out.f32"));
            let logits = ["logits", "-m", &model, "--ids", &ids, "--raw", &out, "-ctk", "f32", "-ctv", "f32"];
            assert_eq!(zinc(&[&logits[..], device].concat()).success(), "");
            let found = floats(&std::fs::read(&out).unwrap());
            assert_eq!(found.len() % 8, 0, "{stem}");
            for (index, (found, expected)) in found.iter().zip(&expected).enumerate() {
                let difference = (found - expected).abs();
                assert!(difference <= tolerance, "{stem} {device:?}: value {index}: {found}, not {expected}");
            }
        }
    }
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|chunk| f32::from_le_bytes(chunk.try_into().unwrap())).collect()
}

#[test]
fn the_top_logits_are_ranked() {
    let rows = zinc(&["logits", "--ids", "8184,274,198", "--top", "3", "--json"]).json();
    let rows = rows.as_array().unwrap();
    assert_eq!(rows.len(), 3);
    for row in rows {
        let logits: Vec<f64> =
            row["top"].as_array().unwrap().iter().map(|top| top["logit"].as_f64().unwrap()).collect();
        assert!(logits.len() == 3 && logits.is_sorted_by(|a, b| a >= b), "{row}");
    }
}

#[test]
fn what_running_the_demo_takes() {
    let report = zinc(&["inspect", "--json", "-c", "1024"]).json();
    let run = |key: &str| report["run"][key].as_u64().unwrap_or_else(|| panic!("no {key} in {report}"));
    assert_eq!(run("context"), 1024);
    // 8 layers of 2 heads of 64 keys and as many values in two bytes.
    assert_eq!(run("cache_bytes"), 1024 * 8 * 2 * 64 * 2 * 2);
    assert_eq!(
        run("memory_bytes"),
        run("weight_bytes") + run("cache_bytes") + run("recurrent_bytes") + run("work_bytes")
    );
    assert!(run("weight_bytes_per_token") < run("weight_bytes"), "{report}");
    assert!(run("dispatches_per_token") > 8 && run("barriers_per_token") <= run("dispatches_per_token"), "{report}");
}

#[test]
fn ctrl_c_stops_an_answer_within_a_step() {
    // Each token takes the host a fifth of a second, so that the answer is not over before the signal comes.
    let mut run = command(&["run", "--temp", "0", "--host-work-us", "200000", "-p", QUESTION]);
    let mut child = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    assert!(!stdout.fill_buf().unwrap().is_empty(), "no text came");
    interrupt(&child);
    let mut text = String::new();
    stdout.read_to_string(&mut text).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.len() < ANSWER.len() && ANSWER.starts_with(text.trim_end()), "{text}");
    assert!(text.ends_with('\n'), "{text:?}");
}

#[test]
fn a_reader_that_leaves_in_the_middle_of_an_answer_is_no_failure() {
    let mut run = command(&["run", "--temp", "0", "--host-work-us", "50000", "-p", QUESTION]);
    let mut child = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = [0; 1];
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut first).unwrap();
    drop(stdout);
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert!(!stderr.contains("panicked") && !stderr.contains("error"), "{stderr}");
}

#[test]
fn devices_are_listed() {
    let devices = zinc(&["devices", "--json"]).json();
    let devices = devices.as_array().unwrap();
    assert_eq!(devices.iter().filter(|device| device["default"] == true).count(), 1, "{devices:?}");
    let listed = zinc(&["run", "--list-devices"]).success();
    // The memory that is free changes from one moment to the next.
    let lasting = |text: &str| -> Vec<String> {
        text.lines().map(|line| line.split(" GiB, ").next().unwrap_or_default().to_owned()).collect()
    };
    assert_eq!(lasting(&listed), lasting(&zinc(&["devices"]).success()));
    assert!(listed.contains(devices[0]["name"].as_str().unwrap()), "{listed}");
}
