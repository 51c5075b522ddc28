//! The handle of an engine that runs on a thread of its own, and the channels through which everyone talks to it. What the thread does is in `handle/serve.rs`.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::clock::Clock;
use crate::engine::{Engine, EngineOptions};
use crate::error::{Error, Result};
use crate::model::{ModelLimits, StepModel};
use crate::request::{CancelHandle, Completion, PromptProgress, Request, Token};
use crate::status::{Board, Status};
use crate::sync::{self, AtomicBool, AtomicUsize, JoinHandle, Receiver, Sender, unbounded};

#[cfg(test)]
mod interleavings;
mod serve;

use serve::{Rebuild, Shared, serve};

/// An event of a generation. The last event is `Finished` or `Failed`.
#[derive(Debug, Clone)]
pub enum Event {
    /// A step has taken some of the prompt's tokens.
    Prompt(PromptProgress),
    /// A token was delivered.
    Token(Token),
    /// The generation has ended.
    Finished(Completion),
    /// The generation has ended with an error.
    Failed(Error),
}

/// Names a request that was queued. No other request of the engine ever has the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(u64);

/// What travels to a reader at once.
enum Delivery {
    /// The tokens of a step.
    Tokens(Vec<Token>),
    /// An event of another kind.
    Event(Event),
}

/// A request on its way to the engine's thread.
struct Job {
    id: RequestId,
    request: Arc<Request>,
    cancel: CancelHandle,
    events: Sender<Delivery>,
}

/// What the handle tells the thread.
enum Message {
    /// A request.
    Job(Job),
    /// The request of this name is to be cancelled.
    Cancel(RequestId),
    /// Something else has changed that the thread looks at.
    Wake,
}

/// How many requests were let in and do not run yet, and whether more are: one word, so that none is let in behind the end of the thread.
struct Admissions {
    /// The number of requests, and [`DRAINING`](Self::DRAINING) if no more are let in.
    word: AtomicUsize,
    capacity: usize,
}

impl Admissions {
    const DRAINING: usize = 1 << (usize::BITS - 1);

    fn new(capacity: usize) -> Self {
        Self { word: AtomicUsize::new(0), capacity: capacity.min(Self::DRAINING - 1) }
    }

    /// Lets a request in.
    fn enter(&self) -> Result<()> {
        let next = |word: usize| (word < self.capacity).then_some(word + 1);
        match self.word.fetch_update(Ordering::AcqRel, Ordering::Acquire, next) {
            Ok(_) => Ok(()),
            Err(word) if word & Self::DRAINING != 0 => Err(Error::Draining),
            Err(waiting) => Err(Error::QueueFull { waiting, capacity: self.capacity }),
        }
    }

    /// Notes that a request waits no longer.
    fn leave(&self) {
        self.word.fetch_sub(1, Ordering::AcqRel);
    }

    fn drain(&self) {
        self.word.fetch_or(Self::DRAINING, Ordering::AcqRel);
    }

    /// Whether no more are let in, and none waits.
    fn is_drained(&self) -> bool {
        self.word.load(Ordering::Acquire) == Self::DRAINING
    }

    /// How many wait, and whether no more are let in.
    fn read(&self) -> (usize, bool) {
        let word = self.word.load(Ordering::Acquire);
        (word & !Self::DRAINING, word & Self::DRAINING != 0)
    }
}

/// An engine on a thread of its own. Dropping the handle cancels the running requests, fails the waiting ones and joins the thread.
pub struct EngineHandle {
    messages: Option<Sender<Message>>,
    shutdown: Arc<AtomicBool>,
    admissions: Arc<Admissions>,
    board: Arc<Board>,
    named: AtomicUsize,
    thread: Option<JoinHandle<()>>,
    limits: ModelLimits,
}

impl<M: StepModel + Send + 'static> Engine<M> {
    /// Moves the model to a thread that drives it until the handle is dropped.
    ///
    /// # Errors
    /// The errors of [`Engine::new`], and [`Error::Spawn`] if the operating system starts no thread.
    pub fn spawn(model: M, clock: impl Clock + 'static, options: EngineOptions) -> Result<EngineHandle> {
        Self::new(model, clock, options)?.into_thread()
    }

    /// Moves the engine to a thread that drives it until the handle is dropped.
    ///
    /// # Errors
    /// [`Error::Spawn`] if the operating system starts no thread.
    pub fn into_thread(self) -> Result<EngineHandle> {
        self.start_thread(None)
    }

    /// Moves the engine to a thread, as [`into_thread`](Self::into_thread) does, that makes another model when the one it has fails, because its device is lost
    /// for example: what ran fails with the reason, and what waits is answered by the new model. `rebuild` gets the old model, which it drops, and makes a new one of the
    /// same sizes. If it fails, or a new model fails in its first step, the engine is given up, as without it; so it is after a panic, and where the device's
    /// outputs contradict what the host expects ([`Error::UnexpectedOutput`]). While a model is made, requests and cancellations wait, and so does dropping the handle.
    ///
    /// # Errors
    /// [`Error::Spawn`] if the operating system starts no thread.
    pub fn into_lasting_thread(self, rebuild: impl FnMut(M) -> Result<M> + Send + 'static) -> Result<EngineHandle> {
        self.start_thread(Some(Box::new(rebuild)))
    }

    fn start_thread(self, rebuild: Option<Rebuild<M>>) -> Result<EngineHandle> {
        let limits = self.limits();
        let (sender, messages) = unbounded();
        let shutdown = Arc::new(AtomicBool::new(false));
        let admissions = Arc::new(Admissions::new(self.options().queue_capacity));
        let board = Arc::new(Board::default());
        let shared = Shared {
            messages,
            shutdown: Arc::clone(&shutdown),
            admissions: Arc::clone(&admissions),
            board: Arc::clone(&board),
        };
        let serving = move || serve(self, rebuild, shared);
        let thread = sync::spawn("zinc-engine", serving).map_err(|source| Error::Spawn { source: Arc::new(source) })?;
        Ok(EngineHandle {
            messages: Some(sender),
            shutdown,
            admissions,
            board,
            named: AtomicUsize::new(0),
            thread: Some(thread),
            limits,
        })
    }
}

