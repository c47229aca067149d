//! The volumes of a pod: the plugins VolumeRestrictions, VolumeBinding and VolumeZone; `limits` has
//! NodeVolumeLimits.

mod limits;

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{
    Node, PersistentVolume, PersistentVolumeClaim, TopologySelectorTerm, Volume,
};
use k8s_openapi::api::storage::v1::{
    CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment,
};
use kube::ResourceExt;
use kube::core::{Selector, SelectorExt};
use kubeproof_runtime::node_affinity;
use kubeproof_runtime::pod::{ClaimName, Pod, claims, is_not_owner};
use kubeproof_runtime::pod_resources as resources;
use kubeproof_runtime::store::{ObjectKey, Store};
use kubeproof_runtime::volume::{
    BIND_COMPLETED, SELECTED_NODE, capacity, class_of, holds, is_selected, requested, suits,
    waits_for_consumer,
};

use super::{Cluster, Load, Misfit, NodeInfo, Reason, name};

/// The provisioner of classes whose volumes are made by hand.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";
/// Labels of volumes and nodes that VolumeZone compares, each with the label that replaced it.
const TOPOLOGY_LABELS: &[(&str, &str)] = &[
    (
        "failure-domain.beta.kubernetes.io/zone",
        "topology.kubernetes.io/zone",
    ),
    (
        "failure-domain.beta.kubernetes.io/region",
        "topology.kubernetes.io/region",
    ),
    ("topology.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    (
        "topology.kubernetes.io/region",
        "topology.kubernetes.io/region",
    ),
];

/// The objects about volumes that the scheduler knows.
#[derive(Default)]
pub(crate) struct Storage {
    pub(crate) claims: Store<PersistentVolumeClaim>,
    pub(crate) volumes: Store<PersistentVolume>,
    pub(crate) classes: Store<StorageClass>,
    pub(crate) drivers: Store<CSIDriver>,
    pub(crate) capacities: Store<CSIStorageCapacity>,
    pub(crate) csi_nodes: Store<CSINode>,
    pub(crate) attachments: Store<VolumeAttachment>,
}

/// The volumes that a pod needs once it has a node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bindings {
    /// Claims with the existing volumes that they get.
    pub(crate) existing: Vec<(Arc<PersistentVolumeClaim>, Arc<PersistentVolume>)>,
    /// Claims whose volumes are provisioned.
    pub(crate) provisioned: Vec<Arc<PersistentVolumeClaim>>,
}

impl Bindings {
    pub(crate) fn is_empty(&self) -> bool {
        self.existing.is_empty() && self.provisioned.is_empty()
    }
}

/// The state of the filters of volumes for one pod.
pub(super) struct PodVolumes<'a> {
    pod: &'a Pod,
    storage: Option<&'a Storage>,
    /// The volumes of bound claims; None for those that are gone.
    bound: Vec<Option<&'a Arc<PersistentVolume>>>,
    /// The unbound claims whose volumes wait for a node, the smallest first.
    delayed: Vec<&'a Arc<PersistentVolumeClaim>>,
    /// The labels that bound volumes ask of a node, and their values (VolumeZone).
    zones: Vec<(&'static str, &'static str, BTreeSet<String>)>,
    /// Whether another pod uses a claim that only one pod may use.
    is_taken: bool,
    /// The disks that the pods of a node may not share.
    disks: Vec<&'a Volume>,
}

fn cluster_key(name: &str) -> ObjectKey {
    ObjectKey {
        namespace: String::new(),
        name: name.to_owned(),
    }
}

impl Storage {
    pub(crate) fn is_synced(&self) -> bool {
        self.claims.is_synced()
            && self.volumes.is_synced()
            && self.classes.is_synced()
            && self.drivers.is_synced()
            && self.capacities.is_synced()
            && self.csi_nodes.is_synced()
            && self.attachments.is_synced()
    }

