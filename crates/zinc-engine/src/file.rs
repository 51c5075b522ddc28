//! What the host needs of a model file: everything except weights on a device.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use zinc_kernels::ops::CacheFormat;
use zinc_model::config::{ModelConfig, ModelOptions, RopeOverrides, RopeScaling, is_of_mtp, is_of_vision};
use zinc_model::gguf::TensorInfo;
use zinc_model::memory::LoadOptions;
use zinc_model::plan::{CacheOptions, RowCounts};
use zinc_model::{ChatInput, ChatTemplate, Model, Special, Tokenizer, gguf};
use zinc_sched::grammar::{Grammar, GrammarCompiler, GrammarSource, ThinkingTags};
use zinc_sched::{Sampling, SequenceBreakers};

use crate::error::{Error, Result};
use crate::event::{Note, OpenEvent};
use crate::rules::FreeThinking;

/// How many tokens of context a model is loaded with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ContextSize {
    /// [`ContextSize::DEFAULT_TOKENS`], or the context of the model's training where that is smaller.
    #[default]
    Default,
    /// The context of the model's training, or [`ContextSize::DEFAULT_TOKENS`] where the file does not say it.
    Trained,
    /// So many tokens.
    Tokens(u32),
}

impl ContextSize {
    /// Tokens of context where neither the caller nor the model asks for less.
    pub const DEFAULT_TOKENS: u32 = 4096;

    /// Tokens of context for a model that was trained for `trained` tokens, where 0 is unknown.
    #[must_use]
    pub fn tokens(self, trained: u32) -> u32 {
        match (self, trained) {
            (Self::Tokens(asked), _) => asked,
            (Self::Default | Self::Trained, 0) => Self::DEFAULT_TOKENS,
            (Self::Default, trained) => trained.min(Self::DEFAULT_TOKENS),
            (Self::Trained, trained) => trained,
        }
    }
}

/// How a model file is opened.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct FileOptions {
    /// Tokens of context that a sequence may have.
    pub context: ContextSize,
    /// Sequences that run at the same time: 1 to [`MOST_LANES`](zinc_kernels::step::MOST_LANES).
    pub lanes: u32,
    /// Tokens that the cache of several sequences has room for, all together; `None` is as many as all of them may have. With fewer, sequences may have to give
    /// their room to others for a while, which changes no token. A sequence may have no more than there is room for.
    pub cache_tokens: Option<u32>,
    /// Format of the cached keys.
    pub key_format: CacheFormat,
    /// Format of the cached values.
    pub value_format: CacheFormat,
    /// What replaces the file's position embedding, of a draft model too. Nothing does by default.
    pub rope: RopeOverrides,
    /// Whether layers with a window keep the keys and values of all positions, as other layers do, instead of those that their windows still need. Prompts then have
    /// beginnings in common with earlier ones wherever these end, not at checkpoints alone.
    pub full_windows: bool,
    /// Whether the file's block for multi-token prediction is to draft ([`Drafter::Mtp`](crate::Drafter::Mtp)). Otherwise it is left out, as it is by default.
    pub mtp: bool,
}

impl FileOptions {
    /// The default context for one sequence, with keys and values of 16-bit floats.
    #[must_use]
    pub fn new() -> Self {
        Self {
            context: ContextSize::Default,
            lanes: 1,
            cache_tokens: None,
            key_format: CacheFormat::F16,
            value_format: CacheFormat::F16,
            rope: RopeOverrides::default(),
            full_windows: false,
            mtp: false,
        }
    }

    /// What the model is opened with.
    #[must_use]
    pub fn model_options(&self) -> ModelOptions {
        ModelOptions { rope: self.rope, mtp: self.mtp }
    }

    /// The cache of a model that was trained for `trained` tokens, where 0 is unknown.
    pub(crate) fn cache(&self, trained: u32) -> CacheOptions {
        CacheOptions::new(self.context.tokens(trained), self.key_format, self.value_format)
            .with_lanes(self.lanes)
            .with_cache_tokens(self.cache_tokens)
    }
}

impl Default for FileOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// The tokens of context up to which answers are good: those of the training, or what rope scaling extends them to.
fn reach(config: &ModelConfig, overrides: &RopeOverrides) -> u32 {
    let extended = |tokens: u32, factor: f32| (f64::from(tokens) * f64::from(factor)) as u32;
    let trained = config.n_ctx_train;
    match config.rope.scaling {
        RopeScaling::Yarn(yarn) => trained.max(extended(yarn.original_context, yarn.factor)),
        // A file that is scaled linearly by itself states the extended context.
        RopeScaling::Linear { factor } if overrides.factor.is_some() => extended(trained, factor),
        RopeScaling::Linear { .. } | RopeScaling::None => trained,
    }
}

