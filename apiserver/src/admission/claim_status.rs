//! Permissions for parts of the status of a ResourceClaim: who may bind it, and report which devices.
//!
//! Source: `AuthorizedForBinding` and `AuthorizedForDeviceStatus` of `pkg/registry/resource/utils.go`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::admission::State;
use crate::auth::{self, ANY_VERSION, Attributes, RequestAttributes, Selectors, User};
use crate::meta::object::meta;
use crate::registry::catalog::ResourceInfo;
use crate::status::{FieldErrors, FieldPath};

const GROUP: &str = "resource.k8s.io";
const RESOURCE: &str = "resourceclaims";
/// The extra value of a user whose token is for a node: the node's name.
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";

/// A permission on a part of claims that is no subresource of the API.
#[derive(Clone, Copy)]
struct Part<'a> {
    subresource: &'a str,
    namespace: &'a str,
    name: &'a str,
}

/// Finds the parts of a claim's status that the user of the request may not change.
pub(crate) fn faults(
    state: &State,
    attributes: RequestAttributes<'_>,
    resource: &ResourceInfo,
    object: &Value,
    old: &Value,
) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let gvr = resource.gvr();
    let is_claim = gvr.group == GROUP && gvr.resource == RESOURCE;
    if !is_claim || attributes.subresource != "status" {
        return errors;
    }
    let (user, verb) = (attributes.user, attributes.verb);
    let (next, before) = (&object["status"], &old["status"]);
    let path = FieldPath::new("status");
    if next["allocation"] != before["allocation"] || next["reservedFor"] != before["reservedFor"] {
        let part = Part {
            subresource: "binding",
            namespace: "",
            name: "",
        };
        if let Err(why) = allowed(state, user, &[verb.to_owned()], part) {
            let detail = format!(
                "changing status.allocation or status.reservedFor requires \
                 resource=\"resourceclaims/binding\", verb=\"{verb}\" permission: {why}"
            );
            errors.forbidden(&path.child("allocation"), &detail);
        }
    }
    // The data about devices go with their allocation.
    if next["allocation"].is_null() {
        return errors;
    }
    let mut verbs = vec![format!("arbitrary-node:{verb}")];
    if is_on_node_of(user, &next["allocation"]) {
        verbs.insert(0, format!("associated-node:{verb}"));
    }
    for driver in changed_drivers(&next["devices"], &before["devices"]) {
        let part = Part {
            subresource: "driver",
            namespace: meta(object, "namespace"),
            name: driver,
        };
        if let Err(why) = allowed(state, user, &verbs, part) {
            let verbs = verbs.join(" ");
            let detail = format!(
                "changing status.devices requires resource=\"resourceclaims/driver\", \
                 verb=\"[{verbs}]\" permission: {why}"
            );
            errors.forbidden(&path.child("devices"), &detail);
        }
    }
    errors
}

/// Returns the refusal of the first verb, if none is allowed.
fn allowed(state: &State, user: &User, verbs: &[String], part: Part<'_>) -> Result<(), String> {
    let mut first = None;
    for verb in verbs {
        let permission = Attributes::Resource {
            verb: verb.into(),
            group: GROUP.into(),
            version: ANY_VERSION.into(),
            resource: RESOURCE.into(),
            subresource: part.subresource.into(),
            namespace: part.namespace.into(),
            name: part.name.into(),
            selectors: Selectors::default(),
        };
        let decision = auth::authorize(state, user, &permission);
        if decision.is_allowed() {
            return Ok(());
        }
        let why = match (decision.error(), decision.reason()) {
            (None, reason) => reason.to_owned(),
            (Some(error), "") => error.to_owned(),
            (Some(error), reason) => format!("{error}: {reason}"),
        };
        first.get_or_insert_with(|| permission.forbidden(user, &why).to_string());
    }
    first.map_or(Ok(()), Err)
}

/// Returns the drivers of devices whose data are new, changed or gone.
fn changed_drivers<'v>(next: &'v Value, before: &'v Value) -> BTreeSet<&'v str> {
    let by_device = |devices: &'v Value| -> BTreeMap<[&'v str; 4], &'v Value> {
        let devices = devices.as_array().into_iter().flatten();
        devices
            .map(|device| {
                let text = |field: &str| device[field].as_str().unwrap_or_default();
                (["driver", "pool", "device", "shareID"].map(text), device)
            })
            .collect()
    };
    let (next, before) = (by_device(next), by_device(before));
    let keys = next.keys().chain(before.keys());
    let changed = keys.filter(|key| next.get(*key) != before.get(*key));
    changed.map(|[driver, ..]| *driver).collect()
}

/// Whether the user is a service account whose token is for the only node of the allocation.
fn is_on_node_of(user: &User, allocation: &Value) -> bool {
    let node = user.extra.get(NODE_NAME).map(Vec::as_slice);
    let (true, Some([node])) = (user.name.starts_with("system:serviceaccount:"), node) else {
        return false;
    };
    let terms = allocation["nodeSelector"]["nodeSelectorTerms"].as_array();
    let Some([term]) = terms.map(Vec::as_slice) else {
        return false;
    };
    let count = |field: &str| term[field].as_array().map_or(0, Vec::len);
    let field = &term["matchFields"][0];
    let values = field["values"].as_array().map(Vec::as_slice);
    count("matchExpressions") == 0
        && count("matchFields") == 1
        && field["key"] == "metadata.name"
        && field["operator"] == "In"
        && values.is_some_and(|values| matches!(values, [own] if own == node))
}
