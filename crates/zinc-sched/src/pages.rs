//! The book of the KV cache's pages: which sequence has which of them, and which tokens' keys and values (K/V) lie in them. This is bookkeeping only; the
//! model owns the K/V, and nothing here touches it.
//!
//! A page that is full of valid K/V is known by its tokens and by the page before it, so that a later sequence whose prompt begins with the same tokens
//! has its first pages in common with it. Pages that no sequence has keep their content until others need the room.

use std::collections::{BTreeSet, HashMap};

use crate::model::PagePool;

/// How many pages there are of each kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PageCounts {
    /// Pages that sequences have.
    pub used: u32,
    /// Pages that no sequence has and that hold nothing of use.
    pub free: u32,
    /// Pages that no sequence has, but whose content a sequence may need again. They are given away when no page is free.
    pub cached: u32,
}

/// The pages of a sequence. It goes back to [`PageBook::close`].
#[derive(Debug)]
pub struct Holding {
    /// In the order of positions.
    pages: Vec<u32>,
    /// How many of its leading positions have valid K/V.
    valid: u32,
    /// The tokens of the valid positions in the page that is not full yet.
    tail: Vec<u32>,
    /// The content of the last full page.
    last_full: Link,
}

impl Holding {
    /// The numbers of the pages, in the order of positions.
    pub fn pages(&self) -> &[u32] {
        &self.pages
    }

    /// How many leading positions have valid K/V.
    pub fn valid(&self) -> u32 {
        self.valid
    }

    /// The content of the page that ends with the last valid position, if it ends with a page that was known.
    pub fn end(&self) -> Option<PageContent> {
        match self.last_full {
            Link::Known(content) if self.tail.is_empty() => Some(content),
            Link::Known(_) | Link::Beginning | Link::Unknown => None,
        }
    }
}

/// What a full page has held since it was noted. It is known until the page is forgotten, and no other content is ever equal to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PageContent {
    page: u32,
    /// No other content ever has this number.
    number: u64,
}

impl PageContent {
    /// The page that holds it.
    pub fn page(self) -> u32 {
        self.page
    }
}

/// Whether the pages that a prompt has in common with others may end with a content. Where sequences have nothing but keys and values, they may end with any; where
/// they have a recurrent state, with those behind which there is a checkpoint.
pub type MayEnd<'a> = &'a dyn Fn(PageContent) -> bool;

/// The content that comes before a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Link {
    /// None: the page is a sequence's first.
    Beginning,
    /// This one, as long as it is known.
    Known(PageContent),
    /// Content that no known page has.
    Unknown,
}

/// What a full page holds.
#[derive(Debug)]
struct Content {
    /// No other content ever has this number.
    number: u64,
    /// The hash of all tokens up to the end of the page.
    hash: u128,
    /// The tokens at its positions.
    tokens: Vec<u32>,
    before: Link,
    /// How many known pages continue it.
    successors: u32,
}

#[derive(Debug, Default)]
struct Page {
    /// How many sequences have it.
    holders: u32,
    /// When the last of them has left it, by [`PageBook::clock`].
    left_at: u64,
    /// What it holds, if it is known.
    content: Option<Content>,
}

/// The book of the pages of a cache.
///
/// A page goes to one sequence, or to several that only read it: those whose first tokens it holds. It is given away again when none of them is left
/// ([`close`](Self::close)), which the caller says only once no step of theirs is in flight, so that none can still write there.
#[derive(Debug)]
pub struct PageBook {
    pool: PagePool,
    pages: Vec<Page>,
    /// The page with the content of each hash.
    known: HashMap<u128, u32>,
    /// Pages that nobody has and that hold nothing of use.
    free: Vec<u32>,
    /// Known pages that nobody has and none continues, with the time when they were left, longest ago first.
    leaves: BTreeSet<(u64, u32)>,
    /// How many known pages nobody has.
    cached: u32,
    /// How many holdings were closed so far.
    clock: u64,
    /// How many contents were noted so far.
    contents: u64,
}

/// The hash of no tokens: the offset basis of FNV-1a (Fowler, Noll, Vo) for 128 bits, here of whole tokens instead of bytes.
const EMPTY_HASH: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;

