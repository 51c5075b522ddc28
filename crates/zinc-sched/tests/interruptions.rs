//! Sequences that are cut short: cancelled or refused at every point, and models that fail at every step, whoever chooses the tokens.

mod support;

use std::time::Duration;

use support::control::{Behaviour, Chooser};
use support::{
    BreakAfter, CancelAfter, Cancellable, DEPTHS, VOCABULARY, assert_positions, depth, engine, ids, request, run,
};
use zinc_sched::fake::{Call, FakeError, FakeModel, FakeOptions, Fault, continuation};
use zinc_sched::{CancelHandle, Engine, Error, FinishReason, ManualClock, ModelCall, Sampling, Token};

const PROMPT: [u32; 4] = [3, 1, 4, 1];
const FEEDS: u64 = 3;
const BUDGET: u32 = 12;
const CHOOSERS: [Chooser; 3] = [Chooser::Device, Chooser::Constraint, Chooser::Sampler];

fn expected() -> Vec<u32> {
    continuation(&PROMPT, BUDGET as usize, &Sampling::GREEDY, VOCABULARY)
}

/// The engine answers a request that continues the delivered tokens, and one that departs from them, as a fresh engine would.
fn assert_usable(engine: &mut Engine<FakeModel>, delivered: &[u32]) {
    let mut longer = PROMPT.to_vec();
    longer.extend(delivered);
    longer.push(77);
    let mut diverging = longer.clone();
    diverging.truncate(PROMPT.len() + delivered.len() / 2);
    diverging.push(78);
    for prompt in [longer, diverging] {
        let (tokens, _) = run(engine, &request(&prompt, 4)).unwrap();
        assert_eq!(tokens, continuation(&prompt, 4, &Sampling::GREEDY, VOCABULARY), "after {prompt:?}");
    }
}

#[test]
fn a_cancel_after_any_number_of_tokens_delivers_no_more_and_rolls_back() {
    for k in DEPTHS {
        for count in 1..BUDGET as usize {
            let (mut engine, probe) = engine(depth(k), FakeOptions::default());
            let mut outlet = CancelAfter { tokens: Vec::new(), count };
            let completion = engine.run(&request(&PROMPT, BUDGET), &mut outlet).unwrap();
            assert_eq!(ids(&outlet.tokens), expected()[..count], "depth {k}, cancel after {count}");
            assert_eq!(completion.reason, FinishReason::Cancelled);
            assert_eq!(completion.usage.completion_tokens as usize, count);
            assert!(completion.overshoot_steps < k, "{} steps overshot at depth {k}", completion.overshoot_steps);
            assert_eq!(probe.cancels(), 1);

            let mut kept = PROMPT.to_vec();
            kept.extend(&expected()[..count - 1]);
            assert_eq!(engine.kv().tokens(), kept);
            assert_usable(&mut engine, &expected()[..count]);
        }
    }
}

#[test]
fn a_cancel_during_any_step_delivers_nothing_of_that_step() {
    for k in DEPTHS {
        for step in 0..FEEDS + u64::from(BUDGET) {
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
            let model = FakeModel::new(FakeOptions::default(), clock.clone()).on_wait(hook);
            let probe = model.probe();
            let mut engine = Engine::new(model, clock, depth(k)).unwrap();
            let mut outlet = Cancellable { tokens: Vec::new(), cancel };
            let request = request(&PROMPT, BUDGET);
            let completion = engine.run(&request, &mut outlet).unwrap();

            let delivered = step.saturating_sub(FEEDS) as usize;
            assert_eq!(ids(&outlet.tokens), expected()[..delivered], "depth {k}, cancel in step {step}");
            assert_positions(&outlet.tokens, &request);
            assert_eq!(completion.reason, FinishReason::Cancelled);
            assert!((1..=k).contains(&completion.overshoot_steps));
            assert_eq!(engine.kv().tokens().len() as u64, step, "one token for each step before");
            let submitted = probe.submits();
            let calls = probe.calls();
            let last_cancel = calls.iter().rposition(|call| matches!(call, Call::Cancel { .. })).unwrap();
            assert!(calls[last_cancel..].iter().all(|call| !matches!(call, Call::Submit { .. })));
            assert_eq!(submitted, step + u64::from(completion.overshoot_steps));
            assert_usable(&mut engine, &expected()[..delivered]);
        }
    }
}

#[test]
fn a_request_cancelled_before_it_begins_touches_nothing() {
    let (mut engine, probe) = engine(depth(4), FakeOptions::default());
    let mut outlet = Cancellable::default();
    outlet.cancel.cancel();
    let completion = engine.run(&request(&PROMPT, BUDGET), &mut outlet).unwrap();
    assert_eq!(completion.reason, FinishReason::Cancelled);
    assert_eq!(probe.calls(), []);
}

