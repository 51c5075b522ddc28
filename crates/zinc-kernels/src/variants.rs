//! Representative launches of every kernel, for tools that compile kernels without running them.
//!
//! The shapes are those of one decode step of Qwen3-30B-A3B: 2,048 wide, 32 query and 4 key-value heads of 128, 128 experts of
//! 768 of which 8 are chosen, a vocabulary of 151,936. All addresses are 0: nothing here may be dispatched.

use crate::formats::Format;
use crate::kernel::{Dispatch, Target};
use crate::ops::{
    Advance, Attention, AttentionMerge, CacheFormat, Epilogue, ExpertDown, GateUp, Gather, HeadNorm, MatVec, Matrix,
    Pairing, RmsNorm, RopeKv, Router, Routing, Sample, Weighting,
};

/// Formats of the large matrices in files that people use: a `Q4_K_M` file mixes the first four.
const FORMATS: [Format; 5] = [Format::Q4K, Format::Q5K, Format::Q6K, Format::Q8_0, Format::F16];

const WIDTH: u32 = 2_048;
const QUERY_HEADS: u32 = 32;
const KV_HEADS: u32 = 4;
const HEAD_SIZE: u32 = 128;
const EXPERTS: u32 = 128;
const USED_EXPERTS: u32 = 8;
const EXPERT_WIDTH: u32 = 768;
const VOCABULARY: u32 = 151_936;
const SPLITS: u32 = 16;
const EPSILON: f32 = 1e-6;

/// A kernel with one choice of its specialisation constants, and a launch that uses it.
#[derive(Clone, Debug)]
pub struct Variant {
    /// What the choice is; unique among the variants of a kernel.
    pub label: String,
    /// The launch, with null addresses.
    pub dispatch: Dispatch,
}

/// Every kernel at least once, each in the formats that matter.
#[must_use]
pub fn variants(target: &Target) -> Vec<Variant> {
    let mut list = Vec::new();
    let mut add = |label: &str, dispatch| list.push(Variant { label: label.to_owned(), dispatch });
    let matrix = |format, rows, columns| Matrix { address: 0, format, rows, columns };
    let mat_vec = |format, rows, epilogue| {
        MatVec { state: 0, weights: matrix(format, rows, WIDTH), x: 0, y: 0, epilogue }.dispatch(target)
    };
    for format in FORMATS {
        let name = format.name();
        add(name, Gather { state: 0, table: matrix(format, VOCABULARY, WIDTH), y: 0 }.dispatch(target));
        add(&format!("{name}, store"), mat_vec(format, QUERY_HEADS * HEAD_SIZE, Epilogue::Store));
        add(&format!("{name}, accumulate"), mat_vec(format, WIDTH, Epilogue::Accumulate));
        let gate = matrix(format, EXPERT_WIDTH, WIDTH);
        let routing = Routing::Experts { ids: 0, slots: USED_EXPERTS };
        add(&format!("{name}, experts"), GateUp { state: 0, gate, up: gate, routing, x: 0, y: 0 }.dispatch(target));
        let down = matrix(format, WIDTH, EXPERT_WIDTH);
        add(name, ExpertDown { state: 0, down, ids: 0, weights: 0, h: 0, y: 0, slots: USED_EXPERTS }.dispatch(target));
    }
    add("F32, store", mat_vec(Format::F32, EXPERTS, Epilogue::Store));
    add("", RmsNorm { state: 0, x: 0, weight: 0, y: 0, columns: WIDTH, epsilon: EPSILON }.dispatch(target));
    add(
        "experts",
        Router {
            state: 0,
            logits: 0,
            ids: 0,
            weights: 0,
            experts: EXPERTS,
            used: USED_EXPERTS,
            weighting: Weighting::SoftmaxOfChosen,
        }
        .dispatch(target),
    );
    for (label, format) in [("f16 cache", CacheFormat::F16), ("f32 cache", CacheFormat::F32)] {
        add(
            label,
            RopeKv {
                state: 0,
                q: 0,
                k: 0,
                v: 0,
                norm: Some(HeadNorm { q: 0, k: 0, epsilon: EPSILON }),
                rotation: 0,
                key_cache: 0,
                value_cache: 0,
                key_format: format,
                value_format: format,
                query_heads: QUERY_HEADS,
                kv_heads: KV_HEADS,
                head_size: HEAD_SIZE,
                rotated: HEAD_SIZE,
                pairing: Pairing::Halves,
            }
            .dispatch(target),
        );
        add(
            label,
            Attention {
                state: 0,
                q: 0,
                key_cache: 0,
                value_cache: 0,
                partials: 0,
                key_format: format,
                value_format: format,
                query_heads: QUERY_HEADS,
                kv_heads: KV_HEADS,
                head_size: HEAD_SIZE,
                splits: SPLITS,
            }
            .dispatch(target),
        );
    }
    add(
        "",
        AttentionMerge { state: 0, partials: 0, y: 0, heads: QUERY_HEADS, head_size: HEAD_SIZE, splits: SPLITS }
            .dispatch(target),
    );
    add("", Sample { state: 0, logits: 0, candidates: 0, vocabulary: VOCABULARY }.dispatch(target));
    add(
        "",
        Advance {
            state: 0,
            report: 0,
            prompt: 0,
            end_tokens: 0,
            cancelled: 0,
            candidates: 0,
            vocabulary: Some(VOCABULARY),
        }
        .dispatch(target),
    );
    list
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
