//! What the engine's thread does: takes in requests, starts those that a lane is free for, and tells their readers what comes of them.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Admissions, Event, Job, Message};
use crate::engine::{Ended, Engine, Started};
use crate::error::{Error, Result};
use crate::model::{SequenceId, StepModel};
use crate::queue::WaitingQueue;
use crate::request::{Completion, FinishReason, Outlet, PromptProgress, Token};
use crate::status::{Board, Condition};
use crate::sync::{AtomicBool, Receiver};

/// Makes another model of one that has failed, which it drops first, since a device may have room for one only.
pub(super) type Rebuild<M> = Box<dyn FnMut(M) -> Result<M> + Send>;

/// What the thread shares with its handle.
pub(super) struct Shared {
    pub(super) messages: Receiver<Message>,
    pub(super) shutdown: Arc<AtomicBool>,
    pub(super) admissions: Arc<Admissions>,
    pub(super) board: Arc<Board>,
}

/// Delivers the tokens of a job through its channel. The job is cancelled by its handle or by the shutdown of the engine.
struct ChannelOutlet {
    job: Job,
    shutdown: Arc<AtomicBool>,
}

impl Outlet for ChannelOutlet {
    fn prompt(&mut self, progress: PromptProgress) {
        // A reader that is gone has cancelled the request.
        let _ = self.job.events.send(super::Delivery::Event(Event::Prompt(progress)));
    }

    fn tokens(&mut self, tokens: &[Token]) -> usize {
        match self.job.events.send(super::Delivery::Tokens(tokens.to_vec())) {
            Ok(()) => tokens.len(),
            Err(_) => 0,
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
        let _ = self.job.events.send(super::Delivery::Event(event));
    }
}

/// The outlets of the jobs that run, by their sequences.
#[derive(Default)]
struct Running(Vec<(SequenceId, ChannelOutlet)>);

impl Running {
    /// How many lanes an owner has.
    fn lanes_of(&self, owner: u64) -> usize {
        self.0.iter().filter(|(_, outlet)| outlet.job.request.owner == owner).count()
    }

    fn place(&self, sequence: SequenceId) -> usize {
        let place = self.0.iter().position(|(own, _)| *own == sequence);
        place.unwrap_or_else(|| panic!("{sequence:?} runs without an outlet"))
    }
}

/// The thread's engine and its requests.
struct Server<M> {
    /// The engine, or the error for which it was given up.
    engine: Result<Engine<M>>,
    rebuild: Option<Rebuild<M>>,
    shared: Shared,
    waiting: WaitingQueue<ChannelOutlet>,
    running: Running,
}

/// Answers every request until the handle is gone, or is drained and all that it has taken are answered. After a panic of the model or of the loop, the engine is not
/// used again, but requests are still answered, with the error.
pub(super) fn serve<M: StepModel>(engine: Engine<M>, rebuild: Option<Rebuild<M>>, shared: Shared) {
    let mut server =
        Server { engine: Ok(engine), rebuild, shared, waiting: WaitingQueue::new(), running: Running::default() };
    while server.take_in() {
        server.drop_cancelled();
        server.start_waiting();
        server.publish();
        server.turn();
        server.publish();
    }
}

impl<M: StepModel> Server<M> {
    fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.running.0.is_empty()
    }

