//! Reference of `mat_mul`, by vector.

use super::{HostMatrix, Q14, quantised_product};

/// `y = W x` for the matrix of expert `expert` in its stack (0 where there is one matrix); `y` has one place a row. Every bit of it is defined.
pub fn mat_mul(matrix: &HostMatrix<'_>, expert: u32, x: &Q14, y: &mut [f32]) {
    let bytes = matrix.format.row_bytes(matrix.columns);
    let rows = matrix.bytes.chunks_exact(bytes).skip(expert as usize * y.len());
    for (y, row) in y.iter_mut().zip(rows) {
        *y = quantised_product(matrix.format, row, x);
    }
}