/// A model file that zinc can run, with its tokenizer. The weights stay in the mapped file.
///
/// Files, prompts and constraints are checked here, so that an error is returned before gigabytes are loaded.
pub struct ModelFile {
    model: Arc<Model>,
    tokenizer: Arc<Tokenizer>,
    cache: CacheOptions,
    /// Whether layers with a window keep the keys and values of all positions.
    full_windows: bool,
    /// What replaces the file's position embedding.
    rope: RopeOverrides,
    /// Made for the first constraint, since it takes a good part of a second for a large vocabulary.
    compiler: OnceLock<GrammarCompiler>,
    /// The last thinking whose tags were found, and what was made of them.
    tags: Mutex<Option<(FreeThinking, ThinkingTags)>>,
}

impl ModelFile {
    /// Opens a GGUF file, or any part of a split one, and decides on the context.
    ///
    /// # Errors
    /// Whatever is wrong with the file.
    pub fn open(path: &Path, options: &FileOptions, on_event: &mut dyn FnMut(OpenEvent)) -> Result<Self> {
        let mut file = Self::open_with(path, &options.model_options(), |trained| options.cache(trained))?;
        file.full_windows = options.full_windows;
        let (asked, trained) = (file.cache.context, file.model.config.n_ctx_train);
        if trained > 0 && asked > reach(&file.model.config, &options.rope) {
            on_event(OpenEvent::Note(Note::ContextBeyondTraining { asked, trained }));
        }
        let tensors = file.model.file.tensors().iter().filter(|tensor| is_of_vision(&tensor.name)).count();
        if tensors > 0 {
            on_event(OpenEvent::Note(Note::VisionIgnored { tensors }));
        }
        let is_of_mtp = |tensor: &&TensorInfo| is_of_mtp(&tensor.name, &file.model.config);
        let tensors = file.model.file.tensors().iter().filter(is_of_mtp).count();
        if tensors > 0 && !options.mtp {
            on_event(OpenEvent::Note(Note::MtpIgnored { tensors }));
        }
        Ok(file)
    }

    /// Opens a GGUF file. `cache` is called with the context that the model was trained for, in tokens, and returns the cache to use, in which layers with a window keep all
    /// positions.
    pub(crate) fn open_with(
        path: &Path,
        options: &ModelOptions,
        cache: impl FnOnce(u32) -> CacheOptions,
    ) -> Result<Self> {
        let model = Arc::new(Model::open_with(path, options)?);
        let tokenizer = Arc::new(Tokenizer::from_gguf(&model.file)?);
        let cache = cache(model.config.n_ctx_train);
        Ok(Self {
            model,
            tokenizer,
            cache,
            full_windows: true,
            rope: options.rope,
            compiler: OnceLock::new(),
            tags: Mutex::new(None),
        })
    }

    /// The model: its file, configuration and tensors.
    #[must_use]
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// What replaces the position embedding that the file describes.
    pub(crate) fn rope(&self) -> RopeOverrides {
        self.rope
    }

    /// The tokenizer.
    #[must_use]
    pub fn tokenizer(&self) -> &Arc<Tokenizer> {
        &self.tokenizer
    }

    /// The formats of the cache that the model is loaded with, and its size, which is the context in tokens. On a device layers with a window have rings in it, for as many
    /// rows as its steps have.
    #[must_use]
    pub fn cache(&self) -> CacheOptions {
        self.cache
    }

    /// How the model is loaded onto a device for steps of so many rows, of which each lane has so many drafts at most.
    pub(crate) fn load_options(&self, counts: RowCounts, drafts: u32) -> LoadOptions {
        LoadOptions::new(self.cache.with_drafts(drafts)).with_counts(counts).with_windows(self.full_windows)
    }

    /// The chat template of the file. A file whose template is missing or broken can still continue texts.
    ///
    /// # Errors
    /// The errors of [`chat_template`].
    pub fn template(&self) -> Result<ChatTemplate> {
        chat_template(&self.model.file)
    }

    /// Turns a conversation into a prompt: token ids that end where the assistant's answer begins.
    ///
    /// What the messages say never becomes a control token, whatever it looks like.
    ///
    /// # Errors
    /// A template that fails or refuses the messages, and the errors of [`Self::check_prompt`].
    pub fn chat_prompt(&self, template: &ChatTemplate, input: &ChatInput) -> Result<Vec<u32>> {
        self.checked(template.encode(input, &self.tokenizer)?)
    }

    /// The prompt of a text that the model is to continue. Control tokens in it count as such if `special` says so.
    ///
    /// # Errors
    /// A text that the vocabulary cannot express, and the errors of [`Self::check_prompt`].
    pub fn text_prompt(&self, text: &str, special: Special) -> Result<Vec<u32>> {
        self.checked(self.tokenizer.encode_prompt(text, special)?)
    }

