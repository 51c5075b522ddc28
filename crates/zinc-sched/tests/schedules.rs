//! Random conversations on one engine against a reference that has no window, no cache and no device.
//!
//! A schedule is one request with everything that affects how its steps are queued: its prompt, which the cache holds in part, its limits,
//! who chooses its tokens, and what cuts it short and when. The engine has a random depth, speculation mode and host load, and its device a
//! random speed, memory for end-of-generation ids, drafts and faults. A run checks at least [`SCHEDULES`] schedules, in conversations of up
//! to seven, and [`WHOLE`] times as many in the whole matrix. `PROPTEST_CASES` sets another number of conversations.

#[path = "support/cases.rs"]
mod cases;
#[path = "support/matrix.rs"]
mod matrix;
mod support;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use proptest::prelude::*;
use support::control::{Behaviour, Chooser, Turn};
use support::{ids, reference};
use zinc_sched::fake::{FakeModel, FakeOptions, Fault};
use zinc_sched::{
    CancelHandle, CheckpointLimits, Engine, EngineOptions, Error, FinishReason, InflightDepth, LastToken, ManualClock,
    ModelLimits, Outlet, Request, ResumeCost, Sampling, SpeculationMode, Token, Tracing,
};

/// Size of the vocabulary: few ids, so that prompts share prefixes and sequences end early.
const VOCABULARY: u32 = 5;
const CONTEXT: u32 = 24;

/// The least number of schedules in a run.
const SCHEDULES: u64 = 1_000_000;
/// How many conversations have that many schedules on average, with a margin. Each has 1 to 7 requests.
const CONVERSATIONS: u32 = 255_000;
/// How many times as many schedules and conversations the whole matrix has.
const WHOLE: u32 = 10;

/// Requests that began with a checkpoint.
static RESTORED: AtomicU64 = AtomicU64::new(0);

/// What cuts a request short.
#[derive(Debug, Clone)]
enum Cut {
    Nothing,
    InWait(u64),
    AfterTokens(usize),
    WhileChoosing(usize),
    ByControl(usize, Turn),
}

#[derive(Debug, Clone)]
struct Ask {
    /// How many tokens of the conversation so far the prompt repeats.
    repeat: usize,
    fresh: Vec<u32>,
    max_tokens: Option<u32>,
    eog: Vec<u32>,
    sampling: Sampling,
    chooser: Chooser,
    logprobs: Option<u32>,
    cut: Cut,
}

#[derive(Debug, Clone)]
struct Conversation {
    engine: EngineOptions,
    fake: FakeOptions,
    asks: Vec<Ask>,
}

fn ask() -> impl Strategy<Value = Ask> {
    let cut = prop_oneof![
        3 => Just(Cut::Nothing),
        1 => (0_u64..30).prop_map(Cut::InWait),
        1 => (0_usize..10).prop_map(Cut::AfterTokens),
        1 => (0_usize..10).prop_map(Cut::WhileChoosing),
        1 => ((0_usize..10), prop::sample::select(&Turn::ALL[..])).prop_map(|(at, turn)| Cut::ByControl(at, turn)),
    ];
    let sampling = prop_oneof![Just(Sampling::GREEDY), (0_u64..3).prop_map(|seed| Sampling::new(0.7, seed).unwrap())];
    let chooser = prop_oneof![3 => Just(Chooser::Device), 2 => Just(Chooser::Constraint), 1 => Just(Chooser::Sampler)];
    (
        0_usize..CONTEXT as usize,
        prop::collection::vec(0..VOCABULARY, 1..5),
        prop::option::of(0_u32..20),
        prop::collection::vec(0..VOCABULARY, 0..3),
        sampling,
        chooser,
        prop::option::weighted(0.1, 0_u32..3),
        cut,
    )
        .prop_map(|(repeat, fresh, max_tokens, eog, sampling, chooser, logprobs, cut)| Ask {
            repeat,
            fresh,
            max_tokens,
            eog,
            sampling,
            chooser,
            logprobs,
            cut,
        })
}

