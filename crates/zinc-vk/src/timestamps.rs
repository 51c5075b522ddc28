//! Timestamps of the device, and what they mean on the host's clock.
//!
//! A timestamp is reset, written and read in that order, once each, again and again: the host resets it before it submits the recording
//! that writes it, or the recording does so first; and the host reads it once the point of the submission is complete and before it submits
//! the recording again.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use ash::vk;

use crate::device::Device;
use crate::error::{Error, Result};
use crate::facts::Features;
use crate::queue::QueueKind;
use crate::recording::RecordingBuilder;
use crate::shared::Shared;

/// When a timestamp is taken, relative to the commands before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// When the work that comes before it on the queue, earlier submissions included, has left the stage that the queue works in.
    /// As the first command of a recording this is when the recording begins to run.
    Begin,
    /// When everything that comes before it on the queue is done.
    End,
}

/// A pool of timestamps of one queue.
pub struct Timestamps {
    shared: Arc<Shared>,
    pool: vk::QueryPool,
    count: u32,
    /// The valid bits of a tick, set.
    mask: u64,
}

impl Timestamps {
    /// Makes a pool of `count` timestamps for recordings of the compute queue.
    ///
    /// # Errors
    /// [`Error::NoTimestamps`] where the queue writes none, or what the driver says.
    ///
    /// # Panics
    /// If `count` is 0.
    pub fn new(device: &Device, count: u32) -> Result<Arc<Self>> {
        assert!(count > 0, "a pool of 0 timestamps");
        let shared = &device.shared;
        let bits = shared.plan.adapter.families[shared.plan.compute_family as usize].timestamp_bits;
        if bits == 0 {
            return Err(Error::NoTimestamps { device: device.facts().name.clone(), queue: QueueKind::Compute.name() });
        }
        let info = vk::QueryPoolCreateInfo::default().query_type(vk::QueryType::TIMESTAMP).query_count(count);
        // SAFETY: the count is not 0 (VUID-VkQueryPoolCreateInfo-queryCount-02763).
        let pool = unsafe { shared.raw.create_query_pool(&info, None) }.map_err(shared.error("vkCreateQueryPool"))?;
        let mask = u64::MAX >> (64 - bits.min(64));
        let this = Self { shared: Arc::clone(shared), pool, count, mask };
        if this.reset_by_host() {
            // Vulkan leaves it undefined to read a query that was never reset; one that was never written is an error.
            this.reset(0..count);
        }
        Ok(Arc::new(this))
    }

    /// How many timestamps the pool has.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Whether [`Timestamps::reset`] can be called.
    pub fn reset_by_host(&self) -> bool {
        self.shared.has(Features::HOST_QUERY_RESET)
    }

    /// Makes a range of timestamps ready to be written again. No submission that writes them may be in flight.
    ///
    /// # Panics
    /// If the range is empty or leaves the pool, or the device does not let the host reset ([`Timestamps::reset_by_host`]).
    pub fn reset(&self, range: Range<u32>) {
        self.checked(range.clone());
        assert!(self.reset_by_host(), "{} does not let the host reset timestamps", self.shared.plan.adapter.name);
        // SAFETY: hostQueryReset is enabled and the range lies inside the pool (VUID-vkResetQueryPool-None-02665, -firstQuery-09436,
        // -firstQuery-09437); that nothing in flight writes them (-firstQuery-02741) is the caller's part.
        unsafe { self.shared.raw.reset_query_pool(self.pool, range.start, range.end - range.start) };
    }

    /// Reads timestamps, in ticks of the device; [`ClockCalibration::host_ns`] turns them into nanoseconds.
    ///
    /// # Errors
    /// [`Error::TimestampsNotReady`] if one of them is not written, [`Error::DeviceLost`].
    ///
    /// # Panics
    /// If the range is empty or leaves the pool.
    pub fn read(&self, range: Range<u32>) -> Result<Vec<u64>> {
        self.checked(range.clone());
        self.shared.loss.check()?;
        let mut ticks = vec![0u64; (range.end - range.start) as usize];
        // SAFETY: the range lies inside the pool; the elements are 64 bits wide as the flag says
        // (VUID-vkGetQueryPoolResults-firstQuery-09436, -flags-00815).
        let result = unsafe {
            self.shared.raw.get_query_pool_results(self.pool, range.start, &mut ticks, vk::QueryResultFlags::TYPE_64)
        };
        match result {
            Ok(()) => {
                for tick in &mut ticks {
                    *tick &= self.mask;
                }
                Ok(ticks)
            }
            Err(vk::Result::NOT_READY) => Err(Error::TimestampsNotReady { first: range.start, end: range.end }),
            Err(error) => Err(self.shared.error("vkGetQueryPoolResults")(error)),
        }
    }

