//! Reference of how `route` sorts the rows of a step by expert, and of what it says about products; [`select_experts`](super::select_experts) is that of
//! its choice.

use crate::step::{Grid, Tile};

/// Sorts pairs by expert. `ids` has the experts of each row, `[rows][used]`; pair `row * used + slot` stands for one of them. Returns the pairs by their
/// number, `[experts][room]` with `u32::MAX` behind the pairs of an expert, and the tiles of up to `tile` of them. The device may list the pairs of an
/// expert in any order, and leaves what is behind them as it was.
///
/// # Panics
/// If an id is not one of `experts`, or an expert has more pairs than `room`.
#[must_use]
pub fn route(ids: &[u32], experts: u32, room: u32, tile: u32) -> (Vec<u32>, Vec<Tile>) {
    let mut lists = vec![Vec::new(); experts as usize];
    for (pair, id) in ids.iter().enumerate() {
        lists[*id as usize].push(pair as u32);
    }
    let mut tiles = Vec::new();
    for (expert, list) in (0..experts).zip(&mut lists) {
        let count = list.len() as u32;
        let starts = (0..count).step_by(tile as usize);
        tiles.extend(starts.map(|at| Tile {
            expert,
            first: expert * room + at,
            count: tile.min(count - at),
            unused: 0,
        }));
        assert!(count <= room, "expert {expert} has {count} pairs, and its list {room} places");
        list.resize(room as usize, u32::MAX);
    }
    (lists.concat(), tiles)
}

/// The workgroups of a product for so many tiles, given those for one: in x, in y, and the parts into which the product cuts the tile.
#[must_use]
pub fn tile_grid([x, y, parts]: [u32; 3], tiles: usize) -> Grid {
    Grid { x, y, z: tiles as u32 * parts }
}
