//! Random crowds on one engine of several lanes against a reference that has no window, no lanes and no device: whoever else is asking, and however requests
//! come and go, and however few pages of the cache there are for them, each is answered as if it were alone, and nobody's next token waits longer than the options
//! say because of another's prompt, or for more than one range of layers.

#[path = "support/cases.rs"]
mod cases;
#[path = "support/matrix.rs"]
mod matrix;
mod support;

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use proptest::prelude::*;
use support::control::{Behaviour, Chooser, Turn};
use support::{ids, reference};
use zinc_sched::fake::{Call, FakeModel, FakeOptions, Fault, Probe, continuation};
use zinc_sched::{
    CheckpointLimits, Clock as _, Completion, Engine, EngineCounts, EngineOptions, Error, FinishReason, InflightDepth,
    LastToken, ManualClock, ModelLimits, Outlet, Outlets, PagePool, Request, ResumeCost, Sampling, SequenceId,
    SpeculationMode, SpeculationStats, Started, StepKind, Token,
};

/// Size of the vocabulary: few ids, so that prompts share prefixes and sequences end early.
const VOCABULARY: u32 = 5;
const CONTEXT: u32 = 24;

/// The least number of requests in a run.
const REQUESTS: u64 = 1_000_000;
/// How many crowds have that many requests on average, with a margin. Each has 1 to 15 requests.
const CROWDS: u32 = 130_000;
/// How many times as many the whole matrix has.
const WHOLE: u32 = 10;

/// How often a sequence of any crowd gave its pages back to others, tokens of prompts that were found in pages, and turns behind a step that has fed several prompts.
static PREEMPTIONS: AtomicU64 = AtomicU64::new(0);
static CACHED: AtomicU64 = AtomicU64::new(0);
static SHARED: AtomicU64 = AtomicU64::new(0);
/// Checkpoints of recurrent states that were kept, and that sequences began with.
static KEPT: AtomicU64 = AtomicU64::new(0);
static RESTORED: AtomicU64 = AtomicU64::new(0);
/// Drafts that were accepted, and requests some of whose steps had drafts while others had none.
static ACCEPTED: AtomicU64 = AtomicU64::new(0);
static MIXED: AtomicU64 = AtomicU64::new(0);

#[derive(Debug, Clone)]
struct Ask {
    /// After so many turns of the engine it comes.
    arrives: u32,
    prompt: Vec<u32>,
    max_tokens: Option<u32>,
    eog: Vec<u32>,
    sampling: Sampling,
    chooser: Chooser,
    /// Its reader cancels it once it has so many tokens.
    most: Option<usize>,
    /// After so many turns of the engine its reader cancels it, whatever it has and is doing.
    leaves: Option<u32>,
    /// Its constraint or sampler turns at a token.
    turn: Option<(usize, Turn)>,
}

#[derive(Debug, Clone)]
struct Crowd {
    engine: EngineOptions,
    fake: FakeOptions,
    asks: Vec<Ask>,
}

fn ask() -> impl Strategy<Value = Ask> {
    let sampling = prop_oneof![Just(Sampling::GREEDY), (0_u64..3).prop_map(|seed| Sampling::new(0.7, seed).unwrap())];
    let chooser = prop_oneof![4 => Just(Chooser::Device), 2 => Just(Chooser::Constraint), 1 => Just(Chooser::Sampler)];
    let turn = ((0_usize..10), prop::sample::select(&Turn::ALL[..]));
    (
        0_u32..60,
        (0_usize..16, prop::collection::vec(0..VOCABULARY, 1..20)),
        prop::option::of(0_u32..20),
        prop::collection::vec(0..VOCABULARY, 0..3),
        sampling,
        chooser,
        (prop::option::weighted(0.2, 0_usize..10), prop::option::weighted(0.3, 0_u32..200)),
        prop::option::weighted(0.1, turn),
    )
        .prop_map(|(arrives, (common, mut prompt), max_tokens, eog, sampling, chooser, (most, leaves), turn)| {
            Ask {
                arrives,
                // Prompts begin with the same tokens, more or fewer of them.
                prompt: {
                    let common = common.min(prompt.len() - 1);
                    (0..).zip(&mut prompt[..common]).for_each(|(place, token)| *token = place % 3);
                    prompt
                },
                max_tokens,
                eog,
                sampling,
                chooser,
                most,
                leaves,
                turn,
            }
        })
}

