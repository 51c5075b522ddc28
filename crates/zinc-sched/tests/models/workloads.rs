//! One workload several times, first with a cold cache and then with a warm one: tokens, log-probabilities, keys and values are those of each request alone, to
//! the bit, with numbers of rows on both sides of every one at which a kernel takes another form.

use std::collections::BTreeSet;
use std::time::Duration;

use zinc_kernels::step::{PAGE_POSITIONS, StepShape};
use zinc_sched::Request;

use crate::crowd::{Alone, Ask, Crowd, Known, Way, open};
use crate::gpt_oss::GPT_OSS;
use crate::gpu::Gpu;
use crate::matrix;
use crate::ways::cases::kinds;

const CONTEXT: u32 = 5 * PAGE_POSITIONS;
/// How often a workload is asked for.
const TIMES: usize = 5;
/// Tokens of prompts: around each number of rows at which steps that feed take another form, up to steps of 128 rows and a page.
const PROMPTS: [u32; 16] = [129, 1, 2, 15, 16, 17, 31, 33, 32, 63, 64, 65, 127, 128, 130, 160];
/// The most rows of steps that feed prompts: experts' products go by matrix units from so many on.
const FEED_ROWS: u32 = 128;

/// Requests of every kind of sampling whose prompts have no page in common. No answer ends before the last has begun; then they end one after the other. So steps have
/// every shape from that of one row to that of as many as there are.
fn requests(vocabulary: u32, sequences: u32) -> Vec<Request> {
    let kinds = kinds();
    let request = |number: u32| {
        let tokens = 2 * sequences + sequences / 2 - number - number * 5 % sequences + 4;
        let mut request = kinds[number as usize % kinds.len()].request(number, vocabulary, tokens);
        let prompt_tokens = PROMPTS[number as usize % PROMPTS.len()];
        request.prompt = (0..prompt_tokens).map(|place| (place * place + 11 * number + 3) % vocabulary).collect();
        request.with_logprobs((number % 3 == 1).then_some(3))
    };
    (0..sequences).map(request).collect()
}

#[test]
fn a_workload_is_answered_alike_with_a_cold_and_a_warm_cache() {
    let gpu = Gpu::borrow();
    // Without whole matrices, the smallest crowd: steps of one to eight rows, where kernels for CPUs take all the forms that they have for steps that sample.
    let (crowds, names) = if matrix::is_full() {
        (&[8, 44, 64][..], &["qwen3moe-a-q4_k_m", "llama-f16", "qwen3moe-b-q8_0", GPT_OSS][..])
    } else {
        (&[8][..], &["qwen3moe-a-q4_k_m"][..])
    };
    for name in names {
        let model = open(name);
        let mut alone = Alone::new(&gpu, &model, CONTEXT);
        for sequences in crowds.iter().copied() {
            let requests = requests(model.config.n_vocab, sequences);
            let known: Vec<Known> = requests.into_iter().map(|request| alone.answer(request)).collect();
            // Pages for all, so that what is known stays. Prompts are read in whole steps.
            let pages = sequences * CONTEXT / PAGE_POSITIONS;
            let max_gap = Duration::from_secs(60);
            let way = Way {
                lanes: sequences,
                pages,
                depth: 4,
                context: CONTEXT,
                feed_rows: FEED_ROWS,
                max_gap,
                max_drafts: 0,
                rings: false,
            };
            let mut crowd = Crowd::new(&gpu, &model, way);
            let asks: Vec<Ask> = (0..sequences as usize).map(Ask::now).collect();
            for time in 0..TIMES {
                let answers = crowd.answer(&known, &asks);
                let cached: u32 = answers.iter().map(|answer| answer.cached).sum();
                assert_eq!(cached > 0, time > 0, "{name}, {sequences} sequences, time {time}: {cached} tokens cached");
            }
            let shapes: BTreeSet<StepShape> = crowd.sampled().into_iter().map(StepShape::of).collect();
            let all: BTreeSet<StepShape> = (1..=sequences).map(StepShape::of).collect();
            assert_eq!(shapes, all, "{name}, {sequences} sequences: shapes of steps");
        }
    }
}
