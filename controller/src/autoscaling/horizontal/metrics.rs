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
use kubeproof_machinery::json;
use kubeproof_machinery::meta::selector::LabelSelector;
use kubeproof_machinery::schema::duration::nanoseconds;
use kubeproof_runtime::clock::go_seconds;
use kubeproof_runtime::sync_error::Error;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::OnceCell;

use super::calculator::{PodMetric, PodMetrics, sum, thousandths};
use super::targets::{Targets, segment};

/// The group of the custom metrics.
const CUSTOM: &str = "custom.metrics.k8s.io";
/// The versions of that group that have a client.
const CUSTOM_VERSIONS: [&str; 2] = ["v1beta2", "v1beta1"];
/// The window of a value that states none.
const DEFAULT_WINDOW: SignedDuration = SignedDuration::from_mins(1);

/// The values of a metric, in thousandths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// Of each pod.
    Pods(PodMetrics),
    /// Of an object.
    Value(i64),
    /// Of an external metric, which are to be added.
    Values(Vec<i64>),
}

/// The reason why a metric has no values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unread {
    /// The metric's selector is invalid.
    Selector(String),
    /// The API has no values, or could not be asked.
    Api(String),
}

/// The values of a metric, or the reason why it has no values.
pub(super) type Observation = Result<Reading, Unread>;

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
    /// Go's zero value if it is absent.
    window: Option<String>,
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
    /// `window` in `v1beta1`.
    #[serde(alias = "window")]
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
    /// The version of the custom metrics, once it is looked up. Upstream looks it up anew in each sync period.
    pub(super) custom_version: OnceCell<&'static str>,
}