fn crowd() -> impl Strategy<Value = Crowd> {
    let last_token = prop::sample::select(&[LastToken::Alone, LastToken::Fed, LastToken::Fed][..]);
    let times = (1_u64..200, 0_u64..5, 0_u64..20);
    let feeding = (1_u32..=8, last_token, 1_u32..=6, 0_u64..1000);
    let device = (feeding, times, 0_usize..3, prop::option::weighted(0.1, 0_u64..100));
    // Pages of few positions; as many as all lanes may need, or as few as a sequence alone may need or fewer.
    let pages = (1_u32..=7, prop_oneof![Just(100_u32), 3_u32..40, 20_u32..32], 0_u32..8);
    let cache = prop::option::weighted(0.75, pages);
    let asks = (prop::collection::vec(ask(), 1..16), prop::bool::weighted(0.25));
    let mode = prop::sample::select(&[SpeculationMode::Always, SpeculationMode::Automatic][..]);
    let drafts = prop::option::of((mode, 1_u32..=7, 0_u64..4, 0_u64..200));
    let checkpoints =
        prop::option::weighted(0.4, (0_u32..8, 1_u32..=4, prop::sample::select(&[1_u32, 1, 2, 4][..]), any::<bool>()));
    let strategy = (1_u32..=8, 1_u32..=8, device, (cache, drafts, checkpoints), asks);
    strategy.prop_map(|(depth, lanes, device, (cache, drafts, checkpoints), (mut asks, some_leave))| {
        if !some_leave {
            asks.iter_mut().for_each(|ask| ask.leaves = None);
        }
        let ((feed_rows, last_token, ranges, max_gap_us), times, eog_slots, non_finite) = device;
        let (step_us, no_op_us, submit_us) = times;
        let depth = InflightDepth::new(depth).unwrap();
        let (pages, reserve) = match cache {
            // Tokens that the cache has room for in all, at least.
            Some((positions, 100, reserve)) => (Some((lanes * CONTEXT.div_ceil(positions), positions)), reserve),
            Some((positions, tokens, reserve)) => (Some((tokens.div_ceil(positions), positions)), reserve),
            None => (None, 0),
        };
        let checkpoints = checkpoints.map(|(slots, page, spacing, inside_steps)| {
            let page = pages.map_or(page, |(_, positions)| positions);
            CheckpointLimits { slots, page, spacing: spacing * page, inside_steps }
        });
        let engine = EngineOptions::default().with_depth(depth).with_max_gap(Duration::from_micros(max_gap_us));
        let (speculation, max_drafts, wrong_drafts, draft_us) = drafts.unwrap_or((SpeculationMode::Off, 0, 0, 0));
        Crowd {
            engine: engine.with_reserve_tokens(reserve).with_speculation(speculation),
            fake: FakeOptions {
                limits: ModelLimits {
                    context_tokens: CONTEXT,
                    vocabulary_tokens: VOCABULARY,
                    ring_slots: depth.get(),
                    lanes,
                    pages: pages.map(|(pages, positions)| PagePool { pages, positions }),
                    checkpoints,
                    feed_rows,
                    last_token,
                    max_drafts,
                    resume_cost: ResumeCost::Free,
                },
                wrong_drafts,
                draft_time: Duration::from_micros(draft_us),
                eog_slots,
                step: Duration::from_micros(step_us),
                ranges,
                no_op: Duration::from_micros(no_op_us.min(step_us)),
                submit: Duration::from_micros(submit_us),
                faults: non_finite.map(|step| Fault::NonFinite { step }).into_iter().collect(),
                ..FakeOptions::default()
            },
            asks,
        }
    })
}

/// The reader of a request.
struct Reader {
    ask: usize,
    tokens: Vec<Token>,
    /// How many calls the model had seen when each token came.
    calls: Vec<usize>,
    most: usize,
    /// The turn in which it goes away, and the present one.
    leaves: Option<u32>,
    turn: Rc<Cell<u32>>,
    probe: Probe,
    /// `None` where pages may be short, so that a sequence waits for one; and where readers leave at any time, so that ranges between tokens do nothing.
    gap: Option<Gap>,
    /// The most drafts of a step.
    max_drafts: u32,
}

