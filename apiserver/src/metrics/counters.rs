//! The counters of requests and watches, which differ in the labels of a request.

use std::sync::Arc;
use std::time::Duration;

use prometheus::{
    Histogram, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Registry,
    exponential_buckets, linear_buckets,
};

use super::labels::{Listed, RequestLabels};
use super::{INVARIANT, Labels, Noted, Vectors, What, retain};

const REQUEST_SECONDS: [f64; 23] = [
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0,
    10.0, 15.0, 20.0, 30.0, 45.0, 60.0,
];
const WATCH_LIST_SECONDS: [f64; 17] = [
    0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0,
];
const READ_WAIT_SECONDS: [f64; 13] = [
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0,
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
const WITH_CODE: [&str; 9] = [
    "dry_run",
    "verb",
    "group",
    "version",
    "resource",
    "subresource",
    "scope",
    "component",
    "code",
];
const OF_TERMINATION: [&str; 8] = [
    "verb",
    "group",
    "version",
    "resource",
    "subresource",
    "scope",
    "component",
    "code",
];
const OF_WATCH: [&str; 3] = ["group", "version", "resource"];
const OF_WATCH_LIST: [&str; 4] = ["group", "version", "resource", "scope"];
const OF_BODY: [&str; 3] = ["group", "resource", "verb"];
const OF_DEPRECATED: [&str; 5] = [
    "group",
    "version",
    "resource",
    "subresource",
    "removed_release",
];
const OF_SELF: [&str; 4] = ["verb", "group", "resource", "subresource"];
const OF_CACHE: [&str; 2] = ["group", "resource"];
const OF_INDEX: [&str; 3] = ["group", "resource", "index"];
const OF_READ: [&str; 4] = ["group", "resource", "success", "fallback"];

/// The counters of a server.
#[derive(Debug)]
pub(super) struct Counters {
    pub(super) registry: Registry,
    pub(super) in_flight: IntGaugeVec,
    pub(super) in_queue: IntGaugeVec,
    requests: IntCounterVec,
    terminations: IntCounterVec,
    request_seconds: HistogramVec,
    sli_seconds: HistogramVec,
    response_sizes: HistogramVec,
    body_sizes: HistogramVec,
    deprecated: IntGaugeVec,
    self_requests: IntCounterVec,
    long_running: IntGaugeVec,
    watch_events: IntCounterVec,
    watch_event_sizes: HistogramVec,
    watch_list_seconds: HistogramVec,
    init_events: IntCounterVec,
    terminated_watchers: IntCounterVec,
    lists: IntCounterVec,
    lists_fetched: IntCounterVec,
    lists_returned: IntCounterVec,
    read_wait_seconds: HistogramVec,
    consistent_reads: IntCounterVec,
}

impl Default for Counters {
    #[expect(clippy::too_many_lines, reason = "a list of families with their texts")]
    fn default() -> Self {
        let vectors = Vectors::default();
        let counter = |name: &str, help: &str, labels: &[&str]| vectors.counter(name, help, labels);
        let gauge = |name: &str, help: &str, labels: &[&str]| vectors.gauge(name, help, labels);
        let histogram = |name: &str, help: &str, buckets: Vec<f64>, labels: &[&str]| {
            vectors.histogram(name, help, buckets, labels)
        };
        Self {
            requests: counter(
                "apiserver_request_total",
                "[STABLE] Counter of apiserver requests broken out for each verb, dry run value, group, version, resource, scope, component, and HTTP response code.",
                &WITH_CODE,
            ),
            terminations: counter(
                "apiserver_request_terminations_total",
                "[ALPHA] Number of requests which apiserver terminated in self-defense.",
                &OF_TERMINATION,
            ),
            request_seconds: histogram(
                "apiserver_request_duration_seconds",
                "[STABLE] Response latency distribution in seconds for each verb, dry run value, group, version, resource, subresource, scope and component.",
                REQUEST_SECONDS.to_vec(),
                &WITH_DRY_RUN,
            ),
            sli_seconds: histogram(
                "apiserver_request_sli_duration_seconds",
                "[ALPHA] Response latency distribution (not counting webhook duration and priority & fairness queue wait times) in seconds for each verb, group, version, resource, subresource, scope and component.",
                // The buckets of the whole duration without the two smallest.
                REQUEST_SECONDS[2..].to_vec(),
                &OF_REQUEST,
            ),
            response_sizes: histogram(
                "apiserver_response_sizes",
                "[STABLE] Response size distribution in bytes for each group, version, verb, resource, subresource, scope and component.",
                exponential_buckets(1000.0, 10.0, 7).expect(INVARIANT),
                &OF_REQUEST,
            ),
            body_sizes: histogram(
                "apiserver_request_body_size_bytes",
                "[ALPHA] Apiserver request body size in bytes broken out by resource and verb.",
                linear_buckets(50_000.0, 100_000.0, 31).expect(INVARIANT),
                &OF_BODY,
            ),
            deprecated: gauge(
                "apiserver_requested_deprecated_apis",
                "[STABLE] Gauge of deprecated APIs that have been requested, broken out by API group, version, resource, subresource, and removed_release.",
                &OF_DEPRECATED,
            ),
            self_requests: counter(
                "apiserver_selfrequest_total",
                "[ALPHA] Counter of apiserver self-requests broken out for each verb, API resource and subresource.",
                &OF_SELF,
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
            in_queue: gauge(
                "apiserver_current_inqueue_requests",
                "[ALPHA] Maximal number of queued requests in this apiserver per request kind in last second.",
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
            watch_list_seconds: histogram(
                "apiserver_watch_list_duration_seconds",
                "[BETA] Response latency distribution in seconds for watch list requests broken by group, version, resource and scope.",
                WATCH_LIST_SECONDS.to_vec(),
                &OF_WATCH_LIST,
            ),
            init_events: counter(
                "apiserver_init_events_total",
                "[ALPHA] Counter of init events processed in watch cache broken by resource type.",
                &OF_CACHE,
            ),
            terminated_watchers: counter(
                "apiserver_terminated_watchers_total",
                "[ALPHA] Counter of watchers closed due to unresponsiveness broken by resource type.",
                &OF_CACHE,
            ),
            lists: counter(
                "apiserver_cache_list_total",
                "[ALPHA] Number of LIST requests served from watch cache",
                &OF_INDEX,
            ),
            lists_fetched: counter(
                "apiserver_cache_list_fetched_objects_total",
                "[ALPHA] Number of objects read from watch cache in the course of serving a LIST request",
                &OF_INDEX,
            ),
            lists_returned: counter(
                "apiserver_cache_list_returned_objects_total",
                "[ALPHA] Number of objects returned for a LIST request from watch cache",
                &OF_CACHE,
            ),
            read_wait_seconds: histogram(
                "apiserver_watch_cache_read_wait_seconds",
                "[ALPHA] Histogram of time spent waiting for a watch cache to become fresh.",
                READ_WAIT_SECONDS.to_vec(),
                &OF_CACHE,
            ),
            consistent_reads: counter(
                "apiserver_watch_cache_consistent_read_total",
                "[ALPHA] Counter for consistent reads from cache.",
                &OF_READ,
            ),
            registry: vectors.into_registry(),
        }
    }
}

/// The metrics of the answers counted last: looking them up by their labels costs the most.
#[derive(Debug, Default)]
pub(super) struct Known(Vec<Answers>);

/// The number of these; a server is seldom asked more at a time.
const KNOWN_MAX: usize = 8;

/// The metrics that count an answer.
#[derive(Debug)]
struct Answers {
    labels: Arc<RequestLabels>,
    code: u16,
    total: IntCounter,
    seconds: Histogram,
    sli_seconds: Option<Histogram>,
    response_sizes: Option<Histogram>,
    body_sizes: Option<Histogram>,
}

impl Known {
    fn get(&mut self, counters: &Counters, labels: &Arc<RequestLabels>, code: u16) -> &Answers {
        let mut known = self.0.iter();
        let at = known.position(|own| own.code == code && own.labels.counts_as(labels));
        let at = at.unwrap_or_else(|| {
            if self.0.len() == KNOWN_MAX {
                self.0.remove(0);
            }
            self.0.push(Answers::new(counters, labels, code));
            self.0.len() - 1
        });
        &self.0[at]
    }
}

impl Answers {
    fn new(counters: &Counters, labels: &Arc<RequestLabels>, code: u16) -> Self {
        let [verb, group, _, resource, ..] = labels.of_request();
        // A watch lasts as long as its client wants.
        let has_sli = labels.dry_run.is_empty() && verb != "WATCH";
        let of_request = |vector: &HistogramVec| vector.with_label_values(&labels.of_request());
        Self {
            labels: Arc::clone(labels),
            code,
            total: counters.total(labels, &code.to_string()),
            seconds: counters
                .request_seconds
                .with_label_values(&labels.with_dry_run()),
            sli_seconds: has_sli.then(|| of_request(&counters.sli_seconds)),
            response_sizes: labels.is_read.then(|| of_request(&counters.response_sizes)),
            body_sizes: labels.body.map(|(verb, _)| {
                let labels = [group, resource, verb];
                counters.body_sizes.with_label_values(&labels)
            }),
        }
    }
}

impl Counters {
    pub(super) fn count(&self, noted: &Noted, known: &mut Known) {
        let labels = &noted.labels;
        match &noted.what {
            What::Answered { .. } => self.answered(labels, &noted.what, known),
            What::Dropped => {
                self.total(labels, "429").inc();
                self.terminated(labels, "429");
            }
            What::TimedOut => self.terminated(labels, "504"),
            What::WatchBegan => self.open_watches(labels).inc(),
            What::WatchEnded => self.open_watches(labels).dec(),
            What::Sent(bytes) => self.sent(labels).count(*bytes),
            What::Init(count) => {
                let counter = self.init_events.with_label_values(&labels.of_cache());
                counter.inc_by(*count as u64);
            }
            What::Fresh(waited) => self.waited(labels, *waited),
            What::WatchListed { scope, elapsed } => {
                let [group, version, resource] = labels.of_watch();
                let labels = [group, version, resource, scope];
                let seconds = self.watch_list_seconds.with_label_values(&labels);
                seconds.observe(elapsed.as_secs_f64());
            }
            What::WatchTerminated => {
                let terminated = &self.terminated_watchers;
                terminated.with_label_values(&labels.of_cache()).inc();
            }
        }
    }

    fn answered(&self, labels: &Arc<RequestLabels>, answered: &What, known: &mut Known) {
        let What::Answered {
            code,
            elapsed,
            waited,
            bytes,
            listed,
        } = answered
        else {
            return;
        };
        let answers = known.get(self, labels, *code);
        answers.total.inc();
        answers.seconds.observe(elapsed.as_secs_f64());
        if let Some(seconds) = &answers.sli_seconds {
            seconds.observe(elapsed.saturating_sub(*waited).as_secs_f64());
        }
        if let Some((sizes, bytes)) = answers.response_sizes.as_ref().zip(*bytes) {
            sizes.observe(size(bytes));
        }
        if let Some((sizes, (_, bytes))) = answers.body_sizes.as_ref().zip(labels.body) {
            sizes.observe(size(bytes));
        }
        let [verb, group, version, resource, subresource, ..] = labels.of_request();
        if labels.is_deprecated {
            // None of the deprecated versions that are served has a release that will be without it.
            let labels = [group, version, resource, subresource, ""];
            self.deprecated.with_label_values(&labels).set(1);
        }
        if labels.is_own {
            let labels = [verb, group, resource, subresource];
            self.self_requests.with_label_values(&labels).inc();
        }
        if let Some(listed) = listed {
            self.listed(labels, *listed);
        }
    }

    fn listed(&self, labels: &RequestLabels, listed: Listed) {
        let [group, resource] = labels.of_cache();
        // No list here is answered from an index.
        let of_index = [group, resource, ""];
        self.lists.with_label_values(&of_index).inc();
        let fetched = self.lists_fetched.with_label_values(&of_index);
        fetched.inc_by(listed.fetched as u64);
        let returned = self.lists_returned.with_label_values(&[group, resource]);
        returned.inc_by(listed.returned as u64);
        if listed.is_consistent {
            let labels = [group, resource, "true", "false"];
            self.consistent_reads.with_label_values(&labels).inc();
        }
        if listed.awaits_version {
            // A table is as new as it can be: lists do not wait.
            self.waited(labels, Duration::ZERO);
        }
    }

    fn waited(&self, labels: &RequestLabels, waited: Duration) {
        let seconds = &self.read_wait_seconds;
        let seconds = seconds.with_label_values(&labels.of_cache());
        seconds.observe(waited.as_secs_f64());
    }

    fn total(&self, labels: &RequestLabels, code: &str) -> IntCounter {
        let [
            dry_run,
            verb,
            group,
            version,
            resource,
            subresource,
            scope,
            component,
        ] = labels.with_dry_run();
        let values = [
            dry_run,
            verb,
            group,
            version,
            resource,
            subresource,
            scope,
            component,
            code,
        ];
        self.requests.with_label_values(&values)
    }

    fn terminated(&self, labels: &RequestLabels, code: &str) {
        let [
            verb,
            group,
            version,
            resource,
            subresource,
            scope,
            component,
        ] = labels.of_request();
        let values = [
            verb,
            group,
            version,
            resource,
            subresource,
            scope,
            component,
            code,
        ];
        self.terminations.with_label_values(&values).inc();
    }

    /// Forgets the requests for resources that are not served any more.
    pub(super) fn forget(&self, is_served: &dyn Fn(&str, &str) -> bool) {
        let keeps = |labels: Labels<'_>| {
            let (group, resource) = (labels.of("group"), labels.of("resource"));
            // Some paths name no resource.
            resource.is_empty() || is_served(group, resource)
        };
        retain(&self.requests, &WITH_CODE, &keeps);
        retain(&self.terminations, &OF_TERMINATION, &keeps);
        retain(&self.request_seconds, &WITH_DRY_RUN, &keeps);
        retain(&self.sli_seconds, &OF_REQUEST, &keeps);
        retain(&self.response_sizes, &OF_REQUEST, &keeps);
        retain(&self.body_sizes, &OF_BODY, &keeps);
        retain(&self.deprecated, &OF_DEPRECATED, &keeps);
        retain(&self.self_requests, &OF_SELF, &keeps);
        retain(&self.long_running, &OF_REQUEST, &keeps);
        retain(&self.watch_events, &OF_WATCH, &keeps);
        retain(&self.watch_event_sizes, &OF_WATCH, &keeps);
        retain(&self.watch_list_seconds, &OF_WATCH_LIST, &keeps);
        for vector in [&self.init_events, &self.terminated_watchers] {
            retain(vector, &OF_CACHE, &keeps);
        }
        for vector in [&self.lists, &self.lists_fetched] {
            retain(vector, &OF_INDEX, &keeps);
        }
        retain(&self.lists_returned, &OF_CACHE, &keeps);
        retain(&self.read_wait_seconds, &OF_CACHE, &keeps);
        retain(&self.consistent_reads, &OF_READ, &keeps);
    }

    pub(super) fn sent(&self, labels: &RequestLabels) -> Sent {
        let labels = labels.of_watch();
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
pub(super) struct Sent {
    events: IntCounter,
    sizes: Histogram,
}

impl Sent {
    pub(super) fn count(&self, bytes: usize) {
        self.events.inc();
        self.sizes.observe(size(bytes));
    }
}

#[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^52")]
fn size(bytes: usize) -> f64 {
    bytes as f64
}
