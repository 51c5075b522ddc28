//! Where a sequence's keys and values lie changes nothing: with pages in any order, all from the beginning or one by one as it needs them, tokens,
//! log-probabilities, keys and values are the same, to the bit, and no other page is touched.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use zinc_kernels::ops::CacheFormat;
use zinc_kernels::step::{PAGE_POSITIONS, StepShape, position_in_pool};
use zinc_model::Model;
use zinc_model::device::DeviceModel;
use zinc_model::memory::LoadOptions;
use zinc_model::plan::{CacheOptions, MANY_ROWS, RowCounts};
use zinc_sched::adapter::{Sync, VulkanModel, VulkanOptions};
use zinc_sched::plan::{Feeding, prompt_step};
use zinc_sched::{
    GrownPage, InflightDepth, Sampling, SequenceId, SequenceStart, Step, StepLane, StepModel, StepStatus, Ticket,
};

use crate::cache::{POISON, poison_cache, read_cache};
use crate::gpt_oss::GPT_OSS;
use crate::gpu::Gpu;
use crate::matrix;
use crate::qwen35::QWEN35;

const CONTEXT: u32 = 200;
const LANES: u32 = 3;
/// Tokens of the prompts: over several steps and pages, one that fills a page, and one alone.
const PROMPTS: [u32; LANES as usize] = [2 * MANY_ROWS + 45, PAGE_POSITIONS, 1];
/// Tokens that each lane generates: all come to the ends of pages, at different steps.
const GENERATED: u32 = 150 - PAGE_POSITIONS;

/// How the pages of the lanes are given out.
#[derive(Clone, Copy, Debug)]
enum Given {
    /// All at the beginning, to each lane as many, in order.
    InOrder,
    /// All at the beginning, in the order of a table of numbers.
    Scrambled,
    /// Those of the prompt at the beginning and each other one with the step that needs it first, in that order.
    Growing,
}

/// Pages of a lane in a random order: no lane has one in its place, nor two that lie one behind the other.
const SCRAMBLED: [[u32; 4]; LANES as usize] = [[7, 2, 11, 4], [1, 9, 0, 6], [3, 10, 5, 8]];

/// What is left by a run: of each lane its tokens with the bits of their log-probabilities, and the keys and values of each layer.
type Left = Vec<(Vec<(u32, Vec<u32>)>, Vec<Vec<u8>>)>;

struct Run {
    model: VulkanModel,
    in_flight: VecDeque<(Ticket, Vec<SequenceId>)>,
    chosen: Vec<(SequenceId, u32, Vec<u32>)>,
}

impl Run {
    fn submit(&mut self, step: &Step<'_>) {
        while self.in_flight.len() as u32 >= self.model.limits().ring_slots {
            self.wait();
        }
        let ticket = self.model.submit(step).expect("submitted");
        self.in_flight.push_back((ticket, step.lanes.iter().map(|own| own.sequence).collect()));
    }

    fn wait(&mut self) {
        let (ticket, sequences) = self.in_flight.pop_front().expect("a step in flight");
        for (sequence, output) in sequences.iter().zip(self.model.wait(ticket).expect("done").lanes) {
            if output.status == StepStatus::Emitted {
                let logprobs = output.logprobs.expect("they were asked for");
                let bits = logprobs.top.iter().flat_map(|(id, value)| [*id, value.to_bits()]);
                let bits = bits.chain([logprobs.chosen.to_bits()]).collect();
                self.chosen.push((*sequence, output.tokens.as_slice()[0], bits));
            }
        }
    }
}

