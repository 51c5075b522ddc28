//! Texts and numbers from bytes.

use std::borrow::Cow;

/// The bytes as text: what is no UTF-8 is replaced.
#[must_use]
pub fn text(data: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(data)
}

/// The first `N` bytes, with zeros in place of those that are missing, and the rest.
#[must_use]
pub fn split<const N: usize>(data: &[u8]) -> ([u8; N], &[u8]) {
    let mut first = [0; N];
    let given = data.len().min(N);
    first[..given].copy_from_slice(&data[..given]);
    (first, &data[given..])
}
