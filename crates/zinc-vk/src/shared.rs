//! What everything that is made from a device shares: the driver's device, its functions, its memory and its caches.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString};
use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

use ash::vk;

use crate::error::{Error, Result};
use crate::facts::{AdapterFacts, Features, KNOWN_EXTENSIONS};
use crate::instance::Instance;
use crate::memory::Memory;
use crate::pipeline_cache::PipelineCache;
use crate::plan::DevicePlan;

/// The driver's device and what belongs to it. Everything created from a device holds it, so that it is destroyed last.
pub(crate) struct Shared {
    pub(crate) raw: ash::Device,
    pub(crate) physical: vk::PhysicalDevice,
    pub(crate) plan: DevicePlan,
    pub(crate) sync2: Sync2,
    /// The functions of `VK_EXT_calibrated_timestamps`, if the device has it.
    pub(crate) calibrated: Option<ash::ext::calibrated_timestamps::Device>,
    /// The functions of `VK_EXT_conditional_rendering`, if the plan has [`Features::CONDITIONAL_DISPATCH`].
    pub(crate) conditional: Option<ash::ext::conditional_rendering::Device>,
    pub(crate) loss: Arc<Loss>,
    pub(crate) memory: Memory,
    pub(crate) cache: PipelineCache,
    /// Recordings finished since the device was opened.
    pub(crate) recordings: AtomicU64,
    /// The functions that name objects, if the validation layer is on.
    names: Option<ash::ext::debug_utils::Device>,
    pub(crate) instance: Arc<Instance>,
}

