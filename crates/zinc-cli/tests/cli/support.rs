//! Running commands, in this process or as a process of their own, and altering model files, and what the demo model says.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{LazyLock, Mutex, PoisonError};

use zinc_cli::{Captured, OpenDevices, Surroundings};
use zinc_model::gguf::{File, TensorFormat, Value, Writer};

/// A question that the demo model was trained on.
pub(crate) const QUESTION: &str = "What is a telescope?";

/// Its answer to that, with the temperature 0, as it is printed.
pub(crate) const ANSWER: &str = "Telescope: a magnifier of images of distant objects.\n";

/// What a command left behind.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl From<Output> for Outcome {
    fn from(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("output is UTF-8");
        Self { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}

impl From<Captured> for Outcome {
    fn from(captured: Captured) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("output is UTF-8");
        Self { code: Some(captured.status.into()), stdout: text(captured.stdout), stderr: text(captured.stderr) }
    }
}

impl Outcome {
    /// Stdout of a run that must have succeeded.
    #[track_caller]
    pub(crate) fn success(self) -> String {
        assert_eq!(self.code, Some(0), "{self:?}");
        self.stdout
    }

    /// Stdout of a run that must have succeeded, as JSON.
    #[track_caller]
    pub(crate) fn json(self) -> serde_json::Value {
        let text = self.success();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in {text}"))
    }

    /// Checks a failure: this exit status, nothing on stdout, and on stderr, apart from notes, exactly one line, which
    /// contains all of `parts`.
    #[track_caller]
    pub(crate) fn failure(&self, code: i32, parts: &[&str]) {
        assert_eq!(self.code, Some(code), "{self:?}");
        assert_eq!(self.stdout, "", "{self:?}");
        assert!(!self.stderr.contains("panicked"), "{self:?}");
        let lines: Vec<&str> = self.stderr.lines().filter(|line| !line.starts_with("note: ")).collect();
        assert_eq!(lines.len(), 1, "{self:?}");
        assert!(lines[0].starts_with("error: "), "{self:?}");
        for part in parts {
            assert!(lines[0].contains(part), "no '{part}' in {self:?}");
        }
    }
}

/// The value of `ZINC_VALIDATION` for tests: commands run under the validation layer, whose messages make them fail. As in all tests,
/// `ZINC_TEST_VALIDATION=off` does without the layer.
fn validation() -> &'static str {
    let without_layer = std::env::var_os("ZINC_TEST_VALIDATION").is_some_and(|value| value == "off");
    if without_layer { "off" } else { "on" }
}

/// The folder for caches, so that no test writes to the developer's own. It is empty when the tests start, and shared by them: most need
/// the same pipelines.
fn cache() -> &'static Path {
    static CACHE: LazyLock<PathBuf> = LazyLock::new(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("zinc-cli-cache");
        match std::fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => panic!("{}: {error}", folder.display()),
            _ => std::fs::create_dir_all(&folder).expect("the folder for caches can be made"),
        }
        folder
    });
    &CACHE
}

/// The folder below which Mesa's drivers keep the code that they have compiled: the one that this process uses, as Mesa finds it. Compiling
/// the kernels anew takes a CPU driver seconds in each process.
fn driver_cache() -> PathBuf {
    let folder = std::env::var_os("MESA_SHADER_CACHE_DIR").or_else(|| std::env::var_os("XDG_CACHE_HOME"));
    folder.map_or_else(|| PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache"), PathBuf::from)
}

/// The program as a process of its own, with these arguments and an empty stdin.
pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zinc"));
    command.args(arguments).stdin(Stdio::null()).env_remove("ZINC_DEMO_MODEL");
    command.env("ZINC_VALIDATION", validation()).env("XDG_CACHE_HOME", cache());
    command.env("MESA_SHADER_CACHE_DIR", driver_cache());
    command
}

/// Runs a command in this process with these arguments and an empty stdin.
#[track_caller]
pub(crate) fn zinc(arguments: &[&str]) -> Outcome {
    run(arguments, None, &[])
}

/// Runs a command in this process with this text, or these bytes, on stdin.
#[track_caller]
pub(crate) fn zinc_with_input(arguments: &[&str], input: &(impl AsRef<[u8]> + ?Sized)) -> Outcome {
    run(arguments, Some(input.as_ref()), &[])
}

/// Runs a command in this process with an empty stdin and these further environment variables.
#[track_caller]
pub(crate) fn zinc_with_variables(arguments: &[&str], variables: &[(&str, &str)]) -> Outcome {
    run(arguments, None, variables)
}

