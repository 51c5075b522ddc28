//! Launches of gpt-oss-20b, with experts in MXFP4 and all else in Q8_0, where they differ from those of other models.
//!
//! It is 2,880 wide, and so are its experts, of which 4 of 32 are chosen. It has 64 query and 8 key-value heads of 64, with sinks, and in every second layer a
//! window of 128.

use super::{
    ACT, NORMALISED, NOWHERE, ONE, SELECTION, attention, attention_forms, expert_down, gate_up, matrix, product,
    product_forms, router,
};
use crate::formats::Format;
use crate::kernel::{Dispatch, Target};
use crate::ops::{
    Activation, Attention, AttentionRows, CacheFormat, ExpertDown, ExpertSelection, GateUp, GateUpBiases, GateUpMul,
    Heads, Input, MatMul, MatVec, Product, Router, Routing, Tiles,
};
use crate::step::StepShape;

/// Of the model, and of its experts.
const WIDTH: u32 = 2_880;
const HEADS: Heads = Heads { query_heads: 64, kv_heads: 8, head_size: 64 };
const EXPERTS: ExpertSelection = ExpertSelection { experts: 32, used: 4, ..SELECTION };
const BIASES: Option<GateUpBiases> = Some(GateUpBiases { gate: 0, up: 0 });

/// The launches, with their labels.
pub(super) fn variants(target: &Target) -> Vec<(&'static str, Dispatch)> {
    let mut list = attention_of_64(target);
    list.extend(few_rows(target));
    list.extend(many_rows(target));
    list
}

/// Attention by heads of 64, with sinks.
fn attention_of_64(target: &Target) -> Vec<(&'static str, Dispatch)> {
    let format = CacheFormat::F16;
    let all = Attention { heads: HEADS, rotated: HEADS.head_size, norm: None, sinks: Some(0), ..attention(format) };
    let mut list = vec![("heads of 64", all.in_two().0.dispatch(target))];
    for form in attention_forms(target, HEADS, format) {
        // Where the heads of a workgroup are no whole groups of elements, it cannot round them.
        let rounded = HEADS.whole_groups(&form, [format; 2], all.context);
        for (label, window) in [("heads of 64, sinks", None), ("heads of 64, window, sinks", Some(128))] {
            let attention = Attention { window, rounded, ..all };
            let rows = AttentionRows { shape: StepShape::MOST, ..attention.in_two().1 };
            list.extend([attention.dispatch(&form), rows.dispatch(&form)].map(|dispatch| (label, dispatch)));
        }
    }
    list
}

/// The products for queries, keys and values.
fn projections() -> [Product; 3] {
    let Heads { query_heads, kv_heads, head_size } = HEADS;
    [query_heads, kv_heads, kv_heads]
        .map(|heads| Product { bias: Some(0), ..product(Format::Q8_0, heads * head_size, WIDTH) })
}

/// Products and experts in steps of few rows.
fn few_rows(target: &Target) -> [(&'static str, Dispatch); 5] {
    let products = &projections();
    let qkv = MatVec { state: 0, products, x: NORMALISED, act: ACT, accumulate: false, shape: ONE };
    let router = Router { matrix: matrix(Format::F32, EXPERTS.experts, WIDTH), bias: Some(0), ..router() };
    let matrix = matrix(Format::MXFP4, WIDTH, WIDTH);
    let gate_up = GateUp {
        gate: matrix,
        up: matrix,
        biases: BIASES,
        activation: Activation::ClampedSwiGlu,
        ..gate_up(WIDTH, Routing::Experts(EXPERTS), Input::Rounded(NOWHERE))
    };
    // The vectors of four experts are more than a workgroup rounds for itself.
    let h = Input::Rounded(NOWHERE);
    let (experts, slots) = (EXPERTS.experts, EXPERTS.used);
    let down = ExpertDown { down: matrix, bias: Some(0), h, experts, slots, ..expert_down(Format::MXFP4) };
    [
        ("q, k, v Q8_0, 2,880 wide", qkv.dispatch(target)),
        ("F32, 2,880 wide, bias", router.dispatch(target)),
        ("experts MXFP4", gate_up.dispatch(target)),
        ("experts MXFP4, 16 rows", GateUp { shape: StepShape::SEVERAL, ..gate_up }.dispatch(target)),
        ("MXFP4", down.dispatch(target)),
    ]
}

/// Products and experts in steps of many rows.
fn many_rows(target: &Target) -> Vec<(&'static str, Dispatch)> {
    let (state, x, y, shape) = (0, NOWHERE, NOWHERE, StepShape::MOST);
    let tiles = Some(Tiles { pairs: 0, tiles: 0, grids: 0, experts: EXPERTS.experts, used: EXPERTS.used });
    let gate = matrix(Format::MXFP4, WIDTH, WIDTH);
    let activation = Activation::ClampedSwiGlu;
    let gate_up =
        GateUpMul { state, gate, up: gate, tiles, group_values: None, x, biases: BIASES, activation, y, shape };
    let down = [Product { bias: Some(0), ..product(Format::MXFP4, WIDTH, WIDTH) }];
    let down = MatMul { state, products: &down, x, accumulate: false, tiles, group_values: None, shape };
    let qkv = MatMul { products: &projections(), tiles: None, ..down };
    let mut list = Vec::new();
    for form in product_forms(target) {
        list.push(("q, k, v Q8_0, 2,880 wide", qkv.dispatch(&form)));
        list.push(("experts MXFP4", gate_up.dispatch(&form)));
        list.push(("experts MXFP4", down.dispatch(&form)));
    }
    list
}
