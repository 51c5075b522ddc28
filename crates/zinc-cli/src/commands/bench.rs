//! `zinc bench`: how fast models run, in llama-bench's habits.

use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;
use zinc_engine::{ContextSize, DeviceModels, ModelFile, Place, SamplingRows};
use zinc_kernels::Pipelines;
use zinc_kernels::step::StepShape;
use zinc_sched::adapter::Sync;
use zinc_vk::{Device, Error as VulkanError};

use crate::args::{self, BenchArgs, TableFormat};
use crate::bench::bandwidth::read_bandwidth;
use crate::bench::measure::Bench;
use crate::bench::notes::footnotes;
use crate::bench::plan::{BenchPlan, Drive, Purpose, Test, Work};
use crate::bench::profile::{PROFILE_STEPS, Peaks, Profile};
use crate::bench::report::{self, Row, Settings, Subject};
use crate::bench::table::Table;
use crate::doctor::{Probe, units};
use crate::error::{Error, Result};
use crate::opening::Opening;
use crate::{demo, options, output, surroundings};

mod parallel;

pub(crate) fn run(args: &BenchArgs) -> Result<()> {
    let models = match &args.models[..] {
        [] => vec![demo::resolve(None)?],
        models => models.to_vec(),
    };
    if !args.npl.is_empty() {
        return parallel::run(args, &models);
    }
    let plan = BenchPlan::new(args)?;
    let mut opening = Opening::new();
    let (place, pipelines) = open_device(args, &mut opening)?;
    let device = pipelines.device();
    // The bandwidth is measured before a model takes up the device's memory.
    let peaks = peaks(args, device)?;
    let mut printer = Printer::new(args.output, Table::new(&plan, args.act, args.units.matrix_units));
    for path in &models {
        measure_model(args, &plan, path, &pipelines, peaks, &mut opening, &mut printer)?;
        // The last submission keeps the model's memory alive until it is collected, and the next model needs that
        // memory.
        device.compute_queue().collect()?;
    }
    printer.finish(&footnotes(args, &plan, device, peaks.bandwidth))?;
    Ok(place.check_validation()?)
}

/// Opens the device that is to be measured.
fn open_device(args: &BenchArgs, opening: &mut Opening) -> Result<(Place, Arc<Pipelines>)> {
    let options = options::device_options(args.device.as_ref(), args.units.matrix_units)?;
    let place = surroundings::open_place(&options, &mut |event| opening.show(event))?;
    let Place::Vulkan { pipelines, .. } = &place else {
        return Err(Error::usage("the interpreter has no speed worth measuring; --device takes a Vulkan device"));
    };
    let pipelines = pipelines.clone();
    Ok((place, pipelines))
}

/// Measures the bandwidth of the device's memory and, for profiles, the rate of its matrix units.
fn peaks(args: &BenchArgs, device: &Arc<Device>) -> Result<Peaks> {
    let bandwidth = bandwidth(device)?;
    let rates = args.profile.then(|| units::measure(&Probe::new(device)?)).transpose()?;
    Ok(Peaks { bandwidth, bytes_per_s: rates.and_then(|rates| rates.bytes_per_s) })
}

