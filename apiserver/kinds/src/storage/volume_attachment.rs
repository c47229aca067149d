//! VolumeAttachments.

use crate::columns::Printable;
use crate::core::persistent_volume::validate_inline;
use crate::core::pod::volume_sources::validate_csi_driver_name;
use crate::go_struct::shown_as;
use crate::json::{Value, json};
use crate::meta::GroupVersionKind;
use crate::meta::validation::dns1123_subdomain;
use crate::schema::{Schema, builtin};
use crate::status::{FieldErrors, FieldPath};
use crate::unstructured::{entries, text};
use crate::validation::{invalid_as, invalid_each};
use crate::{MetadataCheck, ResetFields, Strategy};

const ONE_OF: &str = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
const METADATA_BYTES_MAX: usize = 256 * 1024;
const MESSAGE_BYTES_MAX: usize = 1024;

#[derive(Debug)]
pub(crate) struct VolumeAttachment;

impl Strategy for VolumeAttachment {
    fn allow_unconditional_update(&self) -> bool {
        false
    }

    fn return_deleted_object(&self) -> bool {
        true
    }

    fn metadata_checks(&self) -> &'static [MetadataCheck] {
        &[MetadataCheck::ObjectMeta]
    }

    fn status_metadata_checks(&self) -> &'static [MetadataCheck] {
        &[MetadataCheck::ObjectMeta]
    }

    fn status_update_keeps(&self, field: &str) -> bool {
        field != "managedFields"
    }

    fn reset_fields(&self, subresource: &str) -> ResetFields {
        match subresource {
            "status" => &[&["spec"], &["metadata"]],
            _ => &[&["status"]],
        }
    }

    fn validate(&self, attachment: &Value) -> FieldErrors {
        validate_attachment(attachment)
    }

    fn validate_update(&self, new: &Value, old: &Value) -> FieldErrors {
        let mut errors = validate_attachment(new);
        if new["spec"] != old["spec"] {
            let kind = GroupVersionKind {
                group: "storage.k8s.io".to_owned(),
                version: "v1".to_owned(),
                kind: "VolumeAttachment".to_owned(),
            };
            let field = builtin(&kind).and_then(|own| own.field("spec"));
            if let Some(Schema::Object(spec)) = field.map(|own| &own.schema) {
                let shown = shown_as(spec, &new["spec"]);
                let path = FieldPath::new("spec");
                invalid_as(&path, &shown, "field is immutable", &mut errors);
            }
        }
        errors
    }

    fn validate_status_update(&self, new: &Value, old: &Value) -> FieldErrors {
        self.validate_update(new, old)
    }

    fn cells(&self, view: Printable<'_>) -> Option<Vec<Value>> {
        Some(vec![
            view.name(),
            json!(view.str("/spec/attacher")),
            json!(view.str("/spec/source/persistentVolumeName")),
            json!(view.str("/spec/nodeName")),
            json!(view.bool("/status/attached")),
            view.age(),
        ])
    }
}

/// Faults of an attachment, on creation and on update.
fn validate_attachment(attachment: &Value) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let (spec, path) = (&attachment["spec"], FieldPath::new("spec"));
    validate_csi_driver_name(&spec["attacher"], &path.child("attacher"), &mut errors);
    let (source, at) = (&spec["source"], path.child("source"));
    let volume = &source["persistentVolumeName"];
    match (volume.is_null(), source["inlineVolumeSpec"].is_null()) {
        (true, true) => errors.required(&at, ONE_OF),
        (false, false) => errors.forbidden(&at, ONE_OF),
        (false, true) if text(volume).is_empty() => {
            let detail = "must specify non empty persistentVolumeName";
            errors.required(&at.child("persistentVolumeName"), detail);
        }
        (true, false) => {
            let path = at.child("inlineVolumeSpec");
            validate_inline(&source["inlineVolumeSpec"], &path, &mut errors);
        }
        (false, true) => {}
    }
    let node = &spec["nodeName"];
    let faults = dns1123_subdomain(text(node));
    invalid_each(faults, node, &path.child("nodeName"), &mut errors);
    let (status, path) = (&attachment["status"], FieldPath::new("status"));
    let bytes: usize = entries(&status["attachmentMetadata"])
        .map(|(key, value)| key.len() + text(value).len())
        .sum();
    if bytes > METADATA_BYTES_MAX {
        errors.too_long(&path.child("attachmentMetadata"), METADATA_BYTES_MAX);
    }
    for field in ["attachError", "detachError"] {
        if text(&status[field]["message"]).len() > MESSAGE_BYTES_MAX {
            let path = path.child(field).child("message");
            errors.too_long(&path, METADATA_BYTES_MAX);
        }
        let code = &status[field]["errorCode"];
        if code.as_i64().is_some_and(|own| own < 0) {
            let path = path.child(field).child("errorCode");
            errors.invalid(&path, code, "must be between 0 and 2147483647, inclusive");
        }
    }
    let path = FieldPath::new("spec.source.persistentVolumeName");
    if !volume.is_null() {
        invalid_each(dns1123_subdomain(text(volume)), volume, &path, &mut errors);
    }
    errors
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;

    #[test]
    fn a_volume_within_an_attachment_has_a_driver_and_little_else() {
        let faults = |spec: Value| {
            let attachment = json!({"spec": {"attacher": "a.io", "nodeName": "n",
                "source": {"inlineVolumeSpec": spec}}});
            let errors = VolumeAttachment.validate(&attachment);
            let causes = errors.causes().iter();
            causes
                .map(|own| own.field.rsplit('.').next().unwrap_or_default().to_owned())
                .collect::<Vec<_>>()
        };
        let csi = json!({"driver": "a.io", "volumeHandle": "h"});
        assert!(faults(json!({"accessModes": ["ReadWriteOnce"], "csi": csi})).is_empty());
        assert_eq!(
            faults(
                json!({"capacity": {"storage": "1Gi"}, "nfs": {"server": "s", "path": "/p"},
                "persistentVolumeReclaimPolicy": "Delete", "storageClassName": "c",
                "volumeMode": "Block"})
            ),
            [
                "capacity",
                "csi",
                "accessModes",
                "persistentVolumeReclaimPolicy",
                "storageClassName",
                "volumeMode"
            ]
        );
    }
}
