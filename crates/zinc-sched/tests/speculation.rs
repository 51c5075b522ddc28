//! Speculation: the same tokens as without, what it costs at most, and what is reported of it.

mod support;

use std::sync::Arc;
use std::time::Duration;

use support::control::{Behaviour, Chooser};
use support::{
    BreakAfter, CancelAfter, Cancellable, DEPTHS, VOCABULARY, context, depth, drafting, engine, ids, request, run,
    scripted,
};
use zinc_sched::fake::{Call, FakeModel, FakeOptions, Fault, Probe, TokenStream, continuation};
use zinc_sched::{
    CancelHandle, Clock, Engine, EngineOptions, Error, FinishReason, LastToken, ManualClock, ModelLimits, Outlet,
    PagePool, Request, Sampling, SequenceId, SpeculationMode, SpeculationStats, Started, StepKind, Token, Tracing,
};

const PROMPT: [u32; 4] = [3, 1, 4, 1];
const FEEDS: u32 = 3;
const SPECULATIONS: [SpeculationMode; 3] = [SpeculationMode::Off, SpeculationMode::Automatic, SpeculationMode::Always];

fn speculating(speculation: SpeculationMode, k: u32) -> EngineOptions {
    depth(k).with_speculation(speculation)
}

/// Pairs of the most drafts of a step, and the number of drafts of which one is wrong; 0 is none.
fn agreements() -> impl Iterator<Item = (u32, u64)> {
    [0, 1, 2, 7].into_iter().flat_map(|drafts| [0, 1, 2, 3, 7].map(|wrong| (drafts, wrong)))
}

fn kinds(probe: &Probe) -> Vec<StepKind> {
    let kind = |call: Call| if let Call::Submit { kind, .. } = call { Some(kind) } else { None };
    probe.calls().into_iter().filter_map(kind).collect()
}

/// The engine answers a request that continues the delivered tokens as a fresh engine would.
fn assert_usable(engine: &mut Engine<FakeModel>, delivered: &[u32]) {
    let mut prompt = PROMPT.to_vec();
    prompt.extend(delivered);
    prompt.push(77);
    let (tokens, _) = run(engine, &request(&prompt, 9)).unwrap();
    assert_eq!(tokens, continuation(&prompt, 9, &Sampling::GREEDY, VOCABULARY), "after {prompt:?}");
}

#[test]
fn speculation_changes_no_token() {
    for sampling in [Sampling::GREEDY, Sampling::new(0.8, 42).unwrap()] {
        let all = continuation(&PROMPT, 40, &sampling, VOCABULARY);
        for speculation in SPECULATIONS {
            for (k, (drafts, wrong)) in DEPTHS.into_iter().flat_map(|k| agreements().map(move |a| (k, a))) {
                let (mut engine, probe) =
                    engine(speculating(speculation, k), drafting(drafts, wrong, FakeOptions::default()));
                for budget in [1, 2, 3, 8, 9, 17, 40] {
                    let request = request(&PROMPT, budget).with_sampling(sampling.clone());
                    let (tokens, completion) = run(&mut engine, &request).unwrap();
                    let context =
                        format!("{speculation:?}, depth {k}, {drafts} drafts, wrong {wrong}, budget {budget}");
                    assert_eq!(tokens, all[..budget as usize], "{context}");
                    assert_eq!(completion.reason, FinishReason::Length, "{context}");
                    assert_eq!(probe.cancels(), 0, "{context}");
                    assert!(completion.overshoot_steps < k, "{context}");
                    assert_eq!(engine.kv().tokens().len() as u32, PROMPT.len() as u32 + budget - 1, "{context}");
                }
            }
        }
    }
}

#[test]
fn the_context_ends_a_sequence_exactly() {
    for context_tokens in 4..24 {
        let room = context_tokens as usize - 3;
        let all = continuation(&PROMPT, room, &Sampling::GREEDY, VOCABULARY);
        for (k, (drafts, wrong)) in DEPTHS.into_iter().flat_map(|k| agreements().map(move |a| (k, a))) {
            let fake = drafting(drafts, wrong, context(context_tokens));
            let (mut engine, _) = engine(speculating(SpeculationMode::Always, k), fake);
            let (tokens, completion) = run(&mut engine, &Request::new(PROMPT, [])).unwrap();
            assert_eq!((tokens, completion.reason), (all.clone(), FinishReason::ContextFull));
            assert_eq!(engine.kv().tokens().len(), context_tokens as usize);
        }
    }
}

