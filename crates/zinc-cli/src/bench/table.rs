//! Markdown tables of results: the columns are chosen for a run, and each row is printed as a line.

use zinc_sched::SpeculativeDecoding;

use super::measure::SeamFigures;
use super::plan::{BenchPlan, Purpose};
use super::report::{Row, microseconds};
use crate::args::{self, Act, BenchControl, MatrixUnits};
use crate::output;

/// A column of a table.
struct Column {
    name: &'static str,
    width: usize,
    align: Align,
    cell: fn(&Row) -> String,
}

#[derive(Clone, Copy)]
enum Align {
    /// Text, aligned to the left.
    Left,
    /// Numbers, aligned to the right.
    Right,
}

impl Column {
    const fn words(name: &'static str, width: usize, cell: fn(&Row) -> String) -> Self {
        Self { name, width, align: Align::Left, cell }
    }

    const fn numbers(name: &'static str, width: usize, cell: fn(&Row) -> String) -> Self {
        Self { name, width, align: Align::Right, cell }
    }

    fn aligned(&self, text: &str) -> String {
        let width = self.width;
        match self.align {
            Align::Left => format!("{text:<width$}"),
            Align::Right => format!("{text:>width$}"),
        }
    }

    fn rule(&self) -> String {
        match self.align {
            Align::Left => "-".repeat(self.width),
            Align::Right => format!("{}:", "-".repeat(self.width - 1)),
        }
    }
}

const MODEL: Column = Column::words("model", 24, |row| row.subject.kind.clone());
const SYNC: Column = Column::words("sync", 10, |row| row.drive.to_string());
const SIZE: Column = Column::numbers("size", 10, |row| output::bytes(row.subject.bytes));
const PARAMETERS: Column = Column::numbers("params", 9, |row| output::parameters(row.subject.parameters));
const TEST: Column = Column::numbers("test", 16, |row| row.test.to_string());
const SPEED: Column = Column::numbers("t/s", 18, |row| {
    let speed = row.speed();
    format!("{:.2} ± {:.2}", speed.mean, speed.deviation)
});
const BUSY: Column = Column::numbers("GPU us", 9, |row| seam_us(row, |seam| Some(seam.busy_ns)));
const GAP: Column = Column::numbers("gap us", 8, |row| seam_us(row, |seam| Some(seam.gap_ns?.0)));
const GAP_P99: Column = Column::numbers("gap p99", 8, |row| seam_us(row, |seam| Some(seam.gap_ns?.1)));
const HOST: Column = Column::numbers("host us", 8, |row| format!("{:.1}", row.measurement.host_ns / 1e3));
const DISPATCHES: Column = Column::numbers("dispatches", 10, |row| row.measurement.dispatches.to_string());
const BARRIERS: Column = Column::numbers("barriers", 8, |row| row.measurement.barriers.to_string());
const BYTES: Column = Column::numbers("MB/token", 9, |row| format!("{:.2}", row.bytes_per_token() as f64 / 1e6));
const BANDWIDTH: Column = Column::numbers("% BW", 6, |row| number(row.bandwidth_percent(), 1));
// The column shows the first eight hexadecimal digits of the hash of the logits, which suffice to see a difference. The
// JSON output has all digits.
const LOGITS: Column = Column::numbers("logits", 8, |row| row.logits()[..8].to_owned());
const CONTROL: Column = Column::words("control", 8, |row| args::word(&row.drive.control));
const HOST_WORK: Column = Column::numbers("work us", 7, |row| row.drive.host_work.as_micros().to_string());
const FENCE_RATIO: Column = Column::numbers("x fence", 7, |row| number(row.fence_ratio, 3));
const DRAFTS: Column =
    Column::numbers(
        "drafts",
        6,
        |row| {
            if row.is_drafted() { row.settings.draft_max.to_string() } else { "off".to_owned() }
        },
    );
const ACCEPTED: Column = Column::numbers("accepted", 8, |row| {
    let speculation_stats = row.is_drafted().then_some(row.measurement.speculation_stats);
    number(speculation_stats.and_then(|speculation_stats| speculation_stats.accepted_per_step()), 2)
});
const DRAFT_RATIO: Column = Column::numbers("x plain", 7, |row| number(row.draft_ratio, 3));
const ACT: Column = Column::numbers("act", 4, |row| args::word(&row.settings.act));
const UNITS: Column = Column::words("units", 5, |row| args::word(&row.settings.matrix_units));

/// A table of the rows of a run.
pub(crate) struct Table {
    columns: Vec<Column>,
}

