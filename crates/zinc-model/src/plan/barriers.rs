//! Where barriers go: a pure function over the list of operations.

use std::collections::HashSet;

use super::Op;

/// For each op, whether a barrier must come before it: it reads what an op since the last barrier wrote, or writes what one read or wrote.
///
/// The first op has none: recordings end with a barrier that separates them from what is submitted next.
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
    use super::super::{Array, Epilogue, Shape};
    use super::*;
    use crate::weights::TensorId;

    fn mat_vec(x: Array, y: Array, epilogue: Epilogue) -> Op {
        Op::MatVec { weights: TensorId::new(0), x, y, epilogue }
    }

    #[test]
    fn independent_products_share_a_barrier() {
        let ops = [
            Op::Norm { weight: TensorId::new(0) },
            mat_vec(Array::Normed, Array::Query, Epilogue::Store),
            mat_vec(Array::Normed, Array::Key, Epilogue::Store),
            mat_vec(Array::Normed, Array::Value, Epilogue::Store),
            Op::RopeKv { layer: 0, norms: None },
        ];
        assert_eq!(barriers_before(&ops), [false, true, false, false, true]);
    }

    #[test]
    fn overwriting_what_was_read_needs_a_barrier() {
        let ops = [
            mat_vec(Array::Normed, Array::Query, Epilogue::Store),
            Op::Norm { weight: TensorId::new(0) }, // writes what the product reads
        ];
        assert_eq!(barriers_before(&ops), [false, true]);
    }

    #[test]
    fn accumulating_twice_needs_a_barrier() {
        let ops = [
            mat_vec(Array::Attended, Array::Residual, Epilogue::Accumulate),
            mat_vec(Array::Hidden, Array::Residual, Epilogue::Accumulate),
        ];
        assert_eq!(barriers_before(&ops), [false, true]);
    }

    #[test]
    fn caches_of_different_layers_are_independent() {
        let ops =
            [Op::Attention { layer: 0 }, Op::RopeKv { layer: 1, norms: None }, Op::Advance { shape: Shape::Feed }];
        // RopeKv rewrites the queries that attention reads; advance rewrites the state that both read.
        assert_eq!(barriers_before(&ops), [false, true, true]);
    }

    /// Every pair of conflicting ops is separated, whatever the list.
    #[test]
    fn no_conflict_is_left_between_barriers() {
        let pool = [
            Op::Gather { table: TensorId::new(0) },
            Op::Norm { weight: TensorId::new(0) },
            mat_vec(Array::Normed, Array::Query, Epilogue::Store),
            mat_vec(Array::Attended, Array::Residual, Epilogue::Accumulate),
            Op::RopeKv { layer: 0, norms: None },
            Op::Attention { layer: 0 },
            Op::AttentionMerge,
            Op::Router,
            Op::ExpertDown { down: TensorId::new(0) },
            Op::Sample,
            Op::Advance { shape: Shape::Decode },
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
