//! `/metrics`: the server's metrics, under upstream's names.
//!
//! Only metrics with upstream's meaning are served. Durations are of the server's clock, so under
//! virtual time they are simulated.
//!
//! Requests and events are noted first, and counted by the thousand or when a client reads the
//! metrics: most servers of simulated clusters end before that.

pub(crate) mod access;
pub(crate) mod admission;
pub(crate) mod conversion;
mod counters;
pub(crate) mod families;
mod labels;
pub(crate) mod process;
mod requests;
mod summary;
mod tables;

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use prometheus::core::{Collector, MetricVec, MetricVecBuilder};
use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, IntGaugeVec, Opts, Registry, proto};

use crate::storage::Storage;
use admission::Plugin;

use access::Access;
use admission::{Admission, Configured};
use conversion::Conversions;
use counters::{Counters, Known, Sent};
use families::{Family, number};
pub(crate) use labels::{Listed, RequestLabels};
pub(crate) use requests::{Ended, RequestMeter, WatchMeter};

/// The type of the exposition, as upstream answers those who don't negotiate.
pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The number of notes that are counted at a time. The first time takes as long as hundreds of requests do, because labels
/// are new then. A test whose server has less to count does not have this cost unless it reads the metrics.
const NOTED_MAX: usize = 8192;
/// The number of noted events after which a watch counts directly, which costs less from then on.
const SENT_NOTED_MAX: usize = 64;

/// The counters of a server.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    noted: Mutex<Vec<Noted>>,
    counters: OnceLock<Counters>,
    in_flight: ByKind,
    in_queue: ByKind,
    tls_handshake_errors: AtomicU64,
    access: OnceLock<Box<Access>>,
    admission: OnceLock<Box<Admission>>,
    conversions: OnceLock<Box<Conversions>>,
}

/// Numbers of requests that change something, and of those that don't.
#[derive(Debug, Default)]
struct ByKind {
    mutating: AtomicI64,
    read_only: AtomicI64,
}

impl ByKind {
    fn held(&self, is_mutating: bool) -> Held<'_> {
        Held::new(match is_mutating {
            true => &self.mutating,
            false => &self.read_only,
        })
    }

    fn show(&self, gauge: &IntGaugeVec) {
        for (kind, now) in [("mutating", &self.mutating), ("readOnly", &self.read_only)] {
            let gauge = gauge.with_label_values(&[kind]);
            gauge.set(now.load(Ordering::Relaxed));
        }
    }
}

/// Something to be counted.
#[derive(Debug)]
struct Noted {
    labels: Arc<RequestLabels>,
    what: What,
}

#[derive(Debug)]
enum What {
    /// A request is over.
    Answered {
        code: u16,
        elapsed: Duration,
        /// The part of `elapsed` that the request waited for webhooks and for a seat.
        waited: Duration,
        /// The size of the answer, if it is known.
        bytes: Option<usize>,
        listed: Option<Listed>,
    },
    /// A request got no seat.
    Dropped,
    /// A request took too long, and was answered before its handler was done.
    TimedOut,
    WatchBegan,
    WatchEnded,
    /// A watch sent an event with this number of bytes.
    Sent(usize),
    /// A watch read this many objects or events from before its start.
    Init(usize),
    /// A watch waited until the objects were as new as it asked for.
    Fresh(Duration),
    /// A watch has sent all objects that were there.
    WatchListed {
        scope: &'static str,
        elapsed: Duration,
    },
    /// A watch was closed because it fell behind.
    WatchTerminated,
}

const INVARIANT: &str = "names and labels are written in these modules";

/// Vectors of metrics that are shown together.
#[derive(Debug, Default)]
pub(crate) struct Vectors(Registry);

impl Vectors {
    pub(crate) fn counter(&self, name: &str, help: &str, labels: &[&str]) -> IntCounterVec {
        self.register(IntCounterVec::new(Opts::new(name, help), labels))
    }

    pub(crate) fn gauge(&self, name: &str, help: &str, labels: &[&str]) -> IntGaugeVec {
        self.register(IntGaugeVec::new(Opts::new(name, help), labels))
    }

    pub(crate) fn histogram(
        &self,
        name: &str,
        help: &str,
        buckets: Vec<f64>,
        labels: &[&str],
    ) -> HistogramVec {
        let options = HistogramOpts::new(name, help).buckets(buckets);
        self.register(HistogramVec::new(options, labels))
    }

    pub(crate) fn into_registry(self) -> Registry {
        self.0
    }

    fn register<C>(&self, collector: prometheus::Result<C>) -> C
    where
        C: Collector + Clone + 'static,
    {
        let collector = collector.expect(INVARIANT);
        let registered = self.0.register(Box::new(collector.clone()));
        registered.expect(INVARIANT);
        collector
    }
}

/// The labels of a metric.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Labels<'m>(&'m proto::Metric);

impl<'m> Labels<'m> {
    /// The value of the label `name`, empty if the metric lacks it.
    pub(crate) fn of(self, name: &str) -> &'m str {
        let mut pairs = self.0.get_label().iter();
        let pair = pairs.find(|pair| pair.name() == name);
        pair.map_or("", |pair| pair.value())
    }
}

