//! The Vulkan loader and the instance, which exist before a device is chosen.

use std::ffi::CStr;
use std::fmt;
use std::sync::Arc;

use ash::vk;

use crate::error::{Error, Result};
use crate::facts::{self, AdapterFacts, ApiVersion};
use crate::validation::{self, Messages, Validation};

/// How an [`Instance`] is created.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct InstanceOptions {
    /// Whether the validation layer is enabled.
    pub validation: Validation,
}

impl InstanceOptions {
    /// Returns these options with the validation layer on or off.
    #[must_use]
    pub fn with_validation(mut self, validation: Validation) -> Self {
        self.validation = validation;
        self
    }
}

/// A Vulkan instance over the system's loader, which is opened at run time.
///
/// It lives until the last device opened from it is gone.
pub struct Instance {
    pub(crate) raw: ash::Instance,
    pub(crate) debug: Option<Debug>,
    // The messenger holds its address until `Drop::drop` has destroyed it; fields drop after that.
    messages: Arc<Messages>,
    // Keeps the loader's library open. It is declared last because fields drop in order, and all of them call into it.
    pub(crate) entry: ash::Entry,
}

/// The messenger of the validation layer, which exists under [`Validation::On`] only.
pub(crate) struct Debug {
    instance: ash::ext::debug_utils::Instance,
    messenger: vk::DebugUtilsMessengerEXT,
}

/// The lowest version of Vulkan that the loader and a device must have.
pub(crate) const NEEDED: ApiVersion = ApiVersion { major: 1, minor: 2, patch: 0 };

impl Instance {
    /// Opens the loader and creates an instance.
    ///
    /// # Errors
    /// [`Error::NoLoader`], [`Error::LoaderTooOld`], [`Error::NoValidationLayer`], or what `vkCreateInstance` says.
    pub fn new(options: &InstanceOptions) -> Result<Arc<Self>> {
        // SAFETY: loading runs the initialisers of the system's Vulkan loader, which is what the user installed it for;
        // the library stays open as long as `entry` and every function pointer taken from it.
        let entry = unsafe { ash::Entry::load() }.map_err(|e| Error::NoLoader { reason: e.to_string() })?;
        // SAFETY: a plain query without preconditions.
        let version = unsafe { entry.try_enumerate_instance_version() }
            .map_err(Error::vulkan("vkEnumerateInstanceVersion"))?
            .unwrap_or(vk::API_VERSION_1_0);
        let found = ApiVersion::from_raw(version);
        if found < NEEDED {
            return Err(Error::LoaderTooOld { found, needed: NEEDED });
        }

        let messages = Arc::<Messages>::default();
        let mut layers = Vec::new();
        let mut extensions = Vec::new();
        let on = options.validation == Validation::On;
        if on {
            require_layer(&entry)?;
            layers.push(validation::LAYER.as_ptr());
            extensions.push(ash::ext::debug_utils::NAME.as_ptr());
            extensions.push(ash::ext::validation_features::NAME.as_ptr());
        }
        let mut flags = vk::InstanceCreateFlags::empty();
        if lists_extension(&entry, ash::khr::portability_enumeration::NAME)? && cfg!(target_vendor = "apple") {
            extensions.push(ash::khr::portability_enumeration::NAME.as_ptr());
            flags |= vk::InstanceCreateFlags::ENUMERATE_PORTABILITY_KHR;
        }

        let app = vk::ApplicationInfo::default()
            .application_name(c"zinc")
            .engine_name(c"zinc")
            .api_version(vk::API_VERSION_1_3);
        let checks = [vk::ValidationFeatureEnableEXT::SYNCHRONIZATION_VALIDATION];
        let mut features = vk::ValidationFeaturesEXT::default().enabled_validation_features(&checks);
        let mut messenger_info = validation::create_info(&messages);
        let mut info = vk::InstanceCreateInfo::default()
            .flags(flags)
            .application_info(&app)
            .enabled_layer_names(&layers)
            .enabled_extension_names(&extensions);
        if on {
            info = info.push_next(&mut features).push_next(&mut messenger_info);
        }
        // SAFETY: every pointer in `info` outlives the call; layers and extensions were enumerated above
        // (VUID-vkCreateInstance-ppEnabledExtensionNames-01388).
        let raw = unsafe { entry.create_instance(&info, None) }.map_err(|source| match source {
            // The loader found drivers' manifests and none of them would load, or none exist.
            vk::Result::ERROR_INCOMPATIBLE_DRIVER => Error::NoDevice,
            source => Error::Vulkan { call: "vkCreateInstance", source },
        })?;

        let mut this = Self { raw, debug: None, messages, entry };
        if on {
            let instance = ash::ext::debug_utils::Instance::new(&this.entry, &this.raw);
            // SAFETY: the extension is enabled; the `Messages` behind the user pointer is owned by `this`.
            let messenger =
                unsafe { instance.create_debug_utils_messenger(&validation::create_info(&this.messages), None) }
                    .map_err(Error::vulkan("vkCreateDebugUtilsMessengerEXT"))?;
            this.debug = Some(Debug { instance, messenger });
        }
        Ok(Arc::new(this))
    }

