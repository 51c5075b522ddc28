//! Headers made wrong, byte by byte.

use super::*;

fn error(bytes: &[u8]) -> Error {
    Header::parse(bytes).expect_err("the header is damaged")
}

/// A header with the given counts and rest.
fn header(tensors: u64, entries: u64, rest: &[&[u8]]) -> Vec<u8> {
    let mut bytes = b"GGUF\x03\0\0\0".to_vec();
    bytes.extend_from_slice(&tensors.to_le_bytes());
    bytes.extend_from_slice(&entries.to_le_bytes());
    rest.iter().for_each(|part| bytes.extend_from_slice(part));
    bytes
}

fn string(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat()
}

#[test]
fn huge_counts_are_refused_before_anything_is_allocated() {
    for count in [1 << 20, 1 << 40, u64::MAX] {
        assert!(matches!(error(&header(count, 0, &[])), Error::Truncated { what: "the tensors", offset: 16, .. }));
        assert!(matches!(error(&header(0, count, &[])), Error::Truncated { what: "the metadata", offset: 24, .. }));
        // The length of a key, of a string and of arrays.
        let length = count.to_le_bytes();
        let key = string("k");
        let padding = [0; 64];
        let cases: [(&[&[u8]], u64); 4] = [
            (&[&length, &padding], 32),
            (&[&key, &8u32.to_le_bytes(), &length, &padding], 45),
            (&[&key, &9u32.to_le_bytes(), &8u32.to_le_bytes(), &length, &padding], 49),
            (&[&key, &9u32.to_le_bytes(), &5u32.to_le_bytes(), &length, &padding], 49),
        ];
        for (rest, expected) in cases {
            match error(&header(0, 1, rest)) {
                Error::Truncated { offset, .. } => assert_eq!(offset, expected),
                other => panic!("{count}: {other}"),
            }
        }
    }
}

#[test]
fn unsound_metadata_are_refused() {
    let entry = |value: &[u8]| error(&header(0, 1, &[&string("key"), value, &[0; 8]]));
    assert!(matches!(entry(&13u32.to_le_bytes()), Error::ValueType { offset: 35, id: 13, .. }));
    assert!(matches!(entry(&[7, 0, 0, 0, 2]), Error::NotBool { offset: 39, byte: 2, .. }));
    // Nine arrays within each other, each but the last with one element.
    let nested = [9u32.to_le_bytes().as_slice(), &[9, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0].repeat(8)].concat();
    assert!(matches!(entry(&nested), Error::NestedArray { offset: 123, limit: 8, .. }));
    let endless = [9u32.to_le_bytes().as_slice(), &[9, 0, 0, 0], &u64::MAX.to_le_bytes()].concat();
    assert!(matches!(entry(&endless), Error::Truncated { what: "an array", .. }));
    let invalid = error(&header(0, 1, &[&1u64.to_le_bytes(), &[0xff], &[0; 20]]));
    assert!(matches!(invalid, Error::NotUtf8 { offset: 24, .. }));

    let twice = [string("k"), vec![0, 0, 0, 0, 5]].concat();
    assert!(matches!(error(&header(0, 2, &[&twice, &twice])), Error::DuplicateKey { offset: 38, .. }));
}

#[test]
fn alignments_are_powers_of_two_within_reason() {
    for (alignment, sound) in [(1u32, true), (8, true), (65_536, true), (0, false), (33, false), (1 << 30, false)] {
        let entry = [string("general.alignment"), 4u32.to_le_bytes().to_vec(), alignment.to_le_bytes().to_vec()];
        let result = Header::parse(&header(0, 1, &[&entry.concat()]));
        assert_eq!(result.is_ok(), sound, "{alignment}: {result:?}");
    }
}

/// A tensor's description.
fn tensor(name: &str, shape: &[u64], format: u32, offset: u64) -> Vec<u8> {
    let mut bytes = string(name);
    bytes.extend_from_slice(&(shape.len() as u32).to_le_bytes());
    shape.iter().for_each(|dimension| bytes.extend_from_slice(&dimension.to_le_bytes()));
    bytes.extend_from_slice(&format.to_le_bytes());
    bytes.extend_from_slice(&offset.to_le_bytes());
    bytes
}

#[test]
fn unsound_tensors_are_refused() {
    let one = |tensor: &[u8]| error(&header(1, 0, &[tensor, &[0; 256]]));
    assert!(matches!(one(&tensor("t", &[1; 5], 0, 0)), Error::Dimensions { offset: 33, dimensions: 5, .. }));
    assert!(matches!(one(&tensor("t", &[1 << 40, 1 << 40], 0, 0)), Error::TensorSize { offset: 24, .. }));
    assert!(matches!(one(&tensor("t", &[1 << 62], 0, 0)), Error::TensorSize { .. }));
    assert!(matches!(one(&tensor("t", &[1], 4, 0)), Error::TensorFormat { offset: 45, id: 4, .. }));
    assert!(matches!(one(&tensor("t", &[1], 0, 7)), Error::Misaligned { offset: 7, alignment: 32, .. }));
    assert!(matches!(one(&tensor("t", &[31], 8, 0)), Error::PartialBlock { columns: 31, block: 32, .. }));
    assert!(matches!(one(&tensor("t", &[], 8, 0)), Error::PartialBlock { columns: 1, .. }));
    assert!(matches!(one(&tensor("t", &[1000], 0, 0)), Error::TensorOutside { end: 4064, .. }));
    assert!(matches!(one(&tensor("t", &[1], 0, 1 << 63)), Error::TensorOutside { .. }));
    let far = u64::MAX - 31;
    assert!(matches!(one(&tensor("t", &[16], 0, far)), Error::TensorOutside { end: u64::MAX, .. }));

    let two = |second: &[u8]| error(&header(2, 0, &[&tensor("t", &[16], 0, 0), second, &[0; 256]]));
    assert!(matches!(two(&tensor("t", &[16], 0, 64)), Error::DuplicateTensor { name } if name == "t"));
    match two(&tensor("u", &[1], 0, 32)) {
        Error::Overlap { first, second, start, end } => {
            assert_eq!((first.as_str(), second.as_str(), end - start), ("t", "u", 32));
        }
        other => panic!("{other}"),
    }
}

#[test]
fn strings_from_files_are_escaped_in_messages() {
    let name = format!("\u{1b}[31m{}", "x".repeat(500));
    let message = error(&header(1, 0, &[&tensor(&name, &[1], 99, 0)])).to_string();
    assert!(message.contains("\\u{1b}[31mxxx") && message.len() < 300, "{message}");
}
