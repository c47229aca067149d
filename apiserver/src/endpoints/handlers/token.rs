//! POST of a TokenRequest: issues a token to a service account.

use jiff::{SignedDuration, Timestamp};

use super::named_create::admit;
use super::{Answer, Request, decode};
use crate::auth::{BoundKind, Claims, ObjectReference};
use crate::clock::{later, rfc3339};
use crate::field_manager::FieldManager;
use crate::json::{Value, json};
use crate::meta::object::{child_mut, default, meta, meta_mut, name};
use crate::meta::{GroupResource, GroupVersion};
use crate::registry::core::service_account::token_request;
use crate::schema;
use crate::status::ApiError;
use crate::storage::ObjectKey;
use crate::store::Store;

/// The lifetime that kubelets ask for, which stands for a longer one.
const EXTENDED_SECONDS: i64 = 3607;
const EXTENSION_SECONDS: i64 = 365 * 24 * 3600;

/// The object that a token is bound to, and the node of a pod.
type Bound = (
    Option<(BoundKind, ObjectReference)>,
    Option<ObjectReference>,
);

pub(super) async fn create(request: &Request<'_>) -> Answer {
    let dry_run = request.query.dry_run("CreateOptions")?;
    let token = request.resource.subresource("token");
    let gvk = &token.ok_or(ApiError::NoSuchPath)?.gvk;
    let mut body = decode::object(request, gvk, "CreateOptions")?;
    let store = request.store(dry_run);
    store.set_namespace(&mut body, request.namespace())?;
    admit(request, request.name())?;
    // Tokens have whole seconds.
    let now = request.state.clock.now();
    let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
    let spec = child_mut(&mut body, "spec");
    default(spec, "expirationSeconds", token_request::EXPIRATION_SECONDS);
    let schema = schema::builtin(gvk).cloned();
    FieldManager::new(gvk, schema, &request.writer(), &[]).create(&mut body, &rfc3339(now));
    store.mutate_below(gvk, &mut body).await?;

    token_request::check_name(gvk, name(&body), request.name())?;
    let account = store.get(request.namespace(), request.name())?;
    let account = ObjectReference {
        name: request.name().to_owned(),
        uid: meta(&account.value(), "uid").to_owned(),
    };
    token_request::check_uid(gvk, (&account.name, &account.uid), meta(&body, "uid"))?;
    let spec = child_mut(&mut body, "spec");
    if spec
        .get("audiences")
        .and_then(Value::as_array)
        .is_none_or(Vec::is_empty)
    {
        spec.insert(
            "audiences".to_owned(),
            json!(request.state.tokens.audiences()),
        );
    }
    let metadata = meta_mut(&mut body);
    metadata.insert("name", request.name().into());
    metadata.insert("namespace", request.namespace().into());
    metadata.insert("creationTimestamp", rfc3339(now).into());
    token_request::validate(gvk, &body["spec"])?;
    shorten(request, &mut body["spec"]);
    store.approve_below(gvk, &body).await?;
    let (bound, node) = bound_object(request, &body["spec"]["boundObjectRef"])?;

    let seconds = body["spec"]["expirationSeconds"].as_i64();
    let seconds = seconds.unwrap_or(token_request::EXPIRATION_SECONDS);
    let audiences = body["spec"]["audiences"].as_array().into_iter().flatten();
    let audiences = audiences.filter_map(Value::as_str).map(str::to_owned);
    let mut claims = Claims {
        namespace: request.namespace().unwrap_or_default().to_owned(),
        account: account.clone(),
        audiences: audiences.collect(),
        issued: now,
        expires: after(now, seconds),
        warn_after: None,
        bound,
        node,
        id: request.state.entropy.uid(),
    };
    let expires = claims.expires;
    let tokens = &request.state.tokens;
    let is_extended = tokens.settings().extends && is_extended(&claims, tokens.audiences());
    if seconds == EXTENDED_SECONDS && is_extended {
        claims.warn_after = Some(expires);
        claims.expires = after(now, EXTENSION_SECONDS);
    }
    if let Some(record) = &request.audit {
        let id = format!("JTI={}", claims.id);
        record.annotate("authentication.kubernetes.io/issued-credential-id", id);
    }
    let token = request.state.tokens.issue(claims);
    body["status"] = json!({ "token": token, "expirationTimestamp": rfc3339(expires) });
    meta_mut(&mut body).insert("uid", account.uid.into());
    request.value(201, &body)
}

