//! Queues, to which recordings are submitted.
//!
//! A queue is the only producer of its timeline. Each [`Queue::submit`] is one `vkQueueSubmit2` that waits for the given
//! points, runs one recording, and signals the next value; [`Queue::submit_in_turn`] does so for several recordings.
//! [`Queue::submit_and_wait_fence`] is the baseline that timelines are measured against: it submits once, with a binary fence, and
//! blocks until the fence is signalled.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ash::vk;
use parking_lot::Mutex;

use crate::error::{Error, Result};
use crate::recording::{Fenced, Recording};
use crate::shared::Shared;
use crate::timeline::{SLICE, Settled, Timeline, TimelinePoint, WaitPolicy};

/// Which queue of a device, by what it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QueueKind {
    /// The queue that runs dispatches and copies.
    Compute,
    /// A second queue that runs dispatches and copies, of the same family as [`QueueKind::Compute`].
    SecondCompute,
    /// The queue that runs copies only.
    Transfer,
}

impl QueueKind {
    /// Whether recordings for this queue may contain dispatches. Those for the transfer queue may only copy.
    pub(crate) fn dispatches(self) -> bool {
        self != Self::Transfer
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Compute => "compute",
            Self::SecondCompute => "second compute",
            Self::Transfer => "transfer",
        }
    }
}

/// What a queue has counted since its device was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueStats {
    /// Calls of `vkQueueSubmit2`.
    pub submits: u64,
    /// Waits for a fence.
    pub fence_waits: u64,
}

/// A device queue and its timeline.
pub struct Queue {
    shared: Arc<Shared>,
    kind: QueueKind,
    family: u32,
    timeline: Arc<Timeline>,
    state: Mutex<State>,
    fence: Mutex<vk::Fence>,
    submits: AtomicU64,
    fence_waits: AtomicU64,
}

struct State {
    raw: vk::Queue,
    /// The timeline value that the last submission signals; 0 if nothing was submitted.
    last: u64,
    in_flight: VecDeque<Submitted>,
    /// Whether a submission that signals a fence was given up while the device may still run it.
    stuck: bool,
    /// The semaphores that the present submission waits for. Kept between submissions so that its memory is not allocated anew.
    waits: Vec<vk::SemaphoreSubmitInfo<'static>>,
}

/// A submission, and what it owns until the timeline has reached `value`.
struct Submitted {
    value: u64,
    _recording: Arc<Recording>,
    _waits: Vec<TimelinePoint>,
}

impl Queue {
    pub(crate) fn new(shared: &Arc<Shared>, kind: QueueKind, family: u32) -> Result<Arc<Self>> {
        let index = u32::from(kind == QueueKind::SecondCompute);
        // SAFETY: the device was created with this many queues of this family
        // (VUID-vkGetDeviceQueue-queueFamilyIndex-00384, -queueIndex-00385).
        let raw = unsafe { shared.raw.get_device_queue(family, index) };
        shared.name(raw, kind.name());
        let timeline = Timeline::new(shared, kind.name())?;
        // SAFETY: no preconditions beyond a live device.
        let fence = unsafe { shared.raw.create_fence(&vk::FenceCreateInfo::default(), None) }
            .map_err(shared.error("vkCreateFence"))?;
        Ok(Arc::new(Self {
            shared: Arc::clone(shared),
            kind,
            family,
            timeline,
            state: Mutex::new(State {
                raw,
                last: 0,
                in_flight: VecDeque::with_capacity(16),
                stuck: false,
                waits: Vec::new(),
            }),
            fence: Mutex::new(fence),
            submits: AtomicU64::new(0),
            fence_waits: AtomicU64::new(0),
        }))
    }

    /// Queues `recording` behind everything submitted before and behind `waits`. The point returned is complete once it has run.
    ///
    /// # Errors
    /// [`Error::RecordingPending`] if its last submission has not completed, [`Error::TimelineDistance`],
    /// [`Error::DeviceLost`], or what the driver says. After an error nothing was submitted.
    ///
    /// # Panics
    /// If the recording was made for another queue kind or device, its commands could not be recorded again, or a wait can never be met: it
    /// belongs to another device or is a later point of this very queue.
    pub fn submit(&self, recording: &Arc<Recording>, waits: &[TimelinePoint]) -> Result<TimelinePoint> {
        self.submit_in_turn([(recording, waits)])
    }

