//! The decision of a sync: the replicas, the status, the events. Nothing is read or written here.
//!
//! Source: `pkg/controller/podautoscaler/horizontal.go` of Kubernetes, `reconcileAutoscaler` and what it calls.

use std::sync::Arc;

use k8s_openapi::api::autoscaling::v1::Scale;
use k8s_openapi::api::autoscaling::v2::{HorizontalPodAutoscaler, MetricStatus};
use kube::ResourceExt;
use kubeproof_runtime::pod::Pod;

use super::behavior::{Limits, Memory};
use super::calculator::{Calculator, Tolerances};
use super::metrics::Observation;
use super::proposal::{self, Failure, Metric};
use super::status::{ABLE_TO_SCALE, Draft, SCALING_ACTIVE, SCALING_LIMITED};

/// The replicas as far as they are known before any metric is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Plan {
    /// The user has scaled the target to zero.
    Disabled,
    /// The replicas are outside of the limits.
    Limit { replicas: i32, reason: &'static str },
    /// Metrics decide.
    Metrics,
}

/// The replicas that the target is to have from now on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rescale {
    pub(super) replicas: i32,
    pub(super) reason: String,
}

/// The decision of a sync.
#[derive(Clone, Debug)]
pub(super) struct Decision {
    pub(super) rescale: Option<Rescale>,
    /// The metrics for the status.
    pub(super) metrics: Vec<MetricStatus>,
    /// Why no metric decided; nothing is scaled then.
    pub(super) failure: Option<String>,
}

/// The replicas wanted and present.
pub(super) fn current_replicas(scale: &Scale) -> i32 {
    let spec = scale.spec.as_ref();
    spec.and_then(|spec| spec.replicas).unwrap_or(0)
}

pub(super) fn min_replicas(hpa: &HorizontalPodAutoscaler) -> i32 {
    hpa.spec.min_replicas.unwrap_or(1)
}

/// Plans a sync by the present replicas.
pub(super) fn plan(hpa: &HorizontalPodAutoscaler, current: i32) -> Plan {
    if current == 0 {
        return Plan::Disabled;
    }
    if current > hpa.spec.max_replicas {
        return Plan::Limit {
            replicas: hpa.spec.max_replicas,
            reason: "Current number of replicas above Spec.MaxReplicas",
        };
    }
    if current < min_replicas(hpa) {
        return Plan::Limit {
            replicas: min_replicas(hpa),
            reason: "Current number of replicas below Spec.MinReplicas",
        };
    }
    Plan::Metrics
}

/// The tolerances of an autoscaler: those of its behavior, or else 10 %.
pub(super) fn tolerances(hpa: &HorizontalPodAutoscaler) -> Tolerances {
    let behavior = hpa.spec.behavior.as_ref();
    let of = |rules: Option<&k8s_openapi::api::autoscaling::v2::HPAScalingRules>| {
        let own = rules.and_then(|rules| rules.tolerance.as_ref());
        let own =
            own.and_then(|own| kubeproof_machinery::schema::quantity::Quantity::parse(&own.0).ok());
        own.map(|own| own.approximate())
    };
    let down = of(behavior.and_then(|own| own.scale_down.as_ref()));
    let up = of(behavior.and_then(|own| own.scale_up.as_ref()));
    let default = Tolerances::DEFAULT;
    Tolerances {
        down: down.unwrap_or(default.down),
        up: up.unwrap_or(default.up),
    }
}

/// The target is left as it is.
pub(super) fn disabled(draft: &mut Draft) -> Decision {
    let message = "scaling is disabled since the replica count of the target is zero";
    draft.set(SCALING_ACTIVE, false, "ScalingDisabled", message);
    draft.remove_scaled_to_zero();
    Decision {
        rescale: None,
        metrics: Vec::new(),
        failure: None,
    }
}

/// The target is brought within the limits.
pub(super) fn limited(replicas: i32, reason: &str) -> Decision {
    Decision {
        rescale: Some(Rescale {
            replicas,
            reason: reason.to_owned(),
        }),
        metrics: Vec::new(),
        failure: None,
    }
}

