//! Where a model runs: a Vulkan device, or the interpreter on the processor.

use std::path::PathBuf;
use std::sync::Arc;

use zinc_kernels::Pipelines;
use zinc_vk::{Device, DevicePlan, DeviceSelector, Instance, InstanceOptions, Validation, Wants};

use crate::error::{Error, Result};
use crate::event::{Note, OpenEvent};

/// Which device to run on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DeviceChoice {
    /// The best Vulkan device of the machine.
    #[default]
    Best,
    /// The Vulkan device that a selector names.
    Vulkan(DeviceSelector),
    /// The interpreter, which computes every operation by its reference on the processor. It is slow, and needs no driver.
    Interpreter,
}

/// How a device is opened.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct DeviceOptions {
    /// Which device.
    pub device: DeviceChoice,
    /// Whether matrix units are left alone even where the device has such that could be used. Prompts are then slower, and attention gives other
    /// bits.
    pub without_matrix_units: bool,
    /// Whether Vulkan runs under its validation layer.
    pub validation: Validation,
    /// The folder that keeps compiled pipelines from one start to the next; without it every start builds them.
    pub pipeline_cache_dir: Option<PathBuf>,
}

impl DeviceOptions {
    /// The best Vulkan device, without the validation layer and without a folder for pipelines.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

/// An open device. Clones share it, and so do the models that are loaded onto it.
#[derive(Clone, Debug)]
pub enum Place {
    /// The interpreter on the processor.
    Interpreter,
    /// A Vulkan device.
    Vulkan {
        /// The Vulkan instance.
        instance: Arc<Instance>,
        /// The device, with the pipelines that its models share.
        pipelines: Arc<Pipelines>,
    },
}

impl Place {
    /// Opens a device.
    ///
    /// # Errors
    /// No Vulkan, no device, none that the selector names, or none that zinc can use.
    pub fn open(options: &DeviceOptions, on_event: &mut dyn FnMut(OpenEvent)) -> Result<Self> {
        let selector = match &options.device {
            DeviceChoice::Interpreter => return Ok(Self::Interpreter),
            DeviceChoice::Vulkan(selector) => Some(selector.clone()),
            DeviceChoice::Best => None,
        };
        let instance = Instance::new(&InstanceOptions::default().with_validation(options.validation))?;
        let mut wants = selector.map_or_else(Wants::default, |selector| Wants::default().with_device(selector));
        if options.without_matrix_units {
            wants = wants.without_matrix_units();
        }
        let mut plan = DevicePlan::choose(&instance.adapters()?, &wants)?;
        if let Some(directory) = &options.pipeline_cache_dir {
            plan = plan.with_pipeline_cache_dir(directory);
        }
        for notice in &plan.notices {
            on_event(OpenEvent::Note(Note::Device(notice.clone())));
        }
        let device = Device::open(&instance, &plan)?;
        if let Some(fault) = device.pipeline_cache_fault() {
            on_event(OpenEvent::Note(Note::PipelineCache(fault.clone())));
        }
        Ok(Self::Vulkan { instance, pipelines: Arc::new(Pipelines::new(device)) })
    }

    /// The name of the device.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Interpreter => "interpreter",
            Self::Vulkan { pipelines, .. } => &pipelines.device().facts().name,
        }
    }

    /// The Vulkan device, where it is one.
    #[must_use]
    pub fn device(&self) -> Option<&Arc<Device>> {
        match self {
            Self::Interpreter => None,
            Self::Vulkan { pipelines, .. } => Some(pipelines.device()),
        }
    }

    /// Fails if the validation layer, where it is on, has reported anything since the instance was made.
    ///
    /// # Errors
    /// [`Error::Validation`] with the first message.
    pub fn check_validation(&self) -> Result<()> {
        let Self::Vulkan { instance, .. } = self else {
            return Ok(());
        };
        let messages = instance.validation_messages();
        match messages.first() {
            None => Ok(()),
            Some(first) => Err(Error::Validation { count: messages.len(), first: first.clone() }),
        }
    }
}
