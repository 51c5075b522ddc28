//! Jinja2 3.1 as Hugging Face's libraries set it up for chat templates: Python's values, the immutable sandbox, blocks
//! trimmed, `break` and `continue`, nothing escaped by itself.
//!
//! Each template gives the text that it gives there, or an error: what is not supported is refused. Templates come from
//! files that nobody has checked, so nesting, steps, text and values have limits.

mod arguments;
mod arithmetic;
mod ast;
mod attributes;
mod compare;
mod expressions;
mod failure;
mod filters;
mod float;
mod format_spec;
mod globals;
mod html;
mod interpreter;
mod json;
mod lexer;
mod loops;
mod macros;
mod methods;
mod names;
mod parser;
mod percent_format;
mod print;
mod str_format;
mod type_tests;
mod unicode;
mod value;

use std::collections::HashMap;
use std::time::SystemTime;

pub(super) use self::failure::Failure;
use self::failure::Result;
pub(super) use self::value::{MAX_DEPTH, Value};

/// A compiled template.
#[derive(Debug)]
pub(super) struct Template(ast::Template);

impl Template {
    /// Compiles a template.
    pub(super) fn new(source: &str) -> Result<Self> {
        let mut template = parser::parse(source)?;
        names::resolve(&mut template).map_err(|failure| failure.at(1))?;
        Ok(Self(template))
    }

    /// Renders the template with variables. `now` is the time in UTC that it is told, in the place of the present.
    pub(super) fn render(&self, variables: &HashMap<String, Value>, now: Option<SystemTime>) -> Result<String> {
        interpreter::render(&self.0, variables, now, interpreter::MAX_STEPS)
    }
}

/// The value of a JSON value, which is nested no deeper than [`MAX_DEPTH`].
pub(super) fn from_json(value: &serde_json::Value) -> Result<Value> {
    Ok(match value {
        serde_json::Value::Null => Value::None,
        serde_json::Value::Bool(value) => Value::Bool(*value),
        serde_json::Value::Number(number) => {
            let integer = number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from));
            integer.map_or_else(|| Value::Float(number.as_f64().unwrap_or(f64::NAN)), Value::Int)
        }
        serde_json::Value::String(text) => Value::str(text),
        serde_json::Value::Array(values) => Value::list(values.iter().map(from_json).collect::<Result<_>>()?)?,
        serde_json::Value::Object(map) => {
            let pairs = map.iter().map(|(key, value)| Ok((Value::str(key), from_json(value)?)));
            Value::dict(pairs.collect::<Result<Vec<_>>>()?)?
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_that_runs_too_long_fails() {
        let template = Template::new("{% for i in range(1000) %}{% for j in range(1000) %}{% endfor %}{% endfor %}");
        let template = template.unwrap();
        let failure = interpreter::render(&template.0, &HashMap::new(), None, 10_000).unwrap_err();
        assert!(failure.message.contains("too many steps"), "{}", failure.message);
        assert!(interpreter::render(&template.0, &HashMap::new(), None, 10_000_000).is_ok());
    }
}
