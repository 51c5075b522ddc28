//! Queues steps ahead on one timeline, and prints when each was submitted, ran and was seen complete.
//!
//! `cargo run -p zinc-vk --example timeline [DEPTH]` keeps DEPTH steps (default 3) in flight, with host work after each wait.
//! Every step's submit comes before the end of the step before it, so the device always has the next one at hand.

use std::time::{Duration, Instant};

use zinc_vk::{
    Access, Buffer, Device, DevicePlan, Instance, InstanceOptions, Placement, QueueKind, RecordingBuilder, Stage,
    Timestamps, Wants, host_now_ns,
};

const STEPS: usize = 10;
const BYTES: u64 = 4 << 20;
const HOST_WORK: Duration = Duration::from_micros(250);

#[allow(clippy::print_stdout, reason = "an example prints")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let depth: usize = std::env::args().nth(1).map_or(Ok(3), |arg| arg.parse())?;
    let depth = depth.clamp(1, STEPS);

    let instance = Instance::new(&InstanceOptions::default())?;
    let plan = DevicePlan::choose(&instance.adapters()?, &Wants::default())?;
    for notice in &plan.notices {
        println!("note: {notice}");
    }
    let device = Device::open(&instance, &plan)?;
    println!("{}, {depth} steps in flight, {HOST_WORK:?} of host work a step", device.facts().name);

    // One recording per slot, recorded once: a step fills one buffer and copies it to another.
    let from = Buffer::new(&device, "from", BYTES, Placement::Device)?;
    let to = Buffer::new(&device, "to", BYTES, Placement::Device)?;
    let timestamps = Timestamps::new(&device, 2 * STEPS as u32)?;
    let mut steps = Vec::new();
    for slot in 0..STEPS as u32 {
        let mut r = RecordingBuilder::new(&device, QueueKind::Compute, &format!("step {slot}"))?;
        r.reset_timestamps(&timestamps, 2 * slot..2 * slot + 2)
            .timestamp(&timestamps, 2 * slot, Stage::Begin)
            .fill(&from, 0, BYTES, slot)
            .barrier(Access::TRANSFER_WRITE, Access::TRANSFER_READ)
            .copy(&from, 0, &to, 0, BYTES)
            .timestamp(&timestamps, 2 * slot + 1, Stage::End);
        steps.push(r.finish()?);
    }

    let queue = device.compute_queue();
    // Once beforehand, so that the first step does not also touch its memory for the first time.
    queue.submit(&steps[0], &[])?.wait()?;
    let clock = device.clock()?;
    let start = host_now_ns();
    let (mut points, mut submitted, mut seen) = (Vec::new(), Vec::new(), Vec::new());
    for n in 0..STEPS + depth {
        if n >= depth {
            let oldest: &zinc_vk::TimelinePoint = &points[n - depth];
            oldest.wait()?;
            seen.push(host_now_ns());
            // What a host does with a result: here, nothing for a while.
            let busy = Instant::now();
            while busy.elapsed() < HOST_WORK {
                std::hint::spin_loop();
            }
        }
        if n < STEPS {
            submitted.push(host_now_ns());
            points.push(queue.submit(&steps[n], &[])?);
        }
    }

    let micros = |ns: u64| ns as f64 / 1e3 - start as f64 / 1e3;
    println!("step  submitted      begins        ends  seen complete    idle before   [us]");
    let mut last_end = None;
    for (n, ticks) in timestamps.read(0..2 * STEPS as u32)?.chunks(2).enumerate() {
        let (begin, end) = (micros(clock.host_ns(ticks[0])), micros(clock.host_ns(ticks[1])));
        let idle = last_end.map_or(0.0, |last: f64| begin - last);
        println!(
            "{n:4} {:10.1}  {begin:10.1}  {end:10.1}     {:10.1}     {idle:10.1}",
            micros(submitted[n]),
            micros(seen[n])
        );
        last_end = Some(end);
    }
    println!("{} submits, {} fence waits", queue.stats().submits, queue.stats().fence_waits);
    Ok(())
}
