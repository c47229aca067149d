//! The priorities of a pod's containers, by which they are started and updated.
//!
//! Upstream's webhook of pods gives each container a variable with a barrier that it waits at, and
//! updates follow these. Where no such webhook runs, the barriers are those that it would give.
//!
//! Source: openkruise/kruise pkg/util/containerlaunchpriority and
//! pkg/webhook/pod/mutating/container_launch_priority_initialization.go.

use k8s_openapi::api::core::v1::{Container, Pod};
use kube::ResourceExt;

/// The variable with the priority that a container is to have.
const PRIORITY_VARIABLE: &str = "KRUISE_CONTAINER_PRIORITY";
/// The variable with the barrier, out of a key like `p_10` of the pod's own ConfigMap.
const BARRIER_VARIABLE: &str = "KRUISE_CONTAINER_BARRIER";
const BARRIER_PREFIX: &str = "p_";
/// The annotation of pods whose containers have the priorities of their order.
const LAUNCH_ANNOTATION: &str = "apps.kruise.io/container-launch-priority";
const ORDERED: &str = "Ordered";

/// The containers by name, in order; None is below no barrier.
pub(super) fn of_containers(pod: &Pod) -> Vec<(&str, Option<i64>)> {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let containers: Vec<&Container> = containers.collect();
    let barriers: Vec<Option<i64>> = containers.iter().map(|one| barrier(one)).collect();
    let priorities = match barriers.iter().any(Option::is_some) {
        true => barriers,
        false => initial(pod, &containers),
    };
    let names = containers.iter().map(|container| container.name.as_str());
    names.zip(priorities).collect()
}

/// The barrier that the container has been given.
fn barrier(container: &Container) -> Option<i64> {
    let mut variables = container.env.iter().flatten();
    let variable = variables.find(|variable| variable.name == BARRIER_VARIABLE)?;
    let key = &variable
        .value_from
        .as_ref()?
        .config_map_key_ref
        .as_ref()?
        .key;
    let number = key.strip_prefix(BARRIER_PREFIX);
    Some(number.and_then(|number| number.parse().ok()).unwrap_or(0))
}

/// The barriers of a new pod: none for any container, unless they differ.
fn initial(pod: &Pod, containers: &[&Container]) -> Vec<Option<i64>> {
    let is_ordered = pod.annotations().get(LAUNCH_ANNOTATION);
    let is_ordered = is_ordered.is_some_and(|order| order == ORDERED);
    let priorities: Vec<i64> = match is_ordered {
        true => (0..)
            .map(|index: i64| -index)
            .take(containers.len())
            .collect(),
        false => containers.iter().map(|one| stated(one)).collect(),
    };
    let do_differ = priorities.windows(2).any(|pair| pair[0] != pair[1]);
    let priorities = priorities.into_iter();
    priorities.map(|one| do_differ.then_some(one)).collect()
}

/// The last priority that the container's environment states; 0 without.
fn stated(container: &Container) -> i64 {
    let variables = container.env.iter().flatten();
    let stated = variables.filter(|variable| variable.name == PRIORITY_VARIABLE);
    let stated = stated
        .filter_map(|variable| variable.value.as_deref())
        .next_back();
    stated.and_then(|text| text.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn priorities(annotations: Value, variables: [Value; 3]) -> Vec<Option<i64>> {
        let containers: Vec<Value> = variables
            .iter()
            .map(|env| json!({"name": "c", "env": env}))
            .collect();
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"annotations": annotations}, "spec": {"containers": containers}}))
        .unwrap();
        let listed = of_containers(&pod).into_iter();
        listed.map(|(_, priority)| priority).collect()
    }

    #[test]
    fn who_states_none_has_the_priority_zero_once_they_differ() {
        let stated = |text: &str| json!([{"name": PRIORITY_VARIABLE, "value": text}]);
        let barrier = |key: &str| {
            json!([{"name": BARRIER_VARIABLE,
                "valueFrom": {"configMapKeyRef": {"name": "p-barrier", "key": key}}}])
        };
        let (none, no) = (json!([]), json!({}));
        let table = [
            (
                &no,
                [stated("10"), none.clone(), stated("-5")],
                [Some(10), Some(0), Some(-5)],
            ),
            (&no, [stated("10"), stated("10"), stated("10")], [None; 3]),
            (&no, [none.clone(), none.clone(), stated("0")], [None; 3]),
            (
                &json!({LAUNCH_ANNOTATION: ORDERED}),
                [stated("1"), none.clone(), stated("5")],
                [Some(0), Some(-1), Some(-2)],
            ),
            // A container that another webhook has appended is below no barrier.
            (
                &no,
                [barrier("p_-3"), none.clone(), barrier("p_4")],
                [Some(-3), None, Some(4)],
            ),
        ];
        for (annotations, variables, expected) in table {
            let found = priorities(annotations.clone(), variables.clone());
            assert_eq!(found, expected, "{variables:?}");
        }
    }
}
