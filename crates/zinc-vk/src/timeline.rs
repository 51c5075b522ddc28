//! Timelines: monotone counters that the device and the host signal and wait for.
//!
//! The contract of timelines and points is the documentation of [`Timeline`].

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use ash::vk;

use crate::device::Device;
use crate::error::{Error, Result};
use crate::shared::{Loss, Shared};
use crate::sync::{AtomicU64, Mutex};

mod counter;
#[cfg(test)]
mod interleavings;

pub(crate) use counter::SemaphoreCounter;

/// Longest single blocking wait: how soon a waiting thread learns of a loss that another thread saw.
pub const SLICE: Duration = Duration::from_millis(100);

/// The counter behind a timeline: a timeline semaphore, or a fake in a test.
///
/// A failure that means the loss of the device is returned as [`Error::DeviceLost`]; the timeline remembers it.
pub trait Counter: Send + Sync {
    /// The counter's value now, without blocking.
    ///
    /// # Errors
    /// [`Error::DeviceLost`] or another failure of the driver.
    fn value(&self) -> Result<u64>;

    /// Blocks until the counter reaches `value`, at most `timeout`.
    ///
    /// # Errors
    /// The errors of [`Counter::value`].
    fn wait(&self, value: u64, timeout: Duration) -> Result<WaitOutcome>;

    /// Sets the counter to `value`, which is above its present one.
    ///
    /// # Errors
    /// The errors of [`Counter::value`].
    fn signal(&self, value: u64) -> Result<()>;
}

/// How a bounded wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitOutcome {
    /// The counter has reached the value.
    Reached,
    /// The time limit passed before the counter reached the value.
    TimedOut,
}

/// How [`Timeline::settle`] ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Settled {
    /// Nothing runs any more.
    AtRest,
    /// The counter stood still for the limit, and the device may still be running something.
    StillRunning,
}

/// How a host thread waits for a timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitPolicy {
    /// How long the thread polls the counter before it blocks in the driver. On an H100 the end of an empty submission is seen after 13
    /// to 15 µs by polling and after 36 to 44 µs by a blocking wait; the price is a busy core.
    pub spin: Duration,
    /// How long the counter may stand still before the wait fails.
    pub stall: Duration,
}

impl Default for WaitPolicy {
    /// Polls for 20 µs, and fails after 60 s without progress. Drivers reset a hung GPU after 2 to 10 s and report the loss, so the
    /// limit is for what no driver reports. A long submission on a CPU device must fit into it: the driver compiles the kernels of a
    /// model's first step within that step, which takes seconds, and many times that where other programs use the processor.
    fn default() -> Self {
        Self { spin: Duration::from_micros(20), stall: Duration::from_secs(60) }
    }
}

/// The identity of a timeline within the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimelineId(u64);

/// A counter that only grows, which the device or the host signals and both can wait for.
///
/// # The contract
///
/// A **timeline** is a counter that starts at 0 and only grows. A **point** ([`TimelinePoint`]) is a timeline and a value; it is
/// *complete* once the counter has reached the value, and stays complete. A point is the only synchronisation token that crosses a
/// function boundary in this crate.
///
/// 1. **One producer.** Every timeline has exactly one: a [`Queue`](crate::Queue), whose `n`-th submission signals `n`, or a
///    [`HostTimeline`], whose owner signals values of its choice in growing order.
/// 2. **Order.** Submissions to one queue run and complete in the order in which they were submitted. All that submission
///    `n` wrote is visible to submission `n + 1` of the same queue, to every submission that waits for point `n`, and to the
///    host once it has seen point `n` complete.
/// 3. **Fan-out.** Any number of submissions and of host threads may wait for one point; one signal releases them all.
/// 4. **Wait before signal.** A submission may wait for a point that nobody has signalled yet, and a thread for a value that
///    nobody has submitted yet. It runs, or returns, once the value is signalled. A queue that waits holds back everything
///    submitted to it later.
/// 5. **Host signal.** What the host wrote to mapped memory before it signalled is visible to the submission that waited for
///    it, provided that its recording orders [`Access::HOST_WRITE`](crate::Access::HOST_WRITE) before the reading access: the
///    host wrote after the submit. Signalling a value that is not above the last one is misuse and panics.
/// 6. **Keep-alive.** A submission in flight owns its recording and the timelines it waits for. Dropping the caller's last
///    handle of either is always safe. What a completed submission owned is dropped by the next submit to the queue, by
///    [`Queue::collect`](crate::Queue::collect), or with the queue.
/// 7. **Loss.** Once any call reports that the device is lost, every later wait, poll, signal and submit on that device
///    returns [`Error::DeviceLost`], complete or not, naming the call that saw it first; a wait in progress returns it within
///    [`SLICE`].
/// 8. **Stalls.** A wait fails with [`Error::Stalled`] once the counter has stood still for [`WaitPolicy::stall`]. Any
///    movement restarts the limit, so a slow device is not an error and a hung one is. The wait may be repeated.
/// 9. **Distance.** A value may be at most `maxTimelineSemaphoreValueDifference` ahead of the counter when it is signalled,
///    submitted or waited for by a submission; beyond that, [`Error::TimelineDistance`].
/// 10. **Abandonment.** A [`HostTimeline`] that is dropped releases the submissions that wait for points it has handed out, so
///     that no queue hangs on a signal that cannot come; a host wait for such a point returns [`Error::TimelineAbandoned`].
pub struct Timeline {
    id: TimelineId,
    name: String,
    counter: Box<dyn Counter>,
    /// The semaphore and its device, if the counter is a semaphore.
    semaphore: Option<(vk::Semaphore, Arc<Shared>)>,
    loss: Arc<Loss>,
    max_difference: u64,
    /// The highest value that any call has seen. The counter has at least this value.
    seen: AtomicU64,
    /// The last value that was signalled before the producer was dropped with points still to be signalled; `u64::MAX` otherwise.
    abandoned_at: AtomicU64,
}

