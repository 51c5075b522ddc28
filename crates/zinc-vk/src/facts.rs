//! What a driver says of its device, as plain data.
//!
//! [`AdapterFacts`] is everything that [`DevicePlan::choose`](crate::DevicePlan::choose) and the checks of this crate read,
//! so that both can be tested with facts recorded from devices that are not at hand. Decisions are made elsewhere, from these facts.

use std::fmt;

use bitflags::bitflags;

mod matrix;
mod query;

pub use matrix::{MatrixElement, MatrixShape};
pub(crate) use query::{KNOWN_EXTENSIONS, budgets, query};

/// A Vulkan API version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ApiVersion {
    /// Major version.
    pub major: u32,
    /// Minor version.
    pub minor: u32,
    /// Patch version.
    pub patch: u32,
}

impl ApiVersion {
    pub(crate) const fn from_raw(raw: u32) -> Self {
        Self {
            major: ash::vk::api_version_major(raw),
            minor: ash::vk::api_version_minor(raw),
            patch: ash::vk::api_version_patch(raw),
        }
    }

    /// Whether this version includes the core features of `major.minor`.
    pub const fn at_least(self, major: u32, minor: u32) -> bool {
        self.major > major || (self.major == major && self.minor >= minor)
    }
}

impl fmt::Display for ApiVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Vulkan {}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// What kind of hardware a device is. Kinds are ordered by preference, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AdapterKind {
    /// A GPU with its own memory.
    Discrete,
    /// A GPU that shares the host's memory.
    Integrated,
    /// A GPU seen through a virtual machine.
    Virtual,
    /// A device that its driver calls none of the other kinds.
    Other,
    /// The host's own processor.
    Cpu,
}

impl fmt::Display for AdapterKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Discrete => "discrete",
            Self::Integrated => "integrated",
            Self::Virtual => "virtual",
            Self::Other => "other",
            Self::Cpu => "cpu",
        })
    }
}

/// The driver behind an adapter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverFacts {
    /// `VkDriverId`, a number from the Vulkan registry.
    pub id: u32,
    /// Name of the driver, such as `radv`.
    pub name: String,
    /// Version of the driver in its own words, such as `Mesa 25.0.7`.
    pub info: String,
    /// `driverVersion`, in the driver's own encoding.
    pub version: u32,
}

impl DriverFacts {
    /// Whether the driver is known to make timeline semaphores of binary ones, on the host: they work, but a submission that waits
    /// for a value nobody has signalled yet is held back by a thread of the driver instead of by the kernel or the card.
    ///
    /// Mesa's runtime has such timelines (`vk_sync_timeline`) for drivers whose kernel side has none: always in lavapipe, v3dv and
    /// powervr, as their sources say. Other drivers of Mesa fall back to them on kernels without timeline sync objects, and MoltenVK
    /// on systems without shared events, neither of which a driver tells.
    #[must_use]
    pub fn emulates_timelines(&self) -> bool {
        let id = ash::vk::DriverId::from_raw(self.id.cast_signed());
        let known = [
            ash::vk::DriverId::MESA_LLVMPIPE,
            ash::vk::DriverId::MESA_V3DV,
            ash::vk::DriverId::IMAGINATION_OPEN_SOURCE_MESA,
        ];
        known.contains(&id)
    }

    /// Whether leaving dispatches out by a condition in memory is known to be cheap: NVIDIA's driver and lavapipe look at the condition once.
    /// RADV has the command processor look at it before every dispatch on a compute queue, which would cost each of them something; what
    /// other drivers do has not been measured.
    #[must_use]
    pub fn leaves_out_cheaply(&self) -> bool {
        let id = ash::vk::DriverId::from_raw(self.id.cast_signed());
        [ash::vk::DriverId::NVIDIA_PROPRIETARY, ash::vk::DriverId::MESA_LLVMPIPE].contains(&id)
    }

    /// Whether reading timestamps from their pool is known to wait for all that is queued: lavapipe's `vkGetQueryPoolResults` does.
    #[must_use]
    pub fn waits_for_queries(&self) -> bool {
        ash::vk::DriverId::from_raw(self.id.cast_signed()) == ash::vk::DriverId::MESA_LLVMPIPE
    }
}

/// Position of a device on the PCI bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PciAddress {
    /// PCI domain.
    pub domain: u32,
    /// PCI bus.
    pub bus: u32,
    /// PCI device.
    pub device: u32,
    /// PCI function.
    pub function: u32,
}

/// Limits of a device that this crate checks before it asks something of the driver.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// Most bytes of push constants; at least 128.
    pub push_constant_bytes: u32,
    /// Most bytes of one memory allocation.
    pub allocation_bytes: u64,
    /// Most bytes of one buffer; `None` where the driver does not tell.
    pub buffer_bytes: Option<u64>,
    /// Most memory allocations alive at the same time.
    pub allocations: u32,
    /// Most bytes of shared memory of one workgroup.
    pub shared_memory_bytes: u32,
    /// Most invocations of one workgroup.
    pub workgroup_invocations: u32,
    /// Most invocations of one workgroup along x, y and z.
    pub workgroup_size: [u32; 3],
    /// Most workgroups of one dispatch along x, y and z.
    pub workgroup_count: [u32; 3],
    /// The most by which a value that is signalled or awaited may exceed a timeline's current value
    /// (`maxTimelineSemaphoreValueDifference`).
    pub timeline_difference: u64,
    /// Nanoseconds of one timestamp tick.
    pub timestamp_period_ns: f32,
}

