//! The engine on its own thread: queue, events, cancellation from elsewhere, shutdown.

mod support;

use std::sync::{Arc, mpsc};
use std::time::Duration;

use support::{VOCABULARY, depth, ids, request};
use zinc_sched::fake::{Call, FakeModel, FakeOptions, Fault, Probe, TokenStream, continuation};
use zinc_sched::{
    Condition, Engine, EngineCounts, EngineHandle, EngineOptions, Error, Event, FinishReason, Generation, LastStep,
    ManualClock, ModelLimits, RequestId, Sampling, Status, StepKind,
};

fn spawn(options: EngineOptions, fake: FakeOptions) -> (EngineHandle, Probe) {
    let clock = ManualClock::new();
    let model = FakeModel::new(fake, clock.clone());
    let probe = model.probe();
    (Engine::spawn(model, clock, options).unwrap(), probe)
}

/// Holds the engine's thread inside a wait until it is released.
struct Gate {
    reached: mpsc::Receiver<()>,
    open: mpsc::Sender<()>,
}

impl Gate {
    fn wait_until_reached(&self) {
        self.reached.recv().unwrap();
    }

    fn open(&self) {
        self.open.send(()).unwrap();
    }
}

/// An engine whose thread stops in the wait for `step`, and what releases it.
fn spawn_gated(options: EngineOptions, fake: FakeOptions, step: u64) -> (EngineHandle, Probe, Gate) {
    let clock = ManualClock::new();
    let (reach, reached) = mpsc::channel();
    let (open, opened) = mpsc::channel();
    let model = FakeModel::new(fake, clock.clone()).on_wait(move |waited| {
        if waited == step {
            reach.send(()).unwrap();
            opened.recv().unwrap();
        }
    });
    let probe = model.probe();
    (Engine::spawn(model, clock, options).unwrap(), probe, Gate { reached, open })
}

fn opens(probe: &Probe) -> usize {
    probe.calls().iter().filter(|call| matches!(call, Call::Open { .. })).count()
}

#[test]
fn events_come_in_order_and_end_once() {
    let (engine, _) = spawn(depth(4), FakeOptions::default());
    let mut generation = engine.generate(request(&[1, 2, 3], 6)).unwrap();
    let mut tokens = Vec::new();
    let completion = loop {
        match generation.next().expect("the end comes before the channel closes") {
            Event::Prompt(_) => {}
            Event::Token(token) => tokens.push(token),
            Event::Finished(completion) => break completion,
            Event::Failed(error) => panic!("{error}"),
        }
    };
    assert_eq!(ids(&tokens), continuation(&[1, 2, 3], 6, &Sampling::GREEDY, VOCABULARY));
    assert_eq!(tokens[0].position, 3);
    assert_eq!(completion.reason, FinishReason::Length);
    assert!(generation.next().is_none());
    assert!(generation.next().is_none());
}

#[test]
fn queued_requests_are_answered_in_turn() {
    let (engine, probe) = spawn(depth(4).with_queue_capacity(64), FakeOptions::default());
    let prompts: Vec<[u32; 3]> = (0..40).map(|i| [i % 2, i % 7, i]).collect();
    let generations: Vec<_> = prompts.iter().map(|prompt| engine.generate(request(prompt, 5)).unwrap()).collect();
    for (prompt, generation) in prompts.iter().zip(generations) {
        let (tokens, _) = generation.complete().unwrap();
        assert_eq!(ids(&tokens), continuation(prompt, 5, &Sampling::GREEDY, VOCABULARY), "{prompt:?}");
    }
    let opened: Vec<Vec<u32>> = probe
        .calls()
        .into_iter()
        .filter_map(|c| if let Call::Open { tokens, .. } = c { Some(tokens) } else { None })
        .collect();
    assert_eq!(opened, prompts);
}