/// The object that a custom metric is about.
enum Described {
    /// The namespace.
    Namespace,
    /// An object of the namespace, or all with the name `*`.
    Object { resource: String, name: String },
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
            return metrics.map(Reading::Pods).map_err(Unread::Api);
        }
        if let Some(source) = &spec.container_resource {
            let of = (source.name.as_str(), source.container.as_str());
            let metrics = self.resource(of.0, of.1, namespace, selector).await;
            return metrics.map(Reading::Pods).map_err(Unread::Api);
        }
        if let Some(source) = &spec.pods {
            let of = parsed(source.metric.selector.as_ref())?;
            let metric = &source.metric.name;
            let metrics = self.of_pods(metric, namespace, selector, &of).await;
            return metrics.map(Reading::Pods).map_err(Unread::Api);
        }
        if let Some(source) = &spec.object {
            let of = parsed(source.metric.selector.as_ref())?;
            let value = self.of_object(source, namespace, &of).await;
            return value.map(Reading::Value).map_err(Unread::Api);
        }
        if let Some(source) = &spec.external {
            let of = parsed(source.metric.selector.as_ref())?;
            let values = self.external(&source.metric.name, namespace, &of).await;
            return values.map(Reading::Values).map_err(Unread::Api);
        }
        // The reason is found where the replicas are computed.
        Err(Unread::Api(String::new()))
    }

    /// The usage of a resource by pods, or by one container of each. Upstream: `GetResourceMetric`.
    async fn resource(
        &self,
        resource: &str,
        container: &str,
        namespace: &str,
        selector: &LabelSelector,
    ) -> Result<PodMetrics, String> {
        let unfetched =
            |error| format!("unable to fetch metrics from resource metrics API: {error}");
        let query = [("labelSelector", selector.as_selector_string())];
        let path = ["metrics.k8s.io", "v1beta1", "namespaces", namespace, "pods"];
        let list = self.list(&path, &query, "pods.metrics.k8s.io");
        let list: List<PodUsage> = list.await.map_err(unfetched)?;
        let mut windows = Vec::new();
        for pod in &list.items {
            let window = pod.window.as_deref().map_or(Ok(0), nanoseconds);
            windows.push(SignedDuration::from_nanos(window.map_err(unfetched)?));
        }
        if list.items.is_empty() {
            return Err("no metrics returned from resource metrics API".to_owned());
        }
        let usages = list.items.into_iter().zip(windows);
        let usages = usages.filter_map(|(pod, window)| {
            let value = pod.uses(resource, container)?;
            let metric = PodMetric {
                timestamp: pod.timestamp.0,
                window,
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
        let version = self.custom_version().await.map_err(custom_error)?;
        let of = Described::Object {
            resource: "pods".to_owned(),
            name: "*".to_owned(),
        };
        let selectors = (Some(selector), metric_selector);
        let values = self.custom((version, namespace), &of, metric, selectors);
        let values = values.await.map_err(custom_error)?;
        if values.is_empty() {
            return Err("no metrics returned from custom metrics API".to_owned());
        }
        let metrics = values.into_iter().map(|value| {
            let metric = PodMetric {
                timestamp: value.timestamp.0,
                window: value.window_seconds.map_or(DEFAULT_WINDOW, go_seconds),
                value: thousandths(&value.value),
            };
            (value.described_object.name, metric)
        });
        Ok(metrics.collect())
    }

    /// A custom metric of an object. Upstream: `GetObjectMetric`.
    async fn of_object(
        &self,
        source: &ObjectMetricSource,
        namespace: &str,
        metric_selector: &LabelSelector,
    ) -> Result<i64, String> {
        let version = self.custom_version().await.map_err(custom_error)?;
        let described = self.described(&source.described_object).await;
        let described = described.map_err(custom_error)?;
        let (of, metric) = ((version, namespace), &source.metric.name);
        let values = self.custom(of, &described, metric, (None, metric_selector));
        let values = values.await.map_err(custom_error)?;
        match values.as_slice() {
            [value] => Ok(thousandths(&value.value)),
            values => Err(custom_error(format!(
                "the custom metrics API server returned {} results when we asked for exactly one",
                values.len()
            ))),
        }
    }

    /// The object that `reference` names. As upstream's, its path is that of an object of the namespace even if its kind
    /// has none.
    async fn described(
        &self,
        reference: &CrossVersionObjectReference,
    ) -> Result<Described, String> {
        let CrossVersionObjectReference { kind, name, .. } = reference;
        let api_version = reference.api_version.as_deref().unwrap_or_default();
        let group = match api_version.split_once('/') {
            Some((group, version)) if !version.contains('/') => group,
            _ => "",
        };
        // The name of a namespace is not the reference's, which cannot lead out of its own.
        if group.is_empty() && kind == "Namespace" {
            return Ok(Described::Namespace);
        }
        let mapping = self.targets.mapping(self.client, group, kind).await;
        let qualified = |name: &str| match group {
            "" => name.to_owned(),
            group => format!("{name}.{group}"),
        };
        let mapping = mapping.map_err(|error| {
            let kind = qualified(kind);
            format!("unable to map kind {kind} to resource: {error}")
        })?;
        Ok(Described::Object {
            resource: qualified(&mapping.resource.plural),
            name: name.clone(),
        })
    }

    /// The version of the custom metrics that the server prefers, of those that have a client.
    ///
    /// Upstream: `apiVersionsFromDiscovery`.
    async fn custom_version(&self) -> Result<&'static str, String> {
        let version = self.custom_version.get_or_try_init(|| async {
            let groups = self.client.list_api_groups().await;
            let groups = groups.map_err(|error| Error::from(error).to_string())?;
            let group = groups.groups.into_iter().find(|group| group.name == CUSTOM);
            let group =
                group.ok_or_else(|| format!("no custom metrics API ({CUSTOM}) registered"))?;
            let versions = group.preferred_version.iter().chain(&group.versions);
            let mut known = versions.filter_map(|own| {
                let mut known = CUSTOM_VERSIONS.into_iter();
                known.find(|known| *known == own.version)
            });
            known
                .next()
                .ok_or_else(|| "no known available metric versions found".to_owned())
        });
        version.await.copied()
    }

    /// The values of a custom metric.
    async fn custom(
        &self,
        (version, namespace): (&str, &str),
        described: &Described,
        metric: &str,
        (selector, metric_selector): (Option<&LabelSelector>, &LabelSelector),
    ) -> Result<Vec<MetricValue>, String> {
        let mut path = vec![CUSTOM, version, "namespaces", namespace];
        let asked = match described {
            Described::Namespace => {
                path.push("metrics");
                format!("metrics.{CUSTOM} {metric}")
            }
            Described::Object { resource, name } => {
                path.extend([resource.as_str(), name.as_str()]);
                format!("{resource}.{CUSTOM} {name}")
            }
        };
        path.push(metric);
        let selectors = [
            ("labelSelector", selector),
            ("metricLabelSelector", Some(metric_selector)),
        ];
        let query: Vec<(&str, String)> = selectors
            .into_iter()
            .filter_map(|(key, selector)| Some((key, selector?.as_selector_string())))
            .filter(|(_, text)| !text.is_empty())
            .collect();
        Ok(self.list(&path, &query, &asked).await?.items)
    }

    /// The values of an external metric. Upstream: `GetExternalMetric`.
    async fn external(
        &self,
        metric: &str,
        namespace: &str,
        selector: &LabelSelector,
    ) -> Result<Vec<i64>, String> {
        const GROUP: &str = "external.metrics.k8s.io";
        let path = [GROUP, "v1beta1", "namespaces", namespace, metric];
        let query = [("labelSelector", selector.as_selector_string())];
        let resource = format!("{metric}.{GROUP}");
        let list: List<ExternalValue> =
            self.list(&path, &query, &resource).await.map_err(|error| {
                format!("unable to fetch metrics from external metrics API: {error}")
            })?;
        if list.items.is_empty() {
            return Err("no metrics returned from external metrics API".to_owned());
        }
        let values = list.items.iter().map(|item| thousandths(&item.value));
        Ok(values.collect())
    }

    /// Reads a list from the path of `segments`. For an API that the server does not have, the error names `asked`.
    async fn list<T: DeserializeOwned>(
        &self,
        segments: &[&str],
        query: &[(&str, String)],
        asked: &str,
    ) -> Result<List<T>, String> {
        let pairs = query.iter().map(|(key, value)| {
            let value = utf8_percent_encode(value, NON_ALPHANUMERIC);
            format!("{key}={value}")
        });
        let query = pairs.collect::<Vec<_>>().join("&");
        let path: String = segments
            .iter()
            .map(|name| format!("/{}", segment(name)))
            .collect();
        let request = http::Request::get(format!("/apis{path}?{query}")).body(Vec::new());
        let request = request.map_err(|error| error.to_string())?;
        let list: Value = match self.client.request(request).await {
            Ok(list) => list,
            Err(kube::Error::Api(status)) if is_no_status(&status) => {
                return Err(format!(
                    "the server could not find the requested resource (get {asked})"
                ));
            }
            Err(kube::Error::Api(status)) => return Err(status.message.clone()),
            Err(error) => return Err(error.to_string()),
        };
        List::deserialize(list).map_err(|error| error.to_string())
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
        usages.filter(|usages| !usages.is_empty()).map(sum)
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
fn parsed(selector: Option<&ApiSelector>) -> Result<LabelSelector, Unread> {
    let Some(selector) = selector else {
        return Ok(LabelSelector::everything());
    };
    let unread = |error: &dyn std::fmt::Display| Unread::Selector(error.to_string());
    let value = json::to_value(selector).map_err(|error| unread(&error))?;
    LabelSelector::from_object(&value).map_err(|error| unread(&error))
}

#[cfg(test)]
mod tests;
