//! Tests of `repack_rows`, which brings rows into the layout of devices: no byte is lost, and the rows have the sizes
//! that shaders rely on.

use proptest::prelude::*;
use zinc_kernels::formats::{Format, PLANE_ALIGNMENT, mxfp4_device_byte, repack_rows};

/// The inverse of [`repack_rows`]; also checks that the padding is zero.
fn unpack_rows(format: Format, columns: usize, packed: &[u8]) -> Vec<u8> {
    let blocks = columns / format.block_elements();
    let mut rows = Vec::new();
    for packed in packed.chunks_exact(format.device_row_bytes(columns)) {
        let mut row = vec![0; format.row_bytes(columns)];
        let mut rest = packed;
        for plane in format.planes() {
            let (fields, padding) = rest[..plane.row_bytes(blocks)].split_at(blocks * plane.bytes);
            for (block, field) in row.chunks_exact_mut(format.block_bytes()).zip(fields.chunks_exact(plane.bytes)) {
                block[plane.from..][..plane.bytes].copy_from_slice(field);
                if format == Format::MXFP4 && plane.bytes == 16 {
                    block[plane.from..][..plane.bytes].iter_mut().for_each(|byte| *byte = file_byte(*byte));
                }
            }
            assert!(padding.iter().all(|byte| *byte == 0), "{format}: padding of {padding:?}");
            rest = &rest[plane.row_bytes(blocks)..];
        }
        assert_eq!(rest.len(), 0, "{format}: bytes after the last plane");
        rows.extend(row);
    }
    rows
}

/// The inverse of [`mxfp4_device_byte`].
fn file_byte(device: u8) -> u8 {
    (0..=255).find(|byte| mxfp4_device_byte(*byte) == device).unwrap()
}

#[test]
fn every_byte_of_a_block_is_in_one_plane() {
    for format in Format::ALL {
        let mut planes = vec![0; format.block_bytes()];
        for plane in format.planes() {
            for byte in &mut planes[plane.from..][..plane.bytes] {
                *byte += 1;
            }
        }
        assert_eq!(planes, vec![1; format.block_bytes()], "{format}: planes that each byte is in");
    }
}

#[test]
fn rows_have_the_sizes_of_their_planes() {
    for (format, columns, bytes) in [
        (Format::F32, 5, 32),
        (Format::F16, 32, 64),
        (Format::BF16, 9, 32),
        (Format::Q4_0, 32, 16 + 16),
        (Format::Q4_1, 160, 80 + 32),
        (Format::Q5_0, 96, 48 + 16 + 16),
        (Format::Q5_1, 96, 48 + 16 + 16),
        (Format::Q8_0, 288, 288 + 32),
        (Format::Q2K, 1280, 320 + 80 + 32),
        (Format::Q3K, 512, 128 + 64 + 32 + 16),
        (Format::Q4K, 2048, 8 * 144),
        (Format::Q5K, 256, 176),
        (Format::Q6K, 2048, 1024 + 512 + 128 + 16),
        (Format::Q6K, 2304, 9 * 208 + 32),
        (Format::IQ4NL, 512, 256 + 32),
        (Format::IQ4XS, 768, 384 + 32),
        (Format::MXFP4, 544, 272 + 32),
    ] {
        assert_eq!(format.device_row_bytes(columns), bytes, "{format} of {columns} columns");
    }
    assert_eq!(Format::Q4_0.device_row_bytes(0), 0);
}

#[test]
fn fields_lie_in_block_order() {
    // Two rows of two Q4_0 blocks; each field is filled with its own number.
    let block = |scale: u8, nibbles: u8| [[scale; 2].as_slice(), &[nibbles; 16]].concat();
    let rows = [block(1, 2), block(3, 4), block(5, 6), block(7, 8)].concat();
    let mut packed = [0xff; 96];
    repack_rows(Format::Q4_0, 64, &rows, &mut packed);
    let row = |a: [u8; 2], b: [u8; 2]| [[a[1]; 16].as_slice(), &[b[1]; 16], &[a[0]; 2], &[b[0]; 2], &[0; 12]].concat();
    assert_eq!(packed.to_vec(), [row([1, 2], [3, 4]), row([5, 6], [7, 8])].concat());
}

#[test]
#[should_panic(expected = "72 bytes in rows of 36 are not 64 bytes in rows of 48")]
fn another_number_of_rows_is_refused() {
    repack_rows(Format::Q4_0, 64, &[0; 72], &mut [0; 64]);
}

proptest! {
    #[test]
    fn rows_survive_the_round_trip(
        format in prop::sample::select(Format::ALL.to_vec()),
        rows in 0usize..4,
        blocks in 1usize..20,
        seed in any::<u64>(),
    ) {
        let columns = blocks * format.block_elements();
        let mut state = seed;
        let bytes: Vec<u8> = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        })
        .take(rows * format.row_bytes(columns))
        .collect();
        let mut packed = vec![0xa5; rows * format.device_row_bytes(columns)];
        repack_rows(format, columns, &bytes, &mut packed);
        prop_assert!(format.device_row_bytes(columns).is_multiple_of(PLANE_ALIGNMENT));
        prop_assert_eq!(unpack_rows(format, columns, &packed), bytes);
    }
}
