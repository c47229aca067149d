//! `custom.metrics.k8s.io` and `external.metrics.k8s.io`: values that were put.
//!
//! Source: kubernetes-sigs/custom-metrics-apiserver, `pkg/registry` and `pkg/provider`.

use std::sync::Arc;

use super::super::{Answer, Request};
use crate::clock::rfc3339;
use crate::endpoints::response;
use crate::json::{Value, json};
use crate::meta::selector::LabelSelector;
use crate::metric_values::Put;
use crate::registry::catalog::ResourceInfo;
use crate::request::Verb;
use crate::status::{ApiError, Status};
use crate::storage::{ObjectKey, StoredObject};

/// A stored object and its resource.
type Found = (Arc<ResourceInfo>, Arc<StoredObject>);

/// A metric of objects, as the path asks for it.
struct Asked<'a> {
    namespace: &'a str,
    /// `services` or `ingresses.networking.k8s.io`.
    resource: &'a str,
    /// `*` for all that the selector selects.
    name: &'a str,
    metric: &'a str,
}

/// GET of `…/pods/*/METRIC`, `…/services/NAME/METRIC`, or `…/namespaces/NAME/metrics/METRIC`.
pub(super) fn custom(request: &Request<'_>) -> Answer {
    let info = &request.info;
    if !matches!(info.verb, Some(Verb::Get | Verb::List)) {
        return Err(ApiError::MethodNotAllowed);
    }
    let namespace = request.namespace().unwrap_or_default();
    let (name, resource) = (request.name(), info.resource.as_str());
    let asked = match (&info.subresource, resource) {
        (Some(metric), _) => Asked {
            namespace,
            resource,
            name,
            metric,
        },
        (None, "metrics") if !namespace.is_empty() && !name.is_empty() => Asked {
            namespace: "",
            resource: "namespaces",
            name: namespace,
            metric: name,
        },
        (None, _) => return Err(ApiError::NoSuchPath),
    };
    let objects = selected(request, &asked)?;
    let metric_selector = selector(request, "metricLabelSelector")?;
    let values = &request.state.metric_values;
    let mut items = Vec::new();
    for (kind, stored) in &objects {
        let (_, name) = stored.key.parts();
        let of = (asked.namespace, asked.resource, name);
        let label = |key: &str| stored.label(key);
        let put = values.of_object(of, asked.metric, &metric_selector, label);
        items.extend(put.map(|put| item(kind, stored, asked.metric, &put)));
    }
    if items.is_empty() {
        return Err(no_metric(&asked));
    }
    list(request, items)
}

/// GET of `…/namespaces/NAMESPACE/METRIC`.
pub(super) fn external(request: &Request<'_>) -> Answer {
    let info = &request.info;
    if info.verb != Some(Verb::List) {
        return match info.verb {
            Some(Verb::Get) => Err(ApiError::NoSuchPath),
            _ => Err(ApiError::MethodNotAllowed),
        };
    }
    let selector = selector(request, "labelSelector")?;
    let namespace = request.namespace().unwrap_or_default();
    let metric = info.resource.as_str();
    let values = &request.state.metric_values;
    let found = values.external(namespace, metric, &selector);
    let items = found.iter().map(|put| {
        json!({
            "metricName": metric,
            "metricLabels": put.labels,
            "timestamp": rfc3339(put.time),
            "value": put.value.to_string(),
        })
    });
    list(request, items.collect())
}

fn list(request: &Request<'_>, items: Vec<Value>) -> Answer {
    let gvk = request.resource.gvk();
    let list = json!({
        "kind": gvk.kind,
        "apiVersion": gvk.api_version(),
        "metadata": {},
        "items": items,
    });
    Ok(response::value(200, &list, request.accepted))
}

fn item(kind: &ResourceInfo, stored: &StoredObject, metric: &str, put: &Put) -> Value {
    let (namespace, name) = stored.key.parts();
    let gvk = kind.gvk();
    let mut described = json!({
        "kind": gvk.kind, "name": name, "apiVersion": gvk.api_version(),
    });
    if let Some(namespace) = namespace {
        described["namespace"] = namespace.into();
    }
    let mut identifier = json!({ "name": metric });
    if !put.labels.is_empty() {
        identifier["selector"] = json!({ "matchLabels": put.labels });
    }
    json!({
        "describedObject": described,
        "metric": identifier,
        "timestamp": rfc3339(put.time),
        "value": put.value.to_string(),
    })
}

/// The stored objects that a request names or selects.
fn selected(request: &Request<'_>, asked: &Asked<'_>) -> Result<Vec<Found>, ApiError> {
    let catalog = request.state.definitions.catalog();
    let Some(kind) = catalog.resource_called(asked.resource) else {
        return Err(no_metric(asked));
    };
    let table = request.state.storage.table(kind.gvr());
    let namespace = Some(asked.namespace).filter(|namespace| !namespace.is_empty());
    let of_kind = |stored: Arc<StoredObject>| (Arc::clone(kind), stored);
    if asked.name != "*" {
        let stored = table.get(&ObjectKey::new(namespace, asked.name));
        return Ok(stored.into_iter().map(of_kind).collect());
    }
    let selector = selector(request, "labelSelector")?;
    let snapshot = table.snapshot();
    let objects = snapshot.range(namespace, None);
    let objects = objects.filter(|stored| selector.matches_by(|key| stored.label(key)));
    Ok(objects.cloned().map(of_kind).collect())
}

fn selector(request: &Request<'_>, key: &str) -> Result<LabelSelector, ApiError> {
    let text = request.query.get(key).unwrap_or_default();
    LabelSelector::parse(text).map_err(|error| ApiError::BadRequest(error.to_string()))
}

/// Source: `pkg/provider/errors.go`, `NewMetricNotFoundError` and `NewMetricNotFoundForError`.
fn no_metric(asked: &Asked<'_>) -> ApiError {
    let Asked {
        resource,
        name,
        metric,
        ..
    } = asked;
    let mut message = format!("the server could not find the metric {metric} for {resource}");
    if *name != "*" {
        message = format!("{message} {name}");
    }
    ApiError::Denied(Box::new(Status::failure(404, "NotFound", message)))
}
