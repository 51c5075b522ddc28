//! `last_row` against its reference: the state and the residual stream compare exactly.

use crate::support::Arena;
use crate::support::data::live;
use zinc_kernels::generated::lane::FINISH_BUDGET;
use zinc_kernels::ops::LastRow;
use zinc_kernels::reference;
use zinc_kernels::step::{Lane, MOST_ROWS, Rows, StepShape, StepState};

#[test]
fn the_last_row_becomes_the_only_one() {
    let lane = Lane { token: 100, position: 20, prompt_length: 9_000, context_length: 9_000, ..live() };
    for (width, counts) in [(32_usize, &[0, 1, 2, 3, 16, 17, 33, MOST_ROWS][..]), (4_096 + 32, &[2, 64])] {
        for &count in counts {
            let rows = (count as usize).max(1);
            // A row has other arrays behind its residual stream.
            let apart = width + 36;
            let x: Vec<f32> = (0..rows * apart).map(|i| i as f32).collect();
            let tokens: Vec<u32> = (0..count).map(|row| 100 + 7 * row).collect();
            let finish = if count == 0 { FINISH_BUDGET } else { lane.finish };
            let state = StepState::new(Lane { finish, ..lane }, &tokens);

            let mut arena = Arena::new();
            let (state_on_device, x_on_device) = (arena.in_out(&[state]), arena.in_out(&x));
            let op = LastRow {
                state: state_on_device.address,
                x: Rows { address: x_on_device.address, stride: 4 * apart as u32 },
                width: width as u32,
                shape: StepShape::of(count.max(1)),
            };
            arena.run(&[op.dispatch(&arena.gpu.target())]);

            let (mut expected, mut expected_x) = (state, x);
            if let Some(last) = reference::last_row(&mut expected) {
                expected_x.copy_within(last * apart..last * apart + width, 0);
            }
            let what = format!("{count} rows of {width}");
            let found = arena.read(state_on_device)[0];
            assert_eq!((found.row_count, found.lane), (expected.row_count, expected.lane), "{what}");
            assert!(found.rows[..1] == expected.rows[..1], "{what}: {:?}", found.rows[0]);
            assert!(found.rows[1..] == state.rows[1..], "{what}: rows behind the first have changed");
            assert!(arena.read(x_on_device) == expected_x, "{what}: the residual stream");
            // What is meant is said once more without the reference.
            if let Some(last) = count.checked_sub(1) {
                let row = found.rows[0];
                assert_eq!((found.row_count, row.offset, row.token, row.position), (1, 0, 100 + 7 * last, 20 + last));
                assert_eq!((found.lane.token, found.lane.position), (row.token, row.position), "{what}");
            }
        }
    }
}