    fn claim(
        &self,
        pod: &Pod,
        used: &ClaimName<'_>,
    ) -> Result<&Arc<PersistentVolumeClaim>, String> {
        let key = ObjectKey {
            namespace: pod.metadata.namespace.clone().unwrap_or_default(),
            name: used.name.to_string(),
        };
        let name = &used.name;
        self.claims
            .get(&key)
            .ok_or_else(|| match used.is_ephemeral {
                true => format!(
                    "waiting for ephemeral volume controller to create the \
                 persistentvolumeclaim {name:?}"
                ),
                false => format!("persistentvolumeclaim {name:?} not found"),
            })
    }

    fn class(&self, claim: &PersistentVolumeClaim) -> Option<&Arc<StorageClass>> {
        self.classes.get(&cluster_key(class_of(claim)?))
    }

    /// Returns whether the driver that provisions the claim has room for it where the node reaches
    /// it, as far as it says so (`hasEnoughCapacity`).
    fn has_room(&self, claim: &PersistentVolumeClaim, class: &StorageClass, node: &Node) -> bool {
        let spec = claim.spec.as_ref();
        let wanted = spec.and_then(|spec| spec.resources.as_ref()?.requests.as_ref());
        let Some(wanted) = wanted.and_then(|requests| requests.get("storage")) else {
            return true;
        };
        let driver = self.drivers.get(&cluster_key(&class.provisioner));
        if driver.is_none_or(|driver| driver.spec.storage_capacity != Some(true)) {
            return true;
        }
        let wanted = resources::amount("storage", wanted);
        let mut capacities = self.capacities.iter();
        capacities.any(|own| {
            let most = own.maximum_volume_size.as_ref().or(own.capacity.as_ref());
            let selector = own.node_topology.clone().map(Selector::try_from);
            own.storage_class_name == class.name_any()
                && most.is_some_and(|most| resources::amount("storage", most) >= wanted)
                && selector.is_some_and(|own| own.is_ok_and(|own| own.matches(node.labels())))
        })
    }
}

fn volume_name(claim: &PersistentVolumeClaim) -> &str {
    let spec = claim.spec.as_ref();
    let volume = spec.and_then(|spec| spec.volume_name.as_deref());
    volume.unwrap_or_default()
}

impl<'a> PodVolumes<'a> {
    /// Returns the state before any plugin has looked at the pod's claims.
    pub(super) fn of(pod: &'a Pod, cluster: &Cluster<'a>) -> Self {
        Self {
            pod,
            storage: cluster.storage,
            bound: Vec::new(),
            delayed: Vec::new(),
            zones: Vec::new(),
            is_taken: false,
            disks: volumes_of(pod).filter(|volume| is_disk(volume)).collect(),
        }
    }

    /// Finds out whether another pod uses a claim that only one pod may use (`PreFilter` of
    /// VolumeRestrictions).
    ///
    /// # Errors
    ///
    /// The reason why no node can have the pod.
    pub(super) fn find_taken(&mut self, cluster: &Cluster<'a>) -> Result<(), String> {
        let Some(storage) = self.storage else {
            return Ok(());
        };
        for used in claims(self.pod).filter(|used| !used.is_ephemeral) {
            let claim = storage.claim(self.pod, &used)?;
            let modes = claim.spec.iter().flat_map(|spec| &spec.access_modes);
            let is_exclusive = modes.flatten().any(|mode| mode == "ReadWriteOncePod");
            self.is_taken |= is_exclusive && is_used(claim, cluster);
        }
        Ok(())
    }

