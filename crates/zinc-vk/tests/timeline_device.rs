//! The contract of `timeline.rs` on a device: order, fan-out, wait before signal, host signal, keep-alive, loss, distance.

use std::any::Any;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use zinc_vk::{Access, Error, HostTimeline, Placement, Queue, QueueKind, RecordingBuilder, WaitPolicy};

mod support;

use support::{Gpu, affine_push, read_words, write_words};

#[test]
fn submissions_to_one_queue_run_in_order_and_see_each_other() {
    let gpu = Gpu::new();
    let data = gpu.buffer("data", 333, Placement::Readback);
    write_words(&data, &[1; 333]);
    // Affine steps do not commute: any other order, or a read that misses a write, gives another number.
    let steps: Vec<_> = (0..16).map(|n| gpu.affine_step("step", &data, 2 * n + 3, n)).collect();
    let mut last = None;
    for step in &steps {
        last = Some(gpu.compute_queue().submit(step, &[]).unwrap());
    }
    last.unwrap().wait().unwrap();
    let expected = (0..16u32).fold(1u32, |x, n| x.wrapping_mul(2 * n + 3).wrapping_add(n));
    assert_eq!(read_words(&data), vec![expected; 333]);
}

#[test]
fn copies_and_dispatches_of_different_submissions_see_each_other() {
    let gpu = Gpu::new();
    let (a, b) = (gpu.buffer("a", 64, Placement::Device), gpu.buffer("b", 64, Placement::Readback));
    let mut fill = gpu.compute("fill");
    fill.fill(&a, 0, 256, 5);
    let affine = gpu.affine_step("affine", &a, 3, 1);
    let mut copy = gpu.compute("copy");
    copy.copy(&a, 0, &b, 0, 256);
    let queue = gpu.compute_queue();
    queue.submit(&fill.finish().unwrap(), &[]).unwrap();
    queue.submit(&affine, &[]).unwrap();
    queue.submit(&copy.finish().unwrap(), &[]).unwrap().wait().unwrap();
    assert_eq!(read_words(&b), [16; 64]);
}

#[test]
fn points_complete_in_order() {
    let gpu = Gpu::new();
    let data = gpu.buffer("data", 2, Placement::Readback);
    write_words(&data, &[0; 2]);
    let steps: Vec<_> = (0..8).map(|_| gpu.spin_step("spin", &data, 20_000)).collect();
    let points: Vec<_> = steps.iter().map(|s| gpu.compute_queue().submit(s, &[]).unwrap()).collect();
    for (n, point) in points.iter().enumerate().rev() {
        point.wait().unwrap();
        for earlier in &points[..=n] {
            assert!(earlier.is_complete().unwrap(), "{point:?} is complete and {earlier:?} is not");
        }
    }
}

#[test]
fn a_submission_waits_for_a_value_that_is_signalled_later_and_holds_back_what_follows() {
    let gpu = Gpu::new();
    let data = gpu.buffer("data", 8, Placement::Readback);
    write_words(&data, &[1; 8]);
    let gate = HostTimeline::new(&gpu, "gate").unwrap();
    let queue = gpu.compute_queue();
    let gated = queue.submit(&gpu.affine_step("gated", &data, 3, 1), &[gate.point(1)]).unwrap();
    let behind = queue.submit(&gpu.affine_step("behind", &data, 5, 0), &[]).unwrap();
    assert!(!gated.is_complete().unwrap() && !behind.is_complete().unwrap());
    assert_eq!(queue.collect().unwrap(), 2);
    assert_eq!(data.load_u32(0), 1, "nothing has run");
    gate.signal(1).unwrap();
    behind.wait().unwrap();
    assert_eq!(read_words(&data), [20; 8]);
    assert_eq!(queue.collect().unwrap(), 0);
}

