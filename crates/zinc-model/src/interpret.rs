//! The forward pass on the host: the ops of a plan, run one by one with the kernels' references.
//!
//! Its plans are built by the same function as the device's, with f32 activations. Of sampling it runs [`Op::Sample`] only; the sampler chain
//! is run by the owner of the sequence, and [`Interpreter::advance`] ends a step. It is what the device is compared with, not an engine:
//! nothing is threaded or blocked.

mod recurrent;

use std::borrow::Cow;
use std::sync::Arc;

use zinc_kernels::ops::{ActFormat, Opening, Pairing, Weighting};
use zinc_kernels::reference::{self, AttentionShape, Candidate, HostMatrix};
use zinc_kernels::step::{Lane, Row, StepLanes, StepReport, StepState};

use crate::config::{AttentionLayer, ExpertWeightSum, FeedForward, Mixer, ModelConfig, RopePairing};
use crate::model::Model;
use crate::plan::{Array, CacheOptions, Lookup, Op, PlanKind, PlanOptions, Routing, Sizes, StepPlan};
use crate::rotation::rotation_table;
use crate::weights::{TensorId, WeightTensor};
use recurrent::RecurrentStates;

/// A model and one sequence of it, computed on the host.
#[derive(Debug)]
pub struct Interpreter {
    model: Arc<Model>,
    cache: CacheOptions,
    feed: Arc<StepPlan>,
    decode: Arc<StepPlan>,
    rotation: Vec<[f32; 2]>,
    /// The state of the steps, whose own lane has the sequence. The owner sets it when a sequence begins.
    pub state: StepState,
    /// The number of the sequence that the owner wants stopped. The next step finds it.
    pub cancelled: u32,
    /// The lane of a draft model, which has moved on over the drafts that it has written behind the sequence's last token.
    pub draft: Lane,
    /// The tokens of the sequence, `[context + MOST_RUN]`: the prompt, and behind it the tokens that steps have sampled. The drafts of a
    /// step lie behind the lane's position.
    pub tokens: Vec<u32>,
    /// Tokens that end a generation.
    pub end_tokens: Vec<u32>,
    /// The row that ops are run for.
    row: Row,
    arrays: Arrays,
    /// The logits after each row of the last step that computed any, `[rows][vocabulary]`.
    logits: Vec<Vec<f32>>,
}

/// The arrays that [`Array`] names. The caches are f32 and hold the values as a cache of the chosen format would return them.
#[derive(Debug)]
struct Arrays {
    residual: Vec<f32>,
    normed: Vec<f32>,
    query: Vec<f32>,
    key: Vec<f32>,
    value: Vec<f32>,
    attended: Vec<f32>,
    router_logits: Vec<f32>,
    chosen: Vec<(u32, f32)>,
    hidden: Vec<f32>,
    logits: Vec<f32>,
    candidates: Vec<Candidate>,
    key_caches: Vec<Vec<f32>>,
    value_caches: Vec<Vec<f32>>,
    delta_input: Vec<f32>,
    delta_convolved: Vec<f32>,
    delta_beta: Vec<f32>,
    delta_alpha: Vec<f32>,
    delta_read: Vec<f32>,
    mixer_gate: Vec<f32>,
    mtp_input: Vec<f32>,
    mtp_residual: Vec<f32>,
    shared_hidden: Vec<f32>,
    shared_output: Vec<f32>,
    /// The recurrent states of each layer.
    recurrent: Vec<RecurrentStates>,
}

