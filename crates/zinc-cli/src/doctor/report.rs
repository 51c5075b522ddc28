//! The report of `zinc doctor`: facts and measurements in one place. It is made without a device, from findings that were read from one.

use serde::Serialize;
use zinc_kernels::Tuning;
use zinc_vk::{AdapterFacts, AdapterKind, DevicePlan, HeapReport, MatrixElement, MatrixShape, Validation};

use super::advice::{self, Decision};
use super::costs::Costs;
use super::estimate::ModelReport;
use super::seam::{Drive, SeamTable};
use super::text;
use super::units::UnitRates;
use zinc_engine::Estimate;

/// The layer that emulates timeline semaphores on drivers without them.
const EMULATION_LAYER: &str = "VK_LAYER_KHRONOS_timeline_semaphore";

/// What was read from the device and measured on it.
pub(crate) struct Findings<'a> {
    pub(crate) plan: &'a DevicePlan,
    /// The number of devices that the Vulkan loader lists.
    pub(crate) adapters: usize,
    /// Whether the user has asked for a certain device.
    pub(crate) named: bool,
    pub(crate) heaps: &'a [HeapReport],
    pub(crate) tuning: Tuning,
    pub(crate) unit_rates: UnitRates,
    pub(crate) validation: Validation,
    /// Layers that the environment asks for, in the loader's notation.
    pub(crate) layers: &'a str,
    pub(crate) costs: Costs,
    pub(crate) seam: Option<SeamTable>,
    /// The measured bandwidth of the device's memory, in bytes per second.
    pub(crate) bandwidth: Option<f64>,
    /// A file whose speed is to be estimated, and what running it takes or why it cannot be run.
    pub(crate) model: Option<(String, Result<Estimate, String>)>,
}

/// The whole report, as it is written in JSON.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Report {
    pub(crate) version: &'static str,
    pub(crate) device: DeviceReport,
    /// Products of matrix units, as the driver lists them.
    pub(crate) matrix_products: Vec<MatrixProduct>,
    pub(crate) queues: Vec<QueueReport>,
    pub(crate) timeline: TimelineReport,
    pub(crate) memory: MemoryReport,
    /// Whether the validation layer is on.
    pub(crate) validation: bool,
    pub(crate) costs: Costs,
    /// Idle times between steps; `None` if the device has no timestamps.
    pub(crate) seam: Option<SeamTable>,
    /// `None` if it could not be measured.
    pub(crate) bandwidth_bytes_per_s: Option<f64>,
    pub(crate) choices: Vec<Decision>,
    pub(crate) model: Option<ModelReport>,
    pub(crate) warnings: Vec<String>,
}

/// The device and its limits.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct DeviceReport {
    pub(crate) index: usize,
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) driver: String,
    /// `VkDriverId`.
    pub(crate) driver_id: u32,
    pub(crate) vulkan: String,
    /// Lanes of the narrowest, the default and the widest subgroup, and of the one that zinc uses.
    pub(crate) subgroup: [u32; 3],
    pub(crate) subgroup_used: u32,
    /// Bytes of shared memory that a workgroup can have.
    pub(crate) shared_memory_bytes: u32,
    /// The most invocations of a workgroup.
    pub(crate) invocations: u32,
    pub(crate) push_constant_bytes: u32,
    /// The largest allocation, in bytes.
    pub(crate) allocation_bytes: u64,
    /// The largest buffer, in bytes; `None` if the driver does not say.
    pub(crate) buffer_bytes: Option<u64>,
}

/// A product that a subgroup computes by matrix units: `[m, k]` times `[k, n]`, added to `[m, n]`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct MatrixProduct {
    /// m, n and k.
    pub(crate) shape: [u32; 3],
    /// Elements of both factors, and of the sums.
    pub(crate) elements: [String; 3],
    /// The measured rate, two operations for each product of elements, of the products that kernels compute; `None` of others, and where the units failed
    /// the check.
    pub(crate) operations_per_s: Option<f64>,
}

/// A queue family.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct QueueReport {
    pub(crate) family: usize,
    pub(crate) queues: u32,
    pub(crate) abilities: Vec<String>,
    /// Valid bits of the family's timestamps; 0 if it has none.
    pub(crate) timestamp_bits: u32,
    /// What zinc uses a queue of this family for.
    pub(crate) opened_for: Vec<&'static str>,
}

