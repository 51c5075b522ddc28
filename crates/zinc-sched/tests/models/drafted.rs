//! Looked-up drafts in a model of several lanes: a sequence that runs alone gets its tokens by steps with drafts, and by plain ones as soon as others have come, and
//! these are the tokens, the keys and the values that it gets without drafts, to the bit. Whatever a page held before is poisoned when a sequence gets it.

use zinc_kernels::step::PAGE_POSITIONS;
use zinc_sched::{EngineOptions, Request};

use crate::crowd::{Alone, Answer, Ask, Crowd, Known, Way, open};
use crate::gpu::Gpu;
use crate::matrix;
use crate::qwen35::QWEN35_MOE;
use crate::ways::cases::kinds;

const CONTEXT: u32 = 5 * PAGE_POSITIONS;
/// Tokens of prompts. Answers go on into further pages, and drafts into these before it is known whether the answers do. The longer prompts have pages that are known
/// when they come again.
const PROMPTS: [u32; 3] = [PAGE_POSITIONS - 14, PAGE_POSITIONS + 9, 2 * PAGE_POSITIONS - 14];

/// Requests of every kind of sampling, for answers of about so many tokens. Their prompts say the same few tokens again and again, so that there is something to look
/// up from the first step on, and every second answer is made to do so too, so that drafts are right.
fn requests(vocabulary: u32, count: u32, tokens: u32) -> Vec<Request> {
    let kinds = kinds();
    let request = |number: u32| {
        let mut request = kinds[number as usize % kinds.len()].request(number, vocabulary, tokens + number % 9);
        let prompt_tokens = PROMPTS[number as usize % PROMPTS.len()] - number / 3 % 3;
        request.prompt = (0..prompt_tokens).map(|place| (place % 5 * 7 + number) % (vocabulary - 1)).collect();
        if number % 2 == 1 {
            request.sampling.logit_bias = (0..3).map(|place| (place * 7 + number, 20.0)).collect();
        }
        request
    };
    (0..count).map(request).collect()
}

#[test]
fn a_sequence_alone_is_drafted_and_company_changes_nothing() {
    let gpu = Gpu::borrow();
    let names = ["qwen3moe-a-q4_k_m", "llama-f16", QWEN35_MOE];
    // Lanes, pages, depth and drafts: pages for one sequence and a little more, and for all.
    let ways = [(3, 4, 4, 3), (4, 6, 2, 15), (3, 15, 4, 7), (2, 10, 1, 3)];
    let (names, ways, count, tokens) =
        if matrix::is_full() { (&names[..], &ways[..], 35, 90) } else { (&names[..1], &ways[..1], 8, 72) };
    for name in names {
        let model = open(name);
        let mut alone = Alone::new(&gpu, &model, CONTEXT);
        let requests = requests(model.config.n_vocab, count, tokens);
        let known: Vec<Known> = requests.into_iter().map(|request| alone.answer(request)).collect();
        drop(alone);
        // One comes when another has had half of its answer, so that most run alone at first, then beside another, and alone again. Every fourth goes away soon.
        let first = (0..known.len()).map(|number| Ask {
            most: if number % 4 == 3 { 1 + number % 7 } else { usize::MAX },
            after: number * tokens as usize * 3 / 4,
            ..Ask::now(number)
        });
        // The same again, all at once.
        let again = (0..known.len()).rev().map(Ask::now);
        let asks: Vec<Ask> = first.chain(again).collect();
        for (lanes, pages, depth, max_drafts) in ways.iter().copied() {
            let max_gap = EngineOptions::MAX_GAP;
            let way = Way { lanes, pages, depth, context: CONTEXT, feed_rows: 32, max_gap, max_drafts, rings: false };
            let mut crowd = Crowd::new(&gpu, &model, way);
            let answers = crowd.answer(&known, &asks);
            let whole = answers.iter().filter(|answer| answer.is_whole);
            assert!(whole.count() > known.len(), "{name}, {way:?}: answers");
            let (steps, sampled) = answers.iter().fold((0, 0), |(steps, tokens), answer| {
                (steps + answer.speculation.steps, tokens + answer.speculation.tokens)
            });
            // The first token is that of the step that feeds the prompt.
            let is_mixed = |answer: &&Answer| {
                answer.speculation.steps > 0 && answer.tokens.len() as u64 > answer.speculation.tokens + 1
            };
            let mixed = answers.iter().filter(is_mixed).count();
            let (preemptions, cached) = (crowd.preemptions(), answers.iter().map(|answer| answer.cached).sum::<u32>());
            println!(
                "{name}, {way:?}: {} drafts accepted in {steps} steps, {mixed} answers with plain steps too, {preemptions} times pages were given back, {cached} tokens \
                 of prompts were known",
                sampled - steps
            );
            // A sequence with a recurrent state begins at position 0.
            let is_recurrent = model.config.recurrent_bytes(0) > 0;
            assert!(sampled > steps && mixed > 2 && (cached > 0 || is_recurrent), "{name}, {way:?}");
            let is_ample = pages >= lanes * CONTEXT / PAGE_POSITIONS;
            assert!(preemptions > 0 || is_ample, "{name}, {way:?}: pages are not short");
        }
    }
}
