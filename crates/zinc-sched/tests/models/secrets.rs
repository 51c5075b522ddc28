//! No sequence ever sees another's text: each request is told a secret word through its prompt, some say it, and no other does. Prompts share pages, pages are
//! short, and readers go away meanwhile.

use std::collections::HashMap;
use std::time::Duration;

use zinc_kernels::step::PAGE_POSITIONS;
use zinc_sched::{Constraint, Control, ControlError, Guide, Request, TokenSampler, Verdict};

use crate::crowd::{Alone, Answer, Ask, Crowd, Known, Way, open};
use crate::gpu::Gpu;
use crate::matrix;
use crate::ways::cases::kinds;

const CONTEXT: u32 = 3 * PAGE_POSITIONS;
/// Requests of the part of the matrix that every run goes through, and of the whole, and the pages that they share, fewer than 64 of them need.
const REQUESTS: [(u32, u32); 2] = [(40, 24), (10_000, 120)];
/// Requests whose truth is kept in memory at a time.
const ROUND: u32 = 500;
/// Tokens of a word: of a thousand ids, so many that no text has a stranger's word by chance.
const WORD: usize = 4;
/// More than the ids that kinds of sampling have biases of.
const BIASED: u32 = 16;

/// A word that a request is told.
type Word = [u32; WORD];

/// The word of a request: ids that look random, of which no kind of sampling has a bias.
fn word(number: u32, vocabulary: u32) -> Word {
    let mut state = (u64::from(number) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    [(); WORD].map(|()| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        BIASED + (state >> 33) as u32 % (vocabulary - BIASED)
    })
}

/// Whether a request is to say its word: one in three, by a constraint or by a sampler on the host.
fn says_its_word(number: u32) -> bool {
    number % 3 == 1
}

/// Tokens that a prompt has in common with others before its word, and all of its tokens: the word begins a page, lies in its middle or at its end, or in the second
/// page, and the page is full, so that it is known by these tokens.
const PROMPTS: [(u32, u32); 4] = [
    (0, PAGE_POSITIONS + 6),
    (PAGE_POSITIONS / 2, PAGE_POSITIONS + 5),
    (PAGE_POSITIONS - WORD as u32, PAGE_POSITIONS + 16),
    (2 * PAGE_POSITIONS - 14, 2 * PAGE_POSITIONS + 5),
];

/// A request that is told its word behind one of three texts that others have in common with it, and once more at the end of the prompt.
fn request(number: u32, vocabulary: u32) -> Request {
    let (kinds, word) = (kinds(), word(number, vocabulary));
    let tokens = 6 + number % 13;
    let mut request = kinds[number as usize % kinds.len()].request(number, vocabulary, tokens);
    let (common, all) = PROMPTS[number as usize % PROMPTS.len()];
    let text = number / PROMPTS.len() as u32 % 3;
    let others = |from: u32, to: u32| (from..to).map(move |place| (place * place + 5 * text + 3) % vocabulary);
    let words = WORD as u32;
    request.prompt = others(0, common).chain(word).chain(others(common + words, all - words)).chain(word).collect();
    let told = request.prompt.len();
    if says_its_word(number) {
        request.control = match number % 2 {
            0 => Control::masked(move || Ok(Said { word, said: 0 })),
            _ => Control::host_fed(move || Ok(Saying { word, told })),
        };
    }
    request.with_logprobs((number % 5 == 1).then_some(2))
}

/// A constraint that has a text begin with a word.
struct Said {
    word: Word,
    said: usize,
}

impl Constraint for Said {
    fn guide(&mut self, guide: &mut Guide) -> Result<Verdict, ControlError> {
        if let Some(token) = self.word.get(self.said) {
            guide.forbid_all();
            guide.allow(*token);
        }
        Ok(Verdict::Choose)
    }

    fn accept(&mut self, _token: u32) -> Result<(), ControlError> {
        self.said += 1;
        Ok(())
    }
}

