//! Ctrl-C: stops what runs, and leaves where nothing does.
//!
//! Until [`install`] is called a Ctrl-C kills the process as the system does it, which is right while a model is loading:
//! nothing is half written and the terminal is not changed. After it, a Ctrl-C during [`during`] cancels the generation, which
//! ends within a step; a second one, or one outside of it, exits at once. While a line is edited, Ctrl-C is a key like any other; what comes then
//! are other signals that end the process, and [`TerminalGuard`] puts the terminal back.

use std::io;
use std::sync::{Mutex, OnceLock, PoisonError};

use rustix::termios::{self, OptionalActions, Termios};
use zinc_sched::CancelHandle;

use crate::error::{Error, INTERRUPTED, Result};
use crate::output;

/// What a Ctrl-C cancels at the moment.
static RUNNING: Mutex<Option<CancelHandle>> = Mutex::new(None);

/// How the terminal was before lines are edited in it.
static TERMINAL: Mutex<Option<Termios>> = Mutex::new(None);

/// As long as it lives, an end of the process by a signal first puts the terminal back to how it was when this was made. Whoever changes the
/// terminal in the meantime puts it back otherwise.
#[derive(Debug)]
pub(crate) struct TerminalGuard;

impl TerminalGuard {
    /// Remembers the terminal that stdin is, if it is one.
    pub(crate) fn new() -> Self {
        *TERMINAL.lock().unwrap_or_else(PoisonError::into_inner) = termios::tcgetattr(io::stdin()).ok();
        Self
    }
}

impl Drop for TerminalGuard {
    fn drop(&mut self) {
        *TERMINAL.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// Takes over Ctrl-C; does nothing the second time.
///
/// # Errors
/// [`Error::Usage`] where the system refuses a handler.
pub(crate) fn install() -> Result<()> {
    static INSTALLED: OnceLock<Result<(), String>> = OnceLock::new();
    let installed = INSTALLED.get_or_init(|| ctrlc::set_handler(on_interrupt).map_err(|error| error.to_string()));
    installed.clone().map_err(|reason| Error::usage(format!("cannot handle Ctrl-C: {reason}")))
}

/// Runs `work` while a Ctrl-C cancels `cancel` instead of ending the process.
pub(crate) fn during<T>(cancel: &CancelHandle, work: impl FnOnce() -> T) -> T {
    set_running(Some(cancel.clone()));
    let result = work();
    set_running(None);
    result
}

fn set_running(handle: Option<CancelHandle>) {
    *RUNNING.lock().unwrap_or_else(PoisonError::into_inner) = handle;
}

/// Called on a thread of its own, so it may lock and print.
fn on_interrupt() {
    let running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner).clone();
    match running {
        Some(handle) if !handle.is_cancelled() => handle.cancel(),
        _ => {
            if let Some(terminal) = &*TERMINAL.lock().unwrap_or_else(PoisonError::into_inner) {
                // Where this fails the terminal is gone.
                let _ = termios::tcsetattr(io::stdin(), OptionalActions::Now, terminal);
            }
            // The shell's prompt should not continue a half-written line.
            output::stderr("\n");
            std::process::exit(i32::from(INTERRUPTED));
        }
    }
}
