//! Sequences with a recurrent state, which cannot be cut back: they begin with a checkpoint of an earlier one or at position 0, and get the tokens that they get alone.

mod support;

use std::sync::Arc;

use support::{BreakAfter, CancelAfter, VOCABULARY, depth, engine, ids, request};
use zinc_sched::fake::{Call, FakeError, FakeModel, FakeOptions, Fault, Probe, continuation};
use zinc_sched::{
    CheckpointLimits, Engine, EngineOptions, Error, FinishReason, LastToken, ManualClock, ModelCall, ModelLimits,
    PagePool, Sampling, SequenceId, SpeculationMode, Started, Token,
};

/// Positions of a page in these tests.
const PAGE: u32 = 4;

/// A model of so many lanes that keeps so many checkpoints, at a distance of four pages. Its cache has so many pages, or a part for each lane.
fn recurrent(lanes: u32, slots: u32, pages: Option<u32>) -> FakeOptions {
    with_states(lanes, CheckpointLimits { slots, page: PAGE, spacing: 4 * PAGE, inside_steps: false }, pages)
}

/// A model like [`recurrent`], whose states are those of windows, of which checkpoints may be taken inside steps.
fn windowed(lanes: u32, slots: u32, pages: Option<u32>) -> FakeOptions {
    with_states(lanes, CheckpointLimits { slots, page: PAGE, spacing: 4 * PAGE, inside_steps: true }, pages)
}

fn with_states(lanes: u32, checkpoints: CheckpointLimits, pages: Option<u32>) -> FakeOptions {
    let limits = ModelLimits {
        context_tokens: 4096,
        lanes,
        pages: pages.map(|pages| PagePool { pages, positions: PAGE }),
        checkpoints: Some(checkpoints),
        feed_rows: 8,
        last_token: LastToken::Fed,
        ..FakeOptions::default().limits
    };
    FakeOptions { limits, ranges: 3, ..FakeOptions::default() }
}

fn expected(prompt: &[u32], count: usize) -> Vec<u32> {
    continuation(prompt, count, &Sampling::GREEDY, VOCABULARY)
}

/// Runs a prompt alone and compares the answer. Returns how many tokens of it were not computed.
fn ask(engine: &mut Engine<FakeModel>, prompt: &[u32], max_tokens: u32) -> u32 {
    let (tokens, completion) = support::run(engine, &request(prompt, max_tokens)).unwrap();
    assert_eq!(tokens, expected(prompt, max_tokens as usize), "{} tokens", prompt.len());
    completion.usage.cached_tokens
}

/// How many copies of states were asked for.
fn copies(probe: &Probe) -> usize {
    probe.calls().iter().filter(|call| matches!(call, Call::Keep { .. })).count()
}

/// A conversation of growing history: each turn begins near the end of the prompt before or behind it, and memory does not grow.
#[test]
fn each_turn_of_a_conversation_begins_near_the_end_of_the_one_before() {
    for (lanes, pages) in [(1, None), (3, None), (1, Some(1024)), (3, Some(1024))] {
        for slots in [1, 3, 16] {
            let (mut engine, probe) = engine(depth(3), recurrent(lanes, slots, pages));
            let (mut said, mut least) = (vec![7; 30], 0);
            for turn in 0..100_u32 {
                let cached = ask(&mut engine, &said, 5);
                let turn_of = format!("turn {turn} of {} tokens, {lanes} lanes, {slots} slots", said.len());
                assert!(cached >= least && (cached as usize) < said.len(), "{cached} tokens cached: {turn_of}");
                least = (said.len() as u32 - 16) / PAGE * PAGE;
                said.extend(expected(&said, 5));
                said.extend((0..turn % 9).map(|token| token + turn));
            }
            assert_eq!(engine.counts().checkpoints_restored, 99);
            let used = probe
                .calls()
                .into_iter()
                .filter_map(|call| if let Call::Keep { slot } = call { Some(slot) } else { None });
            assert!(used.max().is_some_and(|slot| slot < slots), "a slot that there is not");
        }
    }
}