/// What may lie between two tokens of a sequence.
#[derive(Clone, Copy)]
struct Gap {
    most: Duration,
    /// Device time of a step that samples, and of a range.
    step: Duration,
}

impl Outlet for Reader {
    fn tokens(&mut self, tokens: &[Token]) -> usize {
        let calls = self.probe.calls().len();
        assert!((1..=1 + self.max_drafts as usize).contains(&tokens.len()), "{} tokens of a step", tokens.len());
        self.tokens.extend_from_slice(tokens);
        self.calls.extend(tokens.iter().map(|_| calls));
        tokens.len()
    }

    fn cancelled(&self) -> bool {
        self.tokens.len() >= self.most || self.leaves.is_some_and(|turn| turn <= self.turn.get())
    }
}

/// Lets a crowd ask, and compares each answer with the reference's.
fn hold(crowd: Crowd) -> Result<(), TestCaseError> {
    let Crowd { engine: options, fake, mut asks } = crowd;
    let (depth, lanes, can_break) = (options.depth.get(), fake.limits.lanes, !fake.faults.is_empty());
    let limits = fake.limits;
    let is_ample = |pool: PagePool| pool.pages >= lanes * CONTEXT.div_ceil(pool.positions);
    let gap = Gap { most: options.max_gap, step: fake.step };
    let is_calm = asks.iter().all(|ask| ask.leaves.is_none());
    let gap = limits.pages.is_none_or(is_ample).then_some(gap).filter(|_| is_calm);
    let clock = ManualClock::new();
    let model = FakeModel::new(fake, clock.clone());
    let probe = model.probe();
    let mut engine = Engine::new(model, clock, options).unwrap();
    asks.sort_by_key(|ask| ask.arrives);
    let requests: Vec<Arc<Request>> = asks
        .iter()
        .map(|ask| {
            let behaviour = ask.turn.map_or_else(Behaviour::default, |(at, turn)| Behaviour::turning(at, turn));
            let request = Request::new(ask.prompt.clone(), ask.eog.clone())
                .with_max_tokens(ask.max_tokens)
                .with_sampling(ask.sampling.clone())
                .with_control(ask.chooser.control(&ask.prompt, VOCABULARY, behaviour));
            Arc::new(request)
        })
        .collect();

    let (mut waiting, mut readers, mut answered) = (0, Vec::<(SequenceId, Reader)>::new(), 0);
    let now = Rc::new(Cell::new(0));
    for turn in 0_u32.. {
        now.set(turn);
        while waiting < asks.len() && asks[waiting].arrives <= turn && engine.admits(&requests[waiting]) {
            let Ask { most, leaves, .. } = asks[waiting];
            let reader = Reader {
                ask: waiting,
                tokens: Vec::new(),
                calls: Vec::new(),
                most: most.unwrap_or(usize::MAX),
                leaves,
                turn: now.clone(),
                probe: probe.clone(),
                gap,
                max_drafts: limits.max_drafts,
            };
            match engine.start(&requests[waiting], &reader) {
                Ok(Started::Running(id)) => readers.push((id, reader)),
                Ok(Started::Ended(completion)) => {
                    judge(&asks[waiting], &requests[waiting], &reader, Ok(completion), can_break, limits)?;
                    answered += 1;
                }
                Err(Error::PromptExceedsCache { prompt_tokens, cache_tokens }) => {
                    prop_assert_eq!(prompt_tokens, requests[waiting].prompt.len() as u64);
                    prop_assert!(
                        Some(cache_tokens) == limits.pages.map(|pool| pool.tokens()) && prompt_tokens > cache_tokens
                    );
                    answered += 1;
                }
                Err(error) => return Err(TestCaseError::fail(format!("{error:?}"))),
            }
            waiting += 1;
        }
        prop_assert!(engine.running() <= lanes as usize);
        prop_assert!(engine.has_room() || engine.running() == lanes as usize);
        let ended = engine.turn(&mut readers).map_err(|error| TestCaseError::fail(format!("{error:?}")))?;
        let shared = engine.counts().last_step.is_some_and(|step| step.kind.feeds() && step.lanes > 1);
        SHARED.fetch_add(shared.into(), Ordering::Relaxed);
        for ended in ended {
            let place = readers.iter().position(|(id, _)| *id == ended.sequence).expect("it ran");
            let (_, reader) = readers.remove(place);
            judge(&asks[reader.ask], &requests[reader.ask], &reader, ended.result, can_break, limits)?;
            answered += 1;
        }
        if waiting == asks.len() && engine.running() == 0 {
            break;
        }
        prop_assert!(turn < 100_000, "the crowd is never answered");
    }
    prop_assert_eq!(answered, asks.len());
    prop_assert!(probe.most_in_flight() <= depth);
    if let (Some(pages), Some(pool)) = (engine.pages(), limits.pages) {
        prop_assert_eq!((pages.used, pages.free + pages.cached), (0, pool.pages), "a page is lost");
    }
    let preemptions = engine.counts().preemptions;
    prop_assert!(
        limits.pages.is_some_and(|pool| !is_ample(pool)) || preemptions == 0,
        "{preemptions} preemptions with pages for all"
    );
    PREEMPTIONS.fetch_add(preemptions, Ordering::Relaxed);
    let EngineCounts { checkpoints_kept, checkpoints_restored, .. } = engine.counts();
    prop_assert!(limits.checkpoints.is_some_and(|limits| limits.slots > 0) || checkpoints_kept == 0);
    KEPT.fetch_add(checkpoints_kept, Ordering::Relaxed);
    RESTORED.fetch_add(checkpoints_restored, Ordering::Relaxed);
    Ok(())
}

