//! The sampling stage of a plan: the ops behind the logits, which choose the next token.

use super::{Op, StepPlan};

/// What chooses the token of a step from its logits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Sampler {
    /// One op, greedily or by temperature alone.
    #[default]
    Plain,
    /// The whole sampler chain.
    Chain {
        /// Whether DRY is part of the chain; its op reads the tokens of the sequence.
        dry: bool,
    },
    /// The host, which writes a candidate for the device to take.
    Host,
}

/// How a step chooses its token, and what it reports of the choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SamplingStage {
    /// What chooses the token.
    pub sampler: Sampler,
    /// Whether log-probabilities are reported.
    pub logprobs: bool,
}

impl StepPlan {
    /// The plan of the same step with another sampling stage, in place of [`Sampler::Plain`]. A plan of [`PlanKind::Feed`](super::PlanKind::Feed) has no sampling
    /// stage and is returned as it is.
    #[must_use]
    pub fn with_sampling(mut self, sampling: SamplingStage) -> Self {
        let Some(sample) = self.ops.iter().position(|op| *op == Op::Sample) else {
            return self;
        };
        let (mut ops, dry) = match sampling.sampler {
            Sampler::Plain => (vec![Op::Sample], false),
            Sampler::Chain { dry } => (vec![Op::Adjust, Op::Choose], dry),
            Sampler::Host => (Vec::new(), false),
        };
        if sampling.logprobs {
            // Each stands beside an op of the sampler that does not depend on it, so that the two share a barrier.
            ops.insert(ops.len().min(1), Op::LogprobShares);
            ops.push(Op::Logprobs);
        }
        self.ops.splice(sample..=sample, ops);
        if dry {
            // It reads nothing but tokens, so it can run at the same time as the head.
            self.ops.insert(sample - 1, Op::Dry);
        }
        for op in &mut self.ops {
            if let Op::Advance { sampler, .. } = op {
                *sampler = sampling.sampler;
            }
        }
        self
    }

    /// Cuts the plan into the forward pass, up to the logits, and the sampling stage behind them.
    #[must_use]
    pub fn split(self) -> (Self, Self) {
        let Self { mut ops, kind, batch } = self;
        let first = ops.iter().position(|op| !op.is_forward()).unwrap_or(ops.len());
        let rest = ops.split_off(first);
        (Self { ops, kind, batch }, Self { ops: rest, kind, batch })
    }
}

impl Op {
    /// Whether the op belongs to the forward pass: it does not depend on the logits.
    fn is_forward(&self) -> bool {
        !matches!(
            self,
            Self::Adjust | Self::Choose | Self::Sample | Self::Advance { .. } | Self::LogprobShares | Self::Logprobs
        )
    }
}

#[cfg(test)]
mod tests {
    use zinc_kernels::ops::ActFormat;

    use super::super::{Array, PlanKind, Product, barriers_before};
    use super::*;
    use crate::weights::TensorId;

    fn plan() -> StepPlan {
        let head = Op::MatVec {
            products: vec![Product { weights: TensorId::new(0), bias: None, y: Array::Logits }],
            x: Array::Residual,
            norm: None,
            act: ActFormat::Q14,
            accumulate: false,
        };
        let advance = Op::Advance { kind: PlanKind::Decode, sampler: Sampler::Plain };
        StepPlan {
            ops: vec![Op::Gather { table: TensorId::new(0) }, head, Op::Sample, advance],
            kind: PlanKind::Decode,
            batch: 1,
        }
    }

    fn names(plan: &StepPlan) -> Vec<&'static str> {
        plan.ops.iter().map(Op::name).collect()
    }

    #[test]
    fn the_chain_stands_behind_the_head_and_dry_beside_it() {
        let sampling = SamplingStage { sampler: Sampler::Chain { dry: true }, logprobs: true };
        let plan = plan().with_sampling(sampling);
        let expected = ["gather", "dry", "mat_vec", "adjust", "logprob_shares", "choose", "logprobs", "advance"];
        assert_eq!(names(&plan), expected);
        let barriers = barriers_before(&plan.ops);
        assert_eq!(
            barriers,
            [false, false, true, true, false, true, false, true],
            "what is beside another shares its barrier"
        );
        let (forward, sampling) = plan.split();
        assert_eq!(names(&forward), expected[..3]);
        assert_eq!(names(&sampling), expected[3..]);
    }

    #[test]
    fn the_host_leaves_the_device_nothing_to_choose() {
        let plan = plan().with_sampling(SamplingStage { sampler: Sampler::Host, logprobs: false });
        assert_eq!(names(&plan), ["gather", "mat_vec", "advance"]);
        assert_eq!(names(&plan.split().1), ["advance"]);
    }

    #[test]
    fn a_feed_stays_as_it_is() {
        let advance = Op::Advance { kind: PlanKind::Feed, sampler: Sampler::Plain };
        let feed = StepPlan { ops: vec![advance], kind: PlanKind::Feed, batch: 1 };
        let sampling = SamplingStage { sampler: Sampler::Chain { dry: true }, logprobs: true };
        assert_eq!(feed.clone().with_sampling(sampling).ops, feed.ops);
    }
}
