//! The cache of the simulated model: which token's K/V lie at each of its positions. It has pages, or a part for each lane.

use super::FakeModel;
use crate::model::{GrownPage, ModelLimits, PagePool, SequenceStart};

/// What lies at each position.
pub(super) struct Cache {
    pool: Option<PagePool>,
    context_tokens: u32,
    places: Vec<Option<u32>>,
}

impl Cache {
    pub(super) fn new(limits: ModelLimits) -> Self {
        let ModelLimits { pages: pool, context_tokens, lanes, .. } = limits;
        let places = pool.map_or(u64::from(lanes) * u64::from(context_tokens), |pool| pool.tokens());
        Self { pool, context_tokens, places: vec![None; places as usize] }
    }

    /// Where the positions of a sequence lie.
    pub(super) fn of<'a>(&'a mut self, lane: usize, pages: &'a [u32]) -> SequenceCache<'a> {
        SequenceCache { cache: self, lane, pages }
    }
}

/// The positions of a sequence.
pub(super) struct SequenceCache<'a> {
    cache: &'a mut Cache,
    lane: usize,
    pages: &'a [u32],
}

impl SequenceCache<'_> {
    fn place(&self, position: u32) -> usize {
        match self.cache.pool {
            None => self.lane * self.cache.context_tokens as usize + position as usize,
            Some(PagePool { positions, .. }) => {
                let (index, count) = ((position / positions) as usize, self.pages.len());
                let page = self.pages.get(index);
                let page =
                    page.unwrap_or_else(|| panic!("position {position} of a sequence of {count} pages of {positions}"));
                (page * positions + position % positions) as usize
            }
        }
    }

    pub(super) fn get(&self, position: u32) -> Option<u32> {
        self.cache.places[self.place(position)]
    }

    pub(super) fn set(&mut self, position: u32, token: Option<u32>) {
        let place = self.place(position);
        self.cache.places[place] = token;
    }

    /// Forgets what an earlier sequence has left in the pages from number `index` on: nobody may read it.
    pub(super) fn poison(&mut self, index: usize) {
        let Some(PagePool { positions, .. }) = self.cache.pool else { return };
        for position in index as u32 * positions..self.pages.len() as u32 * positions {
            self.set(position, None);
        }
    }
}

impl FakeModel {
    /// Checks the pages of a sequence that is opened: they are enough for the prompt, nobody writes to those that are cached, and nobody else has the others.
    pub(super) fn check_pages(&self, start: &SequenceStart<'_>) {
        let Some(PagePool { pages, positions }) = self.options.limits.pages else {
            assert!(start.pages.is_empty(), "open with pages {:?} of a cache without any", start.pages);
            return;
        };
        let own = start.pages;
        assert!(
            own.iter().all(|page| *page < pages) && own.len() * positions as usize >= start.tokens.len(),
            "open with {} tokens in the pages {own:?} of {pages}, of {positions} positions each",
            start.tokens.len()
        );
        assert!(
            start.cached.is_multiple_of(positions),
            "open with {} tokens cached in pages of {positions}",
            start.cached
        );
        let cached = (start.cached / positions) as usize;
        for (index, page) in own.iter().enumerate() {
            assert!(!own[..index].contains(page), "open with page {page} twice");
            for open in self.open.iter().flatten() {
                let Some(place) = open.pages.iter().position(|other| other == page) else { continue };
                let written = (place as u32 + 1) * positions <= open.device.position;
                assert!(
                    index < cached && written,
                    "open with page {page} as number {index}, of which {cached} are cached: number {place} of sequence {}, which is at {}",
                    open.id.value(),
                    open.device.position
                );
            }
        }
    }

    /// Gives sequences pages with a step.
    pub(super) fn grow(&mut self, grown: &[GrownPage]) {
        for GrownPage { sequence, index, page } in grown {
            let pool = self.options.limits.pages.expect("a cache without pages gives none");
            assert!(*page < pool.pages, "page {page} of {}", pool.pages);
            let owner = self.open.iter().flatten().find(|open| open.pages.contains(page));
            assert!(owner.is_none(), "page {page} given to {sequence:?}, which {:?} has", owner.map(|open| open.id));
            let lane = self.lane_of(*sequence, "a page given");
            let Self { open, cache, .. } = self;
            let open = open[lane].as_mut().expect("it is open");
            assert!(open.pages.len() == *index as usize, "page {index} given to a sequence of {}", open.pages.len());
            open.pages.push(*page);
            cache.of(lane, &open.pages).poison(*index as usize);
        }
    }
}
