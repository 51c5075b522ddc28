//! Steps of other lanes run between the ranges of a step that feeds: tokens, log-probabilities, keys and values are those of steps in one piece, to the bit, and
//! a cancellation ends the step at the next range.

use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use zinc_kernels::ops::CacheFormat;
use zinc_kernels::step::StepShape;
use zinc_model::Model;
use zinc_model::device::DeviceModel;
use zinc_model::memory::LoadOptions;
use zinc_model::plan::{CacheOptions, MANY_ROWS, RowCounts};
use zinc_sched::adapter::{Queues, Sync, VulkanModel, VulkanOptions};
use zinc_sched::plan::{Feeding, prompt_step};
use zinc_sched::{
    DeviceFinish, InflightDepth, LaneOutput, LastToken, Penalties, Sampling, SequenceId, SequenceStart, Step, StepLane,
    StepModel, StepOutput, StepStatus, Ticket,
};

use crate::cache::{poison_cache, read_cache};
use crate::gpt_oss::GPT_OSS;
use crate::gpu::Gpu;
use crate::matrix;
use crate::qwen35::QWEN35;

const CONTEXT: u32 = 96;
const LANES: u32 = 3;
/// Tokens of the prompt that is fed: two full steps and the end, which samples.
const PROMPT: u32 = 2 * MANY_ROWS + 25;
/// Tokens that the lanes beside it generate, and those that it generates itself.
const BESIDE: u32 = 14;
const BEHIND: u32 = 4;

/// How a model is driven.
#[derive(Clone, Copy, Debug)]
struct Driven {
    sync: Sync,
    queues: Queues,
    depth: u32,
}

const TIMELINE: Driven = Driven { sync: Sync::Timeline, queues: Queues::One, depth: 4 };

/// A token and the bits of its log-probabilities.
type Chosen = (u32, Vec<u32>);

/// What is left by a run: what each lane has generated, and all keys and values.
type Left = (Vec<Vec<Chosen>>, Vec<Vec<u8>>);

fn load(gpu: &Gpu, name: &str) -> Arc<DeviceModel> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/tiny").join(name).with_extension("gguf");
    let model = Arc::new(Model::open(path).expect("a tiny model opens"));
    let cache = CacheOptions::new(CONTEXT, CacheFormat::F16, CacheFormat::F16).with_lanes(LANES);
    let counts = RowCounts::new(MANY_ROWS, StepShape::of(LANES).rows());
    let options = LoadOptions::new(cache).with_counts(counts);
    Arc::new(DeviceModel::load(&gpu.pipelines, &model, options, &mut |_| {}).expect("a tiny model loads"))
}

/// A model and the steps in flight on it.
struct Run {
    model: VulkanModel,
    in_flight: VecDeque<(Ticket, Vec<SequenceId>)>,
    chosen: HashMap<SequenceId, Vec<Chosen>>,
    /// What steps that feed have reported, in order.
    fed: Vec<LaneOutput>,
}

impl Run {
    fn new(model: &Arc<DeviceModel>, driven: Driven) -> Self {
        let options = VulkanOptions::new(InflightDepth::new(driven.depth).expect("a depth"))
            .with_sync(driven.sync)
            .with_queues(driven.queues)
            .with_feed_shape(StepShape::of(MANY_ROWS))
            .with_longest_range(Duration::ZERO);
        let model = VulkanModel::new(model.clone(), options).expect("the model is driven");
        Self { model, in_flight: VecDeque::new(), chosen: HashMap::new(), fed: Vec::new() }
    }

    fn open(&mut self, lane: u32, (prompt, cached): (&[u32], u32), budget: u32) -> SequenceId {
        // Everything that a step with samplers reads and writes, and nothing at all in the first lane beside.
        let penalties = Penalties { repeat: 1.2, ..Penalties::OFF };
        let chain = Sampling { temperature: 0.9, seed: 7, top_k: 30, penalties, ..Sampling::GREEDY };
        let sampling = if lane == 1 { Sampling::GREEDY } else { chain };
        let last_token = self.model.limits().last_token;
        let pages = self.model.limits().pages.expect("several lanes share pages").equal_part(lane, LANES);
        let start = SequenceStart {
            lane,
            pages: &pages,
            last_token,
            logprobs: Some(3),
            ..SequenceStart::new(prompt, cached, budget, &sampling)
        };
        self.model.open(&start).expect("opened")
    }

