//! Steps that feed several prompts: tokens, log-probabilities, keys and values are those of each prompt alone, to the bit, whoever is fed beside it, and whoever of
//! them is cancelled between two ranges.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use zinc_kernels::ops::CacheFormat;
use zinc_kernels::step::{PAGE_POSITIONS, StepShape, position_in_pool};
use zinc_model::Model;
use zinc_model::device::DeviceModel;
use zinc_model::memory::LoadOptions;
use zinc_model::plan::{CacheOptions, MANY_ROWS, RowCounts};
use zinc_sched::adapter::{Sync, VulkanModel, VulkanOptions};
use zinc_sched::plan::{Feeding, prompt_step};
use zinc_sched::{
    DeviceFinish, InflightDepth, Penalties, Sampling, SequenceId, SequenceStart, Step, StepLane, StepModel, StepOutput,
    StepStatus, Ticket,
};

use crate::cache::{POISON, poison_cache, read_cache};
use crate::gpt_oss::GPT_OSS;
use crate::gpu::Gpu;
use crate::matrix;
use crate::qwen35::{QWEN35, QWEN35_MOE};

/// Lanes of the model, and prompts at once at most.
const LANES: u32 = 31;
/// Pages of each lane.
const PAGES: u32 = 2;
const CONTEXT: u32 = PAGES * PAGE_POSITIONS;
/// Rows of a step that feeds.
const ROWS: u32 = 2 * MANY_ROWS;
/// Tokens that each sequence generates.
const GENERATED: u32 = 6;

/// What is left of a sequence: its tokens with the bits of their log-probabilities, and its keys and values of each layer.
type Left = (Vec<(u32, Vec<u32>)>, Vec<Vec<u8>>);

/// A sequence of a run.
struct Running {
    lane: u32,
    sequence: SequenceId,
    /// Tokens of its prompt that no submitted step takes in.
    prompt_left: u32,
    prompt_tokens: u32,
    /// Steps that sample which it is still to have.
    samples_left: u32,
    chosen: Vec<(u32, Vec<u32>)>,
    is_cancelled: bool,
}

/// A model and the steps in flight on it.
struct Run {
    model: VulkanModel,
    in_flight: VecDeque<(Ticket, Vec<StepLane>)>,
    running: Vec<Running>,
    /// How many steps have fed several prompts, and behind how many of several they have sampled at most.
    shared_steps: u32,
    most_sampled: usize,
}

/// The prompt of a lane: that of the second lane of more tokens than a step has rows, that of the fourth of one, and others of 2 to 48.
fn prompt(lane: u32, vocabulary: u32) -> Vec<u32> {
    let tokens = match lane {
        1 => 80,
        3 => 1,
        _ => 2 + (lane * 29 + 11) % 47,
    };
    (0..tokens).map(|i| (i * i + 7 * i + 3 * lane) % vocabulary).collect()
}

impl Run {
    fn new(gpu: &Gpu, model: &Arc<DeviceModel>, sync: Sync) -> Self {
        poison_cache(gpu, model);
        let depth = if sync == Sync::Timeline { 4 } else { 1 };
        let options = VulkanOptions::new(InflightDepth::new(depth).expect("a depth"))
            .with_sync(sync)
            .with_feed_shape(StepShape::of(ROWS))
            .with_longest_range(Duration::ZERO);
        let model = VulkanModel::new(model.clone(), options).expect("the model is driven");
        Self { model, in_flight: VecDeque::new(), running: Vec::new(), shared_steps: 0, most_sampled: 0 }
    }

