//! A model that says what a script has for it, in a time that the script sets, with faults where the script wants them: for tests of clients and of
//! the server, without a device and the same each time.
//!
//! Its prompts are in ChatML, and its tokens are single bytes and the pieces of the texts in its script. It writes thoughts and calls of tools as
//! Qwen3 does. With another template, prompts and answers are in its form: harmony, as those of gpt-oss, or with calls in XML, as those of Qwen3.5.

mod script;
mod speech;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use zinc_engine::{AnswerOptions, Result};
use zinc_model::{ChatInput, ChatTemplate, Special};
use zinc_sched::{CancelHandle, Condition, EngineCounts, Status, WaitingQueue};

use crate::backend::{Backend, Facts, InfillTokens, Running};
use crate::output::Thinking;
use script::Form;
use speech::Speech;

pub use script::{Fault, FaultKind, Script, ScriptedAnswer, ScriptedCall};

/// Tokens that are single bytes; their ids are the bytes.
const BYTES: u32 = 256;

/// The script of a fake model, ready to be said.
pub struct FakeModel {
    script: Script,
    template: ChatTemplate,
    form: Form,
    facts: Facts,
    pieces: Pieces,
    /// How many answers without a condition were given.
    given: AtomicUsize,
    lanes: Arc<Lanes>,
}

/// The pieces of the script's texts, whose ids are behind those of bytes.
#[derive(Default)]
struct Pieces {
    texts: Vec<String>,
    ids: HashMap<String, u32>,
}

impl Pieces {
    /// The id of a piece, which is new unless it is there already.
    fn add(&mut self, text: &str) -> u32 {
        if let Some(id) = self.ids.get(text) {
            return *id;
        }
        let id = BYTES + u32::try_from(self.texts.len()).unwrap_or(u32::MAX - BYTES);
        self.ids.insert(text.to_owned(), id);
        self.texts.push(text.to_owned());
        id
    }
}

/// The places of requests that run, and the queue before them.
pub(crate) struct Lanes {
    places: usize,
    queue: usize,
    state: Mutex<LaneState>,
    changed: Condvar,
    draining: AtomicBool,
    /// Whether a scripted loss of the device was the last thing that happened.
    is_lost: AtomicBool,
    losses: AtomicU64,
    tokens: AtomicU64,
}

/// A place in the queue, and whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    number: u64,
    owner: u64,
}

#[derive(Default)]
struct LaneState {
    /// The owners of the requests that run.
    running: Vec<u64>,
    waiting: WaitingQueue<Place>,
    next: u64,
}

impl LaneState {
    /// How many lanes an owner has.
    fn lanes_of(&self, owner: u64) -> usize {
        self.running.iter().filter(|own| **own == owner).count()
    }

    /// Whether this place is the next one to get a lane.
    fn is_next(&self, place: Place) -> bool {
        self.waiting.peek(|owner| self.lanes_of(owner)) == Some(&place)
    }

    fn leave_queue(&mut self, place: Place) {
        self.waiting.take_those(|own| *own == place);
    }
}

impl Lanes {
    fn state(&self) -> MutexGuard<'_, LaneState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place in the queue.
    fn queue(&self, owner: u64, priority: i32) -> Result<Place> {
        if self.draining.load(Relaxed) {
            return Err(zinc_sched::Error::Draining.into());
        }
        let mut state = self.state();
        let waiting = (state.waiting.len() + state.running.len()).saturating_sub(self.places);
        if state.waiting.len() >= self.queue && waiting >= self.queue {
            return Err(zinc_sched::Error::QueueFull { waiting, capacity: self.queue }.into());
        }
        let place = Place { number: state.next, owner };
        state.next += 1;
        state.waiting.push(owner, priority, place);
        Ok(place)
    }
}

impl FakeModel {
    /// A model that follows a script.
    ///
    /// # Errors
    /// A template that does not compile.
    pub fn new(script: Script) -> Result<Self> {
        let source = script.template.clone().unwrap_or_else(|| script::TEMPLATE.to_owned());
        let source = zinc_model::template::builtin(&source).unwrap_or(source);
        let template = ChatTemplate::new(&source)?;
        let form = Form::of_template(&source);
        let eos = if form == Form::Harmony { "<|return|>" } else { "<|im_end|>" };
        let mut pieces = Pieces::default();
        for answer in &script.answers {
            for piece in speech::cut(&answer.written(form, Thinking::MayBegin), answer.piece_chars) {
                pieces.add(piece);
            }
        }
        let mut mark = |text: &str| script.infill.then(|| pieces.add(text));
        let infill = InfillTokens {
            prefix: mark("<|fim_prefix|>"),
            suffix: mark("<|fim_suffix|>"),
            middle: mark("<|fim_middle|>"),
            ..InfillTokens::default()
        };
        let vocabulary = BYTES + u32::try_from(pieces.texts.len()).unwrap_or(u32::MAX - BYTES);
        let facts = Facts {
            name: script.model.clone(),
            architecture: "fake".to_owned(),
            context_tokens: script.context,
            trained_tokens: script.context,
            vocabulary_tokens: vocabulary,
            lanes: script.lanes,
            template: Some(source),
            eos: eos.to_owned(),
            infill,
            device: "none".to_owned(),
            ..Facts::default()
        };
        let lanes = Arc::new(Lanes {
            places: script.lanes.max(1) as usize,
            queue: script.queue,
            state: Mutex::default(),
            changed: Condvar::new(),
            draining: AtomicBool::new(false),
            is_lost: AtomicBool::new(false),
            losses: AtomicU64::new(0),
            tokens: AtomicU64::new(0),
        });
        Ok(Self { script, template, form, facts, pieces, given: AtomicUsize::new(0), lanes })
    }

