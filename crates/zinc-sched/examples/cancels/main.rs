//! Cancels generations at random moments, and checks the device's memory and the tokens of the request that follows.
//!
//! `cargo run --release --example cancels -- [MODEL.gguf] [cancels] [validate]`. Without a file, a tiny model is cancelled a few times.
//!
//! Every kind of step takes part: plain, through the sampler chain, masked, host-fed, and speculative. What is printed is how long the device
//! takes from a cancel until nothing is in flight, in times of a step.

mod trial;

use std::sync::Arc;
use std::time::Duration;

use trial::{CONTEXT, Failure, Kind, Outcome, load_options, trial};
use zinc_kernels::Pipelines;
use zinc_kernels::ops::CacheFormat;
use zinc_model::Model;
use zinc_model::device::DeviceModel;
use zinc_model::plan::CacheOptions;
use zinc_vk::{Device, DevicePlan, Instance, InstanceOptions, Validation, Wants};

/// The model that is used if none is named: a tiny one.
const TINY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/tiny/qwen3moe-a-q4_k_m.gguf");

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "an example shows its result")]
fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().unwrap_or_else(|| TINY.to_owned());
    let cancels: u32 = arguments.next().map_or(Ok(5), |text| text.parse())?;
    let validation = if arguments.next().is_some() { Validation::On } else { Validation::Off };

    let vulkan = Instance::new(&InstanceOptions::default().with_validation(validation))?;
    let device = Device::open(&vulkan, &DevicePlan::choose(&vulkan.adapters()?, &Wants::default())?)?;
    println!("{}, {cancels} cancels", device.facts().name);
    let pipelines = Arc::new(Pipelines::new(device));
    let model = Arc::new(Model::open(path)?);
    let cache = CacheOptions::new(CONTEXT, CacheFormat::F16, CacheFormat::F16);
    let loaded = Arc::new(DeviceModel::load(&pipelines, &model, load_options(cache), &mut |_| {})?);

    let mut progress = |done: u32| {
        if done.is_multiple_of(100) {
            eprintln!("{done} of {cancels}");
        }
    };
    let Outcome { cut, wrong, kinds, memory_bytes } = trial(&loaded, cancels, &mut progress)?;
    for line in &wrong {
        println!("{line}");
    }
    println!("{cut} requests cut short, {} wrong answers behind them", wrong.len());
    for Kind { name, step, rests, .. } in &kinds {
        let in_steps = |rest: Option<&Duration>| rest.map_or(0.0, |rest| rest.as_secs_f64() / step.as_secs_f64());
        println!(
            "{name:<12} from cancel to rest: median {:.2}, most {:.2} steps of {:.2} ms",
            in_steps(rests.get(rests.len() / 2)),
            in_steps(rests.last()),
            step.as_secs_f64() * 1e3
        );
    }
    println!("device memory: {} bytes before, {} after", memory_bytes.0, memory_bytes.1);
    let messages = vulkan.validation_messages();
    println!("validation messages: {}", messages.len());
    if wrong.is_empty() && memory_bytes.0 == memory_bytes.1 && messages.is_empty() {
        Ok(())
    } else {
        Err("something was left behind".into())
    }
}
