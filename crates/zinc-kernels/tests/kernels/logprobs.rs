//! Log-probabilities on the device: bit for bit those of the host, and near to the log-softmax in f64.

use crate::support::Arena;
use crate::support::data::{Random, live};
use zinc_kernels::generated::logprob_report::LogprobReport;
use zinc_kernels::ops::{
    LOGPROB_REPORT_BYTES, LogprobBuffers, LogprobShares, Logprobs, PerLane, items_bytes, masses_bytes, share_count,
    shares_bytes,
};
use zinc_kernels::reference;
use zinc_kernels::step::{Rows, StepShape};

const VOCABULARIES: [usize; 7] = [1, 19, 20, 21, 1_031, 8_192, 151_936];

/// Compares the report of each row of a step, whose logits are given, with the reference; returns them.
#[track_caller]
fn check(name: &str, rows: &[&[f32]]) -> Vec<LogprobReport> {
    let vocabulary = rows[0].len() as u32;
    let mut arena = Arena::new();
    let target = arena.gpu.target();
    let stride = (items_bytes(vocabulary) + 64) as usize;
    let mut logits = vec![f32::NAN; rows.len() * stride / 4];
    for (row, own) in logits.chunks_mut(stride / 4).zip(rows) {
        row[..own.len()].copy_from_slice(own);
    }
    let words = (rows.len() - 1) * stride / 4;
    let mut scratch = |bytes: u64| Rows {
        address: arena.scratch(&vec![0x7fa5_7fa5u32; words + bytes as usize / 4]).address,
        stride: stride as u32,
    };
    let buffers = LogprobBuffers {
        items: scratch(items_bytes(vocabulary)),
        shares: scratch(shares_bytes(vocabulary)),
        masses: scratch(masses_bytes(vocabulary)),
    };
    let state = arena.state_of_lanes(&vec![live(); rows.len()]);
    let logits = Rows { address: arena.input(&logits).address, stride: stride as u32 };
    let reports = arena.in_out(&vec![LogprobReport::default(); rows.len()]);
    let of_lanes = PerLane { address: reports.address, stride: LOGPROB_REPORT_BYTES };
    let shape = StepShape::of(rows.len() as u32);
    arena.run(&[
        LogprobShares { state, logits, buffers, vocabulary, shape }.dispatch(&target),
        Logprobs { state, buffers, reports: of_lanes, vocabulary, shape }.dispatch(&target),
    ]);
    let found = arena.read(reports);
    for (found, logits) in found.iter().zip(rows) {
        let (lists, masses) = reference::logprob_shares(logits);
        let expected = reference::logprobs(&lists, &masses);
        assert_eq!(*found, expected, "{name}");
        check_softmax(name, found, logits);
    }
    found
}

/// Holds a report against the definition.
///
/// Weights are rounded down to 2^-40 of the highest, and a float's rounding is 2^-23; the logarithm of a mass off by that is off by 2e-7.
/// The report's own f32 rounds by 2^-24 of up to 40.
fn check_softmax(name: &str, report: &LogprobReport, logits: &[f32]) {
    let mut order: Vec<usize> = (0..logits.len()).filter(|id| logits[*id].is_finite()).collect();
    order.sort_by(|a, b| logits[*b].total_cmp(&logits[*a]).then(a.cmp(b)));
    let Some(&first) = order.first() else {
        assert_eq!((report.count, report.mass), (0, 0), "{name}");
        return;
    };
    let highest = f64::from(logits[first]);
    let total: f64 = order.iter().map(|id| (f64::from(logits[*id]) - highest).exp()).sum();
    assert_eq!(report.top().count(), order.len().min(20), "{name}");
    for ((id, logprob), expected) in report.top().zip(order) {
        assert_eq!(id, expected as u32, "{name}");
        let truth = f64::from(logits[expected]) - highest - total.ln();
        assert!((f64::from(logprob) - truth).abs() < 5e-6, "{name}: token {id} is {logprob} instead of {truth}");
    }
}

#[test]
fn random_logits() {
    for vocabulary in VOCABULARIES {
        let name = format!("{vocabulary} ids");
        for spread in [0.01, 3.0, 20.0] {
            check(&format!("{name}, spread {spread}"), &[&Random::new(&name).vector(vocabulary, spread)]);
        }
        check(&format!("{name}, ties"), &[&Random::new(&name).whole(vocabulary, 3)]);
        check(&format!("{name}, all equal"), &[&vec![1.5; vocabulary]]);
    }
}

#[test]
fn logits_that_are_not_finite() {
    for vocabulary in [5, 5_000] {
        let mut logits = Random::new("not finite").vector(vocabulary, 5.0);
        logits[0] = f32::NAN;
        logits[vocabulary / 2] = f32::NEG_INFINITY;
        logits[vocabulary - 1] = f32::INFINITY;
        check("some", &[&logits]);
        check("nothing allowed", &[&vec![f32::NEG_INFINITY; vocabulary]]);
        check("nothing but NaN", &[&vec![f32::NAN; vocabulary]]);
        let mut only = vec![f32::NEG_INFINITY; vocabulary];
        only[vocabulary - 1] = -7.0;
        let [report] = check("one allowed", &[&only])[..] else { unreachable!("one row") };
        assert_eq!(report.top().collect::<Vec<_>>(), [(vocabulary as u32 - 1, 0.0)]);
    }
}

/// The highest logits of all shares but one are too far below to count.
#[test]
fn shares_far_apart() {
    let mut logits = Random::new("far apart").vector(6_000, 1.0);
    logits[..2_048].iter_mut().for_each(|logit| *logit -= 60.0);
    logits[2_048..4_096].iter_mut().for_each(|logit| *logit -= 22.0);
    check("far apart", &[&logits]);
}

#[test]
fn each_row_of_a_step_has_its_own() {
    let mut random = Random::new("rows");
    for vocabulary in [33, 2_500] {
        let rows: Vec<Vec<f32>> = (0..4).map(|_| random.vector(vocabulary, 5.0)).collect();
        check("rows", &rows.iter().map(Vec::as_slice).collect::<Vec<_>>());
    }
}

#[test]
fn shares_are_those_of_the_chain() {
    assert_eq!([1, 2_048, 2_049, 151_936].map(share_count), [1, 1, 2, 75]);
}
