//! Measuring: made-up models and `zinc bench`.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{Outcome, TINY, argument, command, interrupt, source_argument, zinc};

/// Writes a small made-up model and returns its path as an argument.
fn synth(directory: &Path, name: &str, arguments: &[&str]) -> String {
    synth_of("tiny-moe", directory, name, arguments)
}

fn synth_of(preset: &str, directory: &Path, name: &str, arguments: &[&str]) -> String {
    let path = argument(&directory.join(name));
    zinc(&[&["synth", preset, &path], arguments].concat()).success();
    path
}

fn bench(arguments: &[&str]) -> Outcome {
    zinc(&[&["bench", "-r", "1", "--no-warmup"], arguments].concat())
}

#[test]
fn a_made_up_model_has_the_format_mix_of_a_real_one() {
    let directory = tempfile::tempdir().unwrap();
    let path = argument(&directory.path().join("model.gguf"));
    zinc(&["synth", "qwen3-0.6b", &path, "--layers", "1"]).success();
    let report = zinc(&["inspect", "--json", &path]).json();
    assert_eq!(report["metadata"]["qwen3.block_count"], 1);
    assert_eq!(report["metadata"]["tokenizer.ggml.tokens"]["length"], 151_936);
    let tensors = |format: &str| {
        let row = report["formats"].as_array().unwrap().iter().find(|row| row["format"] == format).unwrap();
        row["tensors"].as_u64().unwrap()
    };
    // The embedding, which is the head too, and values and downs of the first eighth of the layers.
    assert_eq!(tensors("Q6_K"), 3);
    assert_eq!(tensors("Q4_K"), 5);
    assert_eq!(tensors("F32"), 5);
    assert_eq!(report["obstacle"], Value::Null);
    assert_eq!(zinc(&["tokenize", "-m", &path, "--json", "-p", "the"]).json()["text"], "the");
}

#[test]
fn the_logits_of_a_made_up_model_are_sane() {
    let directory = tempfile::tempdir().unwrap();
    // Every format is looked at where its blocks are made.
    for (preset, mix) in
        [("tiny-moe", "q4_k_m"), ("tiny-moe", "q4_0"), ("tiny-moe", "bf16"), ("tiny-gpt-oss", "mxfp4_moe")]
    {
        let path = synth_of(preset, directory.path(), &format!("{mix}.gguf"), &["--quant", mix]);
        let logits = zinc(&["logits", "-m", &path, "--ids", "1,2", "--top", "2048", "--json"]).json();
        for row in logits.as_array().unwrap() {
            let values: Vec<f64> =
                row["top"].as_array().unwrap().iter().map(|top| top["logit"].as_f64().unwrap()).collect();
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            let square = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64;
            // The sum of products of so many weights, whose deviation is one over the root of their number, and normed activations is near 1.
            assert!((0.8..1.3).contains(&square.sqrt()), "{mix}: {}", square.sqrt());
        }
    }
    let path = argument(&directory.path().join("q4_k_m.gguf"));
    let text = zinc(&["run", "-m", &path, "-p", "Hello!", "-n", "4", "--temp", "0"]).success();
    assert!(text.len() > 4, "{text:?}");
}

#[test]
fn a_seed_gives_the_same_file() {
    let directory = tempfile::tempdir().unwrap();
    let read = |path: String| fs::read(path).unwrap();
    let first = read(synth(directory.path(), "a.gguf", &[]));
    assert!(first == read(synth(directory.path(), "b.gguf", &["--seed", "0"])));
    assert!(first != read(synth(directory.path(), "c.gguf", &["--seed", "1"])));
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 3, "nothing else is left");
}

#[test]
fn a_file_is_overwritten_only_if_asked() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("model.gguf");
    fs::write(&path, "precious").unwrap();
    zinc(&["synth", "tiny-moe", &argument(&path)]).failure(2, &["model.gguf exists", "--force"]);
    assert_eq!(fs::read(&path).unwrap(), b"precious");
    zinc(&["synth", "tiny-moe", &argument(&path), "--force"]).success();
    assert!(fs::metadata(&path).unwrap().len() > 1 << 20);
    let inside = argument(directory.path());
    zinc(&["synth", "tiny-moe", &inside, "--force"]).failure(2, &[&inside, "no regular file"]);
    zinc(&["synth", "tiny-moe", "/nonexistent/x.gguf"]).failure(1, &["cannot write", "/nonexistent/x.gguf"]);
    zinc(&["synth", "qwen4", &argument(&path)]).failure(2, &["qwen4", "qwen3-30b-a3b"]);
    zinc(&["synth", "tiny-moe", &argument(&path), "--layers", "0"]).failure(2, &["--layers"]);
}