#[test]
fn many_threads_share_one_engine() {
    let (engine, _) = spawn(depth(4).with_queue_capacity(64), FakeOptions::default());
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let engine = &engine;
            scope.spawn(move || {
                for round in 0..8 {
                    let prompt = [thread, round, 5];
                    let (tokens, _) = engine.generate(request(&prompt, 4)).unwrap().complete().unwrap();
                    assert_eq!(ids(&tokens), continuation(&prompt, 4, &Sampling::GREEDY, VOCABULARY));
                }
            });
        }
    });
}

#[test]
fn a_full_queue_refuses_with_its_capacity() {
    let (engine, _, gate) = spawn_gated(depth(4).with_queue_capacity(2), FakeOptions::default(), 0);
    let running = engine.generate(request(&[1], 3)).unwrap();
    gate.wait_until_reached();
    let waiting = [(); 2].map(|()| engine.generate(request(&[2], 3)).unwrap());
    assert!(matches!(engine.generate(request(&[3], 3)), Err(Error::QueueFull { waiting: 2, capacity: 2 })));
    gate.open();
    assert_eq!(running.complete().unwrap().0.len(), 3);
    for generation in waiting {
        assert_eq!(generation.complete().unwrap().0.len(), 3);
    }
    assert!(engine.generate(request(&[3], 3)).is_ok());
}

#[test]
fn a_bad_request_is_refused_by_the_caller() {
    let (engine, probe) = spawn(depth(4), FakeOptions::default());
    assert!(matches!(engine.generate(request(&[], 1)), Err(Error::EmptyPrompt)));
    assert!(matches!(
        engine.generate(request(&[1; 65], 1)),
        Err(Error::PromptTooLong { prompt_tokens: 65, context_tokens: 64 })
    ));
    assert!(matches!(engine.generate(request(&[5000], 1)), Err(Error::TokenOutsideVocabulary { .. })));
    drop(engine);
    assert_eq!(probe.calls(), []);
}

#[test]
fn dropping_a_generation_cancels_it() {
    let (engine, probe, gate) = spawn_gated(depth(4), FakeOptions::default(), 6);
    let generation = engine.generate(request(&[1, 2, 3], 50)).unwrap();
    gate.wait_until_reached();
    drop(generation);
    gate.open();
    let (tokens, _) = engine.generate(request(&[1, 2, 4], 5)).unwrap().complete().unwrap();
    assert_eq!(ids(&tokens), continuation(&[1, 2, 4], 5, &Sampling::GREEDY, VOCABULARY));
    assert_eq!(probe.cancels(), 1);
    // Steps 0 to 5 were observed and 6 to 9 in flight; the second request shares two tokens and takes five steps.
    assert_eq!(probe.submits(), 10 + 5);
}

#[test]
fn a_handle_cancels_from_elsewhere() {
    let (engine, _, gate) = spawn_gated(depth(4), FakeOptions::default(), 5);
    let generation = engine.generate(request(&[1, 2, 3], 50)).unwrap();
    let cancel = generation.cancel_handle();
    gate.wait_until_reached();
    std::thread::spawn(move || cancel.cancel()).join().unwrap();
    gate.open();
    let (tokens, completion) = generation.complete().unwrap();
    assert_eq!(completion.reason, FinishReason::Cancelled);
    assert_eq!(ids(&tokens), continuation(&[1, 2, 3], 3, &Sampling::GREEDY, VOCABULARY));
}

#[test]
fn a_request_cancelled_in_the_queue_is_never_opened() {
    let (engine, probe, gate) = spawn_gated(depth(4), FakeOptions::default(), 0);
    let running = engine.generate(request(&[1], 3)).unwrap();
    gate.wait_until_reached();
    let waiting = engine.generate(request(&[2], 3)).unwrap();
    drop(engine.generate(request(&[3], 3)).unwrap());
    waiting.cancel_handle().cancel();
    gate.open();
    assert_eq!(running.complete().unwrap().1.reason, FinishReason::Length);
    let (tokens, completion) = waiting.complete().unwrap();
    assert_eq!((tokens, completion.reason), (vec![], FinishReason::Cancelled));
    drop(engine);
    assert_eq!(opens(&probe), 1);
}

