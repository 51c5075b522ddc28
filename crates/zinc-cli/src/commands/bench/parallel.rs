//! `zinc bench -npl`: several sequences at once.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use zinc_engine::{ContextSize, DeviceModels, ModelFile, SamplingRows};
use zinc_kernels::Pipelines;
use zinc_kernels::step::{MOST_LANES, StepShape};
use zinc_sched::{InflightDepth, Tracing};

use crate::args::{self, BenchArgs, TableFormat};
use crate::bench::arrivals::ArrivalsResult;
use crate::bench::late_prompt::LatePromptResult;
use crate::bench::measure::sampling;
use crate::bench::parallel::{ParallelBench, ParallelResult, ParallelTest};
use crate::bench::profile::{Peaks, Profile};
use crate::error::{Error, Result};
use crate::opening::Opening;
use crate::{options, output, trace};

pub(super) fn run(args: &BenchArgs, models: &[PathBuf]) -> Result<()> {
    let [depth] = args.depth[..] else {
        return Err(Error::usage(format!("--npl takes one --depth, not {}", args.depth.len())));
    };
    if let Some(path) = &args.trace {
        trace::check_lanes_path(path)?;
        let tests = models.len() * args.npl.len() * args.npp.len() * args.ntg.len();
        if tests != 1 {
            return Err(Error::usage(format!("--trace draws one test, not {tests}")));
        }
    }
    if args.late_prompt.is_some() && args.npl.iter().any(|lanes| *lanes >= MOST_LANES) {
        let most = MOST_LANES - 1;
        return Err(Error::usage(format!("--late-prompt needs a lane of its own: --npl can be up to {most} with it")));
    }
    let mut opening = Opening::new();
    let (place, pipelines) = super::open_device(args, &mut opening)?;
    let peaks = if args.profile { super::peaks(args, pipelines.device())? } else { Peaks::default() };
    let mut printer = Printer { format: args.output, objects: Vec::new(), is_first: true, profiles: String::new() };
    for path in models {
        measure_model((args, depth), path, &pipelines, peaks, &mut opening, &mut printer)?;
        // The last submission keeps the model's memory alive until it is collected, and the next model needs that memory.
        pipelines.device().compute_queue().collect()?;
    }
    printer.finish()?;
    Ok(place.check_validation()?)
}

fn measure_model(
    (args, depth): (&BenchArgs, InflightDepth),
    path: &Path,
    pipelines: &Arc<Pipelines>,
    peaks: Peaks,
    opening: &mut Opening,
    printer: &mut Printer,
) -> Result<()> {
    let most = |values: &[u32]| values.iter().copied().max().unwrap_or(1);
    let mut show = |event| opening.show(event);
    let late_tokens = args.late_prompt.unwrap_or(0);
    // The sequences beside a late prompt go on while it is read, so that they need room, too.
    let context = most(&args.npp).saturating_add(most(&args.ntg)).saturating_add(late_tokens);
    let context = ContextSize::Tokens(context);
    let mut file_options = options::file_options_for(context, &args.cache, args.rope.overrides());
    let lanes = most(&args.npl) + u32::from(args.late_prompt.is_some());
    options::set_lanes(&mut file_options, lanes, args.cache_tokens)?;
    let file = ModelFile::open(path, &file_options, &mut show)?;
    let shapes = (args.ubatch.shape(), SamplingRows::plain(StepShape::of(file_options.lanes)));
    let DeviceModels { model, feed_shapes, .. } =
        file.load_onto(pipelines, args.act.into(), shapes, None, &mut show)?;
    let mut sampling = sampling(args.sampler);
    file.set_breakers(&mut sampling, &args::DEFAULT_BREAKERS)?;
    let bench = ParallelBench {
        model: Arc::new(model),
        feed_shapes,
        tokenizer: file.tokenizer(),
        sampling,
        depth,
        max_gap: args.max_gap,
        checkpoints: args.ctx_checkpoints,
        repetitions: args.repetitions,
        no_warm_up: args.no_warmup,
    };
    let (name, device) = (path.display().to_string(), &pipelines.device().facts().name);
    for &n_prompt in &args.npp {
        for &n_gen in &args.ntg {
            for &n_parallel in &args.npl {
                let test = ParallelTest { n_parallel, n_prompt, n_gen };
                if let Some(arrivals) = args.arrivals {
                    let (result, _) = bench.arrive(test, arrivals, Tracing::Off)?;
                    let line = (ArrivalsResult::MARKDOWN_HEAD, result.markdown());
                    printer.print(result.json(&name, device), line)?;
                    if let Some(file) = &args.trace {
                        let (_, sequences) = bench.arrive(test, arrivals, Tracing::On)?;
                        let title = format!(
                            "{n_parallel} lanes, prompts of {n_prompt}, {n_gen} generated, {} requests a second, at most {} ms between tokens",
                            arrivals.rate,
                            args.max_gap.as_millis()
                        );
                        trace::draw_lanes(file, &title, &sequences)?;
                    }
                    continue;
                }
                if let Some(late_tokens) = args.late_prompt {
                    let (result, _) = bench.late_prompt(test, late_tokens, Tracing::Off)?;
                    let line = (LatePromptResult::MARKDOWN_HEAD, result.markdown());
                    printer.print(result.json(&name, device), line)?;
                    if let Some(file) = &args.trace {
                        let (_, sequences) = bench.late_prompt(test, late_tokens, Tracing::On)?;
                        let title = format!(
                            "a prompt of {late_tokens} beside {n_parallel} sequences that generate, at most {} ms between tokens",
                            args.max_gap.as_millis()
                        );
                        trace::draw_lanes(file, &title, &sequences)?;
                    }
                    continue;
                }
                let result = bench.measure(test)?;
                printer.print(result.json(&name, device), (ParallelResult::MARKDOWN_HEAD, result.markdown()))?;
                if args.profile {
                    let real = result.steps.map(|steps| steps.median_ns);
                    printer.profile(&Profile::new(n_prompt - 1, bench.profile(test)?, real, peaks))?;
                }
            }
        }
    }
    Ok(())
}

