//! Readers of generations: late ones, readers that go away, out of order, on other threads, and through another engine.

mod support;

use std::sync::mpsc;

use support::control::{Behaviour, Chooser};
use support::{DEPTHS, VOCABULARY, depth, drafting, ids, request, run};
use zinc_sched::fake::{Call, FakeError, FakeModel, FakeOptions, Probe, continuation};
use zinc_sched::{
    Engine, EngineHandle, EngineOptions, Error, Event, FinishReason, Generation, Guide, HostChoice, ManualClock,
    ModelCounters, ModelLimits, Request, Sampling, SequenceId, SequenceStart, SpeculationMode, Step, StepModel,
    StepOutput, Ticket,
};

fn spawn(options: EngineOptions, fake: FakeOptions) -> (EngineHandle, Probe) {
    let clock = ManualClock::new();
    let model = FakeModel::new(fake, clock.clone());
    let probe = model.probe();
    (Engine::spawn(model, clock, options).unwrap(), probe)
}

fn expected(prompt: &[u32], count: u32) -> Vec<u32> {
    continuation(prompt, count as usize, &Sampling::GREEDY, VOCABULARY)
}

/// Requests of every kind, with the tokens that they deliver.
fn kinds(prompt: &[u32], count: u32) -> Vec<(Request, Vec<u32>)> {
    [Chooser::Device, Chooser::Constraint, Chooser::Sampler]
        .map(|chooser| {
            let control = chooser.control(prompt, VOCABULARY, Behaviour::default());
            let tokens = chooser.continuation(prompt, count as usize, &Sampling::GREEDY, VOCABULARY);
            (request(prompt, count).with_control(control), tokens)
        })
        .into()
}

#[test]
fn a_reader_that_comes_late_misses_nothing() {
    let (engine, _) = spawn(depth(4).with_queue_capacity(64), FakeOptions::default());
    let requests: Vec<_> = (0..8).flat_map(|i| kinds(&[i, 1, 2], 30)).collect();
    let generations: Vec<_> = requests.iter().map(|(request, _)| engine.generate(request.clone()).unwrap()).collect();
    engine.generate(request(&[9], 1)).unwrap().complete().unwrap();
    // All generations have ended before any is read. They are read from the last to the first.
    for (generation, (_, expected)) in generations.into_iter().zip(&requests).rev() {
        let (tokens, completion) = generation.complete().unwrap();
        assert_eq!((ids(&tokens), completion.reason), (expected.clone(), FinishReason::Length));
    }
}

#[test]
fn report_42_a_reader_that_never_comes_holds_nobody_up() {
    let (engine, probe) = spawn(depth(4).with_queue_capacity(64), FakeOptions::default());
    let unread: Vec<Generation> =
        kinds(&[1, 2, 3], 50).into_iter().map(|(request, _)| engine.generate(request).unwrap()).collect();
    let (tokens, _) = engine.generate(request(&[4, 5], 20)).unwrap().complete().unwrap();
    assert_eq!(ids(&tokens), expected(&[4, 5], 20));
    drop(engine);
    assert_eq!(probe.cancels(), 0, "nobody was cancelled for not reading");
    drop(unread);
}