/// Measures the bandwidth of the device's memory in bytes per second; `None` if too little memory is free to measure
/// it.
fn bandwidth(device: &Arc<Device>) -> Result<Option<f64>> {
    match read_bandwidth(device) {
        Ok(bandwidth) => Ok(Some(bandwidth)),
        Err(error @ VulkanError::OutOfMemory { .. }) => {
            output::notice(&format!("the bandwidth of memory is not measured: {error}"));
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

fn measure_model(
    args: &BenchArgs,
    plan: &BenchPlan,
    path: &Path,
    pipelines: &Arc<Pipelines>,
    peaks: Peaks,
    opening: &mut Opening,
    printer: &mut Printer,
) -> Result<()> {
    let mut show = |event| opening.show(event);
    let context = ContextSize::Tokens(plan.context);
    let mut file_options = options::file_options_for(context, &args.cache, args.rope.overrides());
    file_options.mtp = args.draft.draft_mtp;
    let file = ModelFile::open(path, &file_options, &mut show)?;
    let subject = subject(args, path, &file, pipelines.device(), peaks.bandwidth);
    let act = args.act.into();
    let draft = options::draft_options(&args.draft);
    let sampling = SamplingRows::verifying(if args.is_drafted() { args.draft.draft_max } else { 0 });
    let DeviceModels { model, feed_shapes, draft_source, .. } =
        file.load_onto(pipelines, act, (args.ubatch.shape(), sampling), draft.as_ref(), &mut show)?;
    let mut bench = Bench::new(model, feed_shapes, draft_source, &file, args, plan.context)?;
    for &depth in &plan.depths {
        bench.fill(depth)?;
        for &work in &plan.works {
            let test = Test { work, depth };
            let mut rows: Vec<Row> = Vec::new();
            for &drive in &plan.drives {
                let row = measure_row(args, plan, &subject, &bench, test, drive, &rows)?;
                if let Some(path) = args.draft_replay.as_ref().filter(|_| !row.is_drafted()) {
                    bench.replay(path, &row.measurement.tokens)?;
                }
                printer.row(&row)?;
                rows.push(row);
            }
            compare(plan.purpose, &rows, printer);
        }
        if args.profile {
            let room = plan.context - depth;
            // Where there is no room for a full step of a prompt, the largest that there is room for is looked at. The last token of a prompt is not
            // fed.
            let fed = room.saturating_sub(1);
            let feed_shape = StepShape::filled_feeding(fed.max(1), feed_shapes.of_prompt(fed));
            let prompt_steps = PROFILE_STEPS.min(fed / feed_shape.rows());
            let prompt = Work::Prompt(prompt_steps * feed_shape.rows());
            let generation = Work::Generate(PROFILE_STEPS.min(room));
            for work in [generation, prompt].into_iter().filter(|work| work.tokens() > 0) {
                let test = Test { work, depth };
                let timed = bench.profile(test, feed_shape)?;
                let real = bench.trace(test, Drive::TIMELINE)?;
                printer.profile(&Profile::new(depth, timed, real.map(|seam| seam.busy_ns), peaks))?;
            }
        }
    }
    Ok(())
}

/// Measures a test and compares it with the rows in `before`, which were measured earlier.
fn measure_row(
    args: &BenchArgs,
    plan: &BenchPlan,
    subject: &Subject,
    bench: &Bench<'_>,
    test: Test,
    drive: Drive,
    before: &[Row],
) -> Result<Row> {
    let time = Timestamp::now().strftime("%FT%TZ").to_string();
    let what = match plan.purpose {
        Purpose::Tests => test.to_string(),
        Purpose::SyncMatrix => format!(
            "{} of {}: {test}, {}, {} us, {drive}",
            before.len() + 1,
            plan.drives.len(),
            args::word(&drive.control),
            drive.host_work.as_micros()
        ),
    };
    let measurement = bench.measure(test, drive, what)?;
    if !measurement.reproducible {
        output::notice(&format!("{test}: the last logits differ from one repetition to the next"));
    }
    let (subject, settings) = (subject.clone(), Settings::from(args));
    let mut row = Row { subject, settings, test, drive, time, measurement, fence_ratio: None, draft_ratio: None };
    let ratio = |other: Drive| {
        let other = before.iter().chain([&row]).find(|before| before.drive == other)?;
        Some(row.speed().mean / other.speed().mean)
    };
    let fence_ratio = ratio(drive.baseline()).filter(|_| plan.purpose == Purpose::SyncMatrix);
    let draft_ratio = ratio(drive.undrafted()).filter(|_| row.is_drafted());
    (row.fence_ratio, row.draft_ratio) = (fence_ratio, draft_ratio);
    Ok(row)
}

/// Adds sentences below the table: how much faster drafts are than plain steps and, if the table has no column for it,
/// how much faster the timeline is than a fence.
fn compare(purpose: Purpose, rows: &[Row], printer: &mut Printer) {
    let of = |drive: Drive| rows.iter().find(|row| row.drive == drive);
    for row in rows.iter().filter(|row| row.drive.sync == Sync::Timeline && purpose == Purpose::Tests) {
        if let Some(fence) = of(row.drive.baseline()) {
            printer.compare(&report::comparison(row, fence));
        }
    }
    for row in rows.iter().filter(|row| row.is_drafted()) {
        if let Some(plain) = of(row.drive.undrafted()) {
            printer.compare(&report::draft_comparison(row, plain));
        }
    }
}

fn subject(args: &BenchArgs, path: &Path, file: &ModelFile, device: &Device, bandwidth: Option<f64>) -> Subject {
    let tensors = &file.model().weights.tensors;
    let parameters = tensors.iter().map(|tensor| tensor.elements()).sum();
    let bytes_of =
        |format| tensors.iter().filter(|tensor| tensor.format == format).map(|tensor| tensor.bytes).sum::<u64>();
    let format = tensors.iter().map(|tensor| tensor.format).max_by_key(|&format| bytes_of(format));
    let format = format.map_or("", |format| format.name());
    Subject {
        file: path.display().to_string(),
        kind: format!("{} {} {format}", file.model().config.architecture, output::parameters(parameters)),
        bytes: file.model().weights.bytes(),
        parameters,
        device: device.facts().name.clone(),
        cache_type_k: args::word(&args.cache.cache_type_k),
        cache_type_v: args::word(&args.cache.cache_type_v),
        bandwidth,
    }
}

/// Prints the results. Formats made of lines are printed row by row; a JSON array is printed at the end.
struct Printer {
    format: TableFormat,
    table: Table,
    /// Whether nothing has been printed.
    is_first: bool,
    /// The elements of a JSON array, which is printed at the end.
    objects: Vec<Value>,
    /// The text that is printed below the table: comparisons of rows.
    comparisons: String,
    /// The text that is printed below the comparisons: profiles.
    profiles: String,
}

impl Printer {
    fn new(format: TableFormat, table: Table) -> Self {
        Self { format, table, is_first: true, objects: Vec::new(), comparisons: String::new(), profiles: String::new() }
    }

    fn row(&mut self, row: &Row) -> Result<()> {
        let is_first = std::mem::replace(&mut self.is_first, false);
        let head = |head: &dyn Fn() -> String| if is_first { head() } else { String::new() };
        match self.format {
            TableFormat::Md => output::stdout(&(head(&|| self.table.head()) + &self.table.line(row))),
            TableFormat::Csv => output::stdout(&(head(&|| row.csv_head()) + &row.csv())),
            TableFormat::Json | TableFormat::Jsonl => self.object(Value::Object(row.json())),
        }
    }

    fn compare(&mut self, comparison: &str) {
        self.comparisons.push_str(&format!("- {comparison}\n"));
    }

    fn profile(&mut self, profile: &Profile) -> Result<()> {
        match self.format {
            TableFormat::Md | TableFormat::Csv => {
                self.profiles.push_str(&profile.markdown());
                Ok(())
            }
            TableFormat::Json | TableFormat::Jsonl => {
                self.object(serde_json::to_value(profile).expect("profiles have string keys only"))
            }
        }
    }

    fn object(&mut self, object: Value) -> Result<()> {
        if self.format == TableFormat::Jsonl {
            return output::stdout_json(&object);
        }
        self.objects.push(object);
        Ok(())
    }

    /// Prints what comes at the end. What is no table and no JSON goes to stdout with Markdown alone.
    fn finish(self, notes: &[String]) -> Result<()> {
        let separator = if self.comparisons.is_empty() { "" } else { "\n" };
        let mut text = format!("{separator}{}{}\n", self.comparisons, self.profiles);
        for note in notes {
            text.push_str(&format!("- {note}\n"));
        }
        match self.format {
            TableFormat::Md => return output::stdout(&text),
            TableFormat::Json => output::stdout_json(&self.objects)?,
            TableFormat::Csv | TableFormat::Jsonl => {}
        }
        output::stderr(&text);
        Ok(())
    }
}
