//! What chooses tokens and what ends an answer: samplers' flags and stop strings.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::{ANSWER, QUESTION, argument, command, interrupt, zinc, zinc_with_input};

/// A greedy answer to the question with further arguments.
fn greedy(arguments: &[&str]) -> String {
    zinc(&[&["run", "--temp", "0", "-p", QUESTION], arguments].concat()).success()
}

#[test]
fn the_flags_are_in_the_help() {
    for name in ["run", "chat"] {
        let help = zinc(&[name, "--help"]).success();
        for flag in [
            "--repeat-penalty",
            "--repeat-last-n",
            "--presence-penalty",
            "--frequency-penalty",
            "--dry-multiplier",
            "--dry-base",
            "--dry-allowed-length",
            "--dry-penalty-last-n",
            "--dry-sequence-breaker",
            "--top-k",
            "--typical",
            "--top-p",
            "--min-p",
            "--xtc-probability",
            "--xtc-threshold",
            "--top-n-sigma",
            "--temp",
            "--seed",
            "--logit-bias",
            "--stop",
            "--reverse-prompt",
        ] {
            assert!(help.contains(flag), "no {flag} in {help}");
        }
    }
}

#[test]
fn parameters_outside_their_range_are_refused_before_a_file_is_opened() {
    for (arguments, parts) in [
        (["--top-p", "-0.5"], ["top-p", "-0.5"]),
        (["--min-p", "1.5"], ["min-p", "1.5"]),
        (["--typical", "nan"], ["typical", "NaN"]),
        (["--top-n-sigma", "inf"], ["top-n-sigma", "inf"]),
        (["--xtc-probability", "2"], ["xtc-probability", "2"]),
        (["--xtc-threshold", "-1"], ["xtc-threshold", "-1"]),
        (["--repeat-penalty", "0"], ["repeat-penalty", "0"]),
        (["--frequency-penalty", "70000"], ["frequency-penalty", "70000"]),
        (["--frequency-penalty", "inf"], ["frequency-penalty", "inf"]),
        (["--presence-penalty", "nan"], ["presence-penalty", "NaN"]),
        (["--dry-multiplier", "-1"], ["dry-multiplier", "-1"]),
        (["--dry-base", "inf"], ["dry-base", "inf"]),
        (["--logit-bias", "3+inf"], ["logit-bias", "inf"]),
        (["--logit-bias", "3*2"], ["--logit-bias", "3*2"]),
        (["--repeat-last-n", "-2"], ["--repeat-last-n", "-2"]),
        (["--dry-penalty-last-n", "x"], ["--dry-penalty-last-n", "x"]),
        (["--dry-sequence-breaker", ""], ["--dry-sequence-breaker", "empty"]),
        (["--stop", ""], ["--stop", "empty"]),
    ] {
        for name in ["run", "chat"] {
            zinc(&[&[name, "-m", "/nonexistent.gguf"], &arguments[..]].concat()).failure(2, &parts);
        }
    }
}

#[test]
fn biases_are_for_ids_of_the_vocabulary() {
    for arguments in [&["run", "-p", "x"][..], &["chat"]] {
        let outcome = zinc(&[arguments, &["-l", "5+1,8192+1"]].concat());
        outcome.failure(1, &["token 8192", "0 to 8191"]);
    }
}

#[test]
fn what_cannot_change_the_likeliest_token_does_not() {
    for arguments in [
        &["--top-k", "7", "--top-p", "0.1", "--min-p", "0.9", "--top-n-sigma", "0.5", "--seed", "3"][..],
        &["--repeat-penalty", "1.5", "--repeat-last-n", "0", "--xtc-probability", "1", "--xtc-threshold", "0.6"],
        &[
            "--dry-multiplier",
            "1",
            "--dry-penalty-last-n",
            "0",
            "--dry-sequence-breaker",
            "none",
            "--logit-bias",
            "5+0",
        ],
    ] {
        assert_eq!(greedy(arguments), ANSWER, "{arguments:?}");
    }
    // One token is left to choose, at any temperature, and no seed is drawn.
    let outcome = zinc(&["run", "--top-k", "1", "--temp", "1.5", "-p", QUESTION]);
    assert!(!outcome.stderr.contains("seed:"), "{outcome:?}");
    assert_eq!(outcome.success(), ANSWER);
}

#[test]
fn an_answer_ends_before_a_stop_string_however_it_is_cut_into_tokens() {
    for (arguments, text) in [
        (&["--stop", " of", "--depth", "1"][..], "Telescope: a magnifier\n"),
        // Its tokens are T, elescope, a colon, and so on.
        (&["--stop", "pe: a mag", "--depth", "8"], "Telesco\n"),
        (&["--reverse-prompt", "T"], "\n"),
        (&["-r", "images", "-r", "distant", "-r", "magnifier", "--sync", "fence"], "Telescope: a \n"),
        // Held back, and in the end not a stop string.
        (&["--stop", "objects.\\n", "--stop", "Telescopes"], ANSWER),
    ] {
        assert_eq!(greedy(arguments), text, "{arguments:?}");
    }
}

#[test]
fn the_generation_ends_with_its_stop_string() {
    let directory = tempfile::tempdir().unwrap();
    let path = argument(&directory.path().join("trace.json"));
    let run = ["--ignore-eos", "-n", "200", "--stop", " of", "--host-work-us", "5000", "--trace", &path];
    assert_eq!(greedy(&run), "Telescope: a magnifier\n");
    let trace: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let tokens = trace["zinc"]["completion_tokens"].as_u64().unwrap();
    // Seven tokens up to the stop string, and those that came before the engine saw the cancel.
    assert!((7..100).contains(&tokens), "{tokens}");
}

#[test]
fn ctrl_c_is_one_with_a_stop_string_too() {
    let run = ["run", "--temp", "0", "--host-work-us", "200000", "--stop", "objects", "-p", QUESTION];
    let mut child = command(&run).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    assert!(!stdout.fill_buf().unwrap().is_empty(), "no text came");
    interrupt(&child);
    let mut text = String::new();
    stdout.read_to_string(&mut text).unwrap();
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(130));
    assert!(ANSWER.starts_with(text.trim_end()), "{text}");
}

#[test]
fn a_conversation_goes_on_from_what_was_printed() {
    let directory = tempfile::tempdir().unwrap();
    let path = argument(&directory.path().join("messages.json"));
    let stopped = "Telescope: a magnifier";
    let messages = json!([
        { "role": "user", "content": QUESTION },
        { "role": "assistant", "content": stopped },
        { "role": "user", "content": "Define courage." },
    ]);
    std::fs::write(&path, messages.to_string()).unwrap();
    let prompt = zinc(&["template", "--messages", &path]).success();
    let stop = ["--temp", "0", "--stop", " of"];
    let expected = zinc(&[&["run", "--raw", "-p", &prompt], &stop[..]].concat()).success();
    for depth in ["1", "8"] {
        let input = format!("{QUESTION}\n/regen\nDefine courage.\n");
        let said = zinc_with_input(&[&["chat", "--depth", depth], &stop[..]].concat(), &input).success();
        assert_eq!(said, format!("{stopped}\n{stopped}\n{expected}"), "depth {depth}");
    }
}
