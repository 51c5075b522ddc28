//! Reference of `delta_net`, by row.

use super::{ordered_sum, sigmoid};
use crate::ops::DeltaHeads;

/// Added to the square of the length of a query or a key.
const LENGTH_EPSILON: f32 = 1e-6;

/// Takes a row into the memories of all heads and reads of each what its query asks for. `memories` is `[value_heads, head_size values, head_size
/// keys]`, `x` has the queries, keys and values behind the convolution, and `gates` what [`delta_gates`] gives for each value head.
///
/// # Panics
/// If an array has another size than the heads have.
pub fn delta_net(heads: &DeltaHeads, memories: &mut [f32], x: &[f32], gates: &[[f32; 2]], y: &mut [f32]) {
    let size = heads.head_size as usize;
    let (queries, rest) = x.split_at(heads.key_heads as usize * size);
    let (keys, values) = rest.split_at(queries.len());
    assert!(values.len() == heads.values() as usize && gates.len() == heads.value_heads as usize, "{heads:?}");
    let columns = memories.chunks_exact_mut(size * size).zip(values.chunks_exact(size)).zip(y.chunks_exact_mut(size));
    for ((head, gates), ((memory, value), y)) in (0..).zip(gates).zip(columns) {
        let of_key_head = heads.key_head(head) as usize * size;
        delta_head(memory, &queries[of_key_head..][..size], &keys[of_key_head..][..size], value, *gates, y);
    }
}

/// How much of its memory a head keeps, `exp(decay * softplus(alpha + bias))`, and how much of a change it writes, `sigmoid(beta)`.
#[must_use]
pub fn delta_gates(alpha: f32, bias: f32, decay: f32, beta: f32) -> [f32; 2] {
    let x = alpha + bias;
    let softplus = if x > 20.0 { x } else { (1.0 + x.exp()).ln() };
    [(decay * softplus).exp(), sigmoid(beta)]
}

/// Takes a row into the memory of a head, `[values, keys]`: a column keeps the share `kept` of itself, and of what its value differs from what the
/// column has under the key, the share `written` is added under it.
fn delta_head(memory: &mut [f32], query: &[f32], key: &[f32], value: &[f32], [kept, written]: [f32; 2], y: &mut [f32]) {
    let inverse_length = |x: &[f32]| 1.0 / (product(x, x) + LENGTH_EPSILON).sqrt();
    let key_scale = inverse_length(key);
    let query_scale = inverse_length(query) * (1.0 / (query.len() as f32).sqrt());
    for ((column, value), y) in memory.chunks_exact_mut(key.len()).zip(value).zip(y) {
        column.iter_mut().for_each(|x| *x *= kept);
        let known = product(column, key) * key_scale;
        let change = written * (value - known) * key_scale;
        column.iter_mut().zip(key).for_each(|(x, key)| *x += key * change);
        *y = product(column, query) * query_scale;
    }
}

