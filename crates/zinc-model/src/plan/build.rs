//! The forward pass of each architecture, as a list of operations. This is where the network is written down.

use zinc_kernels::Format;
use zinc_kernels::ops::{ActFormat, GROUP, MOST_STAGED};
use zinc_kernels::step::StepShape;

use super::arrays::GROUP_VALUES;
use super::{Array, Drafts, GateUpBiases, MANY_ROWS, Op, PlanKind, PlanOptions, Product, Routing, Sampler, StepPlan};
use crate::weights::{
    AttentionWeights, DeltaNetWeights, FeedForwardWeights, LayerWeights, MixerWeights, ModelWeights,
    SharedExpertWeights, TensorId,
};

/// From so many rows on, what is normalised for several products is rounded by one op before them. With fewer, that costs more than if each
/// workgroup of the products rounds it for itself.
const ROUNDED_ONCE: StepShape = StepShape::FOUR;
/// Vectors of more elements than this are rounded so in every step: a workgroup would have several turns at it.
const MOST_ROUNDED_BY_WORKGROUPS: u32 = 4_096;

/// From so many rows of one lane on, one op appends the keys and values of all rows before attention. With fewer, that takes more operations than it saves
/// reads.
const MANY: StepShape = StepShape::of(MANY_ROWS);

/// The vectors inside a feed-forward part, and their rounded form.
const HIDDEN: [Array; 2] = [Array::Hidden, Array::RoundedHidden];
/// Those of a shared expert.
const SHARED_HIDDEN: [Array; 2] = [Array::SharedHidden, Array::RoundedSharedHidden];

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
        let &PlanOptions { kind, shape, sampling, ref drafts, .. } = options;
        let mut ops = vec![Op::List];
        if let Some(drafts) = drafts {
            assert!(drafts.most() < shape.rows(), "{} drafts in a step of {} rows", drafts.most(), shape.rows());
            ops.push(match drafts {
                Drafts::Lookup(lookup) => Op::Lookup(lookup.clone()),
                Drafts::Proposed(drafts) => Op::Propose { drafts: *drafts },
            });
        }
        ops.push(Op::Gather { table: weights.embedding, behind: false, y: Array::Residual });
        let mut builder = Builder { ops, ..Builder::new(weights, options) };
        for (layer, w) in (0..).zip(&weights.layers) {
            match &w.mixer {
                MixerWeights::Attention(attention) => builder.attention_block(layer, w.mixer_norm, attention),
                MixerWeights::DeltaNet(delta_net) => builder.delta_net_block(layer, w.mixer_norm, delta_net),
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
        let &PlanOptions { kind, shape, sampling, .. } = options;
        assert!(kind == PlanKind::Decode, "{kind:?} does not sample");
        let mut builder = Builder { ops: vec![Op::LastRows], ..Builder::new(weights, options) };
        builder.head(sampling.sampler);
        builder.ops.append(&mut Self::tail(options).ops);
        Self { ops: builder.ops, kind, shape }
    }

    /// The operations that compute the logits of rows from the residual stream behind the layers: what the forward pass of a step that samples
    /// ([`StepPlan::forward`]) has behind them.
    #[must_use]
    pub fn head(weights: &ModelWeights, options: &PlanOptions) -> Self {
        let &PlanOptions { kind, shape, sampling, .. } = options;
        let mut builder = Builder::new(weights, options);
        builder.head(sampling.sampler);
        Self { ops: builder.ops, kind, shape }
    }
}

/// Appends the ops of a plan, block by block.
pub(super) struct Builder<'a> {
    weights: &'a ModelWeights,
    kind: PlanKind,
    act: ActFormat,
    shape: StepShape,
    /// The fewest rows whose products go by tiles.
    tiled_rows: u32,
    /// The ops so far.
    pub(super) ops: Vec<Op>,
}

impl<'a> Builder<'a> {
    /// A builder of a plan by `options` that has no ops yet.
    pub(super) fn new(weights: &'a ModelWeights, options: &PlanOptions) -> Self {
        let &PlanOptions { kind, act, shape, tiled_rows, .. } = options;
        Self { weights, kind, act, shape, tiled_rows, ops: Vec::new() }
    }

