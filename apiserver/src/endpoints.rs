//! Handling of an HTTP request, up to the HTTP response.

pub(crate) mod aggregated;
pub(crate) mod body;
pub(crate) mod compression;
pub(crate) mod deadline;
pub(crate) mod discovery;
pub(crate) mod handlers;
pub(crate) mod health;
pub(crate) mod negotiation;
#[cfg(feature = "openapi")]
pub(crate) mod openapi;
pub(crate) mod pace;
pub(crate) mod partial;
pub(crate) mod pretty;
pub(crate) mod response;
pub(crate) mod selectors;
pub(crate) mod streams;
pub(crate) mod table;
pub(crate) mod warnings;
pub(crate) mod watch;
pub(crate) mod zpages;

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::fault::Faults;
use crate::kubelet::Kubelet;
use crate::metric_values::MetricValues;
use crate::store;
use deadline::RequestTimeouts;
use pace::Pacer;

/// The state that handlers share.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) store: store::State,
    /// The kubelet that serves the containers of all nodes, once it is set.
    pub(crate) kubelet: Mutex<Option<Arc<dyn Kubelet>>>,
    /// The values of custom and external metrics.
    pub(crate) metric_values: MetricValues,
    /// The period of bookmarks on an idle watch.
    pub(crate) bookmark_period: Duration,
    /// The faults injected by tests.
    pub(crate) faults: Faults,
    /// Keeps the pace; `None` on a server that responds at once.
    pub(crate) pacer: Option<Arc<Pacer>>,
    /// How long requests may take.
    pub(crate) timeouts: RequestTimeouts,
}

impl State {
    /// The state of a server that begins with `store`, a fork of this one's.
    pub(crate) fn forked(&self, store: store::State) -> Self {
        Self {
            faults: Faults::new(store.clock.clone()),
            store,
            kubelet: Mutex::default(),
            metric_values: self.metric_values.clone(),
            bookmark_period: self.bookmark_period,
            pacer: self.pacer.as_ref().map(|own| Pacer::new(own.pace())),
            timeouts: self.timeouts,
        }
    }
}

impl Deref for State {
    type Target = store::State;

    fn deref(&self) -> &store::State {
        &self.store
    }
}
