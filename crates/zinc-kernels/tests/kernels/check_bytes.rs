//! `check_bytes_units` against its reference.

use zinc_kernels::ops::{CHECK_BYTES_RESULTS, CheckBytes};
use zinc_kernels::reference;

use crate::support::data::live;
use crate::support::{Arena, compare, many};

#[test]
fn integer_units_give_what_the_host_computes() {
    let target = many::with_units();
    let units = target.units.expect("the target has units, or what stands in for them");
    for (rounds, workgroups) in [(0, 1), (3, 2)] {
        let mut arena = Arena::new();
        let (state, y) = (arena.state(live()), arena.output::<f32>(CHECK_BYTES_RESULTS));
        arena.run(&[CheckBytes { state, y: y.address, rounds, workgroups }.dispatch(&target, units)]);
        compare::equal_bits(&format!("{rounds} rounds"), &arena.read(y), &reference::check_bytes(units.depth, rounds));
    }
}