/// The hash of tokens that follow those with the hash `before`.
fn hash_behind(before: u128, tokens: &[u32]) -> u128 {
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    tokens.iter().fold(before, |hash, token| (hash ^ u128::from(*token)).wrapping_mul(PRIME))
}

impl PageBook {
    /// A book of pages of which none holds anything.
    ///
    /// # Panics
    /// If pages have no positions.
    pub fn new(pool: PagePool) -> Self {
        assert!(pool.positions > 0, "pages of no positions");
        Self {
            pool,
            pages: (0..pool.pages).map(|_| Page::default()).collect(),
            known: HashMap::new(),
            // The first page is taken first.
            free: (0..pool.pages).rev().collect(),
            leaves: BTreeSet::new(),
            cached: 0,
            clock: 0,
            contents: 0,
        }
    }

    /// How many pages there are of each kind.
    pub fn counts(&self) -> PageCounts {
        let free = self.free.len() as u32;
        PageCounts { used: self.pool.pages - free - self.cached, free, cached: self.cached }
    }

    /// How many leading tokens of `prompt` need no step, because known pages hold their K/V, of which the last one may be such: never the whole prompt, because the logits
    /// of its last token are needed.
    pub fn reusable(&self, prompt: &[u32], may_end: MayEnd<'_>) -> u32 {
        self.find(prompt, may_end).len() as u32 * self.pool.positions
    }

    /// The content of a sequence's page that ends at `position`, if it is known and so are all that the sequence has behind it. `None` if the position is not the end of a page
    /// of which all positions are valid.
    pub fn content_before(&self, holding: &Holding, position: u32) -> Option<PageContent> {
        let positions = self.pool.positions;
        let full = holding.valid / positions;
        let behind = full.checked_sub(position / positions).filter(|_| position.is_multiple_of(positions))?;
        let known = |link: Link| match link {
            Link::Known(content) => Some(content).filter(|content| self.knows(*content)),
            Link::Beginning | Link::Unknown => None,
        };
        let last = known(holding.last_full)?;
        (0..behind).try_fold(last, |content, _| known(self.content(content.page)?.before))
    }

    /// Whether a content is known still.
    pub fn knows(&self, content: PageContent) -> bool {
        self.content(content.page).is_some_and(|own| own.number == content.number)
    }

    /// The known pages that hold the first tokens of a prompt, up to the last one that may be their end.
    fn find(&self, prompt: &[u32], may_end: MayEnd<'_>) -> Vec<u32> {
        let (mut hash, mut before, mut found, mut usable) = (EMPTY_HASH, Link::Beginning, Vec::new(), 0);
        let but_the_last = &prompt[..prompt.len().saturating_sub(1)];
        for tokens in but_the_last.chunks_exact(self.pool.positions as usize) {
            hash = hash_behind(hash, tokens);
            let Some(&page) = self.known.get(&hash) else { break };
            let Some(content) = self.content(page).filter(|own| own.before == before && own.tokens == tokens) else {
                break;
            };
            let content = PageContent { page, number: content.number };
            before = Link::Known(content);
            found.push(page);
            if may_end(content) {
                usable = found.len();
            }
        }
        found.truncate(usable);
        found
    }

    fn content(&self, page: u32) -> Option<&Content> {
        self.pages[page as usize].content.as_ref()
    }

    /// How many pages there are too few for a sequence with this prompt to have pages for `positions` positions, beside those that are known, and for others to
    /// have `spare` more; 0 if [`open`](Self::open) has room for it.
    pub fn lacking(&self, prompt: &[u32], positions: u32, spare: u32, may_end: MayEnd<'_>) -> u32 {
        // The prompt is looked at only if it matters, since this is asked again and again while a sequence waits.
        if self.count_for(positions).saturating_add(spare) <= self.given_away_beside(&[]) {
            return 0;
        }
        let found = self.find(prompt, may_end);
        let fresh = self.count_for(positions).saturating_sub(found.len() as u32);
        fresh.saturating_add(spare).saturating_sub(self.given_away_beside(&found))
    }