/// Removes the metrics of `vector`, whose labels are named `names`, that `keeps` does not keep.
pub(crate) fn retain<B: MetricVecBuilder>(
    vector: &MetricVec<B>,
    names: &[&str],
    keeps: &dyn Fn(Labels<'_>) -> bool,
) {
    for metric in vector.collect().iter().flat_map(|own| own.get_metric()) {
        let labels = Labels(metric);
        if !keeps(labels) {
            let values: Vec<&str> = names.iter().map(|name| labels.of(name)).collect();
            // Another caller may have removed it meanwhile.
            let _ = vector.remove_label_values(&values);
        }
    }
}

/// The state of the server that the families need in addition to the counts.
pub(crate) struct Shown<'a> {
    pub(crate) now: Timestamp,
    pub(crate) storage: &'a Storage,
    /// Whether a resource is served, by its group and name.
    pub(crate) is_served: &'a dyn Fn(&str, &str) -> bool,
    pub(crate) has_plugin: &'a dyn Fn(Plugin) -> bool,
    pub(crate) configured: &'a Configured,
}

impl Metrics {
    /// Counts a request as being handled until the guard is dropped.
    pub(crate) fn in_flight(&self, is_mutating: bool) -> Held<'_> {
        self.in_flight.held(is_mutating)
    }

    /// Counts a request as waiting for a seat until the guard is dropped.
    pub(crate) fn in_queue(&self, is_mutating: bool) -> Held<'_> {
        self.in_queue.held(is_mutating)
    }

    /// Counts a connection that ended in its TLS handshake.
    pub(crate) fn tls_handshake_failed(&self) {
        self.tls_handshake_errors.fetch_add(1, Ordering::Relaxed);
    }

    /// The counts of authentication and authorization.
    pub(crate) fn access(&self) -> &Access {
        self.access.get_or_init(Box::default)
    }

    /// The counts of admission.
    pub(crate) fn admission(&self) -> &Admission {
        self.admission.get_or_init(Box::default)
    }

    /// The counts of conversions by webhook.
    pub(crate) fn conversions(&self) -> &Conversions {
        self.conversions.get_or_init(Box::default)
    }

    /// Counts a request that got no seat.
    pub(crate) fn dropped(&self, labels: RequestLabels) {
        self.note(&Arc::new(labels), What::Dropped);
    }

    /// Counts a request whose time was over.
    pub(crate) fn timed_out(&self, labels: &Arc<RequestLabels>) {
        self.note(labels, What::TimedOut);
    }

    /// Drops the metrics of resources that are not served any more.
    pub(crate) fn forget(&self, is_served: &dyn Fn(&str, &str) -> bool) {
        let mut noted = self.noted.lock();
        if self.counters.get().is_some() {
            self.count(&mut noted).forget(is_served);
        }
        if let Some(conversions) = self.conversions.get() {
            conversions.forget(is_served);
        }
    }

    /// Drops the metrics of webhooks and policies that are not configured any more.
    pub(crate) fn forget_names(&self, configured: impl FnOnce() -> Configured) {
        let admission = self.admission.get();
        if let Some(named) = admission.and_then(|own| own.named_so_far()) {
            named.forget(&configured());
        }
    }

    fn note(&self, labels: &Arc<RequestLabels>, what: What) {
        let labels = Arc::clone(labels);
        let mut noted = self.noted.lock();
        noted.push(Noted { labels, what });
        if noted.len() >= NOTED_MAX {
            self.count(&mut noted);
        }
    }

    fn sent(&self, labels: &RequestLabels) -> Sent {
        self.counters.get_or_init(Counters::default).sent(labels)
    }

    /// Counts the notes so far.
    fn count(&self, noted: &mut Vec<Noted>) -> &Counters {
        let counters = self.counters.get_or_init(Counters::default);
        let mut known = Known::default();
        for noted in noted.drain(..) {
            counters.count(&noted, &mut known);
        }
        counters
    }

    /// Everything counted here and in `others`, sorted by name and labels.
    pub(crate) fn text(&self, shown: &Shown<'_>, others: Vec<Family>) -> String {
        let counters = self.count(&mut self.noted.lock());
        counters.forget(shown.is_served);
        self.in_flight.show(&counters.in_flight);
        self.in_queue.show(&counters.in_queue);
        let mut handshakes = Family::counter(
            "apiserver_tls_handshake_errors_total",
            "[ALPHA] Number of requests dropped with 'TLS handshake error from' error",
        );
        handshakes.add(&[], number(&self.tls_handshake_errors));
        let admission = self.admission();
        let mut families = counters.registry.gather();
        if let Some(named) = admission.named_so_far() {
            named.forget(shown.configured);
            families.extend(named.gather());
        }
        let mut others = others;
        if let Some(conversions) = self.conversions.get() {
            conversions.forget(shown.is_served);
            families.extend(conversions.gather());
            others.extend(conversions.families());
        }
        let others = others.into_iter().chain([handshakes]);
        let others = others
            .chain(self.access().families())
            .chain(admission.families(shown.now, shown.has_plugin))
            .chain(tables::families(shown.storage, shown.is_served));
        families.extend(others.filter_map(Family::written));
        families::encoded(families)
    }
}

/// Increments a gauge by one until it is dropped.
#[derive(Debug)]
pub(crate) struct Held<'m>(&'m AtomicI64);

impl<'m> Held<'m> {
    fn new(count: &'m AtomicI64) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
