//! Recordings: command buffers that are recorded once and submitted again and again.
//!
//! A recording owns what it touches. A pipeline, and a buffer named in a copy, is kept by the call that names it; a buffer
//! that a shader reaches through an address in its push constants cannot be seen here and is handed over with
//! [`RecordingBuilder::keep`].
//!
//! Inside a recording the caller places the barriers. **Between** submissions to one queue there is nothing to place: every
//! recording closes with a barrier that makes what it wrote visible to whatever the queue runs next and to the host.

mod command;

use std::any::Any;
use std::collections::HashSet;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ash::vk;

use crate::access::Access;
use crate::buffer::Buffer;
use crate::device::Device;
use crate::error::{Error, Result};
#[cfg(doc)]
use crate::facts::Features;
use crate::pipeline::Pipeline;
use crate::queue::QueueKind;
use crate::shared::Shared;
use crate::timestamps::{Stage, Timestamps};
use command::{Command, CommandList};

/// How many commands of each kind a recording holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordingStats {
    /// Dispatches, indirect ones included.
    pub dispatches: u32,
    /// Barriers that the caller asked for; the one that closes every recording is not counted.
    pub barriers: u32,
    /// Copies and fills.
    pub copies: u32,
}

impl std::iter::Sum for RecordingStats {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |a, b| Self {
            dispatches: a.dispatches + b.dispatches,
            barriers: a.barriers + b.barriers,
            copies: a.copies + b.copies,
        })
    }
}

/// A recorded command buffer, ready to be submitted any number of times, one submission at a time.
pub struct Recording {
    target: CommandBuffer,
    list: CommandList,
    kind: QueueKind,
    name: String,
    stats: RecordingStats,
    /// Timeline value of the last submission; 0 before the first.
    last_value: AtomicU64,
    /// Whether a submission that signals a fence is in flight.
    fenced: AtomicBool,
    /// Whether the command buffer holds the commands. It does until writing them again fails.
    written: AtomicBool,
    // What the commands use. It is dropped after the command buffer, because fields drop in order.
    _kept: Vec<Arc<dyn Any + Send + Sync>>,
}

/// Records commands for one queue kind. Nothing is submitted before [`RecordingBuilder::finish`].
pub struct RecordingBuilder {
    target: CommandBuffer,
    list: CommandList,
    kind: QueueKind,
    name: String,
    stats: RecordingStats,
    /// Whether a condition is open.
    conditional: bool,
    kept: Vec<Arc<dyn Any + Send + Sync>>,
    /// Addresses of the values in `kept`, so that each is kept once.
    seen: HashSet<usize>,
}

/// A command pool with one command buffer, freed together.
struct CommandBuffer {
    shared: Arc<Shared>,
    pool: vk::CommandPool,
    buffer: vk::CommandBuffer,
}

impl RecordingBuilder {
    /// Starts a recording for the queue of this kind.
    ///
    /// # Errors
    /// Whatever error the driver reports.
    ///
    /// # Panics
    /// If the device has no queue of this kind.
    pub fn new(device: &Device, kind: QueueKind, name: &str) -> Result<Self> {
        let family = match kind {
            QueueKind::Compute | QueueKind::SecondCompute => device.compute_queue().family(),
            QueueKind::Transfer => device
                .transfer_queue()
                .unwrap_or_else(|| panic!("recording `{name}`: the device has no transfer queue"))
                .family(),
        };
        Ok(Self {
            target: CommandBuffer::new(&device.shared, family, name)?,
            list: CommandList::default(),
            kind,
            name: name.to_owned(),
            stats: RecordingStats::default(),
            conditional: false,
            kept: Vec::new(),
            seen: HashSet::new(),
        })
    }

    /// Runs `groups` workgroups of `pipeline` with these push constants.
    ///
    /// # Panics
    /// If `push` is not as long as the pipeline's push block, `groups` exceeds the device's limit, the recording is not for
    /// the compute queue, or the pipeline belongs to another device.
    pub fn dispatch(&mut self, pipeline: &Arc<Pipeline>, push: &[u8], groups: [u32; 3]) -> &mut Self {
        self.check_groups(pipeline, groups);
        self.bind(pipeline, push);
        self.list.add(Command::Dispatch(groups));
        self.stats.dispatches += 1;
        self
    }