    /// Collects bound volumes and claims that wait for a node (`PreFilter` of VolumeBinding).
    ///
    /// # Errors
    ///
    /// The reason why no node can have the pod.
    pub(super) fn find_unbound(&mut self) -> Result<(), String> {
        let Some(storage) = self.storage else {
            return Ok(());
        };
        let pod = self.pod;
        for used in claims(pod) {
            let claim = storage.claim(pod, &used)?;
            check(pod, &used, claim)?;
        }
        let mut has_unbound = false;
        for used in claims(pod) {
            let claim = storage.claim(pod, &used)?;
            let volume = volume_name(claim);
            let is_bound = claim.annotations().contains_key(BIND_COMPLETED);
            let is_delayed = storage
                .class(claim)
                .is_some_and(|class| waits_for_consumer(class));
            if !volume.is_empty() && is_bound {
                self.bound.push(storage.volumes.get(&cluster_key(volume)));
            } else if volume.is_empty() && is_delayed {
                self.delayed.push(claim);
            } else {
                has_unbound = true;
            }
        }
        if has_unbound {
            return Err("pod has unbound immediate PersistentVolumeClaims".to_owned());
        }
        let size = |claim: &Arc<PersistentVolumeClaim>| claim.spec.as_ref().map(requested);
        self.delayed.sort_by_key(|claim| size(claim));
        Ok(())
    }

    /// Collects the labels that bound volumes ask of a node (`PreFilter` of VolumeZone).
    ///
    /// # Errors
    ///
    /// The reason why no node can have the pod.
    pub(super) fn find_zones(&mut self) -> Result<(), String> {
        let Some(storage) = self.storage else {
            return Ok(());
        };
        for used in claims(self.pod).filter(|used| !used.is_ephemeral) {
            let volume = volume_name(storage.claim(self.pod, &used)?);
            if volume.is_empty() {
                continue;
            }
            let stored = storage.volumes.get(&cluster_key(volume));
            let stored = stored.ok_or_else(|| format!("persistentvolume {volume:?} not found"))?;
            self.zones.extend(zones_of(stored));
        }
        Ok(())
    }

    /// Returns why VolumeRestrictions refuses the node.
    pub(super) fn is_refused(&self, load: &Load) -> Option<Misfit> {
        let shares = |disk: &&Volume| {
            let mut others = load.pods().flat_map(volumes_of);
            others.any(|other| conflict(disk, other))
        };
        if self.disks.iter().any(shares) {
            return Some(Misfit::passing(Reason::Disk));
        }
        self.is_taken
            .then(|| Misfit::passing(Reason::ExclusiveClaim))
    }

    /// Returns why VolumeBinding refuses the node.
    pub(super) fn is_unreachable(&self, node: &Node) -> Option<Misfit> {
        let reasons = self.bindings(node).err()?;
        Misfit::new(reasons, true)
    }

    /// Returns why NodeVolumeLimits refuses the node.
    pub(super) fn exceeds_limits(&self, node: &NodeInfo<'_>) -> Option<Misfit> {
        limits::misfit(self.pod, self.storage?, node)
    }

    /// Returns the volumes that the pod gets on the node (`FindPodVolumes`).
    pub(super) fn bindings(&self, node: &Node) -> Result<Bindings, Vec<Reason>> {
        let Some(storage) = self.storage else {
            return Ok(Bindings::default());
        };
        let mut reasons = Vec::new();
        reasons.extend(self.bound.iter().find_map(|volume| match volume {
            None => Some(Reason::VolumeGone),
            Some(volume) => (!reaches(volume, node)).then_some(Reason::VolumeAffinity),
        }));
        match find(storage, &self.delayed, node) {
            Ok(bindings) if reasons.is_empty() => return Ok(bindings),
            Ok(_) => {}
            Err(reason) => reasons.push(reason),
        }
        Err(reasons)
    }

    /// Returns why VolumeZone refuses the node: a bound volume is in another zone.
    pub(super) fn is_elsewhere(&self, node: &Node) -> Option<Misfit> {
        let labels = node.labels();
        let is_elsewhere = self.zones.iter().any(|(key, replaced, values)| {
            let value = labels.get(*key).or_else(|| labels.get(*replaced));
            value.is_none_or(|value| !values.contains(value))
        });
        let has_any = || {
            let mut keys = TOPOLOGY_LABELS.iter();
            keys.any(|(key, _)| labels.contains_key(*key))
        };
        (is_elsewhere && has_any()).then(|| Misfit::lasting(Reason::VolumeZone))
    }
}

