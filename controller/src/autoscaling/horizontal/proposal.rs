//! The replicas that one metric of an autoscaler asks for, and its entry in the status.
//!
//! Source: `pkg/controller/podautoscaler/horizontal.go` of Kubernetes, `computeReplicasForMetric` and what it calls.

use k8s_openapi::api::autoscaling::v2::{
    ContainerResourceMetricStatus, ExternalMetricSource, ExternalMetricStatus, MetricSpec,
    MetricStatus, MetricTarget, MetricValueStatus, ObjectMetricSource, ObjectMetricStatus,
    PodsMetricSource, PodsMetricStatus, ResourceMetricStatus,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kubeproof_machinery::schema::quantity;
use kubeproof_runtime::selector;

use super::calculator::{Calculator, PodMetrics, Proposal, thousandths};
use super::metrics::{Observation, Reading, Unread};

/// The replicas for one metric.
#[derive(Clone, Debug)]
pub(super) struct Proposed {
    pub(super) replicas: i32,
    /// The metric, as conditions and events name it.
    pub(super) name: String,
    pub(super) status: MetricStatus,
}

/// A metric that asks for no number of replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    /// Of the condition and of the event.
    pub(super) reason: &'static str,
    /// Of the event.
    pub(super) message: String,
    /// The message as the errors of several metrics quote it.
    pub(super) error: String,
}

/// Why a metric has no proposal.
#[derive(Debug)]
struct Cause {
    message: String,
    /// The words before the message where it is quoted, but not in the event.
    context: String,
}

impl From<String> for Cause {
    fn from(message: String) -> Self {
        let context = String::new();
        Self { message, context }
    }
}

/// The replicas for `spec`, by what was read of the metric.
pub(super) fn of_metric(spec: &MetricSpec, metric: Metric<'_>) -> Result<Proposed, Failure> {
    if let Some(source) = &spec.resource {
        let found = metric.of_resource(&source.name, "", &source.target);
        let name = &source.name;
        return failing(
            "FailedGetResourceMetric",
            found.map_err(Cause::from),
            |error| format!("failed to get {name} resource metric value: {error}"),
        )
        .map(|(proposal, name, current)| {
            proposed(proposal, name, |status| {
                status.type_ = "Resource".to_owned();
                status.resource = Some(ResourceMetricStatus {
                    current,
                    name: source.name.clone(),
                });
            })
        });
    }
    if let Some(source) = &spec.container_resource {
        let found = metric.of_resource(&source.name, &source.container, &source.target);
        let container = &source.container;
        let found = found.map_err(Cause::from);
        return failing("FailedGetContainerResourceMetric", found, |error| {
            format!("failed to get {container} container metric value: {error}")
        })
        .map(|(proposal, name, current)| {
            proposed(proposal, name, |status| {
                status.type_ = "ContainerResource".to_owned();
                status.container_resource = Some(ContainerResourceMetricStatus {
                    container: source.container.clone(),
                    current,
                    name: source.name.clone(),
                });
            })
        });
    }
    if let Some(source) = &spec.pods {
        let found = metric.of_pods(source).map_err(Cause::from);
        return failing("FailedGetPodsMetric", found, |error| {
            format!("failed to get pods metric value: {error}")
        });
    }
    if let Some(source) = &spec.object {
        return failing("FailedGetObjectMetric", metric.of_object(source), |error| {
            format!("failed to get object metric value: {error}")
        });
    }
    if let Some(source) = &spec.external {
        let name = &source.metric.name;
        return failing(
            "FailedGetExternalMetric",
            metric.of_external(source),
            |error| format!("failed to get {name} external metric value: {error}"),
        );
    }
    let unknown = format!("unknown metric source type {:?}", spec.type_);
    failing(
        "InvalidMetricSourceType",
        Err(unknown.into()),
        str::to_owned,
    )
}

fn failing<T>(
    reason: &'static str,
    found: Result<T, Cause>,
    quote: impl Fn(&str) -> String,
) -> Result<T, Failure> {
    found.map_err(|Cause { message, context }| Failure {
        reason,
        error: quote(&format!("{context}{message}")),
        message,
    })
}

fn proposed(
    proposal: Proposal,
    name: String,
    describe: impl FnOnce(&mut MetricStatus),
) -> Proposed {
    let mut status = MetricStatus::default();
    describe(&mut status);
    Proposed {
        replicas: proposal.replicas,
        name,
        status,
    }
}

