//! The debug messenger, which keeps the messages of the validation layer for the caller and passes them on to `tracing`.

use std::ffi::{CStr, c_void};

use ash::vk;
use parking_lot::Mutex;

/// Whether the instance enables the Khronos validation layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Validation {
    /// The layer is not enabled by this crate. Layers that the user names in the loader's environment variables still load.
    #[default]
    Off,
    /// `VK_LAYER_KHRONOS_validation` is enabled, with synchronisation validation.
    On,
}

/// Name of the layer that [`Validation::On`] enables.
pub(crate) const LAYER: &CStr = c"VK_LAYER_KHRONOS_validation";

/// The most messages that are kept. Without a limit, a broken loop would fill the host's memory with one complaint.
const KEPT: usize = 1024;

/// Messages of warning and error severity, in the order in which they came.
///
/// The messenger holds a pointer to this, so it lives in an `Arc` of the instance, is created before the messenger and
/// dropped after the instance is destroyed.
#[derive(Debug, Default)]
pub(crate) struct Messages(Mutex<Vec<String>>);

impl Messages {
    pub(crate) fn all(&self) -> Vec<String> {
        self.0.lock().clone()
    }
}

/// The parameters of the messenger. They are chained into the creation of the instance too, so that messages about that call are
/// heard.
pub(crate) fn create_info(messages: &Messages) -> vk::DebugUtilsMessengerCreateInfoEXT<'static> {
    vk::DebugUtilsMessengerCreateInfoEXT::default()
        .message_severity(vk::DebugUtilsMessageSeverityFlagsEXT::WARNING | vk::DebugUtilsMessageSeverityFlagsEXT::ERROR)
        .message_type(
            vk::DebugUtilsMessageTypeFlagsEXT::GENERAL
                | vk::DebugUtilsMessageTypeFlagsEXT::VALIDATION
                | vk::DebugUtilsMessageTypeFlagsEXT::PERFORMANCE,
        )
        .pfn_user_callback(Some(on_message))
        .user_data(std::ptr::from_ref(messages).cast_mut().cast())
}

/// Called by the loader and its layers, from any thread, inside any Vulkan call.
unsafe extern "system" fn on_message(
    severity: vk::DebugUtilsMessageSeverityFlagsEXT,
    kind: vk::DebugUtilsMessageTypeFlagsEXT,
    data: *const vk::DebugUtilsMessengerCallbackDataEXT<'_>,
    user: *mut c_void,
) -> vk::Bool32 {
    // SAFETY: the loader passes a valid callback structure for the duration of the call, and `user` is the pointer of
    // `create_info`, whose `Messages` outlives the messenger and the instance. Null is checked all the same.
    let (text, messages) = unsafe {
        let Some(data) = data.as_ref() else {
            return vk::FALSE;
        };
        let text = |p: *const std::ffi::c_char| {
            if p.is_null() { String::new() } else { CStr::from_ptr(p).to_string_lossy().into_owned() }
        };
        (format!("{}: {}", text(data.p_message_id_name), text(data.p_message)), user.cast::<Messages>().as_ref())
    };
    if severity.contains(vk::DebugUtilsMessageSeverityFlagsEXT::ERROR) {
        tracing::error!(target: "zinc_vk::validation", "{text}");
    } else {
        tracing::warn!(target: "zinc_vk::validation", "{text}");
    }
    // General messages are the loader speaking of manifests and drivers that it skipped: worth a log line, but they say
    // nothing about how the API is used.
    if kind != vk::DebugUtilsMessageTypeFlagsEXT::GENERAL
        && let Some(messages) = messages
    {
        let mut kept = messages.0.lock();
        if kept.len() < KEPT {
            kept.push(text);
        }
    }
    // False: the call that caused the message goes on (VUID-PFN_vkDebugUtilsMessengerCallbackEXT-None-04769).
    vk::FALSE
}
