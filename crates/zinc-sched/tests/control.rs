//! Sequences whose tokens the host decides about: their tokens, the device's idle time, and every way in which they are cut short.

mod support;

use std::time::Duration;

use support::control::{Behaviour, Chooser, Turn};
use support::{BreakAfter, CancelAfter, Cancellable, DEPTHS, VOCABULARY, depth, drafting, engine, ids, request, run};
use zinc_sched::fake::{Call, FakeModel, FakeOptions, Fault, Probe};
use zinc_sched::{
    CancelHandle, Control, Engine, Error, FinishReason, ManualClock, ModelCall, Outlet, Request, Sampling, StepKind,
    Token, TraceSummary, Tracing,
};

const PROMPT: [u32; 4] = [3, 1, 4, 1];
const FEEDS: usize = 3;
const BUDGET: u32 = 12;

fn controlled(chooser: Chooser, prompt: &[u32], behaviour: Behaviour) -> Request {
    request(prompt, BUDGET).with_control(chooser.control(prompt, VOCABULARY, behaviour))
}

fn expected(chooser: Chooser) -> Vec<u32> {
    chooser.continuation(&PROMPT, BUDGET as usize, &Sampling::GREEDY, VOCABULARY)
}

/// The tokens that a sequence leaves in the cache: the prompt, and all delivered tokens that were taken in.
fn assert_kept(engine: &Engine<FakeModel>, delivered: &[u32]) {
    let mut conversation = PROMPT.to_vec();
    conversation.extend(delivered);
    let kept = engine.kv().tokens();
    assert!(conversation.starts_with(kept), "the cache holds {kept:?}, and the conversation is {conversation:?}");
}

/// The engine answers a request that continues an earlier one as a fresh engine would, whoever chooses the tokens.
fn assert_usable(engine: &mut Engine<FakeModel>, delivered: &[u32]) {
    let mut prompt = PROMPT.to_vec();
    prompt.extend(delivered);
    prompt.push(77);
    for chooser in [Chooser::Device, Chooser::Constraint, Chooser::Sampler] {
        let (tokens, _) = run(engine, &controlled(chooser, &prompt, Behaviour::default())).unwrap();
        let expected = chooser.continuation(&prompt, BUDGET as usize, &Sampling::GREEDY, VOCABULARY);
        assert_eq!(tokens, expected, "{chooser:?} after {prompt:?}");
    }
}

#[test]
fn every_depth_gives_the_tokens_of_a_loop_without_a_window() {
    for sampling in [Sampling::GREEDY, Sampling::new(0.8, 42).unwrap()] {
        for chooser in Chooser::HOST {
            let expected = chooser.continuation(&PROMPT, BUDGET as usize, &sampling, VOCABULARY);
            assert_ne!(expected, Chooser::Device.continuation(&PROMPT, BUDGET as usize, &sampling, VOCABULARY));
            for k in DEPTHS {
                let (mut engine, probe) = engine(depth(k), FakeOptions::default());
                let request = controlled(chooser, &PROMPT, Behaviour::default());
                let request = request.with_sampling(sampling.clone());
                let (tokens, completion) = run(&mut engine, &request).unwrap();
                assert_eq!((&tokens, completion.reason), (&expected, FinishReason::Length), "{chooser:?}, depth {k}");
                assert_eq!((completion.overshoot_steps, probe.cancels()), (0, 0));
                assert_eq!(probe.most_in_flight(), k, "the window is used");
                // The next request is of another kind. The state of a constraint or sampler must not outlive its request.
                assert_usable(&mut engine, &tokens);
            }
        }
    }
}

