//! Reference of `gather`.

use super::HostMatrix;

/// The row of `token`, decoded into `y`.
pub fn gather(table: &HostMatrix<'_>, token: u32, y: &mut [f32]) {
    table.decode_row(token as usize, y);
}
