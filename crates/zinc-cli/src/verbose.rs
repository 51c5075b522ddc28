//! What the libraries log, shown on stderr.

use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::time;

/// How much is shown, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Log {
    /// Errors down to debug events but not trace events, each with the time since the program's start.
    Everything,
    /// What someone wants to know who runs a server: one line for each request, and what goes wrong.
    Requests,
    /// The same as JSON, an object in each line.
    RequestsAsJson,
}

/// Shows the events that the libraries log from now on.
pub(crate) fn install(log: Log) {
    let format = tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false);
    // This fails only if a subscriber was installed before. None was, since this is called once, at the start.
    let _ = match log {
        Log::Everything => format.with_timer(time::uptime()).with_max_level(LevelFilter::DEBUG).try_init(),
        Log::Requests => format.with_target(false).with_max_level(LevelFilter::INFO).try_init(),
        Log::RequestsAsJson => {
            format.json().flatten_event(true).with_target(false).with_max_level(LevelFilter::INFO).try_init()
        }
    };
}
