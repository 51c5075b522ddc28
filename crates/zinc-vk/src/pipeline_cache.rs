//! The pipeline cache: what the driver keeps of the pipelines it has compiled, so that the next start compiles none of them.
//!
//! A cache saves time and nothing else. So nothing that happens to it is an [`Error`](crate::Error): a cache that cannot be
//! read starts empty, one that cannot be written stays in memory, and one that the driver cannot create is left out. What
//! happened is a [`CacheFault`], which a caller may show, and a warning through `tracing`.
//!
//! The file, its name and its checksum are in `file`.

mod file;

use std::path::PathBuf;

use ash::vk;
use parking_lot::Mutex;

use crate::plan::DevicePlan;

/// Why the pipeline cache was not read or not written.
///
/// The device works all the same: it compiles its pipelines where it would have found them. That is why this is not an
/// [`Error`](crate::Error).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CacheFault {
    /// The file exists and was not used: it cannot be read, or what it holds is damaged.
    #[error("ignoring the pipeline cache {}: {reason}; its pipelines are compiled again", path.display())]
    Unread {
        /// The file.
        path: PathBuf,
        /// What the system or the check of the file said.
        reason: String,
    },
    /// The file could not be written; whatever stood there before is still there.
    #[error("cannot write the pipeline cache {}: {reason}; the next start compiles its pipelines again", path.display())]
    Unwritten {
        /// The file.
        path: PathBuf,
        /// What the system or the driver said.
        reason: String,
    },
}

/// The driver's cache, and the file that holds it between runs.
pub(crate) struct PipelineCache {
    /// Null where the driver cannot create a cache; pipelines are then compiled without one.
    raw: vk::PipelineCache,
    /// `None` keeps the cache in memory.
    file: Option<PathBuf>,
    /// What went wrong when the file was read.
    unread: Option<CacheFault>,
    state: Mutex<State>,
}

struct State {
    /// Checksum of what the file holds, so that a run that built nothing new writes nothing; `None` if it holds nothing useful.
    on_disk: Option<u64>,
    /// Whether a failed write has been logged: later ones of the same device fail for the same reason.
    warned: bool,
}

impl PipelineCache {
    /// Opens the cache of the plan's directory, or an empty one.
    pub(crate) fn open(device: &ash::Device, plan: &DevicePlan) -> Self {
        let file = plan.pipeline_cache_dir.as_ref().map(|dir| dir.join(file::name(&plan.adapter)));
        let (stored, unread) = match file.as_deref().map(file::read) {
            None => (None, None),
            Some(Ok(stored)) => (stored, None),
            Some(Err(reason)) => (None, file.clone().map(|path| CacheFault::Unread { path, reason })),
        };
        if let Some(fault) = &unread {
            tracing::warn!("{fault}");
        }
        let create = |data: &[u8]| {
            let info = vk::PipelineCacheCreateInfo::default().initial_data(data);
            // SAFETY: the data was written by this driver build for this device, whole by its checksum, or is empty
            // (VUID-VkPipelineCacheCreateInfo-initialDataSize-00769).
            unsafe { device.create_pipeline_cache(&info, None) }
        };
        let raw = create(stored.as_deref().unwrap_or_default())
            .or_else(|error| {
                tracing::warn!("the driver refuses what the pipeline cache holds ({error}); starting an empty one");
                create(&[])
            })
            .unwrap_or_else(|error| {
                tracing::warn!("the driver creates no pipeline cache ({error}); going on without one");
                vk::PipelineCache::null()
            });
        let on_disk = stored.as_deref().map(file::checksum);
        Self { raw, file, unread, state: Mutex::new(State { on_disk, warned: false }) }
    }

    /// The driver's cache, which may be null: a pipeline may be created without one.
    pub(crate) fn raw(&self) -> vk::PipelineCache {
        self.raw
    }

    /// Why the file was not used when the device was opened.
    pub(crate) fn unread(&self) -> Option<&CacheFault> {
        self.unread.as_ref()
    }

    /// Writes the file where the plan names a directory and the file does not hold the same already.
    pub(crate) fn save(&self, device: &ash::Device) -> Result<(), CacheFault> {
        let Some(path) = self.file.as_ref().filter(|_| self.raw != vk::PipelineCache::null()) else {
            return Ok(());
        };
        let mut state = self.state.lock();
        // SAFETY: the cache belongs to this device, is not null and synchronises itself.
        let written = unsafe { device.get_pipeline_cache_data(self.raw) }
            .map_err(|error| format!("vkGetPipelineCacheData failed: {error}"))
            .and_then(|data| {
                let sum = file::checksum(&data);
                if state.on_disk != Some(sum) {
                    file::write(path, &data).map_err(|error| error.to_string())?;
                    state.on_disk = Some(sum);
                }
                Ok(())
            });
        written.map_err(|reason| {
            let fault = CacheFault::Unwritten { path: path.clone(), reason };
            if !std::mem::replace(&mut state.warned, true) {
                tracing::warn!("{fault}");
            }
            fault
        })
    }

    pub(crate) fn destroy(&self, device: &ash::Device) {
        // SAFETY: called once, by the drop of the device, when no pipeline is being created; null is allowed.
        unsafe { device.destroy_pipeline_cache(self.raw, None) };
    }
}