fn run(gpu: &Gpu, model: &Arc<DeviceModel>, (sync, depth): (Sync, u32), given: Given) -> Left {
    poison_cache(gpu, model);
    let options = VulkanOptions::new(InflightDepth::new(depth).expect("a depth"))
        .with_sync(sync)
        .with_feed_shape(StepShape::of(MANY_ROWS));
    let driven = VulkanModel::new(model.clone(), options).expect("the model is driven");
    let mut run = Run { model: driven, in_flight: VecDeque::new(), chosen: Vec::new() };
    let (limits, vocabulary) = (run.model.limits(), run.model.limits().vocabulary_tokens);
    let pool = limits.pages.expect("several lanes share pages");
    assert_eq!((pool.pages, pool.positions), (LANES * 4, PAGE_POSITIONS));
    let (mut lanes, greedy) = (Vec::new(), Sampling::GREEDY);
    for (lane, prompt_tokens) in (0..).zip(PROMPTS) {
        let prompt: Vec<u32> = (0..prompt_tokens).map(|i| (i * i + 7 * i + 3 * lane) % vocabulary).collect();
        let pages = match given {
            Given::InOrder => pool.equal_part(lane, LANES),
            Given::Scrambled | Given::Growing => SCRAMBLED[lane as usize].to_vec(),
        };
        let count = match given {
            Given::Growing => prompt_tokens.div_ceil(PAGE_POSITIONS) as usize,
            Given::InOrder | Given::Scrambled => pages.len(),
        };
        let start = SequenceStart {
            lane,
            pages: &pages[..count],
            last_token: limits.last_token,
            logprobs: Some(3),
            ..SequenceStart::new(&prompt, 0, GENERATED, &greedy)
        };
        let sequence = run.model.open(&start).expect("opened");
        lanes.push((sequence, pages, count as u32, prompt_tokens));
    }
    // How many steps that sample each lane has still to have.
    let mut steps_left = [GENERATED; LANES as usize];
    for (lane, (sequence, ..)) in lanes.iter().enumerate() {
        let feeding = Feeding { rows: limits.feed_rows, last_token: limits.last_token };
        let mut left = PROMPTS[lane];
        while let Some((kind, rows)) = prompt_step(left, feeding) {
            run.submit(&Step { lanes: &[StepLane { sequence: *sequence, kind, rows }], grown: &[] });
            left -= rows;
            steps_left[lane] -= u32::from(kind.samples());
        }
    }
    while steps_left.iter().any(|left| *left > 0) {
        let (mut sequences, mut grown) = (Vec::new(), Vec::new());
        for ((sequence, pages, count, prompt_tokens), left) in lanes.iter_mut().zip(&mut steps_left) {
            if *left == 0 {
                continue;
            }
            let position = *prompt_tokens - 1 + GENERATED - *left;
            if position / PAGE_POSITIONS == *count {
                grown.push(GrownPage { sequence: *sequence, index: *count, page: pages[*count as usize] });
                *count += 1;
            }
            sequences.push(StepLane::decode(*sequence));
            *left -= 1;
        }
        run.submit(&Step { lanes: &sequences, grown: &grown });
    }
    while !run.in_flight.is_empty() {
        run.wait();
    }
    let cache = read_cache(gpu, model, model.cache().positions() as u32);
    let mut touched = vec![false; model.cache().positions() as usize];
    let row_bytes: Vec<usize> = cache.iter().map(|layer| layer.len() / touched.len()).collect();
    let mut left = Vec::new();
    for (sequence, pages, _, prompt_tokens) in lanes {
        let places: Vec<usize> =
            (0..prompt_tokens + GENERATED - 1).map(|at| position_in_pool(&pages, at) as usize).collect();
        places.iter().for_each(|place| touched[*place] = true);
        let of_layer = |(layer, bytes): (&Vec<u8>, &usize)| -> Vec<u8> {
            places.iter().flat_map(|place| layer[place * bytes..(place + 1) * bytes].to_vec()).collect()
        };
        let own = run.chosen.iter().filter(|(of, ..)| *of == sequence);
        let tokens: Vec<_> = own.map(|(_, token, bits)| (*token, bits.clone())).collect();
        assert_eq!(tokens.len(), GENERATED as usize);
        left.push((tokens, cache.iter().zip(&row_bytes).map(of_layer).collect()));
        run.model.close(sequence);
    }
    for (layer, bytes) in cache.iter().zip(row_bytes) {
        let untouched = layer.chunks_exact(bytes).zip(&touched).filter(|(_, touched)| !**touched);
        assert!(untouched.flat_map(|(row, _)| row).all(|byte| *byte == POISON), "{given:?}: places of nobody");
    }
    left
}

#[test]
fn pages_may_lie_anywhere_and_come_when_they_are_needed() {
    let gpu = Gpu::borrow();
    let ways = [(Sync::Timeline, 4), (Sync::Timeline, 1), (Sync::FenceKept, 1), (Sync::Fence, 1)];
    // Without whole matrices, a model of each kind is tried, dense, with experts, windows and sinks, and with delta nets. Its lanes get pages one by one, which are
    // scrambled as well.
    let names = ["llama-f16", GPT_OSS, QWEN35, "qwen3moe-a-q4_k_m"];
    let givens = [Given::Growing, Given::Scrambled];
    let (names, ways, givens) =
        if matrix::is_full() { (&names[..], &ways[..], &givens[..]) } else { (&names[..3], &ways[..1], &givens[..1]) };
    for name in names {
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/tiny").join(name).with_extension("gguf");
        let model = Arc::new(Model::open(path).expect("a tiny model opens"));
        let cache = CacheOptions::new(CONTEXT, CacheFormat::F16, CacheFormat::F16).with_lanes(LANES);
        let options = LoadOptions::new(cache).with_counts(RowCounts::new(MANY_ROWS, StepShape::of(LANES).rows()));
        let model = DeviceModel::load(&gpu.pipelines, &model, options, &mut |_| {}).expect("a tiny model loads");
        let model = Arc::new(model);
        let truth = run(&gpu, &model, ways[0], Given::InOrder);
        for way in ways {
            for given in givens {
                let found = run(&gpu, &model, *way, *given);
                for (lane, (found, expected)) in found.iter().zip(&truth).enumerate() {
                    assert!(found.0 == expected.0, "{name}, {way:?}, {given:?}: tokens of lane {lane}");
                    assert!(found.1 == expected.1, "{name}, {way:?}, {given:?}: keys and values of lane {lane}");
                }
            }
        }
    }
}
