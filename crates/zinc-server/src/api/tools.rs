//! What several APIs check of the tools and schemas of a request, whatever shape they give them.

use serde_json::{Value, json};
use zinc_sched::grammar::GrammarSource;

use super::sampling::{Limits, check_constraint};
use crate::core::{Constraint, ToolChoice, ToolDefinition};
use crate::error::{ApiError, ApiResult};

/// Checks the number of tools.
///
/// # Errors
/// That there are too many.
pub(crate) fn check_count(limits: &Limits, tools: usize) -> ApiResult<()> {
    let most = limits.most_tools;
    if tools <= most {
        return Ok(());
    }
    Err(ApiError::invalid("tools", format!("{tools} tools; at most {most} are taken")))
}

/// The schema of a tool's arguments, which is that of an object without fields where there is none.
pub(crate) fn argument_schema(schema: Option<Value>) -> Value {
    schema.filter(|schema| !schema.is_null()).unwrap_or_else(|| json!({ "type": "object", "properties": {} }))
}

/// Checks that the tools have what is to be called.
///
/// # Errors
/// A tool that is not among them, or a call that is required although there is none.
pub(crate) fn checked_choice(choice: ToolChoice, tools: &[ToolDefinition]) -> ApiResult<ToolChoice> {
    match &choice {
        ToolChoice::Named(name) if !tools.iter().any(|tool| tool.name == *name) => {
            Err(ApiError::invalid("tool_choice", format!("there is no tool {name:?} among the tools")))
        }
        ToolChoice::Required if tools.is_empty() => {
            Err(ApiError::invalid("tool_choice", "a call is required, and there are no tools"))
        }
        _ => Ok(choice),
    }
}

/// The constraint that a JSON schema in this field is.
///
/// # Errors
/// That it is too large.
pub(crate) fn schema_constraint(limits: &Limits, field: &'static str, schema: &Value) -> ApiResult<Constraint> {
    let text = schema.to_string();
    check_constraint(limits, field, text.len())?;
    Ok(Constraint { field, source: GrammarSource::JsonSchema(text) })
}
