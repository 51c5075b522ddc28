//! Models with a recurrent state or with rings, whose sequences begin with checkpoints: they get the tokens and the log-probabilities that they get when all is computed from the
//! beginning, to the bit, alone and beside others, with drafts, and when they had to give their pages back.

use std::sync::Arc;

use zinc_kernels::ops::CacheFormat;
use zinc_kernels::step::{PAGE_POSITIONS, StepShape};
use zinc_model::Model;
use zinc_model::device::DeviceModel;
use zinc_model::memory::LoadOptions;
use zinc_model::plan::{CacheOptions, RowCounts};
use zinc_sched::adapter::{DraftSource, VulkanModel, VulkanOptions};
use zinc_sched::{
    Engine, EngineOptions, FnClock, InflightDepth, Request, Sampling, SequenceId, SpeculationMode, Started, Token,
};
use zinc_vk::host_now_ns;

use crate::crowd::{Crowd, Way, answered_alone, asked_twice, bits, open};
use crate::gpt_oss::GPT_OSS;
use crate::gpu::Gpu;
use crate::matrix;
use crate::qwen35::{QWEN35, QWEN35_MOE};

/// How the sequences of these tests run.
#[derive(Clone, Copy, Debug)]
struct Conditions {
    lanes: u32,
    /// The most drafts of a step, which are looked up.
    max_drafts: u32,
    /// The most rows of steps that feed prompts.
    feed_rows: u32,
    context: u32,
    /// Whether layers with a window have rings.
    rings: bool,
}

impl Conditions {
    fn load(self, gpu: &Gpu, model: &Arc<Model>) -> Arc<DeviceModel> {
        let cache = CacheOptions::new(self.context, CacheFormat::F16, CacheFormat::F16);
        let cache = cache.with_lanes(self.lanes).with_drafts(self.max_drafts);
        let counts = RowCounts::new(self.feed_rows, StepShape::of(self.lanes.max(1 + self.max_drafts)).rows());
        let options = LoadOptions::new(cache).with_counts(counts).with_windows(!self.rings);
        Arc::new(DeviceModel::load(&gpu.pipelines, model, options, &mut |_| {}).expect("a tiny model loads"))
    }

    /// An engine whose model keeps so many checkpoints.
    fn engine(self, gpu: &Gpu, model: &Arc<Model>, checkpoints: u32) -> Engine<VulkanModel> {
        let max_drafts = self.max_drafts;
        let depth = InflightDepth::new(3).expect("a depth");
        let options = VulkanOptions::new(depth)
            .with_feed_shape(StepShape::of(self.feed_rows))
            .with_draft_source((max_drafts > 0).then_some(DraftSource::Lookup { ngrams: 1..=3, max_drafts }))
            .with_checkpoints(checkpoints)
            .with_checkpoint_spacing(3 * PAGE_POSITIONS);
        let driven = VulkanModel::new(self.load(gpu, model), options).expect("the model is driven");
        let options = EngineOptions::default().with_depth(depth).with_speculation(SpeculationMode::Always);
        Engine::new(driven, FnClock(host_now_ns), options).expect("an engine")
    }
}

/// What a request is answered: tokens with the bits of their log-probabilities, and how many tokens of its prompt were not computed.
fn answer(engine: &mut Engine<VulkanModel>, request: &Request) -> (Vec<(u32, Vec<u32>)>, u32) {
    let mut tokens: Vec<Token> = Vec::new();
    let completion = engine.run(request, &mut tokens).expect("answered");
    (tokens.iter().map(bits).collect(), completion.usage.cached_tokens)
}

/// A conversation of growing history: no turn reads again more than what lies behind the last checkpoint, which is near the end of the prompt before or behind it; the memory
/// of checkpoints is bounded; and every answer is the one that is computed from nothing.
#[test]
fn a_conversation_goes_on_at_its_checkpoints() {
    let gpu = Gpu::borrow();
    let (turns, grows) = if matrix::is_full() { (100, 9) } else { (4, 40) };
    let conditions =
        [(QWEN35, 1, 3, 16), (QWEN35_MOE, 2, 0, 5), (GPT_OSS, 2, 0, 7), (QWEN35, 1, 0, 3), (GPT_OSS, 1, 3, 16)];
    // Without whole matrices, the dense model has drafts and fewer checkpoints than turns. The tests below have no drafts.
    let part = [(QWEN35, 1, 3, 3), (GPT_OSS, 2, 0, 7)];
    for &(name, lanes, max_drafts, slots) in if matrix::is_full() { &conditions[..] } else { &part } {
        let model = open(name);
        let context = 160 + turns * (grows + 8);
        let conditions = Conditions { lanes, max_drafts, feed_rows: 64, context, rings: true };
        let mut with = conditions.engine(&gpu, &model, slots);
        // Windows are compared with layers that have all positions, and need no checkpoints.
        let has_windows = model.config.recurrent_bytes(0) == 0;
        let mut without = Conditions { rings: !has_windows, ..conditions }.engine(&gpu, &model, 0);
        let vocabulary = model.config.n_vocab - 1;
        let mut said: Vec<u32> = (0..90).map(|i| (i * i + 7) % vocabulary).collect();
        let (mut least, mut restored) = (0, 0);
        for turn in 0..turns {
            let sampling = Sampling::new(0.8, u64::from(turn)).expect("a temperature");
            let request = Request::new(said.clone(), [])
                .with_max_tokens(8)
                .with_sampling(sampling)
                .with_logprobs((max_drafts == 0).then_some(3));
            let ((found, cached), (expected, computed)) = (answer(&mut with, &request), answer(&mut without, &request));
            let of_turn = format!("{name}, {conditions:?}, turn {turn} of {} tokens", said.len());
            assert!(computed == 0 || has_windows, "{of_turn}");
            assert!(cached >= least, "{of_turn}: {cached} tokens cached, not {least}");
            assert!(found == expected, "{of_turn}, {cached} of them cached");
            restored += u32::from(cached > 0);
            least = (said.len() as u32 - 16) / PAGE_POSITIONS * PAGE_POSITIONS;
            said.extend(found.iter().map(|(id, _)| id));
            said.extend((0..grows).map(|i| (i * turn + i + 3) % vocabulary));
        }
        assert_eq!(restored, turns - 1, "every turn but the first begins with a checkpoint");
        let state: u64 = with.model().model().state_bytes();
        let memory = with.model().checkpoint_bytes();
        assert!(memory > 0 && memory <= u64::from(slots) * state, "{memory} bytes, {state} each of {slots}");
        assert_eq!(without.model().checkpoint_bytes(), 0);
    }
}

