//! The book of pages against a naive one that keeps whole histories and searches all pages: which are known, which are shared, which are given away and when.

#[path = "support/cases.rs"]
mod cases;
#[path = "support/matrix.rs"]
mod matrix;

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use zinc_sched::PagePool;
use zinc_sched::pages::{Holding, PageBook, PageContent, PageCounts};

/// Random histories of a book.
const HISTORIES: u32 = 250_000;
/// How many times as many the whole matrix has: a million.
const WHOLE: u32 = 4;

#[derive(Debug, Clone, Copy)]
enum Op {
    /// A sequence opens. Its prompt has so many of the first tokens that an earlier one had, and others behind them; it wants room for so many more.
    Open {
        like: usize,
        common: usize,
        others: usize,
        bits: u32,
        more: u32,
    },
    /// A sequence's next tokens have valid keys and values; it gets the pages that it needs, while there are any.
    Run {
        sequence: usize,
        tokens: usize,
        bits: u32,
    },
    Close {
        sequence: usize,
    },
    Distrust {
        sequence: usize,
    },
    ForgetAll,
}

#[derive(Debug, Clone)]
struct History {
    pool: PagePool,
    /// The pages that the beginning of a prompt which is known may end with, a bit for each.
    ends: u32,
    ops: Vec<Op>,
}

fn history() -> impl Strategy<Value = History> {
    let op = prop_oneof![
        6 => (0_usize..8, 0_usize..12, 0_usize..6, any::<u32>(), 0_u32..6)
            .prop_map(|(like, common, others, bits, more)| Op::Open { like, common, others, bits, more }),
        8 => (0_usize..8, 1_usize..9, any::<u32>()).prop_map(|(sequence, tokens, bits)| Op::Run { sequence, tokens, bits }),
        6 => (0_usize..8).prop_map(|sequence| Op::Close { sequence }),
        1 => (0_usize..8).prop_map(|sequence| Op::Distrust { sequence }),
        1 => Just(Op::ForgetAll),
    ];
    let ends = prop_oneof![Just(u32::MAX), any::<u32>()];
    (1_u32..12, 1_u32..4, ends, prop::collection::vec(op, 1..40)).prop_map(|(pages, positions, ends, ops)| History {
        pool: PagePool { pages, positions },
        ends,
        ops,
    })
}

/// What a page holds: all tokens up to its end, and a number that no other content has.
#[derive(Debug, Clone, PartialEq)]
struct Content {
    number: u64,
    tokens: Vec<u32>,
}

#[derive(Debug, Clone, Default)]
struct Page {
    holders: u32,
    left_at: u64,
    content: Option<Content>,
}

#[derive(Debug)]
struct Sequence {
    tokens: Vec<u32>,
    /// How many leading tokens have valid keys and values.
    valid: usize,
    /// The content that its full pages have; `None` once that is no longer known of.
    last_full: Option<u64>,
    /// Whether what it writes may be known.
    is_trusted: bool,
    holding: Holding,
}

struct Naive {
    positions: usize,
    pages: Vec<Page>,
    contents: u64,
    clock: u64,
}

impl Naive {
    /// The page that is known to hold these tokens at its end.
    fn known(&self, tokens: &[u32]) -> Option<u32> {
        let place = self.pages.iter().position(|page| page.content.as_ref().is_some_and(|own| own.tokens == tokens));
        place.map(|place| place as u32)
    }

    fn find(&self, prompt: &[u32], may_end: impl Fn(&u32) -> bool) -> Vec<u32> {
        let ends = (1..).map(|count| count * self.positions).take_while(|end| *end < prompt.len());
        let mut found: Vec<u32> = ends.map_while(|end| self.known(&prompt[..end])).collect();
        while found.pop_if(|page| !may_end(page)).is_some() {}
        found
    }

    /// Whether a known page continues what this one holds; with `unheld` one that nobody has, however far behind.
    fn is_continued(&self, page: &Page, unheld: bool) -> bool {
        let own = page.content.as_ref().map_or(&[][..], |content| &content.tokens);
        let behind = |other: &Content| other.tokens.len() > own.len() && other.tokens.starts_with(own);
        let others = self.pages.iter().filter(|page| !unheld || page.holders == 0);
        others.filter_map(|page| page.content.as_ref()).any(behind)
    }

