//! Reads the metrics APIs: `metrics.k8s.io`, `custom.metrics.k8s.io` and `external.metrics.k8s.io`.
//!
//! Source: `pkg/controller/podautoscaler/metrics/client.go` of Kubernetes, and the clients of `k8s.io/metrics`.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use k8s_openapi::api::autoscaling::v2::{
    CrossVersionObjectReference, HorizontalPodAutoscaler, MetricSpec, ObjectMetricSource,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector as ApiSelector, Time};
use kube::{Client, ResourceExt};
use kubeproof_machinery::meta::selector::LabelSelector;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::calculator::{PodMetric, PodMetrics, thousandths};
use super::targets::Targets;

/// The window of a value that states none.
const DEFAULT_WINDOW: SignedDuration = SignedDuration::from_mins(1);

/// The values of a metric, in thousandths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// Of each pod.
    Pods(PodMetrics),
    /// Of an object, or the sum of an external metric.
    Value(i64),
}

/// The values of a metric, or the reason why it has no values.
pub(super) type Observation = Result<Reading, String>;

#[derive(Deserialize)]
struct List<T> {
    #[serde(default = "Vec::new")]
    items: Vec<T>,
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

#[derive(Deserialize)]
struct PodUsage {
    metadata: Named,
    timestamp: Time,
    window: String,
    #[serde(default)]
    containers: Vec<ContainerUsage>,
}

#[derive(Deserialize)]
struct ContainerUsage {
    name: String,
    #[serde(default)]
    usage: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MetricValue {
    described_object: Named,
    timestamp: Time,
    window_seconds: Option<i64>,
    value: String,
}

#[derive(Deserialize)]
struct ExternalValue {
    value: String,
}

/// Reads the metrics that autoscalers name.
pub(super) struct Metrics<'a> {
    pub(super) client: &'a Client,
    pub(super) targets: &'a Targets,
}

impl Metrics<'_> {
    /// Reads each metric of an autoscaler's spec; `selector` is that of the target's pods.
    pub(super) async fn read(
        &self,
        hpa: &HorizontalPodAutoscaler,
        selector: &LabelSelector,
    ) -> Vec<Observation> {
        let namespace = hpa.namespace().unwrap_or_default();
        let mut read = Vec::new();
        for spec in hpa.spec.metrics.iter().flatten() {
            read.push(self.read_one(spec, &namespace, selector).await);
        }
        read
    }

    async fn read_one(
        &self,
        spec: &MetricSpec,
        namespace: &str,
        selector: &LabelSelector,
    ) -> Observation {
        if let Some(source) = &spec.resource {
            let metrics = self.resource(&source.name, "", namespace, selector).await;
            return metrics.map(Reading::Pods);
        }
        if let Some(source) = &spec.container_resource {
            let of = (source.name.as_str(), source.container.as_str());
            let metrics = self.resource(of.0, of.1, namespace, selector).await;
            return metrics.map(Reading::Pods);
        }
        if let Some(source) = &spec.pods {
            let of = parsed(source.metric.selector.as_ref())?;
            let metric = &source.metric.name;
            let metrics = self.of_pods(metric, namespace, selector, &of).await;
            return metrics.map(Reading::Pods);
        }
        if let Some(source) = &spec.object {
            let value = self.of_object(source, namespace).await;
            return value.map(Reading::Value);
        }
        if let Some(source) = &spec.external {
            let of = parsed(source.metric.selector.as_ref())?;
            let value = self.external(&source.metric.name, namespace, &of).await;
            return value.map(Reading::Value);
        }
        // The reason is found where the replicas are computed.
        Err(String::new())
    }

