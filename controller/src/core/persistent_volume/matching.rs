//! Chooses the best volume for a claim, as upstream's component-helpers do.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, PersistentVolumeSpec};
use kubeproof_runtime::volume::{capacity, is_selected, suits};

/// Volumes by name.
pub(super) type Volumes = BTreeMap<String, Arc<PersistentVolume>>;

/// The name of the available volume that suits `claim` best: of those with the fewest access modes the smallest.
pub(super) fn best<'a>(claim: &PersistentVolumeClaim, volumes: &'a Volumes) -> Option<&'a str> {
    let wanted = claim.spec.as_ref()?;
    let suitable = volumes.iter().filter_map(|(name, volume)| {
        let offered = volume.spec.as_ref()?;
        let found = is_available(volume) && suits(offered, wanted) && is_selected(volume, wanted);
        found.then(|| (modes(offered).len(), capacity(offered), name.as_str()))
    });
    suitable.min().map(|(_, _, name)| name)
}

/// Whether the volume is Available, claimed by no claim, and not being deleted.
fn is_available(volume: &PersistentVolume) -> bool {
    let phase = volume.status.as_ref().and_then(|it| it.phase.as_deref());
    let tied = volume.spec.as_ref().and_then(|it| it.claim_ref.as_ref());
    phase == Some("Available") && tied.is_none() && volume.metadata.deletion_timestamp.is_none()
}

fn modes(volume: &PersistentVolumeSpec) -> &[String] {
    volume.access_modes.as_deref().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use kubeproof_runtime::decode::from_value;
    use serde_json::{Value, json};

    use super::*;

    fn volume(name: &str, spec: &Value, phase: &str) -> PersistentVolume {
        let metadata = json!({ "name": name, "labels": { "name": name } });
        let volume = json!({ "metadata": metadata, "spec": spec, "status": { "phase": phase } });
        from_value(volume).unwrap()
    }

    fn chosen<'a>(spec: &Value, volumes: &'a Volumes) -> Option<&'a str> {
        let claim = json!({ "metadata": { "name": "c", "namespace": "n" }, "spec": spec });
        best(&from_value(claim).unwrap(), volumes)
    }

    fn with(mut spec: Value, more: &Value) -> Value {
        let fields = spec.as_object_mut().unwrap();
        fields.extend(more.as_object().unwrap().clone());
        spec
    }

    #[test]
    fn the_smallest_volume_that_has_all_a_claim_asks_for_is_the_best() {
        let manual = json!({ "storageClassName": "manual" });
        let block = json!({ "volumeMode": "Block" });
        let both = json!({ "accessModes": ["ReadOnlyMany", "ReadWriteOnce"] });
        let tied = json!({ "claimRef": { "name": "other", "namespace": "n" } });
        let volumes = [
            ("big", "10Gi", &json!({}), "Available"),
            ("block", "1Gi", &block, "Available"),
            ("both", "1Gi", &both, "Available"),
            ("manual", "2Gi", &manual, "Available"),
            ("released", "1Gi", &json!({}), "Released"),
            ("small", "3Gi", &json!({}), "Available"),
            ("tied", "1Gi", &tied, "Available"),
        ];
        let volumes = volumes.map(|(name, storage, more, phase)| {
            let capacity = json!({ "storage": storage });
            let spec = json!({ "capacity": capacity, "accessModes": ["ReadWriteOnce"] });
            (
                name.to_owned(),
                Arc::new(volume(name, &with(spec, more), phase)),
            )
        });
        let volumes = Volumes::from(volumes);
        let big = json!({ "selector": { "matchLabels": { "name": "big" } } });
        let many = json!({ "accessModes": ["ReadOnlyMany"] });
        let never = json!({ "accessModes": ["ReadWriteMany"] });
        for (storage, more, expected) in [
            ("1Gi", &json!({}), Some("small")),
            ("4Gi", &json!({}), Some("big")),
            ("11Gi", &json!({}), None),
            ("1Gi", &manual, Some("manual")),
            ("3Gi", &manual, None),
            ("1Gi", &block, Some("block")),
            ("1Gi", &big, Some("big")),
            ("1Gi", &many, Some("both")),
            ("1Gi", &never, None),
        ] {
            let resources = json!({ "requests": { "storage": storage } });
            let spec = json!({ "accessModes": ["ReadWriteOnce"], "resources": resources });
            let claim = with(spec, more);
            assert_eq!(chosen(&claim, &volumes), expected, "{claim}");
        }
    }
}
