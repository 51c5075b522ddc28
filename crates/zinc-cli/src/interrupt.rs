//! Ctrl-C: stops what runs, and leaves where nothing does.
//!
//! Until [`install`] is called a Ctrl-C kills the process as the system does it, which is right while a model is loading:
//! nothing is half written and the terminal is not changed. After it, a Ctrl-C during [`during`] cancels the generation, which
//! ends within a step; a second one, or one outside of it, exits at once. While a line is edited, Ctrl-C is a key
//! like any other.

use std::sync::{Mutex, OnceLock, PoisonError};

use zinc_sched::CancelHandle;

use crate::error::{Error, INTERRUPTED, Result};
use crate::{output, surroundings, terminal};

/// What a Ctrl-C cancels at the moment.
static RUNNING: Mutex<Option<CancelHandle>> = Mutex::new(None);

/// Takes over Ctrl-C; does nothing the second time, or where the signals of the process are not the command's.
///
/// # Errors
/// [`Error::Usage`] where the system refuses a handler.
pub(crate) fn install() -> Result<()> {
    if !surroundings::are_the_process() {
        return Ok(());
    }
    static INSTALLED: OnceLock<Result<(), String>> = OnceLock::new();
    let installed = INSTALLED.get_or_init(|| ctrlc::set_handler(on_interrupt).map_err(|error| error.to_string()));
    installed.clone().map_err(|reason| Error::usage(format!("cannot handle Ctrl-C: {reason}")))
}

/// Runs `work` while a Ctrl-C cancels `cancel` instead of ending the process.
pub(crate) fn during<T>(cancel: &CancelHandle, work: impl FnOnce() -> T) -> T {
    if !surroundings::are_the_process() {
        return work();
    }
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
            terminal::restore();
            // The shell's prompt should not continue a half-written line.
            output::stderr("\n");
            std::process::exit(i32::from(INTERRUPTED));
        }
    }
}
