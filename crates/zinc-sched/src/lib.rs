//! The in-flight decode window: steps queued ahead on a timeline, the host following behind.
//!
//! A language model decodes one token per step, and each step needs the token of the one before it. A loop that reads that token on the
//! host, decides, and submits the next step leaves the device idle in between. Here the token stays on the device: several steps are
//! queued ahead, each picks up what the one before it left, and the host reads the tokens a few steps later. What the host does with
//! them (text, stop strings, streaming) no longer costs device time.
//!
//! ```
//! use zinc_sched::fake::{FakeModel, FakeOptions};
//! use zinc_sched::{Engine, EngineOptions, Event, ManualClock, Request};
//!
//! # fn main() -> zinc_sched::Result<()> {
//! let clock = ManualClock::new();
//! let model = FakeModel::new(FakeOptions::default(), clock.clone());
//! let engine = Engine::spawn(model, clock, EngineOptions::default())?;
//! let request = Request::new([3, 1, 4], []).with_max_tokens(5);
//! let mut received = 0;
//! for event in engine.generate(request)? {
//!     match event {
//!         Event::Prompt(progress) => assert!(progress.done < progress.tokens),
//!         Event::Token(token) => received += u32::from(token.position >= 3),
//!         Event::Finished(completion) => assert_eq!(completion.usage.completion_tokens, received),
//!         Event::Failed(error) => return Err(error),
//!     }
//! }
//! assert_eq!(received, 5);
//! # Ok(())
//! # }
//! ```
//!
//! # The life of a token
//!
//! ```text
//! Request ─► handle ─► engine ─► plan ─► window ─► StepModel (the device) ─► window ─► resolve ─► apply ─► Outlet ─► Generation
//!            queue     lane,     which    submit                             wait      means      changes
//!                      pages     step                                        oldest    what       what
//! ```
//!
//! 1. A [`Request`] waits in the queue of an [`EngineHandle`] until the model has a free lane, a sequence's place on the device, and it is the next one: of an
//!    [`owner`](Request::owner) with the fewest lanes, and most urgent by its [`priority`](Request::priority) and by how often it was overtaken. Where lanes share the pages of the cache it waits for these, too, and has those
//!    that hold the beginning of its prompt in common with others ([`pages::PageBook`]). Where each lane has a part of the cache it gets the one whose
//!    part holds most of its prompt ([`KvCache::reusable`]). The rest of the prompt and the budget make a [`plan`]: a number of steps that feed, of
//!    which the last may sample, then at most a number of steps that sample.
//! 2. [`plan::next_turn`] fills the window: while fewer than [`InflightDepth`] steps are in flight and tokens are wanted that none of
//!    them brings, submit. One step samples for all sequences that want a token. Between two such steps come ranges of layers of a step that feeds a prompt,
//!    for as long as [`EngineOptions::max_gap`] allows.
//! 3. Where the host decides about tokens ([`Control`]), each step waits at a gate before it samples. A constraint opens the gate while the
//!    device runs the step's forward pass, and before the previous token is delivered. A sampler on the host opens it when it has read the
//!    step's logits.
//! 4. When the window is full, wait for its oldest step. [`StepModel::wait`] returns a [`StepOutput`].
//! 5. [`resolve`](resolve::resolve) says what the output means: prompt tokens were fed, tokens were sampled, the sequence ended, or the
//!    output is stale because the sequence had ended before.
//! 6. The result is applied: the cache advances by the tokens that went in, the tokens that the step has sampled go to the [`Outlet`] together, the phase may change.
//! 7. When the sequence has ended, for whatever reason, nothing more is submitted for it. Steps in flight are waited for, and their output is thrown
//!    away. Then its lane and its pages are free.
//!
//! Plan and resolve are pure. [`Engine::start`] and [`Engine::turn`] drive the loop, and work without a thread too; [`Engine::run`] drives it for one request.
//!
//! # Invariants
//!
//! - One thread touches the model. Everyone else talks to it by channels, and a dropped [`Generation`] is a cancellation.
//! - The loop never looks at a token to decide what to submit next. That depends on counts and on the time that steps took. This is why every depth gives
//!   the same tokens.
//! - There are never more steps in flight than the depth allows, and never more steps that sample than a sequence's budget or the context can use.
//! - Whoever else asks, a request gets the tokens that it gets alone. Between two tokens of a sequence others' prompts take no longer than
//!   [`EngineOptions::max_gap`] leaves, or one range of layers. The first token waits for what was submitted when nobody wanted one: at most as many whole steps as
//!   the window is deep.
//! - A page is written by one sequence, and given to another only when no step of it is in flight. Two sequences read the same page only if their tokens up to its end
//!   are the same, one by one. If a sequence needs a page and there is none, the youngest gives its pages back once its steps in flight are done, and
//!   goes on later: its reader sees a pause.
//! - A sequence with a recurrent state has the beginning of its prompt in common with an earlier one up to a checkpoint, which was taken behind a step that was
//!   observed as done at that position ([`checkpoints::CheckpointBook`]). Without one all of it is computed.
//! - Steps are waited for in the order of submission, each once, also when nobody wants them any more. The exception is a model that
//!   has failed: it is not called again.
//! - The host's picture of the cache ([`KvCache`], [`pages::PageBook`]) never runs ahead of what was delivered. Steps that ran past the end of a sequence
//!   wrote K/V that the picture does not contain, and the next sequence writes them again before it reads them.
//! - The device and the host both know the budget, the context and the end-of-generation ids. The device's knowledge makes what is
//!   queued behind an end cheap; the host's decides. Where they contradict each other, the model is given up
//!   ([`Error::UnexpectedOutput`]).
//! - The engine's thread never waits for a reader: a generation's events are buffered, and there are no more of them than the context
//!   has tokens.
//! - No Vulkan type, no tensor and no text appears outside the adapter. Time comes from a [`Clock`].
//!
//! # Cancellation
//!
//! A cancel is noticed before the next submit or after the current wait, whichever comes first. From then
//! on no token is delivered, the sequence ends on the device and every gate is opened ([`StepModel::cancel`]), so that of the steps in
//! flight only the one that is running does any work.
//!
//! # Features
//!
//! - `vk` (default): [`adapter`], a model on a Vulkan device and on the host's interpreter.
//! - `grammar` (default): [`grammar`], constraints by JSON schema, regular expression and grammar. They need no Vulkan.
//! - `serde`: traces and their summaries can be serialised.

