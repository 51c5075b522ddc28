//! Buffers: memory with a device address, mapped where the host takes part.

use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use ash::vk;
use parking_lot::RwLock;

use crate::device::{Device, Shared};
use crate::error::{Error, Result};
use crate::memory::Block;

/// Alignment of every buffer's address, in bytes: a cache line and more, so that shaders may use their widest loads.
pub const ALIGNMENT: u64 = 256;

/// Where a buffer's memory lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Placement {
    /// On the device; the host reaches it through copies only.
    Device,
    /// Written by the host, read by the device. On the device where the host can map that.
    Upload,
    /// Written by the device, read by the host; cached by the host where the device offers it.
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
    /// `None` only while being dropped.
    block: Option<Block>,
    /// Start of the mapping; the lock keeps host threads apart.
    mapped: Option<RwLock<Mapping>>,
    address: u64,
    size: u64,
    reserved: u64,
    placement: Placement,
    name: String,
}

struct Mapping(NonNull<u8>);

// SAFETY: the pointer is only followed under the buffer's lock, and the mapping lives as long as the allocation; any thread
// may read and write mapped memory.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Buffer {
    /// A buffer of `size` bytes with undefined content, for storage, copies, indirect dispatch and addressing.
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

        // Concurrent sharing spares every buffer that the transfer queue fills an ownership transfer. It costs nothing for
        // buffers on the drivers this is written for.
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

    /// Address of the first byte, for shaders; a multiple of [`ALIGNMENT`].
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Where the memory lies.
    pub fn placement(&self) -> Placement {
        self.placement
    }

    /// Name, for people.
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

    /// Lets `fill` write `bytes` bytes at `offset`. The slice holds what was there before. Only for buffers that nothing else reaches
    /// meanwhile: no submission in flight may use the range, and `fill` may not use the buffer.
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

    /// Stores one word at `offset`, whole, even while the device reads it.
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

    /// Loads one word from `offset`, whole, even while the device writes it.
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
