//! How fast a model gets onto a device: `cargo run --release -p zinc-model --example load [FILE]`. Without a file it is the demo model.
//!
//! Run it twice: the first time reads what the system has not cached from the disk.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use zinc_kernels::Pipelines;
use zinc_kernels::ops::CacheFormat;
use zinc_model::Model;
use zinc_model::device::DeviceModel;
use zinc_model::plan::CacheOptions;
use zinc_vk::{Device, DevicePlan, Instance, InstanceOptions, Wants};

#[expect(clippy::print_stdout, reason = "an example prints")]
fn main() -> Result<(), Box<dyn Error>> {
    let demo = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/zinc-demo-q4_k_m.gguf");
    let path = std::env::args_os().nth(1).map_or_else(demo, PathBuf::from);
    let instance = Instance::new(&InstanceOptions::default())?;
    let device = Device::open(&instance, &DevicePlan::choose(&instance.adapters()?, &Wants::default())?)?;
    let pipelines = Arc::new(Pipelines::new(device.clone()));
    let model = Arc::new(Model::open(&path)?);
    let cache = CacheOptions::new(16, CacheFormat::F16, CacheFormat::F16);
    let start = Instant::now();
    let _loaded = DeviceModel::load(&pipelines, &model, cache, &mut |_| {})?;
    let seconds = start.elapsed().as_secs_f64();
    let gigabytes = model.weights.bytes() as f64 / 1e9;
    println!("{}: {gigabytes:.2} GB in {seconds:.3} s, {:.2} GB/s", device.facts().name, gigabytes / seconds);
    Ok(())
}
