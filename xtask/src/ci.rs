//! `cargo xtask ci`: everything a change must pass, cheapest first.
//!
//! Warnings are refused through `clippy -- -D warnings`, which sees every rustc warning too, and not through `RUSTFLAGS`,
//! which would change the fingerprint of every dependency and build them all a second time.

use std::process::Command;

use anyhow::Context;
use cargo_metadata::MetadataCommand;

use crate::{isa, shaders, step, tidy};

/// Flags of `cargo xtask ci`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Leave out the test suite, where `./x test` has run it already.
    #[arg(long)]
    skip_tests: bool,
    /// Leave out the budget of the machine code, which needs root, debootstrap and a mirror of Debian.
    #[arg(long)]
    skip_isa: bool,
}

/// Runs the checks in order and stops at the first that fails.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    step::run("format", &mut step::cargo(["fmt", "--all", "--check"]))?;
    tidy::run()?;
    shaders::run(&step::root(), true).map_err(anyhow::Error::msg)?;
    if !args.skip_tests {
        step::run("tests", &mut step::cargo(["test", "--workspace", "--locked"]))?;
    }
    run_examples(args)?;
    let lints = ["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"];
    step::run("lints", &mut step::cargo(lints))?;
    // These promise to be usable without Vulkan: references and formats alone, the window alone.
    for package in ["zinc-kernels", "zinc-sched"] {
        let alone =
            ["clippy", "--package", package, "--no-default-features", "--lib", "--locked", "--", "-D", "warnings"];
        step::run(&format!("{package} without Vulkan"), &mut step::cargo(alone))?;
    }
    let mut docs = step::cargo(["doc", "--workspace", "--no-deps", "--locked"]);
    step::run("documentation", docs.env("RUSTDOCFLAGS", "-D warnings"))
}

/// Runs every example of every library crate; each must end with success and needs no arguments. One of them is what the
/// budget of the machine code needs.
fn run_examples(args: &Args) -> anyhow::Result<()> {
    // Built for the whole workspace, as the tests were: for one package alone cargo would choose other features and build the
    // dependencies again.
    step::run("examples", &mut step::cargo(["build", "--workspace", "--examples", "--locked"]))?;
    let metadata = MetadataCommand::new().current_dir(step::root()).exec().context("cargo metadata")?;
    let directory = metadata.target_directory.join("debug/examples");
    for package in metadata.workspace_packages() {
        for example in package.targets.iter().filter(|target| target.is_example()) {
            let mut program = Command::new(directory.join(&example.name));
            program.current_dir(step::root());
            step::run(&format!("example {}/{}", package.name, example.name), &mut program)?;
        }
    }
    if args.skip_isa {
        return Ok(());
    }
    isa::run_check(metadata.target_directory.as_std_path(), directory.join("isa").as_std_path())
}