impl Interpreter {
    /// An interpreter of `model` with an empty cache, which has all positions in layers with a window, too.
    #[must_use]
    pub fn new(model: Arc<Model>, cache: CacheOptions) -> Self {
        let config = &model.config;
        let sizes = Sizes { config, cache };
        let zeros = |array: Array| vec![0.0; (sizes.bytes(array) / 4) as usize];
        let caches = || vec![Vec::new(); config.n_block() as usize];
        let factors = model.weights.rope_factors.map(|id| model.vector(id));
        Self {
            feed: Arc::new(StepPlan::new(&model.weights, &PlanOptions::new(PlanKind::Feed, ActFormat::F32))),
            decode: Arc::new(StepPlan::new(&model.weights, &PlanOptions::new(PlanKind::Decode, ActFormat::F32))),
            rotation: rotation_table(config, factors.as_deref(), cache.context),
            arrays: Arrays {
                residual: zeros(Array::Residual),
                normed: zeros(Array::Residual),
                query: zeros(Array::Query),
                key: zeros(Array::Key),
                value: zeros(Array::Value),
                attended: zeros(Array::Query),
                router_logits: zeros(Array::RouterLogits),
                chosen: Vec::new(),
                hidden: zeros(Array::Hidden),
                logits: zeros(Array::Logits),
                candidates: Vec::new(),
                key_caches: caches(),
                value_caches: caches(),
                delta_input: zeros(Array::DeltaInput),
                delta_convolved: zeros(Array::DeltaConvolved),
                delta_beta: zeros(Array::DeltaBeta),
                delta_alpha: zeros(Array::DeltaAlpha),
                delta_read: zeros(Array::DeltaRead),
                mixer_gate: zeros(Array::MixerGate),
                mtp_input: zeros(Array::MtpInput),
                mtp_residual: zeros(Array::MtpResidual),
                shared_hidden: zeros(Array::SharedHidden),
                shared_output: zeros(Array::SharedOutput),
                recurrent: vec![RecurrentStates::new(cache.drafts); config.layers.len()],
            },
            state: StepState::default(),
            cancelled: 0,
            draft: Lane::default(),
            row: Row::default(),
            tokens: vec![0; cache.token_places() as usize],
            end_tokens: Vec::new(),
            logits: Vec::new(),
            cache,
            model,
        }
    }

    /// The model.
    #[must_use]
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// The logits after the first row of the last [`PlanKind::Decode`] step, `[vocabulary]`.
    #[must_use]
    pub fn logits(&self) -> &[f32] {
        self.logits_of(0)
    }

    /// The logits after row number `row`, from 0, of the last [`PlanKind::Decode`] step; empty if it had fewer rows.
    #[must_use]
    pub fn logits_of(&self, row: usize) -> &[f32] {
        self.logits.get(row).map_or(&[], Vec::as_slice)
    }

    /// Runs one step of one row.
    pub fn step(&mut self, kind: PlanKind) -> StepReport {
        let plan = match kind {
            PlanKind::Feed => self.feed.clone(),
            PlanKind::Decode => self.decode.clone(),
        };
        self.step_of(&plan)
    }

    /// Runs the forward pass of a step of one row: the layers and, if `kind` is [`PlanKind::Decode`], the head. No token is chosen;
    /// [`Interpreter::advance`] ends the step.
    pub fn forward(&mut self, kind: PlanKind) {
        let plan = match kind {
            PlanKind::Feed => self.feed.clone(),
            PlanKind::Decode => self.decode.clone(),
        };
        self.list(1);
        if self.state.row_count > 0 {
            self.row = self.state.rows[0];
            for op in plan.ops.iter().filter(|op| **op != Op::Sample) {
                self.run(op);
            }
            self.logits = vec![self.arrays.logits.clone()];
        }
    }

    /// Ends a step of one row: the next token is the best of `candidates`, or the prompt's next.
    pub fn advance(&mut self, candidates: &[Candidate]) -> StepReport {
        reference::advance(&mut self.state.lane, &mut self.tokens, &self.end_tokens, self.cancelled, &[candidates])
    }

    /// Begins a step of at most so many rows.
    pub fn list(&mut self, rows: u32) {
        let Self { state, cancelled, tokens, .. } = self;
        let mut lane = state.lane;
        let token = |_, position: u32| tokens[position as usize];
        let wanted = StepLanes::of(&[0], rows);
        reference::list(state, std::slice::from_mut(&mut lane), &mut [], &wanted, &[*cancelled], None, token);
        state.lane = lane;
    }

    /// Runs the layers of a step whose rest is a plan of its own ([`StepPlan::behind_last_rows`]), row by row.
    pub fn layers(&mut self, plan: &StepPlan) {
        self.list(plan.shape.rows());
        let count = self.state.row_count as usize;
        for row in self.state.rows.into_iter().take(count) {
            self.row = row;
            for op in &plan.ops {
                self.run(op);
            }
        }
    }