bitflags! {
    /// What a queue family can do.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct QueueAbilities: u32 {
        /// The family runs graphics pipelines.
        const GRAPHICS = 1;
        /// The family runs compute pipelines.
        const COMPUTE = 2;
        /// The family copies. Every compute or graphics family does, whether its driver sets this bit or not.
        const TRANSFER = 4;
        /// The family binds memory to sparse resources.
        const SPARSE = 8;
        /// The family decodes or encodes video.
        const VIDEO = 16;
    }
}

/// One queue family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueFamily {
    /// What its queues can do.
    pub abilities: QueueAbilities,
    /// How many queues it has.
    pub queues: u32,
    /// Valid bits of its timestamps, up to 64; 0 where it writes none.
    pub timestamp_bits: u32,
}

/// What `VK_EXT_memory_budget` says of one heap at the time of asking, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeapBudget {
    /// Bytes that this process may use in all, those that it uses already included.
    pub budget: u64,
    /// Bytes that this process uses.
    pub usage: u64,
}

/// One memory heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heap {
    /// Size in bytes.
    pub bytes: u64,
    /// Whether it is the device's own memory.
    pub device_local: bool,
    /// The budget at the time when the facts were read; `None` where the driver does not tell.
    pub budget: Option<HeapBudget>,
}

/// One memory type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryType {
    /// Index of its heap.
    pub heap: u32,
    /// Whether it is the device's own memory.
    pub device_local: bool,
    /// Whether the host can map it.
    pub host_visible: bool,
    /// Whether host and device see each other's writes to mapped memory without a flush.
    pub host_coherent: bool,
    /// Whether the host caches it, which makes reading fast.
    pub host_cached: bool,
}

bitflags! {
    /// Subgroup operations that compute shaders may use.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct SubgroupOps: u32 {
        /// `elect`, barriers.
        const BASIC = 1;
        /// `any`, `all`.
        const VOTE = 2;
        /// Sums, minima, scans.
        const ARITHMETIC = 4;
        /// Ballots and broadcasts.
        const BALLOT = 8;
        /// Shuffles by index and by xor.
        const SHUFFLE = 16;
        /// Shuffles up and down.
        const SHUFFLE_RELATIVE = 32;
        /// Clustered reductions.
        const CLUSTERED = 64;
        /// Quad operations.
        const QUAD = 128;
    }
}

/// How wide subgroups are and who decides it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubgroupFacts {
    /// Lanes of a subgroup in a pipeline that asks for no width.
    pub default: u32,
    /// Fewest lanes of a subgroup; equal to `default` without subgroup size control.
    pub min: u32,
    /// Most lanes of a subgroup; equal to `default` without subgroup size control.
    pub max: u32,
    /// Whether a compute pipeline may require a width between `min` and `max`.
    pub selectable: bool,
    /// Most subgroups of one workgroup in a pipeline that requires a width.
    pub per_workgroup: u32,
    /// What subgroups can do in compute shaders.
    pub ops: SubgroupOps,
}

bitflags! {
    /// Features of a device that this crate, or a shader it runs, may use.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Features: u32 {
        /// Timeline semaphores.
        const TIMELINE_SEMAPHORE = 1;
        /// Buffer device addresses.
        const BUFFER_DEVICE_ADDRESS = 1 << 1;
        /// 64-bit integers in shaders.
        const SHADER_INT64 = 1 << 2;
        /// 16-bit values in storage buffers.
        const STORAGE_BUFFER_16BIT = 1 << 3;
        /// `vkQueueSubmit2` and the exact stage and access masks.
        const SYNCHRONIZATION2 = 1 << 4;
        /// Scalar layout of blocks in buffers.
        const SCALAR_BLOCK_LAYOUT = 1 << 5;
        /// 8-bit values in storage buffers.
        const STORAGE_BUFFER_8BIT = 1 << 6;
        /// 16-bit floats in shaders.
        const SHADER_FLOAT16 = 1 << 7;
        /// 16-bit integers in shaders.
        const SHADER_INT16 = 1 << 8;
        /// 8-bit integers in shaders.
        const SHADER_INT8 = 1 << 9;
        /// Subgroup operations on 8-, 16- and 64-bit integers and 16-bit floats.
        const SUBGROUP_EXTENDED_TYPES = 1 << 10;
        /// A pipeline may choose its subgroup width.
        const SUBGROUP_SIZE_CONTROL = 1 << 11;
        /// A pipeline may require that every subgroup is full.
        const FULL_SUBGROUPS = 1 << 12;
        /// Queries can be reset by the host.
        const HOST_QUERY_RESET = 1 << 13;
        /// The Vulkan memory model.
        const VULKAN_MEMORY_MODEL = 1 << 14;
        /// The Vulkan memory model at device scope.
        const VULKAN_MEMORY_MODEL_DEVICE_SCOPE = 1 << 15;
        /// Integer dot products in shaders.
        const INTEGER_DOT_PRODUCT = 1 << 16;
        /// Cooperative matrices (`VK_KHR_cooperative_matrix`).
        const COOPERATIVE_MATRIX = 1 << 17;
        /// Timestamps of device and host taken together (`VK_EXT_calibrated_timestamps`).
        const CALIBRATED_TIMESTAMPS = 1 << 18;
        /// Heap budgets (`VK_EXT_memory_budget`).
        const MEMORY_BUDGET = 1 << 19;
        /// Statistics and code of compiled pipelines (`VK_KHR_pipeline_executable_properties`).
        const PIPELINE_STATISTICS = 1 << 20;
        /// Dispatches that are left out where a word in memory is 0 (`VK_EXT_conditional_rendering`).
        const CONDITIONAL_DISPATCH = 1 << 21;
    }
}

