//! The program as a process of its own: its exit statuses, and what goes to which stream.

use crate::support::{ANSWER, Outcome, QUESTION, command, process_with_input, source_file};

fn outcome(arguments: &[&str]) -> Outcome {
    command(arguments).output().unwrap().into()
}

#[test]
fn an_answer_goes_to_stdout_and_what_it_took_to_stderr() {
    let answered = outcome(&["run", "--temp", "0", "-p", QUESTION]);
    assert!(answered.stderr.starts_with("note: no -m given"), "{answered:?}");
    assert!(answered.stderr.contains("\nload:") && answered.stderr.contains("\ngeneration:"), "{answered:?}");
    assert_eq!(answered.success(), ANSWER);
}

#[test]
fn texts_and_conversations_come_through_pipes_and_from_files() {
    let question = format!("{QUESTION}\n");
    assert_eq!(process_with_input(&["run", "--temp", "0"], &question).success(), ANSWER);
    assert_eq!(process_with_input(&["chat", "--temp", "0"], &question).success(), ANSWER);
    let file = std::fs::File::open(source_file("tests/data/tiny/qwen3moe-a-q4_0.json")).unwrap();
    let tokens: Outcome = command(&["tokenize", "--json"]).stdin(file).output().unwrap().into();
    assert!(tokens.json()["text"].as_str().unwrap().starts_with('{'));
}

#[test]
fn statuses_are_0_for_success_and_for_help_2_for_usage_and_1_for_failures() {
    let version = format!("zinc {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(outcome(&["--version"]).success(), version);
    assert!(outcome(&["run", "--help"]).success().contains("--prompt"));
    outcome(&["run", "--unknown"]).failure(2, &["--unknown"]);
    outcome(&["inspect", "/nonexistent.gguf"]).failure(1, &["/nonexistent.gguf"]);
    let nothing = outcome(&[]);
    assert_eq!((nothing.code, nothing.stdout.as_str()), (Some(2), ""));
    assert!(nothing.stderr.contains("Usage: zinc"), "{nothing:?}");
}
