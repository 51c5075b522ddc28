//! The contract of `timeline.rs`, sentence by sentence, over a counter that misbehaves on demand. No device is needed;
//! `timeline_device.rs` holds the device to the same contract.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use zinc_vk::{Counter, Error, HostTimeline, Result, Timeline, WaitOutcome, WaitPolicy};

/// A counter in host memory that can lose its device and that counts how it is asked.
#[derive(Default)]
struct Fake {
    value: Mutex<u64>,
    changed: Condvar,
    fault: Mutex<Option<Fault>>,
    polls: AtomicU64,
    waits: AtomicU64,
    /// Value that the counter takes on its own at this many polls.
    reach: Mutex<Option<(u64, u64)>>,
}

#[derive(Clone)]
enum Fault {
    Lost(&'static str),
    Once(Error),
}

/// What a timeline is built over, with a handle kept for the test.
struct Handle(Arc<Fake>);

impl Fake {
    fn set(&self, value: u64) {
        *self.value.lock() = value;
        self.changed.notify_all();
    }

    fn lose(&self, during: &'static str) {
        *self.fault.lock() = Some(Fault::Lost(during));
        self.changed.notify_all();
    }

    fn fail(&self) -> Result<()> {
        let mut fault = self.fault.lock();
        match fault.clone() {
            None => Ok(()),
            Some(Fault::Lost(during)) => Err(Error::DeviceLost { during }),
            Some(Fault::Once(error)) => {
                *fault = None;
                Err(error)
            }
        }
    }
}

impl Counter for Handle {
    fn value(&self) -> Result<u64> {
        self.0.fail()?;
        let polls = self.0.polls.fetch_add(1, Ordering::Relaxed) + 1;
        if let Some((at, value)) = *self.0.reach.lock()
            && polls >= at
        {
            self.0.set(value);
        }
        Ok(*self.0.value.lock())
    }

    fn wait(&self, value: u64, timeout: Duration) -> Result<WaitOutcome> {
        self.0.waits.fetch_add(1, Ordering::Relaxed);
        let mut now = self.0.value.lock();
        self.0.fail()?;
        if *now < value {
            self.0.changed.wait_for(&mut now, timeout);
        }
        self.0.fail()?;
        Ok(if *now >= value { WaitOutcome::Reached } else { WaitOutcome::TimedOut })
    }

