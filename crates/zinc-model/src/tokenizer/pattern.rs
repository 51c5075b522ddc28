//! One string, found in bytes as they come: the algorithm of Knuth, Morris and Pratt (1977).

/// A string to find. All that a search remembers is how much of it the bytes so far end with.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    bytes: Vec<u8>,
    /// For the beginning of `n + 1` bytes: the longest shorter beginning that it ends with.
    borders: Vec<usize>,
}

impl Pattern {
    /// # Panics
    /// When `bytes` is empty: nothing would be everywhere.
    pub(super) fn new(bytes: &[u8]) -> Self {
        assert!(!bytes.is_empty(), "an empty pattern");
        let mut pattern = Self { bytes: bytes.to_vec(), borders: vec![0] };
        let mut border = 0;
        for &byte in &bytes[1..] {
            border = pattern.advance(border, byte);
            pattern.borders.push(border);
        }
        pattern
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The longest beginning of the pattern, in bytes, that a text ends with after one more byte; before it was `begun`. It is the
    /// pattern's length where an occurrence ends.
    pub(super) fn advance(&self, mut begun: usize, byte: u8) -> usize {
        while self.bytes.get(begun) != Some(&byte) {
            if begun == 0 {
                return 0;
            }
            begun = self.shorter(begun);
        }
        begun + 1
    }

    /// The next shorter beginning of the pattern that a text ends with, if it ends with the one of `begun` bytes; 0 is none.
    pub(super) fn shorter(&self, begun: usize) -> usize {
        self.borders[begun - 1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every beginning that `text` ends with, the longest first, by looking at all of them.
    fn beginnings(pattern: &[u8], text: &[u8]) -> Vec<usize> {
        (1..=pattern.len()).rev().filter(|&length| text.ends_with(&pattern[..length])).collect()
    }

    #[test]
    fn all_beginnings_at_every_place_of_every_short_text() {
        let word =
            |bits: u32, length: u32| (0..length).map(|place| b'a' + (bits >> place & 1) as u8).collect::<Vec<_>>();
        let words = |length: u32| (0..1 << length).map(move |bits| word(bits, length));
        for bytes in (1..=5).flat_map(words) {
            let pattern = Pattern::new(&bytes);
            assert_eq!(pattern.len(), bytes.len());
            for text in words(9) {
                let mut begun = 0;
                for end in 1..=text.len() {
                    begun = pattern.advance(begun, text[end - 1]);
                    let is_some = |begun: &usize| *begun > 0;
                    let first = Some(begun).filter(is_some);
                    let found: Vec<usize> =
                        std::iter::successors(first, |&begun| Some(pattern.shorter(begun)).filter(is_some)).collect();
                    assert_eq!(found, beginnings(&bytes, &text[..end]), "{bytes:?} in {text:?} up to {end}");
                }
            }
        }
    }
}
