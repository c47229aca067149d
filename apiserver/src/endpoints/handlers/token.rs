//! POST of a TokenRequest: issues a token to a service account.

use jiff::SignedDuration;
use serde_json::{Value, json};

use super::{Answer, Request, decode, subresource};
use crate::auth::{AUDIENCE, Claims, ServiceAccount};
use crate::clock::{later, rfc3339};
use crate::field_manager::FieldManager;
use crate::meta::object::{child_mut, default, meta, meta_mut, name};
use crate::meta::{GroupResource, GroupVersion, GroupVersionKind};
use crate::registry::store::Store;
use crate::schema;
use crate::status::{ApiError, FieldErrors, FieldPath};

/// How long a token is good for unless the request says so.
const EXPIRATION_SECONDS: i64 = 3600;
const EXPIRATION_SECONDS_MIN: i64 = 600;
const EXPIRATION_SECONDS_MAX: i64 = 1 << 32;

pub(super) async fn create(request: &Request<'_>) -> Answer {
    let dry_run = request.query.dry_run("CreateOptions")?;
    let token = request.resource.subresource("token");
    let gvk = &token.ok_or(ApiError::NoSuchPath)?.gvk;
    let mut body = decode::object(request, gvk, "CreateOptions")?;
    let store = request.store(dry_run);
    store.set_namespace(&mut body, request.namespace())?;
    subresource::admit(request, request.name())?;
    let now = request.core.clock.now();
    let spec = child_mut(&mut body, "spec");
    default(spec, "expirationSeconds", EXPIRATION_SECONDS);
    let schema = schema::builtin(gvk).cloned();
    FieldManager::new(gvk, schema, &request.writer(), &[]).create(&mut body, &rfc3339(now));
    store.mutate_below(gvk, &mut body).await?;

    check_name(request, gvk, name(&body))?;
    let account = store.get(request.namespace(), request.name())?;
    let spec = child_mut(&mut body, "spec");
    if spec
        .get("audiences")
        .and_then(Value::as_array)
        .is_none_or(Vec::is_empty)
    {
        spec.insert("audiences".to_owned(), json!([AUDIENCE]));
    }
    let metadata = meta_mut(&mut body);
    metadata.insert("name".to_owned(), request.name().into());
    metadata.insert("namespace".to_owned(), request.namespace().into());
    metadata.insert("creationTimestamp".to_owned(), rfc3339(now).into());
    validate(gvk, &body["spec"])?;
    store.approve_below(gvk, &body).await?;
    let bound = bound_object(request, &body["spec"]["boundObjectRef"])?;

    let seconds = body["spec"]["expirationSeconds"].as_i64();
    let lifetime = SignedDuration::from_secs(seconds.unwrap_or(EXPIRATION_SECONDS));
    let expires = later(now, lifetime);
    let audiences = body["spec"]["audiences"].as_array().into_iter().flatten();
    let claims = Claims {
        account: ServiceAccount {
            namespace: request.namespace().unwrap_or_default().to_owned(),
            name: request.name().to_owned(),
            uid: meta(&account.value(), "uid").to_owned(),
        },
        audiences: audiences
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect(),
        expires,
        bound,
        id: request.core.entropy.uid(),
    };
    let token = request
        .core
        .tokens
        .issue(claims, now, &request.core.entropy);
    body["status"] = json!({ "token": token, "expirationTimestamp": rfc3339(expires) });
    let uid = meta(&account.value(), "uid").to_owned();
    meta_mut(&mut body).insert("uid".to_owned(), uid.into());
    request.value(201, &body)
}

/// A request that names an account must name that of the path.
fn check_name(request: &Request<'_>, gvk: &GroupVersionKind, own: &str) -> Result<(), ApiError> {
    if own.is_empty() || own == request.name() {
        return Ok(());
    }
    let mut errors = FieldErrors::new();
    let detail = "must match the service account name if specified";
    errors.invalid(&FieldPath::new("metadata.name"), &own.into(), detail);
    Err(ApiError::Invalid {
        kind: gvk.group_kind(),
        name: request.name().to_owned(),
        errors,
    })
}

fn validate(gvk: &GroupVersionKind, spec: &Value) -> Result<(), ApiError> {
    let mut errors = FieldErrors::new();
    let seconds = spec["expirationSeconds"]
        .as_i64()
        .unwrap_or(EXPIRATION_SECONDS);
    let path = FieldPath::new("spec.expirationSeconds");
    if seconds < EXPIRATION_SECONDS_MIN {
        let detail = "may not specify a duration less than 10 minutes";
        errors.invalid(&path, &seconds.into(), detail);
    }
    if seconds > EXPIRATION_SECONDS_MAX {
        let detail = "may not specify a duration larger than 2^32 seconds";
        errors.invalid(&path, &seconds.into(), detail);
    }
    if errors.is_empty() {
        return Ok(());
    }
    Err(ApiError::Invalid {
        kind: gvk.group_kind(),
        name: String::new(),
        errors,
    })
}

/// The object that the token is to live and die with: a pod of the account, a secret or a node.
fn bound_object(
    request: &Request<'_>,
    reference: &Value,
) -> Result<Option<(&'static str, String, String)>, ApiError> {
    if reference.is_null() {
        return Ok(None);
    }
    let text = |field: &str| reference[field].as_str().unwrap_or_default();
    let kind = text("kind");
    let version = GroupVersion::parse(text("apiVersion")).unwrap_or(GroupVersion {
        group: String::new(),
        version: String::new(),
    });
    // Upstream asks for no version.
    let core = version.group.is_empty();
    let plural = match kind {
        "Pod" if core => "pods",
        "Secret" if core => "secrets",
        "Node" if core => "nodes",
        _ => {
            return Err(ApiError::BadRequest(format!(
                "cannot bind token to object of type {}/{}, Kind={kind}",
                version.group, version.version
            )));
        }
    };
    let resource = request.core.catalog.resource("", "v1", plural);
    let resource = resource.expect("core resources are built in");
    let store = Store {
        resource,
        strategy: resource.strategy(),
        ..request.store(false)
    };
    let name = text("name");
    let object = store.get(request.namespace(), name)?;
    let uid = meta(&object.value(), "uid").to_owned();
    let wanted = text("uid");
    if !wanted.is_empty() && wanted != uid {
        // Upstream names the kind here, not the resource.
        return Err(ApiError::Conflict {
            resource: GroupResource {
                group: String::new(),
                resource: kind.to_owned(),
            },
            name: name.to_owned(),
            message: format!(
                "the UID in the bound object reference ({wanted}) does not match the UID in record. The object might have been deleted and then recreated"
            ),
        });
    }
    let runs_as = &object.value()["spec"]["serviceAccountName"];
    if kind == "Pod" && runs_as.as_str().unwrap_or_default() != request.name() {
        return Err(ApiError::BadRequest(format!(
            "cannot bind token for serviceaccount {:?} to pod running with different serviceaccount name.",
            request.name()
        )));
    }
    Ok(Some((plural, name.to_owned(), uid)))
}
