//! What the libraries log, shown on stderr.

use tracing_subscriber::filter::LevelFilter;

/// Shows the events that the libraries log from now on, from errors down to debug events but not trace events, each
/// with the time since the program's start.
pub(crate) fn install() {
    let format = tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false);
    let format = format.with_timer(tracing_subscriber::fmt::time::uptime()).with_max_level(LevelFilter::DEBUG);
    // This fails only if a subscriber was installed before. None was, since this is called once, at the start.
    let _ = format.try_init();
}
