//! Faults of a pod's affinity to nodes and to other pods.

use super::label_keys;
use crate::json::Value;
use crate::meta::validation::{
    dns1123_label, dns1123_subdomain, label_value, qualified_name, validate_label_selector,
};
use crate::status::{FieldErrors, FieldPath};
use crate::unstructured::{is_empty, items, text};
use crate::validation::invalid_each;

const OPERATOR: &str = "not a valid selector operator";
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// Faults of `affinity`.
pub(crate) fn validate_affinity(affinity: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let nodes = &affinity["nodeAffinity"];
    let own = path.child("nodeAffinity");
    if !nodes[REQUIRED].is_null() {
        validate_node_selector(&nodes[REQUIRED], &own.child(REQUIRED), errors);
    }
    for (index, term) in items(&nodes[PREFERRED]).enumerate() {
        let path = own.child(PREFERRED).index(index);
        validate_weight(&term["weight"], &path, errors);
        validate_term(&term["preference"], &path.child("preference"), errors);
    }
    for field in ["podAffinity", "podAntiAffinity"] {
        let own = path.child(field);
        for (index, term) in items(&affinity[field][REQUIRED]).enumerate() {
            validate_pod_term(term, &own.child(REQUIRED).index(index), errors);
        }
        for (index, weighted) in items(&affinity[field][PREFERRED]).enumerate() {
            let path = own.child(PREFERRED).index(index);
            validate_weight(&weighted["weight"], &path, errors);
            let term = &weighted["podAffinityTerm"];
            validate_pod_term(term, &path.child("podAffinityTerm"), errors);
        }
    }
}

fn validate_weight(weight: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let own = weight.as_i64().unwrap_or(0);
    if !(1..=100).contains(&own) {
        errors.invalid(
            &path.child("weight"),
            &own.into(),
            "must be in the range 1-100",
        );
    }
}

/// Faults of a selector of nodes.
pub(crate) fn validate_node_selector(selector: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let terms = &selector["nodeSelectorTerms"];
    let path = path.child("nodeSelectorTerms");
    if is_empty(terms) {
        errors.required(&path, "must have at least one node selector term");
    }
    for (index, term) in items(terms).enumerate() {
        validate_term(term, &path.index(index), errors);
    }
}

fn validate_term(term: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    for (index, requirement) in items(&term["matchExpressions"]).enumerate() {
        let path = path.child("matchExpressions").index(index);
        validate_requirement(requirement, &path, errors);
    }
    for (index, requirement) in items(&term["matchFields"]).enumerate() {
        let path = path.child("matchFields").index(index);
        validate_field_requirement(requirement, &path, errors);
    }
}

fn validate_requirement(requirement: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let values = path.child("values");
    let count = items(&requirement["values"]).count();
    let operator = &requirement["operator"];
    match text(operator) {
        "In" | "NotIn" if count == 0 => {
            let detail = "must be specified when `operator` is 'In' or 'NotIn'";
            errors.required(&values, detail);
        }
        "Exists" | "DoesNotExist" if count > 0 => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.forbidden(&values, detail);
        }
        "Gt" | "Lt" if count != 1 => {
            let detail = "must be specified single value when `operator` is 'Lt' or 'Gt'";
            errors.required(&values, detail);
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
        other => errors.invalid(&path.child("operator"), &other.into(), OPERATOR),
    }
    let key = text(&requirement["key"]);
    invalid_each(qualified_name(key), &key.into(), &path.child("key"), errors);
    for (index, value) in items(&requirement["values"]).enumerate() {
        invalid_each(
            label_value(text(value)),
            value,
            &values.index(index),
            errors,
        );
    }
}

fn validate_field_requirement(requirement: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let values = path.child("values");
    match text(&requirement["operator"]) {
        "In" | "NotIn" => {
            if items(&requirement["values"]).count() != 1 {
                let detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
                errors.required(&values, detail);
            }
        }
        other => errors.invalid(&path.child("operator"), &other.into(), OPERATOR),
    }
    let key = text(&requirement["key"]);
    if key != "metadata.name" {
        let detail = "not a valid field selector key";
        errors.invalid(&path.child("key"), &key.into(), detail);
        return;
    }
    for (index, value) in items(&requirement["values"]).enumerate() {
        invalid_each(
            dns1123_subdomain(text(value)),
            value,
            &values.index(index),
            errors,
        );
    }
}

fn validate_pod_term(term: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    for field in ["labelSelector", "namespaceSelector"] {
        if !term[field].is_null() {
            validate_label_selector(&term[field], false, &path.child(field), errors);
        }
    }
    for name in items(&term["namespaces"]) {
        invalid_each(
            dns1123_label(text(name)),
            name,
            &path.child("namespace"),
            errors,
        );
    }
    label_keys::validate(term, path, errors);
    let key = text(&term["topologyKey"]);
    let path = path.child("topologyKey");
    if key.is_empty() {
        errors.required(&path, "can not be empty");
    }
    invalid_each(qualified_name(key), &key.into(), &path, errors);
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;

    #[test]
    fn each_fault_is_found_where_it_is() {
        let node = |term: Value| json!({"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}});
        let table = [
            (
                node(json!({"matchExpressions": [{"key": "a", "operator": "In"}]})),
                "values",
            ),
            (
                node(json!({"matchExpressions": [{"key": "a", "operator": "Odd"}]})),
                "operator",
            ),
            (
                node(json!({"matchFields": [{"key": "a", "operator": "In", "values": ["b"]}]})),
                "key",
            ),
            (json!({"nodeAffinity": {REQUIRED: {}}}), "nodeSelectorTerms"),
            (
                json!({"podAffinity": {PREFERRED: [{"weight": 0, "podAffinityTerm": {"topologyKey": "a"}}]}}),
                "weight",
            ),
        ];
        for (affinity, want) in table {
            let mut errors = FieldErrors::new();
            validate_affinity(&affinity, &FieldPath::new("a"), &mut errors);
            let fields: Vec<&str> = errors.causes().iter().map(|own| &*own.field).collect();
            assert!(
                matches!(fields[..], [own] if own.ends_with(want)),
                "{fields:?}"
            );
        }
    }
}