#[cfg(feature = "vk")]
pub mod adapter;
mod admission;
mod apply;
pub mod checkpoints;
pub mod clock;
mod control;
mod depth;
mod engine;
mod error;
pub mod fake;
mod gates;
#[cfg(feature = "grammar")]
pub mod grammar;
mod handle;
mod kv;
mod model;
mod occupancy;
mod pace;
pub mod pages;
pub mod plan;
mod pressure;
mod queue;
mod request;
pub mod resolve;
mod reuse;
mod sampling;
mod sequence;
pub mod speculation;
mod status;
mod step;
mod sync;
pub mod trace;
mod turns;
mod window;

pub use clock::{Clock, FnClock, ManualClock, SystemClock};
pub use control::{Constraint, Control, ControlError, Guide, TokenSampler, Verdict};
pub use depth::InflightDepth;
pub use engine::{Ended, Engine, EngineOptions, Outlets, Started};
pub use error::{Error, ModelCall, Result};
pub use handle::{EngineHandle, Event, Generation, RequestId};
pub use kv::KvCache;
pub use model::{
    CheckpointLimits, Gate, GrownPage, HostChoice, Kept, LastToken, ModelCounters, ModelLimits, PagePool, SequenceId,
    SequenceStart, SpeculativeDecoding, Step, StepLane, StepModel, Ticket,
};
pub use occupancy::Occupancy;
pub use queue::WaitingQueue;
pub use request::{
    CancelHandle, Completion, Durations, FinishReason, Outlet, PromptProgress, Request, Token, Tracing, Usage,
};
pub use sampling::{Dry, LastTokens, Penalties, Sampling, SequenceBreakers, Xtc};
pub use speculation::{ResumeCost, SpeculationMode, SpeculationStats};
pub use status::{Condition, EngineCounts, LastStep, RowCounts, Status};
pub use step::{
    DeviceFinish, GpuSpan, LaneOutput, StepKind, StepOutput, StepStatus, StepTiming, TokenLogprobs, TokenRun,
};
pub use trace::{Quantiles, Seam, StepTrace, Trace, TraceSummary};

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
