//! How much context a model is loaded for, and where its keys and values lie.

use std::ops::Range;

use zinc_kernels::ops::CacheFormat;
use zinc_kernels::step::{MOST_RUN, PAGE_POSITIONS};

/// How much context a model is loaded for and how its cache is stored.
///
/// In a model of several lanes the cache is a pool of pages of [`PAGE_POSITIONS`], which the lanes share. In one of a single lane it has the positions of the lane
/// one behind the other, so that nothing has to be looked up.
///
/// A layer with a window attends to its positions alone. It may have a ring of pages for each lane instead, in which a position takes the place of the one that is a
/// whole ring before it, so that its part of the cache does not grow with the context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheOptions {
    /// Positions that a sequence may have.
    pub context: u32,
    /// Lanes that share the cache, 1 to [`MOST_LANES`](zinc_kernels::step::MOST_LANES).
    pub lanes: u32,
    /// Positions that the pages of all lanes have room for, rounded up to whole pages; `None` is as many as all lanes together may have. A model of one lane has
    /// the positions of its context.
    pub cache_tokens: Option<u32>,
    /// How keys are stored.
    pub key_format: CacheFormat,
    /// How values are stored.
    pub value_format: CacheFormat,
    /// The most drafts that a step takes of a lane. A recurrent state has room for so many, by which it goes back when they are not accepted.
    pub drafts: u32,
    /// The most rows of a lane in a step, drafts included, for which layers with a window have rings; 0 if these layers have all positions, as others do.
    pub ring_rows: u32,
}

impl CacheOptions {
    /// A cache of `context` positions of one lane, with these formats of keys and values.
    #[must_use]
    pub const fn new(context: u32, key_format: CacheFormat, value_format: CacheFormat) -> Self {
        Self { context, lanes: 1, cache_tokens: None, key_format, value_format, drafts: 0, ring_rows: 0 }
    }

    /// This cache for steps with so many drafts of a lane at most.
    #[must_use]
    pub const fn with_drafts(mut self, drafts: u32) -> Self {
        self.drafts = drafts;
        self
    }

    /// This cache with rings for layers with a window, in which steps have so many rows of a lane at most; 0 is without rings.
    #[must_use]
    pub const fn with_rings(mut self, ring_rows: u32) -> Self {
        self.ring_rows = ring_rows;
        self
    }

    /// This cache with room for so many positions of all lanes together; `None` is as many as all lanes together may have.
    #[must_use]
    pub const fn with_cache_tokens(mut self, cache_tokens: Option<u32>) -> Self {
        self.cache_tokens = cache_tokens;
        self
    }

    /// This cache for so many lanes, which share it.
    #[must_use]
    pub const fn with_lanes(mut self, lanes: u32) -> Self {
        self.lanes = lanes;
        self
    }

    /// Pages that a sequence may have, and the table of a lane has room for; 0 in a model of one lane, which has no pages.
    #[must_use]
    pub const fn lane_pages(&self) -> u32 {
        if self.lanes > 1 { self.context.div_ceil(PAGE_POSITIONS) } else { 0 }
    }

    /// Pages of the pool. 0 in a model of one lane, which has no pages.
    #[must_use]
    pub const fn pages(&self) -> u32 {
        match self.cache_tokens {
            Some(tokens) if self.lanes > 1 => tokens.div_ceil(PAGE_POSITIONS),
            _ => self.lanes.saturating_mul(self.lane_pages()),
        }
    }

    /// Positions that the cache has room for.
    #[must_use]
    pub fn positions(&self) -> u64 {
        if self.lanes > 1 { u64::from(self.pages()) * u64::from(PAGE_POSITIONS) } else { u64::from(self.context) }
    }

