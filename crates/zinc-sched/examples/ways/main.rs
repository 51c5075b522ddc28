//! Drives a model in every way there is, with every kind of sampling, and compares the tokens: they must be the same.
//!
//! `cargo run --release --example ways -- [MODEL.gguf] [prompts] [tokens] [kind,kind,...]`. Without a file, a tiny model makes a short run.
//!
//! The ways are depths 1, 2, 4 and 8, a fence, one queue and two, and speculation by look-up and by the model drafting for itself. Prompts
//! are random ids. What is printed for each way and each kind of sampling is a hash of all its tokens, so that devices can be compared, too.

mod cases;

use std::error::Error;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Instant;

use cases::{Driven, Kind, PROMPT_TOKENS, kinds, load_options, ways};
use zinc_kernels::Pipelines;
use zinc_kernels::ops::CacheFormat;
use zinc_model::Model;
use zinc_model::device::DeviceModel;
use zinc_model::plan::CacheOptions;
use zinc_vk::{Device, DevicePlan, Instance, InstanceOptions, Wants};

/// The model that is used if none is named: a tiny one.
const TINY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/tiny/qwen3moe-a-q4_k_m.gguf");

#[expect(clippy::print_stdout, reason = "an example shows its result")]
fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().unwrap_or_else(|| TINY.to_owned());
    let prompts: u32 = arguments.next().map_or(Ok(1), |text| text.parse())?;
    let tokens: u32 = arguments.next().map_or(Ok(4), |text| text.parse())?;
    let wanted = arguments.next();
    let wanted = |kind: &str| wanted.as_ref().is_none_or(|list| list.split(',').any(|name| name == kind));

    let vulkan = Instance::new(&InstanceOptions::default())?;
    let plan = DevicePlan::choose(&vulkan.adapters()?, &Wants::default())?;
    let device = Device::open(&vulkan, &plan)?;
    println!("{}, {prompts} prompts, {tokens} tokens each", device.facts().name);
    let pipelines = Arc::new(Pipelines::new(device));
    let model = Arc::new(Model::open(path)?);
    let cache = CacheOptions::new(PROMPT_TOKENS + tokens, CacheFormat::F16, CacheFormat::F16);
    let load = || DeviceModel::load(&pipelines, &model, load_options(cache), &mut |_| {}).map(Arc::new);
    let (target, draft) = (load()?, load()?);

    let kinds: Vec<Kind> = kinds().into_iter().filter(|kind| wanted(kind.name)).collect();
    let mut expected: Vec<Vec<Vec<u32>>> = Vec::new();
    let mut all_same = true;
    for way in ways() {
        let mut driven = Driven::new(&target, &draft, &way)?;
        for (index, kind) in kinds.iter().enumerate() {
            let started = Instant::now();
            let texts = driven.texts(kind, prompts, tokens)?;
            let seconds = started.elapsed().as_secs_f64();
            let same = expected.get(index).is_none_or(|expected| *expected == texts);
            all_same &= same;
            let mut hasher = DefaultHasher::new();
            texts.hash(&mut hasher);
            let count: usize = texts.iter().map(Vec::len).sum();
            let (kind, way, hash) = (kind.name, way.name, hasher.finish());
            let verdict = if same { "same" } else { "DIFFERENT" };
            println!("{way:<22} {kind:<12} {hash:016x} {count:>7} tokens {seconds:>7.1} s  {verdict}");
            if index == expected.len() {
                expected.push(texts);
            }
        }
    }
    if all_same { Ok(()) } else { Err("the tokens differ".into()) }
}
