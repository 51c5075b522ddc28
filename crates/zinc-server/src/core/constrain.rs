//! What the answer in a conversation has to match, and what the model may think before it.

use zinc_engine::FreeThinking;
use zinc_sched::grammar::{GrammarSource, Outline, ThinkingStart};

use super::ask::{Conversation, ToolChoice};
use crate::error::{ApiError, ApiResult};
use crate::output::{Calls, Forced, OutputFormat, Thinking, Tool, forced_call};

/// What errors call the schema of the content where the answer may be calls of tools as well.
pub(super) const CONTENT: &str = "the schema of the content";

/// What the answer to a prompt that ends in `tail` has to match: calls of tools where they are required, or else what the request asks of the content. Where
/// the model may call tools, a schema of the content leaves it the choice. The schemas of tools in it have `most_bytes` together at most.
///
/// # Errors
/// Calls that are required of a model that knows no form of them, and schemas that are too large.
pub(super) fn constraint(
    format: &OutputFormat,
    conversation: &Conversation,
    tools: &[Tool],
    tail: &str,
    content: Option<&GrammarSource>,
    most_bytes: usize,
) -> ApiResult<Option<GrammarSource>> {
    let calls = if conversation.parallel_tool_calls { Calls::Several } else { Calls::One };
    let forced = match &conversation.tool_choice {
        ToolChoice::Required => Forced::Any,
        ToolChoice::Named(name) => Forced::Named(name),
        ToolChoice::Auto | ToolChoice::None => {
            let Some(content) = content else { return Ok(None) };
            let header = format.content_header(tail);
            let called = match content {
                GrammarSource::JsonSchema(schema) if !tools.is_empty() => {
                    forced_call(format, tools, Forced::Any, calls).ok().map(|called| (schema, called))
                }
                _ => None,
            };
            let Some((schema, called)) = called else {
                return Ok(Some(match header {
                    Some(header) => GrammarSource::Behind { header, source: Box::new(content.clone()) },
                    None => content.clone(),
                }));
            };
            check_size(tools, Forced::Any, most_bytes)?;
            let said = Outline::Json { name: CONTENT.to_owned(), schema: schema.as_str().into(), path: Vec::new() };
            let said = Outline::Sequence(header.into_iter().chain([said]).collect());
            return Ok(Some(GrammarSource::Outline(Outline::Choice(vec![said, called]))));
        }
    };
    check_size(tools, forced, most_bytes)?;
    match forced_call(format, tools, forced, calls) {
        Ok(outline) => Ok(Some(GrammarSource::Outline(outline))),
        Err(error) => Err(ApiError::invalid("tool_choice", error.to_string())),
    }
}

/// Checks the size of the schemas of the tools that may be called.
///
/// # Errors
/// That they are too large, with both sizes.
fn check_size(tools: &[Tool], forced: Forced<'_>, most_bytes: usize) -> ApiResult<()> {
    let may_be_called = |tool: &&Tool| match forced {
        Forced::Any => true,
        Forced::Named(name) => tool.name == name,
    };
    let bytes: usize = tools.iter().filter(may_be_called).map(|tool| tool.parameters.to_string().len()).sum();
    if bytes <= most_bytes {
        return Ok(());
    }
    let message =
        format!("the schemas of the tools that may be called have {bytes} bytes; at most {most_bytes} are taken");
    Err(ApiError::invalid("tools", message))
}

