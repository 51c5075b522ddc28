//! Launches of Qwen3.6-35B-A3B and of Qwen3.8-27B, in the formats that their popular files have, where they differ from those of other models.
//!
//! Qwen3.6-35B-A3B is 2,048 wide, with 16 query and 2 key-value heads of 256, delta nets of 16 key and 32 value heads of 128, and 256 experts of 512 of which 8
//! are chosen. Qwen3.8-27B is 5,120 wide, its delta nets have 48 value heads, and its dense part is 17,408 wide.

use super::{
    ACT, NORM, NORMALISED, NOWHERE, ONE, SELECTION, SHARED_EXPERT, USED_EXPERTS, WIDTH, attention, expert_down,
    gate_up, matrix, product, product_forms,
};
use crate::formats::Format;
use crate::kernel::{Dispatch, Target};
use crate::ops::{
    Activation, Attention, AttentionRows, CacheFormat, DeltaConv, DeltaHeads, DeltaNet, ExpertDown, ExpertSelection,
    GateUp, GateUpMul, HeadGate, HeadOrder, Heads, Input, MatMul, MatVec, Opening, PerLane, Product, Routing, Tiles,
};
use crate::step::StepShape;

const HEADS: Heads = Heads { query_heads: 16, kv_heads: 2, head_size: 256 };
const DELTA_HEADS: DeltaHeads = DeltaHeads { key_heads: 16, value_heads: 32, head_size: 128, order: HeadOrder::Tiled };
/// Of Qwen3.8-27B.
const DENSE_DELTA_HEADS: DeltaHeads = DeltaHeads { value_heads: 48, ..DELTA_HEADS };
const EXPERTS: u32 = 256;
const EXPERT_WIDTH: u32 = 512;
/// Of Qwen3.8-27B.
const DENSE_WIDTH: u32 = 5_120;
/// The width of the dense part of Qwen3.8-27B.
const DENSE_HIDDEN: u32 = 17_408;

/// The launches, with their labels.
pub(super) fn variants(target: &Target) -> Vec<(&'static str, Dispatch)> {
    let mut list = Vec::from(attention_of_256(target));
    list.extend(delta_net(target));
    list.extend(head_gates(target));
    list.extend(few_rows(target));
    list.extend(many_rows(target));
    list
}

