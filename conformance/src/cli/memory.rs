//! The memory of a server that holds little.

use std::convert::Infallible;

/// Does without huge pages until this process is large; programs that it starts would do without them for good.
///
/// With huge pages, the allocator's areas take twice the memory in a small process. Without them, a large process takes a
/// fifth more processor time.
#[cfg(target_os = "linux")]
pub(super) async fn without_huge_pages_while_small() -> Infallible {
    use std::time::Duration;

    use rustix::thread::{disable_transparent_huge_pages, transparent_huge_pages_are_disabled};

    /// Resident bytes of a large process.
    const LARGE: u64 = 100 << 20;
    /// The time between two looks at the size.
    const INTERVAL: Duration = Duration::from_millis(500);

    // Whoever started this process may have forbidden them for good.
    let are_allowed = transparent_huge_pages_are_disabled() == Ok(false);
    if are_allowed && disable_transparent_huge_pages(true).is_ok() {
        while resident_bytes().is_some_and(|bytes| bytes < LARGE) {
            tokio::time::sleep(INTERVAL).await;
        }
        // Memory that is used from now on may be in huge pages. A failure only leaves them out.
        let _ = disable_transparent_huge_pages(false);
    }
    std::future::pending().await
}

/// The resident bytes of this process; `None` where `/proc` cannot be read.
#[cfg(target_os = "linux")]
fn resident_bytes() -> Option<u64> {
    let memory = procfs::process::Process::myself().ok()?.statm().ok()?;
    Some(memory.resident * procfs::page_size())
}

#[cfg(not(target_os = "linux"))]
pub(super) async fn without_huge_pages_while_small() -> Infallible {
    std::future::pending().await
}
