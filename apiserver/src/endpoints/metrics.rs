//! `/metrics`: what the server counts about itself, under upstream's names.
//!
//! Only what means the same as upstream is here. Durations are of the server's clock, so under
//! virtual time they are those of the simulation.
//!
//! What happens is noted, and counted some hundreds at a time or when somebody asks: most servers of
//! simulated clusters end before, and nobody has asked them.

pub(crate) mod access;
pub(crate) mod families;

use std::mem;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use prometheus::core::{Collector, MetricVec, MetricVecBuilder};
use prometheus::{
    Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts,
    Registry, exponential_buckets,
};

use super::options::Query;
use super::request_info::{RequestInfo, Verb};
use crate::clock::Clock;
use crate::storage::Storage;

use access::Access;
use families::Family;

/// The type of the exposition, as upstream answers those who don't negotiate.
pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

const REQUEST_SECONDS: [f64; 23] = [
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0,
    10.0, 15.0, 20.0, 30.0, 45.0, 60.0,
];

/// The labels of a request.
const OF_REQUEST: [&str; 7] = [
    "verb",
    "group",
    "version",
    "resource",
    "subresource",
    "scope",
    "component",
];
const WITH_DRY_RUN: [&str; 8] = [
    "dry_run",
    "verb",
    "group",
    "version",
    "resource",
    "subresource",
    "scope",
    "component",
];
const OF_WATCH: [&str; 3] = ["group", "version", "resource"];

/// How much is noted before it is counted.
const NOTED_MAX: usize = 512;
/// How many events of a watch are noted before it counts them itself, which costs less from then on.
const SENT_NOTED_MAX: usize = 64;

/// The counters of a server.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    noted: Mutex<Vec<Noted>>,
    counters: OnceLock<Counters>,
    in_flight_mutating: AtomicI64,
    in_flight_read_only: AtomicI64,
    pub(crate) access: Access,
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
        /// Of a whole body.
        bytes: Option<usize>,
    },
    /// A request got no seat.
    Dropped,
    WatchBegan,
    WatchEnded,
    /// A watch sent an event of so many bytes.
    Sent(usize),
}

#[derive(Debug)]
struct Counters {
    registry: Registry,
    requests: IntCounterVec,
    terminations: IntCounterVec,
    request_seconds: HistogramVec,
    response_sizes: HistogramVec,
    long_running: IntGaugeVec,
    in_flight: IntGaugeVec,
    watch_events: IntCounterVec,
    watch_event_sizes: HistogramVec,
    resource_objects: IntGaugeVec,
    storage_objects: IntGaugeVec,
}

const INVARIANT: &str = "names and labels are written in this module";

