//! Limit ranges: the default requests and limits of containers, and their bounds.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use super::attributes::Attributes;
use crate::admission::State;
use crate::json::{Map, Value, json};
use crate::meta::object::{child_mut, meta_mut, namespace};
use crate::registry::core::pod::resources::amounts::{
    Amounts, amounts, limits_of_pod, requests_of_pod,
};
use crate::schema::quantity::Quantity;
use crate::status::ApiError;

/// The annotation that lists the defaults that a pod got.
const ANNOTATION: &str = "kubernetes.io/limit-ranger";

fn limits<'r>(range: &'r Value, kind: &'r str) -> impl Iterator<Item = &'r Value> {
    let limits = range["spec"]["limits"].as_array().into_iter().flatten();
    limits.filter(move |limit| limit["type"] == kind)
}

/// Gives the containers of a new pod the requests and limits that they do not state.
pub(super) fn default_pod(state: &State, pod: &mut Value) {
    let ranges = state.listers.limit_ranges(&state.storage);
    if ranges.is_empty() {
        return;
    }
    let ranges = ranges.snapshot();
    let own = namespace(pod).to_owned();
    for range in ranges.range(Some(&own), None) {
        let mut defaults = [Map::new(), Map::new()];
        for limit in limits(&range.value(), "Container") {
            for (defaults, field) in defaults.iter_mut().zip(["defaultRequest", "default"]) {
                let stated = limit[field].as_object().into_iter().flatten();
                defaults.extend(stated.map(|(name, amount)| (name.clone(), amount.clone())));
            }
        }
        merge_defaults(pod, &defaults);
    }
}

fn merge_defaults(pod: &mut Value, [requests, limits]: &[Map; 2]) {
    let mut done = Vec::new();
    for (list, kind) in [
        ("containers", "container"),
        ("initContainers", "init container"),
    ] {
        let Some(containers) = pod["spec"].get_mut(list).and_then(Value::as_array_mut) else {
            continue;
        };
        for container in containers {
            let name = container["name"].as_str().unwrap_or_default().to_owned();
            let resources = child_mut(container, "resources");
            for (field, what, defaults) in [
                ("requests", "request", requests),
                ("limits", "limit", limits),
            ] {
                let set = fill(resources, field, defaults);
                if !set.is_empty() {
                    done.push(format!("{} {what} for {kind} {name}", set.join(", ")));
                }
            }
        }
    }
    if !done.is_empty() {
        let text = format!("LimitRanger plugin set: {}", done.join("; "));
        let annotations = meta_mut(pod)
            .entry("annotations")
            .or_insert_with(|| json!({}));
        annotations[ANNOTATION] = text.into();
    }
}

/// Adds amounts that are not stated; answers whose.
fn fill(resources: &mut Map, field: &str, defaults: &Map) -> Vec<String> {
    let stated = &resources.get(field).unwrap_or(&Value::Null);
    let missing: Vec<_> = defaults
        .iter()
        .filter(|(name, _)| stated[name.as_str()].is_null())
        .map(|(name, amount)| (name.clone(), amount.clone()))
        .collect();
    if missing.is_empty() {
        return Vec::new();
    }
    let names = missing.iter().map(|(name, _)| name.to_string()).collect();
    let field = resources.entry(field).or_insert_with(|| json!({}));
    if let Some(fields) = field.as_object_mut() {
        fields.extend(missing);
    }
    names
}

/// Refuses new pods and claims beyond the limits of their namespace; `None` where no limit applies.
///
/// The refusal is `Forbidden`.
pub(super) fn check(attributes: Attributes<'_>) -> Option<Result<(), ApiError>> {
    let gvr = attributes.resource.gvr();
    let is_pod = match gvr.resource.as_str() {
        "pods" => true,
        "persistentvolumeclaims" => false,
        _ => return None,
    };
    // The resources of a pod's containers change by a resize alone.
    let asks = match (attributes.subresource, attributes.old) {
        ("", None) => true,
        ("", Some(_)) => !is_pod,
        ("resize", Some(old)) => is_pod && old["metadata"]["deletionTimestamp"].is_null(),
        _ => false,
    };
    if !gvr.group.is_empty() || !asks {
        return None;
    }
    let ranges = attributes
        .state
        .listers
        .limit_ranges(&attributes.state.storage);
    if ranges.is_empty() {
        return None;
    }
    let ranges = ranges.snapshot();
    let own = namespace(attributes.object);
    for range in ranges.range(Some(own), None) {
        let faults = match is_pod {
            true => pod_faults(&range.value(), attributes.object),
            false => claim_faults(&range.value(), attributes.object),
        };
        match faults.as_slice() {
            [] => {}
            [fault] => return Some(Err(attributes.forbidden(fault.clone()))),
            faults => {
                let faults = format!("[{}]", faults.join(", "));
                return Some(Err(attributes.forbidden(faults)));
            }
        }
    }
    Some(Ok(()))
}

