//! GGUF files as a user of the crate meets them: sound ones, split ones, damaged ones.

use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use zinc_kernels::Format;
use zinc_model::Error;
use zinc_model::gguf::split::{self, PartName};
use zinc_model::gguf::{Array, File, TensorFormat, Value, Writer};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data").join(name)
}

/// Opens `bytes` as a file.
fn open(bytes: &[u8]) -> Result<File, Error> {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    fs::write(file.path(), bytes).expect("a temporary file can be written");
    File::open(file.path())
}

/// The error of opening `bytes`, without the path around it.
fn error(bytes: &[u8]) -> Error {
    match open(bytes).expect_err("the file is damaged") {
        Error::InFile { source, .. } => *source,
        other => panic!("{other} names no file"),
    }
}

/// Bytes that depend on the tensor's place in the list.
fn fill(index: usize, bytes: u64) -> Vec<u8> {
    (0..bytes).map(|i| (i as usize * 7 + index * 31) as u8).collect()
}

fn to_bytes(writer: &Writer) -> Vec<u8> {
    let mut out = Vec::new();
    let mut index = 0;
    writer
        .write_to(&mut out, |tensor, out| {
            index += 1;
            out.write_all(&fill(index - 1, tensor.bytes))
        })
        .expect("writing to memory");
    out
}

/// A small file with a bit of everything.
fn small() -> Writer {
    let mut writer = Writer::new();
    writer
        .set("general.architecture", "test")
        .set("u8", 1u8)
        .set("i64", -5i64)
        .set("f32", 0.25f32)
        .set("flag", true)
        .set("words", vec!["a".to_owned(), String::new(), "äöü".to_owned()])
        .set("numbers", vec![1i32, -1])
        .set("empty", Vec::<f64>::new())
        .set("flags", vec![true, false])
        .set("nested", vec![Array::I8(vec![1, -2]), Array::I8(vec![]), Array::String(vec!["x".to_owned()])])
        .tensor("a", &[4, 3], Format::F32)
        .tensor("b", &[32, 2], Format::Q8_0)
        .tensor("c", &[], Format::F16);
    writer
}

#[test]
fn files_of_other_programs_are_read() {
    let file = File::open(data("tiny/qwen3moe-a-q4_k_m.gguf")).unwrap();
    let metadata = file.metadata();
    assert_eq!(metadata.len(), 26);
    assert_eq!(metadata.get_str("general.architecture").unwrap(), Some("qwen3moe"));
    assert_eq!(metadata.get_u32("qwen3moe.embedding_length").unwrap(), Some(256));
    assert_eq!(metadata.get_bool("tokenizer.ggml.add_bos_token").unwrap(), Some(false));
    assert_eq!(metadata.get_f32("qwen3moe.rope.freq_base").unwrap(), Some(1e6));
    assert_eq!(metadata.get_strings("tokenizer.ggml.tokens").unwrap().unwrap().len(), 1031);
    assert_eq!(file.tensors().len(), 27);

    let head = file.tensor("output.weight").unwrap();
    assert_eq!(head.shape, [256, 1031]);
    assert_eq!(head.format, TensorFormat::from(Format::Q6K));
    assert_eq!(head.bytes, 1031 * 210);
    assert_eq!(file.data(head).len(), 1031 * 210);
    assert_eq!(file.tensor("blk.0.ffn_down_exps.weight").unwrap().shape, [256, 256, 4]);
    // A norm's weights are near one, wherever they lie.
    let norm = file.tensor("output_norm.weight").unwrap();
    let mut weights = vec![0.0; 256];
    zinc_kernels::formats::decode(Format::F32, file.data(norm), &mut weights);
    assert!(weights.iter().all(|weight| (0.0..4.0).contains(weight)), "{weights:?}");
}

#[test]
fn arrays_of_arrays_are_read_as_gguf_py_writes_them() {
    let file = File::open(data("gguf/nested.gguf")).unwrap();
    let numbers = Array::Array(vec![Array::I32(vec![1, 2]), Array::I32(vec![-3])]);
    let word = |word: &str| word.to_owned();
    let words = Array::Array(vec![Array::String(vec![word("a"), word("b")]), Array::String(vec![word("c")])]);
    let flags = |flags: &[bool]| Array::Bool(flags.to_vec());
    let deep = Array::Array(vec![
        Array::Array(vec![flags(&[true]), flags(&[false, true])]),
        Array::Array(vec![flags(&[false])]),
    ]);
    for (key, expected) in [("numbers", numbers), ("words", words), ("deep", deep)] {
        assert_eq!(file.metadata().get(key).and_then(Value::as_array), Some(&expected), "{key}");
    }
    let numbers = file.metadata().get("numbers").unwrap();
    assert_eq!(numbers.type_name(), "an array of 2 arrays");
    assert_eq!(numbers.to_string(), "[[1, 2], [-3]]");
    assert!(file.metadata().get_i32s("numbers").is_err());
}

