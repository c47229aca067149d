//! Labels of nodes that have been given other names.

use crate::json::Value;
use crate::meta::validation::label_value;
use crate::status::FieldPath;
use crate::unstructured::{entries, items, text};

/// Returns the warning about a deprecated label of nodes.
pub(crate) fn deprecation(key: &str) -> Option<&'static str> {
    Some(match key {
        "beta.kubernetes.io/arch" => "deprecated since v1.14; use \"kubernetes.io/arch\" instead",
        "beta.kubernetes.io/os" => "deprecated since v1.14; use \"kubernetes.io/os\" instead",
        "failure-domain.beta.kubernetes.io/region" => {
            "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead"
        }
        "failure-domain.beta.kubernetes.io/zone" => {
            "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead"
        }
        "beta.kubernetes.io/instance-type" => {
            "deprecated since v1.17; use \"node.kubernetes.io/instance-type\" instead"
        }
        "app.kubernetes.io/created-by" => "deprecated since v1.9",
        "scheduler.alpha.kubernetes.io/preferAvoidPods" => {
            "deprecated since v1.22; use Taints and Tolerations instead"
        }
        "node-role.kubernetes.io/master" => "use \"node-role.kubernetes.io/control-plane\" instead",
        _ => return None,
    })
}

/// Warns of the keys of a selector of nodes by their labels.
pub(crate) fn warn_of_selector(selector: &Value, path: &FieldPath, warnings: &mut Vec<String>) {
    warn_of_expressions(selector, path, warnings);
    for (key, _) in entries(&selector["matchLabels"]) {
        if let Some(why) = deprecation(key) {
            let path = path.child("matchLabels").child(key);
            warnings.push(format!("{path}: {why}"));
        }
    }
}

/// Warns of the keys of one term of a node selector.
pub(crate) fn warn_of_term(term: &Value, path: &FieldPath, warnings: &mut Vec<String>) {
    warn_of_expressions(term, path, warnings);
}

/// As [`warn_of_term`], and of values that no label can have: such a term is only preferred, and
/// so was always accepted.
pub(crate) fn warn_of_preference(term: &Value, path: &FieldPath, warnings: &mut Vec<String>) {
    for (index, expression) in items(&term["matchExpressions"]).enumerate() {
        let path = path.child("matchExpressions").index(index);
        warn_of_key(text(&expression["key"]), &path.child("key"), warnings);
        for (index, value) in items(&expression["values"]).enumerate() {
            for fault in label_value(text(value)) {
                let path = path.child("values").index(index);
                warnings.push(format!("{path}: {} is invalid, {fault}", text(value)));
            }
        }
    }
}

/// Warns of a single deprecated key.
pub(crate) fn warn_of_key(key: &str, path: &FieldPath, warnings: &mut Vec<String>) {
    if let Some(why) = deprecation(key) {
        warnings.push(format!("{path}: {key} is {why}"));
    }
}

fn warn_of_expressions(own: &Value, path: &FieldPath, warnings: &mut Vec<String>) {
    for (index, expression) in items(&own["matchExpressions"]).enumerate() {
        let path = path.child("matchExpressions").index(index).child("key");
        warn_of_key(text(&expression["key"]), &path, warnings);
    }
}
