//! Estimates the memory and the work that a model takes, without a device.

use std::path::Path;

use zinc_kernels::ops::ActFormat;
use zinc_kernels::step::StepShape;
use zinc_model::Model;
use zinc_model::memory::{LoadOptions, MemoryPlan};
use zinc_model::plan::{Cost, PlanKind, PlanOptions, RowCounts, Sizes, StepPlan, barriers_before};

use crate::error::Result;
use crate::file::FileOptions;

/// The memory and the work that running a model takes.
#[derive(Clone, Debug)]
pub struct Estimate {
    /// The least memory on the device: without drafts, and with prompts fed token by token. Where there is room, steps that feed prompts take more.
    pub memory: MemoryPlan,
    /// Bytes of a checkpoint of a sequence, in the host's memory; 0 if sequences have no state beside the positions of the cache.
    pub checkpoint_bytes: u64,
    /// Bytes read and floating-point operations of one token at the end of a full context.
    pub cost: Cost,
    /// Dispatches of one token.
    pub dispatches_per_token: usize,
    /// Barriers between the dispatches of one token.
    pub barriers_per_token: usize,
}

impl Estimate {
    /// Estimates the memory and the work of the model in a file. Neither its tokenizer nor a device is needed.
    ///
    /// # Errors
    /// A model that zinc cannot run, with the reason.
    pub fn of_file(path: &Path, file: &FileOptions) -> Result<Self> {
        Ok(Self::of_model(&Model::open_with(path, &file.model_options())?, file))
    }

    /// Estimates the memory and the work of an opened model, whose context and cache are as `file` says.
    #[must_use]
    pub fn of_model(model: &Model, file: &FileOptions) -> Self {
        let options = LoadOptions::new(file.cache(model.config.n_ctx_train)).with_counts(RowCounts::ONE);
        let options = options.with_windows(file.full_windows);
        let cache = options.cache;
        let plan = StepPlan::new(&model.weights, &PlanOptions::new(PlanKind::Decode, ActFormat::default()));
        let sizes = Sizes { config: &model.config, cache };
        let last = cache.context.saturating_sub(1);
        Self {
            memory: MemoryPlan::new(&model.config, &model.weights, options),
            checkpoint_bytes: model.config.recurrent_bytes(0) + sizes.window_bytes(),
            cost: plan.ops.iter().map(|op| op.cost(&model.weights, &sizes, last, StepShape::ONE)).sum(),
            dispatches_per_token: plan.ops.len(),
            barriers_per_token: barriers_before(&plan.ops).into_iter().filter(|barrier| *barrier).count(),
        }
    }
}
