//! Compiles every kernel with the device's driver and prints what its compiler made of them, one JSON object a line.
//!
//! `cargo xtask isa` runs it on RADV's null device and makes a table of it; on its own it shows the same of the device at
//! hand: `cargo run -p zinc-kernels --example isa`. A line has `device`, `driver`, `kernel`, `variant`, `constants`,
//! `workgroup_size`, `subgroup_width`, `statistics` and `representations`, the driver's texts by their names.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "an example shows its result")]

use std::error::Error;

use serde_json::{Map, Value, json};
use zinc_kernels::variants::{Variant, variants};
use zinc_kernels::{Target, Units, pipeline_spec};
use zinc_vk::{Compiler, DevicePlan, Instance, InstanceOptions, Wants};

fn main() -> Result<(), Box<dyn Error>> {
    let instance = Instance::new(&InstanceOptions::default())?;
    let plan = DevicePlan::choose(&instance.adapters()?, &Wants::default())?;
    let compiler = match Compiler::open(&instance, &plan) {
        Err(error @ zinc_vk::Error::NoPipelineStatistics { .. }) => {
            eprintln!("{error}");
            return Ok(());
        }
        result => result?,
    };
    let facts = compiler.facts();
    let units = facts.byte_matrix_depth().map(|depth| Units { depth, emulated: false });
    let shared_bytes = facts.limits.shared_memory_bytes;
    let target = Target { units, shared_bytes, ..Target::new(compiler.subgroup_width()) };
    for Variant { label, dispatch } in variants(&target) {
        let compiled = compiler.compile(&pipeline_spec(&dispatch, &dispatch.kernel.words()))?;
        let statistics: Map<String, Value> = compiled.statistics.into_iter().map(|(k, v)| (k, v.into())).collect();
        let texts: Map<String, Value> = compiled.representations.into_iter().map(|(k, v)| (k, v.into())).collect();
        let line = json!({
            "device": compiler.facts().name,
            "driver": compiler.facts().driver.info,
            "kernel": dispatch.kernel.name,
            "variant": label,
            "constants": dispatch.constants,
            "workgroup_size": dispatch.workgroup_size(),
            "subgroup_width": compiled.subgroup_width,
            "statistics": statistics,
            "representations": texts,
        });
        println!("{line}");
    }
    Ok(())
}
