//! The resources that pods ask for and nodes have.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, PodSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// Amounts by resource: thousandths for the processor, whole units for the rest.
pub type Amounts = BTreeMap<String, i128>;

/// Returns the amount of `resource` in `quantity`, rounded up; 0 for a malformed quantity.
pub fn amount(resource: &str, quantity: &Quantity) -> i128 {
    const MILLI: i32 = -3;
    let scale = match resource {
        "cpu" => MILLI,
        _ => 0,
    };
    let parsed = kubeproof_machinery::schema::quantity::Quantity::parse(&quantity.0);
    let value = parsed.ok().and_then(|parsed| parsed.scaled_value(scale));
    value.unwrap_or(0)
}

/// The amounts of a list of quantities.
pub fn amounts(list: Option<&BTreeMap<String, Quantity>>) -> Amounts {
    let list = list.into_iter().flatten();
    list.map(|(name, quantity)| (name.clone(), amount(name, quantity)))
        .collect()
}

/// The requests of a pod: the maximum of resources requested at any time.
pub fn requests(spec: &PodSpec) -> Amounts {
    let mut total = Amounts::new();
    for container in &spec.containers {
        add(&mut total, &of(container));
    }
    let (mut sidecars, mut peak) = (Amounts::new(), Amounts::new());
    for container in spec.init_containers.iter().flatten() {
        let own = of(container);
        if container.restart_policy.as_deref() == Some("Always") {
            add(&mut sidecars, &own);
            raise(&mut peak, &sidecars);
        } else {
            let mut beside = sidecars.clone();
            add(&mut beside, &own);
            raise(&mut peak, &beside);
        }
    }
    add(&mut total, &sidecars);
    raise(&mut total, &peak);
    let whole = spec.resources.as_ref().map(requested).unwrap_or_default();
    for (name, amount) in whole {
        // Requests of the pod override the sum of its containers' requests.
        if matches!(name.as_str(), "cpu" | "memory") || name.starts_with("hugepages-") {
            total.insert(name, amount);
        }
    }
    add(&mut total, &amounts(spec.overhead.as_ref()));
    total
}

fn of(container: &Container) -> Amounts {
    container
        .resources
        .as_ref()
        .map(requested)
        .unwrap_or_default()
}

fn requested(resources: &ResourceRequirements) -> Amounts {
    amounts(resources.requests.as_ref())
}

/// Adds `more` to `total`.
pub fn add(total: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        *total.entry(name.clone()).or_default() += amount;
    }
}

fn raise(total: &mut Amounts, least: &Amounts) {
    for (name, amount) in least {
        let known = total.entry(name.clone()).or_default();
        *known = (*known).max(*amount);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

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
    fn init_containers_count_where_they_need_more_than_the_rest() {
        let container = |cpu: &str, policy: Value| {
            let requests = json!({ "requests": { "cpu": cpu } });
            json!({ "name": "c", "resources": requests, "restartPolicy": policy })
        };
        for (init, expected) in [
            (vec![container("1", Value::Null)], 2_000),
            (vec![container("3", Value::Null)], 3_000),
            (vec![container("1", json!("Always"))], 3_000),
            (
                vec![container("1", json!("Always")), container("4", Value::Null)],
                5_000,
            ),
            (
                vec![container("4", Value::Null), container("1", json!("Always"))],
                4_000,
            ),
        ] {
            let spec = json!({
                "containers": [container("1", Value::Null), container("1", Value::Null)],
                "initContainers": init,
            });
            let spec: PodSpec = serde_json::from_value(spec).unwrap();
            assert_eq!(requests(&spec)["cpu"], expected);
        }
    }
}