    /// Opens the sequence of a lane: all lanes differ in how they sample, every second one with log-probabilities.
    fn open(&mut self, lane: u32) {
        let limits = self.model.limits();
        let prompt = prompt(lane, limits.vocabulary_tokens);
        let penalties = Penalties { repeat: 1.2, ..Penalties::OFF };
        let sampling = match lane % 3 {
            0 => Sampling::GREEDY,
            1 => Sampling { temperature: 0.9, seed: lane.into(), top_k: 30, penalties, ..Sampling::GREEDY },
            _ => Sampling { temperature: 1.1, seed: lane.into(), ..Sampling::GREEDY },
        };
        let pages = limits.pages.expect("several lanes share pages").equal_part(lane, LANES);
        let start = SequenceStart {
            lane,
            pages: &pages,
            last_token: limits.last_token,
            logprobs: lane.is_multiple_of(2).then_some(3),
            ..SequenceStart::new(&prompt, 0, GENERATED, &sampling)
        };
        let sequence = self.model.open(&start).expect("opened");
        let prompt_tokens = prompt.len() as u32;
        self.running.push(Running {
            lane,
            sequence,
            prompt_left: prompt_tokens,
            prompt_tokens,
            samples_left: GENERATED,
            chosen: Vec::new(),
            is_cancelled: false,
        });
    }

    fn make_room(&mut self) {
        while self.in_flight.len() as u32 >= self.model.limits().ring_slots {
            self.wait();
        }
    }

    fn wait(&mut self) {
        let (ticket, lanes) = self.in_flight.pop_front().expect("a step in flight");
        let StepOutput { lanes: outputs, .. } = self.model.wait(ticket).expect("done");
        for (own, output) in lanes.iter().zip(outputs) {
            let running = self.running.iter_mut().find(|running| running.sequence == own.sequence).expect("it runs");
            if running.is_cancelled {
                assert_eq!((output.status, output.fed), (StepStatus::NoOp, 0), "lane {}", running.lane);
                assert_eq!(output.finish, Some(DeviceFinish::Cancelled), "lane {}", running.lane);
                continue;
            }
            assert_eq!(output.fed, own.kind.fed_of(own.rows), "lane {}", running.lane);
            let bits = output.logprobs.iter().flat_map(|logprobs| {
                let top = logprobs.top.iter().flat_map(|(id, value)| [*id, value.to_bits()]);
                top.chain([logprobs.chosen.to_bits()]).collect::<Vec<u32>>()
            });
            let bits: Vec<u32> = bits.collect();
            running.chosen.extend(output.tokens.as_slice().iter().map(|token| (*token, bits.clone())));
        }
    }

    /// The parts of the next step that feeds: prompts in the order of the tokens that are left, until the step is full.
    fn next_feed(&mut self) -> Vec<StepLane> {
        let mut waiting: Vec<&mut Running> =
            self.running.iter_mut().filter(|running| running.prompt_left > 1 && !running.is_cancelled).collect();
        waiting.sort_by_key(|running| running.prompt_left);
        let (mut room, mut lanes) = (self.model.limits().feed_rows, Vec::new());
        for running in waiting {
            let feeding = Feeding { rows: room, last_token: self.model.limits().last_token };
            if room == 0 {
                break;
            }
            if let Some((kind, rows)) = prompt_step(running.prompt_left, feeding) {
                lanes.push(StepLane { sequence: running.sequence, kind, rows });
                running.prompt_left -= rows;
                running.samples_left -= u32::from(kind.samples());
                room -= rows;
            }
        }
        let sampled = lanes.iter().filter(|own| own.kind.samples()).count();
        self.shared_steps += u32::from(lanes.len() > 1);
        self.most_sampled = self.most_sampled.max(sampled);
        lanes
    }

    /// Takes all sequences a token further whose prompts are fed but for the last token at most, except those of a step that is begun.
    fn decode(&mut self, begun: &[StepLane]) {
        let is_begun = |sequence| begun.iter().any(|own| own.sequence == sequence);
        let ready = self.running.iter_mut().filter(|running| {
            running.prompt_left <= 1 && running.samples_left > 0 && !running.is_cancelled && !is_begun(running.sequence)
        });
        let lanes: Vec<StepLane> = ready
            .map(|running| {
                running.samples_left -= 1;
                StepLane::decode(running.sequence)
            })
            .collect();
        if !lanes.is_empty() {
            self.make_room();
            let ticket = self.model.submit(&Step { lanes: &lanes, grown: &[] }).expect("submitted");
            self.in_flight.push_back((ticket, lanes));
        }
    }

