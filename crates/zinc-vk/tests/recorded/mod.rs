//! Facts of devices that are not at hand. Those of llvmpipe were read from the driver, and the limits, subgroups and features of the
//! R9700 from its compiler's null device; the rest is put together from published limits, and plausible rather than measured
//! (`cargo run -p zinc-vk --example facts` records a real device). No heap budgets are kept: they change by the minute.

use zinc_vk::{
    AdapterFacts, AdapterKind, ApiVersion, DriverFacts, Features, Heap, Limits, MatrixElement, MatrixShape, MemoryType,
    PciAddress, QueueAbilities, QueueFamily, SubgroupFacts, SubgroupOps,
};

pub(crate) const GIB: u64 = 1 << 30;

/// The list that a loader gives: the facts with their indices.
pub(crate) fn listed(mut facts: Vec<AdapterFacts>) -> Vec<AdapterFacts> {
    for (index, f) in facts.iter_mut().enumerate() {
        f.index = index;
    }
    facts
}

/// [`listed`], from anything that iterates.
pub(crate) fn adapters(facts: impl IntoIterator<Item = AdapterFacts>) -> Vec<AdapterFacts> {
    listed(facts.into_iter().collect())
}

fn family(abilities: QueueAbilities, queues: u32, timestamp_bits: u32) -> QueueFamily {
    QueueFamily { abilities, queues, timestamp_bits }
}

fn heap(bytes: u64, device_local: bool) -> Heap {
    Heap { bytes, device_local, budget: None }
}

/// Letters as in `vulkaninfo`'s order: device-local, host-visible, coherent, cached.
fn memory(heap: u32, flags: &str) -> MemoryType {
    MemoryType {
        heap,
        device_local: flags.contains('d'),
        host_visible: flags.contains('v'),
        host_coherent: flags.contains('c'),
        host_cached: flags.contains('a'),
    }
}

/// Everything but cooperative matrices.
fn modern() -> Features {
    Features::all() - Features::COOPERATIVE_MATRIX - Features::PIPELINE_STATISTICS
}

fn names(extensions: &[&str]) -> Vec<String> {
    extensions.iter().map(|&e| e.to_owned()).collect()
}

const UNIVERSAL: QueueAbilities =
    QueueAbilities::GRAPHICS.union(QueueAbilities::COMPUTE).union(QueueAbilities::TRANSFER);

/// NVIDIA H100 80GB HBM3, driver 580, Linux.
pub(crate) fn h100() -> AdapterFacts {
    AdapterFacts {
        index: 0,
        name: "NVIDIA H100 80GB HBM3".to_owned(),
        kind: AdapterKind::Discrete,
        vendor_id: 0x10de,
        device_id: 0x2330,
        device_uuid: [0x48; 16],
        driver_uuid: [0x58; 16],
        pci: Some(PciAddress { domain: 0, bus: 4, device: 0, function: 0 }),
        driver: DriverFacts { id: 4, name: "NVIDIA".to_owned(), info: "580.95.05".to_owned(), version: 0x9117_c140 },
        api_version: ApiVersion { major: 1, minor: 4, patch: 312 },
        limits: Limits {
            push_constant_bytes: 256,
            allocation_bytes: 0xffe0_0000,
            buffer_bytes: Some(1 << 40),
            allocations: 4_294_967_295,
            shared_memory_bytes: 49_152,
            workgroup_invocations: 1024,
            workgroup_size: [1024, 1024, 64],
            workgroup_count: [2_147_483_647, 65_535, 65_535],
            timeline_difference: i32::MAX as u64,
            timestamp_period_ns: 1.0,
        },
        families: vec![
            family(UNIVERSAL | QueueAbilities::SPARSE, 16, 64),
            family(QueueAbilities::TRANSFER | QueueAbilities::SPARSE, 2, 64),
            family(QueueAbilities::COMPUTE | QueueAbilities::TRANSFER | QueueAbilities::SPARSE, 8, 64),
            family(QueueAbilities::TRANSFER | QueueAbilities::SPARSE | QueueAbilities::VIDEO, 7, 32),
            family(QueueAbilities::TRANSFER | QueueAbilities::SPARSE | QueueAbilities::VIDEO, 8, 32),
        ],
        heaps: vec![heap(85_520_809_984, true), heap(101_344_559_104, false)],
        memory_types: vec![memory(1, ""), memory(0, "d"), memory(1, "vc"), memory(1, "vca"), memory(0, "dvc")],
        subgroup: SubgroupFacts {
            default: 32,
            min: 32,
            max: 32,
            selectable: true,
            per_workgroup: 2_097_152,
            ops: SubgroupOps::all(),
        },
        features: Features::all(),
        matrix_shapes: vec![
            MatrixShape { m: 16, n: 16, k: 32, a: MatrixElement::S8, b: MatrixElement::S8, result: MatrixElement::S32 },
            MatrixShape {
                m: 16,
                n: 16,
                k: 16,
                a: MatrixElement::F16,
                b: MatrixElement::F16,
                result: MatrixElement::F32,
            },
        ],
        extensions: names(&[
            "VK_EXT_calibrated_timestamps",
            "VK_EXT_memory_budget",
            "VK_EXT_pci_bus_info",
            "VK_EXT_subgroup_size_control",
            "VK_KHR_cooperative_matrix",
            "VK_KHR_synchronization2",
        ]),
    }
}