    fn checked(&self, ids: Vec<u32>) -> Result<Vec<u32>> {
        self.check_prompt(&ids)?;
        Ok(ids)
    }

    /// Checks that a prompt is not empty, fits into the context and has ids of the vocabulary.
    ///
    /// # Errors
    /// [`zinc_sched::Error::EmptyPrompt`], [`zinc_sched::Error::PromptTooLong`] or
    /// [`zinc_sched::Error::TokenOutsideVocabulary`] with the numbers.
    pub fn check_prompt(&self, ids: &[u32]) -> Result<()> {
        if ids.is_empty() {
            return Err(zinc_sched::Error::EmptyPrompt.into());
        }
        let (prompt_tokens, context_tokens) = (ids.len() as u64, self.cache.context);
        if prompt_tokens > u64::from(context_tokens) {
            return Err(zinc_sched::Error::PromptTooLong { prompt_tokens, context_tokens }.into());
        }
        let vocabulary_tokens = self.model.config.n_vocab;
        match ids.iter().position(|&id| id >= vocabulary_tokens) {
            Some(index) => {
                let token = ids[index];
                Err(zinc_sched::Error::TokenOutsideVocabulary { index, token, vocabulary_tokens }.into())
            }
            None => Ok(()),
        }
    }

    /// Makes a grammar over the model's vocabulary.
    ///
    /// # Errors
    /// [`Error::Constraint`] with what is wrong with the source, and where.
    pub fn grammar(&self, source: &GrammarSource) -> Result<Grammar> {
        Ok(self.compiler()?.compile(source)?)
    }

    /// Finds the tokens of the tags around what a model thinks. The tags of the last call are kept, since a model has one pair of them.
    ///
    /// # Errors
    /// [`Error::Constraint`] if a tag is empty, or if the vocabulary is too large.
    pub fn thinking_tags(&self, thinking: &FreeThinking) -> Result<ThinkingTags> {
        let mut last = self.tags.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, tags)) = &*last
            && (&known.open, &known.close, &known.anew) == (&thinking.open, &thinking.close, &thinking.anew)
        {
            return Ok(tags.clone());
        }
        let mut tags = self.compiler()?.thinking(&thinking.open, &thinking.close)?;
        if let Some((before, name)) = &thinking.anew {
            tags = tags.with_anew(before, name)?;
        }
        *last = Some((thinking.clone(), tags.clone()));
        Ok(tags)
    }

    fn compiler(&self) -> Result<&GrammarCompiler> {
        if let Some(compiler) = self.compiler.get() {
            return Ok(compiler);
        }
        let compiler = GrammarCompiler::new(&self.tokenizer)?;
        Ok(self.compiler.get_or_init(|| compiler))
    }

    /// Sets DRY's sequence breakers, if `sampling` uses DRY. `texts` are the breakers, which end a repetition; the
    /// tokenizer turns them into tokens.
    ///
    /// # Errors
    /// The tokenizer's error, if it cannot turn a text into tokens.
    pub fn set_breakers<S: AsRef<str>>(&self, sampling: &mut Sampling, texts: &[S]) -> Result<()> {
        if let Some(dry) = &mut sampling.dry {
            let found = self.tokenizer.breakers(texts)?;
            dry.breakers = Some(Arc::new(SequenceBreakers { tokens: found.tokens, sequences: found.sequences }));
        }
        Ok(())
    }
}

impl fmt::Debug for ModelFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelFile")
            .field("config", &self.model.config)
            .field("tokenizer", &self.tokenizer)
            .field("cache", &self.cache)
            .finish_non_exhaustive()
    }
}

/// Reads the chat template of a file. The file may hold only a vocabulary and no weights.
///
/// # Errors
/// [`Error::NoTemplate`] if the file has no template, or the reason why its template cannot be used.
pub fn chat_template(file: &gguf::File) -> Result<ChatTemplate> {
    match ChatTemplate::from_gguf(file) {
        Err(zinc_model::Error::MissingKey { .. }) => Err(Error::NoTemplate),
        other => Ok(other?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_context_is_what_was_asked_for_or_a_moderate_default() {
        const DEFAULT: u32 = ContextSize::DEFAULT_TOKENS;
        for (size, trained, expected) in [
            (ContextSize::Default, 262_144, DEFAULT),
            (ContextSize::Default, 512, 512),
            (ContextSize::Default, 0, DEFAULT),
            (ContextSize::Trained, 262_144, 262_144),
            (ContextSize::Trained, 0, DEFAULT),
            (ContextSize::Tokens(100), 512, 100),
            (ContextSize::Tokens(1000), 512, 1000),
        ] {
            assert_eq!(size.tokens(trained), expected, "{size:?} of {trained}");
        }
    }
}
