//! The pipeline cache and its file.
//!
//! The file is named after the device and the build of the driver, so a new driver starts afresh and two cards do not
//! overwrite each other. Drivers trust the bytes they are given, so ours carry a length and a checksum; a file that does not
//! match is ignored and written again. It is written to a temporary file first and then renamed. Two processes that end at
//! the same time leave the file of the later one.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use ash::vk;
use parking_lot::Mutex;

use crate::error::{Error, Result};
use crate::facts::AdapterFacts;
use crate::plan::DevicePlan;

const MAGIC: [u8; 8] = *b"zincvkp1";
const HEADER: usize = 24;

/// Largest file that is read; more is not a cache of ours.
const LARGEST: u64 = 256 << 20;

pub(crate) struct PipelineCache {
    raw: vk::PipelineCache,
    file: Option<PathBuf>,
    /// Checksum of what the file holds, so that a run that built nothing new writes nothing.
    on_disk: Mutex<Option<u64>>,
}

impl PipelineCache {
    /// Opens the cache of the plan's directory, or an empty one.
    pub(crate) fn open(device: &ash::Device, plan: &DevicePlan) -> Result<Self> {
        let file = plan.pipeline_cache_dir.as_ref().map(|dir| dir.join(file_name(&plan.adapter)));
        let stored = file.as_deref().and_then(read);
        let on_disk = Mutex::new(stored.as_deref().map(fnv1a));
        let initial = stored.unwrap_or_default();
        let create = |data: &[u8]| {
            let info = vk::PipelineCacheCreateInfo::default().initial_data(data);
            // SAFETY: the data was written by this driver build for this device, whole by its checksum, or is empty
            // (VUID-VkPipelineCacheCreateInfo-initialDataSize-00769).
            unsafe { device.create_pipeline_cache(&info, None) }
        };
        let raw = create(&initial)
            .or_else(|error| {
                tracing::warn!("the driver refuses the pipeline cache ({error}); starting an empty one");
                create(&[])
            })
            .map_err(Error::vulkan("vkCreatePipelineCache"))?;
        Ok(Self { raw, file, on_disk })
    }

    pub(crate) fn raw(&self) -> vk::PipelineCache {
        self.raw
    }

    /// Writes the file, where there is one.
    pub(crate) fn save(&self, device: &ash::Device) -> Result<()> {
        let Some(file) = &self.file else {
            return Ok(());
        };
        // SAFETY: the cache belongs to this device and synchronises itself.
        let data =
            unsafe { device.get_pipeline_cache_data(self.raw) }.map_err(Error::vulkan("vkGetPipelineCacheData"))?;
        let mut on_disk = self.on_disk.lock();
        let sum = fnv1a(&data);
        if *on_disk != Some(sum) {
            write(file, &data).map_err(|e| Error::PipelineCache { path: file.clone(), reason: e.to_string() })?;
            *on_disk = Some(sum);
        }
        Ok(())
    }

    pub(crate) fn destroy(&self, device: &ash::Device) {
        // SAFETY: called once, by the drop of the device, when no pipeline is being created.
        unsafe { device.destroy_pipeline_cache(self.raw, None) };
    }
}

/// Device, driver build and driver version; what the driver's own header would refuse has another name here.
fn file_name(adapter: &AdapterFacts) -> String {
    let mut uuid = String::new();
    for byte in adapter.driver_uuid {
        // Writing to a string cannot fail.
        let _ = write!(uuid, "{byte:02x}");
    }
    format!("{:04x}-{:04x}-{uuid}-{:08x}.pipelines", adapter.vendor_id, adapter.device_id, adapter.driver.version)
}

/// The driver's bytes, if the file exists and is whole.
fn read(file: &Path) -> Option<Vec<u8>> {
    let length = std::fs::metadata(file).ok()?.len();
    let bytes = if length <= LARGEST { std::fs::read(file).ok() } else { None };
    let data = bytes.as_deref().and_then(unpack).map(<[u8]>::to_vec);
    if data.is_none() {
        tracing::warn!("ignoring the pipeline cache {}: it is damaged", file.display());
    }
    data
}

fn write(file: &Path, data: &[u8]) -> std::io::Result<()> {
    let dir = file.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(dir)?;
    let temporary = file.with_extension(format!("{}.tmp", std::process::id()));
    let result = std::fs::write(&temporary, pack(data)).and_then(|()| std::fs::rename(&temporary, file));
    if result.is_err() {
        let _ = std::fs::remove_file(&temporary);
    }
    result
}

fn pack(data: &[u8]) -> Vec<u8> {
    let mut file = Vec::with_capacity(HEADER + data.len());
    file.extend(MAGIC);
    file.extend((data.len() as u64).to_le_bytes());
    file.extend(fnv1a(data).to_le_bytes());
    file.extend(data);
    file
}

fn unpack(file: &[u8]) -> Option<&[u8]> {
    let (header, data) = file.split_at_checked(HEADER)?;
    let word = |at: usize| header[at..at + 8].try_into().map(u64::from_le_bytes).ok();
    (header[..8] == MAGIC && word(8)? == data.len() as u64 && word(16)? == fnv1a(data)).then_some(data)
}

/// 64-bit FNV-1a: notices damage, promises nothing against forgery.
fn fnv1a(data: &[u8]) -> u64 {
    data.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packed_file_unpacks() {
        for data in [&b""[..], b"x", &[7; 1000]] {
            assert_eq!(unpack(&pack(data)), Some(data));
        }
    }

    #[test]
    fn damage_is_noticed_at_every_byte_and_length() {
        let whole = pack(b"some pipelines");
        for cut in 0..whole.len() {
            assert_eq!(unpack(&whole[..cut]), None, "cut at {cut}");
        }
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x10;
            assert_eq!(unpack(&damaged), None, "flipped at {at}");
        }
        let mut longer = whole;
        longer.push(0);
        assert_eq!(unpack(&longer), None);
    }

    #[test]
    fn writing_replaces_the_file_and_leaves_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("new/a.pipelines");
        write(&file, b"one").unwrap();
        write(&file, b"two").unwrap();
        assert_eq!(read(&file).as_deref(), Some(&b"two"[..]));
        assert_eq!(std::fs::read_dir(file.parent().unwrap()).unwrap().count(), 1);
    }
}
