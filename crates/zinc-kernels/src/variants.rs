//! Representative launches of every kernel, for tools that compile kernels without running them.
//!
//! The shapes are those of one decode step of Qwen3-30B-A3B: 2,048 wide, 32 query and 4 key-value heads of 128, 128 experts of
//! 768 of which 8 are chosen, a vocabulary of 151,936. What Qwen3.6-35B-A3B and Qwen3.8-27B have of their own is in the file `qwen35`, and what
//! gpt-oss-20b has in `gpt_oss`. All addresses are 0: nothing here may be dispatched.

mod gpt_oss;
mod qwen35;

use crate::formats::Format;
use crate::kernel::{Dispatch, HalfUnits, Target, Units};
use crate::ops::{
    ActFormat, Activation, Adjust, Advance, Attention, AttentionRows, CacheFormat, Cancel, CheckBytes, CheckHalves,
    Choose, Dry, ExpertDown, ExpertSelection, GateUp, GateUpMul, Gather, GroupValues, HeadNorm, Heads, Input, Join,
    LastAccepted, LastRows, List, LogprobBuffers, LogprobShares, Logprobs, Lookup, MatMul, MatVec, Matrix, MtpNorms,
    Norm, Pairing, PerLane, Product, Propose, Read, Round, Route, Router, RouterMul, Routing, Sample, SamplerBuffers,
    SharedExpert, Tiles, Weighting, candidate_count,
};
use crate::step::{MOST_RUN, Rows, StepShape};

const WIDTH: u32 = 2_048;
const HEADS: Heads = Heads { query_heads: 32, kv_heads: 4, head_size: 128 };
const EXPERTS: u32 = 128;
const USED_EXPERTS: u32 = 8;
const EXPERT_WIDTH: u32 = 768;
const VOCABULARY: u32 = 151_936;
const EPSILON: f32 = 1e-6;
const ONE: StepShape = StepShape::ONE;
const NOWHERE: Rows = Rows::one(0);

/// A kernel with one choice of its specialisation constants, and a launch that uses it.
#[derive(Clone, Debug)]
pub struct Variant {
    /// What the choice is; unique among the variants of a kernel.
    pub label: String,
    /// The launch, with null addresses.
    pub dispatch: Dispatch,
}