/// One metric of an autoscaler, with its values.
#[derive(Clone, Copy)]
pub(super) struct Metric<'a> {
    pub(super) observation: &'a Observation,
    /// Of the autoscaler.
    pub(super) namespace: &'a str,
    /// Of the target's spec and status.
    pub(super) replicas: (i32, i32),
    pub(super) calculator: Calculator<'a>,
}

impl Metric<'_> {
    fn of_resource(
        self,
        resource: &str,
        container: &str,
        target: &MetricTarget,
    ) -> Result<(Proposal, String, MetricValueStatus), String> {
        let read = self
            .pod_metrics(|error| format!("unable to get metrics for resource {resource}: {error}"));
        let current = self.replicas.0;
        if let Some(average) = &target.average_value {
            let proposal = read.and_then(|metrics| {
                let target = thousandths(&average.0);
                let resource = Some(resource);
                self.calculator
                    .of_average(current, metrics, resource, target)
            });
            let proposal =
                proposal.map_err(|error| format!("failed to get {resource} usage: {error}"))?;
            let shown = MetricValueStatus {
                average_value: Some(resource_quantity(resource, proposal.usage)),
                ..MetricValueStatus::default()
            };
            return Ok((proposal, format!("{resource} resource"), shown));
        }
        let Some(target) = target.average_utilization else {
            let error = "invalid resource metric source: neither an average utilization target nor an average value (usage) target was set";
            return Err(error.to_owned());
        };
        let proposal = read.and_then(|metrics| {
            let of = (resource, container);
            self.calculator.of_utilization(current, metrics, of, target)
        });
        let proposal =
            proposal.map_err(|error| format!("failed to get {resource} utilization: {error}"))?;
        let shown = MetricValueStatus {
            average_utilization: proposal.utilization,
            average_value: Some(resource_quantity(resource, proposal.usage)),
            value: None,
        };
        let what = match container {
            "" => "resource",
            _ => "container resource",
        };
        let name = format!("{resource} {what} utilization (percentage of request)");
        Ok((proposal, name, shown))
    }

    fn of_pods(self, source: &PodsMetricSource) -> Result<Proposed, String> {
        let name = &source.metric.name;
        let metrics = self.pod_metrics(|error| format!("unable to get metric {name}: {error}"))?;
        let target = quantity_of(source.target.average_value.as_ref());
        let current = self.replicas.0;
        let proposal = self.calculator.of_average(current, metrics, None, target)?;
        Ok(proposed(
            proposal,
            format!("pods metric {name}"),
            |status| {
                status.type_ = "Pods".to_owned();
                status.pods = Some(PodsMetricStatus {
                    current: MetricValueStatus {
                        average_value: Some(milli(proposal.usage)),
                        ..MetricValueStatus::default()
                    },
                    metric: source.metric.clone(),
                });
            },
        ))
    }

    fn of_object(self, source: &ObjectMetricSource) -> Result<Proposed, Cause> {
        let metric = &source.metric.name;
        let object = &source.described_object;
        let target = &source.target;
        let usage = || match self.observation {
            Ok(Reading::Value(value)) => Ok(*value),
            Ok(_) => unreachable!("an object's metric is one value"),
            Err(Unread::Selector(error)) => Err(Cause::from(error.clone())),
            Err(Unread::Api(error)) => {
                let (kind, name, namespace) = (&object.kind, &object.name, self.namespace);
                // Upstream gives the words of this message in another order than the format has.
                let message =
                    format!("unable to get metric {metric}: {kind} on {namespace} {name}/{error}");
                let context = match target.type_.as_str() {
                    "AverageValue" => format!("failed to get {metric} object metric: "),
                    _ => String::new(),
                };
                Err(Cause { message, context })
            }
        };
        let mut current = MetricValueStatus::default();
        let (proposal, name) = match (target.type_.as_str(), &target.value, &target.average_value) {
            ("Value", Some(value), _) => {
                let target = thousandths(&value.0);
                let found = self
                    .calculator
                    .of_value(self.replicas.0, usage()?, target)?;
                current.value = Some(milli(found.usage));
                (found, format!("{} metric {metric}", object.kind))
            }
            ("AverageValue", _, Some(average)) => {
                let target = thousandths(&average.0);
                let found = self.calculator.of_share(self.replicas.1, usage()?, target);
                current.average_value = Some(milli(found.usage));
                (
                    found,
                    external_name(metric, source.metric.selector.as_ref()),
                )
            }
            _ => {
                let error = "invalid object metric source: neither a value target nor an average value target was set";
                return Err(Cause::from(error.to_owned()));
            }
        };
        Ok(proposed(proposal, name, |status| {
            status.type_ = "Object".to_owned();
            status.object = Some(ObjectMetricStatus {
                current,
                described_object: object.clone(),
                metric: source.metric.clone(),
            });
        }))
    }

    fn of_external(self, source: &ExternalMetricSource) -> Result<Proposed, Cause> {
        let metric = &source.metric.name;
        let selector = source.metric.selector.as_ref();
        let usage = || match self.observation {
            Ok(Reading::Values(values)) => Ok(values.as_slice()),
            Ok(_) => unreachable!("an external metric is read as values"),
            Err(Unread::Selector(error)) => Err(error.clone()),
            Err(Unread::Api(error)) => {
                let (namespace, selector) = (self.namespace, selector::in_go(selector));
                Err(format!(
                    "unable to get external metric {namespace}/{metric}/{selector}: {error}"
                ))
            }
        };
        let mut current = MetricValueStatus::default();
        let target = &source.target;
        let proposal = match (&target.average_value, &target.value) {
            (Some(average), _) => {
                let values = usage().map_err(|message| Cause {
                    message,
                    context: format!("failed to get {metric} external metric: "),
                })?;
                let (usage, target) = (sum_of_shares(values), thousandths(&average.0));
                let found = self.calculator.of_share(self.replicas.1, usage, target);
                current.average_value = Some(milli(found.usage));
                found
            }
            (None, Some(value)) => {
                let target = thousandths(&value.0);
                let found = usage().and_then(|values| {
                    let usage = capped_sum(values);
                    self.calculator.of_value(self.replicas.0, usage, target)
                });
                let found = found.map_err(|message| Cause {
                    message,
                    context: format!("failed to get external metric {metric}: "),
                })?;
                current.value = Some(milli(found.usage));
                found
            }
            (None, None) => {
                let error = "invalid external metric source: neither a value target nor an average value target was set";
                return Err(Cause::from(error.to_owned()));
            }
        };
        Ok(proposed(
            proposal,
            external_name(metric, selector),
            |status| {
                status.type_ = "External".to_owned();
                status.external = Some(ExternalMetricStatus {
                    current,
                    metric: source.metric.clone(),
                });
            },
        ))
    }

    /// The values of each pod; `told` tells the error of the API.
    fn pod_metrics(self, told: impl Fn(&str) -> String) -> Result<PodMetrics, String> {
        match self.observation {
            Ok(Reading::Pods(metrics)) => Ok(metrics.clone()),
            Ok(_) => unreachable!("a metric of pods is read for each"),
            Err(Unread::Selector(error)) => Err(error.clone()),
            Err(Unread::Api(error)) => Err(told(error)),
        }
    }
}

