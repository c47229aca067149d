//! `metrics.k8s.io`: what nodes and pods use.
//!
//! Source: kubernetes-sigs/metrics-server, `pkg/api`.

use std::sync::Arc;

use jiff::Timestamp;

use super::super::{Answer, Request, route};
use crate::clock::rfc3339;
use crate::endpoints::negotiation::Transform;
use crate::endpoints::selectors::Selectors;
use crate::endpoints::{partial, response, table};
use crate::json::{Value, json};
use crate::kubelet::ContainerReference;
use crate::meta::GroupResource;
use crate::meta::object::meta;
use crate::registry::catalog::ResourceInfo;
use crate::request::Verb;
use crate::status::ApiError;
use crate::storage::{ObjectKey, StoredObject};
use crate::usage::{PodUsage, RESOLUTION, Sample, Usage, is_measured, is_ready, sample, window};

pub(super) fn pods(request: &Request<'_>) -> Answer {
    let measured = |sample: &Sample, _: &Request<'_>| {
        let pods = sample.pods.iter();
        pods.map(|usage| (Arc::clone(&usage.pod), pod_metrics(request, sample, usage)))
            .collect()
    };
    answer(request, measured)
}

pub(super) fn nodes(request: &Request<'_>) -> Answer {
    answer(request, node_metrics)
}