#[test]
fn readers_on_other_threads_take_turns_with_one_generation() {
    let (engine, _) = spawn(depth(4), FakeOptions::default());
    let mut generation = engine.generate(request(&[1, 2, 3], 40)).unwrap();
    let mut tokens = Vec::new();
    loop {
        let (event, back) = std::thread::spawn(move || (generation.next(), generation)).join().unwrap();
        generation = back;
        match event {
            Some(Event::Prompt(_)) => {}
            Some(Event::Token(token)) => tokens.push(token),
            Some(Event::Finished(_)) => break,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(ids(&tokens), expected(&[1, 2, 3], 40));
}

/// Every order of `n` things.
fn orders(n: usize) -> Vec<Vec<usize>> {
    if n == 0 {
        return vec![Vec::new()];
    }
    let longer = |order: Vec<usize>| {
        (0..n).map(move |at| {
            let mut order = order.clone();
            order.insert(at, n - 1);
            order
        })
    };
    orders(n - 1).into_iter().flat_map(longer).collect()
}

#[test]
fn generations_are_cancelled_in_any_order() {
    const QUEUED: usize = 4;
    for order in orders(QUEUED) {
        for cancelled in 0..=QUEUED {
            // The first generation stops in its third wait until the others are cancelled or dropped.
            let clock = ManualClock::new();
            let (reach, reached) = mpsc::channel();
            let (open, opened) = mpsc::channel::<()>();
            let model = FakeModel::new(FakeOptions::default(), clock.clone()).on_wait(move |step| {
                if step == 2 {
                    reach.send(()).unwrap();
                    opened.recv().unwrap();
                }
            });
            let probe = model.probe();
            let engine = Engine::spawn(model, clock, depth(4)).unwrap();
            let prompts: Vec<[u32; 2]> = (0..QUEUED as u32).map(|i| [1, i]).collect();
            let generations: Vec<_> =
                prompts.iter().map(|prompt| engine.generate(request(prompt, 6)).unwrap()).collect();
            reached.recv().unwrap();
            let handles: Vec<_> = generations.iter().map(Generation::cancel_handle).collect();
            for &index in &order[..cancelled] {
                handles[index].cancel();
            }
            open.send(()).unwrap();
            for (index, (generation, prompt)) in generations.into_iter().zip(&prompts).enumerate() {
                let (tokens, completion) = generation.complete().unwrap();
                let (count, reason) = match (order[..cancelled].contains(&index), index) {
                    (false, _) => (6, FinishReason::Length),
                    // Its prompt's first token was fed, then one was sampled.
                    (true, 0) => (1, FinishReason::Cancelled),
                    (true, _) => (0, FinishReason::Cancelled),
                };
                assert_eq!(completion.reason, reason, "{index} of {order:?}, {cancelled} cancelled");
                assert_eq!(ids(&tokens), expected(prompt, 6)[..count]);
            }
            drop(engine);
            let opened = probe.calls().iter().filter(|call| matches!(call, Call::Open { .. })).count();
            let never = order[..cancelled].iter().filter(|index| **index != 0).count();
            assert_eq!(opened, QUEUED - never, "what is cancelled in the queue is never opened");
        }
    }
}

#[test]
fn cancels_from_many_threads_leave_the_engine_whole() {
    let (engine, _) = spawn(depth(4).with_queue_capacity(1024), FakeOptions::default());
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let engine = &engine;
            scope.spawn(move || {
                for round in 0..250 {
                    let prompt = [thread, round % 3, round % 7];
                    let (request, expected) = kinds(&prompt, 50).swap_remove(round as usize % 3);
                    let mut generation = engine.generate(request).unwrap();
                    let cancel = generation.cancel_handle();
                    let mut tokens = Vec::new();
                    // Each is cancelled at another moment: from this thread, from another one, or by dropping it.
                    let reason = loop {
                        if tokens.len() as u32 == round % 11 {
                            match round % 3 {
                                0 => cancel.cancel(),
                                1 => std::thread::spawn({
                                    let cancel = cancel.clone();
                                    move || cancel.cancel()
                                })
                                .join()
                                .unwrap(),
                                _ => break None,
                            }
                        }
                        match generation.next() {
                            Some(Event::Prompt(_)) => {}
                            Some(Event::Token(token)) => tokens.push(token),
                            Some(Event::Finished(completion)) => break Some(completion.reason),
                            other => panic!("{other:?}"),
                        }
                    };
                    assert!(expected.starts_with(&ids(&tokens)), "round {round}");
                    if reason == Some(FinishReason::Length) {
                        assert_eq!(tokens.len(), 50);
                    }
                }
            });
        }
    });
    let (tokens, _) = engine.generate(request(&[1, 2], 9)).unwrap().complete().unwrap();
    assert_eq!(ids(&tokens), expected(&[1, 2], 9));
}

