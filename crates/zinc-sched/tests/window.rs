//! The real loop on a simulated model, on the calling thread and in simulated time.

mod support;

use std::time::Duration;

use support::{DEPTHS, VOCABULARY, context, depth, engine, ids, request, run, scripted};
use zinc_sched::fake::{Call, FakeModel, FakeOptions, continuation};
use zinc_sched::{
    Engine, EngineOptions, Error, FinishReason, InflightDepth, ManualClock, ModelLimits, Request, Sampling, StepStatus,
    TraceSummary, Tracing,
};

#[test]
fn every_depth_gives_the_same_tokens() {
    let prompt = [3, 1, 4, 1, 5];
    for sampling in [Sampling::GREEDY, Sampling::new(0.8, 42).unwrap()] {
        let expected = continuation(&prompt, 20, &sampling, VOCABULARY);
        for k in DEPTHS {
            let (mut engine, probe) = engine(depth(k), FakeOptions::default());
            let request = request(&prompt, 20).with_sampling(sampling.clone());
            let (tokens, completion) = run(&mut engine, &request).unwrap();
            assert_eq!(tokens, expected, "depth {k}");
            assert_eq!(completion.reason, FinishReason::Length);
            assert_eq!((completion.usage.prompt_tokens, completion.usage.completion_tokens), (5, 20));
            assert_eq!((completion.overshoot_steps, probe.submits()), (0, 24), "no step beyond the budget");
            assert_eq!(probe.most_in_flight(), k, "the window is used and not exceeded");
        }
    }
}

#[test]
fn steps_are_observed_in_the_order_of_submission() {
    let (mut engine, probe) = engine(depth(4), FakeOptions::default());
    run(&mut engine, &request(&[1, 2, 3], 10)).unwrap();
    let waits: Vec<u64> =
        probe.calls().iter().filter_map(|c| if let Call::Wait { step, .. } = c { Some(*step) } else { None }).collect();
    assert_eq!(waits, (0..12).collect::<Vec<_>>());
}

#[test]
fn an_end_of_generation_id_ends_at_every_point_and_is_not_delivered() {
    const BUDGET: usize = 12;
    for k in DEPTHS {
        for end in 0..BUDGET {
            let mut script: Vec<u32> = (100..100 + BUDGET as u32).collect();
            script[end] = 7;
            let (mut engine, probe) = engine(depth(k), scripted(&script));
            let request = request(&[1, 2, 3], BUDGET as u32).with_eog([6, 7]);
            let (tokens, completion) = run(&mut engine, &request).unwrap();
            assert_eq!(tokens, script[..end], "depth {k}, end {end}");
            assert_eq!(completion.reason, FinishReason::Stop { token: 7 });
            assert_eq!(completion.usage.completion_tokens as usize, end);

            let queued_behind = (k as usize - 1).min(BUDGET - 1 - end);
            assert_eq!(completion.overshoot_steps as usize, queued_behind, "depth {k}, end {end}");
            assert_eq!(probe.submits() as usize, 2 + end + 1 + queued_behind);
            assert_eq!(no_ops(&probe.calls()), queued_behind, "the device skipped what was queued behind the end");
            assert_eq!(probe.cancels(), 0, "the device stopped by itself");

            let mut kept = vec![1, 2, 3];
            kept.extend(&script[..end]);
            assert_eq!(engine.kv().tokens(), kept, "every delivered token went in; the end itself did not");
        }
    }
}

#[test]
fn an_end_the_device_does_not_know_is_found_by_the_host() {
    for k in DEPTHS {
        let fake = FakeOptions { eog_slots: 1, ..scripted(&[100, 101, 7, 103, 104, 105]) };
        let (mut engine, probe) = engine(depth(k), fake);
        let (tokens, completion) = run(&mut engine, &request(&[1, 2], 50).with_eog([6, 7])).unwrap();
        assert_eq!((tokens, completion.reason), (vec![100, 101], FinishReason::Stop { token: 7 }), "depth {k}");
        assert_eq!(probe.cancels(), u64::from(k > 1), "the device is told where steps are queued");
        assert_eq!(engine.kv().tokens(), [1, 2, 100, 101]);
    }
}

#[test]
fn the_end_wins_over_the_budget() {
    let (mut engine, _) = engine(depth(4), scripted(&[100, 7]));
    let (tokens, completion) = run(&mut engine, &request(&[1], 2).with_eog([7])).unwrap();
    assert_eq!((tokens, completion.reason), (vec![100], FinishReason::Stop { token: 7 }));
}

#[test]
fn a_budget_of_nothing_touches_nothing() {
    let (mut engine, probe) = engine(depth(4), FakeOptions::default());
    let (tokens, completion) = run(&mut engine, &request(&[1, 2, 3], 0)).unwrap();
    assert_eq!((tokens, completion.reason), (vec![], FinishReason::Length));
    assert_eq!(probe.calls(), []);
}

