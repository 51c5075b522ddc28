//! The simulated model keeps to its contract, and notices callers that do not.

use super::*;
use crate::model::{CheckpointLimits, StepLane};
use crate::sampling::Sampling;

fn model() -> FakeModel {
    FakeModel::new(FakeOptions::default(), ManualClock::new())
}

fn decode(model: &mut FakeModel, sequence: SequenceId) -> Result<Ticket, FakeError> {
    model.submit(&Step { lanes: &[StepLane::decode(sequence)], grown: &[] })
}

/// A lane of a step that feeds so many tokens.
fn fed_by(sequence: SequenceId, rows: u32) -> StepLane {
    StepLane { sequence, kind: StepKind::Feed, rows }
}

static GREEDY: Sampling = Sampling::GREEDY;

fn start(tokens: &[u32], cached: u32, budget: u32) -> SequenceStart<'_> {
    SequenceStart::new(tokens, cached, budget, &GREEDY)
}

#[test]
fn steps_behind_the_end_do_nothing() {
    let mut model = model();
    let sequence =
        model.open(&SequenceStart { eog: &[next_token(&[5], &Sampling::GREEDY, 1000)], ..start(&[5], 0, 3) }).unwrap();
    let tickets = [(); 3].map(|()| decode(&mut model, sequence).unwrap());
    let outputs = tickets.map(|ticket| model.wait(ticket).unwrap().lanes.remove(0));
    assert_eq!(outputs.each_ref().map(|o| o.status), [StepStatus::Emitted, StepStatus::NoOp, StepStatus::NoOp]);
    assert_eq!(outputs[0].finish, Some(DeviceFinish::EndOfGeneration));
    assert_eq!(model.cache.of(0, &[]).get(1), None);
}

#[test]
fn a_cancel_takes_effect_at_the_next_step_boundary() {
    let mut model = model();
    let sequence = model.open(&start(&[5], 0, 3)).unwrap();
    let tickets = [(); 3].map(|()| decode(&mut model, sequence).unwrap());
    // The first step has begun by now, the others have not.
    model.cancel(sequence);
    let outputs = tickets.map(|ticket| model.wait(ticket).unwrap().lanes.remove(0));
    assert_eq!(outputs.each_ref().map(|o| o.status), [StepStatus::Emitted, StepStatus::NoOp, StepStatus::NoOp]);
}

#[test]
#[should_panic(expected = "open in lane 0, where a sequence is open")]
fn one_sequence_is_open_in_a_lane() {
    let mut model = model();
    model.open(&start(&[5], 0, 1)).unwrap();
    let _ = model.open(&start(&[5], 0, 1));
}

#[test]
#[should_panic(expected = "close with 1 steps in flight")]
fn steps_are_waited_for_before_their_sequence_is_closed() {
    let mut model = model();
    let sequence = model.open(&start(&[5], 0, 1)).unwrap();
    decode(&mut model, sequence).unwrap();
    model.close(sequence);
}

#[test]
#[should_panic(expected = "submit for sequence 0, which is not open")]
fn a_closed_sequence_has_no_further_steps() {
    let mut model = model();
    let first = model.open(&start(&[5], 0, 1)).unwrap();
    model.close(first);
    let second = model.open(&start(&[5], 0, 1)).unwrap();
    model.cancel(first);
    let ticket = decode(&mut model, second).unwrap();
    assert_eq!(model.wait(ticket).unwrap().lanes[0].status, StepStatus::Emitted, "a cancel of the first is late");
    let _ = decode(&mut model, first);
}

#[test]
#[should_panic(expected = "wait for step 1 before step 0")]
fn waits_are_oldest_first() {
    let mut model = model();
    let sequence = model.open(&start(&[5], 0, 2)).unwrap();
    decode(&mut model, sequence).unwrap();
    let second = decode(&mut model, sequence).unwrap();
    let _ = model.wait(second);
}

#[test]
#[should_panic(expected = "position 0 holds None, not 5")]
fn a_cache_that_is_not_there_is_noticed() {
    let _ = model().open(&start(&[5, 6], 1, 1));
}

#[test]
#[should_panic(expected = "beyond the budget")]
fn the_budget_bounds_the_steps() {
    let mut model = model();
    let sequence = model.open(&start(&[5], 0, 1)).unwrap();
    decode(&mut model, sequence).unwrap();
    let _ = decode(&mut model, sequence);
}

#[test]
#[should_panic(expected = "Decode submitted with 1 prompt tokens to feed")]
fn the_prompt_is_fed_first() {
    let mut model = model();
    let sequence = model.open(&start(&[5, 6], 0, 1)).unwrap();
    let _ = decode(&mut model, sequence);
}

#[test]
#[should_panic(expected = "all 8 ring slots in flight")]
fn the_ring_bounds_the_window() {
    let mut model = model();
    let sequence = model.open(&start(&[5], 0, 9)).unwrap();
    for _ in 0..9 {
        decode(&mut model, sequence).unwrap();
    }
}

