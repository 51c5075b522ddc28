//! `zinc devices`: which Vulkan devices there are, and which one would be used.

use std::fmt::Write as _;

use serde::Serialize;
use zinc_vk::{AdapterFacts, DevicePlan, Features, Wants};

use crate::args::{DevicesArgs, Format};
use crate::error::Result;
use crate::{device, output};

#[derive(Serialize)]
struct Row {
    index: usize,
    name: String,
    kind: String,
    vulkan: String,
    driver: String,
    /// Bytes of the device's own memory.
    memory_bytes: u64,
    /// Bytes of the device's own memory that this process may still allocate, if the driver tells.
    available_bytes: Option<u64>,
    /// The number of lanes of the narrowest, the default and the widest subgroup.
    subgroup: [u32; 3],
    /// Names of the device's features, of those that zinc can use.
    features: Vec<String>,
    /// Whether zinc uses this device if the user names none.
    default: bool,
}

pub(crate) fn run(args: &DevicesArgs) -> Result<()> {
    list(args.format.format())
}

/// Prints the list of devices. The flag `--list-devices` of other commands does this too.
pub(crate) fn list(format: Format) -> Result<()> {
    let vulkan = device::open_vulkan()?;
    let adapters = vulkan.adapters()?;
    // The list is printed even if no device can be used. The reason follows as the command's error.
    let plan = DevicePlan::choose(&adapters, &Wants::default());
    let chosen = plan.as_ref().ok().map(|plan| plan.adapter.index);
    let rows: Vec<Row> = adapters.iter().map(|facts| row(facts, chosen)).collect();
    match format {
        Format::Json => output::stdout_json(&rows)?,
        Format::Text => output::stdout(&table(&rows))?,
    }
    device::check_validation(&vulkan)?;
    Ok(plan.map(drop)?)
}

fn row(facts: &AdapterFacts, chosen: Option<usize>) -> Row {
    let local = facts.heaps.iter().filter(|heap| heap.device_local).max_by_key(|heap| heap.bytes);
    let subgroup = facts.subgroup;
    Row {
        index: facts.index,
        name: facts.name.clone(),
        kind: facts.kind.to_string(),
        vulkan: facts.api_version.to_string(),
        driver: format!("{} {}", facts.driver.name, facts.driver.info).trim().to_owned(),
        memory_bytes: facts.device_memory_bytes(),
        available_bytes: local.and_then(|heap| heap.budget).map(|budget| budget.budget.saturating_sub(budget.usage)),
        subgroup: [subgroup.min, subgroup.default, subgroup.max],
        features: feature_names(facts.features),
        default: chosen == Some(facts.index),
    }
}

fn feature_names(features: Features) -> Vec<String> {
    features.iter_names().map(|(name, _)| name.to_ascii_lowercase()).collect()
}

fn table(rows: &[Row]) -> String {
    let mut text = String::new();
    for row in rows {
        let mark = if row.default { "*" } else { " " };
        let [min, default, max] = row.subgroup;
        let available = row.available_bytes.map_or(String::new(), |free| format!(", {} free", output::bytes(free)));
        let range = if min == max { String::new() } else { format!(" ({min} to {max})") };
        writeln!(text, "{mark} {}: {}, {}", row.index, row.name, row.kind)
            .and_then(|()| writeln!(text, "     {}, {}", row.vulkan, row.driver))
            .and_then(|()| writeln!(text, "     memory {}{available}", output::bytes(row.memory_bytes)))
            .and_then(|()| writeln!(text, "     subgroups of {default} lanes{range}"))
            .expect("a string takes everything");
    }
    text
}
