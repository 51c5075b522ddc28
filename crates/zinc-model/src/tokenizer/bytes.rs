//! The alphabet of byte-level vocabularies: a printable character for every byte.
//!
//! Printable bytes of Latin-1 stand for themselves; the others are numbered from U+0100 in order.

/// The character that stands for a byte in the pieces of byte-level vocabularies: `Ġ` for a space.
pub const fn char_of(byte: u8) -> char {
    let code = if is_printable(byte) {
        byte as u32
    } else {
        let mut number = 0;
        let mut before = 0;
        while before < byte {
            number += !is_printable(before) as u32;
            before += 1;
        }
        256 + number
    };
    char::from_u32(code).expect("codes below 0x144 are characters")
}

/// The byte that a character stands for.
pub(super) fn byte_of(c: char) -> Option<u8> {
    static BYTES: [Option<u8>; 512] = bytes();
    *BYTES.get(c as usize)?
}

const fn bytes() -> [Option<u8>; 512] {
    let mut bytes = [None; 512];
    let mut byte = 0;
    while byte < 256 {
        bytes[char_of(byte as u8) as usize] = Some(byte as u8);
        byte += 1;
    }
    bytes
}

/// The bytes that a piece of a byte-level vocabulary stands for. A piece that has a character outside of the alphabet
/// stands for its own UTF-8.
pub(super) fn decode(piece: &str) -> Vec<u8> {
    let bytes: Option<Vec<u8>> = piece.chars().map(byte_of).collect();
    bytes.unwrap_or_else(|| piece.as_bytes().to_vec())
}

const fn is_printable(byte: u8) -> bool {
    matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_and_bytes_are_inverse() {
        for byte in 0..=255 {
            assert_eq!(byte_of(char_of(byte)), Some(byte));
        }
        let known = [(0, 'Ā'), (b'\n', 'Ċ'), (b' ', 'Ġ'), (b'a', 'a'), (0x7f, 'ġ'), (0xad, 'Ń'), (0xff, 'ÿ')];
        assert_eq!(known.map(|(byte, _)| char_of(byte)), known.map(|(_, c)| c));
        assert_eq!(byte_of(' '), None);
        assert_eq!(byte_of('\u{144}'), None);
        assert_eq!(byte_of('é'), Some(0xe9));
        assert_eq!(byte_of('語'), None);
    }

    #[test]
    fn pieces_decode() {
        assert_eq!(decode("Ġhi"), b" hi");
        assert_eq!(decode("âĤ¬"), "€".as_bytes());
        assert_eq!(decode("a b"), b"a b");
    }
}
