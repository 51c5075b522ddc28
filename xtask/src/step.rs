//! Running other programs as named steps that either pass or end the chore.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, bail};

/// The top directory of the source tree.
pub(crate) fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().expect("xtask lies one level below the top").to_owned()
}

/// `cargo` with these arguments, run at the top of the source tree; the same cargo that runs xtask.
pub(crate) fn cargo<const N: usize>(arguments: [&str; N]) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(root());
    command
}

/// Runs a command that must succeed, saying what runs and how long it took.
pub(crate) fn run(name: &str, command: &mut Command) -> anyhow::Result<()> {
    eprintln!("== {name}: {}", describe(command));
    let start = Instant::now();
    let status = command.status().with_context(|| format!("{name}: cannot start {}", describe(command)))?;
    if !status.success() {
        bail!("{name} failed ({status}): {}", describe(command));
    }
    eprintln!("== {name}: passed in {:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}

/// The command as one would type it.
fn describe(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default();
    let words = std::iter::once(program).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}
