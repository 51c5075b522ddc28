//! `zinc doctor`: the device, what it costs to keep it busy, and what zinc makes of it.

use std::sync::Arc;

use zinc_engine::Estimate;
use zinc_model::config::RopeOverrides;
use zinc_vk::{Device, Error as VulkanError};

use crate::args::{self, DoctorArgs, Format};
use crate::bench::bandwidth::read_bandwidth;
use crate::doctor::report::{Findings, Report};
use crate::doctor::{Probe, costs, seam, units};
use crate::error::{Error, Result};
use crate::{device, options, output};

pub(crate) fn run(args: &DoctorArgs) -> Result<()> {
    let selector = match &args.device {
        Some(args::Device::Interpreter) => {
            return Err(Error::usage("there is nothing to measure on the interpreter; --device takes a Vulkan device"));
        }
        Some(args::Device::Vulkan(selector)) => Some(selector.clone()),
        None => None,
    };
    let vulkan = device::open_vulkan()?;
    let adapters = vulkan.adapters()?;
    let plan = device::choose(&adapters, selector)?;
    let device = Device::open(&vulkan, &plan)?;

    // The bandwidth is measured first, because that makes the card raise its clocks for the other measurements.
    let bandwidth = bandwidth(&device)?;
    let probe = Probe::new(&device)?;
    let unit_rates = units::measure(&probe)?;
    let costs = costs::measure(&probe)?;
    let progress = output::progress_steps(0, "measuring");
    let seam = seam::measure(&probe, costs.dispatch_barrier_us, &mut |done, total| {
        progress.set_length(total as u64);
        progress.set_position(done as u64);
    })?;
    progress.finish_and_clear();

    let model = args.model.as_ref().map(|path| {
        let estimate = Estimate::of_file(path, &options::file_options(&args.cache, RopeOverrides::default()))
            .map_err(|error| error.to_string());
        (path.display().to_string(), estimate)
    });
    let report = Report::new(&Findings {
        plan: &plan,
        adapters: adapters.len(),
        named: args.device.is_some(),
        heaps: &device.memory_report().heaps,
        tuning: probe.pipelines().target().tuning,
        unit_rates,
        validation: device::validation()?,
        layers: &device::asked_layers(),
        costs,
        seam,
        bandwidth,
        model,
    });
    match args.format.format() {
        Format::Json => output::stdout_json(&report)?,
        Format::Text => output::stdout(&report.text())?,
    }
    drop(probe);
    drop(device);
    device::check_validation(&vulkan)
}

/// Measures the bandwidth of the device's memory in bytes per second; `None` if too little memory is free to measure
/// it.
fn bandwidth(device: &Arc<Device>) -> Result<Option<f64>> {
    match read_bandwidth(device) {
        Err(VulkanError::OutOfMemory { .. }) => Ok(None),
        bandwidth => Ok(Some(bandwidth?)),
    }
}
