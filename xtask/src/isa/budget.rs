//! The budget of the compiled kernels, `docs/rdna4-budget.toml`, and where they exceed it.

use std::collections::BTreeSet;

use anyhow::{Context, ensure};
use serde::Deserialize;

use super::table::Row;

/// Waves on a SIMD below which the latency of memory is not hidden, so that the budget must state a reason.
const FEW_WAVES: u32 = 8;

/// The content of the budget's file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Budget {
    /// Mesa's name of the target that the budget is for.
    pub(super) target: String,
    /// Lanes of a wave that every kernel must be compiled for.
    wave: u32,
    /// The entries. Of those that match a variant, the first holds for it.
    kernels: Vec<Entry>,
}

/// Limits of the variants of a kernel. Spilled registers and scratch memory are never allowed.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    kernel: String,
    /// Starts of the names of the variants that the entry is for; if empty, it is for all variants of the kernel.
    #[serde(default)]
    variants: Vec<String>,
    /// The most vector registers.
    vgprs: u32,
    /// The fewest waves that must fit on a SIMD at once.
    waves: u32,
    /// The fewest loads of 128 bits.
    #[serde(default)]
    wide_loads: u32,
    /// The most loads of 8 or 16 bits.
    #[serde(default)]
    narrow_loads: u32,
    /// Why the limits are laxer than they should be.
    reason: Option<String>,
}

impl Budget {
    /// Reads the file's text.
    ///
    /// # Errors
    /// What is wrong with it, a lax limit without a reason included.
    pub(super) fn parse(text: &str) -> anyhow::Result<Self> {
        let budget: Self = toml::from_str(text).context("not a budget")?;
        for Entry { kernel, variants, waves, narrow_loads, reason, .. } in &budget.kernels {
            ensure!(
                reason.is_some() || (*waves >= FEW_WAVES && *narrow_loads == 0),
                "{kernel} {variants:?}: fewer than {FEW_WAVES} waves, or loads of less than 32 bits, need a reason"
            );
        }
        Ok(budget)
    }

    /// Lists every way in which the rows break the budget, one line each. `kernels` are the names of all kernels, each of which must have
    /// a row.
    pub(super) fn violations(&self, rows: &[Row], kernels: &BTreeSet<String>) -> Vec<String> {
        let mut findings = Vec::new();
        let mut used = BTreeSet::new();
        for row in rows {
            let covering = self.kernels.iter().enumerate().find_map(|(i, entry)| Some((i, entry, entry.covers(row)?)));
            match covering {
                Some((index, entry, start)) => {
                    used.insert((index, start));
                    findings
                        .extend(entry.exceeded(row, self.wave).iter().map(|what| format!("{}: {what}", row.name())));
                }
                None => findings.push(format!("{}: has no entry in the budget", row.name())),
            }
        }
        for (index, entry) in self.kernels.iter().enumerate() {
            for start in entry.starts().filter(|start| !used.contains(&(index, start))) {
                findings.push(format!("{} {start:?}: an entry that no variant uses; remove it", entry.kernel));
            }
        }
        for kernel in kernels.iter().filter(|kernel| rows.iter().all(|row| row.kernel != **kernel)) {
            findings.push(format!("{kernel}: not listed in crates/zinc-kernels/src/variants.rs"));
        }
        findings
    }
}

impl Entry {
    /// Starts of the names of the entry's variants.
    fn starts(&self) -> impl Iterator<Item = &str> {
        let all = self.variants.is_empty().then_some("");
        self.variants.iter().map(String::as_str).chain(all)
    }

    /// The start of the row's name by which the entry is for the row; `None` if it is not.
    fn covers(&self, row: &Row) -> Option<&str> {
        self.starts().find(|start| row.kernel == self.kernel && row.variant.starts_with(start))
    }

