//! How a request begins: its prompt, its place in the queue, and the threads that read its answers.

use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::runtime::Handle;
use tokio::sync::mpsc;
use zinc_engine::FreeThinking;
use zinc_sched::grammar::{GrammarError, GrammarSource};
use zinc_sched::{CancelHandle, Token};

use super::ask::{Ask, Conversation, Prompt, PromptPart, ToolChoice};
use super::constrain;
use super::event::{Collected, End, Event, Timings, Update};
use super::harmony;
use super::prompt::ConversationPrompt;
use super::read::Reader;
use crate::auth::Caller;
use crate::backend::BackendEvent;
use crate::error::{ApiError, ApiResult, ErrorKind};
use crate::output::{OutputParser, Thinking, Tool};
use crate::state::Served;

/// What a client is told whose answer stops without an end, because the thread that read it has ended.
const SILENT_END: &str = "the server failed while it answered; its log says how";

/// The answers of a request while they come. Dropping it cancels them.
#[derive(Debug)]
pub struct Answering {
    updates: mpsc::Receiver<Update>,
    cancels: Vec<CancelHandle>,
    /// Tokens of the prompt.
    prompt_tokens: u32,
    /// Answers that have not ended.
    open: u32,
}

impl Drop for Answering {
    fn drop(&mut self) {
        for cancel in &self.cancels {
            cancel.cancel();
        }
    }
}

impl Answering {
    /// Tokens of the prompt.
    #[must_use]
    pub fn prompt_tokens(&self) -> u32 {
        self.prompt_tokens
    }

    /// How many answers there are.
    #[must_use]
    pub fn choices(&self) -> u32 {
        u32::try_from(self.cancels.len()).unwrap_or(u32::MAX)
    }

    /// Whether all answers have ended, or one has failed.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.open == 0
    }

    /// Waits for events and puts at most `most` of them into `updates`. None come once all answers have ended, or one has failed.
    pub fn poll_many(&mut self, context: &mut Context<'_>, updates: &mut Vec<Update>, most: usize) -> Poll<()> {
        if self.open == 0 {
            return Poll::Ready(());
        }
        let from = updates.len();
        match self.updates.poll_recv_many(context, updates, most) {
            Poll::Pending => return Poll::Pending,
            // The thread of an answer has ended without a word.
            Poll::Ready(0) => {
                let event = Event::Failed(ApiError::new(ErrorKind::Server, SILENT_END));
                updates.push(Update { choice: 0, event, timings: Timings::default() });
            }
            Poll::Ready(_) => {}
        }
        for update in &updates[from..] {
            match update.event {
                Event::Ended(_) => self.open -= 1,
                Event::Failed(_) => self.open = 0,
                _ => {}
            }
        }
        Poll::Ready(())
    }

    /// Waits for all answers.
    ///
    /// # Errors
    /// The failure of one of them.
    pub async fn collect(self) -> ApiResult<Vec<Collected>> {
        let mut answers: Vec<Collected> = (0..self.choices()).map(|_| Collected::default()).collect();
        self.each(|Update { choice, event, timings }| answers[choice as usize].take(event, timings)).await?;
        Ok(answers)
    }

    /// Waits for the only answer and passes on what comes before its end.
    ///
    /// # Errors
    /// Its failure.
    pub async fn only(self, mut take: impl FnMut(Event)) -> ApiResult<End> {
        let mut last = None;
        self.each(|update| {
            match update.event {
                Event::Ended(end) => last = Some(end),
                Event::Failed(error) => return Err(error),
                event => take(event),
            }
            Ok(())
        })
        .await?;
        last.ok_or_else(|| ApiError::new(ErrorKind::Server, SILENT_END))
    }

    /// Waits for all answers and passes on what comes of them, in order.
    ///
    /// # Errors
    /// The first error of `take`, which cancels what is left.
    pub async fn each(mut self, mut take: impl FnMut(Update) -> ApiResult<()>) -> ApiResult<()> {
        let mut updates = Vec::new();
        while self.open > 0 {
            std::future::poll_fn(|context| self.poll_many(context, &mut updates, 64)).await;
            updates.drain(..).try_for_each(&mut take)?;
        }
        Ok(())
    }
}