/// The sum of an external metric whose target is a value for all pods: at most the greatest integer.
///
/// Upstream: `GetExternalMetricReplicas`, whose negative sums wrap around.
fn capped_sum(values: &[i64]) -> i64 {
    let mut sum = 0_i64;
    for value in values {
        if *value > 0 && sum > i64::MAX - value {
            return i64::MAX;
        }
        sum = sum.wrapping_add(*value);
    }
    sum
}

/// The sum of an external metric whose target is a value per pod: a negative one counts as the greatest integer.
///
/// Upstream: `GetExternalPerPodMetricReplicas`.
fn sum_of_shares(values: &[i64]) -> i64 {
    let mut sum = 0_i64;
    for value in values {
        sum = sum.wrapping_add(*value);
        if sum < 0 {
            return i64::MAX;
        }
    }
    sum
}

fn external_name(metric: &str, selector: Option<&LabelSelector>) -> String {
    format!("external metric {metric}({})", selector::in_go(selector))
}

fn quantity_of(quantity: Option<&Quantity>) -> i64 {
    quantity.map_or(0, |quantity| thousandths(&quantity.0))
}

/// An amount in thousandths, in decimal units.
fn milli(value: i64) -> Quantity {
    Quantity(quantity::Quantity::scaled(value, -3).to_string())
}

/// An amount of a resource in thousandths; memory has binary units.
fn resource_quantity(resource: &str, value: i64) -> Quantity {
    let quantity = quantity::Quantity::scaled(value, -3);
    Quantity(match resource {
        "memory" => quantity.in_binary_units().to_string(),
        _ => quantity.to_string(),
    })
}

#[cfg(test)]
mod tests;