#[test]
fn recordings_of_one_call_run_in_turn_each_behind_its_own_waits() {
    let gpu = Gpu::new();
    let data = gpu.buffer("data", 8, Placement::Readback);
    write_words(&data, &[1; 8]);
    let gate = HostTimeline::new(&gpu, "gate").unwrap();
    let queue = gpu.compute_queue();
    let (open, gated) = (gpu.affine_step("open", &data, 3, 1), gpu.affine_step("gated", &data, 5, 2));
    let submits = queue.stats().submits;
    let point = queue.submit_in_turn([(&open, &[]), (&gated, &[gate.point(1)])]).unwrap();
    let behind = queue.submit(&gpu.affine_step("behind", &data, 7, 3), &[]).unwrap();
    assert_eq!(queue.stats().submits - submits, 2);
    assert_eq!((point.value() + 1, queue.collect().unwrap()), (behind.value(), 3));
    for recording in [&open, &gated] {
        let again = queue.submit(recording, &[]).unwrap_err();
        assert!(matches!(again, Error::RecordingPending { .. }), "{again}");
    }
    gate.signal(1).unwrap();
    behind.wait().unwrap();
    assert_eq!(read_words(&data), [((3 + 1) * 5 + 2) * 7 + 3; 8]);
    assert_eq!(queue.collect().unwrap(), 0);
    queue.submit_in_turn([(&gated, &[]), (&open, &[])]).unwrap().wait().unwrap();
}

#[test]
#[should_panic(expected = "recording `step` is submitted twice in one call")]
fn a_recording_twice_in_one_call_panics() {
    let gpu = Gpu::new();
    let step = gpu.affine_step("step", &gpu.buffer("data", 8, Placement::Device), 3, 1);
    let _ = gpu.compute_queue().submit_in_turn([(&step, &[]), (&step, &[])]);
}

#[test]
fn what_the_host_writes_between_submit_and_signal_is_read() {
    let gpu = Gpu::new();
    let data = gpu.buffer("data", 8, Placement::Upload);
    let out = gpu.buffer("out", 8, Placement::Readback);
    write_words(&data, &[0; 8]);
    let gate = HostTimeline::new(&gpu, "gate").unwrap();
    let mut builder = gpu.compute("gated");
    builder.barrier(Access::HOST_WRITE, Access::TRANSFER_READ).copy(&data, 0, &out, 0, 32);
    let step = builder.finish().unwrap();
    for value in 1..=20u32 {
        let point = gpu.compute_queue().submit(&step, &[gate.point(value.into())]).unwrap();
        write_words(&data, &[value; 8]);
        gate.signal(value.into()).unwrap();
        point.wait().unwrap();
        assert_eq!(read_words(&out), [value; 8]);
    }
}

#[test]
fn one_point_releases_many_submissions_and_many_threads() {
    let gpu = Gpu::new();
    let gate = HostTimeline::new(&gpu, "gate").unwrap();
    let queue = gpu.compute_queue();
    let data = gpu.buffer("data", 8, Placement::Readback);
    write_words(&data, &[0; 8]);
    let steps: Vec<_> = (0..8).map(|_| gpu.affine_step("step", &data, 1, 1)).collect();
    let points: Vec<_> = steps.iter().map(|s| queue.submit(s, &[gate.point(1)]).unwrap()).collect();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            for point in &points {
                scope.spawn(move || point.wait().unwrap());
            }
        }
        gate.signal(1).unwrap();
    });
    assert_eq!(read_words(&data), [8; 8]);
}

#[test]
fn a_submission_may_wait_for_an_earlier_point_of_its_own_queue() {
    let gpu = Gpu::new();
    let data = gpu.buffer("data", 8, Placement::Readback);
    write_words(&data, &[1; 8]);
    let first = gpu.compute_queue().submit(&gpu.affine_step("first", &data, 3, 1), &[]).unwrap();
    let second = gpu.compute_queue().submit(&gpu.affine_step("second", &data, 5, 1), &[first]).unwrap();
    second.wait().unwrap();
    assert_eq!(read_words(&data), [21; 8]);
}

