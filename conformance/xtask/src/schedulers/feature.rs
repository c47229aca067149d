//! The features of scheduling that a case draws from.

use std::str::FromStr;

/// Whether each feature occurs in a case.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Features {
    pub(super) resources: bool,
    pub(super) taints: bool,
    pub(super) ports: bool,
    pub(super) node_affinity: bool,
    pub(super) pod_affinity: bool,
    pub(super) spread: bool,
    pub(super) volumes: bool,
    pub(super) preemption: bool,
    pub(super) profiles: bool,
}

impl Features {
    /// Returns the features that both have.
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            resources: self.resources && other.resources,
            taints: self.taints && other.taints,
            ports: self.ports && other.ports,
            node_affinity: self.node_affinity && other.node_affinity,
            pod_affinity: self.pod_affinity && other.pod_affinity,
            spread: self.spread && other.spread,
            volumes: self.volumes && other.volumes,
            preemption: self.preemption && other.preemption,
            profiles: self.profiles && other.profiles,
        }
    }
}

impl FromStr for Features {
    type Err = String;

    /// Reads names between commas; `all` is every feature.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut features = Self::default();
        for name in text.split(',') {
            match name {
                "all" => {
                    features = Self {
                        resources: true,
                        taints: true,
                        ports: true,
                        node_affinity: true,
                        pod_affinity: true,
                        spread: true,
                        volumes: true,
                        preemption: true,
                        profiles: true,
                    }
                }
                "resources" => features.resources = true,
                "taints" => features.taints = true,
                "ports" => features.ports = true,
                "node-affinity" => features.node_affinity = true,
                "pod-affinity" => features.pod_affinity = true,
                "spread" => features.spread = true,
                "volumes" => features.volumes = true,
                "preemption" => features.preemption = true,
                "profiles" => features.profiles = true,
                unknown => return Err(format!("unknown feature {unknown:?}")),
            }
        }
        Ok(features)
    }
}
