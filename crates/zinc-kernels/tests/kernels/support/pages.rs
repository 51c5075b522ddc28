//! The pages that a lane has in the cache, in random order among pages of others.

use zinc_kernels::step::{PAGE_POSITIONS, position_in_pool};

use super::data::Random;

/// The lane whose pages are meant, of [`Pages::LANES`].
pub(crate) const LANE: u32 = 1;

/// The pages of a lane, by its positions; none where the cache has no pages.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pages {
    /// The numbers of the lane's pages, in the order of its positions.
    own: Vec<u32>,
    /// Pages of the pool.
    pool: u32,
    /// Pages that the table of a lane has room for.
    room: u32,
    /// Pages of the ring that each lane has; 0 if there are no rings.
    ring: u32,
}

impl Pages {
    /// Lanes that have a table.
    const LANES: u32 = 3;

    /// Pages for so many positions, among as many others and three more. Tables have room for so many pages of a lane.
    pub(crate) fn scrambled(random: &mut Random, positions: usize, room: u32) -> Self {
        let count = (positions as u32).div_ceil(PAGE_POSITIONS);
        assert!(count <= room, "{count} pages in a table of {room}");
        let pool = 2 * count + 3;
        let mut numbers: Vec<u32> = (0..pool).collect();
        let own = (0..count).map(|_| numbers.swap_remove(random.below(numbers.len()))).collect();
        Self { own, pool, room, ring: 0 }
    }

    /// The pages of a ring of so many for so many positions, those of the rings of all lanes being the pool. There are tables for so many pages beside it, of which
    /// no entry is a page of the ring.
    pub(crate) fn in_ring(ring: u32, positions: usize, room: u32) -> Self {
        let count = (positions as u32).div_ceil(PAGE_POSITIONS);
        Self { own: (0..count).map(|page| LANE * ring + page % ring).collect(), pool: Self::LANES * ring, room, ring }
    }

    /// Pages of the ring that each lane has; 0 if there are no rings.
    pub(crate) fn ring(&self) -> u32 {
        self.ring
    }

    /// The first position whose row is still there when those of so many have been written.
    pub(crate) fn first_kept(&self, positions: usize) -> usize {
        if self.ring == 0 { 0 } else { positions.saturating_sub((self.ring * PAGE_POSITIONS) as usize) }
    }

    /// Pages that the table of a lane has room for; 0 if there are no tables.
    pub(crate) fn room(&self) -> u32 {
        self.room
    }

    /// Whether the lane is that of a state of its own, whose positions lie one behind the other.
    pub(crate) fn is_straight(&self) -> bool {
        self.own.is_empty()
    }

    /// The tables of all lanes. Whoever looks into that of another lane, or behind the lane's own pages, finds a page that is not the lane's.
    pub(crate) fn tables(&self) -> Vec<u32> {
        let foreign = (0..self.pool).find(|page| !self.own.contains(page)).unwrap_or(0);
        let mut tables = vec![foreign; (Self::LANES * self.room) as usize];
        if self.ring == 0 {
            let first = (LANE * self.room) as usize;
            tables[first..first + self.own.len()].copy_from_slice(&self.own);
        }
        tables
    }

    /// Positions of the pool, where the lane has so many.
    fn pool_positions(&self, positions: usize) -> usize {
        if self.is_straight() { positions } else { (self.pool * PAGE_POSITIONS) as usize }
    }

    /// A cache in which the lane has these rows, and everything else is `filling`; a row has `width` elements.
    pub(crate) fn scatter<T: Copy>(&self, rows: &[T], width: usize, filling: T) -> Vec<T> {
        let mut pool = vec![filling; self.pool_positions(rows.len() / width) * width];
        for (position, row) in (0..).zip(rows.chunks_exact(width)) {
            let first = position_in_pool(&self.own, position) as usize * width;
            pool[first..first + width].copy_from_slice(row);
        }
        pool
    }

    /// The first `positions` rows of the lane, and what else is in the cache.
    pub(crate) fn gather<T: Copy>(&self, pool: &[T], width: usize, positions: usize) -> (Vec<T>, Vec<T>) {
        let mut is_own = vec![false; pool.len() / width];
        let mut rows = Vec::with_capacity(positions * width);
        for position in 0..positions as u32 {
            let place = position_in_pool(&self.own, position) as usize;
            is_own[place] = true;
            rows.extend_from_slice(&pool[place * width..(place + 1) * width]);
        }
        let others = pool.chunks_exact(width).zip(is_own).filter(|(_, own)| !own).flat_map(|(row, _)| row);
        (rows, others.copied().collect())
    }
}
