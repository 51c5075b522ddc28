//! Opening Vulkan and the device that was asked for.

use std::env;
use std::path::PathBuf;
use std::sync::Arc;

use zinc_vk::{AdapterFacts, DevicePlan, DeviceSelector, Instance, InstanceOptions, Validation, Wants};

use crate::error::{Error, Result};
use crate::surroundings;

/// `on` runs everything under the validation layer; a message of it makes the command fail.
const VALIDATION_VARIABLE: &str = "ZINC_VALIDATION";

/// The loader's variables that name layers to be enabled.
const LAYER_VARIABLES: [&str; 2] = ["VK_INSTANCE_LAYERS", "VK_LOADER_LAYERS_ENABLE"];

/// Opens Vulkan, under the validation layer if the environment says so.
///
/// # Errors
/// No loader, no layer, or a value of the variable that is neither `on` nor `off`.
pub(crate) fn open_vulkan() -> Result<Arc<Instance>> {
    Ok(Instance::new(&InstanceOptions::default().with_validation(validation()?))?)
}

/// Whether the environment asks for the validation layer.
///
/// # Errors
/// A value of the variable that is neither `on` nor `off`.
pub(crate) fn validation() -> Result<Validation> {
    match surroundings::variable(VALIDATION_VARIABLE).unwrap_or_default().to_string_lossy().as_ref() {
        "" | "off" => Ok(Validation::Off),
        "on" => Ok(Validation::On),
        other => Err(Error::usage(format!("{VALIDATION_VARIABLE} is '{other}'; it can be on or off"))),
    }
}

/// The layers that the environment asks the loader for.
pub(crate) fn asked_layers() -> String {
    LAYER_VARIABLES.iter().filter_map(|name| env::var(name).ok()).collect::<Vec<_>>().join(",")
}

/// Chooses a device.
///
/// # Errors
/// No device, none that answers to `selector`, or none that can be used.
pub(crate) fn choose(adapters: &[AdapterFacts], selector: Option<DeviceSelector>) -> Result<DevicePlan> {
    let wants = selector.map_or_else(Wants::default, |selector| Wants::default().with_device(selector));
    let plan = DevicePlan::choose(adapters, &wants)?;
    Ok(match cache_directory() {
        Some(directory) => plan.with_pipeline_cache_dir(directory),
        None => plan,
    })
}

/// Fails if the validation layer had something to say.
///
/// # Errors
/// [`zinc_engine::Error::Validation`] with the first message.
pub(crate) fn check_validation(vulkan: &Instance) -> Result<()> {
    let messages = vulkan.validation_messages();
    match messages.first() {
        None => Ok(()),
        Some(first) => Err(zinc_engine::Error::Validation { count: messages.len(), first: first.clone() }.into()),
    }
}

/// Where compiled pipelines are kept between runs; `None` where the system has no place for it.
pub(crate) fn cache_directory() -> Option<PathBuf> {
    let absolute = |path: PathBuf| path.is_absolute().then_some(path);
    let base = surroundings::variable("XDG_CACHE_HOME").map(PathBuf::from).and_then(absolute);
    let base = base.or_else(|| absolute(PathBuf::from(surroundings::variable("HOME")?).join(".cache")))?;
    Some(base.join("zinc"))
}