/// What a prompt has in common with an earlier one ends at a checkpoint, whichever lane it has.
#[test]
fn a_prompt_begins_at_the_last_checkpoint_of_what_it_has_in_common() {
    for pages in [None, Some(256)] {
        let (mut engine, probe) = engine(depth(2), recurrent(2, 8, pages));
        let text: Vec<u32> = (0..75).collect();
        assert_eq!(ask(&mut engine, &text, 2), 0);
        // At 16, 32, 48 and 64, and at 56, which is 16 tokens before the end at least.
        assert_eq!((copies(&probe), engine.counts().checkpoints_kept), (5, 5));
        for (common, own, cached) in
            [(75, 3, 64), (70, 3, 64), (63, 3, 56), (56, 3, 56), (55, 3, 48), (15, 9, 0), (64, 0, 56)]
        {
            let mut prompt = text[..common].to_vec();
            prompt.extend((0..own).map(|token| 900 + token));
            // Without pages, what comes behind would be overwritten: it is said again first.
            assert!(ask(&mut engine, &text, 1) >= 48 || pages.is_none());
            assert_eq!(ask(&mut engine, &prompt, 1), cached, "{common} tokens in common");
        }
    }
}

/// With no slots nothing is reused and nothing copied.
#[test]
fn without_slots_all_is_computed() {
    for pages in [None, Some(256)] {
        let (mut engine, probe) = engine(depth(2), recurrent(2, 0, pages));
        let text: Vec<u32> = (0..75).collect();
        assert_eq!([(); 3].map(|()| ask(&mut engine, &text, 2)), [0; 3]);
        assert_eq!(copies(&probe), 0);
    }
}

/// While a sequence samples, its state is kept at regular distances, but not behind drafts.
#[test]
fn states_are_kept_while_tokens_are_sampled() {
    for (max_drafts, kept) in [(0, 6), (5, 0)] {
        let fake = support::drafting(max_drafts, 2, recurrent(1, 16, Some(256)));
        let options = depth(3).with_speculation(SpeculationMode::Always);
        let (mut engine, _) = engine(options, fake);
        ask(&mut engine, &[1, 2, 3], 100);
        assert_eq!(engine.counts().checkpoints_kept, kept, "{max_drafts} drafts");
        let said = [&[1, 2, 3][..], &expected(&[1, 2, 3], 100), &[5; 3]].concat();
        assert_eq!(ask(&mut engine, &said, 2), if kept > 0 { 96 } else { 0 });
    }
}

/// A state is of no use if its sequence had ended when it was copied: by an end-of-generation id, a reader who is gone, or a cancellation.
#[test]
fn a_copy_behind_the_end_of_a_sequence_is_no_checkpoint() {
    for pages in [None, Some(256)] {
        for end in 1..24 {
            let prompt = [1, 2, 3];
            let answer = expected(&prompt, 40);
            let (mut engine, probe) = engine(depth(8), recurrent(1, 4, pages));
            let stops = zinc_sched::Request::new(prompt, [answer[end]]).with_max_tokens(40);
            let (tokens, _) = support::run(&mut engine, &stops).unwrap();
            assert_eq!(tokens, answer[..tokens.len()]);
            let mut reader = BreakAfter { tokens: Vec::new(), count: end };
            engine.run(&request(&[9, 2, 3], 40), &mut reader).unwrap();
            let mut reader = CancelAfter { tokens: Vec::new(), count: end };
            let cancelled = engine.run(&request(&[8, 2, 3], 40), &mut reader).unwrap();
            assert_eq!(cancelled.reason, FinishReason::Cancelled);
            let kept = engine.counts().checkpoints_kept;
            assert!(kept <= 3 * (3 + end as u64 + 1) / 16 && copies(&probe) as u64 >= kept, "{kept} of {end} tokens");
            for first in [1, 9, 8] {
                let said = [&[first, 2, 3][..], &expected(&[first, 2, 3], 40)].concat();
                ask(&mut engine, &said, 3);
            }
        }
    }
}

/// A sequence that gave its pages back goes on with the last checkpoint whose page is still known.
#[test]
fn a_sequence_that_was_interrupted_goes_on_with_a_checkpoint() {
    let mut restored = 0;
    for pages in 20..40 {
        for steps_ahead in [1, 3] {
            let options = depth(steps_ahead).with_reserve_tokens(1);
            let (mut engine, _) = engine(options, recurrent(3, 6, Some(pages)));
            let prompts = [10, 400, 800].map(|first| (first..first + 20).collect::<Vec<u32>>());
            let mut answers: Vec<(SequenceId, Vec<Token>)> = Vec::new();
            for prompt in &prompts {
                match engine.start(&Arc::new(request(prompt, 50)), &Vec::<Token>::new()) {
                    Ok(Started::Running(id)) => answers.push((id, Vec::new())),
                    other => panic!("{other:?}"),
                }
            }
            while engine.running() > 0 {
                engine.turn(&mut answers).unwrap();
            }
            for (prompt, (_, tokens)) in prompts.iter().zip(&answers) {
                assert_eq!(ids(tokens), expected(prompt, 50), "{pages} pages");
            }
            assert!(engine.counts().preemptions > 0, "{pages} pages");
            restored += engine.counts().checkpoints_restored;
        }
    }
    assert!(restored > 20, "{restored} times");
}