/// Devices that are open, each with its instance and the pipelines built for it, and that no command uses at the moment: opening a device
/// under the validation layer takes longer than most commands. A message of the layer fails every later command on that device, too.
static IDLE: Mutex<Vec<OpenDevices>> = Mutex::new(Vec::new());

fn run(arguments: &[&str], input: Option<&[u8]>, variables: &[(&str, &str)]) -> Outcome {
    let devices = IDLE.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default();
    let own = |(name, value): &(&str, &str)| ((*name).to_owned(), OsString::from(value));
    let mut variables: Vec<_> = variables.iter().map(own).collect();
    variables.push(("ZINC_VALIDATION".to_owned(), validation().into()));
    variables.push(("XDG_CACHE_HOME".to_owned(), cache().into()));
    let stdin = input.map(<[u8]>::to_vec);
    let surroundings = Surroundings { stdin, variables, devices: devices.clone() };
    let arguments = std::iter::once("zinc").chain(arguments.iter().copied()).map(OsString::from);
    let captured = zinc_cli::run_in(&surroundings, arguments);
    IDLE.lock().unwrap_or_else(PoisonError::into_inner).push(devices);
    captured.into()
}

/// Runs the program as a process of its own with this text on stdin, through a pipe.
#[track_caller]
pub(crate) fn process_with_input(arguments: &[&str], input: &str) -> Outcome {
    let mut command = command(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program runs");
    // A program that ends early closes its stdin; what it says then is what the test looks at.
    let _ = child.stdin.take().expect("stdin is a pipe").write_all(input.as_bytes());
    child.wait_with_output().expect("the program ends").into()
}

/// Presses Ctrl-C for a running program. The shell's own `kill` does it, since a bare machine has no program of that name.
pub(crate) fn interrupt(child: &Child) {
    let kill = format!("kill -INT {}", child.id());
    assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success(), "{kill}");
}

/// A file below the top directory of the source tree.
pub(crate) fn source_file(path: &str) -> PathBuf {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = top.join(path);
    path.canonicalize().unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// As [`source_file`], as an argument.
pub(crate) fn source_argument(path: &str) -> String {
    argument(&source_file(path))
}

/// A path as an argument.
pub(crate) fn argument(path: &Path) -> String {
    path.to_str().expect("paths in tests are UTF-8").to_owned()
}

/// JSON from a file below the top directory.
pub(crate) fn golden(path: &str) -> serde_json::Value {
    let text = std::fs::read_to_string(source_file(path)).expect("golden data are there");
    serde_json::from_str(&text).expect("golden data are JSON")
}

/// A small model with every part of a large one.
pub(crate) const TINY: &str = "tests/data/tiny/qwen3moe-a-q4_0.gguf";

/// What is changed of a tensor.
pub(crate) enum Change {
    /// It gets this shape.
    Shape(Vec<u64>),
    /// It gets this format, by number.
    Format(u32),
}

/// Writes a copy of [`TINY`] with these metadata keys set and one tensor changed, if any. Changed tensors are zero.
pub(crate) fn altered(path: &Path, metadata: &[(&str, Value)], tensor: Option<&(&str, Change)>) {
    let source = File::open(source_file(TINY)).expect("the tiny model opens");
    let mut writer = Writer::new();
    for (key, value) in source.metadata().iter() {
        writer.set(key, value.clone());
    }
    for (key, value) in metadata {
        writer.set(key, value.clone());
    }
    let mut changed = None;
    for info in source.tensors() {
        let (mut shape, mut format) = (info.shape.clone(), info.format);
        if let Some((name, change)) = tensor
            && *name == info.name
        {
            changed = Some(info.name.clone());
            match change {
                Change::Shape(other) => shape.clone_from(other),
                Change::Format(id) => format = TensorFormat::from_id(*id).expect("the format exists"),
            }
        }
        writer.tensor(&info.name, &shape, format);
    }
    assert_eq!(changed.as_deref(), tensor.map(|(name, _)| *name), "the tensor to change is there");
    let write = writer.write(path, |info, out| {
        let original = source.tensor(&info.name).expect("the tensors are the same");
        if changed.as_ref() == Some(&info.name) {
            out.write_all(&vec![0; usize::try_from(info.bytes).expect("tiny tensors fit")])
        } else {
            out.write_all(source.data(original))
        }
    });
    write.expect("the altered model is written");
}
