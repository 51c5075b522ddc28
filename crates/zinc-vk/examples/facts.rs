//! Prints the facts of every adapter and the plan made of them. A report about a device should contain this, and `tests/recorded`
//! keeps the facts of devices that are not at hand.
//!
//! `cargo run -p zinc-vk --example facts`

use zinc_vk::{DevicePlan, Instance, InstanceOptions, Wants};

#[allow(clippy::print_stdout, reason = "an example prints")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let adapters = Instance::new(&InstanceOptions::default())?.adapters()?;
    println!("{adapters:#?}");
    match DevicePlan::choose(&adapters, &Wants::default()) {
        Ok(plan) => println!(
            "chosen: {} with subgroups of {}, compute family {}, transfer family {:?}; {:?}",
            plan.adapter.name, plan.subgroup_width, plan.compute_family, plan.transfer_family, plan.notices
        ),
        Err(error) => println!("{error}"),
    }
    Ok(())
}
