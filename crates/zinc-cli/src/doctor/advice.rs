//! What zinc decides for a device and why, and what its user should know.

use serde::Serialize;
use zinc_kernels::Tuning;
use zinc_sched::InflightDepth;
use zinc_vk::{AdapterKind, DevicePlan, Features, QueueAbilities};

use super::report::{Findings, HostAccess, Report, Timeline};
use super::seam::{Drive, SeamTable};
use super::units::UnitRates;
use crate::output;

/// Bytes of the weights of Qwen3-30B-A3B in Q4_K_M, the model that zinc is made for first: 17.28 GiB.
const TARGET_MODEL_BYTES: u64 = 17_695 << 20;

/// The least share of a heap that should be available. With less, another program is using the device.
const LEAST_AVAILABLE: f64 = 0.5;

/// How many times as long as for a fence a blocking wait for a timeline may take. Native timelines take about as long as fences.
const SLOW_TIMELINE: f64 = 1.5;

/// The largest deviation of a calibrated clock, in microseconds, with which gaps of some microseconds can still be placed.
const EXACT_CLOCK_US: f64 = 5.0;

/// A decision of zinc, with its reason.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Decision {
    pub(crate) what: &'static str,
    pub(crate) choice: String,
    pub(crate) why: String,
}

/// The decisions that zinc makes on the device, unless flags say otherwise.
pub(super) fn choices(findings: &Findings<'_>) -> Vec<Decision> {
    let Findings { plan, seam, tuning, unit_rates, .. } = findings;
    let adapter = &plan.adapter;
    let subgroup = &adapter.subgroup;
    let choice = |what, choice: String, why: String| Decision { what, choice, why };
    vec![
        choice("device", format!("{}: {}", adapter.index, adapter.name), why_device(findings)),
        choice("subgroups", format!("{} lanes", plan.subgroup_width), {
            let (min, max) = (subgroup.min, subgroup.max);
            if subgroup.selectable && min < max {
                format!("32 where the device allows it; this one allows {min} to {max}")
            } else {
                "the only width that the device has".to_owned()
            }
        }),
        choice(
            "tuning",
            match *tuning {
                Tuning::CPU => "for processors",
                Tuning::INTEGRATED => "for graphics without memory of their own",
                _ => "for cards",
            }
            .to_owned(),
            format!("the device is of the kind {}", adapter.kind),
        ),
        choice("prompts", prompt_products(*unit_rates).to_owned(), why_prompt_products(plan, *unit_rates)),
        choice("attention", attention(*unit_rates).to_owned(), why_attention(plan, *unit_rates).to_owned()),
        choice("queues", queues(plan), why_queues(plan)),
        choice("sync", "timeline".to_owned(), why_sync(seam.as_ref())),
        choice(
            "depth",
            format!("{} steps in flight", InflightDepth::DEFAULT),
            "2 hide the host's work behind the GPU's; more hide the times when it is late".to_owned(),
        ),
        choice("no-ops", no_ops(plan).to_owned(), why_no_ops(plan).to_owned()),
    ]
}

/// Whether the dispatches of steps that are queued behind the end of a text run as no-ops or are left out.
fn no_ops(plan: &DevicePlan) -> &'static str {
    if plan.features.contains(Features::CONDITIONAL_DISPATCH) { "left out" } else { "run and find nothing to do" }
}

fn why_no_ops(plan: &DevicePlan) -> &'static str {
    if plan.features.contains(Features::CONDITIONAL_DISPATCH) {
        "the device looks at a condition once a step"
    } else if plan.adapter.features.contains(Features::CONDITIONAL_DISPATCH) {
        "what a condition costs has not been measured with this driver"
    } else {
        "the device does not list VK_EXT_conditional_rendering"
    }
}

fn why_device(findings: &Findings<'_>) -> String {
    match (findings.named, findings.adapters) {
        (true, _) => "asked for with --device".to_owned(),
        (false, 1) => "the only one".to_owned(),
        (false, count) => {
            format!("the first of {count}: cards before integrated GPUs before processors, then by memory")
        }
    }
}

