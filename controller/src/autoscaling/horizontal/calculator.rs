//! The number of replicas that a metric asks for, computed from what was read. Amounts are thousandths.
//!
//! Source: `pkg/controller/podautoscaler/replica_calculator.go` and `metrics/utilization.go` of Kubernetes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Container;
use kube::ResourceExt;
use kubeproof_machinery::schema::quantity::Quantity;
use kubeproof_runtime::clock::later;
use kubeproof_runtime::pod::Pod;
use kubeproof_runtime::{pod, pod_resources};

/// The time after a pod's start in which its use of the processor counts only while it is ready.
const CPU_INITIALIZATION_PERIOD: SignedDuration = SignedDuration::from_mins(5);
/// A pod that is not ready and became so within this time after its start has never been ready.
const INITIAL_READINESS_DELAY: SignedDuration = SignedDuration::from_secs(30);

/// The usage of one pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PodMetric {
    /// The end of the measurement.
    pub(super) timestamp: Timestamp,
    /// The length of the measurement.
    pub(super) window: SignedDuration,
    /// Thousandths.
    pub(super) value: i64,
}

/// The usage of pods, by name.
pub(super) type PodMetrics = BTreeMap<String, PodMetric>;

/// Ratios of usage to target that change nothing: from `1 - down` to `1 + up`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Tolerances {
    pub(super) down: f64,
    pub(super) up: f64,
}

impl Tolerances {
    /// The tolerance of an autoscaler that states none.
    pub(super) const DEFAULT: Self = Self { down: 0.1, up: 0.1 };

    fn contain(self, ratio: f64) -> bool {
        1.0 - self.down <= ratio && ratio <= 1.0 + self.up
    }
}

/// The outcome of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Proposal {
    /// The number of replicas.
    pub(super) replicas: i32,
    /// The present usage: per pod, or of all pods for a target of all pods.
    pub(super) usage: i64,
    /// The usage as a percentage of the requests, for a target in percent.
    pub(super) utilization: Option<i32>,
}

/// The pods of the target, and when they are looked at.
#[derive(Clone, Copy)]
pub(super) struct Calculator<'a> {
    pub(super) pods: &'a [Arc<Pod>],
    pub(super) tolerances: Tolerances,
    pub(super) now: Timestamp,
}

/// The pods of the target by what is known of them.
#[derive(Debug, Default, PartialEq, Eq)]
struct Groups {
    /// How many pods count with what they use.
    ready: usize,
    /// Too young for their usage to mean anything.
    unready: BTreeSet<String>,
    /// Without a metric.
    missing: BTreeSet<String>,
    /// On their way out, or failed.
    ignored: BTreeSet<String>,
}

/// The relation of what is used to what is wanted.
#[derive(Clone, Copy)]
struct Ratio {
    ratio: f64,
    usage: i64,
    utilization: Option<i32>,
}

const NO_PODS: &str = "no pods returned by selector while calculating replica count";

