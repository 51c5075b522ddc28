//! Drafts for a model: where they come from, and whether the vocabulary of a draft model matches.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;

use zinc_kernels::Pipelines;
use zinc_kernels::ops::ActFormat;
use zinc_kernels::step::{FeedShapes, StepShape};
use zinc_model::config::ModelOptions;
use zinc_sched::SpeculationMode;
use zinc_sched::adapter;

use crate::error::{Error, Result};
use crate::event::OpenEvent;
use crate::file::ModelFile;
use crate::load::SamplingRows;

/// What makes drafts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Drafter {
    /// A look-up: if the last tokens occurred earlier in the sequence, the tokens that followed them there are the
    /// drafts.
    Lookup,
    /// A smaller model with the same vocabulary, in this file. It drafts for a model of one lane only.
    Model(PathBuf),
    /// The model's own block for multi-token prediction, with which its file must be opened ([`FileOptions::mtp`](crate::FileOptions::mtp)). It drafts for a model
    /// of one lane only.
    Mtp,
}

impl Drafter {
    /// Whether it drafts for a model of one lane only.
    pub(crate) fn needs_one_lane(&self) -> bool {
        matches!(self, Self::Model(_) | Self::Mtp)
    }
}

/// How a model's tokens are drafted. Drafts change how fast an answer comes, never its tokens.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DraftOptions {
    /// What makes the drafts.
    pub drafter: Drafter,
    /// The most tokens that one step drafts, 1 to 15.
    pub tokens: u32,
    /// When to draft.
    pub speculation: SpeculationMode,
}

impl DraftOptions {
    /// Lengths of the runs of last tokens that a look-up searches for in the sequence. The longest run that is found
    /// decides.
    pub const NGRAMS: RangeInclusive<u32> = 2..=4;

    /// Options to draft three tokens in a step, as long as that is measured to be faster than drafting none: with the last token they fill a
    /// step of four rows.
    #[must_use]
    pub fn new(drafter: Drafter) -> Self {
        Self { drafter, tokens: 3, speculation: SpeculationMode::Automatic }
    }

    /// The rows of a step that verifies drafts: the last token and the drafts behind it.
    ///
    /// # Panics
    /// If there are more drafts than a step has room for.
    #[must_use]
    pub fn shape(&self) -> StepShape {
        StepShape::of(self.tokens + 1)
    }
}

impl ModelFile {
    /// Makes the source of drafts for this model. A draft model is loaded onto the device that `pipelines` belong to, and is
    /// fed prompts by steps of `feed_shape`. Without one it has the shape that suits the device and leaves `kept` bytes of its
    /// memory to others.
    ///
    /// # Errors
    /// A draft model that cannot be loaded, [`Error::DraftVocabulary`], [`Error::DraftRecurrent`] or [`Error::DraftMtp`].
    pub(crate) fn draft_source(
        &self,
        options: &DraftOptions,
        pipelines: &Arc<Pipelines>,
        act: ActFormat,
        (feed_shape, kept): (Option<StepShape>, u64),
        on_event: &mut dyn FnMut(OpenEvent),
    ) -> Result<adapter::DraftSource> {
        let max_drafts = options.tokens;
        match &options.drafter {
            Drafter::Mtp if !self.model().config.mtp => Err(Error::DraftMtp),
            Drafter::Mtp => Ok(adapter::DraftSource::Mtp { max_drafts }),
            Drafter::Lookup => Ok(adapter::DraftSource::Lookup { ngrams: DraftOptions::NGRAMS, max_drafts }),
            Drafter::Model(path) => {
                let options = ModelOptions { rope: self.rope(), ..ModelOptions::default() };
                let draft = Self::open_with(path, &options, |_| self.cache())?;
                if draft.model().config.recurrent_bytes(0) > 0 {
                    return Err(Error::DraftRecurrent { path: path.clone() });
                }
                if let Some((own, target, different)) = draft.vocabulary_difference(self) {
                    return Err(Error::DraftVocabulary { path: path.clone(), draft: own, target, different });
                }
                let plain = SamplingRows::plain(StepShape::ONE);
                let feed_shapes =
                    feed_shape.map_or_else(|| draft.feed_shapes(pipelines, plain, kept), FeedShapes::always);
                let model = Arc::new(draft.load_weights(pipelines, act, feed_shapes, plain, on_event)?);
                Ok(adapter::DraftSource::Model { model, max_drafts })
            }
        }
    }

    /// Compares two vocabularies. If they differ, returns their sizes and the first id that stands for different bytes
    /// in them, if there is one; `None` if they are equal.
    fn vocabulary_difference(&self, other: &Self) -> Option<(u32, u32, Option<u32>)> {
        let [own, others] = [self, other].map(|file| file.model().config.n_vocab);
        let differs = |id: &u32| self.tokenizer().token_bytes(*id) != other.tokenizer().token_bytes(*id);
        let different = (0..own.min(others)).find(differs);
        (different.is_some() || own != others).then_some((own, others, different))
    }
}
