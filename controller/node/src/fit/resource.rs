//! Amounts of resources, as the scheduler adds them up and compares them for each node.

use std::collections::BTreeMap;

use kubeproof_runtime::pod_resources::Amounts;

/// The amounts that a node has or that its pods take, in the units of [`Amounts`]; 0 for a resource that is not stated.
///
/// Nearly every node has the first four. They are read for each pod and node, so they have fields instead of names to
/// compare.
///
/// Source: `Resource` of `pkg/scheduler/framework/types.go`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Resource {
    cpu: i128,
    memory: i128,
    ephemeral_storage: i128,
    allowed_pod_number: i128,
    scalar_resources: BTreeMap<String, i128>,
}

impl Resource {
    /// The amount of the resource `name`.
    pub(super) fn get(&self, name: &str) -> i128 {
        match name {
            "cpu" => self.cpu,
            "memory" => self.memory,
            "ephemeral-storage" => self.ephemeral_storage,
            "pods" => self.allowed_pod_number,
            other => self.scalar_resources.get(other).copied().unwrap_or(0),
        }
    }

    /// Adds the amounts that `more` states.
    pub(super) fn add(&mut self, more: &Amounts) {
        for (name, amount) in more {
            let total = match name.as_str() {
                "cpu" => &mut self.cpu,
                "memory" => &mut self.memory,
                "ephemeral-storage" => &mut self.ephemeral_storage,
                "pods" => &mut self.allowed_pod_number,
                other => self.scalar_resources.entry(other.to_owned()).or_default(),
            };
            *total += amount;
        }
    }
}

impl From<Amounts> for Resource {
    fn from(amounts: Amounts) -> Self {
        let mut resource = Self::default();
        resource.add(&amounts);
        resource
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_resource_is_added_and_found_by_its_name() {
        let names = [
            "cpu",
            "memory",
            "ephemeral-storage",
            "pods",
            "example.com/gpu",
        ];
        let amounts = names.iter().zip(1..);
        let amounts: Amounts = amounts
            .map(|(name, amount)| ((*name).to_owned(), amount))
            .collect();
        let mut resource = Resource::from(amounts.clone());
        assert_eq!(names.map(|name| resource.get(name)), [1, 2, 3, 4, 5]);
        resource.add(&amounts);
        assert_eq!(names.map(|name| resource.get(name)), [2, 4, 6, 8, 10]);
        assert_eq!(resource.get("hugepages-2Mi"), 0);
    }
}
