//! `cargo xtask ci`: everything a change must pass, cheapest first.
//!
//! Warnings are refused through `clippy -- -D warnings`, which sees every rustc warning too, and not through `RUSTFLAGS`,
//! which would change the fingerprint of every dependency and build them all a second time.

use anyhow::Context;
use cargo_metadata::MetadataCommand;

use crate::{shaders, step, tidy};

/// Flags of `cargo xtask ci`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Leave out the test suite, where `./x test` has run it already.
    #[arg(long)]
    skip_tests: bool,
}

/// Runs the checks in order and stops at the first that fails.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    step::run("format", &mut step::cargo(["fmt", "--all", "--check"]))?;
    tidy::run()?;
    shaders::run(&step::root(), true).map_err(anyhow::Error::msg)?;
    if !args.skip_tests {
        step::run("tests", &mut step::cargo(["test", "--workspace", "--locked"]))?;
    }
    run_examples()?;
    let lints = ["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"];
    step::run("lints", &mut step::cargo(lints))?;
    // The kernels promise to be usable without a device: SPIR-V, interfaces and references alone.
    let alone =
        ["clippy", "--package", "zinc-kernels", "--no-default-features", "--lib", "--locked", "--", "-D", "warnings"];
    step::run("kernels without Vulkan", &mut step::cargo(alone))?;
    let mut docs = step::cargo(["doc", "--workspace", "--no-deps", "--locked"]);
    step::run("documentation", docs.env("RUSTDOCFLAGS", "-D warnings"))
}

/// Runs every example of every library crate; each must end with success and needs no arguments.
fn run_examples() -> anyhow::Result<()> {
    let metadata = MetadataCommand::new().current_dir(step::root()).exec().context("cargo metadata")?;
    for package in metadata.workspace_packages() {
        for example in package.targets.iter().filter(|target| target.is_example()) {
            let command = ["run", "--quiet", "--locked", "--package", &package.name, "--example", &example.name];
            step::run(&format!("example {}/{}", package.name, example.name), &mut step::cargo(command))?;
        }
    }
    Ok(())
}
