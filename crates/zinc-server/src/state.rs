//! What all requests share: the model and whether it is there yet, the requests that are under way, and the figures.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use zinc_sched::{CancelHandle, Condition};

use crate::backend::Backend;
use crate::core::{Arguments, Efforts, End, Reason};
use crate::error::{ApiError, ApiResult, RETRY_AFTER_S};
use crate::metrics::Metrics;
use crate::options::ServerOptions;
use crate::output::OutputFormat;

/// What all requests share.
#[derive(Debug)]
pub struct State {
    /// What the server was told.
    pub options: ServerOptions,
    /// Counters and histograms.
    pub metrics: Metrics,
    /// When the server started, in seconds since 1970.
    pub started_s: u64,
    model: RwLock<Model>,
    draining: AtomicBool,
    /// What has broken the device last.
    failure: Mutex<Option<String>>,
    active: Mutex<HashMap<u64, Arc<Active>>>,
    named: AtomicU64,
}

/// Whether the model is there.
#[derive(Debug)]
enum Model {
    Loading,
    Ready(Arc<Served>),
    Failed(String),
}

/// The model that is served.
pub struct Served {
    /// What answers.
    pub backend: Box<dyn Backend>,
    /// The name that the model has for clients.
    pub alias: String,
    /// The form in which it writes thoughts and calls of tools.
    pub format: OutputFormat,
    /// How its template reads the arguments of calls.
    pub(crate) arguments: Arguments,
    /// The efforts of reasoning that its template takes.
    pub(crate) efforts: Efforts,
}

impl std::fmt::Debug for Served {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Served").field("alias", &self.alias).field("format", &self.format).finish_non_exhaustive()
    }
}

impl Served {
    fn new(backend: Box<dyn Backend>, alias: Option<&str>) -> Self {
        let facts = backend.facts();
        let template = facts.template.as_deref().unwrap_or_default();
        let alias = alias.unwrap_or(&facts.name).to_owned();
        let (format, arguments) = (OutputFormat::of_template(template), Arguments::of_template(template));
        let efforts = Efforts::of_template(template, |input| backend.render(input).is_ok());
        Self { alias, format, arguments, efforts, backend }
    }
}

/// Whether the server can be used, for those who watch it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// The model is there.
    Ok,
    /// The model loads.
    Loading,
    /// The server is about to end.
    Draining,
    /// The device has failed, and the model is loaded anew for the requests that wait.
    Recovering(String),
    /// The device has failed for good, or the model could not be loaded.
    Failed(String),
}

impl State {
    /// The state of a server whose model loads.
    #[must_use]
    pub fn new(options: ServerOptions) -> Arc<Self> {
        let started_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        Arc::new(Self {
            options,
            metrics: Metrics::new(),
            started_s,
            model: RwLock::new(Model::Loading),
            draining: AtomicBool::new(false),
            failure: Mutex::new(None),
            active: Mutex::new(HashMap::new()),
            named: AtomicU64::new(0),
        })
    }

    /// Serves a model from now on.
    pub fn serve(&self, backend: Box<dyn Backend>) {
        let served = Served::new(backend, self.options.alias.as_deref());
        if self.draining.load(Relaxed) {
            served.backend.drain();
        }
        *self.model.write().unwrap_or_else(PoisonError::into_inner) = Model::Ready(Arc::new(served));
    }

    /// Notes that the model cannot be loaded. The reason is told to clients, so it must name no paths.
    pub fn give_up(&self, reason: impl Into<String>) {
        *self.model.write().unwrap_or_else(PoisonError::into_inner) = Model::Failed(reason.into());
    }

    /// Lets go of the model, which ends when the last request is done with it.
    pub(crate) fn unload(&self) {
        *self.model.write().unwrap_or_else(PoisonError::into_inner) = Model::Loading;
    }

    /// The model.
    ///
    /// # Errors
    /// 503 while it loads, or if it could not be loaded.
    pub fn served(&self) -> ApiResult<Arc<Served>> {
        match &*self.model.read().unwrap_or_else(PoisonError::into_inner) {
            Model::Ready(served) => Ok(Arc::clone(served)),
            Model::Loading => Err(ApiError { code: Some("loading"), ..ApiError::unavailable("Loading model", 2) }),
            Model::Failed(reason) => {
                Err(ApiError::new(crate::error::ErrorKind::Server, format!("the model was not loaded: {reason}")))
            }
        }
    }

    /// The model for a new request.
    ///
    /// # Errors
    /// Those of [`Self::served`], and 503 while the server drains.
    pub fn served_anew(&self) -> ApiResult<Arc<Served>> {
        if self.draining.load(Relaxed) {
            return Err(draining());
        }
        self.served()
    }

