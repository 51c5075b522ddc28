//! Recording, submitting and what comes out of it, on whatever device this machine has.

use std::sync::Arc;

use zinc_vk::{
    Access, Buffer, Error, HostTimeline, Pipeline, PipelineSpec, Placement, QueueKind, RecordingBuilder, RecordingStats,
};

mod support;

use support::{Gpu, affine_push, read_words, shader_chain, words, write_words};

#[test]
fn a_chain_of_dispatches_runs_in_order() {
    let gpu = Gpu::new();
    // 1003 words: the last workgroup is only partly used, and nothing is a power of two.
    let data = gpu.buffer("data", 1003, Placement::Readback);
    write_words(&data, &(0..1003).collect::<Vec<u32>>());
    gpu.run(|r| {
        gpu.record_affine(r, &data, 3, 1);
        shader_chain(r);
        gpu.record_affine(r, &data, 5, 2);
        shader_chain(r);
        gpu.record_affine(r, &data, 7, 3);
    });
    let expected: Vec<u32> = (0..1003u32).map(|x| ((x * 3 + 1) * 5 + 2) * 7 + 3).collect();
    assert_eq!(read_words(&data), expected);
}

#[test]
fn a_recording_runs_as_often_as_it_is_submitted_and_is_recorded_once() {
    let gpu = Gpu::new();
    let data = gpu.buffer("data", 64, Placement::Readback);
    write_words(&data, &[1; 64]);
    let steps = [gpu.affine_step("even", &data, 3, 1), gpu.affine_step("odd", &data, 5, 2)];
    let recorded = gpu.stats().recordings;
    let queue = gpu.compute_queue();
    let before = queue.stats();

    let mut expected = 1u32;
    let mut points = Vec::new();
    for n in 0..40usize {
        if n >= 2 {
            let done: &zinc_vk::TimelinePoint = &points[n - 2];
            done.wait().unwrap();
        }
        points.push(queue.submit(&steps[n % 2], &[]).unwrap());
        expected = if n % 2 == 0 { expected.wrapping_mul(3) + 1 } else { expected.wrapping_mul(5).wrapping_add(2) };
    }
    points[39].wait().unwrap();

    assert_eq!(read_words(&data), vec![expected; 64]);
    assert_eq!(gpu.stats().recordings, recorded, "nothing was recorded again");
    assert_eq!(queue.stats().submits - before.submits, 40, "one submit a step");
    assert_eq!(queue.stats().fence_waits, before.fence_waits, "no fence");
    let values: Vec<u64> = points.iter().map(zinc_vk::TimelinePoint::value).collect();
    assert_eq!(values, (1..=40).map(|n| n + values[0] - 1).collect::<Vec<_>>());
}

#[test]
fn the_fence_baseline_gives_the_same_result_and_is_counted() {
    let gpu = Gpu::new();
    let data = gpu.buffer("data", 64, Placement::Readback);
    write_words(&data, &[1; 64]);
    let step = gpu.affine_step("step", &data, 3, 1);
    let queue = gpu.compute_queue();
    for _ in 0..5 {
        queue.submit_and_wait_fence(&step).unwrap();
    }
    queue.submit(&step, &[]).unwrap().wait().unwrap();
    queue.submit_and_wait_fence(&step).unwrap();
    let expected = (0..7).fold(1u32, |x, _| x * 3 + 1);
    assert_eq!(read_words(&data), vec![expected; 64]);
    assert_eq!((queue.stats().submits, queue.stats().fence_waits), (7, 6));
    assert_eq!(queue.timeline().completed().unwrap(), 1, "only `submit` signals the timeline");
}

#[test]
fn a_device_of_the_lowest_version_with_nothing_but_what_is_required_gives_the_same_result() {
    // The same device, opened as though it were 1.2: synchronization2 comes from its extension. Then without any feature that
    // is not required.
    let opened = [
        |mut plan: zinc_vk::DevicePlan| {
            plan.adapter.api_version = zinc_vk::ApiVersion { major: 1, minor: 2, patch: 0 };
            plan
        },
        |mut plan: zinc_vk::DevicePlan| {
            plan.features = zinc_vk::Features::REQUIRED;
            plan.subgroup_width = plan.adapter.subgroup.default;
            plan
        },
    ];
    for change in opened {
        let gpu = Gpu::with(change);
        let data = gpu.buffer("data", 64, Placement::Readback);
        write_words(&data, &[1; 64]);
        let timestamps = zinc_vk::Timestamps::new(&gpu, 1).unwrap();
        gpu.run(|r| {
            gpu.record_affine(r, &data, 3, 1);
            shader_chain(r);
            gpu.record_affine(r, &data, 5, 2);
            r.reset_timestamps(&timestamps, 0..1).timestamp(&timestamps, 0, zinc_vk::Stage::End);
        });
        assert_eq!(read_words(&data), [22; 64]);
        assert_eq!(timestamps.read(0..1).unwrap().len(), 1);
        assert!(gpu.memory_report().heaps.iter().all(|h| h.available <= h.total));
        gpu.clock().unwrap();
    }
}

