//! The parts of a pod that only a subresource may change: ephemeral containers, and the resources
//! of its containers.

use serde_json::Value;

use super::{Answer, Request, apply, decode, patch, update};
use crate::clock::rfc3339;
use crate::field_manager::FieldManager;
use crate::meta::object::{child_mut, copy_field};
use crate::patch::PatchType;
use crate::registry::core::pod::{validate_ephemeral_containers, validate_resize};
use crate::status::{ApiError, FieldErrors};
use crate::store::{Store, Subresource};

/// A part of a pod's spec.
#[derive(Clone, Copy)]
pub(super) enum PodSubresource {
    EphemeralContainers,
    Resources,
}

impl PodSubresource {
    /// A copy of `current` with only this part taken from `wanted`.
    fn take(self, wanted: &Value, current: &Value) -> Value {
        let mut next = current.clone();
        for field in ["managedFields", "resourceVersion", "uid"] {
            copy_field(&mut next["metadata"], &wanted["metadata"], field);
        }
        match self {
            Self::EphemeralContainers => {
                child_mut(&mut next, "spec");
                copy_field(&mut next["spec"], &wanted["spec"], "ephemeralContainers");
            }
            Self::Resources => {
                for list in ["containers", "initContainers"] {
                    take_resources(&mut next["spec"][list], &wanted["spec"][list]);
                }
                copy_field(&mut next["spec"], &wanted["spec"], "resources");
            }
        }
        if next["spec"]["initContainers"].is_null() {
            child_mut(&mut next, "spec").remove("initContainers");
        }
        next
    }

    fn validate(self, next: &Value, current: &Value) -> FieldErrors {
        match self {
            Self::EphemeralContainers => validate_ephemeral_containers(next, current),
            Self::Resources => validate_resize(next, current),
        }
    }
}

fn take_resources(containers: &mut Value, wanted: &Value) {
    let names = |list: &Value| -> Vec<Value> {
        let list = list.as_array().into_iter().flatten();
        list.map(|container| container["name"].clone()).collect()
    };
    if names(containers) != names(wanted) {
        // Other containers, or in another order, are a fault.
        containers.clone_from(wanted);
        return;
    }
    let own = containers.as_array_mut().into_iter().flatten();
    for (container, wanted) in own.zip(wanted.as_array().into_iter().flatten()) {
        for field in ["resources", "resizePolicy"] {
            copy_field(container, wanted, field);
        }
    }
}

/// PUT of a pod, of which only the part counts.
pub(super) async fn update(request: &Request<'_>, subresource: PodSubresource) -> Answer {
    let dry_run = request.query.dry_run("UpdateOptions")?;
    let mut pod = decode::object(request, request.resource.gvk(), "UpdateOptions")?;
    update::check_place(request, &request.store(dry_run), &mut pod)?;
    write(request, subresource, dry_run, |manager, current| {
        let mut wanted = pod.clone();
        update_owners(request, manager, current, &mut wanted);
        Ok(wanted)
    })
    .await
}

/// PATCH of the same.
pub(super) async fn patch(request: &Request<'_>, subresource: PodSubresource) -> Answer {
    let patch_type = request.patch_type()?;
    let dry_run = request.patch_options(patch_type)?;
    let gvk = request.resource.gvk();
    write(request, subresource, dry_run, |manager, current| {
        if patch_type != PatchType::Apply {
            let mut wanted = patch::patched(request, gvk, patch_type, Subresource::Other, current)?;
            update_owners(request, manager, current, &mut wanted);
            return Ok(wanted);
        }
        let mut wanted = apply::merged(request, gvk, manager, Some(current))?;
        update::check_place(request, &request.store(false), &mut wanted)?;
        Ok(wanted)
    })
    .await
}

/// Whoever sets a field comes to own it, also one that is then left as it was.
fn update_owners(
    request: &Request<'_>,
    manager: &FieldManager,
    current: &Value,
    wanted: &mut Value,
) {
    let strategy = request.resource.strategy();
    strategy.default(wanted);
    manager.update(current, wanted, &rfc3339(request.state.clock.now()));
}

async fn write(
    request: &Request<'_>,
    subresource: PodSubresource,
    dry_run: bool,
    change: impl Fn(&FieldManager, &Value) -> Result<Value, ApiError>,
) -> Answer {
    let store = request.store(dry_run);
    let manager = store.field_manager().expect("every request has a writer");
    let store = Store {
        writer: None,
        ..store
    };
    let (namespace, name) = (request.namespace(), request.name());
    let written = store.update(namespace, name, Subresource::Other, |current| {
        let mut wanted = change(&manager, current)?;
        store.strategy.default(&mut wanted);
        let next = subresource.take(&wanted, current);
        let errors = subresource.validate(&next, current);
        if !errors.is_empty() {
            return Err(ApiError::Invalid {
                kind: request.resource.gvk().group_kind(),
                name: request.name().to_owned(),
                errors,
            });
        }
        Ok(next)
    });
    request.written(200, &written.await?)
}
