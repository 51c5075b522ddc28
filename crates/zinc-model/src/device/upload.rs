//! Weights to the device: packed into few buffers, copied through the staging ring.

use std::sync::Arc;

use zinc_kernels::formats::repack_rows;
use zinc_vk::{Buffer, Device, Placement, UploadRing, Uploader};

use crate::error::{Error, Result};
use crate::memory::{self, pack};
use crate::model::Model;
use crate::weights::{TensorId, WeightTensor};

/// Bytes handed to the staging ring at a time, so that progress is reported often.
const PIECE_BYTES: usize = 4 << 20;

/// The tensors of a model on a device.
#[derive(Debug)]
pub(super) struct DeviceWeights {
    buffers: Vec<Arc<Buffer>>,
    placements: Vec<memory::Placement>,
}

impl DeviceWeights {
    /// Allocates and copies all tensors. `progress` hears of the bytes copied so far.
    pub(super) fn upload(device: &Arc<Device>, model: &Model, progress: &mut dyn FnMut(u64)) -> Result<Self> {
        let sizes: Vec<u64> = model.weights.tensors.iter().map(WeightTensor::device_bytes).collect();
        let (placements, totals) = pack(&sizes, device.facts().limits.allocation_bytes)?;
        let buffers = totals
            .iter()
            .enumerate()
            .map(|(i, bytes)| Buffer::new(device, &format!("weights {i}"), *bytes, Placement::Device))
            .collect::<std::result::Result<Vec<_>, _>>()?;
        let mut uploader = Uploader::new(device, UploadRing::default())?;
        let mut done = 0;
        for (tensor, place) in model.weights.tensors.iter().zip(&placements) {
            let mut offset = place.offset;
            let columns = tensor.columns as usize;
            let row = tensor.format.row_bytes(columns);
            for piece in model.data(tensor).chunks(row * (PIECE_BYTES / row).max(1)) {
                let mut rows = vec![0; piece.len() / row * tensor.format.device_row_bytes(columns)];
                repack_rows(tensor.format, columns, piece, &mut rows);
                uploader.upload(&buffers[place.buffer], offset, &rows)?;
                offset += rows.len() as u64;
                done += piece.len() as u64;
                progress(done);
            }
        }
        uploader.finish()?.wait().map_err(Error::from)?;
        Ok(Self { buffers, placements })
    }

    pub(super) fn address(&self, id: TensorId) -> u64 {
        let place = self.placements[id.index()];
        self.buffers[place.buffer].address() + place.offset
    }

    pub(super) fn buffers(&self) -> &[Arc<Buffer>] {
        &self.buffers
    }
}

/// Copies host bytes into a device buffer and waits for it.
pub(super) fn upload_bytes(device: &Arc<Device>, to: &Arc<Buffer>, offset: u64, bytes: &[u8]) -> Result<()> {
    let mut uploader = Uploader::new(device, UploadRing::default())?;
    uploader.upload(to, offset, bytes)?;
    uploader.finish()?.wait().map_err(Error::from)
}
