//! Flags of llama.cpp that zinc has no use for: which they are, and what the user is told.
//!
//! A flag that cannot change the answer is accepted with a note. One that would change it is refused with what to do instead. The list is
//! [`flags`]; `docs/coming-from-llama.cpp.md` shows it, and a test compares the two.

mod conversation;
mod drafts;
mod model;
mod output;
mod server;

/// The commands that open a model, except for the server.
const BUT_SERVE: &[&str] = &["run", "chat", "inspect", "logits", "tokenize", "template", "bench"];

/// The commands that open a model and generate nothing.
const WITHOUT_ANSWERS: &[&str] = &["inspect", "logits", "tokenize", "template"];

/// Every flag. The names are those of `llama-cli`, `llama-completion`, `llama-server` and `llama-bench`, older spellings included.
fn flags() -> impl Iterator<Item = &'static Foreign> {
    [model::FLAGS, conversation::FLAGS, drafts::FLAGS, output::FLAGS, server::FLAGS].into_iter().flatten()
}

/// A flag of llama.cpp, with its other names, that zinc does not have.
#[derive(Debug)]
pub(super) struct Foreign {
    /// Its names, as written on llama.cpp's command line, the usual one first.
    names: &'static [&'static str],
    /// What follows it.
    pub(super) takes: Takes,
    /// What zinc does about it.
    verdict: Verdict,
    /// The commands of zinc that this entry is about; none are all that open a model.
    commands: &'static [&'static str],
    /// What the flag does in llama.cpp; follows "in llama.cpp it".
    does: &'static str,
    /// Why zinc needs nothing, or what to do instead; a clause without a full stop.
    here: &'static str,
}

/// A flag that is left out with a note.
const fn accepted(names: &'static [&'static str], takes: Takes, does: &'static str, here: &'static str) -> Foreign {
    Foreign { names, takes, verdict: Verdict::Accepted, commands: &[], does, here }
}

/// A flag that is an error.
const fn refused(names: &'static [&'static str], takes: Takes, does: &'static str, here: &'static str) -> Foreign {
    Foreign { names, takes, verdict: Verdict::Refused { unless: &[] }, commands: &[], does, here }
}

impl Foreign {
    /// Returns this flag, accepted with these values.
    const fn unless(self, unless: &'static [&'static str]) -> Self {
        Self { verdict: Verdict::Refused { unless }, ..self }
    }

    /// Returns this entry, for these commands of zinc only.
    const fn only_in(self, commands: &'static [&'static str]) -> Self {
        Self { commands, ..self }
    }
}

/// What follows a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Takes {
    /// Nothing, or one of the words that switch it: `on`, `off`, `auto`, `1`, `0` and the like.
    Switch,
    /// A value.
    Value,
}

/// What zinc does about a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// It is left out, and a note says so.
    Accepted,
    /// It is an error.
    Refused {
        /// Values with which the flag asks for what happens anyway. Given one of these, it is accepted.
        unless: &'static [&'static str],
    },
}

/// Words that may follow a flag which is on or off.
const SWITCH_WORDS: [&str; 11] =
    ["on", "off", "auto", "true", "false", "enabled", "disabled", "enable", "disable", "0", "1"];

/// Whether a word after a flag that is on or off belongs to the flag.
pub(super) fn is_switch_word(word: &str) -> bool {
    SWITCH_WORDS.contains(&word)
}

/// The entry for a flag on the command line of one of zinc's commands.
pub(super) fn find(command: &str, name: &str) -> Option<&'static Foreign> {
    let applies = |flag: &&Foreign| flag.commands.is_empty() || flag.commands.contains(&command);
    flags().filter(applies).find(|flag| flag.names.contains(&name))
}

impl Foreign {
    /// What the user is told where the flag was written as `name`, with `value` if one was given: a note where it is left out.
    ///
    /// # Errors
    /// What is wrong and what to do, where the flag is refused.
    pub(super) fn judge(&self, name: &str, value: Option<&str>) -> Result<String, String> {
        match self.verdict {
            Verdict::Refused { unless } if !value.is_some_and(|value| is_one_of(value, unless)) => {
                Err(format!("{name} is not supported: in llama.cpp it {}; {}", self.does, self.here))
            }
            Verdict::Refused { .. } => {
                Ok(format!("{name} {} changes nothing: it is what zinc does anyway", value.unwrap_or_default()))
            }
            Verdict::Accepted => Ok(format!("{name} changes nothing: in llama.cpp it {}; {}", self.does, self.here)),
        }
    }
}