/// Compares what a request was answered with the reference.
fn judge(
    ask: &Ask,
    request: &Request,
    reader: &Reader,
    result: Result<Completion, Error>,
    can_break: bool,
    limits: ModelLimits,
) -> Result<(), TestCaseError> {
    let delivered = ids(&reader.tokens);
    for (index, token) in reader.tokens.iter().enumerate() {
        prop_assert_eq!(token.position as usize, request.prompt.len() + index);
    }
    let (expected, reason) = reference(request, ask.chooser, VOCABULARY, limits.sequence_tokens());
    let whole = match result {
        Ok(completion) => {
            prop_assert_eq!(completion.usage.completion_tokens as usize, delivered.len());
            CACHED.fetch_add(u64::from(completion.usage.cached_tokens), Ordering::Relaxed);
            let SpeculationStats { steps, tokens, drafts } = completion.speculation_stats;
            let accepted = completion.speculation_stats.accepted();
            prop_assert!(accepted <= drafts && drafts <= steps * u64::from(limits.max_drafts));
            ACCEPTED.fetch_add(accepted, Ordering::Relaxed);
            // The first token may come of the step that feeds the prompt.
            MIXED.fetch_add((steps > 0 && delivered.len() as u64 > tokens + 1).into(), Ordering::Relaxed);
            match completion.reason {
                FinishReason::Cancelled => {
                    let has_left = ask.leaves.is_some_and(|turn| turn <= reader.turn.get());
                    prop_assert!(has_left || ask.most.is_some_and(|most| delivered.len() >= most));
                    false
                }
                FinishReason::Complete => {
                    prop_assert!(matches!(ask.turn, Some((at, Turn::Completes)) if at == delivered.len()));
                    false
                }
                ended => {
                    prop_assert_eq!(ended, reason);
                    true
                }
            }
        }
        Err(Error::Control { position, .. }) => {
            prop_assert!(matches!(ask.turn, Some((at, _)) if at == delivered.len()));
            prop_assert_eq!(position as usize, request.prompt.len() + delivered.len());
            false
        }
        Err(Error::NonFinite { .. }) => {
            prop_assert!(can_break);
            false
        }
        Err(other) => return Err(TestCaseError::fail(format!("{other:?}"))),
    };
    if whole {
        prop_assert_eq!(&delivered, &expected);
    } else {
        prop_assert!(expected.starts_with(&delivered), "{delivered:?} is no prefix of {expected:?}");
    }
    let Some(gap) = reader.gap else { return Ok(()) };
    check_gaps(&reader.calls, &reader.probe)?;
    check_ranges(&reader.calls, &reader.probe, gap)
}