/// What multiplies the tokens of prompts.
fn prompt_products(rates: UnitRates) -> &'static str {
    if rates.bytes_per_s.is_some() { "by matrix units" } else { "by dot products" }
}

fn why_prompt_products(plan: &DevicePlan, rates: UnitRates) -> String {
    let adapter = &plan.adapter;
    match (plan.byte_matrix_depth(), adapter.byte_matrix_depth()) {
        (Some(depth), _) if rates.bytes_per_s.is_some() => {
            format!("the device multiplies 16x16x{depth} signed bytes at a time")
        }
        (Some(_), _) => "products of matrix units are not those that the host computes".to_owned(),
        (None, Some(_)) => "the driver does not compute with bytes in shaders".to_owned(),
        (None, None) if adapter.features.contains(Features::COOPERATIVE_MATRIX) => {
            "matrix units of the device list no products of 16x16x16 or 16x16x32 signed bytes".to_owned()
        }
        (None, None) => "the device has no matrix units".to_owned(),
    }
}

/// What computes attention over a cache of halves.
fn attention(rates: UnitRates) -> &'static str {
    if rates.halves_per_s.is_some() { "by matrix units" } else { "by subgroups" }
}

fn why_attention(plan: &DevicePlan, rates: UnitRates) -> &'static str {
    let adapter = &plan.adapter;
    match (plan.multiplies_halves(), adapter.multiplies_halves()) {
        (true, _) if rates.halves_per_s.is_some() => {
            "the device multiplies 16x16x16 halves at a time, for an f16 cache and heads of 64 or 128"
        }
        (true, _) => "matrix units hold their elements in other lanes than the kernels, or a row depends on others",
        (false, true) => "the driver does not compute with halves in shaders",
        (false, false) if adapter.features.contains(Features::COOPERATIVE_MATRIX) => {
            "matrix units of the device list no products of 16x16x16 halves"
        }
        (false, false) => "the device has no matrix units",
    }
}

fn queues(plan: &DevicePlan) -> String {
    let transfer = match plan.transfer_family {
        Some(family) => format!("uploads on family {family}"),
        None => "uploads on the same".to_owned(),
    };
    let second = if plan.second_compute { ", with a second queue" } else { "" };
    format!("compute on family {}{second}, {transfer}", plan.compute_family)
}

fn why_queues(plan: &DevicePlan) -> String {
    let families = &plan.adapter.families;
    let does = |ability: QueueAbilities| {
        families.get(plan.compute_family as usize).is_some_and(|family| family.abilities.contains(ability))
    };
    let compute = if !does(QueueAbilities::GRAPHICS) {
        "one without graphics is not shared with the desktop"
    } else if families.iter().filter(|family| family.abilities.contains(QueueAbilities::COMPUTE)).count() == 1 {
        "the only one that computes"
    } else {
        "the universal one is quicker from dispatch to dispatch on this vendor's cards"
    };
    let transfer =
        if plan.transfer_family.is_some() { "copies have an engine of their own" } else { "none only copies" };
    format!("{compute}; {transfer}")
}

fn why_sync(seam: Option<&SeamTable>) -> String {
    let gaps = |seam: &SeamTable| {
        let idle = |drive| seam.idle_us(drive, 250);
        Some((idle(Drive::default())?, idle(Drive::Fence)?))
    };
    match seam.and_then(gaps) {
        Some((timeline, fence)) => {
            format!(
                "idle {timeline:.1} us between steps against {fence:.1} with a fence, where the host is busy for 250 us a token"
            )
        }
        None => "the GPU need not wait for the host".to_owned(),
    }
}

/// Warnings about what could be better, with numbers.
pub(super) fn warnings(report: &Report, plan: &DevicePlan) -> Vec<String> {
    let mut warnings: Vec<String> = plan.notices.iter().map(ToString::to_string).collect();
    warnings.extend(timeline(report));
    warnings.extend(memory(report, plan));
    warnings.extend(driver(report, plan));
    if report.validation {
        warnings.push(
            "the validation layer is on: every cost above includes it; unset ZINC_VALIDATION to measure".to_owned(),
        );
    }
    if report.bandwidth_bytes_per_s.is_none() {
        warnings.push("the read bandwidth was not measured: there is no memory to measure with".to_owned());
    }
    warnings.extend(model(report));
    warnings
}

