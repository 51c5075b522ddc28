//! Opening Vulkan and the device that was asked for.

use std::env;
use std::path::PathBuf;
use std::sync::Arc;

use zinc_vk::{Device, DevicePlan, DeviceSelector, Instance, InstanceOptions, Validation, Wants};

use crate::error::{Error, Result};
use crate::output;

/// `on` runs everything under the validation layer; a message of it makes the command fail.
const VALIDATION_VARIABLE: &str = "ZINC_VALIDATION";

/// Opens Vulkan, under the validation layer if the environment says so.
///
/// # Errors
/// No loader, no layer, or a value of the variable that is neither `on` nor `off`.
pub(crate) fn open_vulkan() -> Result<Arc<Instance>> {
    let validation = match env::var(VALIDATION_VARIABLE).as_deref() {
        Err(_) | Ok("" | "off") => Validation::Off,
        Ok("on") => Validation::On,
        Ok(other) => return Err(Error::usage(format!("{VALIDATION_VARIABLE} is '{other}'; it can be on or off"))),
    };
    Ok(Instance::new(&InstanceOptions { validation })?)
}

/// Chooses a device, tells the user what is good to know about it, and opens it.
///
/// # Errors
/// No device, none that answers to `selector`, or none that can be used.
pub(crate) fn open_device(vulkan: &Arc<Instance>, selector: Option<DeviceSelector>) -> Result<Arc<Device>> {
    let wants = Wants { device: selector, ..Wants::default() };
    let mut plan = DevicePlan::choose(&vulkan.adapters()?, &wants)?;
    for notice in &plan.notices {
        output::notice(&notice.to_string());
    }
    if let Some(directory) = cache_directory() {
        plan = plan.with_pipeline_cache_dir(directory);
    }
    Ok(Device::open(vulkan, &plan)?)
}

/// Fails if the validation layer had something to say.
///
/// # Errors
/// [`Error::Validation`] with the first message.
pub(crate) fn check_validation(vulkan: &Instance) -> Result<()> {
    let messages = vulkan.validation_messages();
    match messages.first() {
        None => Ok(()),
        Some(first) => Err(Error::Validation { count: messages.len(), first: first.clone() }),
    }
}

/// Where compiled pipelines are kept between runs; `None` where the system has no place for it.
fn cache_directory() -> Option<PathBuf> {
    let absolute = |path: PathBuf| path.is_absolute().then_some(path);
    let base = env::var_os("XDG_CACHE_HOME").map(PathBuf::from).and_then(absolute);
    let base = base.or_else(|| absolute(PathBuf::from(env::var_os("HOME")?).join(".cache")))?;
    Some(base.join("zinc"))
}
