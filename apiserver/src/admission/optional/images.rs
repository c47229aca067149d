//! AlwaysPullImages: a node pulls the images of a pod even if it has them.

use std::collections::BTreeSet;

use crate::admission::attributes::Attributes;
use crate::json::Value;
use crate::status::{ApiError, FieldErrors, FieldPath};

/// The lists of containers, in the order in which upstream visits them.
const LISTS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];
const ALWAYS: &str = "Always";

fn containers<'p>(pod: &'p Value, list: &str) -> impl Iterator<Item = &'p Value> {
    pod["spec"][list].as_array().into_iter().flatten()
}

fn images(pod: &Value) -> BTreeSet<&str> {
    let containers = LISTS.iter().flat_map(|list| containers(pod, list));
    containers.filter_map(|own| own["image"].as_str()).collect()
}

/// Whether the pod has an image that `old` does not have.
pub(super) fn are_new(pod: &Value, old: &Value) -> bool {
    !images(pod).is_subset(&images(old))
}

/// Sets the pull policy of every container, and of volumes that are images.
pub(super) fn pull_always(pod: &mut Value) {
    for list in LISTS {
        let own = pod["spec"].get_mut(list).and_then(Value::as_array_mut);
        for container in own.into_iter().flatten() {
            container["imagePullPolicy"] = ALWAYS.into();
        }
    }
    let volumes = pod["spec"].get_mut("volumes").and_then(Value::as_array_mut);
    for volume in volumes.into_iter().flatten() {
        if let Some(image) = volume.get_mut("image").filter(|image| image.is_object()) {
            image["pullPolicy"] = ALWAYS.into();
        }
    }
}

/// Refuses a pod with another pull policy, which a webhook may have set.
pub(super) fn check(attributes: Attributes<'_>) -> Result<(), ApiError> {
    let spec = FieldPath::new("spec");
    let mut errors = FieldErrors::new();
    for list in LISTS {
        for (index, container) in containers(attributes.object, list).enumerate() {
            let policy = &container["imagePullPolicy"];
            if policy != ALWAYS {
                let path = spec.child(list).index(index).child("imagePullPolicy");
                errors.not_supported(&path, policy, &[ALWAYS]);
            }
        }
    }
    for (index, volume) in containers(attributes.object, "volumes").enumerate() {
        let (image, policy) = (&volume["image"], &volume["image"]["pullPolicy"]);
        if image.is_object() && policy != ALWAYS {
            let path = spec.child("volumes").index(index);
            let path = path.child("image").child("pullPolicy");
            errors.not_supported(&path, policy, &[ALWAYS]);
        }
    }
    let refusals = errors.causes().iter().map(|cause| {
        let message = format!("{}: {}", cause.field, cause.message);
        attributes.forbidden(message).to_string()
    });
    let refusals: Vec<String> = refusals.collect();
    // Upstream's list of refusals is no status, so it is answered without a reason.
    match refusals.as_slice() {
        [] => Ok(()),
        [refusal] => Err(ApiError::Unknown(refusal.clone())),
        refusals => Err(ApiError::Unknown(format!("[{}]", refusals.join(", ")))),
    }
}