impl Timeline {
    /// Makes a timeline over any counter, which belongs to no device and is lost by itself. Host threads can wait for it, submissions
    /// cannot. It is for tests with a fake counter.
    pub fn over(name: &str, counter: Box<dyn Counter>, max_difference: u64) -> Arc<Self> {
        Arc::new(Self::build(name, counter, None, Arc::default(), max_difference))
    }

    /// A timeline over a new semaphore of the device.
    pub(crate) fn new(shared: &Arc<Shared>, name: &str) -> Result<Arc<Self>> {
        let counter = SemaphoreCounter::new(shared, name)?;
        let semaphore = Some((counter.raw(), Arc::clone(shared)));
        let limit = shared.plan.adapter.limits.timeline_difference;
        Ok(Arc::new(Self::build(name, Box::new(counter), semaphore, Arc::clone(&shared.loss), limit)))
    }

    fn build(
        name: &str,
        counter: Box<dyn Counter>,
        semaphore: Option<(vk::Semaphore, Arc<Shared>)>,
        loss: Arc<Loss>,
        max_difference: u64,
    ) -> Self {
        static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
        Self {
            id: TimelineId(NEXT.fetch_add(1, Ordering::Relaxed)),
            name: name.to_owned(),
            counter,
            semaphore,
            loss,
            max_difference,
            seen: AtomicU64::new(0),
            abandoned_at: AtomicU64::new(u64::MAX),
        }
    }

    /// The identity of the timeline within the process.
    pub fn id(&self) -> TimelineId {
        self.id
    }

    /// The name that messages show.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The value reached, asked of the device now. Never blocks.
    ///
    /// # Errors
    /// [`Error::DeviceLost`].
    pub fn completed(&self) -> Result<u64> {
        self.loss.check()?;
        let value = self.noting_loss(self.counter.value())?;
        let seen = self.seen.fetch_max(value, Ordering::AcqRel).max(value);
        Ok(seen.min(self.abandoned_at.load(Ordering::Acquire)))
    }

    /// The highest value seen by an earlier call; asks nothing of the device.
    pub fn last_seen(&self) -> u64 {
        self.seen.load(Ordering::Acquire).min(self.abandoned_at.load(Ordering::Acquire))
    }

    /// Returns once the counter has reached `value`.
    ///
    /// # Errors
    /// [`Error::DeviceLost`], [`Error::Stalled`], [`Error::TimelineAbandoned`].
    pub fn wait(&self, value: u64, policy: &WaitPolicy) -> Result<()> {
        self.wait_watching(value, policy, SLICE, &mut || ())
    }

