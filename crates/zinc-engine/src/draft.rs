//! What drafts for a model: where the drafts come from, and whether a draft model suits.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;

use zinc_kernels::Pipelines;
use zinc_kernels::ops::ActFormat;
use zinc_sched::SpeculationMode;
use zinc_sched::adapter;

use crate::error::{Error, Result};
use crate::event::OpenEvent;
use crate::file::ModelFile;

/// What makes drafts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Drafter {
    /// What followed the last tokens where they occurred before.
    Lookup,
    /// A smaller model with the same vocabulary, in this file.
    Model(PathBuf),
}

/// How a model's tokens are drafted. Drafts change how fast an answer comes, never its tokens.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DraftOptions {
    /// What makes the drafts.
    pub drafter: Drafter,
    /// Tokens to draft at a time, 1 to 7.
    pub tokens: u32,
    /// When to draft.
    pub speculation: SpeculationMode,
}

impl DraftOptions {
    /// How many of the last tokens must have occurred before for a look-up: the longest match wins.
    pub const NGRAMS: RangeInclusive<u32> = 2..=4;

    /// Four drafts at a time, as long as that measures faster than none.
    #[must_use]
    pub fn new(drafter: Drafter) -> Self {
        Self { drafter, tokens: 4, speculation: SpeculationMode::Automatic }
    }

    /// Tokens of a step: the last one and its drafts.
    #[must_use]
    pub fn batch(&self) -> u32 {
        self.tokens + 1
    }
}

impl ModelFile {
    /// What drafts for this model, with a draft model loaded onto the device of the pipelines.
    ///
    /// # Errors
    /// A draft model that cannot be loaded, or [`Error::DraftVocabulary`].
    pub fn draft_source(
        &self,
        options: &DraftOptions,
        pipelines: &Arc<Pipelines>,
        act: ActFormat,
        on_event: &mut dyn FnMut(OpenEvent),
    ) -> Result<adapter::DraftSource> {
        let max_drafts = options.tokens;
        match &options.drafter {
            Drafter::Lookup => Ok(adapter::DraftSource::Lookup { ngrams: DraftOptions::NGRAMS, max_drafts }),
            Drafter::Model(path) => {
                let draft = Self::open_with(path, |_| self.cache())?;
                if let Some((own, target, different)) = draft.vocabulary_difference(self) {
                    return Err(Error::DraftVocabulary { path: path.clone(), draft: own, target, different });
                }
                let model = Arc::new(draft.load_weights(pipelines, act, 1, on_event)?);
                Ok(adapter::DraftSource::Model { model, max_drafts })
            }
        }
    }

    /// The sizes of the two vocabularies, and the first id that stands for different bytes; `None` if the vocabularies are equal.
    fn vocabulary_difference(&self, other: &Self) -> Option<(u32, u32, Option<u32>)> {
        let [own, others] = [self, other].map(|file| file.model().config.n_vocab);
        let differs = |id: &u32| self.tokenizer().token_bytes(*id) != other.tokenizer().token_bytes(*id);
        let different = (0..own.min(others)).find(differs);
        (different.is_some() || own != others).then_some((own, others, different))
    }
}
