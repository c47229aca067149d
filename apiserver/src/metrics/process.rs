//! Metrics of this process from the kernel.
//!
//! These numbers differ from run to run, so a server with simulated time does not show them.

use jiff::Timestamp;

use super::families::Family;
use crate::clock::Clock;

/// The families of the process; `started` is when the server was made.
pub(crate) fn families(clock: &Clock, started: Timestamp) -> Vec<Family> {
    let mut families = vec![gauge(
        "process_start_time_seconds",
        "Start time of the process since unix epoch in seconds.",
        started.as_duration().as_secs_f64(),
    )];
    if clock.is_real() {
        families.extend(of_the_kernel().unwrap_or_default());
    }
    families
}

fn gauge(name: &str, help: &str, value: f64) -> Family {
    let mut family = Family::gauge(name, help);
    family.add_number(&[], value);
    family
}

#[cfg(not(target_os = "linux"))]
fn of_the_kernel() -> Option<Vec<Family>> {
    None
}

/// Reads `/proc/self`; `None` where it cannot be read.
#[cfg(target_os = "linux")]
#[expect(
    clippy::cast_precision_loss,
    reason = "upstream shows these numbers as floats, too"
)]
fn of_the_kernel() -> Option<Vec<Family>> {
    use procfs::process::{LimitValue, Process};

    let process = Process::myself().ok()?;
    let stat = process.stat().ok()?;
    let limits = process.limits().ok()?;
    let most = |limit: LimitValue| match limit {
        LimitValue::Value(most) => most as f64,
        LimitValue::Unlimited => u64::MAX as f64,
    };
    let ticks = (stat.utime + stat.stime) as f64;
    let mut seconds = Family::counter(
        "process_cpu_seconds_total",
        "Total user and system CPU time spent in seconds.",
    );
    seconds.add_number(&[], ticks / procfs::ticks_per_second() as f64);
    Some(vec![
        seconds,
        gauge(
            "process_open_fds",
            "Number of open file descriptors.",
            process.fd_count().ok()? as f64,
        ),
        gauge(
            "process_max_fds",
            "Maximum number of open file descriptors.",
            most(limits.max_open_files.soft_limit),
        ),
        gauge(
            "process_resident_memory_bytes",
            "Resident memory size in bytes.",
            (stat.rss * procfs::page_size()) as f64,
        ),
        gauge(
            "process_virtual_memory_bytes",
            "Virtual memory size in bytes.",
            stat.vsize as f64,
        ),
        gauge(
            "process_virtual_memory_max_bytes",
            "Maximum amount of virtual memory available in bytes.",
            most(limits.max_address_space.soft_limit),
        ),
    ])
}