    /// Pages of the ring that each lane has in a layer with this window; 0 if the layer has all positions, because it has no window, or rings take as much memory.
    ///
    /// The first row of a step attends to `window - 1` positions before its own, of whose first page it may read all. All pages up to that of the step's last row are
    /// there at the same time, so that the rows of a step take the place of nothing that they attend to. Drafts that are not accepted are rows of such a step, too.
    #[must_use]
    pub fn ring_pages(&self, window: Option<u32>) -> u32 {
        let Some(window) = window.filter(|_| self.ring_rows > 0) else { return 0 };
        let page = u64::from(PAGE_POSITIONS);
        let pages = (u64::from(window) - 1 + u64::from(self.ring_rows) + page - 1).div_ceil(page);
        let positions = u64::from(self.lanes) * pages * page;
        // A pool has at most as many pages as a u32 counts.
        if positions < self.positions() { pages as u32 } else { 0 }
    }

    /// The pages of a lane, by the order of its positions, that hold what the window of a row at `position` reaches into before it.
    ///
    /// # Panics
    /// If the window has no positions.
    #[must_use]
    pub fn pages_before(window: u32, position: u32) -> Range<u32> {
        let first = position.saturating_sub(window - 1);
        let end = if first < position { position.div_ceil(PAGE_POSITIONS) } else { first / PAGE_POSITIONS };
        first / PAGE_POSITIONS..end
    }

    /// How many pages of a lane's ring a checkpoint has in a layer with this window, at most; 0 if there are no rings, or a row attends to itself alone.
    pub(super) fn kept_pages(&self, window: Option<u32>) -> u32 {
        let window = window.filter(|window| *window > 1 && self.ring_pages(Some(*window)) > 0);
        window.map_or(0, |window| (window - 2).div_ceil(PAGE_POSITIONS) + 1)
    }

    /// The length of a sequence's array of tokens, in u32: one for each position, and room for the drafts behind the last one.
    #[must_use]
    pub fn token_places(&self) -> u64 {
        u64::from(self.context) + u64::from(MOST_RUN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever the window, the position and the rows of the step: a checkpoint has no more pages than it has room for and all positions that the first row attends to, and a
    /// ring has room for the pages from these to the last row.
    #[test]
    fn rings_hold_what_steps_reach_into() {
        for window in [1, 2, 3, 63, 64, 65, 66, 127, 128, 129, 130, 300] {
            for rows in [1, 2, 16, 63, 64, 65, 500] {
                let cache =
                    CacheOptions { ring_rows: rows, ..CacheOptions::new(1 << 20, CacheFormat::F16, CacheFormat::F16) };
                let (ring, kept) = (cache.ring_pages(Some(window)), cache.kept_pages(Some(window)));
                let (mut most, mut most_kept) = (0, 0);
                for position in 0..700_u32 {
                    let pages = CacheOptions::pages_before(window, position);
                    let attended = position.saturating_sub(window - 1)..position;
                    assert!(attended.clone().all(|at| pages.contains(&(at / PAGE_POSITIONS))), "{window}: {position}");
                    assert_eq!(pages.is_empty(), attended.is_empty(), "{window}: {position}");
                    let last = (position + rows - 1) / PAGE_POSITIONS;
                    most = most.max(last + 1 - attended.start / PAGE_POSITIONS);
                    most_kept = most_kept.max(pages.len() as u32);
                }
                assert_eq!((ring, kept), (most, most_kept), "a window of {window} and {rows} rows");
            }
        }
        let without = CacheOptions::new(1 << 20, CacheFormat::F16, CacheFormat::F16);
        assert_eq!((without.ring_pages(Some(128)), without.kept_pages(Some(128))), (0, 0));
    }

    #[test]
    fn lanes_share_whole_pages_and_one_alone_has_its_positions() {
        let cache = CacheOptions::new(100, CacheFormat::F16, CacheFormat::F16);
        for (lanes, cache_tokens, lane_pages, pages, positions) in [
            (1, None, 0, 0, 100),
            (1, Some(5_000), 0, 0, 100),
            (2, None, 2, 4, 256),
            (64, None, 2, 128, 8_192),
            (2, Some(64), 2, 1, 64),
            (2, Some(1_000), 2, 16, 1_024),
            (8, Some(0), 2, 0, 0),
        ] {
            let cache = cache.with_lanes(lanes).with_cache_tokens(cache_tokens);
            let found = (cache.lane_pages(), cache.pages(), cache.positions());
            assert_eq!(found, (lane_pages, pages, positions), "{lanes} lanes, {cache_tokens:?}");
        }
    }
}