#[test]
fn an_end_of_generation_id_ends_at_every_point_whether_the_device_knows_it_or_not() {
    const BUDGET: usize = 20;
    for end in 0..BUDGET {
        let mut script: Vec<u32> = (100..100 + BUDGET as u32).collect();
        script[end] = 7;
        for (k, (drafts, wrong)) in DEPTHS.into_iter().flat_map(|k| agreements().map(move |a| (k, a))) {
            for eog_slots in [0, 1, 2] {
                let fake = FakeOptions { eog_slots, ..drafting(drafts, wrong, scripted(&script)) };
                let (mut engine, _) = engine(speculating(SpeculationMode::Always, k), fake);
                let request = request(&[1, 2, 3], BUDGET as u32).with_eog([6, 7]);
                let (tokens, completion) = run(&mut engine, &request).unwrap();
                assert_eq!(tokens, script[..end], "depth {k}, end {end}, {drafts} drafts, wrong {wrong}");
                assert_eq!(completion.reason, FinishReason::Stop { token: 7 });
                let mut kept = vec![1, 2, 3];
                kept.extend(&script[..end]);
                assert_eq!(engine.kv().tokens(), kept);
                let SpeculationStats { steps, tokens, .. } = completion.speculation_stats;
                if drafts > 0 {
                    assert_eq!(tokens as usize, end + 1, "the end was sampled too");
                    assert!((1..=tokens).contains(&steps));
                    assert!(completion.speculation_stats.accepted_per_step().unwrap() <= f64::from(drafts));
                }
            }
        }
    }
}

#[test]
fn a_cancel_after_any_number_of_tokens_delivers_no_more() {
    const BUDGET: u32 = 20;
    let all = continuation(&PROMPT, BUDGET as usize, &Sampling::GREEDY, VOCABULARY);
    for (k, (drafts, wrong)) in DEPTHS.into_iter().flat_map(|k| agreements().map(move |a| (k, a))) {
        for count in 1..BUDGET as usize {
            let fake = drafting(drafts, wrong, FakeOptions::default());
            let (mut engine, _) = engine(speculating(SpeculationMode::Always, k), fake);
            let request = request(&PROMPT, BUDGET);
            let context = format!("depth {k}, {drafts} drafts, wrong {wrong}, after {count}");
            let mut kept = PROMPT.to_vec();

            let mut outlet = CancelAfter { tokens: Vec::new(), count };
            let completion = engine.run(&request, &mut outlet).unwrap();
            assert_eq!((ids(&outlet.tokens), completion.reason), (all[..count].to_vec(), FinishReason::Cancelled));
            kept.extend(&all[..count - 1]);
            assert_eq!(engine.kv().tokens(), kept, "{context}");

            let mut outlet = BreakAfter { tokens: Vec::new(), count };
            let completion = engine.run(&request, &mut outlet).unwrap();
            assert_eq!((ids(&outlet.tokens), completion.reason), (all[..count].to_vec(), FinishReason::Cancelled));
            kept.push(all[count - 1]);
            assert_eq!(engine.kv().tokens(), kept, "{context}: the step that chose the refused token was valid");
            assert_usable(&mut engine, &all[..count]);
        }
    }
}

#[test]
fn a_cancel_before_the_end_of_generation_within_a_run_is_a_cancel() {
    for (speculation, k) in SPECULATIONS.into_iter().flat_map(|s| DEPTHS.map(|k| (s, k))) {
        let fake = drafting(7, 0, scripted(&[100, 101, 7]));
        let (mut engine, _) = engine(speculating(speculation, k), fake);
        let mut outlet = CancelAfter { tokens: Vec::new(), count: 2 };
        let completion = engine.run(&request(&PROMPT, 20).with_eog([7]), &mut outlet).unwrap();
        assert_eq!(completion.reason, FinishReason::Cancelled, "{speculation:?}, depth {k}");
        assert_eq!(engine.kv().tokens(), [3, 1, 4, 1, 100]);
    }
}