    /// Pages that may be given away, without these.
    fn given_away_beside(&self, kept: &[u32]) -> u32 {
        let kept = kept.iter().filter(|page| self.pages[**page as usize].holders == 0).count() as u32;
        self.free.len() as u32 + self.cached - kept
    }

    /// Pages for so many positions.
    fn count_for(&self, positions: u32) -> u32 {
        positions.div_ceil(self.pool.positions)
    }

    /// Gives a sequence pages for `positions` positions, at least those of its prompt: known ones with the first tokens of the prompt, as far as
    /// [`reusable`](Self::reusable) says ([`Holding::valid`]), and others. `None` if there are not so many.
    ///
    /// # Panics
    /// If `positions` are fewer than the prompt has.
    pub fn open(&mut self, prompt: &[u32], positions: u32, may_end: MayEnd<'_>) -> Option<Holding> {
        assert!(prompt.len() <= positions as usize, "{positions} positions for a prompt of {} tokens", prompt.len());
        let found = self.find(prompt, may_end);
        let count = self.count_for(positions);
        if count - found.len() as u32 > self.given_away_beside(&found) {
            return None;
        }
        for &page in &found {
            self.hold(page);
        }
        let last_full = found.last().map_or(Link::Beginning, |&page| self.link_to(page));
        let valid = found.len() as u32 * self.pool.positions;
        let mut holding = Holding { pages: found, valid, tail: Vec::new(), last_full };
        while (holding.pages.len() as u32) < count {
            self.grow(&mut holding).expect("they were counted");
        }
        Some(holding)
    }

    fn link_to(&self, page: u32) -> Link {
        self.content(page).map_or(Link::Unknown, |content| Link::Known(PageContent { page, number: content.number }))
    }

    /// Gives a sequence another page, behind those that it has, and returns its number. `None` if others have all.
    pub fn grow(&mut self, holding: &mut Holding) -> Option<u32> {
        let page = self.take()?;
        self.pages[page as usize].holders = 1;
        holding.pages.push(page);
        Some(page)
    }

    /// Notes that the K/V of `token` at `position` are valid in a sequence's pages from now on. A page that becomes full is known from then on.
    ///
    /// # Panics
    /// If `position` is not the next one, or the sequence has no page for it.
    pub fn push(&mut self, holding: &mut Holding, position: u32, token: u32) {
        let Holding { pages, valid, tail, last_full } = holding;
        let index = (position / self.pool.positions) as usize;
        assert!(
            position == *valid && index < pages.len(),
            "K/V noted at position {position} of {} pages of which {valid} positions are valid",
            pages.len()
        );
        *valid += 1;
        tail.push(token);
        if tail.len() as u32 == self.pool.positions {
            *last_full = self.note(pages[index], *last_full, std::mem::take(tail));
        }
    }

    /// Notes what a full page of a sequence holds, behind `before`. Returns the content: that of the page, or of another that is known to hold the same.
    fn note(&mut self, page: u32, before: Link, tokens: Vec<u32>) -> Link {
        let hash_before = match before {
            Link::Beginning => EMPTY_HASH,
            Link::Known(PageContent { page, number }) => match self.content(page).filter(|own| own.number == number) {
                Some(content) => content.hash,
                // Others held the same in pages of their own, which were given away since.
                None => return Link::Unknown,
            },
            Link::Unknown => return Link::Unknown,
        };
        let hash = hash_behind(hash_before, &tokens);
        if let Some(&other) = self.known.get(&hash) {
            let is_same = |own: &&Content| own.before == before && own.tokens == tokens;
            return self.content(other).filter(is_same).map_or(Link::Unknown, |_| self.link_to(other));
        }
        self.contents += 1;
        let content = Content { number: self.contents, hash, tokens, before, successors: 0 };
        self.known.insert(hash, page);
        if let Link::Known(PageContent { page: before, .. }) = before {
            self.continued(before);
        }
        self.pages[page as usize].content = Some(content);
        self.link_to(page)
    }

    /// Notes that a known page is continued by another.
    fn continued(&mut self, page: u32) {
        let own = &mut self.pages[page as usize];
        self.leaves.remove(&(own.left_at, page));
        own.content.as_mut().expect("its content is known").successors += 1;
    }