    /// Checks that the book was right to give this page away, and does so.
    fn take(&mut self, number: u32) -> Result<(), TestCaseError> {
        let page = self.pages[number as usize].clone();
        prop_assert_eq!(page.holders, 0, "page {} is given away, which someone has", number);
        let unheld = || (0..).zip(&self.pages).filter(|(_, page)| page.holders == 0);
        if page.content.is_some() {
            prop_assert!(unheld().all(|(_, other)| other.content.is_some()), "page {number} is known, another is free");
            // Rather what none continues, else what is continued only by pages that sequences have.
            let longest_ago = |alone| {
                let ends = unheld().filter(|(_, other)| !self.is_continued(other, alone));
                ends.map(|(place, other)| (other.left_at, place)).min()
            };
            prop_assert_eq!(Some(number), longest_ago(false).or(longest_ago(true)).map(|(_, place)| place));
        }
        self.forget(number);
        self.pages[number as usize].holders = 1;
        Ok(())
    }

    /// Forgets what a page holds, and what continues it.
    fn forget(&mut self, number: u32) {
        let Some(content) = self.pages[number as usize].content.take() else { return };
        for page in &mut self.pages {
            if page.content.as_ref().is_some_and(|own| own.tokens.starts_with(&content.tokens)) {
                page.content = None;
            }
        }
    }

    /// Whether a page is known to have the content with this number.
    fn knows(&self, number: u64) -> bool {
        self.pages.iter().any(|page| page.content.as_ref().is_some_and(|own| own.number == number))
    }

    /// Notes what the page that ends with these tokens of a sequence holds.
    fn note(&mut self, page: u32, tokens: &[u32], before: Option<u64>) -> Option<u64> {
        let is_first = tokens.len() == self.positions;
        if !is_first && !before.is_some_and(|number| self.knows(number)) {
            return None;
        }
        if let Some(other) = self.known(tokens) {
            return self.pages[other as usize].content.as_ref().map(|own| own.number);
        }
        self.contents += 1;
        self.pages[page as usize].content = Some(Content { number: self.contents, tokens: tokens.to_vec() });
        Some(self.contents)
    }

    fn counts(&self) -> PageCounts {
        let count = |is: &dyn Fn(&Page) -> bool| self.pages.iter().filter(|page| is(page)).count() as u32;
        PageCounts {
            used: count(&|page| page.holders > 0),
            free: count(&|page| page.holders == 0 && page.content.is_none()),
            cached: count(&|page| page.holders == 0 && page.content.is_some()),
        }
    }
}

/// So many tokens of two kinds, by bits.
fn tokens(count: usize, bits: u32) -> impl Iterator<Item = u32> {
    (0..count).map(move |index| bits >> (index % 32) & 1)
}

