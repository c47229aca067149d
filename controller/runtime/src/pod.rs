//! Pods as controllers hold them, and accessors that controllers share.

mod object;
mod shared;
mod shared_spec;
mod status;

use std::borrow::Cow;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ObjectReference, PersistentVolumeClaim, PodCondition, Volume};
use kube::ResourceExt;

use crate::controller_ref::{controller_of, reference_to};

pub use object::Pod;
pub use shared::Shared;
pub use shared_spec::SharedPodSpec;
pub use status::{ContainerStatus, PodStatus};

/// The label that names the revision a pod was made from.
pub const REVISION_LABEL: &str = "controller-revision-hash";
/// The annotation that says how dear a pod is; without it, 0.
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// A claim that a volume of a pod uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimName<'a> {
    /// The claim's name.
    pub name: Cow<'a, str>,
    /// Whether the claim is made for the pod from a template in its volume, and owned by it.
    pub is_ephemeral: bool,
}

/// The claims that the pod's volumes use.
pub fn claims(pod: &Pod) -> impl Iterator<Item = ClaimName<'_>> {
    let volumes = pod
        .spec
        .iter()
        .flat_map(|spec| spec.volumes.iter().flatten());
    volumes.filter_map(|volume| {
        if let Some(claim) = &volume.persistent_volume_claim {
            return Some(ClaimName {
                name: Cow::Borrowed(&claim.claim_name),
                is_ephemeral: false,
            });
        }
        volume.ephemeral.as_ref().map(|_| ClaimName {
            name: Cow::Owned(ephemeral_claim_name(pod, volume)),
            is_ephemeral: true,
        })
    })
}

/// The name of the claim that is made for an ephemeral volume of the pod.
#[must_use]
pub fn ephemeral_claim_name(pod: &Pod, volume: &Volume) -> String {
    format!("{}-{}", pod.name_any(), volume.name)
}

/// The error of upstream's `VolumeIsForPod`, if the claim of an ephemeral volume was not made for the pod.
#[must_use]
pub fn is_not_owner(pod: &Pod, claim: &PersistentVolumeClaim) -> Option<String> {
    let owner = controller_of(&claim.metadata);
    if owner.is_some_and(|owner| Some(&owner.uid) == pod.metadata.uid.as_ref()) {
        return None;
    }
    let namespace = pod.namespace().unwrap_or_default();
    let (claim, pod) = (claim.name_any(), pod.name_any());
    Some(format!(
        "PVC {namespace}/{claim} was not created for pod {namespace}/{pod} (pod is not owner)"
    ))
}

/// Returns the reference to the pod for its events.
#[must_use]
pub fn reference(pod: &Pod) -> ObjectReference {
    reference_to("v1", "Pod", &pod.metadata)
}

fn phase(pod: &Pod) -> Option<&str> {
    pod.status.as_ref()?.phase.as_deref()
}

/// The API server has stored the pod: only then it has a phase.
#[must_use]
pub fn is_created(pod: &Pod) -> bool {
    phase(pod).is_some_and(|phase| !phase.is_empty())
}

/// Phase Pending.
#[must_use]
pub fn is_pending(pod: &Pod) -> bool {
    phase(pod) == Some("Pending")
}

/// Phase Running.
#[must_use]
pub fn is_running(pod: &Pod) -> bool {
    phase(pod) == Some("Running")
}

/// Phase Failed or Succeeded: the pod will not run again.
#[must_use]
pub fn is_finished(pod: &Pod) -> bool {
    matches!(phase(pod), Some("Failed" | "Succeeded"))
}

/// Whether the pod has come to a good end.
#[must_use]
pub fn is_succeeded(pod: &Pod) -> bool {
    phase(pod) == Some("Succeeded")
}

/// Whether the pod has come to a bad end.
#[must_use]
pub fn is_failed(pod: &Pod) -> bool {
    phase(pod) == Some("Failed")
}

/// Neither finished nor on its way out.
#[must_use]
pub fn is_active(pod: &Pod) -> bool {
    !is_finished(pod) && !is_terminating(pod)
}

/// The pod's conditions.
pub fn conditions(pod: &Pod) -> impl Iterator<Item = &PodCondition> {
    let conditions = pod.status.iter().flat_map(|status| &status.conditions);
    conditions.flatten().map(|condition| &**condition)
}

/// The pod's condition of the type `wanted`.
#[must_use]
pub fn condition<'a>(pod: &'a Pod, wanted: &str) -> Option<&'a PodCondition> {
    conditions(pod).find(|known| known.type_ == wanted)
}

/// Since when the condition Ready is what it is, when it is True.
#[must_use]
pub fn ready_since(pod: &Pod) -> Option<Timestamp> {
    ready_condition(pod)?
        .last_transition_time
        .as_ref()
        .map(|time| time.0)
}