    pub(crate) fn pool(&self) -> vk::QueryPool {
        self.pool
    }

    /// Panics unless the range is inside the pool and not empty.
    pub(crate) fn checked(&self, range: Range<u32>) {
        assert!(
            range.start < range.end && range.end <= self.count,
            "timestamps {}..{} of a pool of {}",
            range.start,
            range.end,
            self.count
        );
    }
}

impl Drop for Timestamps {
    fn drop(&mut self) {
        // SAFETY: submissions in flight hold their recording, which holds the pool
        // (VUID-vkDestroyQueryPool-queryPool-00793).
        unsafe { self.shared.raw.destroy_query_pool(self.pool, None) };
    }
}

impl fmt::Debug for Timestamps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timestamps").field("count", &self.count).finish_non_exhaustive()
    }
}

/// How a [`ClockCalibration`] is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClockMethod {
    /// Both clocks read together by the driver (`VK_EXT_calibrated_timestamps`).
    Calibrated,
    /// A submission that writes a timestamp, between two readings of the host's clock.
    Bracketed,
}

/// One instant on both clocks. Clocks drift: take a new one for every trace that should be exact to a microsecond.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct ClockCalibration {
    /// The instant, in ticks of the device.
    pub ticks: u64,
    /// The instant, as [`host_now_ns`] tells it.
    pub host_ns: u64,
    /// Nanoseconds of a tick.
    pub period_ns: f64,
    /// Valid bits of a tick, 1 to 64; ticks wrap around above them.
    pub valid_bits: u32,
    /// How far `ticks` and `host_ns` may be apart, in nanoseconds.
    pub max_error_ns: u64,
    /// How the two clocks were read.
    pub method: ClockMethod,
}

impl ClockCalibration {
    /// The time on the host's clock, in nanoseconds, when the device's clock showed `ticks`. It is right for ticks up to half a
    /// wrap-around before or after the calibration.
    pub fn host_ns(&self, ticks: u64) -> u64 {
        let unused = 64 - self.valid_bits.clamp(1, 64);
        // Signed distance modulo the counter's width: shifted to the top, subtracted, shifted back with its sign.
        let distance = ((ticks << unused).wrapping_sub(self.ticks << unused)).cast_signed() >> unused;
        self.host_ns.saturating_add_signed((distance as f64 * self.period_ns).round() as i64)
    }
}

/// The host's monotonic clock in nanoseconds: `CLOCK_MONOTONIC` where there is one.
pub fn host_now_ns() -> u64 {
    #[cfg(unix)]
    {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
    }
    #[cfg(not(unix))]
    {
        use std::sync::OnceLock;
        use std::time::Instant;
        static START: OnceLock<Instant> = OnceLock::new();
        START.get_or_init(Instant::now).elapsed().as_nanos() as u64
    }
}

/// How many times the clocks are read; the reading with the smallest error is kept.
const ATTEMPTS: usize = 8;

impl Device {
    /// Reads both clocks, together where the driver can and otherwise with [`ClockMethod::Bracketed`].
    ///
    /// # Errors
    /// [`Error::NoTimestamps`], [`Error::DeviceLost`], or what the driver says.
    pub fn clock(&self) -> Result<ClockCalibration> {
        match self.calibrated()? {
            Some(calibration) => Ok(calibration),
            None => self.bracketed(),
        }
    }

    /// Reads both clocks in the given way. `None` if the driver has no [`ClockMethod::Calibrated`] on the host's clock.
    ///
    /// # Errors
    /// The errors of [`Device::clock`].
    pub fn clock_by(&self, method: ClockMethod) -> Result<Option<ClockCalibration>> {
        match method {
            ClockMethod::Calibrated => self.calibrated(),
            ClockMethod::Bracketed => self.bracketed().map(Some),
        }
    }

