//! Cuts a step of many rows into ranges of layers, each of which is submitted by itself: a pure function over the list of operations.

use std::collections::BTreeSet;

use super::{Array, MANY_ROWS, Op, StepPlan};

impl StepPlan {
    /// Cuts the step into ranges of whole layers, in order. A range has as many layers as take at most `most_seconds` by `seconds`, and one at least.
    /// What comes before the first layer is part of the first range, what comes behind the last one of the last. Every range but the first begins
    /// with [`Op::Cancel`]. A step of fewer than [`MANY_ROWS`] rows takes little longer than a token, and is not cut.
    #[must_use]
    pub fn into_ranges(self, most_seconds: f64, seconds: impl Fn(&Op) -> f64) -> Vec<Self> {
        let Self { mut ops, kind, shape } = self;
        let starts = if shape.rows() < MANY_ROWS { Vec::new() } else { layer_starts(&ops) };
        let (mut cuts, mut sum) = (Vec::new(), 0.0);
        for (layer, &start) in starts.iter().enumerate() {
            let end = starts.get(layer + 1).copied().unwrap_or(ops.len());
            let own: f64 = ops[start..end].iter().map(&seconds).sum();
            if layer > 0 && sum + own > most_seconds {
                cuts.push(start);
                sum = 0.0;
            }
            sum += own;
        }
        let mut ranges = Vec::with_capacity(cuts.len() + 1);
        for cut in cuts.into_iter().rev() {
            let mut range = vec![Op::Cancel];
            range.extend(ops.drain(cut..));
            ranges.push(Self { ops: range, kind, shape });
        }
        ranges.push(Self { ops, kind, shape });
        ranges.reverse();
        ranges
    }

    /// The arrays that the ops read before one of them has written them: what they need of what ran before. Of a range of layers these are the state, the
    /// residual stream, tokens, the cache, recurrent states, and counters, which are 0 between any two dispatches. So another step may run before the range, if its
    /// state, its residual stream and its parts of tokens, cache and recurrent states are not those of this one.
    #[must_use]
    pub fn carried(&self) -> BTreeSet<Array> {
        let (mut carried, mut written) = (BTreeSet::new(), BTreeSet::new());
        for op in &self.ops {
            carried.extend(op.reads().into_iter().filter(|array| !written.contains(array)));
            written.extend(op.writes());
        }
        carried
    }
}

/// Where each layer begins: behind the last op before its mixer that has written the residual stream.
fn layer_starts(ops: &[Op]) -> Vec<usize> {
    let mut starts = Vec::new();
    let mut residual = 0;
    for (index, op) in ops.iter().enumerate() {
        if matches!(op, Op::Append { .. } | Op::Attention { .. } | Op::DeltaConv { .. }) {
            starts.push(residual);
        }
        if op.writes().contains(&Array::Residual) {
            residual = index + 1;
        }
    }
    starts
}

#[cfg(test)]
mod tests {
    use zinc_kernels::ops::ActFormat;
    use zinc_kernels::step::StepShape;

    use super::super::{PlanKind, PlanOptions, Product};
    use super::*;
    use crate::weights::TensorId;

    const ID: TensorId = TensorId::new(0);

    fn products(x: Array, y: Array, accumulate: bool) -> Op {
        Op::MatMul { products: vec![Product { weights: ID, bias: None, y }], x, accumulate, group_values: Some(0) }
    }

    /// The plan of a dense model.
    fn plan(layers: u32, rows: u32) -> StepPlan {
        let options = PlanOptions::new(PlanKind::Feed, ActFormat::Q14).with_shape(StepShape::of(rows));
        let mut ops = vec![Op::Gather { table: ID, behind: false, y: Array::Residual }];
        for layer in 0..layers {
            ops.extend([
                products(Array::Normed, Array::Query, false),
                Op::Append { layer, norms: None, queries: true },
                Op::AttentionRows { layer, sinks: None },
                products(Array::RoundedAttended, Array::Residual, true),
                Op::GateUpMul { layer, gate: ID, up: ID, biases: None, experts: false, y: Array::Hidden },
                products(Array::RoundedHidden, Array::Residual, true),
            ]);
        }
        ops.append(&mut StepPlan::tail(&options).ops);
        StepPlan { ops, kind: options.kind, shape: options.shape }
    }

    /// The layers of each range whose attention takes so many seconds by its layer, and everything else nothing.
    fn cut(plan: &StepPlan, most_seconds: f64, seconds: impl Fn(u32) -> f64) -> Vec<Vec<u32>> {
        let ranges = plan.clone().into_ranges(most_seconds, |op| match op {
            Op::AttentionRows { layer, .. } => seconds(*layer),
            _ => 0.0,
        });
        let mut whole = Vec::new();
        for (index, range) in ranges.iter().enumerate() {
            assert_eq!((range.kind, range.shape), (plan.kind, plan.shape));
            let cancels = usize::from(index > 0);
            assert!(range.ops.iter().position(|op| *op == Op::Cancel) == (cancels > 0).then_some(0), "range {index}");
            // A range begins with the products of its first layer, or with the step.
            let first = if index > 0 {
                products(Array::Normed, Array::Query, false)
            } else {
                Op::Gather { table: ID, behind: false, y: Array::Residual }
            };
            assert_eq!(range.ops[cancels], first, "range {index}");
            whole.extend_from_slice(&range.ops[cancels..]);
        }
        assert_eq!(whole, plan.ops, "the ranges are the step");
        let layers = |range: &StepPlan| {
            let layer = |op: &Op| if let Op::AttentionRows { layer, .. } = op { Some(*layer) } else { None };
            range.ops.iter().filter_map(layer).collect()
        };
        ranges.iter().map(layers).collect()
    }

    #[test]
    fn ranges_are_as_long_as_they_may_be() {
        let plan = plan(5, MANY_ROWS);
        assert_eq!(cut(&plan, 1.0, |_| 0.1), [vec![0, 1, 2, 3, 4]]);
        assert_eq!(cut(&plan, 1.0, |_| 0.5), [vec![0, 1], vec![2, 3], vec![4]]);
        assert_eq!(cut(&plan, 1.0, |_| 0.51), [[0], [1], [2], [3], [4]]);
        assert_eq!(cut(&plan, 1.0, |layer| if layer == 2 { 7.0 } else { 0.25 }), [vec![0, 1], vec![2], vec![3, 4]]);
    }

    #[test]
    fn a_range_has_a_layer_at_least() {
        assert_eq!(cut(&plan(3, 2 * MANY_ROWS), 0.0, |_| 1.0), [[0], [1], [2]]);
        assert_eq!(cut(&plan(1, MANY_ROWS), 0.0, |_| 1.0), [[0]]);
    }

    #[test]
    fn steps_of_few_rows_are_not_cut() {
        assert_eq!(cut(&plan(3, MANY_ROWS / 2), 0.0, |_| 1.0), [[0, 1, 2]]);
    }
}