/// How timeline semaphores are implemented.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Timeline {
    /// By counters of the kernel or the card, as far as is known of the driver.
    Native,
    /// By the driver, which emulates them on the host.
    EmulatedByDriver,
    /// By a layer, which emulates them on the host.
    EmulatedByLayer,
}

/// What is known of timeline semaphores on the device.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct TimelineReport {
    pub(crate) kind: Timeline,
    /// The time of a blocking wait for a timeline divided by that of one for a fence.
    pub(crate) wait_over_fence: f64,
    /// How far a value may lie ahead of the counter.
    pub(crate) difference: u64,
}

/// How much of the device's memory the host can write to directly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum HostAccess {
    /// To all of it, because the memory is shared or the card has a resizable BAR.
    Whole,
    /// To a window of this many bytes.
    Window(u64),
    /// To none of it.
    Nothing,
}

/// The memory of the device.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct MemoryReport {
    pub(crate) heaps: Vec<Heap>,
    pub(crate) host_access: HostAccess,
}

/// A memory heap; sizes are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Heap {
    pub(crate) bytes: u64,
    pub(crate) available_bytes: u64,
    pub(crate) device_local: bool,
    /// Whether the driver tells a budget. If not, all that this process has not used counts as available.
    pub(crate) has_budget: bool,
}

impl Report {
    /// Puts the findings together, and draws the conclusions.
    pub(crate) fn new(findings: &Findings<'_>) -> Self {
        let Findings { plan, heaps, costs, seam, bandwidth, .. } = findings;
        let adapter = &plan.adapter;
        let available = heaps.iter().filter(|heap| heap.device_local).map(|heap| heap.available).max().unwrap_or(0);
        let idle_us = seam.as_ref().and_then(|seam| seam.idle_us(Drive::default(), 0)).unwrap_or(0.0);
        let model = findings.model.as_ref().map(|(file, estimate)| {
            let estimate = estimate.as_ref().map_err(Clone::clone);
            ModelReport::new(file.clone(), estimate, available, costs, *bandwidth, idle_us)
        });
        let mut report = Self {
            version: env!("CARGO_PKG_VERSION"),
            device: DeviceReport::new(plan),
            matrix_products: matrix_products(plan, findings.unit_rates),
            queues: queues(plan),
            timeline: TimelineReport {
                kind: timeline(adapter, findings.layers),
                wait_over_fence: costs.timeline_blocking.median_us / costs.fence_round_trip.median_us,
                difference: adapter.limits.timeline_difference,
            },
            memory: MemoryReport {
                heaps: adapter.heaps.iter().zip(*heaps).map(heap).collect(),
                host_access: host_access(adapter),
            },
            validation: findings.validation == Validation::On,
            costs: *costs,
            seam: seam.clone(),
            bandwidth_bytes_per_s: *bandwidth,
            choices: Vec::new(),
            model,
            warnings: Vec::new(),
        };
        report.choices = advice::choices(findings);
        report.warnings = advice::warnings(&report, plan);
        report
    }

    /// The report as text for people.
    pub(crate) fn text(&self) -> String {
        text::text(self)
    }
}

impl DeviceReport {
    fn new(plan: &DevicePlan) -> Self {
        let AdapterFacts { index, name, kind, driver, api_version, limits, subgroup, .. } = &plan.adapter;
        Self {
            index: *index,
            name: name.clone(),
            kind: kind.to_string(),
            driver: format!("{} {}", driver.name, driver.info).trim().to_owned(),
            driver_id: driver.id,
            vulkan: api_version.to_string(),
            subgroup: [subgroup.min, subgroup.default, subgroup.max],
            subgroup_used: plan.subgroup_width,
            shared_memory_bytes: limits.shared_memory_bytes,
            invocations: limits.workgroup_invocations,
            push_constant_bytes: limits.push_constant_bytes,
            allocation_bytes: limits.allocation_bytes,
            buffer_bytes: limits.buffer_bytes,
        }
    }
}

