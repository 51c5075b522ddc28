//! Few pages for many sequences, on the device: they take pages that hold the beginnings of their prompts, give their pages back to others and go on later, and get
//! the tokens, the log-probabilities, the keys and the values that they get alone, to the bit. Whatever a page held before is poisoned when a sequence gets it.

use zinc_kernels::step::PAGE_POSITIONS;
use zinc_sched::{EngineOptions, Request};

use crate::crowd::{Alone, Ask, Crowd, Known, Way, open};
use crate::gpt_oss::GPT_OSS;
use crate::gpu::Gpu;
use crate::matrix;
use crate::qwen35::QWEN35_MOE;
use crate::ways::cases::kinds;

const CONTEXT: u32 = 320;

/// Requests of every kind of sampling, whose prompts begin with one of three texts of up to three pages, for answers of up to so many tokens.
fn requests(vocabulary: u32, count: u32, tokens: u32) -> Vec<Request> {
    let kinds = kinds();
    let request = |number: u32| {
        let mut request = kinds[number as usize % kinds.len()].request(number, vocabulary, tokens - number % 11);
        let (text, common) = (number % 3, PAGE_POSITIONS * (number % 4) / 2 + 40);
        request.prompt = (0..common).map(|i| (i * i + 5 * text + 3) % (vocabulary - 1)).collect();
        request.prompt.extend([number, 2 * number + 1, 7].map(|token| token % (vocabulary - 1)));
        request.with_logprobs((number % 3 == 1).then_some(5))
    };
    (0..count).map(request).collect()
}

#[test]
fn few_pages_and_known_ones_change_nothing() {
    let gpu = Gpu::borrow();
    let names = ["qwen3moe-a-q4_k_m", "llama-f16", GPT_OSS, QWEN35_MOE];
    // Lanes, pages and depth: pages for one sequence and a little more, and for about half of what all may need.
    let ways = [(4, 6, 4), (8, 12, 2), (3, 4, 1), (16, 20, 4)];
    // A sequence that needs one page more than it began with nearly always finds one, so that most have to need two.
    let (names, ways, count, tokens) =
        if matrix::is_full() { (&names[..], &ways[..], 60, 110) } else { (&names[..1], &ways[..1], 14, 70) };
    for name in names {
        let model = open(name);
        let mut alone = Alone::new(&gpu, &model, CONTEXT);
        let requests = requests(model.config.n_vocab, count, tokens);
        let known: Vec<Known> = requests.into_iter().map(|request| alone.answer(request)).collect();
        drop(alone);
        // Each request twice; the first time every fifth reader goes away early.
        let first = (0..known.len())
            .map(|number| Ask { most: if number % 5 == 2 { 1 + number % 30 } else { usize::MAX }, ..Ask::now(number) });
        let again = (0..known.len()).rev().map(Ask::now);
        let asks: Vec<Ask> = first.chain(again).collect();
        for (lanes, pages, depth) in ways.iter().copied() {
            let max_gap = EngineOptions::MAX_GAP;
            let way =
                Way { lanes, pages, depth, context: CONTEXT, feed_rows: 32, max_gap, max_drafts: 0, rings: false };
            let mut crowd = Crowd::new(&gpu, &model, way);
            let answers = crowd.answer(&known, &asks);
            let whole = answers.iter().filter(|answer| answer.is_whole).count();
            assert!(whole > known.len(), "{whole} requests were answered");
            let (preemptions, cached) = (crowd.preemptions(), answers.iter().map(|answer| answer.cached).sum::<u32>());
            println!(
                "{name}, {way:?}: {preemptions} times pages were given back, {cached} tokens of prompts were known"
            );
            // A sequence with a recurrent state begins at position 0.
            let is_recurrent = model.config.recurrent_bytes(0) > 0;
            assert!(
                preemptions > 0 && (cached > 0 || is_recurrent),
                "{name}, {way:?}: {preemptions} preemptions, {cached} tokens cached"
            );
        }
    }
}