    /// Queues several recordings with one call of the driver. Each recording runs behind the one before it in `parts`,
    /// and behind the points that stand beside it. The point returned is complete once the last recording has run; the
    /// others get no point, which spares the device one signal each.
    ///
    /// # Errors
    /// The errors of [`Queue::submit`].
    ///
    /// # Panics
    /// In the cases of [`Queue::submit`], and if `parts` is empty or holds a recording twice.
    pub fn submit_in_turn<const N: usize>(
        &self,
        parts: [(&Arc<Recording>, &[TimelinePoint]); N],
    ) -> Result<TimelinePoint> {
        for (index, (recording, _)) in parts.iter().enumerate() {
            self.check_recording(recording);
            let again = parts[..index].iter().any(|(earlier, _)| Arc::ptr_eq(earlier, recording));
            assert!(!again, "recording `{}` is submitted twice in one call", recording.name());
        }
        self.shared.loss.check()?;
        let mut state = self.state.lock();
        let (completed, done) = self.reap(&mut state)?;
        for (recording, _) in &parts {
            recording.check_idle(completed)?;
        }
        let value = state.last + 1;
        self.timeline.check_distance(value)?;
        state.waits.clear();
        for (_, waits) in &parts {
            self.collect_waits(&mut state, waits)?;
        }
        let signal = semaphore(self.semaphore(&self.timeline), value);
        self.submit_parts(
            &state,
            parts.map(|(recording, waits)| (&**recording, waits.len())),
            Some(&signal),
            vk::Fence::null(),
        )?;

        state.last = value;
        for (recording, waits) in parts {
            recording.set_value(value);
            state.in_flight.push_back(Submitted { value, _recording: Arc::clone(recording), _waits: waits.to_vec() });
        }
        drop(state);
        // What the caller keeps in a recording may run any code when it is dropped, so the lock is released first.
        drop(done);
        Ok(self.timeline.point(value))
    }

    /// Queues `recording` behind everything submitted before and blocks on a binary fence until it has run. The queue's
    /// timeline is neither waited for nor signalled. This is the baseline that timelines are measured against.
    ///
    /// # Errors
    /// The errors of [`Queue::submit`], and [`Error::FenceStalled`] if the fence is not signalled within the
    /// [`WaitPolicy::stall`] of the default policy. The recording is then never freed, since the device may still run
    /// it.
    ///
    /// # Panics
    /// Where [`Queue::submit`] panics.
    pub fn submit_and_wait_fence(&self, recording: &Arc<Recording>) -> Result<()> {
        self.check_recording(recording);
        self.shared.loss.check()?;
        let fence = self.fence.lock();
        {
            let mut state = self.state.lock();
            let (completed, done) = self.reap(&mut state)?;
            recording.check_idle(completed)?;
            state.waits.clear();
            self.submit_parts(&state, [(&**recording, 0)], None, *fence)?;
            recording.set_fenced(Fenced::InFlight);
            drop(state);
            drop(done);
        }
        self.fence_waits.fetch_add(1, Ordering::Relaxed);
        let result = self.wait_fence(*fence);
        match result {
            Ok(()) => {
                recording.set_fenced(Fenced::Over);
                // SAFETY: the fence is signalled and nobody else uses it under its lock
                // (VUID-vkResetFences-pFences-01123).
                unsafe { self.shared.raw.reset_fences(std::slice::from_ref(&*fence)) }
                    .map_err(self.shared.error("vkResetFences"))
            }
            Err(error) => {
                // The device may still run the recording. So it is never freed, and the device counts as lost, so that
                // no submission follows.
                std::mem::forget(Arc::clone(recording));
                self.state.lock().stuck = !matches!(error, Error::DeviceLost { .. });
                self.shared.loss.set("vkWaitForFences");
                Err(error)
            }
        }
    }

