//! `zinc inspect`: what is in a GGUF file, and what running it takes.

mod layers;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use serde::Serialize;
use serde_json::{Map, Value as Json};
use zinc_engine::{Estimate, FileOptions};
use zinc_model::Model;
use zinc_model::config::{ModelConfig, Rope, RopeScaling};
use zinc_model::gguf::{self, Array, Value};

use crate::args::{Format, InspectArgs};
use crate::error::{Result, is_of_overrides};
use crate::{demo, options, output};
use layers::LayerRow;

/// Arrays in the metadata are cut to this many elements: a vocabulary has hundreds of thousands.
const ARRAY_ELEMENTS: usize = 8;

/// Strings for people are cut to this many characters.
const STRING_CHARACTERS: usize = 100;

#[derive(Serialize)]
struct Report {
    files: Vec<String>,
    bytes: u64,
    metadata: Map<String, Json>,
    tensors: usize,
    parameters: u64,
    formats: Vec<FormatRow>,
    /// What running it takes; absent where zinc cannot run it.
    run: Option<RunRow>,
    /// Why zinc cannot run it.
    obstacle: Option<String>,
}

#[derive(Serialize)]
struct FormatRow {
    format: &'static str,
    tensors: usize,
    elements: u64,
    bytes: u64,
    /// Whether kernels read it.
    supported: bool,
}

#[derive(Serialize)]
struct RunRow {
    context: u32,
    weight_bytes: u64,
    cache_bytes: u64,
    /// Of the recurrent states, which do not grow with the context.
    recurrent_bytes: u64,
    /// Of a checkpoint, a copy of the recurrent state of a sequence or of the positions of its windows. Those that `--ctx-checkpoints` allows lie in the host's memory.
    checkpoint_bytes: u64,
    work_bytes: u64,
    memory_bytes: u64,
    weight_bytes_per_token: u64,
    cache_bytes_per_token: u64,
    dispatches_per_token: usize,
    barriers_per_token: usize,
    layers: Vec<LayerRow>,
    rope: RopeRow,
}

/// The position embedding in force. Numbers that the scaling does not have are absent.
#[derive(Serialize)]
struct RopeRow {
    base: Json,
    dimensions: u32,
    scaling: &'static str,
    #[serde(flatten)]
    numbers: Map<String, Json>,
}

pub(crate) fn run(args: &InspectArgs) -> Result<()> {
    let given = args.file.as_deref().or(args.model.model.as_deref());
    let path = demo::resolve(given)?;
    let file = gguf::File::open(&path)?;
    let (run, obstacle) = match run_row(&path, &options::file_options(&args.cache, args.rope.overrides())) {
        Ok(row) => (Some(row), None),
        Err(error) if is_of_overrides(&error) => return Err(error.into()),
        Err(error) => (None, Some(error.to_string())),
    };
    let report = Report {
        files: file.parts().map(|path| path.display().to_string()).collect(),
        bytes: file.tensors().iter().map(|tensor| tensor.bytes).sum(),
        metadata: file.metadata().iter().map(|(key, value)| (key.to_owned(), json(value))).collect(),
        tensors: file.tensors().len(),
        parameters: file.tensors().iter().map(gguf::TensorInfo::elements).sum(),
        formats: formats(&file),
        run,
        obstacle,
    };
    match args.format.format() {
        Format::Json => output::stdout_json(&report),
        Format::Text => output::stdout(&text(&report)),
    }
}

/// What running the model at a path takes.
fn run_row(path: &Path, options: &FileOptions) -> Result<RunRow, zinc_engine::Error> {
    let model = Model::open_with(path, &options.model_options())?;
    Ok(RunRow::new(&Estimate::of_model(&model, options), &model.config))
}

