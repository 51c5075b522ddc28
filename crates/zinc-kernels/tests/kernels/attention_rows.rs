//! `attention_rows` to the bit against `attention`, which computes the same of each row and is compared with its reference.

use crate::append::run;
use crate::attention::{Case, PLAIN, fits, paged_part};
use crate::support::arena;
use zinc_kernels::ops::{CacheFormat, Pairing};

/// What `attention` computes of the rows of a step, which it appends itself.
fn check_attention(case: &Case) {
    check_steps(case, &[(1, 1), (4, 3), (16, 16), (16, 5)]);
}

fn check_steps(case: &Case, steps: &[(u32, u32)]) {
    for step in steps.iter().copied() {
        let ([_, alone], _) = run(case, step, |op, target| vec![op.dispatch(target)]);
        let ([before, behind], _) = run(case, step, |op, target| {
            let (append, rows) = op.in_two();
            let rows = rows.dispatch(target);
            assert_eq!(rows.kernel.name.starts_with("attention_rows_units"), case.units, "{}", rows.kernel.name);
            vec![append.dispatch(target), rows]
        });
        let differs = arena::values::<f32>(&alone[1]).into_iter().zip(arena::values::<f32>(&behind[1])).position(
            // The sign of NaN is the device's.
            |(alone, behind)| alone.to_bits() != behind.to_bits() && !(alone.is_nan() && behind.is_nan()),
        );
        assert_eq!(differs, None, "{case:?}, {step:?}: where results differ");
        // Counters, keys and values; `append` prepares the queries, which come first, in place.
        assert!(alone[2..] == behind[2..], "{case:?}, {step:?}: something else differs");
        assert!(behind[1] != before[1], "{case:?}, {step:?}: something is attended");
    }
}

#[test]
fn rows_around_tiles_and_workgroups() {
    for position in [0, 1, 5, 8, 9, 14, 28, 57, 60, 63, 64, 121, 127, 250, 255, 257, 700] {
        for (splits, warm, heads) in [(1, false, 4), (3, true, 2), (16, true, 4)] {
            check_attention(&Case { position, splits, warm, heads, ..PLAIN });
        }
    }
}

#[test]
fn every_form() {
    use CacheFormat::{F16, F32};
    for (keys, values, head_size, norm, pairing) in [
        (F32, F32, 64, true, Pairing::Halves),
        (F16, F16, 80, false, Pairing::Interleaved),
        (F16, F16, 128, true, Pairing::Interleaved),
        (F32, F16, 256, false, Pairing::Halves),
    ] {
        for position in [3, 250] {
            let case = Case { keys, values, head_size, rotated: head_size, norm, pairing, position, ..PLAIN };
            check_attention(&Case { query_heads: 4, kv_heads: 2, ..case });
        }
    }
}

#[test]
fn rows_in_pages() {
    for case in paged_part() {
        check_attention(&case);
        if case.units {
            check_steps(&case, &[(128, 100)]);
        }
    }
}

#[test]
fn a_long_context() {
    check_attention(&Case { position: 5_000, splits: 20, query_heads: 8, head_size: 128, rotated: 128, ..PLAIN });
}

/// By matrix units, query heads that fill fragments and blocks of rows, and that do not.
#[test]
fn by_matrix_units() {
    for (query_heads, kv_heads, head_size) in [(4, 1, 64), (8, 1, 128), (10, 2, 64), (3, 3, 64), (17, 1, 64)] {
        for (position, splits) in [(0, 1), (57, 3), (250, 1), (255, 3), (760, 2)] {
            let case = Case { query_heads, kv_heads, head_size, rotated: head_size, position, splits, ..PLAIN };
            let case = Case { units: true, ..case };
            if fits(&case) {
                check_attention(&case);
            }
        }
    }
}

/// Rows that fill several workgroups, over more than a split, so that whole tiles are masked for some rows of a workgroup.
#[test]
fn many_rows_by_matrix_units() {
    for (query_heads, kv_heads, position) in [(8, 2, 0), (4, 1, 200), (3, 1, 430)] {
        let case = Case { query_heads, kv_heads, position, splits: 2, units: true, ..PLAIN };
        check_steps(&case, &[(128, 100), (64, 64)]);
    }
}
