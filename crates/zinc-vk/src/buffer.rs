//! Buffers: device memory with an address for shaders, and a mapping where the host reads or writes it.

use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use ash::vk;
use parking_lot::RwLock;

use crate::device::Device;
use crate::error::{Error, Result};
use crate::memory::Block;
use crate::shared::Shared;

/// Alignment of every buffer's address, in bytes: a cache line and more, so that shaders may use their widest loads.
pub const ALIGNMENT: u64 = 256;

/// The kind of memory that a buffer lies in, by who reads and writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Placement {
    /// The device's own memory. The host reaches it through copies only.
    Device,
    /// Memory that the host writes and the device reads. It is the device's own where the host can map that.
    Upload,
    /// Memory that the device writes and the host reads. The host caches it where the device offers such memory.
    Readback,
}

/// A range of device memory with an address that shaders use.
///
/// `Upload` and `Readback` buffers stay mapped and are coherent: no flush is needed. What the host writes before a submit is
/// visible to it; what a submission writes is visible to the host once its point is complete. Reading while the device
/// writes gives old bytes, new bytes or a mixture; words read with [`Buffer::load_u32`] are never torn.
pub struct Buffer {
    shared: Arc<Shared>,
    raw: vk::Buffer,
    /// The memory; `None` only before it is bound and while the buffer is being dropped.
    block: Option<Block>,
    /// Where the memory starts in the host's address space, if it is mapped. The lock keeps host threads apart.
    mapped: Option<RwLock<Mapping>>,
    address: u64,
    /// Bytes that the caller asked for.
    size: u64,
    /// Bytes that the driver needs for them, by which the heap's use is counted.
    reserved: u64,
    placement: Placement,
    name: String,
}

/// Address of the first mapped byte.
struct Mapping(NonNull<u8>);

// SAFETY: the pointer is only followed under the buffer's lock, and the mapping lives as long as the allocation; any thread
// may read and write mapped memory.
unsafe impl Send for Mapping {}
// SAFETY: as for `Send`: all uses of the pointer are under the lock.
unsafe impl Sync for Mapping {}