/// The launches of a `Q4_K_M` file, which mixes Q4_K with Q6_K, and a matrix product for each weight format.
#[must_use]
pub fn variants(target: &Target) -> Vec<Variant> {
    let mut list = Vec::new();
    let mut add = |label: &str, dispatch| list.push(Variant { label: label.to_owned(), dispatch });

    let table = matrix(Format::Q4K, VOCABULARY, WIDTH);
    for (label, behind) in [("Q4_K", false), ("Q4_K, behind", true)] {
        add(label, Gather { state: 0, behind, table, y: NOWHERE, shape: ONE }.dispatch(target));
    }
    for (label, dispatch) in products(target) {
        add(&label, dispatch);
    }
    for format in [CacheFormat::F16, CacheFormat::F32] {
        let (label, attention) =
            (if format == CacheFormat::F16 { "f16 cache" } else { "f32 cache" }, attention(format));
        let (append, rows) = attention.in_two();
        let rows = AttentionRows { shape: StepShape::MOST, ..rows };
        add(label, append.dispatch(target));
        for form in attention_forms(target, HEADS, format) {
            add(label, attention.dispatch(&form));
            add(label, rows.dispatch(&form));
            let windowed = Attention { norm: None, window: Some(128), sinks: Some(0), ..attention };
            let label = format!("{label}, window, sinks");
            add(&label, windowed.dispatch(&form));
            add(&label, AttentionRows { window: windowed.window, sinks: windowed.sinks, ..rows }.dispatch(&form));
        }
    }
    add("F32", router().dispatch(target));
    let routing = Routing::Experts(SELECTION);
    let experts = gate_up(EXPERT_WIDTH, routing, Input::Rounded(NOWHERE));
    add("experts Q4_K", experts.dispatch(target));
    add("experts Q4_K, 16 rows", GateUp { shape: StepShape::SEVERAL, ..experts }.dispatch(target));
    for (label, dispatch) in many_rows(target) {
        add(&label, dispatch);
    }
    add("dense Q4_K", gate_up(EXPERT_WIDTH * USED_EXPERTS, Routing::Dense, NORMALISED).dispatch(target));
    for format in [Format::Q4K, Format::Q6K] {
        add(format.name(), expert_down(format).dispatch(target));
    }
    for (label, dispatch) in qwen35::variants(target).into_iter().chain(gpt_oss::variants(target)) {
        add(label, dispatch);
    }
    let sample = Sample { state: 0, logits: NOWHERE, candidates: NOWHERE, vocabulary: VOCABULARY, shape: ONE };
    add("", sample.dispatch(target));
    for dispatch in sampler_chain(target) {
        add("", dispatch);
    }
    for (label, x) in [("floats", Input::Floats(NOWHERE)), ("normalised", NORMALISED)] {
        add(
            label,
            Round { state: 0, x, y: NOWHERE, vectors: 1, columns: 3 * WIDTH, ordered: false, shape: ONE }
                .dispatch(target),
        );
    }
    add("", Read { state: 0, x: 0, tiles: 0, y: 0, workgroups: 1 }.dispatch(target));
    add("", Lookup { state: 0, ngrams: 2..=4, drafts: MOST_RUN - 1 }.dispatch(target));
    add("", Propose { state: 0, draft: 0, behind: 0, drafts: MOST_RUN - 1 }.dispatch(target));
    let advance = Advance {
        state: 0,
        reports: PerLane::default(),
        cancelled: 0,
        candidates: NOWHERE,
        candidate_count: candidate_count(VOCABULARY),
        choices: PerLane::default(),
        lanes: 1,
        shape: ONE,
    };
    add("", advance.dispatch(target));
    add("", List { state: 0, wanted: 0, cancelled: 0, leader: 0 }.dispatch(target));
    add("", Cancel { state: 0, cancelled: 0 }.dispatch(target));
    let units = target.units.unwrap_or(Units { depth: 16, emulated: false });
    add("", CheckBytes { state: 0, y: 0, rounds: 0, workgroups: 1 }.dispatch(target, units));
    let half_units = HalfUnits { emulated: false };
    add("", CheckHalves { state: 0, y: 0, rounds: 0, workgroups: 1 }.dispatch(target, half_units));
    add("", LastRows { state: 0, x: NOWHERE, width: WIDTH, shape: ONE }.dispatch(target));
    let last_accepted = LastAccepted { state: 0, draft: 0, tokens: None, x: NOWHERE, y: 0, width: WIDTH, shape: ONE };
    add("", last_accepted.dispatch(target));
    let mtp_norms = MtpNorms {
        state: 0,
        x: NOWHERE,
        residual: NOWHERE,
        embedding_norm: 0,
        head_norm: 0,
        hidden_norm: NORM,
        width: WIDTH,
        shape: ONE,
    };
    add("", mtp_norms.dispatch(target));
    list
}

/// Activations of a layer as they are unless asked otherwise.
const ACT: ActFormat = ActFormat::Q14;
const NORM: Norm = Norm { weight: 0, epsilon: EPSILON };
const NORMALISED: Input = Input::Normalised(NOWHERE, NORM);

const SHARED_EXPERT: Option<SharedExpert> = Some(SharedExpert { y: NOWHERE, logit: NOWHERE });

const SELECTION: ExpertSelection = ExpertSelection {
    logits: NOWHERE,
    experts: EXPERTS,
    used: USED_EXPERTS,
    weighting: Weighting::SoftmaxOfChosen,
    ids: NOWHERE,
    weights: NOWHERE,
};

fn matrix(format: Format, rows: u32, columns: u32) -> Matrix {
    Matrix { address: 0, format, rows, columns }
}

fn product(format: Format, rows: u32, columns: u32) -> Product {
    Product { weights: matrix(format, rows, columns), bias: None, y: NOWHERE }
}

/// The target with the forms of attention: by subgroups, and by matrix units where these suit the heads, the cache's format and the shared memory.
fn attention_forms(target: &Target, heads: Heads, format: CacheFormat) -> impl Iterator<Item = Target> {
    let forms = [None, Some(HalfUnits { emulated: false })].map(|half_units| Target { half_units, ..*target });
    forms.into_iter().filter(move |form| form.half_units.is_none() || heads.units(form, [format; 2]).is_some())
}

/// The target with the forms of products in steps of many rows: by dot products, and by matrix units, those of the target or of RDNA4's depth.
fn product_forms(target: &Target) -> [Target; 2] {
    let units = target.units.unwrap_or(Units { depth: 16, emulated: false });
    [None, Some(units)].map(|units| Target { units, ..*target })
}