#[test]
fn an_end_of_generation_id_ends_at_every_point() {
    for chooser in Chooser::HOST {
        let all = expected(chooser);
        for end in 0..BUDGET as usize {
            let first = all.iter().position(|id| *id == all[end]).unwrap();
            for (k, eog_slots) in DEPTHS.into_iter().flat_map(|k| [(k, 0), (k, 1)]) {
                let (mut engine, _) = engine(depth(k), FakeOptions { eog_slots, ..FakeOptions::default() });
                let request = controlled(chooser, &PROMPT, Behaviour::default());
                let request = request.with_eog([all[end]]);
                let (tokens, completion) = run(&mut engine, &request).unwrap();
                let context = format!("{chooser:?}, depth {k}, {eog_slots} slots");
                assert_eq!((&tokens[..], completion.reason), (&all[..first], FinishReason::Stop { token: all[end] }));
                assert!(completion.overshoot_steps < k, "{context}");
                assert_eq!(engine.kv().tokens().len(), PROMPT.len() + first, "{context}");
                assert_usable(&mut engine, &tokens);
            }
        }
    }
}

/// An outlet that notes how many gates were open when each token was delivered.
struct Watching {
    probe: Probe,
    opened: Vec<usize>,
}

fn opened(probe: &Probe) -> usize {
    probe.calls().iter().filter(|call| matches!(call, Call::OpenGate { .. })).count()
}

impl Outlet for Watching {
    fn tokens(&mut self, tokens: &[Token]) -> usize {
        self.opened.push(opened(&self.probe));
        tokens.len()
    }
}

/// Runs a sequence on a device with steps of 1000 µs and submits of 4 µs, while the host takes `work` for each token. Returns the longest
/// step, and the longest time for which the device idled between or in steps, in µs.
fn device_times(chooser: Chooser, k: u32, work: Duration) -> (u64, u64) {
    let clock = ManualClock::new();
    let model = FakeModel::new(FakeOptions::default(), clock.clone());
    let mut engine = Engine::new(model, clock.clone(), depth(k)).unwrap();
    let request = controlled(chooser, &[3], Behaviour::working(&clock, work));
    let (_, completion) = run(&mut engine, &request.with_trace(Tracing::On)).unwrap();
    let decode = TraceSummary::of(&completion.trace.unwrap()).decode;
    assert_eq!(decode.pairs, u64::from(BUDGET) - 1);
    (decode.gpu_step_ns.unwrap().max / 1000, decode.idle_gap_ns.unwrap().max / 1000)
}

#[test]
fn a_guide_is_given_before_the_token_before_it_is_delivered() {
    for k in DEPTHS {
        let (mut engine, probe) = engine(depth(k), FakeOptions::default());
        let mut outlet = Watching { probe: probe.clone(), opened: Vec::new() };
        engine.run(&controlled(Chooser::Constraint, &PROMPT, Behaviour::default()), &mut outlet).unwrap();
        // At depth 1 nothing is queued behind the token that is delivered.
        let ahead = usize::from(k > 1);
        let expected: Vec<usize> = (1..=BUDGET as usize).map(|n| (n + ahead).min(BUDGET as usize)).collect();
        assert_eq!(outlet.opened, expected, "depth {k}");
    }
}

/// The time that the host needs for a step beside its guide.
const SUBMIT_US: u64 = 4;

#[test]
fn guides_that_take_up_to_a_step_cost_the_device_nothing() {
    for k in 2..=8 {
        // The first guide waits until the window is filled.
        for work in [0, 1, 500, 1000 - SUBMIT_US * u64::from(k)] {
            let times = device_times(Chooser::Constraint, k, Duration::from_micros(work));
            assert_eq!(times, (1000, 0), "depth {k}, {work} µs of work");
        }
    }
    let times = device_times(Chooser::Constraint, 1, Duration::from_micros(500));
    assert_eq!(
        times,
        (1000, SUBMIT_US),
        "without a window the device waits for the submit, and still not for the guide"
    );
}

