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

use super::calculator::{Calculator, PodMetrics, Proposal, thousandths};
use super::metrics::{Observation, Reading};

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

/// The replicas for `spec`, by what was read of the metric.
pub(super) fn of_metric(spec: &MetricSpec, metric: Metric<'_>) -> Result<Proposed, Failure> {
    if let Some(source) = &spec.resource {
        let found = metric.of_resource(&source.name, "", &source.target);
        let name = &source.name;
        return failing("FailedGetResourceMetric", found, |error| {
            format!("failed to get {name} resource metric value: {error}")
        })
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
        return failing("FailedGetPodsMetric", metric.of_pods(source), |error| {
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
    failing("InvalidMetricSourceType", Err(unknown), str::to_owned)
}

fn failing<T>(
    reason: &'static str,
    found: Result<T, String>,
    quote: impl Fn(&str) -> String,
) -> Result<T, Failure> {
    found.map_err(|message| Failure {
        reason,
        error: quote(&message),
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
            .pod_metrics()
            .map_err(|error| format!("unable to get metrics for resource {resource}: {error}"));
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
        let metrics = self
            .pod_metrics()
            .map_err(|error| format!("unable to get metric {name}: {error}"))?;
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

    fn of_object(self, source: &ObjectMetricSource) -> Result<Proposed, String> {
        let metric = &source.metric.name;
        let object = &source.described_object;
        let usage = || match self.observation {
            Ok(Reading::Value(value)) => Ok(*value),
            Ok(Reading::Pods(_)) => unreachable!("an object's metric is one value"),
            Err(error) => {
                let (kind, name, namespace) = (&object.kind, &object.name, self.namespace);
                // Upstream gives the words of this message in another order than the format has.
                Err(format!(
                    "unable to get metric {metric}: {kind} on {namespace} {name}/{error}"
                ))
            }
        };
        let target = &source.target;
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
                let usage = usage()
                    .map_err(|error| format!("failed to get {metric} object metric: {error}"))?;
                let target = thousandths(&average.0);
                let found = self.calculator.of_share(self.replicas.1, usage, target);
                current.average_value = Some(milli(found.usage));
                (
                    found,
                    external_name(metric, source.metric.selector.as_ref()),
                )
            }
            _ => {
                let error = "invalid object metric source: neither a value target nor an average value target was set";
                return Err(error.to_owned());
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

    fn of_external(self, source: &ExternalMetricSource) -> Result<Proposed, String> {
        let metric = &source.metric.name;
        let selector = source.metric.selector.as_ref();
        let usage = || match self.observation {
            Ok(Reading::Value(value)) => Ok(*value),
            Ok(Reading::Pods(_)) => unreachable!("an external metric is read as one value"),
            Err(error) => {
                let (namespace, selector) = (self.namespace, go_selector(selector));
                Err(format!(
                    "unable to get external metric {namespace}/{metric}/{selector}: {error}"
                ))
            }
        };
        let mut current = MetricValueStatus::default();
        let target = &source.target;
        let proposal = match (&target.average_value, &target.value) {
            (Some(average), _) => {
                let usage = usage()
                    .map_err(|error| format!("failed to get {metric} external metric: {error}"))?;
                let target = thousandths(&average.0);
                let found = self.calculator.of_share(self.replicas.1, usage, target);
                current.average_value = Some(milli(found.usage));
                found
            }
            (None, Some(value)) => {
                let target = thousandths(&value.0);
                let found = usage()
                    .and_then(|usage| self.calculator.of_value(self.replicas.0, usage, target));
                let found = found
                    .map_err(|error| format!("failed to get external metric {metric}: {error}"))?;
                current.value = Some(milli(found.usage));
                found
            }
            (None, None) => {
                let error = "invalid external metric source: neither a value target nor an average value target was set";
                return Err(error.to_owned());
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

    fn pod_metrics(self) -> Result<PodMetrics, String> {
        match self.observation {
            Ok(Reading::Pods(metrics)) => Ok(metrics.clone()),
            Ok(Reading::Value(_)) => unreachable!("a metric of pods is read for each"),
            Err(error) => Err(error.clone()),
        }
    }
}

fn external_name(metric: &str, selector: Option<&LabelSelector>) -> String {
    format!("external metric {metric}({})", go_selector(selector))
}

/// A selector as Go prints a pointer to it.
fn go_selector(selector: Option<&LabelSelector>) -> String {
    let Some(selector) = selector else {
        return "nil".to_owned();
    };
    let labels = selector.match_labels.iter().flatten();
    let labels: String = labels
        .map(|(key, value)| format!("{key}: {value},"))
        .collect();
    let expressions = selector.match_expressions.iter().flatten();
    let expressions: String = expressions
        .map(|own| {
            let values = own.values.as_deref().unwrap_or_default().join(" ");
            let (key, operator) = (&own.key, &own.operator);
            format!("LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{values}],}},")
        })
        .collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
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
