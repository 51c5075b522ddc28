//! Reference of how `route` sorts the rows of a step by expert; [`select_experts`](super::select_experts) is that of its choice.

use crate::step::Tile;

/// Sorts pairs by expert. `ids` has the experts of each row, `[rows][used]`; pair `row * used + slot` stands for one of them. Returns the pairs, by
/// expert and then by their number, and the tiles of up to `tile` of them. The device may list the pairs of an expert in any order.
///
/// # Panics
/// If an id is not one of `experts`.
#[must_use]
pub fn route(ids: &[u32], experts: u32, tile: u32) -> (Vec<u32>, Vec<Tile>) {
    let mut pairs: Vec<u32> = (0..ids.len() as u32).collect();
    pairs.sort_by_key(|pair| ids[*pair as usize]);
    let mut tiles = Vec::new();
    let mut first = 0;
    for expert in 0..experts {
        let count = ids.iter().filter(|id| **id == expert).count() as u32;
        let starts = (0..count).step_by(tile as usize);
        tiles.extend(starts.map(|at| Tile { expert, first: first + at, count: tile.min(count - at), tiles: 0 }));
        first += count;
    }
    assert_eq!(first as usize, ids.len(), "each id is below {experts}");
    let count = tiles.len() as u32;
    if let Some(tile) = tiles.first_mut() {
        tile.tiles = count;
    }
    (pairs, tiles)
}