    fn signal(&self, value: u64) -> Result<()> {
        self.0.fail()?;
        self.0.set(value);
        Ok(())
    }
}

fn timeline() -> (Arc<Timeline>, Arc<Fake>) {
    limited(u64::MAX)
}

fn limited(max_difference: u64) -> (Arc<Timeline>, Arc<Fake>) {
    let fake = Arc::new(Fake::default());
    (Timeline::over("fake", Box::new(Handle(Arc::clone(&fake))), max_difference), fake)
}

fn policy(spin_ms: u64, stall_ms: u64) -> WaitPolicy {
    WaitPolicy { spin: Duration::from_millis(spin_ms), stall: Duration::from_millis(stall_ms) }
}

/// Long enough to be "never" in a test that is not about stalls.
const PATIENT: u64 = 60_000;

#[test]
fn a_point_is_complete_from_its_value_on_and_stays_so() {
    let (timeline, fake) = timeline();
    let points = [0, 1, 5, 6].map(|v| timeline.point(v));
    let complete = || points.each_ref().map(|p| p.is_complete().unwrap());
    assert_eq!(complete(), [true, false, false, false]);
    fake.set(5);
    assert_eq!(complete(), [true, true, true, false]);
    // Drivers may answer a poll with an older value than another thread has seen; the timeline does not go back.
    fake.set(4);
    assert_eq!(timeline.completed().unwrap(), 5);
    assert_eq!(timeline.last_seen(), 5);
    timeline.wait(5, &policy(0, PATIENT)).unwrap();
}

#[test]
fn points_are_equal_by_timeline_and_value() {
    let ((a, _), (b, _)) = (timeline(), timeline());
    assert_eq!(a.point(3), a.point(3));
    assert_ne!(a.point(3), a.point(4));
    assert_ne!(a.point(3), b.point(3));
}

#[test]
fn values_up_to_the_last_one_work() {
    let (timeline, fake) = timeline();
    fake.set(u64::MAX - 1);
    assert!(timeline.point(u64::MAX - 1).is_complete().unwrap());
    assert!(!timeline.point(u64::MAX).is_complete().unwrap());
    fake.set(u64::MAX);
    timeline.point(u64::MAX).wait().unwrap();
}

#[test]
fn a_wait_polls_before_it_blocks() {
    let (timeline, fake) = timeline();
    *fake.reach.lock() = Some((1000, 1));
    timeline.wait(1, &policy(PATIENT, PATIENT)).unwrap();
    assert_eq!(fake.waits.load(Ordering::Relaxed), 0, "reached while polling: the driver was never asked to block");
    assert!(fake.polls.load(Ordering::Relaxed) >= 1000);
}

#[test]
fn a_wait_without_polling_blocks_at_once() {
    let (timeline, fake) = timeline();
    *fake.reach.lock() = Some((2, 1));
    timeline.wait(1, &policy(0, PATIENT)).unwrap();
    assert!(fake.waits.load(Ordering::Relaxed) > 0);
}

#[test]
fn one_signal_releases_every_waiting_thread() {
    let (timeline, _fake) = timeline();
    let host = HostTimeline::on(Arc::clone(&timeline));
    let released = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..64 {
            scope.spawn(|| {
                timeline.wait(7, &policy(0, PATIENT)).unwrap();
                released.fetch_add(1, Ordering::Relaxed);
            });
        }
        host.signal(6).unwrap();
        assert_eq!(released.load(Ordering::Relaxed), 0, "6 is not 7");
        host.signal(7).unwrap();
    });
    assert_eq!(released.load(Ordering::Relaxed), 64);
}

#[test]
fn threads_that_wait_for_different_values_are_released_as_they_come() {
    let (timeline, _fake) = timeline();
    let host = HostTimeline::on(Arc::clone(&timeline));
    std::thread::scope(|scope| {
        for value in 1..=32 {
            let timeline = &timeline;
            scope.spawn(move || {
                timeline.wait(value, &policy(0, PATIENT)).unwrap();
                assert!(timeline.last_seen() >= value);
            });
        }
        for value in 1..=32 {
            host.signal(value).unwrap();
        }
    });
}

#[test]
fn a_loss_is_returned_by_everything_that_follows_with_the_call_that_saw_it_first() {
    let (timeline, fake) = timeline();
    let host = HostTimeline::on(Arc::clone(&timeline));
    host.signal(3).unwrap();
    fake.lose("vkFirst");
    let lost = |result: Result<()>| {
        assert!(matches!(result, Err(Error::DeviceLost { during: "vkFirst" })), "{result:?}");
    };
    lost(timeline.completed().map(drop));
    fake.lose("vkSecond");
    lost(timeline.wait(4, &policy(0, PATIENT)));
    lost(timeline.wait(3, &policy(0, PATIENT)));
    lost(timeline.point(3).is_complete().map(drop));
    lost(host.signal(4));
}

#[test]
fn a_loss_reaches_every_waiting_thread() {
    let (timeline, fake) = timeline();
    std::thread::scope(|scope| {
        let waiters: Vec<_> = (0..32)
            .map(|i| {
                let timeline = &timeline;
                // Half of them block in the driver, half still poll.
                scope.spawn(move || timeline.wait(9, &policy(if i % 2 == 0 { 0 } else { PATIENT }, PATIENT)))
            })
            .collect();
        while fake.waits.load(Ordering::Relaxed) == 0 {
            std::thread::yield_now();
        }
        fake.lose("vkQueueSubmit2");
        for waiter in waiters {
            let result = waiter.join().unwrap();
            assert!(matches!(result, Err(Error::DeviceLost { during: "vkQueueSubmit2" })), "{result:?}");
        }
    });
}

