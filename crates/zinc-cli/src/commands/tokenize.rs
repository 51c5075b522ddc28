//! `zinc tokenize`: text to token ids. Needs only the vocabulary of a file.

use std::fmt::Write as _;

use serde::Serialize;
use zinc_model::{Special, Tokenizer, gguf};

use crate::args::{Format, TokenizeArgs};
use crate::error::Result;
use crate::prompt::{self, Newline};
use crate::{demo, output};

#[derive(Serialize)]
struct Tokens {
    ids: Vec<u32>,
    /// The text of each id. Bytes that are not a whole character by themselves are shown as U+FFFD.
    pieces: Vec<String>,
    /// All ids decoded.
    text: String,
}

pub(crate) fn run(args: &TokenizeArgs) -> Result<()> {
    let file = gguf::File::open(demo::resolve(args.model.model.as_deref())?)?;
    let tokenizer = Tokenizer::from_gguf(&file)?;
    let text = prompt::read_text(&args.text, Newline::Keep)?;
    let special = if args.parse_special { Special::Parse } else { Special::Plain };
    let ids = tokenizer.encode(&text, special)?;
    let pieces = ids.iter().map(|&id| tokenizer.decode_inside(&[id])).collect();
    let tokens = Tokens { text: tokenizer.decode(&ids), pieces, ids };
    match args.format.format() {
        Format::Json => output::stdout_json(&tokens),
        Format::Text => output::stdout(&table(&tokens)),
    }
}

fn table(tokens: &Tokens) -> String {
    let mut table = String::new();
    for (id, piece) in tokens.ids.iter().zip(&tokens.pieces) {
        writeln!(table, "{id:>7}  '{}'", piece.escape_debug()).expect("a string takes everything");
    }
    table
}
