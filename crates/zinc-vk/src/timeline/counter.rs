//! The counter behind a device's timelines: a timeline semaphore.

use std::sync::Arc;
use std::time::Duration;

use ash::vk;

use super::{Counter, WaitOutcome};
use crate::error::Result;
use crate::shared::Shared;

/// A timeline semaphore whose counter starts at 0.
pub(crate) struct SemaphoreCounter {
    shared: Arc<Shared>,
    raw: vk::Semaphore,
}

impl SemaphoreCounter {
    pub(crate) fn new(shared: &Arc<Shared>, name: &str) -> Result<Self> {
        let mut kind =
            vk::SemaphoreTypeCreateInfo::default().semaphore_type(vk::SemaphoreType::TIMELINE).initial_value(0);
        let info = vk::SemaphoreCreateInfo::default().push_next(&mut kind);
        // SAFETY: timelineSemaphore is enabled (VUID-VkSemaphoreTypeCreateInfo-timelineSemaphore-03252).
        let raw = unsafe { shared.raw.create_semaphore(&info, None) }.map_err(shared.error("vkCreateSemaphore"))?;
        shared.name(raw, name);
        Ok(Self { shared: Arc::clone(shared), raw })
    }

    pub(crate) fn raw(&self) -> vk::Semaphore {
        self.raw
    }
}

impl Counter for SemaphoreCounter {
    fn value(&self) -> Result<u64> {
        // SAFETY: the semaphore is a timeline semaphore of this device (VUID-vkGetSemaphoreCounterValue-semaphore-03255).
        unsafe { self.shared.raw.get_semaphore_counter_value(self.raw) }
            .map_err(self.shared.error("vkGetSemaphoreCounterValue"))
    }

    fn wait(&self, value: u64, timeout: Duration) -> Result<WaitOutcome> {
        let info = vk::SemaphoreWaitInfo::default()
            .semaphores(std::slice::from_ref(&self.raw))
            .values(std::slice::from_ref(&value));
        let nanoseconds = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        // SAFETY: as in `value` (VUID-VkSemaphoreWaitInfo-pSemaphores-03256).
        match unsafe { self.shared.raw.wait_semaphores(&info, nanoseconds) } {
            Ok(()) => Ok(WaitOutcome::Reached),
            Err(vk::Result::TIMEOUT) => Ok(WaitOutcome::TimedOut),
            Err(error) => Err(self.shared.error("vkWaitSemaphores")(error)),
        }
    }

    fn signal(&self, value: u64) -> Result<()> {
        let info = vk::SemaphoreSignalInfo::default().semaphore(self.raw).value(value);
        // SAFETY: the host timeline is the only producer, so nothing is pending, and it only signals growing values within
        // the device's difference (VUID-VkSemaphoreSignalInfo-value-03258..03260).
        unsafe { self.shared.raw.signal_semaphore(&info) }.map_err(self.shared.error("vkSignalSemaphore"))
    }
}

impl Drop for SemaphoreCounter {
    fn drop(&mut self) {
        // SAFETY: submissions in flight hold the timelines they signal and wait for
        // (VUID-vkDestroySemaphore-semaphore-05149).
        unsafe { self.shared.raw.destroy_semaphore(self.raw, None) };
    }
}