impl EngineHandle {
    /// The sizes that the model was built for.
    pub fn limits(&self) -> ModelLimits {
        self.limits
    }

    /// Queues a request and returns at once. As many run at a time as the model has lanes. Of those that wait, one of an owner with the fewest lanes begins
    /// first ([`Request::owner`]), of equals the one of the highest [`Request::priority`], and of equals the one that came first.
    ///
    /// # Errors
    /// The errors of [`Request::check`], [`Error::QueueFull`], [`Error::Draining`], and [`Error::Stopped`] if the thread has ended. What goes wrong later is
    /// reported by the generation's [`Event::Failed`].
    pub fn generate(&self, request: Request) -> Result<Generation> {
        request.check(&self.limits)?;
        self.admissions.enter()?;
        // The channel is unbounded, so that a slow reader never holds up the thread that owns the device. It holds no more events than the
        // context has tokens.
        let (events, receiver) = unbounded();
        let (id, cancel) = (RequestId(self.named.fetch_add(1, Ordering::Relaxed) as u64), CancelHandle::new());
        let job = Job { id, request: Arc::new(request), cancel: cancel.clone(), events };
        self.send(Message::Job(job))?;
        Ok(Generation { id, events: receiver, tokens: VecDeque::new(), cancel, ended: false })
    }

    /// Cancels a request, wherever it is: waiting, being fed or generating. Does nothing if it has ended. The thread looks at this between two steps; a
    /// [`CancelHandle`] of the generation is noticed within a step that feeds.
    pub fn cancel(&self, id: RequestId) {
        // Without a thread nothing is left to cancel.
        let _ = self.send(Message::Cancel(id));
    }

    /// What the thread is doing. Asking costs it nothing.
    pub fn status(&self) -> Status {
        let (queued, draining) = self.admissions.read();
        let (running, pages, counts) = self.board.read();
        let (condition, failures) = (self.board.condition(), self.board.failures());
        Status { condition, failures, queued, running, draining, pages, counts }
    }

    /// Takes no further requests from now on, and returns at once. The thread ends when all that it has taken are answered.
    pub fn drain(&self) {
        self.admissions.drain();
        // A thread that has nothing to do waits for a message.
        let _ = self.send(Message::Wake);
    }

    /// Takes no further requests, and waits until all are answered and the thread has ended.
    pub fn join(mut self) {
        self.drain();
        self.join_thread();
    }

    fn send(&self, message: Message) -> Result<()> {
        let messages = self.messages.as_ref().expect("the sender lives until the handle is dropped");
        messages.send(message).map_err(|_| Error::Stopped)
    }

    fn join_thread(&mut self) {
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            // Only dropping the model can panic outside the loop's guard.
            tracing::error!("the engine's thread panicked while it ended");
        }
    }
}

impl Drop for EngineHandle {
    fn drop(&mut self) {
        self.shutdown.store(true, Ordering::Relaxed);
        self.messages = None;
        self.join_thread();
    }
}

impl std::fmt::Debug for EngineHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EngineHandle")
            .field("limits", &self.limits)
            .field("queue_capacity", &self.admissions.capacity)
            .finish_non_exhaustive()
    }
}

/// A request that runs or waits: an iterator over its events that ends after [`Event::Finished`] or [`Event::Failed`]. Dropping it
/// cancels the request.
#[derive(Debug)]
pub struct Generation {
    id: RequestId,
    events: Receiver<Delivery>,
    /// Tokens that came together with the last one and are not taken yet.
    tokens: VecDeque<Token>,
    cancel: CancelHandle,
    ended: bool,
}

impl Generation {
    /// The name of its request, for [`EngineHandle::cancel`].
    pub fn id(&self) -> RequestId {
        self.id
    }

    /// Cancels this generation from any thread; it then ends with [`FinishReason::Cancelled`](crate::FinishReason::Cancelled).
    pub fn cancel_handle(&self) -> CancelHandle {
        self.cancel.clone()
    }

    /// Waits for the end of the generation, and returns the tokens that were not taken before.
    ///
    /// # Errors
    /// The error of [`Event::Failed`].
    pub fn complete(self) -> Result<(Vec<Token>, Completion)> {
        let mut tokens = Vec::new();
        for event in self {
            match event {
                Event::Prompt(_) => {}
                Event::Token(token) => tokens.push(token),
                Event::Finished(completion) => return Ok((tokens, completion)),
                Event::Failed(error) => return Err(error),
            }
        }
        Err(Error::Stopped)
    }
}

impl Iterator for Generation {
    type Item = Event;

    /// Blocks until there is a further event; `None` after the last one.
    fn next(&mut self) -> Option<Event> {
        while !self.ended {
            if let Some(token) = self.tokens.pop_front() {
                return Some(Event::Token(token));
            }
            match self.events.recv() {
                Ok(Delivery::Tokens(tokens)) => self.tokens.extend(tokens),
                Ok(Delivery::Event(event)) => {
                    self.ended = !matches!(event, Event::Prompt(_));
                    return Some(event);
                }
                // The thread has ended without reporting to this generation.
                Err(_) => {
                    self.ended = true;
                    return Some(Event::Failed(Error::Stopped));
                }
            }
        }
        None
    }
}

impl Drop for Generation {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}
