//! The terminal on stdin while lines are edited in it.
//!
//! All of this needs Unix. On other systems the terminal is left as it is.

#[cfg(unix)]
pub(crate) use unix::{Held, forget_typed, restore};

#[cfg(unix)]
mod unix {
    use std::io;
    use std::sync::{Mutex, PoisonError};

    use rustix::termios::{self, LocalModes, OptionalActions, QueueSelector, Termios};

    /// How the terminal was before it was changed; `None` as long as it is not.
    static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

    /// Keeps typed characters whole and unseen until they are read, as long as this value lives.
    ///
    /// Otherwise the terminal gathers characters into lines and drops those beyond 4,095 bytes of a line, so that a
    /// long line that is pasted while an answer is printed would be cut. Ctrl-C and other keys still send their
    /// signals.
    #[derive(Debug)]
    pub(crate) struct Held;

    impl Held {
        /// Changes the terminal, if stdin is one.
        pub(crate) fn new() -> Self {
            if let Ok(before) = termios::tcgetattr(io::stdin()) {
                let mut held = before.clone();
                held.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
                // The former settings are stored before the terminal is changed, since a signal whose handler restores
                // them may come in between.
                *BEFORE.lock().unwrap_or_else(PoisonError::into_inner) = Some(before);
                // If the terminal refuses the change, it goes on gathering lines.
                let _ = termios::tcsetattr(io::stdin(), OptionalActions::Now, &held);
            }
            Self
        }
    }

    impl Drop for Held {
        fn drop(&mut self) {
            restore();
        }
    }

    /// Restores the terminal's former settings, if they were changed. Code that ends the process without unwinding has
    /// to call this.
    pub(crate) fn restore() {
        if let Some(before) = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // This fails only if the terminal is gone, and then there is nothing to restore.
            let _ = termios::tcsetattr(io::stdin(), OptionalActions::Now, &before);
        }
    }

    /// Throws away what was typed and has not been read.
    pub(crate) fn forget_typed() {
        // Where this fails there is nothing to forget.
        let _ = termios::tcflush(io::stdin(), QueueSelector::IFlush);
    }
}

#[cfg(not(unix))]
pub(crate) use elsewhere::{Held, forget_typed, restore};

#[cfg(not(unix))]
mod elsewhere {
    /// Stands for a terminal that is left as it is.
    #[derive(Debug)]
    pub(crate) struct Held;

    impl Held {
        /// Changes nothing.
        pub(crate) fn new() -> Self {
            Self
        }
    }

    /// Does nothing, since the terminal was not changed.
    pub(crate) fn restore() {}

    /// Does nothing. What was typed is read as the next line.
    pub(crate) fn forget_typed() {}
}
