//! The `zinc` program. What it does is in the library beside it.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(zinc_cli::run(std::env::args_os()))
}