/// Prompts that begin alike, in several lanes at once: each begins with the checkpoint of another, or computes all by itself.
#[test]
fn sequences_in_other_lanes_begin_with_each_others_checkpoints() {
    let gpu = Gpu::borrow();
    let model = open(QWEN35);
    let conditions = Conditions { lanes: 2, max_drafts: 0, feed_rows: 64, context: 256, rings: false };
    let mut with = conditions.engine(&gpu, &model, 8);
    let mut without = conditions.engine(&gpu, &model, 0);
    let vocabulary = model.config.n_vocab - 1;
    let prompt = |number: u32| -> Vec<u32> {
        let common = (0..90 + 60 * (number % 2)).map(|i| (i * i + 11) % vocabulary);
        common.chain((0..20 + number).map(|i| (i + 7 * number) % vocabulary)).collect()
    };
    let requests: Vec<Request> =
        (0..5).map(|number| Request::new(prompt(number), []).with_max_tokens(12).with_logprobs(Some(2))).collect();
    let expected: Vec<_> = requests.iter().map(|request| answer(&mut without, request).0).collect();
    let (mut waiting, mut readers) = (0, Vec::<(usize, (SequenceId, Vec<Token>))>::new());
    let mut cached = 0;
    while waiting < requests.len() || with.running() > 0 {
        while waiting < requests.len() && with.admits(&requests[waiting]) {
            match with.start(&Arc::new(requests[waiting].clone()), &Vec::<Token>::new()).expect("started") {
                Started::Running(id) => readers.push((waiting, (id, Vec::new()))),
                Started::Ended(completion) => panic!("{completion:?}"),
            }
            waiting += 1;
        }
        let mut outlets: Vec<(SequenceId, Vec<Token>)> =
            readers.iter_mut().map(|(_, own)| std::mem::replace(own, (own.0, Vec::new()))).collect();
        let ended = with.turn(&mut outlets).expect("the model goes on");
        readers.iter_mut().zip(outlets).for_each(|((_, own), outlet)| *own = outlet);
        cached += ended.iter().map(|end| end.result.as_ref().expect("it ends").usage.cached_tokens).sum::<u32>();
    }
    for (number, (_, tokens)) in &readers {
        assert!(tokens.iter().map(bits).collect::<Vec<_>>() == expected[*number], "request {number}");
    }
    // The third request and those behind it find the checkpoints of the first two.
    assert!(cached >= 3 * 64, "{cached} tokens cached");
}

/// Few pages for many sequences: they go on with checkpoints whose pages are still known, or compute all again. Some readers leave early.
#[test]
fn sequences_that_gave_their_pages_back_go_on_at_checkpoints() {
    const CONTEXT: u32 = 320;
    let gpu = Gpu::borrow();
    let ways = [(3, 8, 2), (3, 6, 2), (4, 10, 4), (3, 6, 1)];
    let (names, count, ways) =
        if matrix::is_full() { (&[QWEN35, QWEN35_MOE][..], 30, &ways[..]) } else { (&[QWEN35][..], 5, &ways[..2]) };
    for name in names {
        let model = open(name);
        let known = answered_alone(&gpu, &model, (CONTEXT, model.config.n_vocab - 1), count);
        let asks = asked_twice(known.len(), 0);
        let (mut preemptions, mut restored) = (0, 0);
        for (lanes, pages, depth) in ways.iter().copied() {
            let max_gap = EngineOptions::MAX_GAP;
            let way =
                Way { lanes, pages, depth, context: CONTEXT, feed_rows: 32, max_gap, max_drafts: 0, rings: false };
            let mut crowd = Crowd::new(&gpu, &model, way);
            crowd.answer(&known, &asks);
            preemptions += crowd.preemptions();
            restored += crowd.restored();
        }
        println!("{name}: {preemptions} times pages were given back, {restored} checkpoints restored");
        assert!(preemptions > 0 && restored > 0, "{name}: {preemptions} preemptions, {restored} checkpoints restored");
    }
}