/// Between two tokens of a sequence the device runs ranges of steps that feed for so long that these and the step of the second token stay within the limit, or one
/// range.
fn check_ranges(tokens: &[usize], probe: &Probe, gap: Gap) -> Result<(), TestCaseError> {
    // By step, in the order of submission: how many ranges there are before it is submitted, and up to its end. By call: the last step that was waited for.
    let (mut ranges, mut before, mut waited) = (0, Vec::new(), Vec::new());
    let calls = probe.calls();
    for call in &calls {
        let last = waited.last().copied().unwrap_or(0);
        waited.push(if let Call::Wait { step, .. } = call { *step as usize } else { last });
        match call {
            Call::Range { .. } => ranges += 1,
            Call::Submit { kind, .. } => {
                let of_step = u32::from(kind.feeds());
                before.push((ranges, ranges + of_step));
                ranges += of_step;
            }
            _ => {}
        }
    }
    for pair in tokens.windows(2) {
        let [from, to] = [pair[0], pair[1]].map(|token| before[waited[token - 1]]);
        let between = to.0 - from.1;
        let time = (between + 1) * gap.step;
        prop_assert!(between <= 1 || time <= gap.most, "{between} ranges, {time:?} between two tokens, {:?}", gap.most);
    }
    Ok(())
}

/// Between two tokens of a sequence the device ends at most one step that feeds.
fn check_gaps(tokens: &[usize], probe: &Probe) -> Result<(), TestCaseError> {
    let calls = probe.calls();
    let feeds = |step: u64| {
        let is_own = |call: &&Call| matches!(call, Call::Submit { step: own, .. } if *own == step);
        let kind = calls
            .iter()
            .find(is_own)
            .map(|call| if let Call::Submit { kind, .. } = call { *kind } else { StepKind::Decode });
        kind.is_some_and(StepKind::feeds)
    };
    for pair in tokens.windows(2) {
        let between = &calls[pair[0]..pair[1]];
        let fed = between.iter().filter(|call| matches!(call, Call::Wait { step, .. } if feeds(*step))).count();
        prop_assert!(fed <= 1, "{fed} steps that feed between two tokens");
    }
    Ok(())
}

#[test]
fn everyone_in_a_crowd_is_answered_as_if_alone() {
    let asked_for = std::env::var("PROPTEST_CASES").ok();
    let times = if matrix::is_full() { WHOLE } else { 1 };
    let crowds = asked_for.as_ref().map_or(times * CROWDS, |cases| cases.parse().expect("a number"));
    let requests = cases::hold_all(crowds, crowd, |crowd| crowd.asks.len(), hold);
    if asked_for.is_none() {
        assert!(requests >= u64::from(times) * REQUESTS, "{requests} requests of {crowds} crowds");
        let [preemptions, cached, shared] = [&PREEMPTIONS, &CACHED, &SHARED].map(|count| count.load(Ordering::Relaxed));
        assert!(
            preemptions > REQUESTS / 100 && cached > REQUESTS / 2 && shared > REQUESTS / 100,
            "{preemptions} preemptions, {cached} tokens cached, {shared} turns behind steps that have fed several prompts"
        );
        let [kept, restored] = [&KEPT, &RESTORED].map(|count| count.load(Ordering::Relaxed));
        assert!(kept > REQUESTS / 5 && restored > REQUESTS / 40, "{kept} checkpoints kept, {restored} restored");
        let [accepted, mixed] = [&ACCEPTED, &MIXED].map(|count| count.load(Ordering::Relaxed));
        assert!(
            accepted > REQUESTS / 20 && mixed > REQUESTS / 100,
            "{accepted} drafts accepted, {mixed} requests with drafts in some steps alone"
        );
    }
}

/// Notes when tokens come, on the simulated clock.
struct Times {
    clock: ManualClock,
    at: Vec<Duration>,
}

impl Outlet for Times {
    fn tokens(&mut self, tokens: &[Token]) -> usize {
        self.at.extend(tokens.iter().map(|_| Duration::from_nanos(self.clock.now_ns())));
        tokens.len()
    }
}

struct Both([(Option<SequenceId>, Times); 2]);

impl Outlets for Both {
    fn outlet(&mut self, sequence: SequenceId) -> &mut dyn Outlet {
        &mut self.0.iter_mut().find(|(own, _)| *own == Some(sequence)).expect("it runs").1
    }

    fn cancelled(&self, _sequence: SequenceId) -> bool {
        false
    }
}

