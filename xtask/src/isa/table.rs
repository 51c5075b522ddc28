//! Turns what a driver tells of compiled kernels into rows of figures, and rows into a table.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use super::assembly::{self, Counts};
use super::occupancy;

/// A line that the example `isa` of zinc-kernels prints.
#[derive(Debug, Deserialize)]
pub(super) struct Compiled {
    pub(super) device: String,
    pub(super) driver: String,
    pub(super) kernel: String,
    pub(super) variant: String,
    pub(super) subgroup_width: u32,
    pub(super) workgroup_size: u32,
    pub(super) statistics: BTreeMap<String, f64>,
    pub(super) representations: BTreeMap<String, String>,
}

/// The figures of one variant of a kernel.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    pub(super) kernel: String,
    pub(super) variant: String,
    /// Lanes of a wave.
    pub(super) wave: u32,
    pub(super) sgprs: u32,
    pub(super) vgprs: u32,
    /// VGPRs that the code needs. Scheduling takes more if that costs no waves, so `vgprs` may be higher.
    pub(super) vgprs_needed: u32,
    /// How many registers are spilled, scalar and vector together.
    pub(super) spills: u32,
    pub(super) scratch_bytes: u32,
    pub(super) lds_bytes: u32,
    /// Waves that fit on a SIMD at once.
    pub(super) waves: u32,
    pub(super) code_bytes: u32,
    pub(super) instructions: u32,
    /// The compiler's estimate of the cycles of one wave alone on a SIMD.
    pub(super) latency: u32,
    /// The compiler's estimate of the cycles that each wave takes of a SIMD full of them.
    pub(super) inverse_throughput: u32,
    #[serde(flatten)]
    pub(super) counts: Counts,
}

impl Compiled {
    /// The disassembly.
    ///
    /// # Errors
    /// If the driver gave none.
    pub(super) fn assembly(&self) -> anyhow::Result<&str> {
        let text = self.representations.get("Assembly");
        text.map(String::as_str).with_context(|| format!("{}: the driver prints no assembly", self.name()))
    }

    /// The kernel's name, with the variant's in brackets.
    pub(super) fn name(&self) -> String {
        name(&self.kernel, &self.variant)
    }

    /// The figures of the variant.
    ///
    /// # Errors
    /// If the driver did not give one of them.
    pub(super) fn row(&self) -> anyhow::Result<Row> {
        let statistic = |key: &str| {
            let value = self.statistics.get(key);
            let value =
                value.with_context(|| format!("{}: {} gives no statistic '{key}'", self.name(), self.driver))?;
            Ok::<_, anyhow::Error>(*value as u32)
        };
        Ok(Row {
            kernel: self.kernel.clone(),
            variant: self.variant.clone(),
            wave: self.subgroup_width,
            sgprs: statistic("SGPRs")?,
            vgprs: statistic("VGPRs")?,
            vgprs_needed: statistic("Pre-Sched VGPRs")?,
            spills: statistic("Spilled SGPRs")? + statistic("Spilled VGPRs")?,
            scratch_bytes: statistic("Scratch size")?,
            lds_bytes: statistic("LDS size")?,
            waves: if self.device.contains("GFX12") {
                occupancy::waves(statistic("VGPRs")?, statistic("LDS size")?, self.workgroup_size)
            } else {
                statistic("Subgroups per SIMD")?
            },
            code_bytes: statistic("Code size")?,
            instructions: statistic("Instructions")?,
            latency: statistic("Latency")?,
            inverse_throughput: statistic("Inverse Throughput")?,
            counts: assembly::count(self.assembly()?).with_context(|| self.name())?,
        })
    }
}

impl Row {
    /// The kernel's name, with the variant's in brackets.
    pub(super) fn name(&self) -> String {
        name(&self.kernel, &self.variant)
    }

    /// The cells, in the order of [`HEADINGS`].
    fn cells(&self) -> [String; HEADINGS.len()] {
        let Counts { loads, buffer_loads, scalar_loads, dot, wmma, dual } = &self.counts;
        let numbers = [
            self.wave,
            self.sgprs,
            self.vgprs,
            self.vgprs_needed,
            self.spills,
            self.scratch_bytes,
            self.lds_bytes,
            self.waves,
            self.code_bytes,
            self.instructions,
            self.latency,
            self.inverse_throughput,
            loads.b128,
            loads.b96,
            loads.b64,
            loads.b32,
            loads.b16,
            loads.b8,
            *buffer_loads,
            *scalar_loads,
            *dot,
            *wmma,
            *dual,
        ];
        std::array::from_fn(|column| match column {
            0 => self.kernel.clone(),
            1 => self.variant.clone(),
            _ => match numbers[column - 2] {
                // Most cells of some columns are 0. A dash lets the others stand out.
                0 => "-".to_owned(),
                number => number.to_string(),
            },
        })
    }
}

