//! Opening a model: first what the host needs of it, then the model on a device with the engine that drives it.
//!
//! The two are apart so that whatever is wrong with a file or a prompt is said before gigabytes are loaded.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use zinc_model::{ChatTemplate, Tokenizer, gguf};
use zinc_sched::EngineHandle;
use zinc_vk::Instance;

use crate::args::{CacheArgs, Device, EngineArgs};
use crate::device;
use crate::error::{Error, Result};
use crate::output;

/// Tokens of context where neither the user nor the model asks for less.
const DEFAULT_CONTEXT: u32 = 4096;

/// What the host needs of a model: everything except weights on a device.
pub(crate) struct HostModel {
    pub(crate) file: gguf::File,
    pub(crate) tokenizer: Tokenizer,
    /// Tokens of context that it will be loaded with.
    pub(crate) context: u32,
}

impl HostModel {
    /// Opens a file and decides on the context.
    ///
    /// # Errors
    /// Whatever is wrong with the file.
    pub(crate) fn open(path: &Path, cache: &CacheArgs) -> Result<Self> {
        let file = gguf::File::open(path)?;
        let tokenizer = Tokenizer::from_gguf(&file)?;
        let context = context(cache.ctx_size, trained_context(&file)?);
        Ok(Self { file, tokenizer, context })
    }

    /// The chat template. A file whose template is missing or broken can still be used without it.
    ///
    /// # Errors
    /// As [`chat_template`].
    pub(crate) fn template(&self) -> Result<ChatTemplate> {
        chat_template(&self.file)
    }

    /// Checks that a prompt is not empty and fits into the context.
    ///
    /// # Errors
    /// [`Error::PromptTooLong`] with both numbers.
    pub(crate) fn check_prompt(&self, ids: &[u32]) -> Result<()> {
        if ids.is_empty() {
            return Err(zinc_sched::Error::EmptyPrompt.into());
        }
        if ids.len() as u64 > u64::from(self.context) {
            return Err(Error::PromptTooLong { prompt: ids.len(), context: self.context });
        }
        Ok(())
    }

    /// Loads the model onto a device and starts its engine.
    ///
    /// # Errors
    /// No device, a model that does not fit, or what goes wrong while loading.
    pub(crate) fn load(self, args: &EngineArgs, host_work: Duration) -> Result<Session> {
        let selector = match &args.device.device {
            Some(Device::Vulkan(selector)) => Some(selector.clone()),
            None => None,
            Some(Device::Interpreter) => {
                return Err(Error::usage("the interpreter only computes logits: `zinc logits --device interpreter`"));
            }
        };
        let start = Instant::now();
        let vulkan = device::open_vulkan()?;
        let device = device::open_device(&vulkan, selector)?;
        let progress = output::progress_bytes(self.file.tensors().iter().map(|tensor| tensor.bytes).sum(), "loading");
        let handle = start_engine(&self, &device, args, host_work, &mut |bytes| progress.set_position(bytes))?;
        progress.finish_and_clear();
        Ok(Session { host: self, handle, load: start.elapsed(), vulkan })
    }
}

/// The chat template of a file.
///
/// # Errors
/// [`Error::NoTemplate`] where the file has none, and whatever is wrong with the one it has.
pub(crate) fn chat_template(file: &gguf::File) -> Result<ChatTemplate> {
    match ChatTemplate::from_gguf(file) {
        Err(zinc_model::Error::MissingKey { .. }) => Err(Error::NoTemplate),
        other => Ok(other?),
    }
}

/// Loads the weights, telling `progress` how many bytes are there, and starts the engine.
fn start_engine(
    host: &HostModel,
    device: &Arc<zinc_vk::Device>,
    args: &EngineArgs,
    host_work: Duration,
    progress: &mut dyn FnMut(u64),
) -> Result<EngineHandle> {
    let _ = (host.context, device, args.sync, args.depth, &args.cache, host_work);
    progress(0);
    Err(Error::Unfinished { what: "loading a model onto a device" })
}

/// The context that a file says its model was trained for; 0 where it does not say.
fn trained_context(file: &gguf::File) -> Result<u32> {
    let metadata = file.metadata();
    let architecture = metadata.require_str("general.architecture")?;
    Ok(metadata.get_u32(&format!("{architecture}.context_length"))?.unwrap_or(0))
}

/// The context to load a model with.
fn context(asked: Option<u32>, trained: u32) -> u32 {
    match (asked, trained) {
        (None | Some(0), 0) => DEFAULT_CONTEXT,
        (None, trained) => trained.min(DEFAULT_CONTEXT),
        (Some(0), trained) => trained,
        (Some(asked), trained) => {
            if trained > 0 && asked > trained {
                output::notice(&format!(
                    "-c {asked} is more context than the {trained} tokens the model was trained for"
                ));
            }
            asked
        }
    }
}

/// A loaded model.
pub(crate) struct Session {
    pub(crate) host: HostModel,
    pub(crate) handle: EngineHandle,
    /// How long loading took.
    pub(crate) load: Duration,
    vulkan: Arc<Instance>,
}

impl Session {
    /// Ends the engine and checks that the validation layer, where it is on, had nothing to say.
    ///
    /// # Errors
    /// [`Error::Validation`].
    pub(crate) fn close(self) -> Result<()> {
        // The engine's thread ends first: what it does last may still cause a message.
        drop(self.handle);
        device::check_validation(&self.vulkan)
    }
}

/// What running a model takes.
pub(crate) struct Estimate {
    /// Tokens of context that this is for.
    pub(crate) context: u32,
    /// Bytes of all weights on the device.
    pub(crate) weight_bytes: u64,
    /// Bytes of keys and values of the whole context.
    pub(crate) cache_bytes: u64,
    /// Bytes of everything else on the device.
    pub(crate) work_bytes: u64,
    /// Bytes of weights read for one token.
    pub(crate) weight_bytes_per_token: u64,
    /// Bytes of keys and values read and written for one token at the end of the context.
    pub(crate) cache_bytes_per_token: u64,
    /// Dispatches of one token.
    pub(crate) dispatches_per_token: usize,
    /// Barriers between them.
    pub(crate) barriers_per_token: usize,
}

/// Works out what running a model takes, without a device.
///
/// # Errors
/// A model that zinc cannot run, with the reason.
pub(crate) fn estimate(file: &gguf::File, cache: &CacheArgs) -> Result<Estimate> {
    let _ = (context(cache.ctx_size, trained_context(file)?), cache.cache_type_k, cache.cache_type_v);
    Err(Error::Unfinished { what: "the estimate" })
}

/// Logits at every position of `ids`, position after position.
///
/// # Errors
/// As [`HostModel::load`].
pub(crate) fn logits(host: &HostModel, ids: &[u32], cache: &CacheArgs, device: Option<&Device>) -> Result<Vec<f32>> {
    let _ = (host, ids, cache, device);
    Err(Error::Unfinished { what: "computing logits" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_context_is_what_was_asked_for_or_a_moderate_default() {
        assert_eq!(context(None, 262_144), DEFAULT_CONTEXT);
        assert_eq!(context(None, 512), 512);
        assert_eq!(context(None, 0), DEFAULT_CONTEXT);
        assert_eq!(context(Some(0), 262_144), 262_144);
        assert_eq!(context(Some(0), 0), DEFAULT_CONTEXT);
        assert_eq!(context(Some(100), 512), 100);
        assert_eq!(context(Some(1000), 512), 1000);
    }
}
