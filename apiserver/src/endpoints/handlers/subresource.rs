//! Subresources: which handler serves them.

use http::Response;
use serde_json::{Value, json};

use super::pod_subresource::{self, PodSubresource};
use super::{
    Answer, Request, connect, decode, eviction, get, kubelet, looked_up, patch, proxy, scale,
    token, update,
};
use crate::admission;
use crate::endpoints::body::ResponseBody;
use crate::endpoints::response;
use crate::meta::GroupResource;
use crate::meta::object::{child_mut, copy_field, meta, name};
use crate::metrics::admission::Plugin;
use crate::registry::core::namespace::validate_finalize;
use crate::request::Verb;
use crate::request::options::Preconditions;
use crate::status::{ApiError, FieldErrors, FieldPath};
use crate::store::{Store, Subresource};

pub(super) async fn handle(request: &Request<'_>, subresource: &str, verb: Verb) -> Answer {
    let plural = request.resource.gvr().resource.as_str();
    match (subresource, verb) {
        ("status", Verb::Get) => looked_up(request, get::get).await,
        ("status", Verb::Update) => update::update_subresource(request, Subresource::Status).await,
        ("status", Verb::Patch) => patch::patch_subresource(request, Subresource::Status).await,
        ("scale", Verb::Get) => looked_up(request, scale::get).await,
        ("scale", Verb::Update) => scale::update(request).await,
        ("scale", Verb::Patch) => scale::patch(request).await,
        ("binding", Verb::Create) if plural == "pods" => bind_pod(request).await,
        ("eviction", Verb::Create) if plural == "pods" => eviction::evict(request).await,
        ("ephemeralcontainers" | "resize", Verb::Get) => get::get(request),
        ("ephemeralcontainers" | "resize", Verb::Update | Verb::Patch) => {
            let part = match subresource {
                "resize" => PodSubresource::Resources,
                _ => PodSubresource::EphemeralContainers,
            };
            match verb {
                Verb::Update => pod_subresource::update(request, part).await,
                _ => pod_subresource::patch(request, part).await,
            }
        }
        ("exec" | "attach" | "portforward", Verb::Get | Verb::Create) => {
            let query = connect::admitted(request).await?;
            kubelet::stream(request, &query).await
        }
        ("proxy", _) => {
            connect::admitted(request).await?;
            proxy::proxy(request)
        }
        ("token", Verb::Create) => token::create(request).await,
        ("log", Verb::Get) => kubelet::log(request),
        ("approval", Verb::Get) => get::get(request),
        ("approval", Verb::Update) => {
            update::update_subresource(request, Subresource::Status).await
        }
        ("approval", Verb::Patch) => patch::patch_subresource(request, Subresource::Status).await,
        ("finalize", Verb::Update) if plural == "namespaces" => finalize(request).await,
        _ => Err(ApiError::NoSuchPath),
    }
}

/// The answer to a subresource that makes no object.
pub(super) fn success(request: &Request<'_>) -> Response<ResponseBody> {
    let success = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201,
    });
    response::value(201, &success, request.accepted)
}

/// Whether something may be created below `name`.
pub(super) fn admit(request: &Request<'_>, name: &str) -> Result<(), ApiError> {
    let namespace = request.namespace().unwrap_or_default();
    if !request.state.plugins.has(Plugin::NamespaceLifecycle) {
        return Ok(());
    }
    admission::admit_into(request.state, &request.resource, namespace, name)
}

/// POST of a Binding to its pod.
async fn bind_pod(request: &Request<'_>) -> Answer {
    let dry_run = request.query.dry_run("CreateOptions")?;
    let subresource = request
        .resource
        .subresource("binding")
        .ok_or(ApiError::NoSuchPath)?;
    let mut binding = decode::object(request, &subresource.gvk, "CreateOptions")?;
    let store = request.store(dry_run);
    store.set_namespace(&mut binding, request.namespace())?;
    admit(request, request.name())?;
    let asked = store.admit_below(&subresource.gvk, &mut binding);
    asked.await?;
    if name(&binding) != request.name() {
        let message = "name in URL does not match name in Binding object";
        return Err(ApiError::BadRequest(message.to_owned()));
    }
    bind(request, request.name(), &binding, dry_run).await
}

/// POST of a Binding among the bindings of a namespace.
pub(super) async fn create_binding(request: &Request<'_>) -> Answer {
    let dry_run = request.query.dry_run("CreateOptions")?;
    let mut binding = decode::object(request, request.resource.gvk(), "CreateOptions")?;
    request
        .store(dry_run)
        .set_namespace(&mut binding, request.namespace())?;
    if name(&binding).is_empty() {
        return Err(ApiError::BadRequest("Name parameter required.".to_owned()));
    }
    admit(request, name(&binding))?;
    let (store, gvk) = (request.store(dry_run), request.resource.gvk());
    let asked = store.admit_below(gvk, &mut binding);
    asked.await?;
    bind(request, name(&binding), &binding, dry_run).await
}

