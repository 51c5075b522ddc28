//! Uploads: host bytes into device buffers through a ring of staging memory.
//!
//! Runs on the transfer queue where the device has one, so that it overlaps with compute. Pieces are packed into a chunk until
//! it is full; each chunk is one submission, and is filled again once that has completed.

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
    /// Bytes of one chunk: the most that one submission copies.
    pub chunk_bytes: u64,
    /// Chunks: how many submissions can be under way while the host fills the next.
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
    /// Chunks that were never used or are not in use.
    free: Vec<Arc<Buffer>>,
    busy: Retire<Arc<Buffer>>,
}

/// The chunk that pieces are added to.
#[derive(Debug)]
struct Filling {
    chunk: Arc<Buffer>,
    /// Less than the chunk's size.
    used: u64,
    copies: RecordingBuilder,
}

impl Uploader {
    /// An uploader with its own ring.
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

    /// Copies `bytes` to `offset` of `to`. The bytes are taken before this returns; they arrive with the point of a later
    /// [`Uploader::finish`]. Blocks while every chunk is under way.
    ///
    /// The caller sees to it that nothing uses that range of the buffer until then.
    ///
    /// # Errors
    /// As [`Queue::submit`] and [`Timeline::wait`](crate::Timeline::wait).
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

    /// As [`Uploader::upload`], for `bytes` bytes that `fill` writes straight into staging memory. `fill` gets all of them at once and
    /// runs before this returns; what it leaves alone arrives with an arbitrary value. Staging memory may lie on the device, so
    /// writing in ascending order is fast and reading is slow.
    ///
    /// # Errors
    /// As [`Uploader::upload`].
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

    /// Submits what is left; everything uploaded so far has arrived once the point is complete. The uploader can go on.
    ///
    /// # Errors
    /// As [`Queue::submit`].
    pub fn finish(&mut self) -> Result<TimelinePoint> {
        let filling = self.filling.take();
        self.submit(filling)?;
        Ok(self.queue.last_point())
    }

    /// The queue that copies.
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
            // So that the device copies while the host goes on.
            self.submit(Some(filling))?;
        }
        Ok(())
    }

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
