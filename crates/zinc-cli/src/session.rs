//! Opening a model: first what the host needs of it, then the model on a device with the engine that drives it.
//!
//! The two are apart so that whatever is wrong with a file or a prompt is said before gigabytes are loaded.

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use zinc_kernels::Pipelines;
use zinc_kernels::ops::{ActFormat, CacheFormat};
use zinc_model::device::DeviceModel;
use zinc_model::memory::{LoadOptions, MemoryPlan};
use zinc_model::plan::{CacheOptions, Cost, PlanKind, Sampler, SamplingStage, Sizes, StepPlan, barriers_before};
use zinc_model::{ChatTemplate, Model, Tokenizer, gguf};
use zinc_sched::adapter::{DraftSource, InterpreterModel, Score, VulkanModel, VulkanOptions};
use zinc_sched::{Engine, EngineHandle, EngineOptions, FnClock, InflightDepth, Tracing};
use zinc_vk::{Instance, host_now_ns};

use crate::args::{self, CacheArgs, CacheType, CacheTypeArgs, Device, DeviceArgs, DraftArgs, EngineArgs, Sync};
use crate::device;
use crate::error::{Error, Result};
use crate::output;

/// Tokens of context where neither the user nor the model asks for less.
const DEFAULT_CONTEXT: u32 = 4096;

/// What the host needs of a model: everything except weights on a device.
pub(crate) struct HostModel {
    pub(crate) model: Arc<Model>,
    pub(crate) tokenizer: Tokenizer,
    /// How it will be loaded.
    pub(crate) cache: CacheOptions,
}

impl HostModel {
    /// Opens a file and decides on the context.
    ///
    /// # Errors
    /// Whatever is wrong with the file.
    pub(crate) fn open(path: &Path, cache: &CacheArgs) -> Result<Self> {
        Self::open_with(path, |model| cache_options(cache, model))
    }

    /// Opens a file for a context of so many tokens.
    ///
    /// # Errors
    /// Whatever is wrong with the file.
    pub(crate) fn open_for(path: &Path, tokens: u32, types: &CacheTypeArgs) -> Result<Self> {
        Self::open_with(path, |model| cache_of(context(Some(tokens), model.config.n_ctx_train), types))
    }

    fn open_with(path: &Path, cache: impl FnOnce(&Model) -> CacheOptions) -> Result<Self> {
        let model = Arc::new(Model::open(path)?);
        let tokenizer = Tokenizer::from_gguf(&model.file)?;
        let cache = cache(&model);
        Ok(Self { model, tokenizer, cache })
    }

    /// The chat template. A file whose template is missing or broken can still be used without it.
    ///
    /// # Errors
    /// As [`chat_template`].
    pub(crate) fn template(&self) -> Result<ChatTemplate> {
        chat_template(&self.model.file)
    }

    /// Checks that a prompt is not empty and fits into the context.
    ///
    /// # Errors
    /// [`Error::PromptTooLong`] with both numbers.
    pub(crate) fn check_prompt(&self, ids: &[u32]) -> Result<()> {
        if ids.is_empty() {
            return Err(zinc_sched::Error::EmptyPrompt.into());
        }
        if ids.len() as u64 > u64::from(self.cache.context) {
            return Err(Error::PromptTooLong { prompt: ids.len(), context: self.cache.context });
        }
        Ok(())
    }