/// The node that the pod is bound to, empty while it is not.
#[must_use]
pub fn node(pod: &Pod) -> &str {
    let spec = pod.spec.as_ref();
    spec.and_then(|spec| spec.node_name.as_deref())
        .unwrap_or_default()
}

/// How far the pod has come: Pending, then Unknown, then Running.
#[must_use]
pub fn phase_rank(pod: &Pod) -> u8 {
    match phase(pod) {
        Some("Running") => 2,
        Some("Unknown") => 1,
        _ => 0,
    }
}

/// The pod's deletion cost, from its annotation. A cost that can't be read counts as 0; the server
/// refuses most of them.
#[must_use]
pub fn deletion_cost(pod: &Pod) -> i32 {
    let annotations = pod.metadata.annotations.as_ref();
    let cost = annotations.and_then(|annotations| annotations.get(DELETION_COST));
    cost.and_then(|cost| cost.parse().ok()).unwrap_or(0)
}

/// Whether the pod is being deleted.
#[must_use]
pub fn is_terminating(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}

/// The condition Ready, when it is True.
fn ready_condition(pod: &Pod) -> Option<&PodCondition> {
    condition(pod, "Ready").filter(|ready| ready.status == "True")
}

/// Condition Ready is True, whatever the phase.
#[must_use]
pub fn has_ready_condition(pod: &Pod) -> bool {
    ready_condition(pod).is_some()
}

/// Phase Running and condition Ready is True.
#[must_use]
pub fn is_ready(pod: &Pod) -> bool {
    phase(pod) == Some("Running") && has_ready_condition(pod)
}

/// Ready for at least `min_ready_seconds`; does not look at the phase.
#[must_use]
pub fn is_available(pod: &Pod, min_ready_seconds: i32, now: Timestamp) -> bool {
    ready_condition(pod).is_some()
        && until_available(pod, min_ready_seconds, now).is_some_and(|left| left.is_zero())
}

/// The time until a ready pod becomes available.
///
/// None when it is not ready, or when the condition has no transition time.
#[must_use]
pub fn until_available(pod: &Pod, min_ready_seconds: i32, now: Timestamp) -> Option<Duration> {
    let ready = ready_condition(pod)?;
    if min_ready_seconds <= 0 {
        return Some(Duration::ZERO);
    }
    let since = ready.last_transition_time.as_ref()?.0;
    let due = since
        .checked_add(jiff::SignedDuration::from_secs(i64::from(
            min_ready_seconds,
        )))
        .ok()?;
    Some(Duration::try_from(due.duration_since(now)).unwrap_or(Duration::ZERO))
}

/// The name of the revision from which the pod was created, empty if it is not labeled.
#[must_use]
pub fn revision(pod: &Pod) -> &str {
    let labels = pod.metadata.labels.as_ref();
    labels
        .and_then(|labels| labels.get(REVISION_LABEL))
        .map_or("", String::as_str)
}

/// The parent's name and the ordinal in `<parent>-<ordinal>`.
///
/// None when the name has another form; the ordinal is None when it exceeds 32 bits.
#[must_use]
pub fn parent_and_ordinal(name: &str) -> Option<(&str, Option<i32>)> {
    let (parent, digits) = name.rsplit_once('-')?;
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some((parent, digits.parse().ok()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::decode::from_value;

    #[test]
    fn a_pod_is_available_once_it_was_ready_long_enough() {
        let pod = json!({
            "metadata": {"name": "web-0"},
            "status": {"phase": "Running", "conditions": [
                {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}
        });
        let pod: Pod = from_value(pod).unwrap();
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        assert!(is_available(&pod, 0, at("2026-01-01T00:00:00Z")));
        assert!(!is_available(&pod, 10, at("2026-01-01T00:00:09.5Z")));
        assert!(is_available(&pod, 10, at("2026-01-01T00:00:10Z")));
        let left = until_available(&pod, 10, at("2026-01-01T00:00:04Z"));
        assert_eq!(left, Some(Duration::from_secs(6)));
    }

    #[test]
    fn ordinals_are_32_bit_decimal_suffixes() {
        assert_eq!(parent_and_ordinal("web-0"), Some(("web", Some(0))));
        assert_eq!(parent_and_ordinal("my-web-12"), Some(("my-web", Some(12))));
        assert_eq!(parent_and_ordinal("web-4294967296"), Some(("web", None)));
        assert_eq!(parent_and_ordinal("web-x"), None);
        assert_eq!(parent_and_ordinal("web"), None);
        assert_eq!(parent_and_ordinal("web-"), None);
    }
}