    /// The weights of the model.
    pub(super) fn weights(&self) -> &'a ModelWeights {
        self.weights
    }

    /// The form of activations with which all of these matrices can be multiplied: f32 if one of them has a float format.
    pub(super) fn act(&self, matrices: &[TensorId]) -> ActFormat {
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
        self.normed_products((Array::Residual, self.weights.output_norm), [vec![head]]);
    }

    /// `residual += o(attention(rope(q), cache))` with `q, k, v = W norm(residual)`, the result times the sigmoid of its gate where there is one.
    pub(super) fn attention_block(&mut self, layer: u32, norm: TensorId, w: &AttentionWeights) {
        let product = |weights, bias, y| Product { weights, bias, y };
        let qkv = vec![
            product(w.q, w.q_bias, Array::Query),
            product(w.k, w.k_bias, Array::Key),
            product(w.v, w.v_bias, Array::Value),
        ];
        let gate = w.gate.map(|gate| product(gate, None, Array::MixerGate));
        self.normed_products((Array::Residual, norm), std::iter::once(qkv).chain(gate.map(|gate| vec![gate])));
        let act = self.act(&[w.output]);
        let tiled = self.is_tiled(act);
        if self.shape >= MANY && self.kind == PlanKind::Feed {
            self.ops.push(Op::Append { layer, norms: w.q_norm.zip(w.k_norm), queries: true });
            self.ops.push(Op::AttentionRows { layer, sinks: w.sinks });
        } else {
            // The rows of a step that samples are of different lanes. What an op behind this one rounds is stored in f32.
            let act = if tiled || w.gate.is_some() { ActFormat::F32 } else { act };
            let (norms, sinks) = (w.q_norm.zip(w.k_norm), w.sinks);
            self.ops.push(Op::Attention { layer, norms, sinks, act, next: w.output });
        }
        let mut attended = Array::Attended;
        if w.gate.is_some() {
            attended = self.head_gate(layer, Array::Attended, None, w.output);
        } else if tiled {
            let columns = self.weights.tensor(w.output).columns;
            let y = Array::RoundedAttended;
            self.ops.push(Op::Round { x: attended, norm: None, y, vectors: 1, columns, ordered: true });
            attended = Array::RoundedAttended;
        }
        self.onto_residual(w.output, w.output_bias, attended);
    }

    /// `residual += o(gated(norm(memories read by q)))`, which `k`, `v`, beta and alpha change before, with all of them and the gate `W norm(residual)`,
    /// `q, k, v` behind a short convolution.
    fn delta_net_block(&mut self, layer: u32, norm: TensorId, w: &DeltaNetWeights) {
        let products = [
            (w.beta, Array::DeltaBeta),
            (w.alpha, Array::DeltaAlpha),
            (w.qkv, Array::DeltaInput),
            (w.gate, Array::MixerGate),
        ];
        let products = products.map(|(weights, y)| Product { weights, bias: None, y });
        // A launch takes at most three, and all of them compute with f32 if one has a float format.
        let is_float = |product: &Product| self.format_of(product).is_float();
        let alike = products.chunk_by(|a, b| is_float(a) == is_float(b));
        let launches: Vec<Vec<Product>> = alike.flat_map(|alike| alike.chunks(2).map(<[Product]>::to_vec)).collect();
        self.normed_products((Array::Residual, norm), launches);
        self.ops.push(Op::DeltaConv { layer, weights: w.convolution });
        self.ops.push(Op::DeltaNet { layer, alpha_bias: w.alpha_bias, decay: w.decay });
        let gated = self.head_gate(layer, Array::DeltaRead, Some(w.norm), w.output);
        self.onto_residual(w.output, None, gated);
    }

    /// The gate of a mixer's results `x`. Returns where the product with `output` behind it finds them, in the form that it takes.
    fn head_gate(&mut self, layer: u32, x: Array, norm: Option<TensorId>, output: TensorId) -> Array {
        let act = self.act(&[output]);
        let y = match act {
            ActFormat::F32 => Array::Attended,
            ActFormat::Q14 => Array::RoundedAttended,
        };
        self.ops.push(Op::HeadGate { layer, x, norm, y, ordered: self.is_tiled(act) });
        y
    }

    /// `residual += down(activation(gate x, up x))` with `x = norm(residual)`, of a dense layer or of the chosen experts and a shared one.
    pub(super) fn feed_forward_block(&mut self, layer: u32, w: &LayerWeights) {
        match w.feed_forward {
            FeedForwardWeights::Dense { gate, up, down } => {
                let act = self.act(&[gate, up]);
                let norm = self.norm_of_products((Array::Residual, w.feed_forward_norm), act);
                let y = Array::Hidden;
                self.ops.push(if self.is_tiled(act) {
                    Op::GateUpMul { layer, gate, up, biases: None, experts: false, y }
                } else {
                    Op::GateUp { layer, gate, up, biases: None, routing: Routing::Dense { norm }, act, y }
                });
                let hidden = self.rounded_hidden(HIDDEN, down, 1, self.is_tiled(self.act(&[down])));
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
                shared,
            } => {
                let biases = gate_bias.zip(up_bias).map(|(gate, up)| GateUpBiases { gate, up });
                let act = self.act(&[gate, up]);
                let ordered = self.is_tiled(self.act(&[gate, up, down]));
                let norm = w.feed_forward_norm;
                let y = Array::Hidden;
                if ordered && self.weights.tensor(router).format.is_float() {
                    self.ops.push(Op::RouterMul { norm, matrix: router, bias: router_bias });
                    self.norm_of_products((Array::Residual, norm), act);
                } else {
                    self.ops.push(Op::Router { norm, matrix: router, bias: router_bias, act, ordered });
                }
                // Each half of the shared expert stands beside an op of the others that it does not wait for.
                if ordered {
                    self.ops.push(Op::Route { layer, gate, up, down });
                    self.begin_shared(layer, norm, shared, true);
                    self.ops.push(Op::GateUpMul { layer, gate, up, biases, experts: true, y });
                    let shared_hidden = self.shared_hidden(shared);
                    self.rounded_hidden(HIDDEN, down, used, true);
                    self.end_shared(shared.zip(shared_hidden));
                    self.ops.push(Op::ExpertMul { layer, down, bias: down_bias });
                    self.ops.push(Op::Join { layer, shared: shared.is_some() });
                    return;
                }
                self.begin_shared(layer, norm, shared, false);
                self.ops.push(Op::GateUp { layer, gate, up, biases, routing: Routing::Experts, act, y });
                let shared_hidden = self.shared_hidden(shared);
                let h = self.rounded_hidden(HIDDEN, down, used, false);
                self.end_shared(shared.zip(shared_hidden));
                let (act, shared) = (self.act(&[down]), shared.is_some());
                self.ops.push(Op::ExpertDown { layer, down, bias: down_bias, h, act, shared });
            }
        }
    }

    /// The first half of a shared expert. `normed` says whether [`Array::Normed`] has the layer's input as products by tiles take it.
    fn begin_shared(&mut self, layer: u32, norm: TensorId, shared: Option<SharedExpertWeights>, normed: bool) {
        let Some(SharedExpertWeights { gate, up, .. }) = shared else { return };
        let act = self.act(&[gate, up]);
        let y = Array::SharedHidden;
        self.ops.push(if normed && self.is_tiled(act) {
            Op::GateUpMul { layer, gate, up, biases: None, experts: false, y }
        } else {
            Op::GateUp { layer, gate, up, biases: None, routing: Routing::Dense { norm: Some(norm) }, act, y }
        });
    }

    /// Where the second half of a shared expert finds its vector.
    fn shared_hidden(&mut self, shared: Option<SharedExpertWeights>) -> Option<Array> {
        let SharedExpertWeights { down, .. } = shared?;
        Some(self.rounded_hidden(SHARED_HIDDEN, down, 1, self.is_tiled(self.act(&[down]))))
    }

    /// The second half of a shared expert, with its weights and its vector.
    fn end_shared(&mut self, shared: Option<(SharedExpertWeights, Array)>) {
        let Some((SharedExpertWeights { down, .. }, x)) = shared else { return };
        self.product(Product { weights: down, bias: None, y: Array::SharedOutput }, x, false);
    }

    /// Whether products with `act` are computed by tiles.
    pub(super) fn is_tiled(&self, act: ActFormat) -> bool {
        act == ActFormat::Q14 && self.shape.rows() >= self.tiled_rows
    }

    /// Where the second half of a feed-forward part of `slots` slots finds its vectors, which are in the first of two arrays: they are rounded to the second
    /// one first if a workgroup could not keep them, or if the products are computed by tiles (`tiled`).
    fn rounded_hidden(&mut self, [x, y]: [Array; 2], down: TensorId, slots: u32, tiled: bool) -> Array {
        let columns = self.weights.tensor(down).columns;
        let act = self.act(&[down]);
        let kept = columns.next_multiple_of(GROUP) * slots <= MOST_STAGED && !tiled;
        if act == ActFormat::F32 || kept {
            return x;
        }
        self.ops.push(Op::Round { x, norm: None, y, vectors: slots, columns, ordered: tiled });
        y
    }

    /// Products of a vector that is normalised with `norm`, one group behind the other. The products of a group compute with the same form of it.
    pub(super) fn normed_products(
        &mut self,
        (vector, norm): (Array, TensorId),
        groups: impl IntoIterator<Item = Vec<Product>>,
    ) {
        let mut is_rounded = false;
        let first = self.ops.len();
        for products in groups {
            let matrices: Vec<TensorId> = products.iter().map(|product| product.weights).collect();
            let act = self.act(&matrices);
            let norm =
                if is_rounded && act == ActFormat::Q14 { None } else { self.norm_of_products((vector, norm), act) };
            is_rounded |= norm.is_none();
            let x = if norm.is_some() { vector } else { Array::Normed };
            if !self.is_tiled(act) {
                self.ops.push(Op::MatVec { products, x, norm, act, accumulate: false });
                continue;
            }
            // Tiles are larger where the matrices of a launch have one format: their shared memory need not suit several.
            let formats = products.chunk_by(|a, b| self.format_of(a) == self.format_of(b)).map(<[Product]>::to_vec);
            let mut launches: Vec<Vec<Product>> = formats.collect();
            // The smallest launch comes first: the others fill the device beside it, and nothing waits for it at the end.
            launches.sort_by_key(|products| products.iter().map(|product| self.rows_of(product)).sum::<u32>());
            let op = |products| Op::MatMul { products, x, accumulate: false, group_values: None };
            self.ops.extend(launches.into_iter().map(op));
        }
        // Launches that nothing separates leave the values of groups in memory of their own, as long as there is some. The last has the largest.
        let launches = self.ops[first..].iter_mut().rev().filter_map(|op| match op {
            Op::MatMul { group_values, .. } => Some(group_values),
            _ => None,
        });
        launches.zip(0..GROUP_VALUES).for_each(|(group_values, number)| *group_values = Some(number));
    }

    fn format_of(&self, product: &Product) -> Format {
        self.weights.tensor(product.weights).format
    }

    fn rows_of(&self, product: &Product) -> u32 {
        self.weights.tensor(product.weights).rows
    }

    /// The weights with which products of a normalised vector normalise it for themselves: `None` where it pays to round it once before them, to
    /// [`Array::Normed`], which is put in here.
    fn norm_of_products(&mut self, (x, norm): (Array, TensorId), act: ActFormat) -> Option<TensorId> {
        let columns = self.weights.tensor(norm).columns;
        let rounded_once = self.shape >= ROUNDED_ONCE || columns > MOST_ROUNDED_BY_WORKGROUPS;
        if act == ActFormat::F32 || !rounded_once {
            return Some(norm);
        }
        let (y, ordered) = (Array::Normed, self.is_tiled(act));
        self.ops.push(Op::Round { x, norm: Some(norm), y, vectors: 1, columns, ordered });
        None
    }

    /// A product of `x` that is added to the residual stream, with its bias.
    fn onto_residual(&mut self, weights: TensorId, bias: Option<TensorId>, x: Array) {
        self.product(Product { weights, bias, y: Array::Residual }, x, true);
    }

    /// A product of `x`, which is added to the output if `accumulate` says so.
    pub(super) fn product(&mut self, product: Product, x: Array, accumulate: bool) {
        let act = self.act(&[product.weights]);
        let products = vec![product];
        self.ops.push(if self.is_tiled(act) {
            Op::MatMul { products, x, accumulate, group_values: Some(0) }
        } else {
            Op::MatVec { products, x, norm: None, act, accumulate }
        });
    }
}
