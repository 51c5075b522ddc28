//! `cargo xtask ci`: everything a change must pass, and `cargo xtask full`: the large matrices of tests, wholly.
//!
//! Warnings are refused through `clippy -- -D warnings`, which sees every rustc warning too, and not through `RUSTFLAGS`,
//! which would change the fingerprint of every dependency and build them all a second time.

use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context, anyhow};
use cargo_metadata::camino::Utf8PathBuf;
use cargo_metadata::{Metadata, MetadataCommand};

use crate::step::{self, Steps};
use crate::{fuzz, isa, shaders, tidy};

/// Names the matrices of tests that `full` asks for: with the value `full`, tests that otherwise run a fixed part of a large matrix run all
/// of it. `CONTRIBUTING.md` lists the matrices and their parts.
const MATRIX: &str = "ZINC_TEST_MATRIX";

/// How long an example may take. The longest takes some seconds on two cores.
const EXAMPLE_LIMIT: Duration = Duration::from_secs(180);

/// A tiny model, for the examples that take one.
const TINY: &str = "tests/data/tiny/qwen3moe-a-q4_k_m.gguf";

/// Flags of `cargo xtask ci`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Leave out the test suite, where `./x test` has run it already.
    #[arg(long)]
    skip_tests: bool,
    /// Leave out the budget of the machine code, which needs root, debootstrap and a mirror of Debian.
    #[arg(long)]
    skip_isa: bool,
    /// Leave out the client libraries of other makers, which need Python with venv and PyPI.
    #[arg(long)]
    skip_clients: bool,
    /// Append the name of each step, a tab and its seconds to this file, for a caller that has steps of its own.
    #[arg(long, value_name = "FILE")]
    times: Option<PathBuf>,
}

/// Runs the checks in order and stops at the first that fails.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let metadata = MetadataCommand::new().current_dir(step::root()).exec().context("cargo metadata")?;
    let mut steps = Steps::new(args.times.clone());
    thread::scope(|scope| {
        let target_directory = metadata.target_directory.as_std_path();
        // Mostly waits for the network and the disk, the first time for a minute: meanwhile the processor does the other steps.
        let mesa = (!args.skip_isa).then(|| scope.spawn(|| isa::set_up(target_directory)));
        check(args, &mut steps)?;
        run_examples(&metadata, &mut steps)?;
        if !args.skip_clients {
            clients(&mut steps, "client libraries, fast", "libraries.sh", &["fast"])?;
        }
        let Some(mesa) = mesa else { return Ok(()) };
        steps.time("machine code", || {
            mesa.join().map_err(|_| anyhow!("setting up Mesa panicked"))??;
            isa::run_check(target_directory, examples(&metadata).join("isa").as_std_path())
        })
    })
}

/// All but the examples and the machine code, which needs one of them.
fn check(args: &Args, steps: &mut Steps) -> anyhow::Result<()> {
    steps.run("format", &mut step::cargo(["fmt", "--all", "--check"]))?;
    steps.time("tidy", tidy::run)?;
    steps.time("shaders", || shaders::run(&step::root(), true).map_err(anyhow::Error::msg))?;
    if !args.skip_tests {
        steps.run("tests", &mut step::cargo(["test", "--workspace", "--locked"]))?;
    }
    let lints = ["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"];
    steps.run("lints", &mut step::cargo(lints))?;
    fuzz::check(steps)?;
    // These promise to be usable without Vulkan: references and formats, files with the interpreter, the window.
    let packages = ["--package", "zinc-kernels", "--package", "zinc-model", "--package", "zinc-sched"];
    let mut alone = step::cargo(["clippy", "--no-default-features", "--lib", "--locked"]);
    steps.run("lints without Vulkan", alone.args(packages).args(["--", "-D", "warnings"]))?;
    let mut docs = step::cargo(["doc", "--workspace", "--no-deps", "--locked"]);
    steps.run("documentation", docs.env("RUSTDOCFLAGS", "-D warnings"))
}

/// Runs every example of every library crate; each must end with success and needs no arguments.
fn run_examples(metadata: &Metadata, steps: &mut Steps) -> anyhow::Result<()> {
    build_examples(steps)?;
    for package in metadata.workspace_packages() {
        for example in package.targets.iter().filter(|target| target.is_example()) {
            let mut program = Command::new(examples(metadata).join(&example.name));
            program.current_dir(step::root());
            if example.name == "ways" {
                // The tests of models go through all kinds of sampling with the same code, under the validation layer.
                program.args([TINY, "1", "2", "greedy"]);
            }
            steps.run_within(EXAMPLE_LIMIT, &format!("example {}/{}", package.name, example.name), &mut program)?;
        }
    }
    Ok(())
}

fn build_examples(steps: &mut Steps) -> anyhow::Result<()> {
    // Built for the whole workspace, as the tests were: for one package alone cargo would choose other features and build the
    // dependencies again.
    steps.run("examples", &mut step::cargo(["build", "--workspace", "--examples", "--locked"]))
}

/// Where cargo puts examples.
fn examples(metadata: &Metadata) -> Utf8PathBuf {
    metadata.target_directory.join("debug/examples")
}

/// Runs the test suite with whole matrices, the examples that compare ways of driving a model at length, the fuzz targets, and all clients of
/// other makers.
pub(crate) fn run_full() -> anyhow::Result<()> {
    let metadata = MetadataCommand::new().current_dir(step::root()).exec().context("cargo metadata")?;
    let mut steps = Steps::new(None);
    let mut tests = step::cargo(["test", "--workspace", "--locked"]);
    steps.run("tests, whole matrices", tests.env(MATRIX, "full"))?;
    build_examples(&mut steps)?;
    for (example, arguments) in [("ways", [TINY, "8", "40"]), ("cancels", [TINY, "1000", "validate"])] {
        let mut program = Command::new(examples(&metadata).join(example));
        program.current_dir(step::root()).args(arguments);
        steps.run(&format!("example {example}, at length"), &mut program)?;
    }
    fuzz::run(&fuzz::Args::default(), &mut steps)?;
    clients(&mut steps, "client libraries", "libraries.sh", &[])?;
    clients(&mut steps, "agents", "agents.sh", &[])?;
    clients(&mut steps, "compliance", "compliance.sh", &[])?;
    clients(&mut steps, "schemas", "schemas.sh", &[])
}

/// Runs a script that lets programs of other makers use the server.
fn clients(steps: &mut Steps, name: &str, script: &str, arguments: &[&str]) -> anyhow::Result<()> {
    let mut program = Command::new("bash");
    program.current_dir(step::root()).arg(format!("tests/clients/{script}")).args(arguments);
    steps.run(name, &mut program)
}
