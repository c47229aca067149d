//! The scale subresource: a view of an object's replicas.

use super::{Answer, Request, apply, decode, patch, update};
use crate::auth::RequestAttributes;
use crate::clock::rfc3339;
use crate::field_manager::scale::REPLICAS;
use crate::field_manager::{self, FieldManager};
use crate::json::{Value, json};
use crate::meta::object::{child_mut, meta, meta_mut};
use crate::meta::validation::{NameRule, validate_object_meta, validate_standard_finalizers};
use crate::meta::{GroupKind, GroupVersionKind};
use crate::patch::PatchType;
use crate::registry::apiextensions::custom_resource::ScalePaths;
use crate::registry::apiextensions::custom_resource::scale::{self, names};
use crate::registry::catalog::ResourceInfo;
use crate::schema;
use crate::status::{ApiError, FieldPath};
use crate::store::{Store, Subresource, View};

pub(super) fn get(request: &Request<'_>) -> Answer {
    let object = request
        .store(false)
        .get(request.namespace(), request.name())?;
    let seen = Seen::of(request, &object.value()).map_err(ApiError::Internal)?;
    if let (false, Some(paths)) = (seen.has_replicas, paths(request)) {
        let path = &paths.spec_replicas;
        let why = format!("the spec replicas field {path:?} does not exist");
        return Err(ApiError::Internal(why));
    }
    request.value_of(ResourceInfo::scale(), 200, &seen.scale)
}

/// The paths of the replicas in a custom resource.
fn paths<'r>(request: &'r Request<'_>) -> Option<&'r ScalePaths> {
    request.resource.custom.as_ref()?.scale.as_ref()
}

pub(super) async fn update(request: &Request<'_>) -> Answer {
    let dry_run = request.query.dry_run("UpdateOptions")?;
    let mut scale = decode::object(request, &kind(request)?, "UpdateOptions")?;
    update::check_place(request, &request.store(dry_run), &mut scale)?;
    write(request, dry_run, |manager, current| {
        let mut scale = scale.clone();
        manager.update(current, &mut scale, &now(request));
        Ok(scale)
    })
    .await
}

pub(super) async fn patch(request: &Request<'_>) -> Answer {
    let patch_type = request.patch_type()?;
    let dry_run = request.patch_options(patch_type)?;
    let gvk = kind(request)?;
    if patch_type == PatchType::Apply {
        return write(request, dry_run, |manager, current| {
            let mut scale = apply::merged(request, &gvk, manager, Some(current))?;
            update::check_place(request, &request.store(false), &mut scale)?;
            Ok(scale)
        })
        .await;
    }
    write(request, dry_run, |manager, current| {
        let mut scale = patch::patched(request, &gvk, patch_type, Subresource::Other, current)?;
        manager.update(current, &mut scale, &now(request));
        Ok(scale)
    })
    .await
}

fn now(request: &Request<'_>) -> String {
    rfc3339(request.state.clock.now())
}

fn kind(request: &Request<'_>) -> Result<GroupVersionKind, ApiError> {
    let subresource = request
        .resource
        .subresource("scale")
        .ok_or(ApiError::NoSuchPath)?;
    Ok(subresource.gvk.clone())
}

/// Writes the replicas of the Scale that `change` makes of the present one.
async fn write(
    request: &Request<'_>,
    dry_run: bool,
    change: impl Fn(&FieldManager, &Value) -> Result<Value, ApiError>,
) -> Answer {
    let gvk = kind(request)?;
    let schema = schema::builtin(&gvk).cloned();
    let manager = FieldManager::new(&gvk, schema, &request.writer(), &[]);
    let view = ScaleView(request);
    let store = request.store(dry_run);
    // The owners of the object follow from those of its Scale.
    let store = Store {
        writer: None,
        request_attributes: store
            .request_attributes
            .map(|own| RequestAttributes { kind: &gvk, ..own }),
        view: Some(&view),
        ..store
    };
    let written = store.update(
        request.namespace(),
        request.name(),
        Subresource::None,
        |object| {
            let current = view.managed(object)?;
            let scaled = change(&manager, &current)?;
            let mut next = object.clone();
            view.write(&scaled, &mut next)?;
            Ok(next)
        },
    );
    let written = written.await?;
    let seen = Seen::of(request, &written.value()).map_err(ApiError::BadRequest)?;
    request.value_of(ResourceInfo::scale(), 200, &seen.scale)
}

/// The Scale of the objects of a request.
struct ScaleView<'a, 'r>(&'a Request<'r>);

impl ScaleView<'_, '_> {
    /// The way to the replicas.
    fn way(&self) -> Vec<&str> {
        paths(self.0).map_or_else(|| REPLICAS.to_vec(), |paths| names(&paths.spec_replicas))
    }

