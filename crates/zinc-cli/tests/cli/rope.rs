//! Positions scaled by flags: what is computed, what `zinc inspect` says, and which flags do not go together.

use std::fs;

use serde_json::{Value, json};

use crate::support::{argument, source_argument, zinc};

const MODEL: &str = "tests/data/tiny/qwen3-f16.gguf";

/// The scaling of the golden values in `tests/data/long`.
const YARN: [&str; 6] = ["--rope-scaling", "yarn", "--rope-scale", "4", "--yarn-orig-ctx", "512"];

fn floats(path: &str) -> Vec<f32> {
    let bytes = fs::read(path).unwrap();
    bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

/// The first 33 tokens of the golden prompt, computed with these flags: the largest distance of the logits from the golden ones.
fn distance(flags: &[&str]) -> f32 {
    let json = fs::read(source_argument("tests/data/long/qwen3-f16-yarn.json")).unwrap();
    let json: Value = serde_json::from_slice(&json).unwrap();
    let numbers = |key: &str| json[key].as_array().unwrap().iter().map(|number| number.as_u64().unwrap() as usize);
    let vocabulary = json["vocab"].as_u64().unwrap() as usize;
    let ids = numbers("ids").take(33).map(|id| id.to_string()).collect::<Vec<_>>().join(",");
    let directory = tempfile::tempdir().unwrap();
    let out = argument(&directory.path().join("logits.f32"));
    let model = source_argument(MODEL);
    let line =
        ["logits", "--device", "interpreter", "-ctk", "f32", "-ctv", "f32", "-m", &model, "--raw", &out, "--ids", &ids];
    zinc(&[&line[..], flags].concat()).success();
    let (found, golden) = (floats(&out), floats(&source_argument("tests/data/long/qwen3-f16-yarn.logits.f32")));
    let listed = numbers("positions").zip(golden.chunks(vocabulary)).take_while(|(position, _)| *position < 33);
    let distances = listed.flat_map(|(position, golden)| {
        found[position * vocabulary..][..vocabulary].iter().zip(golden).map(|(found, golden)| (found - golden).abs())
    });
    distances.fold(0.0, f32::max)
}

#[test]
fn logits_with_yarn_are_those_of_other_programs() {
    let distances = [distance(&YARN), distance(&[])];
    assert!(distances[0] <= 1e-3, "{distances:?}");
    assert!(distances[1] >= 1e-2, "the flags change nothing: {distances:?}");
}

#[test]
fn inspect_says_which_scaling_is_in_force() {
    let model = source_argument(MODEL);
    let rope = |flags: &[&str]| zinc(&[&["inspect", "--json", &model], flags].concat()).json()["run"]["rope"].clone();
    assert_eq!(rope(&[]), json!({ "base": 1e6, "dimensions": 64, "scaling": "none" }));
    let linear = json!({ "base": 1e6, "dimensions": 64, "scaling": "linear", "factor": 4.0 });
    assert_eq!(rope(&["--rope-freq-scale", "0.25"]), linear);
    let mut yarn = json!({
        "base": 5e5, "dimensions": 64, "scaling": "yarn", "factor": 4.0, "original_context": 512, "extrapolation": 1.0,
        "attention_factor": 1.0, "beta_fast": 32.0, "beta_slow": 1.0,
    });
    assert_eq!(rope(&[&YARN[..], &["--rope-freq-base", "500000"]].concat()), yarn);
    yarn["extrapolation"] = json!(0.5);
    yarn["attention_factor"] = json!(2.0);
    yarn["beta_fast"] = json!(16.0);
    yarn["beta_slow"] = json!(2.0);
    let all =
        "--rope_freq_base 500000 --yarn-ext-factor 0.5 --yarn-attn-factor 2 --yarn-beta-fast 16 --yarn-beta-slow 2";
    assert_eq!(rope(&[&YARN[..], &all.split(' ').collect::<Vec<_>>()].concat()), yarn);
    let text = zinc(&[&["inspect", &model], &YARN[..]].concat()).success();
    for part in ["scaling yarn", "factor 4", "original context 512"] {
        assert!(text.contains(part), "no {part} in {text}");
    }
}

#[test]
fn flags_that_do_not_go_together_are_refused_with_what_to_do() {
    let model = source_argument(MODEL);
    for (flags, parts) in [
        (&["--rope-scaling", "yarn"][..], ["'yarn'", "without a factor", "--rope-scale"]),
        (&["--rope-scaling", "none", "--rope-scale", "4"], ["a factor", "'none'", "--rope-scaling"]),
        (&["--rope-scale", "4", "--yarn-orig-ctx", "512"], ["original context", "'linear'", "--rope-scaling"]),
        (&["--yarn-beta-fast", "32"], ["fast beta", "'none'", "--rope-scaling"]),
        (&["--rope-scale", "0.5"], ["--rope-scale", "0.5", "1 or above"]),
        (&["--rope-scaling", "longrope"], ["--rope-scaling", "longrope", "yarn"]),
    ] {
        for command in [&["inspect"][..], &["logits", "--ids", "1"], &["run", "--raw", "-p", "a"], &["bench"]] {
            zinc(&[command, &["-m", &model], flags].concat()).failure(2, &parts);
        }
    }
    // A command that computes nothing with the model says that the flag does nothing.
    let outcome = zinc(&["tokenize", "-m", &model, "-p", "a", "--rope-scale", "4"]);
    assert!(outcome.stderr.contains("note: --rope-scale changes nothing"), "{outcome:?}");
    outcome.success();
}
