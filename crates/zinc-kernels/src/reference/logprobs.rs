//! Reference of `logprobs`.

use std::cmp::Reverse;

use super::mass::{weight, weighted};
use super::shares::{Item, ShareList, order_key};
use crate::generated::logprob_report::{LogprobReport, TOP_LOGPROBS};

/// What is reported of the shares of [`logprob_shares`](super::logprob_shares): the highest logits, and the softmax mass of all of them.
#[must_use]
pub fn logprobs(lists: &[ShareList], masses: &[u64]) -> LogprobReport {
    let mut items: Vec<Item> = lists.iter().flat_map(|list| list.items.iter().copied()).collect();
    items.sort_by_key(|item| (Reverse(order_key(item.logit)), item.id));
    items.truncate(TOP_LOGPROBS as usize);
    let mut report = LogprobReport { count: items.len() as u32, ..LogprobReport::default() };
    for (index, item) in items.iter().enumerate() {
        report.ids[index] = item.id;
        report.logits[index] = item.logit;
    }
    report.highest = report.logits[0];
    for (list, mass) in lists.iter().zip(masses) {
        // A share's own highest logit is in its list.
        let highest = list.items.iter().map(|item| item.logit).reduce(f32::max);
        report.mass += highest.map_or(0, |highest| weighted(*mass, weight(highest - report.highest)));
    }
    report
}