/// Attention by heads of 256, of which a quarter rotates. A gate behind it takes what it gives, in f32. The forms by matrix units are left out: they spill on
/// gfx1201, where they are not used.
fn attention_of_256(target: &Target) -> [(&'static str, Dispatch); 3] {
    let target = &Target { half_units: None, ..*target };
    let attention = Attention { heads: HEADS, rotated: 64, rounded: false, ..attention(CacheFormat::F16) };
    let (append, rows) = attention.in_two();
    let rows = AttentionRows { shape: StepShape::MOST, ..rows };
    [append.dispatch(target), attention.dispatch(target), rows.dispatch(target)].map(|launch| ("heads of 256", launch))
}

/// The kernels of a gated delta net.
fn delta_net(target: &Target) -> [(&'static str, Dispatch); 4] {
    let (state, heads, recurrent) = (0, DELTA_HEADS, PerLane::default());
    let conv = DeltaConv { state, x: NOWHERE, weights: 0, recurrent, y: NOWHERE, heads, drafts: 0, shape: ONE };
    let net = DeltaNet {
        state,
        x: NOWHERE,
        beta: NOWHERE,
        alpha: NOWHERE,
        alpha_bias: 0,
        decay: 0,
        recurrent,
        y: NOWHERE,
        heads,
        drafts: 0,
        lanes: 1,
        shape: ONE,
    };
    [
        ("one row", conv.dispatch(target)),
        ("many rows", DeltaConv { shape: StepShape::MOST, ..conv }.dispatch(target)),
        ("without drafts", net.dispatch(target)),
        ("3 drafts", DeltaNet { drafts: 3, ..net }.dispatch(target)),
    ]
}

/// The gates of a delta net, and those of attention.
fn head_gates(target: &Target) -> [(&'static str, Dispatch); 2] {
    let DeltaHeads { value_heads, head_size, .. } = DELTA_HEADS;
    let delta = HeadGate {
        state: 0,
        x: NOWHERE,
        gate: NOWHERE,
        norm: Some(NORM),
        opening: Opening::Silu,
        y: NOWHERE,
        heads: value_heads,
        head_size,
        act: ACT,
        ordered: false,
        shape: ONE,
    };
    let Heads { query_heads, head_size, .. } = HEADS;
    let attention = HeadGate { norm: None, opening: Opening::Sigmoid, heads: query_heads, head_size, ..delta };
    [("silu, normalised", delta.dispatch(target)), ("sigmoid", attention.dispatch(target))]
}

/// The products of a delta net for queries, keys and values together, and for its gate.
fn projections(heads: DeltaHeads, format: Format, width: u32) -> [Product; 2] {
    [heads.channels(), heads.values()].map(|rows| product(format, rows, width))
}

/// Products, experts and dense parts in steps of few rows.
fn few_rows(target: &Target) -> Vec<(&'static str, Dispatch)> {
    let mut list = Vec::new();
    let mut mat_vec = |label, products: &[Product], x, accumulate, shape| {
        let launch = MatVec { state: 0, products, x, act: ACT, accumulate, shape };
        list.push((label, launch.dispatch(target)));
    };
    let rounded = Input::Rounded(NOWHERE);
    let gates = [DELTA_HEADS.value_heads; 2].map(|rows| product(Format::Q8_0, rows, WIDTH));
    mat_vec("beta, alpha Q8_0", &gates, NORMALISED, false, ONE);
    mat_vec("delta q, k, v and gate Q8_0", &projections(DELTA_HEADS, Format::Q8_0, WIDTH), NORMALISED, false, ONE);
    let dense = projections(DENSE_DELTA_HEADS, Format::Q6K, DENSE_WIDTH);
    mat_vec("delta q, k, v and gate Q6_K, 5,120 wide", &dense, rounded, false, ONE);
    mat_vec("delta q, k, v and gate Q6_K, 5,120 wide, 4 rows", &dense, rounded, false, StepShape::FOUR);
    let down = product(Format::Q5K, DENSE_WIDTH, DENSE_HIDDEN);
    mat_vec("down Q5_K, 17,408 columns", &[down], rounded, true, ONE);
    mat_vec("down Q5_K, 17,408 columns, 4 rows", &[down], rounded, true, StepShape::FOUR);

    let routing = Routing::Experts(ExpertSelection { experts: EXPERTS, ..SELECTION });
    list.push(("256 experts Q4_K", gate_up(EXPERT_WIDTH, routing, rounded).dispatch(target)));
    let shared = matrix(Format::Q8_0, EXPERT_WIDTH, WIDTH);
    let shared = GateUp { gate: shared, up: shared, ..gate_up(EXPERT_WIDTH, Routing::Dense, NORMALISED) };
    list.push(("shared expert Q8_0", shared.dispatch(target)));
    let gate = matrix(Format::Q4K, DENSE_HIDDEN, DENSE_WIDTH);
    let dense = GateUp { gate, up: gate, ..gate_up(DENSE_HIDDEN, Routing::Dense, rounded) };
    list.push(("dense Q4_K, 5,120 wide", dense.dispatch(target)));
    list.push(("dense Q4_K, 5,120 wide, 4 rows", GateUp { shape: StepShape::FOUR, ..dense }.dispatch(target)));
    let down = matrix(Format::Q5K, WIDTH, EXPERT_WIDTH);
    let down = ExpertDown { down, experts: EXPERTS, shared: SHARED_EXPERT, ..expert_down(Format::Q5K) };
    list.push(("256 experts Q5_K, shared expert", down.dispatch(target)));
    list
}

/// Products, experts and dense parts in steps of many rows.
fn many_rows(target: &Target) -> Vec<(&'static str, Dispatch)> {
    let (state, x, y, shape) = (0, NOWHERE, NOWHERE, StepShape::MOST);
    let tiles = Some(Tiles { pairs: 0, tiles: 0, grids: 0, experts: EXPERTS, used: USED_EXPERTS });
    let mut list = Vec::new();
    for target in product_forms(target) {
        let mut mat_mul = |label, products: &[Product], accumulate, tiles| {
            list.push((
                label,
                MatMul { state, products, x, accumulate, tiles, group_values: None, shape }.dispatch(&target),
            ));
        };
        mat_mul("delta q, k, v and gate Q8_0", &projections(DELTA_HEADS, Format::Q8_0, WIDTH), false, None);
        let dense = projections(DENSE_DELTA_HEADS, Format::Q6K, DENSE_WIDTH);
        mat_mul("delta q, k, v and gate Q6_K, 5,120 wide", &dense, false, None);
        mat_mul("down Q5_K, 17,408 columns", &[product(Format::Q5K, DENSE_WIDTH, DENSE_HIDDEN)], true, None);
        mat_mul("256 experts Q5_K", &[product(Format::Q5K, WIDTH, EXPERT_WIDTH)], false, tiles);
        let mut gate_up_mul = |label, gate, tiles| {
            let activation = Activation::SwiGlu;
            let launch =
                GateUpMul { state, gate, up: gate, tiles, group_values: None, x, biases: None, activation, y, shape };
            list.push((label, launch.dispatch(&target)));
        };
        gate_up_mul("shared expert Q8_0", matrix(Format::Q8_0, EXPERT_WIDTH, WIDTH), None);
        gate_up_mul("dense Q4_K, 5,120 wide", matrix(Format::Q4K, DENSE_HIDDEN, DENSE_WIDTH), None);
    }
    list
}
