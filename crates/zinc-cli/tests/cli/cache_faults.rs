//! A folder for the pipeline cache that cannot be used costs a note, never the answer.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

use crate::support::{Outcome, TINY, command, source_argument};

/// What runs one token of a tiny model with the cache below this folder.
fn one_token(cache: &Path) -> Command {
    let mut run = command(&["run", "--raw", "-n", "1", "--temp", "0", "-p", "a", "-m", &source_argument(TINY)]);
    // What Vulkan is asked for does not depend on the cache, and the layer takes most of the time of so short a run.
    run.env("XDG_CACHE_HOME", cache).env("ZINC_VALIDATION", "off");
    run
}

fn run(cache: &Path) -> Outcome {
    one_token(cache).output().unwrap().into()
}

/// The same in a shell in which no write to a file succeeds.
fn run_on_a_full_disk(cache: &Path) -> Outcome {
    let run = one_token(cache);
    let mut shell = Command::new("sh");
    shell.args(["-c", "trap '' XFSZ; ulimit -f 0; exec \"$0\" \"$@\""]).arg(run.get_program()).args(run.get_args());
    shell.stdin(std::process::Stdio::null());
    for (name, value) in run.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell.output().unwrap().into()
}

/// The notes about the cache in what a run said.
fn notes(outcome: &Outcome) -> Vec<String> {
    outcome.stderr.lines().filter(|line| line.contains("pipeline cache")).map(str::to_owned).collect()
}

#[test]
fn a_cache_that_cannot_be_used_costs_a_note_and_not_the_answer() {
    let directory = tempfile::tempdir().unwrap();
    let whole = directory.path().join("whole");
    let first = run(&whole);
    assert_eq!(notes(&first), [""; 0]);
    let text = first.success();
    let name = fs::read_dir(whole.join("zinc")).unwrap().next().unwrap().unwrap().file_name();

    let place = |case: &str| {
        let cache = directory.path().join(case);
        fs::create_dir_all(cache.join("zinc")).unwrap();
        (cache.clone(), cache.join("zinc").join(&name))
    };
    let (folder, file) = place("a folder where the file should be");
    fs::create_dir(file).unwrap();
    let (damaged, file) = place("another file");
    fs::write(&file, "This is no cache.").unwrap();
    let file_for_folder = directory.path().join("a file where the folder should be");
    fs::write(&file_for_folder, "").unwrap();
    let file_for_zinc = directory.path().join("a file where zinc's folder should be");
    fs::create_dir(&file_for_zinc).unwrap();
    fs::write(file_for_zinc.join("zinc"), "").unwrap();
    let read_only = Path::new("/proc/self/task").to_owned();
    for cache in [&folder, &file_for_folder, &file_for_zinc, &read_only] {
        let outcome = run(cache);
        assert_eq!(notes(&outcome).len(), 1, "{}: {outcome:?}", cache.display());
        assert!(notes(&outcome)[0].starts_with("note: "), "{outcome:?}");
        assert_eq!(outcome.success(), text, "{}", cache.display());
    }
    let full = run_on_a_full_disk(&directory.path().join("full"));
    assert_eq!(notes(&full).len(), 1, "{full:?}");
    assert_eq!(full.success(), text);

    // What stands there and is no cache may be replaced by one; it holds nothing up.
    let (endless, file) = place("a file without an end");
    symlink("/dev/zero", file).unwrap();
    for cache in [&damaged, &endless] {
        let outcome = run(cache);
        assert!(notes(&outcome).len() <= 1, "{}: {outcome:?}", cache.display());
        assert_eq!(outcome.success(), text, "{}", cache.display());
    }
    assert_eq!(notes(&run(&damaged)), [""; 0]);
}

#[test]
fn a_user_whose_home_cannot_be_written_gets_an_answer() {
    // Only root can become another user, and root could write everywhere.
    if !rustix::process::getuid().is_root() {
        return;
    }
    use std::os::unix::process::CommandExt as _;
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let program = directory.path().join("zinc");
    fs::copy(env!("CARGO_BIN_EXE_zinc"), &program).unwrap();
    let model = directory.path().join("model.gguf");
    fs::copy(crate::support::source_file(TINY), &model).unwrap();
    const NOBODY: u32 = 65_534;
    let mut run = Command::new(&program);
    run.args(["run", "--raw", "-n", "1", "--temp", "0", "-p", "a", "-m"]).arg(&model);
    run.env("HOME", "/").env_remove("XDG_CACHE_HOME").uid(NOBODY).gid(NOBODY).stdin(std::process::Stdio::null());
    let outcome: Outcome = run.current_dir("/").output().unwrap().into();
    assert_eq!(notes(&outcome).len(), 1, "{outcome:?}");
    outcome.success();
}
