//! Grammars of llama.cpp: each is refused, or texts can be written by it.

use zinc_sched::grammar::GrammarSource;

use crate::grammar::written;
use crate::text::{split, text};

/// The first 16 bytes choose what is written by the grammar behind them.
pub fn check(data: &[u8]) {
    let (choices, grammar) = split::<16>(data);
    let _ = written(&GrammarSource::Gbnf(text(grammar).into_owned()), &choices);
}
