//! The pace of a server that stores its objects in etcd.
//!
//! Tests that were written against such a server race one that answers at once: they write, and read what a controller
//! did before its watch could deliver the write. A paced server responds to a write when its events are delivered, and
//! takes a moment between two events of one object.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::meta::ResourceVersion;
use crate::storage::Table;

/// A response waits no longer than this for the watches: some client may not be reading.
const DELIVERY_MAX: Duration = Duration::from_millis(50);

/// The times that a server takes for requests of resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// The least time from a write to its response. The response also waits until watches have delivered the events of
    /// the write, 50 ms at most.
    pub write: Duration,
    /// The least time between the last two events of an object in a watch, the latter of which is the deletion.
    pub deletion: Duration,
    /// The least time for a get or a list: a controller that reads at once acts before the test's next write.
    pub read: Duration,
}

impl Pace {
    /// The pace of an API server with etcd on the same machine: 2 ms for a write, 1.5 ms before a deletion, 1 ms for a
    /// read.
    pub const ETCD: Self = Self {
        write: Duration::from_millis(2),
        deletion: Duration::from_micros(1500),
        read: Duration::from_millis(1),
    };
}

/// Keeps the pace of a server.
#[derive(Debug)]
pub(crate) struct Pacer {
    pace: Pace,
    watches: Mutex<Vec<Weak<Progress>>>,
    /// Notified when a watch has delivered events, and when one ends.
    delivered: Notify,
}

/// How far a watch has come.
#[derive(Debug)]
struct Progress {
    table: Arc<Table>,
    /// The version up to which all events are delivered; the maximum while the watch delivers its first objects.
    delivered: AtomicU64,
    /// Whether the client did not read in time. Nothing waits for it until it has.
    is_slow: AtomicBool,
}

impl Progress {
    fn lacks(&self, rv: ResourceVersion) -> bool {
        self.delivered.load(Ordering::Acquire) < rv.get()
    }
}

impl Pacer {
    pub(crate) fn new(pace: Pace) -> Arc<Self> {
        Arc::new(Self {
            pace,
            watches: Mutex::default(),
            delivered: Notify::new(),
        })
    }

    pub(crate) fn pace(&self) -> Pace {
        self.pace
    }

    /// Returns when a read that has just been made may be responded to.
    pub(crate) async fn hold_read(&self) {
        tokio::time::sleep(self.pace.read).await;
    }

    /// Returns when a write that has just been made may be responded to.
    pub(crate) async fn hold_write(&self) {
        let earliest = Instant::now() + self.pace.write;
        let behind = self.behind();
        let delivery = tokio::time::timeout(DELIVERY_MAX, self.delivery(&behind));
        if delivery.await.is_err() {
            for (watch, rv) in &behind {
                if let Some(watch) = watch.upgrade().filter(|watch| watch.lacks(*rv)) {
                    watch.is_slow.store(true, Ordering::Release);
                }
            }
        }
        tokio::time::sleep_until(earliest).await;
    }

    /// The watches that have not delivered all events of their tables, with the versions of the last ones.
    fn behind(&self) -> Vec<(Weak<Progress>, ResourceVersion)> {
        let mut behind = Vec::new();
        self.watches.lock().retain(|watch| {
            let Some(progress) = watch.upgrade() else {
                return false;
            };
            let last = progress.table.last_event();
            if progress.lacks(last) && !progress.is_slow.load(Ordering::Acquire) {
                behind.push((Weak::clone(watch), last));
            }
            true
        });
        behind
    }

    /// Returns when each of these watches has ended or delivered its version.
    async fn delivery(&self, behind: &[(Weak<Progress>, ResourceVersion)]) {
        let lacks = |(watch, rv): &(Weak<Progress>, ResourceVersion)| {
            watch.upgrade().is_some_and(|watch| watch.lacks(*rv))
        };
        loop {
            let delivered = self.delivered.notified();
            let mut delivered = std::pin::pin!(delivered);
            // Registers before looking, so that no news is missed in between.
            delivered.as_mut().enable();
            if !behind.iter().any(lacks) {
                return;
            }
            delivered.await;
        }
    }
}

/// One watch of a paced server.
#[derive(Debug)]
pub(crate) struct PacedWatch {
    pacer: Arc<Pacer>,
    /// `None` once the watch has ended.
    progress: Option<Arc<Progress>>,
}

impl PacedWatch {
    /// Joins the watches that writes of `table` wait for.
    pub(crate) fn begin(pacer: Arc<Pacer>, table: Arc<Table>) -> Self {
        let progress = Arc::new(Progress {
            table,
            delivered: AtomicU64::new(u64::MAX),
            is_slow: AtomicBool::new(false),
        });
        pacer.watches.lock().push(Arc::downgrade(&progress));
        Self {
            pacer,
            progress: Some(progress),
        }
    }

    pub(crate) fn pace(&self) -> Pace {
        self.pacer.pace()
    }

    /// Notes that the client has been sent all events up to `rv`.
    pub(crate) fn delivered(&self, rv: ResourceVersion) {
        if let Some(progress) = &self.progress {
            progress.delivered.store(rv.get(), Ordering::Release);
            progress.is_slow.store(false, Ordering::Release);
            self.pacer.delivered.notify_waiters();
        }
    }
}

impl Drop for PacedWatch {
    fn drop(&mut self) {
        self.progress = None;
        self.pacer.delivered.notify_waiters();
    }
}
