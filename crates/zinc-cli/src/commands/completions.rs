//! `zinc completions`: completion scripts for shells.

use clap::CommandFactory as _;

use crate::args::{Arguments, CompletionsArgs};
use crate::error::Result;
use crate::output;

pub(crate) fn run(args: &CompletionsArgs) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Arguments::command(), "zinc", &mut script);
    output::stdout(&String::from_utf8_lossy(&script))
}
