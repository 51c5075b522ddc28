//! `propose` against its reference: the state compares exactly.

use crate::support::Arena;
use crate::support::data::live;
use zinc_kernels::generated::state::StepState;
use zinc_kernels::ops::Propose;
use zinc_kernels::reference;

#[test]
fn drafts_are_as_many_as_were_made_and_have_room() {
    let state = StepState { position: 20, ..live() };
    let cases = [
        ("none", state, 20, 7, 1),
        ("some", state, 23, 7, 4),
        ("as many as a step has room for", state, 27, 7, 8),
        ("more than asked for", state, 27, 3, 4),
        ("none asked for", state, 27, 0, 1),
        ("more than the budget", StepState { budget: 3, ..state }, 25, 7, 3),
        ("a budget of one", StepState { budget: 1, ..state }, 25, 7, 1),
        ("more than the context", StepState { context_length: 23, ..state }, 25, 7, 3),
        ("the context's last position", StepState { context_length: 21, ..state }, 25, 7, 1),
        ("within the prompt", StepState { prompt_length: 22, ..state }, 25, 7, 1),
        ("the last of the prompt", StepState { prompt_length: 21, ..state }, 25, 7, 6),
        ("a draft model that is behind", state, 18, 7, 1),
        ("drafts that were left over", StepState { live: 6, ..state }, 22, 7, 3),
        ("not live", StepState { live: 0, ..state }, 25, 7, 0),
    ];
    for (name, state, made_to, drafts, expected_live) in cases {
        let draft = StepState { live: 0, position: made_to, ..live() };
        let mut arena = Arena::new();
        let state_on_device = arena.in_out(&[state]);
        let op = Propose { state: state_on_device.address, draft: arena.state(draft), drafts };
        arena.run(&[op.dispatch(&arena.gpu.target())]);
        let mut expected = state;
        reference::propose(&mut expected, &draft, drafts);
        assert_eq!(arena.read(state_on_device), [expected], "{name}");
        // The table says what is meant, so that a mistake which both sides share does not pass.
        assert_eq!(expected.live, expected_live, "{name}");
    }
}
