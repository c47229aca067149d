//! The memory of a server that holds little.
//!
//! With huge pages, the allocator's areas take twice the memory in a small process. Without them, a large process takes a
//! fifth more processor time.

use std::convert::Infallible;

/// While this lives, the process gets no huge pages. If its parent has forbidden them, they stay forbidden afterwards.
///
/// Huge pages that are in use stay in use, so commands begin without them, and most commands drop this at once. A program
/// that is started meanwhile does without them for good.
pub(super) struct WithoutHugePages {
    #[cfg(target_os = "linux")]
    is_own: bool,
}

#[cfg(target_os = "linux")]
impl WithoutHugePages {
    pub(super) fn begin() -> Self {
        use rustix::thread::{disable_transparent_huge_pages, transparent_huge_pages_are_disabled};

        let are_allowed = transparent_huge_pages_are_disabled() == Ok(false);
        let is_own = are_allowed && disable_transparent_huge_pages(true).is_ok();
        Self { is_own }
    }

    /// Allows huge pages once this process is large. Never returns.
    pub(super) async fn while_small(self) -> Infallible {
        use std::time::Duration;

        /// Resident bytes of a large process.
        const LARGE: u64 = 100 << 20;
        /// The time between two looks at the size.
        const INTERVAL: Duration = Duration::from_millis(500);

        while self.is_own && resident_bytes().is_some_and(|bytes| bytes < LARGE) {
            tokio::time::sleep(INTERVAL).await;
        }
        // Memory that is used from now on may be in huge pages.
        drop(self);
        std::future::pending().await
    }
}

#[cfg(target_os = "linux")]
impl Drop for WithoutHugePages {
    fn drop(&mut self) {
        if self.is_own {
            // A failure only leaves them out.
            let _ = rustix::thread::disable_transparent_huge_pages(false);
        }
    }
}

/// The resident bytes of this process; `None` where `/proc` cannot be read.
#[cfg(target_os = "linux")]
fn resident_bytes() -> Option<u64> {
    let memory = procfs::process::Process::myself().ok()?.statm().ok()?;
    Some(memory.resident * procfs::page_size())
}

#[cfg(not(target_os = "linux"))]
impl WithoutHugePages {
    pub(super) fn begin() -> Self {
        Self {}
    }

    pub(super) async fn while_small(self) -> Infallible {
        std::future::pending().await
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use rustix::thread::transparent_huge_pages_are_disabled;

    use super::*;

    #[test]
    fn huge_pages_are_allowed_again_as_before() {
        let before = transparent_huge_pages_are_disabled();
        if before != Ok(false) {
            return;
        }
        let without = WithoutHugePages::begin();
        assert_eq!(transparent_huge_pages_are_disabled(), Ok(true));
        // Whoever finds them forbidden does not allow them.
        drop(WithoutHugePages::begin());
        assert_eq!(transparent_huge_pages_are_disabled(), Ok(true));
        drop(without);
        assert_eq!(transparent_huge_pages_are_disabled(), before);
    }
}
