//! Sequences that share the pages of the cache: beginnings of prompts that pages hold are not computed again, whoever had them; when pages are short the youngest gives its
//! own back, and goes on later with the same tokens.

mod support;

use std::sync::Arc;

use support::{VOCABULARY, depth, ids, request};
use zinc_sched::fake::{Call, FakeModel, FakeOptions, Probe, continuation};
use zinc_sched::pages::PageCounts;
use zinc_sched::{
    Completion, Engine, EngineOptions, Error, Event, FinishReason, ManualClock, ModelLimits, Outlet, PagePool, Request,
    Sampling, SequenceId, Started, Token,
};

/// A model of so many lanes, and so many pages of four positions.
fn paged(lanes: u32, pages: u32) -> FakeOptions {
    let pages = Some(PagePool { pages, positions: 4 });
    FakeOptions { limits: ModelLimits { lanes, pages, ..FakeOptions::default().limits }, ..FakeOptions::default() }
}

fn engine(options: EngineOptions, fake: FakeOptions) -> (Engine<FakeModel>, Probe) {
    let clock = ManualClock::new();
    let model = FakeModel::new(fake, clock.clone());
    let probe = model.probe();
    (Engine::new(model, clock, options).unwrap(), probe)
}

#[derive(Default)]
struct Reader {
    tokens: Vec<Token>,
    done: Vec<u32>,
    cancelled: bool,
}

impl Outlet for Reader {
    fn prompt(&mut self, progress: zinc_sched::PromptProgress) {
        self.done.push(progress.done);
    }

    fn tokens(&mut self, tokens: &[Token]) -> usize {
        self.tokens.extend_from_slice(tokens);
        tokens.len()
    }

    fn cancelled(&self) -> bool {
        self.cancelled
    }
}

#[derive(Default)]
struct Readers(Vec<(SequenceId, Reader)>);

impl Readers {
    fn start(&mut self, engine: &mut Engine<FakeModel>, request: &Request) -> SequenceId {
        let reader = Reader::default();
        match engine.start(&Arc::new(request.clone()), &reader).unwrap() {
            Started::Running(id) => {
                self.0.push((id, reader));
                id
            }
            Started::Ended(completion) => panic!("{completion:?}"),
        }
    }

    fn of(&mut self, id: SequenceId) -> &mut Reader {
        &mut self.0.iter_mut().find(|(own, _)| *own == id).expect("it was started").1
    }

    /// Lets all that runs come to its end.
    fn finish(&mut self, engine: &mut Engine<FakeModel>) -> Vec<(SequenceId, Completion)> {
        let mut ended = Vec::new();
        while engine.running() > 0 {
            ended.extend(engine.turn(&mut self.0).unwrap().into_iter().map(|end| (end.sequence, end.result.unwrap())));
        }
        ended
    }
}

fn expected(prompt: &[u32], count: usize) -> Vec<u32> {
    continuation(prompt, count, &Sampling::GREEDY, VOCABULARY)
}

/// How many tokens were cached each time the model has opened a sequence.
fn cached(probe: &Probe) -> Vec<u32> {
    let opened = |call: &Call| if let Call::Open { cached, .. } = call { Some(*cached) } else { None };
    probe.calls().iter().filter_map(opened).collect()
}

#[test]
fn what_a_prompt_has_in_common_with_others_is_not_computed_again() {
    let (mut engine, probe) = engine(depth(2), paged(3, 20));
    let mut readers = Readers::default();
    let text: Vec<u32> = (0..14).collect();
    let first = readers.start(&mut engine, &request(&text, 3));
    readers.finish(&mut engine);
    assert_eq!(ids(&readers.of(first).tokens), expected(&text, 3));
    // The prompt and two of the tokens behind it fill four pages.
    assert_eq!(engine.pages(), Some(PageCounts { used: 0, free: 16, cached: 4 }));
    let answered = [&text[..], &expected(&text, 3)].concat();
    let turn = [&answered[..], &[77, 78]].concat();
    for (prompt, common) in [
        // The same prompt, and all but its last page.
        (&text[..], 12),
        // The next turn of the conversation.
        (&turn[..], 16),
        // One position at least is computed, although pages hold all of the prompt.
        (&text[..12], 8),
        (&text[..13], 12),
        (&text[..4], 0),
        (&[0, 1, 2, 3, 99, 5, 6, 7, 8], 4),
        (&[99, 1, 2, 3, 4, 5], 0),
    ] {
        let (mut two, before) = ([SequenceId::new(0); 2], cached(&probe).len());
        for id in &mut two {
            *id = readers.start(&mut engine, &request(prompt, 2));
        }
        assert_eq!(cached(&probe)[before..], [common; 2], "{prompt:?}: both have the same pages at the same time");
        for (id, completion) in readers.finish(&mut engine) {
            assert!(two.contains(&id));
            assert_eq!(completion.usage.cached_tokens, common);
            assert_eq!(ids(&readers.of(id).tokens), expected(prompt, 2), "{prompt:?}");
        }
    }
    assert_eq!(engine.counts().preemptions, 0);
}

