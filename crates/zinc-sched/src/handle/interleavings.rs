//! Tests of the handle, its generations and the engine's thread under loom, which runs the same code in every order of
//! its threads with up to as many preemptions as the test allows. The code is the real one; only the types of
//! [`sync`](crate::sync) (channels, threads, flags) are loom's in these tests. Loom also finds deadlocks, and tries
//! every value that the memory orderings of the flags allow a thread to read.

use std::sync::atomic::{AtomicU64, Ordering};

use super::{EngineHandle, Event, Generation};
use crate::clock::ManualClock;
use crate::depth::InflightDepth;
use crate::engine::{Engine, EngineOptions};
use crate::error::Error;
use crate::fake::{FakeModel, FakeOptions, continuation};
use crate::request::{FinishReason, Request};
use crate::sampling::Sampling;

/// How many tokens each request generates.
const TOKENS: u32 = 2;

/// Runs `body` in every order of its threads that loom finds with at most `preemptions` preemptions.
fn in_every_order(preemptions: usize, body: impl Fn() + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    let orders = std::sync::Arc::new(AtomicU64::new(0));
    let counted = std::sync::Arc::clone(&orders);
    model.check(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        body();
    });
    let orders = orders.load(Ordering::Relaxed);
    assert!(orders > 100, "loom tried only {orders} orders");
}

fn spawn(queue_capacity: usize) -> EngineHandle {
    let clock = ManualClock::new();
    let model = FakeModel::new(FakeOptions::default(), clock.clone());
    let depth = InflightDepth::new(2).unwrap();
    Engine::spawn(model, clock, EngineOptions { depth, queue_capacity, ..EngineOptions::default() }).unwrap()
}

fn request(prompt: u32) -> Request {
    Request { max_tokens: Some(TOKENS), ..Request::new([prompt], []) }
}

fn tokens(prompt: u32) -> Vec<u32> {
    continuation(&[prompt], TOKENS as usize, &Sampling::GREEDY, FakeOptions::default().limits.vocabulary_tokens)
}

/// Reads a generation to its end, and checks that the delivered tokens are the first of those that the fake model
/// generates after `prompt`. Returns their number and the end.
fn read(generation: Generation, prompt: u32) -> (usize, Result<FinishReason, Error>) {
    let mut delivered = Vec::new();
    let mut end = None;
    for event in generation {
        assert!(end.is_none(), "nothing follows the end");
        match event {
            Event::Prompt(_) => {}
            Event::Token(token) => delivered.push(token.id),
            Event::Finished(completion) => {
                assert_eq!(completion.usage.completion_tokens as usize, delivered.len());
                end = Some(Ok(completion.reason));
            }
            Event::Failed(error) => end = Some(Err(error)),
        }
    }
    assert!(tokens(prompt).starts_with(&delivered), "{delivered:?} after {prompt}");
    (delivered.len(), end.expect("every generation ends"))
}

#[test]
fn requests_of_two_threads_are_answered_or_refused() {
    in_every_order(2, || {
        let engine = loom::sync::Arc::new(spawn(1));
        let ask = |prompt: u32| {
            let engine = loom::sync::Arc::clone(&engine);
            move || match engine.generate(request(prompt)) {
                Ok(generation) => assert!(matches!(read(generation, prompt), (2, Ok(FinishReason::Length)))),
                Err(error) => assert!(matches!(error, Error::QueueFull { capacity: 1, .. }), "{error:?}"),
            }
        };
        let other = loom::thread::spawn(ask(1));
        ask(2)();
        other.join().unwrap();
    });
}

#[test]
fn a_cancel_from_elsewhere_ends_a_generation_once() {
    in_every_order(3, || {
        let engine = spawn(1);
        let generation = engine.generate(request(1)).unwrap();
        let cancel = generation.cancel_handle();
        let canceller = loom::thread::spawn(move || cancel.cancel());
        match read(generation, 1) {
            (2, Ok(FinishReason::Length)) => {}
            (count, Ok(FinishReason::Cancelled)) => assert!(count < 2, "what is complete was not cancelled"),
            other => panic!("{other:?}"),
        }
        canceller.join().unwrap();
    });
}

#[test]
fn a_generation_that_goes_away_leaves_the_engine_to_the_next() {
    in_every_order(3, || {
        let engine = spawn(2);
        drop(engine.generate(request(1)).unwrap());
        let next = engine.generate(request(2)).unwrap();
        assert!(matches!(read(next, 2), (2, Ok(FinishReason::Length))));
    });
}

#[test]
fn what_an_engine_that_is_dropped_owes_is_whole_or_stopped() {
    in_every_order(2, || {
        let engine = spawn(2);
        let generations = [1, 2].map(|prompt| engine.generate(request(prompt)).unwrap());
        drop(engine);
        for (generation, prompt) in generations.into_iter().zip([1, 2]) {
            match read(generation, prompt) {
                (2, Ok(FinishReason::Length)) => {}
                (count, Err(Error::Stopped)) => assert!(count < 2, "all tokens came, and none is missing"),
                other => panic!("{other:?}"),
            }
        }
    });
}

#[test]
fn a_generation_is_read_while_its_engine_is_dropped() {
    in_every_order(3, || {
        let engine = spawn(1);
        let generation = engine.generate(request(1)).unwrap();
        let reader = loom::thread::spawn(move || match read(generation, 1) {
            (2, Ok(FinishReason::Length)) => {}
            (count, Err(Error::Stopped)) => assert!(count < 2, "all tokens came, and none is missing"),
            other => panic!("{other:?}"),
        });
        drop(engine);
        reader.join().unwrap();
    });
}

#[test]
fn a_request_beside_a_drain_is_answered_or_refused() {
    in_every_order(2, || {
        let engine = loom::sync::Arc::new(spawn(2));
        let asking = loom::sync::Arc::clone(&engine);
        let asker = loom::thread::spawn(move || match asking.generate(request(1)) {
            Ok(generation) => assert!(matches!(read(generation, 1), (2, Ok(FinishReason::Length)))),
            Err(error) => assert!(matches!(error, Error::Draining), "{error:?}"),
        });
        engine.drain();
        asker.join().unwrap();
        assert!(matches!(engine.generate(request(2)), Err(Error::Draining)));
    });
}

#[test]
fn a_cancel_by_name_ends_a_generation_once() {
    in_every_order(2, || {
        let engine = loom::sync::Arc::new(spawn(1));
        let generation = engine.generate(request(1)).unwrap();
        let (cancelling, id) = (loom::sync::Arc::clone(&engine), generation.id());
        let canceller = loom::thread::spawn(move || cancelling.cancel(id));
        match read(generation, 1) {
            (2, Ok(FinishReason::Length)) => {}
            (count, Ok(FinishReason::Cancelled)) => assert!(count < 2, "what is complete was not cancelled"),
            other => panic!("{other:?}"),
        }
        canceller.join().unwrap();
    });
}
