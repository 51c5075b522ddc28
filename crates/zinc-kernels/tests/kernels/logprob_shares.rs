//! `logprob_shares` against its reference: summaries, lists and masses bit for bit.

use crate::support::Arena;
use crate::support::chain::read_lists;
use crate::support::data::{Random, live};
use zinc_kernels::Target;
use zinc_kernels::ops::{LogprobBuffers, LogprobShares, items_bytes, masses_bytes, shares_bytes};
use zinc_kernels::reference;
use zinc_kernels::step::StepShape;

#[track_caller]
fn check(name: &str, logits: &[f32], target: &Target) {
    let vocabulary = logits.len() as u32;
    let mut arena = Arena::new();
    let items = arena.output::<u32>(items_bytes(vocabulary) as usize / 4);
    let shares = arena.output::<u32>(shares_bytes(vocabulary) as usize / 4);
    let masses = arena.output::<u64>(masses_bytes(vocabulary) as usize / 8);
    let op = LogprobShares {
        state: arena.state(live()),
        logits: arena.input(logits).row(),
        buffers: LogprobBuffers { items: items.row(), shares: shares.row(), masses: masses.row() },
        vocabulary,
        shape: StepShape::ONE,
    };
    arena.run(&[op.dispatch(target)]);
    let (mut lists, expected) = reference::logprob_shares(logits);
    // The kernel writes no scores, so the output still holds the pattern that it was filled with.
    let unwritten = f32::from_bits(0x7fa5_7fa5);
    lists.iter_mut().flat_map(|list| &mut list.items).for_each(|item| item.score = unwritten);
    let found = read_lists(&arena.read(items), bytemuck::cast_slice(&arena.read(shares)));
    assert_eq!(format!("{found:?}"), format!("{lists:?}"), "{name}: lists");
    assert_eq!(arena.read(masses), expected, "{name}: masses");
}

#[test]
fn shares_of_any_vocabulary() {
    let largest = Arena::new().gpu.target();
    for max_workgroup in [256, largest.max_workgroup] {
        let target = Target { max_workgroup, ..largest };
        for vocabulary in [1, 3, 31, 2_047, 2_048, 2_049, 9_001] {
            let name = format!("{vocabulary} ids, {max_workgroup} threads");
            let mut random = Random::new(&name);
            for spread in [0.01, 5.0, 50.0] {
                check(&format!("{name}, spread {spread}"), &random.vector(vocabulary, spread), &target);
            }
            check(&format!("{name}, ties"), &random.whole(vocabulary, 2), &target);
            let mut logits = random.vector(vocabulary, 3.0);
            logits[0] = f32::NEG_INFINITY;
            logits[vocabulary / 2] = f32::NAN;
            logits[vocabulary - 1] = f32::INFINITY;
            check(&format!("{name}, not finite"), &logits, &target);
        }
    }
}