    /// Feeds and generates until all sequences have their tokens; steps that sample run between ranges. `cancels` are numbers of ranges in the run and places in the step
    /// that is begun then: the sequence there is cancelled behind the range, if others follow.
    fn finish(&mut self, cancels: &[(u32, usize)]) {
        let mut number = 0;
        loop {
            let lanes = self.next_feed();
            if lanes.is_empty() {
                break;
            }
            let step = Step { lanes: &lanes, grown: &[] };
            let ranges = self.model.ranges(step.rows(), 0).len() as u32;
            for range in 0..ranges {
                self.make_room();
                if let Some(ticket) = self.model.submit_range(&step, range).expect("submitted") {
                    self.in_flight.push_back((ticket, lanes.clone()));
                }
                for (_, place) in cancels.iter().filter(|(at, _)| *at == number && range + 1 < ranges) {
                    let Some(own) = lanes.get(*place) else { continue };
                    // Steps in flight would end with it, too.
                    while !self.in_flight.is_empty() {
                        self.wait();
                    }
                    let running = self.running.iter_mut().find(|running| running.sequence == own.sequence);
                    running.expect("it runs").is_cancelled = true;
                    self.model.cancel(own.sequence);
                }
                self.decode(&lanes);
                number += 1;
            }
        }
        while self.running.iter().any(|running| running.samples_left > 0 && !running.is_cancelled) {
            self.decode(&[]);
        }
        while !self.in_flight.is_empty() {
            self.wait();
        }
    }

    /// Closes all sequences, and returns what is left of each; `None` of those that were cancelled. Nothing else has been touched.
    fn close(&mut self, gpu: &Gpu, model: &Arc<DeviceModel>) -> Vec<(u32, Option<Left>)> {
        let cache = read_cache(gpu, model, model.cache().positions() as u32);
        let places_of_all = model.cache().positions() as usize;
        let row_bytes: Vec<usize> = cache.iter().map(|layer| layer.len() / places_of_all).collect();
        let pool = self.model.limits().pages.expect("several lanes share pages");
        let mut touched = vec![false; places_of_all];
        let mut left = Vec::new();
        for running in self.running.drain(..) {
            self.model.close(running.sequence);
            let pages = pool.equal_part(running.lane, LANES);
            let place = |at| position_in_pool(&pages, at) as usize;
            let positions = running.prompt_tokens + GENERATED - 1;
            (0..positions).for_each(|at| touched[place(at)] = true);
            let of_layer = |(layer, bytes): (&Vec<u8>, &usize)| -> Vec<u8> {
                (0..positions).flat_map(|at| layer[place(at) * bytes..(place(at) + 1) * bytes].to_vec()).collect()
            };
            let keys_and_values = cache.iter().zip(&row_bytes).map(of_layer).collect();
            left.push((running.lane, (!running.is_cancelled).then_some((running.chosen, keys_and_values))));
        }
        for (layer, bytes) in cache.iter().zip(row_bytes) {
            let others = layer.chunks_exact(bytes).zip(&touched).filter(|(_, touched)| !**touched);
            assert!(others.flat_map(|(row, _)| row).all(|byte| *byte == POISON), "places of nobody");
        }
        left
    }
}

fn load(gpu: &Gpu, name: &str) -> Arc<DeviceModel> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/tiny").join(name).with_extension("gguf");
    let model = Arc::new(Model::open(path).expect("a tiny model opens"));
    let cache = CacheOptions::new(CONTEXT, CacheFormat::F16, CacheFormat::F16).with_lanes(LANES);
    let options = LoadOptions::new(cache).with_counts(RowCounts::new(ROWS, StepShape::of(LANES).rows()));
    Arc::new(DeviceModel::load(&gpu.pipelines, &model, options, &mut |_| {}).expect("a tiny model loads"))
}

