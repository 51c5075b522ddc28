//! Reference of `check_bytes_units`.

use crate::ops::{CHECK_BYTES_RESULTS, CHECK_ROUND_PRODUCTS};

/// What [`CheckBytes`](crate::ops::CheckBytes) writes with units that take `depth` bytes of a row at a time: `[3, 16 vectors, 16 rows]`. The last are
/// exact below 2^24, as after up to 16 rounds.
#[must_use]
pub fn check_bytes(depth: u32, rounds: u32) -> Vec<f32> {
    let byte = |row: u32, k: u32| ((row * 7 + k * 13 + row * k) % 16) as i32 - 8;
    let vector_byte = |vector: u32, k: u32| ((vector * 37 + k * 101 + vector * k) % 256) as i32 - 128;
    let mut results = vec![0.0; CHECK_BYTES_RESULTS];
    for (index, (vector, row)) in (0..16).flat_map(|vector| (0..16).map(move |row| (vector, row))).enumerate() {
        let product: i32 = (0..depth).map(|k| byte(row, k) * vector_byte(vector, k)).sum();
        let number = 3 * row as i32 + 1;
        results[index] = (number + number * product) as f32;
        results[256 + index] = (row + 1) as f32 * (100 - vector) as f32;
        results[512 + index] = ((rounds * CHECK_ROUND_PRODUCTS) as i32 * product) as f32;
    }
    results
}