/// Three sequences begin with a page each of six, and each comes to need five.
#[test]
fn report_28_the_youngest_gives_its_pages_back_and_goes_on_later() {
    for steps_ahead in [1, 2, 4] {
        let (mut engine, probe) = engine(depth(steps_ahead).with_reserve_tokens(1), paged(3, 6));
        let mut readers = Readers::default();
        let prompts = [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]];
        let names = prompts.map(|prompt| readers.start(&mut engine, &request(&prompt, 16)));
        let ended = readers.finish(&mut engine);
        let order: Vec<usize> =
            ended.iter().map(|(id, _)| names.iter().position(|name| name == id).expect("it was started")).collect();
        assert_eq!(order[0], 0, "the oldest never waits for its pages");
        for (id, completion) in ended {
            let place = names.iter().position(|name| *name == id).expect("it was started");
            assert_eq!((completion.reason, completion.usage.completion_tokens), (FinishReason::Length, 16));
            let reader = readers.of(id);
            assert_eq!(ids(&reader.tokens), expected(&prompts[place], 16), "depth {steps_ahead}, sequence {place}");
            support::assert_positions(&reader.tokens, &request(&prompts[place], 16));
            assert_eq!(reader.done, [1, 2, 3], "the prompt is reported once");
        }
        let preemptions = engine.counts().preemptions;
        assert!(preemptions > 0, "depth {steps_ahead}");
        // Each is opened again as often as it had to give its pages back.
        assert_eq!(cached(&probe).len() as u64, 3 + preemptions);
        assert_eq!(engine.pages().map(|pages| pages.used), Some(0));
    }
}

/// A sequence that waits for pages can be cancelled, and the others go on.
#[test]
fn a_sequence_without_pages_can_be_cancelled() {
    let (mut engine, _) = engine(depth(2).with_reserve_tokens(1), paged(2, 4));
    let mut readers = Readers::default();
    let prompts = [[1, 2, 3], [4, 5, 6]];
    let [old, young] = prompts.map(|prompt| readers.start(&mut engine, &request(&prompt, 12)));
    while engine.counts().preemptions == 0 {
        engine.turn(&mut readers.0).unwrap();
    }
    let used = engine.pages().map(|pages| pages.used);
    readers.of(young).cancelled = true;
    let before = readers.of(young).tokens.len();
    let ended = readers.finish(&mut engine);
    assert!(used.is_some_and(|used| used >= 2));
    let reasons: Vec<_> = ended.iter().map(|(id, completion)| (*id, completion.reason)).collect();
    assert_eq!(reasons, [(young, FinishReason::Cancelled), (old, FinishReason::Length)]);
    assert_eq!(ids(&readers.of(old).tokens), expected(&prompts[0], 12));
    assert_eq!(ids(&readers.of(young).tokens), expected(&prompts[1], before));
}

#[test]
fn report_29_what_can_never_fit_is_refused_at_once() {
    let (mut engine, _) = engine(depth(2), paged(2, 3));
    let prompt: Vec<u32> = (0..13).collect();
    match engine.start(&Arc::new(request(&prompt, 1)), &Reader::default()) {
        Err(error @ Error::PromptExceedsCache { prompt_tokens: 13, cache_tokens: 12 }) => {
            let text = error.to_string();
            assert!(text.contains("13 tokens") && text.contains("holds 12"), "{text}");
        }
        other => panic!("{other:?}"),
    }
    // Twelve positions: the last token has none of its own.
    let mut readers = Readers::default();
    let id = readers.start(&mut engine, &Request::new(&prompt[..9], []));
    let (_, completion) = readers.finish(&mut engine).remove(0);
    assert_eq!((completion.reason, completion.usage.completion_tokens), (FinishReason::ContextFull, 4));
    assert_eq!(ids(&readers.of(id).tokens), expected(&prompt[..9], 4));
}