    /// Writes the commands of `recording` into its command buffer once more. The commands stay the same, and so does
    /// what the next submission computes. The call costs the host what an engine pays that records every step anew: the
    /// driver's part of recording, without the work of deciding which commands to record. The fence baseline uses it.
    ///
    /// # Errors
    /// [`Error::RecordingPending`] if its last submission has not completed, [`Error::DeviceLost`], or what the driver says. After an
    /// error of the driver the recording can be recorded again, and not submitted before that has succeeded.
    ///
    /// # Panics
    /// If the recording was made for another queue kind or device.
    pub fn record_again(&self, recording: &Arc<Recording>) -> Result<()> {
        self.check_recording(recording);
        self.shared.loss.check()?;
        let mut state = self.state.lock();
        let (completed, done) = self.reap(&mut state)?;
        recording.check_idle(completed)?;
        // The lock is held until the commands are written, since a submission reads the command buffer.
        let written = recording.write_again();
        drop(state);
        drop(done);
        written
    }

    fn wait_fence(&self, fence: vk::Fence) -> Result<()> {
        let start = Instant::now();
        let limit = WaitPolicy::default().stall;
        loop {
            let slice = u64::try_from(SLICE.as_nanos()).unwrap_or(u64::MAX);
            // SAFETY: the fence belongs to this device and was submitted.
            match unsafe { self.shared.raw.wait_for_fences(std::slice::from_ref(&fence), true, slice) } {
                Ok(()) => return Ok(()),
                Err(vk::Result::TIMEOUT) => {}
                Err(error) => return Err(self.shared.error("vkWaitForFences")(error)),
            }
            self.shared.loss.check()?;
            let stalled: Duration = start.elapsed();
            if stalled >= limit {
                return Err(Error::FenceStalled { queue: self.kind.name().to_owned(), stalled });
            }
        }
    }

    /// The timeline that this queue signals.
    pub fn timeline(&self) -> &Arc<Timeline> {
        &self.timeline
    }

    /// The point of the last submission that signals the timeline. It is complete if there was no such submission.
    pub fn last_point(&self) -> TimelinePoint {
        self.timeline.point(self.state.lock().last)
    }

    /// Which queue of the device this is.
    pub fn kind(&self) -> QueueKind {
        self.kind
    }

    /// Index of the queue's family.
    pub fn family(&self) -> u32 {
        self.family
    }

    /// How many submissions and waits for a fence this queue has counted since the device was opened.
    pub fn stats(&self) -> QueueStats {
        QueueStats {
            submits: self.submits.load(Ordering::Relaxed),
            fence_waits: self.fence_waits.load(Ordering::Relaxed),
        }
    }

    /// Drops the recordings and points that completed submissions have kept alive, and returns how many recordings are
    /// still in flight.
    ///
    /// # Errors
    /// [`Error::DeviceLost`].
    pub fn collect(&self) -> Result<usize> {
        let mut state = self.state.lock();
        let (_, done) = self.reap(&mut state)?;
        let left = state.in_flight.len();
        drop(state);
        drop(done);
        Ok(left)
    }

    /// Takes the completed submissions out of those in flight, and returns them with the value that the timeline has reached. The
    /// caller drops them after it has released the lock.
    fn reap(&self, state: &mut State) -> Result<(u64, Vec<Submitted>)> {
        let completed = self.timeline.completed()?;
        let done = state.in_flight.partition_point(|f| f.value <= completed);
        Ok((completed, state.in_flight.drain(..done).collect()))
    }

    /// Panics unless the recording was made for this queue.
    fn check_recording(&self, recording: &Recording) {
        assert!(
            recording.belongs_to(&self.shared),
            "recording `{}` belongs to another device than this {} queue",
            recording.name(),
            self.kind.name()
        );
        assert!(
            recording.kind() == self.kind,
            "recording `{}` is for the {} queue, not for the {} queue",
            recording.name(),
            recording.kind().name(),
            self.kind.name()
        );
    }

    /// Adds the semaphores and values of `waits` to `state.waits`.
    fn collect_waits(&self, state: &mut State, waits: &[TimelinePoint]) -> Result<()> {
        for point in waits {
            assert!(
                point.timeline().id() != self.timeline.id() || point.value() <= state.last,
                "a submission to the {} queue waits for its value {}, and only {} were submitted",
                self.kind.name(),
                point.value(),
                state.last
            );
            point.timeline().check_distance(point.value())?;
            state.waits.push(semaphore(self.semaphore(point.timeline()), point.value()));
        }
        Ok(())
    }

