//! Writes the status of a workload, which is kept untyped: its revisions are made of the template's
//! own bytes.

use std::sync::Arc;
use std::time::Duration;

use kube::api::Api;
use kube::core::{DynamicObject, TypeMeta};
use kube::{Resource, ResourceExt};
use kubeproof_machinery::meta::ResourceVersion;
use kubeproof_runtime::metadata_response;
use kubeproof_runtime::retry::retry_on_conflict;
use kubeproof_runtime::sync_error::Error;
use serde::Serialize;
use serde_json::json;

/// Writes `status` onto `object`, a `K`; after a conflict, and one of `delays`, onto the object as the cache has it then, which
/// `reread` returns. A conflict with a write that the cache does not have yet is therefore an error. Returns the version that
/// it came to.
///
/// Source: OpenKruise, `cloneset_status.go`, `updateStatus`; `stateful_set_status_updater.go`, `UpdateStatefulSetStatus`.
///
/// # Errors
/// The last conflict, and whatever else a write is refused with.
pub(crate) async fn replace_status<K: Resource<DynamicType = ()>>(
    api: &Api<DynamicObject>,
    object: &DynamicObject,
    status: &impl Serialize,
    delays: impl IntoIterator<Item = Duration>,
    reread: impl Fn() -> Option<Arc<DynamicObject>>,
) -> Result<ResourceVersion, Error> {
    let name = object.name_any();
    let mut object = object.clone();
    let mut delays = delays.into_iter();
    loop {
        object.types = Some(TypeMeta::resource::<K>());
        object.data["status"] = json!(status);
        match metadata_response::replace_status(api, &name, &object).await {
            Ok(rv) => return Ok(rv),
            Err(error) => retry_on_conflict(&mut delays, error.into()).await?,
        }
        if let Some(read) = reread() {
            object = DynamicObject::clone(&read);
        }
    }
}