impl Buffer {
    /// Makes a buffer of `size` bytes with undefined content, for storage, copies, indirect dispatch and addressing.
    ///
    /// # Errors
    /// [`Error::BufferTooLarge`], [`Error::OutOfMemory`].
    ///
    /// # Panics
    /// If `size` is 0.
    pub fn new(device: &Device, name: &str, size: u64, placement: Placement) -> Result<Arc<Self>> {
        assert!(size > 0, "buffer `{name}` has 0 bytes");
        let shared = &device.shared;
        let limits = &shared.plan.adapter.limits;
        let limit = limits.buffer_bytes.unwrap_or(u64::MAX).min(limits.allocation_bytes);
        let too_large = |size| Error::BufferTooLarge { name: name.to_owned(), size, limit };
        if size > limit {
            return Err(too_large(size));
        }

        // Buffers are shared concurrently between the queue families. Otherwise each buffer that the transfer queue
        // fills would need a transfer of ownership. For buffers, concurrent sharing costs nothing on the drivers that
        // this is written for.
        let mut families = vec![shared.plan.compute_family];
        families.extend(shared.plan.transfer_family);
        let mut usage = vk::BufferUsageFlags::STORAGE_BUFFER
            | vk::BufferUsageFlags::TRANSFER_SRC
            | vk::BufferUsageFlags::TRANSFER_DST
            | vk::BufferUsageFlags::INDIRECT_BUFFER
            | vk::BufferUsageFlags::SHADER_DEVICE_ADDRESS;
        if shared.conditional.is_some() {
            usage |= vk::BufferUsageFlags::CONDITIONAL_RENDERING_EXT;
        }
        let mut info = vk::BufferCreateInfo::default().size(size).usage(usage);
        if families.len() > 1 {
            info = info.sharing_mode(vk::SharingMode::CONCURRENT).queue_family_indices(&families);
        }
        // SAFETY: the size is not 0 (VUID-VkBufferCreateInfo-size-00912) and within maxBufferSize (06409); the families are
        // distinct and exist (01419); bufferDeviceAddress is enabled.
        let raw = unsafe { shared.raw.create_buffer(&info, None) }.map_err(|result| match result {
            vk::Result::ERROR_OUT_OF_DEVICE_MEMORY | vk::Result::ERROR_OUT_OF_HOST_MEMORY => Error::OutOfMemory {
                name: name.to_owned(),
                size,
                available: shared.memory.available(shared, u32::MAX, placement),
                reason: "vkCreateBuffer".to_owned(),
            },
            other => shared.error("vkCreateBuffer")(other),
        })?;
        // From here on the buffer is destroyed by `Drop`.
        let mut this = Self {
            shared: Arc::clone(shared),
            raw,
            block: None,
            mapped: None,
            address: 0,
            size,
            reserved: 0,
            placement,
            name: name.to_owned(),
        };
        // SAFETY: `raw` was created from this device.
        let mut requirements = unsafe { shared.raw.get_buffer_memory_requirements(raw) };
        requirements.alignment = requirements.alignment.max(ALIGNMENT);
        if requirements.size > limits.allocation_bytes {
            return Err(too_large(requirements.size));
        }
        this.reserved = requirements.size;
        let block = this.block.insert(shared.memory.allocate(shared, name, requirements, placement)?);
        // SAFETY: the range was allocated for these requirements, with the device-address flag, and is bound once
        // (VUID-vkBindBufferMemory-buffer-07459, -memory-01035, -size-01037, -bufferDeviceAddress-03339).
        unsafe { shared.raw.bind_buffer_memory(raw, block.allocation.memory(), block.allocation.offset()) }
            .map_err(shared.error("vkBindBufferMemory"))?;
        if placement != Placement::Device {
            let pointer = block.allocation.mapped_ptr().ok_or_else(|| Error::OutOfMemory {
                name: name.to_owned(),
                size,
                available: 0,
                reason: "the memory is not mapped".to_owned(),
            })?;
            this.mapped = Some(RwLock::new(Mapping(pointer.cast())));
        }
        // SAFETY: the buffer has SHADER_DEVICE_ADDRESS usage and is bound (VUID-VkBufferDeviceAddressInfo-buffer-02600/02601).
        this.address =
            unsafe { shared.raw.get_buffer_device_address(&vk::BufferDeviceAddressInfo::default().buffer(raw)) };
        shared.name(raw, name);
        Ok(Arc::new(this))
    }

    /// Address of the first byte as shaders use it; a multiple of [`ALIGNMENT`].
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The kind of memory that the buffer lies in.
    pub fn placement(&self) -> Placement {
        self.placement
    }