impl Features {
    /// What a device must have to be used at all.
    pub const REQUIRED: Self = Self::TIMELINE_SEMAPHORE
        .union(Self::BUFFER_DEVICE_ADDRESS)
        .union(Self::SHADER_INT64)
        .union(Self::STORAGE_BUFFER_16BIT)
        .union(Self::SYNCHRONIZATION2)
        .union(Self::SCALAR_BLOCK_LAYOUT)
        .union(Self::INTEGER_DOT_PRODUCT);
}

impl SubgroupOps {
    /// What a device must have to be used at all.
    pub const REQUIRED: Self = Self::BASIC.union(Self::ARITHMETIC).union(Self::SHUFFLE);
}

/// Everything that is known of one adapter.
#[derive(Clone, Debug, PartialEq)]
pub struct AdapterFacts {
    /// Position in the loader's list; what [`DeviceSelector::Index`](crate::DeviceSelector::Index) names.
    pub index: usize,
    /// The name that messages show.
    pub name: String,
    /// What kind of hardware it is.
    pub kind: AdapterKind,
    /// PCI vendor id, or a Khronos id above 0xffff.
    pub vendor_id: u32,
    /// Device id of that vendor.
    pub device_id: u32,
    /// `deviceUUID`: the same for one card through every driver that keeps to the specification.
    pub device_uuid: [u8; 16],
    /// `driverUUID`: names the build of the driver.
    pub driver_uuid: [u8; 16],
    /// Position on the PCI bus; `None` where the driver does not tell.
    pub pci: Option<PciAddress>,
    /// The driver through which the loader lists the device.
    pub driver: DriverFacts,
    /// API version of the device.
    pub api_version: ApiVersion,
    /// The device's limits.
    pub limits: Limits,
    /// Queue families, by index.
    pub families: Vec<QueueFamily>,
    /// Heaps, by index.
    pub heaps: Vec<Heap>,
    /// Memory types, by index.
    pub memory_types: Vec<MemoryType>,
    /// What subgroups are like.
    pub subgroup: SubgroupFacts,
    /// The features that the device has.
    pub features: Features,
    /// The products of cooperative matrices that a subgroup computes.
    pub matrix_shapes: Vec<MatrixShape>,
    /// Those extensions of the device that this crate knows a use for, sorted.
    pub extensions: Vec<String>,
}

impl AdapterFacts {
    /// The greatest depth, in bytes, of a product of 16 rows of signed bytes with 16 vectors of them that the device lists; 16 and 32 count.
    pub fn byte_matrix_depth(&self) -> Option<u32> {
        let bytes = self.matrix_shapes.iter().filter(|shape| {
            (shape.m, shape.n) == (16, 16)
                && [shape.a, shape.b] == [MatrixElement::S8; 2]
                && shape.result == MatrixElement::S32
        });
        bytes.map(|shape| shape.k).filter(|k| [16, 32].contains(k)).max()
    }

    /// Whether the device lists products of 16 x 16 halves with 16 x 16 halves that are added to floats.
    pub fn multiplies_halves(&self) -> bool {
        self.matrix_shapes.iter().any(|shape| {
            [shape.m, shape.n, shape.k] == [16; 3]
                && [shape.a, shape.b] == [MatrixElement::F16; 2]
                && shape.result == MatrixElement::F32
        })
    }

    /// Bytes of the largest device-local heap, or of the largest heap where none is device-local; 0 without heaps.
    pub fn device_memory_bytes(&self) -> u64 {
        let largest = |local: bool| self.heaps.iter().filter(|h| !local || h.device_local).map(|h| h.bytes).max();
        largest(true).or_else(|| largest(false)).unwrap_or(0)
    }

    pub(crate) fn has_extension(&self, name: &std::ffi::CStr) -> bool {
        name.to_str().is_ok_and(|name| self.extensions.iter().any(|e| e == name))
    }
}
