//! Writes the report as text for people.

use std::fmt::{self, Write as _};

use super::costs::{Costs, Micros};
use super::estimate::{Expected, ModelReport};
use super::report::{
    DeviceReport, HostAccess, MatrixProduct, MemoryReport, QueueReport, Report, Timeline, TimelineReport,
};
use super::seam::SeamTable;
use crate::output;

pub(super) fn text(report: &Report) -> String {
    let mut text = String::new();
    write(&mut text, report).expect("a string takes everything");
    text
}

fn write(text: &mut String, report: &Report) -> fmt::Result {
    writeln!(text, "zinc {}, validation layer {}", report.version, if report.validation { "on" } else { "off" })?;
    device(text, &report.device)?;
    matrix_products(text, &report.matrix_products)?;
    queues(text, &report.queues)?;
    timeline(text, &report.timeline)?;
    memory(text, &report.memory, report.bandwidth_bytes_per_s)?;
    costs(text, &report.costs)?;
    if let Some(table) = &report.seam {
        seam(text, table)?;
    }
    writeln!(text, "\nwhat zinc does")?;
    for choice in &report.choices {
        writeln!(text, "  {:<10} {} ({})", choice.what, choice.choice, choice.why)?;
    }
    if let Some(report) = &report.model {
        model(text, report)?;
    }
    if !report.warnings.is_empty() {
        writeln!(text, "\nworth knowing")?;
    }
    for warning in &report.warnings {
        writeln!(text, "  - {warning}")?;
    }
    Ok(())
}

fn device(text: &mut String, device: &DeviceReport) -> fmt::Result {
    let [min, default, max] = device.subgroup;
    let lanes =
        if min == max { format!("{default} lanes") } else { format!("{min} to {max} lanes, {default} by default") };
    let buffer = device.buffer_bytes.map_or("not stated".to_owned(), output::bytes);
    writeln!(text, "\ndevice {}: {}, {}", device.index, device.name, device.kind)?;
    writeln!(text, "  driver          {} (driver id {})", device.driver, device.driver_id)?;
    writeln!(text, "  API             {}", device.vulkan)?;
    writeln!(text, "  subgroups       {lanes}; zinc uses {}", device.subgroup_used)?;
    writeln!(
        text,
        "  workgroups      {} invocations, {} KiB of shared memory",
        device.invocations,
        device.shared_memory_bytes / 1024
    )?;
    writeln!(text, "  push constants  {} bytes", device.push_constant_bytes)?;
    writeln!(text, "  largest         allocation {}, buffer {buffer}", output::bytes(device.allocation_bytes))
}

fn matrix_products(text: &mut String, products: &[MatrixProduct]) -> fmt::Result {
    if products.is_empty() {
        return Ok(());
    }
    writeln!(text, "\nmatrix units, products of a subgroup")?;
    for MatrixProduct { shape: [m, n, k], elements: [a, b, sums], operations_per_s } in products {
        let unit = if sums.starts_with('f') { "TFLOPS" } else { "TOPS" };
        let rate = operations_per_s.map_or("not used".to_owned(), |rate| format!("{:.1} {unit}", rate / 1e12));
        writeln!(text, "  {:<12} {:<20} {rate}", format!("{m}x{n}x{k}"), format!("{a} x {b} into {sums}"))?;
    }
    Ok(())
}

fn queues(text: &mut String, queues: &[QueueReport]) -> fmt::Result {
    writeln!(text, "\nqueue families")?;
    for queue in queues {
        let opened = if queue.opened_for.is_empty() { "-".to_owned() } else { queue.opened_for.join(", ") };
        let abilities = queue.abilities.join(" ");
        let (family, count, bits) = (queue.family, queue.queues, queue.timestamp_bits);
        writeln!(text, "  {family}: {count:>2} x {abilities:<40} timestamps {bits:>2} bits  opened for {opened}")?;
    }
    Ok(())
}

fn timeline(text: &mut String, timeline: &TimelineReport) -> fmt::Result {
    let kind = match timeline.kind {
        Timeline::Native => "native, for all that is known of the driver",
        Timeline::EmulatedByDriver => "emulated by the driver",
        Timeline::EmulatedByLayer => "emulated by a layer",
    };
    writeln!(text, "\ntimeline semaphores: {kind}")?;
    writeln!(text, "  a blocking wait takes {:.2} times a fence's", timeline.wait_over_fence)?;
    match timeline.difference {
        u64::MAX => writeln!(text, "  values may lie as far ahead as one likes"),
        difference => writeln!(text, "  values may lie {difference} ahead"),
    }
}

fn memory(text: &mut String, memory: &MemoryReport, bandwidth: Option<f64>) -> fmt::Result {
    writeln!(text, "\nmemory")?;
    for (index, heap) in memory.heaps.iter().enumerate() {
        let place = if heap.device_local { "device" } else { "host" };
        let (size, available) = (output::bytes(heap.bytes), output::bytes(heap.available_bytes));
        let budget = if heap.has_budget { "" } else { " (the driver tells no budget)" };
        writeln!(text, "  heap {index}: {size:>11} {place:<6}  available {available}{budget}")?;
    }
    let access = match memory.host_access {
        HostAccess::Whole => "all of the device's memory (resizable BAR, or shared memory)".to_owned(),
        HostAccess::Window(bytes) => format!("a window of {} (no resizable BAR)", output::bytes(bytes)),
        HostAccess::Nothing => "none of the device's memory".to_owned(),
    };
    writeln!(text, "  the host can write to {access}")?;
    match bandwidth {
        Some(bandwidth) => writeln!(text, "  read bandwidth {:.1} GB/s", bandwidth / 1e9),
        None => writeln!(text, "  read bandwidth not measured"),
    }
}

