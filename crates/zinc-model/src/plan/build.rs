//! The forward pass of each architecture, as a list of operations. This is where the network is written down.

use super::{Array, Epilogue, Op, Plan, Routing, Shape};
use crate::weights::{FeedForwardWeights, LayerWeights, ModelWeights, TensorId};

impl Plan {
    /// The operations that take one token through the network.
    #[must_use]
    pub fn new(weights: &ModelWeights, shape: Shape) -> Self {
        let mut ops = vec![Op::Gather { table: weights.embedding }];
        for (layer, w) in (0..).zip(&weights.layers) {
            attention_block(&mut ops, layer, w);
            feed_forward_block(&mut ops, w);
        }
        if shape == Shape::Decode {
            ops.push(Op::Norm { weight: weights.output_norm });
            ops.push(product(weights.output, Array::Normed, Array::Logits));
            ops.push(Op::Sample);
        }
        ops.push(Op::Advance { shape });
        Self { ops, shape }
    }
}

/// `residual += o(attention(rope(q), cache))` with `q, k, v = W norm(residual)`.
fn attention_block(ops: &mut Vec<Op>, layer: u32, w: &LayerWeights) {
    ops.push(Op::Norm { weight: w.attention_norm });
    for (weights, bias, y) in
        [(w.q, w.q_bias, Array::Query), (w.k, w.k_bias, Array::Key), (w.v, w.v_bias, Array::Value)]
    {
        let epilogue = bias.map_or(Epilogue::Store, Epilogue::AddBias);
        ops.push(Op::MatVec { weights, x: Array::Normed, y, epilogue });
    }
    ops.push(Op::RopeKv { layer, norms: w.q_norm.zip(w.k_norm) });
    ops.push(Op::Attention { layer });
    ops.push(Op::AttentionMerge);
    ops.push(accumulate(w.attention_output, Array::Attended));
}

/// `residual += down(silu(gate x) * up x)` with `x = norm(residual)`, of a dense layer or of the chosen experts.
fn feed_forward_block(ops: &mut Vec<Op>, w: &LayerWeights) {
    ops.push(Op::Norm { weight: w.feed_forward_norm });
    match w.feed_forward {
        FeedForwardWeights::Dense { gate, up, down } => {
            ops.push(Op::GateUp { gate, up, routing: Routing::Dense });
            ops.push(accumulate(down, Array::Hidden));
        }
        FeedForwardWeights::Experts { router, gate, up, down } => {
            ops.push(product(router, Array::Normed, Array::RouterLogits));
            ops.push(Op::Router);
            ops.push(Op::GateUp { gate, up, routing: Routing::Experts });
            ops.push(Op::ExpertDown { down });
        }
    }
}

fn product(weights: TensorId, x: Array, y: Array) -> Op {
    Op::MatVec { weights, x, y, epilogue: Epilogue::Store }
}

fn accumulate(weights: TensorId, x: Array) -> Op {
    Op::MatVec { weights, x, y: Array::Residual, epilogue: Epilogue::Accumulate }
}
