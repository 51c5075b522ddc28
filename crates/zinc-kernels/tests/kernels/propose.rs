//! `propose` against its reference: the state compares exactly.

use crate::support::Arena;
use crate::support::data::live;
use zinc_kernels::ops::Propose;
use zinc_kernels::reference;
use zinc_kernels::step::{Lane, StepState};

#[test]
fn drafts_are_as_many_as_were_made_and_have_room() {
    let lane = Lane { position: 20, sequence: 7, ..live() };
    let cases: [(&str, StepState, u32, u32, u32); 16] = [
        ("none", lane.into(), 20, 7, 1),
        ("some", lane.into(), 23, 7, 4),
        ("as many as a step has room for", lane.into(), 35, 15, 16),
        ("as many as asked for", lane.into(), 27, 7, 8),
        ("more than asked for", lane.into(), 27, 3, 4),
        ("none asked for", lane.into(), 27, 0, 1),
        ("more than the budget", Lane { budget: 3, ..lane }.into(), 25, 7, 3),
        ("a budget of one", Lane { budget: 1, ..lane }.into(), 25, 7, 1),
        ("more than the context", Lane { context_length: 23, ..lane }.into(), 25, 7, 3),
        ("the context's last position", Lane { context_length: 21, ..lane }.into(), 25, 7, 1),
        ("within the prompt", Lane { prompt_length: 22, ..lane }.into(), 25, 7, 1),
        ("the last of the prompt", Lane { prompt_length: 21, ..lane }.into(), 25, 7, 6),
        ("a draft model that is behind", lane.into(), 18, 7, 1),
        ("drafts that were left over", StepState::new(lane, &[0, 9, 9, 9, 9, 9]), 22, 7, 3),
        ("ended", StepState::new(lane, &[]), 25, 7, 0),
        ("of another sequence", Lane { sequence: 8, ..lane }.into(), 25, 7, 1),
    ];
    for ((name, state, made_to, drafts, expected_rows), behind) in cases.into_iter().zip([0, 1, 3].into_iter().cycle())
    {
        let draft = Lane { position: made_to - behind, sequence: 7, ..live() };
        let tokens: Vec<u32> = (0..40).map(|position| 500 + position).collect();
        let mut arena = Arena::new();
        let tokens_on_device = arena.input(&tokens).address;
        let state = StepState { lane: Lane { tokens: tokens_on_device, ..state.lane }, ..state };
        let state_on_device = arena.in_out(&[state]);
        let op = Propose { state: state_on_device.address, draft: arena.state(draft), behind, drafts };
        arena.run(&[op.dispatch(&arena.gpu.target())]);
        let mut expected = state;
        reference::propose(&mut expected, &draft, behind, &tokens, drafts);
        assert_eq!(arena.read(state_on_device), [expected], "{name}");
        // The table says what is meant, so that a mistake which both sides share does not pass.
        assert_eq!(expected.row_count, expected_rows, "{name}");
    }
}