/// Shortens the wanted lifetime to the longest that the server grants, and warns of it.
fn shorten(request: &Request<'_>, spec: &mut Value) {
    let wanted = spec["expirationSeconds"].as_i64();
    let Some((max, wanted)) = request.state.tokens.settings().max_seconds.zip(wanted) else {
        return;
    };
    if wanted > max {
        spec["expirationSeconds"] = max.into();
        request.warnings.lock().push(format!(
            "requested expiration of {wanted} seconds shortened to {max} seconds"
        ));
    }
}

fn after(now: Timestamp, seconds: i64) -> Timestamp {
    later(now, SignedDuration::from_secs(seconds))
}

/// Whether a token is one that upstream projects into a pod: it outlives its time, so that clients
/// which do not fetch it anew are warned about before they fail.
fn is_extended(claims: &Claims, own: &[String]) -> bool {
    let of_pod = matches!(claims.bound, Some((BoundKind::Pod, _)));
    of_pod
        && claims
            .audiences
            .iter()
            .all(|audience| own.contains(audience))
}

/// The object whose deletion ends the token: a pod of the account, a secret or a node.
fn bound_object(request: &Request<'_>, reference: &Value) -> Result<Bound, ApiError> {
    if reference.is_null() {
        return Ok((None, None));
    }
    let text = |field: &str| reference[field].as_str().unwrap_or_default();
    let kind = text("kind");
    let version = GroupVersion::parse(text("apiVersion")).unwrap_or(GroupVersion {
        group: String::new(),
        version: String::new(),
    });
    // Upstream asks for no version.
    let core = version.group.is_empty();
    let bound = match kind {
        "Pod" if core => BoundKind::Pod,
        "Secret" if core => BoundKind::Secret,
        "Node" if core => BoundKind::Node,
        _ => {
            return Err(ApiError::BadRequest(format!(
                "cannot bind token to object of type {}/{}, Kind={kind}",
                version.group, version.version
            )));
        }
    };
    let resource = request.state.catalog.resource("", "v1", bound.plural());
    let resource = resource.expect("core resources are built in");
    let store = Store {
        resource,
        strategy: resource.strategy(),
        ..request.store(false)
    };
    let name = text("name");
    let namespace = request.namespace().filter(|_| bound != BoundKind::Node);
    let object = store.get(namespace, name)?;
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
    let object = object.value();
    let spec = |field: &str| object["spec"][field].as_str().unwrap_or_default();
    if bound == BoundKind::Pod && spec("serviceAccountName") != request.name() {
        return Err(ApiError::BadRequest(format!(
            "cannot bind token for serviceaccount {:?} to pod running with different serviceaccount name.",
            request.name()
        )));
    }
    let node = Some(spec("nodeName")).filter(|node| bound == BoundKind::Pod && !node.is_empty());
    let node = node.map(|name| ObjectReference {
        name: name.to_owned(),
        uid: node_uid(request, name),
    });
    let name = name.to_owned();
    Ok((Some((bound, ObjectReference { name, uid })), node))
}

/// The uid of a node, empty if it does not exist.
fn node_uid(request: &Request<'_>, name: &str) -> String {
    let nodes = request.state.catalog.resource("", "v1", "nodes");
    let nodes = nodes.expect("core resources are built in");
    let table = request.state.storage.table(nodes.gvr());
    let node = table.get(&ObjectKey::new(None, name));
    node.map_or_else(String::new, |node| meta(&node.value(), "uid").to_owned())
}
