//! The launch of each op: its kernel, with the operands that the model has for it.

use zinc_kernels::Dispatch;
use zinc_kernels::ops::{self, ActFormat, Input, Matrix};
use zinc_kernels::step::{Rows, StepShape};

use super::DeviceModel;
use super::record::{Drafted, StepIo};
use crate::interpret::{head_gate, pairing, weighting};
use crate::plan::{Array, GateUpBiases, Lookup, Op, PlanKind, Product, Routing, Sampler};
use crate::weights::TensorId;

impl DeviceModel {
    /// The address of what all rows share.
    fn shared(&self, array: Array) -> u64 {
        self.arrays.addresses[&array]
    }

    /// An activation, of which each row has its own.
    fn rows(&self, array: Array) -> Rows {
        self.arrays.rows(array)
    }

    /// An array as the input of products that compute with `act`: in the form that the op which wrote it has left it in.
    fn input(&self, array: Array, act: ActFormat, io: &StepIo) -> Input {
        let rounded = match array {
            Array::Normed => act == ActFormat::Q14,
            Array::RoundedMtpInput | Array::RoundedHidden | Array::RoundedSharedHidden | Array::RoundedAttended => true,
            Array::Attended => act == ActFormat::Q14 && self.sizes().rounds_attended(&self.target),
            _ => false,
        };
        let rows = self.rows(io.array(array));
        if rounded { Input::Rounded(rows) } else { Input::Floats(rows) }
    }

    fn matrix(&self, id: TensorId) -> Matrix {
        let tensor = self.model.weights.tensor(id);
        Matrix { address: self.weights.address(id), format: tensor.format, rows: tensor.rows, columns: tensor.columns }
    }

    /// Products with their outputs.
    fn products(&self, products: &[Product], io: &StepIo) -> Vec<ops::Product> {
        let of = |product: &Product| ops::Product {
            weights: self.matrix(product.weights),
            bias: product.bias.map(|id| self.weights.address(id)),
            y: self.rows(io.array(product.y)),
        };
        products.iter().map(of).collect()
    }

    /// The addresses of biases.
    fn gate_up_biases(&self, biases: Option<GateUpBiases>) -> Option<ops::GateUpBiases> {
        let address = |id| self.weights.address(id);
        biases.map(|GateUpBiases { gate, up }| ops::GateUpBiases { gate: address(gate), up: address(up) })
    }

    /// The experts that each row chooses in a layer.
    fn selection(&self, layer: u32) -> ops::ExpertSelection {
        let part = self.model.config.feed_forward(layer);
        let (experts, used) = part.experts();
        ops::ExpertSelection {
            logits: self.rows(Array::RouterLogits),
            experts,
            used,
            weighting: weighting(part),
            ids: self.rows(Array::ExpertIds),
            weights: self.rows(Array::ExpertWeights),
        }
    }

    /// What the shared expert of a layer gives.
    fn shared_expert(&self, layer: u32) -> ops::SharedExpert {
        let (experts, _) = self.model.config.feed_forward(layer).experts();
        let Rows { address, stride } = self.rows(Array::RouterLogits);
        // Its logit stands behind those of the others.
        let logit = Rows { address: address + 4 * u64::from(experts), stride };
        ops::SharedExpert { y: self.rows(Array::SharedOutput), logit }
    }

    /// The recurrent states of a layer, one for each lane.
    fn recurrent_states(&self, layer: u32) -> ops::PerLane {
        // A model whose states are larger is refused when it is loaded.
        let stride = self.sizes().recurrent_bytes(layer) as u32;
        ops::PerLane { address: self.shared(Array::Recurrent(layer)), stride }
    }

    /// The rows of a step sorted by the experts of a layer.
    fn tiles(&self, layer: u32) -> ops::Tiles {
        let (experts, used) = self.model.config.feed_forward(layer).experts();
        let [pairs, tiles, grids] = [Array::Pairs, Array::Tiles, Array::Grids].map(|array| self.rows(array).address);
        ops::Tiles { pairs, tiles, grids, experts, used }
    }

    /// Memory for what workgroups that share the groups of a product leave for the last of them: none in a model whose steps have too few rows for
    /// that.
    fn group_values(&self, number: u32) -> ops::GroupValues {
        let array = Array::GroupValues(number);
        let bytes = u64::from(self.arrays.place(array).rows) * self.sizes().bytes(array);
        ops::GroupValues { address: self.rows(array).address, bytes }
    }

    /// Address and bytes of a matrix that idle workgroups are to bring into the device's cache; `None` if the tuning has no use for that.
    fn cacheable(&self, id: TensorId) -> Option<(u64, u32)> {
        let bytes = u32::try_from(self.model.weights.tensor(id).device_bytes()).ok()?;
        self.target.tuning.warm_cache.then(|| (self.weights.address(id), bytes))
    }

