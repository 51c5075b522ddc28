//! Measures what a JSON schema costs the host, with random texts over the vocabulary of a model.
//!
//! `cargo run --release -p zinc-sched --example grammar -- MODEL.gguf SCHEMA.json [TEXTS]`

use std::error::Error;
use std::time::{Duration, Instant};

use zinc_model::gguf::File;
use zinc_model::tokenizer::Tokenizer;
use zinc_sched::adapter::grammar::{GrammarCompiler, GrammarSource};
use zinc_sched::{Guide, Verdict};

/// The most tokens of a text.
const MAX_TOKENS: usize = 500;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (model, schema, texts) = match &arguments[..] {
        [model, schema] => (model, schema, 50),
        [model, schema, texts] => (model, schema, texts.parse()?),
        _ => return Err("MODEL.gguf SCHEMA.json [TEXTS]".into()),
    };
    let tokenizer = Tokenizer::from_gguf(&File::open(model)?)?;
    let (compiler, time) = timed(|| GrammarCompiler::new(&tokenizer));
    let compiler = compiler?;
    println!("compiler for {} tokens: {time:.2?}", tokenizer.vocab_size());
    let schema = std::fs::read_to_string(schema)?;
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
