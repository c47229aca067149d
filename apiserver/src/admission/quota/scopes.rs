//! Which objects a quota is about.

use crate::json::Value;
use crate::meta::GroupResource;
use crate::meta::selector::Operator;
use crate::registry::core::pod::resources::amounts::amounts;

/// Whether all scopes of a quota match the object. Kinds without scopes match none.
pub(crate) fn match_object(spec: &Value, resource: &GroupResource, object: &Value) -> bool {
    let plain = spec["scopes"].as_array().into_iter().flatten();
    let plain = plain.filter_map(Value::as_str);
    let selected = spec["scopeSelector"]["matchExpressions"].as_array();
    let mut selected = selected.into_iter().flatten();
    let is_pod = resource.group.is_empty() && resource.resource == "pods";
    let is_claim = resource.group.is_empty() && resource.resource == "persistentvolumeclaims";
    let matches = |scope: &str, operator: &str, values: &[Value]| match scope {
        "VolumeAttributesClass" if is_claim => {
            let classes = attributes_classes(object);
            if classes.is_empty() {
                return in_set(&Value::Null, operator, values);
            }
            classes.iter().any(|class| in_set(class, operator, values))
        }
        _ if is_pod => pod_matches(object, scope, operator, values),
        _ => false,
    };
    let mut plain = plain;
    plain.all(|scope| matches(scope, "Exists", &[]))
        && selected.all(|own| {
            let text = |field: &str| own[field].as_str().unwrap_or_default();
            let values = own["values"].as_array().map_or(&[][..], Vec::as_slice);
            matches(text("scopeName"), text("operator"), values)
        })
}

fn pod_matches(pod: &Value, scope: &str, operator: &str, values: &[Value]) -> bool {
    match scope {
        "Terminating" => is_terminating(pod),
        "NotTerminating" => !is_terminating(pod),
        "BestEffort" => is_best_effort(pod),
        "NotBestEffort" => !is_best_effort(pod),
        "PriorityClass" => in_set(&pod["spec"]["priorityClassName"], operator, values),
        "CrossNamespacePodAffinity" => reaches_other_namespaces(pod),
        _ => false,
    }
}

/// Whether the pod is one that ends by itself.
pub(super) fn is_terminating(pod: &Value) -> bool {
    let deadline = pod["spec"]["activeDeadlineSeconds"].as_i64();
    deadline.is_some_and(|seconds| seconds >= 0)
}

/// The VolumeAttributesClasses that a claim asks for, has, and is given.
pub(super) fn attributes_classes(claim: &Value) -> Vec<Value> {
    let (spec, status) = (&claim["spec"], &claim["status"]);
    let mut classes: Vec<Value> = Vec::new();
    for class in [
        &spec["volumeAttributesClassName"],
        &status["currentVolumeAttributesClassName"],
        &status["modifyVolumeStatus"]["targetVolumeAttributesClassName"],
    ] {
        if class.as_str().is_some_and(|name| !name.is_empty()) && !classes.contains(class) {
            classes.push(class.clone());
        }
    }
    classes.sort_by(|a, b| a.as_str().cmp(&b.as_str()));
    classes
}

fn in_set(own: &Value, operator: &str, values: &[Value]) -> bool {
    let own = own.as_str().filter(|text| !text.is_empty());
    let values: Vec<&str> = values.iter().filter_map(Value::as_str).collect();
    Operator::from_name(operator).is_some_and(|operator| operator.matches(&values, own))
}

fn is_best_effort(pod: &Value) -> bool {
    let containers = ["containers", "initContainers"]
        .into_iter()
        .flat_map(|list| pod["spec"][list].as_array().into_iter().flatten());
    let mut asked = containers
        .flat_map(|own| ["requests", "limits"].map(|field| amounts(&own["resources"][field])))
        .flatten();
    !asked.any(|(name, amount)| matches!(&*name, "cpu" | "memory") && !amount.is_zero())
}

fn reaches_other_namespaces(pod: &Value) -> bool {
    let affinity = &pod["spec"]["affinity"];
    let mut terms = ["podAffinity", "podAntiAffinity"]
        .into_iter()
        .flat_map(|kind| {
            let own = &affinity[kind];
            let list = |field: &str| own[field].as_array().cloned().unwrap_or_default();
            let required = list("requiredDuringSchedulingIgnoredDuringExecution");
            let preferred = list("preferredDuringSchedulingIgnoredDuringExecution");
            let preferred = preferred
                .into_iter()
                .map(|own| own["podAffinityTerm"].clone());
            required.into_iter().chain(preferred)
        });
    terms.any(|term| {
        let named = term["namespaces"]
            .as_array()
            .is_some_and(|own| !own.is_empty());
        named || term["namespaceSelector"].is_object()
    })
}
