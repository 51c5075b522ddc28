//! Whether the memory of a server stays at its level under crowds of clients. It has a process to itself, since that is what the system measures.

#![cfg(target_os = "linux")]
#![allow(clippy::print_stdout, reason = "the sizes are for whoever reads the output")]

#[allow(dead_code, reason = "other tests use the rest of it")]
#[path = "server/clients.rs"]
mod clients;
#[allow(dead_code, reason = "other tests use the rest of it")]
#[path = "server/support.rs"]
mod support;

use clients::Crowd;
use serde_json::json;
use support::Running;
use zinc_server::ServerOptions;

/// Clients of a crowd, and the requests of each.
const CROWD: (u64, u64) = (16, 10);
/// Crowds behind the first, which brings the process to its level.
const CROWDS: u64 = 3;
/// Bytes that each request carries along.
const BALLAST: usize = 512 << 10;
/// Bytes that all crowds behind the first may add together. Their requests carry ten times as much; what an allocator holds back differs by some
/// megabytes from run to run.
const MOST_GROWTH: u64 = 24 << 20;

/// Bytes of memory that the process has.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

#[test]
fn crowds_leave_nothing_behind() {
    let script = json!({ "lanes": 8, "queue": 1000, "answers": [Crowd::answer(0)] });
    let server = Running::scripted(script, ServerOptions::new());
    let crowd = || {
        Crowd::run(&server, CROWD, BALLAST);
        server.wait_until_idle();
    };
    crowd();
    let before = resident();
    for _ in 0..CROWDS {
        crowd();
    }
    let after = resident();
    println!("{} MiB before, {} MiB after {CROWDS} crowds more", before >> 20, after >> 20);
    assert!(CROWDS * CROWD.0 * CROWD.1 * BALLAST as u64 >= 10 * MOST_GROWTH);
    assert!(after < before + MOST_GROWTH, "{before} bytes before, {after} after");
}