/// What is left of so many lanes where each of their sequences runs alone.
fn alone(gpu: &Gpu, model: &Arc<DeviceModel>, lanes: u32) -> Vec<Left> {
    let mut run = Run::new(gpu, model, Sync::Timeline);
    let mut left = Vec::new();
    for lane in 0..lanes {
        run.open(lane);
        run.finish(&[]);
        left.extend(run.close(gpu, model).into_iter().filter_map(|(_, left)| left));
        poison_cache(gpu, model);
    }
    assert_eq!((run.shared_steps, left.len()), (0, lanes as usize));
    left
}

/// So many prompts at once against each alone, with these cancels; returns how many were cancelled.
fn check(
    gpu: &Gpu,
    model: &Arc<DeviceModel>,
    truth: &[Left],
    sync: Sync,
    lanes: u32,
    cancels: &[(u32, usize)],
) -> usize {
    let name = format!("{lanes} prompts, {sync:?}, {cancels:?}");
    let mut run = Run::new(gpu, model, sync);
    (0..lanes).for_each(|lane| run.open(lane));
    run.finish(cancels);
    assert!(run.shared_steps > 0, "{name}: no step has fed several prompts");
    assert!(lanes < 7 || run.most_sampled > 1, "{name}: no step has sampled behind several prompts");
    let left = run.close(gpu, model);
    for (lane, left) in &left {
        let Some((tokens, keys_and_values)) = left else { continue };
        let (expected, of_cache) = &truth[*lane as usize];
        assert_eq!(tokens.len(), GENERATED as usize, "{name}: lane {lane}");
        assert_eq!(tokens, expected, "{name}: tokens of lane {lane}");
        assert!(keys_and_values == of_cache, "{name}: keys and values of lane {lane}");
    }
    left.iter().filter(|(_, left)| left.is_none()).count()
}

#[test]
fn prompts_that_are_fed_together_are_answered_as_alone() {
    let gpu = Gpu::borrow();
    let ways = [Sync::Timeline, Sync::Fence, Sync::FenceKept];
    // Without whole matrices, a model of each kind: dense, with experts, windows and sinks, and with delta nets.
    let names = ["llama-f16", GPT_OSS, QWEN35, "qwen3moe-a-q4_k_m", "qwen2-f16", QWEN35_MOE];
    for name in &names[..if matrix::is_full() { names.len() } else { 3 }] {
        let model = load(&gpu, name);
        let truth = alone(&gpu, &model, LANES);
        for sync in &ways[..if matrix::is_full() { ways.len() } else { 1 }] {
            for lanes in [2, 7, LANES] {
                assert_eq!(check(&gpu, &model, &truth, *sync, lanes, &[]), 0);
            }
        }
    }
}

#[test]
fn a_cancellation_between_ranges_changes_nothing_for_those_beside_it() {
    let gpu = Gpu::borrow();
    let model = load(&gpu, "qwen3moe-a-q4_k_m");
    let truth = alone(&gpu, &model, 7);
    let cancelled = |cancels: &[(u32, usize)]| check(&gpu, &model, &truth, Sync::Timeline, 7, cancels);
    let ranges = if matrix::is_full() { 6 } else { 2 };
    // The first, the second and the last lane of a step, which may be only a part of a prompt.
    let one: usize = (0..ranges).flat_map(|range| [0, 1, 2].map(|place| cancelled(&[(range, place)]))).sum();
    assert!(one >= 3, "{one} sequences were cancelled while they were fed");
    let all: Vec<(u32, usize)> = (0..7).map(|place| (0, place)).collect();
    assert!(cancelled(&all) > 1, "all of the first step are cancelled");
}