    /// Whether the server can be used.
    #[must_use]
    pub fn health(&self) -> Health {
        if self.draining.load(Relaxed) {
            return Health::Draining;
        }
        match &*self.model.read().unwrap_or_else(PoisonError::into_inner) {
            Model::Loading => Health::Loading,
            Model::Failed(reason) => Health::Failed(reason.clone()),
            Model::Ready(served) => match served.backend.status().condition {
                Condition::Well => Health::Ok,
                Condition::Rebuilding => Health::Recovering(self.failure()),
                Condition::GivenUp => Health::Failed(self.failure()),
            },
        }
    }

    /// What has broken the device. Whoever reads the answer that it broke may not have noted that yet.
    fn failure(&self) -> String {
        lock(&self.failure).clone().unwrap_or_else(|| "the device has failed".to_owned())
    }

    /// Notes what has broken the device.
    pub(crate) fn note_failure(&self, message: &str) {
        *lock(&self.failure) = Some(message.to_owned());
    }

    /// Takes no further requests, and refuses those that wait and have not begun.
    pub fn drain(&self) {
        self.draining.store(true, Relaxed);
        if let Ok(served) = self.served() {
            served.backend.drain();
        }
        for active in self.active() {
            if !active.has_begun.load(Relaxed) {
                active.cancel(Cause::Draining);
            }
        }
    }

    /// Cancels all requests.
    pub fn cancel_all(&self) {
        for active in self.active() {
            active.cancel(Cause::Draining);
        }
    }

    /// The requests that wait or run, in the order in which they came.
    #[must_use]
    pub fn active(&self) -> Vec<Arc<Active>> {
        let mut active: Vec<Arc<Active>> = lock(&self.active).values().cloned().collect();
        active.sort_by_key(|active| active.id);
        active
    }

    /// Whether a request waits or runs.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        lock(&self.active).is_empty()
    }

    /// Enters a request among those that are under way, until what is returned is dropped.
    pub(crate) fn enter(self: &Arc<Self>, prompt_tokens: u32, cancel: CancelHandle) -> Entered {
        let id = self.named.fetch_add(1, Relaxed);
        let active = Arc::new(Active {
            id,
            prompt_tokens,
            since: Instant::now(),
            has_begun: AtomicBool::new(false),
            tokens: AtomicU32::new(0),
            cause: AtomicU8::new(Cause::None as u8),
            cancel,
        });
        lock(&self.active).insert(id, Arc::clone(&active));
        // A drain between the check of the request and this would not have seen it.
        if self.draining.load(Relaxed) {
            active.cancel(Cause::Draining);
        }
        Entered { state: Arc::clone(self), active }
    }
}

/// A request that waits or runs.
#[derive(Debug)]
pub struct Active {
    /// Its name; no other request of the server has had it.
    pub id: u64,
    /// Tokens of its prompt.
    pub prompt_tokens: u32,
    /// When it was queued.
    pub since: Instant,
    /// Whether anything was computed for it.
    pub has_begun: AtomicBool,
    /// Tokens that were generated.
    pub tokens: AtomicU32,
    cause: AtomicU8,
    cancel: CancelHandle,
}

/// Why the server has cancelled a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Cause {
    /// It has not.
    None,
    /// The server is about to end.
    Draining,
    /// The reader takes its events too slowly.
    SlowReader,
    /// It has taken as long as it may.
    TimeOver,
}

impl Active {
    /// Cancels the request. Of several causes the first counts.
    pub(crate) fn cancel(&self, cause: Cause) {
        let _ = self.cause.compare_exchange(Cause::None as u8, cause as u8, Relaxed, Relaxed);
        self.cancel.cancel();
    }

    /// Why the server has cancelled it.
    pub(crate) fn cause(&self) -> Cause {
        let causes = [Cause::None, Cause::Draining, Cause::SlowReader, Cause::TimeOver];
        causes[usize::from(self.cause.load(Relaxed)).min(causes.len() - 1)]
    }
}

/// A request among those that are under way, which it leaves when this is dropped.
#[derive(Debug)]
pub(crate) struct Entered {
    pub(crate) state: Arc<State>,
    pub(crate) active: Arc<Active>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        lock(&self.state.active).remove(&self.active.id);
    }
}

/// The answer to requests that come while the server drains.
pub(crate) fn draining() -> ApiError {
    let message = "the server is about to end and takes no further requests";
    ApiError { code: Some("draining"), ..ApiError::unavailable(message, RETRY_AFTER_S) }
}

/// The words by which logs and figures name the end of an answer.
pub(crate) fn outcome(end: &End) -> &'static str {
    match end.reason {
        Reason::Stop | Reason::StopString(_) => "stop",
        Reason::ToolCalls => "tool_calls",
        Reason::Length | Reason::ContextFull | Reason::TimeOver => "length",
    }
}

/// A panic while a lock was held leaves nothing half done here.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