#[test]
fn a_failure_that_is_no_loss_is_not_remembered() {
    let (timeline, fake) = timeline();
    let stumble = Error::Stalled { timeline: "driver".into(), awaited: 1, completed: 0, stalled: Duration::ZERO };
    *fake.fault.lock() = Some(Fault::Once(stumble));
    assert!(timeline.completed().is_err());
    fake.set(2);
    assert_eq!(timeline.completed().unwrap(), 2);
}

#[test]
fn a_counter_that_stands_still_is_a_stall_with_its_numbers_and_the_wait_can_be_repeated() {
    let (timeline, fake) = timeline();
    fake.set(4);
    match timeline.wait(6, &policy(0, 30)) {
        Err(Error::Stalled { timeline, awaited, completed, stalled }) => {
            assert_eq!((timeline.as_str(), awaited, completed), ("fake", 6, 4));
            assert!(stalled >= Duration::from_millis(30));
        }
        other => panic!("{other:?}"),
    }
    fake.set(6);
    timeline.wait(6, &policy(0, 30)).unwrap();
}

#[test]
fn every_movement_restarts_the_stall_limit() {
    /// Moves by one at every eighth blocking wait, each of which takes 25 ms at least.
    #[derive(Default)]
    struct Slow(AtomicU64);
    impl Counter for Slow {
        fn value(&self) -> Result<u64> {
            Ok(self.0.load(Ordering::Relaxed) / 8)
        }
        fn wait(&self, _value: u64, _timeout: Duration) -> Result<WaitOutcome> {
            std::thread::sleep(Duration::from_millis(25));
            self.0.fetch_add(1, Ordering::Relaxed);
            Ok(WaitOutcome::TimedOut)
        }
        fn signal(&self, _value: u64) -> Result<()> {
            unreachable!("nobody signals")
        }
    }
    // A step takes a fifth of the limit and all of them one and a half times the limit.
    let timeline = Timeline::over("slow", Box::<Slow>::default(), u64::MAX);
    timeline.wait(8, &policy(0, 1000)).unwrap();
}

#[test]
fn a_signal_farther_ahead_than_the_limit_is_an_error_and_changes_nothing() {
    let (timeline, _fake) = limited(100);
    let host = HostTimeline::on(Arc::clone(&timeline));
    match host.signal(101) {
        Err(Error::TimelineDistance { timeline, value, completed, limit }) => {
            assert_eq!((timeline.as_str(), value, completed, limit), ("fake", 101, 0, 100));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(timeline.completed().unwrap(), 0);
    host.signal(100).unwrap();
    assert!(matches!(host.signal(201), Err(Error::TimelineDistance { value: 201, completed: 100, .. })));
    host.signal(200).unwrap();
}

#[test]
fn distance_is_measured_from_the_counter_and_not_from_what_was_seen() {
    let (timeline, fake) = limited(100);
    let host = HostTimeline::on(Arc::clone(&timeline));
    // Nobody has polled since the counter moved.
    fake.set(150);
    host.signal(250).unwrap();
}

#[test]
#[should_panic(expected = "timeline `fake`: value 5 was to be signalled after 5")]
fn signalling_a_value_twice_panics() {
    let host = HostTimeline::on(timeline().0);
    host.signal(5).unwrap();
    let _ = host.signal(5);
}

#[test]
fn host_threads_that_wait_for_an_abandoned_value_are_told() {
    let (timeline, fake) = timeline();
    let host = HostTimeline::on(Arc::clone(&timeline));
    let (kept, broken) = (host.point(1), host.point(3));
    host.signal(1).unwrap();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| broken.wait_with(&policy(0, PATIENT)));
        while fake.waits.load(Ordering::Relaxed) == 0 {
            std::thread::yield_now();
        }
        drop(host);
        match waiter.join().unwrap() {
            Err(Error::TimelineAbandoned { timeline, awaited, completed }) => {
                assert_eq!((timeline.as_str(), awaited, completed), ("fake", 3, 1));
            }
            other => panic!("{other:?}"),
        }
    });
    kept.wait().unwrap();
    assert!(!broken.is_complete().unwrap());
    assert_eq!(*fake.value.lock(), 3, "submissions that wait for the point are released");
}