    /// Facts of every device that the loader lists, in its order. Empty when there is none.
    ///
    /// # Errors
    /// What `vkEnumeratePhysicalDevices` says.
    pub fn adapters(&self) -> Result<Vec<AdapterFacts>> {
        self.physical_devices()?
            .iter()
            .enumerate()
            .map(|(index, &p)| facts::query(&self.entry, &self.raw, p, index))
            .collect()
    }

    pub(crate) fn physical_devices(&self) -> Result<Vec<vk::PhysicalDevice>> {
        // SAFETY: the instance is alive; the call has no further preconditions.
        match unsafe { self.raw.enumerate_physical_devices() } {
            // Some loaders report "no driver" here instead of an empty list.
            Err(vk::Result::ERROR_INITIALIZATION_FAILED) => Ok(Vec::new()),
            other => other.map_err(Error::vulkan("vkEnumeratePhysicalDevices")),
        }
    }

    /// Everything that the validation layer said at warning or error severity, oldest first. Always empty under
    /// [`Validation::Off`].
    pub fn validation_messages(&self) -> Vec<String> {
        self.messages.all()
    }
}

fn require_layer(entry: &ash::Entry) -> Result<()> {
    // SAFETY: a plain query without preconditions.
    let layers = unsafe { entry.enumerate_instance_layer_properties() }
        .map_err(Error::vulkan("vkEnumerateInstanceLayerProperties"))?;
    if layers.iter().any(|l| l.layer_name_as_c_str() == Ok(validation::LAYER)) {
        Ok(())
    } else {
        Err(Error::NoValidationLayer { layer: "VK_LAYER_KHRONOS_validation" })
    }
}

fn lists_extension(entry: &ash::Entry, name: &CStr) -> Result<bool> {
    // SAFETY: a plain query without preconditions.
    let list = unsafe { entry.enumerate_instance_extension_properties(None) }
        .map_err(Error::vulkan("vkEnumerateInstanceExtensionProperties"))?;
    Ok(list.iter().any(|e| e.extension_name_as_c_str() == Ok(name)))
}

impl Drop for Instance {
    fn drop(&mut self) {
        // SAFETY: devices hold an `Arc` of the instance, so none is left (VUID-vkDestroyInstance-instance-00629); the
        // messenger belongs to this instance and goes first.
        unsafe {
            if let Some(debug) = &self.debug {
                debug.instance.destroy_debug_utils_messenger(debug.messenger, None);
            }
            self.raw.destroy_instance(None);
        }
    }
}

impl fmt::Debug for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Instance").field("validation", &self.debug.is_some()).finish_non_exhaustive()
    }
}
