//! The meters of requests and watches.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::counters::Sent;
use super::labels::{Listed, RequestLabels};
use super::{Metrics, SENT_NOTED_MAX, What};
use crate::clock::{Clock, nanos_between};

/// Counts one request once it is over.
#[derive(Clone, Debug)]
pub(crate) struct RequestMeter {
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) clock: Clock,
    /// The arrival of the request.
    pub(crate) received: Timestamp,
    /// The nanoseconds that it waited for a seat.
    pub(crate) queued: u64,
    pub(crate) labels: Arc<RequestLabels>,
}

/// The end of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    pub(crate) code: u16,
    /// The size of the answer, if it is known.
    pub(crate) bytes: Option<usize>,
    /// The nanoseconds for which it waited for webhooks.
    pub(crate) webhooks: u64,
    pub(crate) listed: Option<Listed>,
}

impl RequestMeter {
    /// The request was answered.
    pub(crate) fn finish(&self, ended: Ended) {
        let Ended {
            code,
            bytes,
            webhooks,
            listed,
        } = ended;
        self.note(What::Answered {
            code,
            elapsed: self.elapsed(),
            waited: Duration::from_nanos(self.queued.saturating_add(webhooks)),
            bytes,
            listed,
        });
    }

    /// Goes on counting while the answer is a watch.
    pub(crate) fn watch(self) -> WatchMeter {
        self.note(What::WatchBegan);
        WatchMeter {
            request: self,
            noted: 0,
            bytes: 0,
            sent: None,
        }
    }

    /// The time since the arrival of the request.
    fn elapsed(&self) -> Duration {
        Duration::from_nanos(nanos_between(self.received, self.clock.now()))
    }

    fn note(&self, what: What) {
        self.metrics.note(&self.labels, what);
    }
}

/// Counts a watch: as open until it is dropped, and its events.
#[derive(Debug)]
pub(crate) struct WatchMeter {
    request: RequestMeter,
    /// The number of events noted.
    noted: usize,
    /// The number of bytes sent.
    bytes: usize,
    /// The counter of events after the first [`SENT_NOTED_MAX`].
    sent: Option<Sent>,
}

impl WatchMeter {
    /// Counts an event with this number of bytes.
    pub(crate) fn sent(&mut self, bytes: usize) {
        self.bytes += bytes;
        if let Some(sent) = &self.sent {
            return sent.count(bytes);
        }
        self.request.note(What::Sent(bytes));
        self.noted += 1;
        if self.noted == SENT_NOTED_MAX {
            let request = &self.request;
            self.sent = Some(request.metrics.sent(&request.labels));
        }
    }

    /// Objects or events that were there before the watch were read for it.
    pub(crate) fn began_with(&self, count: usize) {
        if count > 0 {
            self.request.note(What::Init(count));
        }
    }

    /// Counts the time that a watch waited until the objects were as new as it asked for.
    pub(crate) fn fresh(&self, waited: Duration) {
        self.request.note(What::Fresh(waited));
    }

    /// All objects that were there have been sent, of `scope`.
    pub(crate) fn listed(&self, scope: &'static str) {
        let elapsed = self.request.elapsed();
        self.request.note(What::WatchListed { scope, elapsed });
    }

    /// The watch has fallen behind, and is closed.
    pub(crate) fn terminated(&self) {
        self.request.note(What::WatchTerminated);
    }
}

impl Drop for WatchMeter {
    fn drop(&mut self) {
        self.request.finish(Ended {
            code: 200,
            bytes: Some(self.bytes),
            webhooks: 0,
            listed: None,
        });
        self.request.note(What::WatchEnded);
    }
}
