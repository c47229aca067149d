//! The resources that a pod takes as a whole.
//!
//! Source: `k8s.io/component-helpers/resource/helpers.go` (`PodRequests`, `PodLimits`).

use std::cmp::Ordering;
use std::collections::BTreeMap;

use crate::schema::quantity::Quantity;

/// Amounts by the name of the resource.
pub type Amounts = BTreeMap<String, Quantity>;

/// The requests in the spec of a pod, or its limits.
#[derive(Clone, Debug, Default)]
pub struct PodAmounts {
    /// The amounts of each container.
    pub containers: Vec<Amounts>,
    /// The amounts of each init container, in the order of the spec.
    pub init_containers: Vec<InitContainer>,
    /// The amounts that the pod states for all of its containers.
    pub pod: Amounts,
    /// The overhead of the pod's RuntimeClass.
    pub overhead: Amounts,
}

/// The requests or the limits of an init container.
#[derive(Clone, Debug)]
pub struct InitContainer {
    /// The amounts of the container.
    pub amounts: Amounts,
    /// Whether it runs along with the containers (`restartPolicy: Always`). Others run one at a time, before them.
    pub is_sidecar: bool,
}

/// Whether a pod can state an amount of the resource for all of its containers.
#[must_use]
pub fn is_pod_level(resource: &str) -> bool {
    matches!(resource, "cpu" | "memory") || resource.starts_with("hugepages-")
}

impl PodAmounts {
    /// Returns the most that the containers take at any time.
    #[must_use]
    pub fn of_containers(&self) -> Amounts {
        let mut total = Amounts::new();
        for container in &self.containers {
            add(&mut total, container);
        }
        let (mut sidecars, mut peak) = (Amounts::new(), Amounts::new());
        for container in &self.init_containers {
            let mut at_once = sidecars.clone();
            add(&mut at_once, &container.amounts);
            if container.is_sidecar {
                add(&mut total, &container.amounts);
                sidecars.clone_from(&at_once);
            }
            raise(&mut peak, at_once);
        }
        raise(&mut total, peak);
        total
    }

    /// Returns the requests of the pod, if these are requests.
    #[must_use]
    pub fn requests(&self) -> Amounts {
        let mut total = self.before_overhead();
        add(&mut total, &self.overhead);
        total
    }

    /// Returns the limits of the pod, if these are limits. Overhead alone sets no limit.
    #[must_use]
    pub fn limits(&self) -> Amounts {
        let mut total = self.before_overhead();
        for (name, limit) in &mut total {
            if let Some(more) = self.overhead.get(name) {
                *limit = limit.add(more);
            }
        }
        total
    }

    /// Returns the sum over the containers, or the pod's own amount of a resource if it states one.
    fn before_overhead(&self) -> Amounts {
        let mut total = self.of_containers();
        let stated = self.pod.iter().filter(|(name, _)| is_pod_level(name));
        total.extend(stated.map(|(name, amount)| (name.clone(), amount.clone())));
        total
    }
}

fn add(total: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        let sum = match total.get(name) {
            Some(own) => own.add(amount),
            None => amount.clone(),
        };
        total.insert(name.clone(), sum);
    }
}

fn raise(total: &mut Amounts, least: Amounts) {
    for (name, amount) in least {
        let own = total.get(&name);
        if own.is_none_or(|own| own.compare(&amount) == Ordering::Less) {
            total.insert(name, amount);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amounts(list: &[(&str, &str)]) -> Amounts {
        let list = list.iter();
        list.map(|(name, amount)| ((*name).to_owned(), Quantity::parse(amount).unwrap()))
            .collect()
    }

    fn texts(amounts: &Amounts) -> Vec<String> {
        let amounts = amounts.iter();
        amounts
            .map(|(name, amount)| format!("{name} {amount}"))
            .collect()
    }

    #[test]
    fn init_containers_count_where_they_need_more_than_the_rest() {
        let init = |cpu: &str, is_sidecar: bool| InitContainer {
            amounts: amounts(&[("cpu", cpu)]),
            is_sidecar,
        };
        let table = [
            (vec![init("1", false)], "cpu 2"),
            (vec![init("3", false)], "cpu 3"),
            (vec![init("1", true)], "cpu 3"),
            (vec![init("1", true), init("4", false)], "cpu 5"),
            (vec![init("4", false), init("1", true)], "cpu 4"),
        ];
        for (init_containers, expected) in table {
            let pod = PodAmounts {
                containers: vec![amounts(&[("cpu", "1")]), amounts(&[("cpu", "1")])],
                init_containers,
                ..PodAmounts::default()
            };
            assert_eq!(texts(&pod.of_containers()), [expected], "{pod:?}");
        }
    }

    #[test]
    fn overhead_is_a_request_and_raises_limits() {
        let pod = PodAmounts {
            containers: vec![amounts(&[("cpu", "1"), ("memory", "1Gi")])],
            pod: amounts(&[("cpu", "3"), ("example.com/gpu", "1")]),
            overhead: amounts(&[("cpu", "100m"), ("example.com/nic", "1")]),
            ..PodAmounts::default()
        };
        let limits = ["cpu 3100m", "memory 1Gi"];
        assert_eq!(texts(&pod.limits()), limits);
        let requests = ["cpu 3100m", "example.com/nic 1", "memory 1Gi"];
        assert_eq!(texts(&pod.requests()), requests);
    }
}