#[test]
fn the_context_ends_a_sequence_exactly() {
    // A prompt of 4 in a context of 10: decode steps at positions 3 to 9 sample 7 tokens.
    let prompt = [1, 2, 3, 4];
    let all = continuation(&prompt, 7, &Sampling::GREEDY, VOCABULARY);
    for k in DEPTHS {
        for (max_tokens, delivered, reason) in [
            (Some(1), 1, FinishReason::Length),
            (Some(6), 6, FinishReason::Length),
            (Some(7), 7, FinishReason::Length),
            (Some(8), 7, FinishReason::ContextFull),
            (Some(u32::MAX), 7, FinishReason::ContextFull),
            (None, 7, FinishReason::ContextFull),
        ] {
            let (mut engine, probe) = engine(depth(k), context(10));
            let (tokens, completion) = run(&mut engine, &request(&prompt, 0).with_max_tokens(max_tokens)).unwrap();
            assert_eq!((&tokens[..], completion.reason), (&all[..delivered], reason), "depth {k}, max {max_tokens:?}");
            assert_eq!((completion.overshoot_steps, probe.submits() as usize), (0, 3 + delivered));
            assert_eq!(engine.kv().tokens().len(), 4 + delivered - 1);
        }
    }
}

#[test]
fn a_prompt_that_fills_the_context_still_gives_a_token() {
    let (mut engine, _) = engine(depth(4), context(4));
    let (tokens, completion) = run(&mut engine, &Request::new([1, 2, 3, 4], [])).unwrap();
    assert_eq!(tokens, continuation(&[1, 2, 3, 4], 1, &Sampling::GREEDY, VOCABULARY));
    assert_eq!(completion.reason, FinishReason::ContextFull);
}

#[test]
fn a_bad_prompt_is_refused_before_anything_is_submitted() {
    let (mut engine, probe) = engine(depth(4), context(4));
    assert!(matches!(run(&mut engine, &request(&[], 1)), Err(Error::EmptyPrompt)));
    assert!(matches!(
        run(&mut engine, &request(&[1; 5], 1)),
        Err(Error::PromptTooLong { prompt_tokens: 5, context_tokens: 4 })
    ));
    assert!(matches!(
        run(&mut engine, &request(&[1, VOCABULARY], 1)),
        Err(Error::TokenOutsideVocabulary { index: 1, token: VOCABULARY, vocabulary_tokens: VOCABULARY })
    ));
    assert_eq!(probe.calls(), []);
    assert!(run(&mut engine, &request(&[1], 1)).is_ok(), "the engine is as good as before");
}

#[test]
fn a_common_prefix_is_not_fed_again() {
    let first = [1, 2, 3, 4];
    for k in DEPTHS {
        let (mut engine, probe) = engine(depth(k), FakeOptions::default());
        let (answer, _) = run(&mut engine, &request(&first, 5)).unwrap();

        let mut turn = first.to_vec();
        turn.extend(&answer);
        turn.extend([8, 9]);
        let diverging = [1, 2, 9];
        // The last token of an answer was sampled, but never taken in.
        for (prompt, cached) in [(&turn[..], 8), (&turn[..], 10), (&diverging[..], 2), (&first[..2], 1), (&[9][..], 0)]
        {
            let before = probe.submits();
            let (tokens, completion) = run(&mut engine, &request(prompt, 3)).unwrap();
            assert_eq!(tokens, continuation(prompt, 3, &Sampling::GREEDY, VOCABULARY), "depth {k}, {prompt:?}");
            assert_eq!(completion.usage.cached_tokens, cached, "depth {k}, {prompt:?}");
            assert_eq!(probe.submits() - before, prompt.len() as u64 - u64::from(cached) - 1 + 3);
        }
    }
}

#[test]
fn the_window_hides_the_hosts_work() {
    // Steps of 1000 µs, submits of 4 µs, 250 µs of host work a token, all in simulated time.
    for k in DEPTHS {
        let options = depth(k).with_host_work(Duration::from_micros(250));
        let (mut engine, _) = engine(options, FakeOptions::default());
        let (_, completion) = run(&mut engine, &request(&[1, 2, 3], 20).with_trace(Tracing::On)).unwrap();
        let trace = completion.trace.unwrap();
        assert_eq!(trace.steps.len(), 22);
        let summary = TraceSummary::of(&trace);
        let gap = summary.decode.idle_gap_ns.unwrap();
        let (expected_gap, expected_share) = if k == 1 { (254_000, 0.0) } else { (0, 1.0) };
        assert_eq!((gap.median, gap.p99, gap.max), (expected_gap, expected_gap, expected_gap), "depth {k}");
        assert_eq!(summary.decode.submitted_ahead_share, Some(expected_share), "depth {k}");
        assert_eq!((summary.submits_per_step, summary.recordings_per_step), (Some(1.0), Some(0.0)));
        assert_eq!(summary.fence_waits, 0);
    }
}

