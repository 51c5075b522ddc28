//! Uploads weights: packs them into few buffers, and repacks their rows from the mapped file straight into the staging ring.
//!
//! All cores repack the rows of one piece while the device copies the pieces before it. The host keeps no other copy than the ring.

use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;
use zinc_kernels::Format;
use zinc_kernels::formats::repack_rows;
use zinc_vk::{Buffer, Device, Placement, UploadRing, Uploader};

use crate::error::Result;
use crate::memory::{self, pack};
use crate::model::Model;
use crate::weights::{TensorId, WeightTensor};

/// How many bytes, as they lie on the device, one core repacks at a time: enough that handing out work costs little, and few enough that a
/// chunk has work for every core.
const TASK_BYTES: usize = 64 << 10;

/// The tensors of a model on a device.
#[derive(Debug)]
pub(super) struct DeviceWeights {
    buffers: Vec<Arc<Buffer>>,
    locations: Vec<memory::TensorLocation>,
}

/// The staging ring for a model: the default one, with larger chunks if a row of the model needs them.
pub(super) fn ring(model: &Model) -> UploadRing {
    let usual = UploadRing::default();
    let longest_row = model.weights.tensors.iter().map(WeightTensor::device_row_bytes).max().unwrap_or(0);
    UploadRing { chunk_bytes: usual.chunk_bytes.max(longest_row), ..usual }
}

impl DeviceWeights {
    /// Allocates buffers for all tensors and queues their upload, which is complete when the uploader has finished. `progress` is called with
    /// the number of bytes of the file that are uploaded or queued.
    pub(super) fn upload(
        uploader: &mut Uploader,
        device: &Arc<Device>,
        model: &Model,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Self> {
        let sizes: Vec<u64> = model.weights.tensors.iter().map(WeightTensor::device_bytes).collect();
        let (locations, totals) = pack(&sizes, device.facts().limits.allocation_bytes)?;
        let buffers = totals
            .iter()
            .enumerate()
            .map(|(i, bytes)| Buffer::new(device, &format!("weights {i}"), *bytes, Placement::Device))
            .collect::<std::result::Result<Vec<_>, _>>()?;
        let mut done = 0;
        for (tensor, place) in model.weights.tensors.iter().zip(&locations) {
            let mut offset = place.offset;
            for source in &tensor.sources {
                let info = &model.file.tensors()[source.file_index];
                let data = model.file.data(info);
                let row_bytes = tensor.format.row_bytes(tensor.columns as usize);
                for range in source.ranges(row_bytes, data.len()) {
                    let first = range.start;
                    let rows = Rows { format: tensor.format, columns: tensor.columns as usize, bytes: &data[range] };
                    offset = rows.upload(uploader, &buffers[place.buffer], offset, &mut |piece| {
                        done += piece.len() as u64;
                        model.file.release(info, first + piece.start..first + piece.end);
                        progress(done);
                    })?;
                }
            }
        }
        Ok(Self { buffers, locations })
    }

    pub(super) fn tensor(&self, id: TensorId) -> (&Arc<Buffer>, u64) {
        let place = self.locations[id.index()];
        (&self.buffers[place.buffer], place.offset)
    }

    pub(super) fn address(&self, id: TensorId) -> u64 {
        let (buffer, offset) = self.tensor(id);
        buffer.address() + offset
    }

    pub(super) fn buffers(&self) -> &[Arc<Buffer>] {
        &self.buffers
    }
}

/// Rows of a tensor in the layout of the file.
struct Rows<'a> {
    format: Format,
    columns: usize,
    bytes: &'a [u8],
}