impl Table {
    /// Chooses the columns of a run. Control, drafts, the form of activations and whether matrix units are used get columns only where they differ
    /// from the defaults.
    pub(crate) fn new(plan: &BenchPlan, act: Act, matrix_units: MatrixUnits) -> Self {
        let mut columns = match plan.purpose {
            Purpose::SyncMatrix => {
                vec![MODEL, TEST, CONTROL, HOST_WORK, SYNC, SPEED, FENCE_RATIO, GAP, GAP_P99, HOST, BUSY, LOGITS]
            }
            Purpose::Tests => {
                vec![
                    MODEL, SYNC, SIZE, PARAMETERS, TEST, SPEED, BUSY, GAP, GAP_P99, HOST, DISPATCHES, BARRIERS, BYTES,
                    BANDWIDTH, LOGITS,
                ]
            }
        };
        let is_controlled = plan.drives.iter().any(|drive| drive.control != BenchControl::Gpu);
        if plan.purpose == Purpose::Tests && is_controlled {
            columns.push(CONTROL);
        }
        if plan.drives.iter().any(|drive| drive.speculative == SpeculativeDecoding::On) {
            columns.extend([DRAFTS, ACCEPTED, DRAFT_RATIO]);
        }
        if act != Act::Q14 {
            columns.push(ACT);
        }
        if matrix_units != MatrixUnits::On {
            columns.push(UNITS);
        }
        Self { columns }
    }

    /// The head of the table: the names of the columns.
    pub(crate) fn head(&self) -> String {
        let names = self.columns.iter().map(|column| column.aligned(column.name));
        line(names) + &line(self.columns.iter().map(Column::rule))
    }

    /// The line of a row.
    pub(crate) fn line(&self, row: &Row) -> String {
        line(self.columns.iter().map(|column| column.aligned(&(column.cell)(row))))
    }
}

fn line(cells: impl Iterator<Item = String>) -> String {
    format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "))
}

fn number(value: Option<f64>, decimals: usize) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.decimals$}"))
}

/// A time by the device's clock, in microseconds; a dash if there is none.
fn seam_us(row: &Row, figure: impl Fn(SeamFigures) -> Option<u64>) -> String {
    number(row.measurement.seam.and_then(figure).map(microseconds), 1)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::super::plan::Drive;
    use super::super::report::Settings;
    use super::super::report::tests::row;
    use super::*;
    use crate::args::Command;

    fn table(line: &[&str]) -> (Table, Settings) {
        match args::parse(["zinc", "bench"].iter().chain(line).map(OsString::from)).unwrap().command {
            Command::Bench(args) => {
                let plan = BenchPlan::new(&args).unwrap();
                (Table::new(&plan, args.act, args.units.matrix_units), Settings::from(&args))
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn tables_have_as_many_cells_in_every_line() {
        for flags in [
            &[][..],
            &["--act", "f32"],
            &["--matrix-units", "off"],
            &["--control", "masked"],
            &["--draft-ngram"],
            &["--sync-matrix"],
        ] {
            let (table, settings) = table(flags);
            let mut row = row(Drive::FENCE, vec![10_000_000], 20_000);
            row.settings = settings;
            let text = table.head() + &table.line(&row);
            let widths: Vec<(usize, usize)> =
                text.lines().map(|line| (line.chars().count(), line.matches('|').count())).collect();
            assert!(widths.iter().all(|width| *width == widths[0]), "{text}");
        }
    }

    #[test]
    fn columns_are_there_where_they_can_differ() {
        let names = |flags: &[&str]| table(flags).0.columns.iter().map(|column| column.name).collect::<Vec<_>>();
        let usual = names(&[]);
        assert_eq!((usual.first(), usual.last(), usual.len()), (Some(&"model"), Some(&"logits"), 15));
        assert_eq!(names(&["--act", "f32"])[15..], ["act"]);
        assert_eq!(names(&["--matrix-units", "off"])[15..], ["units"]);
        assert_eq!(names(&["--control", "host-fed"])[15..], ["control"]);
        assert_eq!(names(&["--draft-ngram"])[15..], ["drafts", "accepted", "x plain"]);
        assert_eq!(names(&["--sync-matrix"])[1..7], ["test", "control", "work us", "sync", "t/s", "x fence"]);
    }

    #[test]
    fn cells_are_those_of_the_row() {
        let mut row =
            row(Drive { speculative: SpeculativeDecoding::On, ..Drive::FENCE_KEPT }, vec![10_000_000], 20_000);
        row.draft_ratio = Some(1.25);
        let cells = |flags: &[&str]| {
            let line = table(flags).0.line(&row);
            line.trim().trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>()
        };
        let drafted = cells(&["--draft-ngram"]);
        assert_eq!(drafted[1], "fence-kept");
        assert_eq!(drafted[5..10], ["1000.00 ± 0.00", "9.0", "20.0", "40.0", "1.5"]);
        assert_eq!(drafted[15..], ["4", "1.50", "1.250"]);
        assert_eq!(cells(&["--sync-matrix"])[2..5], ["gpu", "0", "fence-kept"]);
    }
}
