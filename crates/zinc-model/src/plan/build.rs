//! The forward pass of each architecture, as a list of operations. This is where the network is written down.

use zinc_kernels::Format;
use zinc_kernels::ops::{ActFormat, GROUP, MOST_STAGED};
use zinc_kernels::step::StepShape;

use super::{Array, Drafts, GateUpBiases, MANY_ROWS, Op, PlanKind, PlanOptions, Product, Routing, Sampler, StepPlan};
use crate::weights::{AttentionWeights, FeedForwardWeights, LayerWeights, MixerWeights, ModelWeights, TensorId};

/// From so many rows on, what is normalised for several products is rounded by one op before them. With fewer, that costs more than if each
/// workgroup of the products rounds it for itself.
const ROUNDED_ONCE: StepShape = StepShape::FOUR;

/// From so many rows of one lane on, one op appends the keys and values of all rows before attention. With fewer, that takes more operations than it saves
/// reads.
const MANY: StepShape = StepShape::of(MANY_ROWS);

impl StepPlan {
    /// The operations of a whole step.
    ///
    /// # Panics
    /// If there are more drafts than the step has rows for.
    #[must_use]
    pub fn new(weights: &ModelWeights, options: &PlanOptions) -> Self {
        let mut plan = Self::forward(weights, options);
        plan.ops.append(&mut Self::tail(options).ops);
        plan
    }

    /// The operations up to the logits, or to the keys and values in a step of [`PlanKind::Feed`]. Those that read nothing but tokens are among
    /// them, even if they serve sampling.
    ///
    /// # Panics
    /// As [`StepPlan::new`].
    #[must_use]
    pub fn forward(weights: &ModelWeights, options: &PlanOptions) -> Self {
        let &PlanOptions { kind, act, shape, tiled_rows, sampling, ref drafts } = options;
        let mut ops = vec![Op::List];
        if let Some(drafts) = drafts {
            assert!(drafts.most() < shape.rows(), "{} drafts in a step of {} rows", drafts.most(), shape.rows());
            ops.push(match drafts {
                Drafts::Lookup(lookup) => Op::Lookup(lookup.clone()),
                Drafts::Proposed(drafts) => Op::Propose { drafts: *drafts },
            });
        }
        ops.push(Op::Gather { table: weights.embedding });
        let mut builder = Builder { weights, kind, act, shape, tiled_rows, ops };
        for (layer, w) in (0..).zip(&weights.layers) {
            match &w.mixer {
                MixerWeights::Attention(attention) => builder.attention_block(layer, w.mixer_norm, attention),
                MixerWeights::DeltaNet(_) => {}
            }
            builder.feed_forward_block(layer, w);
        }
        if kind == PlanKind::Decode {
            builder.head(sampling.sampler);
        }
        Self { ops: builder.ops, kind, shape }
    }

    /// The operations behind the layers of a step that feeds the ends of prompts, their last tokens included, and samples after these: those of a step by `options`
    /// behind its layers, with a row for each of these prompts. They are recorded behind the forward pass of a plan of [`PlanKind::Feed`].
    ///
    /// # Panics
    /// If `options` are not those of a step of [`PlanKind::Decode`].
    #[must_use]
    pub fn behind_last_rows(weights: &ModelWeights, options: &PlanOptions) -> Self {
        let &PlanOptions { kind, act, shape, tiled_rows, sampling, .. } = options;
        assert!(kind == PlanKind::Decode, "{kind:?} does not sample");
        let mut builder = Builder { weights, kind, act, shape, tiled_rows, ops: vec![Op::LastRows] };
        builder.head(sampling.sampler);
        builder.ops.append(&mut Self::tail(options).ops);
        Self { ops: builder.ops, kind, shape }
    }

    /// The operations that compute the logits of rows from the residual stream behind the layers: what the forward pass of a step that samples
    /// ([`StepPlan::forward`]) has behind them.
    #[must_use]
    pub fn head(weights: &ModelWeights, options: &PlanOptions) -> Self {
        let &PlanOptions { kind, act, shape, tiled_rows, sampling, .. } = options;
        let mut builder = Builder { weights, kind, act, shape, tiled_rows, ops: Vec::new() };
        builder.head(sampling.sampler);
        Self { ops: builder.ops, kind, shape }
    }
}