impl Rows<'_> {
    /// Uploads the rows to `offset` of `to`, as many at a time as fit a chunk of the ring, and returns where they end there. `uploaded` is called for
    /// each piece with the range of bytes that are no longer needed.
    fn upload(
        &self,
        uploader: &mut Uploader,
        to: &Arc<Buffer>,
        mut offset: u64,
        uploaded: &mut dyn FnMut(Range<usize>),
    ) -> Result<u64> {
        let (row_bytes, device_row_bytes) = self.row_bytes();
        let chunk_bytes = usize::try_from(uploader.ring().chunk_bytes).unwrap_or(usize::MAX);
        // If a row is larger than a chunk, the uploader refuses it.
        let rows_of_piece = (chunk_bytes / device_row_bytes).max(1);
        let mut done = 0;
        for piece in self.bytes.chunks(rows_of_piece * row_bytes) {
            let bytes = piece.len() / row_bytes * device_row_bytes;
            uploader.upload_with(to, offset, bytes, |out| self.repack(piece, out))?;
            offset += bytes as u64;
            uploaded(done..done + piece.len());
            done += piece.len();
        }
        Ok(offset)
    }

    /// Repacks the given rows into `out`, on all cores.
    fn repack(&self, rows: &[u8], out: &mut [u8]) {
        let (row_bytes, device_row_bytes) = self.row_bytes();
        let rows_of_task = (TASK_BYTES / device_row_bytes).max(1);
        rows.par_chunks(rows_of_task * row_bytes)
            .zip(out.par_chunks_mut(rows_of_task * device_row_bytes))
            .for_each(|(rows, out)| repack_rows(self.format, self.columns, rows, out));
    }

    /// Bytes of a row in the file and on the device.
    fn row_bytes(&self) -> (usize, usize) {
        (self.format.row_bytes(self.columns), self.format.device_row_bytes(self.columns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zinc_vk::{DevicePlan, Instance, InstanceOptions, QueueKind, RecordingBuilder, Validation, Wants};

    fn open() -> (Arc<Instance>, Arc<Device>) {
        // Machines without the layer say so; everywhere else its absence is a failure.
        let validation = match std::env::var("ZINC_TEST_VALIDATION").as_deref() {
            Ok("off") => Validation::Off,
            _ => Validation::On,
        };
        let instance = Instance::new(&InstanceOptions::default().with_validation(validation)).unwrap();
        let plan = DevicePlan::choose(&instance.adapters().unwrap(), &Wants::default()).unwrap();
        let device = Device::open(&instance, &plan).unwrap();
        (instance, device)
    }

    fn content(device: &Arc<Device>, buffer: &Arc<Buffer>) -> Vec<u8> {
        let readback = Buffer::new(device, "readback", buffer.size(), Placement::Readback).unwrap();
        let mut recording = RecordingBuilder::new(device, QueueKind::Compute, "read").unwrap();
        recording.copy(buffer, 0, &readback, 0, buffer.size());
        device.compute_queue().submit(&recording.finish().unwrap(), &[]).unwrap().wait().unwrap();
        let mut bytes = vec![0; buffer.size() as usize];
        readback.read(0, &mut bytes);
        bytes
    }

    #[test]
    fn rows_arrive_repacked_through_chunks_of_every_relation_to_them() {
        let (instance, device) = open();
        for format in Format::ALL {
            let (columns, count) = (768, 301);
            let rows: Vec<u8> = (0..(count * format.row_bytes(columns)) as u32)
                .map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8)
                .collect();
            let device_row = format.device_row_bytes(columns);
            let mut expected = vec![0; count * device_row];
            repack_rows(format, columns, &rows, &mut expected);
            // One row, a row and a part of the next, many with several tasks, all.
            for chunk_bytes in [device_row, 2 * device_row - 1, 200 * device_row, 1 << 20] {
                let ring = UploadRing { chunk_bytes: chunk_bytes as u64, chunks: 3 };
                let to = Buffer::new(&device, "to", 256 + expected.len() as u64, Placement::Device).unwrap();
                let mut uploader = Uploader::new(&device, ring).unwrap();
                let mut done = 0;
                let source = Rows { format, columns, bytes: &rows };
                source.upload(&mut uploader, &to, 256, &mut |piece| done += piece.len()).unwrap();
                uploader.finish().unwrap().wait().unwrap();
                assert_eq!(done, rows.len(), "{format} through chunks of {chunk_bytes}");
                assert!(content(&device, &to)[256..] == expected, "{format} through chunks of {chunk_bytes}");
            }
        }
        drop(device);
        assert!(instance.validation_messages().is_empty(), "{:#?}", instance.validation_messages());
    }
}