/// What the driver lists, with the rates of those shapes that kernels use.
fn matrix_products(plan: &DevicePlan, rates: UnitRates) -> Vec<MatrixProduct> {
    use MatrixElement::{F16, F32, S8, S32};
    let depth = plan.byte_matrix_depth();
    let row = |shape: &MatrixShape| MatrixProduct {
        shape: [shape.m, shape.n, shape.k],
        elements: [shape.a, shape.b, shape.result].map(|element| element.to_string()),
        operations_per_s: match ([shape.m, shape.n, shape.k], [shape.a, shape.b, shape.result]) {
            ([16, 16, k], [S8, S8, S32]) if Some(k) == depth => rates.bytes_per_s,
            ([16, 16, 16], [F16, F16, F32]) => rates.halves_per_s,
            _ => None,
        },
    };
    plan.adapter.matrix_shapes.iter().map(row).collect()
}

fn queues(plan: &DevicePlan) -> Vec<QueueReport> {
    let compute = Some(plan.compute_family);
    let second = compute.filter(|_| plan.second_compute);
    let opened = [("compute", compute), ("second compute", second), ("transfer", plan.transfer_family)];
    let families = plan.adapter.families.iter().enumerate();
    let row = |(family, facts): (usize, &zinc_vk::QueueFamily)| QueueReport {
        family,
        queues: facts.queues,
        abilities: facts.abilities.iter_names().map(|(name, _)| name.to_ascii_lowercase()).collect(),
        timestamp_bits: facts.timestamp_bits,
        opened_for: opened.iter().filter(|(_, of)| *of == Some(family as u32)).map(|(name, _)| *name).collect(),
    };
    families.map(row).collect()
}

fn timeline(adapter: &AdapterFacts, layers: &str) -> Timeline {
    if layers.contains(EMULATION_LAYER) {
        Timeline::EmulatedByLayer
    } else if adapter.driver.emulates_timelines() {
        Timeline::EmulatedByDriver
    } else {
        Timeline::Native
    }
}

fn heap((facts, now): (&zinc_vk::Heap, &HeapReport)) -> Heap {
    Heap {
        bytes: facts.bytes,
        available_bytes: now.available,
        device_local: facts.device_local,
        has_budget: facts.budget.is_some(),
    }
}