/// A model of two lanes whose steps that feed have three ranges, with a sequence that is to be fed, and one that generates.
fn fed_and_generating() -> (FakeModel, SequenceId, SequenceId) {
    let limits = ModelLimits { lanes: 2, feed_rows: 4, ..FakeOptions::default().limits };
    let mut model = FakeModel::new(FakeOptions { limits, ranges: 3, ..FakeOptions::default() }, ManualClock::new());
    let fed = model.open(&start(&[1, 2, 3, 4, 5], 0, 3)).unwrap();
    let generating = model.open(&SequenceStart { lane: 1, ..start(&[5], 0, 3) }).unwrap();
    (model, fed, generating)
}

#[test]
fn steps_that_sample_run_between_ranges() {
    let (mut model, fed, generating) = fed_and_generating();
    let step = Step { lanes: &[fed_by(fed, 4)], grown: &[] };
    assert_eq!(model.ranges(4, 0).len(), 3);
    assert_eq!(model.submit_range(&step, 0).unwrap(), None);
    let first = decode(&mut model, generating).unwrap();
    assert_eq!(model.submit_range(&step, 1).unwrap(), None);
    let last = model.submit_range(&step, 2).unwrap().expect("the last range");
    let times = [first, last].map(|ticket| model.wait(ticket).unwrap().timing.gpu.unwrap());
    let ms = |gpu: GpuSpan| (gpu.begin_ns / 1_000_000, gpu.end_ns / 1_000_000);
    assert_eq!(times.map(ms), [(1, 2), (3, 4)], "a range, the step, and two ranges");
}

#[test]
fn a_cancel_between_ranges_ends_the_step_and_leaves_no_keys_and_values() {
    let (mut model, fed, generating) = fed_and_generating();
    let step = Step { lanes: &[fed_by(fed, 4)], grown: &[] };
    model.submit_range(&step, 0).unwrap();
    let between = decode(&mut model, generating).unwrap();
    model.wait(between).unwrap();
    model.cancel(fed);
    model.submit_range(&step, 1).unwrap();
    let last = model.submit_range(&step, 2).unwrap().expect("the last range");
    assert_eq!(model.wait(last).unwrap().lanes[0].status, StepStatus::NoOp);
    assert_eq!([0, 1, 2, 3, 4].map(|position| model.cache.of(0, &[]).get(position)), [None; 5]);
}

#[test]
#[should_panic(expected = "between the ranges of one of its sequence")]
fn a_sequence_does_not_sample_between_its_ranges() {
    let (mut model, fed, _) = fed_and_generating();
    model.submit_range(&Step { lanes: &[fed_by(fed, 4)], grown: &[] }, 0).unwrap();
    let _ = decode(&mut model, fed);
}

#[test]
#[should_panic(expected = "submitted while a step of")]
fn one_step_is_begun_at_a_time() {
    let limits = ModelLimits { lanes: 2, feed_rows: 4, ..FakeOptions::default().limits };
    let mut model = FakeModel::new(FakeOptions { limits, ranges: 3, ..FakeOptions::default() }, ManualClock::new());
    let first = model.open(&start(&[1, 2, 3], 0, 3)).unwrap();
    let second = model.open(&SequenceStart { lane: 1, ..start(&[1, 2, 3], 0, 3) }).unwrap();
    model.submit_range(&Step { lanes: &[fed_by(first, 2)], grown: &[] }, 0).unwrap();
    let _ = model.submit_range(&Step { lanes: &[fed_by(second, 2)], grown: &[] }, 0);
}

/// A model of three lanes with steps of 8 rows in three ranges, and a prompt of 5 tokens in each.
fn three_prompts() -> (FakeModel, [SequenceId; 3]) {
    let limits = ModelLimits { lanes: 3, feed_rows: 8, last_token: LastToken::Fed, ..FakeOptions::default().limits };
    let mut model = FakeModel::new(FakeOptions { limits, ranges: 3, ..FakeOptions::default() }, ManualClock::new());
    let sequences = [0, 1, 2].map(|lane| {
        let prompt = [1, 2, 3, 4, 5 + lane];
        model.open(&SequenceStart { lane, last_token: LastToken::Fed, ..start(&prompt, 0, 3) }).unwrap()
    });
    (model, sequences)
}

#[test]
fn a_step_feeds_several_prompts_and_samples_behind_those_that_end() {
    let (mut model, [first, second, _]) = three_prompts();
    let lanes = [StepLane { sequence: second, kind: StepKind::FeedDecode, rows: 5 }, fed_by(first, 3)];
    let step = Step { lanes: &lanes, grown: &[] };
    assert_eq!((step.kind(), step.rows()), (StepKind::FeedDecode, 8));
    let ticket = model.submit(&step).unwrap();
    let [sampled, fed] = &model.wait(ticket).unwrap().lanes[..] else { panic!("two lanes report") };
    let expected = continuation(&[1, 2, 3, 4, 6], 1, &Sampling::GREEDY, 1000);
    assert_eq!((sampled.tokens.as_slice(), sampled.fed, sampled.status), (&expected[..], 4, StepStatus::Emitted));
    assert_eq!((fed.tokens.as_slice(), fed.fed, fed.status), (&[][..], 3, StepStatus::Fed));
}

