//! Numbers that were chosen by measuring. Any of them gives right results; docs/perf-log.md has the measurements.

/// How work is shared out on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// Workgroups of a matrix product that are worth their preparation (the normalisation of the input): above that, each takes several
    /// rows after another.
    pub product_workgroups: u32,
    /// Workgroups that attention over a long context is spread over.
    pub attention_workgroups: u32,
    /// Subgroups that a matrix product should have before one takes several rows at a time.
    pub product_subgroups: u32,
    /// The most rows that one subgroup takes at a time.
    pub most_rows: u32,
}

impl Default for Tuning {
    fn default() -> Self {
        Self { product_workgroups: 1_056, attention_workgroups: 128, product_subgroups: 2_048, most_rows: 4 }
    }
}

impl Tuning {
    /// Rows of a product of `rows` rows that one subgroup takes at a time.
    #[must_use]
    pub fn rows_at_a_time(&self, rows: u32) -> u32 {
        let mut at_a_time = 1;
        while at_a_time < self.most_rows && rows / (2 * at_a_time) >= self.product_subgroups {
            at_a_time *= 2;
        }
        at_a_time
    }
}
