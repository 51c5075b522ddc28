//! The `zinc` command.
//!
//! `args` says what can be asked, `commands` does it with one file per command, `options` turns flags into the options of zinc-engine,
//! which opens a model and has it answer, `opening` and `answer` show that, `bench` measures it, `doctor` measures the device, `trace`
//! draws what a run has recorded, `synth` makes up model files, `error` turns what goes wrong into one line and an exit status.
//! `text_file` and `prompt` read what a user gives, `terminal` and `interrupt` deal with the keyboard, `verbose` shows what the libraries
//! log. Nothing depends on this crate; it alone prints, reads flags and environment variables, and exits.

mod answer;
mod args;
mod bench;
mod chat_template;
mod commands;
mod demo;
mod device;
mod doctor;
mod error;
mod interrupt;
mod opening;
mod options;
mod output;
mod prompt;
mod sampler;
mod synth;
mod terminal;
mod text_file;
mod trace;
mod verbose;

use std::process::ExitCode;

fn main() -> ExitCode {
    match args::parse(std::env::args_os()).and_then(|parsed| run(&parsed)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            error::report(&error);
            error.exit_code()
        }
    }
}

fn run(parsed: &args::Parsed) -> error::Result<()> {
    if parsed.verbose {
        verbose::install();
    }
    for note in &parsed.notes {
        output::notice(note);
    }
    commands::run(&parsed.command)
}