/// Launches of `mat_vec`: those of a layer, the head, and every format with each form of activations that it can meet.
fn products(target: &Target) -> Vec<(String, Dispatch)> {
    let Heads { query_heads, kv_heads, head_size } = HEADS;
    let (query_rows, kv_rows) = (query_heads * head_size, kv_heads * head_size);
    let mut list = Vec::new();
    let mut add = |label: String, products: &[Product], act, x, accumulate, shape| {
        let launch = MatVec { state: 0, products, x, act, accumulate, shape };
        list.push((label, launch.dispatch(target)));
    };
    for value in [Format::Q4K, Format::Q6K] {
        let products = [(Format::Q4K, query_rows), (Format::Q4K, kv_rows), (value, kv_rows)]
            .map(|(f, rows)| product(f, rows, WIDTH));
        add(format!("q, k Q4_K, v {value}"), &products, ACT, NORMALISED, false, ONE);
        let several = format!("q, k Q4_K, v {value}, 16 rows");
        add(several, &products, ACT, Input::Rounded(NOWHERE), false, StepShape::SEVERAL);
    }
    add("output Q4_K".to_owned(), &[product(Format::Q4K, WIDTH, query_rows)], ACT, Input::Rounded(NOWHERE), true, ONE);
    add("head Q6_K".to_owned(), &[product(Format::Q6K, VOCABULARY, WIDTH)], ACT, NORMALISED, false, ONE);
    for (form, act) in [("q14", ActFormat::Q14), ("f32", ActFormat::F32)] {
        for format in Format::ALL.into_iter().filter(|format| act == ActFormat::F32 || !format.is_float()) {
            add(
                format!("{form} x {format}"),
                &[product(format, WIDTH, WIDTH)],
                act,
                Input::Floats(NOWHERE),
                false,
                ONE,
            );
        }
    }
    list
}

/// The kernels of a layer in a step that feeds many rows.
fn many_rows(target: &Target) -> Vec<(String, Dispatch)> {
    let (state, shape) = (0, StepShape::MOST);
    let Heads { query_heads, kv_heads, head_size } = HEADS;
    let tiles = Tiles { pairs: 0, tiles: 0, grids: 0, experts: EXPERTS, used: USED_EXPERTS };
    let gate = matrix(Format::Q4K, EXPERT_WIDTH, WIDTH);
    let down = matrix(Format::Q4K, WIDTH, EXPERT_WIDTH);
    let route = Route { state, selection: SELECTION, tiles, gate, up: gate, down, counters: 0, shape };
    let mut list = vec![(String::new(), route.dispatch(target))];
    let forms = product_forms(target);
    let mut mat_mul = |label: String, products: &[Product], accumulate, tiles| {
        let launch = MatMul { state, products, x: NOWHERE, accumulate, tiles, group_values: None, shape };
        list.extend(forms.iter().map(|target| (label.clone(), launch.dispatch(target))));
    };
    for value in [Format::Q4K, Format::Q6K] {
        let products = [(Format::Q4K, query_heads), (Format::Q4K, kv_heads), (value, kv_heads)]
            .map(|(format, heads)| product(format, heads * head_size, WIDTH));
        mat_mul(format!("q, k Q4_K, v {value}"), &products, false, None);
        mat_mul(format!("experts {value}"), &[product(value, WIDTH, EXPERT_WIDTH)], false, Some(tiles));
    }
    mat_mul("output Q4_K".to_owned(), &[product(Format::Q4K, WIDTH, query_heads * head_size)], true, None);
    // Steps of few rows, in which workgroups share groups.
    let group_values = Some(GroupValues { address: 0, bytes: 64 << 20 });
    let output = [product(Format::Q4K, WIDTH, query_heads * head_size)];
    let shared_out = MatMul {
        state,
        products: &output,
        x: NOWHERE,
        accumulate: true,
        tiles: None,
        group_values,
        shape: StepShape::of(32),
    };
    list.push(("output Q4_K, 32 rows".to_owned(), shared_out.dispatch(&forms[1])));
    let activation = Activation::SwiGlu;
    let gate_up = GateUpMul {
        state,
        gate,
        up: gate,
        tiles: Some(tiles),
        group_values: None,
        x: NOWHERE,
        biases: None,
        activation,
        y: NOWHERE,
        shape,
    };
    list.extend(forms.iter().map(|target| ("experts Q4_K".to_owned(), gate_up.dispatch(target))));
    let shared_out = GateUpMul { tiles: None, group_values, shape: StepShape::SEVERAL, ..gate_up };
    list.push(("dense Q4_K, 16 rows".to_owned(), shared_out.dispatch(&forms[1])));
    let (products, weights, y) = (NOWHERE, NOWHERE, NOWHERE);
    let router = router();
    let (x, norm, matrix, bias, logits) = (router.x, router.norm, router.matrix, router.bias, router.logits);
    list.push(("F32".to_owned(), RouterMul { state, x, norm, matrix, bias, logits, shape }.dispatch(target)));
    let join = Join { state, products, weights, shared: None, y, width: WIDTH, slots: USED_EXPERTS, shape };
    list.push((String::new(), join.dispatch(target)));
    list.push(("shared expert".to_owned(), Join { shared: SHARED_EXPERT, ..join }.dispatch(target)));
    list
}

