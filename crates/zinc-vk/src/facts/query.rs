//! Asks the driver for the [`AdapterFacts`] of a device.

use std::ffi::CStr;

use ash::vk;

use super::{
    AdapterFacts, AdapterKind, ApiVersion, DriverFacts, Features, Heap, HeapBudget, Limits, MatrixShape, MemoryType,
    PciAddress, QueueAbilities, QueueFamily, SubgroupFacts, SubgroupOps,
};
use crate::error::{Error, Result};

/// Device extensions that this crate knows a use for.
pub(crate) const KNOWN_EXTENSIONS: [&CStr; 11] = [
    ash::khr::synchronization2::NAME,
    ash::khr::cooperative_matrix::NAME,
    ash::khr::maintenance4::NAME,
    ash::khr::pipeline_executable_properties::NAME,
    ash::khr::portability_subset::NAME,
    ash::khr::shader_integer_dot_product::NAME,
    ash::ext::calibrated_timestamps::NAME,
    ash::ext::conditional_rendering::NAME,
    ash::ext::memory_budget::NAME,
    ash::ext::pci_bus_info::NAME,
    ash::ext::subgroup_size_control::NAME,
];

/// Reads the facts of one physical device.
pub(crate) fn query(
    entry: &ash::Entry,
    instance: &ash::Instance,
    physical: vk::PhysicalDevice,
    index: usize,
) -> Result<AdapterFacts> {
    // SAFETY: `physical` was enumerated from `instance`; the same holds for every query of this module.
    let basic = unsafe { instance.get_physical_device_properties(physical) };
    let api = ApiVersion::from_raw(basic.api_version);
    let extensions = extensions(instance, physical)?;
    let has = |name: &CStr| name.to_str().is_ok_and(|n| extensions.iter().any(|e| e == n));
    // A device below 1.1 knows no property chains, one below 1.2 not the structures used here: such a device is listed
    // with what the first version of the API tells, and `DevicePlan` refuses it by its version.
    let chains = api.at_least(1, 2);

    let mut v11 = vk::PhysicalDeviceVulkan11Properties::default();
    let mut v12 = vk::PhysicalDeviceVulkan12Properties::default();
    let mut control = vk::PhysicalDeviceSubgroupSizeControlProperties::default();
    let mut maintenance = vk::PhysicalDeviceMaintenance4Properties::default();
    let mut bus = vk::PhysicalDevicePCIBusInfoPropertiesEXT::default();
    let has_control = chains && (api.at_least(1, 3) || has(ash::ext::subgroup_size_control::NAME));
    let has_maintenance = chains && (api.at_least(1, 3) || has(ash::khr::maintenance4::NAME));
    let has_bus = chains && has(ash::ext::pci_bus_info::NAME);
    if chains {
        let mut props = vk::PhysicalDeviceProperties2::default().push_next(&mut v11).push_next(&mut v12);
        if has_control {
            props = props.push_next(&mut control);
        }
        if has_maintenance {
            props = props.push_next(&mut maintenance);
        }
        if has_bus {
            props = props.push_next(&mut bus);
        }
        // SAFETY: as above; each structure in the chain belongs to the device's version or to an extension it lists.
        unsafe { instance.get_physical_device_properties2(physical, &mut props) };
    }
    let features = if chains { features(instance, physical, api, &has) } else { Features::empty() };
    let compute = v11.subgroup_supported_stages.contains(vk::ShaderStageFlags::COMPUTE);
    let default = v11.subgroup_size.max(1);
    let controlled = has_control && features.contains(Features::SUBGROUP_SIZE_CONTROL);

    let limits = &basic.limits;
    Ok(AdapterFacts {
        index,
        name: text(basic.device_name_as_c_str()),
        kind: match basic.device_type {
            vk::PhysicalDeviceType::DISCRETE_GPU => AdapterKind::Discrete,
            vk::PhysicalDeviceType::INTEGRATED_GPU => AdapterKind::Integrated,
            vk::PhysicalDeviceType::VIRTUAL_GPU => AdapterKind::Virtual,
            vk::PhysicalDeviceType::CPU => AdapterKind::Cpu,
            _ => AdapterKind::Other,
        },
        vendor_id: basic.vendor_id,
        device_id: basic.device_id,
        device_uuid: v11.device_uuid,
        driver_uuid: v11.driver_uuid,
        pci: has_bus.then_some(PciAddress {
            domain: bus.pci_domain,
            bus: bus.pci_bus,
            device: bus.pci_device,
            function: bus.pci_function,
        }),
        driver: DriverFacts {
            id: v12.driver_id.as_raw().cast_unsigned(),
            name: text(v12.driver_name_as_c_str()),
            info: text(v12.driver_info_as_c_str()),
            version: basic.driver_version,
        },
        api_version: api,
        limits: Limits {
            push_constant_bytes: limits.max_push_constants_size,
            allocation_bytes: v11.max_memory_allocation_size,
            buffer_bytes: has_maintenance.then_some(maintenance.max_buffer_size),
            allocations: limits.max_memory_allocation_count,
            shared_memory_bytes: limits.max_compute_shared_memory_size,
            workgroup_invocations: limits.max_compute_work_group_invocations,
            workgroup_size: limits.max_compute_work_group_size,
            workgroup_count: limits.max_compute_work_group_count,
            timeline_difference: v12.max_timeline_semaphore_value_difference,
            timestamp_period_ns: limits.timestamp_period,
        },
        families: families(instance, physical),
        heaps: heaps(instance, physical, has(ash::ext::memory_budget::NAME)),
        memory_types: memory_types(instance, physical),
        subgroup: SubgroupFacts {
            default,
            min: if controlled { control.min_subgroup_size } else { default },
            max: if controlled { control.max_subgroup_size } else { default },
            selectable: controlled && control.required_subgroup_size_stages.contains(vk::ShaderStageFlags::COMPUTE),
            per_workgroup: if controlled { control.max_compute_workgroup_subgroups } else { u32::MAX },
            ops: if compute { subgroup_ops(v11.subgroup_supported_operations) } else { SubgroupOps::empty() },
        },
        matrix_shapes: if features.contains(Features::COOPERATIVE_MATRIX) {
            // A driver that does not tell has none.
            matrix_shapes(entry, instance, physical).unwrap_or_else(|error| {
                tracing::warn!(%error, "the shapes of cooperative matrices are unknown");
                Vec::new()
            })
        } else {
            Vec::new()
        },
        features,
        extensions,
    })
}