#[test]
fn subgroups_are_as_wide_as_the_plan_says_and_full() {
    let gpu = Gpu::new();
    let width = gpu.subgroup_width();
    let out = gpu.buffer("out", 4, Placement::Readback);
    write_words(&out, &[0; 4]);
    let size = width * 4;
    let pipeline = Pipeline::new(
        &gpu,
        &PipelineSpec {
            name: "subgroup",
            spirv: &words(include_bytes!("shaders/subgroup.spv")),
            push_bytes: 8,
            constants: &[(0, size)],
            workgroup_size: size,
        },
    )
    .unwrap();
    gpu.run(|r| {
        r.dispatch(&pipeline, &out.address().to_ne_bytes(), [3, 1, 1]).keep(Arc::clone(&out) as _);
    });
    assert_eq!(read_words(&out), [width, 4, width * (width + 1) / 2, 3]);
}

#[test]
fn dispatches_on_a_condition_are_left_out_where_the_device_wrote_a_zero() {
    let plans = [
        |plan| plan,
        |mut plan: zinc_vk::DevicePlan| {
            plan.features.remove(zinc_vk::Features::CONDITIONAL_DISPATCH);
            plan
        },
    ];
    for change in plans {
        let gpu = Gpu::with(change);
        let leaves_out = gpu.plan().features.contains(zinc_vk::Features::CONDITIONAL_DISPATCH);
        let word = gpu.buffer("word", 2, Placement::Device);
        let data = gpu.buffer("data", 64, Placement::Readback);
        for value in [0, 1, 5] {
            write_words(&data, &[1; 64]);
            gpu.run(|r| {
                r.fill(&word, 4, 4, value);
            });
            gpu.run(|r| {
                r.begin_condition(&word, 4);
                gpu.record_affine(r, &data, 3, 1);
                shader_chain(r);
                gpu.record_affine(r, &data, 5, 2);
                r.end_condition();
                shader_chain(r);
                gpu.record_affine(r, &data, 7, 3);
            });
            let expected = if value == 0 && leaves_out { 7 + 3 } else { ((3 + 1) * 5 + 2) * 7 + 3 };
            assert_eq!(read_words(&data), [expected; 64], "{value}, {leaves_out}");
        }
    }
}

#[test]
#[should_panic(expected = "recording `step` ends inside a condition")]
fn a_condition_that_does_not_end_panics() {
    let gpu = Gpu::new();
    let mut r = gpu.compute("step");
    r.begin_condition(&gpu.buffer("word", 1, Placement::Device), 0);
    let _ = r.finish();
}

#[test]
fn an_indirect_dispatch_reads_counts_that_the_device_wrote() {
    let gpu = Gpu::new();
    let width = gpu.subgroup_width();
    let counts = gpu.buffer("counts", 4, Placement::Device);
    let out = gpu.buffer("out", 4, Placement::Readback);
    write_words(&out, &[0; 4]);
    let pipeline = Pipeline::new(
        &gpu,
        &PipelineSpec {
            name: "subgroup",
            spirv: &words(include_bytes!("shaders/subgroup.spv")),
            push_bytes: 8,
            constants: &[(0, width)],
            workgroup_size: width,
        },
    )
    .unwrap();
    gpu.run(|r| {
        r.fill(&counts, 0, 16, 0).barrier(Access::TRANSFER_WRITE, Access::SHADER_READ | Access::SHADER_WRITE);
        // All four words become 2; the dispatch reads the last three: 2 x 2 x 2 workgroups.
        gpu.record_affine(r, &counts, 1, 2);
        r.barrier(Access::SHADER_WRITE, Access::INDIRECT_READ);
        r.dispatch_indirect(&pipeline, &out.address().to_ne_bytes(), &counts, 4).keep(Arc::clone(&out) as _);
    });
    assert_eq!(read_words(&out)[3], 8);

    // The same words by their address, in a buffer that is kept among others.
    write_words(&out, &[0; 4]);
    gpu.run(|r| {
        r.keep(Arc::clone(&out) as _).keep(Arc::clone(&counts) as _);
        r.dispatch_indirect_at(&pipeline, &out.address().to_ne_bytes(), counts.address() + 4, [2; 3]);
    });
    assert_eq!(read_words(&out)[3], 8);
}