    /// Returns once the counter has reached `value`, and calls `watch` before each blocking wait of at most `every`. A caller whose work
    /// is needed for the value to be reached at all can do it there.
    ///
    /// # Errors
    /// The errors of [`Timeline::wait`].
    pub fn wait_watching(
        &self,
        value: u64,
        policy: &WaitPolicy,
        every: Duration,
        watch: &mut dyn FnMut(),
    ) -> Result<()> {
        let start = Instant::now();
        let mut reached = self.completed()?;
        while reached < value {
            if start.elapsed() >= policy.spin {
                return self.block(value, policy, reached, every.min(SLICE), watch);
            }
            std::hint::spin_loop();
            reached = self.completed()?;
        }
        Ok(())
    }

    /// Waits in the driver, in slices of at most `longest`, from a counter that was last seen at `reached`.
    fn block(
        &self,
        value: u64,
        policy: &WaitPolicy,
        mut reached: u64,
        longest: Duration,
        watch: &mut dyn FnMut(),
    ) -> Result<()> {
        let mut moved = Instant::now();
        loop {
            self.check_abandoned(value)?;
            watch();
            let slice = longest.min(policy.stall.saturating_sub(moved.elapsed()));
            self.noting_loss(self.counter.wait(value, slice))?;
            let now = self.completed()?;
            if now >= value {
                return Ok(());
            }
            self.check_abandoned(value)?;
            if now > reached {
                reached = now;
                moved = Instant::now();
            } else if moved.elapsed() >= policy.stall {
                return Err(Error::Stalled {
                    timeline: self.name.clone(),
                    awaited: value,
                    completed: now,
                    stalled: moved.elapsed(),
                });
            }
        }
    }

    /// The point `value` of this timeline.
    pub fn point(self: &Arc<Self>, value: u64) -> TimelinePoint {
        TimelinePoint { timeline: Arc::clone(self), value }
    }

    /// Fails if `value` is farther ahead of the counter than the device can tell apart. Asks the device only when the value
    /// is too far ahead of what was seen last.
    pub(crate) fn check_distance(&self, value: u64) -> Result<()> {
        let far = |reached: u64| value.saturating_sub(reached) > self.max_difference;
        if far(self.seen.load(Ordering::Acquire)) {
            let completed = self.completed()?;
            if far(completed) {
                return Err(Error::TimelineDistance {
                    timeline: self.name.clone(),
                    value,
                    completed,
                    limit: self.max_difference,
                });
            }
        }
        Ok(())
    }

    /// Waits until nothing that signals up to `value` runs any more, even if the device was declared lost. A drop must know this before
    /// it frees what the device may use. Gives up once the counter has stood still for `stall`.
    pub(crate) fn settle(&self, value: u64, stall: Duration) -> Settled {
        let mut reached = 0;
        let mut moved = Instant::now();
        loop {
            match (self.counter.wait(value, SLICE), self.counter.value()) {
                (Ok(WaitOutcome::Reached), _) => return Settled::AtRest,
                // The driver's own word: a lost device runs nothing.
                (Err(Error::DeviceLost { .. }), _) | (_, Err(Error::DeviceLost { .. })) => {
                    return Settled::AtRest;
                }
                (_, Ok(now)) if now > reached => {
                    reached = now;
                    moved = Instant::now();
                }
                _ if moved.elapsed() >= stall => return Settled::StillRunning,
                _ => {}
            }
        }
    }

    /// The semaphore, if it belongs to this device.
    pub(crate) fn semaphore_of(&self, shared: &Arc<Shared>) -> Option<vk::Semaphore> {
        self.semaphore.as_ref().and_then(|(raw, of)| Arc::ptr_eq(of, shared).then_some(*raw))
    }

    /// Signals `value` from the host.
    fn signal(&self, value: u64) -> Result<()> {
        self.loss.check()?;
        self.check_distance(value)?;
        self.noting_loss(self.counter.signal(value))
    }

    /// Fails if the producer was dropped before it signalled `awaited`.
    fn check_abandoned(&self, awaited: u64) -> Result<()> {
        let completed = self.abandoned_at.load(Ordering::Acquire);
        if awaited > completed {
            return Err(Error::TimelineAbandoned { timeline: self.name.clone(), awaited, completed });
        }
        Ok(())
    }

    /// Passes a result on, and remembers the loss of the device if it reports one.
    fn noting_loss<T>(&self, result: Result<T>) -> Result<T> {
        result.map_err(|error| match error {
            Error::DeviceLost { during } => self.loss.set(during),
            other => other,
        })
    }
}

impl fmt::Debug for Timeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timeline")
            .field("id", &self.id.0)
            .field("name", &self.name)
            .field("seen", &self.last_seen())
            .finish_non_exhaustive()
    }
}