fn costs(text: &mut String, costs: &Costs) -> fmt::Result {
    let rows = [
        ("submit a recorded step", costs.submit),
        ("empty step, submit to fence", costs.fence_round_trip),
        ("empty step, submit to timeline, polling", costs.timeline_polling),
        ("empty step, submit to timeline, blocking", costs.timeline_blocking),
        ("host signal to the end of a step queued ahead", costs.host_signal),
    ];
    writeln!(text, "\n{:<52} {:>8} {:>8}", "costs, us", "median", "99 %")?;
    let hop = costs.queue_hop.map(|hop| ("end of a step to one on the second queue", hop));
    for (what, Micros { median_us, p99_us }) in rows.into_iter().chain(hop) {
        writeln!(text, "  {what:<50} {median_us:>8.1} {p99_us:>8.1}")?;
    }
    for (what, us) in [
        ("dispatch and barrier, on the device", costs.dispatch_barrier_us),
        ("dispatch without a barrier", costs.dispatch_us),
        ("recording a dispatch and its barrier, on the host", costs.record_us),
    ] {
        writeln!(text, "  {what:<50} {us:>8.2}")?;
    }
    if let Some(clock) = costs.clock {
        let how = if clock.calibrated { "read together by the driver" } else { "bracketed by submissions" };
        writeln!(text, "  {:<50} {:>8.2}  {how}", "the device's clock on the host's, within", clock.max_error_us)?;
    }
    Ok(())
}

fn seam(text: &mut String, table: &SeamTable) -> fmt::Result {
    let SeamTable { dispatches, step_us, host_work_us, rows } = table;
    writeln!(text, "\nidle between two steps of {dispatches} empty dispatches ({step_us:.0} us), us")?;
    let loads: String = host_work_us.iter().map(|load| format!(" {:>10}", format!("busy {load}"))).collect();
    writeln!(text, "  {:<24}{loads}", "host")?;
    for row in rows {
        let gaps: String = row.idle_us.iter().map(|gap| format!(" {gap:>10.1}")).collect();
        writeln!(text, "  {:<24}{gaps}", row.drive.to_string())?;
    }
    Ok(())
}

fn model(text: &mut String, model: &ModelReport) -> fmt::Result {
    writeln!(text, "\n{}", model.file)?;
    if let Some(obstacle) = &model.obstacle {
        writeln!(text, "  zinc cannot run it: {obstacle}")?;
    }
    if let Some(needs) = &model.needs {
        let (need, have) = (output::bytes(needs.memory_bytes), output::bytes(needs.available_bytes));
        writeln!(text, "  memory         {need} of {have} available, with {} tokens of context", needs.context)?;
        writeln!(
            text,
            "  a token        {:.1} MB of weights, up to {:.1} MB of cache, {} dispatches, {} barriers",
            needs.weight_bytes_per_token as f64 / 1e6,
            needs.cache_bytes_per_token as f64 / 1e6,
            needs.dispatches_per_token,
            needs.barriers_per_token
        )?;
    }
    for Expected { context, reading_us, dispatches_us, idle_us, tokens_per_second } in &model.expected {
        let behind = if *context == 0 { "at the start".to_owned() } else { format!("behind {context}") };
        writeln!(
            text,
            "  {behind:<14} at most {tokens_per_second:.1} tokens/s: {reading_us:.0} us of reading, {dispatches_us:.0} of dispatches, \
             {idle_us:.0} between steps"
        )?;
    }
    if !model.expected.is_empty() {
        writeln!(
            text,
            "  an estimate: no operation computes for longer than it reads, and all read as fast as the device can"
        )?;
        writeln!(text, "  (`zinc bench` measures what it really does)")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use zinc_model::memory::MemoryPlan;
    use zinc_model::plan::Cost;

    use super::super::recorded::h100;
    use super::super::report::Report;
    use super::super::report::tests::{findings, heaps, plan};
    use zinc_engine::Estimate;

    #[test]
    fn the_text_of_a_card() {
        let (plan, heaps) = (plan(h100()), heaps(&h100()));
        let mut findings = findings(&plan, &heaps);
        let estimate = Estimate {
            checkpoint_bytes: 0,
            memory: MemoryPlan {
                weights: 18 << 30,
                kv_cache: 384 << 20,
                recurrent: 0,
                work: 0,
                context: 4096,
                bytes_per_position: 1,
            },
            cost: Cost { weight_bytes: 1_902_000_000, cache_bytes: 402_700_000, flops: 0 },
            dispatches_per_token: 292,
            barriers_per_token: 292,
        };
        findings.model = Some(("moe.gguf".to_owned(), Ok(estimate)));
        findings.layers = "VK_LAYER_KHRONOS_timeline_semaphore";
        let text = Report::new(&findings).text().replace(env!("CARGO_PKG_VERSION"), "VERSION");
        let golden = include_str!("../../tests/data/doctor.txt");
        assert!(text == golden, "the text differs from tests/data/doctor.txt; it is now:\n{text}");
    }
}