#[test]
fn a_cancel_during_any_step_delivers_nothing_of_that_step() {
    const BUDGET: u32 = 20;
    let all = continuation(&PROMPT, BUDGET as usize, &Sampling::GREEDY, VOCABULARY);
    for (k, (drafts, wrong)) in DEPTHS.into_iter().flat_map(|k| agreements().map(move |a| (k, a))) {
        for step in 0..u64::from(FEEDS + BUDGET) {
            let cancel = CancelHandle::new();
            let clock = ManualClock::new();
            let hook = {
                let cancel = cancel.clone();
                move |waited: u64| {
                    if waited == step {
                        cancel.cancel();
                    }
                }
            };
            let fake = drafting(drafts, wrong, FakeOptions::default());
            let model = FakeModel::new(fake, clock.clone()).on_wait(hook);
            let mut engine = Engine::new(model, clock, speculating(SpeculationMode::Always, k)).unwrap();
            let mut outlet = Cancellable { tokens: Vec::new(), cancel };
            let request = request(&PROMPT, BUDGET).with_trace(Tracing::On);
            let completion = engine.run(&request, &mut outlet).unwrap();
            // Steps that brought several tokens each may have ended the sequence before that step was waited for.
            let trace = completion.trace.unwrap();
            let before: u32 = trace.steps.iter().take(step as usize).map(|row| row.tokens).sum();
            assert_eq!(ids(&outlet.tokens), all[..before as usize], "depth {k}, {drafts} drafts, step {step}");
            let reason = if before < BUDGET { FinishReason::Cancelled } else { FinishReason::Length };
            assert_eq!(completion.reason, reason);
            assert_usable(&mut engine, &all[..before as usize]);
        }
    }
}

#[test]
fn accepted_drafts_are_counted() {
    for k in DEPTHS {
        // The last tokens have fewer drafts than there may be.
        let cases = [(3, 0, 6, 18), (7, 0, 3, 21), (1, 0, 12, 12), (3, 1, 24, 66), (7, 1, 24, 140)];
        for (drafts, wrong, steps, all) in cases {
            let (mut engine, probe) =
                engine(speculating(SpeculationMode::Always, k), drafting(drafts, wrong, FakeOptions::default()));
            let (_, completion) = run(&mut engine, &request(&PROMPT, 24)).unwrap();
            assert_eq!(
                completion.speculation_stats,
                SpeculationStats { steps, tokens: 24, drafts: all },
                "depth {k}, {drafts} drafts"
            );
            let accepted = if wrong == 0 { f64::from(drafts) } else { 0.0 };
            assert_eq!(completion.speculation_stats.accepted_per_step(), Some(accepted));
            let sampling = kinds(&probe).iter().filter(|kind| **kind == StepKind::Speculate).count();
            assert_eq!(sampling as u64, steps + u64::from(completion.overshoot_steps));
        }
    }
}

/// A reader that counts the tokens of each step.
#[derive(Default)]
struct Runs {
    tokens: Vec<u32>,
    runs: Vec<usize>,
}

impl Outlet for Runs {
    fn tokens(&mut self, tokens: &[Token]) -> usize {
        self.tokens.extend(ids(tokens));
        self.runs.push(tokens.len());
        tokens.len()
    }
}

/// A sequence runs alone, then beside another, then alone again. Pages have fewer positions than a step can have rows, and there are as many as both need, or hardly more than the longer one does.
#[test]
fn a_sequence_is_drafted_while_it_runs_alone() {
    const BUDGET: u32 = 120;
    for (k, last_token) in DEPTHS.into_iter().flat_map(|k| [LastToken::Alone, LastToken::Fed].map(|last| (k, last))) {
        for pages in [48, 43] {
            let limits = ModelLimits {
                context_tokens: 128,
                lanes: 2,
                pages: Some(PagePool { pages, positions: 3 }),
                feed_rows: 4,
                last_token,
                ..FakeOptions::default().limits
            };
            let fake = drafting(7, 5, FakeOptions { limits, ..FakeOptions::default() });
            let options = speculating(SpeculationMode::Always, k).with_reserve_tokens(4);
            let (mut engine, probe) = engine(options, fake);
            let mut readers: Vec<(SequenceId, Runs)> = Vec::new();
            let start =
                |engine: &mut Engine<FakeModel>, readers: &mut Vec<(SequenceId, Runs)>, request: Request| match engine
                    .start(&Arc::new(request), &Runs::default())
                    .unwrap()
                {
                    Started::Running(id) => readers.push((id, Runs::default())),
                    Started::Ended(completion) => panic!("{completion:?}"),
                };
            start(&mut engine, &mut readers, request(&PROMPT, BUDGET).with_trace(Tracing::On));
            let other = [9, 8, 7, 6, 5];
            let mut completions = Vec::new();
            while engine.running() > 0 {
                if readers.len() == 1 && readers[0].1.tokens.len() > 12 {
                    start(&mut engine, &mut readers, request(&other, 12));
                }
                completions.extend(engine.turn(&mut readers).unwrap().into_iter().map(|end| end.result.unwrap()));
            }
            let context = format!("depth {k}, {last_token:?}, {pages} pages");
            let [(_, long), (_, short)] = &readers[..] else { panic!("two were started") };
            assert_eq!(long.tokens, continuation(&PROMPT, BUDGET as usize, &Sampling::GREEDY, VOCABULARY), "{context}");
            assert_eq!(short.tokens, continuation(&other, 12, &Sampling::GREEDY, VOCABULARY), "{context}");
            assert!(short.runs.iter().all(|run| *run == 1), "{context}: {:?}", short.runs);
            let trace = completions[1].trace.as_ref().expect("the long one is traced");
            let sampling: Vec<_> = trace.steps.iter().filter(|step| step.tokens > 0).collect();
            assert!(sampling.iter().all(|step| step.kind != StepKind::Speculate || step.rows == 1), "{context}");
            let drafted = |place: usize| sampling[place].kind == StepKind::Speculate;
            let beside = sampling.iter().position(|step| step.kind == StepKind::Decode && step.rows > 1);
            let beside = beside.unwrap_or_else(|| panic!("{context}: no step of both"));
            assert!((0..beside).any(drafted) && (beside..sampling.len()).any(drafted), "{context}");
            assert_eq!(engine.pages().map(|pages| pages.used), Some(0), "{context}");
            assert!(probe.most_in_flight() <= k, "{context}");
        }
    }
}

