//! Multi-token prediction: the operations of the block that drafts tokens behind the layers of a step.
//!
//! The block takes each row of a step with the token behind it, and says what comes behind that. Every step has what it needs of the rows: their keys and values in the
//! block ([`StepPlan::mtp_rows`]). Behind a step whose tokens are to be followed by drafts, the block makes these one after the other, from the last row that was
//! accepted on, with a state of their own ([`StepPlan::mtp_draft`]). The keys and values of drafts are written once more by the step that verifies them, before
//! anything else reads them.

use zinc_kernels::ops::{ActFormat, GROUP, MOST_STAGED};

use super::build::Builder;
use super::{Array, Op, PlanKind, PlanOptions, Product, StepPlan};
use crate::weights::{AttentionWeights, MixerWeights, ModelWeights, MtpWeights, TensorId};

/// Which draft of a step it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MtpDraft {
    /// The first: its hidden vector is that of the last row that was accepted.
    First,
    /// Another: its hidden vector is the block's own, of the draft before.
    Next,
}

impl StepPlan {
    /// What the block needs of the rows of a step by `options`: its keys and values. Of a step that feeds these operations stand behind the layers, and of any other
    /// behind its end, since that says which token comes behind the last row.
    ///
    /// # Panics
    /// If the model is not opened with its block.
    #[must_use]
    pub fn mtp_rows(weights: &ModelWeights, options: &PlanOptions) -> Self {
        let (mtp, attention) = block(weights);
        let mut builder = Builder::new(weights, options);
        builder.mtp_input(mtp, weights.output_norm, Array::MtpResidual, true);
        let products = [(attention.k, attention.k_bias, Array::Key), (attention.v, attention.v_bias, Array::Value)];
        let products = products.map(|(weights, bias, y)| Product { weights, bias, y });
        builder.normed_products((Array::MtpResidual, mtp.layer.mixer_norm), [products.to_vec()]);
        let norms = attention.q_norm.zip(attention.k_norm);
        builder.ops.push(Op::Append { layer: number(weights), norms, queries: false });
        Self { ops: builder.ops, kind: options.kind, shape: options.shape }
    }

    /// A draft, with a state of its own. `act` is the form of activations.
    ///
    /// # Panics
    /// As [`StepPlan::mtp_rows`].
    #[must_use]
    pub fn mtp_draft(weights: &ModelWeights, act: ActFormat, draft: MtpDraft) -> Self {
        let (mtp, attention) = block(weights);
        let options = PlanOptions::new(PlanKind::Decode, act);
        let mut builder = Builder::new(weights, &options);
        match draft {
            MtpDraft::First => builder.ops.extend([Op::LastAccepted, Op::List]),
            MtpDraft::Next => {
                builder.ops.push(Op::List);
                builder.mtp_input(mtp, mtp.head_norm, Array::Residual, false);
            }
        }
        builder.attention_block(number(weights), mtp.layer.mixer_norm, attention);
        builder.feed_forward_block(number(weights), &mtp.layer);
        let head = Product { weights: mtp.head, bias: None, y: Array::Logits };
        builder.normed_products((Array::Residual, mtp.head_norm), [vec![head]]);
        builder.ops.append(&mut Self::tail(&options).ops);
        Self { ops: builder.ops, kind: options.kind, shape: options.shape }
    }

    /// This plan with the operations of another behind its own.
    ///
    /// # Panics
    /// If the other is for other rows.
    #[must_use]
    pub fn followed_by(mut self, mut other: Self) -> Self {
        assert!(
            (self.kind, self.shape) == (other.kind, other.shape),
            "{:?} of {:?} behind {:?} of {:?}",
            other.kind,
            other.shape,
            self.kind,
            self.shape
        );
        self.ops.append(&mut other.ops);
        self
    }
}

/// The block, and its attention.
fn block(weights: &ModelWeights) -> (&MtpWeights, &AttentionWeights) {
    let mtp = weights.mtp.as_ref().expect("a model that is opened with its block for multi-token prediction");
    match &mtp.layer.mixer {
        MixerWeights::Attention(attention) => (mtp, attention),
        MixerWeights::DeltaNet(_) => panic!("a block for multi-token prediction with a delta net"),
    }
}

/// The number of the block's layer.
fn number(weights: &ModelWeights) -> u32 {
    weights.layers.len() as u32
}

impl Builder<'_> {
    /// What the block's layer begins with, in `y`: the product of the embedding of each row's token, or of the one `behind` it, and of the residual stream as the head
    /// takes it with `head_norm`.
    fn mtp_input(&mut self, mtp: &MtpWeights, head_norm: TensorId, y: Array, behind: bool) {
        let &MtpWeights { embedding, embedding_norm, hidden_norm, input, .. } = mtp;
        self.ops.push(Op::Gather { table: embedding, behind, y: Array::MtpInput });
        self.ops.push(Op::MtpNorms { embedding_norm, head_norm, hidden_norm });
        let columns = self.weights().tensor(input).columns;
        let act = self.act(&[input]);
        let tiled = self.is_tiled(act);
        let kept = columns.next_multiple_of(GROUP) <= MOST_STAGED && !tiled;
        let mut x = Array::MtpInput;
        if act == ActFormat::Q14 && !kept {
            let rounded = Array::RoundedMtpInput;
            self.ops.push(Op::Round { x, norm: None, y: rounded, vectors: 1, columns, ordered: tiled });
            x = rounded;
        }
        self.product(Product { weights: input, bias: None, y }, x, false);
    }
}
