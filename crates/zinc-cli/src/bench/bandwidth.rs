//! Measures how fast a device reads its own memory, to compare the bytes that a token needs with it.

use std::mem::offset_of;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore as _, SeedableRng as _};
use zinc_kernels::Pipelines;
use zinc_kernels::ops::{READ_TILE_BYTES, Read};
use zinc_kernels::step::StepState;
use zinc_vk::{AdapterKind, Buffer, Device, Placement, QueueKind, Recording, RecordingBuilder, Result};

use crate::stopwatch::Stopwatch;

/// How many bytes are read on a card: far more than the caches of any card hold.
const LARGEST: u64 = 1 << 30;
/// How many bytes are read on a driver that runs on the processor, whose memory is slower.
const LARGEST_ON_CPU: u64 = 64 << 20;

/// Bytes of the pattern of random numbers that fills the memory. Memory of equal values might be compressed, and read faster.
const PATTERN_BYTES: u64 = 1 << 20;

/// The numbers of workgroups that are tried. Whether few workgroups that read much or many that read little are faster depends on the device.
const WORKGROUPS: [u32; 3] = [1_024, 4_096, 16_384];

/// The least number of runs with each number of workgroups. The first runs warm the device up, and the fastest of all counts.
const LEAST_RUNS: u32 = 3;
/// The least time for which runs are repeated, since a device takes some time to raise its clocks.
const LEAST_TIME: Duration = Duration::from_millis(100);

/// Measures how many bytes per second the device reads from its memory: the fastest of many runs on the compute queue,
/// by the device's clock, or by the host's if the device has no timestamps. The queue must have nothing else to do. All
/// memory that the measurement takes is freed at the end.
///
/// # Errors
/// [`Error::OutOfMemory`], or what the driver says.
pub(crate) fn read_bandwidth(device: &Arc<Device>) -> Result<f64> {
    let limits = &device.facts().limits;
    let limit = limits.buffer_bytes.unwrap_or(u64::MAX).min(limits.allocation_bytes);
    let bytes = buffer_bytes(device.facts().kind, zinc_model::device::available(device), limit);
    let memory = filled(device, bytes)?;
    let state = Buffer::new(device, "bandwidth state", size_of::<StepState>() as u64, Placement::Upload)?;
    // The kernel looks at no other field of the state.
    state.store_u32(offset_of!(StepState, row_count) as u64, 1);
    let stopwatch = Stopwatch::new(device)?;
    let pipelines = Pipelines::new(device.clone());
    let record = |workgroups: u32| -> Result<Arc<Recording>> {
        let y = Buffer::new(device, "bandwidth words", u64::from(workgroups) * 4, Placement::Device)?;
        let tiles = (bytes / u64::from(READ_TILE_BYTES)) as u32;
        let read = Read { state: state.address(), x: memory.address(), tiles, y: y.address(), workgroups };
        let mut recording = RecordingBuilder::new(device, QueueKind::Compute, "bandwidth")?;
        for buffer in [&memory, &state, &y] {
            recording.keep(buffer.clone());
        }
        stopwatch.start(&mut recording);
        pipelines.record(&mut recording, &read.dispatch(&pipelines.target()))?;
        stopwatch.stop(&mut recording);
        recording.finish()
    };
    let recordings = WORKGROUPS.into_iter().map(record).collect::<Result<Vec<_>>>()?;
    let (started, mut runs, mut best_ns) = (Instant::now(), 0, u64::MAX);
    while runs < LEAST_RUNS || started.elapsed() < LEAST_TIME {
        for recording in &recordings {
            best_ns = best_ns.min(stopwatch.run(recording)?.max(1));
        }
        runs += 1;
    }
    // The last submission holds the buffers until it is collected.
    device.compute_queue().collect()?;
    Ok(bytes as f64 / (best_ns as f64 * 1e-9))
}

/// How many bytes to read: [`LARGEST`], or [`LARGEST_ON_CPU`], if as many are available, and else a quarter of the available ones. It is a
/// whole number of tiles, at least one.
fn buffer_bytes(kind: AdapterKind, available: u64, limit: u64) -> u64 {
    let sensible = if kind == AdapterKind::Cpu { LARGEST_ON_CPU } else { LARGEST };
    let bytes = if sensible <= available { sensible } else { available / 4 };
    let tile = u64::from(READ_TILE_BYTES);
    (bytes.min(limit) / tile).max(1) * tile
}

/// A buffer full of random numbers.
fn filled(device: &Arc<Device>, bytes: u64) -> Result<Arc<Buffer>> {
    let memory = Buffer::new(device, "bandwidth memory", bytes, Placement::Device)?;
    let pattern = Buffer::new(device, "bandwidth pattern", PATTERN_BYTES, Placement::Upload)?;
    let mut numbers = vec![0; PATTERN_BYTES as usize];
    Xoshiro256PlusPlus::seed_from_u64(0).fill_bytes(&mut numbers);
    pattern.write(0, &numbers);
    let mut recording = RecordingBuilder::new(device, QueueKind::Compute, "bandwidth fill")?;
    let mut offset = 0;
    while offset < bytes {
        let part = PATTERN_BYTES.min(bytes - offset);
        recording.copy(&pattern, 0, &memory, offset, part);
        offset += part;
    }
    device.compute_queue().submit(&recording.finish()?, &[])?.wait()?;
    Ok(memory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_memory_is_left_behind() {
        let options = crate::options::device_options(None, crate::args::MatrixUnits::On).unwrap();
        let place = zinc_engine::Place::open(&options, &mut |_| {}).unwrap();
        let device = place.device().expect("the interpreter was not asked for");
        let ours = || device.memory_report().heaps.iter().map(|heap| heap.ours).sum::<u64>();
        let before = ours();
        let bandwidth = read_bandwidth(device).unwrap();
        // No memory is slower than 10 MB/s or faster than 100 TB/s.
        assert!((1e7..1e14).contains(&bandwidth), "{bandwidth} bytes/s");
        assert_eq!(ours(), before);
    }

    #[test]
    fn what_is_read_is_large_and_fits() {
        let bytes = |kind, available| buffer_bytes(kind, available, u64::MAX);
        assert_eq!(bytes(AdapterKind::Discrete, 80 << 30), 1 << 30);
        assert_eq!(bytes(AdapterKind::Discrete, (800 << 20) + 5), 200 << 20);
        assert_eq!(bytes(AdapterKind::Cpu, 80 << 30), 64 << 20);
        assert_eq!(bytes(AdapterKind::Integrated, 0), u64::from(READ_TILE_BYTES));
        assert_eq!(
            buffer_bytes(AdapterKind::Discrete, 80 << 30, (128 << 20) - 1),
            (128 << 20) - u64::from(READ_TILE_BYTES)
        );
    }
}
