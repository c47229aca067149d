//! Counts under the names of webhooks and policies, which go when these do.

use std::collections::BTreeSet;

use prometheus::{HistogramVec, IntCounterVec, Registry, proto};

use crate::metrics::families::{SECOND, ratio};
use crate::metrics::{Labels, Vectors, retain};
use crate::request::Operation;

const CALLED: [&str; 4] = ["name", "operation", "rejected", "type"];
const REQUESTED: [&str; 5] = ["code", "name", "operation", "rejected", "type"];
const REJECTED: [&str; 5] = ["error_type", "name", "operation", "rejection_code", "type"];
const FAILED_OPEN: [&str; 2] = ["name", "type"];
const CONDITION: [&str; 4] = ["kind", "name", "operation", "type"];
const VALIDATED: [&str; 4] = [
    "enforcement_action",
    "error_type",
    "policy",
    "policy_binding",
];
const MUTATED: [&str; 3] = ["error_type", "policy", "policy_binding"];
/// Codes above this are shown as this.
const CODE_MAX: u16 = 600;

/// The counts of a server.
#[derive(Debug)]
pub(crate) struct Named {
    registry: Registry,
    call_seconds: HistogramVec,
    calls: IntCounterVec,
    rejections: IntCounterVec,
    fail_opens: IntCounterVec,
    condition_seconds: HistogramVec,
    condition_errors: IntCounterVec,
    condition_exclusions: IntCounterVec,
    validation_seconds: HistogramVec,
    validations: IntCounterVec,
    mutation_seconds: HistogramVec,
    mutations: IntCounterVec,
}

/// The reason of a webhook's refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rejection {
    /// The call failed, or its answer is not valid, and the failure policy is Fail.
    CallingWebhook,
    /// The server could not go on with its answer.
    ServerInternal,
    /// The webhook refused.
    NoError,
}

impl Rejection {
    fn as_str(self) -> &'static str {
        match self {
            Self::CallingWebhook => "calling_webhook_error",
            Self::ServerInternal => "apiserver_internal_error",
            Self::NoError => "no_error",
        }
    }
}

/// A call of an admission webhook.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WebhookCall<'a> {
    pub(crate) webhook: &'a str,
    /// `admit` or `validating`.
    pub(crate) step: &'static str,
    pub(crate) operation: Operation,
    /// The code that the call came to: 200, that of a refusal or failure, 0 for faults of the server.
    pub(crate) code: u16,
    pub(crate) rejection: Option<Rejection>,
    /// Whether it failed, and the write goes on.
    pub(crate) fails_open: bool,
    pub(crate) nanos: u64,
}

/// An expression of a policy that has been evaluated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PolicyCheck<'a> {
    pub(crate) policy: &'a str,
    pub(crate) binding: &'a str,
    /// The label `error_type`: the kind of the evaluation error or denial.
    pub(crate) error_type: &'static str,
    pub(crate) nanos: u64,
}

/// Match conditions that have been evaluated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConditionCheck<'a> {
    /// `webhook` or `policy`.
    pub(crate) kind: &'static str,
    pub(crate) name: &'a str,
    pub(crate) step: &'static str,
    pub(crate) operation: Operation,
}

impl ConditionCheck<'_> {
    fn labels(&self) -> [&str; 4] {
        [self.kind, self.name, self.operation.as_str(), self.step]
    }
}

/// The names that webhooks and policies have.
#[derive(Debug, Default)]
pub(crate) struct Configured {
    pub(crate) webhooks: BTreeSet<String>,
    pub(crate) policies: BTreeSet<String>,
}

fn seconds(nanos: u64) -> f64 {
    ratio(nanos, SECOND)
}

impl Default for Named {
    fn default() -> Self {
        let vectors = Vectors::default();
        let (counter, histogram) = (
            |name: &str, help: &str, labels: &[&str]| vectors.counter(name, help, labels),
            |name: &str, help: &str, buckets: &[f64], labels: &[&str]| {
                vectors.histogram(name, help, buckets.to_vec(), labels)
            },
        );
        let checks = [0.000_000_5, 0.001, 0.01, 0.1, 1.0];
        Self {
            call_seconds: histogram(
                "apiserver_admission_webhook_admission_duration_seconds",
                "[STABLE] Admission webhook latency histogram in seconds, identified by name and broken out for each operation and API resource and type (validate or admit).",
                &[0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 25.0],
                &CALLED,
            ),
            calls: counter(
                "apiserver_admission_webhook_request_total",
                "[ALPHA] Admission webhook request total, identified by name and broken out for each admission type (validating or admit) and operation. Additional labels specify whether the request was rejected or not and an HTTP status code. Codes greater than 600 are truncated to 600, to keep the metrics cardinality bounded.",
                &REQUESTED,
            ),
            rejections: counter(
                "apiserver_admission_webhook_rejection_count",
                "[ALPHA] Admission webhook rejection count, identified by name and broken out for each admission type (validating or admit) and operation. Additional labels specify an error type (calling_webhook_error or apiserver_internal_error if an error occurred; no_error otherwise) and optionally a non-zero rejection code if the webhook rejects the request with an HTTP status code (honored by the apiserver when the code is greater or equal to 400). Codes greater than 600 are truncated to 600, to keep the metrics cardinality bounded.",
                &REJECTED,
            ),
            fail_opens: counter(
                "apiserver_admission_webhook_fail_open_count",
                "[ALPHA] Admission webhook fail open count, identified by name and broken out for each admission type (validating or admit).",
                &FAILED_OPEN,
            ),
            condition_seconds: histogram(
                "apiserver_admission_match_condition_evaluation_seconds",
                "[ALPHA] Admission match condition evaluation time in seconds, identified by name and broken out for each kind containing matchConditions (webhook or policy), operation and type (validate or admit).",
                &[0.001, 0.005, 0.01, 0.025, 0.1, 0.2, 0.25],
                &CONDITION,
            ),
            condition_errors: counter(
                "apiserver_admission_match_condition_evaluation_errors_total",
                "[ALPHA] Admission match condition evaluation errors count, identified by name of resource containing the match condition and broken out for each kind containing matchConditions (webhook or policy), operation and admission type (validate or admit).",
                &CONDITION,
            ),
            condition_exclusions: counter(
                "apiserver_admission_match_condition_exclusions_total",
                "[ALPHA] Admission match condition evaluation exclusions count, identified by name of resource containing the match condition and broken out for each kind containing matchConditions (webhook or policy), operation and admission type (validate or admit).",
                &CONDITION,
            ),
            validation_seconds: histogram(
                "apiserver_validating_admission_policy_check_duration_seconds",
                "[BETA] Validation admission latency for individual validation expressions in seconds, labeled by policy and further including binding and enforcement action taken.",
                &checks,
                &VALIDATED,
            ),
            validations: counter(
                "apiserver_validating_admission_policy_check_total",
                "[BETA] Validation admission policy check total, labeled by policy and further identified by binding and enforcement action taken.",
                &VALIDATED,
            ),
            mutation_seconds: histogram(
                "apiserver_mutating_admission_policy_check_duration_seconds",
                "[ALPHA] Mutation admission latency for individual mutation expressions in seconds, labeled by policy and binding.",
                &checks,
                &MUTATED,
            ),
            mutations: counter(
                "apiserver_mutating_admission_policy_check_total",
                "[ALPHA] Mutation admission policy check total, labeled by policy and further identified by binding.",
                &MUTATED,
            ),
            registry: vectors.into_registry(),
        }
    }
}