/// Appends the ops of a plan, block by block.
struct Builder<'a> {
    weights: &'a ModelWeights,
    kind: PlanKind,
    act: ActFormat,
    shape: StepShape,
    /// The fewest rows whose products go by tiles.
    tiled_rows: u32,
    ops: Vec<Op>,
}

impl Builder<'_> {
    /// The form of activations with which all of these matrices can be multiplied: f32 if one of them has a float format.
    fn act(&self, matrices: &[TensorId]) -> ActFormat {
        let float = matrices.iter().any(|id| self.weights.tensor(*id).format.is_float());
        if float { ActFormat::F32 } else { self.act }
    }

    /// The logits, and what serves `sampler` and reads nothing but tokens.
    fn head(&mut self, sampler: Sampler) {
        if sampler == (Sampler::Chain { dry: true }) {
            // It can run at the same time as the head.
            self.ops.push(Op::Dry);
        }
        let head = Product { weights: self.weights.output, bias: None, y: Array::Logits };
        self.normed_products(self.weights.output_norm, vec![head]);
    }

    /// `residual += o(attention(rope(q), cache))` with `q, k, v = W norm(residual)`.
    fn attention_block(&mut self, layer: u32, norm: TensorId, w: &AttentionWeights) {
        let product = |weights, bias, y| Product { weights, bias, y };
        self.normed_products(
            norm,
            vec![
                product(w.q, w.q_bias, Array::Query),
                product(w.k, w.k_bias, Array::Key),
                product(w.v, w.v_bias, Array::Value),
            ],
        );
        let act = self.act(&[w.output]);
        let tiled = self.is_tiled(act);
        if self.shape >= MANY && self.kind == PlanKind::Feed {
            self.ops.push(Op::Append { layer, norms: w.q_norm.zip(w.k_norm) });
            self.ops.push(Op::AttentionRows { layer, sinks: w.sinks });
        } else {
            // The rows of a step that samples are of different lanes.
            let act = if tiled { ActFormat::F32 } else { act };
            let (norms, sinks) = (w.q_norm.zip(w.k_norm), w.sinks);
            self.ops.push(Op::Attention { layer, norms, sinks, act, next: w.output });
        }
        let mut attended = Array::Attended;
        if tiled {
            let columns = self.weights.tensor(w.output).columns;
            let y = Array::RoundedAttended;
            self.ops.push(Op::Round { x: attended, norm: None, y, vectors: 1, columns, ordered: true });
            attended = Array::RoundedAttended;
        }
        self.onto_residual(w.output, w.output_bias, attended);
    }

    /// `residual += down(activation(gate x, up x))` with `x = norm(residual)`, of a dense layer or of the chosen experts.
    fn feed_forward_block(&mut self, layer: u32, w: &LayerWeights) {
        match w.feed_forward {
            FeedForwardWeights::Dense { gate, up, down } => {
                let act = self.act(&[gate, up]);
                let norm = self.norm_of_products(w.feed_forward_norm, act);
                self.ops.push(if self.is_tiled(act) {
                    Op::GateUpMul { layer, gate, up, biases: None, experts: false }
                } else {
                    Op::GateUp { layer, gate, up, biases: None, routing: Routing::Dense { norm }, act }
                });
                let hidden = self.rounded_hidden(down, 1, self.is_tiled(self.act(&[down])));
                self.onto_residual(down, None, hidden);
            }
            FeedForwardWeights::Experts {
                router,
                gate,
                up,
                down,
                router_bias,
                gate_bias,
                up_bias,
                down_bias,
                used,
                ..
            } => {
                let biases = gate_bias.zip(up_bias).map(|(gate, up)| GateUpBiases { gate, up });
                let act = self.act(&[gate, up]);
                let ordered = self.is_tiled(self.act(&[gate, up, down]));
                let norm = w.feed_forward_norm;
                if ordered && self.weights.tensor(router).format.is_float() {
                    self.ops.push(Op::RouterMul { norm, matrix: router, bias: router_bias });
                    self.norm_of_products(norm, act);
                } else {
                    self.ops.push(Op::Router { norm, matrix: router, bias: router_bias, act, ordered });
                }
                if ordered {
                    self.ops.push(Op::Route { layer, gate, up, down });
                    self.ops.push(Op::GateUpMul { layer, gate, up, biases, experts: true });
                    self.rounded_hidden(down, used, true);
                    self.ops.push(Op::ExpertMul { layer, down, bias: down_bias });
                    self.ops.push(Op::Join { layer });
                    return;
                }
                self.ops.push(Op::GateUp { layer, gate, up, biases, routing: Routing::Experts, act });
                let h = self.rounded_hidden(down, used, false);
                self.ops.push(Op::ExpertDown { layer, down, bias: down_bias, h, act: self.act(&[down]) });
            }
        }
    }

    /// Whether products with `act` are computed by tiles.
    fn is_tiled(&self, act: ActFormat) -> bool {
        act == ActFormat::Q14 && self.shape.rows() >= self.tiled_rows
    }

    /// Where the second half of a feed-forward layer of `slots` slots finds its vectors: they are rounded first if a workgroup could not keep them,
    /// or if the products are computed by tiles (`tiled`).
    fn rounded_hidden(&mut self, down: TensorId, slots: u32, tiled: bool) -> Array {
        let columns = self.weights.tensor(down).columns;
        let act = self.act(&[down]);
        let kept = columns.next_multiple_of(GROUP) * slots <= MOST_STAGED && !tiled;
        if act == ActFormat::F32 || kept {
            return Array::Hidden;
        }
        let (x, y) = (Array::Hidden, Array::RoundedHidden);
        self.ops.push(Op::Round { x, norm: None, y, vectors: slots, columns, ordered: tiled });
        y
    }

    /// Products of the residual stream, normalised with `norm`.
    fn normed_products(&mut self, norm: TensorId, products: Vec<Product>) {
        let matrices: Vec<TensorId> = products.iter().map(|product| product.weights).collect();
        let act = self.act(&matrices);
        let norm = self.norm_of_products(norm, act);
        let x = if norm.is_some() { Array::Residual } else { Array::Normed };
        if !self.is_tiled(act) {
            self.ops.push(Op::MatVec { products, x, norm, act, accumulate: false });
            return;
        }
        // Tiles are larger where the matrices of a launch have one format: their shared memory need not suit several.
        let formats = products.chunk_by(|a, b| self.format_of(a) == self.format_of(b)).map(<[Product]>::to_vec);
        let mut launches: Vec<Vec<Product>> = formats.collect();
        // The smallest launch comes first: the others fill the device beside it, and nothing waits for it at the end.
        launches.sort_by_key(|products| products.iter().map(|product| self.rows_of(product)).sum::<u32>());
        self.ops.extend(launches.into_iter().map(|products| Op::MatMul { products, x, accumulate: false }));
    }

    fn format_of(&self, product: &Product) -> Format {
        self.weights.tensor(product.weights).format
    }

    fn rows_of(&self, product: &Product) -> u32 {
        self.weights.tensor(product.weights).rows
    }

    /// The weights with which products of the normalised residual stream normalise it for themselves: `None` where it pays to round it once before
    /// them, which is put in here.
    fn norm_of_products(&mut self, norm: TensorId, act: ActFormat) -> Option<TensorId> {
        if act == ActFormat::F32 || self.shape < ROUNDED_ONCE {
            return Some(norm);
        }
        let columns = self.weights.tensor(norm).columns;
        let (x, y, ordered) = (Array::Residual, Array::Normed, self.is_tiled(act));
        self.ops.push(Op::Round { x, norm: Some(norm), y, vectors: 1, columns, ordered });
        None
    }

    /// A product of `x` that is added to the residual stream, with its bias.
    fn onto_residual(&mut self, weights: TensorId, bias: Option<TensorId>, x: Array) {
        let act = self.act(&[weights]);
        let products = vec![Product { weights, bias, y: Array::Residual }];
        self.ops.push(if self.is_tiled(act) {
            Op::MatMul { products, x, accumulate: true }
        } else {
            Op::MatVec { products, x, norm: None, act, accumulate: true }
        });
    }
}