/// Answers a get or a list by what `measured` makes of the last sample: stored objects, each with its metrics.
fn answer(
    request: &Request<'_>,
    measured: impl Fn(&Sample, &Request<'_>) -> Vec<(Arc<StoredObject>, Value)>,
) -> Answer {
    let verb = route(&request.info, &request.resource, &request.query)?;
    let kubelet = request.state.kubelet.lock().clone();
    let by_node = |pod: &Value, container: &str, time: Timestamp| {
        let container = ContainerReference {
            pod: meta(pod, "name"),
            uid: meta(pod, "uid"),
            node: pod["spec"]["nodeName"].as_str().unwrap_or_default(),
            container,
        };
        let usage = kubelet.as_ref()?.usage(container, time, RESOLUTION)?;
        Some(Usage {
            cpu: usage.cpu,
            memory: usage.memory,
        })
    };
    let sample = sample(request.state, request.namespace(), &by_node);
    for fault in &sample.faults {
        request.warn(fault.clone());
    }
    let found = measured(&sample, request);
    match verb {
        Verb::Get => get(request, &found),
        Verb::List => list(request, &found),
        _ => Err(ApiError::MethodNotAllowed),
    }
}

fn get(request: &Request<'_>, measured: &[(Arc<StoredObject>, Value)]) -> Answer {
    let (namespace, name) = (request.namespace(), request.name());
    let key = ObjectKey::new(namespace, name);
    if let Some((_, metrics)) = measured.iter().find(|(stored, _)| stored.key == key) {
        return request.value(200, metrics);
    }
    let stored = stored_resource(request);
    let is_there = request
        .state
        .storage
        .table(stored.gvr())
        .get(&key)
        .is_some();
    let not_found = |group: &str, resource: &str, name: String| ApiError::NotFound {
        resource: GroupResource {
            group: group.to_owned(),
            resource: resource.to_owned(),
        },
        name,
    };
    let plural = stored.gvr().resource.as_str();
    Err(match (is_there, namespace) {
        (false, _) => not_found("", plural, name.to_owned()),
        (true, Some(namespace)) => not_found(
            "metrics.k8s.io",
            "podmetrics",
            format!("{namespace}/{name}"),
        ),
        (true, None) => not_found("metrics.k8s.io", "nodemetrics", name.to_owned()),
    })
}

fn list(request: &Request<'_>, measured: &[(Arc<StoredObject>, Value)]) -> Answer {
    let query = |key: &str| request.query.get(key).unwrap_or_default();
    let resource = Arc::clone(stored_resource(request));
    let selectors = Selectors::parse(query("labelSelector"), query("fieldSelector"), resource)?;
    let selected = measured
        .iter()
        .filter(|(stored, _)| selectors.select(stored));
    let items: Vec<&Value> = selected.map(|(_, metrics)| metrics).collect();
    let metadata = json!({});
    let shown = match request.accepted.transform {
        Transform::None => json!({
            "kind": request.resource.list_kind(),
            "apiVersion": request.resource.gvk().api_version(),
            "metadata": metadata,
            "items": items.into_iter().map(without_kind).collect::<Value>(),
        }),
        Transform::Table => {
            let mut options = request.table_options()?;
            // The columns are those of the resources of the first row.
            options.column_definitions = !items.is_empty();
            let is_empty = items.is_empty();
            let mut table = table::table(&request.resource, items, &metadata, options);
            if is_empty {
                table["rows"] = Value::Null;
            }
            table
        }
        Transform::PartialObjectMetadata => {
            return Err(request.misfit("PartialObjectMetadata", "is a list", "List"));
        }
        Transform::PartialObjectMetadataList => {
            let version = request.accepted.version;
            partial::partial_object_metadata_list(items, &metadata, version)
        }
    };
    Ok(response::value(200, &shown, request.accepted))
}

/// Items of a list of Go types do not say their kind.
fn without_kind(item: &Value) -> Value {
    let mut item = item.clone();
    if let Some(fields) = item.as_object_mut() {
        fields.remove("kind");
        fields.remove("apiVersion");
    }
    item
}

/// The pods or nodes that the metrics are of.
fn stored_resource<'a>(request: &'a Request<'_>) -> &'a Arc<ResourceInfo> {
    let plural = &request.resource.gvr().resource;
    let stored = request.state.catalog.resource("", "v1", plural);
    stored.expect("pods and nodes are built in")
}

fn pod_metrics(request: &Request<'_>, sample: &Sample, usage: &PodUsage) -> Value {
    let containers = usage.containers.iter();
    let containers =
        containers.map(|(name, usage)| json!({ "name": name, "usage": usage.to_value() }));
    let mut metrics = metrics_of(request, sample, &usage.pod, usage.window);
    metrics["containers"] = containers.collect();
    metrics
}

/// The metrics of the nodes that are ready: each uses what its pods use.
fn node_metrics(sample: &Sample, request: &Request<'_>) -> Vec<(Arc<StoredObject>, Value)> {
    let table = request.state.storage.table(stored_resource(request).gvr());
    let mut measured = Vec::new();
    for stored in table.snapshot().range(None, None) {
        let node = stored.value();
        let created = node["metadata"]["creationTimestamp"].as_str();
        let created = created.and_then(|text| text.parse().ok());
        let Some(created) =
            created.filter(|created| is_ready(&node) && is_measured(*created, sample.time))
        else {
            continue;
        };
        let (_, name) = stored.key.parts();
        let pods = sample.pods.iter().filter(|usage| usage.node == name);
        let total = pods.fold(Usage::default(), |total, pod| total.and(pod.total()));
        let mut metrics = metrics_of(request, sample, stored, window(created, sample.time));
        metrics["usage"] = total.to_value();
        measured.push((Arc::clone(stored), metrics));
    }
    measured
}

/// Metrics without the amounts.
fn metrics_of(request: &Request<'_>, sample: &Sample, stored: &StoredObject, window: i64) -> Value {
    let value = stored.value();
    let (namespace, name) = stored.key.parts();
    let now = rfc3339(request.state.clock.now());
    let mut metadata = json!({ "name": name, "creationTimestamp": now });
    if let Some(namespace) = namespace {
        metadata["namespace"] = namespace.into();
    }
    if value["metadata"]["labels"].is_object() {
        metadata["labels"] = value["metadata"]["labels"].clone();
    }
    let gvk = request.resource.gvk();
    json!({
        "kind": gvk.kind,
        "apiVersion": gvk.api_version(),
        "metadata": metadata,
        "timestamp": rfc3339(sample.time),
        "window": format!("{window}s"),
    })
}
