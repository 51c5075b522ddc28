//! A model that zinc-engine has loaded.

use std::collections::HashMap;

use zinc_engine::{AnswerEvent, AnswerOptions, LoadedModel, Result};
use zinc_model::gguf::TensorInfo;
use zinc_model::tokenizer::Tokenizer;
use zinc_model::{ChatInput, ChatTemplate, Special};
use zinc_sched::Status;

use super::{Backend, BackendEnd, BackendEvent, Facts, InfillTokens, Running};

/// The names of tokens that fill in gaps, as the families of models spell them.
const PREFIX: [&str; 4] = ["<|fim_prefix|>", "<fim_prefix>", "<|fim▁begin|>", "<PRE>"];
const SUFFIX: [&str; 4] = ["<|fim_suffix|>", "<fim_suffix>", "<|fim▁hole|>", "<SUF>"];
const MIDDLE: [&str; 4] = ["<|fim_middle|>", "<fim_middle>", "<|fim▁end|>", "<MID>"];
const REPOSITORY: [&str; 2] = ["<|repo_name|>", "<reponame>"];
const SEPARATOR: [&str; 2] = ["<|file_sep|>", "<file_sep>"];

/// A model that zinc-engine drives, with what the server wants to know of it.
#[derive(Debug)]
pub struct Loaded {
    model: LoadedModel,
    template: Option<ChatTemplate>,
    facts: Facts,
}

impl Loaded {
    /// The backend of a model. `template` stands in for the chat template of its file. Without any, conversations are refused and texts are
    /// continued.
    #[must_use]
    pub fn new(model: LoadedModel, template: Option<(ChatTemplate, String)>) -> Self {
        let file = &model.file().model().file;
        let own = || {
            let source = file.metadata().get_str("tokenizer.chat_template").ok().flatten()?.to_owned();
            Some((model.file().template().ok()?, source))
        };
        let (template, source) = template.or_else(own).unzip();
        let facts = facts(&model, source);
        Self { model, template, facts }
    }

    fn tokenizer(&self) -> &Tokenizer {
        self.model.file().tokenizer()
    }

    fn template(&self) -> Result<&ChatTemplate> {
        self.template.as_ref().ok_or(zinc_engine::Error::NoTemplate)
    }
}

impl Backend for Loaded {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn render(&self, input: &ChatInput) -> Result<String> {
        Ok(self.template()?.render(input)?)
    }

    fn chat_prompt(&self, input: &ChatInput) -> Result<Vec<u32>> {
        Ok(self.template()?.encode(input, self.tokenizer())?)
    }

    fn text_prompt(&self, text: &str, special: Special) -> Result<Vec<u32>> {
        Ok(self.tokenizer().encode_prompt(text, special)?)
    }

    fn encode(&self, text: &str, special: Special) -> Result<Vec<u32>> {
        Ok(self.tokenizer().encode(text, special)?)
    }

    fn decode(&self, ids: &[u32]) -> String {
        self.tokenizer().decode(ids)
    }

    fn token_bytes(&self, id: u32) -> Option<Vec<u8>> {
        self.tokenizer().token_bytes(id).map(<[u8]>::to_vec)
    }

    fn control_token(&self, text: &str) -> Option<u32> {
        self.tokenizer().id_of(text).filter(|id| self.tokenizer().is_control(*id))
    }

    fn start(&self, prompt: Vec<u32>, options: AnswerOptions) -> Result<Running> {
        let rules = options.for_model(self.model.file())?;
        let stream = self.model.answer(&rules, prompt)?;
        let cancel = stream.cancel_handle();
        let events = stream.filter_map(|event| match event {
            Ok(AnswerEvent::Prompt(progress)) => Some(Ok(BackendEvent::Prompt(progress))),
            Ok(AnswerEvent::Scored(token)) => Some(Ok(BackendEvent::Scored(token))),
            Ok(AnswerEvent::Text(piece)) => Some(Ok(BackendEvent::Text(piece))),
            Ok(AnswerEvent::Ended(answer)) => {
                let zinc_sched::Completion { usage, durations, speculation_stats: speculation, .. } = answer.completion;
                Some(Ok(BackendEvent::Ended(BackendEnd { ending: answer.ending, usage, durations, speculation })))
            }
            Ok(_) => None,
            Err(error) => Some(Err(error)),
        });
        Ok(Running { events: Box::new(events), cancel })
    }

    fn status(&self) -> Status {
        self.model.engine().status()
    }

    fn drain(&self) {
        self.model.engine().drain();
    }
}

fn facts(model: &LoadedModel, template: Option<String>) -> Facts {
    let file = model.file();
    let (config, weights) = (&file.model().config, &file.model().weights);
    let tokenizer = file.tokenizer();
    let text = |id: Option<u32>| id.map_or(String::new(), |id| tokenizer.decode(&[id]));
    let control = |names: &[&str]| names.iter().find_map(|name| tokenizer.id_of(name));
    let first = file.model().file.parts().next();
    let stem = first.and_then(|path| path.file_stem()).map_or("model".into(), |stem| stem.to_string_lossy());
    // The first of several parts ends in its number and theirs.
    let name = stem.split("-00001-of-").next().unwrap_or(&stem).to_owned();
    Facts {
        name,
        architecture: config.architecture.name().to_owned(),
        context_tokens: file.cache().context,
        trained_tokens: config.n_ctx_train,
        vocabulary_tokens: config.n_vocab,
        lanes: file.cache().lanes,
        embedding_width: config.n_embd,
        parameters: file.model().file.tensors().iter().map(TensorInfo::elements).sum(),
        bytes: weights.bytes(),
        quantisation: usual_format(file.model().file.tensors()),
        template,
        bos: text(tokenizer.bos()),
        eos: text(tokenizer.eos()),
        infill: InfillTokens {
            prefix: control(&PREFIX),
            suffix: control(&SUFFIX),
            middle: control(&MIDDLE),
            repository: control(&REPOSITORY),
            separator: control(&SEPARATOR),
        },
        device: model.place().name().to_owned(),
    }
}

/// The name of the format that takes the most bytes.
fn usual_format(tensors: &[TensorInfo]) -> String {
    let mut bytes: HashMap<String, u64> = HashMap::new();
    for tensor in tensors {
        let sum = bytes.entry(tensor.format.name().to_string()).or_default();
        *sum = sum.saturating_add(tensor.bytes);
    }
    bytes.into_iter().max_by_key(|(name, bytes)| (*bytes, name.clone())).map_or(String::new(), |(name, _)| name)
}
