//! Texts that are written by a grammar, over a vocabulary of the 256 bytes.

use std::panic;
use std::sync::LazyLock;

use zinc_model::gguf::{File, Writer};
use zinc_model::tokenizer::Tokenizer;
use zinc_sched::grammar::{GrammarCompiler, GrammarError, GrammarSource};
use zinc_sched::{Guide, Verdict};

/// The token that ends a text. The tokens before it are the bytes.
const END: u32 = 256;

/// A tokenizer whose tokens are the bytes, in order, and [`END`].
pub static BYTES: LazyLock<Tokenizer> = LazyLock::new(|| {
    let mut pieces: Vec<String> = (0..=255).map(|byte: u8| format!("<0x{byte:02X}>")).collect();
    pieces.push("</s>".to_owned());
    let mut kinds = vec![6_i32; 256];
    kinds.push(3);
    let mut writer = Writer::new();
    writer
        .set("tokenizer.ggml.model", "llama")
        .set("tokenizer.ggml.scores", vec![0.0_f32; pieces.len()])
        .set("tokenizer.ggml.tokens", pieces)
        .set("tokenizer.ggml.token_type", kinds)
        .set("tokenizer.ggml.eos_token_id", END);
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    writer.write(file.path(), |_, _| Ok(())).expect("a vocabulary without tensors can be written");
    let file = File::open(file.path()).expect("what was written can be read");
    Tokenizer::from_gguf(&file).expect("the vocabulary is complete")
});

static COMPILER: LazyLock<GrammarCompiler> =
    LazyLock::new(|| GrammarCompiler::new(&BYTES).expect("a small vocabulary"));

/// Makes a panic end the process only where it leaves a target. libFuzzer's own hook ends it at once, but the library that follows grammars
/// asserts its limits, and such panics are caught and become errors.
pub fn let_panics_be_caught() {
    panic::set_hook(Box::new(|_| {}));
}

/// Compiles a source and writes a text by it, each byte of which one of `choices` chooses among those that are allowed. Returns the text and
/// whether it may end there; `None` if the source is refused, or was too much work for one step.
///
/// # Panics
/// If a byte that was allowed is refused, or nothing is allowed.
#[must_use]
pub fn written(source: &GrammarSource, choices: &[u8]) -> Option<(Vec<u8>, bool)> {
    let mut matcher = COMPILER.compile(source).ok()?.matcher();
    let mut guide = Guide::new(END + 1);
    let mut text = Vec::new();
    for choice in choices {
        guide.reset();
        match matcher.guide(&mut guide) {
            Ok(Verdict::Choose) => {}
            Ok(Verdict::Complete) => return Some((text, true)),
            Err(GrammarError::TooComplex { .. }) => return None,
            Err(error) => failed(source, &text, &error.to_string()),
        }
        let allowed: Vec<u8> = (0..=255).filter(|byte| guide.allows(u32::from(*byte))).collect();
        if allowed.is_empty() {
            // The mask is not the verdict "complete" alone where the end is a token.
            if !guide.allows(END) {
                failed(source, &text, "nothing is allowed");
            }
            return Some((text, true));
        }
        let byte = allowed[usize::from(*choice) % allowed.len()];
        match matcher.accept(u32::from(byte)) {
            Ok(()) => text.push(byte),
            Err(GrammarError::TooComplex { .. }) => return None,
            Err(error) => failed(source, &text, &error.to_string()),
        }
    }
    let may_end = matcher.is_accepting();
    Some((text, may_end))
}

/// Ends the process, and says what has gone wrong: panics are silent here.
fn failed(source: &GrammarSource, text: &[u8], reason: &str) -> ! {
    report(&format!("{reason}, after {:?} under {source:?}", text.escape_ascii().to_string()))
}

/// Ends the process with a message.
pub fn report(message: &str) -> ! {
    eprintln!("{message}");
    std::process::abort();
}
