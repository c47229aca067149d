//! The nodes that suit daemon pods, and the affinity that pins a pod to its node.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::api::core::v1::{
    Affinity, Node, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PodSpec,
    PodTemplateSpec, Toleration,
};
use kube::ResourceExt;
use kubeproof_runtime::node_affinity as affinity;
use kubeproof_runtime::pod::{self, Pod, REVISION_LABEL};
use kubeproof_runtime::tolerations;

use super::template_generation;

/// The label with the number of the template.
const GENERATION_LABEL: &str = "pod-template-generation";
const NODE_NAME_FIELD: &str = "metadata.name";

/// The suitability of a node for a set's pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Suits {
    /// A pod belongs there.
    Yes,
    /// A pod that runs there may stay.
    ToStay,
    No,
}

/// Whether a pod of `set` belongs on `node`.
pub(super) fn suits(set: &DaemonSet, node: &Node) -> Suits {
    let template = set.spec.as_ref().map(|spec| spec.template.clone());
    let mut spec = template
        .and_then(|template| template.spec)
        .unwrap_or_default();
    let pinned = spec.node_name.as_deref().unwrap_or_default();
    if !pinned.is_empty() && Some(pinned) != node.metadata.name.as_deref() {
        return Suits::No;
    }
    if !affinity::matches(&spec, node) {
        return Suits::No;
    }
    tolerate(&mut spec);
    let tolerations = spec.tolerations.unwrap_or_default();
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_deref());
    let taints = taints.unwrap_or_default();
    let tolerates = |effects: &[&str]| {
        let mut strict = taints
            .iter()
            .filter(|taint| effects.contains(&&*taint.effect));
        strict.all(|taint: &Taint| tolerations::tolerated(taint, &tolerations))
    };
    if tolerates(&["NoExecute", "NoSchedule"]) {
        Suits::Yes
    } else if tolerates(&["NoExecute"]) {
        Suits::ToStay
    } else {
        Suits::No
    }
}

/// Adds what every daemon pod tolerates: it shares the fate of its node.
fn tolerate(spec: &mut PodSpec) {
    let mut wanted = vec![
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
    ];
    if spec.host_network == Some(true) {
        wanted.push(("network-unavailable", "NoSchedule"));
    }
    let tolerations = spec.tolerations.get_or_insert_default();
    for (condition, effect) in wanted {
        let toleration = Toleration {
            key: Some(format!("node.kubernetes.io/{condition}")),
            operator: Some("Exists".to_owned()),
            effect: Some(effect.to_owned()),
            ..Toleration::default()
        };
        let same = |one: &&mut Toleration| {
            one.key == toleration.key
                && one.operator == toleration.operator
                && one.effect == toleration.effect
                && one.value == toleration.value
        };
        // One with a time limit loses it.
        match tolerations.iter_mut().find(same) {
            Some(known) => *known = toleration,
            None => tolerations.push(toleration),
        }
    }
}

/// The template of the set's pods at the revision with `hash`.
pub(super) fn template(set: &DaemonSet, hash: &str) -> PodTemplateSpec {
    let spec = set.spec.clone().unwrap_or_default();
    let mut template = spec.template;
    let labels = template.metadata.get_or_insert_default();
    let labels = labels.labels.get_or_insert_default();
    if let Some(generation) = template_generation(set) {
        labels.insert(GENERATION_LABEL.to_owned(), generation.to_owned());
    }
    labels.insert(REVISION_LABEL.to_owned(), hash.to_owned());
    tolerate(template.spec.get_or_insert_default());
    template
}

/// Ties a pod to `node`, in place of what its affinity required of nodes: the node has been chosen.
pub(super) fn pin(spec: &mut PodSpec, node: &str) {
    let term = NodeSelectorTerm {
        match_expressions: None,
        match_fields: Some(vec![NodeSelectorRequirement {
            key: NODE_NAME_FIELD.to_owned(),
            operator: "In".to_owned(),
            values: Some(vec![node.to_owned()]),
        }]),
    };
    let affinity: &mut Affinity = spec.affinity.get_or_insert_default();
    let affinity: &mut NodeAffinity = affinity.node_affinity.get_or_insert_default();
    affinity.required_during_scheduling_ignored_during_execution = Some(NodeSelector {
        node_selector_terms: vec![term],
    });
}

/// The node that a pod runs on or is tied to.
fn target(pod: &Pod) -> Option<String> {
    let spec = pod.spec.as_ref()?;
    if let Some(node) = spec.node_name.clone().filter(|name| !name.is_empty()) {
        return Some(node);
    }
    let affinity = spec.affinity.as_ref()?.node_affinity.as_ref()?;
    let required = affinity
        .required_during_scheduling_ignored_during_execution
        .as_ref()?;
    let fields = |term: &NodeSelectorTerm| term.match_fields.clone().unwrap_or_default();
    let mut fields = required.node_selector_terms.iter().flat_map(fields);
    let pinned = fields.find(|field| field.key == NODE_NAME_FIELD && field.operator == "In")?;
    pinned.values?.into_iter().next()
}