    /// Runs one step by a plan of this model, row by row.
    pub fn step_of(&mut self, plan: &StepPlan) -> StepReport {
        let is_decode = plan.kind == PlanKind::Decode;
        for op in &plan.ops {
            match op {
                Op::List => self.list(plan.shape.rows()),
                Op::Lookup(Lookup { ngrams, drafts }) => {
                    reference::lookup(&mut self.state, &mut self.tokens, ngrams, *drafts);
                }
                Op::Propose { drafts } => reference::propose(&mut self.state, &self.draft, 0, &self.tokens, *drafts),
                // The residual stream is that of the last row already, since rows are run in order.
                Op::LastRows => {
                    let mut lane = self.state.lane;
                    reference::last_rows(&mut self.state, std::slice::from_mut(&mut lane));
                    self.state.lane = lane;
                }
                _ => break,
            }
        }
        let count = self.state.row_count as usize;
        if is_decode && count > 0 {
            self.logits.clear();
        }
        let mut candidates: Vec<Vec<Candidate>> = Vec::new();
        for row in self.state.rows.into_iter().take(count) {
            self.row = row;
            for op in &plan.ops {
                self.run(op);
            }
            candidates.push(if is_decode { self.arrays.candidates.clone() } else { Vec::new() });
            if is_decode {
                self.logits.push(self.arrays.logits.clone());
            }
        }
        let candidates: Vec<&[Candidate]> = candidates.iter().map(Vec::as_slice).collect();
        reference::advance(&mut self.state.lane, &mut self.tokens, &self.end_tokens, self.cancelled, &candidates)
    }

    /// Makes the row that the step lists first the one that ops are run for.
    pub fn begin_row(&mut self) {
        self.row = self.state.rows[0];
    }

    /// The content of an activation as f32. `None` for arrays that hold no floats or whose layout is an affair of the device's kernels.
    #[must_use]
    pub fn array(&self, array: Array) -> Option<Vec<f32>> {
        match array {
            Array::ExpertWeights => Some(self.arrays.chosen.iter().map(|(_, weight)| *weight).collect()),
            Array::State
            | Array::Tokens
            | Array::KeyCache(_)
            | Array::ValueCache(_)
            | Array::Recurrent(_)
            | Array::ExpertIds
            | Array::Candidates
            | Array::TokenCounts => None,
            // The device's kernels alone know how sampling is shared out,
            Array::DryLengths
            | Array::Items
            | Array::Shares
            | Array::Moments
            | Array::LogprobItems
            | Array::LogprobShares
            | Array::LogprobMasses => None,
            // and how attention is shared out and joined.
            Array::Partials | Array::Counters => None,
            // It has one array of logits.
            Array::MtpLogits => None,
            // Steps of many rows alone have these.
            Array::RoundedAttended
            | Array::RoundedSharedHidden
            | Array::RoundedMtpInput
            | Array::ExpertProducts
            | Array::Pairs
            | Array::Tiles
            | Array::Grids => None,
            _ => Some(self.arrays.get(array).clone()),
        }
    }