    /// Loads the model onto a device and starts its engine.
    ///
    /// # Errors
    /// No device, a model that does not fit, or what goes wrong while loading.
    pub(crate) fn load(self, args: &EngineArgs, host_work: Duration, stamps: Tracing) -> Result<Session> {
        let start = Instant::now();
        // The fence baseline has nothing in flight while the host looks at a token.
        let depth = if args.sync == Sync::Timeline { args.depth } else { InflightDepth::ONE };
        let speculation = args.draft.speculation();
        let options =
            EngineOptions::default().with_depth(depth).with_host_work(host_work).with_speculation(speculation);
        let clock = FnClock(host_now_ns);
        let (handle, vulkan, name) = match open(&args.device)? {
            Place::Interpreter => {
                let handle = Engine::spawn(InterpreterModel::new(&self.model, self.cache), clock, options)?;
                (handle, None, "interpreter".to_owned())
            }
            Place::Vulkan { vulkan, device } => {
                let act = args.device.act.into();
                let draft_source = self.draft_source(&args.draft, &device, act)?;
                let loaded = self.load_onto(&device, act, args.draft.batch())?;
                let (sync, queues) = (args.sync.into(), args.queues.queues());
                let model = VulkanModel::new(
                    loaded,
                    VulkanOptions::new(depth)
                        .with_sync(sync)
                        .with_act(act)
                        .with_stamps(stamps)
                        .with_queues(queues)
                        .with_draft_source(draft_source),
                )?;
                (Engine::spawn(model, clock, options)?, Some(vulkan), device.facts().name.clone())
            }
        };
        Ok(Session { host: self, handle, device: name, load: start.elapsed(), vulkan })
    }

    /// What makes drafts for this model; a draft model is loaded.
    ///
    /// # Errors
    /// A draft model that cannot be loaded or has another vocabulary.
    pub(crate) fn draft_source(
        &self,
        args: &DraftArgs,
        device: &Arc<zinc_vk::Device>,
        act: ActFormat,
    ) -> Result<Option<DraftSource>> {
        let max_drafts = args.draft_max;
        if args.draft_ngram {
            return Ok(Some(DraftSource::Lookup { ngrams: args::NGRAMS, max_drafts }));
        }
        let Some(path) = &args.draft else {
            return Ok(None);
        };
        let draft = Self::open_with(path, |_| self.cache)?;
        draft.check_vocabulary(self, path)?;
        let model = Arc::new(draft.load_onto(device, act, 1)?);
        Ok(Some(DraftSource::Model { model, max_drafts }))
    }

    /// Checks that ids mean the same to this model, a draft model of `path`, as to `target`.
    fn check_vocabulary(&self, target: &Self, path: &Path) -> Result<()> {
        let (own, other) = (&self.tokenizer, &target.tokenizer);
        let differs = |id: &u32| own.token_bytes(*id) != other.token_bytes(*id);
        let sizes = (self.model.config.n_vocab, target.model.config.n_vocab);
        let different = (0..sizes.0.min(sizes.1)).find(differs);
        if different.is_some() || sizes.0 != sizes.1 {
            return Err(Error::DraftVocabulary { path: path.to_owned(), draft: sizes.0, target: sizes.1, different });
        }
        Ok(())
    }

    /// Uploads the weights and builds the pipelines, with progress. Steps take up to `batch` tokens.
    ///
    /// # Errors
    /// A model that does not fit, or what the device says.
    pub(crate) fn load_onto(&self, device: &Arc<zinc_vk::Device>, act: ActFormat, batch: u32) -> Result<DeviceModel> {
        let weights = &self.model.weights;
        let progress = output::progress_bytes(weights.bytes(), "loading");
        let pipelines = Arc::new(Pipelines::new(device.clone()));
        let options = LoadOptions::new(self.cache, batch);
        let loaded = DeviceModel::load(&pipelines, &self.model, options, &mut |bytes| progress.set_position(bytes))?;
        progress.finish_and_clear();
        let plan = |kind| StepPlan::new(weights, kind, act);
        let sampling = SamplingStage { sampler: Sampler::Chain { dry: true }, logprobs: false };
        let plans = [plan(PlanKind::Feed), plan(PlanKind::Decode), plan(PlanKind::Decode).with_sampling(sampling)];
        let progress = output::progress_steps("building pipelines");
        loaded.build_pipelines(&plans.each_ref(), &mut |done, total| {
            progress.set_length(total as u64);
            progress.set_position(done as u64);
        })?;
        progress.finish_and_clear();
        if let Err(fault) = device.save_pipeline_cache() {
            output::notice(&fault.to_string());
        }
        Ok(loaded)
    }
}

/// Where a model runs.
enum Place {
    Interpreter,
    Vulkan { vulkan: Arc<Instance>, device: Arc<zinc_vk::Device> },
}