#[test]
fn a_broken_model_is_reported_to_those_who_wait_and_those_who_come() {
    let faults = vec![Fault::Wait { step: 4 }];
    let (engine, probe, gate) = spawn_gated(depth(4), FakeOptions { faults, ..FakeOptions::default() }, 0);
    let running = engine.generate(request(&[1], 20)).unwrap();
    gate.wait_until_reached();
    let waiting = engine.generate(request(&[2], 20)).unwrap();
    gate.open();
    let error = running.complete().unwrap_err();
    assert!(matches!(error, Error::Model { .. }), "{error:?}");
    assert_eq!(waiting.complete().unwrap_err().to_string(), error.to_string());
    let later = engine.generate(request(&[3], 20)).unwrap();
    assert_eq!(later.complete().unwrap_err().to_string(), error.to_string());
    assert_eq!(opens(&probe), 1);
}

/// After each step that takes some of a prompt's tokens, its reader learns how far it has come; what the cache holds counts as done.
#[test]
fn a_prompt_says_how_far_it_has_come() {
    let limits = ModelLimits { feed_rows: 4, ..FakeOptions::default().limits };
    let (engine, _) = spawn(depth(2), FakeOptions { limits, ..FakeOptions::default() });
    let prompt: Vec<u32> = (1..=11).collect();
    let progress = |prompt: &[u32]| -> Vec<(u32, u32)> {
        let events: Vec<Event> = engine.generate(request(prompt, 2)).unwrap().collect();
        let first_token = events.iter().position(|event| matches!(event, Event::Token(_))).unwrap();
        let (before, behind) = events.split_at(first_token);
        assert!(!behind.iter().any(|event| matches!(event, Event::Prompt(_))));
        let of = |event: &Event| match event {
            Event::Prompt(progress) => (progress.done, progress.tokens),
            other => panic!("{other:?}"),
        };
        before.iter().map(of).collect()
    };
    assert_eq!(progress(&prompt[..6]), [(4, 6), (5, 6)]);
    // The cache holds the six tokens of the first prompt.
    assert_eq!(progress(&prompt), [(10, 11)]);
    assert_eq!(progress(&[7]), []);
}

#[test]
fn the_tokens_before_a_failure_are_delivered() {
    let faults = vec![Fault::Wait { step: 4 }];
    let (engine, _) = spawn(depth(4), FakeOptions { faults, ..FakeOptions::default() });
    let events: Vec<Event> = engine.generate(request(&[1], 20)).unwrap().collect();
    assert_eq!(events.len(), 5);
    assert!(events[..4].iter().all(|event| matches!(event, Event::Token(_))));
    assert!(matches!(events[4], Event::Failed(Error::Model { .. })));
}

#[test]
fn dropping_the_handle_stops_what_runs_and_fails_what_waits() {
    const ENOUGH_FOR_A_MINUTE: u32 = 60_000;
    let clock = ManualClock::new();
    let limits = ModelLimits { context_tokens: 2 * ENOUGH_FOR_A_MINUTE, ..FakeOptions::default().limits };
    let (reach, reached) = mpsc::channel();
    let fake = FakeOptions { limits, tokens: TokenStream::Script(vec![7]), ..FakeOptions::default() };
    let model = FakeModel::new(fake, clock.clone()).on_wait(move |step| {
        if step == 5 {
            reach.send(()).unwrap();
        }
        std::thread::sleep(Duration::from_millis(1));
    });
    let probe = model.probe();
    let engine = Engine::spawn(model, clock, depth(4)).unwrap();
    let running = engine.generate(request(&[1, 2], ENOUGH_FOR_A_MINUTE)).unwrap();
    let waiting = engine.generate(request(&[3], ENOUGH_FOR_A_MINUTE)).unwrap();
    reached.recv().unwrap();
    drop(engine);
    let ended = probe.calls().len();
    assert!(matches!(running.last(), Some(Event::Failed(Error::Stopped))));
    assert!(matches!(waiting.last(), Some(Event::Failed(Error::Stopped))));
    assert_eq!((opens(&probe), probe.cancels()), (1, 1));
    assert_eq!(probe.calls().len(), ended, "nothing runs behind the drop");
}

