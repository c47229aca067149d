//! The priorities of a pod's containers, and the barriers that containers wait at.
//!
//! The webhook of pods gives each container of a pod whose priorities differ a variable with its
//! barrier, and updates follow these. Where no such webhook runs, the barriers are those that it would give.
//!
//! Source: openkruise/kruise pkg/util/containerlaunchpriority and
//! pkg/webhook/pod/mutating/container_launch_priority_initialization.go.

use k8s_openapi::api::core::v1::{ConfigMapKeySelector, Container, EnvVar, EnvVarSource};
use kube::ResourceExt;
use kubeproof_runtime::pod::Pod;

/// The variable with the priority that a container is to have.
pub const PRIORITY_VARIABLE: &str = "KRUISE_CONTAINER_PRIORITY";
/// The variable with the barrier, out of a key like `p_10` of the pod's own ConfigMap.
const BARRIER_VARIABLE: &str = "KRUISE_CONTAINER_BARRIER";
const BARRIER_PREFIX: &str = "p_";
/// The annotation of pods whose containers have the priorities of their order, and its value there.
pub const LAUNCH_ANNOTATION: &str = "apps.kruise.io/container-launch-priority";
/// The value of [`LAUNCH_ANNOTATION`].
pub const ORDERED: &str = "Ordered";

/// A priority that is no number, in the words of Go's `strconv.Atoi`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("strconv.Atoi: parsing {0:?}: invalid syntax")]
pub struct PriorityError(String);

/// The containers by name, in order; None is below no barrier.
pub(in crate::kruise) fn of_containers(pod: &Pod) -> Vec<(&str, Option<i64>)> {
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

/// Returns the variables with the barriers of a new pod that is called `name`, one for each container; `None` when its
/// containers need not wait for each other.
///
/// # Errors
/// [`PriorityError`] when a container states a priority that is no number.
pub fn barrier_variables(pod: &Pod, name: &str) -> Result<Option<Vec<EnvVar>>, PriorityError> {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let containers: Vec<&Container> = containers.collect();
    let is_number = |text: &&str| text.parse::<i64>().is_ok();
    let mut stated = containers.iter().flat_map(|one| priorities(one));
    if containers.len() > 1
        && !is_ordered(pod)
        && let Some(wrong) = stated.find(|text| !is_number(text))
    {
        return Err(PriorityError(wrong.to_owned()));
    }
    let barriers: Option<Vec<i64>> = initial(pod, &containers).into_iter().collect();
    let barriers = barriers.filter(|barriers| !barriers.is_empty());
    let variable = |barrier: i64| EnvVar {
        name: BARRIER_VARIABLE.to_owned(),
        value: None,
        value_from: Some(EnvVarSource {
            config_map_key_ref: Some(ConfigMapKeySelector {
                name: config_map_name(name),
                key: key(barrier),
                optional: None,
            }),
            ..EnvVarSource::default()
        }),
    };
    Ok(barriers.map(|barriers| barriers.into_iter().map(variable).collect()))
}

/// The name of the ConfigMap with the barriers that containers of the pod `name` may pass.
pub(super) fn config_map_name(name: &str) -> String {
    format!("{name}-barrier")
}

/// The key of a barrier in that ConfigMap.
pub(super) fn key(barrier: i64) -> String {
    format!("{BARRIER_PREFIX}{barrier}")
}

/// The barrier that the container has been given.
pub(super) fn barrier(container: &Container) -> Option<i64> {
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
    let priorities: Vec<i64> = match is_ordered(pod) {
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

/// Whether the containers have the priorities of their order.
fn is_ordered(pod: &Pod) -> bool {
    let order = pod.annotations().get(LAUNCH_ANNOTATION);
    order.is_some_and(|order| order == ORDERED)
}

/// The priorities that the container's environment states.
fn priorities(container: &Container) -> impl DoubleEndedIterator<Item = &str> {
    let variables = container.env.iter().flatten();
    let stated = variables.filter(|variable| variable.name == PRIORITY_VARIABLE);
    stated.map(|variable| variable.value.as_deref().unwrap_or_default())
}

/// The last priority that the container's environment states; 0 without.
fn stated(container: &Container) -> i64 {
    let last = priorities(container).next_back();
    last.and_then(|text| text.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use kubeproof_runtime::decode::from_value;
    use serde_json::{Value, json};

    use super::*;

    fn pod(annotations: &Value, variables: &[Value]) -> Pod {
        let containers = variables
            .iter()
            .map(|env| json!({"name": "c", "env": env}))
            .collect::<Vec<_>>();
        from_value(json!({
            "metadata": {"annotations": annotations}, "spec": {"containers": containers}}))
        .unwrap()
    }

    fn stated(text: &str) -> Value {
        json!([{"name": PRIORITY_VARIABLE, "value": text}])
    }

    #[test]
    fn who_states_none_has_the_priority_zero_once_they_differ() {
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
            let pod = pod(annotations, &variables);
            let found = of_containers(&pod).into_iter();
            let found: Vec<_> = found.map(|(_, priority)| priority).collect();
            assert_eq!(found, expected, "{variables:?}");
        }
    }

    #[test]
    fn a_new_pod_gets_a_barrier_for_each_container_once_priorities_differ() {
        let (none, no) = (json!([]), json!({}));
        let ordered = json!({LAUNCH_ANNOTATION: ORDERED});
        let keys = |annotations: &Value, variables: &[Value]| {
            let found = barrier_variables(&pod(annotations, variables), "web")?;
            let keys = found.into_iter().flatten().map(|variable| {
                assert_eq!(variable.name, "KRUISE_CONTAINER_BARRIER");
                let source = variable.value_from.and_then(|from| from.config_map_key_ref);
                let source = source.expect("a key of a ConfigMap");
                format!("{} {}", source.name, source.key)
            });
            Ok::<Vec<String>, PriorityError>(keys.collect())
        };
        let differing = [none.clone(), stated("10"), stated("-5")];
        assert_eq!(
            keys(&no, &differing).unwrap(),
            ["web-barrier p_0", "web-barrier p_10", "web-barrier p_-5"]
        );
        assert!(keys(&no, &[stated("7"), stated("7")]).unwrap().is_empty());
        assert!(keys(&no, &[stated("7")]).unwrap().is_empty());
        assert_eq!(
            keys(&ordered, &[stated("many"), none.clone()]).unwrap(),
            ["web-barrier p_0", "web-barrier p_-1"]
        );
        let wrong = keys(&no, &[stated("many"), none]).unwrap_err();
        assert_eq!(
            wrong.to_string(),
            r#"strconv.Atoi: parsing "many": invalid syntax"#
        );
    }
}
