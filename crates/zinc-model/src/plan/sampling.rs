//! The tail of a plan: the ops behind the logits, which choose the next tokens and end the step.

use super::{Op, PlanKind, PlanOptions, StepPlan};

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

impl SamplingStage {
    /// [`Sampler::Plain`], without log-probabilities.
    pub const PLAIN: Self = Self { sampler: Sampler::Plain, logprobs: false };

    /// The ops between the logits and the end of the step.
    fn ops(self) -> Vec<Op> {
        let mut ops = match self.sampler {
            Sampler::Plain => vec![Op::Sample],
            Sampler::Chain { .. } => vec![Op::Adjust, Op::Choose],
            Sampler::Host => Vec::new(),
        };
        if self.logprobs {
            // Each stands beside an op of the sampler that does not depend on it, so that the two share a barrier.
            ops.insert(ops.len().min(1), Op::LogprobShares);
            ops.push(Op::Logprobs);
        }
        ops
    }
}

impl StepPlan {
    /// The operations behind the forward pass: those that choose tokens, in a step of [`PlanKind::Decode`], and the end of the step.
    #[must_use]
    pub fn tail(options: &PlanOptions) -> Self {
        let &PlanOptions { kind, shape, sampling, .. } = options;
        let mut ops = match kind {
            PlanKind::Feed => Vec::new(),
            PlanKind::Decode => sampling.ops(),
        };
        ops.push(Op::Advance { kind, sampler: sampling.sampler });
        Self { ops, kind, shape }
    }
}

#[cfg(test)]
mod tests {
    use zinc_kernels::ops::ActFormat;

    use super::super::{Array, Product, barriers_before};
    use super::*;
    use crate::weights::TensorId;

    fn options(kind: PlanKind, sampler: Sampler, logprobs: bool) -> PlanOptions {
        PlanOptions::new(kind, ActFormat::Q14).with_sampling(SamplingStage { sampler, logprobs })
    }

    fn names(ops: &[Op]) -> Vec<&'static str> {
        ops.iter().map(Op::name).collect()
    }

    #[test]
    fn what_does_not_depend_on_each_other_shares_a_barrier() {
        let head = Op::MatVec {
            products: vec![Product { weights: TensorId::new(0), bias: None, y: Array::Logits }],
            x: Array::Residual,
            norm: None,
            act: ActFormat::Q14,
            accumulate: false,
        };
        let mut ops = vec![Op::Gather { table: TensorId::new(0), behind: false, y: Array::Residual }, Op::Dry, head];
        ops.extend(StepPlan::tail(&options(PlanKind::Decode, Sampler::Chain { dry: true }, true)).ops);
        let expected = ["gather", "dry", "mat_vec", "adjust", "logprob_shares", "choose", "logprobs", "advance"];
        assert_eq!(names(&ops), expected);
        assert_eq!(barriers_before(&ops), [false, false, true, true, false, true, false, true]);
    }

    #[test]
    fn the_host_leaves_the_device_nothing_to_choose() {
        let tail = StepPlan::tail(&options(PlanKind::Decode, Sampler::Host, false));
        assert_eq!(names(&tail.ops), ["advance"]);
    }

    #[test]
    fn a_feed_samples_nothing() {
        let tail = StepPlan::tail(&options(PlanKind::Feed, Sampler::Chain { dry: true }, true));
        assert_eq!(names(&tail.ops), ["advance"]);
    }
}
