//! Permissions for parts of the status of a ResourceClaim: who may bind it, and report which devices.
//!
//! Source: `AuthorizedForBinding` and `AuthorizedForDeviceStatus` of `pkg/registry/resource/utils.go`.

use std::collections::{BTreeMap, BTreeSet};

use crate::admission::State;
use crate::auth::{self, ANY_VERSION, Attributes, RequestAttributes, Selectors, User};
use crate::json::Value;
use crate::meta::object::meta;
use crate::meta::validation::dns1123_subdomain;
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
    let is_same = |field: &str| is_same(&next[field], &before[field]);
    if !is_same("allocation") || !is_same("reservedFor") {
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
    let changed = keys.filter(|key| match (next.get(*key), before.get(*key)) {
        (Some(next), Some(before)) => !is_same(next, before),
        _ => true,
    });
    changed.map(|[driver, ..]| *driver).collect()
}

/// Returns whether two values are equal, where a list that is not there is an empty one (`Semantic.DeepEqual`).
fn is_same(one: &Value, other: &Value) -> bool {
    let empty = |value: &Value| value.is_null() || value.as_array().is_some_and(Vec::is_empty);
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let mut keys = one.keys().chain(other.keys());
            keys.all(|key| {
                let [one, other] =
                    [one, other].map(|object| object.get(key).unwrap_or(&Value::Null));
                is_same(one, other)
            })
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => one
            .iter()
            .zip(other)
            .all(|(one, other)| is_same(one, other)),
        _ => one == other || empty(one) && empty(other),
    }
}

/// Whether the user is a service account whose token is for the only node of the allocation.
fn is_on_node_of(user: &User, allocation: &Value) -> bool {
    let node = user.extra.get(NODE_NAME).map(Vec::as_slice);
    let (Some(_), Some([node])) = (auth::service_account(&user.name), node) else {
        return false;
    };
    if !dns1123_subdomain(node).is_empty() {
        return false;
    }
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

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;

    #[test]
    fn a_list_that_is_not_there_is_an_empty_one() {
        for (one, other) in [
            (json!(null), json!([])),
            (json!({"results": []}), json!({})),
            (
                json!([{"name": "a", "conditions": null}]),
                json!([{"name": "a"}]),
            ),
        ] {
            assert!(is_same(&one, &other), "{one} {other}");
            assert!(is_same(&other, &one), "{other} {one}");
        }
        for (one, other) in [
            (json!(null), json!({})),
            (json!([]), json!([1])),
            (json!({"a": 1}), json!({"b": 1})),
            (json!([{"name": "a"}]), json!([{"name": "b"}])),
        ] {
            assert!(!is_same(&one, &other), "{one} {other}");
        }
        let device = json!({"driver": "d", "pool": "p", "device": "v", "conditions": []});
        let same = json!([{"driver": "d", "pool": "p", "device": "v"}]);
        assert!(changed_drivers(&json!([device]), &same).is_empty());
    }

    #[test]
    fn a_token_of_a_service_account_may_be_for_the_node_of_the_devices() {
        let is_on = |name: &str, token: &str, node: &str| {
            let extra = [(NODE_NAME.to_owned(), vec![token.to_owned()])];
            let user = User {
                name: name.to_owned(),
                extra: BTreeMap::from(extra),
                ..User::default()
            };
            let field = json!({"key": "metadata.name", "operator": "In", "values": [node]});
            let terms = json!([{"matchFields": [field]}]);
            is_on_node_of(
                &user,
                &json!({"nodeSelector": {"nodeSelectorTerms": terms}}),
            )
        };
        let driver = "system:serviceaccount:kube-system:driver";
        assert!(is_on(driver, "node-1", "node-1"));
        assert!(!is_on(driver, "node-1", "node-2"));
        assert!(!is_on(driver, "", ""), "a node has a name");
        assert!(!is_on("system:serviceaccount:driver", "node-1", "node-1"));
        assert!(!is_on("driver", "node-1", "node-1"));
    }
}
