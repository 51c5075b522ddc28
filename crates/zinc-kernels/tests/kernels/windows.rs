//! Windows and sinks of attention: `attention` against its reference, and all forms of attention to the bit against each other.

use crate::append::run;
use crate::attention::{check, check_rows, fits};
use crate::attention_rows::{Kernels, SOME_LANES, check_attention, check_lanes, check_lanes_by, check_steps};
use crate::matrix;
use crate::support::arena::values;
use crate::support::attention_case::{Case, PLAIN, Sinks};
use crate::support::compare;
use zinc_kernels::ops::{ActFormat, Attention, CacheFormat};

/// Eight query heads on one, without queries: every attended key has the weight 1, and one too many or too few shows.
const EQUAL: Case = Case { query_heads: 8, kv_heads: 1, heads: 4, norm: false, size: 0.0, ..PLAIN };

/// Around the sizes of tiles, pages and splits.
const WINDOWS: [u32; 9] = [1, 2, 3, 63, 64, 65, 128, 256, 300];

/// Every window: in the whole matrix in both forms, with sinks and without; else in one form, with sinks or without, so that each form meets windows with sinks and
/// windows without.
fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (turn, window) in WINDOWS.into_iter().enumerate() {
        for units in [false, true] {
            for sinks in [Sinks::Heavy, Sinks::None] {
                let is_part = units == (turn % 2 == 1) && (sinks == Sinks::Heavy) == (turn / 2 % 2 == 0);
                if matrix::is_full() || is_part {
                    cases.push(Case { window: Some(window), units, sinks, ..EQUAL });
                }
            }
        }
    }
    cases
}

/// Positions before the window is full, where it becomes full, and behind that; at the edges of tiles, pages and splits; far behind all.
fn positions(window: u32) -> Vec<usize> {
    let window = window as usize;
    let mut positions =
        vec![0, window.saturating_sub(2), window - 1, window, window + 62, window + 63, 255, 256, 2_000];
    positions.sort_unstable();
    positions.dedup();
    positions
}

/// The queries are 0, so that results are means of the attended values.
#[test]
fn exactly_the_window_is_attended() {
    for case in cases() {
        for (turn, position) in positions(case.window.unwrap_or(1)).into_iter().enumerate() {
            check(&Case { position, splits: [1, 3][turn % 2], warm: turn % 4 < 2, ..case });
        }
    }
}

/// The sizes of heads by matrix units and without, caches of halves and of floats, results that are rounded and that are not, in pages in any order.
#[test]
fn windows_and_sinks_of_every_form() {
    use CacheFormat::{F16, F32};
    for (keys, values, out, head_size, heads, window, units) in [
        (F32, F32, ActFormat::F32, 64, 1, Some(65), false),
        (F32, F16, ActFormat::Q14, 64, 4, None, false),
        (F16, F16, ActFormat::F32, 128, 1, Some(128), false),
        (F16, F16, ActFormat::Q14, 64, 4, Some(65), true),
        (F16, F16, ActFormat::F32, 128, 4, Some(128), true),
        (F16, F16, ActFormat::Q14, 256, 4, Some(65), true),
        (F16, F16, ActFormat::F32, 64, 4, None, true),
    ] {
        let case = Case { keys, values, out, head_size, rotated: head_size, heads, window, units, ..EQUAL };
        let case = Case { query_heads: 16, kv_heads: 2, size: 1.0, sinks: Sinks::Heavy, paged: true, ..case };
        for (position, splits) in [(0, 1), (40, 3), (200, 1), (700, 3)] {
            let case = Case { position, splits, ..case };
            if fits(&case) {
                check(&case);
                check_rows(&case);
            }
        }
    }
}

/// Sinks beside which no key counts and those that do not count; one that is not a number concerns its own head alone. In one split and in several.
#[test]
fn extreme_sinks() {
    for (units, window) in [(false, None), (false, Some(65)), (true, None), (true, Some(65))] {
        for sinks in [Sinks::Overwhelming, Sinks::Negligible, Sinks::Nothing, Sinks::NotANumber] {
            for position in [5, 700] {
                check(&Case { units, window, sinks, position, size: 1.0, ..EQUAL });
            }
        }
    }
}

/// The results of one row and of several with the same operands, as the launch is changed.
fn results(case: &Case, change: impl Fn(Attention) -> Attention) -> Vec<f32> {
    let ([_, after], _) = run(case, (4, 3), |op, target| vec![change(*op).dispatch(target)]);
    values(&after[1])
}

