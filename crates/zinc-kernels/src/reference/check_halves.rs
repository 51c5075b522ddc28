//! Reference of `check_halves_units`.

use crate::generated::half_fragments::TEAM;
use crate::ops::CHECK_ROUND_PRODUCTS;

/// Turns in which a row, and then a column, is multiplied beside others.
const TURNS: usize = 16;

/// Whether what [`CheckHalves`](crate::ops::CheckHalves) has written shows units that hold fragments as `shaders/include/half_fragments.glsl` says, and whose
/// results for a row depend neither on its place nor on what is beside it.
///
/// # Panics
/// If there are not [`CHECK_HALVES_RESULTS`](crate::ops::CHECK_HALVES_RESULTS).
#[must_use]
pub fn check_halves(results: &[f32], rounds: u32) -> bool {
    let (sums, rest) = results.split_at(256);
    let (made, rest) = rest.split_at(256);
    let (rows, rest) = rest.split_at(TURNS * 16);
    let (columns, totals) = rest.split_at(TURNS * 16);
    let of_lane = |index: usize| {
        let (lane, i) = (index as u32 / 8, index as u32 % 8);
        let (row, column) = (lane / 4 + 8 * (i / 4), 2 * (lane % 4) + i % 2 + 8 * (i / 2 % 2));
        (16 * row + column) as f32
    };
    let products = (rounds * CHECK_ROUND_PRODUCTS) as f32;
    let lies_so = (0..8 * TEAM as usize)
        .all(|i| sums[i] == of_lane(i) && made[i] == of_lane(i) && totals[i] == products * of_lane(i));
    let same = |turns: &[f32]| {
        let (first, others) = turns.split_at(16);
        let bits = |turn: &[f32]| turn.iter().map(|sum| sum.to_bits()).collect::<Vec<_>>();
        first.iter().all(|sum| sum.is_finite()) && others.chunks(16).all(|turn| bits(turn) == bits(first))
    };
    lies_so && same(rows) && same(columns)
}
