//! How fast one core brings rows of each format into the form of the device.
//!
//! `cargo run --release -p zinc-kernels --no-default-features --example repack`

#![allow(clippy::print_stdout, reason = "an example shows its result")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use zinc_kernels::Format;
use zinc_kernels::formats::repack_rows;

const COLUMNS: usize = 2_048;
/// More than the caches of a core hold.
const BYTES: usize = 64 << 20;
const ROUNDS: usize = 10;

fn main() {
    println!("rows of {COLUMNS} elements, {} MiB, the best of {ROUNDS} rounds", BYTES >> 20);
    for format in Format::ALL {
        let rows = BYTES / format.row_bytes(COLUMNS);
        let from = vec![1; rows * format.row_bytes(COLUMNS)];
        let mut to = vec![1; rows * format.device_row_bytes(COLUMNS)];
        let round = || {
            let start = Instant::now();
            repack_rows(format, COLUMNS, black_box(&from), black_box(&mut to));
            start.elapsed()
        };
        let best = std::iter::repeat_with(round).take(ROUNDS).min().unwrap_or(Duration::MAX);
        println!("{format:<7} {:6.2} GB/s", from.len() as f64 / best.as_secs_f64() / 1e9);
    }
}