/// Returns whether the claim can be used (`podHasPVCs`).
fn check(pod: &Pod, used: &ClaimName<'_>, claim: &PersistentVolumeClaim) -> Result<(), String> {
    let name = &used.name;
    let status = claim.status.as_ref();
    if status.and_then(|status| status.phase.as_deref()) == Some("Lost") {
        let volume = volume_name(claim);
        return Err(format!(
            "persistentvolumeclaim {name:?} bound to non-existent persistentvolume {volume:?}"
        ));
    }
    if claim.metadata.deletion_timestamp.is_some() {
        return Err(format!("persistentvolumeclaim {name:?} is being deleted"));
    }
    match is_not_owner(pod, claim).filter(|_| used.is_ephemeral) {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

/// Returns whether a pod on any node uses the claim.
fn is_used(claim: &PersistentVolumeClaim, cluster: &Cluster<'_>) -> bool {
    let mut pods = cluster.nodes.iter().flat_map(|node| &node.load.pods);
    pods.any(|pod| {
        let mut used = claims(pod).filter(|used| !used.is_ephemeral);
        pod.metadata.namespace == claim.metadata.namespace
            && used.any(|used| Some(&*used.name) == claim.metadata.name.as_deref())
    })
}

/// Returns the volumes that unbound claims get on the node.
///
/// # Errors
///
/// The reason why a claim gets none.
fn find(
    storage: &Storage,
    delayed: &[&Arc<PersistentVolumeClaim>],
    node: &Node,
) -> Result<Bindings, Reason> {
    let mut bindings = Bindings::default();
    let mut chosen = BTreeSet::new();
    for claim in delayed {
        match claim.annotations().get(SELECTED_NODE) {
            Some(selected) if selected != name(node) => return Err(Reason::NoVolume),
            Some(_) => bindings.provisioned.push(Arc::clone(claim)),
            None => match matching_volume(storage, claim, node, &chosen) {
                Some(volume) => {
                    chosen.insert(volume.name_any());
                    let pair = (Arc::clone(claim), Arc::clone(volume));
                    bindings.existing.push(pair);
                }
                None => bindings.provisioned.push(Arc::clone(claim)),
            },
        }
    }
    // Claims that have selected the node are looked at first.
    let mut provisioned: Vec<_> = bindings.provisioned.iter().collect();
    provisioned.sort_by_key(|claim| !claim.annotations().contains_key(SELECTED_NODE));
    for claim in provisioned {
        let class = storage.class(claim).ok_or(Reason::NoVolume)?;
        let by_hand = class.provisioner.is_empty() || class.provisioner == NO_PROVISIONER;
        if by_hand || !is_allowed(class.allowed_topologies.as_deref(), node) {
            return Err(Reason::NoVolume);
        }
        if !storage.has_room(claim, class, node) {
            return Err(Reason::NoSpace);
        }
    }
    Ok(bindings)
}

/// Returns the volume that is tied to the claim already, or the smallest that suits it and the node
/// (`FindMatchingVolume`).
fn matching_volume<'a>(
    storage: &'a Storage,
    claim: &PersistentVolumeClaim,
    node: &Node,
    chosen: &BTreeSet<String>,
) -> Option<&'a Arc<PersistentVolume>> {
    let wanted = claim.spec.as_ref()?;
    let volumes = storage.volumes.iter();
    let class = class_of(claim).unwrap_or_default();
    let offered: Vec<_> = volumes
        .filter(|volume| !chosen.contains(&volume.name_any()))
        .filter_map(|volume| Some((volume, volume.spec.as_ref()?)))
        .filter(|(_, spec)| spec.storage_class_name.as_deref().unwrap_or_default() == class)
        .filter(|(volume, spec)| {
            holds(spec, wanted) && volume.metadata.deletion_timestamp.is_none()
        })
        .collect();
    let tied = offered.iter().find(|(volume, _)| is_tied(volume, claim));
    if let Some((volume, _)) = tied {
        return reaches(volume, node).then_some(*volume);
    }
    let free = offered.into_iter().filter(|(volume, spec)| {
        let phase = volume.status.as_ref().and_then(|it| it.phase.as_deref());
        spec.claim_ref.is_none()
            && phase == Some("Available")
            && suits(spec, wanted)
            && is_selected(volume, wanted)
            && reaches(volume, node)
    });
    let smallest = free.min_by_key(|(_, spec)| capacity(spec));
    smallest.map(|(volume, _)| volume)
}