    /// Runs `pipeline` with as many workgroups as the three words at `offset` of `counts` say when it runs. Whoever writes
    /// them orders the write before [`Access::INDIRECT_READ`].
    ///
    /// # Panics
    /// As [`RecordingBuilder::dispatch`]; or if `offset` is no multiple of 4 or the words leave the buffer.
    pub fn dispatch_indirect(
        &mut self,
        pipeline: &Arc<Pipeline>,
        push: &[u8],
        counts: &Arc<Buffer>,
        offset: u64,
    ) -> &mut Self {
        assert!(offset.is_multiple_of(4), "recording `{}`: indirect offset {offset}, not a multiple of 4", self.name);
        counts.checked("indirect dispatch", offset, 12);
        self.own(counts);
        self.bind(pipeline, push);
        self.list.add(Command::DispatchIndirect { counts: counts.raw(), offset });
        self.stats.dispatches += 1;
        self
    }

    /// Runs `pipeline` with as many workgroups as the three words at the device address `counts` say when it runs: the same as
    /// [`RecordingBuilder::dispatch_indirect`], for callers that know addresses and no buffers. The words lie in a buffer that the recording keeps
    /// already, and never exceed `most`, in x, y and z.
    ///
    /// # Panics
    /// As [`RecordingBuilder::dispatch_indirect`]; or if `most` exceeds the device's limit, or no buffer that the recording keeps has the words.
    pub fn dispatch_indirect_at(
        &mut self,
        pipeline: &Arc<Pipeline>,
        push: &[u8],
        counts: u64,
        most: [u32; 3],
    ) -> &mut Self {
        self.check_groups(pipeline, most);
        let (buffer, offset) = self.kept_at(counts, 12).unwrap_or_else(|| {
            panic!(
                "recording `{}`: no buffer that it keeps has the number of workgroups of `{}`, at {counts:#x}",
                self.name,
                pipeline.name()
            )
        });
        self.dispatch_indirect(pipeline, push, &buffer, offset)
    }

    /// Panics if the device does not allow so many workgroups.
    fn check_groups(&self, pipeline: &Pipeline, groups: [u32; 3]) {
        let limit = self.target.shared.plan.adapter.limits.workgroup_count;
        assert!(
            groups.iter().zip(limit).all(|(&g, l)| g <= l),
            "recording `{}`: {groups:?} workgroups of `{}`, this device allows {limit:?}",
            self.name,
            pipeline.name()
        );
    }

    /// The buffer among what is kept that has `bytes` bytes at a device address, and where in it they lie.
    fn kept_at(&self, address: u64, bytes: u64) -> Option<(Arc<Buffer>, u64)> {
        self.kept.iter().find_map(|value| {
            let buffer = value.downcast_ref::<Buffer>()?;
            let offset = address.checked_sub(buffer.address())?;
            let inside = offset.checked_add(bytes)? <= buffer.size();
            let buffer = inside.then(|| Arc::clone(value).downcast().ok())??;
            Some((buffer, offset))
        })
    }

