//! The thread that owns an engine, and the channels through which everyone else talks to it.

use std::any::Any;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crossbeam_channel::TrySendError;

use crate::clock::Clock;
use crate::engine::{Ended, Engine, EngineOptions, Outlets, Started};
use crate::error::{Error, Result};
use crate::model::{ModelLimits, SequenceId, StepModel};
use crate::request::{CancelHandle, Completion, FinishReason, Outlet, PromptProgress, Request, Token};
use crate::sync::{self, AtomicBool, JoinHandle, Receiver, Sender, bounded, unbounded};

#[cfg(test)]
mod interleavings;

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

/// A request on its way to the engine's thread.
struct Job {
    request: Arc<Request>,
    cancel: CancelHandle,
    events: Sender<Event>,
}

/// An engine on a thread of its own. Dropping the handle cancels the running requests, fails the waiting ones and joins the thread.
pub struct EngineHandle {
    jobs: Option<Sender<Job>>,
    shutdown: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    limits: ModelLimits,
    queue_capacity: usize,
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
        let limits = self.limits();
        let queue_capacity = self.options().queue_capacity;
        let (jobs, queue) = bounded(queue_capacity);
        let shutdown = Arc::new(AtomicBool::new(false));
        let serving = {
            let shutdown = Arc::clone(&shutdown);
            move || serve(self, &queue, &shutdown)
        };
        let thread = sync::spawn("zinc-engine", serving).map_err(|source| Error::Spawn { source: Arc::new(source) })?;
        Ok(EngineHandle { jobs: Some(jobs), shutdown, thread: Some(thread), limits, queue_capacity })
    }
}

impl EngineHandle {
    /// The sizes that the model was built for.
    pub fn limits(&self) -> ModelLimits {
        self.limits
    }

    /// Queues a request and returns at once. Requests begin in the order they came, as many at a time as the model has lanes.
    ///
    /// # Errors
    /// The errors of [`Request::check`], [`Error::QueueFull`], and [`Error::Stopped`] if the thread has ended. What goes wrong later is
    /// reported by the generation's [`Event::Failed`].
    pub fn generate(&self, request: Request) -> Result<Generation> {
        request.check(&self.limits)?;
        // The channel is unbounded, so that a slow reader never holds up the thread that owns the device. It holds no more events than the
        // context has tokens.
        let (events, receiver) = unbounded();
        let cancel = CancelHandle::new();
        let job = Job { request: Arc::new(request), cancel: cancel.clone(), events };
        let jobs = self.jobs.as_ref().expect("the sender lives until the handle is dropped");
        match jobs.try_send(job) {
            Ok(()) => Ok(Generation { events: receiver, cancel, ended: false }),
            Err(TrySendError::Full(_)) => Err(Error::QueueFull { capacity: self.queue_capacity }),
            Err(TrySendError::Disconnected(_)) => Err(Error::Stopped),
        }
    }
}

impl Drop for EngineHandle {
    fn drop(&mut self) {
        self.shutdown.store(true, Ordering::Relaxed);
        self.jobs = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            // Only dropping the model can panic outside the loop's guard.
            tracing::error!("the engine's thread panicked while it ended");
        }
    }
}

impl std::fmt::Debug for EngineHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EngineHandle")
            .field("limits", &self.limits)
            .field("queue_capacity", &self.queue_capacity)
            .finish_non_exhaustive()
    }
}

/// A request that runs or waits: an iterator over its events that ends after [`Event::Finished`] or [`Event::Failed`]. Dropping it
/// cancels the request.
#[derive(Debug)]
pub struct Generation {
    events: Receiver<Event>,
    cancel: CancelHandle,
    ended: bool,
}

impl Generation {
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
        if self.ended {
            return None;
        }
        // The sender is gone if the thread has ended without reporting to this generation.
        let event = self.events.recv().unwrap_or(Event::Failed(Error::Stopped));
        self.ended = !matches!(event, Event::Prompt(_) | Event::Token(_));
        Some(event)
    }
}

impl Drop for Generation {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

/// Delivers the tokens of a job through its channel. The job is cancelled by its handle or by the shutdown of the engine.
struct ChannelOutlet {
    job: Job,
    shutdown: Arc<AtomicBool>,
}

impl Outlet for ChannelOutlet {
    fn prompt(&mut self, progress: PromptProgress) {
        // A reader that is gone has cancelled the request.
        let _ = self.job.events.send(Event::Prompt(progress));
    }