impl Calculator<'_> {
    /// The replicas for a target in percent of the requests; of one container if `container` names it.
    ///
    /// Upstream: `GetResourceReplicas`.
    pub(super) fn of_utilization(
        &self,
        current: i32,
        metrics: PodMetrics,
        (resource, container): (&str, &str),
        target: i32,
    ) -> Result<Proposal, String> {
        let (groups, metrics) = self.grouped(metrics, Some(resource))?;
        let mut requests = BTreeMap::new();
        for pod in self.pods {
            requests.insert(pod.name_any(), request(pod, container, resource)?);
        }
        let ratio = |metrics: &PodMetrics| utilization(metrics, &requests, target);
        // A missing pod is taken to use all of its request, or the target if that is more.
        let fallback = i64::from(target.max(100));
        let all_used = |name: &str| requests[name].wrapping_mul(fallback) / 100;
        self.proposal(current, (&groups, metrics), ratio, all_used)
    }

    /// The replicas for a target that is an amount per pod.
    ///
    /// Upstream: `calcPlainMetricReplicas`.
    pub(super) fn of_average(
        &self,
        current: i32,
        metrics: PodMetrics,
        resource: Option<&str>,
        target: i64,
    ) -> Result<Proposal, String> {
        let (groups, metrics) = self.grouped(metrics, resource)?;
        let ratio = |metrics: &PodMetrics| {
            let total = sum(metrics.values().map(|metric| metric.value));
            let count = i64::try_from(metrics.len()).unwrap_or(i64::MAX);
            let usage = total / count;
            Ok(Ratio {
                ratio: float(usage) / float(target),
                usage,
                utilization: None,
            })
        };
        self.proposal(current, (&groups, metrics), ratio, |_| target)
    }

    /// The replicas for a target that is an amount for all pods together.
    ///
    /// Upstream: `GetObjectMetricReplicas`, `GetExternalMetricReplicas`.
    pub(super) fn of_value(
        &self,
        current: i32,
        usage: i64,
        target: i64,
    ) -> Result<Proposal, String> {
        let ratio = float(usage) / float(target);
        let replicas = if current == 0 {
            ceil(ratio)
        } else if self.tolerances.contain(ratio) {
            current
        } else {
            let ready = self
                .ready_pods()
                .map_err(|error| format!("unable to calculate ready pods: {error}"))?;
            ceil(ratio * float(ready))
        };
        Ok(Proposal {
            replicas,
            usage,
            utilization: None,
        })
    }

    /// The replicas for an amount of which each pod is to have `target`.
    ///
    /// Upstream: `GetObjectPerPodMetricReplicas`, `GetExternalPerPodMetricReplicas`.
    pub(super) fn of_share(&self, status_replicas: i32, usage: i64, target: i64) -> Proposal {
        let ratio = float(usage) / (float(target) * f64::from(status_replicas));
        let replicas = match self.tolerances.contain(ratio) {
            true => status_replicas,
            false => ceil(float(usage) / float(target)),
        };
        let usage = match usage {
            i64::MAX => usage,
            usage => go_integer((float(usage) / f64::from(status_replicas)).ceil()),
        };
        Proposal {
            replicas,
            usage,
            utilization: None,
        }
    }

    fn ready_pods(&self) -> Result<i64, String> {
        if self.pods.is_empty() {
            return Err(NO_PODS.to_owned());
        }
        let ready = |pod: &&Arc<Pod>| pod::is_running(pod) && pod::has_ready_condition(pod);
        Ok(i64::try_from(self.pods.iter().filter(ready).count()).unwrap_or(i64::MAX))
    }

    /// The pods by what is known of them, and the metrics of those that count.
    fn grouped(
        &self,
        mut metrics: PodMetrics,
        resource: Option<&str>,
    ) -> Result<(Groups, PodMetrics), String> {
        if self.pods.is_empty() {
            return Err(NO_PODS.to_owned());
        }
        let groups = self.group(&metrics, resource);
        metrics.retain(|name, _| !groups.ignored.contains(name) && !groups.unready.contains(name));
        if metrics.is_empty() {
            let error = "did not receive metrics for targeted pods (pods might be unready)";
            return Err(error.to_owned());
        }
        Ok((groups, metrics))
    }

    /// Upstream: `groupPods`.
    fn group(&self, metrics: &PodMetrics, resource: Option<&str>) -> Groups {
        let mut groups = Groups::default();
        for pod in self.pods {
            let name = pod.name_any();
            if pod::is_terminating(pod) || pod::is_failed(pod) {
                groups.ignored.insert(name);
            } else if pod::is_pending(pod) {
                groups.unready.insert(name);
            } else if let Some(metric) = metrics.get(&name) {
                let is_cpu = resource == Some("cpu");
                match is_cpu && self.is_initializing(pod, *metric) {
                    true => _ = groups.unready.insert(name),
                    false => groups.ready += 1,
                }
            } else {
                groups.missing.insert(name);
            }
        }
        groups
    }

    /// Whether the use of the processor shows the start of the pod instead of its load.
    fn is_initializing(&self, pod: &Pod, metric: PodMetric) -> bool {
        let started = pod.status.as_ref().and_then(|own| own.start_time.as_ref());
        let (Some(ready), Some(started)) = (pod::condition(pod, "Ready"), started) else {
            return true;
        };
        let changed = ready.last_transition_time.as_ref();
        let changed = changed.map_or(Timestamp::UNIX_EPOCH, |time| time.0);
        let is_unready = ready.status == "False";
        if later(started.0, CPU_INITIALIZATION_PERIOD) > self.now {
            // The whole measurement has to be after the last change.
            is_unready || metric.timestamp < later(changed, metric.window)
        } else {
            is_unready && later(started.0, INITIAL_READINESS_DELAY) > changed
        }
    }

    /// The replicas that keep the ratio at 1, with the least change that what is not known allows.
    fn proposal(
        &self,
        current: i32,
        (groups, mut metrics): (&Groups, PodMetrics),
        ratio_of: impl Fn(&PodMetrics) -> Result<Ratio, String>,
        all_used: impl Fn(&str) -> i64,
    ) -> Result<Proposal, String> {
        let found = ratio_of(&metrics)?;
        let propose = |replicas| Proposal {
            replicas,
            usage: found.usage,
            utilization: found.utilization,
        };
        let ratio = found.ratio;
        let adds_unready = !groups.unready.is_empty() && ratio > 1.0;
        if !adds_unready && groups.missing.is_empty() {
            if self.tolerances.contain(ratio) {
                return Ok(propose(current));
            }
            let ready = i64::try_from(groups.ready).unwrap_or(i64::MAX);
            return Ok(propose(ceil(ratio * float(ready))));
        }
        let mut assume = |name: &str, value| {
            let metric = PodMetric {
                timestamp: self.now,
                window: SignedDuration::ZERO,
                value,
            };
            metrics.insert(name.to_owned(), metric);
        };
        for name in &groups.missing {
            if ratio < 1.0 {
                assume(name, all_used(name));
            } else if ratio > 1.0 {
                assume(name, 0);
            }
        }
        if adds_unready {
            groups.unready.iter().for_each(|name| assume(name, 0));
        }
        let cautious = ratio_of(&metrics)?.ratio;
        let turns = (ratio < 1.0 && cautious > 1.0) || (ratio > 1.0 && cautious < 1.0);
        if self.tolerances.contain(cautious) || turns {
            return Ok(propose(current));
        }
        let count = i64::try_from(metrics.len()).unwrap_or(i64::MAX);
        let replicas = ceil(cautious * float(count));
        let turns =
            (cautious < 1.0 && replicas > current) || (cautious > 1.0 && replicas < current);
        Ok(propose(if turns { current } else { replicas }))
    }
}

