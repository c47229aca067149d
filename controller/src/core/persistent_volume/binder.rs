//! Decides the next step for a claim or a volume; builds the objects to write.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use kubeproof_runtime::volume::{SELECTED_NODE, claim_reference, suits, waits_for_consumer};
use serde_json::{Value, json};

use super::matching::{self, Volumes};

pub(super) use kubeproof_runtime::volume::{BIND_COMPLETED, BOUND_BY_CONTROLLER};
pub(super) const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
pub(super) const STORAGE_PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";
pub(super) const PROVISIONER: &str = "kubeproof.dev/volumes";
/// The provisioner of the default class, which makes volumes on the nodes of their pods.
pub(super) const LOCAL_PATH: &str = "rancher.io/local-path";
/// The provisioner of classes that have no dynamic provisioning.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// The next step for a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ClaimStep {
    Nothing,
    /// Make a volume of this name for it.
    Provision(String),
    /// Tie this volume to it, which is not tied to anything yet.
    Reserve(String),
    /// Name this volume in its spec.
    Bind(String),
    /// Report it as bound to this volume.
    ReportBound(String),
    /// Report that its volume is gone.
    ReportLost,
    /// Wait until a node is chosen for its volume.
    WaitForConsumer,
    /// Let this provisioner make its volume.
    HandOver(&'static str),
}

/// The next step for a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VolumeStep {
    Nothing,
    Report(&'static str),
    /// Delete a released volume whose reclaim policy is Delete.
    Delete,
    /// Remove the finalizer of a deleted volume that is no longer in use.
    Unprotect,
}

pub(super) const PV_PROTECTION: &str = "kubernetes.io/pv-protection";

fn claim_phase(claim: &PersistentVolumeClaim) -> &str {
    let status = claim.status.as_ref();
    status
        .and_then(|status| status.phase.as_deref())
        .unwrap_or("Pending")
}

fn volume_name(claim: &PersistentVolumeClaim) -> Option<&str> {
    let name = claim.spec.as_ref()?.volume_name.as_deref()?;
    (!name.is_empty()).then_some(name)
}

/// Whether `volume` is tied to `claim`, by uid when it says one.
fn is_tied(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let tied = volume
        .spec
        .as_ref()
        .and_then(|spec| spec.claim_ref.as_ref());
    tied.is_some_and(|tied| {
        tied.name == claim.metadata.name
            && tied.namespace == claim.metadata.namespace
            && tied
                .uid
                .as_ref()
                .is_none_or(|uid| Some(uid) == claim.metadata.uid.as_ref())
    })
}

fn is_free(volume: &PersistentVolume) -> bool {
    let spec = volume.spec.as_ref();
    volume.metadata.deletion_timestamp.is_none()
        && spec.is_some_and(|spec| spec.claim_ref.is_none())
}

/// The name of the volume made for `claim`.
pub(super) fn provisioned_name(claim: &PersistentVolumeClaim) -> String {
    format!("pvc-{}", claim.metadata.uid.as_deref().unwrap_or_default())
}

