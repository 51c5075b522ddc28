//! Multiplies a `Q4_K` matrix by a vector on the device, and compares with the reference on the host.
//!
//! `cargo run --release -p zinc-kernels --example mat_vec`

#![allow(clippy::print_stdout, reason = "an example shows its result")]

use std::error::Error;

use zinc_kernels::formats::repack_rows;
use zinc_kernels::ops::{ActFormat, Input, MatVec, Matrix, Product};
use zinc_kernels::reference::{self, HostMatrix};
use zinc_kernels::step::{Lane, Rows, StepShape, StepState};
use zinc_kernels::{Format, Pipelines};
use zinc_vk::{Buffer, Device, DevicePlan, Instance, InstanceOptions, Placement, QueueKind, RecordingBuilder, Wants};

const ROWS: usize = 1_000;
const COLUMNS: usize = 2_048;

fn main() -> Result<(), Box<dyn Error>> {
    let (weights, x) = (some_weights(), some_vector());

    let instance = Instance::new(&InstanceOptions::default())?;
    let device = Device::open(&instance, &DevicePlan::choose(&instance.adapters()?, &Wants::default())?)?;
    let upload = |name, bytes: &[u8]| -> zinc_vk::Result<_> {
        let buffer = Buffer::new(&device, name, bytes.len() as u64, Placement::Upload)?;
        buffer.write(0, bytes);
        Ok(buffer)
    };
    // Every kernel reads the step state: a step that lists no rows does nothing.
    let state = upload("state", bytemuck::bytes_of(&StepState::from(Lane::default())))?;
    // On a device the fields of a row's blocks lie in planes.
    let mut rows = vec![0; ROWS * Format::Q4K.device_row_bytes(COLUMNS)];
    repack_rows(Format::Q4K, COLUMNS, &weights, &mut rows);
    let matrix = upload("weights", &rows)?;
    let vector = upload("x", bytemuck::cast_slice(&x))?;
    let product = Buffer::new(&device, "y", (ROWS * 4) as u64, Placement::Readback)?;

    let pipelines = Pipelines::new(device.clone());
    let weights_on_device =
        Matrix { address: matrix.address(), format: Format::Q4K, rows: ROWS as u32, columns: COLUMNS as u32 };
    let dispatch = MatVec {
        state: state.address(),
        products: &[Product { weights: weights_on_device, bias: None, y: Rows::one(product.address()) }],
        x: Input::Floats(Rows::one(vector.address())),
        act: ActFormat::F32,
        accumulate: false,
        shape: StepShape::ONE,
    }
    .dispatch(&pipelines.target());

    let mut recording = RecordingBuilder::new(&device, QueueKind::Compute, "mat_vec")?;
    pipelines.record(&mut recording, &dispatch)?;
    device.compute_queue().submit(&recording.finish()?, &[])?.wait()?;
    let mut y = vec![0.0f32; ROWS];
    product.read(0, bytemuck::cast_slice_mut(&mut y));

    let mut expected = vec![0.0; ROWS];
    reference::mat_vec(&HostMatrix { format: Format::Q4K, columns: COLUMNS, bytes: &weights }, &x, &mut expected);
    let largest = y.iter().zip(&expected).map(|(y, e)| (y - e).abs()).fold(0.0, f32::max);
    println!("{}: {ROWS} x {COLUMNS} {}", device.facts().name, Format::Q4K);
    println!("y[0..4] = {:?}", &y[..4]);
    println!("expected  {:?}", &expected[..4]);
    println!("largest difference {largest:e}");
    if largest < 1e-3 { Ok(()) } else { Err("the device and the reference disagree".into()) }
}

/// Blocks of `Q4_K` with scales of 2^-10 and bits from a linear congruential generator.
fn some_weights() -> Vec<u8> {
    let mut word = 1u32;
    let mut bytes: Vec<u8> = (0..ROWS * Format::Q4K.row_bytes(COLUMNS))
        .map(|_| {
            word = word.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (word >> 24) as u8
        })
        .collect();
    for block in bytes.chunks_mut(Format::Q4K.block_bytes()) {
        block[..4].copy_from_slice(&[0x00, 0x14, 0x00, 0x14]); // two halves: of the scales and of the minimums
    }
    bytes
}

fn some_vector() -> Vec<f32> {
    (0..COLUMNS).map(|i| (i as f32 * 0.37).sin()).collect()
}
