//! `cancel` against its reference: the state compares exactly.

use crate::support::Arena;
use crate::support::data::live;
use zinc_kernels::generated::lane::{FINISH_BUDGET, FINISH_CANCELLED, FINISH_NONE};
use zinc_kernels::ops::Cancel;
use zinc_kernels::reference;
use zinc_kernels::step::{Lane, MOST_ROWS, StepState};

#[test]
fn the_sequence_that_the_host_names_ends() {
    let lane = Lane { sequence: 7, position: 20, ..live() };
    let many: Vec<u32> = (0..MOST_ROWS).collect();
    let ended = StepState::new(Lane { finish: FINISH_BUDGET, ..lane }, &[]);
    let cases: [(&str, StepState, u32, (u32, u32)); 6] = [
        ("nobody is cancelled", lane.into(), 0, (1, FINISH_NONE)),
        ("the sequence", lane.into(), 7, (0, FINISH_CANCELLED)),
        ("one before it", lane.into(), 6, (1, FINISH_NONE)),
        ("a chunk", StepState::new(lane, &many), 7, (0, FINISH_CANCELLED)),
        ("a chunk of another sequence", StepState::new(lane, &many), 8, (MOST_ROWS, FINISH_NONE)),
        ("a sequence that has ended by itself", ended, 7, (0, FINISH_BUDGET)),
    ];
    for (name, state, cancelled, left) in cases {
        let mut arena = Arena::new();
        let state_on_device = arena.in_out(&[state]);
        let op = Cancel { state: state_on_device.address, cancelled: arena.input(&[cancelled]).address };
        arena.run(&[op.dispatch(&arena.gpu.target())]);
        let mut expected = state;
        reference::cancel(&mut expected, cancelled);
        assert!(arena.read(state_on_device) == [expected], "{name}");
        // The table says what is meant, so that a mistake which both sides share does not pass.
        assert_eq!((expected.row_count, expected.lane.finish), left, "{name}");
    }
}
