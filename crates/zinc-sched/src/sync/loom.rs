//! What `sync` exports, made of loom's parts for unit tests. The senders of loom's own channels do not notice that the receiver is gone. So there is a channel here, of a mutex and a condition variable, with the contract of crossbeam's.

use std::collections::VecDeque;

use crossbeam_channel::{RecvError, SendError, TryRecvError};
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicUsize};
use loom::sync::{Arc, Condvar, Mutex, MutexGuard};
pub(crate) use loom::thread::JoinHandle;

/// Words of a thread's stack. Loom's default is too small for an engine that panics.
const STACK_WORDS: usize = 1 << 16;

pub(crate) fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> std::io::Result<JoinHandle<()>> {
    loom::thread::Builder::new().name(name.into()).stack_size(STACK_WORDS).spawn(body)
}

pub(crate) fn unbounded<T>() -> (Sender<T>, Receiver<T>) {
    let state = State { queue: VecDeque::new(), sender: true, receiver: true };
    let channel = Arc::new(Channel { state: Mutex::new(state), changed: Condvar::new() });
    (Sender(Arc::clone(&channel)), Receiver(channel))
}

struct Channel<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

struct State<T> {
    queue: VecDeque<T>,
    sender: bool,
    receiver: bool,
}

impl<T> Channel<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().expect("nothing panics under the lock")
    }
}

pub(crate) struct Sender<T>(Arc<Channel<T>>);

impl<T> Sender<T> {
    pub(crate) fn send(&self, message: T) -> Result<(), SendError<T>> {
        let mut state = self.0.lock();
        if !state.receiver {
            return Err(SendError(message));
        }
        state.queue.push_back(message);
        drop(state);
        self.0.changed.notify_all();
        Ok(())
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.0.lock().sender = false;
        self.0.changed.notify_all();
    }
}

pub(crate) struct Receiver<T>(Arc<Channel<T>>);

impl<T> Receiver<T> {
    pub(crate) fn try_recv(&self) -> Result<T, TryRecvError> {
        let mut state = self.0.lock();
        let closed = if state.sender { TryRecvError::Empty } else { TryRecvError::Disconnected };
        state.queue.pop_front().ok_or(closed)
    }

    pub(crate) fn recv(&self) -> Result<T, RecvError> {
        let mut state = self.0.lock();
        loop {
            if let Some(message) = state.queue.pop_front() {
                return Ok(message);
            }
            if !state.sender {
                return Err(RecvError);
            }
            state = self.0.changed.wait(state).expect("nothing panics under the lock");
        }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.0.lock().receiver = false;
    }
}

impl<T> std::fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Receiver")
    }
}

/// Iterates over the messages until the sender is gone.
impl<'a, T> IntoIterator for &'a Receiver<T> {
    type Item = T;
    type IntoIter = Messages<'a, T>;

    fn into_iter(self) -> Messages<'a, T> {
        Messages(self)
    }
}

pub(crate) struct Messages<'a, T>(&'a Receiver<T>);

impl<T> Iterator for Messages<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.0.recv().ok()
    }
}