fn claim_faults(range: &Value, claim: &Value) -> Vec<String> {
    let kind = "PersistentVolumeClaim";
    let requests = amounts(&claim["spec"]["resources"]["requests"]);
    let mut faults = Vec::new();
    for limit in limits(range, kind) {
        let bounds = Bounds {
            kind,
            requests: &requests,
            limits: &Amounts::new(),
        };
        for (name, least) in amounts(&limit["min"]) {
            faults.extend(bounds.below(&name, &least));
        }
        for (name, most) in amounts(&limit["max"]) {
            let fault = match requests.get(&name) {
                None => Some("No request is specified".to_owned()),
                Some(request) => (request.compare(&most) == Ordering::Greater)
                    .then(|| format!("but request is {request}")),
            };
            faults.extend(fault.map(|fault| bounds.worded("maximum", &name, &most, &fault)));
        }
    }
    distinct(faults)
}

fn pod_faults(range: &Value, pod: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    for limit in range["spec"]["limits"].as_array().into_iter().flatten() {
        match limit["type"].as_str().unwrap_or_default() {
            "Container" => {
                for list in ["containers", "initContainers"] {
                    for container in pod["spec"][list].as_array().into_iter().flatten() {
                        let resources = &container["resources"];
                        let bounds = Bounds {
                            kind: "Container",
                            requests: &amounts(&resources["requests"]),
                            limits: &amounts(&resources["limits"]),
                        };
                        faults.extend(bounds.faults(limit));
                    }
                }
            }
            "Pod" => {
                let bounds = Bounds {
                    kind: "Pod",
                    requests: &requests_of_pod(pod),
                    limits: &limits_of_pod(pod),
                };
                faults.extend(bounds.faults(limit));
            }
            _ => {}
        }
    }
    distinct(faults)
}

fn distinct(faults: Vec<String>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let is_first: Vec<bool> = faults.iter().map(|fault| seen.insert(fault)).collect();
    let kept = faults
        .iter()
        .zip(is_first)
        .filter(|(_, is_first)| *is_first);
    kept.map(|(fault, _)| fault.clone()).collect()
}

/// What something uses, to be held against limits.
struct Bounds<'a> {
    kind: &'a str,
    requests: &'a Amounts,
    limits: &'a Amounts,
}

impl Bounds<'_> {
    fn faults(&self, limit: &Value) -> Vec<String> {
        let mut faults = Vec::new();
        for (name, least) in amounts(&limit["min"]) {
            faults.extend(self.below(&name, &least));
        }
        for (name, most) in amounts(&limit["max"]) {
            faults.extend(self.above(&name, &most));
        }
        for (name, most) in amounts(&limit["maxLimitRequestRatio"]) {
            faults.extend(self.ratio(&name, &most));
        }
        faults
    }

    fn worded(&self, what: &str, name: &str, enforced: &Quantity, fault: &str) -> String {
        let kind = self.kind;
        let point = if fault.starts_with("No ") {
            ".  "
        } else {
            ", "
        };
        format!("{what} {name} usage per {kind} is {enforced}{point}{fault}")
    }

    fn below(&self, name: &str, least: &Quantity) -> Option<String> {
        let is_less = |own: &Quantity| own.compare(least) == Ordering::Less;
        let fault = match (self.requests.get(name), self.limits.get(name)) {
            (None, _) => "No request is specified".to_owned(),
            (Some(request), _) if is_less(request) => format!("but request is {request}"),
            (_, Some(limit)) if is_less(limit) => format!("but limit is {limit}"),
            _ => return None,
        };
        Some(self.worded("minimum", name, least, &fault))
    }

    fn above(&self, name: &str, most: &Quantity) -> Option<String> {
        let is_more = |own: &Quantity| own.compare(most) == Ordering::Greater;
        let fault = match (self.requests.get(name), self.limits.get(name)) {
            (_, None) => "No limit is specified".to_owned(),
            (_, Some(limit)) if is_more(limit) => format!("but limit is {limit}"),
            (Some(request), _) if is_more(request) => format!("but request is {request}"),
            _ => return None,
        };
        Some(self.worded("maximum", name, most, &fault))
    }

    fn ratio(&self, name: &str, most: &Quantity) -> Option<String> {
        let stated = |own: &Amounts| own.get(name).cloned().filter(|own| !own.is_zero());
        let fault = match (stated(self.requests), stated(self.limits)) {
            (None, _) => "but no request is specified or request is 0".to_owned(),
            (_, None) => "but no limit is specified or limit is 0".to_owned(),
            (Some(request), Some(limit)) => {
                let ratio = limit.approximate() / request.approximate();
                if ratio <= most.approximate() {
                    return None;
                }
                format!("but provided ratio is {ratio:.6}")
            }
        };
        let kind = self.kind;
        Some(format!(
            "{name} max limit to request ratio per {kind} is {most}, {fault}"
        ))
    }
}
