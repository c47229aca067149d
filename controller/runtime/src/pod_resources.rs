//! The resources that pods ask for and nodes have.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{PodSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kubeproof_machinery::pod_resources::{self, InitContainer, PodAmounts};
use kubeproof_machinery::schema::quantity;

/// Amounts by resource: thousandths for the processor, whole units for the rest.
pub type Amounts = BTreeMap<String, i128>;

/// Returns the amount of `resource` in `quantity`, rounded up; 0 for a malformed quantity.
pub fn amount(resource: &str, quantity: &Quantity) -> i128 {
    parse(quantity).map_or(0, |quantity| whole(resource, &quantity))
}

/// The amounts of a list of quantities.
pub fn amounts(list: Option<&BTreeMap<String, Quantity>>) -> Amounts {
    let list = list.into_iter().flatten();
    list.map(|(name, quantity)| (name.clone(), amount(name, quantity)))
        .collect()
}

/// The requests of a pod: the maximum of resources requested at any time.
pub fn requests(spec: &PodSpec) -> Amounts {
    requests_or(spec, &[])
}

/// Returns the requests of a pod whose containers request at least `defaults`, by resource, where they request nothing.
///
/// Source: `NonMissingContainerRequests` of `PodRequests`.
pub fn requests_or(spec: &PodSpec, defaults: &[(&str, &str)]) -> Amounts {
    let of_container = |resources: Option<&ResourceRequirements>| {
        let mut requested = requested(resources);
        for (name, quantity) in defaults {
            if let Ok(quantity) = quantity::Quantity::parse(quantity) {
                requested.entry((*name).to_owned()).or_insert(quantity);
            }
        }
        requested
    };
    let init = spec.init_containers.iter().flatten();
    let pod = PodAmounts {
        containers: spec
            .containers
            .iter()
            .map(|container| of_container(container.resources.as_ref()))
            .collect(),
        init_containers: init
            .map(|container| InitContainer {
                amounts: of_container(container.resources.as_ref()),
                is_sidecar: container.restart_policy.as_deref() == Some("Always"),
            })
            .collect(),
        pod: requested(spec.resources.as_ref()),
        overhead: quantities(spec.overhead.as_ref()),
    };
    let total = pod.requests().into_iter();
    total
        .map(|(name, quantity)| {
            let amount = whole(&name, &quantity);
            (name, amount)
        })
        .collect()
}

fn requested(resources: Option<&ResourceRequirements>) -> pod_resources::Amounts {
    quantities(resources.and_then(|resources| resources.requests.as_ref()))
}

fn quantities(list: Option<&BTreeMap<String, Quantity>>) -> pod_resources::Amounts {
    let list = list.into_iter().flatten();
    list.filter_map(|(name, quantity)| Some((name.clone(), parse(quantity)?)))
        .collect()
}

fn parse(quantity: &Quantity) -> Option<quantity::Quantity> {
    quantity::Quantity::parse(&quantity.0).ok()
}

/// The amount of `resource` in its unit, rounded up.
fn whole(resource: &str, quantity: &quantity::Quantity) -> i128 {
    const MILLI: i32 = -3;
    let scale = match resource {
        "cpu" => MILLI,
        _ => 0,
    };
    quantity.scaled_value(scale).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::decode::from_value;

    #[test]
    fn quantities_are_read_in_every_notation() {
        for (text, cpu, memory) in [
            ("1", 1_000, 1),
            ("100m", 100, 1),
            ("1.5", 1_500, 2),
            ("0.1Ki", 102_400, 103),
            ("2Gi", 2_147_483_648_000, 2_147_483_648),
            ("3k", 3_000_000, 3_000),
            ("1e3", 1_000_000, 1_000),
        ] {
            let quantity = Quantity(text.to_owned());
            assert_eq!(amount("cpu", &quantity), cpu, "{text}");
            assert_eq!(amount("memory", &quantity), memory, "{text}");
        }
    }

    #[test]
    fn the_parts_of_a_spec_are_summed() {
        let asks = |cpu: &str| json!({ "requests": { "cpu": cpu, "memory": "0.1Ki" } });
        let container = |cpu: &str, policy: Value| json!({ "name": "c", "resources": asks(cpu), "restartPolicy": policy });
        let spec = json!({
            "containers": [container("1", Value::Null), container("500m", Value::Null)],
            "initContainers": [container("1", json!("Always")), container("4", Value::Null)],
            "resources": { "requests": { "memory": "1Ki" } },
            "overhead": { "cpu": "1", "memory": "1" },
        });
        let spec: PodSpec = from_value(spec).unwrap();
        let expected = [("cpu", 6_000), ("memory", 1_025)];
        let expected = expected.map(|(name, amount)| (name.to_owned(), amount));
        assert_eq!(requests(&spec), Amounts::from(expected));
    }
}