#[test]
fn ctrl_c_leaves_no_part_of_a_file() {
    let directory = tempfile::tempdir().unwrap();
    let out = argument(&directory.path().join("model.gguf"));
    // So large that it is not over before the signal comes.
    let child = command(&["synth", "qwen3-8b", &out]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let started = Instant::now();
    while fs::read_dir(directory.path()).unwrap().count() == 0 {
        assert!(started.elapsed() < Duration::from_secs(60), "no file appeared");
        sleep(Duration::from_millis(10));
    }
    interrupt(&child);
    let outcome = Outcome::from(child.wait_with_output().unwrap());
    assert_eq!(outcome.code, Some(130), "{outcome:?}");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

/// The last logits of a prompt are those of its beginning and the rest behind it, which begins with a checkpoint.
#[test]
fn a_model_with_a_recurrent_state_is_timed_behind_a_context() {
    let model = source_argument("tests/data/arch/qwen35-a-f16.gguf");
    let logits = |flags: &[&str]| {
        let rows = bench(&[&["-m", &model, "-o", "json"], flags].concat()).json();
        rows.as_array().unwrap().iter().map(|row| row["logits_fnv1a"].clone()).collect::<Vec<Value>>()
    };
    let whole = logits(&["-p", "72", "-n", "0"]);
    let behind = logits(&["-p", "32,2", "-n", "0", "-d", "40,70", "--ctx-checkpoints", "1"]);
    assert_eq!((behind.len(), &behind[0], &behind[3]), (4, &whole[0], &whole[0]), "{behind:?}");
    assert!(behind[1] != whole[0] && behind[2] != whole[0], "{behind:?}");
    assert!(whole[0].is_string(), "{whole:?}");
    // Every repetition begins behind the context, whose states are made up here, and not at position 0.
    let repeated = |checkpoints| {
        let test = ["-p", "128", "-n", "0", "-d", "64", "-r", "2", "--fill", "synthetic"];
        logits(&[&test[..], &["--ctx-checkpoints", checkpoints]].concat())
    };
    assert_eq!(repeated("0"), repeated("16"));
    let blank = bench(&["-m", &model, "-p", "0", "-n", "3", "-d", "70", "--fill", "synthetic", "--profile"]).success();
    assert!(blank.contains("tg3 @ d70") && blank.contains("| delta_net "), "{blank}");
}

#[test]
fn several_sequences_are_timed_together() {
    let tiny = source_argument(TINY);
    let flags = ["-m", &tiny, "-npl", "1,3", "-npp", "4,9", "-ntg", "6"];
    let rows = bench(&[&flags[..], &["-o", "json", "--sampler", "default"]].concat()).json();
    let rows = rows.as_array().unwrap();
    let tests: Vec<[u64; 3]> =
        rows.iter().map(|row| ["n_parallel", "n_prompt", "n_gen"].map(|key| row[key].as_u64().unwrap())).collect();
    assert_eq!(tests, [[1, 4, 6], [3, 4, 6], [1, 9, 6], [3, 9, 6]]);
    for row in rows {
        let number = |key: &str| row[key].as_f64().unwrap_or_else(|| panic!("no {key} in {row}"));
        for key in ["avg_ts", "avg_prompt_ts", "largest_gap_ms", "gpu_step_us"] {
            assert!(number(key) > 0.0, "{key} in {row}");
        }
        assert!((number("avg_ts_each") * number("n_parallel") / number("avg_ts") - 1.0).abs() < 1e-9, "{row}");
        assert_eq!(row["samples_ts"].as_array().unwrap().len(), 1);
    }
    let table = bench(&[&flags[..], &["--profile"]].concat()).success();
    assert_eq!(table.lines().filter(|line| line.starts_with("|          3 |")).count(), 2, "{table}");
    assert!(table.contains("| list ") && table.contains("| advance "), "{table}");
    let csv = bench(&[&flags[..], &["-o", "csv"]].concat()).success();
    assert_eq!(csv.lines().count(), 5, "{csv}");

    zinc(&["bench", "-npl", "0"]).failure(2, &["--npl", "1..=64"]);
    zinc(&["bench", "-npl", "65"]).failure(2, &["--npl", "1..=64"]);
    zinc(&["bench", "-npl", "2", "-d", "5"]).failure(2, &["--npl", "--n-depth"]);
    zinc(&["bench", "-npl", "2", "--draft-ngram"]).failure(2, &["--npl", "--draft-ngram"]);
    zinc(&["bench", "-npp", "2"]).failure(2, &["--npl"]);
}

#[test]
fn a_prompt_comes_late() {
    let tiny = source_argument(TINY);
    let directory = tempfile::tempdir().unwrap();
    let picture = directory.path().join("late.svg");
    let flags = ["-m", &tiny, "-npl", "2", "-npp", "3", "-ntg", "2", "-ub", "32", "--late-prompt", "70"];
    let picture_flags = ["-o", "json", "--max-gap-ms", "1", "--trace", picture.to_str().unwrap()];
    let rows = bench(&[&flags[..], &picture_flags].concat()).json();
    let [row] = &rows.as_array().unwrap()[..] else { panic!("{rows}") };
    assert_eq!((&row["n_late_prompt"], &row["n_parallel"]), (&70.into(), &2.into()));
    for key in ["alone_prompt_ts", "beside_prompt_ts", "alone_first_token_ms", "beside_first_token_ms"] {
        assert!(row[key].as_f64().is_some_and(|value| value > 0.0), "{key} in {row}");
    }
    assert!(row["gaps"]["max_ms"].as_f64().unwrap() > 0.0, "the others go on meanwhile: {row}");
    let svg = fs::read_to_string(&picture).unwrap();
    assert!(svg.contains("a prompt of 70 beside 2 sequences") && svg.contains("lane 2"), "{svg}");

    zinc(&["bench", "-npl", "2", "--late-prompt", "9", "--arrivals", "poisson:1"]).failure(2, &["cannot be used with"]);
    zinc(&["bench", "-npl", "64", "--late-prompt", "9"]).failure(2, &["up to 63"]);
    zinc(&["bench", "--late-prompt", "9"]).failure(2, &["--npl"]);
}

#[test]
fn requests_arrive_and_are_answered() {
    let tiny = source_argument(TINY);
    let directory = tempfile::tempdir().unwrap();
    let picture = directory.path().join("lanes.svg");
    let flags = ["-m", &tiny, "-npl", "2", "-npp", "40", "-ntg", "6", "-ub", "32", "--arrivals", "poisson:500"];
    let picture_flags = ["-o", "json", "-r", "3", "--max-gap-ms", "7", "--trace", picture.to_str().unwrap()];
    // The last of several numbers of repetitions counts.
    let rows = bench(&[&flags[..], &picture_flags].concat()).json();
    let [row] = &rows.as_array().unwrap()[..] else { panic!("{rows}") };
    assert_eq!((&row["arrivals"], &row["max_gap_ms"]), (&"poisson:500".into(), &7.0.into()));
    let requests = row["requests"].as_array().unwrap();
    assert_eq!((row["n_requests"].as_u64(), requests.len()), (Some(6), 6));
    for request in requests {
        let number = |value: &serde_json::Value| value.as_f64().unwrap_or_else(|| panic!("{request}"));
        assert!(number(&request["first_token_ms"]) > 0.0 && number(&request["gaps"]["max_ms"]) > 0.0, "{request}");
    }
    for spread in [&row["first_token"], &row["gaps"]] {
        let [median, p95, max] = ["median_ms", "p95_ms", "max_ms"].map(|key| spread[key].as_f64().unwrap());
        assert!(0.0 < median && median <= p95 && p95 <= max, "{spread}");
    }
    let svg = fs::read_to_string(&picture).unwrap();
    assert!(svg.starts_with("<svg ") && svg.contains("lane 0") && svg.contains("tokens of the prompt"), "{svg}");
    let table = bench(&flags).success();
    assert_eq!(table.lines().filter(|line| line.starts_with("|          2 |")).count(), 1, "{table}");
    // A page is room for one of them at a time.
    let csv = bench(&[&flags[..], &["-o", "csv", "--cache-tokens", "64"]].concat()).success();
    let lines: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    let [head, cells] = &lines[..] else { panic!("{csv}") };
    for name in ["first_token_median_ms", "first_token_p95_ms", "first_token_max_ms", "gaps_median_ms", "gaps_max_ms"] {
        let place = head.iter().position(|column| *column == name).unwrap_or_else(|| panic!("no {name} in {csv}"));
        assert!(cells[place].parse::<f64>().is_ok_and(|ms| ms > 0.0), "{name} in {csv}");
    }
    zinc(&["bench", "--cache-tokens", "64"]).failure(2, &["--npl"]);
    bench(&["-m", &tiny, "-npl", "1", "--cache-tokens", "64"]).failure(2, &["--cache-tokens 64", "one alone"]);

    zinc(&["bench", "--arrivals", "poisson:1"]).failure(2, &["--npl"]);
    zinc(&["bench", "-npl", "2", "--arrivals", "often"]).failure(2, &["poisson:RATE"]);
    zinc(&["bench", "-npl", "2", "--trace", "a.svg"]).failure(2, &["--arrivals", "--late-prompt"]);
    zinc(&["bench", "-npl", "2", "--arrivals", "poisson:1", "--trace", "a.png"]).failure(2, &["a.png", ".svg"]);
    zinc(&["bench", "-npl", "2,3", "--arrivals", "poisson:1", "--trace", "a.svg"]).failure(2, &["one test, not 2"]);
    zinc(&["bench", "--max-gap-ms", "5"]).failure(2, &["--npl"]);
    bench(&[&flags[..], &["-r", "4294967295"]].concat()).failure(2, &["-r 4294967295", "--npl 2"]);
}

#[test]
fn rows_have_llama_benchs_keys() {
    let rows = bench(&["-p", "4", "-n", "3", "-pg", "3,2", "-d", "0,5", "-o", "json"]).json();
    let rows = rows.as_array().unwrap();
    let names: Vec<&str> = rows.iter().map(|row| row["test"].as_str().unwrap()).collect();
    assert_eq!(names, ["pp4", "tg3", "pp3+tg2", "pp4 @ d5", "tg3 @ d5", "pp3+tg2 @ d5"]);
    for row in rows {
        for key in [
            "avg_ns",
            "avg_ts",
            "gpu_busy_us",
            "host_us",
            "dispatches",
            "barriers",
            "bandwidth_bytes_per_s",
            "bandwidth_percent",
        ] {
            assert!(row[key].as_f64().unwrap() > 0.0, "no {key} in {row}");
        }
        for key in ["build_commit", "model_filename", "model_type", "type_k", "test_time", "logits_fnv1a"] {
            assert!(!row[key].as_str().unwrap().is_empty(), "no {key} in {row}");
        }
        let (tokens, ns) = (row["n_prompt"].as_f64().unwrap() + row["n_gen"].as_f64().unwrap(), &row["samples_ns"][0]);
        let rate = tokens / (ns.as_f64().unwrap() * 1e-9);
        assert!((row["avg_ts"].as_f64().unwrap() / rate - 1.0).abs() < 1e-9, "{row}");
        assert_eq!(row["act"], "q14");
        assert_eq!(row["stddev_ts"], 0.0);
        assert_eq!(row["samples_ts"].as_array().unwrap().len(), 1);
    }
    assert_eq!((&rows[5]["n_depth"], &rows[5]["n_gen"], &rows[5]["n_prompt"]), (&5.into(), &2.into(), &3.into()));
}

#[test]
fn neither_depth_nor_fence_changes_the_logits() {
    let outcome = bench(&["-p", "5", "-n", "4", "--sync", "both", "--depth", "1,4", "-o", "jsonl"]);
    assert!(outcome.stderr.contains("times the fence"), "{outcome:?}");
    let rows: Vec<Value> = outcome.success().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows.len(), 6);
    for test in rows.chunks(3) {
        assert_eq!(test[0]["sync"], "timeline");
        assert_eq!(test[2]["sync"], "fence");
        assert!(test.iter().all(|row| row["logits_fnv1a"] == test[0]["logits_fnv1a"]), "{test:?}");
    }
}

#[test]
fn the_sync_matrix_has_every_cell_and_one_hash() {
    let flags = ["--sync-matrix", "-n", "4", "--mask-us", "100", "--queues", "2", "-o", "json"];
    let rows = bench(&[&["-m", &source_argument(TINY)], &flags[..]].concat()).json();
    let rows = rows.as_array().unwrap();
    assert_eq!(rows.len(), 63);
    let paces = [
        ("fence", 1),
        ("fence-kept", 1),
        ("timeline", 1),
        ("timeline", 2),
        ("timeline", 3),
        ("timeline", 4),
        ("timeline", 8),
    ];
    let mut cells = rows.iter();
    for control in ["gpu", "masked", "host-fed"] {
        for host_work in [0, 250, 500] {
            let mut fence = None;
            for (sync, depth) in paces {
                let row = cells.next().unwrap();
                assert_eq!((&row["control"], &row["host_work_us"]), (&control.into(), &host_work.into()));
                assert_eq!(
                    (&row["sync"], &row["inflight_depth"], &row["test"]),
                    (&sync.into(), &depth.into(), &"tg4".into())
                );
                assert_eq!(row["mask_us"], if control == "masked" { 100.into() } else { Value::Null });
                // Whether a second one exists is the device's matter, and the fence never uses it.
                assert!(sync == "timeline" || row["queues"] == 1, "{row}");
                let speed = row["avg_ts"].as_f64().unwrap();
                let ratio = speed / *fence.get_or_insert(speed);
                assert!((row["fence_ratio"].as_f64().unwrap() / ratio - 1.0).abs() < 1e-9, "{row}");
                let host_us = row["host_us"].as_f64().unwrap();
                let least = f64::from(host_work) + row["mask_us"].as_f64().unwrap_or(0.0);
                assert!(host_us >= least, "{host_us} us of the host, at least {least} of work: {row}");
                let (gap, p99) =
                    (row["idle_gap_median_us"].as_f64().unwrap(), row["idle_gap_p99_us"].as_f64().unwrap());
                assert!(gap <= p99, "{row}");
                // The mask allows everything and the host takes the likeliest, so the tokens are the same in all cells.
                assert_eq!(row["logits_fnv1a"], rows[0]["logits_fnv1a"], "{row}");
            }
        }
    }
}

#[test]
fn the_host_has_a_say_in_a_single_test() {
    let tiny = source_argument(TINY);
    let control = |flags: &[&str]| bench(&[&["-m", &tiny, "-p", "0", "-n", "4"], flags].concat());
    let table = control(&["--control", "masked", "--mask-us", "50", "--sync", "both", "--sampler", "all"]).success();
    for part in ["| control  |", "| masked   |", "each takes the host 50 us", "times the fence", "xtc 0.5"] {
        assert!(table.contains(part), "no {part} in {table}");
    }
    let rows = control(&["--control", "host-fed", "--sync", "fence-kept", "-o", "json"]).json();
    assert_eq!((&rows[0]["sync"], &rows[0]["control"]), (&"fence-kept".into(), &"host-fed".into()));
    assert_eq!(rows[0]["sampler"], "likeliest");
    zinc(&["bench", "--mask-us", "1"]).failure(2, &["--mask-us", "--control masked"]);
    zinc(&["bench", "--sync-matrix", "--sync", "fence"]).failure(2, &["--sync-matrix", "--sync"]);
}

#[test]
fn drafts_are_compared_with_none_and_change_no_logits() {
    let tiny = source_argument(TINY);
    let flags = ["-p", "0", "-n", "16", "--draft-policy", "always", "--draft-max", "3", "--sync", "both", "-o", "json"];
    let outcome = bench(&[&["-m", &tiny, "--draft", &tiny], &flags[..]].concat());
    assert_eq!(outcome.stderr.matches("without drafts").count(), 3, "{outcome:?}");
    let rows = outcome.json();
    let rows = rows.as_array().unwrap();
    assert_eq!(rows.len(), 4);
    for pair in rows.chunks(2) {
        let (plain, drafted) = (&pair[0], &pair[1]);
        assert_eq!(plain["draft"], Value::Null);
        assert_eq!((&drafted["draft"], &drafted["draft_max"]), (&tiny.as_str().into(), &3.into()));
        // A model agrees with itself: 16 tokens are 4 steps of one token and 3 drafts.
        assert_eq!((&drafted["draft_steps"], &drafted["draft_accepted_per_step"]), (&4.into(), &3.0.into()));
        let ratio = drafted["avg_ts"].as_f64().unwrap() / plain["avg_ts"].as_f64().unwrap();
        assert!((drafted["draft_ratio"].as_f64().unwrap() / ratio - 1.0).abs() < 1e-9, "{drafted}");
        assert_eq!(drafted["logits_fnv1a"], rows[0]["logits_fnv1a"], "{drafted}");
        assert_eq!(plain["logits_fnv1a"], rows[0]["logits_fnv1a"], "{plain}");
    }
    zinc(&["bench", "--draft-ngram", "--control", "masked"]).failure(2, &["--control", "drafts"]);
}

/// Without a file the run without drafts writes one; an oracle is always right, and what is no list of ids is refused.
#[test]
fn a_replay_drafts_what_was_generated() {
    let directory = tempfile::tempdir().unwrap();
    let file = argument(&directory.path().join("known.txt"));
    let tiny = source_argument(TINY);
    let flags = ["-p", "0", "-n", "16", "--draft-policy", "always", "--draft-max", "3", "-o", "json"];
    let replay = || bench(&[&["-m", &tiny, "--draft-replay", &file], &flags[..]].concat());
    for _ in 0..2 {
        let rows = replay().json();
        let (plain, drafted) = (&rows[0], &rows[1]);
        assert_eq!((&drafted["draft_steps"], &drafted["draft_accepted_per_step"]), (&4.into(), &3.0.into()));
        assert_eq!(drafted["logits_fnv1a"], plain["logits_fnv1a"]);
        assert_eq!(fs::read_to_string(&file).unwrap().split_whitespace().count(), 16);
    }
    for (text, reason) in [("1 2 three", "'three' is no token id"), ("1 4000000000", "outside the vocabulary")] {
        fs::write(&file, text).unwrap();
        replay().failure(1, &["known.txt", reason]);
        assert_eq!(fs::read_to_string(&file).unwrap(), text, "what the user had is not replaced");
    }
}

/// Drafts by the model's own block, and an oracle of which a share is right while the block drafts beside.
#[test]
fn multi_token_prediction_changes_no_logits_and_is_measured() {
    let directory = tempfile::tempdir().unwrap();
    let file = argument(&directory.path().join("known.txt"));
    let model = source_argument("tests/data/arch/qwen35-mtp-a-f16.gguf");
    let flags = ["-m", &model, "-p", "0", "-n", "24", "--draft-mtp", "--draft-policy", "always", "-o", "json"];
    let steps = |more: &[&str], by: &str| {
        let rows = bench(&[&flags[..], more].concat()).json();
        let (plain, drafted) = (&rows[0], &rows[1]);
        assert_eq!((&plain["draft"], &drafted["draft"]), (&Value::Null, &by.into()));
        assert_eq!(drafted["logits_fnv1a"], plain["logits_fnv1a"], "{drafted}");
        drafted["draft_steps"].as_u64().unwrap()
    };
    assert!((6..=24).contains(&steps(&[], "multi-token prediction")));
    let replay = ["--draft-replay", &file];
    let beside = format!("replay of {file}, beside multi-token prediction");
    assert_eq!(steps(&replay, &beside), 6, "an oracle is always right");
    let half = format!("replay of {file}, 50 % of it right, beside multi-token prediction");
    let halved = steps(&[&replay[..], &["--draft-replay-rate", "0.5"]].concat(), &half);
    assert!((7..24).contains(&halved), "{halved} steps");
    zinc(&["bench", "--draft-replay-rate", "0.5"]).failure(2, &["--draft-replay"]);
    let tiny = source_argument(TINY);
    zinc(&["run", "-p", "x", "--raw", "-m", &tiny, "--draft-mtp"]).failure(1, &["multi-token prediction"]);

    let answer = |more: &[&str]| {
        let flags = ["run", "--raw", "-p", "aabbcc", "-n", "20", "--temp", "0.7", "--seed", "3", "-m", &model];
        zinc(&[&flags[..], more].concat()).success()
    };
    assert_eq!(answer(&["--spec-type", "draft-mtp", "--draft-policy", "always"]), answer(&[]));
}

#[test]
fn a_prompt_gives_the_same_logits_whatever_it_is_cut_into() {
    let hash = |rows: &str| {
        let rows = bench(&["-p", "40", "-n", "0", "-o", "json", "-ub", rows]).json();
        (rows[0]["logits_fnv1a"].clone(), rows[0]["n_ubatch"].clone())
    };
    let (one, _) = hash("1");
    for (asked, taken) in [("2", 2), ("7", 4), ("8", 8), ("100", 64), ("5000", 2048)] {
        assert_eq!(hash(asked), (one.clone(), taken.into()), "-ub {asked}");
    }
    let raw = |rows: &str| {
        let directory = tempfile::tempdir().unwrap();
        let file = argument(&directory.path().join("logits.f32"));
        let ids: Vec<String> = (100..121).map(|id: u32| id.to_string()).collect();
        zinc(&["logits", "--ids", &ids.join(","), "--raw", &file, "-ub", rows]).success();
        fs::read(&file).unwrap()
    };
    let one = raw("1");
    assert!(raw("4") == one && raw("16") == one, "logits differ");
    zinc(&["run", "-ub", "0", "-p", "x"]).failure(2, &["--ubatch-size", "0"]);
}

#[test]
fn what_lies_before_a_test_counts_and_is_the_same_however_it_came_there() {
    let hash = |arguments: &[&str]| {
        let rows = bench(&[&["-n", "3", "-o", "json"], arguments].concat()).json();
        rows.as_array().unwrap().last().unwrap()["logits_fnv1a"].as_str().unwrap().to_owned()
    };
    let deep = hash(&["-p", "0", "-d", "6"]);
    assert_eq!(hash(&["-p", "2", "-d", "0,3,6"]), deep);
    assert_ne!(hash(&["-p", "0", "-d", "5"]), deep);
    let made_up = hash(&["-p", "0", "-d", "6", "--fill", "synthetic"]);
    assert_ne!(made_up, deep);
    assert_eq!(hash(&["-p", "0", "-d", "4,6", "--fill", "synthetic"]), made_up);
}

#[test]
fn the_table_names_what_it_shows() {
    let outcome = bench(&["-p", "2", "-n", "2", "--sync", "both", "--profile", "--sampler", "default", "--act", "f32"]);
    let table = outcome.success();
    for part in [
        "| model ",
        " logits |  act |",
        " f32 |",
        "pp2",
        "tg2",
        " ± 0.00",
        "times the fence",
        "mat_vec Q6_K 8192x256",
        "The sum is",
        "An empty interval",
        "top-k 40, top-p 0.95, min-p 0.05, temp 0.8",
    ] {
        assert!(table.contains(part), "no {part} in {table}");
    }
}

/// Steps of a prompt are profiled whether there is room for more of them than a step can have rows, or for less than one.
#[test]
fn a_profile_fits_into_what_room_there_is() {
    let options = ["-p", "0", "-n", "2", "-d", "0,1100", "--fill", "synthetic", "-ub", "2", "--profile"];
    let table = bench(&options).success();
    assert_eq!(table.matches("An empty interval").count(), 4, "a generated token and a prompt, at two depths: {table}");
}

#[test]
fn every_stage_of_the_sampler_is_named() {
    let table = bench(&["-p", "0", "-n", "2", "--sampler", "all"]).success();
    for part in ["logit-bias", "repeat-penalty 1.1", "dry 0.8", "top-n-sigma 2", "typical 0.95", "xtc 0.5", "temp 0.8"]
    {
        assert!(table.contains(part), "no {part} in {table}");
    }
}

#[test]
fn csv_has_a_head_and_two_models_two_rows() {
    let directory = tempfile::tempdir().unwrap();
    let model = synth(directory.path(), "model.gguf", &[]);
    let table = bench(&["-m", &model, "-m", &model, "-p", "0", "-n", "2", "-o", "csv"]).success();
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines.len(), 3, "{table}");
    assert!(lines[0].contains("avg_ts") && lines[1].contains("model.gguf"), "{table}");
}

#[test]
fn what_cannot_be_measured_is_refused() {
    zinc(&["bench", "-p", "0", "-n", "0"]).failure(2, &["nothing to time"]);
    zinc(&["bench", "--device", "interpreter"]).failure(2, &["interpreter"]);
    zinc(&["bench", "-o", "sql"]).failure(2, &["sql"]);
    zinc(&["bench", "-m", "/nonexistent/model.gguf"]).failure(1, &["/nonexistent/model.gguf"]);
}

#[cfg(unix)]
#[test]
fn what_is_no_file_is_never_replaced() {
    let directory = tempfile::tempdir().unwrap();
    // Stands for a device: a name that is no regular file.
    let socket = directory.path().join("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let link = directory.path().join("link");
    std::os::unix::fs::symlink(&socket, &link).unwrap();
    for path in [&socket, &link] {
        zinc(&["synth", "tiny-moe", &argument(path), "--force"]).failure(2, &["no regular file"]);
    }
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
}
