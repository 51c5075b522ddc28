//! Device memory: gpu-allocator behind a lock, and the bytes that this device's buffers take of each heap.

use ash::vk;
use gpu_allocator::vulkan::{Allocation, AllocationCreateDesc, AllocationScheme, Allocator, AllocatorCreateDesc};
use gpu_allocator::{AllocationSizes, AllocatorDebugSettings, MemoryLocation};
use parking_lot::Mutex;

use crate::buffer::Placement;
use crate::error::{Error, Result};
use crate::facts::{self, AdapterFacts, Features, MemoryType};
use crate::instance::Instance;
use crate::shared::Shared;

const MIB: u64 = 1 << 20;

/// The least bytes of a buffer whose size is compared with the heap's budget before the driver is asked for memory.
const CHECKED_BYTES: u64 = 64 * MIB;

/// State of one heap, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeapReport {
    /// Size of the heap.
    pub total: u64,
    /// Bytes that can still be allocated: the driver's budget less what the process uses, or the size less `ours` where the driver
    /// tells no budget. A budget counts blocks that are allocated and only partly used as used.
    pub available: u64,
    /// Bytes of this device's buffers.
    pub ours: u64,
    /// Whether the heap is the device's own memory.
    pub device_local: bool,
}

/// State of every heap, by index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryReport {
    /// The heaps, in the order of [`AdapterFacts::heaps`].
    pub heaps: Vec<HeapReport>,
}

/// The allocator, and what was allocated from each heap.
pub(crate) struct Memory {
    state: Mutex<State>,
}

struct State {
    /// `None` once [`Memory::close`] was called.
    allocator: Option<Allocator>,
    /// Bytes of this device's buffers, by heap.
    ours: Vec<u64>,
}

/// Memory of one buffer, and the heap it came from.
pub(crate) struct Block {
    pub(crate) allocation: Allocation,
    heap: usize,
}

impl Memory {
    pub(crate) fn new(
        instance: &Instance,
        raw: &ash::Device,
        physical: vk::PhysicalDevice,
        adapter: &AdapterFacts,
    ) -> Result<Self> {
        // The allocator takes memory in blocks. A block must not exceed the largest allocation of the device, nor an
        // eighth of its memory, so that one half-used block cannot occupy most of a small heap.
        let largest = adapter.limits.allocation_bytes.min(adapter.device_memory_bytes() / 8);
        let device = (64 * MIB).min(largest);
        let mut debug = AllocatorDebugSettings::default();
        // `close` reports leaks itself, by name and through tracing.
        debug.log_leaks_on_shutdown = false;
        let allocator = Allocator::new(&AllocatorCreateDesc {
            instance: instance.raw.clone(),
            device: raw.clone(),
            physical_device: physical,
            debug_settings: debug,
            buffer_device_address: true,
            allocation_sizes: AllocationSizes::new(device, (16 * MIB).min(largest))
                .with_max_device_memblock_size((256 * MIB).min(largest))
                .with_max_host_memblock_size((64 * MIB).min(largest)),
        })
        .map_err(|e| Error::OutOfMemory {
            name: "allocator".to_owned(),
            size: 0,
            available: adapter.device_memory_bytes(),
            reason: e.to_string(),
        })?;
        Ok(Self { state: Mutex::new(State { allocator: Some(allocator), ours: vec![0; adapter.heaps.len()] }) })
    }