    /// Waits until another step can be in flight.
    fn make_room(&mut self) {
        while self.in_flight.len() as u32 >= self.model.limits().ring_slots {
            self.wait();
        }
    }

    fn wait(&mut self) {
        let (ticket, sequences) = self.in_flight.pop_front().expect("a step in flight");
        let StepOutput { lanes, .. } = self.model.wait(ticket).expect("done");
        for (sequence, output) in sequences.iter().zip(lanes) {
            let chosen = self.chosen.entry(*sequence).or_default();
            if let Some(logprobs) = output.logprobs.as_ref().filter(|_| output.status == StepStatus::Emitted) {
                let bits = logprobs.top.iter().flat_map(|(id, value)| [*id, value.to_bits()]);
                let bits = bits.chain([logprobs.chosen.to_bits()]).collect();
                chosen.push((output.tokens.as_slice()[0], bits));
            }
            if output.fed > 0 || sequences.len() == 1 {
                self.fed.push(output);
            }
        }
    }

    fn decode(&mut self, sequences: &[SequenceId], steps: u32) {
        for _ in 0..steps {
            self.make_room();
            let lanes: Vec<StepLane> = sequences.iter().copied().map(StepLane::decode).collect();
            let ticket = self.model.submit(&Step { lanes: &lanes, grown: &[] }).expect("submitted");
            self.in_flight.push_back((ticket, sequences.to_vec()));
        }
    }

    fn finish(&mut self) {
        while !self.in_flight.is_empty() {
            self.wait();
        }
    }
}

fn prompt(model: &VulkanModel) -> Vec<u32> {
    let vocabulary = model.limits().vocabulary_tokens;
    (0..PROMPT).map(|i| (i * i + 7 * i) % vocabulary).collect()
}

/// Feeds a prompt while two lanes beside it decode `between(n)` steps behind the n-th range, and then lets all generate. With `None` the prompt is fed by whole steps,
/// ahead of everything else. If `cancel` is the number of a range, the prompt is cancelled behind it, and fed again.
fn run(
    gpu: &Gpu,
    model: &Arc<DeviceModel>,
    driven: Driven,
    between: Option<&dyn Fn(u32) -> u32>,
    cancel: Option<u32>,
) -> Left {
    poison_cache(gpu, model);
    let mut run = Run::new(model, driven);
    let beside = [(1, [3]), (2, [4])].map(|(lane, prompt)| run.open(lane, (&prompt, 0), BESIDE));
    let prompt = prompt(&run.model);
    let mut own = run.open(0, (&prompt, 0), BEHIND);
    let (mut cached, mut left, mut decoded, mut number) = (0, PROMPT, 0, 0);
    let mut cancel = cancel;
    let feeding = Feeding { rows: run.model.limits().feed_rows, last_token: run.model.limits().last_token };
    while let Some((kind, rows)) = prompt_step(left, feeding) {
        let lanes = [StepLane { sequence: own, kind, rows }];
        let step = Step { lanes: &lanes, grown: &[] };
        let Some(between) = between else {
            run.make_room();
            let ticket = run.model.submit(&step).expect("submitted");
            run.in_flight.push_back((ticket, vec![own]));
            left -= rows;
            continue;
        };
        let ranges = run.model.ranges(rows, PROMPT - left).len() as u32;
        let layers = if rows > MANY_ROWS / 2 { model.model().config.n_layer() } else { 1 };
        assert_eq!(ranges, layers, "{kind:?} of {rows} rows: a range for each layer");
        let mut cancelled = false;
        for range in 0..ranges {
            run.make_room();
            if let Some(ticket) = run.model.submit_range(&step, range).expect("submitted") {
                assert_eq!(range, ranges - 1, "the last range gives the ticket");
                run.in_flight.push_back((ticket, vec![own]));
            }
            if cancel == Some(number) && range + 1 < ranges {
                // The steps before, which a cancellation would end too where they have not run, are done.
                run.finish();
                run.model.cancel(own);
                (cancelled, cancel) = (true, None);
            }
            // What is left is generated together with the lane that was fed.
            let steps = between(number).min(BESIDE - BEHIND - decoded);
            run.decode(&beside, steps);
            decoded += steps;
            number += 1;
        }
        if cancelled {
            run.finish();
            let LaneOutput { status, fed, finish, .. } = run.fed.last().expect("the step has reported").clone();
            assert_eq!((status, fed, finish), (StepStatus::NoOp, 0, Some(DeviceFinish::Cancelled)));
            run.model.close(own);
            run.chosen.remove(&own);
            own = run.open(0, (&prompt, cached), BEHIND);
            left = PROMPT - cached;
        } else {
            cached += kind.fed_of(rows);
            left -= rows;
        }
    }
    let all = [own, beside[0], beside[1]];
    let sampled = u32::from(feeding.last_token == LastToken::Fed);
    run.decode(&all, BEHIND - sampled);
    run.decode(&beside, BESIDE - decoded - (BEHIND - sampled));
    run.finish();
    let tokens: Vec<Vec<Chosen>> = all.iter().map(|sequence| run.chosen[sequence].clone()).collect();
    assert_eq!(tokens.iter().map(|of| of.len() as u32).collect::<Vec<_>>(), [BEHIND, BESIDE, BESIDE]);
    all.into_iter().for_each(|sequence| run.model.close(sequence));
    (tokens, read_cache(gpu, model, model.cache().positions() as u32))
}

