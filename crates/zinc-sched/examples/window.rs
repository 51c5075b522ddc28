//! Runs the engine on the simulated model at depth 1 and at depth 4 and draws when steps were submitted, ran and were observed.
//!
//! `cargo run --example window -p zinc-sched --no-default-features`
#![allow(clippy::print_stdout, reason = "an example shows its result")]

use std::time::Duration;

use zinc_sched::fake::{FakeModel, FakeOptions};
use zinc_sched::{Engine, EngineOptions, InflightDepth, ManualClock, Request, Result, Trace, TraceSummary, Tracing};

fn main() -> Result<()> {
    for depth in [1, 4] {
        let clock = ManualClock::new();
        let model = FakeModel::new(FakeOptions::default(), clock.clone());
        let options =
            EngineOptions::default().with_depth(InflightDepth::new(depth)?).with_host_work(Duration::from_micros(500));
        let engine = Engine::spawn(model, clock, options)?;
        let request = Request::new([3, 1, 4], []).with_max_tokens(6).with_trace(Tracing::On);
        let (tokens, completion) = engine.generate(request)?.complete()?;
        let trace = completion.trace.expect("the trace was asked for");

        println!("depth {depth}: {} tokens, {:?}", tokens.len(), completion.reason);
        draw(&trace);
        let seam = TraceSummary::of(&trace).decode;
        let gap = seam.idle_gap_ns.expect("six decode steps make five pairs");
        println!(
            "    device idle between decode steps: {} µs; submitted ahead: {} of {}\n",
            gap.median / 1000,
            seam.submitted_ahead,
            seam.pairs
        );
    }
    Ok(())
}

/// Prints one line for each step, with 250 µs for each column: `s` is its submit, `=` the time for which it runs, `o` its observation.
fn draw(trace: &Trace) {
    const COLUMN_NS: u64 = 250_000;
    for row in &trace.steps {
        let gpu = row.timing.gpu.expect("the simulated model stamps its steps");
        let column = |at_ns: u64| (at_ns / COLUMN_NS) as usize;
        let mut line = vec![' '; column(row.timing.observed_at_ns) + 2];
        line[column(gpu.begin_ns)..column(gpu.end_ns)].fill('=');
        line[column(row.timing.observed_at_ns)] = 'o';
        line[column(row.timing.submitted_at_ns)] = 's';
        println!("  {:>2} {:<6} {}", row.step, format!("{:?}", row.kind), line.iter().collect::<String>().trim_end());
    }
}