impl Named {
    /// A webhook was called.
    pub(crate) fn called(&self, call: WebhookCall<'_>) {
        let operation = call.operation.as_str();
        let rejected = if call.rejection.is_some() {
            "true"
        } else {
            "false"
        };
        let code = call.code.min(CODE_MAX).to_string();
        let (name, step) = (call.webhook, call.step);
        let labels = [name, operation, rejected, step];
        let durations = self.call_seconds.with_label_values(&labels);
        durations.observe(seconds(call.nanos));
        let labels = [code.as_str(), name, operation, rejected, step];
        self.calls.with_label_values(&labels).inc();
        if let Some(rejection) = call.rejection {
            let labels = [rejection.as_str(), name, operation, code.as_str(), step];
            self.rejections.with_label_values(&labels).inc();
        }
        if call.fails_open {
            self.fail_opens.with_label_values(&[name, step]).inc();
        }
    }

    /// Match conditions were evaluated, some of which had no result.
    pub(crate) fn conditions(&self, check: ConditionCheck<'_>, errors: usize, nanos: u64) {
        let labels = check.labels();
        let durations = self.condition_seconds.with_label_values(&labels);
        durations.observe(seconds(nanos));
        if errors > 0 {
            let counter = self.condition_errors.with_label_values(&labels);
            counter.inc_by(errors as u64);
        }
    }

    /// Match conditions left a webhook out.
    pub(crate) fn excluded(&self, check: ConditionCheck<'_>) {
        let labels = check.labels();
        self.condition_exclusions.with_label_values(&labels).inc();
    }

    /// A validating policy was checked with a consequence: `allow`, `deny`, `audit` or `warn`.
    pub(crate) fn validated(&self, check: PolicyCheck<'_>, action: &str) {
        let labels = [action, check.error_type, check.policy, check.binding];
        self.validations.with_label_values(&labels).inc();
        let durations = self.validation_seconds.with_label_values(&labels);
        durations.observe(seconds(check.nanos));
    }

    /// A mutation of a policy was evaluated.
    pub(crate) fn mutated(&self, check: PolicyCheck<'_>) {
        let labels = [check.error_type, check.policy, check.binding];
        self.mutations.with_label_values(&labels).inc();
        let durations = self.mutation_seconds.with_label_values(&labels);
        durations.observe(seconds(check.nanos));
    }

    /// Drops the metrics of names that are not configured any more.
    pub(crate) fn forget(&self, configured: &Configured) {
        let webhook = |labels: Labels<'_>| configured.webhooks.contains(labels.of("name"));
        let policy = |labels: Labels<'_>| configured.policies.contains(labels.of("policy"));
        let condition = |labels: Labels<'_>| match labels.of("kind") {
            "policy" => configured.policies.contains(labels.of("name")),
            _ => webhook(labels),
        };
        retain(&self.call_seconds, &CALLED, &webhook);
        retain(&self.calls, &REQUESTED, &webhook);
        retain(&self.rejections, &REJECTED, &webhook);
        retain(&self.fail_opens, &FAILED_OPEN, &webhook);
        retain(&self.condition_seconds, &CONDITION, &condition);
        retain(&self.condition_errors, &CONDITION, &condition);
        retain(&self.condition_exclusions, &CONDITION, &condition);
        retain(&self.validation_seconds, &VALIDATED, &policy);
        retain(&self.validations, &VALIDATED, &policy);
        retain(&self.mutation_seconds, &MUTATED, &policy);
        retain(&self.mutations, &MUTATED, &policy);
    }

    /// The families of the counts.
    pub(crate) fn gather(&self) -> Vec<proto::MetricFamily> {
        self.registry.gather()
    }
}