fn conversation() -> impl Strategy<Value = Conversation> {
    let speculation =
        prop::sample::select(&[SpeculationMode::Off, SpeculationMode::Automatic, SpeculationMode::Always][..]);
    let engine = (1_u32..=8, speculation, 0_u64..60);
    let drafting = (0_u32..=15, 0_u64..5, 0_u64..50);
    let last_token = prop::sample::select(&[LastToken::Alone, LastToken::Fed, LastToken::Fed][..]);
    let checkpoints = (0_u32..6, 1_u32..=4, 1_u32..=4, any::<bool>());
    let checkpoints = checkpoints.prop_map(|(slots, page, spacing, inside_steps)| CheckpointLimits {
        slots,
        page,
        spacing: page * spacing,
        inside_steps,
    });
    let checkpoints = prop::option::weighted(0.4, checkpoints);
    let device = (
        (1_u32..=16, last_token, checkpoints),
        1_u64..50,
        0_u64..5,
        0_u64..20,
        0_usize..3,
        prop::option::weighted(0.2, 0_u64..100),
    );
    (engine, drafting, device, prop::collection::vec(ask(), 1..8)).prop_map(|(engine, drafting, device, asks)| {
        let (depth, speculation, host_work_us) = engine;
        let (max_drafts, wrong_drafts, drafting_us) = drafting;
        let ((feed_rows, last_token, checkpoints), step_us, no_op_us, submit_us, eog_slots, non_finite) = device;
        let depth = InflightDepth::new(depth).unwrap();
        Conversation {
            engine: EngineOptions::default()
                .with_depth(depth)
                .with_speculation(speculation)
                .with_host_work(Duration::from_micros(host_work_us)),
            fake: FakeOptions {
                limits: ModelLimits {
                    context_tokens: CONTEXT,
                    vocabulary_tokens: VOCABULARY,
                    ring_slots: depth.get(),
                    lanes: 1,
                    pages: None,
                    checkpoints,
                    feed_rows,
                    last_token,
                    max_drafts,
                    resume_cost: ResumeCost::Free,
                },
                eog_slots,
                wrong_drafts,
                step: Duration::from_micros(step_us),
                draft_time: Duration::from_micros(drafting_us),
                no_op: Duration::from_micros(no_op_us),
                submit: Duration::from_micros(submit_us),
                faults: non_finite.map(|step| Fault::NonFinite { step }).into_iter().collect(),
                ..FakeOptions::default()
            },
            asks,
        }
    })
}

struct Scheduled {
    tokens: Vec<Token>,
    cancel: CancelHandle,
    most: usize,
}

impl Outlet for Scheduled {
    fn tokens(&mut self, tokens: &[Token]) -> usize {
        let taken = tokens.len().min(self.most - self.tokens.len());
        self.tokens.extend_from_slice(&tokens[..taken]);
        taken
    }

    fn cancelled(&self) -> bool {
        self.cancel.is_cancelled()
    }
}