/// What a sequence has kept whose logits were not finite is not restored.
#[test]
fn the_states_of_a_broken_sequence_are_forgotten() {
    for pages in [None, Some(256)] {
        let fake = FakeOptions { faults: vec![Fault::NonFinite { step: 12 }], ..recurrent(1, 4, pages) };
        let (mut engine, _) = engine(depth(2), fake);
        let text: Vec<u32> = (0..75).collect();
        let error = support::run(&mut engine, &request(&text, 9)).unwrap_err();
        assert!(matches!(error, Error::NonFinite { .. }), "{error}");
        assert!(engine.counts().checkpoints_kept > 2);
        assert_eq!(ask(&mut engine, &text, 2), 0);
        assert_eq!(ask(&mut engine, &text, 2), 64);
    }
}

/// A sequence that fails may have begun with a broken checkpoint: it is forgotten at once, and its slot is free for others.
#[test]
fn the_checkpoint_that_a_broken_sequence_began_with_is_forgotten() {
    for pages in [None, Some(256)] {
        // A prompt of 32 tokens takes four steps, the last of which samples, and has one checkpoint, at 16; behind that it takes two: steps 8 and 9 here.
        let prompt = |first: u32| (first..first + 32).collect::<Vec<u32>>();
        let (kept, broken, other) = (prompt(0), prompt(100), prompt(200));
        let mut fake = FakeOptions { faults: vec![Fault::NonFinite { step: 9 }], ..recurrent(3, 2, pages) };
        fake.limits.checkpoints =
            Some(CheckpointLimits { slots: 2, page: PAGE, spacing: 64 * PAGE, inside_steps: false });
        let (mut engine, _) = engine(depth(1), fake);
        assert_eq!([&kept, &broken].map(|prompt| ask(&mut engine, prompt, 1)), [0, 0]);
        let error = support::run(&mut engine, &request(&broken, 1)).unwrap_err();
        assert!(matches!(error, Error::NonFinite { .. }), "{error}");
        let counts = engine.counts();
        assert_eq!((counts.checkpoints_kept, counts.checkpoints_restored), (2, 1));
        // Of the two slots one is free now, and the checkpoint in the other one, which was used longer ago, stays.
        assert_eq!(ask(&mut engine, &other, 1), 0);
        assert_eq!(ask(&mut engine, &kept, 1), 16, "pages {pages:?}");
        assert_eq!(ask(&mut engine, &broken, 1), 0, "pages {pages:?}");
    }
}

/// A checkpoint for which there is no memory takes the place of an earlier one, or is left out where no slot has memory. Requests are answered all the same.
#[test]
fn checkpoints_without_memory_are_left_out() {
    for pages in [None, Some(256)] {
        for have_memory in 0..4 {
            let text: Vec<u32> = (0..75).collect();
            // The first copy into a slot without memory is refused. No other such slot is asked for.
            let faults = vec![Fault::NoMemory { copy: have_memory }];
            let (mut engine, probe) = engine(depth(1), FakeOptions { faults, ..recurrent(2, 8, pages) });
            assert_eq!(ask(&mut engine, &text, 2), 0);
            let counts = engine.counts();
            assert_eq!(counts.checkpoints_without_memory, 1, "{have_memory} slots, pages {pages:?}");
            // Checkpoints are at 16, 32, 48, 56 and 64, of which the last ones are kept.
            let kept = if have_memory > 0 { 5 } else { 0 };
            assert_eq!((copies(&probe), counts.checkpoints_kept), (kept, kept as u64));
            let slots = probe.calls().into_iter().filter_map(|call| match call {
                Call::Keep { slot } => Some(u64::from(slot)),
                _ => None,
            });
            assert!(slots.max().is_none_or(|slot| slot < have_memory), "a slot beside {have_memory}");
            assert_eq!(ask(&mut engine, &text, 2), if have_memory > 0 { 64 } else { 0 });
            assert_eq!(engine.counts().checkpoints_without_memory, 1);
        }
    }
}

