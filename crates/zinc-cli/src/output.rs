//! Where text goes: what was asked for to stdout, everything else to stderr, progress bars only to a terminal.

use std::borrow::Cow;
use std::io;

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::error::{Error, Result};
use crate::surroundings;

/// Writes to stdout and flushes, so that text appears as it comes.
///
/// # Errors
/// [`Error::OutputClosed`] where the reader is gone, [`Error::Output`].
pub(crate) fn stdout(text: &str) -> Result<()> {
    surroundings::write_stdout(text).map_err(|source| match source.kind() {
        io::ErrorKind::BrokenPipe => Error::OutputClosed,
        _ => Error::Output(source),
    })
}

/// Writes a value to stdout as JSON, with a newline at the end.
///
/// # Errors
/// The errors of [`stdout`].
pub(crate) fn stdout_json(value: &impl Serialize) -> Result<()> {
    let mut text = serde_json::to_string(value).expect("the values printed have string keys only");
    text.push('\n');
    stdout(&text)
}

/// Prints help, or what clap has to say instead: in colours to a terminal, to stdout if it was asked for and else to stderr.
///
/// # Errors
/// Whatever error the system reports.
pub(crate) fn help(help: &clap::Error) -> io::Result<()> {
    if surroundings::are_the_process() {
        return help.print();
    }
    let text = help.render().to_string();
    if help.use_stderr() {
        surroundings::write_stderr(&text);
        return Ok(());
    }
    surroundings::write_stdout(&text)
}

/// Writes a line to stderr.
pub(crate) fn stderr_line(text: &str) {
    stderr(&format!("{text}\n"));
}

/// Writes to stderr without a newline.
pub(crate) fn stderr(text: &str) {
    surroundings::write_stderr(text);
}

/// Tells the user something that is good to know.
pub(crate) fn notice(text: &str) {
    stderr_line(&format!("note: {text}"));
}

/// A progress bar over bytes; hidden where stderr is not a terminal.
pub(crate) fn progress_bytes(total: u64, what: &'static str) -> ProgressBar {
    progress(total, what, "{msg} [{bar:32}] {bytes} of {total_bytes} ({bytes_per_sec})")
}

/// A progress bar over steps, whose number may come later; hidden where stderr is not a terminal.
pub(crate) fn progress_steps(total: u64, what: impl Into<Cow<'static, str>>) -> ProgressBar {
    progress(total, what, "{msg} [{bar:32}] {pos} of {len}")
}

fn progress(total: u64, what: impl Into<Cow<'static, str>>, template: &str) -> ProgressBar {
    if !surroundings::stderr_is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template(template).expect("the template is valid").progress_chars("=> ");
    ProgressBar::new(total).with_style(style).with_message(what)
}

/// Bytes for people: GiB from one GiB up, MiB below.
pub(crate) fn bytes(bytes: u64) -> String {
    const MIB: f64 = (1u64 << 20) as f64;
    const GIB: f64 = (1u64 << 30) as f64;
    let size = bytes as f64;
    if size >= GIB { format!("{:.2} GiB", size / GIB) } else { format!("{:.2} MiB", size / MIB) }
}

/// Numbers of parameters for people: thousands of millions from there up, millions below.
pub(crate) fn parameters(count: u64) -> String {
    let millions = count as f64 / 1e6;
    if millions >= 1e3 { format!("{:.2} B", millions / 1e3) } else { format!("{millions:.2} M") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_two_decimals() {
        assert_eq!(bytes(0), "0.00 MiB");
        assert_eq!(bytes(12_700_000), "12.11 MiB");
        assert_eq!(bytes((1 << 30) - 1), "1024.00 MiB");
        assert_eq!(bytes(1 << 30), "1.00 GiB");
        assert_eq!(bytes(u64::MAX), "17179869184.00 GiB");
        assert_eq!(parameters(19_420_000), "19.42 M");
        assert_eq!(parameters(30_532_122_624), "30.53 B");
    }
}
