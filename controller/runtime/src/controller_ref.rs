//! The controller of an object, and the patches that adopt and release objects.

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde_json::{Value, json};

/// The reference that marks `owner` as the controller of an object.
#[must_use]
pub fn controller_ref(api_version: &str, kind: &str, owner: &ObjectMeta) -> OwnerReference {
    OwnerReference {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        name: owner.name.clone().unwrap_or_default(),
        uid: owner.uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// Returns the reference to the object `meta` for events.
#[must_use]
pub fn reference_to(api_version: &str, kind: &str, meta: &ObjectMeta) -> ObjectReference {
    ObjectReference {
        api_version: Some(api_version.to_owned()),
        kind: Some(kind.to_owned()),
        name: meta.name.clone(),
        namespace: meta.namespace.clone(),
        uid: meta.uid.clone(),
        resource_version: meta.resource_version.clone(),
        field_path: None,
    }
}

/// The reference to the controller of an object, if any.
#[must_use]
pub fn controller_of(meta: &ObjectMeta) -> Option<&OwnerReference> {
    let owners = meta.owner_references.as_deref().unwrap_or_default();
    owners.iter().find(|owner| owner.controller == Some(true))
}

/// The decision of a controller about an object that it may own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// The owner controls the object.
    Keep,
    /// The object is a selected orphan.
    Adopt,
    /// The owner controls the object but no longer selects it.
    Release,
    /// The object is another owner's, or must not be adopted or released.
    Ignore,
}

/// Decides about the object `meta`; `matches` says whether `owner` selects it.
#[must_use]
pub fn claim(owner: &ObjectMeta, meta: &ObjectMeta, matches: bool) -> Claim {
    let deleting = owner.deletion_timestamp.is_some();
    match controller_of(meta) {
        Some(controller) if Some(&controller.uid) != owner.uid.as_ref() => Claim::Ignore,
        Some(_) if matches => Claim::Keep,
        Some(_) if deleting => Claim::Ignore,
        Some(_) => Claim::Release,
        None if deleting || !matches || meta.deletion_timestamp.is_some() => Claim::Ignore,
        None if meta.namespace != owner.namespace => Claim::Ignore,
        None => Claim::Adopt,
    }
}

/// Strategic merge patch that makes `owner` the controller of the object `uid`, with `finalizer`.
///
/// The uid makes the server refuse the patch when the object was replaced meanwhile.
#[must_use]
pub fn adopt_patch(owner: &OwnerReference, finalizer: Option<&str>, uid: &str) -> Value {
    let mut patch = json!({ "metadata": { "ownerReferences": [owner], "uid": uid } });
    if let Some(finalizer) = finalizer {
        patch["metadata"]["finalizers"] = json!([finalizer]);
    }
    patch
}

/// Strategic merge patch that removes the reference to `owner_uid` from the object `uid`, and
/// `finalizer` with it.
#[must_use]
pub fn release_patch(owner_uid: &str, finalizer: Option<&str>, uid: &str) -> Value {
    let reference = json!({ "$patch": "delete", "uid": owner_uid });
    let mut patch = json!({ "metadata": { "ownerReferences": [reference], "uid": uid } });
    if let Some(finalizer) = finalizer {
        patch["metadata"]["$deleteFromPrimitiveList/finalizers"] = json!([finalizer]);
    }
    patch
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::from_value;

    fn meta(value: &Value) -> ObjectMeta {
        from_value(value).unwrap()
    }

    #[test]
    fn claims_follow_owner_selector_and_deletion() {
        let living = meta(&json!({"name": "web", "namespace": "ns", "uid": "s"}));
        let dying = meta(&json!({"name": "web", "namespace": "ns", "uid": "s",
            "deletionTimestamp": "2026-01-01T00:00:00Z"}));
        let owned = |uid: &str| {
            meta(&json!({"namespace": "ns", "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": uid,
                 "controller": true}]}))
        };
        let orphan = meta(&json!({"namespace": "ns"}));
        let elsewhere = meta(&json!({"namespace": "other"}));
        let terminating =
            meta(&json!({"namespace": "ns", "deletionTimestamp": "2026-01-01T00:00:00Z"}));
        let table = [
            (&living, owned("other"), true, Claim::Ignore),
            (&living, owned("s"), true, Claim::Keep),
            (&dying, owned("s"), true, Claim::Keep),
            (&living, owned("s"), false, Claim::Release),
            (&dying, owned("s"), false, Claim::Ignore),
            (&living, orphan.clone(), true, Claim::Adopt),
            (&living, orphan.clone(), false, Claim::Ignore),
            (&dying, orphan, true, Claim::Ignore),
            (&living, elsewhere, true, Claim::Ignore),
            (&living, terminating, true, Claim::Ignore),
        ];
        for (row, (owner, object, matches, expected)) in table.into_iter().enumerate() {
            assert_eq!(claim(owner, &object, matches), expected, "row {row}");
        }
    }
}