#[test]
fn waiting_for_a_later_point_of_the_same_queue_panics() {
    let gpu = Gpu::new();
    let data = gpu.buffer("data", 8, Placement::Readback);
    let step = gpu.affine_step("step", &data, 1, 1);
    let queue = gpu.compute_queue();
    let ahead = queue.timeline().point(1);
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        _ = queue.submit(&step, &[ahead]);
    }));
    let message = *panic.unwrap_err().downcast::<String>().unwrap();
    assert!(message.contains("waits for its value 1, and only 0 were submitted"), "{message}");
    // The queue is unharmed.
    queue.submit(&step, &[]).unwrap().wait().unwrap();
}

/// Sets a flag when it is dropped, and asks the queue something: what a caller keeps may do that.
struct Witness {
    gone: Arc<AtomicBool>,
    queue: Weak<Queue>,
}

impl Drop for Witness {
    fn drop(&mut self) {
        if let Some(queue) = self.queue.upgrade() {
            queue.collect().unwrap();
        }
        self.gone.store(true, Ordering::SeqCst);
    }
}

#[test]
fn a_submission_keeps_what_it_touches_until_it_completes() {
    let gpu = Gpu::new();
    let queue = gpu.compute_queue();
    let out = gpu.buffer("out", 8, Placement::Readback);
    let gone = Arc::new(AtomicBool::new(false));
    let point;
    let gate_timeline;
    let (weak_data, weak_pipeline);
    {
        // Everything but `out` is dropped by its last user while the submission waits.
        let gate = HostTimeline::new(&gpu, "gate").unwrap();
        let data = gpu.buffer("data", 8, Placement::Device);
        let pipeline = gpu.affine(3);
        let witness = Witness { gone: Arc::clone(&gone), queue: Arc::downgrade(queue) };
        let mut builder = gpu.compute("step");
        builder
            .fill(&data, 0, 32, 4)
            .barrier(Access::TRANSFER_WRITE, Access::SHADER_READ | Access::SHADER_WRITE)
            .dispatch(&pipeline, &affine_push(&data, 8, 2), [1, 1, 1])
            .barrier(Access::SHADER_WRITE, Access::TRANSFER_READ)
            .copy(&data, 0, &out, 0, 32)
            .keep(Arc::new(witness) as Arc<dyn Any + Send + Sync>);
        point = queue.submit(&builder.finish().unwrap(), &[gate.point(1)]).unwrap();
        weak_data = Arc::downgrade(&data);
        weak_pipeline = Arc::downgrade(&pipeline);
        gate_timeline = Arc::downgrade(gate.timeline());
        drop((data, pipeline));
        assert!(weak_data.upgrade().is_some() && weak_pipeline.upgrade().is_some());
        assert!(!gone.load(Ordering::SeqCst));
        gate.signal(1).unwrap();
    }
    point.wait().unwrap();
    assert_eq!(read_words(&out), [14; 8]);
    queue.collect().unwrap();
    assert!(weak_data.upgrade().is_none() && weak_pipeline.upgrade().is_none());
    assert!(gate_timeline.upgrade().is_none());
    assert!(gone.load(Ordering::SeqCst));
}

#[test]
fn the_next_submit_drops_what_completed() {
    let gpu = Gpu::new();
    let queue = gpu.compute_queue();
    let data = gpu.buffer("data", 8, Placement::Readback);
    let step = gpu.affine_step("kept", &data, 1, 1);
    let first = gpu.affine_step("dropped", &data, 1, 1);
    let weak = Arc::downgrade(&first);
    queue.submit(&first, &[]).unwrap().wait().unwrap();
    drop(first);
    assert!(weak.upgrade().is_some(), "owned by its submission");
    queue.submit(&step, &[]).unwrap().wait().unwrap();
    assert!(weak.upgrade().is_none());
}

#[test]
fn points_and_buffers_outlive_the_handle_of_their_device() {
    let gpu = Gpu::new();
    let data = gpu.buffer("data", 8, Placement::Readback);
    write_words(&data, &[1; 8]);
    let point = gpu.compute_queue().submit(&gpu.affine_step("step", &data, 3, 1), &[]).unwrap();
    let instance = Arc::clone(gpu.instance());
    // Drops the last handle of the device; its queue comes to rest first.
    drop(gpu);
    assert!(point.is_complete().unwrap());
    assert_eq!(read_words(&data), [4; 8]);
    drop((point, data));
    assert_eq!(instance.validation_messages(), Vec::<String>::new());
}

