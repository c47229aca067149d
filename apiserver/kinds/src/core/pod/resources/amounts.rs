//! Resource totals of a pod.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde_json::Value;

use crate::schema::quantity::Quantity;

/// Amounts by the name of the resource.
pub type Amounts = BTreeMap<String, Quantity>;

/// The amounts in a list of resources.
pub fn amounts(list: &Value) -> Amounts {
    let entries = list.as_object().into_iter().flatten();
    entries
        .filter_map(|(name, amount)| {
            let amount = Quantity::parse(amount.as_str()?).ok()?;
            Some((name.clone(), amount))
        })
        .collect()
}

/// Returns the total requests of a pod.
pub fn requests_of_pod(pod: &Value) -> Amounts {
    whole(pod, "requests")
}

/// Returns the total limits of a pod.
pub fn limits_of_pod(pod: &Value) -> Amounts {
    whole(pod, "limits")
}

fn whole(pod: &Value, field: &str) -> Amounts {
    let spec = &pod["spec"];
    let mut all = of_containers(spec, field);
    for (name, amount) in amounts(&spec["resources"][field]) {
        all.insert(name, amount);
    }
    let overhead = amounts(&spec["overhead"]);
    for (name, amount) in overhead {
        match all.get_mut(&name) {
            Some(own) => *own = own.add(&amount),
            // Overhead alone does not set a limit.
            None if field == "limits" => {}
            None => {
                all.insert(name, amount);
            }
        }
    }
    all
}

/// Returns the total of a pod spec's containers; `field` is `requests` or `limits`.
pub(crate) fn of_containers(spec: &Value, field: &str) -> Amounts {
    let items = |list: &str| spec[list].as_array().cloned().unwrap_or_default();
    let mut all = Amounts::new();
    for container in items("containers") {
        add(&mut all, &amounts(&container["resources"][field]));
    }
    // Sidecars run along with the containers; other init containers run one at a time, before them.
    let (mut sidecars, mut most) = (Amounts::new(), Amounts::new());
    for container in items("initContainers") {
        let own = amounts(&container["resources"][field]);
        let mut at_once = sidecars.clone();
        add(&mut at_once, &own);
        if container["restartPolicy"] == "Always" {
            add(&mut all, &own);
            sidecars = at_once.clone();
        }
        raise(&mut most, &at_once);
    }
    raise(&mut all, &most);
    all
}

fn add(all: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        let sum = match all.get(name) {
            Some(own) => own.add(amount),
            None => amount.clone(),
        };
        all.insert(name.clone(), sum);
    }
}

fn raise(all: &mut Amounts, to: &Amounts) {
    for (name, amount) in to {
        let is_less = all
            .get(name)
            .is_none_or(|own| own.compare(amount) == Ordering::Less);
        if is_less {
            all.insert(name.clone(), amount.clone());
        }
    }
}
