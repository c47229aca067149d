//! Resource totals of a pod.

use kubeproof_machinery::pod_resources::{InitContainer, PodAmounts};

use crate::json::Value;
use crate::schema::quantity::Quantity;
use crate::unstructured::items;

pub use kubeproof_machinery::pod_resources::Amounts;

/// The amounts in a list of resources.
pub fn amounts(list: &Value) -> Amounts {
    let entries = list.as_object().into_iter().flatten();
    entries
        .filter_map(|(name, amount)| {
            let amount = Quantity::parse(amount.as_str()?).ok()?;
            Some((name.to_string(), amount))
        })
        .collect()
}

/// Returns the total requests of a pod.
pub fn requests_of_pod(pod: &Value) -> Amounts {
    read(&pod["spec"], "requests").requests()
}

/// Returns the total limits of a pod.
pub fn limits_of_pod(pod: &Value) -> Amounts {
    read(&pod["spec"], "limits").limits()
}

/// Returns the total of a pod spec's containers; `field` is `requests` or `limits`.
pub(crate) fn of_containers(spec: &Value, field: &str) -> Amounts {
    read(spec, field).of_containers()
}

fn read(spec: &Value, field: &str) -> PodAmounts {
    let own = |holder: &Value| amounts(&holder["resources"][field]);
    let init = items(&spec["initContainers"]);
    PodAmounts {
        containers: items(&spec["containers"]).map(own).collect(),
        init_containers: init
            .map(|container| InitContainer {
                amounts: own(container),
                is_sidecar: container["restartPolicy"] == "Always",
            })
            .collect(),
        pod: own(spec),
        overhead: amounts(&spec["overhead"]),
    }
}