/// Judges by the largest device-local heap that has a memory type which can be mapped.
fn host_access(adapter: &AdapterFacts) -> HostAccess {
    if matches!(adapter.kind, AdapterKind::Integrated | AdapterKind::Cpu) {
        return HostAccess::Whole;
    }
    let mapped = adapter.memory_types.iter().filter(|of| of.device_local && of.host_visible);
    match mapped.filter_map(|of| adapter.heaps.get(of.heap as usize)).map(|heap| heap.bytes).max() {
        None => HostAccess::Nothing,
        Some(bytes) if bytes >= adapter.device_memory_bytes() => HostAccess::Whole,
        Some(bytes) => HostAccess::Window(bytes),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use zinc_vk::{AdapterFacts, Wants};

    use super::super::costs::{Clock, Micros};
    use super::super::recorded::{adapters, h100, intel_igpu, lavapipe, r9700};
    use super::super::seam::{HOST_WORK_US, SeamRow};
    use super::*;

    /// Findings with the facts and measurements of an H100.
    pub(in super::super) fn costs() -> Costs {
        let micros = |median_us| Micros { median_us, p99_us: 2.0 * median_us };
        Costs {
            submit: micros(3.5),
            fence_round_trip: micros(40.0),
            timeline_polling: micros(14.0),
            timeline_blocking: micros(38.0),
            host_signal: micros(15.0),
            queue_hop: Some(micros(12.0)),
            dispatch_barrier_us: 2.2,
            dispatch_us: 0.5,
            record_us: 0.9,
            clock: Some(Clock { calibrated: true, max_error_us: 0.1 }),
        }
    }

    pub(in super::super) fn seam() -> SeamTable {
        let row = |drive, idle_us| SeamRow { drive, idle_us };
        SeamTable {
            dispatches: 400,
            step_us: 880.0,
            host_work_us: HOST_WORK_US,
            rows: vec![
                row(Drive::Fence, [418.0, 798.0, 1067.0]),
                row(Drive::FenceKept, [67.0, 339.0, 589.0]),
                row(Drive::Timeline(1), [75.0, 312.0, 572.0]),
                row(Drive::Timeline(2), [14.5, 14.5, 14.5]),
                row(Drive::Timeline(4), [14.5, 14.5, 14.5]),
            ],
        }
    }

    pub(in super::super) fn plan(facts: AdapterFacts) -> DevicePlan {
        DevicePlan::choose(&adapters([facts]), &Wants::default()).unwrap()
    }

    pub(in super::super) fn findings<'a>(plan: &'a DevicePlan, heaps: &'a [HeapReport]) -> Findings<'a> {
        Findings {
            plan,
            adapters: 1,
            named: false,
            heaps,
            tuning: if plan.adapter.kind == AdapterKind::Cpu { Tuning::CPU } else { Tuning::CARD },
            unit_rates: UnitRates {
                bytes_per_s: plan.byte_matrix_depth().map(|_| 1.29e15),
                halves_per_s: plan.multiplies_halves().then_some(6.4e14),
            },
            validation: Validation::Off,
            layers: "",
            costs: costs(),
            seam: Some(seam()),
            bandwidth: Some(3.17e12),
            model: None,
        }
    }

    pub(in super::super) fn heaps(facts: &AdapterFacts) -> Vec<HeapReport> {
        let row = |heap: &zinc_vk::Heap| HeapReport {
            total: heap.bytes,
            available: heap.bytes - (1 << 28),
            ours: 0,
            device_local: heap.device_local,
        };
        facts.heaps.iter().map(row).collect()
    }

    #[test]
    fn queues_say_what_they_are_opened_for() {
        let queues = queues(&plan(h100()));
        let opened: Vec<&[&str]> = queues.iter().map(|queue| &queue.opened_for[..]).collect();
        assert_eq!(opened, [&["compute", "second compute"][..], &["transfer"], &[], &[], &[]]);
        assert_eq!(queues[2].abilities, ["compute", "transfer", "sparse"]);
    }

    #[test]
    fn emulated_timelines_are_known_by_driver_and_by_layer() {
        assert_eq!(timeline(&h100(), ""), Timeline::Native);
        assert_eq!(timeline(&lavapipe(), ""), Timeline::EmulatedByDriver);
        assert_eq!(timeline(&h100(), "VK_LAYER_a:VK_LAYER_KHRONOS_timeline_semaphore"), Timeline::EmulatedByLayer);
    }

    #[test]
    fn a_resizable_bar_is_a_mapped_heap_as_large_as_the_cards() {
        for whole in [h100(), r9700(), intel_igpu(), lavapipe()] {
            assert_eq!(host_access(&whole), HostAccess::Whole, "{}", whole.name);
        }
        let mut small = r9700();
        small.heaps.push(zinc_vk::Heap { bytes: 256 << 20, device_local: true, budget: None });
        small.memory_types[2].heap = 2;
        assert_eq!(host_access(&small), HostAccess::Window(256 << 20));
        small.memory_types.retain(|of| !(of.device_local && of.host_visible));
        assert_eq!(host_access(&small), HostAccess::Nothing);
    }

    #[test]
    fn json_has_every_part() {
        let (plan, heaps) = (plan(h100()), heaps(&h100()));
        let report = serde_json::to_value(Report::new(&findings(&plan, &heaps))).unwrap();
        assert_eq!(report["device"]["driver_id"], 4);
        assert_eq!(report["matrix_products"][0]["shape"], serde_json::json!([16, 16, 32]));
        assert_eq!(report["matrix_products"][0]["elements"], serde_json::json!(["s8", "s8", "s32"]));
        assert_eq!(report["matrix_products"][0]["operations_per_s"], 1.29e15);
        assert_eq!(report["costs"]["submit"]["median_us"], 3.5);
        assert_eq!(report["seam"]["rows"][1]["drive"], "fence, recording kept");
        assert_eq!(report["seam"]["rows"][4]["idle_us"][1], 14.5);
        assert_eq!(report["memory"]["host_access"], "whole");
        assert_eq!(report["timeline"]["kind"], "native");
        assert_eq!(report["timeline"]["wait_over_fence"], 0.95);
        assert_eq!(report["model"], serde_json::Value::Null);
    }
}