    /// The answer to a prompt: the first whose condition it meets, or else the next of those without one, which come in turn.
    fn answer(&self, last: &speech::Last<'_>) -> Option<&ScriptedAnswer> {
        let answers = &self.script.answers;
        if let Some(fitting) = answers.iter().find(|answer| answer.is_meant_for(last)) {
            return Some(fitting);
        }
        let in_turn: Vec<&ScriptedAnswer> = answers.iter().filter(|answer| answer.is_unconditional()).collect();
        let turn = self.given.fetch_add(1, Relaxed);
        in_turn.get(turn % in_turn.len().max(1)).copied()
    }

    /// The tokens of a text's piece with their texts: one of its own, or one for each byte, of which the last of a character has its text.
    fn tokens(&self, piece: &str) -> Vec<(u32, String)> {
        if let Some(id) = self.pieces.ids.get(piece) {
            return vec![(*id, piece.to_owned())];
        }
        let mut tokens = Vec::new();
        for c in piece.chars() {
            let mut bytes = [0; 4];
            let text = c.encode_utf8(&mut bytes);
            tokens.extend(text.bytes().map(|byte| (u32::from(byte), String::new())));
            if let Some((_, last)) = tokens.last_mut() {
                last.push(c);
            }
        }
        tokens
    }
}

impl Backend for FakeModel {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn render(&self, input: &ChatInput) -> Result<String> {
        Ok(self.template.render(input)?)
    }

    fn chat_prompt(&self, input: &ChatInput) -> Result<Vec<u32>> {
        self.encode(&self.render(input)?, Special::Parse)
    }

    fn text_prompt(&self, text: &str, special: Special) -> Result<Vec<u32>> {
        self.encode(text, special)
    }

    fn encode(&self, text: &str, _special: Special) -> Result<Vec<u32>> {
        Ok(text.bytes().map(u32::from).collect())
    }

    fn decode(&self, ids: &[u32]) -> String {
        let bytes: Vec<u8> = ids.iter().filter_map(|id| self.token_bytes(*id)).flatten().collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn token_bytes(&self, id: u32) -> Option<Vec<u8>> {
        match u8::try_from(id) {
            Ok(byte) => Some(vec![byte]),
            Err(_) => self.pieces.texts.get((id - BYTES) as usize).map(|text| text.clone().into_bytes()),
        }
    }

    fn control_token(&self, _text: &str) -> Option<u32> {
        None
    }

    fn start(&self, mut prompt: Vec<u32>, options: AnswerOptions) -> Result<Running> {
        prompt.extend(&options.scored);
        let (prompt_tokens, context_tokens) = (prompt.len() as u64, self.facts.context_tokens);
        if prompt.is_empty() {
            return Err(zinc_sched::Error::EmptyPrompt.into());
        }
        if prompt_tokens > u64::from(context_tokens) {
            return Err(zinc_sched::Error::PromptTooLong { prompt_tokens, context_tokens }.into());
        }
        options.sampling.check(self.facts.vocabulary_tokens)?;
        let place = self.lanes.queue(options.owner, options.priority)?;
        let text = self.decode(&prompt);
        let last = speech::Last::of_prompt(&text, self.form);
        let answer = self.answer(&last).cloned().unwrap_or_default();
        let written = answer.written(self.form, last.thinking).replace("{last}", last.user);
        let pieces = speech::cut(&written, answer.piece_chars);
        let tokens = pieces.into_iter().flat_map(|piece| self.tokens(piece));
        let cancel = CancelHandle::new();
        let speech = Speech::new(
            (Arc::clone(&self.lanes), place),
            &options,
            (prompt.len(), context_tokens),
            answer,
            tokens.collect(),
            cancel.clone(),
        );
        Ok(Running { events: Box::new(speech), cancel })
    }

    fn status(&self) -> Status {
        let state = self.lanes.state();
        let is_lost = self.lanes.is_lost.load(Relaxed);
        Status {
            condition: if is_lost { Condition::Rebuilding } else { Condition::Well },
            failures: self.lanes.losses.load(Relaxed),
            queued: state.waiting.len(),
            running: state.running.len(),
            draining: self.lanes.draining.load(Relaxed),
            pages: None,
            counts: EngineCounts { tokens: self.lanes.tokens.load(Relaxed), ..EngineCounts::default() },
        }
    }

    fn drain(&self) {
        self.lanes.draining.store(true, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_no_piece_becomes_bytes() {
        let model = FakeModel::new(Script::default()).unwrap();
        let tokens = |piece| model.tokens(piece);
        let token = |id: u32, text: &str| (id, text.to_owned());
        assert_eq!(tokens("aü"), [token(97, "a"), token(0xc3, ""), token(0xbc, "ü")]);
        assert_eq!(tokens(" said:"), [token(model.pieces.ids[" said:"], " said:")]);
    }
}