/// The same card through Mesa's driver for it.
pub(crate) fn nvk() -> AdapterFacts {
    AdapterFacts {
        name: "NVIDIA H100 80GB HBM3 (NVK GH100)".to_owned(),
        device_uuid: [0x49; 16],
        driver_uuid: [0x59; 16],
        driver: DriverFacts { id: 24, name: "NVK".to_owned(), info: "Mesa 25.0.7".to_owned(), version: 0x0640_0007 },
        features: modern(),
        matrix_shapes: Vec::new(),
        families: vec![family(UNIVERSAL | QueueAbilities::SPARSE, 1, 64)],
        ..h100()
    }
}

/// AMD Radeon AI PRO R9700 through RADV. Limits, subgroups and features are what the driver states for gfx1201; queues, heaps
/// and ids are those of the card.
pub(crate) fn r9700() -> AdapterFacts {
    AdapterFacts {
        index: 0,
        name: "AMD Radeon AI PRO R9700 (RADV GFX1201)".to_owned(),
        kind: AdapterKind::Discrete,
        vendor_id: 0x1002,
        device_id: 0x7551,
        device_uuid: [0x52; 16],
        driver_uuid: [0x62; 16],
        pci: Some(PciAddress { domain: 0, bus: 3, device: 0, function: 0 }),
        driver: DriverFacts { id: 3, name: "radv".to_owned(), info: "Mesa 25.0.7".to_owned(), version: 0x0640_0007 },
        api_version: ApiVersion { major: 1, minor: 4, patch: 305 },
        limits: Limits {
            push_constant_bytes: 256,
            allocation_bytes: 0xffff_fffc,
            buffer_bytes: Some(0xffff_fffc),
            allocations: 4_294_967_295,
            shared_memory_bytes: 65_536,
            workgroup_invocations: 1024,
            workgroup_size: [1024, 1024, 1024],
            workgroup_count: [4_294_967_295, 65_535, 65_535],
            timeline_difference: u64::MAX,
            timestamp_period_ns: 10.0,
        },
        families: vec![
            family(UNIVERSAL | QueueAbilities::SPARSE, 1, 64),
            family(QueueAbilities::COMPUTE | QueueAbilities::TRANSFER | QueueAbilities::SPARSE, 4, 64),
            family(QueueAbilities::SPARSE, 1, 64),
        ],
        heaps: vec![heap(34_208_743_424, true), heap(33_285_996_544, false)],
        memory_types: vec![memory(0, "d"), memory(1, "vc"), memory(0, "dvc"), memory(1, "vca")],
        subgroup: SubgroupFacts {
            default: 64,
            min: 32,
            max: 64,
            selectable: true,
            per_workgroup: 4_294_967_295,
            ops: SubgroupOps::all(),
        },
        features: modern(),
        matrix_shapes: Vec::new(),
        extensions: names(&[
            "VK_EXT_calibrated_timestamps",
            "VK_EXT_memory_budget",
            "VK_EXT_pci_bus_info",
            "VK_EXT_subgroup_size_control",
            "VK_KHR_maintenance4",
            "VK_KHR_shader_integer_dot_product",
            "VK_KHR_synchronization2",
        ]),
    }
}

