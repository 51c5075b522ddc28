//! Loading a model onto a device and starting the engine that drives it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use zinc_kernels::Pipelines;
use zinc_kernels::ops::ActFormat;
use zinc_kernels::step::{FeedShapes, MOST_LANES, StepShape};
use zinc_model::device::{DeviceModel, MOST_ACTIVATION_BYTES, MOST_RANGE, available};
use zinc_model::memory::{LoadOptions, MemoryPlan};
use zinc_model::plan::{MtpDraft, PlanKind, PlanOptions, RowCounts, Sampler, SamplingStage, Sizes, StepPlan};
use zinc_sched::adapter::{DraftSource, InterpreterModel, Queues, Sync, VulkanModel, VulkanOptions};
use zinc_sched::{
    CheckpointLimits, Engine, EngineHandle, EngineOptions, FnClock, InflightDepth, ModelCall, SpeculationMode, Tracing,
};
use zinc_vk::host_now_ns;

use crate::answer::AnswerStream;
use crate::draft::DraftOptions;
use crate::error::Result;
use crate::event::{Note, OpenEvent};
use crate::file::{FileOptions, ModelFile};
use crate::place::{DeviceOptions, Place};
use crate::rules::AnswerRules;

/// How a model is loaded and driven. Of these options only `act`, the form of activations, can change which tokens are
/// generated.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DriveOptions {
    /// The form of the activations that are multiplied with quantised weights.
    pub act: ActFormat,
    /// How steps are recorded and submitted, and how the host waits for them.
    pub sync: Sync,
    /// Steps in flight with [`Sync::Timeline`]. The baselines with a fence have one.
    pub depth: InflightDepth,
    /// The queues that steps are submitted to.
    pub queues: Queues,
    /// The rows of steps that feed a prompt: how many of its tokens are computed together. `None` for as many as suit the device. The interpreter
    /// ignores this.
    pub feed_shape: Option<StepShape>,
    /// How tokens are drafted; `None` for no drafts. The interpreter ignores this.
    pub draft: Option<DraftOptions>,
    /// The longest time that there is to be between two tokens of a sequence while prompts of others are fed ([`EngineOptions::max_gap`]).
    pub max_gap: Duration,
    /// How many copies of recurrent states are kept in the host's memory, of models that have such states; 0 for none, so that every prompt is computed from its
    /// beginning. The interpreter keeps none.
    pub checkpoints: u32,
    /// How many requests may wait behind those that run, at least 1.
    pub queue_capacity: usize,
    /// How the device is opened again if it is lost, so that the model can be loaded anew for the requests that wait; without it they fail. The
    /// interpreter ignores this.
    pub reopen: Option<DeviceOptions>,
    /// Whether steps are stamped with the device's clock, for the traces of requests that ask for one.
    pub trace: Tracing,
    /// Time for which the engine's thread is kept busy after every delivered token, to measure how much work of the
    /// host queueing ahead can hide.
    pub host_work: Duration,
}

impl DriveOptions {
    /// The default options: the timeline with its default depth, one queue, prompts fed by as many rows as suit the device, 14-bit
    /// activations, no drafts and no timestamps.
    #[must_use]
    pub fn new() -> Self {
        Self {
            act: ActFormat::default(),
            sync: Sync::Timeline,
            depth: InflightDepth::DEFAULT,
            queues: Queues::One,
            feed_shape: None,
            draft: None,
            max_gap: EngineOptions::MAX_GAP,
            checkpoints: CheckpointLimits::SLOTS,
            queue_capacity: EngineOptions::default().queue_capacity,
            reopen: None,
            trace: Tracing::Off,
            host_work: Duration::ZERO,
        }
    }

    /// The depth that the engine is given. With a fence it is 1, since nothing is in flight while the host handles a
    /// token.
    fn depth(&self) -> InflightDepth {
        if self.sync == Sync::Timeline { self.depth } else { InflightDepth::ONE }
    }
}