    /// From here to [`RecordingBuilder::end_condition`] dispatches, and nothing else, may be left out if the word at `offset` of `buffer` is 0
    /// when the device gets here. They need not be: a device without [`Features::CONDITIONAL_DISPATCH`] in its plan runs them all, so they must
    /// find out for themselves that there is nothing to do.
    ///
    /// What counts for certain is what the word was when the recording was submitted: a device may miss what is written to it later, even
    /// behind a barrier to [`Access::CONDITION_READ`] (NVIDIA's driver 580.159 leaves out dispatches by a 0 that the same recording has
    /// overwritten). So the word may become 0 while submissions are in flight, but whoever sets it waits before submitting what should run.
    ///
    /// # Panics
    /// If `offset` is no multiple of 4 or the word leaves the buffer, a condition is open already, or the recording is not for a compute
    /// queue.
    pub fn begin_condition(&mut self, buffer: &Arc<Buffer>, offset: u64) -> &mut Self {
        let name = &self.name;
        assert!(offset.is_multiple_of(4), "recording `{name}`: a condition at {offset}, not a multiple of 4");
        assert!(!self.conditional, "recording `{name}`: a condition inside another");
        assert!(self.kind.dispatches(), "recording `{name}` is for the transfer queue, which has no conditions");
        buffer.checked("condition", offset, 4);
        self.own(buffer);
        self.conditional = true;
        self.list.add(Command::BeginCondition { buffer: buffer.raw(), offset });
        self
    }

    /// Ends the condition that [`RecordingBuilder::begin_condition`] began.
    ///
    /// # Panics
    /// If no condition is open.
    pub fn end_condition(&mut self) -> &mut Self {
        assert!(self.conditional, "recording `{}`: no condition to end", self.name);
        self.conditional = false;
        self.list.add(Command::EndCondition);
        self
    }

    /// Binds the pipeline and sets its push constants.
    fn bind(&mut self, pipeline: &Arc<Pipeline>, push: &[u8]) {
        let name = &self.name;
        assert!(self.kind.dispatches(), "recording `{name}` is for the transfer queue, which cannot dispatch");
        assert!(
            pipeline.belongs_to(&self.target.shared),
            "recording `{name}`: pipeline `{}` belongs to another device",
            pipeline.name()
        );
        assert!(
            push.len() == pipeline.push_bytes() as usize,
            "recording `{name}`: {} bytes of push constants for pipeline `{}`, which takes {}",
            push.len(),
            pipeline.name(),
            pipeline.push_bytes()
        );
        self.keep_once(Arc::as_ptr(pipeline).cast(), || Arc::<Pipeline>::clone(pipeline) as _);
        self.list.bind(pipeline.raw(), pipeline.layout(), push);
    }

    /// Orders all earlier accesses of kind `from` before all later accesses of kind `to`, on all memory.
    ///
    /// # Panics
    /// If the kinds include shader accesses and the recording is for the transfer queue.
    pub fn barrier(&mut self, from: Access, to: Access) -> &mut Self {
        let shader = Access::SHADER_READ | Access::SHADER_WRITE | Access::INDIRECT_READ | Access::CONDITION_READ;
        assert!(
            self.kind.dispatches() || !(from | to).intersects(shader),
            "recording `{}` is for the transfer queue, which has no {:?}",
            self.name,
            (from | to) & shader
        );
        self.record_barrier(from, to);
        self.stats.barriers += 1;
        self
    }

    fn record_barrier(&mut self, from: Access, mut to: Access) {
        if self.target.shared.conditional.is_none() {
            // Its stage is known only to devices that have conditions.
            to -= Access::CONDITION_READ;
        }
        self.list.add(Command::Barrier(from.barrier(to)));
    }

    /// Copies `bytes` bytes from `from_offset` of `from` to `to_offset` of `to`.
    ///
    /// # Panics
    /// If a range leaves its buffer, the ranges overlap, `bytes` is 0, or a buffer belongs to another device.
    pub fn copy(
        &mut self,
        from: &Arc<Buffer>,
        from_offset: u64,
        to: &Arc<Buffer>,
        to_offset: u64,
        bytes: u64,
    ) -> &mut Self {
        assert!(bytes > 0, "recording `{}`: a copy of 0 bytes", self.name);
        from.checked("copy", from_offset, bytes);
        to.checked("copy", to_offset, bytes);
        assert!(
            !Arc::ptr_eq(from, to) || from_offset + bytes <= to_offset || to_offset + bytes <= from_offset,
            "recording `{}`: {bytes} bytes at {from_offset} and at {to_offset} of buffer `{}` overlap",
            self.name,
            to.name()
        );
        self.own(from);
        self.own(to);
        let region = vk::BufferCopy { src_offset: from_offset, dst_offset: to_offset, size: bytes };
        self.list.add(Command::Copy { from: from.raw(), to: to.raw(), region });
        self.stats.copies += 1;
        self
    }