fn hold(history: History) -> Result<(), TestCaseError> {
    let History { pool, ends, ops } = history;
    let is_end = |page: &u32| ends >> page & 1 == 1;
    let may_end = |content: PageContent| is_end(&content.page());
    let mut book = PageBook::new(pool);
    let pages = vec![Page::default(); pool.pages as usize];
    let mut naive = Naive { positions: pool.positions as usize, pages, contents: 0, clock: 0 };
    let mut open: Vec<Sequence> = Vec::new();
    let mut past: Vec<Vec<u32>> = vec![Vec::new()];
    for op in ops {
        match op {
            Op::Open { like, common, others, bits, more } => {
                let like = &past[like % past.len()];
                let mut prompt: Vec<u32> = like[..common.min(like.len())].to_vec();
                prompt.extend(tokens(others, bits));
                prompt.push(bits >> 31);
                let positions = prompt.len() as u32 + more;
                let count = positions.div_ceil(pool.positions);
                let found = naive.find(&prompt, is_end);
                prop_assert_eq!(book.reusable(&prompt, &may_end), found.len() as u32 * pool.positions);
                let unheld =
                    (0..).zip(&naive.pages).filter(|(number, page)| page.holders == 0 && !found.contains(number));
                let lacking = (count - found.len() as u32).saturating_sub(unheld.count() as u32);
                prop_assert_eq!(book.lacking(&prompt, positions, 0, &may_end), lacking);
                let before = book.counts();
                match book.open(&prompt, positions, &may_end) {
                    None => {
                        prop_assert!(lacking > 0);
                        prop_assert_eq!(book.counts(), before);
                    }
                    Some(holding) => {
                        prop_assert_eq!(lacking, 0);
                        prop_assert_eq!(&holding.pages()[..found.len()], &found[..]);
                        prop_assert_eq!(holding.pages().len() as u32, count);
                        let valid = found.len() * naive.positions;
                        prop_assert_eq!(holding.valid() as usize, valid);
                        found.iter().for_each(|page| naive.pages[*page as usize].holders += 1);
                        for page in &holding.pages()[found.len()..] {
                            naive.take(*page)?;
                        }
                        let last = found.last().and_then(|page| naive.pages[*page as usize].content.as_ref());
                        let last_full = last.map(|content| content.number);
                        open.push(Sequence { tokens: prompt, valid, last_full, is_trusted: true, holding });
                    }
                }
            }
            Op::Run { sequence, tokens: count, bits } if !open.is_empty() => {
                let place = sequence % open.len();
                let own = &mut open[place];
                for token in tokens(count, bits) {
                    if own.valid == own.tokens.len() {
                        own.tokens.push(token);
                    }
                    if own.valid == own.holding.pages().len() * naive.positions {
                        let PageCounts { free, cached, .. } = book.counts();
                        match book.grow(&mut own.holding) {
                            Some(page) => {
                                prop_assert_eq!(own.holding.pages().last(), Some(&page));
                                naive.take(page)?;
                            }
                            None => {
                                prop_assert_eq!(free + cached, 0);
                                break;
                            }
                        }
                    }
                    book.push(&mut own.holding, own.valid as u32, own.tokens[own.valid]);
                    own.valid += 1;
                    if own.is_trusted && own.valid.is_multiple_of(naive.positions) {
                        let page = own.holding.pages()[own.valid / naive.positions - 1];
                        own.last_full = naive.note(page, &own.tokens[..own.valid], own.last_full);
                    }
                    let is_known = own.holding.end().is_some_and(|content| book.knows(content));
                    let ends_here = own.is_trusted && own.valid.is_multiple_of(naive.positions);
                    prop_assert_eq!(is_known, ends_here && own.last_full.is_some_and(|number| naive.knows(number)));
                }
                let is_known = own.is_trusted && own.last_full.is_some_and(|number| naive.knows(number));
                for end in 0..=own.valid + 2 {
                    let is_page = end > 0 && end <= own.valid && end.is_multiple_of(naive.positions);
                    let page = if is_known && is_page { naive.known(&own.tokens[..end]) } else { None };
                    let found = book.content_before(&own.holding, end as u32);
                    prop_assert!(found.is_none_or(|content| book.knows(content)));
                    prop_assert_eq!(found.map(PageContent::page), page, "up to {} of {}", end, own.valid);
                }
            }
            Op::Close { sequence } if !open.is_empty() => {
                let Sequence { tokens, holding, .. } = open.swap_remove(sequence % open.len());
                naive.clock += 1;
                for page in holding.pages() {
                    let page = &mut naive.pages[*page as usize];
                    page.holders -= 1;
                    if page.holders == 0 {
                        page.left_at = naive.clock;
                    }
                }
                book.close(holding);
                past.push(tokens);
            }
            Op::Distrust { sequence } if !open.is_empty() => {
                let place = sequence % open.len();
                let own = &mut open[place];
                own.holding.pages().to_vec().into_iter().for_each(|page| naive.forget(page));
                own.is_trusted = false;
                book.distrust(&mut own.holding);
            }
            Op::ForgetAll => {
                naive.pages.iter_mut().for_each(|page| page.content = None);
                book.forget_all();
            }
            Op::Run { .. } | Op::Close { .. } | Op::Distrust { .. } => {}
        }
        prop_assert_eq!(book.counts(), naive.counts());
    }
    Ok(())
}

#[test]
fn the_book_is_what_a_search_of_all_pages_finds() {
    let times = if matrix::is_full() { WHOLE } else { 1 };
    let asked_for = std::env::var("PROPTEST_CASES").ok();
    let cases = asked_for.map_or(times * HISTORIES, |cases| cases.parse().expect("a number"));
    let histories = cases::hold_all(cases, history, |_| 1, hold);
    assert!(histories >= u64::from(cases), "{histories} histories");
}