/// Whether a device is lost, and which call noticed. Shared by the device and its timelines.
#[derive(Debug, Default)]
pub(crate) struct Loss(OnceLock<&'static str>);

impl Loss {
    /// Fails with [`Error::DeviceLost`] if the device is lost.
    pub(crate) fn check(&self) -> Result<()> {
        match self.0.get() {
            None => Ok(()),
            Some(during) => Err(Error::DeviceLost { during }),
        }
    }

    /// Remembers that `during` reported the loss, unless an earlier call did, and returns the error.
    pub(crate) fn set(&self, during: &'static str) -> Error {
        Error::DeviceLost { during: self.0.get_or_init(|| during) }
    }

    /// The error for a failed call. If the call reports a loss, the loss is remembered.
    pub(crate) fn error(&self, call: &'static str, source: vk::Result) -> Error {
        if source == vk::Result::ERROR_DEVICE_LOST { self.set(call) } else { Error::Vulkan { call, source } }
    }
}

/// Where the functions of synchronization2 come from: Vulkan 1.3, or the extension.
pub(crate) enum Sync2 {
    Core,
    Khr(ash::khr::synchronization2::Device),
}

impl Shared {
    /// Opens the adapter without creating anything on it.
    pub(crate) fn open(instance: &Arc<Instance>, plan: &DevicePlan) -> Result<Arc<Self>> {
        let adapter = &plan.adapter;
        let physical = find_physical(instance, adapter)?;
        let raw = create_device(instance, physical, plan)?;
        let core13 = adapter.api_version.at_least(1, 3);
        Ok(Arc::new(Self {
            sync2: if core13 {
                Sync2::Core
            } else {
                Sync2::Khr(ash::khr::synchronization2::Device::new(&instance.raw, &raw))
            },
            calibrated: plan
                .features
                .contains(Features::CALIBRATED_TIMESTAMPS)
                .then(|| ash::ext::calibrated_timestamps::Device::new(&instance.raw, &raw)),
            conditional: plan
                .features
                .contains(Features::CONDITIONAL_DISPATCH)
                .then(|| ash::ext::conditional_rendering::Device::new(&instance.raw, &raw)),
            loss: Arc::default(),
            memory: Memory::new(instance, &raw, physical, adapter)?,
            cache: PipelineCache::open(&raw, plan),
            recordings: AtomicU64::new(0),
            names: instance.debug.is_some().then(|| ash::ext::debug_utils::Device::new(&instance.raw, &raw)),
            instance: Arc::clone(instance),
            plan: plan.clone(),
            physical,
            raw,
        }))
    }

    /// Names a Vulkan object for the validation layer's messages.
    pub(crate) fn name<H: vk::Handle>(&self, handle: H, name: &str) {
        if let Some(names) = &self.names
            && let Ok(name) = CString::new(name.replace('\0', ""))
        {
            let info = vk::DebugUtilsObjectNameInfoEXT::default().object_handle(handle).object_name(&name);
            // SAFETY: the handle belongs to this device and is not yet shared with another thread
            // (VUID-vkSetDebugUtilsObjectNameEXT-pNameInfo-02588, host access externally synchronised).
            if let Err(result) = unsafe { names.set_debug_utils_object_name(&info) } {
                tracing::debug!("vkSetDebugUtilsObjectNameEXT failed: {result}");
            }
        }
    }

    /// Makes the error for a failed call. If the call reports a loss, the loss is remembered.
    pub(crate) fn error(&self, call: &'static str) -> impl Fn(vk::Result) -> Error {
        move |source| self.loss.error(call, source)
    }

    /// Whether pipelines require their subgroup width rather than take the default.
    pub(crate) fn selects_subgroup_width(&self) -> bool {
        self.has(Features::SUBGROUP_SIZE_CONTROL) && self.plan.adapter.subgroup.selectable
    }

    /// The largest number of threads of a workgroup: the lowest of the device's limits, the limit on subgroups of a workgroup
    /// among them where pipelines require a subgroup width.
    pub(crate) fn max_workgroup(&self) -> u32 {
        let AdapterFacts { limits, subgroup, .. } = &self.plan.adapter;
        let by_subgroups = if self.selects_subgroup_width() {
            subgroup.per_workgroup.saturating_mul(self.plan.subgroup_width)
        } else {
            u32::MAX
        };
        limits.workgroup_invocations.min(limits.workgroup_size[0]).min(by_subgroups)
    }

    pub(crate) fn has(&self, features: Features) -> bool {
        self.plan.features.contains(features)
    }
}

fn find_physical(instance: &Instance, adapter: &AdapterFacts) -> Result<vk::PhysicalDevice> {
    let listed = instance.physical_devices()?;
    listed.get(adapter.index).copied().ok_or_else(|| Error::NoSuchDevice {
        selector: crate::plan::DeviceSelector::Index(adapter.index),
        available: (0..listed.len()).map(|index| index.to_string()).collect(),
    })
}

fn create_device(instance: &Instance, physical: vk::PhysicalDevice, plan: &DevicePlan) -> Result<ash::Device> {
    let adapter = &plan.adapter;
    let on = |feature: Features| plan.features.contains(feature);
    let core13 = adapter.api_version.at_least(1, 3);

    let families: BTreeSet<u32> = [Some(plan.compute_family), plan.transfer_family].into_iter().flatten().collect();
    let priorities = [1.0; 2];
    let queues: Vec<_> = families
        .iter()
        .map(|&f| {
            let count = if f == plan.compute_family && plan.second_compute { 2 } else { 1 };
            vk::DeviceQueueCreateInfo::default().queue_family_index(f).queue_priorities(&priorities[..count])
        })
        .collect();

    let extensions: Vec<*const std::ffi::c_char> = KNOWN_EXTENSIONS
        .into_iter()
        .filter(|&name| adapter.has_extension(name) && wanted(name, core13, plan.features))
        .map(CStr::as_ptr)
        .collect();

    let core = vk::PhysicalDeviceFeatures::default()
        .shader_int64(on(Features::SHADER_INT64))
        .shader_int16(on(Features::SHADER_INT16));
    let mut v11 =
        vk::PhysicalDeviceVulkan11Features::default().storage_buffer16_bit_access(on(Features::STORAGE_BUFFER_16BIT));
    let mut v12 = vk::PhysicalDeviceVulkan12Features::default()
        .timeline_semaphore(on(Features::TIMELINE_SEMAPHORE))
        .buffer_device_address(on(Features::BUFFER_DEVICE_ADDRESS))
        .scalar_block_layout(on(Features::SCALAR_BLOCK_LAYOUT))
        .storage_buffer8_bit_access(on(Features::STORAGE_BUFFER_8BIT))
        .shader_float16(on(Features::SHADER_FLOAT16))
        .shader_int8(on(Features::SHADER_INT8))
        .shader_subgroup_extended_types(on(Features::SUBGROUP_EXTENDED_TYPES))
        .host_query_reset(on(Features::HOST_QUERY_RESET))
        .vulkan_memory_model(on(Features::VULKAN_MEMORY_MODEL))
        .vulkan_memory_model_device_scope(on(Features::VULKAN_MEMORY_MODEL_DEVICE_SCOPE));
    let mut sync =
        vk::PhysicalDeviceSynchronization2Features::default().synchronization2(on(Features::SYNCHRONIZATION2));
    let mut control = vk::PhysicalDeviceSubgroupSizeControlFeatures::default()
        .subgroup_size_control(on(Features::SUBGROUP_SIZE_CONTROL))
        .compute_full_subgroups(on(Features::FULL_SUBGROUPS));
    let mut dot = vk::PhysicalDeviceShaderIntegerDotProductFeatures::default()
        .shader_integer_dot_product(on(Features::INTEGER_DOT_PRODUCT));
    let mut matrix =
        vk::PhysicalDeviceCooperativeMatrixFeaturesKHR::default().cooperative_matrix(on(Features::COOPERATIVE_MATRIX));
    let mut executable =
        vk::PhysicalDevicePipelineExecutablePropertiesFeaturesKHR::default().pipeline_executable_info(true);
    let mut conditional = vk::PhysicalDeviceConditionalRenderingFeaturesEXT::default().conditional_rendering(true);

    let mut info = vk::DeviceCreateInfo::default()
        .queue_create_infos(&queues)
        .enabled_extension_names(&extensions)
        .enabled_features(&core)
        .push_next(&mut v11)
        .push_next(&mut v12)
        .push_next(&mut sync);
    if on(Features::SUBGROUP_SIZE_CONTROL) {
        info = info.push_next(&mut control);
    }
    if on(Features::INTEGER_DOT_PRODUCT) {
        info = info.push_next(&mut dot);
    }
    if on(Features::COOPERATIVE_MATRIX) {
        info = info.push_next(&mut matrix);
    }
    if on(Features::PIPELINE_STATISTICS) {
        info = info.push_next(&mut executable);
    }
    if on(Features::CONDITIONAL_DISPATCH) {
        info = info.push_next(&mut conditional);
    }
    // SAFETY: `physical` belongs to this instance; features and extensions are among those that the adapter's facts list
    // (VUID-vkCreateDevice-ppEnabledExtensionNames-01387); the families are distinct and exist
    // (VUID-VkDeviceCreateInfo-queueFamilyIndex-02802).
    unsafe { instance.raw.create_device(physical, &info, None) }.map_err(Error::vulkan("vkCreateDevice"))
}

/// Whether an extension that the device lists is to be enabled. Extensions that Vulkan 1.3 took over are enabled on devices below 1.3
/// only; extensions whose feature a plan may leave out are enabled only if the plan has the feature.
fn wanted(name: &CStr, core13: bool, features: Features) -> bool {
    let promoted = [
        ash::khr::synchronization2::NAME,
        ash::khr::maintenance4::NAME,
        ash::khr::shader_integer_dot_product::NAME,
        ash::ext::subgroup_size_control::NAME,
    ];
    let left_out = [
        (ash::khr::pipeline_executable_properties::NAME, Features::PIPELINE_STATISTICS),
        (ash::ext::conditional_rendering::NAME, Features::CONDITIONAL_DISPATCH),
        (ash::khr::cooperative_matrix::NAME, Features::COOPERATIVE_MATRIX),
    ]
    .into_iter()
    .any(|(of, feature)| name == of && !features.contains(feature));
    !(left_out || core13 && promoted.contains(&name))
}

impl Drop for Shared {
    fn drop(&mut self) {
        // What goes wrong is logged there, and a cache is never needed.
        let _ = self.cache.save(&self.raw);
        self.cache.destroy(&self.raw);
        self.memory.close();
        // SAFETY: everything created from the device holds an `Arc` of this, so nothing is left; the pipeline cache and the
        // allocator's memory are freed above (VUID-vkDestroyDevice-device-05137).
        unsafe { self.raw.destroy_device(None) };
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("name", &self.plan.adapter.name).finish_non_exhaustive()
    }
}

/// The functions of synchronization2 with one signature for both origins.
///
/// # Safety
/// Each method has the preconditions of the Vulkan function that it is named after.
impl Shared {
    pub(crate) unsafe fn queue_submit2(
        &self,
        queue: vk::Queue,
        submits: &[vk::SubmitInfo2<'_>],
        fence: vk::Fence,
    ) -> ash::prelude::VkResult<()> {
        // SAFETY: the caller keeps the preconditions of the Vulkan function.
        unsafe {
            match &self.sync2 {
                Sync2::Core => self.raw.queue_submit2(queue, submits, fence),
                Sync2::Khr(khr) => khr.queue_submit2(queue, submits, fence),
            }
        }
    }

    pub(crate) unsafe fn cmd_pipeline_barrier2(&self, cmd: vk::CommandBuffer, info: &vk::DependencyInfo<'_>) {
        // SAFETY: the caller keeps the preconditions of the Vulkan function.
        unsafe {
            match &self.sync2 {
                Sync2::Core => self.raw.cmd_pipeline_barrier2(cmd, info),
                Sync2::Khr(khr) => khr.cmd_pipeline_barrier2(cmd, info),
            }
        }
    }

    pub(crate) unsafe fn cmd_write_timestamp2(
        &self,
        cmd: vk::CommandBuffer,
        stage: vk::PipelineStageFlags2,
        pool: vk::QueryPool,
        query: u32,
    ) {
        // SAFETY: the caller keeps the preconditions of the Vulkan function.
        unsafe {
            match &self.sync2 {
                Sync2::Core => self.raw.cmd_write_timestamp2(cmd, stage, pool, query),
                Sync2::Khr(khr) => khr.cmd_write_timestamp2(cmd, stage, pool, query),
            }
        }
    }
}
