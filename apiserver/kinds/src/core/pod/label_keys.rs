//! Keys of a pod's own labels in the terms by which it is placed: the values are those that the
//! pod has when it is made.

use std::collections::{BTreeMap, BTreeSet};

use crate::json::{Value, json};
use crate::meta::validation::qualified_name;
use crate::status::{FieldErrors, FieldPath};
use crate::unstructured::{entries, is_empty, items, text};
use crate::validation::invalid_each;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// Writes the values of the keys that the pod's terms name into the selectors of the terms.
pub(crate) fn merge(pod: &mut Value) {
    let spec = &pod["spec"];
    if spec["affinity"].is_null() && is_empty(&spec["topologySpreadConstraints"]) {
        return;
    }
    let labels = pod["metadata"]["labels"].clone();
    for kind in ["podAffinity", "podAntiAffinity"] {
        for list in [PREFERRED, REQUIRED] {
            let terms = pod.pointer_mut(&format!("/spec/affinity/{kind}/{list}"));
            for term in terms.and_then(Value::as_array_mut).into_iter().flatten() {
                match list {
                    PREFERRED => merge_term(&mut term["podAffinityTerm"], &labels),
                    _ => merge_term(term, &labels),
                }
            }
        }
    }
    let constraints = pod.pointer_mut("/spec/topologySpreadConstraints");
    let constraints = constraints.and_then(Value::as_array_mut);
    for constraint in constraints.into_iter().flatten() {
        merge_term(constraint, &labels);
    }
}

fn merge_term(term: &mut Value, labels: &Value) {
    let mut added = Vec::new();
    for (field, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
        for key in items(&term[field]) {
            let value = &labels[text(key)];
            if value.is_string() {
                added.push(json!({"key": key, "operator": operator, "values": [value]}));
            }
        }
    }
    // Without a selector a term matches nothing, whatever the keys.
    if let Some(selector) = term.get_mut("labelSelector").and_then(Value::as_object_mut)
        && !added.is_empty()
    {
        let expressions = selector.entry("matchExpressions").or_insert(Value::Null);
        match expressions.as_array_mut() {
            Some(expressions) => expressions.extend(added),
            None => *expressions = Value::Array(added),
        }
    }
}

/// The faults of the keys of a term.
pub(crate) fn validate(term: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    for field in ["matchLabelKeys", "mismatchLabelKeys"] {
        let path = path.child(field);
        if !is_empty(&term[field]) && term["labelSelector"].is_null() {
            let detail = "must not be specified when labelSelector is not set";
            errors.forbidden(&path, detail);
            continue;
        }
        for (index, key) in items(&term[field]).enumerate() {
            invalid_each(qualified_name(text(key)), key, &path.index(index), errors);
        }
    }
    let wanted: Vec<&str> = items(&term["matchLabelKeys"]).map(text).collect();
    let last: BTreeMap<&str, usize> = wanted.iter().copied().zip(0..).collect();
    let selector = &term["labelSelector"];
    let own = entries(&selector["matchLabels"]).map(|(key, _)| key.as_str());
    let mut selected: BTreeSet<&str> = own.collect();
    for expression in items(&selector["matchExpressions"]) {
        let key = text(&expression["key"]);
        let index = last.get(key).filter(|_| selected.contains(key));
        if let Some(&index) = index {
            // Upstream's path leaves out the field.
            let detail = "exists in both matchLabelKeys and labelSelector";
            errors.invalid(&path.index(index), &key.into(), detail);
        }
        selected.insert(key);
    }
    let unwanted: BTreeSet<&str> = items(&term["mismatchLabelKeys"]).map(text).collect();
    for (index, key) in wanted.iter().enumerate() {
        if unwanted.contains(key) {
            let path = path.child("matchLabelKeys").index(index);
            let detail = "exists in both matchLabelKeys and mismatchLabelKeys";
            errors.invalid(&path, &(*key).into(), detail);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_values_are_those_of_the_pod() {
        let term = json!({"matchLabelKeys": ["a", "c"], "mismatchLabelKeys": ["b"],
            "labelSelector": {"matchLabels": {"x": "y"}}});
        let mut pod = json!({"metadata": {"labels": {"a": "1", "b": "2"}}, "spec": {
            "affinity": {"podAffinity": {REQUIRED: [term], PREFERRED: [{"podAffinityTerm": term}]}},
            "topologySpreadConstraints": [{"matchLabelKeys": ["a"], "labelSelector": {}},
                {"matchLabelKeys": ["a"]}]}});
        merge(&mut pod);
        let one = json!({"key": "a", "operator": "In", "values": ["1"]});
        let both = json!([one, {"key": "b", "operator": "NotIn", "values": ["2"]}]);
        let affinity = &pod["spec"]["affinity"]["podAffinity"];
        let of = |term: &Value| term["labelSelector"]["matchExpressions"].clone();
        assert_eq!(of(&affinity[REQUIRED][0]), both);
        assert_eq!(of(&affinity[PREFERRED][0]["podAffinityTerm"]), both);
        let spread = &pod["spec"]["topologySpreadConstraints"];
        assert_eq!(of(&spread[0]), json!([one]));
        assert!(spread[1]["labelSelector"].is_null());
    }

    #[test]
    fn a_key_is_named_in_one_place() {
        let expression = json!({"key": "a", "operator": "Exists"});
        let table = [
            (json!({"matchLabelKeys": ["a"]}), vec!["t.matchLabelKeys"]),
            (
                json!({"matchLabelKeys": ["a b"], "labelSelector": {}}),
                vec!["t.matchLabelKeys[0]"],
            ),
            (
                json!({"matchLabelKeys": ["a"], "labelSelector": {"matchExpressions": [expression]}}),
                vec![],
            ),
            (
                json!({"matchLabelKeys": ["a"],
                    "labelSelector": {"matchLabels": {"a": "1"}, "matchExpressions": [expression]}}),
                vec!["t[0]"],
            ),
            (
                json!({"matchLabelKeys": ["b", "a"], "mismatchLabelKeys": ["a"], "labelSelector": {}}),
                vec!["t.matchLabelKeys[1]"],
            ),
        ];
        for (term, want) in table {
            let mut errors = FieldErrors::new();
            validate(&term, &FieldPath::new("t"), &mut errors);
            let fields: Vec<&str> = errors.causes().iter().map(|own| &*own.field).collect();
            assert_eq!(fields, want, "{term}");
        }
    }
}