/// The device must have [`Features::COOPERATIVE_MATRIX`].
fn matrix_shapes(
    entry: &ash::Entry,
    instance: &ash::Instance,
    physical: vk::PhysicalDevice,
) -> Result<Vec<MatrixShape>> {
    let matrices = ash::khr::cooperative_matrix::Instance::new(entry, instance);
    // SAFETY: see `query`; the device lists the extension.
    let listed = unsafe { matrices.get_physical_device_cooperative_matrix_properties(physical) }
        .map_err(Error::vulkan("vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR"))?;
    Ok(listed.iter().filter_map(MatrixShape::new).collect())
}

fn text(name: Result<&CStr, std::ffi::FromBytesUntilNulError>) -> String {
    name.map(|n| n.to_string_lossy().into_owned()).unwrap_or_default()
}

fn extensions(instance: &ash::Instance, physical: vk::PhysicalDevice) -> Result<Vec<String>> {
    // SAFETY: see `query`.
    let listed = unsafe { instance.enumerate_device_extension_properties(physical) }
        .map_err(Error::vulkan("vkEnumerateDeviceExtensionProperties"))?;
    let mut names: Vec<String> = listed
        .iter()
        .filter_map(|e| e.extension_name_as_c_str().ok())
        .filter(|name| KNOWN_EXTENSIONS.contains(name))
        .map(|name| name.to_string_lossy().into_owned())
        .collect();
    names.sort();
    Ok(names)
}

