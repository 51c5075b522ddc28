//! Flags of speculation: what drafts, how far, and when.

use std::path::PathBuf;

use clap::ValueEnum;
use zinc_sched::SpeculationMode;

/// What drafts.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct DraftArgs {
    /// Draft with this model, which must have the same vocabulary: the answer is the same, and faster where the drafts are good
    #[arg(long, visible_alias = "model-draft", value_name = "FILE", help_heading = "Speculation")]
    pub(crate) draft: Option<PathBuf>,
    /// Draft what followed the last tokens where they occurred before
    #[arg(long, conflicts_with = "draft", help_heading = "Speculation")]
    pub(crate) draft_ngram: bool,
    /// Tokens to draft at a time, 1 to 7
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=7))]
    #[arg(help_heading = "Speculation")]
    pub(crate) draft_max: u32,
    /// When to draft: as long as it measures faster, or always
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = DraftPolicy::Auto, help_heading = "Speculation")]
    pub(crate) draft_policy: DraftPolicy,
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
    /// Tokens of a step: the last one and what is drafted.
    pub(crate) fn batch(&self) -> u32 {
        if self.draft.is_some() || self.draft_ngram { self.draft_max + 1 } else { 1 }
    }

    /// When the engine drafts.
    pub(crate) fn speculation(&self) -> SpeculationMode {
        match self.draft_policy {
            _ if self.batch() == 1 => SpeculationMode::Off,
            DraftPolicy::Auto => SpeculationMode::Automatic,
            DraftPolicy::Always => SpeculationMode::Always,
        }
    }
}
