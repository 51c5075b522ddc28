//! The open device with its queues. What the things made from it share is in `shared`.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::facts::AdapterFacts;
use crate::instance::Instance;
use crate::memory::MemoryReport;
use crate::pipeline_cache::CacheFault;
use crate::plan::DevicePlan;
use crate::queue::{Queue, QueueKind};
use crate::shared::Shared;

/// An open device with its queues.
///
/// `Send + Sync`: any thread may create things, record, submit and wait. Everything created from a device keeps the driver's
/// device alive, so the order in which things are dropped does not matter.
pub struct Device {
    pub(crate) shared: Arc<Shared>,
    compute: Arc<Queue>,
    second_compute: Option<Arc<Queue>>,
    transfer: Option<Arc<Queue>>,
}

/// What a device has counted since it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceStats {
    /// Recordings finished. It does not change while a loop submits what it has recorded before.
    pub recordings: u64,
}

impl Device {
    /// Opens the device that `plan` chose from this instance's adapters.
    ///
    /// # Errors
    /// [`Error::NoSuchDevice`] if the instance no longer lists the adapter, or what `vkCreateDevice` says.
    pub fn open(instance: &Arc<Instance>, plan: &DevicePlan) -> Result<Arc<Self>> {
        let shared = Shared::open(instance, plan)?;
        let compute = Queue::new(&shared, QueueKind::Compute, plan.compute_family)?;
        let second_compute = plan
            .second_compute
            .then(|| Queue::new(&shared, QueueKind::SecondCompute, plan.compute_family))
            .transpose()?;
        let transfer =
            plan.transfer_family.map(|family| Queue::new(&shared, QueueKind::Transfer, family)).transpose()?;
        tracing::debug!(
            device = plan.adapter.name,
            driver = plan.adapter.driver.info,
            subgroup = plan.subgroup_width,
            compute_family = plan.compute_family,
            transfer_family = ?plan.transfer_family,
            "device open"
        );
        Ok(Arc::new(Self { shared, compute, second_compute, transfer }))
    }

    /// Facts of the adapter.
    pub fn facts(&self) -> &AdapterFacts {
        &self.shared.plan.adapter
    }

    /// The plan that the device was opened with.
    pub fn plan(&self) -> &DevicePlan {
        &self.shared.plan
    }

    /// Lanes of a subgroup in every pipeline of this device.
    pub fn subgroup_width(&self) -> u32 {
        self.shared.plan.subgroup_width
    }

    /// The largest number of threads that a workgroup of a pipeline can have.
    pub fn max_workgroup(&self) -> u32 {
        self.shared.max_workgroup()
    }

    /// The queue that runs dispatches and copies.
    pub fn compute_queue(&self) -> &Arc<Queue> {
        &self.compute
    }

    /// A second queue that runs dispatches and copies, where the family of the first has one. Both queues may use every buffer:
    /// Vulkan shares buffers between families of queues, and these are of one family.
    pub fn second_compute_queue(&self) -> Option<&Arc<Queue>> {
        self.second_compute.as_ref()
    }

    /// The queue that runs copies only, where the device has one.
    pub fn transfer_queue(&self) -> Option<&Arc<Queue>> {
        self.transfer.as_ref()
    }

    /// The state of every heap: its size, what is still available, and what this device's buffers use, in bytes.
    pub fn memory_report(&self) -> MemoryReport {
        self.shared.memory.report(&self.shared)
    }

    /// What was counted since the device was opened.
    pub fn stats(&self) -> DeviceStats {
        DeviceStats { recordings: self.shared.recordings.load(Ordering::Relaxed) }
    }

    /// Fails if the device is lost.
    ///
    /// # Errors
    /// [`Error::DeviceLost`].
    pub fn check(&self) -> Result<()> {
        self.shared.loss.check()
    }

    /// Treats the device as lost from now on, as though the driver had said so: every later wait and submit fails. For a
    /// caller that has given up on a device that no longer answers.
    pub fn declare_lost(&self) {
        self.shared.loss.set("Device::declare_lost");
    }

    /// Writes the pipeline cache to the directory of the plan; does nothing without one. Dropping the device writes it too.
    ///
    /// # Errors
    /// [`CacheFault::Unwritten`], which a caller may show and otherwise ignore: the device is as good as before.
    pub fn save_pipeline_cache(&self) -> Result<(), CacheFault> {
        self.shared.cache.save(&self.shared.raw)
    }

    /// Why the file of the pipeline cache was not used when the device was opened; `None` if it was used, does not exist yet,
    /// or the plan names no directory.
    pub fn pipeline_cache_fault(&self) -> Option<&CacheFault> {
        self.shared.cache.unread()
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Device").field("name", &self.facts().name).finish_non_exhaustive()
    }
}