/// With a model all checkpoints are gone; those of the one in its place are its own. A copy that is not queued is a failure of the model.
#[test]
fn a_lost_device_has_no_checkpoints() {
    for fault in [Fault::Wait { step: 20 }, Fault::Submit { step: 20 }, Fault::Keep { copy: 4 }] {
        let clock = ManualClock::new();
        let model = FakeModel::new(FakeOptions { faults: vec![fault], ..recurrent(2, 4, Some(64)) }, clock.clone());
        let rebuilt_clock = clock.clone();
        let rebuild = move |lost: FakeModel| {
            drop(lost);
            Ok(FakeModel::new(recurrent(2, 4, Some(64)), rebuilt_clock.clone()))
        };
        let engine = Engine::new(model, clock, EngineOptions::default()).unwrap().into_lasting_thread(rebuild).unwrap();
        let text: Vec<u32> = (0..75).collect();
        let ask = || engine.generate(request(&text, 9)).unwrap().complete();
        let cached = [(); 5].map(|()| match ask() {
            Ok((tokens, completion)) => {
                assert_eq!(ids(&tokens), expected(&text, 9), "{fault:?}");
                Some(completion.usage.cached_tokens)
            }
            Err(error) => {
                let of_copy = matches!(error, Error::Model { call: ModelCall::Keep { .. }, .. });
                assert_eq!(of_copy, matches!(fault, Fault::Keep { .. }), "{error}");
                None
            }
        });
        let lost = cached.iter().position(Option::is_none).expect("the device is lost");
        assert!(lost > 0 && lost < 3, "{fault:?}: {cached:?}");
        assert_eq!(cached[lost + 1..lost + 3], [Some(0), Some(64)], "{fault:?}: {cached:?}");
    }
    let (mut engine, _) =
        engine(depth(2), FakeOptions { faults: vec![Fault::Keep { copy: 1 }], ..recurrent(1, 4, None) });
    let error = support::run(&mut engine, &request(&(0..75).collect::<Vec<u32>>(), 9)).unwrap_err();
    assert!(error.to_string().contains("keeping the state behind step"), "{error}");
    assert!(
        std::error::Error::source(&error)
            .is_some_and(|source| source.downcast_ref() == Some(&FakeError::NotKept { copy: 1 })
                || source.to_string().contains("copy 1 of a state"))
    );
}

/// Checkpoints of windows are those that recurrent states have, and no step is cut for them: a prompt is fed by as few steps as without.
#[test]
fn windows_have_the_same_checkpoints_without_cutting_steps() {
    for pages in [None, Some(256)] {
        let text: Vec<u32> = (0..79).collect();
        let fed = |fake: FakeOptions| {
            let (mut engine, probe) = engine(depth(2), fake);
            assert_eq!(ask(&mut engine, &text, 2), 0);
            let (copied, counts) = (copies(&probe), engine.counts());
            assert_eq!(copied as u64, counts.checkpoints_kept);
            let cached = [75, 70, 63, 56, 55, 15].map(|common| {
                let prompt = [&text[..common], &[900, 901, 902]].concat();
                assert!(ask(&mut engine, &text, 1) >= 48 || pages.is_none());
                ask(&mut engine, &prompt, 1)
            });
            (copied, cached, counts.steps)
        };
        let ((copied, cached, cut), windows) = (fed(recurrent(2, 8, pages)), fed(windowed(2, 8, pages)));
        assert_eq!((copied, cached), (windows.0, windows.1));
        // Steps of eight rows: ten feed 79 tokens, the last of which samples, and one more samples. A checkpoint at position 60 is one more end of a step.
        assert_eq!((windows.2, cut), (11, 12), "steps with windows, and with recurrent states");
    }
}

/// A conversation in lanes and pages goes on near the end of the prompt before, and at the checkpoints that were taken while an answer was sampled.
#[test]
fn conversations_of_windows_go_on_at_checkpoints() {
    for (lanes, pages) in [(1, None), (3, None), (3, Some(1024))] {
        let (mut engine, _) = engine(depth(3), windowed(lanes, 16, pages));
        let (mut said, mut least) = (vec![7; 30], 0);
        for turn in 0..40_u32 {
            let cached = ask(&mut engine, &said, 40);
            assert!(cached >= least, "turn {turn} of {} tokens: {cached} tokens cached, not {least}", said.len());
            said.extend(expected(&said, 40));
            least = (said.len() as u32 - 1) / (4 * PAGE) * (4 * PAGE);
            said.extend((0..turn % 9).map(|token| token + turn));
        }
    }
}