/// Pods by node, the oldest that is bound first; without those that have ended and are going.
pub(super) fn by_node(pods: &[Arc<Pod>]) -> BTreeMap<String, Vec<Arc<Pod>>> {
    let mut by_node: BTreeMap<String, Vec<Arc<Pod>>> = BTreeMap::new();
    for one in pods {
        let is_over = pod::is_finished(one) && pod::is_terminating(one);
        if let Some(node) = target(one).filter(|_| !is_over) {
            by_node.entry(node).or_default().push(one.clone());
        }
    }
    for pods in by_node.values_mut() {
        pods.sort_by_key(|pod| {
            let is_bound = is_bound(pod);
            let age = pod.creation_timestamp().map(|time| time.0);
            (!is_bound, age, pod.name_any())
        });
    }
    by_node
}

/// A node runs it.
pub(super) fn is_bound(pod: &Pod) -> bool {
    let spec = pod.spec.as_ref();
    spec.and_then(|spec| spec.node_name.as_deref())
        .is_some_and(|name| !name.is_empty())
}

/// Whether `node` runs the pod.
pub(super) fn runs_on(pod: &Pod, node: &str) -> bool {
    let spec = pod.spec.as_ref();
    spec.and_then(|spec| spec.node_name.as_deref()) == Some(node)
}

/// Whether the set has something to do after a change of `node`, on which pods of it run or not: a pod to create or to
/// delete, or misplaced pods to count again.
pub(super) fn is_concerned(set: &DaemonSet, node: &Node, has_pods: bool) -> bool {
    let misplaced = set.status.as_ref().map(|status| status.number_misscheduled);
    match suits(set, node) {
        Suits::Yes if !has_pods => true,
        Suits::No if has_pods => true,
        _ => has_pods && misplaced.unwrap_or(0) > 0,
    }
}

/// Whether the pod is at the revision with `hash`, or at the set's template by its number.
pub(super) fn is_updated(set: &DaemonSet, pod: &Pod, hash: &str) -> bool {
    let generation = template_generation(set);
    let label = pod.labels().get(GENERATION_LABEL).map(String::as_str);
    (!hash.is_empty() && pod::revision(pod) == hash)
        || (generation.is_some() && label == generation)
}

#[cfg(test)]
mod tests {
    use kubeproof_runtime::decode::from_value;
    use serde_json::{Value, json};

    use super::*;

    fn set(spec: Value) -> DaemonSet {
        let mut spec = spec;
        spec["containers"] = json!([]);
        from_value(json!({
            "metadata": {"name": "agent",
                "annotations": {"deprecated.daemonset.template.generation": "3"}},
            "spec": {"selector": {}, "template": {"metadata": {"labels": {"app": "a"}},
                "spec": spec}},
        }))
        .unwrap()
    }

    fn node(taints: Value) -> Node {
        from_value(json!({
            "metadata": {"name": "n", "labels": {"disk": "ssd"}}, "spec": {"taints": taints},
        }))
        .unwrap()
    }

    #[test]
    fn nodes_suit_by_selector_and_taints() {
        let taint = |key: &str, effect: &str| json!([{"key": key, "effect": effect}]);
        let tolerant = json!({"tolerations": [{"key": "gpu", "operator": "Exists"}]});
        let table = [
            (json!({}), json!([]), Suits::Yes),
            (
                json!({"nodeSelector": {"disk": "ssd"}}),
                json!([]),
                Suits::Yes,
            ),
            (
                json!({"nodeSelector": {"disk": "hdd"}}),
                json!([]),
                Suits::No,
            ),
            (json!({"nodeName": "other"}), json!([]), Suits::No),
            (json!({}), taint("gpu", "NoSchedule"), Suits::ToStay),
            (json!({}), taint("gpu", "NoExecute"), Suits::No),
            (json!({}), taint("gpu", "PreferNoSchedule"), Suits::Yes),
            (tolerant, taint("gpu", "NoExecute"), Suits::Yes),
            (
                json!({}),
                taint("node.kubernetes.io/unreachable", "NoExecute"),
                Suits::Yes,
            ),
            (
                json!({}),
                taint("node.kubernetes.io/unschedulable", "NoSchedule"),
                Suits::Yes,
            ),
            (
                json!({}),
                taint("node.kubernetes.io/network-unavailable", "NoSchedule"),
                Suits::ToStay,
            ),
        ];
        for (spec, taints, expected) in table {
            assert_eq!(
                suits(&set(spec.clone()), &node(taints.clone())),
                expected,
                "{spec} {taints}"
            );
        }
    }

    #[test]
    fn a_pod_is_labelled_tolerant_and_tied_to_its_node() {
        let limited = json!({"tolerations": [{"key": "node.kubernetes.io/not-ready",
            "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}]});
        let mut template = template(&set(limited), "abc");
        let labels = template.metadata.as_ref().unwrap().labels.as_ref().unwrap();
        assert_eq!(labels[REVISION_LABEL], "abc");
        assert_eq!(labels[GENERATION_LABEL], "3");
        let spec = template.spec.as_mut().unwrap();
        let tolerations = spec.tolerations.as_ref().unwrap();
        assert_eq!(tolerations.len(), 6);
        assert_eq!(tolerations[0].toleration_seconds, None);
        pin(spec, "n7");
        let pod = Pod {
            spec: template.spec.map(Into::into),
            ..Pod::default()
        };
        assert_eq!(target(&pod).as_deref(), Some("n7"));
    }
}