impl Default for DriveOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// Everything that [`LoadedModel::open`] can be told.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct OpenOptions {
    /// How the file is opened.
    pub file: FileOptions,
    /// How the device is opened.
    pub device: DeviceOptions,
    /// How the model is loaded and driven.
    pub drive: DriveOptions,
}

impl OpenOptions {
    /// The defaults of all parts.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

/// A loaded model with the engine that drives it, on a thread of its own. Dropping it ends both.
#[derive(Debug)]
pub struct LoadedModel {
    file: Arc<ModelFile>,
    engine: EngineHandle,
    place: Place,
}

impl LoadedModel {
    /// Opens a file, opens a device and loads the model onto it. `on_event` is called with the progress and with notes
    /// for the user.
    ///
    /// # Errors
    /// The errors of [`ModelFile::open`], [`Place::open`] and [`ModelFile::load`].
    pub fn open(path: impl AsRef<Path>, options: &OpenOptions, on_event: &mut dyn FnMut(OpenEvent)) -> Result<Self> {
        let file = ModelFile::open(path.as_ref(), &options.file, on_event)?;
        let place = Place::open(&options.device, on_event)?;
        file.load(&place, &options.drive, on_event)
    }

    /// What the host needs of the model: its tokenizer, template and sizes.
    #[must_use]
    pub fn file(&self) -> &ModelFile {
        &self.file
    }

    /// The engine's handle, for requests of other kinds than [`Self::answer`] makes.
    #[must_use]
    pub fn engine(&self) -> &EngineHandle {
        &self.engine
    }

    /// Where the model runs.
    #[must_use]
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Queues a request to continue `prompt` under `rules`, and returns a stream of its text. Dropping the stream
    /// cancels the request.
    ///
    /// # Errors
    /// A request that the engine refuses: an empty or too long prompt, a full queue, an engine that has stopped.
    pub fn answer(&self, rules: &AnswerRules, prompt: Vec<u32>) -> Result<AnswerStream> {
        if !rules.scored().is_empty() {
            self.file.check_prompt(&[&prompt[..], rules.scored()].concat())?;
        }
        let generation = self.engine.generate(rules.request(prompt))?;
        Ok(AnswerStream::new(generation, rules.text(self.file.tokenizer())).with_scored(rules.scored().len()))
    }

    /// Ends the engine and checks that the validation layer, if it is on, has reported nothing.
    ///
    /// # Errors
    /// [`Error::Validation`](crate::Error::Validation).
    pub fn close(self) -> Result<()> {
        let Self { file: _, engine, place } = self;
        // The engine's thread ends before the messages are read: what it does last may still cause one.
        drop(engine);
        place.check_validation()
    }
}

/// The longest range of layers by which prompts are fed so that no two tokens of another sequence are further apart than `max_gap`: two thirds of it, which
/// leaves a third for the step that brings the second token, and [`MOST_RANGE`] at most.
#[must_use]
pub fn longest_range(max_gap: Duration) -> Duration {
    (max_gap / 3).saturating_mul(2).min(MOST_RANGE)
}

/// The rows of the steps of a model that sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SamplingRows {
    /// More than one with drafts or several lanes.
    pub shape: StepShape,
    /// The most drafts among them of a lane.
    pub drafts: u32,
}

impl SamplingRows {
    /// Rows without drafts.
    #[must_use]
    pub const fn plain(shape: StepShape) -> Self {
        Self { shape, drafts: 0 }
    }

    /// Those of a step of one lane that verifies so many drafts: the last token and the drafts behind it.
    ///
    /// # Panics
    /// If there are more drafts than a step has room for.
    #[must_use]
    pub const fn verifying(drafts: u32) -> Self {
        Self { shape: StepShape::of(drafts + 1), drafts }
    }
}

/// A model on a device, with what drafts for it.
#[derive(Debug)]
#[non_exhaustive]
pub struct DeviceModels {
    /// The model.
    pub model: DeviceModel,
    /// The rows of its steps that feed a prompt.
    pub feed_shapes: FeedShapes,
    /// What drafts for it, if anything does.
    pub draft_source: Option<DraftSource>,
}