/// What the model may think first, in the answer to a prompt that ends in `tail`; `None` if it does not think, or has.
pub(super) fn thinking(format: &OutputFormat, tail: &str, most_tokens: Option<u32>) -> Option<FreeThinking> {
    let (open, close) = format.reasoning_tags()?;
    let start = match format.thinking(tail) {
        Thinking::No => return None,
        Thinking::MayBegin => ThinkingStart::MayBegin,
        Thinking::Begun => ThinkingStart::Begun,
    };
    let anew = format.thinking_anew().map(|(before, name)| (before.to_owned(), name.to_owned()));
    Some(FreeThinking { open: open.to_owned(), close: close.to_owned(), anew, start, max_tokens: most_tokens })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn constrained(choice: ToolChoice, content: Option<&GrammarSource>) -> ApiResult<Option<GrammarSource>> {
        let format = OutputFormat::of_template("<think></think><tool_call>");
        let conversation = Conversation { tool_choice: choice, ..Conversation::new(Vec::new()) };
        let tools = [Tool { name: "f".to_owned(), description: None, parameters: json!({}) }];
        constraint(&format, &conversation, &tools, "", content, 10)
    }

    #[test]
    fn calls_that_are_required_come_before_the_form_of_the_content() {
        let schema = GrammarSource::JsonSchema("{}".to_owned());
        assert_eq!(constrained(ToolChoice::Auto, None), Ok(None));
        let is_choice = |source| matches!(source, Ok(Some(GrammarSource::Outline(Outline::Choice(_)))));
        let is_call = |source| matches!(source, Ok(Some(GrammarSource::Outline(Outline::Sequence(_)))));
        assert!(is_choice(constrained(ToolChoice::Auto, Some(&schema))));
        assert!(is_call(constrained(ToolChoice::Required, Some(&schema))));
        assert!(is_call(constrained(ToolChoice::Named("f".to_owned()), None)));
        let missing = constrained(ToolChoice::Named("g".to_owned()), None).unwrap_err();
        assert_eq!(missing.param.as_deref(), Some("tool_choice"));
    }

    #[test]
    fn schemas_of_tools_that_may_be_called_have_a_largest_size() {
        let format = OutputFormat::of_template("<think></think><tool_call>");
        let tool = |name: &str, parameters| Tool { name: name.to_owned(), description: None, parameters };
        let tools = [tool("small", json!({})), tool("large", json!({ "type": "object" }))];
        let constrained = |choice, content: Option<&GrammarSource>| {
            let conversation = Conversation { tool_choice: choice, ..Conversation::new(Vec::new()) };
            constraint(&format, &conversation, &tools, "", content, 17)
                .map_err(|error| (error.param.unwrap(), error.message))
        };
        let message = "the schemas of the tools that may be called have 19 bytes; at most 17 are taken";
        let too_large = Err(("tools".to_owned(), message.to_owned()));
        assert_eq!(constrained(ToolChoice::Required, None), too_large);
        assert_eq!(constrained(ToolChoice::Auto, Some(&GrammarSource::JsonSchema("{}".to_owned()))), too_large);
        assert!(constrained(ToolChoice::Named("large".to_owned()), None).is_ok_and(|made| made.is_some()));
        // Nothing is made of the schemas here.
        assert_eq!(constrained(ToolChoice::Auto, None), Ok(None));
    }

    #[test]
    fn the_content_of_harmony_has_a_header_before_it() {
        let format = OutputFormat::of_template("<|start|><|channel|><|message|>");
        let schema = GrammarSource::JsonSchema("{}".to_owned());
        let made = |tools: &[Tool], tail| {
            let conversation = Conversation::new(Vec::new());
            constraint(&format, &conversation, tools, tail, Some(&schema), 10).unwrap().unwrap()
        };
        let begun = "<|start|>assistant<|channel|>final<|message|>{";
        assert!(matches!(made(&[], "<|start|>assistant"), GrammarSource::Behind { source, .. } if *source == schema));
        assert_eq!(made(&[], begun), schema, "the prompt has begun the content");
        let tools = [Tool { name: "f".to_owned(), description: None, parameters: json!({}) }];
        let GrammarSource::Outline(Outline::Choice(parts)) = made(&tools, "<|start|>assistant") else {
            panic!("no choice")
        };
        assert!(matches!(&parts[0], Outline::Sequence(parts) if parts.len() == 2), "{parts:?}");
    }

    #[test]
    fn the_prompt_says_whether_there_is_thinking() {
        let format = OutputFormat::of_template("<think></think>");
        let start = |tail| thinking(&format, tail, Some(7)).map(|thinking| (thinking.start, thinking.max_tokens));
        assert_eq!(start("<|im_start|>assistant\n"), Some((ThinkingStart::MayBegin, Some(7))));
        assert_eq!(start("<|im_start|>assistant\n<think>\n"), Some((ThinkingStart::Begun, Some(7))));
        assert_eq!(start("<|im_start|>assistant\n<think>\n\n</think>\n\n"), None);
        assert_eq!(thinking(&OutputFormat::of_template(""), "", None), None);
    }
}