#[test]
#[should_panic(expected = "recording `step`: no buffer that it keeps has the number of workgroups of `affine`")]
fn counts_that_no_kept_buffer_has_panic() {
    let gpu = Gpu::new();
    let counts = gpu.buffer("counts", 4, Placement::Device);
    let mut r = gpu.compute("step");
    // The last of the three words lies behind the buffer.
    r.keep(Arc::clone(&counts) as _);
    r.dispatch_indirect_at(&gpu.affine(1), &[0; 16], counts.address() + 8, [1; 3]);
}

#[test]
fn copies_and_fills_touch_their_range_and_no_more() {
    let gpu = Gpu::new();
    let from = gpu.buffer("from", 16, Placement::Upload);
    let middle = gpu.buffer("middle", 16, Placement::Device);
    let to = gpu.buffer("to", 16, Placement::Readback);
    write_words(&from, &(100..116).collect::<Vec<u32>>());
    write_words(&to, &[7; 16]);
    gpu.run(|r| {
        r.copy(&from, 8, &middle, 4, 20)
            .barrier(Access::TRANSFER_WRITE, Access::TRANSFER_READ)
            .copy(&middle, 8, &to, 12, 12)
            .fill(&to, 40, 8, 9);
    });
    assert_eq!(read_words(&to), [7, 7, 7, 103, 104, 105, 7, 7, 7, 7, 9, 9, 7, 7, 7, 7]);
}

#[test]
fn single_words_pass_both_ways() {
    let gpu = Gpu::new();
    let data = gpu.buffer("data", 3, Placement::Readback);
    write_words(&data, &[0; 3]);
    data.store_u32(4, 41);
    gpu.run(|r| gpu.record_affine(r, &data, 1, 1));
    assert_eq!([0, 4, 8].map(|at| data.load_u32(at)), [1, 42, 1]);
}

