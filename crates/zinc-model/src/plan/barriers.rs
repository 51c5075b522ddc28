//! Where barriers go: a pure function over the list of operations.

use std::collections::HashSet;

use super::Op;

/// For each op, whether a barrier must come before it. It must, if the op reads what another op has written since the last barrier, or writes
/// what another op has read or written since.
///
/// The first op needs none, because every recording ends with a barrier that separates it from what is submitted next.
#[must_use]
pub fn barriers_before(ops: &[Op]) -> Vec<bool> {
    let mut written = HashSet::new();
    let mut read = HashSet::new();
    let mut barriers = Vec::with_capacity(ops.len());
    for op in ops {
        let (reads, writes) = (op.reads(), op.writes());
        let conflict =
            reads.iter().any(|a| written.contains(a)) || writes.iter().any(|a| written.contains(a) || read.contains(a));
        if conflict {
            written.clear();
            read.clear();
        }
        written.extend(writes);
        read.extend(reads);
        barriers.push(conflict);
    }
    barriers
}

#[cfg(test)]
mod tests {
    use zinc_kernels::ops::ActFormat;

    use super::super::{Array, PlanKind, Product, Routing, Sampler};
    use super::*;
    use crate::weights::TensorId;

    const ID: TensorId = TensorId::new(0);
    const ACT: ActFormat = ActFormat::Q14;

    fn mat_vec(x: Array, outputs: &[Array], accumulate: bool) -> Op {
        let products = outputs.iter().map(|y| Product { weights: ID, bias: None, y: *y }).collect();
        Op::MatVec { products, x, norm: None, act: ACT, accumulate }
    }

    fn attention(layer: u32) -> Op {
        Op::Attention { layer, norms: None, sinks: None, act: ACT, next: ID }
    }

    fn gate_up() -> Op {
        Op::GateUp { layer: 0, gate: ID, up: ID, biases: None, routing: Routing::Experts, act: ACT, y: Array::Hidden }
    }

    #[test]
    fn each_op_of_a_layer_waits_for_the_one_before() {
        let ops = [
            mat_vec(Array::Residual, &[Array::Query, Array::Key, Array::Value], false),
            attention(0),
            mat_vec(Array::Attended, &[Array::Residual], true),
            Op::Router { norm: ID, matrix: ID, bias: None, act: ACT, ordered: false },
            gate_up(),
            Op::ExpertDown { layer: 0, down: ID, bias: None, h: Array::Hidden, act: ACT, shared: false },
        ];
        assert_eq!(barriers_before(&ops), [false, true, true, true, true, true]);
    }

    #[test]
    fn independent_products_share_a_barrier() {
        let ops = [
            Op::Gather { table: ID, behind: false, y: Array::Residual },
            mat_vec(Array::Residual, &[Array::Query], false),
            mat_vec(Array::Residual, &[Array::Key], false),
        ];
        assert_eq!(barriers_before(&ops), [false, true, false]);
    }

    #[test]
    fn overwriting_what_was_read_needs_a_barrier() {
        let ops = [
            mat_vec(Array::Residual, &[Array::Query], false),
            Op::Gather { table: ID, behind: false, y: Array::Residual }, // writes what the product reads
        ];
        assert_eq!(barriers_before(&ops), [false, true]);
    }

    #[test]
    fn accumulating_twice_needs_a_barrier() {
        let ops =
            [mat_vec(Array::Attended, &[Array::Residual], true), mat_vec(Array::Hidden, &[Array::Residual], true)];
        assert_eq!(barriers_before(&ops), [false, true]);
    }

    #[test]
    fn attention_of_another_layer_reuses_the_partials() {
        let ops = [attention(0), attention(1), Op::Advance { kind: PlanKind::Feed, sampler: Sampler::Plain }];
        // Advance rewrites the state that both read.
        assert_eq!(barriers_before(&ops), [false, true, true]);
    }

    #[test]
    fn launches_wait_for_their_numbers_of_workgroups() {
        let route = Op::Route { layer: 0, gate: ID, up: ID, down: ID };
        let products = [
            Op::GateUpMul { layer: 0, gate: ID, up: ID, biases: None, experts: true, y: Array::Hidden },
            Op::ExpertMul { layer: 0, down: ID, bias: None },
        ];
        for product in products {
            assert!(route.writes().contains(&Array::Grids) && product.reads().contains(&Array::Grids));
            // Neither may numbers be overwritten that a launch still has to read.
            assert_eq!(barriers_before(&[route.clone(), product, route.clone()]), [false, true, true]);
        }
    }

    /// Every pair of conflicting ops is separated, whatever the list.
    #[test]
    fn no_conflict_is_left_between_barriers() {
        let pool = [
            Op::Gather { table: ID, behind: false, y: Array::Residual },
            mat_vec(Array::Residual, &[Array::Query, Array::Key], false),
            mat_vec(Array::Residual, &[Array::Value], false),
            mat_vec(Array::Attended, &[Array::Residual], true),
            attention(0),
            attention(1),
            Op::Router { norm: ID, matrix: ID, bias: None, act: ACT, ordered: false },
            gate_up(),
            Op::ExpertDown { layer: 0, down: ID, bias: None, h: Array::Hidden, act: ACT, shared: false },
            Op::Sample,
            Op::Advance { kind: PlanKind::Decode, sampler: Sampler::Plain },
        ];
        let mut seed = 1u64;
        for _ in 0..2_000 {
            let ops: Vec<Op> = (0..12)
                .map(|_| {
                    seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    pool[(seed >> 33) as usize % pool.len()].clone()
                })
                .collect();
            let barriers = barriers_before(&ops);
            for (later, op) in ops.iter().enumerate() {
                let since = (0..=later).rev().find(|i| barriers[*i]).unwrap_or(0);
                for earlier in &ops[since..later] {
                    let hazard = op.reads().iter().any(|a| earlier.writes().contains(a))
                        || op.writes().iter().any(|a| earlier.writes().contains(a) || earlier.reads().contains(a));
                    assert!(!hazard, "{op:?} conflicts with {earlier:?}");
                }
            }
        }
    }
}