#[test]
fn an_end_in_the_first_step_accepts_nothing() {
    let (mut engine, _) = engine(speculating(SpeculationMode::Always, 4), drafting(7, 1, scripted(&[7])));
    let (_, completion) = run(&mut engine, &request(&PROMPT, 24).with_eog([7])).unwrap();
    assert_eq!(completion.speculation_stats, SpeculationStats { steps: 1, tokens: 1, drafts: 7 });
    assert_eq!(completion.speculation_stats.accepted_per_step(), Some(0.0));
}

#[test]
fn log_probabilities_are_of_one_token_a_step() {
    let (mut engine, probe) = engine(speculating(SpeculationMode::Always, 4), drafting(7, 0, FakeOptions::default()));
    run(&mut engine, &request(&PROMPT, 24).with_logprobs(5)).unwrap();
    assert!(!kinds(&probe).contains(&StepKind::Speculate));
}

#[test]
fn host_work_is_spent_on_every_token_of_a_run() {
    let clock = ManualClock::new();
    let options = speculating(SpeculationMode::Always, 4).with_host_work(Duration::from_millis(10));
    let model = FakeModel::new(drafting(7, 0, FakeOptions::default()), clock.clone());
    let mut engine = Engine::new(model, clock.clone(), options).unwrap();
    run(&mut engine, &request(&PROMPT, 16)).unwrap();
    assert!(clock.now_ns() >= 160_000_000, "{} ns for 16 tokens of 10 ms", clock.now_ns());
}

/// The simulated time in ns that `requests` requests of `tokens` tokens take, where drafting adds `drafting_us` to a step of 1 ms.
fn time(speculation: SpeculationMode, k: u32, requests: u32, tokens: u32, wrong: u64, drafting_us: u64) -> u64 {
    let clock = ManualClock::new();
    let limits = ModelLimits { context_tokens: 2 + tokens, max_drafts: 7, ..FakeOptions::default().limits };
    let fake = FakeOptions {
        limits,
        tokens: TokenStream::Script((0..97).collect()),
        wrong_drafts: wrong,
        draft_time: Duration::from_micros(drafting_us),
        ..FakeOptions::default()
    };
    let model = FakeModel::new(fake, clock.clone());
    let mut engine = Engine::new(model, clock.clone(), speculating(speculation, k)).unwrap();
    for _ in 0..requests {
        run(&mut engine, &request(&[1, 2], tokens)).unwrap();
    }
    clock.now_ns()
}

#[test]
fn automatic_speculation_costs_at_most_three_percent_where_it_loses() {
    for k in [1, 2, 4, 8] {
        for (wrong, drafting_us) in [(1, 10), (1, 500), (1, 3000), (1, 50_000), (2, 2000), (0, 9000)] {
            for (requests, tokens) in [(200, 5), (200, 10), (50, 40), (10, 300), (1, 4000)] {
                let off = time(SpeculationMode::Off, k, requests, tokens, wrong, drafting_us);
                let automatic = time(SpeculationMode::Automatic, k, requests, tokens, wrong, drafting_us);
                // The first trial is over before anything is known.
                let trial = 3 * 1000 * drafting_us;
                assert!(
                    automatic <= off + off * 3 / 100 + trial,
                    "{automatic} ns, and {off} without: depth {k}, {requests} requests of {tokens}, wrong {wrong}, \
                     {drafting_us} µs for drafts"
                );
            }
        }
    }
}