/// Sinks that do not count, and a window that holds all keys, leave the bits of a launch without them.
#[test]
fn what_changes_nothing_leaves_the_bits() {
    for units in [false, true] {
        for position in [5, 250, 700] {
            let case = Case { units, position, size: 1.0, sinks: Sinks::Nothing, ..EQUAL };
            let without = results(&case, |op| Attention { sinks: None, ..op });
            compare::equal_bits(&format!("{case:?}"), &results(&case, |op| op), &without);
            let window = |window| move |op| Attention { sinks: None, window, context: 2_000, ..op };
            compare::equal_bits(
                &format!("{case:?}, window"),
                &results(&case, window(Some(1_000))),
                &results(&case, window(None)),
            );
            let narrow = results(&case, window(Some(5)));
            assert_ne!(narrow[..64], without[..64], "{case:?}: a window of five keys");
        }
    }
}

/// Windows whose rows are compared to the bit: in the whole matrix all, else one of each kind.
fn windows_of_rows() -> Vec<u32> {
    WINDOWS.into_iter().filter(|window| matrix::is_full() || [3, 64, 300].contains(window)).collect()
}

/// A row alone, among others, and in the kernel for many rows. Some of the keys that a window leaves out are those of rows beside it.
#[test]
fn rows_have_equal_bits() {
    for window in windows_of_rows() {
        for units in [false, true] {
            for (position, splits) in [(0, 1), (57, 3), (255, 3), (700, 2)] {
                let case = Case { window: Some(window), units, position, splits, size: 1.0, ..EQUAL };
                let case = Case { sinks: Sinks::Heavy, ..case };
                check_rows(&case);
                check_attention(&case);
            }
        }
    }
}

/// Rows that fill several blocks of matrix units, over windows that begin in different tiles and splits.
#[test]
fn many_rows_by_matrix_units() {
    for window in windows_of_rows() {
        for position in [0, 200, 430] {
            let case = Case { window: Some(window), units: true, position, sinks: Sinks::Heavy, size: 1.0, ..EQUAL };
            check_steps(&case, &[(128, 100), (64, 64)]);
        }
    }
}

#[test]
fn rows_of_several_lanes_in_a_block() {
    for window in [3, 64] {
        for units in [false, true] {
            let case = Case { window: Some(window), units, paged: true, sinks: Sinks::Heavy, size: 1.0, ..EQUAL };
            for parts in [&SOME_LANES[..], &[(700, 33), (0, 31), (250, 20), (0, 16)]] {
                check_lanes(&case, parts);
            }
        }
    }
}

/// Each lane has a ring of as few pages as the window and the rows of a step need: against the reference, a row alone to the bit against several, and the kernels for many
/// rows. Positions before the ring is full, where it begins anew, and several times around; without whole matrices, some of them.
#[test]
fn rings_of_the_fewest_pages() {
    for (turn, (window, ring)) in [(1, 2), (3, 2), (65, 3), (128, 4)].into_iter().enumerate() {
        let around = 64 * ring as usize;
        let positions = [0, 60, around - 1, around, 700];
        for units in [false, true] {
            let case = Case { window: Some(window), ring, units, splits: 3, sinks: Sinks::Heavy, size: 1.0, ..EQUAL };
            let is_part = |place: usize| place > 1 && (place + turn).is_multiple_of(2) == units;
            for (_, position) in (0..).zip(positions).filter(|(place, _)| matrix::is_full() || is_part(*place)) {
                let case = Case { position, ..case };
                check(&case);
                check_rows(&case);
                check_attention(&case);
            }
        }
    }
    let case = Case { window: Some(3), ring: 4, units: true, position: 430, sinks: Sinks::Heavy, size: 1.0, ..EQUAL };
    check_steps(&case, &[(128, 100)]);
}

/// The rings of several lanes hold what pages with the same numbers hold.
#[test]
fn rings_of_several_lanes() {
    for units in [false, true] {
        let case = Case { window: Some(64), ring: 3, units, sinks: Sinks::Heavy, size: 1.0, ..EQUAL };
        for parts in [&SOME_LANES[..], &[(700, 33), (0, 31), (250, 20), (0, 16)]] {
            check_lanes(&case, parts);
        }
        check_lanes_by(Kernels::OfFewRows, &case, &[(700, 1), (0, 1), (250, 1), (191, 1), (192, 1)]);
    }
}