/// The sum of products, in the order of a row's sums.
fn product(a: &[f32], b: &[f32]) -> f32 {
    ordered_sum(&a.iter().zip(b).map(|(a, b)| a * b).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::super::random::philox;
    use super::*;
    use crate::ops::HeadOrder;

    const SIZE: usize = 16;

    /// A row of one head: query and key of length 1, the query scaled.
    #[derive(Clone)]
    struct Row {
        query: Vec<f64>,
        key: Vec<f64>,
        value: Vec<f64>,
        log_kept: f64,
        written: f64,
    }

    fn dot(a: &[f64], b: &[f64]) -> f64 {
        a.iter().zip(b).map(|(a, b)| a * b).sum()
    }

    fn add(to: &mut [f64], x: &[f64], factor: f64) {
        to.iter_mut().zip(x).for_each(|(to, x)| *to += factor * x);
    }

    /// The rule as it is defined, on a memory by keys: `S <- g S; S <- S + k (beta (v - S^T k))^T; o = S^T q`.
    fn recurrent(memory: &mut [Vec<f64>], row: &Row) -> Vec<f64> {
        let read = |memory: &[Vec<f64>], by: &[f64]| {
            let mut result = vec![0.0; SIZE];
            memory.iter().zip(by).for_each(|(values, by)| add(&mut result, values, *by));
            result
        };
        memory.iter_mut().flatten().for_each(|x| *x *= row.log_kept.exp());
        let known = read(memory, &row.key);
        let change: Vec<f64> = row.value.iter().zip(&known).map(|(v, known)| row.written * (v - known)).collect();
        memory.iter_mut().zip(&row.key).for_each(|(values, key)| add(values, &change, *key));
        read(memory, &row.query)
    }

    /// The same by the solution of a triangular system for a chunk of rows at a time.
    fn chunked(memory: &mut [Vec<f64>], rows: &[Row]) -> Vec<Vec<f64>> {
        let logs: Vec<f64> = rows
            .iter()
            .scan(0.0, |sum, row| {
                *sum += row.log_kept;
                Some(*sum)
            })
            .collect();
        let between = |i: usize, j: usize| (logs[i] - logs[j]).exp();
        let from_memory = |memory: &[Vec<f64>], by: &[f64], to: &mut [f64], factor: f64| {
            memory.iter().zip(by).for_each(|(values, by)| add(to, values, factor * by));
        };
        // What each row adds to the memory under its key, by forward substitution.
        let mut added: Vec<Vec<f64>> = Vec::new();
        for (i, row) in rows.iter().enumerate() {
            let mut x: Vec<f64> = row.value.clone();
            from_memory(memory, &row.key, &mut x, -logs[i].exp());
            for (j, earlier) in added.iter().enumerate() {
                add(&mut x, earlier, -dot(&row.key, &rows[j].key) * between(i, j));
            }
            added.push(x.iter().map(|x| row.written * x).collect());
        }
        let result = |(i, row): (usize, &Row)| {
            let mut y = vec![0.0; SIZE];
            from_memory(memory, &row.query, &mut y, logs[i].exp());
            added[..=i]
                .iter()
                .enumerate()
                .for_each(|(j, added)| add(&mut y, added, dot(&row.query, &rows[j].key) * between(i, j)));
            y
        };
        let results = rows.iter().enumerate().map(result).collect();
        let last = rows.len() - 1;
        memory.iter_mut().flatten().for_each(|x| *x *= logs[last].exp());
        for (j, (row, added)) in rows.iter().zip(&added).enumerate() {
            memory.iter_mut().zip(&row.key).for_each(|(values, key)| add(values, added, key * between(last, j)));
        }
        results
    }

    /// The mathematics: rows one after the other, chunks of rows, and the reference come to the same.
    #[test]
    fn rows_chunks_and_the_reference_agree() {
        const ROWS: u32 = 70;
        let heads = DeltaHeads { key_heads: 1, value_heads: 1, head_size: SIZE as u32, order: HeadOrder::Tiled };
        let unit = |row: u32, i: u32| philox([row, i, 0, 0], [21, 0])[0].cast_signed() as f32 / 2.0f32.powi(31);
        let (mut inputs, mut rows) = (Vec::new(), Vec::new());
        for row in 0..ROWS {
            let x: Vec<f32> = (0..3 * SIZE as u32).map(|i| 2.0 * unit(row, i)).collect();
            let [alpha, beta] = [100, 101].map(|i| 3.0 * unit(row, i));
            let (bias, decay) = (0.25, -0.5);
            let [query, key, value] =
                [0, 1, 2].map(|part| x[part * SIZE..][..SIZE].iter().map(|x| f64::from(*x)).collect::<Vec<_>>());
            let scaled = |x: &[f64], scale: f64| -> Vec<f64> {
                let length = (dot(x, x) + f64::from(LENGTH_EPSILON)).sqrt();
                x.iter().map(|x| x * scale / length).collect()
            };
            rows.push(Row {
                query: scaled(&query, 1.0 / (SIZE as f64).sqrt()),
                key: scaled(&key, 1.0),
                value,
                log_kept: f64::from(decay) * f64::from(alpha + bias).exp().ln_1p(),
                written: 1.0 / (1.0 + f64::from(-beta).exp()),
            });
            inputs.push((x, delta_gates(alpha, bias, decay, beta)));
        }
        let empty = vec![vec![0.0f64; SIZE]; SIZE];
        let mut memory = empty.clone();
        let expected: Vec<Vec<f64>> = rows.iter().map(|row| recurrent(&mut memory, row)).collect();
        for chunk in [1, 16, 64] {
            let mut of_chunks = empty.clone();
            let results = rows.chunks(chunk).flat_map(|rows| chunked(&mut of_chunks, rows)).collect::<Vec<_>>();
            let pairs = results.iter().zip(&expected).chain(of_chunks.iter().zip(&memory));
            let error = pairs.flat_map(|(a, b)| a.iter().zip(b)).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            assert!(error < 1e-13, "chunks of {chunk} rows are off by {error:e}");
        }
        let mut memories = vec![0.0; SIZE * SIZE];
        for (row, ((x, gates), expected)) in inputs.iter().zip(&expected).enumerate() {
            let mut y = vec![f32::NAN; SIZE];
            delta_net(&heads, &mut memories, x, &[*gates], &mut y);
            for (y, expected) in y.iter().zip(expected) {
                // A few roundings of 6e-8 a row, of numbers up to 2, which later rows shorten.
                assert!((f64::from(*y) - expected).abs() < 1e-6, "row {row}: {y} instead of {expected}");
            }
        }
        for (i, x) in memories.iter().enumerate() {
            let expected = memory[i % SIZE][i / SIZE];
            assert!((f64::from(*x) - expected).abs() < 4e-6, "element {i}: {x} instead of {expected}");
        }
    }
}