#[test]
fn a_file_may_hold_only_a_vocabulary() {
    let file = File::open(data("host/qwen3-vocab.gguf")).unwrap();
    assert_eq!(file.tensors(), []);
    assert_eq!(file.metadata().get_strings("tokenizer.ggml.tokens").unwrap().unwrap().len(), 151_936);
}

#[test]
fn a_written_file_is_read_again() {
    let writer = small();
    let file = open(&to_bytes(&writer)).unwrap();
    assert_eq!(file.metadata().get("words"), Some(&Value::from(vec!["a".to_owned(), String::new(), "äöü".to_owned()])));
    assert_eq!(file.metadata().get("empty"), Some(&Value::Array(Array::F64(vec![]))));
    let names: Vec<_> = file.tensors().iter().map(|tensor| tensor.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "c"]);
    for (index, tensor) in file.tensors().iter().enumerate() {
        assert_eq!(tensor.offset % 32, 0);
        assert_eq!(file.data(tensor), fill(index, tensor.bytes), "{}", tensor.name);
    }
}

#[test]
fn version_2_is_read() {
    let mut bytes = to_bytes(&small());
    bytes[4] = 2;
    assert_eq!(open(&bytes).unwrap().tensors().len(), 3);
}

#[test]
fn what_is_no_gguf_file_is_refused() {
    assert!(matches!(File::open("no/such/file.gguf"), Err(Error::Io { .. })));
    assert!(matches!(File::open(std::env::temp_dir()), Err(Error::Io { .. })));
    assert!(matches!(error(b""), Error::NotGguf { found } if found.is_empty()));
    assert!(matches!(error(b"GG"), Error::NotGguf { .. }));
    let text = error(b"Once upon a time");
    assert_eq!(text.to_string(), "not a GGUF file: it starts with the bytes [4f, 6e, 63, 65] instead of \"GGUF\"");
    assert!(matches!(error(b"GGUF"), Error::Truncated { offset: 4, need: 4, left: 0, .. }));
    assert!(matches!(error(b"GGUF\x01\0\0\0"), Error::Version { version: 1 }));
    assert!(matches!(error(b"GGUF\x04\0\0\0"), Error::Version { version: 4 }));
    assert!(matches!(error(b"GGUF\0\0\0\x03"), Error::BigEndian { version: 3 }));
}

#[test]
fn every_cut_of_a_file_is_an_error() {
    let bytes = to_bytes(&small());
    let file = tempfile::NamedTempFile::new().unwrap();
    // The last tensor has two bytes; what follows is padding.
    let end = bytes.len() - 30;
    for length in (0..end).rev() {
        fs::write(file.path(), &bytes[..length]).unwrap();
        assert!(File::open(file.path()).is_err(), "cut to {length} of {end} bytes");
    }
    fs::write(file.path(), &bytes[..end]).unwrap();
    assert!(File::open(file.path()).is_ok(), "the padding after the last tensor may be missing");
}

/// Writes three parts with a tensor each.
fn write_parts(directory: &Path) -> PartName {
    let first = PartName::new(directory, "model", 1, 3);
    for index in 0..3u16 {
        let mut writer = Writer::new();
        writer.set("which", u32::from(index));
        writer.set(split::KEY_PART, index).set(split::KEY_PARTS, 3u16).set(split::KEY_TENSORS, 3i32);
        writer.tensor(&format!("t{index}"), &[u64::from(index) + 1], Format::F32);
        let bytes = to_bytes(&writer);
        fs::write(first.sibling(u32::from(index) + 1).path(), bytes).unwrap();
    }
    first
}

#[test]
fn a_split_model_opens_from_any_of_its_parts() {
    let directory = tempfile::tempdir().unwrap();
    let first = write_parts(directory.path());
    for part in 1..=3 {
        let file = File::open(first.sibling(part).path()).unwrap();
        assert_eq!(file.metadata().get_u32("which").unwrap(), Some(0), "the first part's metadata count");
        let places: Vec<_> = file.tensors().iter().map(|t| (t.name.as_str(), t.part, t.bytes)).collect();
        assert_eq!(places, [("t0", 0, 4), ("t1", 1, 8), ("t2", 2, 12)]);
        assert_eq!(file.data(&file.tensors()[2]), fill(0, 12));
        assert_eq!(file.parts().len(), 3);
    }
}

#[test]
fn a_missing_part_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let first = write_parts(directory.path());
    fs::remove_file(first.sibling(2).path()).unwrap();
    for part in [1, 3] {
        let message = File::open(first.sibling(part).path()).unwrap_err().to_string();
        assert!(message.contains("part 2 of 3 is missing"), "{message}");
        assert!(message.contains("model-00002-of-00003.gguf"), "{message}");
    }
}

