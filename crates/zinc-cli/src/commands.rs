//! The commands, one file each.

mod bench;
mod chat;
mod completions;
mod devices;
mod doctor;
mod inspect;
mod logits;
mod run;
mod serve;
mod synth;
mod template;
mod tokenize;
mod trace;

use crate::args::Command;
use crate::error::Result;

/// Does what was asked.
pub(crate) fn run(command: &Command) -> Result<()> {
    match command {
        Command::Run(args) => run::run(args),
        Command::Chat(args) => chat::run(args),
        Command::Serve(args) => serve::run(args),
        Command::Devices(args) => devices::run(args),
        Command::Inspect(args) => inspect::run(args),
        Command::Logits(args) => logits::run(args),
        Command::Tokenize(args) => tokenize::run(args),
        Command::Template(args) => template::run(args),
        Command::Bench(args) => bench::run(args),
        Command::Doctor(args) => doctor::run(args),
        Command::Trace(args) => trace::run(args),
        Command::Synth(args) => synth::run(args),
        Command::Completions(args) => completions::run(args),
    }
}