    /// The usage of a resource by pods, or by one container of each. Upstream: `GetResourceMetric`.
    async fn resource(
        &self,
        resource: &str,
        container: &str,
        namespace: &str,
        selector: &LabelSelector,
    ) -> Result<PodMetrics, String> {
        let query = [("labelSelector", selector.as_selector_string())];
        let path = format!("/apis/metrics.k8s.io/v1beta1/namespaces/{namespace}/pods");
        let list: List<PodUsage> = self
            .list(&path, &query, "pods.metrics.k8s.io")
            .await
            .map_err(|error| {
                format!("unable to fetch metrics from resource metrics API: {error}")
            })?;
        if list.items.is_empty() {
            return Err("no metrics returned from resource metrics API".to_owned());
        }
        let usages = list.items.into_iter().filter_map(|pod| {
            let value = pod.uses(resource, container)?;
            let metric = PodMetric {
                timestamp: pod.timestamp.0,
                window: go_duration(&pod.window),
                value,
            };
            Some((pod.metadata.name, metric))
        });
        Ok(usages.collect())
    }

    /// A custom metric of each pod. Upstream: `GetRawMetric`.
    async fn of_pods(
        &self,
        metric: &str,
        namespace: &str,
        selector: &LabelSelector,
        metric_selector: &LabelSelector,
    ) -> Result<PodMetrics, String> {
        let of = (namespace, "pods", "*");
        let values = self.custom(of, metric, Some(selector), metric_selector);
        let values = values.await?;
        if values.is_empty() {
            return Err("no metrics returned from custom metrics API".to_owned());
        }
        let metrics = values.into_iter().map(|value| {
            let metric = PodMetric {
                timestamp: value.timestamp.0,
                window: value
                    .window_seconds
                    .map_or(DEFAULT_WINDOW, SignedDuration::from_secs),
                value: thousandths(&value.value),
            };
            (value.described_object.name, metric)
        });
        Ok(metrics.collect())
    }

    /// A custom metric of an object. Upstream: `GetObjectMetric`.
    async fn of_object(&self, source: &ObjectMetricSource, namespace: &str) -> Result<i64, String> {
        let CrossVersionObjectReference { kind, name, .. } = &source.described_object;
        let api_version = source.described_object.api_version.as_deref();
        let api_version = api_version.unwrap_or_default();
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        let selector = parsed(source.metric.selector.as_ref())?;
        let metric = &source.metric.name;
        let mapping = self.targets.mapping(self.client, group, kind).await;
        let mapping = mapping.map_err(custom_error)?;
        let resource = match group {
            "" => mapping.resource.plural.clone(),
            group => format!("{}.{group}", mapping.resource.plural),
        };
        // The name of a namespace is not the reference's, which cannot lead out of its own.
        let of = match (group, kind.as_str()) {
            ("", "Namespace") => (namespace, "metrics", ""),
            _ if mapping.namespaced => (namespace, resource.as_str(), name.as_str()),
            _ => ("", resource.as_str(), name.as_str()),
        };
        let values = self.custom(of, metric, None, &selector).await?;
        match values.as_slice() {
            [value] => Ok(thousandths(&value.value)),
            values => Err(custom_error(format!(
                "the custom metrics API server returned {} results when we asked for exactly one",
                values.len()
            ))),
        }
    }

    /// The values of a custom metric.
    async fn custom(
        &self,
        (namespace, resource, name): (&str, &str, &str),
        metric: &str,
        selector: Option<&LabelSelector>,
        metric_selector: &LabelSelector,
    ) -> Result<Vec<MetricValue>, String> {
        let root = "/apis/custom.metrics.k8s.io/v1beta2";
        let path = match (namespace, name) {
            ("", name) => format!("{root}/{resource}/{name}/{metric}"),
            (namespace, "") => format!("{root}/namespaces/{namespace}/{resource}/{metric}"),
            _ => format!("{root}/namespaces/{namespace}/{resource}/{name}/{metric}"),
        };
        let selectors = [
            ("labelSelector", selector),
            ("metricLabelSelector", Some(metric_selector)),
        ];
        let query: Vec<(&str, String)> = selectors
            .into_iter()
            .filter_map(|(key, selector)| Some((key, selector?.as_selector_string())))
            .filter(|(_, text)| !text.is_empty())
            .collect();
        match self.list(&path, &query, "").await {
            Ok(List { items }) => Ok(items),
            Err(error) if error.is_empty() => Err(custom_error(
                "no custom metrics API (custom.metrics.k8s.io) registered".to_owned(),
            )),
            Err(error) => Err(custom_error(error)),
        }
    }