#[test]
fn tokens_and_keys_and_values_do_not_depend_on_what_runs_between_ranges() {
    let gpu = Gpu::borrow();
    let two_queues = Driven { queues: Queues::Two, ..TIMELINE };
    let deep = Driven { depth: 8, ..TIMELINE };
    let fences = [Sync::FenceKept, Sync::Fence].map(|sync| Driven { sync, depth: 1, ..TIMELINE });
    let whole = [TIMELINE, Driven { depth: 1, ..TIMELINE }, deep, two_queues, fences[0], fences[1]];
    let schedules: [&dyn Fn(u32) -> u32; 4] = [&|number| number % 3, &|number| 2 * (number % 2), &|_| 1, &|_| 0];
    let all = whole.into_iter().flat_map(|way| (0..schedules.len()).map(move |schedule| (way, schedule)));
    // Without whole matrices, a model of each kind is tried, dense, with experts, windows and sinks, and with delta nets, with two pairs of a way and a schedule.
    let names = ["llama-f16", GPT_OSS, QWEN35, "qwen3moe-a-q4_k_m"];
    let (names, pairs) = if matrix::is_full() {
        (&names[..], all.collect())
    } else {
        (&names[..3], vec![(TIMELINE, 0), (fences[1], 1)])
    };
    for name in names {
        let model = load(&gpu, name);
        let truth = run(&gpu, &model, TIMELINE, None, None);
        for (way, schedule) in &pairs {
            let left = run(&gpu, &model, *way, Some(schedules[*schedule]), None);
            assert!(left.0 == truth.0, "{name}, {way:?}, schedule {schedule}: tokens or log-probabilities");
            assert!(left.1 == truth.1, "{name}, {way:?}, schedule {schedule}: keys and values");
        }
    }
}

#[test]
fn a_cancellation_ends_a_step_at_its_next_range() {
    let gpu = Gpu::borrow();
    let fence = Driven { sync: Sync::Fence, depth: 1, ..TIMELINE };
    let model = load(&gpu, "qwen3moe-a-q4_k_m");
    let truth = run(&gpu, &model, TIMELINE, None, None);
    for way in [TIMELINE, fence].into_iter().take(if matrix::is_full() { 2 } else { 1 }) {
        // Without whole matrices, every second range of the two steps that have several.
        let layers = model.model().config.n_layer();
        let (end, step) = if matrix::is_full() { (3 * layers, 1) } else { (2 * layers, 2) };
        for range in (0..end).step_by(step) {
            let left = run(&gpu, &model, way, Some(&|number| number % 2), Some(range));
            assert!(left == truth, "{way:?}, cancelled behind range {range}");
        }
    }
}