    /// Runs one op for the present row. [`Op::List`], [`Op::Lookup`], [`Op::Propose`], [`Op::LastRows`] and [`Op::Advance`], which change the state, do nothing here, because
    /// [`Interpreter::step_of`] does their work; neither do the ops of the sampler chain, which the owner of the sequence runs, nor [`Op::Cancel`], since
    /// steps run in one piece, nor [`Op::Round`] and the products of rounded vectors of many rows, which plans with f32 activations do not have.
    pub fn run(&mut self, op: &Op) {
        let Self { model, state, row, tokens, arrays: a, .. } = self;
        let model = model.clone();
        let (model, config) = (&*model, &model.config);
        match op {
            Op::Gather { table, behind, y } => {
                let token = if *behind { reference::token_behind(&state.lane, row, tokens) } else { row.token };
                let y = &mut a.get_mut(*y)[..config.n_embd as usize];
                reference::gather(&matrix(model, *table).host(), token, y);
            }
            Op::MtpNorms { embedding_norm, head_norm, hidden_norm } => {
                let [embedding, head, hidden] = [embedding_norm, head_norm, hidden_norm].map(|id| model.vector(*id));
                let norms = [&embedding[..], &head, &hidden];
                reference::mtp_norms(&mut a.mtp_input, &a.residual, norms, config.rms_eps);
            }
            // Rows are run in order: it is the present one.
            Op::LastAccepted => a.residual.clone_from(&a.mtp_residual),
            Op::MatVec { products, x, norm, accumulate, .. } => {
                let mut operand = a.get(*x).clone();
                if let Some(norm) = norm {
                    reference::rms_norm(a.get(*x), &model.vector(*norm), config.rms_eps, &mut operand);
                }
                for product in products {
                    let mut y = vec![0.0; model.weights.tensor(product.weights).rows as usize];
                    reference::mat_vec(&matrix(model, product.weights).host(), &operand, &mut y);
                    if let Some(bias) = product.bias {
                        add(&mut y, &model.vector(bias));
                    }
                    if *accumulate {
                        add(&mut y, a.get(product.y));
                    }
                    *a.get_mut(product.y) = y;
                }
            }
            Op::Append { layer, norms, queries } => {
                if *queries {
                    self.arrays.query = self.prepared_query(*layer, norms.map(|(q, _)| q));
                }
                self.append(*layer, norms.map(|(_, k)| k));
            }
            Op::Attention { layer, norms, sinks, .. } => {
                self.append(*layer, norms.map(|(_, k)| k));
                let query = self.prepared_query(*layer, norms.map(|(q, _)| q));
                self.attend(*layer, *sinks, &query);
            }
            Op::AttentionRows { layer, sinks } => {
                let query = self.arrays.query.clone();
                self.attend(*layer, *sinks, &query);
            }
            Op::Router { norm, matrix: id, bias, .. } => {
                a.router_logits.resize(model.weights.tensor(*id).rows as usize, 0.0);
                let (norm, matrix) = (model.vector(*norm), matrix(model, *id));
                let bias = bias.map(|id| model.vector(id));
                reference::router(
                    &a.residual,
                    &norm,
                    config.rms_eps,
                    &matrix.host(),
                    bias.as_deref(),
                    &mut a.normed,
                    &mut a.router_logits,
                );
            }
            Op::DeltaConv { layer, weights } => {
                let heads = config.delta_net_of_op(*layer).heads();
                a.delta_convolved.resize(heads.channels() as usize, 0.0);
                match a.recurrent[*layer as usize].before(row.position, &heads) {
                    Some(state) => {
                        let [x3, x2, x1] = &state.columns;
                        let window = [&x3[..], x2, x1, &a.delta_input];
                        reference::delta_conv(window, &model.vector(*weights), &mut a.delta_convolved);
                    }
                    None => a.delta_convolved.fill(f32::NAN),
                }
            }
            Op::DeltaNet { layer, alpha_bias, decay } => {
                let heads = config.delta_net_of_op(*layer).heads();
                a.delta_read.resize(heads.values() as usize, 0.0);
                let states = &mut a.recurrent[*layer as usize];
                let Some(mut state) = states.before(row.position, &heads) else {
                    a.delta_read.fill(f32::NAN);
                    return;
                };
                let (bias, decay) = (model.vector(*alpha_bias), model.vector(*decay));
                let inputs = a.delta_alpha.iter().zip(&bias).zip(decay.iter().zip(&a.delta_beta));
                let gates: Vec<[f32; 2]> = inputs
                    .map(|((alpha, bias), (decay, beta))| reference::delta_gates(*alpha, *bias, *decay, *beta))
                    .collect();
                reference::delta_net(&heads, &mut state.memories, &a.delta_convolved, &gates, &mut a.delta_read);
                state.columns.rotate_left(1);
                state.columns[2].clone_from(&a.delta_input);
                states.put(row.position + 1, state);
            }
            Op::HeadGate { layer, x, norm, .. } => {
                let (opening, _, head_size) = head_gate(&config.block(*layer).mixer);
                let norm = norm.map(|id| model.vector(id));
                let norm = norm.as_ref().map(|weights| (&weights[..], config.rms_eps));
                let x = a.get(*x).clone();
                a.attended.resize(x.len(), 0.0);
                let size = head_size as usize;
                let heads = x.chunks_exact(size).zip(a.mixer_gate.chunks_exact(size));
                for ((x, gate), y) in heads.zip(a.attended.chunks_exact_mut(size)) {
                    reference::head_gate(x, gate, norm, opening, y);
                }
            }
            Op::GateUp { layer, gate, up, biases, routing, y, .. } => {
                let (gate, up) = (matrix(model, *gate), matrix(model, *up));
                let part = config.feed_forward(*layer);
                let (slots, width) = match routing {
                    Routing::Dense { .. } => (1, gate.tensor.rows),
                    Routing::Experts => part.hidden(),
                };
                let mut hidden = vec![0.0; (slots * width) as usize];
                let activation = part.activation();
                let biases = biases.map(|biases| [biases.gate, biases.up].map(|id| model.vector(id)));
                let biases = biases.as_ref().map(|[gate, up]| reference::GateUpBiases { gate, up });
                match routing {
                    Routing::Dense { norm } => {
                        if let Some(norm) = norm {
                            reference::rms_norm(&a.residual, &model.vector(*norm), config.rms_eps, &mut a.normed);
                        }
                        reference::gate_up(&gate.host(), &up.host(), biases, activation, 0, &a.normed, &mut hidden);
                    }
                    Routing::Experts => {
                        a.chosen = reference::select_experts(
                            &a.router_logits[..part.experts().0 as usize],
                            slots as usize,
                            weighting(part),
                        );
                        for ((id, _), y) in a.chosen.iter().zip(hidden.chunks_exact_mut(width as usize)) {
                            reference::gate_up(&gate.host(), &up.host(), biases, activation, *id, &a.normed, y);
                        }
                    }
                }
                *a.get_mut(*y) = hidden;
            }
            Op::ExpertDown { layer, down, bias, shared, .. } => {
                let experts = config.feed_forward(*layer).experts().0 as usize;
                let shared = shared.then(|| reference::SharedExpert {
                    y: &a.shared_output,
                    opened: reference::sigmoid(a.router_logits[experts]),
                });
                let (ids, weights): (Vec<u32>, Vec<f32>) = a.chosen.iter().copied().unzip();
                let bias = bias.map(|id| model.vector(id));
                let (down, bias) = (matrix(model, *down), bias.as_deref());
                reference::expert_down(&down.host(), bias, &ids, &weights, &a.hidden, shared, &mut a.residual);
            }
            Op::Sample => {
                let lane = Lane { position: row.position, ..state.lane };
                a.candidates = vec![reference::sample_best(&a.logits, &lane)];
            }
            Op::List
            | Op::Lookup(_)
            | Op::Propose { .. }
            | Op::Round { .. }
            | Op::MatMul { .. }
            | Op::RouterMul { .. }
            | Op::Route { .. }
            | Op::GateUpMul { .. }
            | Op::ExpertMul { .. }
            | Op::Join { .. }
            | Op::LastRows
            | Op::Dry
            | Op::Adjust
            | Op::Choose
            | Op::Advance { .. }
            | Op::Cancel
            | Op::LogprobShares
            | Op::Logprobs => {}
        }
    }
}

