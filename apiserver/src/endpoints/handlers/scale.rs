//! The scale subresource: a view of an object's replicas.

use serde_json::{Value, json};

use super::{Answer, Request, apply, decode, patch, update};
use crate::clock::rfc3339;
use crate::field_manager::{self, FieldManager};
use crate::meta::object::{child_mut, meta, meta_mut};
use crate::meta::selector::LabelSelector;
use crate::meta::{GroupKind, GroupVersionKind};
use crate::patch::PatchType;
use crate::registry::catalog::ResourceInfo;
use crate::registry::store::{Part, Store};
use crate::schema;
use crate::status::{ApiError, FieldErrors, FieldPath};

pub(super) fn get(request: &Request<'_>) -> Answer {
    let object = request
        .store(false)
        .get(request.namespace(), request.name())?;
    request.value_of(ResourceInfo::scale(), 200, &scale_of(&object.value))
}

pub(super) fn update(request: &Request<'_>) -> Answer {
    let dry_run = request.query.dry_run("UpdateOptions")?;
    let mut scale = decode::object(request, &kind(request)?, "UpdateOptions")?;
    update::check_place(request, &request.store(dry_run), &mut scale)?;
    write(request, dry_run, |manager, current| {
        let mut scale = scale.clone();
        manager.update(current, &mut scale, &now(request));
        Ok(scale)
    })
}

pub(super) fn patch(request: &Request<'_>) -> Answer {
    let patch_type = request.patch_type()?;
    let dry_run = request.query.patch_options(patch_type)?;
    let gvk = kind(request)?;
    if patch_type == PatchType::Apply {
        return write(request, dry_run, |manager, current| {
            let scale = apply::merged(request, &gvk, manager, Some(current))?;
            update::check_identity(request, &scale)?;
            Ok(scale)
        });
    }
    write(request, dry_run, |manager, current| {
        let mut scale = patch::patched(request, &gvk, patch_type, current)?;
        manager.update(current, &mut scale, &now(request));
        Ok(scale)
    })
}

fn now(request: &Request<'_>) -> String {
    rfc3339(request.core.clock.now())
}

fn kind(request: &Request<'_>) -> Result<GroupVersionKind, ApiError> {
    let subresource = request
        .resource
        .subresource("scale")
        .ok_or(ApiError::NoSuchPath)?;
    Ok(subresource.gvk.clone())
}

/// Writes the replicas of the Scale that `change` makes of the present one.
fn write(
    request: &Request<'_>,
    dry_run: bool,
    change: impl Fn(&FieldManager, &Value) -> Result<Value, ApiError>,
) -> Answer {
    let gvk = kind(request)?;
    let schema = schema::builtin(&gvk).cloned();
    let manager = FieldManager::new(&gvk, schema, &request.writer(), &[]);
    // The owners of the object follow from those of its Scale.
    let store = Store {
        writer: None,
        ..request.store(dry_run)
    };
    let written = store.update(request.namespace(), request.name(), Part::Main, |object| {
        let held = &object["metadata"]["managedFields"];
        let mut current = scale_of(object);
        let managed = field_manager::scale::to_scale(held).map_err(ApiError::Unknown)?;
        if let Some(managed) = managed {
            current["metadata"]["managedFields"] = managed;
        }
        let scale = change(&manager, &current)?;
        let replicas = scale["spec"]["replicas"].as_i64().unwrap_or(0);
        if replicas < 0 {
            let mut errors = FieldErrors::new();
            let path = FieldPath::new("spec.replicas");
            errors.invalid(
                &path,
                &replicas.into(),
                "must be greater than or equal to 0",
            );
            let kind = GroupKind {
                group: "autoscaling".to_owned(),
                kind: "Scale".to_owned(),
            };
            return Err(ApiError::Invalid {
                kind,
                name: request.name().to_owned(),
                errors,
            });
        }
        let mut next = object.clone();
        child_mut(&mut next, "spec").insert("replicas".to_owned(), replicas.into());
        let managed = field_manager::scale::to_parent(
            held,
            &scale["metadata"]["managedFields"],
            &request.resource.gvk().api_version(),
        );
        match managed.map_err(ApiError::Unknown)? {
            Some(managed) => next["metadata"]["managedFields"] = managed,
            None => {
                meta_mut(&mut next).remove("managedFields");
            }
        }
        next["metadata"]["resourceVersion"] = meta(&scale, "resourceVersion").into();
        let uid = meta(&scale, "uid");
        if !uid.is_empty() {
            next["metadata"]["uid"] = uid.into();
        }
        Ok(next)
    })?;
    request.value_of(ResourceInfo::scale(), 200, &scale_of(written.value()))
}

/// An object's replicas as `autoscaling/v1 Scale`.
fn scale_of(object: &Value) -> Value {
    let mut metadata = json!({});
    for field in [
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "creationTimestamp",
    ] {
        if !object["metadata"][field].is_null() {
            metadata[field] = object["metadata"][field].clone();
        }
    }
    let mut spec = json!({});
    if let Some(replicas) = object["spec"]["replicas"]
        .as_i64()
        .filter(|replicas| *replicas != 0)
    {
        spec["replicas"] = replicas.into();
    }
    let mut status = json!({ "replicas": object["status"]["replicas"].as_i64().unwrap_or(0) });
    let selector = &object["spec"]["selector"];
    // A ReplicationController's selector is a plain map of labels.
    let selector = if object["kind"] == "ReplicationController" {
        LabelSelector::from_labels(selector).as_selector_string()
    } else {
        LabelSelector::from_object(selector)
            .map(|selector| selector.as_selector_string())
            .unwrap_or_default()
    };
    if !selector.is_empty() {
        status["selector"] = selector.into();
    }
    json!({
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": metadata,
        "spec": spec,
        "status": status,
    })
}