/// Runs a conversation, and compares each answer with the reference's.
fn hold(conversation: Conversation) -> Result<(), TestCaseError> {
    let Conversation { engine: options, fake, asks } = conversation;
    let k = options.depth.get();
    let (can_break, checkpoints) = (!fake.faults.is_empty(), fake.limits.checkpoints);
    let clock = ManualClock::new();
    let alarm: Arc<Mutex<Option<(u64, CancelHandle)>>> = Arc::default();
    let hook = {
        let alarm = Arc::clone(&alarm);
        move |_| {
            if let Some((waits_left, cancel)) = &mut *alarm.lock().unwrap() {
                if *waits_left == 0 {
                    cancel.cancel();
                }
                *waits_left = waits_left.saturating_sub(1);
            }
        }
    };
    let model = FakeModel::new(fake, clock.clone()).on_wait(hook);
    let probe = model.probe();
    let mut engine = Engine::new(model, clock, options).unwrap();

    let mut said: Vec<u32> = Vec::new();
    for ask in asks {
        let mut prompt = said[..ask.repeat.min(said.len())].to_vec();
        prompt.extend(&ask.fresh);
        prompt.truncate(CONTEXT as usize);
        let cancel = CancelHandle::new();
        let behaviour = match ask.cut {
            Cut::WhileChoosing(at) => Behaviour { cancel: Some((at, cancel.clone())), ..Behaviour::default() },
            Cut::ByControl(at, turn) => Behaviour::turning(at, turn),
            Cut::Nothing | Cut::InWait(_) | Cut::AfterTokens(_) => Behaviour::default(),
        };
        let control = ask.chooser.control(&prompt, VOCABULARY, behaviour);
        let request = Request::new(prompt, ask.eog)
            .with_max_tokens(ask.max_tokens)
            .with_sampling(ask.sampling)
            .with_control(control)
            .with_logprobs(ask.logprobs)
            .with_trace(Tracing::On);
        *alarm.lock().unwrap() = if let Cut::InWait(waits) = ask.cut { Some((waits, cancel.clone())) } else { None };
        let most = if let Cut::AfterTokens(count) = ask.cut { count } else { usize::MAX };
        let mut outlet = Scheduled { tokens: Vec::new(), cancel, most };

        let submits_before = probe.submits();
        let result = engine.run(&request, &mut outlet);
        let delivered = ids(&outlet.tokens);
        let (expected, reason) = reference(&request, ask.chooser, VOCABULARY, CONTEXT);
        let whole = match &result {
            Ok(completion) => {
                prop_assert_eq!(completion.usage.completion_tokens as usize, delivered.len());
                prop_assert!(completion.overshoot_steps <= k);
                let cached = completion.usage.cached_tokens;
                if let Some(CheckpointLimits { slots, page, .. }) = checkpoints {
                    prop_assert!(cached.is_multiple_of(page) && (slots > 0 || cached == 0));
                    RESTORED.fetch_add(u64::from(cached > 0), Ordering::Relaxed);
                }
                let trace = completion.trace.as_ref().unwrap();
                prop_assert_eq!(trace.steps.len() as u64, probe.submits() - submits_before);
                match completion.reason {
                    FinishReason::Cancelled => {
                        prop_assert!(!matches!(ask.cut, Cut::Nothing | Cut::ByControl(..)));
                        false
                    }
                    FinishReason::Complete => {
                        prop_assert!(matches!(ask.cut, Cut::ByControl(at, Turn::Completes) if at == delivered.len()));
                        false
                    }
                    ended => {
                        prop_assert_eq!(ended, reason);
                        true
                    }
                }
            }
            Err(Error::Control { position, .. }) => {
                prop_assert!(matches!(ask.cut, Cut::ByControl(at, _) if at == delivered.len()));
                prop_assert_eq!(*position as usize, request.prompt.len() + delivered.len());
                false
            }
            Err(Error::NonFinite { .. }) => {
                prop_assert!(can_break && engine.kv().tokens().is_empty());
                false
            }
            Err(other) => return Err(TestCaseError::fail(format!("{other:?}"))),
        };
        if whole {
            prop_assert_eq!(&delivered, &expected);
        } else {
            prop_assert!(expected.starts_with(&delivered), "{delivered:?} is no prefix of {expected:?}");
        }

        said.clone_from(&request.prompt);
        said.extend(&delivered);
        let kept = engine.kv().tokens();
        prop_assert!(
            probe.submits() == submits_before || said.starts_with(kept),
            "the cache holds {kept:?}, which {said:?} does not begin with"
        );
    }
    prop_assert!(probe.most_in_flight() <= k);
    Ok(())
}

#[test]
fn any_conversation_matches_the_reference() {
    let asked_for = std::env::var("PROPTEST_CASES").ok();
    let times = if matrix::is_full() { WHOLE } else { 1 };
    let conversations = asked_for.as_ref().map_or(times * CONVERSATIONS, |cases| cases.parse().expect("a number"));
    let schedules = cases::hold_all(conversations, conversation, |conversation| conversation.asks.len(), hold);
    if asked_for.is_none() {
        assert!(schedules >= u64::from(times) * SCHEDULES, "{schedules} schedules in {conversations} conversations");
        let restored = RESTORED.load(Ordering::Relaxed);
        assert!(restored > SCHEDULES / 50, "{restored} schedules began with a checkpoint");
    }
}