/// A prompt of 100 steps of six ranges of a millisecond, beside a sequence whose tokens take a millisecond: no token waits for more than the limit, and the prompt gets
/// three quarters of the time as soon as the times are known.
#[test]
fn report_26_and_27_a_prompt_gets_the_time_that_the_limit_leaves() {
    const STEP: Duration = Duration::from_millis(1);
    let clock = ManualClock::new();
    let limits = ModelLimits { context_tokens: 4096, lanes: 2, feed_rows: 8, ..FakeOptions::default().limits };
    let fake = FakeOptions { limits, ranges: 6, step: STEP, submit: Duration::ZERO, ..FakeOptions::default() };
    let model = FakeModel::new(fake, clock.clone());
    let options = EngineOptions::default().with_max_gap(4 * STEP);
    let mut engine = Engine::new(model, clock.clone(), options).unwrap();
    let mut readers = Both([(); 2].map(|()| (None, Times { clock: clock.clone(), at: Vec::new() })));
    let mut begun = Duration::ZERO;
    for (reader, (tokens, generated)) in [(1, 2000), (801, 1)].into_iter().enumerate() {
        let request = Request::new(vec![1; tokens], []).with_max_tokens(generated);
        begun = Duration::from_nanos(clock.now_ns());
        match engine.start(&Arc::new(request), &readers.0[reader].1).unwrap() {
            Started::Running(id) => readers.0[reader].0 = Some(id),
            Started::Ended(completion) => panic!("{completion:?}"),
        }
        (0..20).for_each(|_| _ = engine.turn(&mut readers).unwrap());
    }
    while readers.0[1].1.at.is_empty() {
        engine.turn(&mut readers).unwrap();
    }
    let [(_, decoding), (_, fed)] = &readers.0;
    let alone = 600 * STEP;
    let taken = fed.at[0] - begun;
    assert!(taken.as_secs_f64() * 0.74 < alone.as_secs_f64(), "{taken:?} beside others, {alone:?} alone");
    assert!(taken > alone, "{taken:?}");
    let gaps = || decoding.at.windows(2).map(|pair| pair[1] - pair[0]);
    assert_eq!(gaps().max(), Some(4 * STEP));
    assert!(gaps().filter(|gap| *gap == 4 * STEP).count() > 150, "the time between tokens is not used");
}

/// Prompts that arrive together are fed by as few steps as have rows for all of their tokens, and get the tokens that each gets alone.
#[test]
fn prompts_that_arrive_together_share_steps() {
    for (lanes, tokens, steps) in [(8, 4, 2), (8, 2, 1), (3, 5, 1), (5, 16, 5), (1, 16, 1)] {
        let clock = ManualClock::new();
        let limits = ModelLimits { lanes, feed_rows: 16, last_token: LastToken::Fed, ..FakeOptions::default().limits };
        let vocabulary = limits.vocabulary_tokens;
        let model = FakeModel::new(FakeOptions { limits, ..FakeOptions::default() }, clock.clone());
        let probe = model.probe();
        let mut engine = Engine::new(model, clock, EngineOptions::default()).unwrap();
        let prompts: Vec<Vec<u32>> = (0..lanes).map(|lane| (0..tokens).map(|at| 10 * lane + at).collect()).collect();
        let mut answers: Vec<(SequenceId, Vec<Token>)> = Vec::new();
        for prompt in &prompts {
            let request = Request::new(prompt.clone(), []).with_max_tokens(3);
            match engine.start(&Arc::new(request), &Vec::new()).unwrap() {
                Started::Running(id) => answers.push((id, Vec::new())),
                Started::Ended(completion) => panic!("{completion:?}"),
            }
        }
        while engine.running() > 0 {
            engine.turn(&mut answers).unwrap();
        }
        let feeds = |call: &&Call| matches!(call, Call::Submit { kind, .. } if kind.feeds());
        let fed = probe.calls().iter().filter(feeds).count();
        assert_eq!(fed, steps, "{lanes} prompts of {tokens} tokens");
        for ((_, found), prompt) in answers.iter().zip(&prompts) {
            assert_eq!(ids(found), continuation(prompt, 3, &Sampling::GREEDY, vocabulary), "{prompt:?}");
        }
    }
}