#[test]
fn a_generation_outlives_its_engine() {
    let (engine, _) = spawn(depth(4), FakeOptions::default());
    let generation = engine.generate(request(&[1], 3)).unwrap();
    let done = engine.generate(request(&[1], 3)).unwrap();
    done.complete().unwrap();
    drop(engine);
    assert_eq!(generation.complete().unwrap().0.len(), 3);
}

#[test]
fn a_thread_that_panics_fails_its_requests() {
    let clock = ManualClock::new();
    let model = FakeModel::new(FakeOptions::default(), clock.clone()).on_wait(|step| assert!(step != 2, "a bug"));
    let engine = Engine::spawn(model, clock, depth(1)).unwrap();
    let events: Vec<Event> = engine.generate(request(&[1], 5)).unwrap().collect();
    assert_eq!(events.len(), 3);
    let is_the_panic = |error: &Error| matches!(error, Error::Panicked { message } if &**message == "a bug");
    assert!(matches!(&events[2], Event::Failed(error) if is_the_panic(error)), "{:?}", events[2]);
    for _ in 0..2 {
        let later = engine.generate(request(&[1], 5)).unwrap().complete().unwrap_err();
        assert!(is_the_panic(&later), "{later:?}");
    }
}

/// A device of several lanes.
fn several(lanes: u32) -> FakeOptions {
    let limits = ModelLimits { lanes, feed_rows: 4, ..FakeOptions::default().limits };
    FakeOptions { limits, ranges: 3, ..FakeOptions::default() }
}

#[test]
fn the_highest_priority_begins_first() {
    let (engine, probe, gate) = spawn_gated(depth(4).with_queue_capacity(64), FakeOptions::default(), 0);
    let running = engine.generate(request(&[100], 3)).unwrap();
    gate.wait_until_reached();
    let waiting: Vec<_> = [(1, 0), (2, -5), (3, 7), (4, 0), (5, 7)]
        .into_iter()
        .map(|(prompt, priority)| engine.generate(request(&[prompt], 3).with_priority(priority)).unwrap())
        .collect();
    gate.open();
    running.complete().unwrap();
    for generation in waiting {
        assert_eq!(generation.complete().unwrap().0.len(), 3);
    }
    let opened: Vec<u32> = probe
        .calls()
        .into_iter()
        .filter_map(|call| if let Call::Open { tokens, .. } = call { Some(tokens[0]) } else { None })
        .collect();
    assert_eq!(opened, [100, 3, 5, 1, 4, 2]);
}

#[test]
fn a_request_is_cancelled_by_its_name_in_every_phase() {
    let clock = ManualClock::new();
    let (reach, reached) = mpsc::channel();
    let (open, opened) = mpsc::channel();
    let model = FakeModel::new(several(2), clock.clone()).on_wait(move |step| {
        if step == 0 || step == 2 {
            reach.send(()).unwrap();
            opened.recv().unwrap();
        }
    });
    let probe = model.probe();
    let engine = Engine::spawn(model, clock, depth(2).with_queue_capacity(64)).unwrap();
    let generating = engine.generate(request(&[1], 40)).unwrap();
    reached.recv().unwrap();
    // Its prompt takes six steps of three ranges each, and step 2 is among them.
    let fed = engine.generate(request(&(2..26).collect::<Vec<u32>>(), 30)).unwrap();
    let waiting = engine.generate(request(&[3], 40)).unwrap();
    open.send(()).unwrap();
    reached.recv().unwrap();
    assert!(probe.calls().iter().any(|call| matches!(call, Call::Range { .. })), "a step that feeds is begun");
    for generation in [&waiting, &fed, &generating] {
        engine.cancel(generation.id());
    }
    open.send(()).unwrap();
    for (generation, prompt, most) in [(waiting, vec![3], 0), (fed, (2..26).collect(), 0), (generating, vec![1], 29)] {
        let (tokens, completion) = generation.complete().unwrap();
        assert_eq!(completion.reason, FinishReason::Cancelled, "{prompt:?}");
        assert!(tokens.len() <= most && completion.usage.completion_tokens as usize == tokens.len(), "{prompt:?}");
        assert!(continuation(&prompt, 40, &Sampling::GREEDY, VOCABULARY).starts_with(&ids(&tokens)), "{prompt:?}");
    }
    assert_eq!(opens(&probe), 2, "what waited is never opened");
    let later = engine.generate(request(&[4], 2)).unwrap();
    engine.cancel(ended_name(&engine));
    assert_eq!(later.complete().unwrap().1.reason, FinishReason::Length, "a name of the past means nobody");
}