impl ModelFile {
    /// Loads the model onto an open device and starts its engine. Several models may share a device.
    ///
    /// # Errors
    /// A model that does not fit, a draft model that does not suit, or what goes wrong while loading.
    pub fn load(
        self,
        place: &Place,
        options: &DriveOptions,
        on_event: &mut dyn FnMut(OpenEvent),
    ) -> Result<LoadedModel> {
        let speculation = options.draft.as_ref().map_or(SpeculationMode::Off, |draft| draft.speculation);
        let driven = EngineOptions::default()
            .with_depth(options.depth())
            .with_host_work(options.host_work)
            .with_max_gap(options.max_gap)
            .with_queue_capacity(options.queue_capacity)
            .with_speculation(speculation);
        let clock = FnClock(host_now_ns);
        let file = Arc::new(self);
        let engine = match place {
            Place::Interpreter => {
                let lanes = file.cache().lanes;
                if lanes != 1 {
                    let expected = "1 on the interpreter".to_owned();
                    let what = "the number of lanes";
                    return Err(zinc_model::Error::KernelLimit { what, value: lanes, expected }.into());
                }
                Engine::spawn(InterpreterModel::new(file.model(), file.cache()), clock, driven)?
            }
            Place::Vulkan { pipelines, .. } => {
                let engine = Engine::new(file.vulkan_model(pipelines, options, on_event)?, clock, driven)?;
                match options.reopen.clone() {
                    None => engine.into_thread()?,
                    Some(device) => {
                        let (file, options) = (Arc::clone(&file), options.clone());
                        engine.into_lasting_thread(move |lost| {
                            // Its memory has to be free before there is room for another.
                            drop(lost);
                            file.loaded_anew(&device, &options).map_err(|error| zinc_sched::Error::Model {
                                call: ModelCall::Open,
                                source: Arc::new(error),
                            })
                        })?
                    }
                }
            }
        };
        Ok(LoadedModel { file, engine, place: place.clone() })
    }

    /// The model on a device that is opened for it. What a user would be told is only logged.
    fn loaded_anew(&self, device: &DeviceOptions, options: &DriveOptions) -> Result<VulkanModel> {
        let mut log = |event| {
            if let OpenEvent::Note(note) = event {
                tracing::warn!(%note, "the device is opened again");
            }
        };
        match Place::open(device, &mut log)? {
            Place::Vulkan { pipelines, .. } => self.vulkan_model(&pipelines, options, &mut log),
            Place::Interpreter => Err(zinc_sched::Error::Stopped.into()),
        }
    }

    fn vulkan_model(
        &self,
        pipelines: &Arc<Pipelines>,
        options: &DriveOptions,
        on_event: &mut dyn FnMut(OpenEvent),
    ) -> Result<VulkanModel> {
        let draft = options.draft.as_ref();
        let lanes = self.lanes(draft)?;
        let drafts = draft.map_or(0, |draft| draft.tokens);
        let sampling = SamplingRows { shape: StepShape::of(drafts + 1).max(StepShape::of(lanes)), drafts };
        let DeviceModels { model, feed_shapes, draft_source } =
            self.load_onto(pipelines, options.act, (options.feed_shape, sampling), draft, on_event)?;
        let driven = VulkanOptions::new(options.depth())
            .with_sync(options.sync)
            .with_act(options.act)
            .with_feed_shapes(feed_shapes)
            .with_longest_range(longest_range(options.max_gap))
            .with_stamps(options.trace)
            .with_checkpoints(options.checkpoints)
            .with_queues(options.queues)
            .with_draft_source(draft_source);
        Ok(VulkanModel::new(model, driven)?)
    }