    /// Takes in what the handle has sent. Without any request the thread waits for one. Returns false if there is none and none will come.
    fn take_in(&mut self) -> bool {
        loop {
            if !self.is_idle() {
                let Ok(message) = self.shared.messages.try_recv() else { return true };
                self.take(message);
                continue;
            }
            if self.shared.admissions.is_drained() {
                return false;
            }
            let Ok(message) = self.shared.messages.recv() else { return false };
            self.take(message);
        }
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Job(job) => {
                let shutdown = Arc::clone(&self.shared.shutdown);
                self.waiting.push(job.request.owner, job.request.priority, ChannelOutlet { job, shutdown });
            }
            Message::Cancel(id) => {
                let running = self.running.0.iter().map(|(_, outlet)| outlet);
                if let Some(outlet) = running.chain(self.waiting.iter()).find(|outlet| outlet.job.id == id) {
                    outlet.job.cancel.cancel();
                }
            }
            Message::Wake => {}
        }
    }

    /// Ends the waiting requests that were cancelled, which need not wait for a lane.
    fn drop_cancelled(&mut self) {
        for outlet in self.waiting.take_those(|outlet| outlet.cancelled()) {
            self.shared.admissions.leave();
            let completion = Completion::without_steps(&outlet.job.request, 0, FinishReason::Cancelled);
            outlet.end(Ok(completion));
        }
    }

    /// Starts waiting requests while there are lanes and pages for them. The next one is waited for: nobody who needs less overtakes it.
    fn start_waiting(&mut self) {
        let has_room = |engine: &Result<Engine<M>>| engine.as_ref().map_or(true, Engine::has_room);
        let admits = |engine: &Result<Engine<M>>, next: &ChannelOutlet| {
            engine.as_ref().map_or(true, |engine| engine.admits(&next.job.request))
        };
        // Without a free lane nobody is looked for, since the loop comes here for each step.
        while has_room(&self.engine) {
            let lanes_of = |owner| self.running.lanes_of(owner);
            if !self.waiting.peek(lanes_of).is_some_and(|next| admits(&self.engine, next)) {
                break;
            }
            let Some(outlet) = self.waiting.take(lanes_of) else { break };
            self.shared.admissions.leave();
            match self.guarded(|engine| engine.start(&outlet.job.request, &outlet)) {
                Ok(Started::Running(sequence)) => self.running.0.push((sequence, outlet)),
                Ok(Started::Ended(completion)) => outlet.end(Ok(completion)),
                Err(error) => self.fail(&error, Some(outlet)),
            }
        }
    }

    /// Lets the engine take a turn.
    fn turn(&mut self) {
        if self.running.0.is_empty() {
            return;
        }
        let mut running = std::mem::take(&mut self.running);
        let ended = self.guarded(|engine| engine.turn(&mut running.0));
        self.running = running;
        match ended {
            Ok(ended) => {
                for Ended { sequence, result } in ended {
                    let place = self.running.place(sequence);
                    self.running.0.remove(place).1.end(result);
                }
            }
            Err(error) => self.fail(&error, None),
        }
    }

    /// Writes down what the thread is doing, for those who ask.
    fn publish(&self) {
        let engine = self.engine.as_ref().ok();
        let pages = engine.and_then(Engine::pages);
        self.shared.board.write(self.running.0.len(), pages, engine.map(Engine::counts));
    }

    /// Ends the request that could not be started, and all that runs if the error is fatal. Then makes another model if the old one has failed and did something before.
    fn fail(&mut self, error: &Error, unstarted: Option<ChannelOutlet>) {
        if !error.is_fatal() {
            unstarted.into_iter().for_each(|outlet| outlet.end(Err(error.clone())));
            return;
        }
        let can_rebuild = self.rebuild.is_some() && matches!(error, Error::Model { .. });
        let condition = if can_rebuild && self.engine.as_ref().is_ok_and(Engine::has_progressed) {
            Condition::Rebuilding
        } else {
            Condition::GivenUp
        };
        self.shared.board.fail(condition);
        for outlet in unstarted.into_iter().chain(self.running.0.drain(..).map(|(_, outlet)| outlet)) {
            outlet.end(Err(error.clone()));
        }
        // To make a model may take long: what is known by now is told before.
        self.drop_cancelled();
        self.publish();
        if condition == Condition::Rebuilding {
            self.rebuild_engine(error);
        }
    }

    /// Makes another model in the place of the one that has failed.
    fn rebuild_engine(&mut self, error: &Error) {
        let (Some(rebuild), Ok(engine)) = (&mut self.rebuild, std::mem::replace(&mut self.engine, Err(error.clone())))
        else {
            return;
        };
        tracing::warn!(%error, "the model is made anew");
        let rebuilt = catch_unwind(AssertUnwindSafe(|| engine.rebuilt(rebuild)));
        self.engine = rebuilt.unwrap_or_else(|payload| Err(panicked(payload.as_ref())));
        let condition = match &self.engine {
            Ok(_) => Condition::Well,
            Err(error) => {
                tracing::error!(%error, "the engine is given up");
                Condition::GivenUp
            }
        };
        self.shared.board.set_condition(condition);
    }

    /// Runs a call of the engine. Where it panics, the engine is given up, and the error stands in its place.
    fn guarded<T>(&mut self, call: impl FnOnce(&mut Engine<M>) -> Result<T>) -> Result<T> {
        let alive = self.engine.as_mut().map_err(|error| error.clone())?;
        match catch_unwind(AssertUnwindSafe(|| call(alive))) {
            Ok(result) => result,
            Err(payload) => {
                let error = panicked(payload.as_ref());
                tracing::error!(%error, "the engine is given up");
                self.engine = Err(error.clone());
                Err(error)
            }
        }
    }
}

fn panicked(payload: &(dyn Any + Send)) -> Error {
    let message: &str = match (payload.downcast_ref::<&str>(), payload.downcast_ref::<String>()) {
        (Some(message), _) => message,
        (None, Some(message)) => message,
        (None, None) => "no message",
    };
    Error::Panicked { message: message.into() }
}
