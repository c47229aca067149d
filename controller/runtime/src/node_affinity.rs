//! Matches a pod's node selector and required node affinity with a node.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{
    Node, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PodSpec,
    PreferredSchedulingTerm,
};
use kubeproof_machinery::meta::selector::Operator;

use crate::pod::Pod;

/// Whether `spec` requires nothing of a node, so that all match.
pub fn is_unrestricted(spec: &PodSpec) -> bool {
    spec.node_selector.is_none() && required(spec).is_none()
}

/// Whether `node` matches all that `spec` requires of a node.
pub fn matches(spec: &PodSpec, node: &Node) -> bool {
    let empty = BTreeMap::new();
    let labels = node.metadata.labels.as_ref().unwrap_or(&empty);
    let selected = spec.node_selector.iter().flatten();
    let mut selected = selected.map(|(key, value)| labels.get(key) == Some(value));
    selected.all(|holds| holds) && required(spec).is_none_or(|required| is_selected(required, node))
}

fn required(spec: &PodSpec) -> Option<&NodeSelector> {
    let affinity = spec.affinity.as_ref()?.node_affinity.as_ref()?;
    affinity
        .required_during_scheduling_ignored_during_execution
        .as_ref()
}

/// Whether any term of `selector` matches the node.
pub fn is_selected(selector: &NodeSelector, node: &Node) -> bool {
    let empty = BTreeMap::new();
    let labels = node.metadata.labels.as_ref().unwrap_or(&empty);
    let mut terms = selector.node_selector_terms.iter();
    terms.any(|term| term_matches(term, node, labels))
}

/// The preferences of the pod among nodes.
pub fn preferences(pod: &Pod) -> &[PreferredSchedulingTerm] {
    let spec = pod.spec.as_ref();
    let affinity = spec.and_then(|spec| spec.affinity.as_ref()?.node_affinity.as_ref());
    affinity.map_or(&[], preferred)
}

/// The preferred terms of a node affinity.
pub fn preferred(affinity: &NodeAffinity) -> &[PreferredSchedulingTerm] {
    let terms = &affinity.preferred_during_scheduling_ignored_during_execution;
    terms.as_deref().unwrap_or_default()
}

/// The sum of the weights of the terms that match the node.
pub fn preference(terms: &[PreferredSchedulingTerm], node: &Node) -> i64 {
    let empty = BTreeMap::new();
    let labels = node.metadata.labels.as_ref().unwrap_or(&empty);
    let matching = terms
        .iter()
        .filter(|term| term_matches(&term.preference, node, labels));
    matching.map(|term| i64::from(term.weight)).sum()
}

/// The names of the only nodes that required affinity can match, where each of its terms names
/// some; only those are looked at.
pub fn pinned(spec: &PodSpec) -> Option<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for term in &required(spec)?.node_selector_terms {
        let fields = term.match_fields.iter().flatten();
        let lists: Vec<BTreeSet<String>> = fields
            .filter(|rule| rule.key == "metadata.name" && rule.operator == "In")
            .map(|rule| rule.values.iter().flatten().cloned().collect())
            .collect();
        let common = lists.into_iter().reduce(|one, other| &one & &other)?;
        names.extend(common);
    }
    Some(names)
}

/// An empty term matches nothing.
fn term_matches(term: &NodeSelectorTerm, node: &Node, labels: &BTreeMap<String, String>) -> bool {
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    let name = node.metadata.name.as_deref();
    let mut by_label = expressions.iter();
    let mut by_field = fields.iter();
    !(expressions.is_empty() && fields.is_empty())
        && by_label.all(|rule| holds(rule, labels.get(&rule.key).map(String::as_str)))
        && by_field.all(|rule| rule.key == "metadata.name" && holds(rule, name))
}

fn holds(rule: &NodeSelectorRequirement, actual: Option<&str>) -> bool {
    let values = rule.values.as_deref().unwrap_or_default();
    Operator::from_name(&rule.operator).is_some_and(|operator| operator.matches(values, actual))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
    use serde_json::json;

    use super::*;
    use crate::decode::from_value;

    fn check(spec: &serde_json::Value, expected: bool) {
        let labels = [("zone", "a"), ("cores", "4")];
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let metadata = ObjectMeta {
            name: Some("node-1".to_owned()),
            labels: Some(labels.into()),
            ..ObjectMeta::default()
        };
        let node = Node {
            metadata,
            ..Node::default()
        };
        let mut spec = spec.clone();
        spec["containers"] = json!([]);
        let parsed: PodSpec = from_value(&spec).unwrap();
        assert_eq!(matches(&parsed, &node), expected, "{spec}");
    }

    fn required(term: &serde_json::Value) -> serde_json::Value {
        let terms = json!({ "nodeSelectorTerms": [term] });
        json!({ "affinity": { "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": terms,
        } } })
    }

    #[test]
    fn selectors_and_every_operator() {
        check(&json!({}), true);
        check(&json!({ "nodeSelector": { "zone": "a" } }), true);
        check(&json!({ "nodeSelector": { "zone": "b" } }), false);
        for (key, operator, values, expected) in [
            ("zone", "In", json!(["a", "b"]), true),
            ("zone", "In", json!(["b"]), false),
            ("zone", "NotIn", json!(["b"]), true),
            ("none", "NotIn", json!(["b"]), true),
            ("zone", "Exists", json!([]), true),
            ("zone", "DoesNotExist", json!([]), false),
            ("cores", "Gt", json!(["3"]), true),
            ("cores", "Lt", json!(["4"]), false),
            ("zone", "Gt", json!(["3"]), false),
        ] {
            let rule = json!({ "key": key, "operator": operator, "values": values });
            check(&required(&json!({ "matchExpressions": [rule] })), expected);
        }
        let field = json!({ "key": "metadata.name", "operator": "In", "values": ["node-1"] });
        check(&required(&json!({ "matchFields": [field] })), true);
        check(&required(&json!({})), false);
    }
}
