//! The notes below the results: what the figures mean, and which flags they depend on.

use zinc_sched::SpeculativeDecoding;
use zinc_sched::adapter::Queues;
use zinc_vk::Device;

use super::measure;
use super::plan::{BenchPlan, Drive, Purpose};
use super::report::Settings;
use crate::args::{BenchArgs, BenchControl, BenchSampler, Fill};
use crate::sampler;

/// The notes for a run of this plan.
pub(crate) fn footnotes(args: &BenchArgs, plan: &BenchPlan, device: &Device, bandwidth: Option<f64>) -> Vec<String> {
    let has = |wanted: fn(&Drive) -> bool| plan.drives.iter().any(wanted);
    let mut notes = vec![
        format!("device: {} ({})", device.facts().name, device.facts().driver.info),
        "t/s: tokens over the wall time from a request's start to its last token; sampling is included, and every token that is \
         generated is turned into text (llama-bench leaves both out)"
            .to_owned(),
        "GPU us, gap us: median time that the GPU works on a token and idles before the next, and the 99th percentile of the latter; \
         from a run of its own, because taking timestamps costs time"
            .to_owned(),
        "host us: time per token that the engine's thread spends on anything but waiting for the GPU".to_owned(),
    ];
    match plan.purpose {
        Purpose::Tests => notes.extend(costs(plan.context, bandwidth)),
        Purpose::SyncMatrix => notes.push(
            "work us: the host is kept busy for so long after every token; x fence: t/s over that of the fence with the same \
             control and work"
                .to_owned(),
        ),
    }
    notes.push(
        "logits: the first half of the FNV-1a of the last ones' bits; equal results have equal hashes".to_owned(),
    );
    if has(|drive| drive.control == BenchControl::Masked) {
        notes.push(format!(
            "masked: the GPU samples what a mask from the host allows; this one allows everything, and each takes the host {} us",
            args.mask_work.as_micros()
        ));
    }
    if has(|drive| drive.control == BenchControl::HostFed) {
        notes.push("host-fed: a sampler on the host takes the likeliest token of the logits".to_owned());
    }
    if has(|drive| drive.control != BenchControl::Gpu) {
        notes.push(
            "gap us and GPU us of these: what the GPU idles between a forward pass and its sampling is in both"
                .to_owned(),
        );
    }
    if has(|drive| drive.queues == Queues::Two) {
        notes.push(match device.second_compute_queue() {
            Some(_) => "timeline: sampling runs on a second queue".to_owned(),
            None => "the device has one queue: sampling runs on that".to_owned(),
        });
    }
    if has(|drive| drive.speculative == SpeculativeDecoding::On) {
        let Settings { drafter, draft_max, .. } = Settings::from(args);
        notes.push(format!(
            "drafts: up to {draft_max} a step, by {drafter}; accepted: of these, in the mean of the steps that had drafts; x plain: \
             t/s over that without drafts"
        ));
    }
    if args.sampler != BenchSampler::Greedy {
        notes.push(format!("tokens are sampled: {}", sampler::description(&measure::sampling(args.sampler))));
    }
    if args.fill == Fill::Synthetic && plan.depths != [0] {
        notes.push("the context before the tests is made up, not computed: --fill synthetic".to_owned());
    }
    if !args.host_work.is_zero() {
        notes.push(format!("the host is kept busy for {} us after every token", args.host_work.as_micros()));
    }
    notes
}

/// The notes on figures that come from the cost model.
fn costs(context: u32, bandwidth: Option<f64>) -> [String; 2] {
    [
        format!(
            "MB/token: weights and cache that a token reads, by the cost model; one cache of {context} tokens for all tests"
        ),
        match bandwidth {
            Some(bandwidth) => format!(
                "% BW: MB/token times t/s, of the {:.1} GB/s at which a kernel that does nothing else reads the device's memory",
                bandwidth / 1e9
            ),
            None => "% BW: the bandwidth was not measured".to_owned(),
        },
    ]
}