impl Counters {
    fn new() -> Self {
        let registry = Registry::new();
        let counter = |name: &str, help: &str, labels: &[&str]| {
            register(&registry, IntCounterVec::new(Opts::new(name, help), labels))
        };
        let gauge = |name: &str, help: &str, labels: &[&str]| {
            register(&registry, IntGaugeVec::new(Opts::new(name, help), labels))
        };
        let histogram = |name: &str, help: &str, buckets: Vec<f64>, labels: &[&str]| {
            let options = HistogramOpts::new(name, help).buckets(buckets);
            register(&registry, HistogramVec::new(options, labels))
        };
        Self {
            requests: counter(
                "apiserver_request_total",
                "[STABLE] Counter of apiserver requests broken out for each verb, dry run value, group, version, resource, scope, component, and HTTP response code.",
                &[WITH_DRY_RUN.as_slice(), &["code"]].concat(),
            ),
            terminations: counter(
                "apiserver_request_terminations_total",
                "[ALPHA] Number of requests which apiserver terminated in self-defense.",
                &[OF_REQUEST.as_slice(), &["code"]].concat(),
            ),
            request_seconds: histogram(
                "apiserver_request_duration_seconds",
                "[STABLE] Response latency distribution in seconds for each verb, dry run value, group, version, resource, subresource, scope and component.",
                REQUEST_SECONDS.to_vec(),
                &WITH_DRY_RUN,
            ),
            response_sizes: histogram(
                "apiserver_response_sizes",
                "[STABLE] Response size distribution in bytes for each group, version, verb, resource, subresource, scope and component.",
                exponential_buckets(1000.0, 10.0, 7).expect(INVARIANT),
                &OF_REQUEST,
            ),
            long_running: gauge(
                "apiserver_longrunning_requests",
                "[STABLE] Gauge of all active long-running apiserver requests broken out by verb, group, version, resource, scope and component. Not all requests are tracked this way.",
                &OF_REQUEST,
            ),
            in_flight: gauge(
                "apiserver_current_inflight_requests",
                "[STABLE] Maximal number of currently used inflight request limit of this apiserver per request kind in last second.",
                &["request_kind"],
            ),
            watch_events: counter(
                "apiserver_watch_events_total",
                "[ALPHA] Number of events sent in watch clients",
                &OF_WATCH,
            ),
            watch_event_sizes: histogram(
                "apiserver_watch_events_sizes",
                "[ALPHA] Watch event size distribution in bytes",
                exponential_buckets(1024.0, 2.0, 8).expect(INVARIANT),
                &OF_WATCH,
            ),
            resource_objects: gauge(
                "apiserver_resource_objects",
                "[ALPHA] Number of stored objects at the time of last check split by kind. In case of a fetching error, the value will be -1.",
                &["group", "resource"],
            ),
            storage_objects: gauge(
                "apiserver_storage_objects",
                "[STABLE] (Deprecated since 1.34.0) [DEPRECATED, consider using apiserver_resource_objects instead] Number of stored objects at the time of last check split by kind. In case of a fetching error, the value will be -1.",
                &["resource"],
            ),
            registry,
        }
    }

    fn count(&self, noted: &Noted) {
        let labels = &noted.labels;
        match &noted.what {
            What::Answered {
                code,
                elapsed,
                bytes,
            } => self.answered(labels, *code, *elapsed, *bytes),
            What::Dropped => self.dropped(labels),
            What::WatchBegan => self.open_watches(labels).inc(),
            What::WatchEnded => self.open_watches(labels).dec(),
            What::Sent(bytes) => self.sent(labels).count(*bytes),
        }
    }

    fn answered(&self, labels: &RequestLabels, code: u16, elapsed: Duration, bytes: Option<usize>) {
        let code = code.to_string();
        let mut values = vec![labels.dry_run];
        values.extend(labels.of_request());
        let seconds = self.request_seconds.with_label_values(&values);
        seconds.observe(elapsed.as_secs_f64());
        values.push(&code);
        self.requests.with_label_values(&values).inc();
        if let Some(bytes) = bytes.filter(|_| matches!(labels.verb, "GET" | "LIST")) {
            let sizes = &self.response_sizes;
            let sizes = sizes.with_label_values(&labels.of_request());
            sizes.observe(size(bytes));
        }
    }

    fn dropped(&self, labels: &RequestLabels) {
        let mut values = vec![labels.dry_run];
        values.extend(labels.of_request());
        values.push("429");
        self.requests.with_label_values(&values).inc();
        self.terminations.with_label_values(&values[1..]).inc();
    }

    /// Forgets the requests for resources that are not served any more.
    fn forget(&self, is_served: &dyn Fn(&str, &str) -> bool) {
        let with_code = [WITH_DRY_RUN.as_slice(), &["code"]].concat();
        let terminated = [OF_REQUEST.as_slice(), &["code"]].concat();
        forget(&self.requests, &with_code, is_served);
        forget(&self.terminations, &terminated, is_served);
        forget(&self.request_seconds, &WITH_DRY_RUN, is_served);
        forget(&self.response_sizes, &OF_REQUEST, is_served);
        forget(&self.long_running, &OF_REQUEST, is_served);
        forget(&self.watch_events, &OF_WATCH, is_served);
        forget(&self.watch_event_sizes, &OF_WATCH, is_served);
    }