    /// The semaphore of a timeline, which must be one of this device.
    fn semaphore(&self, timeline: &Timeline) -> vk::Semaphore {
        timeline.semaphore_of(&self.shared).unwrap_or_else(|| {
            panic!(
                "timeline `{}` is none of this device; its {} queue cannot use it",
                timeline.name(),
                self.kind.name()
            )
        })
    }

    /// Makes the only call of `vkQueueSubmit2` in this crate. A part is a recording and the number of semaphores that
    /// it waits for. `state.waits` holds those of the first part, then those of the second, and so on. The last part
    /// signals `signal`.
    fn submit_parts<const N: usize>(
        &self,
        state: &State,
        parts: [(&Recording, usize); N],
        signal: Option<&vk::SemaphoreSubmitInfo<'_>>,
        fence: vk::Fence,
    ) -> Result<()> {
        assert!(N > 0, "a submission needs at least one recording");
        for (recording, _) in parts {
            assert!(
                recording.is_written(),
                "recording `{}`: its commands could not be recorded again",
                recording.name()
            );
        }
        let commands =
            parts.map(|(recording, _)| vk::CommandBufferSubmitInfo::default().command_buffer(recording.raw()));
        let mut waits = state.waits.as_slice();
        let mut submits = [vk::SubmitInfo2::default(); N];
        for ((submit, command), (_, count)) in submits.iter_mut().zip(&commands).zip(parts) {
            let (own, rest) = waits.split_at(count);
            waits = rest;
            *submit = submit.wait_semaphore_infos(own).command_buffer_infos(std::slice::from_ref(command));
        }
        submits[N - 1] = submits[N - 1].signal_semaphore_infos(signal.map_or(&[], std::slice::from_ref));
        // SAFETY: the caller holds the queue's lock (host access to the queue is exclusive) and has checked that the command
        // buffers are not pending and no two the same (VUID-vkQueueSubmit2-commandBuffer-03875) and were recorded for this family
        // (-03878); semaphores and values are checked against this device and its difference (VUID-VkSubmitInfo2-semaphore-03882 to
        // 03884); the fence, if any, is unsignalled and locked (VUID-vkQueueSubmit2-fence-04894, -04895). All of it is owned by
        // the in-flight entries until the value is reached, or by the frame that waits for the fence.
        unsafe { self.shared.queue_submit2(state.raw, &submits, fence) }
            .map_err(self.shared.error("vkQueueSubmit2"))?;
        self.submits.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

fn semaphore(raw: vk::Semaphore, value: u64) -> vk::SemaphoreSubmitInfo<'static> {
    vk::SemaphoreSubmitInfo::default().semaphore(raw).value(value).stage_mask(vk::PipelineStageFlags2::ALL_COMMANDS)
}

impl Drop for Queue {
    fn drop(&mut self) {
        let state = self.state.get_mut();
        if state.stuck || self.timeline.settle(state.last, WaitPolicy::default().stall) == Settled::StillRunning {
            tracing::error!(
                "the {} queue did not finish its work in time; what that work uses is leaked",
                self.kind.name()
            );
            // The device may still run what was submitted. So all of it, the device included, is kept until the process
            // ends.
            std::mem::forget(std::mem::take(&mut state.in_flight));
            std::mem::forget(Arc::clone(&self.timeline));
            std::mem::forget(Arc::clone(&self.shared));
            return;
        }
        // The timeline can reach its value shortly before the driver has retired everything else that belongs to the
        // submission, so the queue must become idle as well.
        // SAFETY: `&mut self`: nobody else uses the queue (VUID-vkQueueWaitIdle-queue-parameter, host access exclusive).
        if let Err(error) = unsafe { self.shared.raw.queue_wait_idle(state.raw) } {
            tracing::warn!("vkQueueWaitIdle failed: {error}");
        }
        // SAFETY: no fence submission is in flight: each is waited for under the fence's lock
        // (VUID-vkDestroyFence-fence-01120).
        unsafe { self.shared.raw.destroy_fence(*self.fence.get_mut(), None) };
        state.in_flight.clear();
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").field("kind", &self.kind).field("stats", &self.stats()).finish_non_exhaustive()
    }
}
