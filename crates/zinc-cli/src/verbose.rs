//! What the libraries log, shown on stderr.

use tracing_subscriber::filter::LevelFilter;

/// Shows every event of the libraries from now on, with the time since the start, except for the finest.
pub(crate) fn install() {
    let format = tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false);
    let format = format.with_timer(tracing_subscriber::fmt::time::uptime()).with_max_level(LevelFilter::DEBUG);
    // Nobody has installed another one: this is called once, at the start.
    let _ = format.try_init();
}
