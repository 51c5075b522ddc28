//! `cargo xtask fuzz`: runs the targets of `fuzz/`, each with inputs that libFuzzer makes up, for some time.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, anyhow, ensure};

use crate::step::{self, Steps};

/// The manifest of the targets, which are a workspace of their own.
pub(crate) const MANIFEST: &str = "fuzz/Cargo.toml";

/// Where the programs, their inputs and what they fail on are kept.
const DIRECTORY: &str = "target/fuzz";

/// What makes the compiler note which branches an input takes and what it is compared with, by which libFuzzer finds its way.
const COVERAGE: [&str; 5] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
];

/// The longest input that libFuzzer makes up. The beginnings of the tests' models have some 20,000 bytes.
const MAX_BYTES: usize = 32 << 10;

/// The seconds after which one input counts as one that hangs.
const INPUT_SECONDS: u64 = 30;

/// The time that a program gets beyond what it is told to run for: for reading the inputs that are there already, and the last one that it tries.
const GRACE: Duration = Duration::from_secs(300);

/// Flags of `cargo xtask fuzz`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// How long each target runs.
    #[arg(long, value_name = "N", default_value_t = 120)]
    seconds: u64,
    /// The targets, by the names of their files in `fuzz/fuzz_targets`; all of them without it.
    #[arg(value_name = "TARGET")]
    targets: Vec<String>,
}

impl Default for Args {
    fn default() -> Self {
        Self { seconds: 120, targets: Vec::new() }
    }
}

/// Builds and runs the targets as steps, and stops at the first that fails. What it fails on is in `target/fuzz/failures`.
pub(crate) fn run(args: &Args, steps: &mut Steps) -> anyhow::Result<()> {
    let all = targets()?;
    for target in &args.targets {
        ensure!(all.contains(target), "there is no fuzz target '{target}'; there are {}", all.join(", "));
    }
    let host = host()?;
    let arguments =
        ["--release", "--locked", "--features", "libfuzzer", "--bins", "--target-dir", DIRECTORY, "--target"];
    let mut build = step::cargo(["build", "--manifest-path", MANIFEST]);
    // Naming the target keeps the flags away from build scripts and procedural macros.
    build.args(arguments).arg(&host).env("RUSTFLAGS", COVERAGE.join(" "));
    steps.run("fuzz targets", &mut build)?;
    let directory = step::root().join(DIRECTORY);
    let programs = directory.join(&host).join("release");
    let failures = made(directory.join("failures"))?;
    for target in all.iter().filter(|target| args.targets.is_empty() || args.targets.contains(target)) {
        let (found, seeds) =
            (made(directory.join("corpus").join(target))?, made(directory.join("seeds").join(target))?);
        let mut program = Command::new(programs.join(target));
        program.env("ZINC_FUZZ_SEEDS", &seeds);
        program.current_dir(step::root()).args(libfuzzer_flags(target, args.seconds, &failures));
        // What is new goes to the first directory, and is where the next run begins.
        program.arg(found).arg(seeds);
        steps.run_within(Duration::from_secs(args.seconds) + GRACE, &format!("fuzz {target}"), &mut program)?;
    }
    Ok(())
}

/// Checks the format and the lints of the targets, without building the programs, which takes a C++ compiler.
pub(crate) fn check(steps: &mut Steps) -> anyhow::Result<()> {
    steps.run("format of fuzz targets", &mut step::cargo(["fmt", "--manifest-path", MANIFEST, "--check"]))?;
    // Into the directory of the workspace, where most of what they depend on has been checked.
    let mut lints = step::cargo(["clippy", "--manifest-path", MANIFEST, "--target-dir", "target", "--locked"]);
    steps.run("lints of fuzz targets", lints.args(["--", "-D", "warnings"]))
}

/// A directory, which is there afterwards.
fn made(directory: PathBuf) -> anyhow::Result<PathBuf> {
    fs::create_dir_all(&directory).with_context(|| directory.display().to_string())?;
    Ok(directory)
}

/// The names of the targets, sorted.
fn targets() -> anyhow::Result<Vec<String>> {
    let directory = step::root().join("fuzz/fuzz_targets");
    let mut names = Vec::new();
    for entry in fs::read_dir(&directory).with_context(|| directory.display().to_string())? {
        let path = entry.with_context(|| directory.display().to_string())?.path();
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        names.push(stem.with_context(|| format!("{}: no name of a target", path.display()))?.to_owned());
    }
    names.sort_unstable();
    Ok(names)
}

fn libfuzzer_flags(target: &str, seconds: u64, failures: &Path) -> Vec<OsString> {
    let mut prefix = OsString::from("-artifact_prefix=");
    prefix.push(failures.join(format!("{target}-")));
    let mut flags = vec![
        prefix,
        format!("-max_total_time={seconds}").into(),
        format!("-max_len={MAX_BYTES}").into(),
        format!("-timeout={INPUT_SECONDS}").into(),
        "-print_final_stats=1".into(),
        "-verbosity=0".into(),
    ];
    let words = step::root().join(format!("fuzz/dictionaries/{target}.dict"));
    if words.exists() {
        let mut flag = OsString::from("-dict=");
        flag.push(words);
        flags.push(flag);
    }
    flags
}

/// The target triple of this machine.
fn host() -> anyhow::Result<String> {
    let output = Command::new("rustc").arg("-vV").output().context("rustc -vV")?;
    let text = String::from_utf8(output.stdout).context("rustc -vV")?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| anyhow!("rustc -vV names no host: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_has_its_program_in_the_manifest() {
        let manifest = fs::read_to_string(step::root().join(MANIFEST)).expect("the manifest of the targets");
        let targets = targets().expect("the directory of the targets");
        assert!(!targets.is_empty());
        for target in targets {
            assert!(manifest.contains(&format!("path = \"fuzz_targets/{target}.rs\"")), "{target}");
        }
    }
}