#[test]
fn a_dropped_gate_releases_its_queue() {
    let gpu = Gpu::new();
    let data = gpu.buffer("data", 8, Placement::Readback);
    write_words(&data, &[1; 8]);
    let gate = HostTimeline::new(&gpu, "gate").unwrap();
    let promised = gate.point(5);
    let point = gpu.compute_queue().submit(&gpu.affine_step("gated", &data, 3, 1), &[gate.point(5)]).unwrap();
    drop(gate);
    point.wait().unwrap();
    assert!(matches!(promised.wait(), Err(Error::TimelineAbandoned { awaited: 5, completed: 0, .. })));
}

#[test]
fn a_lost_device_refuses_everything_and_still_drops_cleanly() {
    let gpu = Gpu::new();
    let data = gpu.buffer("data", 8, Placement::Readback);
    let gate = HostTimeline::new(&gpu, "gate").unwrap();
    let queue = gpu.compute_queue();
    let step = gpu.affine_step("step", &data, 1, 1);
    let done = queue.submit(&step, &[]).unwrap();
    done.wait().unwrap();
    let waiting = queue.submit(&step, &[gate.point(1)]).unwrap();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| waiting.wait());
        gpu.declare_lost();
        assert!(matches!(waiter.join().unwrap(), Err(Error::DeviceLost { .. })));
    });
    let lost = |result: zinc_vk::Result<()>| {
        assert!(matches!(result, Err(Error::DeviceLost { .. })), "{result:?}");
    };
    lost(gpu.check());
    lost(done.wait());
    lost(waiting.is_complete().map(drop));
    lost(queue.submit(&step, &[]).map(drop));
    lost(queue.submit_and_wait_fence(&step));
    lost(queue.collect().map(drop));
    lost(gate.signal(1));
    // The gate can no longer be signalled through the timeline, and the submission behind it is still in the device's hands:
    // dropping must neither hang nor free it early. The gate's own drop lets it go.
}

#[test]
fn the_value_difference_of_the_device_is_kept() {
    const LIMIT: u64 = 2;
    let gpu = Gpu::with(|mut plan| {
        plan.adapter.limits.timeline_difference = LIMIT;
        plan
    });
    let data = gpu.buffer("data", 8, Placement::Readback);
    let gate = HostTimeline::new(&gpu, "gate").unwrap();
    let queue = gpu.compute_queue();
    let steps: Vec<_> = (0..4).map(|_| gpu.affine_step("step", &data, 1, 1)).collect();

    // A wait that is too far ahead.
    assert!(matches!(
        queue.submit(&steps[0], &[gate.point(3)]),
        Err(Error::TimelineDistance { value: 3, completed: 0, limit: LIMIT, .. })
    ));
    // Submissions that run too far ahead.
    queue.submit(&steps[0], &[gate.point(2)]).unwrap();
    let second = queue.submit(&steps[1], &[]).unwrap();
    assert!(matches!(
        queue.submit(&steps[2], &[]),
        Err(Error::TimelineDistance { value: 3, completed: 0, limit: LIMIT, .. })
    ));
    // A signal that is too far ahead.
    assert!(matches!(gate.signal(3), Err(Error::TimelineDistance { .. })));
    gate.signal(2).unwrap();
    second.wait().unwrap();
    // The refused recording was not submitted and can be now.
    queue.submit(&steps[2], &[]).unwrap();
    queue.submit(&steps[3], &[]).unwrap().wait().unwrap();
    assert_eq!(queue.timeline().completed().unwrap(), 4);
}