/// A timeline and a value. The point is complete once the timeline has reached the value. Two points are equal if timeline and value
/// are.
#[derive(Clone)]
pub struct TimelinePoint {
    timeline: Arc<Timeline>,
    value: u64,
}

impl TimelinePoint {
    /// The timeline that must reach the value.
    pub fn timeline(&self) -> &Arc<Timeline> {
        &self.timeline
    }

    /// The value that the timeline must reach.
    pub fn value(&self) -> u64 {
        self.value
    }

    /// Whether the point is complete, asked of the device now. Never blocks.
    ///
    /// # Errors
    /// [`Error::DeviceLost`].
    pub fn is_complete(&self) -> Result<bool> {
        Ok(self.timeline.completed()? >= self.value)
    }

    /// Returns once the point is complete, with the default [`WaitPolicy`].
    ///
    /// # Errors
    /// The errors of [`Timeline::wait`].
    pub fn wait(&self) -> Result<()> {
        self.wait_with(&WaitPolicy::default())
    }

    /// Returns once the point is complete.
    ///
    /// # Errors
    /// The errors of [`Timeline::wait`].
    pub fn wait_with(&self, policy: &WaitPolicy) -> Result<()> {
        self.timeline.wait(self.value, policy)
    }

    /// Returns once the point is complete, and calls `watch` before each blocking wait of at most `every`, as
    /// [`Timeline::wait_watching`] does.
    ///
    /// # Errors
    /// The errors of [`Timeline::wait`].
    pub fn wait_watching(&self, policy: &WaitPolicy, every: Duration, watch: &mut dyn FnMut()) -> Result<()> {
        self.timeline.wait_watching(self.value, policy, every, watch)
    }
}

impl PartialEq for TimelinePoint {
    fn eq(&self, other: &Self) -> bool {
        self.timeline.id == other.timeline.id && self.value == other.value
    }
}

impl Eq for TimelinePoint {}

impl fmt::Debug for TimelinePoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.timeline.name, self.value)
    }
}

/// A timeline that the host signals, for submissions queued ahead of a host decision.
pub struct HostTimeline {
    timeline: Arc<Timeline>,
    state: Mutex<HostState>,
}

#[derive(Default)]
struct HostState {
    /// Last value signalled.
    signalled: u64,
    /// Highest value of a point handed out.
    promised: u64,
}

impl HostTimeline {
    /// A host timeline that submissions to this device's queues can wait for.
    ///
    /// # Errors
    /// Whatever error the driver reports.
    pub fn new(device: &Device, name: &str) -> Result<Self> {
        Ok(Self::on(Timeline::new(&device.shared, name)?))
    }

    /// Makes the host the producer of an existing timeline, which must have no other producer.
    pub fn on(timeline: Arc<Timeline>) -> Self {
        Self { timeline, state: Mutex::default() }
    }

    /// The timeline, to wait for and to poll.
    pub fn timeline(&self) -> &Arc<Timeline> {
        &self.timeline
    }

    /// The point `value`, which [`HostTimeline::signal`] completes later.
    pub fn point(&self, value: u64) -> TimelinePoint {
        let mut state = self.state.lock();
        state.promised = state.promised.max(value);
        self.timeline.point(value)
    }

    /// Completes every point up to `value`.
    ///
    /// # Errors
    /// [`Error::DeviceLost`], [`Error::TimelineDistance`].
    ///
    /// # Panics
    /// If `value` is not above the last value signalled.
    pub fn signal(&self, value: u64) -> Result<()> {
        let mut state = self.state.lock();
        assert!(
            value > state.signalled,
            "timeline `{}`: value {value} was to be signalled after {}",
            self.timeline.name,
            state.signalled
        );
        self.timeline.signal(value)?;
        state.signalled = value;
        Ok(())
    }
}

impl Drop for HostTimeline {
    fn drop(&mut self) {
        let state = self.state.get_mut();
        if state.promised <= state.signalled {
            return;
        }
        let timeline = &self.timeline;
        timeline.abandoned_at.store(state.signalled, Ordering::Release);
        // Whatever was declared about the device: a queue that is still there must not hang on this.
        let farthest = state.signalled.saturating_add(timeline.max_difference);
        if let Err(error) = timeline.counter.signal(state.promised.min(farthest)) {
            tracing::warn!("releasing the waiters of timeline `{}` failed: {error}", timeline.name);
        }
    }
}

impl fmt::Debug for HostTimeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HostTimeline").field(&self.timeline).finish()
    }
}