#[test]
fn a_cancel_between_ranges_ends_its_lane_alone() {
    let (mut model, [first, second, _]) = three_prompts();
    let step = Step { lanes: &[fed_by(first, 4), fed_by(second, 4)], grown: &[] };
    model.submit_range(&step, 0).unwrap();
    model.clock.advance(Duration::from_millis(1));
    model.cancel(first);
    model.submit_range(&step, 1).unwrap();
    let last = model.submit_range(&step, 2).unwrap().expect("the last range");
    let status: Vec<StepStatus> = model.wait(last).unwrap().lanes.iter().map(|lane| lane.status).collect();
    assert_eq!(status, [StepStatus::NoOp, StepStatus::Fed]);
    assert_eq!(model.cache.of(0, &[]).get(0), None);
    assert_eq!([0, 1, 2, 3, 4].map(|at| model.cache.of(1, &[]).get(at)), [Some(1), Some(2), Some(3), Some(4), None]);
}

#[test]
#[should_panic(expected = "Feed of 9 rows submitted: at most 8 are supported")]
fn the_rows_of_all_lanes_are_bounded() {
    let (mut model, sequences) = three_prompts();
    let _ = model.submit(&Step { lanes: &sequences.map(|sequence| fed_by(sequence, 3)), grown: &[] });
}

#[test]
#[should_panic(expected = "submitted as one step")]
fn a_step_feeds_all_of_its_lanes_or_none() {
    let (mut model, [first, second, _]) = three_prompts();
    let lanes = [fed_by(first, 4), StepLane::decode(second)];
    let _ = model.submit(&Step { lanes: &lanes, grown: &[] });
}

/// A model of one lane with a recurrent state and two slots, for pages of two positions.
fn recurrent() -> FakeModel {
    let checkpoints = Some(CheckpointLimits { slots: 2, page: 2, spacing: 4, inside_steps: false });
    let limits = ModelLimits { checkpoints, feed_rows: 8, ..FakeOptions::default().limits };
    FakeModel::new(FakeOptions { limits, ..FakeOptions::default() }, ManualClock::new())
}

/// Feeds a prompt of four tokens by two steps, and keeps the state behind the first in slot 1.
fn kept() -> FakeModel {
    let mut model = recurrent();
    let sequence = model.open(&start(&[1, 2, 3, 4, 5], 0, 2)).unwrap();
    let first = model.submit(&Step { lanes: &[fed_by(sequence, 2)], grown: &[] }).unwrap();
    model.keep(sequence, 1, 2).unwrap();
    let second = model.submit(&Step { lanes: &[fed_by(sequence, 2)], grown: &[] }).unwrap();
    for ticket in [first, second] {
        model.wait(ticket).unwrap();
    }
    model.close(sequence);
    model
}

#[test]
fn a_state_is_kept_as_it_is_behind_the_step_before() {
    let mut model = kept();
    let prompt = [1, 2, 9];
    let sequence = model.open(&SequenceStart { restored: Some(1), ..start(&prompt, 2, 1) }).unwrap();
    let ticket = decode(&mut model, sequence).unwrap();
    let token = model.wait(ticket).unwrap().lanes[0].tokens;
    assert_eq!(token.as_slice(), continuation(&prompt, 1, &GREEDY, 1000));
}

#[test]
fn a_state_of_other_tokens_makes_another_token() {
    let mut model = kept();
    // The cache is told that it holds what the state has not taken in.
    (0..2).for_each(|position| model.cache.of(0, &[]).set(position, Some(7)));
    let prompt = [7, 7, 9];
    let sequence = model.open(&SequenceStart { restored: Some(1), ..start(&prompt, 2, 1) }).unwrap();
    let ticket = decode(&mut model, sequence).unwrap();
    let token = model.wait(ticket).unwrap().lanes[0].tokens;
    assert_ne!(token.as_slice(), continuation(&prompt, 1, &GREEDY, 1000));
}

#[test]
#[should_panic(expected = "open at position 4 without a checkpoint")]
fn a_state_is_not_reused_without_a_checkpoint() {
    let _ = kept().open(&start(&[1, 2, 3, 4, 5], 4, 1));
}

#[test]
#[should_panic(expected = "slot 0 restored, which is empty")]
fn a_slot_that_holds_nothing_is_not_restored() {
    let _ = kept().open(&SequenceStart { restored: Some(0), ..start(&[1, 2, 3], 2, 1) });
}

#[test]
#[should_panic(expected = "restored without a recurrent state")]
fn a_model_without_states_restores_none() {
    let _ = model().open(&SequenceStart { restored: Some(0), ..start(&[1], 0, 1) });
}