#[test]
fn slower_guides_cost_what_exceeds_a_step() {
    for k in 3..=8 {
        let (step, idle) = device_times(Chooser::Constraint, k, Duration::from_micros(1300));
        // The first guide waits until the window is filled, the others for the submit of one step.
        assert_eq!((step, idle), (1300 + SUBMIT_US * u64::from(k - 1), 300 + SUBMIT_US), "depth {k}");
    }
}

#[test]
fn a_sampler_costs_its_own_time_and_no_submit() {
    for k in 2..=8 {
        assert_eq!(device_times(Chooser::Sampler, k, Duration::from_micros(300)), (1300, 300), "depth {k}");
    }
    assert_eq!(device_times(Chooser::Sampler, 1, Duration::from_micros(300)), (1300, 300 + SUBMIT_US));
}

/// The message of the error with which a control ends its request.
fn control_error(error: Error) -> (u32, String) {
    match error {
        Error::Control { position, source } => (position, source.to_string()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_constraint_ends_its_request_at_every_token_in_every_way() {
    let all = expected(Chooser::Constraint);
    for k in DEPTHS {
        for at in 0..BUDGET as usize {
            for turn in Turn::ALL {
                let (mut engine, probe) = engine(depth(k), FakeOptions::default());
                let request = controlled(Chooser::Constraint, &PROMPT, Behaviour::turning(at, turn));
                let mut tokens: Vec<Token> = Vec::new();
                let result = engine.run(&request, &mut tokens);
                let context = format!("depth {k}, {turn:?} at {at}");
                // The constraint does not accept the last token of the budget.
                let ends = turn != Turn::Refuses || at + 1 < BUDGET as usize;
                if ends {
                    assert_eq!(ids(&tokens), all[..at], "{context}");
                    assert_eq!(probe.cancels(), 1, "{context}");
                } else {
                    assert_eq!(ids(&tokens), all, "{context}");
                }
                match turn {
                    _ if !ends => assert_eq!(result.unwrap().reason, FinishReason::Length),
                    Turn::Completes => {
                        let completion = result.unwrap();
                        assert_eq!(completion.reason, FinishReason::Complete, "{context}");
                        assert!((1..=k).contains(&completion.overshoot_steps), "{context}");
                    }
                    _ => {
                        let error = result.unwrap_err();
                        assert!(!error.is_fatal());
                        let (position, message) = control_error(error);
                        assert_eq!(position as usize, PROMPT.len() + at, "{context}");
                        let expected = match turn {
                            Turn::Fails => "the guide failed".to_owned(),
                            Turn::Refuses => format!("token {} was refused", all[at]),
                            _ => "the constraint and the logit biases leave no token at all".to_owned(),
                        };
                        assert_eq!(message, expected, "{context}");
                    }
                }
                assert_kept(&engine, &all[..tokens.len()]);
                assert_usable(&mut engine, &all[..tokens.len()]);
            }
        }
    }
}

#[test]
fn a_sampler_ends_its_request_at_every_token() {
    let all = expected(Chooser::Sampler);
    for k in DEPTHS {
        for at in 0..BUDGET as usize {
            for (turn, expected) in [
                (Turn::Fails, "the sampler failed"),
                (Turn::LeavesNothing, "the sampler chose token 1000 of a vocabulary of 1000"),
            ] {
                let (mut engine, probe) = engine(depth(k), FakeOptions::default());
                let request = controlled(Chooser::Sampler, &PROMPT, Behaviour::turning(at, turn));
                let mut tokens: Vec<Token> = Vec::new();
                let (position, message) = control_error(engine.run(&request, &mut tokens).unwrap_err());
                assert_eq!((position as usize, &message[..]), (PROMPT.len() + at, expected), "depth {k}");
                assert_eq!((ids(&tokens), probe.cancels()), (all[..at].to_vec(), 1), "depth {k}, {turn:?} at {at}");
                assert_kept(&engine, &all[..at]);
                assert_usable(&mut engine, &all[..at]);
            }
        }
    }
}

#[test]
fn biases_of_the_request_count_for_whether_anything_is_left() {
    let banned = |ids: &[u32]| ids.iter().map(|id| (*id, f32::NEG_INFINITY)).collect();
    struct Only;
    impl zinc_sched::Constraint for Only {
        fn guide(&mut self, guide: &mut zinc_sched::Guide) -> Result<zinc_sched::Verdict, zinc_sched::ControlError> {
            guide.set_mask(&[0b111]);
            Ok(zinc_sched::Verdict::Choose)
        }

        fn accept(&mut self, _: u32) -> Result<(), zinc_sched::ControlError> {
            Ok(())
        }
    }
    for (ids, ends) in [(&[0, 1][..], false), (&[0, 1, 2], true)] {
        let (mut engine, _) = engine(depth(4), FakeOptions::default());
        let sampling = Sampling { logit_bias: banned(ids), ..Sampling::GREEDY };
        let request = request(&PROMPT, 3).with_sampling(sampling).with_control(Control::masked(|| Ok(Only)));
        assert_eq!(run(&mut engine, &request).is_err(), ends, "{ids:?} are banned");
    }
}

#[test]
fn a_control_that_is_not_made_ends_its_request_before_it_begins() {
    for control in [
        Control::Masked(std::sync::Arc::new(|| Err("no grammar".into()))),
        Control::HostFed(std::sync::Arc::new(|| Err("no grammar".into()))),
    ] {
        let (mut engine, probe) = engine(depth(4), FakeOptions::default());
        let error = run(&mut engine, &request(&PROMPT, 3).with_control(control)).unwrap_err();
        assert_eq!(error.to_string(), "choosing the token at position 4: no grammar");
        assert_eq!(probe.calls(), []);
        assert_usable(&mut engine, &[]);
    }
}

#[test]
fn a_cancel_after_any_number_of_tokens_opens_the_gates_and_rolls_back() {
    for chooser in Chooser::HOST {
        let all = expected(chooser);
        for (k, count) in DEPTHS.into_iter().flat_map(|k| (0..BUDGET as usize).map(move |count| (k, count))) {
            let request = controlled(chooser, &PROMPT, Behaviour::default());
            let (mut engine, probe) = engine(depth(k), FakeOptions::default());
            let mut refusing = BreakAfter { tokens: Vec::new(), count };
            let completion = engine.run(&request, &mut refusing).unwrap();
            assert_eq!(completion.reason, FinishReason::Cancelled);
            assert_eq!(ids(&refusing.tokens), all[..count], "{chooser:?}, depth {k}, refused after {count}");
            assert_eq!(probe.cancels(), u64::from(completion.overshoot_steps > 0));
            assert_kept(&engine, &all[..count]);

            let count = count + 1;
            let mut outlet = CancelAfter { tokens: Vec::new(), count };
            let completion = engine.run(&request, &mut outlet).unwrap();
            let reason = if count < BUDGET as usize { FinishReason::Cancelled } else { FinishReason::Length };
            assert_eq!(completion.reason, reason);
            assert_eq!(ids(&outlet.tokens), all[..count], "{chooser:?}, depth {k}, cancelled after {count}");
            assert_kept(&engine, &all[..count]);
            assert_usable(&mut engine, &all[..count]);
        }
    }
}

#[test]
fn a_cancel_during_any_step_delivers_nothing_of_that_step() {
    for chooser in Chooser::HOST {
        let all = expected(chooser);
        for (k, step) in DEPTHS.into_iter().flat_map(|k| (0..FEEDS + BUDGET as usize).map(move |step| (k, step))) {
            let cancel = CancelHandle::new();
            let clock = ManualClock::new();
            let hook = {
                let cancel = cancel.clone();
                move |waited: u64| {
                    if waited == step as u64 {
                        cancel.cancel();
                    }
                }
            };
            let model = FakeModel::new(FakeOptions::default(), clock.clone()).on_wait(hook);
            let probe = model.probe();
            let mut engine = Engine::new(model, clock, depth(k)).unwrap();
            let mut outlet = Cancellable { tokens: Vec::new(), cancel };
            let request = controlled(chooser, &PROMPT, Behaviour::default());
            let completion = engine.run(&request, &mut outlet).unwrap();
            let delivered = step.saturating_sub(FEEDS);
            assert_eq!(completion.reason, FinishReason::Cancelled);
            assert_eq!(ids(&outlet.tokens), all[..delivered], "{chooser:?}, depth {k}, cancelled in step {step}");
            assert_eq!(probe.cancels(), 1);
            if let Chooser::Sampler = chooser {
                assert_eq!(opened(&probe), delivered, "nobody is asked for a token that is not wanted");
            }
            assert_eq!(engine.kv().tokens().len(), step);
            assert_usable(&mut engine, &all[..delivered]);
        }
    }
}

#[test]
fn a_cancel_while_the_host_decides_is_obeyed() {
    for chooser in Chooser::HOST {
        let all = expected(chooser);
        for (k, at) in DEPTHS.into_iter().flat_map(|k| (0..BUDGET as usize).map(move |at| (k, at))) {
            let cancel = CancelHandle::new();
            let (mut engine, probe) = engine(depth(k), FakeOptions::default());
            let behaviour = Behaviour { cancel: Some((at, cancel.clone())), ..Behaviour::default() };
            let mut outlet = Cancellable { tokens: Vec::new(), cancel };
            let completion = engine.run(&controlled(chooser, &PROMPT, behaviour), &mut outlet).unwrap();
            assert_eq!(completion.reason, FinishReason::Cancelled);
            // A guide is computed before the previous token is delivered, a sampler's choice after that.
            assert_eq!(ids(&outlet.tokens), all[..at], "{chooser:?}, depth {k}, cancelled at {at}");
            assert_eq!(probe.cancels(), 1);
            assert_kept(&engine, &all[..at]);
            assert_usable(&mut engine, &all[..at]);
        }
    }
}

#[test]
fn a_gate_that_does_not_open_ends_the_engine() {
    for chooser in Chooser::HOST {
        for (k, at) in DEPTHS.into_iter().flat_map(|k| (0..u64::from(BUDGET)).map(move |at| (k, at))) {
            let faults = vec![Fault::Gate { step: FEEDS as u64 + at }];
            let (mut engine, probe) = engine(depth(k), FakeOptions { faults, ..FakeOptions::default() });
            let mut tokens: Vec<Token> = Vec::new();
            let request = controlled(chooser, &PROMPT, Behaviour::default());
            let error = engine.run(&request, &mut tokens).unwrap_err();
            let Error::Model { call: ModelCall::Gate { position }, .. } = &error else { panic!("{error:?}") };
            assert_eq!(*position as usize, PROMPT.len() + at as usize);
            assert!(expected(chooser).starts_with(&ids(&tokens)), "depth {k}");
            assert!(engine.kv().tokens().is_empty());
            let calls = probe.calls();
            assert_eq!(engine.run(&request, &mut tokens).unwrap_err().to_string(), error.to_string());
            assert_eq!(probe.calls(), calls, "the model is not touched again");
        }
    }
}

#[test]
fn what_the_host_decides_is_not_drafted() {
    for chooser in Chooser::HOST {
        let options = depth(4).with_speculation(zinc_sched::SpeculationMode::Always);
        let (mut engine, probe) = engine(options, drafting(7, 0, FakeOptions::default()));
        let (tokens, completion) = run(&mut engine, &controlled(chooser, &PROMPT, Behaviour::default())).unwrap();
        assert_eq!((tokens, completion.speculation_stats.steps), (expected(chooser), 0));
        let speculation_stats = |call: &Call| matches!(call, Call::Submit { kind: StepKind::Speculate, .. });
        assert!(!probe.calls().iter().any(speculation_stats));
    }
}