    /// The Scale of `object` with the owners of its fields.
    fn managed(&self, object: &Value) -> Result<Value, ApiError> {
        let held = &object["metadata"]["managedFields"];
        let Seen {
            mut scale,
            has_replicas,
        } = Seen::of(self.0, object).map_err(ApiError::Unknown)?;
        if paths(self.0).is_some() && !has_replicas {
            // A number that no client can ask for marks an unset field.
            scale["spec"]["replicas"] = i32::MIN.into();
        }
        let managed = field_manager::scale::to_scale(held, &self.way());
        if let Some(managed) = managed.map_err(ApiError::Unknown)? {
            scale["metadata"]["managedFields"] = managed;
        }
        Ok(scale)
    }
}

impl View for ScaleView<'_, '_> {
    fn of(&self, object: &Value) -> Result<Value, ApiError> {
        self.managed(object)
    }

    fn write(&self, scaled: &Value, object: &mut Value) -> Result<(), ApiError> {
        let replicas = scaled["spec"]["replicas"].as_i64().unwrap_or(0);
        check(self.0, scaled, replicas)?;
        match paths(self.0) {
            Some(paths) => scale::set(object, &paths.spec_replicas, replicas.into())
                .map_err(ApiError::Unknown)?,
            None => {
                child_mut(object, "spec").insert("replicas", replicas.into());
            }
        }
        let managed = field_manager::scale::to_parent(
            &object["metadata"]["managedFields"],
            &scaled["metadata"]["managedFields"],
            &self.0.resource.gvk().api_version(),
            &self.way(),
        );
        match managed.map_err(ApiError::Unknown)? {
            Some(managed) => object["metadata"]["managedFields"] = managed,
            None => {
                meta_mut(object).remove("managedFields");
            }
        }
        for field in ["resourceVersion", "uid"] {
            let text = meta(scaled, field);
            if !text.is_empty() {
                object["metadata"][field] = text.into();
            }
        }
        Ok(())
    }
}

/// Checks a Scale that a client asks for. Upstream: `ValidateScale`, which custom resources do without.
fn check(request: &Request<'_>, scale: &Value, replicas: i64) -> Result<(), ApiError> {
    let custom = paths(request);
    if let (Some(paths), true) = (custom, replicas == i64::from(i32::MIN)) {
        let path = &paths.spec_replicas;
        let why = format!("the spec replicas field {path:?} cannot be empty");
        return Err(ApiError::BadRequest(why));
    }
    if custom.is_some() {
        return Ok(());
    }
    let (path, rule) = (FieldPath::new("metadata"), NameRule::DnsSubdomain);
    let mut errors = validate_object_meta(&scale["metadata"], true, rule, &path);
    errors.extend(validate_standard_finalizers(&scale["metadata"], &path));
    if replicas < 0 {
        let detail = "must be greater than or equal to 0";
        errors.invalid(&FieldPath::new("spec.replicas"), &replicas.into(), detail);
    }
    if errors.is_empty() {
        return Ok(());
    }
    Err(ApiError::Invalid {
        kind: GroupKind {
            group: "autoscaling".to_owned(),
            kind: "Scale".to_owned(),
        },
        name: request.name().to_owned(),
        errors,
    })
}

/// An object seen as `autoscaling/v1 Scale`.
struct Seen {
    scale: Value,
    /// Whether the object says how many replicas it wants.
    has_replicas: bool,
}

impl Seen {
    fn of(request: &Request<'_>, object: &Value) -> Result<Self, String> {
        let Some(paths) = paths(request) else {
            return Ok(Self {
                scale: scale_of(request, object),
                has_replicas: true,
            });
        };
        let wanted = scale::integer(object, &paths.spec_replicas)?;
        let present = scale::integer(object, &paths.status_replicas)?.unwrap_or(0);
        let selector = match paths.label_selector.as_str() {
            "" => "",
            path => scale::text(object, path)?.unwrap_or_default(),
        };
        Ok(Self {
            scale: view(object, wanted.unwrap_or(0), present, selector),
            has_replicas: wanted.is_some(),
        })
    }
}

/// The Scale of a built-in object.
fn scale_of(request: &Request<'_>, object: &Value) -> Value {
    let selector = request.resource.strategy().scale_selector(object);
    let replicas = |half: &str| object[half]["replicas"].as_i64().unwrap_or(0);
    view(object, replicas("spec"), replicas("status"), &selector)
}

fn view(object: &Value, wanted: i64, present: i64, selector: &str) -> Value {
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
    if wanted != 0 {
        spec["replicas"] = wanted.into();
    }
    let mut status = json!({ "replicas": present });
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
