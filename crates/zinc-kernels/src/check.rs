//! What is found out about a device's matrix units before kernels use them.

use std::mem::offset_of;

use zinc_vk::{Buffer, Error, Placement, QueueKind, RecordingBuilder};

use crate::kernel::{HalfUnits, Units};
use crate::ops::{CHECK_BYTES_RESULTS, CHECK_HALVES_RESULTS, CheckBytes, CheckHalves};
use crate::step::StepState;
use crate::{Dispatch, Pipelines, reference};

/// Which of a device's matrix units give what kernels take them to give.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct UnitChecks {
    /// Those for products of signed bytes.
    pub(crate) bytes: bool,
    /// Those for products of halves.
    pub(crate) halves: bool,
}

impl UnitChecks {
    /// Multiplies known numbers by the units of the pipelines' device, where it is opened with such, and compares the results. Units whose kernel the driver
    /// refuses do not pass.
    pub(crate) fn run(pipelines: &Pipelines, units: Option<Units>, half_units: Option<HalfUnits>) -> Self {
        let target = pipelines.target_without_units();
        let bytes = units.is_some_and(|units| {
            let launch = |state, y| CheckBytes { state, y, rounds: 1, workgroups: 1 }.dispatch(&target, units);
            let expected = reference::check_bytes(units.depth, 1);
            results(pipelines, CHECK_BYTES_RESULTS, &launch).is_ok_and(|found| found == expected)
        });
        let halves = half_units.is_some_and(|units| {
            let launch = |state, y| CheckHalves { state, y, rounds: 1, workgroups: 1 }.dispatch(&target, units);
            let found = results(pipelines, CHECK_HALVES_RESULTS, &launch);
            found.is_ok_and(|found| reference::check_halves(&found, 1))
        });
        Self { bytes, halves }
    }
}

/// What a launch, given the addresses of a step state with a row and of `count` floats, writes to these.
fn results(pipelines: &Pipelines, count: usize, launch: &dyn Fn(u64, u64) -> Dispatch) -> Result<Vec<f32>, Error> {
    let device = pipelines.device();
    let state = Buffer::new(device, "check state", size_of::<StepState>() as u64, Placement::Upload)?;
    state.store_u32(offset_of!(StepState, row_count) as u64, 1);
    let y = Buffer::new(device, "check results", 4 * count as u64, Placement::Readback)?;
    let mut recording = RecordingBuilder::new(device, QueueKind::Compute, "check of matrix units")?;
    pipelines.record(&mut recording, &launch(state.address(), y.address()))?;
    device.compute_queue().submit(&recording.finish()?, &[])?.wait()?;
    let mut results = vec![0.0; count];
    y.read(0, bytemuck::cast_slice_mut(&mut results));
    Ok(results)
}
