//! Flags of speculation: what drafts, how far, and when.

use std::path::PathBuf;

use clap::ValueEnum;
use zinc_sched::SpeculationMode;

/// What drafts.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct DraftArgs {
    /// Draft with this model, which must have the same vocabulary: the answer is the same, and faster where the drafts are good
    #[arg(long, visible_alias = "model-draft", value_name = "FILE", value_parser = draft, help_heading = "Speculation")]
    pub(crate) draft: Option<PathBuf>,
    /// Draft what followed the last tokens where they occurred before; with several requests at a time, for one that runs alone
    #[arg(long, conflicts_with = "draft", help_heading = "Speculation")]
    pub(crate) draft_ngram: bool,
    /// Draft with the model's own block for multi-token prediction, for one request at a time: the answer is the same [--spec-type draft-mtp]
    #[arg(long, conflicts_with_all = ["draft", "draft_ngram"], help_heading = "Speculation")]
    pub(crate) draft_mtp: bool,
    /// Tokens to draft at a time, 1 to 15: with the last token, 3, 7 and 15 fill a step
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=15))]
    #[arg(help_heading = "Speculation")]
    pub(crate) draft_max: u32,
    /// When to draft: as long as it measures faster, or always
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = DraftPolicy::Auto, help_heading = "Speculation")]
    pub(crate) draft_policy: DraftPolicy,
}

/// The file of a draft model. In llama.cpp the flag was a number once, which is no file's name as a rule.
fn draft(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    if text.parse::<i64>().is_ok() && !path.exists() {
        return Err("must be the file of a draft model; --draft-max says how many tokens are drafted".to_owned());
    }
    Ok(path)
}

/// When to draft.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DraftPolicy {
    /// As long as it measures faster than not.
    Auto,
    /// With every token.
    Always,
}

impl DraftArgs {
    /// Whether these flags ask for drafts, from a draft model, from look-up or from multi-token prediction.
    pub(crate) fn is_drafted(&self) -> bool {
        self.draft.is_some() || self.draft_ngram || self.draft_mtp
    }

    /// When the engine drafts, if it does.
    pub(crate) fn speculation(&self) -> SpeculationMode {
        match self.draft_policy {
            DraftPolicy::Auto => SpeculationMode::Automatic,
            DraftPolicy::Always => SpeculationMode::Always,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_no_draft_model() {
        for number in ["16", "0", "-1"] {
            assert!(draft(number).unwrap_err().contains("--draft-max"), "{number}");
        }
        assert_eq!(draft("16.gguf"), Ok(PathBuf::from("16.gguf")));
    }
}
