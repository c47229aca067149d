//! Whether claims are as large as their templates want them.
//!
//! Source: openkruise/kruise pkg/util/pvc and pkg/controller/statefulset/statefulset_resize_pvc.go.

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, PersistentVolumeClaimSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::ResourceExt;
use kubeproof_runtime::pod_resources::amount;

const STORAGE: &str = "storage";
/// The annotation with the set whose template a claim was resized for; its changes wake that set.
pub(super) const SET_ANNOTATION: &str = "apps.kruise.io/owned-by-asts";

/// How a claim and its template stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fit {
    /// The claim differs in more than size.
    Differs,
    /// The claim requests less storage than the template.
    TooSmall,
    /// The claim requests enough storage.
    Enough,
}

/// How `claim` stands to `template`.
pub(super) fn fit(claim: &PersistentVolumeClaim, template: &PersistentVolumeClaim) -> Fit {
    let (Some(own), Some(wanted)) = (&claim.spec, &template.spec) else {
        return Fit::Differs;
    };
    // A template that names no class takes the default one, which its claims then name.
    let is_other_class = match (&own.storage_class_name, &wanted.storage_class_name) {
        (Some(own), Some(wanted)) => own != wanted,
        _ => false,
    };
    if is_other_class || own.access_modes != wanted.access_modes {
        return Fit::Differs;
    }
    match (asked_for(own), asked_for(wanted)) {
        (Some(own), Some(wanted)) if own < wanted => Fit::TooSmall,
        _ => Fit::Enough,
    }
}

/// Whether the volume of `claim` has the size that the claim requests.
pub(super) fn has_size(claim: &PersistentVolumeClaim) -> bool {
    let status = claim.status.as_ref();
    let capacity = status.and_then(|status| status.capacity.as_ref()?.get(STORAGE));
    let capacity = capacity.map(|quantity| amount(STORAGE, quantity));
    let asked_for = claim.spec.as_ref().and_then(asked_for);
    capacity
        .zip(asked_for)
        .is_some_and(|(own, wanted)| own >= wanted)
}

/// Whether all is done about the size of `claim` that its pod may wait for: what is left may be for
/// the node of the next pod to do.
pub(super) fn is_done(claim: &PersistentVolumeClaim) -> bool {
    let status = claim.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_ref());
    let mut conditions = conditions.into_iter().flatten();
    has_size(claim)
        || conditions.any(|condition| {
            condition.type_ == "FileSystemResizePending" && condition.status == "True"
        })
}

/// Returns `claim` with the requests of `template`, for the set `name`.
pub(super) fn resized(
    claim: &PersistentVolumeClaim,
    template: &PersistentVolumeClaim,
    name: &str,
) -> PersistentVolumeClaim {
    let mut claim = claim.clone();
    claim
        .annotations_mut()
        .insert(SET_ANNOTATION.to_owned(), name.to_owned());
    if let (Some(own), Some(wanted)) = (&mut claim.spec, &template.spec) {
        own.resources.clone_from(&wanted.resources);
    }
    claim
}

fn asked_for(spec: &PersistentVolumeClaimSpec) -> Option<i128> {
    let requests = spec.resources.as_ref()?.requests.as_ref()?;
    let storage: &Quantity = requests.get(STORAGE)?;
    Some(amount(STORAGE, storage))
}

#[cfg(test)]
mod tests {
    use kubeproof_runtime::decode::from_value;
    use serde_json::{Value, json};

    use super::*;

    fn claim(size: &str, capacity: &str, rest: Value) -> PersistentVolumeClaim {
        let mut spec = json!({"accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": size}}});
        for (field, value) in rest.as_object().cloned().unwrap_or_default() {
            spec[field] = value;
        }
        let status = json!({"capacity": {"storage": capacity}});
        from_value(json!({"spec": spec, "status": status})).unwrap()
    }

    #[test]
    fn a_claim_is_compared_by_class_modes_and_size() {
        let template = claim("2Gi", "0", json!({}));
        let own = |size, rest| fit(&claim(size, "1Gi", rest), &template);
        assert_eq!(
            own("1Gi", json!({"storageClassName": "default"})),
            Fit::TooSmall
        );
        assert_eq!(own("2048Mi", json!({})), Fit::Enough);
        assert_eq!(own("3Gi", json!({})), Fit::Enough);
        assert_eq!(
            own("2Gi", json!({"accessModes": ["ReadOnlyMany"]})),
            Fit::Differs
        );
        let fast = claim("2Gi", "0", json!({"storageClassName": "fast"}));
        let slow = claim("1Gi", "1Gi", json!({"storageClassName": "slow"}));
        assert_eq!(fit(&slow, &fast), Fit::Differs);
    }

    #[test]
    fn a_claim_has_its_size_when_its_volume_has() {
        let mut growing = claim("2Gi", "1Gi", json!({}));
        assert!(!has_size(&growing) && !is_done(&growing));
        let pending = json!([{"type": "FileSystemResizePending", "status": "True"}]);
        let status = growing.status.as_mut().unwrap();
        status.conditions = from_value(pending).unwrap();
        assert!(!has_size(&growing) && is_done(&growing));
        assert!(has_size(&claim("2Gi", "2048Mi", json!({}))));
        assert!(has_size(&claim("2Gi", "3Gi", json!({}))));
    }
}
