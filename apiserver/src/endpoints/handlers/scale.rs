//! The scale subresource: a view of an object's replicas.

use serde_json::{Value, json};

use super::{Answer, Request, decode, update};
use crate::endpoints::response;
use crate::meta::object::{child_mut, meta, name};
use crate::meta::selector::LabelSelector;
use crate::meta::{GroupKind, GroupVersionKind};
use crate::patch::{self};
use crate::registry::store::Part;
use crate::schema;
use crate::status::{ApiError, FieldErrors, FieldPath};

pub(super) fn get(request: &Request<'_>) -> Answer {
    let object = request
        .store(false)
        .get(request.namespace(), request.name())?;
    Ok(response::value(
        200,
        &scale_of(&object.value),
        request.accepted,
    ))
}

pub(super) fn update(request: &Request<'_>) -> Answer {
    let dry_run = request.query.dry_run("UpdateOptions")?;
    let scale = decode::object(request, &kind(request)?, "UpdateOptions")?;
    update::check_name(request, name(&scale))?;
    write(request, dry_run, |_| Ok(scale.clone()))
}

pub(super) fn patch(request: &Request<'_>) -> Answer {
    let dry_run = request.query.dry_run("PatchOptions")?;
    let patch_type = request.patch_type()?;
    decode::check_patch(request, patch_type)?;
    let gvk = kind(request)?;
    write(request, dry_run, |current| {
        let patched = patch::apply(
            patch_type,
            &request.body,
            current,
            schema::builtin(&gvk).map(|schema| &**schema),
        )?;
        decode::value(request, &gvk, patched, "PatchOptions")
    })
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
    change: impl Fn(&Value) -> Result<Value, ApiError>,
) -> Answer {
    let store = request.store(dry_run);
    let written = store.update(request.namespace(), request.name(), Part::Main, |object| {
        let scale = change(&scale_of(object))?;
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
        next["metadata"]["resourceVersion"] = meta(&scale, "resourceVersion").into();
        let uid = meta(&scale, "uid");
        if !uid.is_empty() {
            next["metadata"]["uid"] = uid.into();
        }
        Ok(next)
    })?;
    Ok(response::value(
        200,
        &scale_of(written.value()),
        request.accepted,
    ))
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
