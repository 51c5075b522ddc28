//! Measures how fast a device's matrix units multiply.

use std::mem::offset_of;

use serde::Serialize;
use zinc_kernels::ops::{CHECK_BYTES_RESULTS, CHECK_HALVES_RESULTS, CHECK_ROUND_PRODUCTS, CheckBytes, CheckHalves};
use zinc_kernels::step::StepState;
use zinc_kernels::{Dispatch, Target};
use zinc_vk::{Buffer, Placement, Result};

use super::probe::Probe;
use crate::stopwatch::Stopwatch;

/// Rounds of products of each subgroup: a card's units take about a millisecond for them.
const ROUNDS: u32 = 1_024;
/// How many times they are timed. The first runs raise the clocks, and the fastest counts.
const RUNS: usize = 16;

/// Operations per second of the matrix units that kernels may use, two for each product of elements; `None` where the device has no such units, or some
/// that do not give what kernels take them to give.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct UnitRates {
    /// Products of signed bytes.
    pub(crate) bytes_per_s: Option<f64>,
    /// Products of halves.
    pub(crate) halves_per_s: Option<f64>,
}

/// Measures the rates of the units of the probe's device, which must have nothing else to do.
///
/// # Errors
/// Whatever error the device reports.
pub(crate) fn measure(probe: &Probe) -> Result<UnitRates> {
    let target = probe.pipelines().target();
    let workgroups = target.tuning.product_workgroups;
    // The time of a launch without rounds, in which it does nothing but check, is taken off that of one with rounds.
    let rate = |results: usize, product: u32, launch: &dyn Fn(u64, u64, u32) -> Dispatch| -> Result<f64> {
        let seconds = |rounds| fastest(probe, results, &|state, y| launch(state, y, rounds));
        let seconds = (seconds(ROUNDS)? - seconds(0)?).max(1e-9);
        let dispatch = launch(0, 0, ROUNDS);
        let subgroups = dispatch.workgroup_size() / target.subgroup * dispatch.groups.most().iter().product::<u32>();
        let products = f64::from(subgroups) * f64::from(ROUNDS) * f64::from(CHECK_ROUND_PRODUCTS);
        Ok(products * f64::from(2 * product) / seconds)
    };
    let Target { units, half_units, .. } = target;
    let bytes = units.map(|units| {
        let launch = |state, y, rounds| CheckBytes { state, y, rounds, workgroups }.dispatch(&target, units);
        rate(CHECK_BYTES_RESULTS, 16 * 16 * units.depth, &launch)
    });
    let halves = half_units.map(|units| {
        let launch = |state, y, rounds| CheckHalves { state, y, rounds, workgroups }.dispatch(&target, units);
        rate(CHECK_HALVES_RESULTS, 16 * 16 * 16, &launch)
    });
    Ok(UnitRates { bytes_per_s: bytes.transpose()?, halves_per_s: halves.transpose()? })
}

/// Seconds of the fastest of some launches, given the addresses of a state with a row and of `results` floats.
fn fastest(probe: &Probe, results: usize, launch: &dyn Fn(u64, u64) -> Dispatch) -> Result<f64> {
    let device = probe.device();
    let state = Buffer::new(device, "units state", size_of::<StepState>() as u64, Placement::Upload)?;
    state.store_u32(offset_of!(StepState, row_count) as u64, 1);
    let y = Buffer::new(device, "units results", 4 * results as u64, Placement::Device)?;
    let stopwatch = Stopwatch::new(device)?;
    let mut recording = probe.start()?;
    recording.keep(state.clone()).keep(y.clone());
    stopwatch.start(&mut recording);
    probe.pipelines().record(&mut recording, &launch(state.address(), y.address()))?;
    stopwatch.stop(&mut recording);
    let recording = recording.finish()?;
    let mut best_ns = u64::MAX;
    for _ in 0..RUNS {
        best_ns = best_ns.min(stopwatch.run(&recording)?);
    }
    Ok(best_ns.max(1) as f64 / 1e9)
}
