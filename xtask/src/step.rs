//! Runs other programs as the named steps of a chore, and writes the table of how long they took. A step that fails ends the chore.

use std::env;
use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

/// The top directory of the source tree.
pub(crate) fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().expect("xtask lies one level below the top").to_owned()
}

/// A command that runs `cargo` with these arguments at the top of the source tree. It is the cargo that runs xtask.
pub(crate) fn cargo<const N: usize>(arguments: [&str; N]) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(root());
    command
}

/// Runs a command that must succeed, and prints what runs and how long it took.
pub(crate) fn run(name: &str, command: &mut Command) -> anyhow::Result<()> {
    let start = Instant::now();
    let outcome = start_and_wait(name, ANY_TIME, command);
    eprintln!("== {name}: {} in {:.1} s", verdict(&outcome), start.elapsed().as_secs_f64());
    outcome
}

/// The limit of a step that may take any time.
const ANY_TIME: Duration = Duration::MAX;

/// Runs a command that must succeed. A program that has not ended within `limit` is killed and has failed.
fn start_and_wait(name: &str, limit: Duration, command: &mut Command) -> anyhow::Result<()> {
    /// How often the program is looked at.
    const LOOK: Duration = Duration::from_millis(20);
    eprintln!("== {name}: {}", describe(command));
    let mut child = command.spawn().with_context(|| format!("{name}: cannot start {}", describe(command)))?;
    let start = Instant::now();
    loop {
        match child.try_wait().with_context(|| format!("{name}: waiting for its end"))? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => bail!("{name} failed ({status}): {}", describe(command)),
            None if start.elapsed() < limit => std::thread::sleep(LOOK),
            None => {
                child.kill().with_context(|| format!("{name}: ending it"))?;
                child.wait().with_context(|| format!("{name}: waiting for its end"))?;
                bail!("{name} did not end within {} s: {}", limit.as_secs(), describe(command));
            }
        }
    }
}

fn verdict(outcome: &anyhow::Result<()>) -> &'static str {
    if outcome.is_ok() { "passed" } else { "failed" }
}

/// The steps of one run of a chore and how long each took. Dropping it prints them as a table, also behind a step that failed.
pub(crate) struct Steps {
    taken: Vec<(String, Duration)>,
    times_file: Option<PathBuf>,
}

impl Steps {
    /// No steps yet. The name and the seconds of each are appended to the file as well, if one is named, one step a line with a tab between.
    pub(crate) fn new(times_file: Option<PathBuf>) -> Self {
        Self { taken: Vec::new(), times_file }
    }

    /// Runs a command as a step.
    pub(crate) fn run(&mut self, name: &str, command: &mut Command) -> anyhow::Result<()> {
        self.run_within(ANY_TIME, name, command)
    }

    /// Runs a command as a step that has to end within `limit`.
    pub(crate) fn run_within(&mut self, limit: Duration, name: &str, command: &mut Command) -> anyhow::Result<()> {
        self.time(name, || start_and_wait(name, limit, command))
    }

    /// Does something as a step.
    pub(crate) fn time(&mut self, name: &str, step: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
        let start = Instant::now();
        let outcome = step();
        let taken = start.elapsed();
        eprintln!("== {name}: {} in {:.1} s", verdict(&outcome), taken.as_secs_f64());
        self.taken.push((name.to_owned(), taken));
        if let Some(file) = &self.times_file {
            let mut file = OpenOptions::new().create(true).append(true).open(file).context("the file of times")?;
            writeln!(file, "{name}\t{:.1}", taken.as_secs_f64()).context("the file of times")?;
        }
        outcome
    }
}

impl Drop for Steps {
    fn drop(&mut self) {
        eprint!("{}", table(&self.taken));
    }
}

/// The steps with their minutes and seconds, and the sum; nothing where there are none.
fn table(steps: &[(String, Duration)]) -> String {
    let mut text = String::new();
    if steps.is_empty() {
        return text;
    }
    let total = ("total".to_owned(), steps.iter().map(|(_, taken)| *taken).sum());
    let width = steps.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0).max(5);
    for (name, taken) in steps.iter().chain([&total]) {
        let tenths = (taken.as_secs_f64() * 10.0).round() as u64;
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name:<width$} {:>4}:{:02}.{}", tenths / 600, tenths / 10 % 60, tenths % 10);
    }
    text
}

/// The command as one would type it.
fn describe(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default();
    let words = std::iter::once(program).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_minutes_and_seconds_and_a_sum() {
        let steps =
            [("format".to_owned(), Duration::from_millis(1_249)), ("a long name".to_owned(), Duration::from_secs(599))];
        assert_eq!(table(&steps), "format         0:01.2\na long name    9:59.0\ntotal         10:00.2\n");
        assert_eq!(table(&[]), "");
    }

    #[test]
    fn a_step_that_does_not_end_is_ended() {
        let mut steps = Steps::new(None);
        let long = Duration::from_secs(60);
        assert!(steps.run_within(long, "short", Command::new("sleep").arg("0")).is_ok());
        assert!(steps.run_within(long, "bad", &mut Command::new("false")).is_err());
        let error = steps.run_within(Duration::ZERO, "endless", Command::new("sleep").arg("600")).unwrap_err();
        assert!(error.to_string().contains("endless did not end within 0 s"), "{error}");
    }

    #[test]
    fn a_step_that_fails_is_in_the_table_and_in_the_file() {
        let file = env::temp_dir().join(format!("zinc-xtask-times-{}", std::process::id()));
        let mut steps = Steps::new(Some(file.clone()));
        assert!(steps.time("good", || Ok(())).is_ok());
        assert!(steps.time("bad", || bail!("broken")).is_err());
        let names: Vec<&str> = steps.taken.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["good", "bad"]);
        let text = std::fs::read_to_string(&file).expect("the file of times");
        std::fs::remove_file(&file).expect("the file of times");
        let names: Vec<_> = text.lines().map(|line| line.split('\t').next()).collect();
        assert_eq!(names, [Some("good"), Some("bad")]);
    }
}
