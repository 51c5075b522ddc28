//! What fuzzing begins with: for each target inputs that are made of the tests' data.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;
use zinc_model::gguf::{File, Writer};

use crate::template::CASES;

/// Where the tests' data are.
const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/data");

/// What an input of the grammars' targets has before the grammar: choices, by which short and long texts come out.
const CHOICES: [u8; 48] =
    *b"\x00\x01\x02\x03\x05\x08\x0d\x15\x22\x37\x59\x90\xe9\x01\x00\x02abcdefghijklmnopqrstuvwxyzABCDEF";

/// Answers in every form, for the target that takes one apart.
const ANSWERS: [&str; 6] = [
    "<think>\nEasy.\n</think>\n\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Köln\"}}\n</tool_call>",
    "So:\n<tool_call>\n<function=weather>\n<parameter=city>\nKöln\n</parameter>\n<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>",
    "Hm.</think><｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>now\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    "<|python_tag|>{\"name\": \"now\", \"parameters\": {}}; {\"name\": \"write\", \"parameters\": {\"path\": \"a\"}}",
    "{\"arguments\": {\"a\": [1, {}]}, \"name\": \"now\"}",
    "A </think> and a <tool_call> that is none.",
];

/// Grammars with everything that the syntax has.
const GRAMMARS: [&str; 4] = [
    "root ::= (expr \"=\" ws term \"\\n\")+\nexpr ::= term ([-+*/] term)*\nterm ::= ident | num | \"(\" ws expr \")\" ws\n\
     ident ::= [a-z] [a-z0-9_]* ws\nnum ::= [0-9]+ ws\nws ::= [ \\t\\n]*",
    "root ::= item+ # a list\nitem ::= \"- \" [^\\n]+ \"\\n\"",
    "root ::= \"ab\"{2,3} ([^a-f\\x41\\u00e9]{,2} | . \"\\\"\")? root? | \"\"",
    "root ::= \"x\" root \"y\" | \"\"",
];

/// The environment variable that names the directory.
const DIRECTORY: &str = "ZINC_FUZZ_SEEDS";

/// Writes the inputs of a target into the directory that the environment variable `ZINC_FUZZ_SEEDS` names, numbered; without it does nothing.
///
/// # Panics
/// If they cannot be written.
pub fn write(target: &str) {
    let Some(directory) = env::var_os(DIRECTORY).map(PathBuf::from) else { return };
    let write = |(number, input): (usize, Vec<u8>)| fs::write(directory.join(format!("{number:04}")), input);
    let written = inputs(target).and_then(|inputs| inputs.into_iter().enumerate().try_for_each(write));
    written.unwrap_or_else(|error| panic!("the inputs of {target}, in {}: {error}", directory.display()));
}

fn inputs(target: &str) -> io::Result<Vec<Vec<u8>>> {
    Ok(match target {
        // With each setup, cut at four places.
        "answer" => {
            let with = |answer: &&str| {
                (0..8).map(|setup| [&[setup, 40, 90, 140, 190], answer.as_bytes()].concat()).collect::<Vec<_>>()
            };
            ANSWERS.iter().flat_map(with).collect()
        }
        "gbnf" => GRAMMARS.iter().map(|grammar| [&CHOICES[..16], grammar.as_bytes()].concat()).collect(),
        "gguf" => files()?,
        "schema" => {
            let cases = json(&Path::new(DATA).join("constraints/schemas.json"))?;
            texts(&cases, "schema").map(|schema| [&CHOICES[..], schema.as_bytes()].concat()).collect()
        }
        "template" => texts(&CASES["cases"], "template").map(|template| template.as_bytes().to_vec()).collect(),
        _ => return Err(io::Error::other("there is no such target")),
    })
}

/// The texts under one name in a list of cases.
fn texts<'c>(cases: &'c Value, name: &str) -> impl Iterator<Item = &'c str> {
    cases.as_array().into_iter().flatten().filter_map(move |case| case[name].as_str())
}

/// The beginnings of small models' files, up to the tensors' data, and a file with arrays in arrays.
fn files() -> io::Result<Vec<Vec<u8>>> {
    let mut files = vec![fs::read(Path::new(DATA).join("gguf/nested.gguf"))?];
    for name in ["llama-f16", "qwen2-f16", "qwen3-f16", "qwen3moe-a-q4_k_m"] {
        let path = Path::new(DATA).join(format!("tiny/{name}.gguf"));
        let mut writer = Writer::new();
        let file = File::open(path).map_err(io::Error::other)?;
        for (key, value) in file.metadata().iter() {
            writer.set(key, value.clone());
        }
        for tensor in file.tensors() {
            writer.tensor(&tensor.name, &tensor.shape, tensor.format);
        }
        let mut bytes = Vec::new();
        writer.write_to(&mut bytes, |tensor, out| out.write_all(&vec![0; tensor.bytes as usize]))?;
        // The target appends zeros for the data.
        let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        bytes.truncate(end);
        files.push(bytes);
    }
    Ok(files)
}

fn json(path: &Path) -> io::Result<Value> {
    serde_json::from_slice(&fs::read(path)?).map_err(io::Error::other)
}
