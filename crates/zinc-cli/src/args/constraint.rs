//! What the text of an answer has to match.

use std::path::{Path, PathBuf};

use zinc_sched::grammar::GrammarSource;

use crate::error::Result;
use crate::text_file;

/// A JSON schema, a grammar or a regular expression for the answer; one of them at most.
#[derive(Debug, clap::Args)]
#[group(multiple = false)]
pub(crate) struct ConstraintArgs {
    /// JSON schema of the answer: a file, or the schema itself where it begins with `{`
    #[arg(short, long, value_name = "FILE|JSON", help_heading = HEADING)]
    json_schema: Option<String>,
    /// File with the JSON schema of the answer [-jf]
    #[arg(long, value_name = "FILE", help_heading = HEADING)]
    json_schema_file: Option<PathBuf>,
    /// Grammar of the answer, in GBNF or Lark: a file, or the grammar itself where it has a rule (`root ::=` or `start:`)
    #[arg(long, value_name = "FILE|TEXT", help_heading = HEADING)]
    grammar: Option<String>,
    /// File with the grammar of the answer
    #[arg(long, value_name = "FILE", help_heading = HEADING)]
    grammar_file: Option<PathBuf>,
    /// Regular expression for the whole answer
    #[arg(long, value_name = "PATTERN", allow_hyphen_values = true, help_heading = HEADING)]
    regex: Option<String>,
}

const HEADING: &str = "Constraints";

impl ConstraintArgs {
    /// What was asked for, files read.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub(crate) fn source(&self) -> Result<Option<GrammarSource>> {
        let text_or_file = |value: &str, is_text: fn(&str) -> bool| {
            // A text from a file, as in "$(cat schema.json)", may begin with a byte order mark.
            let value = value.trim_start_matches('\u{feff}');
            if is_text(value) { Ok(value.to_owned()) } else { text_file::read(Path::new(value)) }
        };
        Ok(Some(if let Some(value) = &self.json_schema {
            GrammarSource::JsonSchema(text_or_file(value, is_schema)?)
        } else if let Some(path) = &self.json_schema_file {
            GrammarSource::JsonSchema(text_file::read(path)?)
        } else if let Some(value) = &self.grammar {
            GrammarSource::grammar(text_or_file(value, is_grammar)?)
        } else if let Some(path) = &self.grammar_file {
            GrammarSource::grammar(text_file::read(path)?)
        } else if let Some(pattern) = &self.regex {
            GrammarSource::Regex(pattern.clone())
        } else {
            return Ok(None);
        }))
    }
}

fn is_schema(value: &str) -> bool {
    value.trim_start().starts_with('{')
}

fn is_grammar(value: &str) -> bool {
    value.contains("::=") || value.contains('\n') || value.trim_start().starts_with("start:")
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::error::Error;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        constraint: ConstraintArgs,
    }

    fn source(arguments: &[&str]) -> Result<Option<GrammarSource>> {
        let line = Line::try_parse_from(std::iter::once(&"zinc").chain(arguments))?;
        line.constraint.source()
    }

    #[test]
    fn values_are_texts_or_files() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = directory.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let (schema, gbnf, lark) = (write("s.json", "true"), write("g", "# g\nroot ::= x"), write("l", "start: \"x\""));

        let schema_text = |text: &str| GrammarSource::JsonSchema(text.to_owned());
        assert_eq!(source(&["-j", " {}"]).unwrap(), Some(schema_text(" {}")));
        assert_eq!(source(&["--json-schema", &schema]).unwrap(), Some(schema_text("true")));
        assert_eq!(source(&["--json-schema-file", &schema]).unwrap(), Some(schema_text("true")));

        let gbnf_text = |text: &str| GrammarSource::Gbnf(text.to_owned());
        assert_eq!(source(&["--grammar", "root ::= x"]).unwrap(), Some(gbnf_text("root ::= x")));
        assert_eq!(source(&["--grammar", &gbnf]).unwrap(), Some(gbnf_text("# g\nroot ::= x")));
        let lark_text = |text: &str| GrammarSource::Lark(text.to_owned());
        assert_eq!(source(&["--grammar", "start: X"]).unwrap(), Some(lark_text("start: X")));
        assert_eq!(source(&["--grammar-file", &lark]).unwrap(), Some(lark_text("start: \"x\"")));

        // A byte order mark at the beginning of either is none of the text.
        let marked = |text: &str| format!("\u{feff}{text}");
        assert_eq!(source(&["-j", &marked("{}")]).unwrap(), Some(schema_text("{}")));
        assert_eq!(source(&["-j", &write("m.json", &marked("{}"))]).unwrap(), Some(schema_text("{}")));
        assert_eq!(
            source(&["--json-schema-file", &write("o.json", &marked("true"))]).unwrap(),
            Some(schema_text("true"))
        );
        let gbnf_file = write("p.gbnf", &marked("root ::= x"));
        assert_eq!(source(&["--grammar", &marked("root ::= x")]).unwrap(), Some(gbnf_text("root ::= x")));
        assert_eq!(source(&["--grammar", &gbnf_file]).unwrap(), Some(gbnf_text("root ::= x")));
        assert_eq!(source(&["--grammar-file", &gbnf_file]).unwrap(), Some(gbnf_text("root ::= x")));
        assert_eq!(
            source(&["--grammar-file", &write("q.lark", &marked("start: \"x\""))]).unwrap(),
            Some(lark_text("start: \"x\""))
        );

        assert_eq!(source(&["--regex", "-+"]).unwrap(), Some(GrammarSource::Regex("-+".to_owned())));
        assert_eq!(source(&[]).unwrap(), None);
        assert!(matches!(source(&["--grammar", "no/such/file"]), Err(Error::Read { .. })));
    }

    #[test]
    fn one_constraint_at_most() {
        let both = source(&["--regex", "x", "--json-schema", "{}"]);
        assert!(matches!(both, Err(Error::Usage { .. })), "{both:?}");
        assert!(matches!(source(&["--grammar", "x", "--grammar-file", "y"]), Err(Error::Usage { .. })));
    }
}