/// The sampler chain, and log-probabilities.
fn sampler_chain(target: &Target) -> [Dispatch; 5] {
    let (state, logits, candidates) = (0, NOWHERE, NOWHERE);
    let (step_inputs, reports) = (PerLane::default(), PerLane::default());
    let logprobs = LogprobBuffers::default();
    let (buffers, vocabulary, shape) = (SamplerBuffers::default(), VOCABULARY, ONE);
    [
        Dry { state, buffers, shape }.dispatch(target),
        Adjust { state, logits, buffers, step_inputs, vocabulary, shape }.dispatch(target),
        Choose { state, logits, buffers, candidates, vocabulary, shape }.dispatch(target),
        LogprobShares { state, logits, buffers: logprobs, vocabulary, shape }.dispatch(target),
        Logprobs { state, buffers: logprobs, reports, vocabulary, shape }.dispatch(target),
    ]
}

fn attention(format: CacheFormat) -> Attention {
    Attention {
        state: 0,
        q: NOWHERE,
        k: NOWHERE,
        v: NOWHERE,
        norm: Some(HeadNorm { q: 0, k: 0, epsilon: EPSILON }),
        rotation: 0,
        key_cache: 0,
        value_cache: 0,
        lane_pages: 0,
        ring_pages: 0,
        partials: 0,
        counters: 0,
        y: NOWHERE,
        rounded: true,
        key_format: format,
        value_format: format,
        heads: HEADS,
        rotated: HEADS.head_size,
        pairing: Pairing::Halves,
        next: None,
        context: 16_384,
        window: None,
        sinks: None,
        shape: ONE,
    }
}

fn router() -> Router {
    let matrix = matrix(Format::F32, EXPERTS, WIDTH);
    Router {
        state: 0,
        x: NOWHERE,
        norm: NORM,
        matrix,
        bias: None,
        y: NOWHERE,
        act: ACT,
        ordered: false,
        logits: NOWHERE,
        shape: ONE,
    }
}

fn gate_up(rows: u32, routing: Routing, x: Input) -> GateUp {
    let gate = matrix(Format::Q4K, rows, WIDTH);
    let (biases, activation) = (None, Activation::SwiGlu);
    GateUp { state: 0, gate, up: gate, routing, x, act: ACT, biases, activation, y: NOWHERE, shape: ONE }
}

fn expert_down(format: Format) -> ExpertDown {
    ExpertDown {
        state: 0,
        down: matrix(format, WIDTH, EXPERT_WIDTH),
        bias: None,
        experts: EXPERTS,
        ids: NOWHERE,
        weights: NOWHERE,
        h: Input::Floats(NOWHERE),
        shared: None,
        act: ACT,
        y: NOWHERE,
        slots: USED_EXPERTS,
        shape: ONE,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_two_variants_share_a_name_or_compile_to_the_same_code() {
        let (mut names, mut codes) = (HashSet::new(), HashSet::new());
        for Variant { label, dispatch } in variants(&Target::new(32)) {
            let kernel = dispatch.kernel.name;
            assert!(names.insert((kernel, label.clone())), "{kernel}, {label}: named twice");
            assert!(codes.insert((kernel, dispatch.constants)), "{kernel}, {label}: the constants of another variant");
        }
    }
}