#[test]
fn a_pending_recording_is_refused_by_name_and_accepted_later() {
    let gpu = Gpu::new();
    let data = gpu.buffer("data", 2, Placement::Readback);
    let gate = zinc_vk::HostTimeline::new(&gpu, "gate").unwrap();
    let step = gpu.affine_step("the step", &data, 1, 1);
    let queue = gpu.compute_queue();
    let point = queue.submit(&step, &[gate.point(1)]).unwrap();
    match queue.submit(&step, &[]) {
        Err(Error::RecordingPending { name, value, completed }) => {
            assert_eq!((name.as_str(), value, completed), ("the step", point.value(), 0));
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(queue.submit_and_wait_fence(&step), Err(Error::RecordingPending { .. })));
    gate.signal(1).unwrap();
    point.wait().unwrap();
    queue.submit(&step, &[]).unwrap().wait().unwrap();
}

#[test]
fn a_recording_counts_what_it_holds() {
    let gpu = Gpu::new();
    let data = gpu.buffer("data", 64, Placement::Device);
    let mut r = gpu.compute("counted");
    r.fill(&data, 0, 256, 0).barrier(Access::TRANSFER_WRITE, Access::SHADER_READ);
    gpu.record_affine(&mut r, &data, 1, 1);
    let recording = r.finish().unwrap();
    let RecordingStats { dispatches, barriers, copies, .. } = recording.stats();
    assert_eq!((dispatches, barriers, copies), (1, 1, 1));
    assert_eq!((recording.name(), recording.kind()), ("counted", QueueKind::Compute));
}

#[test]
fn a_recording_that_is_recorded_again_does_the_same() {
    let gpu = Gpu::new();
    let data = gpu.buffer("data", 64, Placement::Readback);
    write_words(&data, &[1; 64]);
    let step = gpu.affine_step("step", &data, 3, 1);
    let (queue, stats, recorded) = (gpu.compute_queue(), step.stats(), gpu.stats().recordings);
    let mut expected = 1u32;
    for _ in 0..5 {
        queue.record_again(&step).unwrap();
        queue.submit_and_wait_fence(&step).unwrap();
        expected = expected * 3 + 1;
    }
    assert_eq!(read_words(&data), vec![expected; 64]);
    assert_eq!(gpu.stats().recordings, recorded + 5);
    assert_eq!(step.stats(), stats, "the commands are those of the first time");
}

#[test]
fn a_recording_in_flight_cannot_be_recorded_again() {
    let gpu = Gpu::new();
    let data = gpu.buffer("data", 64, Placement::Readback);
    let step = gpu.affine_step("step", &data, 3, 1);
    let (queue, gate) = (gpu.compute_queue(), HostTimeline::new(&gpu, "gate").unwrap());
    let point = queue.submit(&step, &[gate.point(1)]).unwrap();
    let recorded = gpu.stats().recordings;
    match queue.record_again(&step) {
        Err(Error::RecordingPending { name, value, completed }) => {
            assert_eq!((name.as_str(), value, completed), ("step", point.value(), point.value() - 1));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(gpu.stats().recordings, recorded, "nothing was written");
    gate.signal(1).unwrap();
    point.wait().unwrap();
    queue.record_again(&step).unwrap();
}

#[test]
fn an_unfinished_recording_leaves_nothing_behind() {
    let gpu = Gpu::new();
    let data = gpu.buffer("data", 64, Placement::Device);
    let mut r = gpu.compute("dropped");
    gpu.record_affine(&mut r, &data, 1, 1);
    let recorded = gpu.stats().recordings;
    drop(r);
    assert_eq!(gpu.stats().recordings, recorded);
    assert_eq!(Arc::strong_count(&data), 1);
}

#[test]
fn too_large_buffers_name_size_and_limit() {
    let gpu = Gpu::new();
    let limit = gpu.facts().limits.allocation_bytes;
    match Buffer::new(&gpu, "huge", limit + 1, Placement::Device) {
        Err(Error::BufferTooLarge { name, size, limit: stated }) => {
            assert_eq!((name.as_str(), size), ("huge", limit + 1));
            assert!(stated <= limit);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn more_memory_than_there_is_names_buffer_size_and_what_is_free() {
    const MIB: u64 = 1 << 20;
    // A device of 160 MiB, whatever it is really.
    let gpu = Gpu::with(|mut plan| {
        plan.features -= zinc_vk::Features::MEMORY_BUDGET;
        for heap in &mut plan.adapter.heaps {
            heap.bytes = 160 * MIB;
        }
        plan
    });
    let first = Buffer::new(&gpu, "first", 96 * MIB, Placement::Device).unwrap();
    match Buffer::new(&gpu, "second", 96 * MIB, Placement::Device) {
        Err(Error::OutOfMemory { name, size, available, .. }) => {
            assert_eq!((name.as_str(), size, available), ("second", 96 * MIB, 64 * MIB));
        }
        other => panic!("{other:?}"),
    }
    drop(first);
    Buffer::new(&gpu, "second", 96 * MIB, Placement::Device).unwrap();
}

#[test]
fn memory_is_counted_and_given_back() {
    let gpu = Gpu::new();
    let ours = |gpu: &Gpu| gpu.memory_report().heaps.iter().map(|h| h.ours).sum::<u64>();
    let before = ours(&gpu);
    let small = gpu.buffer("small", 256, Placement::Device);
    let large = gpu.buffer("large", 16 << 20, Placement::Upload);
    let both = ours(&gpu) - before;
    assert!(both >= (1 << 10) + (64 << 20), "{both} bytes for 1 KiB and 64 MiB");
    for heap in gpu.memory_report().heaps {
        assert!(heap.ours <= heap.total && heap.available <= heap.total, "{heap:?}");
    }
    drop((small, large));
    assert_eq!(ours(&gpu), before);
}

#[test]
fn a_pipeline_that_the_device_cannot_run_is_an_error_with_numbers() {
    let gpu = Gpu::new();
    let spirv = words(include_bytes!("shaders/affine.spv"));
    let spec = PipelineSpec { name: "p", spirv: &spirv, push_bytes: 16, constants: &[], workgroup_size: 32 };
    let limits = gpu.facts().limits.clone();
    assert!(matches!(
        Pipeline::new(&gpu, &PipelineSpec { push_bytes: limits.push_constant_bytes + 4, ..spec }),
        Err(Error::PushConstants { limit, .. }) if limit == limits.push_constant_bytes
    ));
    assert!(matches!(
        Pipeline::new(&gpu, &PipelineSpec { workgroup_size: limits.workgroup_invocations + 1, ..spec }),
        Err(Error::WorkgroupTooLarge { size, .. }) if size == limits.workgroup_invocations + 1
    ));
    for bad in [&[][..], &[1, 2, 3, 4, 5], &spirv[..4]] {
        assert!(matches!(
            Pipeline::new(&gpu, &PipelineSpec { spirv: bad, ..spec }),
            Err(Error::NotSpirv { words, .. }) if words == bad.len()
        ));
    }
}

#[test]
fn several_threads_share_a_device() {
    let gpu = Gpu::new();
    let device = Arc::clone(&gpu);
    let affine = gpu.affine(3);
    std::thread::scope(|scope| {
        for thread in 0..4u32 {
            let (device, affine) = (&device, &affine);
            scope.spawn(move || {
                for round in 0..8 {
                    let data = Buffer::new(device, "data", 4 * 100, Placement::Readback).unwrap();
                    write_words(&data, &[thread; 100]);
                    let mut r = RecordingBuilder::new(device, QueueKind::Compute, "step").unwrap();
                    let groups = 100u32.div_ceil(device.subgroup_width() * 2);
                    r.dispatch(affine, &affine_push(&data, 100, round), [groups, 1, 1]).keep(Arc::clone(&data) as _);
                    device.compute_queue().submit(&r.finish().unwrap(), &[]).unwrap().wait().unwrap();
                    assert_eq!(read_words(&data), [thread * 3 + round; 100]);
                }
            });
        }
    });
}

/// Misuse panics with the numbers; each case is one line of a caller that is wrong.
mod misuse {
    use super::*;

    fn message(run: impl FnOnce()) -> String {
        let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).expect_err("this is misuse");
        panic.downcast::<String>().map(|s| *s).unwrap_or_else(|p| (*p.downcast::<&str>().unwrap()).to_owned())
    }

    #[test]
    fn panics_name_the_numbers() {
        let gpu = Gpu::new();
        let data = gpu.buffer("data", 16, Placement::Upload);
        let device = gpu.buffer("far", 16, Placement::Device);
        let affine = gpu.affine(1);
        type Case<'a> = (&'static str, Box<dyn FnOnce() + 'a>);
        let cases: [Case<'_>; 9] = [
            ("write of 8 bytes at 60 leaves buffer `data` of 64 bytes", Box::new(|| data.write(60, &[0; 8]))),
            ("read of 1 bytes at 18446744073709551615 leaves", Box::new(|| data.read(u64::MAX, &mut [0]))),
            ("load_u32 at 2 of buffer `data`: not a multiple of 4", Box::new(|| _ = data.load_u32(2))),
            ("write of buffer `far`, which lies on the device", Box::new(|| device.write(0, &[0]))),
            (
                "3 bytes of push constants for pipeline `affine`, which takes 16",
                Box::new(|| _ = gpu.compute("c").dispatch(&affine, &[0; 3], [1, 1, 1])),
            ),
            (
                "copy of 65 bytes at 0 leaves buffer `data` of 64 bytes",
                Box::new(|| _ = gpu.compute("c").copy(&data, 0, &device, 0, 65)),
            ),
            (
                "8 bytes at 0 and at 4 of buffer `data` overlap",
                Box::new(|| _ = gpu.compute("c").copy(&data, 0, &data, 4, 8)),
            ),
            ("a fill of 6 bytes at 0", Box::new(|| _ = gpu.compute("c").fill(&data, 0, 6, 0))),
            ("buffer `none` has 0 bytes", Box::new(|| _ = Buffer::new(&gpu, "none", 0, Placement::Device))),
        ];
        for (expected, run) in cases {
            let message = message(run);
            assert!(message.contains(expected), "expected `{expected}`, got `{message}`");
        }
    }

    #[test]
    fn two_devices_do_not_mix() {
        let (a, b) = (Gpu::new(), Gpu::new());
        let data = a.buffer("data", 16, Placement::Readback);
        let step = a.affine_step("step", &data, 1, 1);
        let said = message(|| _ = b.compute_queue().submit(&step, &[]));
        assert!(said.contains("recording `step` belongs to another device"), "{said}");
        let point = a.compute_queue().submit(&step, &[]).unwrap();
        let other = b.affine_step("other", &b.buffer("data", 16, Placement::Readback), 1, 1);
        let said = message(|| _ = b.compute_queue().submit(&other, &[point]));
        assert!(said.contains("timeline `compute` is none of this device"), "{said}");
    }
}
