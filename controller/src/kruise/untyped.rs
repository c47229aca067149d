//! Objects whose version only the server knows: their parts are typed, they themselves are not.

use kube::ResourceExt;
use kube::core::{ApiResource, DynamicObject, TypeMeta};
use kubeproof_runtime::decode::from_value;
use kubeproof_runtime::sync_error::Error;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Reads a field of the object; an absent field is the default.
///
/// # Errors
/// [`Error::Malformed`]
pub(crate) fn read<T: Default + DeserializeOwned>(
    object: &DynamicObject,
    field: &str,
) -> Result<T, Error> {
    let value = match &object.data[field] {
        Value::Null => return Ok(T::default()),
        value => value,
    };
    from_value(value).map_err(|source| Error::Malformed {
        what: format!("{field} of {}", object.name_any()),
        source,
    })
}

/// The object with another value of a field, to be written as a `resource`.
pub(crate) fn with(
    object: &DynamicObject,
    resource: &ApiResource,
    field: &str,
    value: &impl Serialize,
) -> DynamicObject {
    let mut object = typed(object, resource);
    object.data[field] = json!(value);
    object
}

/// The object with its type, without which items of lists come.
pub(crate) fn typed(object: &DynamicObject, resource: &ApiResource) -> DynamicObject {
    let mut object = object.clone();
    object.types = Some(TypeMeta {
        api_version: resource.api_version.clone(),
        kind: resource.kind.clone(),
    });
    object
}
