//! The constraint of an answer that has to be tool calls.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::{Value, json};
use zinc_sched::grammar::Outline;

use super::json::quoted;
use super::typing::Typing;
use super::{CallForm, OutputFormat, Tool, deepseek, harmony};

/// Calls in one answer, at most.
const MAX_CALLS: u32 = 128;
/// References and parts of a schema that are followed to find the parameters of a tool.
const MAX_SCHEMAS: usize = 200;

/// Which calls an answer has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forced<'t> {
    /// Calls of any of the tools.
    Any,
    /// Calls of the tool of this name.
    Named(&'t str),
}

/// How many calls an answer may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Calls {
    /// One.
    One,
    /// One or several. In the forms of Llama and gpt-oss, which have no parallel calls, still one.
    Several,
}

/// Why no answer can be forced to be a call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ForcedCallError {
    /// The template shows the model no form of calls.
    #[error("the chat template of this model has no form of tool calls that is known, so that none can be required")]
    NoForm,
    /// There is nothing to call.
    #[error("a tool call is required, and the request has no tools")]
    NoTools,
    /// No tool has the name.
    #[error("a call of the tool \"{name}\" is required, and the request has no tool of this name")]
    UnknownTool {
        /// The name.
        name: String,
    },
}

/// What an answer has to be if calls are required, behind thinking. [`OutputParser`](super::OutputParser) reads every such answer as complete
/// calls.
///
/// Arguments match the schema of the tool where the form has them as JSON. In the XML form, values that are no strings do so each for itself,
/// and so do those of an `enum`; other strings are free, and members that the schema does not name are not written. A schema that cannot be
/// used is an error when the outline is compiled, which names the tool.
///
/// # Errors
/// [`ForcedCallError`].
pub fn forced_call(
    format: &OutputFormat,
    tools: &[Tool],
    forced: Forced<'_>,
    calls: Calls,
) -> Result<Outline, ForcedCallError> {
    let form = format.call_form().ok_or(ForcedCallError::NoForm)?;
    let chosen: Vec<&Tool> = match forced {
        Forced::Any if tools.is_empty() => return Err(ForcedCallError::NoTools),
        Forced::Any => tools.iter().collect(),
        Forced::Named(name) => match tools.iter().find(|tool| tool.name == name) {
            Some(tool) => vec![tool],
            None => return Err(ForcedCallError::UnknownTool { name: name.to_owned() }),
        },
    };
    let call = |tool: &&Tool| match form {
        CallForm::Hermes => hermes(tool),
        CallForm::Xml => xml(tool),
        CallForm::DeepSeek { fenced } => deepseek(tool, fenced),
        CallForm::Llama => llama(tool),
        CallForm::Harmony => harmony::outline::call(&tool.name, arguments(tool)),
    };
    let one = Outline::Choice(chosen.iter().map(call).collect());
    let most = match (calls, form) {
        (Calls::One, _) | (_, CallForm::Llama | CallForm::Harmony) => 1,
        (Calls::Several, _) => MAX_CALLS,
    };
    let mut parts = vec![one.clone()];
    if most > 1 {
        let between = if form == (CallForm::DeepSeek { fenced: false }) { "" } else { "\n" };
        let next = Outline::Sequence(vec![text(between), one]);
        parts.push(Outline::Repeat { part: Box::new(next), min: 0, max: Some(most - 1) });
    }
    if matches!(form, CallForm::DeepSeek { .. }) {
        parts.insert(0, mark(deepseek::BEGIN_ALL[0]));
        parts.push(mark(deepseek::END_ALL));
    }
    Ok(Outline::Sequence(parts))
}

fn text(text: impl Into<String>) -> Outline {
    Outline::Text(text.into())
}

fn mark(text: &str) -> Outline {
    Outline::Mark(text.to_owned())
}

/// The arguments of a tool as an object.
fn arguments(tool: &Tool) -> Outline {
    let mut schema = match &tool.parameters {
        Value::Null => json!({}),
        schema => schema.clone(),
    };
    // Arguments are an object also where the schema does not say so.
    if let Some(members) = schema.as_object_mut() {
        members.entry("type").or_insert_with(|| json!("object"));
    }
    if schema == Value::Bool(true) {
        schema = json!({"type": "object"});
    }
    Outline::Json { name: called(tool), schema: schema.to_string().into(), path: Vec::new() }
}

/// What errors call a tool.
fn called(tool: &Tool) -> String {
    format!("tool \"{}\"", tool.name)
}

fn hermes(tool: &Tool) -> Outline {
    Outline::Sequence(vec![
        mark("<tool_call>"),
        text(format!("\n{{\"name\": {}, \"arguments\": ", quoted(&tool.name))),
        arguments(tool),
        text("}\n"),
        mark("</tool_call>"),
    ])
}