#[test]
fn parts_that_do_not_belong_together_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let first = write_parts(directory.path());
    let source = |path: PathBuf| match File::open(path).unwrap_err() {
        Error::InFile { source, .. } => *source,
        other => other,
    };

    fs::copy(first.sibling(3).path(), first.sibling(2).path()).unwrap();
    assert!(matches!(source(first.path()), Error::PartMismatch { key: split::KEY_PART, expected: 1, found: 2 }));

    let alone = directory.path().join("alone.gguf");
    fs::copy(first.path(), &alone).unwrap();
    assert!(matches!(source(alone), Error::PartName { parts: 3 }));

    // A name of a part on a file that is whole is only a name.
    let whole = PartName::new(directory.path(), "whole", 1, 2).path();
    fs::write(&whole, to_bytes(&small())).unwrap();
    assert_eq!(File::open(whole).unwrap().tensors().len(), 3);

    let first = write_parts(directory.path());
    let mut writer = Writer::new();
    writer.set(split::KEY_PART, 1u16).set(split::KEY_PARTS, 3u16).tensor("t0", &[1], Format::F32);
    fs::write(first.sibling(2).path(), to_bytes(&writer)).unwrap();
    assert!(matches!(source(first.path()), Error::DuplicateTensor { name } if name == "t0"));

    writer = Writer::new();
    writer.set(split::KEY_PART, 1u16).set(split::KEY_PARTS, 3u16);
    fs::write(first.sibling(2).path(), to_bytes(&writer)).unwrap();
    let mismatch = source(first.path());
    assert!(matches!(mismatch, Error::PartMismatch { key: split::KEY_TENSORS, expected: 2, found: 3 }), "{mismatch}");
}

#[test]
#[should_panic(expected = "tensor 'a' has 48 bytes, but 3 were written")]
fn a_writer_is_given_whole_tensors() {
    let _ = small().write_to(&mut Vec::new(), |_, out| out.write_all(&[1, 2, 3]));
}

#[test]
fn a_writer_passes_errors_on() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("out.gguf");
    let result = small().write(&path, |_, _| Err(std::io::ErrorKind::OutOfMemory.into()));
    assert!(matches!(result, Err(Error::Io { path: found, .. }) if found == path));
    assert!(small().write(directory.path().join("no/such/out.gguf"), |_, _| Ok(())).is_err());
    small().write(&path, |tensor, out| out.write_all(&fill(0, tensor.bytes))).unwrap();
    assert_eq!(File::open(&path).unwrap().tensors().len(), 3);
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<u8>().prop_map(Value::from),
        any::<i16>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        // A NaN is not equal to itself.
        (-1e30f64..1e30).prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        ".*".prop_map(Value::from),
        proptest::collection::vec(any::<u8>(), 0..9).prop_map(Value::from),
        proptest::collection::vec(any::<u32>(), 0..9).prop_map(Value::from),
        proptest::collection::vec(any::<bool>(), 0..9).prop_map(Value::from),
        proptest::collection::vec(".*", 0..5).prop_map(Value::from),
        proptest::collection::vec(proptest::collection::vec(any::<i16>(), 0..4).prop_map(Array::I16), 0..4)
            .prop_map(Value::from),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(192) })]

    #[test]
    fn writing_and_reading_round_trip(
        entries in proptest::collection::hash_map("[a-z.]{1,12}", value(), 0..8),
        tensors in proptest::collection::vec((0..TensorFormat::all().count(), 0u64..3, 0u64..4), 0..6),
        alignment in 0u32..8,
    ) {
        let mut writer = Writer::new();
        writer.set("general.alignment", 1u32 << alignment);
        for (key, value) in &entries {
            writer.set(key, value.clone());
        }
        for (index, &(format, blocks, rows)) in tensors.iter().enumerate() {
            let format = TensorFormat::all().nth(format).unwrap();
            writer.tensor(&format!("t{index}"), &[blocks * format.block_elements(), rows], format);
        }
        let file = open(&to_bytes(&writer)).unwrap();
        prop_assert_eq!(file.metadata().len(), entries.len() + 1);
        for (key, value) in &entries {
            prop_assert_eq!(file.metadata().get(key), Some(value));
        }
        prop_assert_eq!(file.tensors().len(), tensors.len());
        for (index, (read, written)) in file.tensors().iter().zip(writer.tensors()).enumerate() {
            prop_assert_eq!((&read.name, &read.shape, read.format), (&written.name, &written.shape, written.format));
            prop_assert_eq!(file.data(read), fill(index, written.bytes));
        }
    }

    /// Whatever becomes of the bytes, opening ends, without a panic, and what it lets through can be read.
    #[test]
    fn damaged_files_do_no_harm(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), prop_oneof![Just(0xff), Just(0), any::<u8>()]), 1..6),
        cut in proptest::option::weighted(0.3, any::<prop::sample::Index>()),
    ) {
        let mut bytes = to_bytes(&small());
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        match open(&bytes) {
            Ok(file) => {
                for tensor in file.tensors() {
                    prop_assert_eq!(file.data(tensor).len() as u64, tensor.bytes);
                }
            }
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }
}
