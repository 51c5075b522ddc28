//! What shows the seam to a user: traces, their pictures, and `zinc doctor`.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::{QUESTION, argument, source_argument, zinc};

/// Answers the question and writes a trace; returns its path as an argument.
fn traced(directory: &Path, name: &str, arguments: &[&str]) -> String {
    let path = argument(&directory.join(name));
    zinc(&[&["run", "--temp", "0", "-p", QUESTION, "--trace", &path], arguments].concat()).success();
    path
}

fn json(path: &str) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn a_trace_has_a_row_for_every_step() {
    let directory = tempfile::tempdir().unwrap();
    // 13 tokens of prompt, of which 12 are fed, 12 of the answer and its end: 13 decodes, and what was queued behind the end.
    for (rows, feeds) in [("16", &[12][..]), ("8", &[8, 4]), ("1", &[1; 12])] {
        let file = json(&traced(directory.path(), "trace.json", &["-ub", rows]));
        let trace = &file["zinc"];
        let steps = trace["steps"].as_array().unwrap();
        assert_eq!(trace["summary"]["steps"].as_u64(), Some(steps.len() as u64));
        let fed: Vec<u64> = steps.iter().filter_map(|step| step["fed"].as_u64()).filter(|fed| *fed > 0).collect();
        assert_eq!(fed, feeds, "-ub {rows}");
        assert!((13..=17).contains(&(steps.len() - feeds.len())), "{}", steps.len());
        assert_eq!(trace["counters"]["recordings"], 0);
        assert_eq!(trace["counters"]["fence_waits"], 0);
        assert_eq!(trace["counters"]["submits"].as_u64(), Some(steps.len() as u64));
        assert_eq!((&trace["sync"], &trace["depth"]), (&"timeline".into(), &4.into()));
        assert!(trace["tokens_per_second"].as_f64().unwrap() > 0.0);
    }
}

#[test]
fn the_fence_baseline_records_and_waits_for_every_step() {
    let directory = tempfile::tempdir().unwrap();
    let file = json(&traced(directory.path(), "trace.json", &["--sync", "fence"]));
    let trace = &file["zinc"];
    let steps = trace["steps"].as_array().unwrap().len() as u64;
    // The step that ends the prompt has two recordings: its layers, and what samples behind them.
    assert_eq!(trace["counters"]["recordings"].as_u64(), Some(steps + 1));
    assert_eq!(trace["counters"]["fence_waits"].as_u64(), Some(steps + 1));
    assert_eq!(trace["summary"]["all"]["submitted_ahead"], 0);
}

#[test]
fn trace_events_have_one_span_on_the_gpu_for_every_step_and_none_that_overlap() {
    let directory = tempfile::tempdir().unwrap();
    for arguments in [&["--sync", "fence"][..], &["--depth", "1"], &["--depth", "4"]] {
        let file = json(&traced(directory.path(), "trace.json", &[&["-n", "8"], arguments].concat()));
        let events = file["traceEvents"].as_array().unwrap();
        let number = |event: &Value, key: &str| event[key].as_f64().unwrap();
        for lane in 1..=4 {
            let of_lane = |event: &&Value| event["ph"] == "X" && event["tid"] == lane;
            let spans: Vec<&Value> = events.iter().filter(of_lane).collect();
            assert!(!spans.is_empty(), "lane {lane}, {arguments:?}");
            assert!(spans.iter().all(|span| number(span, "ts") >= 0.0 && number(span, "dur") >= 0.0), "{spans:?}");
            for pair in spans.windows(2) {
                let end = number(pair[0], "ts") + number(pair[0], "dur");
                // Microseconds with three decimals as f64.
                assert!(end <= number(pair[1], "ts") + 1e-3, "lane {lane}, {arguments:?}: {pair:?}");
            }
            if lane == 4 {
                assert_eq!(spans.len(), file["zinc"]["steps"].as_array().unwrap().len());
            }
        }
    }
}

#[test]
fn pictures_are_written_by_the_run_and_from_its_traces() {
    let directory = tempfile::tempdir().unwrap();
    let direct = fs::read_to_string(traced(directory.path(), "direct.svg", &["-n", "2"])).unwrap();
    assert!(direct.starts_with("<svg ") && direct.contains("timeline: 4 steps in flight"), "{direct}");
    let page = fs::read_to_string(traced(directory.path(), "direct.html", &["-n", "2"])).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("<svg "), "{page}");

    let fence = traced(directory.path(), "fence.json", &["-n", "6", "--sync", "fence", "--host-work-us", "300"]);
    let timeline = traced(directory.path(), "timeline.json", &["-n", "6", "--host-work-us", "300"]);
    let out = argument(&directory.path().join("both.svg"));
    zinc(&["trace", &fence, &timeline, "-o", &out, "--from", "4", "--steps", "3"]).success();
    let both = fs::read_to_string(&out).unwrap();
    let (above, below) = (both.find("fence: recorded").unwrap(), both.find("timeline: 4 steps").unwrap());
    assert!(above < below, "{both}");
    assert!(both.contains("host busy 300 µs a token") && both.contains("GPU idle: "), "{both}");
    let out = argument(&directory.path().join("one.html"));
    zinc(&["trace", &timeline, "--output", &out]).success();
    assert!(fs::read_to_string(&out).unwrap().contains("tokens/s"));
}

