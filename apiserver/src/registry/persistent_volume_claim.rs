//! PersistentVolumeClaims.

use serde_json::{Value, json};

use super::{Context, Strategy};
use crate::meta::object::{child_mut, default};
use crate::schema::quantity::Quantity;
use crate::status::{FieldErrors, FieldPath};

#[derive(Debug)]
pub(super) struct PersistentVolumeClaim;

impl Strategy for PersistentVolumeClaim {
    fn returns_deleted_object(&self) -> bool {
        true
    }

    fn default(&self, claim: &mut Value) {
        default(child_mut(claim, "spec"), "volumeMode", "Filesystem");
    }

    fn prepare_for_create(&self, claim: &mut Value, _context: Context<'_>) {
        claim["status"] = json!({ "phase": "Pending" });
    }

    fn validate(&self, claim: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let path = FieldPath::new("spec");
        let spec = &claim["spec"];
        let modes = spec["accessModes"]
            .as_array()
            .map_or(&[][..], Vec::as_slice);
        if modes.is_empty() {
            let detail = "at least 1 access mode is required";
            errors.required(&path.child("accessModes"), detail);
        }
        for mode in modes {
            let supported = [
                "ReadOnlyMany",
                "ReadWriteMany",
                "ReadWriteOnce",
                "ReadWriteOncePod",
            ];
            if !mode.as_str().is_some_and(|mode| supported.contains(&mode)) {
                errors.not_supported(&path.child("accessModes"), mode, &supported);
            }
        }
        let storage = &spec["resources"]["requests"]["storage"];
        let path = path.child("resources").key("storage");
        match storage.as_str().map(Quantity::parse) {
            None => errors.required(&path, ""),
            Some(Ok(size)) if size.is_zero() || size.is_negative() => {
                errors.invalid(&path, storage, "must be greater than zero");
            }
            Some(_) => {}
        }
        errors
    }

    fn validate_update(&self, new: &Value, old: &Value) -> FieldErrors {
        let mut errors = self.validate(new);
        let fixed = |claim: &Value| {
            let mut spec = claim["spec"].clone();
            if let Some(fields) = spec.as_object_mut() {
                fields.remove("resources");
                fields.remove("volumeAttributesClassName");
            }
            spec
        };
        let mut before = fixed(old);
        // The binder gives an unbound claim its volume.
        let unbound = old["spec"]["volumeName"]
            .as_str()
            .unwrap_or_default()
            .is_empty();
        if unbound && let Some(fields) = before.as_object_mut() {
            match new["spec"].get("volumeName") {
                Some(volume) => fields.insert("volumeName".to_owned(), volume.clone()),
                None => fields.remove("volumeName"),
            };
        }
        if fixed(new) != before {
            let detail = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
            errors.forbidden(&FieldPath::new("spec"), detail);
        }
        errors
    }
}
