//! Layers with a window whose keys and values lie in rings: sequences get the tokens, the log-probabilities, the keys and the values that they get where these layers have all
//! positions, to the bit. Prompts are several times as long as a ring.

use std::sync::Arc;

use zinc_kernels::ops::{ActFormat, CacheFormat};
use zinc_kernels::step::PAGE_POSITIONS;
use zinc_model::device::DeviceModel;
use zinc_model::memory::{LoadOptions, MemoryPlan};
use zinc_model::plan::{CacheOptions, RowCounts};
use zinc_sched::EngineOptions;
use zinc_sched::adapter::{Score, Sync};

use crate::cache::{Rings, poison_cache, read_cache};
use crate::crowd::{Crowd, Way, answered_alone, asked_twice, open};
use crate::gpt_oss::GPT_OSS;
use crate::gpu::Gpu;
use crate::matrix;
use crate::tiny::drive;

/// A text is computed by steps of so many rows: its logits at every position have the same bits with rings as without, and so have the keys and values that a ring has in the end.
#[test]
fn rings_change_no_bit_of_a_long_text() {
    let gpu = Gpu::borrow();
    let model = open(GPT_OSS);
    let tokens: Vec<u32> =
        (0..if matrix::is_full() { 900 } else { 430 }).map(|i| (i * i + 5 * i + 3) % model.config.n_vocab).collect();
    let positions = tokens.len() as u32;
    let run = |format, act, rows: u32, rings: bool| {
        let counts = RowCounts::new(rows, rows.min(16));
        let options =
            LoadOptions::new(CacheOptions::new(positions, format, format)).with_counts(counts).with_windows(!rings);
        let loaded = DeviceModel::load(&gpu.pipelines, &model, options, &mut |_| {}).expect("a tiny model loads");
        let loaded = Arc::new(loaded);
        poison_cache(&gpu, &loaded);
        let (mut driven, mut bits) = (drive(&loaded, act, Sync::Timeline, 1), Vec::new());
        let mut keep = |_, logits: &[f32]| bits.extend(logits.iter().map(|logit| logit.to_bits()));
        driven.score(&tokens, &mut keep).expect("the model scores");
        (bits, loaded)
    };
    let rows = if matrix::is_full() { vec![1, 4, 16, 32, 64, 128] } else { vec![16, 64] };
    for (format, act) in [(CacheFormat::F16, ActFormat::Q14), (CacheFormat::F32, ActFormat::F32)] {
        let (logits, loaded) = run(format, act, 32, false);
        let all = read_cache(&gpu, &loaded, positions);
        for rows in rows.iter().copied() {
            let what = format!("{format:?} cache, {act:?}, {rows} rows");
            let (found, loaded) = run(format, act, rows, true);
            assert!(found == logits, "{what}: logits");
            let rings = Rings::of(&loaded);
            assert!(rings.iter().flatten().all(|rings| 2 * rings.positions < positions), "{what}: {rings:?}");
            assert_eq!(rings.iter().flatten().count(), 4, "keys and values of every second of four layers");
            for (layer, (rings, all)) in rings.iter().zip(&all).enumerate() {
                let kept = rings.map_or(positions, |rings| rings.positions);
                let row = all.len() as u64 / u64::from(positions);
                let size = loaded.caches()[layer].size();
                assert_eq!(size, row * u64::from(kept), "{what}: bytes of keys or values {layer}");
                let own = crate::cache::read(&gpu, &loaded, layer, size);
                let same = rings.map_or(own == *all, |rings| rings.difference(&own, all).is_none());
                assert!(same, "{what}: keys or values {layer}");
            }
        }
    }
}

/// Sequences beside each other, with a ring each in its lane, some of which have to give their pages back, and some of whose readers go away: they begin and go on with what
/// checkpoints have of the rings. Alone they may have drafts.
#[test]
fn crowds_with_rings() {
    const CONTEXT: u32 = 320;
    let gpu = Gpu::borrow();
    let model = open(GPT_OSS);
    // Lanes, pages, depth and drafts: pages for about half of what all may need, and for all.
    let ways = [(3, 8, 2, 0), (4, 10, 4, 0), (3, 15, 4, 7), (2, 10, 1, 3)];
    let (ways, count) = if matrix::is_full() { (&ways[..], 30) } else { (&ways[..1], 6) };
    let known = answered_alone(&gpu, &model, (CONTEXT, model.config.n_vocab), count);
    let asks = asked_twice(known.len(), 60);
    let mut preemptions = 0;
    for (lanes, pages, depth, max_drafts) in ways.iter().copied() {
        let max_gap = EngineOptions::MAX_GAP;
        let way = Way { lanes, pages, depth, context: CONTEXT, feed_rows: 32, max_gap, max_drafts, rings: true };
        let mut crowd = Crowd::new(&gpu, &model, way);
        crowd.answer(&known, &asks);
        preemptions += crowd.preemptions();
        println!(
            "{way:?}: {} times pages were given back, {} checkpoints restored",
            crowd.preemptions(),
            crowd.restored()
        );
        assert!(crowd.restored() > 0, "{way:?}: no checkpoint was restored");
    }
    assert!(preemptions > 0, "no pages were given back");
}

/// Memory of a cache with rings is that of the rings, and grows with the context in the other layers alone. A ring that is no smaller than the context is none.
#[test]
fn rings_are_counted() {
    let model = open(GPT_OSS);
    let plan = |context: u32, lanes: u32, rows: u32, rings: bool| {
        let cache = CacheOptions::new(context, CacheFormat::F16, CacheFormat::F16).with_lanes(lanes);
        let options = LoadOptions::new(cache).with_counts(RowCounts::new(rows, 1)).with_windows(!rings);
        MemoryPlan::new(&model.config, &model.weights, options)
    };
    // Four layers, two of them with windows of 32 positions; a head of 64 halves of keys, and one of values, at each position.
    let row = 2 * 64 * 2;
    for (context, lanes, rows, pages) in [(4096, 1, 1, 2), (4096, 1, 512, 10), (4096, 3, 34, 2), (4096, 3, 35, 3)] {
        let (with, without) = (plan(context, lanes, rows, true), plan(context, lanes, rows, false));
        let (lanes, context) = (u64::from(lanes), u64::from(context));
        assert_eq!(without.kv_cache, 4 * lanes * context * row);
        assert_eq!(with.kv_cache, 2 * lanes * (context + pages * u64::from(PAGE_POSITIONS)) * row, "{rows} rows");
        assert_eq!(without.bytes_per_position - with.bytes_per_position, lanes * 2 * row);
    }
    assert_eq!(plan(128, 1, 1, true), plan(128, 1, 1, false));
}