/// The next step for `claim`. A claim that is being deleted is bound like any other.
pub(super) fn claim_step(
    claim: &PersistentVolumeClaim,
    volumes: &Volumes,
    class: Option<&StorageClass>,
) -> ClaimStep {
    let phase = claim_phase(claim);
    if let Some(name) = volume_name(claim) {
        return match volumes.get(name) {
            Some(volume) if is_tied(volume, claim) => {
                if !has_claim_uid(volume) {
                    ClaimStep::Reserve(name.to_owned())
                } else if is_bind_completed(claim) {
                    report_unless(phase == "Bound", name)
                } else {
                    ClaimStep::Bind(name.to_owned())
                }
            }
            Some(volume) if is_free(volume) && satisfies(volume, claim) => {
                ClaimStep::Reserve(name.to_owned())
            }
            None if phase == "Bound" => ClaimStep::ReportLost,
            // Waits for the volume its author named.
            Some(_) | None => ClaimStep::Nothing,
        };
    }
    if let Some((name, volume)) = volumes.iter().find(|(_, volume)| is_tied(volume, claim)) {
        return if has_claim_uid(volume) {
            ClaimStep::Bind(name.clone())
        } else {
            ClaimStep::Reserve(name.clone())
        };
    }
    let selected = annotation(claim, SELECTED_NODE);
    if selected.is_none() && class.is_some_and(waits_for_consumer) {
        return ClaimStep::WaitForConsumer;
    }
    if let Some(name) = matching::best(claim, volumes) {
        return ClaimStep::Reserve(name.to_owned());
    }
    let named = claim
        .spec
        .as_ref()
        .and_then(|spec| spec.storage_class_name.as_deref());
    if named == Some("") {
        // The claim asks for an existing volume.
        return ClaimStep::Nothing;
    }
    match class.map(|class| class.provisioner.as_str()) {
        Some(NO_PROVISIONER) => ClaimStep::Nothing,
        Some(LOCAL_PATH) if annotation(claim, STORAGE_PROVISIONER) == Some(LOCAL_PATH) => {
            ClaimStep::Nothing
        }
        Some(LOCAL_PATH) => ClaimStep::HandOver(LOCAL_PATH),
        _ => ClaimStep::Provision(provisioned_name(claim)),
    }
}

fn annotation<'c>(claim: &'c PersistentVolumeClaim, name: &str) -> Option<&'c str> {
    let annotations = claim.metadata.annotations.as_ref()?;
    annotations.get(name).map(String::as_str)
}

fn report_unless(reported: bool, name: &str) -> ClaimStep {
    if reported {
        ClaimStep::Nothing
    } else {
        ClaimStep::ReportBound(name.to_owned())
    }
}

fn has_claim_uid(volume: &PersistentVolume) -> bool {
    let tied = volume
        .spec
        .as_ref()
        .and_then(|spec| spec.claim_ref.as_ref());
    tied.is_some_and(|tied| tied.uid.is_some())
}

fn is_bind_completed(claim: &PersistentVolumeClaim) -> bool {
    let annotations = claim.metadata.annotations.as_ref();
    annotations.is_some_and(|annotations| annotations.contains_key(BIND_COMPLETED))
}

/// Whether the volume that the author of `claim` has named satisfies the claim.
fn satisfies(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let (Some(volume), Some(claim)) = (&volume.spec, &claim.spec) else {
        return false;
    };
    suits(volume, claim)
}

/// The next step for `volume`, given the claim that has the name it is tied to.
pub(super) fn volume_step(
    volume: &PersistentVolume,
    claim: Option<&PersistentVolumeClaim>,
) -> VolumeStep {
    let status = volume.status.as_ref();
    let phase = status
        .and_then(|status| status.phase.as_deref())
        .unwrap_or_default();
    let report = |wanted: &'static str| {
        if phase == wanted {
            VolumeStep::Nothing
        } else {
            VolumeStep::Report(wanted)
        }
    };
    let spec = volume.spec.as_ref();
    let tied = spec.and_then(|spec| spec.claim_ref.as_ref());
    let in_use = claim.is_some_and(|claim| is_tied(volume, claim));
    if volume.metadata.deletion_timestamp.is_some() {
        let mut finalizers = volume.metadata.finalizers.iter().flatten();
        let protected = finalizers.any(|finalizer| finalizer == PV_PROTECTION);
        return if protected && !in_use {
            VolumeStep::Unprotect
        } else {
            VolumeStep::Nothing
        };
    }
    let reclaim = spec.and_then(|spec| spec.persistent_volume_reclaim_policy.as_deref());
    match tied {
        None => report("Available"),
        // Kept for a claim that its author named and that may still come.
        Some(tied) if tied.uid.is_none() => report("Available"),
        Some(_) if in_use => {
            let named = claim.and_then(volume_name);
            let bound = named.is_some() && named == volume.metadata.name.as_deref();
            if bound {
                report("Bound")
            } else {
                VolumeStep::Nothing
            }
        }
        Some(_) if phase != "Released" => VolumeStep::Report("Released"),
        Some(_) if reclaim == Some("Delete") => VolumeStep::Delete,
        Some(_) => VolumeStep::Nothing,
    }
}

