//! The times at which a watch acts without an event: its bookmarks and its end.

use std::time::Duration;

use tokio::time::Instant;

/// The last bookmark comes this long before the watch times out, for the client to resume from.
const LAST_BOOKMARK: Duration = Duration::from_secs(2);

/// The maximum duration of a watch, whatever its client asks for.
const TIMEOUT_MAX: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The deadline of a watch, and its next bookmark.
#[derive(Clone, Copy, Debug)]
pub(super) struct Schedule {
    deadline: Instant,
    /// `None` for a client that does not allow bookmarks.
    bookmarks: Option<Bookmarks>,
}

#[derive(Clone, Copy, Debug)]
struct Bookmarks {
    next: Instant,
    period: Duration,
}

impl Schedule {
    /// The schedule of a watch that begins at `now`, lasts for `timeout`, and sends a bookmark in
    /// each period, if one is given.
    pub(super) fn new(now: Instant, timeout: Duration, period: Option<Duration>) -> Self {
        let deadline = now + timeout.min(TIMEOUT_MAX);
        let bookmarks = period.map(|period| Bookmarks {
            next: next_bookmark(now, deadline, period),
            period,
        });
        Self {
            deadline,
            bookmarks,
        }
    }

    /// Whether the client allows bookmarks.
    pub(super) fn has_bookmarks(&self) -> bool {
        self.bookmarks.is_some()
    }

    /// Whether the watch is over at `now`.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        now >= self.deadline
    }

    /// The time at which the watch ends.
    pub(super) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// The time of the next bookmark, or of the end.
    pub(super) fn next(&self) -> Instant {
        self.bookmarks.map_or(self.deadline, |own| own.next)
    }

    /// Whether a bookmark is due at `now`. If so, the next one is scheduled.
    pub(super) fn take_bookmark(&mut self, now: Instant) -> bool {
        let deadline = self.deadline;
        let due = |own: &&mut Bookmarks| own.next == now && now < deadline;
        let Some(bookmarks) = self.bookmarks.as_mut().filter(due) else {
            return false;
        };
        bookmarks.next = next_bookmark(now, deadline, bookmarks.period);
        true
    }
}

/// The time of the bookmark after `now`: the last one is due before the deadline.
fn next_bookmark(now: Instant, deadline: Instant, period: Duration) -> Instant {
    let last = deadline.checked_sub(LAST_BOOKMARK);
    let last = last.filter(|last| *last > now);
    (now + period).min(last.unwrap_or(deadline))
}
