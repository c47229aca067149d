//! Counters of the requests of a FlowSchema, and their metrics.
//!
//! Source: apiserver `pkg/util/flowcontrol/metrics/metrics.go`. Families about virtual
//! time and borrowed seats are left out, as there is neither here.

use std::sync::atomic::{AtomicU64, Ordering};

use super::Flow;
use super::level::{Level, Reason};
use crate::metrics::families::{Family, Histogram, MILLISECOND, SECOND, Scale};

const DURATIONS: Scale = Scale {
    bounds: &[
        0,
        5 * MILLISECOND,
        20 * MILLISECOND,
        50 * MILLISECOND,
        100 * MILLISECOND,
        200 * MILLISECOND,
        500 * MILLISECOND,
        SECOND,
        2 * SECOND,
        5 * SECOND,
        10 * SECOND,
        15 * SECOND,
        30 * SECOND,
    ],
    per_unit: SECOND,
};
const LENGTHS: Scale = Scale {
    bounds: &[0, 10, 25, 50, 100, 250, 500, 1000],
    per_unit: 1,
};
const SEATS: Scale = Scale {
    bounds: &[1, 2, 4, 8, 16, 32, 64, 100],
    per_unit: 1,
};
const REASONS: [(Reason, &str); 3] = [
    (Reason::ConcurrencyLimit, "concurrency-limit"),
    (Reason::QueueFull, "queue-full"),
    (Reason::TimeOut, "time-out"),
];

/// The counts of a FlowSchema in its level.
#[derive(Debug)]
pub(super) struct Counters {
    dispatched: AtomicU64,
    /// In the order of [`REASONS`].
    rejected: [AtomicU64; 3],
    in_queue: AtomicU64,
    queue_lengths: Histogram,
    /// Waits of refused requests, and of those that got a seat.
    waits: [Histogram; 2],
    /// Durations of requests, and of the initial stages of watches.
    executions: [Histogram; 2],
}

impl Default for Counters {
    fn default() -> Self {
        Self {
            dispatched: AtomicU64::new(0),
            rejected: [const { AtomicU64::new(0) }; 3],
            in_queue: AtomicU64::new(0),
            queue_lengths: Histogram::new(LENGTHS),
            waits: [Histogram::new(DURATIONS), Histogram::new(DURATIONS)],
            executions: [Histogram::new(DURATIONS), Histogram::new(DURATIONS)],
        }
    }
}

impl Counters {
    /// A request waits in a queue of that length.
    pub(super) fn queued(&self, length: usize) {
        self.in_queue.fetch_add(1, Ordering::Relaxed);
        self.queue_lengths.observe(length as u64);
    }

    /// A request waits no more.
    pub(super) fn unqueued(&self) {
        self.in_queue.fetch_sub(1, Ordering::Relaxed);
    }

    /// Counts a request that waited `nanos` for a seat, and whether it got one.
    pub(super) fn waited(&self, is_seated: bool, nanos: u64) {
        self.waits[usize::from(is_seated)].observe(nanos);
    }