/// The name of a request that has ended.
fn ended_name(engine: &EngineHandle) -> RequestId {
    let ended = engine.generate(request(&[9], 1)).unwrap();
    let id = ended.id();
    ended.complete().unwrap();
    id
}

#[test]
fn a_status_says_what_waits_and_runs_and_what_was_done() {
    let (engine, _, gate) = spawn_gated(depth(1).with_queue_capacity(64), several(1), 1);
    assert_eq!(engine.status(), Status::default());
    let mut generations = vec![engine.generate(request(&[1, 2, 9], 4)).unwrap()];
    gate.wait_until_reached();
    generations.extend((0..3).map(|i| engine.generate(request(&[1, 2, i], 4)).unwrap()));
    let status = engine.status();
    assert_eq!((status.queued, status.running, status.draining), (3, 1, false));
    // The first step has fed two tokens of the prompt.
    let LastStep { kind, lanes, .. } = status.counts.last_step.unwrap();
    assert_eq!((kind, lanes), (StepKind::Feed, 1));
    assert_eq!((status.counts.steps, status.counts.prompt_tokens, status.counts.tokens), (1, 2, 0));
    assert_eq!((status.counts.feeding_rows.count(), status.counts.feeding_rows.rows), (1, 2));
    assert_eq!(status.counts.sampling_rows.count(), 0);
    gate.open();
    generations.into_iter().for_each(|generation| assert_eq!(generation.complete().unwrap().0.len(), 4));
    let queued = engine.status().queued;
    engine.drain();
    assert!(matches!(engine.generate(request(&[1], 1)), Err(Error::Draining)));
    let status = engine.status();
    assert_eq!((queued, status.queued, status.draining), (0, 0, true));
    assert_eq!(status.counts.last_step.map(|step| step.kind.samples()), Some(true));
    let EngineCounts { steps, sampling_rows, feeding_rows, .. } = status.counts;
    assert_eq!(sampling_rows.count() + feeding_rows.count(), steps);
    assert_eq!(sampling_rows.rows, sampling_rows.count(), "one lane has one row where it samples");
}

/// An owner whose requests came first has all lanes while it is alone, and half of them as soon as another one waits.
#[test]
fn an_owner_has_half_of_the_lanes_while_another_waits() {
    let (engine, probe, gate) = spawn_gated(depth(2).with_queue_capacity(64), several(4), 0);
    let ask = |owner, first| engine.generate(request(&[first], 3).with_owner(owner)).unwrap();
    let mut generations: Vec<_> = (0..16).map(|i| ask(1, i)).collect();
    gate.wait_until_reached();
    generations.extend((100..104).map(|i| ask(2, i)));
    gate.open();
    generations.into_iter().for_each(|generation| assert_eq!(generation.complete().unwrap().0.len(), 3));
    let opened: Vec<u32> = probe
        .calls()
        .into_iter()
        .filter_map(|call| if let Call::Open { tokens, .. } = call { Some(tokens[0]) } else { None })
        .collect();
    assert_eq!(opened[..4], [0, 1, 2, 3]);
    let others: Vec<usize> = (0..opened.len()).filter(|place| opened[*place] >= 100).collect();
    // All requests are equally long, so that about every second one is of the other owner until it has no more.
    assert!(others.len() == 4 && others[0] <= 5 && others[3] <= 12, "{opened:?}");
}