/// The names and cells of what a JSON value becomes in a table. A key of an object in it stands behind the name of that; what is not known is empty, and so is a
/// list, which has no form in a table.
fn columns(name: &str, value: &Value) -> Vec<(String, String)> {
    match value {
        Value::Object(fields) => fields
            .iter()
            .flat_map(|(key, value)| {
                columns(&if name.is_empty() { key.clone() } else { format!("{name}_{key}") }, value)
            })
            .collect(),
        Value::Null | Value::Array(_) => vec![(name.to_owned(), String::new())],
        cell => vec![(name.to_owned(), cell.to_string())],
    }
}

/// Prints the results.
struct Printer {
    format: TableFormat,
    /// The elements of a JSON array, which is printed at the end.
    objects: Vec<Value>,
    is_first: bool,
    /// What is printed below a table.
    profiles: String,
}

impl Printer {
    /// Prints a result: its JSON, or a line of a Markdown table with the head of that.
    fn print(&mut self, object: Value, (head, line): (&str, String)) -> Result<()> {
        let is_first = std::mem::replace(&mut self.is_first, false);
        match self.format {
            TableFormat::Md => {
                let head = if is_first { head } else { "" };
                output::stdout(&(head.to_owned() + &line))
            }
            TableFormat::Csv => {
                let (names, cells): (Vec<String>, Vec<String>) = columns("", &object).into_iter().unzip();
                let head = if is_first { names.join(",") + "\n" } else { String::new() };
                output::stdout(&(head + &cells.join(",") + "\n"))
            }
            TableFormat::Jsonl => output::stdout_json(&object),
            TableFormat::Json => {
                self.objects.push(object);
                Ok(())
            }
        }
    }

    fn profile(&mut self, profile: &Profile) -> Result<()> {
        let object = || serde_json::to_value(profile).expect("profiles have string keys only");
        match self.format {
            TableFormat::Md | TableFormat::Csv => self.profiles.push_str(&profile.markdown()),
            TableFormat::Jsonl => return output::stdout_json(&object()),
            TableFormat::Json => self.objects.push(object()),
        }
        Ok(())
    }

    fn finish(self) -> Result<()> {
        match self.format {
            TableFormat::Md => output::stdout(&self.profiles),
            TableFormat::Json => output::stdout_json(&self.objects),
            TableFormat::Csv | TableFormat::Jsonl => {
                output::stderr(&self.profiles);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_table_has_a_column_for_each_figure() {
        let value = json!({ "name": "a,b", "rate": null, "gaps": { "median_ms": 1.5, "max_ms": null }, "all": [1, 2] });
        let columns = columns("", &value);
        let columns: Vec<(&str, &str)> = columns.iter().map(|(name, cell)| (&name[..], &cell[..])).collect();
        let mut expected =
            [("name", "\"a,b\""), ("rate", ""), ("gaps_median_ms", "1.5"), ("gaps_max_ms", ""), ("all", "")];
        let mut found = columns.clone();
        found.sort_unstable();
        expected.sort_unstable();
        assert_eq!(found, expected);
    }
}
