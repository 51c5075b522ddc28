//! Reads text from a file or from stdin. Bytes that are not UTF-8 are an error, which says what they are instead and
//! where.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::surroundings;

/// The byte order mark, as a character. UTF-8 has no byte order, but some editors write the mark all the same.
const MARK: char = '\u{feff}';

/// The name of stdin in messages.
pub(crate) const STDIN: &str = "stdin";

/// Returns the text of a file, without a byte order mark. The path `-` stands for stdin.
///
/// # Errors
/// [`Error::Read`] if the system cannot read the file, [`Error::Content`] with the reason from [`decode`] if it is no
/// UTF-8.
pub(crate) fn read(path: &Path) -> Result<String> {
    let (name, bytes) =
        if path == Path::new("-") { (Path::new(STDIN), surroundings::read_stdin()) } else { (path, fs::read(path)) };
    let bytes = bytes.map_err(|source| Error::Read { path: name.to_owned(), source })?;
    decode(bytes).map_err(|reason| Error::Content { path: PathBuf::from(name), reason })
}

/// Decodes bytes as UTF-8, and leaves out a byte order mark at the beginning.
///
/// # Errors
/// A sentence that says why the bytes are no UTF-8. If they begin with the byte order mark of UTF-16 or UTF-32, it
/// names that encoding. Otherwise it names the first wrong byte with its offset, counted from 0, and its line, counted
/// from 1.
pub(crate) fn decode(bytes: Vec<u8>) -> Result<String, String> {
    if let Some(reason) = other_encoding(&bytes) {
        return Err(reason);
    }
    String::from_utf8(bytes).map(without_mark).map_err(|error| {
        let offset = error.utf8_error().valid_up_to();
        let bytes = error.as_bytes();
        let line = 1 + bytes[..offset].iter().filter(|byte| **byte == b'\n').count();
        format!("the text is not UTF-8: byte 0x{:02x} at offset {offset}, in line {line}", bytes[offset])
    })
}

/// Returns a sentence that names the encoding if the bytes begin with the byte order mark of UTF-16 or UTF-32; else
/// `None`.
pub(crate) fn other_encoding(bytes: &[u8]) -> Option<String> {
    let name = match bytes {
        [0xff, 0xfe, 0, 0, ..] | [0, 0, 0xfe, 0xff, ..] => "UTF-32",
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => "UTF-16",
        _ => return None,
    };
    Some(format!(
        "the text is {name} by its byte order mark; zinc reads UTF-8, which `iconv -f {name} -t UTF-8` makes of it"
    ))
}

/// The text without a byte order mark at the beginning.
pub(crate) fn without_mark(mut text: String) -> String {
    if text.starts_with(MARK) {
        text.drain(..MARK.len_utf8());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_order_mark_is_left_out_once_and_only_at_the_beginning() {
        for (bytes, text) in [
            (&b"\xef\xbb\xbf{}"[..], "{}"),
            (b"{}", "{}"),
            (b"\xef\xbb\xbf", ""),
            (b"", ""),
            (b"\xef\xbb\xbf\xef\xbb\xbfa", "\u{feff}a"),
            (b"a\xef\xbb\xbf", "a\u{feff}"),
            (b"\xef\xbb\xbfroot ::= \"a\"\r\n", "root ::= \"a\"\r\n"),
        ] {
            assert_eq!(decode(bytes.to_vec()).as_deref(), Ok(text), "{bytes:?}");
        }
    }

    #[test]
    fn what_is_not_utf_8_is_located() {
        // Offsets as Python's `bytes.decode("utf-8")` gives them in `UnicodeDecodeError.start`.
        for (bytes, place) in [
            (&b"caf\xe9"[..], "byte 0xe9 at offset 3, in line 1"),
            (b"\xef\xbb\xbfcaf\xe9?", "byte 0xe9 at offset 6, in line 1"),
            (b"a\nb\n\xff", "byte 0xff at offset 4, in line 3"),
            (b"\xe2\x82", "byte 0xe2 at offset 0, in line 1"),
            (b"ok\xed\xa0\x80", "byte 0xed at offset 2, in line 1"),
            (b"\xc0\xaf", "byte 0xc0 at offset 0, in line 1"),
            (b"\xf0\x9f\x98\x80\x80", "byte 0x80 at offset 4, in line 1"),
        ] {
            let error = decode(bytes.to_vec()).unwrap_err();
            assert!(error.contains(place), "{bytes:?}: {error}");
        }
    }

    #[test]
    fn other_encodings_are_named() {
        for (bytes, name) in [
            (&b"\xff\xfea\0"[..], "UTF-16"),
            (b"\xfe\xff\0a", "UTF-16"),
            (b"\xff\xfe", "UTF-16"),
            (b"\xff\xfe\0\0a\0\0\0", "UTF-32"),
            (b"\0\0\xfe\xff\0\0\0a", "UTF-32"),
        ] {
            let error = decode(bytes.to_vec()).unwrap_err();
            assert!(error.contains(name) && error.contains("iconv"), "{bytes:?}: {error}");
        }
    }

    #[test]
    fn an_error_names_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("latin1.txt");
        fs::write(&path, b"caf\xe9").unwrap();
        let error = read(&path).unwrap_err().to_string();
        assert!(error.contains("latin1.txt") && error.contains("0xe9 at offset 3"), "{error}");
        assert!(matches!(read(directory.path()), Err(Error::Read { .. })));
    }
}
