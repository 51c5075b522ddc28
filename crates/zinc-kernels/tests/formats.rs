//! The host decoder against values decoded by the reference implementation of GGUF.

use std::path::Path;

use serde_json::Value;
use zinc_kernels::formats::{Format, decode};

fn golden(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/host").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn golden_blocks_decode_to_equal_bits() {
    let table: Value = serde_json::from_slice(&golden("dequant.json")).expect("dequant.json is JSON");
    let entries = table.as_array().expect("an array");
    let mut tested = Vec::new();
    for entry in entries {
        let name = entry["format"].as_str().expect("format");
        let format = *Format::ALL.iter().find(|format| format.name() == name).expect(name);
        assert_eq!(Some(format.block_elements() as u64), entry["block_elements"].as_u64(), "{name}");
        assert_eq!(Some(format.block_bytes() as u64), entry["block_bytes"].as_u64(), "{name}");

        let blocks = golden(&format!("{}.blocks", name.to_lowercase()));
        let expected = golden(&format!("{}.f32", name.to_lowercase()));
        assert_eq!(blocks.len() as u64, entry["blocks"].as_u64().expect("blocks") * format.block_bytes() as u64);
        let mut decoded = vec![f32::NAN; expected.len() / 4];
        decode(format, &blocks, &mut decoded);
        for (i, (decoded, expected)) in decoded.iter().zip(expected.as_chunks::<4>().0).enumerate() {
            let expected = f32::from_le_bytes(*expected);
            // The sign and payload of a NaN that arithmetic makes are the processor's choice.
            let equal = decoded.to_bits() == expected.to_bits() || decoded.is_nan() && expected.is_nan();
            assert!(equal, "{name} element {i}: {decoded:e} instead of {expected:e}");
        }
        tested.push(format);
    }
    let untested: Vec<_> = Format::ALL.into_iter().filter(|format| !tested.contains(format)).collect();
    assert_eq!(untested, [Format::F32, Format::F16], "formats without golden blocks");
}

#[test]
fn f32_is_copied() {
    let values = [0.0f32, -0.0, 1.5, f32::MIN_POSITIVE / 2.0, f32::INFINITY, -1e-30];
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let mut decoded = [f32::NAN; 6];
    decode(Format::F32, &bytes, &mut decoded);
    assert_eq!(decoded.map(f32::to_bits), values.map(f32::to_bits));
}

#[test]
fn every_f16_has_its_value() {
    for bits in 0..=u16::MAX {
        let mut decoded = [f32::NAN];
        decode(Format::F16, &bits.to_le_bytes(), &mut decoded);
        let sign = if bits >> 15 == 1 { -1.0f64 } else { 1.0 };
        let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 1023));
        let expected = match exponent {
            0 => sign * fraction * 2f64.powi(-24),
            31 if fraction == 0.0 => sign * f64::INFINITY,
            31 => f64::NAN,
            _ => sign * (1024.0 + fraction) * 2f64.powi(exponent - 25),
        };
        let found = f64::from(decoded[0]);
        assert!(
            found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan(),
            "{bits:#06x}: {found:e} instead of {expected:e}"
        );
    }
}

#[test]
fn rows_are_whole_blocks() {
    assert_eq!(Format::Q6K.row_bytes(2048), 8 * 210);
    assert_eq!(Format::Q8_0.row_bytes(0), 0);
    assert_eq!(Format::F16.row_bytes(7), 14);
}

#[test]
#[should_panic(expected = "a row must be a whole number of blocks")]
fn a_part_of_a_block_is_no_row() {
    let _ = Format::Q4K.row_bytes(128);
}

#[test]
#[should_panic(expected = "decoding Q4_0: 18 bytes are not 31 elements")]
fn wrong_lengths_are_refused() {
    decode(Format::Q4_0, &[0; 18], &mut [0.0; 31]);
}