fn timeline(report: &Report) -> Vec<String> {
    let costs = &report.costs;
    let (blocking, fence) = (costs.timeline_blocking.median_us, costs.fence_round_trip.median_us);
    let mut warnings = Vec::new();
    let who = match report.timeline.kind {
        Timeline::Native => None,
        Timeline::EmulatedByDriver => Some("the driver"),
        Timeline::EmulatedByLayer => Some("a layer"),
    };
    if let Some(who) = who {
        warnings.push(format!(
            "timeline semaphores are emulated by {who}: a step that waits for a host signal goes through a thread of the host \
             ({:.1} us from signal to done), and a blocking wait takes {blocking:.1} us, a fence's {fence:.1}",
            costs.host_signal.median_us
        ));
    } else if report.timeline.wait_over_fence > SLOW_TIMELINE {
        warnings.push(format!(
            "a blocking wait for the timeline takes {blocking:.1} us, {:.1} times a fence's {fence:.1}: they may be emulated",
            report.timeline.wait_over_fence
        ));
    }
    if let Some(seam) = &report.seam
        && let (Some(timeline), Some(fence)) = (seam.idle_us(Drive::default(), 0), seam.idle_us(Drive::FenceKept, 0))
        && timeline >= fence
    {
        warnings.push(format!(
            "queueing ahead gains nothing here: idle {timeline:.1} us between steps with it, {fence:.1} with a fence and no host work"
        ));
    }
    warnings
}

fn memory(report: &Report, plan: &DevicePlan) -> Vec<String> {
    let mut warnings = Vec::new();
    let memory = plan.adapter.device_memory_bytes();
    match report.memory.host_access {
        HostAccess::Whole => {}
        HostAccess::Window(bytes) => warnings.push(format!(
            "no resizable BAR: the host can write to {} of the card's {} directly; models are uploaded through a ring instead, so \
             that only loading is slower",
            output::bytes(bytes),
            output::bytes(memory)
        )),
        HostAccess::Nothing => warnings.push(format!(
            "the host can write to none of the card's {} directly; models are uploaded through a ring, so that only loading is slower",
            output::bytes(memory)
        )),
    }
    if memory < TARGET_MODEL_BYTES {
        warnings.push(format!(
            "{} of device memory: the weights of Qwen3-30B-A3B in Q4_K_M alone take {}",
            output::bytes(memory),
            output::bytes(TARGET_MODEL_BYTES)
        ));
    }
    for (index, heap) in report.memory.heaps.iter().enumerate().filter(|(_, heap)| heap.device_local) {
        if (heap.available_bytes as f64) < LEAST_AVAILABLE * heap.bytes as f64 {
            warnings.push(format!(
                "only {} of heap {index}'s {} are available: something else uses the device",
                output::bytes(heap.available_bytes),
                output::bytes(heap.bytes)
            ));
        }
    }
    warnings
}

fn driver(report: &Report, plan: &DevicePlan) -> Vec<String> {
    let adapter = &plan.adapter;
    let has = |feature| adapter.features.contains(feature);
    let mut warnings = Vec::new();
    if !adapter.api_version.at_least(1, 3) {
        warnings.push(format!(
            "the driver has {} only; a newer one may be quicker (zinc needs 1.2 and is tested on 1.3 and 1.4)",
            adapter.api_version
        ));
    }
    if !has(Features::MEMORY_BUDGET) {
        warnings.push(
            "the driver tells no memory budget: what other programs use is not seen, and a model may not fit"
                .to_owned(),
        );
    }
    match report.costs.clock {
        None => warnings.push("the device takes no timestamps: idle times cannot be measured, nor drawn".to_owned()),
        Some(clock) if clock.max_error_us > EXACT_CLOCK_US => warnings.push(format!(
            "the device's clock is known on the host's to {:.1} us only: traces place steps no better than that",
            clock.max_error_us
        )),
        Some(_) => {}
    }
    if adapter.kind != AdapterKind::Cpu && !has(Features::SUBGROUP_SIZE_CONTROL) {
        warnings.push(format!(
            "the driver lets no pipeline choose its subgroup width, which is {}; kernels are tuned for 32",
            adapter.subgroup.default
        ));
    }
    warnings
}

