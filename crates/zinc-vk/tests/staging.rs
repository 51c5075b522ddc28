//! Uploads: every byte arrives, through chunks smaller and larger than the pieces.

use std::sync::Arc;

use zinc_vk::{Placement, UploadRing, Uploader};

mod support;

use support::{Gpu, words};

/// Bytes that differ from their neighbours and do not repeat with any chunk size.
fn pattern(length: usize, seed: u32) -> Vec<u8> {
    (0..length as u32).map(|i| (i.wrapping_mul(2_654_435_761).wrapping_add(seed) >> 13) as u8).collect()
}

fn content(gpu: &Gpu, buffer: &Arc<zinc_vk::Buffer>) -> Vec<u8> {
    gpu.words(buffer).iter().flat_map(|w| w.to_ne_bytes()).collect()
}

#[test]
fn a_piece_larger_than_the_whole_ring_arrives() {
    let gpu = Gpu::new();
    let to = gpu.buffer("to", 25_000, Placement::Device);
    let bytes = pattern(100_000, 1);
    let mut uploader = Uploader::new(&gpu, UploadRing { chunk_bytes: 4096, chunks: 3 }).unwrap();
    uploader.upload(&to, 0, &bytes).unwrap();
    uploader.finish().unwrap().wait().unwrap();
    assert_eq!(content(&gpu, &to), bytes);
}

#[test]
fn pieces_of_odd_lengths_at_odd_offsets_arrive_and_leave_the_rest_alone() {
    let gpu = Gpu::new();
    let to = gpu.buffer("to", 1000, Placement::Device);
    gpu.run(|r| _ = r.fill(&to, 0, 4000, 0xa5a5_a5a5));
    let mut expected = vec![0xa5; 4000];
    let mut uploader = Uploader::new(&gpu, UploadRing { chunk_bytes: 256, chunks: 2 }).unwrap();
    let mut at = 1;
    for (n, length) in [1usize, 3, 255, 256, 257, 0, 700, 63, 64, 65, 2].into_iter().enumerate() {
        let piece = pattern(length, n as u32);
        uploader.upload(&to, at as u64, &piece).unwrap();
        expected[at..at + length].copy_from_slice(&piece);
        at += length + 7;
    }
    uploader.finish().unwrap().wait().unwrap();
    assert_eq!(content(&gpu, &to), expected);
}

#[test]
fn pieces_written_in_place_arrive_whole_among_others() {
    let gpu = Gpu::new();
    let to = gpu.buffer("to", 1000, Placement::Device);
    gpu.run(|r| _ = r.fill(&to, 0, 4000, 0xa5a5_a5a5));
    let mut expected = vec![0xa5; 4000];
    let mut uploader = Uploader::new(&gpu, UploadRing { chunk_bytes: 256, chunks: 2 }).unwrap();
    let mut at = 0;
    for (n, length) in [256usize, 1, 0, 200, 100, 64, 256, 192, 64, 255].into_iter().enumerate() {
        let piece = pattern(length, n as u32);
        let fill = |out: &mut [u8]| {
            assert_eq!(out.len(), length);
            out.copy_from_slice(&piece);
        };
        uploader.upload_with(&to, at as u64, length, fill).unwrap();
        uploader.upload(&to, (at + length) as u64, &piece[..length.min(3)]).unwrap();
        expected[at..at + length].copy_from_slice(&piece);
        expected[at + length..][..length.min(3)].copy_from_slice(&piece[..length.min(3)]);
        at += length + 7;
    }
    uploader.finish().unwrap().wait().unwrap();
    assert_eq!(content(&gpu, &to), expected);
}

#[test]
#[should_panic(expected = "a piece of 257 bytes for buffer `to` exceeds the ring's chunks of 256 bytes")]
fn a_piece_written_in_place_cannot_exceed_a_chunk() {
    let gpu = Gpu::new();
    let to = gpu.buffer("to", 100, Placement::Device);
    let mut uploader = Uploader::new(&gpu, UploadRing { chunk_bytes: 256, chunks: 2 }).unwrap();
    let _ = uploader.upload_with(&to, 0, 257, |_| {});
}

#[test]
fn small_pieces_share_a_submission() {
    let gpu = Gpu::new();
    let to = gpu.buffer("to", 64, Placement::Device);
    let mut uploader = Uploader::new(&gpu, UploadRing::default()).unwrap();
    let before = uploader.queue().stats().submits;
    for word in 0..64u32 {
        uploader.upload(&to, u64::from(word) * 4, &word.to_ne_bytes()).unwrap();
    }
    let point = uploader.finish().unwrap();
    assert_eq!(uploader.queue().stats().submits - before, 1);
    point.wait().unwrap();
    assert_eq!(gpu.words(&to), (0..64).collect::<Vec<u32>>());
}

#[test]
fn compute_can_wait_for_an_upload_without_the_host() {
    let gpu = Gpu::new();
    let data = gpu.buffer("data", 5000, Placement::Device);
    let step = gpu.affine_step("step", &data, 3, 1);
    let mut uploader = Uploader::new(&gpu, UploadRing { chunk_bytes: 1024, chunks: 4 }).unwrap();
    let bytes = pattern(20_000, 3);
    uploader.upload(&data, 0, &bytes).unwrap();
    let uploaded = uploader.finish().unwrap();
    gpu.compute_queue().submit(&step, &[uploaded]).unwrap().wait().unwrap();
    let expected: Vec<u32> = words(&bytes).iter().map(|w| w.wrapping_mul(3).wrapping_add(1)).collect();
    assert_eq!(gpu.words(&data), expected);
}

#[test]
fn an_uploader_can_finish_twice_and_with_nothing_to_do() {
    let gpu = Gpu::new();
    let to = gpu.buffer("to", 4, Placement::Device);
    let mut uploader = Uploader::new(&gpu, UploadRing::default()).unwrap();
    uploader.finish().unwrap().wait().unwrap();
    uploader.upload(&to, 0, &[1; 16]).unwrap();
    let point = uploader.finish().unwrap();
    assert_eq!(uploader.finish().unwrap(), point);
    point.wait().unwrap();
    assert_eq!(gpu.words(&to), [0x0101_0101; 4]);
}

#[test]
fn dropping_an_uploader_that_is_not_finished_is_safe() {
    let gpu = Gpu::new();
    let to = gpu.buffer("to", 1000, Placement::Device);
    let mut uploader = Uploader::new(&gpu, UploadRing { chunk_bytes: 512, chunks: 2 }).unwrap();
    uploader.upload(&to, 0, &[1; 4000]).unwrap();
}

#[test]
#[should_panic(expected = "upload of 5 bytes at 12 leaves buffer `to` of 16 bytes")]
fn an_upload_past_the_end_panics() {
    let gpu = Gpu::new();
    let to = gpu.buffer("to", 4, Placement::Device);
    let mut uploader = Uploader::new(&gpu, UploadRing::default()).unwrap();
    let _ = uploader.upload(&to, 12, &[0; 5]);
}