#[test]
fn an_engine_that_drains_answers_what_it_has_and_ends() {
    let (engine, probe, gate) = spawn_gated(depth(2).with_queue_capacity(64), several(2), 0);
    let generations: Vec<_> = (0..6).map(|i| engine.generate(request(&[i, 7], 5)).unwrap()).collect();
    gate.wait_until_reached();
    engine.drain();
    assert!(matches!(engine.generate(request(&[1], 1)), Err(Error::Draining)));
    gate.open();
    engine.join();
    let ended = probe.calls().len();
    for (i, generation) in (0..).zip(generations) {
        let (tokens, completion) = generation.complete().unwrap();
        assert_eq!(completion.reason, FinishReason::Length);
        assert_eq!(ids(&tokens), continuation(&[i, 7], 5, &Sampling::GREEDY, VOCABULARY));
    }
    assert_eq!(probe.calls().len(), ended, "nothing runs behind the end");
    // Without anything to answer it ends at once.
    spawn(depth(2), several(2)).0.join();
}

/// How each of some requests has ended: its tokens, or the error.
fn ends(generations: Vec<Generation>) -> Vec<Result<Vec<u32>, String>> {
    let end = |generation: Generation| match generation.complete() {
        Ok((tokens, _)) => Ok(ids(&tokens)),
        Err(error) => Err(error.to_string()),
    };
    generations.into_iter().map(end).collect()
}

/// The device is lost at every step of a batch in turn: what ran fails with the reason, and what waited is answered by the model that is made in its place.
#[test]
fn a_lost_device_is_made_anew_at_every_step_of_a_batch() {
    const REQUESTS: u32 = 7;
    let prompt = |i: u32| -> Vec<u32> { (0..1 + 3 * i).map(|token| token + i).collect() };
    let mut losses = 0;
    for fault in (0..60).flat_map(|step| [Fault::Wait { step }, Fault::Submit { step }]) {
        let clock = ManualClock::new();
        let model = FakeModel::new(FakeOptions { faults: vec![fault], ..several(3) }, clock.clone());
        let (made, makes) = mpsc::channel();
        let rebuilt_clock = clock.clone();
        let rebuild = move |lost: FakeModel| {
            drop(lost);
            made.send(()).unwrap();
            Ok(FakeModel::new(several(3), rebuilt_clock.clone()))
        };
        let engine = Engine::new(model, clock, depth(4).with_queue_capacity(64)).unwrap();
        let engine = engine.into_lasting_thread(rebuild).unwrap();
        let generations: Vec<_> = (0..REQUESTS).map(|i| engine.generate(request(&prompt(i), 6)).unwrap()).collect();
        let ends = ends(generations);
        let failed: Vec<&String> = ends.iter().filter_map(|end| end.as_ref().err()).collect();
        assert!(failed.len() <= 3, "{fault:?}: {ends:?}");
        let reason = match fault {
            Fault::Wait { step } => format!("the device was lost in step {step}"),
            _ => "was not submitted".to_owned(),
        };
        assert!(failed.iter().all(|error| error.contains(&reason)), "{fault:?}: {failed:?}");
        for (i, end) in (0..).zip(&ends) {
            let expected = continuation(&prompt(i), 6, &Sampling::GREEDY, VOCABULARY);
            assert!(end.as_ref().is_err() || end.as_ref() == Ok(&expected), "{fault:?}: request {i}");
        }
        if failed.is_empty() {
            // The batch has fewer steps: the fault is still to come.
            continue;
        }
        let later = engine.generate(request(&[5, 6], 4)).unwrap().complete().unwrap();
        assert_eq!(ids(&later.0), continuation(&[5, 6], 4, &Sampling::GREEDY, VOCABULARY), "{fault:?}");
        assert_eq!(makes.try_iter().count(), 1, "{fault:?}");
        losses += 1;
    }
    assert!(losses > 40, "the device was lost {losses} times: a batch has fewer steps than it should");
}

