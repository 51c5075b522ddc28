//! The same launch gives the same bits every time: no result depends on how workgroups happen to be scheduled.

use crate::matrix;
use crate::support::launches::every_kernel;

/// Runs of each kernel: of the part of the matrix that every run of the tests goes through, and of the whole.
const RUNS: [usize; 2] = [100, 1_000];
/// Runs of one submission: as many results are in memory at a time.
const AT_A_TIME: usize = 100;

#[test]
fn every_run_gives_equal_bits() {
    for launch in every_kernel(1) {
        let mut first = None;
        for batch in 0..RUNS[usize::from(matrix::is_full())] / AT_A_TIME {
            let results = launch.arena.run_repeatedly(&launch.dispatch, AT_A_TIME);
            let results: Vec<_> = results.chunks_exact(results.len() / AT_A_TIME).collect();
            let first = first.get_or_insert_with(|| results[0].to_vec());
            for (index, result) in results.iter().enumerate() {
                assert!(result == first, "{}: run {} differs from run 0", launch.name, batch * AT_A_TIME + index);
            }
        }
    }
}