/// The volume made for `claim`.
pub(super) fn provisioned(claim: &PersistentVolumeClaim) -> Value {
    let name = provisioned_name(claim);
    let spec = claim.spec.clone().unwrap_or_default();
    let requests = spec.resources.and_then(|resources| resources.requests);
    let storage = requests.and_then(|requests| requests.get("storage").cloned());
    let mut volume = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {
            "name": name,
            "annotations": { PROVISIONED_BY: PROVISIONER },
        },
        "spec": {
            "accessModes": spec.access_modes,
            "capacity": { "storage": storage },
            "claimRef": claim_reference(claim),
            "hostPath": { "path": format!("/var/lib/kubeproof/{name}"), "type": "" },
            "persistentVolumeReclaimPolicy": "Delete",
            "volumeMode": spec.volume_mode.unwrap_or_else(|| "Filesystem".to_owned()),
        },
    });
    if let Some(class) = spec.storage_class_name {
        volume["spec"]["storageClassName"] = json!(class);
    }
    volume
}

/// The volume that the provisioner of the default class makes for `claim`, on its node.
pub(super) fn provisioned_locally(claim: &PersistentVolumeClaim) -> Value {
    let mut volume = provisioned(claim);
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let node = annotation(claim, SELECTED_NODE).unwrap_or_default();
    let path = format!(
        "/var/local-path-provisioner/{}_{}_{}",
        provisioned_name(claim),
        text(&claim.metadata.namespace),
        text(&claim.metadata.name)
    );
    volume["metadata"]["annotations"] = json!({
        "local.path.provisioner/selected-node": node,
        PROVISIONED_BY: LOCAL_PATH,
    });
    volume["spec"]["hostPath"] = json!({ "path": path, "type": "DirectoryOrCreate" });
    let hostname = json!({ "key": "kubernetes.io/hostname", "operator": "In", "values": [node] });
    volume["spec"]["nodeAffinity"] = json!({
        "required": { "nodeSelectorTerms": [{ "matchExpressions": [hostname] }] },
    });
    volume
}

/// The merge patch that ties `volume` to the claim.
pub(super) fn reserve_patch(
    volume: Option<&PersistentVolume>,
    claim: &PersistentVolumeClaim,
) -> Value {
    let mut patch = json!({ "spec": { "claimRef": claim_reference(claim) } });
    if !volume.is_some_and(|volume| is_tied(volume, claim)) {
        patch["metadata"] = json!({ "annotations": { BOUND_BY_CONTROLLER: "yes" } });
    }
    patch
}

/// The merge patch that names `volume` in the claim, unless its author has.
pub(super) fn bind_patch(claim: &PersistentVolumeClaim, volume: &str) -> Value {
    let mut annotations = json!({ BIND_COMPLETED: "yes" });
    if volume_name(claim).is_none() {
        annotations[BOUND_BY_CONTROLLER] = json!("yes");
    }
    // A claim that was handed over names the provisioner that made the volume.
    let is_handed_over = annotation(claim, STORAGE_PROVISIONER).is_some();
    if volume == provisioned_name(claim) && !is_handed_over {
        annotations[STORAGE_PROVISIONER] = json!(PROVISIONER);
    }
    json!({
        "metadata": { "uid": claim.metadata.uid, "annotations": annotations },
        "spec": { "volumeName": volume },
    })
}