    fn calibrated(&self) -> Result<Option<ClockCalibration>> {
        let shared = &self.shared;
        let Some(functions) = shared.calibrated.as_ref().filter(|_| cfg!(unix)) else {
            return Ok(None);
        };
        let domains = [vk::TimeDomainKHR::DEVICE, vk::TimeDomainKHR::CLOCK_MONOTONIC];
        let offered = self.time_domains()?;
        if !domains.iter().all(|d| offered.contains(d)) {
            return Ok(None);
        }
        let infos = domains.map(|d| vk::CalibratedTimestampInfoKHR::default().time_domain(d));
        let mut best: Option<ClockCalibration> = None;
        for _ in 0..ATTEMPTS {
            // SAFETY: the extension is enabled and both domains are offered
            // (VUID-VkCalibratedTimestampInfoKHR-timeDomain-02354).
            let (stamps, deviation) = unsafe { functions.get_calibrated_timestamps(&infos) }
                .map_err(shared.error("vkGetCalibratedTimestampsEXT"))?;
            if best.is_none_or(|b| deviation < b.max_error_ns) {
                best = Some(self.calibration(stamps[0], stamps[1], deviation, ClockMethod::Calibrated));
            }
        }
        Ok(best)
    }

    fn time_domains(&self) -> Result<Vec<vk::TimeDomainKHR>> {
        let shared = &self.shared;
        let functions = ash::ext::calibrated_timestamps::Instance::new(&shared.instance.entry, &shared.instance.raw);
        // SAFETY: the physical device belongs to the instance and lists the extension.
        unsafe { functions.get_physical_device_calibrateable_time_domains(shared.physical) }
            .map_err(shared.error("vkGetPhysicalDeviceCalibrateableTimeDomainsEXT"))
    }

    fn bracketed(&self) -> Result<ClockCalibration> {
        let timestamps = Timestamps::new(self, 1)?;
        let mut builder = RecordingBuilder::new(self, QueueKind::Compute, "clock")?;
        builder.reset_timestamps(&timestamps, 0..1).timestamp(&timestamps, 0, Stage::End);
        let recording = builder.finish()?;
        let mut best: Option<ClockCalibration> = None;
        for _ in 0..ATTEMPTS {
            let before = host_now_ns();
            self.compute_queue().submit(&recording, &[])?.wait()?;
            let after = host_now_ns();
            let error = (after - before).div_ceil(2);
            if best.is_none_or(|b| error < b.max_error_ns) {
                let ticks = timestamps.read(0..1)?[0];
                best = Some(self.calibration(ticks, before + (after - before) / 2, error, ClockMethod::Bracketed));
            }
        }
        Ok(best.expect("ATTEMPTS is not 0"))
    }

    fn calibration(&self, ticks: u64, host_ns: u64, max_error_ns: u64, method: ClockMethod) -> ClockCalibration {
        let adapter = self.facts();
        let valid_bits = adapter.families[self.plan().compute_family as usize].timestamp_bits.clamp(1, 64);
        ClockCalibration {
            ticks: ticks & (u64::MAX >> (64 - valid_bits)),
            host_ns,
            period_ns: f64::from(adapter.limits.timestamp_period_ns),
            valid_bits,
            max_error_ns,
            method,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calibration(ticks: u64, valid_bits: u32, period_ns: f64) -> ClockCalibration {
        ClockCalibration {
            ticks,
            host_ns: 1_000_000,
            period_ns,
            valid_bits,
            max_error_ns: 0,
            method: ClockMethod::Calibrated,
        }
    }

    #[test]
    fn ticks_before_and_after_the_instant() {
        let c = calibration(500, 64, 10.0);
        assert_eq!(c.host_ns(500), 1_000_000);
        assert_eq!(c.host_ns(600), 1_001_000);
        assert_eq!(c.host_ns(400), 999_000);
    }

    #[test]
    fn ticks_wrap_around_at_their_width() {
        let c = calibration((1 << 36) - 2, 36, 1.0);
        assert_eq!(c.host_ns(3), 1_000_005);
        let c = calibration(3, 36, 1.0);
        assert_eq!(c.host_ns((1 << 36) - 2), 999_995);
    }

    #[test]
    fn the_host_clock_does_not_run_backwards() {
        let a = host_now_ns();
        let b = host_now_ns();
        assert!(a <= b, "{a} then {b}");
    }
}