impl Interpreter {
    /// The queries of the present row in a layer, normalised and rotated. `norm` is theirs, where the model has it.
    fn prepared_query(&self, layer: u32, norm: Option<TensorId>) -> Vec<f32> {
        let Self { model, rotation, row, arrays, .. } = self;
        let config = &model.config;
        let norm = norm.map(|id| model.vector(id));
        let norm = norm.as_ref().map(|q| (&q[..], config.rms_eps));
        let angles = angles_at(rotation, config, row.position);
        let mut query = arrays.query.clone();
        for head in query.chunks_exact_mut(config.attention_of_op(layer).head_dim as usize) {
            reference::rope_head(head, norm, angles, pairing(config));
        }
        query
    }

    /// Attends to the cache of a layer from the present row, with prepared queries. `sinks` are the layer's, where the model has them.
    fn attend(&mut self, layer: u32, sinks: Option<TensorId>, query: &[f32]) {
        let Self { model, row, arrays: a, .. } = self;
        let caches = [&a.key_caches[layer as usize][..], &a.value_caches[layer as usize]];
        let sinks = sinks.map(|id| model.vector(id));
        let position = row.position as usize;
        let shape = attention_shape(model.config.attention_of_op(layer));
        a.attended.resize(query.len(), 0.0);
        reference::attention_rows(shape, query, caches, sinks.as_deref(), position, &mut a.attended);
    }

    /// Appends the key and the value of the present row to the caches of a layer. `norm` is that of keys, where the model has it.
    fn append(&mut self, layer: u32, norm: Option<TensorId>) {
        let Self { model, cache, rotation, row, arrays: a, .. } = self;
        let config = &model.config;
        let norm = norm.map(|id| model.vector(id));
        let norm = norm.as_ref().map(|k| (&k[..], config.rms_eps));
        let angles = angles_at(rotation, config, row.position);
        let (mut key, mut value) = (a.key.clone(), a.value.clone());
        let formats = [cache.key_format, cache.value_format];
        let head_size = config.attention_of_op(layer).head_dim as usize;
        reference::append(head_size, norm, angles, pairing(config), formats, [&mut key, &mut value]);
        let first = row.position as usize * key.len();
        for (store, row) in [(&mut a.key_caches[layer as usize], &key), (&mut a.value_caches[layer as usize], &value)] {
            store.resize(store.len().max(first + row.len()), 0.0);
            store[first..first + row.len()].copy_from_slice(row);
        }
    }
}