#[test]
fn the_interpreter_can_be_traced_too() {
    let directory = tempfile::tempdir().unwrap();
    let path = traced(directory.path(), "trace.svg", &["--device", "interpreter", "-n", "2"]);
    assert!(fs::read_to_string(path).unwrap().contains("the device takes no timestamps"));
}

#[test]
fn what_is_no_trace_or_no_picture_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let (text, out) = (directory.path().join("a.json"), argument(&directory.path().join("out.svg")));
    fs::write(&text, "{\"traceEvents\": []}").unwrap();
    let text = argument(&text);
    zinc(&["trace", "/nonexistent.json", "-o", &out]).failure(1, &["cannot read", "/nonexistent.json"]);
    zinc(&["trace", &text, "-o", &out]).failure(1, &["a.json", "no \"zinc\""]);
    zinc(&["trace", &text]).failure(2, &["--output"]);
    zinc(&["trace", &text, "-o", &out, "--steps", "0"]).failure(2, &["--steps"]);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "nothing was written");
    let trace = traced(directory.path(), "b.json", &["-n", "1"]);
    zinc(&["trace", &trace, "-o", "out.png"]).failure(2, &["out.png", ".svg or .html"]);
    zinc(&["trace", &trace, "-o", "/nonexistent/out.svg"]).failure(1, &["cannot write", "/nonexistent/out.svg"]);
}

#[test]
fn the_doctor_measures_and_says_what_it_thinks() {
    let model = source_argument("tests/data/tiny/qwen3moe-a-q4_0.gguf");
    let report = zinc(&["doctor", "--json", "-m", &model]).json();
    for cost in ["submit", "fence_round_trip", "timeline_polling", "timeline_blocking", "host_signal"] {
        let cost = &report["costs"][cost];
        let (median, p99) = (cost["median_us"].as_f64().unwrap(), cost["p99_us"].as_f64().unwrap());
        assert!(0.0 < median && median <= p99, "{report}");
    }
    for cost in ["dispatch_barrier_us", "dispatch_us", "record_us"] {
        assert!(report["costs"][cost].as_f64().unwrap() > 0.0, "{report}");
    }
    let rows = report["seam"]["rows"].as_array().unwrap();
    let drives: Vec<&str> = rows.iter().map(|row| row["drive"].as_str().unwrap()).collect();
    let expected = [
        "fence, recorded anew",
        "fence, recording kept",
        "timeline, 1 in flight",
        "timeline, 2 in flight",
        "timeline, 4 in flight",
    ];
    assert_eq!(drives, expected);
    // A fence waits for the host's work, and a timeline does not wait for the whole of it.
    let idle = |row: usize| rows[row]["idle_us"][2].as_f64().unwrap();
    assert!(idle(0) >= 500.0 && idle(1) >= 500.0 && idle(2) >= 500.0, "{report}");
    assert!(idle(4) < idle(1), "{report}");
    assert!(report["bandwidth_bytes_per_s"].as_f64().unwrap() > 1e7, "{report}");
    assert!(report["queues"].as_array().unwrap().iter().any(|queue| queue["opened_for"][0] == "compute"), "{report}");
    let expected = &report["model"]["expected"];
    assert!(expected[0]["tokens_per_second"].as_f64() > expected[1]["tokens_per_second"].as_f64(), "{report}");
    assert_eq!(report["model"]["needs"]["context"], expected[1]["context"]);
    let device = report["device"]["name"].as_str().unwrap();
    assert_eq!(
        zinc(&["devices", "--json"]).json()[report["device"]["index"].as_u64().unwrap() as usize]["name"],
        device
    );
}

#[test]
fn the_doctors_text_names_what_it_shows() {
    let text = zinc(&["doctor", "-m", "/nonexistent/model.gguf"]).success();
    for part in [
        "queue families",
        "timeline semaphores:",
        "read bandwidth",
        "submit a recorded step",
        "fence, recording kept",
        "what zinc does",
        "zinc cannot run it",
        "/nonexistent/model.gguf cannot be run",
    ] {
        assert!(text.contains(part), "no {part} in {text}");
    }
}

#[test]
fn without_a_device_the_doctor_fails() {
    zinc(&["doctor", "--device", "no such card"]).failure(1, &["no such card"]);
    zinc(&["doctor", "--device", "interpreter"]).failure(2, &["interpreter"]);
}
