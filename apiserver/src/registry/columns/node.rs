//! Nodes: readiness, roles from labels, addresses and versions.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::view::{View, or_none};

const ROLE_PREFIX: &str = "node-role.kubernetes.io/";
const ROLE_LABEL: &str = "kubernetes.io/role";

pub(super) fn node(view: View<'_>) -> Vec<Value> {
    let mut status = match view.condition("Ready") {
        Some(ready) if ready.str("/status") == "True" => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if view.bool("/spec/unschedulable") {
        status.push_str(",SchedulingDisabled");
    }
    let info = |field: &str| {
        view.str_or(&format!("/status/nodeInfo/{field}"), "<unknown>")
            .to_owned()
    };
    let mut kernel = info("kernelVersion");
    let architecture = view.str("/status/nodeInfo/architecture");
    if kernel != "<unknown>" && !architecture.is_empty() {
        kernel = format!("{kernel} ({architecture})");
    }
    vec![
        view.name(),
        json!(status),
        json!(roles(view)),
        view.age(),
        json!(view.str("/status/nodeInfo/kubeletVersion")),
        json!(address(view, "InternalIP")),
        json!(address(view, "ExternalIP")),
        json!(info("osImage")),
        json!(kernel),
        json!(info("containerRuntimeVersion")),
    ]
}

fn roles(view: View<'_>) -> String {
    let labels = view
        .get("/metadata/labels")
        .and_then(Value::as_object)
        .into_iter()
        .flatten();
    let role = |(label, value): (&'_ String, &'_ Value)| match label.strip_prefix(ROLE_PREFIX) {
        Some(role) => Some(role.to_owned()),
        None if label == ROLE_LABEL => value.as_str().map(str::to_owned),
        None => None,
    };
    let roles: BTreeSet<String> = labels
        .filter_map(role)
        .filter(|role| !role.is_empty())
        .collect();
    or_none(roles.into_iter().collect::<Vec<_>>().join(","))
}

fn address<'a>(view: View<'a>, kind: &str) -> &'a str {
    let mut addresses = view.items("/status/addresses");
    addresses
        .find(|address| address.str("/type") == kind)
        .map_or("<none>", |address| address.str("/address"))
}