    /// Copies timestamps as 64-bit ticks to `offset` of `to`, once they are written. The host then reads them from the buffer; asking
    /// the pool itself makes some drivers wait for everything that is queued.
    ///
    /// # Panics
    /// If a range leaves the pool or the buffer, `offset` is no multiple of 8, or one of them belongs to another device.
    pub fn copy_timestamps(
        &mut self,
        timestamps: &Arc<Timestamps>,
        range: Range<u32>,
        to: &Arc<Buffer>,
        offset: u64,
    ) -> &mut Self {
        timestamps.checked(range.clone());
        assert!(
            offset.is_multiple_of(8),
            "recording `{}`: timestamps copied to {offset}, which is no multiple of 8",
            self.name
        );
        let count = range.end - range.start;
        self.keep_once(Arc::as_ptr(timestamps).cast(), || Arc::<Timestamps>::clone(timestamps) as _);
        to.checked("copy of timestamps", offset, 8 * u64::from(count));
        self.own(to);
        let (pool, first) = (timestamps.pool(), range.start);
        self.list.add(Command::CopyTimestamps { pool, first, count, to: to.raw(), offset });
        self.stats.copies += 1;
        self
    }

    /// Fills `bytes` bytes with the word `value`.
    ///
    /// # Panics
    /// If the range leaves the buffer, `offset` or `bytes` is no multiple of 4, `bytes` is 0, or the buffer belongs to
    /// another device.
    pub fn fill(&mut self, to: &Arc<Buffer>, offset: u64, bytes: u64, value: u32) -> &mut Self {
        assert!(
            bytes > 0 && bytes.is_multiple_of(4) && offset.is_multiple_of(4),
            "recording `{}`: a fill of {bytes} bytes at {offset}; both must be multiples of 4",
            self.name
        );
        to.checked("fill", offset, bytes);
        self.own(to);
        self.list.add(Command::Fill { to: to.raw(), offset, bytes, value });
        self.stats.copies += 1;
        self
    }

    /// Writes timestamp `index` at this place of the recording. [`Stage`] says when exactly.
    ///
    /// # Panics
    /// If there is no such timestamp.
    pub fn timestamp(&mut self, timestamps: &Arc<Timestamps>, index: u32, stage: Stage) -> &mut Self {
        timestamps.checked(index..index + 1);
        self.keep_once(Arc::as_ptr(timestamps).cast(), || Arc::<Timestamps>::clone(timestamps) as _);
        let stage = match (stage, self.kind) {
            (Stage::Begin, QueueKind::Compute | QueueKind::SecondCompute) => vk::PipelineStageFlags2::COMPUTE_SHADER,
            (Stage::Begin, QueueKind::Transfer) => vk::PipelineStageFlags2::ALL_TRANSFER,
            (Stage::End, _) => vk::PipelineStageFlags2::ALL_COMMANDS,
        };
        self.list.add(Command::Timestamp { stage, pool: timestamps.pool(), index });
        self
    }

    /// Makes a range of timestamps ready to be written again. The reset must stand before the writes in the same recording.
    ///
    /// # Panics
    /// If the range is empty or leaves the pool, or the recording is for the transfer queue, which cannot reset.
    pub fn reset_timestamps(&mut self, timestamps: &Arc<Timestamps>, range: Range<u32>) -> &mut Self {
        timestamps.checked(range.clone());
        assert!(
            self.kind.dispatches(),
            "recording `{}`: the transfer queue cannot reset timestamps; reset them from the host",
            self.name
        );
        self.keep_once(Arc::as_ptr(timestamps).cast(), || Arc::<Timestamps>::clone(timestamps) as _);
        let (pool, first, count) = (timestamps.pool(), range.start, range.end - range.start);
        self.list.add(Command::ResetTimestamps { pool, first, count });
        self
    }

