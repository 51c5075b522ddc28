//! A vocabulary of the 256 bytes, for tests that hold whole texts against a grammar.

use std::sync::{Arc, LazyLock};

use llguidance::api::GrammarInit;
use llguidance::toktrie::{ApproximateTokEnv, INVALID_TOKEN, TokEnv, TokRxInfo, TokTrie};
use llguidance::{ParserFactory, TokenParser};

/// Makes parsers over the bytes.
pub(super) static BYTES: LazyLock<ParserFactory> = LazyLock::new(|| {
    let words: Vec<Vec<u8>> = (0..=255).map(|byte| vec![byte]).collect();
    let trie = TokTrie::from(&TokRxInfo::new(256, INVALID_TOKEN), &words);
    let environment: TokEnv = Arc::new(ApproximateTokEnv::new(trie));
    super::configured(ParserFactory::new_simple(&environment).unwrap())
});

/// A parser at the start of a text.
pub(super) fn parser(grammar: GrammarInit) -> Result<TokenParser, String> {
    let mut parser = BYTES.create_parser_from_init_default(grammar).map_err(|error| error.to_string())?;
    parser.start_without_prompt();
    Ok(parser)
}

/// Whether a text matches the grammar of a parser; `None` if no text that starts with it does.
pub(super) fn matches(parser: &TokenParser, text: &str) -> Option<bool> {
    let mut parser = parser.clone();
    for byte in text.bytes() {
        if !parser.validate_token(u32::from(byte)).unwrap() {
            return None;
        }
        parser.consume_token(u32::from(byte)).unwrap();
    }
    Some(parser.is_accepting())
}