/// Checks a request, queues it, and returns its answers while they come.
///
/// # Errors
/// What is wrong with it, a queue that is full, a model that is not there yet.
pub async fn start(caller: &Caller, ask: Ask) -> ApiResult<Answering> {
    let served = caller.state.served_anew()?;
    let caller = caller.clone();
    blocking(move || begin(&caller, &served, &ask)).await
}

/// Tokens of a prompt.
///
/// # Errors
/// What is wrong with it, or a model that is not there yet.
pub async fn count(caller: &Caller, prompt: Prompt) -> ApiResult<u32> {
    let served = caller.state.served_anew()?;
    blocking(move || {
        let ids = match &prompt {
            Prompt::Parts(parts) => joined(&served, parts)?,
            Prompt::Conversation(conversation) => ConversationPrompt::new(&served, conversation)?.ids,
        };
        Ok(length(&ids))
    })
    .await
}

/// Runs work that takes a while on a thread that may block.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> ApiResult<T> + Send + 'static) -> ApiResult<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => {
            tracing::error!(%error, "the work for a request has panicked");
            Err(ApiError::new(ErrorKind::Server, "the server has failed; its log says how"))
        }
    }
}

/// A prompt, and what goes with its answers.
struct Prepared {
    ids: Vec<u32>,
    /// What takes an answer apart; `None` if all of it is content.
    parser: Option<OutputParser>,
    /// What an answer has to match.
    constraint: Option<GrammarSource>,
    /// What the model may think before that.
    thinking: Option<FreeThinking>,
    /// Whether an answer ends with the first call of a tool.
    ends_with_call: bool,
    /// Whether an answer continues a text, instead of being one of its own in a conversation, in which marks of thoughts and calls are shown.
    continues_text: bool,
}

impl Prepared {
    fn new(served: &Served, prompt: &Prompt, content: Option<&GrammarSource>, most_bytes: usize) -> ApiResult<Self> {
        match prompt {
            Prompt::Parts(parts) => Ok(Self {
                ids: joined(served, parts)?,
                parser: None,
                constraint: content.cloned(),
                thinking: None,
                ends_with_call: false,
                continues_text: true,
            }),
            Prompt::Conversation(conversation) => Self::of_conversation(served, conversation, content, most_bytes),
        }
    }

    fn of_conversation(
        served: &Served,
        conversation: &Conversation,
        content: Option<&GrammarSource>,
        most_bytes: usize,
    ) -> ApiResult<Self> {
        let ConversationPrompt { ids, tail } = ConversationPrompt::new(served, conversation)?;
        let (format, tools) = (&served.format, tools(conversation));
        // Answers in harmony have marks in all of their parts, which are no content; and where the prompt has begun the thinking, its tag is not in the
        // answer.
        let is_begun = format.thinking(&tail) == Thinking::Begun;
        let is_parsed = conversation.parsed || format.is_harmony() || is_begun;
        Ok(Self {
            constraint: constrain::constraint(format, conversation, &tools, &tail, content, most_bytes)?,
            thinking: constrain::thinking(format, &tail, harmony::most_thinking_tokens(format, conversation)),
            parser: is_parsed.then(|| OutputParser::new(format, &tools, &tail)),
            ends_with_call: !conversation.parallel_tool_calls,
            continues_text: false,
            ids,
        })
    }
}

/// The tokens of the parts of a prompt.
fn joined(served: &Served, parts: &[PromptPart]) -> ApiResult<Vec<u32>> {
    let mut ids = Vec::new();
    for (place, part) in parts.iter().enumerate() {
        match part {
            PromptPart::Text(text, special) if place == 0 => ids = served.backend.text_prompt(text, *special)?,
            PromptPart::Text(text, special) => ids.extend(served.backend.encode(text, *special)?),
            PromptPart::Tokens(tokens) => ids.extend(tokens),
        }
    }
    Ok(ids)
}