/// The same card through AMD's own open driver.
pub(crate) fn amdvlk_r9700() -> AdapterFacts {
    AdapterFacts {
        name: "AMD Radeon AI PRO R9700".to_owned(),
        device_uuid: [0x53; 16],
        driver_uuid: [0x63; 16],
        driver: DriverFacts {
            id: 2,
            name: "AMD open-source driver".to_owned(),
            info: "2025.Q2.1".to_owned(),
            version: 0x0080_0150,
        },
        ..r9700()
    }
}

/// Intel Iris Xe, integrated, through Mesa.
pub(crate) fn intel_igpu() -> AdapterFacts {
    AdapterFacts {
        index: 0,
        name: "Intel(R) Iris(R) Xe Graphics (TGL GT2)".to_owned(),
        kind: AdapterKind::Integrated,
        vendor_id: 0x8086,
        device_id: 0x9a49,
        device_uuid: [0x86; 16],
        driver_uuid: [0x96; 16],
        pci: Some(PciAddress { domain: 0, bus: 0, device: 2, function: 0 }),
        driver: DriverFacts {
            id: 5,
            name: "Intel open-source Mesa driver".to_owned(),
            info: "Mesa 22.3.6".to_owned(),
            version: 0x0580_3006,
        },
        api_version: ApiVersion { major: 1, minor: 3, patch: 230 },
        limits: Limits {
            push_constant_bytes: 128,
            allocation_bytes: 4 * GIB,
            buffer_bytes: Some(4 * GIB),
            allocations: 4_294_967_295,
            shared_memory_bytes: 65_536,
            workgroup_invocations: 1024,
            workgroup_size: [1024, 1024, 1024],
            workgroup_count: [65_535, 65_535, 65_535],
            timeline_difference: u64::MAX,
            timestamp_period_ns: 52.083_332,
        },
        families: vec![family(UNIVERSAL, 1, 36)],
        heaps: vec![heap(12 * GIB, true)],
        memory_types: vec![memory(0, "dvca"), memory(0, "dvc")],
        subgroup: SubgroupFacts {
            default: 32,
            min: 8,
            max: 32,
            selectable: true,
            per_workgroup: 56,
            ops: SubgroupOps::all(),
        },
        features: modern(),
        matrix_shapes: Vec::new(),
        extensions: names(&[
            "VK_EXT_calibrated_timestamps",
            "VK_EXT_memory_budget",
            "VK_EXT_pci_bus_info",
            "VK_EXT_subgroup_size_control",
            "VK_KHR_synchronization2",
        ]),
    }
}

/// Mesa's driver on the processor, as in Debian 12.
pub(crate) fn lavapipe() -> AdapterFacts {
    AdapterFacts {
        index: 0,
        name: "llvmpipe (LLVM 15.0.6, 256 bits)".to_owned(),
        kind: AdapterKind::Cpu,
        vendor_id: 0x10005,
        device_id: 0,
        device_uuid: *b"mesa22.3.6\0\0\0\0\0\0",
        driver_uuid: *b"llvmpipeUUID\0\0\0\0",
        pci: None,
        driver: DriverFacts {
            id: 13,
            name: "llvmpipe".to_owned(),
            info: "Mesa 22.3.6 (LLVM 15.0.6)".to_owned(),
            version: 1,
        },
        api_version: ApiVersion { major: 1, minor: 3, patch: 230 },
        limits: Limits {
            push_constant_bytes: 128,
            allocation_bytes: 2 * GIB,
            buffer_bytes: Some(u64::from(u32::MAX)),
            allocations: 4_294_967_295,
            shared_memory_bytes: 32_768,
            workgroup_invocations: 1024,
            workgroup_size: [1024, 1024, 1024],
            workgroup_count: [65_535, 65_535, 65_535],
            timeline_difference: u64::MAX,
            timestamp_period_ns: 1.0,
        },
        families: vec![family(UNIVERSAL, 1, 64)],
        heaps: vec![heap(2 * GIB, true)],
        memory_types: vec![memory(0, "dvca")],
        subgroup: SubgroupFacts {
            default: 8,
            min: 8,
            max: 8,
            selectable: true,
            per_workgroup: 32,
            ops: SubgroupOps::all() - SubgroupOps::CLUSTERED,
        },
        features: modern() - Features::MEMORY_BUDGET,
        matrix_shapes: Vec::new(),
        extensions: names(&[
            "VK_EXT_calibrated_timestamps",
            "VK_EXT_subgroup_size_control",
            "VK_KHR_maintenance4",
            "VK_KHR_shader_integer_dot_product",
            "VK_KHR_synchronization2",
        ]),
    }
}