    /// Allocates memory for the buffer `name` with these requirements.
    pub(crate) fn allocate(
        &self,
        shared: &Shared,
        name: &str,
        requirements: vk::MemoryRequirements,
        placement: Placement,
    ) -> Result<Block> {
        let adapter = &shared.plan.adapter;
        let location = match placement {
            Placement::Device => MemoryLocation::GpuOnly,
            Placement::Upload => MemoryLocation::CpuToGpu,
            Placement::Readback => MemoryLocation::GpuToCpu,
        };
        let desc = AllocationCreateDesc {
            name,
            requirements,
            location,
            linear: true,
            allocation_scheme: AllocationScheme::GpuAllocatorManaged,
        };
        let size = requirements.size;
        let refused = |available, reason: String| Error::OutOfMemory { name: name.to_owned(), size, available, reason };
        // Drivers that overcommit do not refuse an allocation beyond the budget: they move other memory out of the
        // device, and everything runs at a tenth of the speed. So the budget is checked here first. Small buffers
        // mostly lie in a block that is already allocated, so only buffers that need a block of their own are checked.
        if size >= CHECKED_BYTES {
            let available = self.available(shared, requirements.memory_type_bits, placement);
            if size > available {
                return Err(refused(available, "the heap's budget is checked beforehand".to_owned()));
            }
        }
        let mut state = self.state.lock();
        let result = match &mut state.allocator {
            Some(allocator) => allocator.allocate(&desc).map_err(|e| e.to_string()),
            None => Err("the device is closed".to_owned()),
        };
        match result {
            Ok(allocation) => {
                let heap = heap_of(adapter, requirements.memory_type_bits, allocation.memory_properties());
                if let Some(ours) = state.ours.get_mut(heap) {
                    *ours += size;
                }
                Ok(Block { allocation, heap })
            }
            Err(reason) => {
                drop(state);
                Err(refused(self.available(shared, requirements.memory_type_bits, placement), reason))
            }
        }
    }

    /// Of the heaps that a buffer of this placement could be allocated from, returns the available bytes of the one
    /// that has most. `bits` is Vulkan's bit mask of the memory types that the buffer allows.
    pub(crate) fn available(&self, shared: &Shared, bits: u32, placement: Placement) -> u64 {
        let heaps = self.report(shared).heaps;
        let fits = |t: &MemoryType| match placement {
            Placement::Device => t.device_local,
            Placement::Upload | Placement::Readback => t.host_visible && t.host_coherent,
        };
        let types = shared.plan.adapter.memory_types.iter().enumerate();
        let candidates = types.filter(|(i, t)| bits & (1 << i) != 0 && fits(t));
        candidates.map(|(_, t)| heaps[t.heap as usize].available).max().unwrap_or(0)
    }

    /// Gives the memory of a destroyed buffer back.
    pub(crate) fn free(&self, block: Block, bytes: u64) {
        let mut state = self.state.lock();
        if let Some(ours) = state.ours.get_mut(block.heap) {
            *ours = ours.saturating_sub(bytes);
        }
        if let Some(allocator) = &mut state.allocator
            && let Err(error) = allocator.free(block.allocation)
        {
            tracing::error!("freeing device memory failed: {error}");
        }
    }

    /// The state of every heap now.
    pub(crate) fn report(&self, shared: &Shared) -> MemoryReport {
        let ours = self.state.lock().ours.clone();
        let budgets =
            shared.has(Features::MEMORY_BUDGET).then(|| facts::budgets(&shared.instance.raw, shared.physical));
        let heaps = shared.plan.adapter.heaps.iter().enumerate().map(|(i, heap)| HeapReport {
            total: heap.bytes,
            available: match budgets {
                Some(budgets) => budgets[i].budget.saturating_sub(budgets[i].usage),
                None => heap.bytes.saturating_sub(ours[i]),
            },
            ours: ours[i],
            device_local: heap.device_local,
        });
        MemoryReport { heaps: heaps.collect() }
    }

    /// Frees the allocator's blocks and reports buffers that were not freed. Must be called before the device is destroyed.
    pub(crate) fn close(&self) {
        if let Some(allocator) = self.state.lock().allocator.take() {
            for leak in &allocator.generate_report().allocations {
                tracing::error!("leaked buffer `{}` of {} bytes", leak.name, leak.size);
            }
        }
    }
}

/// Returns the index of the heap of the first memory type in the bit mask `bits` that has exactly these properties. The
/// allocator takes memory from that heap too.
fn heap_of(adapter: &AdapterFacts, bits: u32, flags: vk::MemoryPropertyFlags) -> usize {
    let has = |flag| flags.contains(flag);
    let same = |t: &MemoryType| {
        t.device_local == has(vk::MemoryPropertyFlags::DEVICE_LOCAL)
            && t.host_visible == has(vk::MemoryPropertyFlags::HOST_VISIBLE)
            && t.host_coherent == has(vk::MemoryPropertyFlags::HOST_COHERENT)
            && t.host_cached == has(vk::MemoryPropertyFlags::HOST_CACHED)
    };
    let mut types = adapter.memory_types.iter().enumerate();
    types.find(|(i, t)| bits & (1 << i) != 0 && same(t)).map_or(0, |(_, t)| t.heap as usize)
}