/// Whether a value is one of these, as text or as a number.
fn is_one_of(value: &str, those: &[&str]) -> bool {
    let number = |text: &str| text.parse::<f64>().ok();
    those.iter().any(|one| *one == value || (number(one).is_some() && number(one) == number(value)))
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use zinc_model::template::builtin_names;

    use super::*;

    /// The lines of the tables in the document that belong to one verdict.
    fn rows(is_wanted: impl Fn(&Verdict) -> bool) -> String {
        let mut rows = String::new();
        for flag in flags().filter(|flag| is_wanted(&flag.verdict)) {
            let names = flag.names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
            let commands =
                flag.commands.iter().map(|command| format!("`zinc {command}`")).collect::<Vec<_>>().join(", ");
            let commands = if commands.is_empty() { commands } else { format!(" (in {commands})") };
            let unless = match flag.verdict {
                Verdict::Refused { unless: [] } | Verdict::Accepted => String::new(),
                Verdict::Refused { unless } => {
                    let values = unless.iter().map(|value| format!("`{value}`")).collect::<Vec<_>>().join(", ");
                    format!(" (accepted with {values})")
                }
            };
            let cell = |text: &str| text.replace('|', "\\|");
            writeln!(rows, "| {names}{commands} | {} | {}{unless} |", cell(flag.does), cell(flag.here)).unwrap();
        }
        rows
    }

    #[test]
    fn the_document_shows_the_table() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/coming-from-llama.cpp.md");
        let document = std::fs::read_to_string(&path).unwrap();
        let accepted = rows(|verdict| *verdict == Verdict::Accepted);
        let refused = rows(|verdict| *verdict != Verdict::Accepted);
        let mut expected = document.clone();
        let head = "\n| flag | in llama.cpp it | here |\n|---|---|---|\n";
        let names: Vec<String> = builtin_names().map(|name| format!("`{name}`")).collect();
        for (name, text) in [
            ("templates", format!("{}.\n", names.join(", "))),
            ("accepted", format!("{head}{accepted}\n")),
            ("refused", format!("{head}{refused}\n")),
        ] {
            let (begin, end) = (format!("<!-- {name}: begin -->\n"), format!("<!-- {name}: end -->"));
            let from = expected.find(&begin).unwrap_or_else(|| panic!("no {begin}")) + begin.len();
            let to = from + expected[from..].find(&end).unwrap_or_else(|| panic!("no {end}"));
            expected.replace_range(from..to, &text);
        }
        if std::env::var_os("ZINC_WRITE_DOCS").is_some() {
            std::fs::write(&path, &expected).unwrap();
            return;
        }
        assert!(
            document == expected,
            "the document is not the table: run this test with ZINC_WRITE_DOCS=1 to renew it"
        );
    }

    #[test]
    fn names_are_flags_and_none_is_listed_twice_for_one_command() {
        for (index, flag) in flags().enumerate() {
            assert!(!flag.names.is_empty());
            for name in flag.names {
                assert!(name.starts_with('-') && !name.contains(['_', '=', ' ']), "{name}");
                let overlaps = |other: &Foreign| {
                    other.commands.is_empty()
                        || flag.commands.is_empty()
                        || other.commands.iter().any(|command| flag.commands.contains(command))
                };
                let mut later = flags().skip(index + 1).filter(|other| overlaps(other));
                assert!(!later.any(|other| other.names.contains(name)), "{name} is listed twice");
                assert_eq!(flag.names.iter().filter(|other| *other == name).count(), 1, "{name}");
            }
        }
    }

    #[test]
    fn sentences_are_clauses() {
        for flag in flags() {
            for text in [flag.does, flag.here] {
                let first = text.chars().next().unwrap();
                assert!(!first.is_uppercase() && !text.ends_with(['.', ';']), "{:?}: {text}", flag.names);
                assert!(!text.contains("  ") && !text.contains('\n'), "{:?}: {text}", flag.names);
            }
        }
    }

    #[test]
    fn values_that_ask_for_nothing_are_compared_as_numbers_too() {
        assert!(is_one_of("0.0", &["0"]) && is_one_of("auto", &["-1", "auto"]) && is_one_of("-1", &["-1.0"]));
        assert!(!is_one_of("0.1", &["0"]) && !is_one_of("nan", &["nan "]) && !is_one_of("", &["0"]));
    }
}