fn model(report: &Report) -> Vec<String> {
    let Some(model) = &report.model else { return Vec::new() };
    if let Some(obstacle) = &model.obstacle {
        return vec![format!("{} cannot be run: {obstacle}", model.file)];
    }
    match model.needs {
        Some(needs) if needs.memory_bytes > needs.available_bytes => vec![format!(
            "{} does not fit: it takes {} with {} tokens of context, and {} are available; -c lowers it",
            model.file,
            output::bytes(needs.memory_bytes),
            needs.context,
            output::bytes(needs.available_bytes)
        )],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use zinc_model::memory::MemoryPlan;
    use zinc_model::plan::Cost;
    use zinc_vk::{AdapterFacts, Validation};

    use super::super::recorded::{h100, lavapipe, r9700};
    use super::super::report::tests::{findings, heaps, plan};
    use super::*;
    use zinc_engine::Estimate;

    fn warned(facts: &AdapterFacts, change: impl FnOnce(&mut Findings<'_>)) -> Vec<String> {
        let (plan, heaps) = (plan(facts.clone()), heaps(facts));
        let mut findings = findings(&plan, &heaps);
        change(&mut findings);
        Report::new(&findings).warnings
    }

    #[track_caller]
    fn only(warnings: &[String], parts: &[&str]) {
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        for part in parts {
            assert!(warnings[0].contains(part), "no {part} in {warnings:?}");
        }
    }

    #[test]
    fn a_good_card_is_not_warned_of() {
        assert_eq!(warned(&h100(), |_| {}), Vec::<String>::new());
        assert_eq!(warned(&r9700(), |_| {}), Vec::<String>::new());
    }

    #[test]
    fn a_processor_has_much_to_be_warned_of() {
        let warnings = warned(&lavapipe(), |_| {});
        for part in [
            "runs on the processor",
            "subgroups of 8 lanes",
            "emulated by the driver",
            "(15.0 us from signal to done)",
            "2.00 GiB of device memory: the weights of Qwen3-30B-A3B",
            "no memory budget",
        ] {
            assert!(warnings.iter().any(|warning| warning.contains(part)), "no {part} in {warnings:#?}");
        }
        assert_eq!(warnings.len(), 5, "{warnings:#?}");
    }

    #[test]
    fn each_fault_has_its_warning_with_numbers() {
        let mut small = r9700();
        small.heaps.push(zinc_vk::Heap { bytes: 256 << 20, device_local: true, budget: None });
        small.memory_types[2].heap = 2;
        let window = warned(&small, |_| {});
        assert!(window.iter().any(|w| w.contains("256.00 MiB of the card's 31.86 GiB")), "{window:?}");

        only(&warned(&h100(), |found| found.layers = "VK_LAYER_KHRONOS_timeline_semaphore"), &["emulated by a layer"]);
        only(&warned(&h100(), |found| found.costs.timeline_blocking.median_us = 100.0), &["100.0 us, 2.5 times"]);
        only(&warned(&h100(), |found| found.validation = Validation::On), &["ZINC_VALIDATION"]);
        only(&warned(&h100(), |found| found.bandwidth = None), &["bandwidth"]);
        only(&warned(&h100(), |found| found.costs.clock = None), &["no timestamps"]);
        only(&warned(&h100(), |found| found.costs.clock.as_mut().unwrap().max_error_us = 20.0), &["20.0 us only"]);
        only(
            &warned(&h100(), |found| found.seam.as_mut().unwrap().rows[4].idle_us[0] = 70.0),
            &["gains nothing", "70.0", "67.0"],
        );

        let mut old = h100();
        old.api_version.minor = 2;
        old.features -= Features::SUBGROUP_SIZE_CONTROL;
        let warnings = warned(&old, |_| {});
        assert!(warnings.iter().any(|w| w.contains("Vulkan 1.2.312 only")), "{warnings:?}");
        assert!(warnings.iter().any(|w| w.contains("subgroup width, which is 32")), "{warnings:?}");

        let full: Vec<_> =
            heaps(&h100()).into_iter().map(|heap| zinc_vk::HeapReport { available: 1 << 30, ..heap }).collect();
        let plan = plan(h100());
        only(&Report::new(&findings(&plan, &full)).warnings, &["only 1.00 GiB of heap 0's 79.65 GiB"]);
    }

    #[test]
    fn a_model_that_is_too_large_or_broken_is_warned_of() {
        let estimate = Estimate {
            checkpoint_bytes: 0,
            memory: MemoryPlan {
                weights: 100 << 30,
                kv_cache: 0,
                recurrent: 0,
                work: 0,
                context: 4096,
                bytes_per_position: 1,
            },
            cost: Cost::default(),
            dispatches_per_token: 1,
            barriers_per_token: 1,
        };
        let large = warned(&h100(), |found| found.model = Some(("m.gguf".to_owned(), Ok(estimate))));
        only(&large, &["m.gguf does not fit", "100.00 GiB", "79.40 GiB"]);
        let broken = warned(&h100(), |found| found.model = Some(("m.gguf".to_owned(), Err("no such file".to_owned()))));
        only(&broken, &["m.gguf cannot be run: no such file"]);
    }

    #[test]
    fn choices_have_reasons() {
        let facts = h100();
        let (plan, heaps) = (plan(facts.clone()), heaps(&facts));
        let of = |findings: &Findings<'_>, what: &str| {
            choices(findings).into_iter().find(|choice| choice.what == what).map(|c| (c.choice, c.why)).unwrap()
        };
        let mut found = findings(&plan, &heaps);
        assert_eq!(of(&found, "device").1, "the only one");
        assert_eq!(of(&found, "subgroups").1, "the only width that the device has");
        assert_eq!(of(&found, "queues").0, "compute on family 0, with a second queue, uploads on family 1");
        assert!(of(&found, "queues").1.contains("quicker from dispatch to dispatch"));
        assert!(of(&found, "sync").1.contains("idle 14.5 us between steps against 798.0"));
        assert_eq!(of(&found, "tuning").0, "for cards");
        assert_eq!(of(&found, "depth").0, "4 steps in flight");
        assert_eq!(of(&found, "no-ops").0, "left out");
        (found.adapters, found.seam) = (3, None);
        assert!(of(&found, "device").1.contains("the first of 3"));
        assert!(of(&found, "sync").1.contains("need not wait"));
        found.named = true;
        assert!(of(&found, "device").1.contains("--device"));
        assert!(why_queues(&super::super::report::tests::plan(r9700())).contains("desktop"));
        assert!(why_queues(&super::super::report::tests::plan(lavapipe())).contains("the only one that computes"));
        let passed = UnitRates { bytes_per_s: Some(1e15), halves_per_s: Some(5e14) };
        let failed = UnitRates::default();
        for (facts, rates, chosen, whys) in [
            (h100(), passed, ["by matrix units"; 2], ["16x16x32", "16x16x16"]),
            (h100(), failed, ["by dot products", "by subgroups"], ["not those that the host computes", "other lanes"]),
            (r9700(), failed, ["by dot products", "by subgroups"], ["no matrix units"; 2]),
        ] {
            let plan = super::super::report::tests::plan(facts);
            assert_eq!([prompt_products(rates), attention(rates)], chosen);
            let found = [why_prompt_products(&plan, rates), why_attention(&plan, rates).to_owned()];
            assert!(found.iter().zip(whys).all(|(found, why)| found.contains(why)), "{found:?}");
        }
        let mut without = h100();
        without.features.remove(Features::CONDITIONAL_DISPATCH);
        for (facts, chosen, why) in [
            (h100(), "left out", "once a step"),
            (r9700(), "run and find nothing to do", "not been measured"),
            (without, "run and find nothing to do", "VK_EXT_conditional_rendering"),
        ] {
            let plan = super::super::report::tests::plan(facts);
            assert_eq!(no_ops(&plan), chosen);
            assert!(why_no_ops(&plan).contains(why), "{}", why_no_ops(&plan));
        }
    }
}
