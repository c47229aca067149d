//! Which pods a quota is about.

use k8s_openapi::api::core::v1::{
    Container, Pod, PodAffinityTerm, ResourceQuotaSpec, ScopedResourceSelectorRequirement,
};

/// Whether all scopes of a quota have the pod.
pub(super) fn have(spec: &ResourceQuotaSpec, pod: &Pod) -> bool {
    let plain = spec
        .scopes
        .iter()
        .flatten()
        .map(|scope| ScopedResourceSelectorRequirement {
            operator: "Exists".to_owned(),
            scope_name: scope.clone(),
            values: None,
        });
    let selected = spec.scope_selector.iter();
    let selected = selected.flat_map(|selector| selector.match_expressions.iter().flatten());
    plain.chain(selected.cloned()).all(|scope| has(&scope, pod))
}

/// Whether a quota is about some pods only: it counts nothing but pods then.
pub(super) fn is_scoped(spec: &ResourceQuotaSpec) -> bool {
    spec.scopes.iter().flatten().next().is_some() || spec.scope_selector.is_some()
}

fn has(scope: &ScopedResourceSelectorRequirement, pod: &Pod) -> bool {
    let spec = pod.spec.as_ref();
    let deadline = spec.and_then(|spec| spec.active_deadline_seconds);
    let terminating = deadline.is_some_and(|seconds| seconds >= 0);
    match scope.scope_name.as_str() {
        "Terminating" => terminating,
        "NotTerminating" => !terminating,
        "BestEffort" => is_best_effort(pod),
        "NotBestEffort" => !is_best_effort(pod),
        "PriorityClass" => {
            let class = spec.and_then(|spec| spec.priority_class_name.as_ref());
            let class = class.filter(|class| !class.is_empty());
            let listed =
                class.is_some_and(|class| scope.values.iter().flatten().any(|own| own == class));
            match scope.operator.as_str() {
                "Exists" => class.is_some(),
                "DoesNotExist" => class.is_none(),
                "In" => listed,
                "NotIn" => !listed,
                _ => false,
            }
        }
        "CrossNamespacePodAffinity" => reaches_other_namespaces(pod),
        _ => false,
    }
}

fn is_best_effort(pod: &Pod) -> bool {
    let spec = pod.spec.iter();
    let containers = spec.flat_map(|spec| {
        spec.containers
            .iter()
            .chain(spec.init_containers.iter().flatten())
    });
    let asks = |container: &Container| {
        let resources = container.resources.iter();
        let mut amounts = resources
            .flat_map(|own| [&own.requests, &own.limits])
            .flatten()
            .flatten();
        amounts.any(|(name, amount)| matches!(name.as_str(), "cpu" | "memory") && amount.0 != "0")
    };
    !containers.into_iter().any(asks)
}

fn reaches_other_namespaces(pod: &Pod) -> bool {
    let Some(affinity) = pod.spec.as_ref().and_then(|spec| spec.affinity.as_ref()) else {
        return false;
    };
    let mut terms: Vec<&PodAffinityTerm> = Vec::new();
    if let Some(own) = &affinity.pod_affinity {
        terms.extend(
            own.required_during_scheduling_ignored_during_execution
                .iter()
                .flatten(),
        );
        let preferred = own
            .preferred_during_scheduling_ignored_during_execution
            .iter()
            .flatten();
        terms.extend(preferred.map(|term| &term.pod_affinity_term));
    }
    if let Some(own) = &affinity.pod_anti_affinity {
        terms.extend(
            own.required_during_scheduling_ignored_during_execution
                .iter()
                .flatten(),
        );
        let preferred = own
            .preferred_during_scheduling_ignored_during_execution
            .iter()
            .flatten();
        terms.extend(preferred.map(|term| &term.pod_affinity_term));
    }
    terms.iter().any(|term| {
        term.namespace_selector.is_some() || term.namespaces.iter().flatten().next().is_some()
    })
}