fn open(args: &DeviceArgs) -> Result<Place> {
    let selector = match &args.device {
        Some(Device::Interpreter) => return Ok(Place::Interpreter),
        Some(Device::Vulkan(selector)) => Some(selector.clone()),
        None => None,
    };
    let vulkan = device::open_vulkan()?;
    let device = device::open_device(&vulkan, selector)?;
    Ok(Place::Vulkan { vulkan, device })
}

fn cache_options(args: &CacheArgs, model: &Model) -> CacheOptions {
    cache_of(context(args.ctx_size, model.config.n_ctx_train), &args.types)
}

/// A cache of so many tokens in the formats that were asked for.
pub(crate) fn cache_of(context: u32, types: &CacheTypeArgs) -> CacheOptions {
    let format = |cache_type| match cache_type {
        CacheType::F16 => CacheFormat::F16,
        CacheType::F32 => CacheFormat::F32,
    };
    CacheOptions::new(context, format(types.cache_type_k), format(types.cache_type_v))
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

/// The context to load a model with.
fn context(asked: Option<u32>, trained: u32) -> u32 {
    match (asked, trained) {
        (None | Some(0), 0) => DEFAULT_CONTEXT,
        (None, trained) => trained.min(DEFAULT_CONTEXT),
        (Some(0), trained) => trained,
        (Some(asked), trained) => {
            if trained > 0 && asked > trained {
                output::notice(&format!(
                    "{asked} tokens are more context than the {trained} that the model was trained for"
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
    /// Name of the device.
    pub(crate) device: String,
    /// How long loading took.
    pub(crate) load: Duration,
    /// `None` on the interpreter.
    vulkan: Option<Arc<Instance>>,
}

impl Session {
    /// Ends the engine and checks that the validation layer, where it is on, had nothing to say.
    ///
    /// # Errors
    /// [`Error::Validation`].
    pub(crate) fn close(self) -> Result<()> {
        // The engine's thread ends first: what it does last may still cause a message.
        drop(self.handle);
        self.vulkan.as_deref().map_or(Ok(()), device::check_validation)
    }
}

/// What running a model takes.
pub(crate) struct Estimate {
    /// Memory on the device.
    pub(crate) memory: MemoryPlan,
    /// What one token costs at the end of the context.
    pub(crate) cost: Cost,
    /// Dispatches of one token.
    pub(crate) dispatches_per_token: usize,
    /// Barriers between them.
    pub(crate) barriers_per_token: usize,
}

/// Works out what running a model takes, without a device.
///
/// # Errors
/// A model that zinc cannot run, with the reason.
pub(crate) fn estimate(path: &Path, args: &CacheArgs) -> Result<Estimate> {
    let model = Model::open(path)?;
    let cache = cache_options(args, &model);
    let plan = StepPlan::new(&model.weights, PlanKind::Decode, ActFormat::default());
    let sizes = Sizes { config: &model.config, cache };
    let last = cache.context.saturating_sub(1);
    Ok(Estimate {
        memory: MemoryPlan::new(&model.config, &model.weights, cache),
        cost: plan.ops.iter().map(|op| op.cost(&model.weights, &sizes, last)).sum(),
        dispatches_per_token: plan.ops.len(),
        barriers_per_token: barriers_before(&plan.ops).into_iter().filter(|barrier| *barrier).count(),
    })
}

/// Hands the logits after each of `ids` to `sink`: position and `[vocabulary]` f32.
///
/// # Errors
/// As [`HostModel::load`].
pub(crate) fn logits(
    host: &HostModel,
    ids: &[u32],
    args: &DeviceArgs,
    sink: &mut dyn FnMut(usize, &[f32]),
) -> Result<()> {
    match open(args)? {
        Place::Interpreter => {
            let scored = InterpreterModel::new(&host.model, host.cache).score(ids, sink);
            scored.map_err(|never: Infallible| match never {})
        }
        Place::Vulkan { vulkan, device } => {
            let act = args.act.into();
            let options = VulkanOptions::new(InflightDepth::ONE).with_act(act);
            let mut model = VulkanModel::new(host.load_onto(&device, act, 1)?, options)?;
            model.score(ids, sink)?;
            drop(model);
            device::check_validation(&vulkan)
        }
    }
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
