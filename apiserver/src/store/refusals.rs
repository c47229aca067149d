//! The errors of the store.

use super::Store;
use crate::cancellation;
use crate::meta::{GroupKind, validation};
use crate::meta::{ParseResourceVersionError, ResourceVersion};
use crate::registry::core::event;
use crate::status::{ApiError, FieldErrors};

impl Store<'_> {
    pub(crate) fn not_found(&self, name: &str) -> ApiError {
        let resource = self.resource.gvr().group_resource();
        ApiError::NotFound {
            resource: self.strategy.qualified_resource(resource),
            name: name.to_owned(),
        }
    }

    pub(crate) fn conflict(&self, name: &str, message: impl Into<String>) -> ApiError {
        ApiError::Conflict {
            resource: self.resource.gvr().group_resource(),
            name: name.to_owned(),
            message: message.into(),
        }
    }

    pub(super) fn invalid(&self, name: &str, errors: FieldErrors) -> Result<(), ApiError> {
        if let Some(warnings) = self.warnings {
            warnings.lock().extend_from_slice(errors.warnings());
        }
        if errors.is_empty() {
            return Ok(());
        }
        if errors.is_full() {
            return Err(cancellation::timeout());
        }
        let mut kind = self.resource.gvk().group_kind();
        if kind.group == event::GROUP {
            // In errors, as in storage, events belong to the core group.
            kind.group.clear();
        }
        Err(ApiError::Invalid {
            kind,
            name: name.to_owned(),
            errors,
        })
    }

    /// A conflict that upstream's storage finds: its error shows through, with etcd's key.
    pub(crate) fn storage_conflict(&self, namespace: &str, name: &str, message: &str) -> ApiError {
        let resource = self.resource.gvr().group_resource();
        let directory = self.resource.strategy().storage_prefix(&resource);
        // A dry run does not know the prefix under which etcd has its keys.
        let root = if self.dry_run { "" } else { "/registry" };
        let namespace = if namespace.is_empty() {
            String::new()
        } else {
            format!("{namespace}/")
        };
        self.conflict(
            name,
            format!(
                "StorageError: invalid object, Code: 4, Key: {root}/{directory}/{namespace}{name}, ResourceVersion: 0, AdditionalErrorMsg: {message}"
            ),
        )
    }

    /// Faults that upstream's registry finds before it knows the kind: they name the resource.
    pub(super) fn invalid_resource(&self, name: &str, errors: FieldErrors) -> Result<(), ApiError> {
        let gvr = self.resource.gvr();
        let kind = GroupKind {
            group: gvr.group.clone(),
            kind: gvr.resource.clone(),
        };
        Err(ApiError::Invalid {
            kind,
            name: name.to_owned(),
            errors,
        })
    }
}

/// Whether there can be a key for `name`.
pub(super) fn check_name(name: &str) -> Result<(), ApiError> {
    let faults = validation::path_segment_name(name);
    if faults.is_empty() {
        return Ok(());
    }
    let faults = faults.join(";");
    Err(ApiError::BadRequest(format!(
        "Name parameter invalid: {name:?}: {faults}"
    )))
}

/// The `resourceVersion` of an object; zero for none.
pub(crate) fn parse_rv(rv: &str) -> Result<ResourceVersion, ApiError> {
    if rv.is_empty() {
        return Ok(ResourceVersion::ZERO);
    }
    rv.parse()
        .map_err(|error: ParseResourceVersionError| ApiError::Unknown(error.to_string()))
}