/// Whoever reads of a failure finds that the model is made anew, and then that it is well again; or that it is given up.
#[test]
fn a_failure_is_told_together_with_what_becomes_of_the_model() {
    let clock = ManualClock::new();
    let faulty = || FakeOptions { faults: vec![Fault::Wait { step: 2 }], ..several(1) };
    let (go_on, is_let_on) = mpsc::channel();
    let rebuilt_clock = clock.clone();
    let mut faults_left = 1;
    let rebuild = move |lost| {
        drop(lost);
        is_let_on.recv().unwrap();
        faults_left -= 1;
        let options = if faults_left >= 0 {
            faulty()
        } else {
            FakeOptions { faults: vec![Fault::Wait { step: 0 }], ..several(1) }
        };
        Ok(FakeModel::new(options, rebuilt_clock.clone()))
    };
    let engine = Engine::new(FakeModel::new(faulty(), clock.clone()), clock, depth(1)).unwrap();
    let engine = engine.into_lasting_thread(rebuild).unwrap();
    let fail = || engine.generate(request(&[1], 9)).unwrap().complete().unwrap_err();
    for _ in 0..2 {
        assert_eq!(engine.status().condition, Condition::Well);
        fail();
        assert_eq!(engine.status().condition, Condition::Rebuilding);
        go_on.send(()).unwrap();
        // One that needs no step is answered as soon as the model is there.
        engine.generate(request(&[1], 0)).unwrap().complete().unwrap();
    }
    fail();
    assert_eq!(engine.status().condition, Condition::GivenUp, "a new model that does nothing is not made again");
    fail();
    assert_eq!(engine.status().failures, 3, "an engine that is given up has no model that could fail");
    let thread = Engine::spawn(FakeModel::new(faulty(), ManualClock::new()), ManualClock::new(), depth(1)).unwrap();
    thread.generate(request(&[1], 9)).unwrap().complete().unwrap_err();
    assert_eq!(thread.status().condition, Condition::GivenUp, "nothing says how to make another model");
}

/// A device may have room for one model only: nothing of the lost one is left when another is made.
#[test]
fn report_30_a_lost_model_is_gone_before_another_is_made() {
    let clock = ManualClock::new();
    let owned = Arc::new(());
    let left = Arc::downgrade(&owned);
    let faulty = FakeOptions { faults: vec![Fault::Wait { step: 2 }], ..several(2) };
    let model = FakeModel::new(faulty, clock.clone()).on_wait(move |_| assert_eq!(Arc::strong_count(&owned), 1));
    let rebuilt_clock = clock.clone();
    let rebuild = move |lost: FakeModel| {
        drop(lost);
        assert!(left.upgrade().is_none(), "the lost model is still there");
        Ok(FakeModel::new(several(2), rebuilt_clock.clone()))
    };
    let engine = Engine::new(model, clock, depth(2)).unwrap().into_lasting_thread(rebuild).unwrap();
    engine.generate(request(&[1], 9)).unwrap().complete().unwrap_err();
    let (tokens, _) = engine.generate(request(&[2], 3)).unwrap().complete().unwrap();
    assert_eq!(ids(&tokens), continuation(&[2], 3, &Sampling::GREEDY, VOCABULARY));
}

#[test]
fn a_model_that_fails_at_once_is_not_made_again() {
    let clock = ManualClock::new();
    let faulty = |clock: &ManualClock, step| {
        FakeModel::new(FakeOptions { faults: vec![Fault::Wait { step }], ..several(1) }, clock.clone())
    };
    let engine = Engine::new(faulty(&clock, 2), clock.clone(), depth(2)).unwrap();
    let (made, makes) = mpsc::channel();
    let rebuild = move |_| {
        made.send(()).unwrap();
        Ok(faulty(&clock, 0))
    };
    let engine = engine.into_lasting_thread(rebuild).unwrap();
    for _ in 0..4 {
        let error = engine.generate(request(&[1], 9)).unwrap().complete().unwrap_err();
        assert!(error.to_string().contains("lost in step"), "{error}");
    }
    assert_eq!(makes.try_iter().count(), 1);
}
