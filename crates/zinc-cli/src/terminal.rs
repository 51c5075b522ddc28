//! The terminal on stdin while lines are edited in it.
//!
//! What is done here needs Unix. Elsewhere the terminal is left as it is.

#[cfg(unix)]
pub(crate) use unix::{Held, forget_typed, restore};

#[cfg(unix)]
mod unix {
    use std::io;
    use std::sync::{Mutex, PoisonError};

    use rustix::termios::{self, LocalModes, OptionalActions, QueueSelector, Termios};

    /// How the terminal was before it was changed; `None` as long as it is not.
    static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

    /// As long as it lives, what is typed into the terminal waits whole and unseen until it is read.
    ///
    /// A terminal gathers lines otherwise, and drops what is beyond 4,095 bytes of one: a long line that is pasted while an answer comes would
    /// be cut. Ctrl-C and the like still send their signals.
    #[derive(Debug)]
    pub(crate) struct Held;

    impl Held {
        /// Changes the terminal, if stdin is one.
        pub(crate) fn new() -> Self {
            if let Ok(before) = termios::tcgetattr(io::stdin()) {
                let mut held = before.clone();
                held.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
                // Remembered first: a signal may come between the two.
                *BEFORE.lock().unwrap_or_else(PoisonError::into_inner) = Some(before);
                // Where the terminal refuses, typing ahead is as it always was.
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

    /// Puts the terminal back to how it was, if it was changed. Whoever ends the process without unwinding calls this.
    pub(crate) fn restore() {
        if let Some(before) = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // Where this fails the terminal is gone.
            let _ = termios::tcsetattr(io::stdin(), OptionalActions::Now, &before);
        }
    }

    /// Forgets what was typed and has not been read.
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

    /// Does nothing: nothing was changed.
    pub(crate) fn restore() {}

    /// Does nothing: what was typed is read as the next line.
    pub(crate) fn forget_typed() {}
}
