//! Volumes, claims, and the kinds of group `storage.k8s.io`.

use serde_json::{Value, json};

use super::view::{View, or_none};

const CLASS_ANNOTATION: &str = "/metadata/annotations/volume.beta.kubernetes.io~1storage-class";
const DEFAULT_CLASS_ANNOTATIONS: [&str; 2] = [
    "/metadata/annotations/storageclass.kubernetes.io~1is-default-class",
    "/metadata/annotations/storageclass.beta.kubernetes.io~1is-default-class",
];
const DEFAULT_ATTRIBUTES_ANNOTATION: &str =
    "/metadata/annotations/volumeattributesclass.alpha.kubernetes.io~1is-default-class";

pub(super) fn persistent_volume_claim(view: View<'_>) -> Vec<Value> {
    let or_unset = |pointer| or_unset(view, pointer);
    // The granted capacity and modes are shown once the claim is bound; the requested ones never
    // are.
    let (capacity, modes) = match view.str("/spec/volumeName") {
        "" => (String::new(), String::new()),
        _ => (
            view.scalar("/status/capacity/storage")
                .unwrap_or_else(|| "0".to_owned()),
            access_modes(view, "/status/accessModes"),
        ),
    };
    vec![
        view.name(),
        json!(phase(view)),
        json!(view.str("/spec/volumeName")),
        json!(capacity),
        json!(modes),
        json!(class(view)),
        or_unset("/spec/volumeAttributesClassName"),
        view.age(),
        or_unset("/spec/volumeMode"),
    ]
}

pub(super) fn persistent_volume(view: View<'_>) -> Vec<Value> {
    let or_unset = |pointer| or_unset(view, pointer);
    let claim = match view.get("/spec/claimRef") {
        Some(_) => {
            format!(
                "{}/{}",
                view.str("/spec/claimRef/namespace"),
                view.str("/spec/claimRef/name")
            )
        }
        None => String::new(),
    };
    vec![
        view.name(),
        json!(
            view.scalar("/spec/capacity/storage")
                .unwrap_or_else(|| "0".to_owned())
        ),
        json!(access_modes(view, "/spec/accessModes")),
        json!(view.str("/spec/persistentVolumeReclaimPolicy")),
        json!(phase(view)),
        json!(claim),
        json!(class(view)),
        or_unset("/spec/volumeAttributesClassName"),
        json!(view.str("/status/reason")),
        view.age(),
        or_unset("/spec/volumeMode"),
    ]
}

pub(super) fn storage_group(kind: &str, view: View<'_>) -> Option<Vec<Value>> {
    Some(match kind {
        "StorageClass" => storage_class(view),
        "CSIDriver" => csi_driver(view),
        "CSINode" => vec![view.name(), json!(view.len("/spec/drivers")), view.age()],
        "VolumeAttachment" => vec![
            view.name(),
            json!(view.str("/spec/attacher")),
            json!(view.str("/spec/source/persistentVolumeName")),
            json!(view.str("/spec/nodeName")),
            json!(view.bool("/status/attached")),
            view.age(),
        ],
        "VolumeAttributesClass" => vec![
            named_default(view, &[DEFAULT_ATTRIBUTES_ANNOTATION]),
            json!(view.str("/driverName")),
            view.age(),
        ],
        _ => return None,
    })
}

fn storage_class(view: View<'_>) -> Vec<Value> {
    vec![
        named_default(view, &DEFAULT_CLASS_ANNOTATIONS),
        json!(view.str("/provisioner")),
        json!(view.str_or("/reclaimPolicy", "Delete")),
        json!(view.str_or("/volumeBindingMode", "Immediate")),
        json!(view.bool("/allowVolumeExpansion")),
        view.age(),
    ]
}

/// The name of a class, and whether one of `annotations` makes it the default.
fn named_default(view: View<'_>, annotations: &[&str]) -> Value {
    let name = view.str("/metadata/name");
    let is_default = annotations.iter().any(|path| view.str(path) == "true");
    json!(format!(
        "{name}{}",
        if is_default { " (default)" } else { "" }
    ))
}

fn csi_driver(view: View<'_>) -> Vec<Value> {
    let attach_required = view
        .get("/spec/attachRequired")
        .is_none_or(|value| *value == true);
    let token_requests = view.get("/spec/tokenRequests");
    let token_requests = token_requests.map(|_| view.joined("/spec/tokenRequests", "/audience"));
    vec![
        view.name(),
        json!(attach_required),
        json!(view.bool("/spec/podInfoOnMount")),
        json!(view.bool("/spec/storageCapacity")),
        json!(token_requests.unwrap_or_else(|| "<unset>".to_owned())),
        json!(view.bool("/spec/requiresRepublish")),
        json!(or_none(view.strs("/spec/volumeLifecycleModes").join(","))),
        view.age(),
    ]
}

/// The text of a field that may be absent; an empty field is shown as empty.
fn or_unset(view: View<'_>, pointer: &str) -> Value {
    json!(view.scalar(pointer).unwrap_or_else(|| "<unset>".to_owned()))
}

fn phase(view: View<'_>) -> &str {
    if view.is_terminating() {
        "Terminating"
    } else {
        view.str("/status/phase")
    }
}

/// The annotation that came before the field still wins over it, even an empty one.
fn class(view: View<'_>) -> &str {
    match view.get(CLASS_ANNOTATION) {
        Some(_) => view.str(CLASS_ANNOTATION),
        None => view.str("/spec/storageClassName"),
    }
}

fn access_modes(view: View<'_>, pointer: &str) -> String {
    const SHORT: [(&str, &str); 4] = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let modes = view.strs(pointer);
    let has = SHORT.into_iter().filter(|(mode, _)| modes.contains(mode));
    has.map(|(_, short)| short).collect::<Vec<_>>().join(",")
}