    fn hold(&mut self, page: u32) {
        let own = &mut self.pages[page as usize];
        if own.holders == 0 {
            self.leaves.remove(&(own.left_at, page));
            self.cached -= 1;
        }
        own.holders += 1;
    }

    /// Takes the pages of a sequence back, of which no step is in flight. What is known of them stays known until they are given away.
    pub fn close(&mut self, holding: Holding) {
        self.clock += 1;
        for page in holding.pages {
            let own = &mut self.pages[page as usize];
            own.holders -= 1;
            if own.holders > 0 {
                continue;
            }
            own.left_at = self.clock;
            match &own.content {
                None => self.free.push(page),
                Some(content) => {
                    self.cached += 1;
                    if content.successors == 0 {
                        self.leaves.insert((self.clock, page));
                    }
                }
            }
        }
    }

    /// Forgets what is known of a sequence's pages, because their K/V may be broken, and of all that continue them.
    pub fn distrust(&mut self, holding: &mut Holding) {
        for page in holding.pages.clone() {
            self.forget(page);
        }
        holding.last_full = Link::Unknown;
    }

    /// Forgets what all pages hold, because it is no longer known what the device has there.
    pub fn forget_all(&mut self) {
        self.known.clear();
        self.leaves.clear();
        self.cached = 0;
        for (number, page) in (0..).zip(&mut self.pages) {
            if page.content.take().is_some() && page.holders == 0 {
                self.free.push(number);
            }
        }
    }

    /// Takes a page that nobody has: a free one, or the known one that was left longest ago of those that none continues.
    fn take(&mut self) -> Option<u32> {
        if self.free.is_empty() {
            let leaf = self.leaves.first().map(|(_, page)| *page);
            self.forget(leaf.or_else(|| self.inner())?);
        }
        self.free.pop()
    }

    /// Of the known pages that nobody has but some sequence's page continues, which had the same tokens in pages of its own: the one left longest ago behind which
    /// there is no other of them.
    fn inner(&self) -> Option<u32> {
        let is_cached = |page: &u32| self.pages[*page as usize].holders == 0 && self.content(*page).is_some();
        let page_before = |page: u32| match self.content(page)?.before {
            Link::Known(PageContent { page, .. }) => Some(page),
            Link::Beginning | Link::Unknown => None,
        };
        let cached: Vec<u32> = (0..self.pool.pages).filter(is_cached).collect();
        let mut has_others_behind = vec![false; self.pages.len()];
        for &page in &cached {
            let mut before = page_before(page);
            while let Some(page) = before.filter(|page| !has_others_behind[*page as usize]) {
                has_others_behind[page as usize] = true;
                before = page_before(page);
            }
        }
        let ends = cached.into_iter().filter(|page| !has_others_behind[*page as usize]);
        ends.min_by_key(|page| (self.pages[*page as usize].left_at, *page))
    }

    /// Forgets what a page holds, and what those hold that continue it. Those that nobody has become free.
    fn forget(&mut self, page: u32) {
        let Page { holders, left_at, content } = &mut self.pages[page as usize];
        let (holders, left_at) = (*holders, *left_at);
        let Some(Content { number, hash, before, successors, .. }) = content.take() else { return };
        self.known.remove(&hash);
        self.leaves.remove(&(left_at, page));
        if let Link::Known(PageContent { page: before, .. }) = before {
            self.discontinued(before);
        }
        if holders == 0 {
            self.cached -= 1;
            self.free.push(page);
        }
        if successors > 0 {
            let link = Link::Known(PageContent { page, number });
            let continues = |other: &u32| self.content(*other).is_some_and(|content| content.before == link);
            let behind: Vec<u32> = (0..self.pool.pages).filter(continues).collect();
            for other in behind {
                self.forget(other);
            }
        }
    }

    /// Notes that a page that continued this one is known no longer.
    fn discontinued(&mut self, page: u32) {
        let own = &mut self.pages[page as usize];
        // It may be the one that is being forgotten with all that continue it.
        let Some(content) = &mut own.content else { return };
        content.successors -= 1;
        if content.successors == 0 && own.holders == 0 {
            self.leaves.insert((own.left_at, page));
        }
    }
}