/// With one step in flight the device has nothing to do while the host works on a token; with several it always has.
#[test]
fn the_time_without_work_is_that_of_the_host_at_depth_1() {
    let work = Duration::from_micros(300);
    let idle_at = |k| {
        let (mut engine, _) = engine(depth(k).with_host_work(work), FakeOptions::default());
        run(&mut engine, &request(&[1, 2], 10)).unwrap();
        let counts = engine.counts();
        assert_eq!((counts.feeding_rows.rows, counts.sampling_rows.rows, counts.steps), (1, 10, 11));
        // The steps take a millisecond each.
        assert!(counts.occupancy.busy >= Duration::from_millis(10), "{:?}", counts.occupancy);
        counts.occupancy.idle
    };
    assert!(idle_at(1) >= 10 * work, "{:?}", idle_at(1));
    // Behind the last token there is no step.
    assert_eq!(idle_at(2), work);
}

#[test]
fn durations_are_split_at_the_first_token() {
    let (mut engine, _) = engine(depth(1), FakeOptions::default());
    let (_, completion) = run(&mut engine, &request(&[1, 2, 3], 5)).unwrap();
    // Two feeds and one decode to the first token, four decodes more; each 1000 µs and a submit of 4 µs.
    assert_eq!(completion.durations.prompt, Duration::from_micros(3 * 1004));
    assert_eq!(completion.durations.decode, Duration::from_micros(4 * 1004));
    assert!(completion.trace.is_none());
}

#[test]
fn a_trace_keeps_the_no_ops() {
    let (mut engine, _) = engine(depth(4), scripted(&[100, 7]));
    let request = request(&[1], 50).with_eog([7]).with_trace(Tracing::On);
    let (_, completion) = run(&mut engine, &request).unwrap();
    let trace = completion.trace.unwrap();
    assert_eq!(trace.steps.len(), 5);
    assert_eq!(TraceSummary::of(&trace).no_ops, 3);
    assert_eq!(trace.counters.submits, 5);
}

#[test]
fn a_window_deeper_than_the_ring_is_refused() {
    let limits = ModelLimits { ring_slots: 2, ..FakeOptions::default().limits };
    let model = || FakeModel::new(FakeOptions { limits, ..FakeOptions::default() }, ManualClock::new());
    let result = Engine::new(model(), ManualClock::new(), depth(3)).map(|_| ());
    assert!(matches!(result, Err(Error::DepthExceedsRing { depth: 3, ring_slots: 2 })));
    assert!(Engine::new(model(), ManualClock::new(), depth(2)).is_ok());
    let options = EngineOptions::default().with_depth(InflightDepth::ONE).with_queue_capacity(0);
    assert!(matches!(Engine::new(model(), ManualClock::new(), options).map(|_| ()), Err(Error::QueueCapacityZero)));
}

#[test]
fn sequences_do_not_leak_into_each_other() {
    let (mut engine, _) = engine(depth(8), FakeOptions::default());
    let mut tokens = Vec::new();
    for round in 0..20 {
        let prompt = [round % 3, round % 5, 7];
        tokens.clear();
        engine.run(&request(&prompt, 1 + round % 6), &mut tokens).unwrap();
        let count = tokens.len();
        assert_eq!(ids(&tokens), continuation(&prompt, count, &Sampling::GREEDY, VOCABULARY), "round {round}");
    }
}

fn no_ops(calls: &[Call]) -> usize {
    calls.iter().filter(|call| matches!(call, Call::Wait { status: StepStatus::NoOp, .. })).count()
}

#[test]
fn what_was_rolled_back_is_computed_again() {
    let (mut engine, probe) = engine(depth(4), FakeOptions::default());
    let (tokens, _) = run(&mut engine, &request(&[1, 2, 3, 4, 5], 6)).unwrap();
    for _ in 0..2 {
        engine.roll_back(2);
        assert_eq!(engine.kv().tokens(), [1, 2]);
        let submits = probe.submits();
        let (again, completion) = run(&mut engine, &request(&[1, 2, 3, 4, 5], 6)).unwrap();
        assert_eq!(again, tokens);
        assert_eq!((completion.usage.cached_tokens, probe.submits() - submits), (2, 2 + 6));
    }
}

#[test]
#[should_panic(expected = "kept 9 tokens of a cache that holds 5")]
fn rolling_back_forwards_is_refused() {
    let (mut engine, _) = engine(depth(4), FakeOptions::default());
    run(&mut engine, &request(&[1, 2, 3, 4, 5], 1)).unwrap();
    engine.roll_back(9);
}
