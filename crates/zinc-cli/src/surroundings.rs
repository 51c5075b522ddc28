//! What a command has around it: its streams, what the environment says, and devices that are open already.
//!
//! A command runs on one thread and finds its surroundings there. They are those of the process, unless [`capture`] has given the thread
//! others, as tests do: starting a process with a Vulkan device for each of some hundred commands takes minutes.

use std::cell::RefCell;
use std::ffi::OsString;
use std::io::{self, BufRead, IsTerminal as _, Write as _};
use std::sync::{Arc, Mutex, PoisonError};

use zinc_engine::{DeviceChoice, DeviceOptions, Note, OpenEvent, Place};

thread_local! {
    /// The surroundings that this thread was given, if they are not those of the process.
    static GIVEN: RefCell<Option<Given>> = const { RefCell::new(None) };
}

/// Surroundings for commands that are to run inside of this process.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// What comes through stdin, which is a pipe; `None` is no text, as of `/dev/null`.
    pub stdin: Option<Vec<u8>>,
    /// The environment variables that zinc itself reads. Those of other programs' libraries are the process's own.
    pub variables: Vec<(String, OsString)>,
    /// Where devices stay open from one command to the next.
    pub devices: OpenDevices,
}

/// Devices that commands share. Clones hold the same ones.
#[derive(Clone, Debug, Default)]
pub struct OpenDevices {
    open: Arc<Mutex<Vec<(DeviceChoice, Place)>>>,
}

/// What a command left behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Captured {
    /// Its exit status.
    pub status: u8,
    /// What it wrote to stdout.
    pub stdout: Vec<u8>,
    /// What it wrote to stderr.
    pub stderr: Vec<u8>,
}

/// Surroundings while a command runs in them.
struct Given {
    stdin: Option<io::Cursor<Vec<u8>>>,
    variables: Vec<(String, OsString)>,
    devices: OpenDevices,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

/// Takes the surroundings from the thread in the end, also if the command panics.
struct Restore;

impl Drop for Restore {
    fn drop(&mut self) {
        GIVEN.set(None);
    }
}

/// Does `work` on this thread in these surroundings, and returns the exit status that it returns with what it wrote.
pub(crate) fn capture(surroundings: &Surroundings, work: impl FnOnce() -> u8) -> Captured {
    let Surroundings { stdin, variables, devices } = surroundings.clone();
    let stdin = stdin.map(io::Cursor::new);
    GIVEN.set(Some(Given { stdin, variables, devices, stdout: Vec::new(), stderr: Vec::new() }));
    let restore = Restore;
    let status = work();
    let given = GIVEN.take().expect("the surroundings were given above");
    drop(restore);
    Captured { status, stdout: given.stdout, stderr: given.stderr }
}

/// Does the one with the surroundings that this thread was given, or else the other.
fn given_or<T>(given: impl FnOnce(&mut Given) -> T, own: impl FnOnce() -> T) -> T {
    GIVEN.with_borrow_mut(|surroundings| match surroundings {
        Some(surroundings) => given(surroundings),
        None => own(),
    })
}

/// Whether the surroundings are the process's own, whose signals and terminal a command may handle.
pub(crate) fn are_the_process() -> bool {
    given_or(|_| false, || true)
}

/// An environment variable that zinc itself reads.
pub(crate) fn variable(name: &str) -> Option<OsString> {
    given_or(
        |given| given.variables.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone()),
        || std::env::var_os(name),
    )
}

/// Writes to stdout and flushes.
///
/// # Errors
/// What the system says.
pub(crate) fn write_stdout(text: &str) -> io::Result<()> {
    given_or(
        |given| {
            given.stdout.extend_from_slice(text.as_bytes());
            Ok(())
        },
        || {
            let mut stdout = io::stdout().lock();
            stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush())
        },
    )
}

/// Writes to stderr and flushes. Where stderr is closed nobody reads it, and that is no reason to end.
pub(crate) fn write_stderr(text: &str) {
    given_or(
        |given| given.stderr.extend_from_slice(text.as_bytes()),
        || {
            let mut stderr = io::stderr().lock();
            let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
        },
    );
}