fn llama(tool: &Tool) -> Outline {
    let begin = format!("{{\"name\": {}, \"parameters\": ", quoted(&tool.name));
    Outline::Sequence(vec![text(begin), arguments(tool), text("}")])
}

fn deepseek(tool: &Tool, fenced: bool) -> Outline {
    let (kind, name, end) = match fenced {
        true => ("function", format!("{}\n```json\n", tool.name), "\n```"),
        false => (&*tool.name, String::new(), ""),
    };
    Outline::Sequence(vec![
        mark(deepseek::BEGIN),
        text(kind),
        mark("<｜tool▁sep｜>"),
        text(name),
        arguments(tool),
        text(end),
        mark(deepseek::END),
    ])
}

fn xml(tool: &Tool) -> Outline {
    let schema: Arc<str> = tool.parameters.to_string().into();
    let mut parts = vec![mark("<tool_call>"), text(format!("\n<function={}>", tool.name))];
    for parameter in parameters(&tool.parameters) {
        let begin = text(format!("\n<parameter={}>\n", parameter.key));
        let part = Outline::Sequence(vec![begin, value(tool, &schema, &parameter)]);
        parts.push(match parameter.required {
            true => part,
            false => Outline::Repeat { part: Box::new(part), min: 0, max: Some(1) },
        });
    }
    parts.extend([text("\n</function>\n"), mark("</tool_call>")]);
    Outline::Sequence(parts)
}

/// The value of a parameter in the XML form, with its closing tag.
fn value(tool: &Tool, schema: &Arc<str>, parameter: &Parameter) -> Outline {
    const CLOSE: &str = "</parameter>";
    let typing = Typing::new(Some(tool), &parameter.key);
    let closed = format!("\n{CLOSE}");
    if let Some(values) = typing.listed() {
        // The parser reads these texts as the values that they are made of.
        let texts = values.iter().map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned));
        return Outline::Choice(texts.map(|value| text(value + &closed)).collect());
    }
    if typing.may_be_string() {
        return Outline::Until(CLOSE.to_owned());
    }
    let json = Outline::Json { name: called(tool), schema: schema.clone(), path: parameter.path.clone() };
    Outline::Sequence(vec![json, text(closed)])
}

/// A parameter that the schema of a tool names.
struct Parameter {
    key: String,
    required: bool,
    /// Where its schema is in that of the tool.
    path: Vec<String>,
}

/// The parameters that a schema names in its `properties`, in their order, and through references and `allOf` at its top.
fn parameters(root: &Value) -> Vec<Parameter> {
    let mut found: Vec<Parameter> = Vec::new();
    let mut known: HashSet<&str> = HashSet::new();
    let mut required: HashSet<&str> = HashSet::new();
    let mut queue: Vec<Vec<String>> = vec![Vec::new()];
    let mut next = 0;
    while next < queue.len() {
        let path = queue[next].clone();
        next += 1;
        let Some(schema) = path.iter().try_fold(root, |value, step| part(value, step)) else { continue };
        for (key, own) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            // What has no value, or a name that the form cannot express, is not offered.
            let fits = own != &Value::Bool(false) && !key.is_empty() && !key.contains(['<', '>', '\n']);
            if fits && known.insert(key) {
                let path = [&path[..], &["properties".to_owned(), key.clone()]].concat();
                found.push(Parameter { key: key.clone(), required: false, path });
            }
        }
        let own = schema.get("required").and_then(Value::as_array).into_iter().flatten();
        required.extend(own.filter_map(Value::as_str));
        let parts = schema.get("allOf").and_then(Value::as_array).map_or(0, Vec::len);
        let all_of = (0..parts).map(|index| [&path[..], &["allOf".to_owned(), index.to_string()]].concat());
        let reference = schema.get("$ref").and_then(Value::as_str).and_then(|reference| reference.strip_prefix('#'));
        let unescaped = |step: &str| step.replace("~1", "/").replace("~0", "~");
        let referred = reference.map(|pointer| pointer.split('/').skip(1).map(unescaped).collect());
        let room = MAX_SCHEMAS.saturating_sub(queue.len());
        queue.extend(all_of.chain(referred).take(room));
    }
    for parameter in &mut found {
        parameter.required = required.contains(&*parameter.key);
    }
    found
}

/// The part of an array or object that a step of a JSON pointer leads to.
fn part<'v>(value: &'v Value, step: &str) -> Option<&'v Value> {
    match value {
        Value::Array(items) => items.get(step.parse::<usize>().ok()?),
        value => value.get(step),
    }
}
