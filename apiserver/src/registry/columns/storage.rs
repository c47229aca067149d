//! Volumes, claims, and the kinds of group `storage.k8s.io`.

use serde_json::{Value, json};

use super::view::{View, or_unset};

const CLASS_ANNOTATION: &str = "/metadata/annotations/volume.beta.kubernetes.io~1storage-class";
const DEFAULT_CLASS_ANNOTATIONS: [&str; 2] = [
    "/metadata/annotations/storageclass.kubernetes.io~1is-default-class",
    "/metadata/annotations/storageclass.beta.kubernetes.io~1is-default-class",
];

pub(super) fn persistent_volume_claim(view: View<'_>) -> Vec<Value> {
    // What a claim got is shown from its binding on; what it asks for never is.
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
        json!(view.str_or("/spec/volumeAttributesClassName", "<unset>")),
        view.age(),
        json!(view.str_or("/spec/volumeMode", "<unset>")),
    ]
}

pub(super) fn persistent_volume(view: View<'_>) -> Vec<Value> {
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
        json!(view.str_or("/spec/volumeAttributesClassName", "<unset>")),
        json!(view.str("/status/reason")),
        view.age(),
        json!(view.str_or("/spec/volumeMode", "<unset>")),
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
        "VolumeAttributesClass" => vec![view.name(), json!(view.str("/driverName")), view.age()],
        _ => return None,
    })
}

fn storage_class(view: View<'_>) -> Vec<Value> {
    let is_default = |annotation: &str| view.str(annotation) == "true";
    let mark = if DEFAULT_CLASS_ANNOTATIONS.into_iter().any(is_default) {
        " (default)"
    } else {
        ""
    };
    vec![
        json!(format!("{}{mark}", view.str("/metadata/name"))),
        json!(view.str("/provisioner")),
        json!(view.str_or("/reclaimPolicy", "Delete")),
        json!(view.str_or("/volumeBindingMode", "Immediate")),
        json!(view.bool("/allowVolumeExpansion")),
        view.age(),
    ]
}

fn csi_driver(view: View<'_>) -> Vec<Value> {
    let attach_required = view
        .get("/spec/attachRequired")
        .is_none_or(|value| *value == true);
    vec![
        view.name(),
        json!(attach_required),
        json!(view.bool("/spec/podInfoOnMount")),
        json!(view.bool("/spec/storageCapacity")),
        json!(or_unset(view.joined("/spec/tokenRequests", "/audience"))),
        json!(view.bool("/spec/requiresRepublish")),
        json!(or_unset(view.strs("/spec/volumeLifecycleModes").join(","))),
        view.age(),
    ]
}

fn phase(view: View<'_>) -> &str {
    if view.is_terminating() {
        "Terminating"
    } else {
        view.str("/status/phase")
    }
}

/// The annotation that came before the field still wins over it.
fn class(view: View<'_>) -> &str {
    view.str_or(CLASS_ANNOTATION, view.str("/spec/storageClassName"))
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
