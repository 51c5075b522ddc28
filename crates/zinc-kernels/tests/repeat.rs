//! The same launch gives the same bits every time: no result depends on how workgroups happen to be scheduled.

#![cfg(feature = "vk")]

mod support;

use support::launches::every_kernel;

const RUNS: usize = 100;

#[test]
fn every_run_gives_equal_bits() {
    for launch in every_kernel(1) {
        let mut first = None;
        for run in 0..RUNS {
            launch.arena.reset();
            launch.arena.run(std::slice::from_ref(&launch.dispatch));
            let outputs = launch.arena.outputs();
            let first = first.get_or_insert_with(|| outputs.clone());
            assert!(outputs == *first, "{}: run {run} differs from run 0", launch.name);
        }
    }
}