    /// The sum of an external metric. Upstream: `GetExternalMetric`, and the sum that its callers make.
    async fn external(
        &self,
        metric: &str,
        namespace: &str,
        selector: &LabelSelector,
    ) -> Result<i64, String> {
        let root = "/apis/external.metrics.k8s.io/v1beta1";
        let path = format!("{root}/namespaces/{namespace}/{metric}");
        let query = [("labelSelector", selector.as_selector_string())];
        let resource = format!("{metric}.external.metrics.k8s.io");
        let list: List<ExternalValue> =
            self.list(&path, &query, &resource).await.map_err(|error| {
                format!("unable to fetch metrics from external metrics API: {error}")
            })?;
        if list.items.is_empty() {
            return Err("no metrics returned from external metrics API".to_owned());
        }
        let values = list.items.iter().map(|item| thousandths(&item.value));
        Ok(values.fold(0_i64, i64::saturating_add))
    }

    /// Reads a list. For an API that the server does not have, the error names `resource`; it is empty if `resource` is.
    async fn list<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &[(&str, String)],
        resource: &str,
    ) -> Result<List<T>, String> {
        let pairs = query.iter().map(|(key, value)| {
            let value = utf8_percent_encode(value, NON_ALPHANUMERIC);
            format!("{key}={value}")
        });
        let query = pairs.collect::<Vec<_>>().join("&");
        let request = http::Request::get(format!("{path}?{query}")).body(Vec::new());
        let request = request.map_err(|error| error.to_string())?;
        let list: Value = match self.client.request(request).await {
            Ok(list) => list,
            Err(kube::Error::Api(status)) if is_no_status(&status) => {
                return Err(match resource {
                    "" => String::new(),
                    resource => {
                        format!("the server could not find the requested resource (get {resource})")
                    }
                });
            }
            Err(kube::Error::Api(status)) => return Err(status.message.clone()),
            Err(error) => return Err(error.to_string()),
        };
        serde_json::from_value(list).map_err(|error| error.to_string())
    }
}

impl PodUsage {
    /// The usage of the pod, or of one container; `None` if a part of it is unknown.
    fn uses(&self, resource: &str, container: &str) -> Option<i64> {
        let of = |own: &ContainerUsage| Some(thousandths(own.usage.get(resource)?));
        if !container.is_empty() {
            let mut containers = self.containers.iter();
            return of(containers.find(|own| own.name == container)?);
        }
        let usages: Option<Vec<i64>> = self.containers.iter().map(of).collect();
        usages
            .filter(|usages| !usages.is_empty())
            .map(|usages| usages.iter().sum())
    }
}

/// Whether a server without the API has answered: with a text rather than a `Status`.
fn is_no_status(status: &kube::core::Status) -> bool {
    status.code == 404 && status.details.is_none() && status.reason != "NotFound"
}

fn custom_error(error: String) -> String {
    format!("unable to fetch metrics from custom metrics API: {error}")
}

/// Reads the selector of a metric; none selects all.
fn parsed(selector: Option<&ApiSelector>) -> Result<LabelSelector, String> {
    let Some(selector) = selector else {
        return Ok(LabelSelector::everything());
    };
    let value = serde_json::to_value(selector).map_err(|error| error.to_string())?;
    LabelSelector::from_object(&value).map_err(|error| error.to_string())
}

/// A duration as Go writes it, such as `1m30s`; zero for any other text.
fn go_duration(text: &str) -> SignedDuration {
    text.parse().unwrap_or(SignedDuration::ZERO)
}