#[test]
fn automatic_speculation_is_nearly_as_good_as_always_where_it_wins() {
    for k in [1, 2, 4, 8] {
        for (wrong, drafting_us) in [(0, 500), (5, 500), (0, 3000), (3, 200)] {
            let off = time(SpeculationMode::Off, k, 1, 4000, wrong, drafting_us);
            let always = time(SpeculationMode::Always, k, 1, 4000, wrong, drafting_us);
            let automatic = time(SpeculationMode::Automatic, k, 1, 4000, wrong, drafting_us);
            assert!(always < off * 9 / 10, "the case is one where drafts win");
            let share = (off - automatic) as f64 / (off - always) as f64;
            assert!(share > 0.9, "{share} of what drafts gain: depth {k}, wrong {wrong}, {drafting_us} µs for drafts");
        }
    }
}

#[test]
fn steps_that_the_host_decides_are_no_measure_of_plain_ones() {
    let clock = ManualClock::new();
    let fake = drafting(7, 1, FakeOptions::default());
    let model = FakeModel::new(fake, clock.clone());
    let probe = model.probe();
    let mut engine = Engine::new(model, clock.clone(), speculating(SpeculationMode::Automatic, 4)).unwrap();
    let slow = Behaviour::working(&clock, Duration::from_millis(50));
    let control = Chooser::Sampler.control(&PROMPT, VOCABULARY, slow);
    run(&mut engine, &request(&PROMPT, 40).with_control(control)).unwrap();
    let before = kinds(&probe).len();
    run(&mut engine, &request(&PROMPT, 50)).unwrap();
    let plain = kinds(&probe)[before..].iter().take_while(|kind| **kind == StepKind::Decode).count();
    assert!(plain > 8, "{plain} steps were plain before the first trial");
    let speculative = kinds(&probe).iter().filter(|kind| **kind == StepKind::Speculate).count();
    assert_eq!(speculative, 3, "one trial, which is lost");
}

#[test]
fn a_model_that_fails_at_any_step_is_never_touched_again() {
    const BUDGET: u32 = 20;
    let all = continuation(&PROMPT, BUDGET as usize, &Sampling::GREEDY, VOCABULARY);
    for k in DEPTHS {
        for step in 0..u64::from(FEEDS + 5) {
            let stall = Fault::Stall { step, patience: Duration::from_secs(10) };
            for fault in [Fault::Wait { step }, stall, Fault::Submit { step }, Fault::WrongPosition { step }] {
                let fake = FakeOptions { faults: vec![fault], ..drafting(3, 0, FakeOptions::default()) };
                let (mut engine, probe) = engine(speculating(SpeculationMode::Always, k), fake);
                let mut tokens: Vec<Token> = Vec::new();
                let error = engine.run(&request(&PROMPT, BUDGET), &mut tokens).unwrap_err();
                assert!(error.is_fatal(), "{error:?}");
                assert!(
                    all.starts_with(&ids(&tokens)) && tokens.len().is_multiple_of(4),
                    "{} tokens of runs",
                    tokens.len()
                );
                assert!(engine.kv().tokens().is_empty());
                let calls = probe.calls();
                assert!(engine.run(&request(&PROMPT, BUDGET), &mut tokens).is_err());
                assert_eq!(probe.calls(), calls);
            }
        }
    }
}

#[test]
fn logits_that_are_not_finite_end_the_request_and_not_the_engine() {
    const BUDGET: u32 = 20;
    let all = continuation(&PROMPT, BUDGET as usize, &Sampling::GREEDY, VOCABULARY);
    for k in DEPTHS {
        for run_index in 0..5 {
            let step = u64::from(FEEDS) + run_index;
            let faults = vec![Fault::NonFinite { step }];
            let fake = FakeOptions { faults, ..drafting(3, 0, FakeOptions::default()) };
            let (mut engine, _) = engine(speculating(SpeculationMode::Always, k), fake);
            let mut tokens: Vec<Token> = Vec::new();
            let error = engine.run(&request(&PROMPT, BUDGET), &mut tokens).unwrap_err();
            assert!(matches!(error, Error::NonFinite { step: s, .. } if u64::from(s) == step), "{error:?}");
            assert_eq!(ids(&tokens), all[..4 * run_index as usize], "depth {k}");
            assert!(engine.kv().tokens().is_empty());
            assert_usable(&mut engine, &ids(&tokens));
        }
    }
}
