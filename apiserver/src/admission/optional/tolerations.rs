//! PodTolerationRestriction and ExtendedResourceToleration: the tolerations that pods get and may
//! have.
//!
//! Source: also `pkg/util/tolerations/tolerations.go`.

use std::collections::BTreeSet;

use crate::admission::State;
use crate::json::{Value, json};
use crate::meta::GroupResource;
use crate::meta::object::{child_mut, namespace};
use crate::registry::core::pod::qos_class;
use crate::registry::core::resource_names::is_extended;
use crate::status::ApiError;
use crate::storage::ObjectKey;

/// The annotation of a namespace with further tolerations of its pods.
const DEFAULTS: &str = "scheduler.alpha.kubernetes.io/defaultTolerations";
/// The annotation of a namespace with all that its pods may tolerate.
const WHITELIST: &str = "scheduler.alpha.kubernetes.io/tolerationsWhitelist";

fn tolerations(pod: &Value) -> &[Value] {
    let own = pod["spec"]["tolerations"].as_array();
    own.map_or(&[], Vec::as_slice)
}

/// Adds the tolerations of its namespace to a new pod, and one of memory pressure to a pod that
/// requests resources.
pub(super) fn admit(state: &State, pod: &mut Value, old: Option<&Value>) -> Result<(), ApiError> {
    let mut further = match old {
        Some(_) => Vec::new(),
        None => match annotated(state, pod, DEFAULTS)? {
            Some(own) => own,
            None => state.configuration.default_tolerations.clone(),
        },
    };
    let sent = pod["status"]["qosClass"].as_str().unwrap_or_default();
    let class = match sent {
        "" => qos_class(pod),
        sent => sent,
    };
    if class != "BestEffort" {
        further.push(json!({
            "key": "node.kubernetes.io/memory-pressure", "operator": "Exists", "effect": "NoSchedule",
        }));
    }
    if !further.is_empty() {
        let merged = merged(tolerations(pod), &further);
        child_mut(pod, "spec").insert("tolerations", merged.into());
    }
    check(state, pod)
}

/// Checks that the pod tolerates no more than its namespace allows.
pub(super) fn check(state: &State, pod: &Value) -> Result<(), ApiError> {
    let own = tolerations(pod);
    if own.is_empty() {
        return Ok(());
    }
    let annotated = annotated(state, pod, WHITELIST)?;
    let (allowed, scope) = match &annotated {
        Some(allowed) => (allowed, "namespace"),
        None => (&state.configuration.allowed_tolerations, "cluster"),
    };
    let is_allowed = |own: &Value| allowed.iter().any(|allowed| is_superset(allowed, own));
    match allowed.is_empty() || own.iter().all(is_allowed) {
        true => Ok(()),
        // Upstream's error is no status.
        false => Err(ApiError::Unknown(format!(
            "pod tolerations (possibly merged with namespace default tolerations) conflict with \
             its {scope} whitelist"
        ))),
    }
}

/// The tolerations in an annotation of the pod's namespace; `None` without the annotation.
fn annotated(state: &State, pod: &Value, key: &str) -> Result<Option<Vec<Value>>, ApiError> {
    let own = namespace(pod);
    let namespaces = state.listers.namespaces(&state.storage);
    let Some(found) = namespaces.get(&ObjectKey::new(None, own)) else {
        return Err(ApiError::NotFound {
            resource: GroupResource {
                group: String::new(),
                resource: "namespaces".to_owned(),
            },
            name: own.to_owned(),
        });
    };
    match found.value()["metadata"]["annotations"][key].as_str() {
        None => Ok(None),
        Some("") => Ok(Some(Vec::new())),
        Some(text) => match serde_json::from_str::<Option<Vec<Value>>>(text) {
            Ok(own) => Ok(Some(own.unwrap_or_default())),
            Err(error) => Err(ApiError::Unknown(error.to_string())),
        },
    }
}