#[test]
fn an_outlet_that_refuses_a_token_cancels() {
    for k in DEPTHS {
        for count in 0..BUDGET as usize {
            let (mut engine, probe) = engine(depth(k), FakeOptions::default());
            let mut outlet = BreakAfter { tokens: Vec::new(), count };
            let completion = engine.run(&request(&PROMPT, BUDGET), &mut outlet).unwrap();
            assert_eq!(completion.reason, FinishReason::Cancelled);
            assert_eq!(completion.usage.completion_tokens as usize, count);
            let queued_behind = (k - 1).min(BUDGET - 1 - count as u32);
            assert_eq!(completion.overshoot_steps, queued_behind, "depth {k}, refused after {count}");
            assert_eq!(probe.cancels(), u64::from(queued_behind > 0));
            assert_usable(&mut engine, &expected()[..count]);
        }
    }
}

#[test]
fn a_model_that_fails_at_any_step_is_never_touched_again() {
    for (chooser, k) in CHOOSERS.into_iter().flat_map(|chooser| DEPTHS.map(|k| (chooser, k))) {
        let all = chooser.continuation(&PROMPT, BUDGET as usize, &Sampling::GREEDY, VOCABULARY);
        let control = chooser.control(&PROMPT, VOCABULARY, Behaviour::default());
        let request = request(&PROMPT, BUDGET).with_control(control);
        for step in 0..FEEDS + u64::from(BUDGET) {
            let stall = Fault::Stall { step, patience: Duration::from_secs(10) };
            for fault in [Fault::Wait { step }, stall, Fault::Submit { step }, Fault::WrongPosition { step }] {
                let (mut engine, probe) =
                    engine(depth(k), FakeOptions { faults: vec![fault], ..FakeOptions::default() });
                let mut tokens: Vec<Token> = Vec::new();
                let error = engine.run(&request, &mut tokens).unwrap_err();
                let named = match (&fault, &error) {
                    (Fault::Submit { .. }, Error::Model { call: ModelCall::Submit { step }, .. })
                    | (Fault::Wait { .. } | Fault::Stall { .. }, Error::Model { call: ModelCall::Wait { step }, .. })
                    | (Fault::WrongPosition { .. }, Error::UnexpectedOutput { step, .. }) => *step,
                    // With a sampler on the host, the wait for the step's logits fails.
                    (
                        Fault::Wait { .. } | Fault::Stall { .. },
                        Error::Model { call: ModelCall::Gate { position }, .. },
                    ) if chooser == Chooser::Sampler && step >= FEEDS => *position - 1,
                    _ => panic!("{fault:?} gave {error:?}"),
                };
                assert_eq!(u64::from(named), step, "{chooser:?}, {fault:?}");
                let observed =
                    if let Fault::Submit { .. } = fault { step.saturating_sub(u64::from(k) - 1) } else { step };
                // A submit fails before the steps in front of it in the window are observed.
                let delivered = observed.saturating_sub(FEEDS) as usize;
                assert_eq!(ids(&tokens), all[..delivered], "{chooser:?}, depth {k}, {fault:?}");
                assert!(engine.kv().tokens().is_empty());

                let calls = probe.calls();
                let again = engine.run(&request, &mut tokens).unwrap_err();
                assert_eq!(again.to_string(), error.to_string());
                assert_eq!(probe.calls(), calls);
            }
        }
    }
}

#[test]
fn a_sequence_that_cannot_be_opened_ends_the_engine() {
    let (mut engine, probe) =
        engine(depth(4), FakeOptions { faults: vec![Fault::Open { sequence: 1 }], ..FakeOptions::default() });
    run(&mut engine, &request(&PROMPT, 2)).unwrap();
    let submits = probe.submits();
    let error = run(&mut engine, &request(&PROMPT, 2)).unwrap_err();
    assert!(matches!(error, Error::Model { call: ModelCall::Open, .. }), "{error:?}");
    assert!(error.to_string().contains(&FakeError::NotOpened { sequence: 1 }.to_string()), "{error}");
    assert!(run(&mut engine, &request(&PROMPT, 2)).is_err());
    assert_eq!((probe.submits(), engine.kv().tokens().len()), (submits, 0));
}

#[test]
fn logits_that_are_not_finite_end_the_request_and_not_the_engine() {
    for (chooser, k) in CHOOSERS.into_iter().flat_map(|chooser| DEPTHS.map(|k| (chooser, k))) {
        let all = chooser.continuation(&PROMPT, BUDGET as usize, &Sampling::GREEDY, VOCABULARY);
        let control = chooser.control(&PROMPT, VOCABULARY, Behaviour::default());
        let request = request(&PROMPT, BUDGET).with_control(control);
        for decoded in 0..u64::from(BUDGET) {
            let step = FEEDS + decoded;
            let (mut engine, _) =
                engine(depth(k), FakeOptions { faults: vec![Fault::NonFinite { step }], ..FakeOptions::default() });
            let mut tokens: Vec<Token> = Vec::new();
            let error = engine.run(&request, &mut tokens).unwrap_err();
            assert!(
                matches!(error, Error::NonFinite { step: s, position } if u64::from(s) == step && u64::from(position) == step),
                "{error:?}"
            );
            assert!(!error.is_fatal());
            assert_eq!(ids(&tokens), all[..decoded as usize], "{chooser:?}, depth {k}");
            assert!(engine.kv().tokens().is_empty(), "nothing of that sequence is reused");
            assert_usable(&mut engine, &all[..decoded as usize]);
        }
    }
}