/// The angles of the pairs of elements that rotate together, at a position.
fn angles_at<'a>(rotation: &'a [[f32; 2]], config: &ModelConfig, position: u32) -> &'a [[f32; 2]] {
    let pairs = (config.rope.dims / 2) as usize;
    &rotation[position as usize * pairs..][..pairs]
}

impl Arrays {
    fn get(&self, array: Array) -> &Vec<f32> {
        match array {
            Array::Residual => &self.residual,
            Array::Normed => &self.normed,
            Array::Query => &self.query,
            Array::Key => &self.key,
            Array::Value => &self.value,
            Array::Attended => &self.attended,
            Array::RouterLogits => &self.router_logits,
            Array::Hidden => &self.hidden,
            Array::DeltaInput => &self.delta_input,
            Array::DeltaConvolved => &self.delta_convolved,
            Array::DeltaBeta => &self.delta_beta,
            Array::DeltaAlpha => &self.delta_alpha,
            Array::DeltaRead => &self.delta_read,
            Array::MixerGate => &self.mixer_gate,
            Array::MtpInput => &self.mtp_input,
            Array::MtpResidual => &self.mtp_residual,
            Array::SharedHidden => &self.shared_hidden,
            Array::SharedOutput => &self.shared_output,
            Array::Logits => &self.logits,
            other => panic!("{other:?} is no operand of a matrix product"),
        }
    }

    fn get_mut(&mut self, array: Array) -> &mut Vec<f32> {
        match array {
            Array::Residual => &mut self.residual,
            Array::MtpInput => &mut self.mtp_input,
            Array::MtpResidual => &mut self.mtp_residual,
            Array::Query => &mut self.query,
            Array::Key => &mut self.key,
            Array::Value => &mut self.value,
            Array::RouterLogits => &mut self.router_logits,
            Array::Hidden => &mut self.hidden,
            Array::DeltaInput => &mut self.delta_input,
            Array::DeltaBeta => &mut self.delta_beta,
            Array::DeltaAlpha => &mut self.delta_alpha,
            Array::MixerGate => &mut self.mixer_gate,
            Array::SharedHidden => &mut self.shared_hidden,
            Array::SharedOutput => &mut self.shared_output,
            Array::Logits => &mut self.logits,
            other => panic!("{other:?} is no result of a matrix product"),
        }
    }
}

/// What opens the gate of a mixer's results, and the number and the size of its heads.
pub(crate) fn head_gate(mixer: &Mixer) -> (Opening, u32, u32) {
    match mixer {
        Mixer::Attention(attention) => (Opening::Sigmoid, attention.n_head, attention.head_dim),
        Mixer::DeltaNet(delta_net) => (Opening::Silu, delta_net.n_value_head, delta_net.head_dim),
    }
}

/// How the weights of the selected experts of a layer are normalised.
pub(crate) fn weighting(part: &FeedForward) -> Weighting {
    match part {
        FeedForward::Experts { weights, .. } if weights.sum == ExpertWeightSum::Part => Weighting::SoftmaxOfAll,
        _ => Weighting::SoftmaxOfChosen,
    }
}

/// Which elements of a head rotate together.
pub(crate) fn pairing(config: &ModelConfig) -> Pairing {
    match config.rope.pairing {
        RopePairing::Halves => Pairing::Halves,
        RopePairing::Neighbours => Pairing::Interleaved,
    }
}

fn attention_shape(attention: &AttentionLayer) -> AttentionShape {
    AttentionShape {
        kv_heads: attention.n_head_kv as usize,
        head_size: attention.head_dim as usize,
        group: (attention.n_head / attention.n_head_kv) as usize,
        window: attention.window,
    }
}

/// A matrix of the model with its bytes.
struct ModelMatrix<'a> {
    tensor: &'a WeightTensor,
    bytes: Cow<'a, [u8]>,
}

impl ModelMatrix<'_> {
    fn host(&self) -> HostMatrix<'_> {
        HostMatrix { format: self.tensor.format, columns: self.tensor.columns as usize, bytes: &self.bytes }
    }
}

fn matrix(model: &Model, id: TensorId) -> ModelMatrix<'_> {
    let tensor = model.weights.tensor(id);
    ModelMatrix { tensor, bytes: model.data(tensor) }
}

fn add(sum: &mut [f32], other: &[f32]) {
    for (sum, other) in sum.iter_mut().zip(other) {
        *sum += other;
    }
}