    /// How many lanes the model is to have.
    fn lanes(&self, draft: Option<&DraftOptions>) -> Result<u32> {
        let lanes = self.cache().lanes;
        // A draft model has a cache for one sequence, and multi-token prediction a state.
        let needs_one = draft.is_some_and(|draft| draft.drafter.needs_one_lane());
        if (1..=MOST_LANES).contains(&lanes) && (lanes == 1 || !needs_one) {
            return Ok(lanes);
        }
        let expected = if needs_one {
            "1 with a draft model or multi-token prediction".to_owned()
        } else {
            format!("1 to {MOST_LANES}")
        };
        Err(zinc_model::Error::KernelLimit { what: "the number of lanes", value: lanes, expected }.into())
    }

    /// Loads the model onto the device that `pipelines` belong to, and the draft model that `draft` names, if it names one. Steps that feed a prompt
    /// have the rows of `feed_shape`, or as many as suit the device and fit into its memory; steps that sample those of `sampling`.
    ///
    /// # Errors
    /// A model that does not fit into memory, a draft model that does not suit, or an error of the device.
    pub fn load_onto(
        &self,
        pipelines: &Arc<Pipelines>,
        act: ActFormat,
        (feed_shape, sampling): (Option<StepShape>, SamplingRows),
        draft: Option<&DraftOptions>,
        on_event: &mut dyn FnMut(OpenEvent),
    ) -> Result<DeviceModels> {
        // A draft model comes first, and leaves room for this one with prompts fed token by token.
        let kept = self.memory_plan(StepShape::ONE, sampling).total();
        let draft_source =
            draft.map(|draft| self.draft_source(draft, pipelines, act, (feed_shape, kept), on_event)).transpose()?;
        let feed_shapes = feed_shape.map_or_else(|| self.feed_shapes(pipelines, sampling, 0), FeedShapes::always);
        let model = self.load_weights(pipelines, act, feed_shapes, sampling, on_event)?;
        Ok(DeviceModels { model, feed_shapes, draft_source })
    }

    /// The rows of steps that feed a prompt, unless asked otherwise: as many as suit the device, or fewer where their activations would not fit into
    /// its memory beside `kept` bytes for others. Steps that sample have the rows of `sampling`.
    pub(crate) fn feed_shapes(&self, pipelines: &Pipelines, sampling: SamplingRows, kept: u64) -> FeedShapes {
        let available = available(pipelines.device());
        // Allocators take memory in blocks, of which plans know nothing.
        let room = available.saturating_sub(kept).saturating_sub((256 << 20).min(available / 16));
        let sizes = Sizes { config: &self.model().config, cache: self.cache() };
        let fits = |shape: StepShape| {
            let counts = RowCounts::new(shape.rows(), sampling.shape.rows());
            sizes.activation_bytes(counts) <= MOST_ACTIVATION_BYTES && self.memory_plan(shape, sampling).total() <= room
        };
        let suited = pipelines.target().tuning.feed_shapes;
        let mut most = suited.most();
        while most > StepShape::ONE && !fits(most) {
            most = StepShape::of(most.rows() / 2);
        }
        suited.at_most(most)
    }

    fn load_options_of(&self, feed_shape: StepShape, sampling: SamplingRows) -> LoadOptions {
        self.load_options(RowCounts::new(feed_shape.rows(), sampling.shape.rows()), sampling.drafts)
    }

    fn memory_plan(&self, feed_shape: StepShape, sampling: SamplingRows) -> MemoryPlan {
        let model = self.model();
        MemoryPlan::new(&model.config, &model.weights, self.load_options_of(feed_shape, sampling))
    }