#[test]
fn what_runs_to_its_end_while_the_engine_is_dropped_is_whole_or_stopped() {
    for _ in 0..200 {
        let (engine, _) = spawn(depth(2), FakeOptions::default());
        let generation = engine.generate(request(&[1, 2], 12)).unwrap();
        drop(engine);
        let events: Vec<Event> = generation.collect();
        let tokens = events.iter().filter(|event| matches!(event, Event::Token(_))).count();
        match events.last() {
            Some(Event::Finished(completion)) => {
                assert_eq!((completion.reason, tokens), (FinishReason::Length, 12));
            }
            Some(Event::Failed(Error::Stopped)) => assert!(tokens < 12, "all tokens came, and none is missing"),
            other => panic!("{other:?}"),
        }
    }
}

/// Passes all calls on to a model that another engine will use afterwards.
struct Lent<'a>(&'a mut FakeModel);

impl StepModel for Lent<'_> {
    type Error = FakeError;

    fn limits(&self) -> ModelLimits {
        self.0.limits()
    }

    fn open(&mut self, start: &SequenceStart<'_>) -> Result<SequenceId, FakeError> {
        self.0.open(start)
    }

    fn close(&mut self, sequence: SequenceId) {
        self.0.close(sequence);
    }

    fn submit(&mut self, step: &Step<'_>) -> Result<Ticket, FakeError> {
        self.0.submit(step)
    }

    fn guide(&mut self, ticket: Ticket, sequence: SequenceId, guide: &Guide) -> Result<(), FakeError> {
        self.0.guide(ticket, sequence, guide)
    }

    fn logits(&mut self, ticket: Ticket, sequence: SequenceId) -> Result<&[f32], FakeError> {
        self.0.logits(ticket, sequence)
    }

    fn choose(&mut self, ticket: Ticket, sequence: SequenceId, choice: HostChoice) -> Result<(), FakeError> {
        self.0.choose(ticket, sequence, choice)
    }

    fn wait(&mut self, ticket: Ticket) -> Result<StepOutput, FakeError> {
        self.0.wait(ticket)
    }

    fn cancel(&mut self, sequence: SequenceId) {
        self.0.cancel(sequence);
    }

    fn counters(&self) -> ModelCounters {
        self.0.counters()
    }
}

#[test]
fn engines_of_other_depths_go_on_with_the_cache_of_the_one_before() {
    let clock = ManualClock::new();
    let mut model = FakeModel::new(drafting(3, 3, FakeOptions::default()), clock.clone());
    let mut kv = zinc_sched::KvCache::new();
    let mut prompt = vec![1, 2, 3];
    for (round, k) in DEPTHS.into_iter().chain(DEPTHS.into_iter().rev()).enumerate() {
        let speculation = if round % 2 == 0 { SpeculationMode::Always } else { SpeculationMode::Off };
        let options = depth(k).with_speculation(speculation);
        let mut engine = Engine::new(Lent(&mut model), clock.clone(), options).unwrap().with_cache(kv);
        let (request, expected) = kinds(&prompt, 4).swap_remove(round % 3);
        let mut tokens = Vec::new();
        let completion = engine.run(&request, &mut tokens).unwrap();
        assert_eq!(ids(&tokens), expected, "depth {k}");
        // The cache holds all tokens but the one that was sampled last and the one that was added.
        let cached = if round == 0 { 0 } else { prompt.len() - 2 };
        assert_eq!(completion.usage.cached_tokens as usize, cached, "depth {k}");
        kv = engine.kv().clone();
        prompt.extend(expected);
        prompt.push(7);
    }
    let (mut fresh, _) = support::engine(depth(4), FakeOptions::default());
    let (tokens, _) = run(&mut fresh, &request(&prompt, 4)).unwrap();
    assert_eq!(tokens, expected(&prompt, 4));
}
