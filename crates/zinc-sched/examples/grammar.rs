//! Measures what a JSON schema costs the host, with random texts over the vocabulary of a model.
//!
//! `cargo run --release -p zinc-sched --example grammar -- [MODEL.gguf] [SCHEMA.json] [TEXTS]`. Without files, the vocabulary of Qwen3 and a
//! small schema are used.

#![allow(clippy::print_stdout, reason = "an example shows its result")]

use std::error::Error;
use std::time::{Duration, Instant};

use zinc_model::gguf::File;
use zinc_model::tokenizer::Tokenizer;
use zinc_sched::grammar::{GrammarCompiler, GrammarSource};
use zinc_sched::{Guide, Verdict};

/// The schema that is used if none is named. The figures in docs/constraints.md are of it.
const SCHEMA: &str = r##"{
    "type": "object",
    "properties": {
        "name": { "type": "string", "minLength": 1, "maxLength": 60 },
        "age": { "type": "integer", "minimum": 0, "maximum": 150 },
        "email": { "type": "string", "format": "email" },
        "biography": { "type": "string" },
        "tags": { "type": "array", "items": { "enum": ["red", "green", "blue"] }, "maxItems": 5 },
        "address": { "anyOf": [{ "type": "null" }, { "$ref": "#/$defs/address" }] }
    },
    "required": ["name", "age", "biography", "tags", "address"],
    "additionalProperties": false,
    "$defs": {
        "address": {
            "type": "object", "required": ["street", "zip"], "additionalProperties": false,
            "properties": { "street": { "type": "string" }, "zip": { "type": "string", "pattern": "^[0-9]{5}$" } }
        }
    }
}"##;
/// The most tokens of a text.
const MAX_TOKENS: usize = 500;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let vocabulary = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/host/qwen3-vocab.gguf");
    let model = arguments.first().map_or(vocabulary, String::as_str);
    let schema = arguments.get(1).map_or_else(|| Ok(SCHEMA.to_owned()), std::fs::read_to_string)?;
    let texts: u32 = arguments.get(2).map_or(Ok(2), |text| text.parse())?;
    let tokenizer = Tokenizer::from_gguf(&File::open(model)?)?;
    let (compiler, time) = timed(|| GrammarCompiler::new(&tokenizer));
    let compiler = compiler?;
    println!("compiler for {} tokens: {time:.2?}", tokenizer.vocab_size());
    let (grammar, time) = timed(|| compiler.compile(&GrammarSource::JsonSchema(schema)));
    let grammar = grammar?;
    println!("grammar: {time:.2?}");

    let (mut starts, mut masks, mut accepts) = (Vec::new(), Vec::new(), Vec::new());
    let mut guide = Guide::new(u32::try_from(tokenizer.vocab_size())?);
    let mut random = 1u64;
    for _ in 0..texts {
        let (mut matcher, time) = timed(|| grammar.matcher());
        starts.push(time);
        for _ in 0..MAX_TOKENS {
            guide.reset();
            let (verdict, time) = timed(|| matcher.guide(&mut guide));
            masks.push(time);
            if verdict? == Verdict::Complete {
                break;
            }
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let id =
                allowed(&guide).nth((random >> 33) as usize % guide.allowed() as usize).ok_or("nothing is allowed")?;
            let (accepted, time) = timed(|| matcher.accept(id));
            accepted?;
            accepts.push(time);
        }
    }
    report("fresh matcher", starts);
    report("mask", masks);
    report("accept", accepts);
    Ok(())
}

/// The ids that a guide allows.
fn allowed(guide: &Guide) -> impl Iterator<Item = u32> {
    let words = (0..).zip(guide.mask());
    words.flat_map(|(index, &word)| (0..32).filter(move |bit| word >> bit & 1 == 1).map(move |bit| index * 32 + bit))
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let result = work();
    (result, start.elapsed())
}

fn report(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize];
    let mean = times.iter().sum::<Duration>() / u32::try_from(times.len()).unwrap_or(u32::MAX);
    let count = times.len();
    println!(
        "{what}: {count} times, mean {mean:.1?}, median {:.1?}, 99 % {:.1?}, 99.9 % {:.1?}, most {:.1?}",
        at(0.5),
        at(0.99),
        at(0.999),
        at(1.0)
    );
}