    /// Checks that the model fits, uploads its weights to the device that `pipelines` belong to, and builds the
    /// pipelines that the model needs, except those that `feed_shapes` leaves to the first long prompt. Steps that feed a prompt can have the rows of
    /// `feed_shapes`, and steps that sample those of `sampling`. If the pipelines cannot be saved for the next start, that is an [`OpenEvent::Note`] and no error.
    ///
    /// # Errors
    /// A model that does not fit into memory, or an error of the device.
    pub fn load_weights(
        &self,
        pipelines: &Arc<Pipelines>,
        act: ActFormat,
        feed_shapes: FeedShapes,
        sampling: SamplingRows,
        on_event: &mut dyn FnMut(OpenEvent),
    ) -> Result<DeviceModel> {
        let weights = &self.model().weights;
        let total = weights.bytes();
        let options = self.load_options_of(feed_shapes.most(), sampling);
        let loaded = DeviceModel::load(pipelines, self.model(), options, &mut |done| {
            on_event(OpenEvent::Weights { done, total });
        })?;
        let plans = self.plans_of_steps(&loaded, act, feed_shapes, sampling.shape);
        loaded.build_pipelines(&plans, &mut |done, total| {
            on_event(OpenEvent::Pipelines { done: done as u64, total: total as u64 });
        })?;
        if let Err(fault) = pipelines.device().save_pipeline_cache() {
            tracing::warn!(%fault, "the pipelines are not kept for the next start");
            on_event(OpenEvent::Note(Note::PipelineCache(fault)));
        }
        Ok(loaded)
    }

    /// The plans of the steps whose pipelines are built when the model is loaded: all but those that `feed_shapes` leaves to the first long prompt. So that
    /// nobody waits for a pipeline while others generate, these are the steps of every shape.
    fn plans_of_steps(
        &self,
        loaded: &DeviceModel,
        act: ActFormat,
        feed_shapes: FeedShapes,
        sampling_shape: StepShape,
    ) -> Vec<StepPlan> {
        let (weights, lanes) = (&self.model().weights, self.cache().lanes);
        let tiled_rows = loaded.sampling_tiled_rows();
        let decode = PlanOptions::new(PlanKind::Decode, act).with_tiled_rows(tiled_rows);
        let stages = [SamplingStage::PLAIN, SamplingStage { sampler: Sampler::Chain { dry: true }, logprobs: false }];
        // Steps of lanes have as many rows as sequences run, and those that verify drafts have all of them.
        let is_used = |shape: &StepShape| lanes > 1 || [StepShape::ONE, sampling_shape].contains(shape);
        let sampling: Vec<PlanOptions> = StepShape::up_to(sampling_shape)
            .filter(is_used)
            .flat_map(|shape| stages.map(|stage| decode.clone().with_shape(shape).with_sampling(stage)))
            .collect();
        let feed = PlanOptions::new(PlanKind::Feed, act);
        let most = feed_shapes.made_at_load();
        let feeding = StepShape::up_to(most).filter(|shape| StepShape::feeding(shape.rows(), most) == *shape);
        // The pipelines of decoding come first: on an H200 a step was 1.2 % slower where those of feeding did.
        // All sampling stages have the same layers. What is behind the layers comes with the steps that sample behind last rows.
        let plain = sampling.iter().filter(|options| options.sampling == SamplingStage::PLAIN).cloned();
        let options = plain.chain(feeding.map(|shape| feed.clone().with_shape(shape)));
        let with_mtp_rows = |plan: StepPlan, options: &PlanOptions| {
            if weights.mtp.is_some() { plan.followed_by(StepPlan::mtp_rows(weights, options)) } else { plan }
        };
        let plans = options.map(|options| with_mtp_rows(StepPlan::new(weights, &options), &options));
        let mut plans: Vec<StepPlan> = plans.flat_map(|plan| loaded.ranges(plan, MOST_RANGE)).collect();
        // Ranges may be shorter, and what stands between them is a kernel, too.
        plans.extend(loaded.ranges(StepPlan::new(weights, &feed.with_shape(most)), Duration::ZERO));
        plans.extend(sampling.iter().map(|options| StepPlan::behind_last_rows(weights, options)));
        if weights.mtp.is_some() {
            plans.extend([MtpDraft::First, MtpDraft::Next].map(|draft| StepPlan::mtp_draft(weights, act, draft)));
        }
        plans
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_leave_a_third_of_the_gap() {
        assert_eq!(longest_range(Duration::from_millis(9)), Duration::from_millis(6));
        for gap in [Duration::from_secs(1), Duration::MAX] {
            assert_eq!(longest_range(gap), MOST_RANGE, "{gap:?}");
        }
    }
}