/// Whether stderr is a terminal.
pub(crate) fn stderr_is_terminal() -> bool {
    given_or(|_| false, || io::stderr().is_terminal())
}

/// Whether stdin is a terminal.
pub(crate) fn stdin_is_terminal() -> bool {
    given_or(|_| false, || io::stdin().is_terminal())
}

/// What stdin is, as far as it may hold a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stdin {
    /// A terminal, a socket or a device such as `/dev/null`.
    NoText,
    /// A file, or a pipe through which something has come or that was closed.
    Text,
    /// A pipe through which nothing has come for a second.
    SilentPipe,
}

/// What stdin is. Waits a second for something to come through a pipe.
pub(crate) fn stdin_kind() -> Stdin {
    given_or(|given| if given.stdin.is_some() { Stdin::Text } else { Stdin::NoText }, process_stdin_kind)
}

#[cfg(unix)]
fn process_stdin_kind() -> Stdin {
    use std::fs::File;
    use std::os::fd::AsFd as _;
    use std::os::unix::fs::FileTypeExt as _;

    use rustix::event::{self, PollFd, PollFlags, Timespec};

    let stdin = io::stdin();
    let metadata = stdin.as_fd().try_clone_to_owned().and_then(|stdin| File::from(stdin).metadata());
    let Ok(kind) = metadata.map(|metadata| metadata.file_type()) else {
        return Stdin::NoText;
    };
    if kind.is_fifo() {
        let second = Timespec { tv_sec: 1, tv_nsec: 0 };
        let is_silent = event::poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Some(&second)) == Ok(0);
        return if is_silent { Stdin::SilentPipe } else { Stdin::Text };
    }
    if kind.is_file() { Stdin::Text } else { Stdin::NoText }
}

/// Other systems than Unix tell no more than whether stdin is a terminal.
#[cfg(not(unix))]
fn process_stdin_kind() -> Stdin {
    if io::stdin().is_terminal() { Stdin::NoText } else { Stdin::Text }
}

/// Everything that is left in stdin.
///
/// # Errors
/// What the system says.
pub(crate) fn read_stdin() -> io::Result<Vec<u8>> {
    from_stdin(|stdin, bytes| stdin.read_to_end(bytes))
}

/// The next line of stdin with its end; empty at the end of stdin.
///
/// # Errors
/// What the system says.
pub(crate) fn read_stdin_line() -> io::Result<Vec<u8>> {
    from_stdin(|stdin, bytes| stdin.read_until(b'\n', bytes))
}

fn from_stdin(read: impl Fn(&mut dyn BufRead, &mut Vec<u8>) -> io::Result<usize>) -> io::Result<Vec<u8>> {
    let read = |stdin: &mut dyn BufRead| {
        let mut bytes = Vec::new();
        read(stdin, &mut bytes).map(|_| bytes)
    };
    given_or(|given| given.stdin.as_mut().map_or(Ok(Vec::new()), |stdin| read(stdin)), || read(&mut io::stdin().lock()))
}

/// Opens a device, or takes the one that was opened before in these surroundings.
///
/// # Errors
/// As [`Place::open`].
pub(crate) fn open_place(options: &DeviceOptions, on_event: &mut dyn FnMut(OpenEvent)) -> zinc_engine::Result<Place> {
    // Not borrowed while the device is opened: that prints.
    let Some(devices) = given_or(|given| Some(given.devices.clone()), || None) else {
        return Place::open(options, on_event);
    };
    let mut open = devices.open.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, place)) = open.iter().find(|(choice, _)| *choice == options.device) {
        // A user hears of each command what there is to say of the device.
        for notice in place.device().iter().flat_map(|device| &device.plan().notices) {
            on_event(OpenEvent::Note(Note::Device(notice.clone())));
        }
        return Ok(place.clone());
    }
    let place = Place::open(options, on_event)?;
    open.push((options.device.clone(), place.clone()));
    Ok(place)
}