/// The tools that an answer may call.
fn tools(conversation: &Conversation) -> Vec<Tool> {
    if conversation.tool_choice == ToolChoice::None {
        return Vec::new();
    }
    let tool = |tool: &super::ToolDefinition| Tool {
        name: tool.name.clone(),
        description: tool.description.clone(),
        parameters: tool.parameters.clone(),
    };
    conversation.tools.iter().map(tool).collect()
}

fn begin(caller: &Caller, served: &Arc<Served>, ask: &Ask) -> ApiResult<Answering> {
    let most_bytes = caller.state.options.most_constraint_bytes;
    let prompts = std::iter::once(&ask.prompt).chain(&ask.further);
    let content = ask.constraint.as_ref().map(|constraint| &constraint.source);
    let prepare = |prompt| Prepared::new(served, prompt, content, most_bytes);
    let prepared = prompts.map(prepare).collect::<ApiResult<Vec<_>>>()?;
    let prompt_tokens = prepared.iter().map(|prepared| length(&prepared.ids)).fold(0, u32::saturating_add);
    let state = &caller.state;
    let (sender, updates) = mpsc::channel(state.options.outlet_events.max(1));
    let mut answering = Answering { updates, cancels: Vec::new(), prompt_tokens, open: 0 };
    let mut readers = Vec::new();
    let answers = prepared.iter().flat_map(|own| (0..ask.choices).map(move |choice| (own, choice)));
    for (Prepared { ids, parser, constraint, thinking, ends_with_call, continues_text }, choice) in answers {
        let mut options = ask.options.clone();
        options.sampling.seed = options.sampling.seed.wrapping_add(u64::from(choice));
        options.constraint = constraint.clone();
        options.thinking = thinking.clone();
        options.owner = caller.owner.number();
        options.continues_text = *continues_text;
        let shown = if *continues_text { &[] } else { served.format.marks() };
        options.shown = shown.iter().map(|&mark| mark.to_owned()).collect();
        let mut ids = ids.clone();
        let prompt_tokens = length(&ids);
        let first = if ask.scores_prompts { ids.first().copied() } else { None };
        if first.is_some() {
            // The first token has nothing before it by which its probability could be told.
            options.scored = ids.split_off(1);
        }
        let mut running = served.backend.start(ids, options).map_err(|error| refused(ask, error))?;
        if let Some(id) = first {
            let first = BackendEvent::Scored(Token { id, position: 0, logprobs: None });
            running.events = Box::new(std::iter::once(Ok(first)).chain(running.events));
        }
        answering.cancels.push(running.cancel.clone());
        let entered = state.enter(prompt_tokens, running.cancel.clone());
        let of = (entered, Arc::clone(served));
        readers.push(Reader::new(of, answering.open, running, (parser.clone(), *ends_with_call), ask, sender.clone()));
        answering.open += 1;
    }
    let runtime = Handle::current();
    for reader in readers {
        runtime.spawn_blocking(move || reader.run());
    }
    state.metrics.requests_started.inc();
    Ok(answering)
}

/// Why a request was not queued. What is wrong with a constraint is said of the field that it comes from.
fn refused(ask: &Ask, error: zinc_engine::Error) -> ApiError {
    const TOOLS: &str = "tools";
    let field = match &error {
        zinc_engine::Error::Constraint(GrammarError::Part { name, .. }) if name != constrain::CONTENT => Some(TOOLS),
        zinc_engine::Error::Constraint(_) => Some(ask.constraint.as_ref().map_or(TOOLS, |content| content.field)),
        _ => None,
    };
    let error = ApiError::from(error);
    match field {
        Some(field) => error.with_param(field),
        None => error,
    }
}

/// The number of tokens.
fn length(ids: &[u32]) -> u32 {
    u32::try_from(ids.len()).unwrap_or(u32::MAX)
}