#[test]
fn report_29_nobody_begins_without_pages_and_the_queue_goes_on() {
    let (mut engine, _) = engine(depth(2), paged(4, 5));
    let mut readers = Readers::default();
    let request_of = |number: u32| request(&[number, 1, 2, 3, 4, 5, 6], 4);
    readers.start(&mut engine, &request_of(0));
    assert!(engine.has_room() && !engine.admits(&request_of(1)), "three pages of five are taken");
    let refused = engine.start(&Arc::new(request_of(1)), &Reader::default());
    assert!(matches!(refused, Err(Error::NoFreePages { lacking: 1 })), "{refused:?}");
    assert!(engine.admits(&request(&[1, 2, 3], 2)), "one that needs less would begin");
    readers.finish(&mut engine);
    assert!(engine.admits(&request_of(1)));

    // On a thread they wait in the queue.
    let clock = ManualClock::new();
    let model = FakeModel::new(paged(4, 5), clock.clone());
    let handle = Engine::spawn(model, clock, depth(2).with_queue_capacity(64)).unwrap();
    let generations: Vec<_> = (0..20).map(|number| handle.generate(request_of(number)).unwrap()).collect();
    let too_long = handle.generate(request(&[1; 21], 1));
    assert!(matches!(too_long, Err(Error::PromptExceedsCache { prompt_tokens: 21, cache_tokens: 20 })));
    for (number, generation) in (0..).zip(generations) {
        let tokens = generation.filter_map(|event| if let Event::Token(token) = event { Some(token) } else { None });
        let prompt = [number, 1, 2, 3, 4, 5, 6];
        assert_eq!(ids(&tokens.collect::<Vec<_>>()), expected(&prompt, 4));
    }
    let status = handle.status();
    let pages = status.pages.expect("the cache has pages");
    assert_eq!((pages.used, pages.free + pages.cached, status.counts.preemptions), (0, 5, 0));
}

/// Three agents on two lanes, two of which have a turn at a time: each finds all full pages of what was said before, whichever lane it had then.
#[test]
fn report_18_more_agents_than_lanes_find_what_they_said_before() {
    let (mut engine, _) = engine(depth(2), paged(2, 40));
    let mut readers = Readers::default();
    let mut said: Vec<Vec<u32>> = (0..3).map(|agent| (0..13).map(|token| 100 * agent + token).collect()).collect();
    let mut known = [0; 3];
    for turn in 0..9 {
        let pair = [turn % 3, (turn + 1) % 3];
        let names = pair.map(|agent| readers.start(&mut engine, &request(&said[agent], 3)));
        for (id, completion) in readers.finish(&mut engine) {
            let agent = pair[usize::from(names[1] == id)];
            assert_eq!(completion.usage.cached_tokens, known[agent], "turn {turn}, agent {agent}");
            said[agent].extend(ids(&readers.of(id).tokens));
            // The keys and values of the last token are never computed.
            known[agent] = (said[agent].len() as u32 - 1) / 4 * 4;
            said[agent].extend([7, 8]);
        }
    }
    assert_eq!(engine.counts().preemptions, 0);
}

/// A main agent and the agents that it calls do not evict each other while there is room, and where there is none the end of a prompt goes before its beginning.
#[test]
fn report_19_several_prompts_stay_known_and_ends_go_first() {
    let (mut engine, _) = engine(depth(2), paged(2, 20));
    let mut readers = Readers::default();
    let mut cached = |prompt: &[u32]| {
        readers.start(&mut engine, &request(prompt, 1));
        readers.finish(&mut engine).remove(0).1.usage.cached_tokens
    };
    let main: Vec<u32> = (0..41).collect();
    let called = |agent: u32| -> Vec<u32> { (0..13).map(|token| 100 * agent + token).collect() };
    assert_eq!([cached(&main), cached(&called(1)), cached(&called(2))], [0; 3]);
    for _ in 0..3 {
        assert_eq!([cached(&main), cached(&called(1)), cached(&called(2))], [40, 12, 12]);
    }
    // Of 20 pages 16 are known and 4 are free. Two others need 4 each, of which one is free again behind the first: three pages that were left longest ago go.
    assert_eq!([cached(&called(3)), cached(&called(4))], [0; 2]);
    assert_eq!(cached(&main), 28, "the last three pages of the long prompt are gone");
}

/// What is known of prompts lies in the cache's pages, of which there are as many as at the start, whatever comes.
#[test]
fn report_20_what_is_kept_of_prompts_has_a_fixed_size() {
    let (mut engine, _) = engine(depth(2), paged(2, 9));
    let mut readers = Readers::default();
    let mut most_cached = 0;
    for number in 0..40 {
        let prompt: Vec<u32> = (0..4 + number % 11).map(|token| 7 * number + token).collect();
        readers.start(&mut engine, &request(&prompt, 2));
        readers.finish(&mut engine);
        let PageCounts { used, free, cached } = engine.pages().expect("the cache has pages");
        assert_eq!(used + free + cached, 9, "prompt {number}");
        most_cached = most_cached.max(cached);
    }
    assert!(most_cached > 5, "{most_cached} of 9 pages are known: the prompts are too short to fill the cache");
}
