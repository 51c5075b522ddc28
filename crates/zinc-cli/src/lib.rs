//! The `zinc` command, as a library for its own program and its tests.
//!
//! `args` says what can be asked, `commands` does it with one file per command, `options` turns flags into the options of zinc-engine,
//! which opens a model and has it answer, `opening` and `answer` show that, `bench` measures it, `doctor` measures the device, `trace`
//! draws what a run has recorded, `synth` makes up model files, `error` turns what goes wrong into one line and an exit status.
//! `surroundings` are the streams and variables of a command, `text_file` and `prompt` read what a user gives, `terminal` and `interrupt`
//! deal with the keyboard, `verbose` shows what the libraries log. Nothing depends on this crate; it alone prints, reads flags and environment variables, and exits.

mod answer;
mod args;
mod bench;
mod chat_template;
mod commands;
mod demo;
mod device;
mod doctor;
mod error;
mod gpu_access;
mod interrupt;
mod opening;
mod options;
mod output;
mod prompt;
mod sampler;
mod spoken;
mod stopwatch;
mod surroundings;
mod synth;
mod terminal;
mod text_file;
mod trace;
mod verbose;

use std::ffi::OsString;

pub use surroundings::{Captured, OpenDevices, Surroundings};
use verbose::Log;

/// Does what the arguments ask for, the program's name first, and returns the exit status.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    match args::parse(arguments).and_then(|parsed| run_parsed(&parsed)) {
        Ok(()) => 0,
        Err(error) => {
            error::report(&error);
            error.status()
        }
    }
}

/// Does what the arguments ask for, the program's name first, in other surroundings than those of the process. Signals are not handled.
pub fn run_in(surroundings: &Surroundings, arguments: impl IntoIterator<Item = OsString>) -> Captured {
    surroundings::capture(surroundings, || run(arguments))
}

fn run_parsed(parsed: &args::Parsed) -> error::Result<()> {
    // What the libraries log goes to the stderr of the process.
    let log = match &parsed.command {
        _ if parsed.verbose => Some(Log::Everything),
        args::Command::Serve(args) => Some(if args.log_json { Log::RequestsAsJson } else { Log::Requests }),
        _ => None,
    };
    if let Some(log) = log.filter(|_| surroundings::are_the_process()) {
        verbose::install(log);
    }
    for note in &parsed.notes {
        output::notice(note);
    }
    commands::run(&parsed.command)
}