impl RunRow {
    fn new(estimate: &Estimate, config: &ModelConfig) -> Self {
        let Estimate { memory, cost, checkpoint_bytes, .. } = estimate;
        Self {
            context: memory.context,
            weight_bytes: memory.weights,
            cache_bytes: memory.kv_cache,
            recurrent_bytes: memory.recurrent,
            checkpoint_bytes: *checkpoint_bytes,
            work_bytes: memory.work,
            memory_bytes: memory.total(),
            weight_bytes_per_token: cost.weight_bytes,
            cache_bytes_per_token: cost.cache_bytes,
            dispatches_per_token: estimate.dispatches_per_token,
            barriers_per_token: estimate.barriers_per_token,
            layers: layers::rows(config),
            rope: RopeRow::from(&config.rope),
        }
    }
}

impl From<&Rope> for RopeRow {
    fn from(rope: &Rope) -> Self {
        let numbers: Vec<(&str, Json)> = match rope.scaling {
            RopeScaling::None => Vec::new(),
            RopeScaling::Linear { factor } => vec![("factor", shortest(factor))],
            RopeScaling::Yarn(yarn) => vec![
                ("factor", shortest(yarn.factor)),
                ("original_context", yarn.original_context.into()),
                ("extrapolation", shortest(yarn.extrapolation)),
                ("attention_factor", shortest(yarn.attention_factor)),
                ("beta_fast", shortest(yarn.beta_fast)),
                ("beta_slow", shortest(yarn.beta_slow)),
            ],
        };
        Self {
            base: shortest(rope.base),
            dimensions: rope.dims,
            scaling: rope.scaling.kind().name(),
            numbers: numbers.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        }
    }
}

/// Tensors by format, the one with the most bytes first.
fn formats(file: &gguf::File) -> Vec<FormatRow> {
    let mut rows: BTreeMap<u32, FormatRow> = BTreeMap::new();
    for tensor in file.tensors() {
        let row = rows.entry(tensor.format.id()).or_insert_with(|| FormatRow {
            format: tensor.format.name(),
            tensors: 0,
            elements: 0,
            bytes: 0,
            supported: tensor.format.to_kernel().is_some(),
        });
        row.tensors += 1;
        row.elements = row.elements.saturating_add(tensor.elements());
        row.bytes = row.bytes.saturating_add(tensor.bytes);
    }
    let mut rows: Vec<FormatRow> = rows.into_values().collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.bytes));
    rows
}

/// A metadata value as JSON. Long arrays become `{"length": n, "first": [...]}`.
fn json(value: &Value) -> Json {
    match value {
        Value::U8(v) => Json::from(*v),
        Value::I8(v) => Json::from(*v),
        Value::U16(v) => Json::from(*v),
        Value::I16(v) => Json::from(*v),
        Value::U32(v) => Json::from(*v),
        Value::I32(v) => Json::from(*v),
        Value::U64(v) => Json::from(*v),
        Value::I64(v) => Json::from(*v),
        Value::F32(v) => shortest(*v),
        Value::F64(v) => Json::from(*v),
        Value::Bool(v) => Json::from(*v),
        Value::String(v) => Json::from(v.as_str()),
        Value::Array(array) => json_array(array),
    }
}

fn json_array(array: &Array) -> Json {
    fn cut<T>(values: &[T], json: impl Fn(&T) -> Json) -> Json {
        let first: Vec<Json> = values.iter().take(ARRAY_ELEMENTS).map(json).collect();
        if values.len() > ARRAY_ELEMENTS {
            serde_json::json!({ "length": values.len(), "first": first })
        } else {
            first.into()
        }
    }
    match array {
        Array::U8(values) => cut(values, |v| Json::from(*v)),
        Array::I8(values) => cut(values, |v| Json::from(*v)),
        Array::U16(values) => cut(values, |v| Json::from(*v)),
        Array::I16(values) => cut(values, |v| Json::from(*v)),
        Array::U32(values) => cut(values, |v| Json::from(*v)),
        Array::I32(values) => cut(values, |v| Json::from(*v)),
        Array::U64(values) => cut(values, |v| Json::from(*v)),
        Array::I64(values) => cut(values, |v| Json::from(*v)),
        Array::F32(values) => cut(values, |v| shortest(*v)),
        Array::F64(values) => cut(values, |v| Json::from(*v)),
        Array::Bool(values) => cut(values, |v| Json::from(*v)),
        Array::String(values) => cut(values, |v| Json::from(v.as_str())),
        Array::Array(values) => cut(values, json_array),
    }
}