fn features(
    instance: &ash::Instance,
    physical: vk::PhysicalDevice,
    api: ApiVersion,
    has: &dyn Fn(&CStr) -> bool,
) -> Features {
    let mut v11 = vk::PhysicalDeviceVulkan11Features::default();
    let mut v12 = vk::PhysicalDeviceVulkan12Features::default();
    let mut sync = vk::PhysicalDeviceSynchronization2Features::default();
    let mut control = vk::PhysicalDeviceSubgroupSizeControlFeatures::default();
    let mut dot = vk::PhysicalDeviceShaderIntegerDotProductFeatures::default();
    let mut matrix = vk::PhysicalDeviceCooperativeMatrixFeaturesKHR::default();
    let mut executable = vk::PhysicalDevicePipelineExecutablePropertiesFeaturesKHR::default();
    let mut conditional = vk::PhysicalDeviceConditionalRenderingFeaturesEXT::default();
    let core13 = api.at_least(1, 3);
    let mut chain = vk::PhysicalDeviceFeatures2::default().push_next(&mut v11).push_next(&mut v12);
    if core13 || has(ash::khr::synchronization2::NAME) {
        chain = chain.push_next(&mut sync);
    }
    if core13 || has(ash::ext::subgroup_size_control::NAME) {
        chain = chain.push_next(&mut control);
    }
    if core13 || has(ash::khr::shader_integer_dot_product::NAME) {
        chain = chain.push_next(&mut dot);
    }
    if has(ash::khr::cooperative_matrix::NAME) {
        chain = chain.push_next(&mut matrix);
    }
    if has(ash::khr::pipeline_executable_properties::NAME) {
        chain = chain.push_next(&mut executable);
    }
    if has(ash::ext::conditional_rendering::NAME) {
        chain = chain.push_next(&mut conditional);
    }
    // SAFETY: see `query`; each structure in the chain belongs to the device's version or to an extension it lists.
    unsafe { instance.get_physical_device_features2(physical, &mut chain) };
    let core = chain.features;

    [
        (v12.timeline_semaphore == vk::TRUE, Features::TIMELINE_SEMAPHORE),
        (v12.buffer_device_address == vk::TRUE, Features::BUFFER_DEVICE_ADDRESS),
        (core.shader_int64 == vk::TRUE, Features::SHADER_INT64),
        (v11.storage_buffer16_bit_access == vk::TRUE, Features::STORAGE_BUFFER_16BIT),
        (sync.synchronization2 == vk::TRUE, Features::SYNCHRONIZATION2),
        (v12.scalar_block_layout == vk::TRUE, Features::SCALAR_BLOCK_LAYOUT),
        (v12.storage_buffer8_bit_access == vk::TRUE, Features::STORAGE_BUFFER_8BIT),
        (v12.shader_float16 == vk::TRUE, Features::SHADER_FLOAT16),
        (core.shader_int16 == vk::TRUE, Features::SHADER_INT16),
        (v12.shader_int8 == vk::TRUE, Features::SHADER_INT8),
        (v12.shader_subgroup_extended_types == vk::TRUE, Features::SUBGROUP_EXTENDED_TYPES),
        (control.subgroup_size_control == vk::TRUE, Features::SUBGROUP_SIZE_CONTROL),
        (control.compute_full_subgroups == vk::TRUE, Features::FULL_SUBGROUPS),
        (v12.host_query_reset == vk::TRUE, Features::HOST_QUERY_RESET),
        (v12.vulkan_memory_model == vk::TRUE, Features::VULKAN_MEMORY_MODEL),
        (v12.vulkan_memory_model_device_scope == vk::TRUE, Features::VULKAN_MEMORY_MODEL_DEVICE_SCOPE),
        (dot.shader_integer_dot_product == vk::TRUE, Features::INTEGER_DOT_PRODUCT),
        (matrix.cooperative_matrix == vk::TRUE, Features::COOPERATIVE_MATRIX),
        (has(ash::ext::calibrated_timestamps::NAME), Features::CALIBRATED_TIMESTAMPS),
        (has(ash::ext::memory_budget::NAME), Features::MEMORY_BUDGET),
        (executable.pipeline_executable_info == vk::TRUE, Features::PIPELINE_STATISTICS),
        (conditional.conditional_rendering == vk::TRUE, Features::CONDITIONAL_DISPATCH),
    ]
    .into_iter()
    .filter_map(|(present, feature)| present.then_some(feature))
    .collect()
}