/// The merge patch of the status of a claim bound to `volume`.
pub(super) fn bound_patch(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> Value {
    let spec = volume.spec.clone().unwrap_or_default();
    let mut patch = json!({
        "metadata": { "uid": claim.metadata.uid },
        "status": {
            "phase": "Bound",
            "accessModes": spec.access_modes,
            "capacity": spec.capacity,
        },
    });
    if let Some(class) = spec.volume_attributes_class_name
        && claim_phase(claim) == "Pending"
    {
        // From then on it is the driver's that changes the volume.
        patch["status"]["currentVolumeAttributesClassName"] = json!(class);
    }
    patch
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use kubeproof_runtime::decode::from_value;

    use std::collections::BTreeMap;
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_claim_of_a_class_waits_for_a_node_and_is_handed_over() {
        let class = |provisioner: &str, mode: &str| -> StorageClass {
            let class = json!({
                "metadata": { "name": "c" }, "provisioner": provisioner, "volumeBindingMode": mode,
            });
            from_value(class).unwrap()
        };
        let unbound = |annotations: Value| {
            let mut claim = claim(&json!({ "storageClassName": "c" }), "Pending");
            claim.metadata.annotations = from_value(annotations).unwrap();
            claim
        };
        let none = Volumes::new();
        let selected = json!({ SELECTED_NODE: "node-1" });
        let handed = json!({ SELECTED_NODE: "node-1", STORAGE_PROVISIONER: LOCAL_PATH });
        let made = ClaimStep::Provision("pvc-c".to_owned());
        let (late, now) = ("WaitForFirstConsumer", "Immediate");
        for (annotations, provisioner, mode, expected) in [
            (json!({}), LOCAL_PATH, late, ClaimStep::WaitForConsumer),
            (
                selected.clone(),
                LOCAL_PATH,
                late,
                ClaimStep::HandOver(LOCAL_PATH),
            ),
            (handed, LOCAL_PATH, late, ClaimStep::Nothing),
            (json!({}), NO_PROVISIONER, now, ClaimStep::Nothing),
            (json!({}), "other", now, made.clone()),
            (json!({}), "other", late, ClaimStep::WaitForConsumer),
            (selected, "other", late, made),
        ] {
            let class = class(provisioner, mode);
            let step = claim_step(&unbound(annotations.clone()), &none, Some(&class));
            assert_eq!(step, expected, "{annotations} {provisioner} {mode}");
        }
    }

    #[test]
    fn a_claim_has_the_attributes_class_of_its_volume_from_when_it_is_bound() {
        let mut bound = volume(Some("c"), "Bound", "Delete");
        let class = Some("gold".to_owned());
        bound.spec.as_mut().unwrap().volume_attributes_class_name = class;
        for (phase, expected) in [("Pending", json!("gold")), ("Lost", Value::Null)] {
            let patch = bound_patch(&claim(&json!({}), phase), &bound);
            assert_eq!(
                patch["status"]["currentVolumeAttributesClassName"],
                expected
            );
        }
    }

    fn claim(spec: &Value, phase: &str) -> PersistentVolumeClaim {
        from_value(json!({
            "metadata": { "namespace": "default", "name": "data", "uid": "c" },
            "spec": spec,
            "status": { "phase": phase },
        }))
        .unwrap()
    }

    /// The claim after binding has completed.
    fn completed(mut claim: PersistentVolumeClaim) -> PersistentVolumeClaim {
        let annotation = (BIND_COMPLETED.to_owned(), "yes".to_owned());
        claim.metadata.annotations = Some(BTreeMap::from([annotation]));
        claim
    }

    fn volume(claim_uid: Option<&str>, phase: &str, reclaim: &str) -> PersistentVolume {
        let mut volume = json!({
            "metadata": { "name": "v" },
            "spec": { "persistentVolumeReclaimPolicy": reclaim },
            "status": { "phase": phase },
        });
        if let Some(uid) = claim_uid {
            let tied = json!({ "namespace": "default", "name": "data", "uid": uid });
            volume["spec"]["claimRef"] = tied;
        }
        from_value(volume).unwrap()
    }

    fn one(volume: PersistentVolume) -> Volumes {
        Volumes::from([("v".to_owned(), Arc::new(volume))])
    }

    #[test]
    fn a_claim_is_provisioned_bound_and_reported() {
        let none = Volumes::new();
        let tied = one(volume(Some("c"), "", "Delete"));
        let free = one(volume(None, "Available", "Retain"));
        let foreign = one(volume(Some("x"), "Bound", "Retain"));
        let plain = json!({});
        let static_only = json!({ "storageClassName": "" });
        let named = json!({ "volumeName": "v" });
        let v = || "v".to_owned();
        for (spec, phase, volumes, expected) in [
            (
                &plain,
                "Pending",
                &none,
                ClaimStep::Provision("pvc-c".to_owned()),
            ),
            (&plain, "Pending", &tied, ClaimStep::Bind(v())),
            (&named, "Pending", &tied, ClaimStep::Bind(v())),
            (&named, "Bound", &none, ClaimStep::ReportLost),
            (&named, "Pending", &free, ClaimStep::Reserve(v())),
            (&named, "Pending", &foreign, ClaimStep::Nothing),
            (&static_only, "Pending", &none, ClaimStep::Nothing),
            (&static_only, "Pending", &free, ClaimStep::Reserve(v())),
        ] {
            assert_eq!(
                claim_step(&claim(spec, phase), volumes, None),
                expected,
                "{spec} {phase}"
            );
        }
        let mut terminating = claim(&plain, "Pending");
        terminating.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
        let step = |volumes: &Volumes| claim_step(&terminating, volumes, None);
        assert_eq!(step(&none), ClaimStep::Provision("pvc-c".to_owned()));
        assert_eq!(step(&tied), ClaimStep::Bind(v()), "pods still hold it");
        let bound = |phase| completed(claim(&named, phase));
        let step = |phase| claim_step(&bound(phase), &tied, None);
        assert_eq!(step("Pending"), ClaimStep::ReportBound(v()));
        assert_eq!(step("Bound"), ClaimStep::Nothing);
        let larger =
            json!({ "volumeName": "v", "resources": { "requests": { "storage": "1Gi" } } });
        let step = claim_step(&claim(&larger, "Pending"), &free, None);
        assert_eq!(step, ClaimStep::Nothing, "a volume named is too small");
    }

    #[test]
    fn whom_a_claim_and_a_volume_owe_each_other_to_is_noted() {
        let (tied, free) = (volume(Some("c"), "", "Retain"), volume(None, "", "Retain"));
        let asked = claim(&json!({}), "Pending");
        let by_controller = "/metadata/annotations/pv.kubernetes.io~1bound-by-controller";
        let noted = |patch: &Value| patch.pointer(by_controller).is_some();
        assert!(noted(&reserve_patch(Some(&free), &asked)));
        assert!(!noted(&reserve_patch(Some(&tied), &asked)));
        assert!(noted(&bind_patch(&asked, "v")));
        let named = claim(&json!({ "volumeName": "v" }), "Pending");
        let patch = bind_patch(&named, "v");
        assert!(!noted(&patch));
        assert_eq!(
            patch["metadata"]["annotations"],
            json!({ BIND_COMPLETED: "yes" })
        );
    }

    #[test]
    fn a_volume_is_released_and_then_reclaimed() {
        let bound = claim(&json!({ "volumeName": "v" }), "Bound");
        let unbound = claim(&json!({}), "Pending");
        for (volume, claim, expected) in [
            (
                volume(None, "", "Retain"),
                None,
                VolumeStep::Report("Available"),
            ),
            (
                volume(Some("c"), "", "Delete"),
                Some(&unbound),
                VolumeStep::Nothing,
            ),
            (
                volume(Some("c"), "", "Delete"),
                Some(&bound),
                VolumeStep::Report("Bound"),
            ),
            (
                volume(Some("c"), "Bound", "Delete"),
                Some(&bound),
                VolumeStep::Nothing,
            ),
            (
                volume(Some("c"), "Bound", "Delete"),
                None,
                VolumeStep::Report("Released"),
            ),
            (
                volume(Some("c"), "Released", "Delete"),
                None,
                VolumeStep::Delete,
            ),
            (
                volume(Some("c"), "Released", "Retain"),
                None,
                VolumeStep::Nothing,
            ),
            (
                volume(Some("old"), "Bound", "Retain"),
                Some(&bound),
                VolumeStep::Report("Released"),
            ),
        ] {
            assert_eq!(volume_step(&volume, claim), expected, "{volume:?}");
        }
    }
}