    fn sampler_buffers(&self) -> ops::SamplerBuffers {
        ops::SamplerBuffers {
            dry_lengths: self.rows(Array::DryLengths),
            items: self.rows(Array::Items),
            shares: self.rows(Array::Shares),
            moments: self.rows(Array::Moments),
        }
    }

    fn logprob_buffers(&self) -> ops::LogprobBuffers {
        ops::LogprobBuffers {
            items: self.rows(Array::LogprobItems),
            shares: self.rows(Array::LogprobShares),
            masses: self.rows(Array::LogprobMasses),
        }
    }
    /// The launch of an op in a step of this shape.
    pub(super) fn dispatch(&self, op: &Op, io: &StepIo, shape: StepShape) -> Dispatch {
        let (target, config, state) = (&self.target, &self.model.config, io.state);
        let rows = |array: Array| self.rows(io.array(array));
        let weight = |id: TensorId| self.weights.address(id);
        let optional = |id: &Option<TensorId>| id.map(weight);
        let norm_of = |id: TensorId| ops::Norm { weight: weight(id), epsilon: config.rms_eps };
        let head_norm =
            |(q, k): (TensorId, TensorId)| ops::HeadNorm { q: weight(q), k: weight(k), epsilon: config.rms_eps };
        match op {
            Op::List => {
                ops::List { state, wanted: io.wanted, cancelled: io.cancelled, leader: io.leader }.dispatch(target)
            }
            Op::Lookup(Lookup { ngrams, drafts }) => {
                ops::Lookup { state, ngrams: ngrams.clone(), drafts: *drafts }.dispatch(target)
            }
            Op::Propose { drafts } => {
                let (draft, behind) = io.draft;
                ops::Propose { state, draft, behind, drafts: *drafts }.dispatch(target)
            }
            Op::Gather { table, behind, y } => {
                let (table, y) = (self.matrix(*table), rows(*y));
                ops::Gather { state, behind: *behind, table, y, shape }.dispatch(target)
            }
            Op::MtpNorms { embedding_norm, head_norm, hidden_norm } => ops::MtpNorms {
                state,
                x: rows(Array::MtpInput),
                residual: rows(Array::Residual),
                embedding_norm: weight(*embedding_norm),
                head_norm: weight(*head_norm),
                hidden_norm: norm_of(*hidden_norm),
                width: config.n_embd,
                shape,
            }
            .dispatch(target),
            Op::LastAccepted => {
                let Drafted { state: ended, tokens } = io.drafted.unwrap_or_default();
                let (x, y) = (rows(Array::MtpResidual), rows(Array::Residual).address);
                let (width, shape) = (config.n_embd, StepShape::filled_by(self.counts().rows));
                ops::LastAccepted { state: ended, draft: state, tokens, x, y, width, shape }.dispatch(target)
            }
            Op::Round { x, norm, y, vectors, columns, ordered } => ops::Round {
                state,
                x: match norm {
                    Some(norm) => Input::Normalised(rows(*x), norm_of(*norm)),
                    None => Input::Floats(rows(*x)),
                },
                y: rows(*y),
                vectors: *vectors,
                columns: *columns,
                ordered: *ordered,
                shape,
            }
            .dispatch(target),
            Op::MatVec { products, x, norm, act, accumulate } => {
                let products = self.products(products, io);
                ops::MatVec {
                    state,
                    products: &products,
                    x: match norm {
                        Some(norm) => Input::Normalised(rows(*x), norm_of(*norm)),
                        None => self.input(*x, *act, io),
                    },
                    act: *act,
                    accumulate: *accumulate,
                    shape,
                }
                .dispatch(target)
            }
            Op::MatMul { products, x, accumulate, group_values } => {
                let products = self.products(products, io);
                let (x, accumulate) = (rows(*x), *accumulate);
                let group_values = group_values.map(|number| self.group_values(number));
                ops::MatMul { state, products: &products, x, accumulate, tiles: None, group_values, shape }
                    .dispatch(target)
            }
            Op::Append { layer, norms, queries } => ops::Append {
                state,
                q: queries.then(|| rows(Array::Query)),
                k: rows(Array::Key),
                v: rows(Array::Value),
                norm: norms.map(head_norm),
                rotation: self.rotation.address(),
                key_cache: self.shared(Array::KeyCache(*layer)),
                value_cache: self.shared(Array::ValueCache(*layer)),
                lane_pages: self.cache.lane_pages(),
                ring_pages: self.sizes().ring_pages(*layer),
                key_format: self.cache.key_format,
                value_format: self.cache.value_format,
                heads: self.sizes().heads(*layer),
                rotated: config.rope.dims,
                pairing: pairing(config),
                shape,
            }
            .dispatch(target),
            Op::AttentionRows { layer, sinks } => ops::AttentionRows {
                state,
                q: rows(Array::Query),
                key_cache: self.shared(Array::KeyCache(*layer)),
                value_cache: self.shared(Array::ValueCache(*layer)),
                lane_pages: self.cache.lane_pages(),
                ring_pages: self.sizes().ring_pages(*layer),
                y: rows(Array::Attended),
                key_format: self.cache.key_format,
                value_format: self.cache.value_format,
                heads: self.sizes().heads(*layer),
                context: self.cache.context,
                window: config.attention_of_op(*layer).window,
                sinks: optional(sinks),
                shape,
            }
            .dispatch(target),
            Op::Attention { layer, norms, sinks, act, next } => ops::Attention {
                state,
                q: rows(Array::Query),
                k: rows(Array::Key),
                v: rows(Array::Value),
                norm: norms.map(head_norm),
                rotation: self.rotation.address(),
                key_cache: self.shared(Array::KeyCache(*layer)),
                value_cache: self.shared(Array::ValueCache(*layer)),
                lane_pages: self.cache.lane_pages(),
                ring_pages: self.sizes().ring_pages(*layer),
                partials: rows(Array::Partials).address,
                counters: rows(Array::Counters).address,
                y: rows(Array::Attended),
                rounded: matches!(self.input(Array::Attended, *act, io), Input::Rounded(_)),
                key_format: self.cache.key_format,
                value_format: self.cache.value_format,
                heads: self.sizes().heads(*layer),
                rotated: config.rope.dims,
                pairing: pairing(config),
                next: self.cacheable(*next),
                context: self.cache.context,
                window: config.attention_of_op(*layer).window,
                sinks: optional(sinks),
                shape,
            }
            .dispatch(target),
            Op::DeltaConv { layer, weights } => ops::DeltaConv {
                state,
                x: rows(Array::DeltaInput),
                weights: weight(*weights),
                recurrent: self.recurrent_states(*layer),
                y: rows(Array::DeltaConvolved),
                heads: config.delta_net_of_op(*layer).heads(),
                drafts: self.cache.drafts,
                shape,
            }
            .dispatch(target),
            Op::DeltaNet { layer, alpha_bias, decay } => ops::DeltaNet {
                state,
                x: rows(Array::DeltaConvolved),
                beta: rows(Array::DeltaBeta),
                alpha: rows(Array::DeltaAlpha),
                alpha_bias: weight(*alpha_bias),
                decay: weight(*decay),
                recurrent: self.recurrent_states(*layer),
                y: rows(Array::DeltaRead),
                heads: config.delta_net_of_op(*layer).heads(),
                drafts: self.cache.drafts,
                lanes: self.cache.lanes.min(shape.rows()),
                shape,
            }
            .dispatch(target),
            Op::HeadGate { layer, x, norm, y, ordered } => {
                let (opening, heads, head_size) = head_gate(&config.block(*layer).mixer);
                ops::HeadGate {
                    state,
                    x: rows(*x),
                    gate: rows(Array::MixerGate),
                    norm: norm.map(norm_of),
                    opening,
                    y: rows(*y),
                    heads,
                    head_size,
                    act: if *y == Array::RoundedAttended { ActFormat::Q14 } else { ActFormat::F32 },
                    ordered: *ordered,
                    shape,
                }
                .dispatch(target)
            }
            Op::RouterMul { norm, matrix, bias } => ops::RouterMul {
                state,
                x: rows(Array::Residual),
                norm: norm_of(*norm),
                matrix: self.matrix(*matrix),
                bias: optional(bias),
                logits: rows(Array::RouterLogits),
                shape,
            }
            .dispatch(target),
            Op::Router { norm, matrix, bias, act, ordered } => ops::Router {
                state,
                x: rows(Array::Residual),
                norm: norm_of(*norm),
                matrix: self.matrix(*matrix),
                bias: optional(bias),
                y: rows(Array::Normed),
                act: *act,
                ordered: *ordered,
                logits: rows(Array::RouterLogits),
                shape,
            }
            .dispatch(target),
            Op::GateUp { layer, gate, up, biases, routing, act, y } => {
                let (routing, x) = match routing {
                    Routing::Dense { norm } => {
                        let x = match norm {
                            Some(norm) => Input::Normalised(rows(Array::Residual), norm_of(*norm)),
                            None => self.input(Array::Normed, *act, io),
                        };
                        (ops::Routing::Dense, x)
                    }
                    Routing::Experts => {
                        (ops::Routing::Experts(self.selection(*layer)), self.input(Array::Normed, *act, io))
                    }
                };
                ops::GateUp {
                    state,
                    gate: self.matrix(*gate),
                    up: self.matrix(*up),
                    routing,
                    x,
                    act: *act,
                    biases: self.gate_up_biases(*biases),
                    activation: config.feed_forward(*layer).activation(),
                    y: rows(*y),
                    shape,
                }
                .dispatch(target)
            }
            Op::Route { layer, gate, up, down } => ops::Route {
                state,
                selection: self.selection(*layer),
                tiles: self.tiles(*layer),
                gate: self.matrix(*gate),
                up: self.matrix(*up),
                down: self.matrix(*down),
                counters: rows(Array::Counters).address,
                shape,
            }
            .dispatch(target),
            Op::GateUpMul { layer, gate, up, biases, experts, y } => ops::GateUpMul {
                state,
                gate: self.matrix(*gate),
                up: self.matrix(*up),
                tiles: experts.then(|| self.tiles(*layer)),
                group_values: (!experts).then(|| self.group_values(0)),
                x: rows(Array::Normed),
                biases: self.gate_up_biases(*biases),
                activation: config.feed_forward(*layer).activation(),
                y: rows(*y),
                shape,
            }
            .dispatch(target),
            Op::ExpertMul { layer, down, bias } => {
                let products = [ops::Product {
                    weights: self.matrix(*down),
                    bias: optional(bias),
                    y: rows(Array::ExpertProducts),
                }];
                ops::MatMul {
                    state,
                    products: &products,
                    x: rows(Array::RoundedHidden),
                    accumulate: false,
                    tiles: Some(self.tiles(*layer)),
                    group_values: None,
                    shape,
                }
                .dispatch(target)
            }
            Op::Join { layer, shared } => ops::Join {
                state,
                products: rows(Array::ExpertProducts),
                weights: rows(Array::ExpertWeights),
                shared: shared.then(|| self.shared_expert(*layer)),
                y: rows(Array::Residual),
                width: config.n_embd,
                slots: config.feed_forward(*layer).experts().1,
                shape,
            }
            .dispatch(target),
            Op::ExpertDown { layer, down, bias, h, act, shared } => {
                let (experts, slots) = config.feed_forward(*layer).experts();
                ops::ExpertDown {
                    state,
                    down: self.matrix(*down),
                    bias: optional(bias),
                    experts,
                    ids: rows(Array::ExpertIds),
                    weights: rows(Array::ExpertWeights),
                    h: self.input(*h, *act, io),
                    shared: shared.then(|| self.shared_expert(*layer)),
                    act: *act,
                    y: rows(Array::Residual),
                    slots,
                    shape,
                }
                .dispatch(target)
            }
            Op::Sample => ops::Sample {
                state,
                logits: rows(Array::Logits),
                candidates: rows(Array::Candidates),
                vocabulary: config.n_vocab,
                shape,
            }
            .dispatch(target),
            Op::Dry => ops::Dry { state, buffers: self.sampler_buffers(), shape }.dispatch(target),
            Op::Adjust => ops::Adjust {
                state,
                logits: rows(Array::Logits),
                buffers: self.sampler_buffers(),
                step_inputs: io.step_inputs,
                vocabulary: config.n_vocab,
                shape,
            }
            .dispatch(target),
            Op::Choose => ops::Choose {
                state,
                logits: rows(Array::Logits),
                buffers: self.sampler_buffers(),
                candidates: rows(Array::Candidates),
                vocabulary: config.n_vocab,
                shape,
            }
            .dispatch(target),
            Op::LogprobShares => ops::LogprobShares {
                state,
                logits: rows(Array::Logits),
                buffers: self.logprob_buffers(),
                vocabulary: config.n_vocab,
                shape,
            }
            .dispatch(target),
            Op::Logprobs => ops::Logprobs {
                state,
                buffers: self.logprob_buffers(),
                reports: io.logprobs,
                vocabulary: config.n_vocab,
                shape,
            }
            .dispatch(target),
            Op::LastRows => ops::LastRows {
                state,
                x: rows(Array::Residual),
                width: config.n_embd,
                shape: StepShape::filled_by(self.counts().rows),
            }
            .dispatch(target),
            Op::Cancel => ops::Cancel { state, cancelled: io.cancelled }.dispatch(target),
            Op::Advance { kind, sampler } => ops::Advance {
                state,
                reports: io.reports,
                cancelled: io.cancelled,
                candidates: rows(Array::Candidates),
                candidate_count: match (kind, sampler) {
                    (PlanKind::Feed, _) => 0,
                    (PlanKind::Decode, Sampler::Plain) => ops::candidate_count(config.n_vocab),
                    (PlanKind::Decode, Sampler::Chain { .. } | Sampler::Host) => 1,
                },
                choices: io.choices,
                // A step that samples after few rows may have fed others.
                lanes: self.cache.lanes,
                shape,
            }
            .dispatch(target),
        }
    }
}
