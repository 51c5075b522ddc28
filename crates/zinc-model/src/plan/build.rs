//! The forward pass of each architecture, as a list of operations. This is where the network is written down.

use zinc_kernels::ops::{ActFormat, GROUP, MOST_STAGED};

use super::{Array, Op, PlanKind, Product, Routing, Sampler, StepPlan};
use crate::weights::{FeedForwardWeights, LayerWeights, ModelWeights, TensorId};

impl StepPlan {
    /// The operations that take one token through the network and, in a plan of [`PlanKind::Decode`], choose the next by [`Sampler::Plain`].
    /// Activations are in the form `act` where they are multiplied with matrices in quantised formats. With matrices in float formats, and
    /// with the router's, they are f32.
    #[must_use]
    pub fn new(weights: &ModelWeights, kind: PlanKind, act: ActFormat) -> Self {
        let mut builder = Builder { weights, act, ops: vec![Op::Gather { table: weights.embedding }] };
        for (layer, w) in (0..).zip(&weights.layers) {
            builder.attention_block(layer, w);
            builder.feed_forward_block(w);
        }
        if kind == PlanKind::Decode {
            let head = Product { weights: weights.output, bias: None, y: Array::Logits };
            builder.normed_products(weights.output_norm, vec![head]);
            builder.ops.push(Op::Sample);
        }
        builder.ops.push(Op::Advance { kind, sampler: Sampler::Plain });
        Self { ops: builder.ops, kind, batch: 1 }
    }
}

/// Appends the ops of a plan, block by block.
struct Builder<'a> {
    weights: &'a ModelWeights,
    act: ActFormat,
    ops: Vec<Op>,
}

impl Builder<'_> {
    /// The form of activations with which all of these matrices can be multiplied: f32 if one of them has a float format.
    fn act(&self, matrices: &[TensorId]) -> ActFormat {
        let float = matrices.iter().any(|id| self.weights.tensor(*id).format.is_float());
        if float { ActFormat::F32 } else { self.act }
    }

    /// `residual += o(attention(rope(q), cache))` with `q, k, v = W norm(residual)`.
    fn attention_block(&mut self, layer: u32, w: &LayerWeights) {
        let product = |weights, bias, y| Product { weights, bias, y };
        self.normed_products(
            w.attention_norm,
            vec![
                product(w.q, w.q_bias, Array::Query),
                product(w.k, w.k_bias, Array::Key),
                product(w.v, w.v_bias, Array::Value),
            ],
        );
        let act = self.act(&[w.attention_output]);
        self.ops.push(Op::Attention { layer, norms: w.q_norm.zip(w.k_norm), act, next: w.attention_output });
        self.onto_residual(w.attention_output, Array::Attended);
    }

    /// `residual += down(silu(gate x) * up x)` with `x = norm(residual)`, of a dense layer or of the chosen experts.
    fn feed_forward_block(&mut self, w: &LayerWeights) {
        match w.feed_forward {
            FeedForwardWeights::Dense { gate, up, down } => {
                let act = self.act(&[gate, up]);
                let routing = Routing::Dense { norm: w.feed_forward_norm };
                self.ops.push(Op::GateUp { gate, up, routing, act });
                let hidden = self.rounded_hidden(down, 1);
                self.onto_residual(down, hidden);
            }
            FeedForwardWeights::Experts { router, gate, up, down, used } => {
                let act = self.act(&[gate, up]);
                self.ops.push(Op::Router { norm: w.feed_forward_norm, matrix: router, act });
                self.ops.push(Op::GateUp { gate, up, routing: Routing::Experts, act });
                let h = self.rounded_hidden(down, used);
                self.ops.push(Op::ExpertDown { down, h, act: self.act(&[down]) });
            }
        }
    }

    /// Where the second half of a feed-forward layer of `slots` slots finds its vectors: they are rounded first if a workgroup could not keep them.
    fn rounded_hidden(&mut self, down: TensorId, slots: u32) -> Array {
        let columns = self.weights.tensor(down).columns;
        if self.act(&[down]) == ActFormat::F32 || columns.next_multiple_of(GROUP) * slots <= MOST_STAGED {
            return Array::Hidden;
        }
        self.ops.push(Op::Round { vectors: slots, columns });
        Array::RoundedHidden
    }

    /// Products of the residual stream, normalised with `norm`.
    fn normed_products(&mut self, norm: TensorId, products: Vec<Product>) {
        let matrices: Vec<TensorId> = products.iter().map(|product| product.weights).collect();
        let act = self.act(&matrices);
        self.ops.push(Op::MatVec { products, x: Array::Residual, norm: Some(norm), act, accumulate: false });
    }

    /// A product of `x` that is added to the residual stream.
    fn onto_residual(&mut self, weights: TensorId, x: Array) {
        let act = self.act(&[weights]);
        let products = vec![Product { weights, bias: None, y: Array::Residual }];
        self.ops.push(Op::MatVec { products, x, norm: None, act, accumulate: true });
    }
}
