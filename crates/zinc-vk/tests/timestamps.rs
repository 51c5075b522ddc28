//! Timestamps are taken in order and land on the host's clock where they belong.

use zinc_vk::{ClockCalibration, ClockMethod, Error, Placement, Stage, Timestamps, host_now_ns};

mod support;

use support::{Gpu, write_words};

/// Runs four slow steps, each with its own pair of timestamps; returns begin and end of each on the host's clock, and the
/// host's clock before the first submit and after the last wait.
fn trace(gpu: &Gpu, clock: &ClockCalibration) -> (Vec<[u64; 2]>, u64, u64) {
    let timestamps = Timestamps::new(gpu, 8).unwrap();
    let data = gpu.buffer("data", 2, Placement::Readback);
    write_words(&data, &[0; 2]);
    let spin = gpu.spin();
    let mut push = data.address().to_ne_bytes().to_vec();
    push.extend(50_000u32.to_ne_bytes());
    let steps: Vec<_> = (0..4)
        .map(|n| {
            let mut r = gpu.compute("step");
            r.reset_timestamps(&timestamps, n * 2..n * 2 + 2)
                .timestamp(&timestamps, n * 2, Stage::Begin)
                .dispatch(&spin, &push, [1, 1, 1])
                .timestamp(&timestamps, n * 2 + 1, Stage::End)
                .keep(data.clone());
            r.finish().unwrap()
        })
        .collect();
    let before = host_now_ns();
    let points: Vec<_> = steps.iter().map(|s| gpu.compute_queue().submit(s, &[]).unwrap()).collect();
    points[3].wait().unwrap();
    let after = host_now_ns();
    assert_eq!(data.load_u32(0), 4);
    let ticks = timestamps.read(0..8).unwrap();
    (ticks.chunks(2).map(|pair| [clock.host_ns(pair[0]), clock.host_ns(pair[1])]).collect(), before, after)
}

fn check(gpu: &Gpu, method: ClockMethod) {
    let clock = gpu.clock_by(method).unwrap().expect("asked for only where it exists");
    assert_eq!(clock.method, method);
    let (steps, before, after) = trace(gpu, &clock);
    let mut last = 0;
    for [begin, end] in &steps {
        assert!(last <= *begin && begin <= end, "out of order: {steps:?}");
        last = *end;
    }
    // The bound is the calibration's own, and a millisecond for what the clocks drift apart during the test.
    let slack = clock.max_error_ns + 1_000_000;
    assert!(steps[0][0] + slack >= before, "begins {} before the submit at {before}: {clock:?}", steps[0][0]);
    assert!(last <= after + slack, "ends at {last}, after the wait returned at {after}: {clock:?}");
}

#[test]
fn steps_lie_between_submit_and_wait_by_the_bracketed_clock() {
    check(&Gpu::new(), ClockMethod::Bracketed);
}

#[test]
fn steps_lie_between_submit_and_wait_by_the_best_clock() {
    let gpu = Gpu::new();
    let method = gpu.clock().unwrap().method;
    check(&gpu, method);
}

#[test]
fn timestamps_that_the_host_resets_are_written_again() {
    let gpu = Gpu::new();
    let timestamps = Timestamps::new(&gpu, 1).unwrap();
    assert!(timestamps.reset_by_host(), "every device that the tests run on lets the host reset");
    let mut r = gpu.compute("stamp");
    r.timestamp(&timestamps, 0, Stage::End);
    let stamp = r.finish().unwrap();
    let mut last = 0;
    for _ in 0..3 {
        timestamps.reset(0..1);
        assert!(matches!(timestamps.read(0..1), Err(Error::TimestampsNotReady { first: 0, end: 1 })));
        gpu.compute_queue().submit(&stamp, &[]).unwrap().wait().unwrap();
        let ticks = timestamps.read(0..1).unwrap()[0];
        assert!(last < ticks, "{last}, then {ticks}");
        last = ticks;
    }
}

#[test]
fn timestamps_that_are_not_written_are_an_error() {
    let gpu = Gpu::new();
    let timestamps = Timestamps::new(&gpu, 4).unwrap();
    let mut r = gpu.compute("two of four");
    r.reset_timestamps(&timestamps, 0..4).timestamp(&timestamps, 0, Stage::Begin).timestamp(&timestamps, 1, Stage::End);
    gpu.compute_queue().submit(&r.finish().unwrap(), &[]).unwrap().wait().unwrap();
    assert_eq!(timestamps.read(0..2).unwrap().len(), 2);
    assert!(matches!(timestamps.read(0..4), Err(Error::TimestampsNotReady { first: 0, end: 4 })));
}

#[test]
#[should_panic(expected = "timestamps 3..5 of a pool of 4")]
fn reading_past_the_pool_panics() {
    let gpu = Gpu::new();
    let _ = Timestamps::new(&gpu, 4).unwrap().read(3..5);
}