fn families(instance: &ash::Instance, physical: vk::PhysicalDevice) -> Vec<QueueFamily> {
    // SAFETY: see `query`.
    let families = unsafe { instance.get_physical_device_queue_family_properties(physical) };
    families
        .iter()
        .map(|f| QueueFamily {
            abilities: [
                (vk::QueueFlags::GRAPHICS, QueueAbilities::GRAPHICS),
                (vk::QueueFlags::COMPUTE, QueueAbilities::COMPUTE),
                (vk::QueueFlags::TRANSFER, QueueAbilities::TRANSFER),
                (vk::QueueFlags::SPARSE_BINDING, QueueAbilities::SPARSE),
                (vk::QueueFlags::VIDEO_DECODE_KHR, QueueAbilities::VIDEO),
                (vk::QueueFlags::VIDEO_ENCODE_KHR, QueueAbilities::VIDEO),
            ]
            .into_iter()
            .filter_map(|(flag, ability)| f.queue_flags.contains(flag).then_some(ability))
            .collect(),
            queues: f.queue_count,
            timestamp_bits: f.timestamp_valid_bits,
        })
        .collect()
}

fn heaps(instance: &ash::Instance, physical: vk::PhysicalDevice, has_budget: bool) -> Vec<Heap> {
    // SAFETY: see `query`.
    let memory = unsafe { instance.get_physical_device_memory_properties(physical) };
    let budgets = has_budget.then(|| budgets(instance, physical));
    memory
        .memory_heaps_as_slice()
        .iter()
        .enumerate()
        .map(|(i, heap)| Heap {
            bytes: heap.size,
            device_local: heap.flags.contains(vk::MemoryHeapFlags::DEVICE_LOCAL),
            budget: budgets.map(|b| b[i]),
        })
        .collect()
}

/// The present budget of each heap. The device must have [`Features::MEMORY_BUDGET`].
pub(crate) fn budgets(instance: &ash::Instance, physical: vk::PhysicalDevice) -> [HeapBudget; vk::MAX_MEMORY_HEAPS] {
    let mut budget = vk::PhysicalDeviceMemoryBudgetPropertiesEXT::default();
    let mut memory = vk::PhysicalDeviceMemoryProperties2::default().push_next(&mut budget);
    // SAFETY: see `query`; the caller has checked that the device lists VK_EXT_memory_budget.
    unsafe { instance.get_physical_device_memory_properties2(physical, &mut memory) };
    std::array::from_fn(|i| HeapBudget { budget: budget.heap_budget[i], usage: budget.heap_usage[i] })
}

fn memory_types(instance: &ash::Instance, physical: vk::PhysicalDevice) -> Vec<MemoryType> {
    // SAFETY: see `query`.
    let memory = unsafe { instance.get_physical_device_memory_properties(physical) };
    memory
        .memory_types_as_slice()
        .iter()
        .map(|t| MemoryType {
            heap: t.heap_index,
            device_local: t.property_flags.contains(vk::MemoryPropertyFlags::DEVICE_LOCAL),
            host_visible: t.property_flags.contains(vk::MemoryPropertyFlags::HOST_VISIBLE),
            host_coherent: t.property_flags.contains(vk::MemoryPropertyFlags::HOST_COHERENT),
            host_cached: t.property_flags.contains(vk::MemoryPropertyFlags::HOST_CACHED),
        })
        .collect()
}

fn subgroup_ops(flags: vk::SubgroupFeatureFlags) -> SubgroupOps {
    [
        (vk::SubgroupFeatureFlags::BASIC, SubgroupOps::BASIC),
        (vk::SubgroupFeatureFlags::VOTE, SubgroupOps::VOTE),
        (vk::SubgroupFeatureFlags::ARITHMETIC, SubgroupOps::ARITHMETIC),
        (vk::SubgroupFeatureFlags::BALLOT, SubgroupOps::BALLOT),
        (vk::SubgroupFeatureFlags::SHUFFLE, SubgroupOps::SHUFFLE),
        (vk::SubgroupFeatureFlags::SHUFFLE_RELATIVE, SubgroupOps::SHUFFLE_RELATIVE),
        (vk::SubgroupFeatureFlags::CLUSTERED, SubgroupOps::CLUSTERED),
        (vk::SubgroupFeatureFlags::QUAD, SubgroupOps::QUAD),
    ]
    .into_iter()
    .filter_map(|(flag, op)| flags.contains(flag).then_some(op))
    .collect()
}
