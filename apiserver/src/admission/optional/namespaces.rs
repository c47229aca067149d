//! NamespaceExists and NamespaceAutoProvision: writes into namespaces that are not there.

use crate::admission::State;
use crate::json::Value;
use crate::meta::GroupResource;
use crate::meta::object::namespace;
use crate::registry::catalog::ResourceInfo;
use crate::status::ApiError;
use crate::storage::ObjectKey;

/// Whether the namespace of a new object has to be created first.
pub(crate) fn is_provisioned(state: &State, resource: &ResourceInfo, object: &Value) -> bool {
    resource.namespaced && !exists(state, namespace(object))
}

fn exists(state: &State, name: &str) -> bool {
    let namespaces = state.listers.namespaces(&state.storage);
    namespaces.get(&ObjectKey::new(None, name)).is_some()
}

/// Checks that the namespace of an object exists.
///
/// # Errors
/// `NotFound`.
pub(crate) fn check(
    state: &State,
    resource: &ResourceInfo,
    object: &Value,
) -> Result<(), ApiError> {
    let name = namespace(object);
    if !resource.namespaced || exists(state, name) {
        return Ok(());
    }
    Err(ApiError::NotFound {
        resource: GroupResource {
            group: String::new(),
            resource: "namespaces".to_owned(),
        },
        name: name.to_owned(),
    })
}