#[test]
fn the_farthest_value_of_the_device_is_reached_and_the_next_is_refused() {
    let gpu = Gpu::new();
    // Where there is no limit, the largest value that leaves one more.
    let limit = gpu.facts().limits.timeline_difference.min(u64::MAX - 1);
    let gate = HostTimeline::new(&gpu, "gate").unwrap();
    let data = gpu.buffer("data", 8, Placement::Readback);
    let step = gpu.affine_step("step", &data, 1, 1);
    let point = gpu.compute_queue().submit(&step, &[gate.point(limit)]).unwrap();
    if limit == gpu.facts().limits.timeline_difference {
        assert!(matches!(gate.signal(limit + 1), Err(Error::TimelineDistance { .. })));
    }
    assert!(!point.is_complete().unwrap());
    gate.signal(limit).unwrap();
    point.wait().unwrap();
    assert_eq!(gate.timeline().completed().unwrap(), limit);
    // From there the counter can go on as far again, and at least one further.
    let next = limit.saturating_mul(2);
    let point = gpu.compute_queue().submit(&step, &[gate.point(next)]).unwrap();
    gate.signal(next).unwrap();
    point.wait().unwrap();
}

#[test]
fn a_wait_for_a_gated_submission_stalls_with_its_numbers_and_can_be_repeated() {
    let gpu = Gpu::new();
    let gate = HostTimeline::new(&gpu, "gate").unwrap();
    let data = gpu.buffer("data", 8, Placement::Readback);
    let step = gpu.affine_step("step", &data, 1, 1);
    let point = gpu.compute_queue().submit(&step, &[gate.point(1)]).unwrap();
    let policy = WaitPolicy { stall: Duration::from_millis(20), ..WaitPolicy::default() };
    match point.wait_with(&policy) {
        Err(Error::Stalled { timeline, awaited, completed, .. }) => {
            assert_eq!((timeline.as_str(), awaited, completed), ("compute", point.value(), 0));
        }
        other => panic!("{other:?}"),
    }
    gate.signal(1).unwrap();
    point.wait().unwrap();
}

#[test]
fn threads_that_submit_get_values_of_their_own() {
    let gpu = Gpu::new();
    let data = gpu.buffer("data", 8, Placement::Readback);
    write_words(&data, &[0; 8]);
    let mut values: Vec<u64> = std::thread::scope(|scope| {
        let submitters: Vec<_> = (0..4)
            .map(|_| {
                let (gpu, data) = (&gpu, &data);
                scope.spawn(move || {
                    let step = gpu.affine_step("step", data, 1, 1);
                    let mut values = Vec::new();
                    for _ in 0..25 {
                        let point = gpu.compute_queue().submit(&step, &[]).unwrap();
                        values.push(point.value());
                        point.wait().unwrap();
                    }
                    values
                })
            })
            .collect();
        submitters.into_iter().flat_map(|s| s.join().unwrap()).collect()
    });
    values.sort_unstable();
    assert_eq!(values, (1..=100).collect::<Vec<u64>>());
    assert_eq!(read_words(&data), [100; 8]);
}

#[test]
fn two_queues_meet_at_a_point() {
    let gpu = Gpu::new();
    let Some(transfer) = gpu.transfer_queue() else {
        // A device with one queue says so when it is asked for the other.
        let asked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            RecordingBuilder::new(&gpu, QueueKind::Transfer, "up")
        }));
        let message = *asked.unwrap_err().downcast::<String>().unwrap();
        assert!(message.contains("the device has no transfer queue"), "{message}");
        return;
    };
    let from = gpu.buffer("from", 64, Placement::Upload);
    let data = gpu.buffer("data", 64, Placement::Device);
    let back = gpu.buffer("back", 64, Placement::Readback);
    write_words(&from, &[6; 64]);
    let mut up = RecordingBuilder::new(&gpu, QueueKind::Transfer, "up").unwrap();
    up.copy(&from, 0, &data, 0, 256);
    let mut down = RecordingBuilder::new(&gpu, QueueKind::Transfer, "down").unwrap();
    down.copy(&data, 0, &back, 0, 256);
    let uploaded = transfer.submit(&up.finish().unwrap(), &[]).unwrap();
    let computed = gpu.compute_queue().submit(&gpu.affine_step("step", &data, 7, 0), &[uploaded]).unwrap();
    transfer.submit(&down.finish().unwrap(), &[computed]).unwrap().wait().unwrap();
    assert_eq!(read_words(&back), [42; 64]);
}