fn name(kernel: &str, variant: &str) -> String {
    if variant.is_empty() { kernel.to_owned() } else { format!("{kernel} ({variant})") }
}

/// The headings of the table's columns.
const HEADINGS: [&str; 25] = [
    "kernel",
    "variant",
    "wave",
    "SGPR",
    "VGPR",
    "needed",
    "spills",
    "scratch",
    "LDS",
    "waves",
    "code",
    "instr",
    "latency",
    "inv. thr.",
    "b128",
    "b96",
    "b64",
    "b32",
    "b16",
    "b8",
    "buffer",
    "s_load",
    "dot",
    "wmma",
    "dual",
];

/// The rows as a Markdown table, its columns aligned for those who read it as text.
pub(super) fn markdown(rows: &[Row]) -> String {
    let cells: Vec<_> = rows.iter().map(Row::cells).collect();
    let width = |column: usize| {
        let lengths = cells.iter().map(|row| row[column].len());
        lengths.chain([HEADINGS[column].len()]).max().unwrap_or(0)
    };
    let widths: [usize; HEADINGS.len()] = std::array::from_fn(width);
    let mut text = String::new();
    let mut line = |row: &[String; HEADINGS.len()]| {
        text.push('|');
        for (column, (cell, width)) in row.iter().zip(widths).enumerate() {
            // Writing to a string cannot fail.
            let _ = if column < 2 { write!(text, " {cell:<width$} |") } else { write!(text, " {cell:>width$} |") };
        }
        text.push('\n');
    };
    line(&HEADINGS.map(str::to_owned));
    line(&std::array::from_fn(|column| {
        let dashes = "-".repeat(widths[column] - 1);
        if column < 2 { format!("{dashes}-") } else { format!("{dashes}:") }
    }));
    for row in &cells {
        line(row);
    }
    text
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A row without faults.
    pub(in super::super) fn row(kernel: &str, variant: &str) -> Row {
        let statistics = [
            ("SGPRs", 128.0),
            ("VGPRs", 96.0),
            ("Pre-Sched VGPRs", 40.0),
            ("Spilled SGPRs", 0.0),
            ("Spilled VGPRs", 0.0),
            ("Scratch size", 0.0),
            ("LDS size", 0.0),
            ("Subgroups per SIMD", 10.0),
            ("Code size", 1200.0),
            ("Instructions", 208.0),
            ("Latency", 1072.0),
            ("Inverse Throughput", 134.0),
        ];
        compiled(kernel, variant, &statistics).row().unwrap()
    }

    fn compiled(kernel: &str, variant: &str, statistics: &[(&str, f64)]) -> Compiled {
        Compiled {
            device: "Null hardware".to_owned(),
            driver: "Mesa 25".to_owned(),
            kernel: kernel.to_owned(),
            variant: variant.to_owned(),
            subgroup_width: 32,
            workgroup_size: 128,
            statistics: statistics.iter().map(|&(key, value)| (key.to_owned(), value)).collect(),
            representations: [("Assembly".to_owned(), "\tglobal_load_b128 v[0:3], v4, s[0:1] ; 00\n".to_owned())]
                .into(),
        }
    }

    #[test]
    fn a_table_has_a_line_for_each_row_and_a_cell_for_each_heading() {
        let table = markdown(&[row("mat_vec", "Q4_K, store"), row("sample", "")]);
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines.len(), 4);
        for line in &lines {
            assert_eq!(line.matches('|').count(), HEADINGS.len() + 1, "{line}");
            assert_eq!(line.len(), lines[0].len(), "{line}");
        }
        assert!(lines[2].starts_with("| mat_vec | Q4_K, store |   32 |  128 |   96 |     40 |      - |"), "{table}");
    }

    #[test]
    fn a_statistic_that_is_missing_is_named() {
        let error = compiled("sample", "", &[("SGPRs", 128.0)]).row().unwrap_err().to_string();
        assert_eq!(error, "sample: Mesa 25 gives no statistic 'VGPRs'");
    }
}