/// Upstream: `GetResourceUtilizationRatio`.
fn utilization(
    metrics: &PodMetrics,
    requests: &BTreeMap<String, i64>,
    target: i32,
) -> Result<Ratio, String> {
    let (mut used, mut requested, mut count) = (0_i64, 0_i64, 0_i64);
    for (name, metric) in metrics {
        if let Some(request) = requests.get(name) {
            used = used.wrapping_add(metric.value);
            requested = requested.wrapping_add(*request);
            count += 1;
        }
    }
    if requested == 0 {
        return Err("no metrics returned matched known pods".to_owned());
    }
    let percent = low_half(used.wrapping_mul(100).wrapping_div(requested));
    Ok(Ratio {
        ratio: f64::from(percent) / f64::from(target),
        usage: used / count,
        utilization: Some(percent),
    })
}

/// The request of a pod for a resource, or of one container; the request at the level of the pod counts if there is one.
///
/// Upstream: `calculateRequests`.
fn request(pod: &Pod, container: &str, resource: &str) -> Result<i64, String> {
    let name = pod.name_any();
    let spec = pod.spec.as_deref();
    let own = spec.and_then(|spec| spec.resources.as_ref()?.requests.as_ref());
    let has_own = own
        .into_iter()
        .flatten()
        .any(|(name, _)| kubeproof_machinery::pod_resources::is_pod_level(name));
    if has_own && container.is_empty() {
        let all = spec.map(pod_resources::requests).unwrap_or_default();
        let amount = all
            .get(resource)
            .ok_or_else(|| format!("missing pod-level request for {resource} in Pod {name}"))?;
        let in_thousandths = match resource {
            "cpu" => *amount,
            _ => amount.wrapping_mul(1000),
        };
        return Ok(wrapped(in_thousandths));
    }
    let mut total = 0_i64;
    for own in spec.into_iter().flat_map(running_containers) {
        if !container.is_empty() && own.name != container {
            continue;
        }
        let requests = own.resources.as_ref().and_then(|own| own.requests.as_ref());
        let quantity = requests.and_then(|requests| requests.get(resource));
        let quantity = quantity.ok_or_else(|| {
            let of = &own.name;
            format!("missing request for {resource} in container {of} of Pod {name}")
        })?;
        total = total.wrapping_add(thousandths(&quantity.0));
        if own.name == container {
            return Ok(total);
        }
    }
    match container {
        "" => Ok(total),
        _ => Err(format!("container {container} not found in Pod {name}")),
    }
}

/// The containers, and the init containers that keep running.
fn running_containers(
    spec: &k8s_openapi::api::core::v1::PodSpec,
) -> impl Iterator<Item = &Container> {
    let sidecars = spec.init_containers.iter().flatten();
    let sidecars = sidecars.filter(|own| own.restart_policy.as_deref() == Some("Always"));
    spec.containers.iter().chain(sidecars)
}

/// A quantity in thousandths, rounded up and wrapped at 64 bits; 0 for a malformed one.
///
/// Upstream: `Quantity.MilliValue`, which ignores that its product has overflowed.
pub(super) fn thousandths(quantity: &str) -> i64 {
    const MILLI: i32 = -3;
    let value = Quantity::parse(quantity).ok();
    let value = value.and_then(|quantity| quantity.scaled_value(MILLI));
    wrapped(value.unwrap_or(0))
}

/// The sum of amounts, wrapped at 64 bits as in Go.
pub(super) fn sum(amounts: impl IntoIterator<Item = i64>) -> i64 {
    amounts.into_iter().fold(0, i64::wrapping_add)
}

#[expect(clippy::cast_possible_truncation, reason = "Go keeps the low 64 bits")]
fn wrapped(value: i128) -> i64 {
    value as i64
}

#[expect(clippy::cast_possible_truncation, reason = "Go keeps the low 32 bits")]
fn low_half(value: i64) -> i32 {
    value as i32
}

#[expect(clippy::cast_precision_loss, reason = "Go computes with such floats")]
fn float(value: i64) -> f64 {
    value as f64
}

#[expect(clippy::cast_possible_truncation, reason = "the cast saturates")]
fn ceil(value: f64) -> i32 {
    value.ceil() as i32
}

/// A float as Go converts it to an `int64` on amd64: what does not fit is the least integer.
#[expect(
    clippy::cast_possible_truncation,
    reason = "what does not fit is set apart"
)]
fn go_integer(value: f64) -> i64 {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    match (-LIMIT..LIMIT).contains(&value) {
        true => value as i64,
        false => i64::MIN,
    }
}

#[cfg(test)]
mod tests;