    /// The name that messages show.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Writes `bytes` at `offset`.
    ///
    /// # Panics
    /// If the range leaves the buffer or the placement is [`Placement::Device`].
    pub fn write(&self, offset: u64, bytes: &[u8]) {
        let at = self.checked("write", offset, bytes.len() as u64);
        let mapping = self.mapping("write").write();
        // SAFETY: `checked` keeps the range inside the mapping, which is as long as the buffer; the write lock keeps other
        // host threads out; `bytes` is host memory of the caller and cannot overlap the mapping, to which no slice exists.
        // The device's own accesses are ordered by submits and points, outside Rust's memory model.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), mapping.0.as_ptr().add(at), bytes.len());
        };
    }

    /// Lets `fill` write `bytes` bytes at `offset`, through a slice that holds what was there before.
    ///
    /// Nothing else may reach the range meanwhile: no submission in flight may use it, and `fill` may not use the buffer.
    ///
    /// # Panics
    /// If the range leaves the buffer or the placement is [`Placement::Device`].
    pub(crate) fn write_with(&self, offset: u64, bytes: usize, fill: impl FnOnce(&mut [u8])) {
        let at = self.checked("write", offset, bytes as u64);
        let mapping = self.mapping("write").write();
        // SAFETY: `checked` keeps the range inside the mapping, which is as long as the buffer; the write lock keeps other
        // host threads out for as long as the slice lives, and by the contract the device too. Bytes are valid with any
        // value, and mapped memory has one, if an arbitrary one.
        fill(unsafe { std::slice::from_raw_parts_mut(mapping.0.as_ptr().add(at), bytes) });
    }

    /// Reads into `bytes` from `offset`.
    ///
    /// # Panics
    /// If the range leaves the buffer or the placement is [`Placement::Device`].
    pub fn read(&self, offset: u64, bytes: &mut [u8]) {
        let at = self.checked("read", offset, bytes.len() as u64);
        let mapping = self.mapping("read").read();
        // SAFETY: as in `write`, under the read lock.
        unsafe {
            std::ptr::copy_nonoverlapping(mapping.0.as_ptr().add(at), bytes.as_mut_ptr(), bytes.len());
        };
    }

    /// Stores one word at `offset`. The device never sees half of it, even if it reads the word at the same time.
    ///
    /// # Panics
    /// If `offset` is no multiple of 4, leaves the buffer, or the placement is [`Placement::Device`].
    pub fn store_u32(&self, offset: u64, value: u32) {
        let at = self.checked_word("store_u32", offset);
        let mapping = self.mapping("store_u32").write();
        // SAFETY: in range by `checked_word`, aligned because a buffer is aligned to ALIGNMENT in its
        // mapping, mappings to more than that, and `offset` is a multiple of 4; the lock keeps other host threads out. Volatile: the device may read the word at any time.
        unsafe {
            mapping.0.as_ptr().add(at).cast::<u32>().write_volatile(value);
        };
    }

    /// Loads one word from `offset`. It is never half of a word that the device writes at the same time.
    ///
    /// # Panics
    /// If `offset` is no multiple of 4, leaves the buffer, or the placement is [`Placement::Device`].
    pub fn load_u32(&self, offset: u64) -> u32 {
        let at = self.checked_word("load_u32", offset);
        let mapping = self.mapping("load_u32").read();
        // SAFETY: as in `store_u32`, under the read lock.
        unsafe { mapping.0.as_ptr().add(at).cast::<u32>().read_volatile() }
    }

    pub(crate) fn raw(&self) -> vk::Buffer {
        self.raw
    }

    pub(crate) fn belongs_to(&self, shared: &Arc<Shared>) -> bool {
        Arc::ptr_eq(&self.shared, shared)
    }

    /// Panics unless `bytes` bytes at `offset` lie inside the buffer; returns the offset for pointer arithmetic.
    pub(crate) fn checked(&self, what: &str, offset: u64, bytes: u64) -> usize {
        assert!(
            offset.checked_add(bytes).is_some_and(|end| end <= self.size),
            "{what} of {bytes} bytes at {offset} leaves buffer `{}` of {} bytes",
            self.name,
            self.size
        );
        usize::try_from(offset).expect("a mapped offset fits the host's address space")
    }

    fn checked_word(&self, what: &str, offset: u64) -> usize {
        assert!(offset.is_multiple_of(4), "{what} at {offset} of buffer `{}`: not a multiple of 4", self.name);
        self.checked(what, offset, 4)
    }

    fn mapping(&self, what: &str) -> &RwLock<Mapping> {
        self.mapped.as_ref().unwrap_or_else(|| {
            panic!(
                "{what} of buffer `{}`, which lies on the device: copy it through an upload or readback buffer",
                self.name
            )
        })
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: submissions in flight hold their recording, which holds the buffer, so none uses it
        // (VUID-vkDestroyBuffer-buffer-00922); the memory is freed after the buffer.
        unsafe { self.shared.raw.destroy_buffer(self.raw, None) };
        if let Some(block) = self.block.take() {
            self.shared.memory.free(block, self.reserved);
        }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffer")
            .field("name", &self.name)
            .field("size", &self.size)
            .field("placement", &self.placement)
            .finish_non_exhaustive()
    }
}
