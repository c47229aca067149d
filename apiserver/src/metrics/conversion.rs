//! Counts of conversions of custom resources by webhook.

use prometheus::{HistogramVec, Registry, exponential_buckets, proto};

use super::families::{Family, Histogram, MILLISECOND, SECOND, Scale, ratio};
use super::{INVARIANT, Labels, Vectors, retain};

const DURATIONS: Scale = Scale {
    bounds: &[
        5 * MILLISECOND,
        10 * MILLISECOND,
        20 * MILLISECOND,
        50 * MILLISECOND,
        100 * MILLISECOND,
        200 * MILLISECOND,
        500 * MILLISECOND,
        SECOND,
        2 * SECOND,
        5 * SECOND,
        10 * SECOND,
        20 * SECOND,
        30 * SECOND,
        45 * SECOND,
        60 * SECOND,
    ],
    per_unit: SECOND,
};
const OF_DEFINITION: [&str; 4] = ["crd_name", "from_version", "succeeded", "to_version"];

/// The outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Converted {
    Success,
    /// There is no answer.
    CallFailure,
    /// The answer is not one to the request, or reports a failure.
    Malformed,
    /// There are fewer or more objects than were sent.
    Partial,
    /// An object is not the one that was sent.
    InvalidObject,
}

/// The labels of [`Converted`], in its order: the failure's type.
const FAILURES: [&str; 5] = [
    "",
    "conversion_webhook_call_failure",
    "conversion_webhook_malformed_response_failure",
    "conversion_webhook_partial_response_failure",
    "conversion_webhook_invalid_converted_object_failure",
];

/// A call that converts objects of one version to another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConversionCall<'a> {
    /// The name of the definition.
    pub(crate) definition: &'a str,
    pub(crate) from: &'a str,
    pub(crate) to: &'a str,
    pub(crate) outcome: Converted,
    pub(crate) nanos: u64,
}

/// The counts of a server.
#[derive(Debug)]
pub(crate) struct Conversions {
    /// In the order of [`FAILURES`].
    calls: [Histogram; FAILURES.len()],
    registry: Registry,
    by_definition: HistogramVec,
}

impl Default for Conversions {
    fn default() -> Self {
        let vectors = Vectors::default();
        Self {
            calls: [0; FAILURES.len()].map(|_| Histogram::new(DURATIONS)),
            by_definition: vectors.histogram(
                "apiserver_crd_conversion_webhook_duration_seconds",
                "[ALPHA] CRD webhook conversion duration in seconds",
                exponential_buckets(0.001, 2.0, 15).expect(INVARIANT),
                &OF_DEFINITION,
            ),
            registry: vectors.into_registry(),
        }
    }
}

impl Conversions {
    /// A webhook was called.
    pub(crate) fn called(&self, call: ConversionCall<'_>) {
        self.calls[call.outcome as usize].observe(call.nanos);
        if call.from != call.to {
            let succeeded = match call.outcome {
                Converted::Success => "true",
                _ => "false",
            };
            let labels = [call.definition, call.from, succeeded, call.to];
            let seconds = self.by_definition.with_label_values(&labels);
            seconds.observe(ratio(call.nanos, SECOND));
        }
    }

    /// Forgets definitions that are not served any more.
    pub(super) fn forget(&self, is_served: &dyn Fn(&str, &str) -> bool) {
        let keeps = |labels: Labels<'_>| {
            let name = labels.of("crd_name").split_once('.');
            name.is_some_and(|(plural, group)| is_served(group, plural))
        };
        retain(&self.by_definition, &OF_DEFINITION, &keeps);
    }

    pub(super) fn gather(&self) -> Vec<proto::MetricFamily> {
        self.registry.gather()
    }

    pub(super) fn families(&self) -> Vec<Family> {
        let mut requests = Family::counter(
            "apiserver_conversion_webhook_request_total",
            "[ALPHA] Counter for conversion webhook requests with success/failure and failure error type",
        );
        let mut durations = Family::histogram(
            "apiserver_conversion_webhook_duration_seconds",
            "[ALPHA] Conversion webhook request latency",
        );
        for (failure, own) in FAILURES.iter().zip(&self.calls) {
            if own.count() > 0 {
                let result = if failure.is_empty() {
                    "success"
                } else {
                    "failure"
                };
                let labels = [("failure_type", *failure), ("result", result)];
                requests.add(&labels, own.count());
                durations.add_histogram(&labels, own);
            }
        }
        vec![requests, durations]
    }
}
