//! `zinc template`: a conversation as the model's chat template renders it. Needs only the vocabulary of a file.

use std::path::Path;

use serde_json::Value;
use zinc_model::{ChatInput, gguf};

use crate::args::TemplateArgs;
use crate::error::{Error, Result};
use crate::{chat_template, demo, output, text_file};

pub(crate) fn run(args: &TemplateArgs) -> Result<()> {
    let file = gguf::File::open(demo::resolve(args.model.model.as_deref())?)?;
    let template = chat_template::of(&args.template, &file)?;
    let input = ChatInput {
        messages: read_objects(&args.messages, "message")?,
        tools: args.tools.as_deref().map(|path| read_objects(path, "tool")).transpose()?,
        kwargs: args.kwargs.clone().unwrap_or_default(),
        add_generation_prompt: !args.no_generation_prompt,
    };
    output::stdout(&template.render(&input)?)
}

/// The JSON array of objects in a file, each of them a `what`.
fn read_objects(path: &Path, what: &str) -> Result<Value> {
    objects(&text_file::read(path)?, what).map_err(|reason| Error::Content { path: path.to_owned(), reason })
}

/// A text as a JSON array of objects, each of them a `what`.
///
/// # Errors
/// What the text is instead.
fn objects(text: &str, what: &str) -> Result<Value, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| format!("is not JSON: {error}"))?;
    let Value::Array(values) = &value else {
        return Err(format!("holds {} and not an array of {what}s, each an object", kind(&value)));
    };
    match values.iter().enumerate().find(|(_, value)| !value.is_object()) {
        Some((index, other)) => Err(format!("{what} {} is {} and not an object", index + 1, kind(other))),
        None => Ok(value),
    }
}

/// What a JSON value is, for the user.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_a_list_of_objects_is_named() {
        for (text, reason) in [
            ("{}", "holds an object and not an array of messages, each an object"),
            (r#""hi""#, "holds a string and not an array of messages, each an object"),
            ("null", "holds null and not an array of messages, each an object"),
            (r#"["hi"]"#, "message 1 is a string and not an object"),
            (r#"[{}, 1]"#, "message 2 is a number and not an object"),
            (r#"[{}, {}, [{}]]"#, "message 3 is an array and not an object"),
            ("[null]", "message 1 is null and not an object"),
            ("[true]", "message 1 is a truth value and not an object"),
        ] {
            assert_eq!(objects(text, "message"), Err(reason.to_owned()), "{text}");
        }
        assert!(objects("[", "message").unwrap_err().starts_with("is not JSON: "));
        assert!(objects("[]", "message").is_ok() && objects(r#"[{"role": 1}]"#, "tool").is_ok());
    }
}