    fn sent(&self, labels: &RequestLabels) -> Sent {
        let labels = [&*labels.group, &labels.version, &labels.resource];
        Sent {
            events: self.watch_events.with_label_values(&labels),
            sizes: self.watch_event_sizes.with_label_values(&labels),
        }
    }

    fn open_watches(&self, labels: &RequestLabels) -> IntGauge {
        self.long_running.with_label_values(&labels.of_request())
    }
}

/// The events of the watches of a resource.
#[derive(Debug)]
struct Sent {
    events: IntCounter,
    sizes: Histogram,
}

impl Sent {
    fn count(&self, bytes: usize) {
        self.events.inc();
        self.sizes.observe(size(bytes));
    }
}

/// Removes the metrics of `vector`, with these labels, for resources that are not served.
fn forget<B: MetricVecBuilder>(
    vector: &MetricVec<B>,
    labels: &[&str],
    is_served: &dyn Fn(&str, &str) -> bool,
) {
    for metric in vector.collect().iter().flat_map(|own| own.get_metric()) {
        let value = |name: &str| {
            let mut pairs = metric.get_label().iter();
            pairs
                .find(|pair| pair.name() == name)
                .map_or("", |pair| pair.value())
        };
        if !is_served(value("group"), value("resource")) {
            let values: Vec<&str> = labels.iter().map(|label| value(label)).collect();
            // Another caller may have removed it meanwhile.
            let _ = vector.remove_label_values(&values);
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^52")]
fn size(bytes: usize) -> f64 {
    bytes as f64
}

impl Metrics {
    /// Counts a request as being handled until the guard is dropped.
    pub(crate) fn in_flight(&self, is_mutating: bool) -> Held<'_> {
        Held::new(match is_mutating {
            true => &self.in_flight_mutating,
            false => &self.in_flight_read_only,
        })
    }

    /// Counts a request that got no seat.
    pub(crate) fn dropped(&self, labels: RequestLabels) {
        self.note(&Arc::new(labels), What::Dropped);
    }

    /// Forgets what was counted for resources that are not served any more.
    pub(crate) fn forget(&self, is_served: &dyn Fn(&str, &str) -> bool) {
        let mut noted = self.noted.lock();
        if self.counters.get().is_some() {
            self.count(&mut noted).forget(is_served);
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
        self.counters.get_or_init(Counters::new).sent(labels)
    }

    /// Counts what is noted.
    fn count(&self, noted: &mut Vec<Noted>) -> &Counters {
        let counters = self.counters.get_or_init(Counters::new);
        for noted in mem::take(noted) {
            counters.count(&noted);
        }
        counters
    }

    /// Everything counted here and in `others`, sorted by name and labels.
    ///
    /// Resources are those that `is_served`, by group and name.
    pub(crate) fn text(
        &self,
        storage: &Storage,
        is_served: &dyn Fn(&str, &str) -> bool,
        others: Vec<Family>,
    ) -> String {
        let counters = self.count(&mut self.noted.lock());
        counters.forget(is_served);
        counters.resource_objects.reset();
        counters.storage_objects.reset();
        for (kind, now) in [
            ("mutating", &self.in_flight_mutating),
            ("readOnly", &self.in_flight_read_only),
        ] {
            let gauge = counters.in_flight.with_label_values(&[kind]);
            gauge.set(now.load(Ordering::Relaxed));
        }
        for (resource, table) in storage.tables() {
            if !is_served(&resource.group, &resource.resource) {
                continue;
            }
            let count = i64::try_from(table.len()).unwrap_or(i64::MAX);
            let labels = [resource.group.as_str(), &resource.resource];
            let objects = counters.resource_objects.with_label_values(&labels);
            objects.set(count);
            let name = resource.to_string();
            let objects = counters.storage_objects.with_label_values(&[&name]);
            objects.set(count);
        }
        let mut families = counters.registry.gather();
        let others = others.into_iter().chain(self.access.families());
        families.extend(others.filter_map(Family::written));
        families::encoded(families)
    }
}

fn register<C>(registry: &Registry, collector: prometheus::Result<C>) -> C
where
    C: Collector + Clone + 'static,
{
    let collector = collector.expect(INVARIANT);
    registry
        .register(Box::new(collector.clone()))
        .expect(INVARIANT);
    collector
}

/// One more of something, as long as it is held.
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

/// What a request is counted under.
#[derive(Clone, Debug)]
pub(crate) struct RequestLabels {
    verb: &'static str,
    dry_run: &'static str,
    group: String,
    version: String,
    resource: String,
    subresource: String,
    scope: &'static str,
}

impl RequestLabels {
    /// `is_apply`: the body is a configuration to be applied.
    pub(crate) fn new(info: &RequestInfo, query: &Query, is_apply: bool) -> Self {
        let scope = match (&info.name, &info.namespace) {
            (Some(_), _) => "resource",
            _ if info.verb == Some(Verb::Create) => "resource",
            (None, Some(_)) => "namespace",
            (None, None) => "cluster",
        };
        let subresource = info.subresource.clone().unwrap_or_default();
        let connects = ["attach", "exec", "log", "portforward", "proxy"];
        let verb = match info.verb {
            _ if connects.contains(&subresource.as_str()) => "CONNECT",
            Some(Verb::Watch) => "WATCH",
            Some(Verb::List) => "LIST",
            Some(Verb::Get) => "GET",
            Some(Verb::Create) => "POST",
            Some(Verb::Update) => "PUT",
            Some(Verb::Patch) if is_apply => "APPLY",
            Some(Verb::Patch) => "PATCH",
            Some(Verb::Delete | Verb::DeleteCollection) => "DELETE",
            None => "other",
        };
        let dry_run = match query.get("dryRun") {
            None => "",
            Some(_) if query.all("dryRun").all(|value| value == "All") => "All",
            Some(_) => "invalid",
        };
        Self {
            verb,
            dry_run,
            group: info.group.clone(),
            version: info.version.clone(),
            resource: info.resource.clone(),
            subresource,
            scope,
        }
    }

    fn of_request(&self) -> [&str; 7] {
        [
            self.verb,
            &self.group,
            &self.version,
            &self.resource,
            &self.subresource,
            self.scope,
            "apiserver",
        ]
    }
}

/// Counts one request once it is over.
#[derive(Debug)]
pub(crate) struct RequestMeter {
    metrics: Arc<Metrics>,
    clock: Clock,
    start: Timestamp,
    labels: Arc<RequestLabels>,
}

impl RequestMeter {
    pub(crate) fn start(metrics: &Arc<Metrics>, clock: &Clock, labels: RequestLabels) -> Self {
        Self {
            metrics: Arc::clone(metrics),
            clock: clock.clone(),
            start: clock.now(),
            labels: Arc::new(labels),
        }
    }

    /// The request was answered with `code`; `bytes` are those of a whole body.
    pub(crate) fn finish(&self, code: u16, bytes: Option<usize>) {
        let elapsed = Duration::try_from(self.clock.now() - self.start).unwrap_or_default();
        self.note(What::Answered {
            code,
            elapsed,
            bytes,
        });
    }

    /// Goes on counting while the answer is a watch.
    pub(crate) fn watch(self) -> WatchMeter {
        self.note(What::WatchBegan);
        WatchMeter {
            request: self,
            noted: 0,
            sent: None,
        }
    }

    fn note(&self, what: What) {
        self.metrics.note(&self.labels, what);
    }
}

/// Counts a watch: as open until it is dropped, and its events.
#[derive(Debug)]
pub(crate) struct WatchMeter {
    request: RequestMeter,
    /// How many events were noted.
    noted: usize,
    /// Where those are counted that come behind them.
    sent: Option<Sent>,
}

impl WatchMeter {
    /// An event of so many bytes was sent.
    pub(crate) fn sent(&mut self, bytes: usize) {
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
}

impl Drop for WatchMeter {
    fn drop(&mut self) {
        self.request.finish(200, None);
        self.request.note(What::WatchEnded);
    }
}
