//! Jinja2's filters: `value | name`, with `tojson` as Hugging Face has it.

mod numbers;
mod select;
mod sequences;
mod text;

use super::arguments::Arguments;
use super::failure::{Result, fail};
use super::interpreter::Interpreter;
use super::value::Value;

/// Filters for text.
const OF_TEXT: [&str; 25] = [
    "capitalize",
    "center",
    "e",
    "escape",
    "forceescape",
    "format",
    "indent",
    "lower",
    "replace",
    "safe",
    "string",
    "striptags",
    "title",
    "trim",
    "truncate",
    "upper",
    "urlencode",
    "wordcount",
    "xmlattr",
    "pprint",
    "tojson",
    "urlize",
    "wordwrap",
    "join",
    "filesizeformat",
];
const OF_NUMBERS: [&str; 6] = ["abs", "float", "int", "round", "sum", "random"];
const OF_SEQUENCES: [&str; 18] = [
    "attr", "batch", "count", "d", "default", "dictsort", "first", "groupby", "items", "last", "length", "list", "max",
    "min", "reverse", "slice", "sort", "unique",
];
const THAT_SELECT: [&str; 5] = ["map", "reject", "rejectattr", "select", "selectattr"];

/// Whether there is a filter of this name.
pub(super) fn exists(name: &str) -> bool {
    OF_TEXT.contains(&name) || OF_NUMBERS.contains(&name) || OF_SEQUENCES.contains(&name) || THAT_SELECT.contains(&name)
}

/// Applies a filter.
pub(super) fn call(interpreter: &mut Interpreter<'_>, name: &str, value: &Value, args: Arguments) -> Result<Value> {
    if OF_TEXT.contains(&name) {
        text::call(name, value, args)
    } else if OF_NUMBERS.contains(&name) {
        numbers::call(name, value, args)
    } else if OF_SEQUENCES.contains(&name) {
        sequences::call(name, value, args)
    } else if THAT_SELECT.contains(&name) {
        interpreter.deeper(|it| select::call(it, name, value, args))
    } else {
        fail(format!("there is no filter '{name}'"))
    }
}
