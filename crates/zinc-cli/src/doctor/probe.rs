//! Records steps that do next to nothing, to measure the time that is spent around the work.

use std::sync::Arc;

use zinc_kernels::ops::Read;
use zinc_kernels::step::StepState;
use zinc_kernels::{Dispatch, Pipelines};
use zinc_vk::{Access, Buffer, Device, Error, Placement, QueueKind, RecordingBuilder, Result, Timestamps};

/// What separates two dispatches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Between {
    /// A barrier from shader writes to shader reads, so that the second waits for the first.
    Barrier,
    /// Nothing, so that the two may overlap.
    Nothing,
}

/// A device, and a kernel that reads one word and ends.
pub(crate) struct Probe {
    device: Arc<Device>,
    pipelines: Pipelines,
    dispatch: Dispatch,
    kept: [Arc<Buffer>; 2],
}

impl Probe {
    /// Prepares the kernel for the device.
    ///
    /// # Errors
    /// Whatever error the device reports.
    pub(crate) fn new(device: &Arc<Device>) -> Result<Self> {
        let state = Buffer::new(device, "probe state", size_of::<StepState>() as u64, Placement::Device)?;
        let words = Buffer::new(device, "probe words", 4, Placement::Device)?;
        let mut recording = RecordingBuilder::new(device, QueueKind::Compute, "probe state")?;
        // The state of a step that is a no-op: every kernel looks at the number of its rows first, and ends.
        recording.fill(&state, 0, state.size(), 0);
        device.compute_queue().submit(&recording.finish()?, &[])?.wait()?;
        let pipelines = Pipelines::new(device.clone());
        let read = Read { state: state.address(), x: state.address(), tiles: 0, y: words.address(), workgroups: 1 };
        let dispatch = read.dispatch(&pipelines.target());
        pipelines.get(&dispatch)?;
        Ok(Self { device: device.clone(), pipelines, dispatch, kept: [state, words] })
    }

    /// The device.
    pub(super) fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// The pipelines of the device.
    pub(crate) fn pipelines(&self) -> &Pipelines {
        &self.pipelines
    }

    /// A pool of `count` timestamps; `None` if the device has no timestamps.
    ///
    /// # Errors
    /// Whatever error the device reports.
    pub(super) fn timestamps(&self, count: u32) -> Result<Option<Arc<Timestamps>>> {
        match Timestamps::new(&self.device, count) {
            Err(Error::NoTimestamps { .. }) => Ok(None),
            timestamps => timestamps.map(Some),
        }
    }

    /// An empty recording for the compute queue.
    ///
    /// # Errors
    /// Whatever error the device reports.
    pub(super) fn start(&self) -> Result<RecordingBuilder> {
        self.start_for(QueueKind::Compute)
    }

    /// An empty recording for a queue that the device has.
    ///
    /// # Errors
    /// Whatever error the device reports.
    pub(super) fn start_for(&self, kind: QueueKind) -> Result<RecordingBuilder> {
        let mut recording = RecordingBuilder::new(&self.device, kind, "probe")?;
        for buffer in &self.kept {
            recording.keep(buffer.clone());
        }
        Ok(recording)
    }

    /// Records `count` dispatches of the kernel.
    ///
    /// # Errors
    /// Whatever error the device reports.
    pub(super) fn record(&self, recording: &mut RecordingBuilder, dispatches: u32, between: Between) -> Result<()> {
        for _ in 0..dispatches {
            self.pipelines.record(recording, &self.dispatch)?;
            if between == Between::Barrier {
                recording.barrier(Access::SHADER_WRITE, Access::SHADER_READ);
            }
        }
        Ok(())
    }
}
