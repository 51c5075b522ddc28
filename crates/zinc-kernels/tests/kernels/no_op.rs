//! A step that lists no rows changes nothing, whichever kernel runs: the steps queued behind a sequence's end rely on it.

use std::collections::BTreeSet;

use crate::support::launches::every_kernel;
use zinc_kernels::generated::KERNELS;
use zinc_kernels::generated::lane::STATUS_NO_OP;
use zinc_kernels::step::StepReport;

#[test]
fn every_kernel_is_covered() {
    let kernels: BTreeSet<_> = KERNELS.iter().map(|kernel| kernel.name).collect();
    let launched: BTreeSet<_> = every_kernel(0).iter().map(|launch| launch.name).collect();
    assert_eq!(launched, kernels);
}

#[test]
fn nothing_is_written() {
    for launch in every_kernel(0) {
        let before = launch.arena.outputs();
        launch.arena.run(std::slice::from_ref(&launch.dispatch));
        let after = launch.arena.outputs();
        if launch.name == "advance" {
            let [tokens, counts, state, report] = &after[..] else { panic!("advance has {} outputs", after.len()) };
            let same = (tokens, counts, state) == (&before[0], &before[1], &before[2]);
            assert!(same, "advance changed the sequence");
            let report: StepReport = bytemuck::pod_read_unaligned(report);
            assert_eq!((report.status, report.sequence), (STATUS_NO_OP, 7));
        } else {
            assert!(after == before, "{} wrote in a step that is not live", launch.name);
        }
    }
}

/// That nothing was written above is the table's doing: with a row in it, every launch writes all of its outputs.
#[test]
fn with_a_row_something_is() {
    for launch in every_kernel(1) {
        let before = launch.arena.outputs();
        launch.arena.run(std::slice::from_ref(&launch.dispatch));
        for (index, (before, after)) in before.iter().zip(launch.arena.outputs()).enumerate() {
            assert!(after != *before, "{}: output {index} was not written", launch.name);
        }
    }
}
