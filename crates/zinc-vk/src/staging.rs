//! Uploads: host bytes into device buffers through a ring of staging memory.
//!
//! Uploads run on the transfer queue where the device has one, so that they overlap with compute. The ring consists of chunks.
//! Pieces are packed into a chunk until it is full; then the chunk is submitted, and it is filled again once that submission has
//! completed.

use std::sync::Arc;

use crate::buffer::{Buffer, Placement};
use crate::device::Device;
use crate::error::Result;
use crate::queue::Queue;
use crate::recording::RecordingBuilder;
use crate::retire::Retire;
use crate::timeline::TimelinePoint;

/// How much staging memory an [`Uploader`] holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UploadRing {
    /// Bytes of one chunk, which is the most that one submission copies. At least 1.
    pub chunk_bytes: u64,
    /// How many chunks there are, at least 1. One is filled by the host while submissions copy the others.
    pub chunks: usize,
}

impl Default for UploadRing {
    /// Four chunks of 8 MiB: large enough that a submission's few microseconds vanish, small enough for any host.
    fn default() -> Self {
        Self { chunk_bytes: 8 << 20, chunks: 4 }
    }
}

/// Where pieces start in a chunk, in bytes; copies run fastest between aligned addresses.
const PIECE_ALIGNMENT: u64 = 64;

/// Copies host bytes into device buffers.
#[derive(Debug)]
pub struct Uploader {
    device: Arc<Device>,
    queue: Arc<Queue>,
    ring: UploadRing,
    filling: Option<Filling>,
    /// Chunks that have not been used yet.
    free: Vec<Arc<Buffer>>,
    /// Chunks that submissions copy, or have copied.
    busy: Retire<Arc<Buffer>>,
}

/// The chunk that pieces are added to.
#[derive(Debug)]
struct Filling {
    chunk: Arc<Buffer>,
    /// Bytes of the chunk that are taken, less than its size.
    used: u64,
    copies: RecordingBuilder,
}

impl Uploader {
    /// Makes an uploader with a ring of its own.
    ///
    /// # Errors
    /// If there is no memory for the ring.
    ///
    /// # Panics
    /// If the ring has no chunk or its chunks have no byte.
    pub fn new(device: &Arc<Device>, ring: UploadRing) -> Result<Self> {
        assert!(
            ring.chunks > 0 && ring.chunk_bytes > 0,
            "an upload ring of {} chunks of {} bytes",
            ring.chunks,
            ring.chunk_bytes
        );
        let free = (0..ring.chunks)
            .map(|i| Buffer::new(device, &format!("upload chunk {i}"), ring.chunk_bytes, Placement::Upload))
            .collect::<Result<_>>()?;
        Ok(Self {
            device: Arc::clone(device),
            queue: Arc::clone(device.transfer_queue().unwrap_or(device.compute_queue())),
            ring,
            filling: None,
            free,
            busy: Retire::new(),
        })
    }

    /// Copies `bytes` to `offset` of `to`. The bytes are taken before this returns; they have arrived once the point that a later
    /// [`Uploader::finish`] returns is complete. Blocks while submissions copy every chunk.
    ///
    /// The caller sees to it that nothing uses that range of the buffer until then.
    ///
    /// # Errors
    /// The errors of [`Queue::submit`] and [`Timeline::wait`](crate::Timeline::wait).
    ///
    /// # Panics
    /// If the range leaves the buffer.
    pub fn upload(&mut self, to: &Arc<Buffer>, offset: u64, bytes: &[u8]) -> Result<()> {
        to.checked("upload", offset, bytes.len() as u64);
        let (mut rest, mut at) = (bytes, offset);
        while !rest.is_empty() {
            let room = usize::try_from(self.room()).unwrap_or(usize::MAX);
            let (piece, later) = rest.split_at(rest.len().min(room));
            self.add(to, at, piece.len(), |out| out.copy_from_slice(piece))?;
            rest = later;
            at += piece.len() as u64;
        }
        Ok(())
    }

    /// Copies `bytes` bytes to `offset` of `to` as [`Uploader::upload`] does, but lets `fill` write them straight into staging memory.
    /// `fill` gets all of them at once and runs before this returns; bytes that it does not write arrive with arbitrary values.
    /// Staging memory may lie on the device, so writing it in ascending order is fast and reading it is slow.
    ///
    /// # Errors
    /// The errors of [`Uploader::upload`].
    ///
    /// # Panics
    /// If the range leaves the buffer, or `bytes` exceeds the ring's [`UploadRing::chunk_bytes`].
    pub fn upload_with(
        &mut self,
        to: &Arc<Buffer>,
        offset: u64,
        bytes: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<()> {
        to.checked("upload", offset, bytes as u64);
        assert!(
            bytes as u64 <= self.ring.chunk_bytes,
            "a piece of {bytes} bytes for buffer `{}` exceeds the ring's chunks of {} bytes",
            to.name(),
            self.ring.chunk_bytes
        );
        if bytes == 0 {
            return Ok(());
        }
        self.add(to, offset, bytes, fill)
    }

    /// The size of the ring.
    pub fn ring(&self) -> UploadRing {
        self.ring
    }

    /// Submits the chunk that is being filled. Everything uploaded so far has arrived once the point returned is complete. The
    /// uploader can be used again at once.
    ///
    /// # Errors
    /// The errors of [`Queue::submit`].
    pub fn finish(&mut self) -> Result<TimelinePoint> {
        let filling = self.filling.take();
        self.submit(filling)?;
        Ok(self.queue.last_point())
    }

    /// The queue that uploads are submitted to.
    pub fn queue(&self) -> &Arc<Queue> {
        &self.queue
    }

    /// Bytes that the next piece can have without being split: those left in the chunk being filled, or a whole chunk.
    fn room(&self) -> u64 {
        self.ring.chunk_bytes - self.filling.as_ref().map_or(0, |filling| filling.used)
    }

    /// Adds a piece of at most a chunk's size to the chunk being filled, or to the next one if it does not fit there.
    fn add(&mut self, to: &Arc<Buffer>, offset: u64, bytes: usize, fill: impl FnOnce(&mut [u8])) -> Result<()> {
        let length = bytes as u64;
        let mut filling = match self.filling.take() {
            Some(filling) if filling.used.saturating_add(length) <= self.ring.chunk_bytes => filling,
            full => {
                self.submit(full)?;
                self.next_chunk()?
            }
        };
        // Nothing else reaches the chunk: it is not free and not under way.
        filling.chunk.write_with(filling.used, bytes, fill);
        filling.copies.copy(&filling.chunk, filling.used, to, offset, length);
        filling.used = (filling.used + length).next_multiple_of(PIECE_ALIGNMENT);
        if filling.used < self.ring.chunk_bytes {
            self.filling = Some(filling);
        } else {
            // The chunk is full: the device copies it while the host fills the next.
            self.submit(Some(filling))?;
        }
        Ok(())
    }

    /// A chunk to fill: one that was never used, or the one whose submission completes first.
    fn next_chunk(&mut self) -> Result<Filling> {
        let chunk = match self.free.pop() {
            Some(chunk) => chunk,
            None => self.busy.wait_pop()?.expect("a chunk is free or under way"),
        };
        let kind = self.queue.kind();
        let copies = RecordingBuilder::new(&self.device, kind, "upload")?;
        Ok(Filling { chunk, used: 0, copies })
    }

    fn submit(&mut self, filling: Option<Filling>) -> Result<()> {
        if let Some(Filling { chunk, copies, .. }) = filling {
            let point = self.queue.submit(&copies.finish()?, &[])?;
            self.busy.push(point, chunk);
        }
        Ok(())
    }
}
