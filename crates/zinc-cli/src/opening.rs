//! What a user sees of a model that is being opened: progress bars and notes.

use indicatif::ProgressBar;
use zinc_engine::{Note, OpenEvent};

use crate::output;

/// Shows the events of one opening or of several.
#[derive(Default)]
pub(crate) struct Opening {
    weights: Option<ProgressBar>,
    pipelines: Option<ProgressBar>,
    /// Whether the user knows that pipelines are not kept.
    told_of_pipelines: bool,
}

impl Opening {
    /// Nothing has been opened yet.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Shows an event.
    pub(crate) fn show(&mut self, event: OpenEvent) {
        match event {
            OpenEvent::Weights { done, total } => {
                let bar = || output::progress_bytes(total, "loading");
                advance(&mut self.weights, bar, done, total);
            }
            OpenEvent::Pipelines { done, total } => {
                let bar = || output::progress_steps(total, "building pipelines");
                advance(&mut self.pipelines, bar, done, total);
            }
            OpenEvent::Note(Note::PipelineCache(_)) if self.told_of_pipelines => {}
            OpenEvent::Note(note) => {
                self.told_of_pipelines |= matches!(note, Note::PipelineCache(_));
                output::notice(&note.to_string());
            }
            _ => {}
        }
    }
}

fn advance(bar: &mut Option<ProgressBar>, new: impl FnOnce() -> ProgressBar, done: u64, total: u64) {
    bar.get_or_insert_with(new).set_position(done);
    if done >= total
        && let Some(bar) = bar.take()
    {
        bar.finish_and_clear();
    }
}
