//! Tests of timelines in every order of threads. Threads wait, poll, signal, abandon a timeline and lose the device; loom runs them in
//! every order with up to three preemptions, and with every value that the orderings of the atomics allow. What runs is the real
//! code, over loom's atomics and lock ([`sync`](crate::sync)) and over a counter made of a lock and a condition.
//!
//! loom knows no time. A thread that ticks stands for the end of a slice; the stall limit is never reached.

use std::time::Duration;

use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

use super::{Counter, HostTimeline, Timeline, WaitOutcome, WaitPolicy};
use crate::error::{Error, Result};

/// Blocks at once and never gives up.
const POLICY: WaitPolicy = WaitPolicy { spin: Duration::ZERO, stall: Duration::MAX };

#[derive(Default)]
struct Fake {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    value: u64,
    /// Whether the driver reports the loss to threads that poll. Threads that are blocked hear nothing of it, as with drivers that reset a
    /// device.
    lost: bool,
}

impl Fake {
    fn update(&self, update: impl FnOnce(&mut State)) {
        update(&mut self.state.lock().unwrap());
        self.changed.notify_all();
    }

    /// A slice ends for whoever is blocked.
    fn tick(&self) {
        self.update(|_| {});
    }
}

/// What a timeline is built over, with a handle kept for the test.
struct Handle(Arc<Fake>);

impl Counter for Handle {
    fn value(&self) -> Result<u64> {
        let state = self.0.state.lock().unwrap();
        if state.lost { Err(Error::DeviceLost { during: "vkQueueSubmit2" }) } else { Ok(state.value) }
    }

    fn wait(&self, value: u64, _timeout: Duration) -> Result<WaitOutcome> {
        let mut state = self.0.state.lock().unwrap();
        if state.value < value && !state.lost {
            state = self.0.changed.wait(state).unwrap();
        }
        Ok(if state.value >= value { WaitOutcome::Reached } else { WaitOutcome::TimedOut })
    }

    fn signal(&self, value: u64) -> Result<()> {
        self.0.update(|state| state.value = value);
        Ok(())
    }
}

/// Runs `body` in all orders. Most bugs need two preemptions; with three, a test takes a second or less, and without a bound, hours.
fn in_every_order(body: impl Fn() + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(body);
}

fn timeline() -> (std::sync::Arc<Timeline>, Arc<Fake>) {
    let fake = Arc::new(Fake::default());
    (Timeline::over("fake", Box::new(Handle(Arc::clone(&fake))), u64::MAX), fake)
}

#[test]
fn a_signal_releases_whoever_waits_and_publishes_what_was_written() {
    in_every_order(|| {
        let (timeline, _) = timeline();
        let host = HostTimeline::on(std::sync::Arc::clone(&timeline));
        let written = Arc::new(loom::cell::UnsafeCell::new(0));
        let waiters = [1, 2].map(|value| {
            let (timeline, written) = (std::sync::Arc::clone(&timeline), Arc::clone(&written));
            thread::spawn(move || {
                timeline.wait(value, &POLICY).unwrap();
                assert!(timeline.last_seen() >= value);
                // SAFETY: whoever waited for the value reads what was written before it, and loom fails if it might not.
                assert_eq!(written.with(|written| unsafe { *written }), 7);
            })
        });
        // SAFETY: nobody reads before the signal.
        written.with_mut(|written| unsafe { *written = 7 });
        host.signal(1).unwrap();
        host.signal(2).unwrap();
        for waiter in waiters {
            waiter.join().unwrap();
        }
    });
}

#[test]
fn what_was_seen_never_goes_back() {
    in_every_order(|| {
        let (timeline, _) = timeline();
        let host = HostTimeline::on(std::sync::Arc::clone(&timeline));
        let poller = {
            let timeline = std::sync::Arc::clone(&timeline);
            thread::spawn(move || {
                let mut before = 0;
                for _ in 0..2 {
                    let now = timeline.completed().unwrap();
                    let seen = timeline.last_seen();
                    assert!(before <= now && now <= seen, "{before}, {now}, {seen}");
                    before = seen;
                }
            })
        };
        host.signal(1).unwrap();
        let first = timeline.completed().unwrap();
        host.signal(2).unwrap();
        assert!(timeline.completed().unwrap() > first);
        poller.join().unwrap();
    });
}

#[test]
fn an_abandoned_value_is_never_taken_for_complete() {
    in_every_order(|| {
        let (timeline, _) = timeline();
        let host = HostTimeline::on(std::sync::Arc::clone(&timeline));
        let (kept, broken) = (host.point(1), host.point(3));
        let waiter = thread::spawn(move || {
            let waited = broken.wait_with(&POLICY);
            assert!(
                matches!(waited, Err(Error::TimelineAbandoned { awaited: 3, completed: 1, .. })),
                "the wait ended with {waited:?}"
            );
            assert!(!broken.is_complete().unwrap());
        });
        // Asks nothing of the counter, and relies on what the others have seen.
        let onlooker = {
            let timeline = std::sync::Arc::clone(&timeline);
            thread::spawn(move || assert!(timeline.last_seen() <= 1))
        };
        host.signal(1).unwrap();
        drop(host);
        kept.wait_with(&POLICY).unwrap();
        waiter.join().unwrap();
        onlooker.join().unwrap();
    });
}

#[test]
fn a_loss_that_one_thread_sees_reaches_those_that_are_blocked() {
    in_every_order(|| {
        let (timeline, fake) = timeline();
        let waiter = {
            let timeline = std::sync::Arc::clone(&timeline);
            thread::spawn(move || timeline.wait(1, &POLICY))
        };
        fake.update(|state| state.lost = true);
        let polled = timeline.completed();
        fake.tick();
        for result in [polled.map(drop), waiter.join().unwrap(), timeline.wait(0, &POLICY)] {
            assert!(matches!(result, Err(Error::DeviceLost { during: "vkQueueSubmit2" })), "{result:?}");
        }
    });
}

#[test]
fn a_slice_that_ends_does_not_end_a_wait() {
    in_every_order(|| {
        let (timeline, fake) = timeline();
        let waiter = {
            let timeline = std::sync::Arc::clone(&timeline);
            thread::spawn(move || timeline.wait(2, &POLICY).unwrap())
        };
        fake.tick();
        fake.update(|state| state.value = 1);
        fake.update(|state| state.value = 2);
        waiter.join().unwrap();
        assert_eq!(timeline.last_seen(), 2);
    });
}