/// Both lists without the tolerations that another one covers.
fn merged(first: &[Value], second: &[Value]) -> Vec<Value> {
    let all: Vec<&Value> = first.iter().chain(second).collect();
    let mut merged: Vec<&Value> = Vec::new();
    for (index, &own) in all.iter().enumerate() {
        let is_covered = merged.iter().any(|other| is_superset(other, own))
            || all[index + 1..]
                .iter()
                .any(|other| !are_equal(own, other) && is_superset(other, own));
        if !is_covered {
            merged.push(own);
        }
    }
    merged.into_iter().cloned().collect()
}

fn text<'v>(toleration: &'v Value, field: &str) -> &'v str {
    toleration[field].as_str().unwrap_or_default()
}

fn seconds(toleration: &Value) -> Option<i64> {
    toleration["tolerationSeconds"].as_i64()
}

fn are_equal(one: &Value, other: &Value) -> bool {
    let fields = ["key", "operator", "value", "effect"];
    let same = |field: &&str| text(one, field) == text(other, field);
    fields.iter().all(same) && seconds(one) == seconds(other)
}

/// Whether `wide` tolerates all that `narrow` does.
fn is_superset(wide: &Value, narrow: &Value) -> bool {
    if are_equal(wide, narrow) {
        return true;
    }
    let (key, operator) = (text(wide, "key"), text(wide, "operator"));
    if key != text(narrow, "key") && (!key.is_empty() || operator != "Exists") {
        return false;
    }
    let effect = text(wide, "effect");
    if effect != text(narrow, "effect") && !effect.is_empty() {
        return false;
    }
    if effect == "NoExecute"
        && let Some(most) = seconds(wide)
        && seconds(narrow).is_none_or(|own| own > most)
    {
        return false;
    }
    match operator {
        "Equal" | "" => {
            text(narrow, "operator") == "Equal" && text(narrow, "value") == text(wide, "value")
        }
        operator => operator == "Exists",
    }
}

/// Tolerates the taint of each device that a container requests.
pub(super) fn tolerate_devices(pod: &mut Value) {
    let lists = ["containers", "initContainers"];
    let containers = lists.iter().flat_map(|list| {
        let own = pod["spec"][*list].as_array();
        own.into_iter().flatten()
    });
    let requests = containers.flat_map(|container| {
        let own = container["resources"]["requests"].as_object();
        own.into_iter().flatten()
    });
    let devices: BTreeSet<String> = requests
        .map(|(name, _)| name.to_string())
        .filter(|name| is_extended(name))
        .collect();
    for device in devices {
        let own = json!({ "key": device, "operator": "Exists", "effect": "NoSchedule" });
        let mut all = tolerations(pod).to_vec();
        let matches = |other: &Value| {
            let fields = ["key", "operator", "value", "effect"];
            fields
                .iter()
                .all(|field| text(&own, field) == text(other, field))
        };
        match all.iter_mut().find(|other| matches(other)) {
            Some(other) => *other = own,
            None => all.push(own),
        }
        child_mut(pod, "spec").insert("tolerations", all.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_merge_keeps_the_wider_toleration() {
        let all = json!({ "operator": "Exists" });
        let key = json!({ "key": "a", "operator": "Exists" });
        let one = json!({ "key": "a", "operator": "Equal", "value": "b", "effect": "NoSchedule" });
        let other = json!({ "key": "c", "operator": "Equal", "value": "d" });
        let own = [one.clone(), other.clone()];
        assert_eq!(
            merged(&own, std::slice::from_ref(&key)),
            [other.clone(), key]
        );
        assert_eq!(merged(&own, std::slice::from_ref(&all)), [all]);
        assert_eq!(merged(&own, std::slice::from_ref(&one)), own);
    }

    #[test]
    fn a_toleration_of_eviction_covers_shorter_ones() {
        let evict = |seconds: Value| {
            json!({ "key": "a", "operator": "Exists", "effect": "NoExecute",
                "tolerationSeconds": seconds })
        };
        assert!(is_superset(&evict(json!(10)), &evict(json!(5))));
        assert!(!is_superset(&evict(json!(5)), &evict(json!(10))));
        assert!(!is_superset(&evict(json!(5)), &evict(Value::Null)));
        assert!(is_superset(&evict(Value::Null), &evict(json!(5))));
    }
}