    /// Counts a request that begins to execute.
    pub(super) fn began(&self) {
        self.dispatched.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a request executed, or a watch begun, after `nanos`.
    pub(super) fn ended(&self, is_watch: bool, nanos: u64) {
        self.executions[usize::from(is_watch)].observe(nanos);
    }

    /// Counts a refused request.
    pub(super) fn refused(&self, reason: Reason) {
        let index = REASONS.iter().position(|(own, _)| *own == reason);
        let index = index.expect("every reason is in the list");
        self.rejected[index].fetch_add(1, Ordering::Relaxed);
    }

    /// The number of requests that execute now: begun, and not ended.
    fn executing(&self) -> u64 {
        let ended: u64 = self.executions.iter().map(Histogram::count).sum();
        number(&self.dispatched).saturating_sub(ended)
    }

    /// The number of requests that arrived, whatever their outcome.
    fn came(&self) -> u64 {
        let rejected: u64 = self.rejected.iter().map(number).sum();
        number(&self.dispatched) + rejected + number(&self.in_queue)
    }
}

fn number(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}

fn name(name: &str) -> String {
    format!("apiserver_flowcontrol_{name}")
}

/// The metrics of levels and of the flows in them.
pub(super) fn families(levels: &[&Level], flows: &[&Flow]) -> Vec<Family> {
    let mut families = of_levels(levels);
    let used: Vec<&Flow> = flows.iter().copied().filter(|flow| is_used(flow)).collect();
    families.extend(numbers(&used));
    families.extend(histograms(&used));
    families
}

fn is_used(flow: &Flow) -> bool {
    flow.counters.came() > 0
}

fn of_levels(levels: &[&Level]) -> Vec<Family> {
    let gauge = |own: &str, help: &str| Family::gauge(&name(own), help);
    let mut nominal = gauge(
        "nominal_limit_seats",
        "[BETA] Nominal number of execution seats configured for each priority level",
    );
    let mut lower = gauge(
        "lower_limit_seats",
        "[ALPHA] Configured lower bound on number of execution seats available to each priority level",
    );
    let mut upper = gauge(
        "upper_limit_seats",
        "[ALPHA] Configured upper bound on number of execution seats available to each priority level",
    );
    let mut current = gauge(
        "current_limit_seats",
        "[ALPHA] current derived number of execution seats available to each priority level",
    );
    for level in levels {
        let labels = [("priority_level", level.name.as_str())];
        let limits = level.limits();
        nominal.add(&labels, limits.nominal);
        lower.add(&labels, limits.lower);
        upper.add(&labels, limits.upper);
        if !level.is_exempt {
            current.add(&labels, limits.current());
        }
    }
    vec![nominal, lower, upper, current]
}

fn numbers(flows: &[&Flow]) -> Vec<Family> {
    let gauge = |own: &str, help: &str| Family::gauge(&name(own), help);
    let mut dispatched = Family::counter(
        &name("dispatched_requests_total"),
        "[BETA] Number of requests executed by API Priority and Fairness subsystem",
    );
    let mut rejected = Family::counter(
        &name("rejected_requests_total"),
        "[BETA] Number of requests rejected by API Priority and Fairness subsystem",
    );
    let mut executing = gauge(
        "current_executing_requests",
        "[BETA] Number of requests in initial (for a WATCH) or any (for a non-WATCH) execution stage in the API Priority and Fairness subsystem",
    );
    let mut seats = gauge(
        "current_executing_seats",
        "[BETA] Concurrency (number of seats) occupied by the currently executing (initial stage for a WATCH, any stage otherwise) requests in the API Priority and Fairness subsystem",
    );
    let mut waiting = gauge(
        "current_inqueue_requests",
        "[BETA] Number of requests currently pending in queues of the API Priority and Fairness subsystem",
    );
    let mut waiting_seats = gauge(
        "current_inqueue_seats",
        "[ALPHA] Number of seats currently pending in queues of the API Priority and Fairness subsystem",
    );
    for flow in flows {
        let own = &flow.counters;
        let labels = labels(flow);
        dispatched.add(&labels, number(&own.dispatched));
        for family in [&mut executing, &mut seats] {
            family.add(&labels, own.executing());
        }
        if !flow.level.is_exempt {
            for family in [&mut waiting, &mut waiting_seats] {
                family.add(&labels, number(&own.in_queue));
            }
        }
        for ((_, reason), count) in REASONS.iter().zip(&own.rejected) {
            let count = number(count);
            if count > 0 {
                rejected.add(&[labels[0], labels[1], ("reason", reason)], count);
            }
        }
    }
    vec![
        dispatched,
        rejected,
        executing,
        seats,
        waiting,
        waiting_seats,
    ]
}

fn histograms(flows: &[&Flow]) -> Vec<Family> {
    let histogram = |own: &str, help: &str| Family::histogram(&name(own), help);
    let mut lengths = histogram(
        "request_queue_length_after_enqueue",
        "[ALPHA] Length of queue in the API Priority and Fairness subsystem, as seen by each request after it is enqueued",
    );
    let mut waits = histogram(
        "request_wait_duration_seconds",
        "[BETA] Length of time a request spent waiting in its queue",
    );
    let mut executions = histogram(
        "request_execution_seconds",
        "[ALPHA] Duration of initial stage (for a WATCH) or any (for a non-WATCH) stage of request execution in the API Priority and Fairness subsystem",
    );
    let mut seats = histogram(
        "work_estimated_seats",
        "[ALPHA] Number of estimated seats (maximum of initial and final seats) associated with requests in API Priority and Fairness",
    );
    for flow in flows {
        let own = &flow.counters;
        let [schema, level] = labels(flow);
        let add = |family: &mut Family, more: &[(&str, &str)], histogram: &Histogram| {
            if histogram.count() > 0 {
                let mut labels = vec![schema, level];
                labels.extend(more);
                labels.sort_unstable();
                family.add_histogram(&labels, histogram);
            }
        };
        let estimated = Histogram::new(SEATS);
        estimated.observe_times(1, own.came());
        add(&mut seats, &[], &estimated);
        add(&mut lengths, &[], &own.queue_lengths);
        for (execute, histogram) in ["false", "true"].iter().zip(&own.waits) {
            add(&mut waits, &[("execute", execute)], histogram);
        }
        for (kind, histogram) in ["regular", "watch"].iter().zip(&own.executions) {
            add(&mut executions, &[("type", kind)], histogram);
        }
    }
    vec![lengths, waits, executions, seats]
}

fn labels(flow: &Flow) -> [(&'static str, &str); 2] {
    [
        ("flow_schema", &flow.name),
        ("priority_level", &flow.level.name),
    ]
}
