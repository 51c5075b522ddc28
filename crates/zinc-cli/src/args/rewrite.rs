//! From a command line in llama.cpp's spelling to one that clap reads.
//!
//! llama.cpp has flags of several letters behind one dash (`-ctk`), which clap does not know: they become their long forms. Underscores in long
//! flags become dashes. Flags of llama.cpp that zinc does not have are taken out with a note, or are an error; see [`foreign`](super::foreign).
//! What follows a flag that takes a value is left alone, whatever it looks like.

use std::ffi::OsString;

use super::foreign::{self, Takes};
use crate::error::{Error, Result};

/// Spellings of llama.cpp for flags that zinc has by another name.
const SPELLINGS: [(&str, &str); 22] = [
    ("-ctk", "--cache-type-k"),
    ("-ctv", "--cache-type-v"),
    ("-ctxcp", "--ctx-checkpoints"),
    ("-dev", "--device"),
    ("-jf", "--json-schema-file"),
    ("-md", "--draft"),
    ("-np", "--parallel"),
    ("-npl", "--npl"),
    ("-npp", "--npp"),
    ("-ntg", "--ntg"),
    ("-pg", "--n-prompt-gen"),
    ("-sys", "--system-prompt"),
    ("-sysf", "--system-prompt-file"),
    ("-to", "--timeout"),
    ("-ub", "--ubatch-size"),
    ("--cors-origins", "--cors-origin"),
    ("--spec-draft-model", "--draft"),
    ("--draft-n", "--draft-max"),
    ("--spec-draft-n-max", "--draft-max"),
    ("--sampling-seq", "--sampler-seq"),
    ("--log-verbose", "--verbose"),
    ("--usage", "--help"),
];

/// The flag that stands for `--spec-type draft-mtp`.
const MTP_FLAG: &str = "--draft-mtp";

/// A command line for clap.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Rewritten {
    /// The program's name and its arguments.
    pub(super) arguments: Vec<OsString>,
    /// What the user is told of flags that were left out.
    pub(super) notes: Vec<String>,
}

/// Rewrites the arguments of the process, the program's name first, for a built definition of the command line.
///
/// # Errors
/// [`Error::Usage`] for a flag of llama.cpp that would change the answer and that zinc does not have, or that lacks its value.
pub(super) fn rewrite(definition: &clap::Command, arguments: impl IntoIterator<Item = OsString>) -> Result<Rewritten> {
    let mut arguments = arguments.into_iter().peekable();
    let mut rewritten = Rewritten { arguments: arguments.next().into_iter().collect(), notes: Vec::new() };
    let mut command: Option<&clap::Command> = None;
    while let Some(argument) = arguments.next() {
        let Some(text) = argument.to_str() else {
            rewritten.arguments.push(argument);
            continue;
        };
        if text == "--" {
            rewritten.arguments.push(argument);
            rewritten.arguments.extend(arguments);
            break;
        }
        if !text.starts_with('-') || text == "-" {
            command = command.or_else(|| definition.find_subcommand(text));
            rewritten.arguments.push(argument);
            continue;
        }
        let (name, value) = split(text);
        let definition = command.unwrap_or(definition);
        if name == "--spec-type" && find_known(definition, MTP_FLAG).is_some() {
            // There a word says what drafts, and here a flag.
            let word = value.or_else(|| arguments.peek().and_then(|next| next.to_str()));
            if word == Some("draft-mtp") {
                if value.is_none() {
                    arguments.next();
                }
                rewritten.arguments.push(MTP_FLAG.into());
                continue;
            }
        }
        if let Some(known) = find_known(definition, &name) {
            rewritten.arguments.push(joined(&name, value).into());
            if value.is_none() && known.get_action().takes_values() {
                rewritten.arguments.extend(arguments.next());
            }
            continue;
        }
        let takes_a_model = find_known(definition, "--model").is_some();
        let Some(flag) = foreign::find(definition.get_name(), &name).filter(|_| takes_a_model) else {
            // A cluster of short flags, a value behind a short flag, or a mistake: clap knows.
            rewritten.arguments.push(joined(&name, value).into());
            continue;
        };
        let is_value = |word: &OsString| match flag.takes {
            Takes::Value => true,
            Takes::Switch => word.to_str().is_some_and(foreign::is_switch_word),
        };
        let value = match value {
            Some(value) => Some(value.to_owned()),
            None => arguments.next_if(is_value).map(|word| word.to_string_lossy().into_owned()),
        };
        let note = flag.judge(&name, value.as_deref()).map_err(Error::usage)?;
        if flag.takes == Takes::Value && value.is_none() {
            return Err(Error::usage(format!("{name} lacks its value, and can be left out: {note}")));
        }
        if !rewritten.notes.contains(&note) {
            rewritten.notes.push(note);
        }
    }
    Ok(rewritten)
}