/// A sampler that has a text begin with a word, and go on with the likeliest tokens.
struct Saying {
    word: Word,
    /// Tokens of the prompt.
    told: usize,
}

impl TokenSampler for Saying {
    fn sample(&mut self, logits: &[f32], tokens: &[u32]) -> Result<u32, ControlError> {
        let likeliest = || (0..logits.len()).max_by(|a, b| logits[*a].total_cmp(&logits[*b])).map_or(0, |id| id as u32);
        Ok(self.word.get(tokens.len() - self.told).copied().unwrap_or_else(likeliest))
    }
}

/// Looks for words in what requests were answered.
struct Listener {
    owners: HashMap<Word, u32>,
    /// How many said their words.
    told: u32,
}

impl Listener {
    fn new(requests: u32, vocabulary: u32) -> Self {
        let owners: HashMap<Word, u32> = (0..requests).map(|number| (word(number, vocabulary), number)).collect();
        assert_eq!(owners.len(), requests as usize, "each has a word of its own");
        Self { owners, told: 0 }
    }

    fn hear(&mut self, number: u32, answer: &Answer) {
        let words = answer.tokens.windows(WORD).filter_map(|window| self.owners.get(window));
        let owners: Vec<u32> = words.copied().collect();
        assert!(owners.iter().all(|owner| *owner == number), "request {number} says the words of {owners:?}");
        let says = says_its_word(number) && answer.tokens.len() >= WORD;
        assert!(!says || owners.first() == Some(&number), "request {number} does not say its word");
        self.told += u32::from(says);
    }
}

#[test]
fn nobody_says_the_secret_of_another() {
    let gpu = Gpu::borrow();
    let model = open("qwen3moe-a-q4_k_m");
    let vocabulary = model.config.n_vocab;
    let (count, pages) = REQUESTS[usize::from(matrix::is_full())];
    let mut listener = Listener::new(count, vocabulary);
    let mut alone = Alone::new(&gpu, &model, CONTEXT);
    // Prompts are read in whole steps, so that many sequences generate at once.
    let (lanes, max_gap) = (64, Duration::from_secs(60));
    let way = Way { lanes, pages, depth: 4, context: CONTEXT, feed_rows: 128, max_gap, max_drafts: 0, rings: false };
    let mut crowd = Crowd::new(&gpu, &model, way);
    let (mut cached, mut gone) = (0, 0);
    for first in (0..count).step_by(ROUND as usize) {
        let numbers = first..count.min(first + ROUND);
        let known: Vec<Known> = numbers.map(|number| alone.answer(request(number, vocabulary))).collect();
        let leaves = |number: &usize| number % 5 == 3;
        // Those whose readers go away ask again later.
        let once = (0..known.len())
            .map(|number| Ask { most: if leaves(&number) { 1 + number % 9 } else { usize::MAX }, ..Ask::now(number) });
        let again = (0..known.len()).filter(leaves).map(Ask::now);
        let answers = crowd.answer(&known, &once.chain(again).collect::<Vec<_>>());
        for answer in &answers {
            listener.hear(first + answer.number as u32, answer);
            cached += answer.cached;
            gone += u32::from(!answer.is_whole);
        }
        let whole = answers.iter().filter(|answer| answer.is_whole).count();
        assert!(whole >= known.len(), "{whole} of {} were answered", known.len());
    }
    let (given, told, most) = (crowd.given_pages(), listener.told, crowd.sampled().last().copied().unwrap_or(0));
    println!(
        "{count} requests, {told} said their words, {gone} readers went away, {cached} tokens of prompts were known, {pages} pages were given out {given} times, \
         up to {most} sequences at once"
    );
    assert!(
        given > 2 * u64::from(pages) && cached > 0,
        "{pages} pages given out {given} times, {cached} tokens cached"
    );
    assert!(told > count / 4 && gone > count / 10, "{told} words, {gone} readers");
}
