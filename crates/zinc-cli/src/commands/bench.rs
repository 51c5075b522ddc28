//! `zinc bench`: how fast models run, in llama-bench's habits.

use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;
use zinc_vk::{Device, Error as VulkanError};

use crate::args::{self, BenchArgs, BenchSampler, Fill, TableFormat};
use crate::bench::bandwidth::read_bandwidth;
use crate::bench::measure::{self, Bench};
use crate::bench::plan::{BenchPlan, Drive, Test, Work};
use crate::bench::profile::Profile;
use crate::bench::report::{self, Row, Subject};
use crate::device;
use crate::error::{Error, Result};
use crate::session::HostModel;
use crate::{demo, output, sampler};

/// Steps that a profile is the mean of, where the context has room for them.
const PROFILE_STEPS: u32 = 16;

pub(crate) fn run(args: &BenchArgs) -> Result<()> {
    let selector = match &args.device {
        Some(args::Device::Interpreter) => {
            return Err(Error::usage("the interpreter has no speed worth measuring; --device takes a Vulkan device"));
        }
        Some(args::Device::Vulkan(selector)) => Some(selector.clone()),
        None => None,
    };
    let plan = BenchPlan::new(args)?;
    let models = match &args.models[..] {
        [] => vec![demo::resolve(None)?],
        models => models.to_vec(),
    };
    let vulkan = device::open_vulkan()?;
    let device = device::open_device(&vulkan, selector)?;
    // Before a model takes the memory.
    let bandwidth = bandwidth(&device)?;
    let mut printer = Printer::new(args.output);
    for path in &models {
        measure_model(args, &plan, path, &device, bandwidth, &mut printer)?;
        // The last submission holds the model's memory, which the next one needs.
        device.compute_queue().collect()?;
    }
    printer.finish(&footnotes(args, &plan, &device, bandwidth))?;
    drop(device);
    device::check_validation(&vulkan)
}

/// Bytes a second; `None` where there is no memory to measure with.
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
    device: &Arc<Device>,
    bandwidth: Option<f64>,
    printer: &mut Printer,
) -> Result<()> {
    let host = HostModel::open_for(path, plan.context, &args.cache)?;
    let subject = subject(args, path, &host, device, bandwidth);
    let act = args.act.into();
    let drafts = host.drafts(&args.draft, device, act)?;
    let loaded = host.load_onto(device, act, args.draft.batch())?;
    let mut bench = Bench::new(loaded, drafts, &host.tokenizer, args, plan.context)?;
    let row = |test, drive, bench: &Bench<'_>| -> Result<Row> {
        let time = Timestamp::now().strftime("%FT%TZ").to_string();
        let measurement = bench.measure(test, drive)?;
        if !measurement.reproducible {
            output::notice(&format!("{test}: the last logits differ from one repetition to the next"));
        }
        let (sampler, fill) = (args::word(&args.sampler), args::word(&args.fill));
        Ok(Row { subject: subject.clone(), test, drive, time, sampler, fill, act: args.act, measurement })
    };
    for &depth in &plan.depths {
        bench.fill(depth)?;
        for &work in &plan.works {
            let test = Test { work, depth };
            let mut rows = Vec::new();
            for &drive in &plan.drives {
                let row = row(test, drive, &bench)?;
                printer.row(&row)?;
                rows.push(row);
            }
            if let Some((fence, timelines)) = rows.split_last().filter(|(last, _)| last.drive == Drive::FENCE) {
                timelines.iter().for_each(|timeline| printer.compare(&report::comparison(timeline, fence)));
            }
        }
        if args.profile {
            let steps = PROFILE_STEPS.min(plan.context - depth);
            let ops = bench.profile(depth, steps)?;
            let real = bench.trace(Test { work: Work::Generate(steps), depth }, Drive::TIMELINE)?;
            printer.profile(&Profile::new(depth, ops, real.map(|seam| seam.busy_ns), bandwidth))?;
        }
    }
    Ok(())
}

fn subject(args: &BenchArgs, path: &Path, host: &HostModel, device: &Device, bandwidth: Option<f64>) -> Subject {
    let tensors = &host.model.weights.tensors;
    let parameters = tensors.iter().map(|tensor| tensor.elements()).sum();
    let bytes_of =
        |format| tensors.iter().filter(|tensor| tensor.format == format).map(|tensor| tensor.bytes).sum::<u64>();
    let format = tensors.iter().map(|tensor| tensor.format).max_by_key(|&format| bytes_of(format));
    let format = format.map_or("", |format| format.name());
    Subject {
        file: path.display().to_string(),
        kind: format!("{} {} {format}", host.model.config.architecture, output::parameters(parameters)),
        bytes: host.model.weights.bytes(),
        parameters,
        device: device.facts().name.clone(),
        cache_type_k: args::word(&args.cache.cache_type_k),
        cache_type_v: args::word(&args.cache.cache_type_v),
        bandwidth,
    }
}

/// What the figures are.
fn footnotes(args: &BenchArgs, plan: &BenchPlan, device: &Device, bandwidth: Option<f64>) -> Vec<String> {
    let mut notes = vec![
        format!("device: {} ({})", device.facts().name, device.facts().driver.info),
        "t/s: tokens over the wall time from a request's start to its last token; sampling is included, and every token that is \
         generated is turned into text (llama-bench leaves both out)"
            .to_owned(),
        "GPU us, gap us: median time that the GPU works on a token and idles before the next, and the 99th percentile of the latter; \
         from a run of its own, because taking timestamps costs time"
            .to_owned(),
        "host us: time per token that the engine's thread spends on anything but waiting for the GPU".to_owned(),
        format!("MB/token: weights and cache that a token reads, by the cost model; one cache of {} tokens for all tests", plan.context),
        match bandwidth {
            Some(bandwidth) => format!(
                "% BW: MB/token times t/s, of the {:.1} GB/s at which a kernel that does nothing else reads the device's memory",
                bandwidth / 1e9
            ),
            None => "% BW: the bandwidth was not measured".to_owned(),
        },
        "logits: the first half of the FNV-1a of the last ones' bits; equal results have equal hashes".to_owned(),
    ];
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

/// Prints results as they come, as far as the format allows.
struct Printer {
    format: TableFormat,
    /// Whether nothing has been printed.
    is_first: bool,
    /// The elements of a JSON array, which is printed at the end.
    objects: Vec<Value>,
    /// What follows the table.
    comparisons: String,
    /// What follows that.
    profiles: String,
}

impl Printer {
    fn new(format: TableFormat) -> Self {
        Self { format, is_first: true, objects: Vec::new(), comparisons: String::new(), profiles: String::new() }
    }

    fn row(&mut self, row: &Row) -> Result<()> {
        let is_first = std::mem::replace(&mut self.is_first, false);
        let head = |head: &dyn Fn() -> String| if is_first { head() } else { String::new() };
        match self.format {
            TableFormat::Md => output::stdout(&(head(&|| row.markdown_head()) + &row.markdown())),
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