    /// Keeps `value` alive as long as the recording. Buffers that shaders reach by address alone must be kept in this way.
    pub fn keep(&mut self, value: Arc<dyn Any + Send + Sync>) -> &mut Self {
        self.keep_once(Arc::as_ptr(&value).cast(), || value);
        self
    }

    /// Ends the recording.
    ///
    /// # Errors
    /// What the driver says; commands that ran out of memory are reported here.
    pub fn finish(mut self) -> Result<Arc<Recording>> {
        assert!(!self.conditional, "recording `{}` ends inside a condition", self.name);
        let (from, to) = closing_barrier(self.kind);
        self.record_barrier(from, to);
        let Self { target, list, kind, name, stats, kept, .. } = self;
        // SAFETY: the command buffer is new and this builder is its only user; `kept` holds what the commands name.
        unsafe { target.write(&list) }?;
        Ok(Arc::new(Recording {
            target,
            list,
            kind,
            name,
            stats,
            last_value: AtomicU64::new(0),
            fenced: AtomicBool::new(false),
            written: AtomicBool::new(true),
            _kept: kept,
        }))
    }

    /// Keeps a buffer, which must belong to the recording's device.
    fn own(&mut self, buffer: &Arc<Buffer>) {
        assert!(
            buffer.belongs_to(&self.target.shared),
            "recording `{}`: buffer `{}` belongs to another device",
            self.name,
            buffer.name()
        );
        self.keep_once(Arc::as_ptr(buffer).cast(), || Arc::<Buffer>::clone(buffer) as _);
    }

    /// Keeps the value at `address` unless it is kept already.
    fn keep_once(&mut self, address: *const (), value: impl FnOnce() -> Arc<dyn Any + Send + Sync>) {
        if self.seen.insert(address.addr()) {
            self.kept.push(value());
        }
    }
}

/// The accesses that the closing barrier orders, so that everything a submission wrote is visible to what the queue runs next and to
/// the host: those before it and those after it.
fn closing_barrier(kind: QueueKind) -> (Access, Access) {
    let copies = Access::TRANSFER_READ | Access::TRANSFER_WRITE;
    let shaders = Access::SHADER_READ | Access::SHADER_WRITE;
    match kind {
        QueueKind::Compute | QueueKind::SecondCompute => (
            Access::SHADER_WRITE | Access::TRANSFER_WRITE,
            copies | shaders | Access::INDIRECT_READ | Access::CONDITION_READ | Access::HOST_READ,
        ),
        QueueKind::Transfer => (Access::TRANSFER_WRITE, copies | Access::HOST_READ),
    }
}

impl Recording {
    /// The name that messages show.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How many commands of each kind it holds.
    pub fn stats(&self) -> RecordingStats {
        self.stats
    }

    /// The queue it was recorded for.
    pub fn kind(&self) -> QueueKind {
        self.kind
    }

    pub(crate) fn raw(&self) -> vk::CommandBuffer {
        self.target.buffer
    }

    pub(crate) fn belongs_to(&self, shared: &Arc<Shared>) -> bool {
        Arc::ptr_eq(&self.target.shared, shared)
    }

    /// Writes the commands into the command buffer again. Called under the queue's lock, with no submission in flight.
    pub(crate) fn write_again(&self) -> Result<()> {
        // SAFETY: the queue's lock keeps others from the command buffer, which is not pending; `_kept` holds what the commands name.
        let written = unsafe { self.target.write(&self.list) };
        self.written.store(written.is_ok(), Ordering::Relaxed);
        written
    }

    /// Whether the command buffer can be submitted. Called under the queue's lock.
    pub(crate) fn is_written(&self) -> bool {
        self.written.load(Ordering::Relaxed)
    }

    /// Fails while a submission is in flight, given the value that the queue has completed. Called under the queue's lock.
    pub(crate) fn check_idle(&self, completed: u64) -> Result<()> {
        let value = self.last_value.load(Ordering::Relaxed);
        let fenced = self.fenced.load(Ordering::Relaxed);
        if value > completed || fenced {
            let value = if fenced { 0 } else { value };
            return Err(Error::RecordingPending { name: self.name.clone(), value, completed });
        }
        Ok(())
    }