#[test]
fn a_host_timeline_that_kept_its_word_is_not_abandoned() {
    let (timeline, _fake) = timeline();
    let host = HostTimeline::on(Arc::clone(&timeline));
    let point = host.point(2);
    host.signal(2).unwrap();
    drop(host);
    point.wait().unwrap();
}

mod retire {
    use super::*;
    use zinc_vk::Retire;

    /// Counts its drops.
    struct Counted<'a>(&'a AtomicU64);
    impl Drop for Counted<'_> {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn the_completed_prefix_is_dropped_and_no_more() {
        let (timeline, fake) = timeline();
        let drops = AtomicU64::new(0);
        let mut retire = Retire::new();
        for value in [1, 2, 2, 5] {
            retire.push(timeline.point(value), Counted(&drops));
        }
        assert_eq!((retire.collect().unwrap(), drops.load(Ordering::Relaxed)), (0, 0));
        fake.set(2);
        assert_eq!((retire.collect().unwrap(), drops.load(Ordering::Relaxed)), (3, 3));
        fake.set(4);
        assert_eq!((retire.collect().unwrap(), retire.len()), (0, 1));
        fake.set(5);
        assert_eq!((retire.collect().unwrap(), retire.is_empty()), (1, true));
    }

    #[test]
    fn the_oldest_value_comes_back_when_it_is_free() {
        let (timeline, fake) = timeline();
        let mut retire = Retire::new();
        retire.push(timeline.point(1), 'a');
        retire.push(timeline.point(2), 'b');
        assert_eq!(retire.pop().unwrap(), None);
        fake.set(1);
        assert_eq!(retire.pop().unwrap(), Some('a'));
        assert_eq!(retire.pop().unwrap(), None);
        fake.set(2);
        assert_eq!(retire.wait_pop().unwrap(), Some('b'));
        assert_eq!(retire.wait_pop().unwrap(), None);
    }

    #[test]
    fn dropping_waits_for_the_last_point() {
        let (timeline, fake) = timeline();
        let drops = AtomicU64::new(0);
        let mut retire = Retire::new();
        retire.push(timeline.point(1), Counted(&drops));
        std::thread::scope(|scope| {
            let dropper = scope.spawn(|| drop(retire));
            while fake.polls.load(Ordering::Relaxed) == 0 {
                std::thread::yield_now();
            }
            assert_eq!(drops.load(Ordering::Relaxed), 0);
            fake.set(1);
            dropper.join().unwrap();
        });
        assert_eq!(drops.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_lost_device_holds_nothing_back() {
        let (timeline, fake) = timeline();
        let drops = AtomicU64::new(0);
        let mut retire = Retire::new();
        retire.push(timeline.point(1), Counted(&drops));
        fake.lose("vkQueueSubmit2");
        assert!(matches!(retire.collect(), Err(Error::DeviceLost { .. })));
        assert_eq!(drops.load(Ordering::Relaxed), 0);
        drop(retire);
        assert_eq!(drops.load(Ordering::Relaxed), 1);
    }

    #[test]
    #[should_panic(expected = "lies before the last point held, 4")]
    fn points_out_of_order_panic() {
        let (timeline, fake) = timeline();
        fake.set(9);
        let mut retire = Retire::new();
        retire.push(timeline.point(4), ());
        retire.push(timeline.point(3), ());
    }
}
