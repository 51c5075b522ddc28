//! The atomics and the lock of timelines, made of loom's, with the signatures of those that the crate otherwise uses.

use std::ops::DerefMut;

pub(crate) use loom::sync::atomic::AtomicU64;

/// loom's mutex with parking_lot's signatures.
#[derive(Default)]
pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn lock(&self) -> impl DerefMut<Target = T> {
        self.0.lock().expect("nothing panics under the lock")
    }

    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().expect("nothing panics under the lock")
    }
}