    fn token(&mut self, token: Token) -> ControlFlow<()> {
        match self.job.events.send(Event::Token(token)) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    }

    fn cancelled(&self) -> bool {
        self.job.cancel.is_cancelled() || self.shutdown.load(Ordering::Relaxed)
    }
}

impl ChannelOutlet {
    /// Tells the reader how the generation has ended.
    fn end(self, result: Result<Completion>) {
        let event = match result {
            // It was cancelled by the shutdown, not by its reader.
            Ok(completion) if completion.reason == FinishReason::Cancelled && !self.job.cancel.is_cancelled() => {
                Event::Failed(Error::Stopped)
            }
            Ok(completion) => Event::Finished(completion),
            Err(error) => Event::Failed(error),
        };
        // A receiver that is gone has cancelled the request; there is nobody to tell.
        let _ = self.job.events.send(event);
    }
}

/// The outlets of the jobs that run, by their sequences.
#[derive(Default)]
struct Running(Vec<(SequenceId, ChannelOutlet)>);

impl Running {
    fn place(&self, sequence: SequenceId) -> usize {
        let place = self.0.iter().position(|(own, _)| *own == sequence);
        place.unwrap_or_else(|| panic!("{sequence:?} runs without an outlet"))
    }
}

impl Outlets for Running {
    fn outlet(&mut self, sequence: SequenceId) -> &mut dyn Outlet {
        let place = self.place(sequence);
        &mut self.0[place].1
    }

    fn cancelled(&self, sequence: SequenceId) -> bool {
        self.0[self.place(sequence)].1.cancelled()
    }
}

/// Answers every request until the handle is gone. After a panic of the model or of the loop, the engine is not used again, but requests are
/// still answered, with the error: jobs that wait in a bounded channel outlive its receiver, so a thread that simply unwound would leave their
/// readers waiting for ever.
fn serve<M: StepModel>(engine: Engine<M>, queue: &Receiver<Job>, shutdown: &Arc<AtomicBool>) {
    let mut running = Running::default();
    let mut engine = Ok(engine);
    loop {
        // While sequences run, further jobs join them as they come. Without any, the thread waits for one.
        while engine.as_ref().is_err() || engine.as_ref().is_ok_and(Engine::has_room) {
            let job = if running.0.is_empty() { queue.recv().ok() } else { queue.try_recv().ok() };
            let Some(job) = job else { break };
            begin(&mut engine, ChannelOutlet { job, shutdown: Arc::clone(shutdown) }, &mut running);
        }
        if running.0.is_empty() {
            // The handle is gone, and nothing is left in the queue.
            return;
        }
        let ended = guarded(&mut engine, |engine| engine.turn(&mut running));
        match ended {
            Ok(ended) => {
                for Ended { sequence, result } in ended {
                    let place = running.place(sequence);
                    running.0.remove(place).1.end(result);
                }
            }
            Err(error) => {
                for (_, outlet) in running.0.drain(..) {
                    outlet.end(Err(error.clone()));
                }
            }
        }
    }
}

/// Starts a job, or tells its reader why it does not start.
fn begin<M: StepModel>(engine: &mut Result<Engine<M>>, outlet: ChannelOutlet, running: &mut Running) {
    match guarded(engine, |engine| engine.start(&outlet.job.request, &outlet)) {
        Ok(Started::Running(sequence)) => running.0.push((sequence, outlet)),
        Ok(Started::Ended(completion)) => outlet.end(Ok(completion)),
        Err(error) => outlet.end(Err(error)),
    }
}

/// Runs a call of the engine. Where it panics, the engine is given up, and the error stands in its place.
fn guarded<M: StepModel, T>(
    engine: &mut Result<Engine<M>>,
    call: impl FnOnce(&mut Engine<M>) -> Result<T>,
) -> Result<T> {
    let alive = engine.as_mut().map_err(|error| error.clone())?;
    match catch_unwind(AssertUnwindSafe(|| call(alive))) {
        Ok(result) => result,
        Err(payload) => {
            let error = Error::Panicked { message: panic_message(payload.as_ref()).into() };
            tracing::error!(%error, "the engine is given up");
            *engine = Err(error.clone());
            Err(error)
        }
    }
}

fn panic_message(payload: &(dyn Any + Send)) -> &str {
    match (payload.downcast_ref::<&str>(), payload.downcast_ref::<String>()) {
        (Some(message), _) => message,
        (None, Some(message)) => message,
        (None, None) => "no message",
    }
}