    /// The limits that a row exceeds, one line each.
    fn exceeded(&self, row: &Row, wave: u32) -> Vec<String> {
        let wide = row.counts.loads.b128;
        let narrow = row.counts.loads.b16 + row.counts.loads.b8;
        let limits = [
            (row.wave != wave, format!("waves of {} lanes, not {wave}", row.wave)),
            (row.spills > 0, format!("{} registers spilled", row.spills)),
            (row.scratch_bytes > 0, format!("{} bytes of scratch memory", row.scratch_bytes)),
            (row.vgprs > self.vgprs, format!("{} VGPRs, more than {}", row.vgprs, self.vgprs)),
            (row.waves < self.waves, format!("{} waves on a SIMD, fewer than {}", row.waves, self.waves)),
            (wide < self.wide_loads, format!("{wide} loads of 128 bits, fewer than {}", self.wide_loads)),
            (narrow > self.narrow_loads, format!("{narrow} loads of 8 or 16 bits, more than {}", self.narrow_loads)),
        ];
        limits.into_iter().filter_map(|(exceeded, what)| exceeded.then_some(what)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::tests::row;
    use super::*;

    const BUDGET: &str = r#"
        target = "gfx1201"
        wave = 32
        [[kernels]]
        kernel = "mat_vec"
        variants = ["Q6_K"]
        vgprs = 96
        waves = 10
        narrow_loads = 34
        reason = "blocks of 210 bytes"
        [[kernels]]
        kernel = "mat_vec"
        vgprs = 96
        waves = 10
        wide_loads = 1
    "#;

    fn violations(rows: &[Row]) -> Vec<String> {
        Budget::parse(BUDGET).unwrap().violations(rows, &BTreeSet::from(["mat_vec".to_owned()]))
    }

    /// Changes one figure of a row that is within the budget.
    fn changed(change: impl FnOnce(&mut Row)) -> Vec<String> {
        let mut worse = row("mat_vec", "Q4_K");
        change(&mut worse);
        violations(&[worse, row("mat_vec", "Q6_K")])
    }

    #[test]
    fn rows_at_their_limits_pass() {
        assert_eq!(changed(|_| ()), Vec::<String>::new());
    }

    #[test]
    fn each_limit_is_held() {
        assert_eq!(changed(|row| row.wave = 64), ["mat_vec (Q4_K): waves of 64 lanes, not 32"]);
        assert_eq!(changed(|row| row.spills = 3), ["mat_vec (Q4_K): 3 registers spilled"]);
        assert_eq!(changed(|row| row.scratch_bytes = 16), ["mat_vec (Q4_K): 16 bytes of scratch memory"]);
        assert_eq!(changed(|row| row.vgprs = 97), ["mat_vec (Q4_K): 97 VGPRs, more than 96"]);
        assert_eq!(changed(|row| row.waves = 9), ["mat_vec (Q4_K): 9 waves on a SIMD, fewer than 10"]);
        assert_eq!(changed(|row| row.counts.loads.b128 = 0), ["mat_vec (Q4_K): 0 loads of 128 bits, fewer than 1"]);
        assert_eq!(changed(|row| row.counts.loads.b8 = 1), ["mat_vec (Q4_K): 1 loads of 8 or 16 bits, more than 0"]);
    }

    #[test]
    fn the_first_entry_that_matches_counts() {
        let narrow = |variant: &str| {
            let mut row = row("mat_vec", variant);
            row.counts.loads.b16 = 34;
            row
        };
        assert_eq!(
            violations(&[narrow("Q6_K, store"), narrow("Q4_K, store")]),
            ["mat_vec (Q4_K, store): 34 loads of 8 or 16 bits, more than 0"]
        );
    }

    #[test]
    fn kernels_without_an_entry_entries_without_a_kernel_and_kernels_without_a_variant_are_found() {
        assert_eq!(
            violations(&[row("sample", "")]),
            [
                "sample: has no entry in the budget",
                "mat_vec \"Q6_K\": an entry that no variant uses; remove it",
                "mat_vec \"\": an entry that no variant uses; remove it",
                "mat_vec: not listed in crates/zinc-kernels/src/variants.rs",
            ]
        );
    }

    #[test]
    fn a_lax_limit_needs_a_reason() {
        assert!(Budget::parse(&BUDGET.replace("reason = \"blocks of 210 bytes\"", "")).is_err());
        assert!(
            Budget::parse(&BUDGET.replace("waves = 10\n        wide_loads", "waves = 7\n        wide_loads")).is_err()
        );
    }
}
