//! The surroundings of a command: its streams, its environment variables and the devices that are already open.
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
    /// The bytes that come through stdin, as through a pipe; `None` if stdin has no text, like `/dev/null`.
    pub stdin: Option<Vec<u8>>,
    /// The environment variables that zinc's own code reads. Libraries such as the Vulkan loader read those of the
    /// process.
    pub variables: Vec<(String, OsString)>,
    /// The devices that stay open from one command to the next.
    pub devices: OpenDevices,
}

/// Open devices that several commands share. A clone shares them as well.
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

/// Removes the surroundings from the thread when it is dropped, so also if the command panics.
struct Restore;

impl Drop for Restore {
    fn drop(&mut self) {
        GIVEN.set(None);
    }
}

/// Calls `work` on this thread in these surroundings. Returns the exit status that `work` has returned and what it has
/// written to stdout and stderr.
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

/// Calls `given` with the surroundings that [`capture`] has given to this thread; calls `own` if there are none.
fn given_or<T>(given: impl FnOnce(&mut Given) -> T, own: impl FnOnce() -> T) -> T {
    GIVEN.with_borrow_mut(|surroundings| match surroundings {
        Some(surroundings) => given(surroundings),
        None => own(),
    })
}

/// Whether the command runs in the surroundings of the process. Only then may it handle signals and change the
/// terminal.
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
/// The error of the operating system.
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

/// Writes to stderr and flushes. Errors are ignored: if stderr is closed nobody reads it, and the command can still do
/// its work.
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

/// On systems other than Unix all that is known is whether stdin is a terminal.
#[cfg(not(unix))]
fn process_stdin_kind() -> Stdin {
    if io::stdin().is_terminal() { Stdin::NoText } else { Stdin::Text }
}

/// Reads stdin to its end.
///
/// # Errors
/// The error of the operating system.
pub(crate) fn read_stdin() -> io::Result<Vec<u8>> {
    from_stdin(|stdin, bytes| stdin.read_to_end(bytes))
}

/// Reads the next line of stdin, its newline included. The result is empty at the end of stdin.
///
/// # Errors
/// The error of the operating system.
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
/// The errors of [`Place::open`].
pub(crate) fn open_place(options: &DeviceOptions, on_event: &mut dyn FnMut(OpenEvent)) -> zinc_engine::Result<Place> {
    // The devices are cloned, so that the surroundings are not borrowed while a device is opened: opening prints, which
    // borrows them again.
    let Some(devices) = given_or(|given| Some(given.devices.clone()), || None) else {
        return Place::open(options, on_event);
    };
    let mut open = devices.open.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, place)) = open.iter().find(|(choice, _)| *choice == options.device) {
        // Each command tells its user the notices of the device, also if an earlier command has opened it.
        for notice in place.device().iter().flat_map(|device| &device.plan().notices) {
            on_event(OpenEvent::Note(Note::Device(notice.clone())));
        }
        return Ok(place.clone());
    }
    let place = Place::open(options, on_event)?;
    open.push((options.device.clone(), place.clone()));
    Ok(place)
}