/// Returns whether the volume is tied to the claim, by the claim's uid if the volume names one.
fn is_tied(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let spec = volume.spec.as_ref();
    let tied = spec.and_then(|spec| spec.claim_ref.as_ref());
    tied.is_some_and(|tied| {
        let uid = tied.uid.as_ref();
        tied.name == claim.metadata.name
            && tied.namespace == claim.metadata.namespace
            && uid.is_none_or(|uid| Some(uid) == claim.metadata.uid.as_ref())
    })
}

/// Returns whether the volume's node affinity allows the node.
fn reaches(volume: &PersistentVolume, node: &Node) -> bool {
    let spec = volume.spec.as_ref();
    let affinity = spec.and_then(|spec| spec.node_affinity.as_ref());
    let required = affinity.and_then(|affinity| affinity.required.as_ref());
    required.is_none_or(|required| node_affinity::is_selected(required, node))
}

/// Returns whether the topologies of a class allow the node; without any they do.
fn is_allowed(topologies: Option<&[TopologySelectorTerm]>, node: &Node) -> bool {
    let terms = topologies.unwrap_or_default();
    let labels = node.labels();
    terms.is_empty()
        || terms.iter().any(|term| {
            let mut rules = term.match_label_expressions.iter().flatten();
            rules.all(|rule| {
                let value = labels.get(&rule.key);
                value.is_some_and(|value| rule.values.contains(value))
            })
        })
}

fn zones_of(
    volume: &PersistentVolume,
) -> impl Iterator<Item = (&'static str, &'static str, BTreeSet<String>)> {
    TOPOLOGY_LABELS.iter().filter_map(|(key, replaced)| {
        let value = volume.labels().get(*key)?;
        let values: BTreeSet<String> = value.split("__").map(str::to_owned).collect();
        // A label without a zone between two separators is malformed.
        (!values.contains("")).then_some((*key, *replaced, values))
    })
}

fn volumes_of(pod: &Pod) -> impl Iterator<Item = &Volume> {
    let spec = pod.spec.iter();
    spec.flat_map(|spec| spec.volumes.iter().flatten())
}

/// Returns whether the volume is one of those that [`conflict`] compares.
fn is_disk(volume: &Volume) -> bool {
    volume.gce_persistent_disk.is_some()
        || volume.aws_elastic_block_store.is_some()
        || volume.iscsi.is_some()
        || volume.rbd.is_some()
}

/// Returns whether two volumes are one disk that pods of a node may not share (`isVolumeConflict`).
fn conflict(one: &Volume, other: &Volume) -> bool {
    if let (Some(one), Some(other)) = (&one.gce_persistent_disk, &other.gce_persistent_disk) {
        let both_read = one.read_only == Some(true) && other.read_only == Some(true);
        return one.pd_name == other.pd_name && !both_read;
    }
    if let (Some(one), Some(other)) = (&one.aws_elastic_block_store, &other.aws_elastic_block_store)
    {
        return one.volume_id == other.volume_id;
    }
    if let (Some(one), Some(other)) = (&one.iscsi, &other.iscsi) {
        let both_read = one.read_only == Some(true) && other.read_only == Some(true);
        return one.iqn == other.iqn && !both_read;
    }
    if let (Some(one), Some(other)) = (&one.rbd, &other.rbd) {
        let both_read = one.read_only == Some(true) && other.read_only == Some(true);
        let shared = one.monitors.iter().any(|own| other.monitors.contains(own));
        return shared && one.pool == other.pool && one.image == other.image && !both_read;
    }
    false
}

#[cfg(test)]
mod tests;