    /// Remembers that a submission signals `value` when it has run. Called under the queue's lock.
    pub(crate) fn set_value(&self, value: u64) {
        self.last_value.store(value, Ordering::Relaxed);
    }

    /// Remembers whether a submission that signals a fence is in flight. Set to in flight under the queue's lock.
    pub(crate) fn set_fenced(&self, fenced: Fenced) {
        self.fenced.store(fenced == Fenced::InFlight, Ordering::Release);
    }
}

/// State of a submission that signals a fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fenced {
    /// The device may be running it.
    InFlight,
    /// The fence was signalled.
    Over,
}

impl CommandBuffer {
    fn new(shared: &Arc<Shared>, family: u32, name: &str) -> Result<Self> {
        let info = vk::CommandPoolCreateInfo::default().queue_family_index(family);
        // SAFETY: the family is one that the device was created with (VUID-vkCreateCommandPool-queueFamilyIndex-01937).
        let pool =
            unsafe { shared.raw.create_command_pool(&info, None) }.map_err(shared.error("vkCreateCommandPool"))?;
        // From here on `Drop` destroys the pool.
        let mut this = Self { shared: Arc::clone(shared), pool, buffer: vk::CommandBuffer::null() };
        let info = vk::CommandBufferAllocateInfo::default()
            .command_pool(pool)
            .level(vk::CommandBufferLevel::PRIMARY)
            .command_buffer_count(1);
        // SAFETY: the pool is new and used by nobody else.
        let buffers =
            unsafe { shared.raw.allocate_command_buffers(&info) }.map_err(shared.error("vkAllocateCommandBuffers"))?;
        this.buffer = buffers[0];
        shared.name(this.buffer, name);
        Ok(this)
    }

    /// Writes commands into the command buffer, in place of those that it holds.
    ///
    /// # Safety
    /// The command buffer must not be pending and nobody else may use it meanwhile. What the commands name must be alive and of this
    /// device, and must stay so as long as the command buffer is submitted.
    unsafe fn write(&self, list: &CommandList) -> Result<()> {
        let Self { shared, pool, buffer } = self;
        // SAFETY: the one command buffer of the pool is not pending (VUID-vkResetCommandPool-commandPool-00040).
        unsafe { shared.raw.reset_command_pool(*pool, vk::CommandPoolResetFlags::empty()) }
            .map_err(shared.error("vkResetCommandPool"))?;
        // Neither ONE_TIME_SUBMIT nor SIMULTANEOUS_USE: submitted many times, never while pending.
        let begin = vk::CommandBufferBeginInfo::default();
        // SAFETY: the command buffer is in the initial state and this function is its only user
        // (VUID-vkBeginCommandBuffer-commandBuffer-00049).
        unsafe { shared.raw.begin_command_buffer(*buffer, &begin) }.map_err(shared.error("vkBeginCommandBuffer"))?;
        // SAFETY: the command buffer is recording; the rest is this function's contract.
        unsafe { list.write_into(*buffer, shared) };
        // SAFETY: the command buffer is recording and no render pass, query or condition is open
        // (VUID-vkEndCommandBuffer-commandBuffer-00059).
        unsafe { shared.raw.end_command_buffer(*buffer) }.map_err(shared.error("vkEndCommandBuffer"))?;
        shared.recordings.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

impl Drop for CommandBuffer {
    fn drop(&mut self) {
        // SAFETY: a submission in flight holds its recording, so the command buffer is not pending
        // (VUID-vkDestroyCommandPool-commandPool-00041).
        unsafe { self.shared.raw.destroy_command_pool(self.pool, None) };
    }
}

impl fmt::Debug for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recording").field("name", &self.name).field("stats", &self.stats).finish_non_exhaustive()
    }
}

impl fmt::Debug for RecordingBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordingBuilder").field("name", &self.name).field("stats", &self.stats).finish_non_exhaustive()
    }
}
