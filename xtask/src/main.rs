//! Project chores: shaders, checks, continuous integration.
//!
//! The program is run as `cargo xtask VERB`, and each verb is a module. It depends on no crate of the workspace, so that it works while
//! they do not compile. Setting up a machine is the job of `./x`.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "what a chore does and finds belongs on the terminal")]

mod ci;
mod fuzz;
mod glsl;
mod isa;
#[cfg(feature = "shaderc")]
mod reflect;
mod shaders;
mod step;
mod tidy;

use std::process::ExitCode;

use clap::Parser;

/// Project chores.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Verb {
    /// Compile the GLSL shaders and write the committed SPIR-V and interfaces; needs the feature `shaderc`.
    Shaders {
        /// Compare hashes of sources and outputs instead of compiling; needs no shader compiler.
        #[arg(long)]
        check: bool,
    },
    /// Check what the compiler does not: dependencies, licences, files, kernels.
    Tidy,
    /// Compile the kernels for a card that is not at hand; show registers, occupancy and loads. Needs root and debootstrap.
    Isa(isa::Args),
    /// Run everything a change must pass.
    Ci(ci::Args),
    /// Run the large matrices of tests wholly, of which `ci` runs a fixed part: before a change that touches them.
    Full,
    /// Run the fuzz targets, each for some time; needs a C++ compiler.
    Fuzz(fuzz::Args),
}

fn main() -> ExitCode {
    let outcome = match Verb::parse() {
        Verb::Shaders { check } => shaders::run(&step::root(), check).map_err(anyhow::Error::msg),
        Verb::Tidy => tidy::run(),
        Verb::Isa(args) => isa::run(&args),
        Verb::Ci(args) => ci::run(&args),
        Verb::Full => ci::run_full(),
        Verb::Fuzz(args) => fuzz::run(&args, &mut step::Steps::new(None)),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // `{error:?}` would add a backtrace, which helps nobody: the message names what to do.
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