/// Gives a pod its node, once.
async fn bind(request: &Request<'_>, pod_name: &str, binding: &Value, dry_run: bool) -> Answer {
    let node = check_target(&binding["target"])?;
    let stated = |field: &str| {
        let value = meta(binding, field);
        (!value.is_empty()).then(|| value.to_owned())
    };
    let preconditions = Preconditions {
        uid: stated("uid"),
        rv: stated("resourceVersion"),
    };
    let pods = request.state.catalog.resource("", "v1", "pods");
    let pods = pods.expect("pods are built in");
    // A binding is not a write of the pod: no manager owns the node's name.
    let store = Store {
        resource: pods,
        strategy: pods.strategy(),
        writer: None,
        request_attributes: None,
        ..request.store(dry_run)
    };
    let refuse = |message: String| ApiError::Conflict {
        resource: GroupResource {
            group: String::new(),
            resource: "pods/binding".to_owned(),
        },
        name: pod_name.to_owned(),
        message,
    };
    let bound = store.update(
        request.namespace(),
        pod_name,
        Subresource::Unchecked,
        |pod| {
            if let Some(message) = preconditions.violation(pod) {
                let namespace = request.namespace().unwrap_or_default();
                return Err(store.storage_conflict(namespace, pod_name, &message));
            }
            if crate::meta::object::is_terminating(pod) {
                return Err(refuse(format!(
                    "pod {pod_name} is being deleted, cannot be assigned to a host"
                )));
            }
            let bound = pod["spec"]["nodeName"].as_str().unwrap_or_default();
            if !bound.is_empty() {
                return Err(refuse(format!(
                    "pod {pod_name} is already assigned to node {bound:?}"
                )));
            }
            let gates = pod["spec"]["schedulingGates"].as_array();
            if gates.is_some_and(|gates| !gates.is_empty()) {
                return Err(refuse(format!(
                    "pod {pod_name} has non-empty .spec.schedulingGates"
                )));
            }
            let mut next = pod.clone();
            child_mut(&mut next, "spec").insert("nodeName".to_owned(), node.into());
            child_mut(&mut next, "status").remove("nominatedNodeName");
            set_scheduled(&mut next, &crate::clock::rfc3339(request.state.clock.now()));
            for field in ["annotations", "labels"] {
                let brought = binding["metadata"][field].as_object();
                for (key, value) in brought.into_iter().flatten() {
                    child_mut(&mut next["metadata"], field).insert(key.clone(), value.clone());
                }
            }
            if request.state.plugins.has(Plugin::PodTopologyLabels) {
                admission::topology::label(request.state, node, &mut next);
            }
            Ok(next)
        },
    );
    bound.await?;
    Ok(success(request))
}

fn check_target(target: &Value) -> Result<&str, ApiError> {
    // Upstream answers these without a reason: it returns bare field errors.
    let mut errors = FieldErrors::new();
    let kind = target["kind"].as_str().unwrap_or_default();
    if !matches!(kind, "" | "Node") {
        let path = FieldPath::new("target.kind");
        errors.not_supported(&path, &kind.into(), &["Node", "<empty>"]);
    }
    let node = target["name"].as_str().unwrap_or_default();
    if node.is_empty() {
        errors.required(&FieldPath::new("target.name"), "");
    }
    let causes = errors.causes().iter();
    let all: Vec<String> = causes
        .map(|cause| format!("{}: {}", cause.field, cause.message))
        .collect();
    match all.as_slice() {
        [] => Ok(node),
        [one] => Err(ApiError::Unknown(one.clone())),
        all => Err(ApiError::Unknown(format!("[{}]", all.join(", ")))),
    }
}

fn set_scheduled(pod: &mut Value, now: &str) {
    let condition = json!({
        "type": "PodScheduled",
        "status": "True",
        "lastProbeTime": null,
        "lastTransitionTime": now,
    });
    set_condition(pod, condition);
}

/// Replaces the condition of the same type. A status that stays keeps the time since it holds.
pub(super) fn set_condition(object: &mut Value, mut condition: Value) {
    let status = child_mut(object, "status");
    let conditions = status.entry("conditions").or_insert_with(|| json!([]));
    let Some(conditions) = conditions.as_array_mut() else {
        return;
    };
    let own = conditions
        .iter_mut()
        .find(|own| own["type"] == condition["type"]);
    match own {
        Some(own) => {
            if own["status"] == condition["status"] {
                condition["lastTransitionTime"] = own["lastTransitionTime"].clone();
            }
            *own = condition;
        }
        None => conditions.push(condition),
    }
}

/// PUT of a namespace's `finalize`, which keeps the status; a terminating namespace goes with its
/// last finalizer.
async fn finalize(request: &Request<'_>) -> Answer {
    let dry_run = request.query.dry_run("UpdateOptions")?;
    let mut wanted = decode::object(request, request.resource.gvk(), "UpdateOptions")?;
    let store = request.store(dry_run);
    update::check_place(request, &store, &mut wanted)?;
    let written = store.update(None, request.name(), Subresource::Other, |namespace| {
        let mut next = wanted.clone();
        copy_field(&mut next, namespace, "status");
        let errors = validate_finalize(&next);
        if errors.is_empty() {
            return Ok(next);
        }
        Err(ApiError::Invalid {
            kind: request.resource.gvk().group_kind(),
            name: request.name().to_owned(),
            errors,
        })
    });
    request.written(200, &written.await?)
}
