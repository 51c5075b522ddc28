//! `check_halves_units`: what it writes passes its reference, and what other units would write does not.

use zinc_kernels::ops::{CHECK_HALVES_RESULTS, CheckHalves};
use zinc_kernels::reference;

use crate::support::data::live;
use crate::support::{Arena, many};

fn results(rounds: u32, workgroups: u32) -> Vec<f32> {
    let target = many::with_units();
    let units = target.half_units.expect("the target has units, or what stands in for them");
    let mut arena = Arena::new();
    let (state, y) = (arena.state(live()), arena.output::<f32>(CHECK_HALVES_RESULTS));
    arena.run(&[CheckHalves { state, y: y.address, rounds, workgroups }.dispatch(&target, units)]);
    arena.read(y)
}

#[test]
fn float_units_pass() {
    for (rounds, workgroups) in [(0, 1), (2, 2)] {
        let results = results(rounds, workgroups);
        assert!(reference::check_halves(&results, rounds), "{rounds} rounds: {results:?}");
    }
}

#[test]
fn a_bit_that_differs_is_found() {
    let results = results(1, 1);
    for index in [0, 255, 256, 511, 512 + 16, 767, 768, 1_023, 1_024, 1_279] {
        let mut other = results.clone();
        other[index] = f32::from_bits(other[index].to_bits() ^ 1);
        assert!(!reference::check_halves(&other, 1), "result {index} may be anything");
    }
}
