//! Flags of `zinc trace`.

use std::path::PathBuf;

use crate::trace::Cut;

/// Flags of `zinc trace`.
#[derive(Debug, clap::Args)]
pub(crate) struct TraceArgs {
    /// Traces that `zinc run --trace FILE.json` has written; several are drawn below one another on one scale
    #[arg(value_name = "TRACE.json", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// The picture, whose name ends in .svg or .html
    #[arg(short, long, value_name = "OUT")]
    pub(crate) output: PathBuf,
    /// The first step to show [default: such that the steps shown lie in the middle]
    #[arg(long, value_name = "STEP")]
    from: Option<u32>,
    /// Steps to show; of several traces the slowest sets the scale
    #[arg(long, value_name = "N", default_value_t = Cut::default().steps, value_parser = clap::value_parser!(u32).range(1..))]
    steps: u32,
}

impl TraceArgs {
    /// The steps to show.
    pub(crate) fn cut(&self) -> Cut {
        Cut { from: self.from, steps: self.steps }
    }
}