/// No metric could be read, because of the target's selector.
pub(super) fn failed(failure: String) -> Decision {
    Decision {
        rescale: None,
        metrics: Vec::new(),
        failure: Some(failure),
    }
}

/// The replicas by the metrics read, each as an autoscaler's spec lists it.
pub(super) fn by_metrics(
    hpa: &HorizontalPodAutoscaler,
    scale: &Scale,
    (pods, observations): (&[Arc<Pod>], &[Observation]),
    memory: &mut Memory,
    draft: &mut Draft,
) -> Decision {
    let current = current_replicas(scale);
    let calculator = Calculator {
        pods,
        tolerances: tolerances(hpa),
        now: draft.now,
    };
    let specs = hpa.spec.metrics.as_deref().unwrap_or_default();
    let replicas_of_status = scale.status.as_ref().map_or(0, |status| status.replicas);
    let namespace = hpa.namespace().unwrap_or_default();
    let mut metrics = vec![MetricStatus::default(); specs.len()];
    let mut greatest: Option<(i32, String)> = None;
    let mut failures: Vec<Failure> = Vec::new();
    for ((spec, observation), shown) in specs.iter().zip(observations).zip(&mut metrics) {
        let metric = Metric {
            observation,
            namespace: &namespace,
            replicas: (current, replicas_of_status),
            calculator,
        };
        match proposal::of_metric(spec, metric) {
            Ok(proposed) => {
                *shown = proposed.status;
                // As upstream, a proposal of zero gives way to any later one.
                let is_greater = greatest
                    .as_ref()
                    .is_none_or(|(known, _)| *known == 0 || proposed.replicas > *known);
                if is_greater {
                    greatest = Some((proposed.replicas, proposed.name));
                }
            }
            Err(failure) => {
                draft.warn(failure.reason, failure.message.clone());
                failures.push(failure);
            }
        }
    }
    let wanted = greatest.as_ref().map_or(0, |(replicas, _)| *replicas);
    if let Some(first) = failures.first()
        && (failures.len() == specs.len() || wanted < current)
    {
        let message = &first.message;
        let message = format!("the HPA was unable to compute the replica count: {message}");
        draft.set(SCALING_ACTIVE, false, first.reason, message);
        let (invalid, all, error) = (failures.len(), specs.len(), &first.error);
        return Decision {
            metrics,
            ..failed(format!(
                "invalid metrics ({invalid} invalid out of {all}), first error is: {error}"
            ))
        };
    }
    let (wanted, name) = greatest.unwrap_or_default();
    let message = format!("the HPA was able to successfully calculate a replica count from {name}");
    draft.set(SCALING_ACTIVE, true, "ValidMetricFound", message);
    Decision {
        rescale: normalized(hpa, (current, wanted), &name, memory, draft),
        metrics,
        failure: None,
    }
}

/// The replicas wanted, within the limits of the autoscaler.
fn normalized(
    hpa: &HorizontalPodAutoscaler,
    (current, wanted): (i32, i32),
    metric: &str,
    memory: &mut Memory,
    draft: &mut Draft,
) -> Option<Rescale> {
    let desired = wanted.max(0);
    let reason = match desired {
        _ if desired > current => format!("{metric} above target"),
        _ if desired < current => "All metrics below target".to_owned(),
        _ => String::new(),
    };
    let limits = Limits {
        current,
        desired,
        min: min_replicas(hpa),
        max: hpa.spec.max_replicas,
        behavior: hpa.spec.behavior.as_ref(),
    };
    let normalized = memory.normalize(limits, draft.now);
    let (stabilized, limit) = (normalized.stabilized, normalized.limit);
    draft.set(ABLE_TO_SCALE, true, stabilized.0, stabilized.1);
    draft.set(SCALING_LIMITED, normalized.is_limited, limit.0, limit.1);
    let replicas = normalized.replicas;
    (replicas != current).then_some(Rescale { replicas, reason })
}

#[cfg(test)]
mod tests;