/// The flag's name, as zinc spells it, and the value behind an equals sign.
fn split(text: &str) -> (String, Option<&str>) {
    let (name, value) = match text.split_once('=') {
        Some((name, value)) if name.starts_with("--") => (name, Some(value)),
        _ => (text, None),
    };
    let name = if name.starts_with("--") { name.replace('_', "-") } else { name.to_owned() };
    let spelled = SPELLINGS.iter().find(|(theirs, _)| *theirs == name);
    (spelled.map_or(name, |(_, ours)| (*ours).to_owned()), value)
}

fn joined(name: &str, value: Option<&str>) -> String {
    value.map_or(name.to_owned(), |value| format!("{name}={value}"))
}

/// The flag of a command with this name, which may be an alias, as it is written on the command line.
fn find_known<'a>(command: &'a clap::Command, name: &str) -> Option<&'a clap::Arg> {
    let is_named = |argument: &&clap::Arg| match name.strip_prefix("--") {
        Some(long) => {
            argument.get_long_and_visible_aliases().is_some_and(|names| names.contains(&long))
                || argument.get_all_aliases().is_some_and(|names| names.contains(&long))
        }
        None => {
            let mut letters = name.chars().skip(1);
            let letter = (letters.next(), letters.next());
            matches!(letter, (Some(letter), None) if argument.get_short() == Some(letter))
        }
    };
    command.get_arguments().find(is_named)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    fn rewritten(line: &[&str]) -> Result<Rewritten> {
        let mut definition = super::super::Arguments::command();
        definition.build();
        rewrite(&definition, std::iter::once(&"zinc").chain(line).map(OsString::from))
    }

    /// What clap sees of a line, and the notes.
    fn seen(line: &[&str]) -> (Vec<String>, Vec<String>) {
        let rewritten = rewritten(line).unwrap_or_else(|error| panic!("{line:?}: {error}"));
        let words = rewritten.arguments.into_iter().skip(1).map(|word| word.into_string().unwrap());
        (words.collect(), rewritten.notes)
    }

    #[test]
    fn a_command_line_of_llama_cpp_loses_what_means_nothing_here() {
        for (line, left, notes) in [
            (
                "run -ngl 99 -fa on -cnv -st --no-mmap -t 8 -b 512 -ub 256 -fit off -p x",
                "run --ubatch-size 256 -p x",
                8,
            ),
            ("run --n-gpu-layers all --flash-attn --temp 0 -fa 1", "run --temp 0", 3),
            ("run --n_gpu_layers=99 --threads=8 --mlock -m a", "run -m a", 3),
            ("chat -i --jinja --color --simple-io -lv 3 --no-warmup", "chat --simple-io", 5),
            ("bench -ngl 0,99 -fa 1 -mmp 0 -nkvo 0 -p 512 -n 128", "bench -p 512 -n 128", 4),
            ("run -t -1 --keep -1 -ngl -1", "run", 3),
            ("run --mirostat 0 -mg 0 --dynatemp-range 0.0 --reasoning-budget -1 -rea auto", "run", 5),
            ("run -ngl 1 -ngl 1 -p x", "run -p x", 1),
            ("tokenize -ngl 99 -p x", "tokenize -p x", 1),
        ] {
            let (words, notices) = seen(&line.split(' ').collect::<Vec<_>>());
            assert_eq!((words.join(" ").as_str(), notices.len()), (left, notes), "{line}: {notices:?}");
            for note in &notices {
                assert!(note.contains(" changes nothing: ") && !note.contains('\n'), "{note}");
            }
        }
        let note = &seen(&["run", "--threads", "8"]).1[0];
        assert!(note.starts_with("--threads changes nothing: in llama.cpp it says how many threads"), "{note}");
    }

    #[test]
    fn what_would_change_the_answer_is_refused_with_what_to_do() {
        for (line, parts) in [
            (&["run", "--lora", "a.gguf"][..], ["--lora", "merge"]),
            (&["run", "-hf", "a/b"], ["-hf", "-m"]),
            (&["run", "--mirostat", "2"], ["--mirostat", "docs/sampling.md"]),
            (&["run", "-no-cnv", "-p", "x"], ["-no-cnv", "--raw"]),
            (&["chat", "-st"], ["-st", "zinc run"]),
            (&["chat", "-p", "x"], ["-p", "/read FILE"]),
            (&["run", "-i"], ["-i", "zinc chat"]),
            (&["run", "--override_kv", "a=int:1"], ["--override-kv", "file"]),
            (&["run", "--in-prefix=x"], ["--in-prefix", "--chat-template-file"]),
            (&["run", "-mg", "1"], ["-mg", "--device"]),
            (&["run", "-rea", "off"], ["-rea", "enable_thinking"]),
            (&["run", "--host", "0.0.0.0"], ["--host", "zinc serve is the server"]),
            (&["run", "--grp-attn-n"], ["--grp-attn-n", "self-extend"]),
            (&["run", "-ngl"], ["-ngl", "lacks its value"]),
        ] {
            let Err(Error::Usage { message }) = rewritten(line) else { panic!("{line:?} is not refused") };
            for part in parts {
                assert!(message.contains(part), "no {part} in {message}");
            }
        }
    }

    #[test]
    fn values_and_what_zinc_has_itself_are_left_alone() {
        for line in [
            &["run", "-p", "-ngl", "-m", "a"][..],
            &["run", "--prompt", "--top_k"],
            &["run", "-r", "-fa", "--stop", "-ctk"],
            &["run", "--regex", "--no-mmap"],
            &["run", "-p=-ngl", "-n5"],
            &["run", "--", "-ngl", "--top_k"],
            &["bench", "--no-warmup", "-o", "csv"],
            &["chat", "-m", "-ngl"],
            &["devices", "-ngl", "99"],
            &["run", "--nonsense", "1"],
            &["completions", "bash"],
            &["-ngl"],
        ] {
            assert_eq!(seen(line), (line.iter().map(|word| (*word).to_owned()).collect(), vec![]), "{line:?}");
        }
    }

    #[test]
    fn underscores_and_letters_behind_one_dash_are_spelled_out() {
        for (line, expected) in [
            (&["run", "--top_k", "5"][..], &["run", "--top-k", "5"][..]),
            (&["run", "--ctx_size=64"], &["run", "--ctx-size=64"]),
            (&["run", "--repeat_last_n", "-1"], &["run", "--repeat-last-n", "-1"]),
            (
                &["run", "-p", "a_b", "--json_schema", "{\"a_b\":1}"],
                &["run", "-p", "a_b", "--json-schema", "{\"a_b\":1}"],
            ),
            (&["run", "-ctk", "f32"], &["run", "--cache-type-k", "f32"]),
            (&["run", "-sys", "-ctk"], &["run", "--system-prompt", "-ctk"]),
            (&["run", "-md", "a", "--spec-draft-n-max", "3"], &["run", "--draft", "a", "--draft-max", "3"]),
            (&["run", "--spec-type", "draft-mtp", "-p", "x"], &["run", "--draft-mtp", "-p", "x"]),
            (&["serve", "--spec-type=draft-mtp"], &["serve", "--draft-mtp"]),
            (&["run", "--spec-type", "none", "-p", "x"], &["run", "-p", "x"]),
            (&["chat", "--usage"], &["chat", "--help"]),
        ] {
            assert_eq!(seen(line).0, expected, "{line:?}");
        }
    }
}