/// A 32-bit float with the digits that it has, not those of its 64-bit neighbour: 1e-6 and not 9.999999974752427e-7.
fn shortest(value: f32) -> Json {
    value.to_string().parse::<f64>().map_or(Json::Null, Json::from)
}

fn text(report: &Report) -> String {
    let mut text = String::new();
    write_text(&mut text, report).expect("a string takes everything");
    text
}

fn write_text(text: &mut String, report: &Report) -> std::fmt::Result {
    for file in &report.files {
        writeln!(text, "{file}")?;
    }
    let millions = report.parameters as f64 / 1e6;
    writeln!(text, "{} tensors, {millions:.1} M parameters, {}", report.tensors, output::bytes(report.bytes))?;
    writeln!(text, "\nmetadata")?;
    for (key, value) in &report.metadata {
        writeln!(text, "  {key} = {}", cut(&value.to_string()))?;
    }
    writeln!(text, "\nformat     tensors      elements         bytes")?;
    for row in &report.formats {
        let note = if row.supported { "" } else { "  not supported" };
        writeln!(text, "{:<8} {:>9} {:>13} {:>13}{note}", row.format, row.tensors, row.elements, row.bytes)?;
    }
    if let Some(run) = &report.run {
        writeln!(text, "\nmemory with {} tokens of context: {}", run.context, output::bytes(run.memory_bytes))?;
        writeln!(text, "  weights {}", output::bytes(run.weight_bytes))?;
        writeln!(text, "  cache   {}", output::bytes(run.cache_bytes))?;
        if run.recurrent_bytes > 0 {
            writeln!(text, "  states  {}", output::bytes(run.recurrent_bytes))?;
        }
        writeln!(text, "  work    {}", output::bytes(run.work_bytes))?;
        if run.checkpoint_bytes > 0 {
            writeln!(text, "a checkpoint in the host's memory: {}", output::bytes(run.checkpoint_bytes))?;
        }
        writeln!(text, "one token")?;
        writeln!(text, "  weights {}", output::bytes(run.weight_bytes_per_token))?;
        writeln!(text, "  cache   up to {}", output::bytes(run.cache_bytes_per_token))?;
        writeln!(text, "  {} dispatches, {} barriers", run.dispatches_per_token, run.barriers_per_token)?;
        writeln!(text, "layers")?;
        for row in &run.layers {
            writeln!(text, "  {row}")?;
        }
        let RopeRow { base, dimensions, scaling, numbers } = &run.rope;
        writeln!(text, "positions")?;
        writeln!(text, "  base    {base}, {dimensions} dimensions of a head")?;
        write!(text, "  scaling {scaling}")?;
        for (name, value) in numbers {
            write!(text, ", {} {value}", name.replace('_', " "))?;
        }
        writeln!(text)?;
    }
    if let Some(obstacle) = &report.obstacle {
        writeln!(text, "\nzinc cannot run it: {obstacle}")?;
    }
    Ok(())
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(STRING_CHARACTERS) {
        Some((end, _)) => format!("{}... ({} characters)", &text[..end], text.chars().count()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_keep_their_own_digits() {
        assert_eq!(json(&Value::F32(1e-6)).to_string(), "1e-6");
        assert_eq!(json(&Value::F32(f32::NAN)), Json::Null);
    }

    #[test]
    fn long_arrays_and_strings_are_cut() {
        let long: Vec<u32> = (0..100).collect();
        assert_eq!(json(&Value::Array(Array::U32(long)))["length"], 100);
        assert_eq!(json(&Value::Array(Array::U32(vec![1, 2]))), serde_json::json!([1, 2]));
        assert_eq!(cut(&"é".repeat(101)), format!("{}... (101 characters)", "é".repeat(100)));
    }
}
