//! Subresources: which handler serves them.

use serde_json::{Value, json};

use super::{Answer, Request, decode, get, patch, scale, update};
use crate::endpoints::request_info::Verb;
use crate::endpoints::response;
use crate::meta::object::{child_mut, meta, name};
use crate::registry::store::{Part, Store};
use crate::status::{ApiError, FieldErrors, FieldPath};

pub(super) fn handle(request: &Request<'_>, subresource: &str, verb: Verb) -> Answer {
    let plural = request.resource.gvr().resource.as_str();
    match (subresource, verb) {
        ("status", Verb::Get) => get::get(request),
        ("status", Verb::Update) => update::update_part(request, Part::Status),
        ("status", Verb::Patch) => patch::patch_part(request, Part::Status),
        ("scale", Verb::Get) => scale::get(request),
        ("scale", Verb::Update) => scale::update(request),
        ("scale", Verb::Patch) => scale::patch(request),
        ("binding", Verb::Create) if plural == "pods" => bind(request),
        ("finalize", Verb::Update) if plural == "namespaces" => finalize(request),
        _ => Err(ApiError::NoSuchPath),
    }
}

/// POST of a Binding: gives a pod its node, once.
fn bind(request: &Request<'_>) -> Answer {
    let dry_run = request.query.dry_run("CreateOptions")?;
    let subresource = request
        .resource
        .subresource("binding")
        .ok_or(ApiError::NoSuchPath)?;
    let binding = decode::object(request, &subresource.gvk, "CreateOptions")?;
    if name(&binding) != request.name() {
        let message = "name in URL does not match name in Binding object";
        return Err(ApiError::BadRequest(message.to_owned()));
    }
    let target = &binding["target"];
    let node = check_target(target)?;
    let uid = meta(&binding, "uid");
    // A binding is not a write of the pod: nobody comes to own its node.
    let store = Store {
        writer: None,
        ..request.store(dry_run)
    };
    store.update(request.namespace(), request.name(), Part::Whole, |pod| {
        let own = meta(pod, "uid");
        let refuse = |message: String| request.store(dry_run).conflict(request.name(), message);
        if !uid.is_empty() && uid != own {
            return Err(refuse(format!(
                "Precondition failed: UID in precondition: {uid}, UID in object meta: {own}"
            )));
        }
        if crate::meta::object::is_terminating(pod) {
            return Err(refuse(format!(
                "pod {} is being deleted, cannot be assigned to a host",
                request.name()
            )));
        }
        if let Some(bound) = pod["spec"]["nodeName"]
            .as_str()
            .filter(|bound| !bound.is_empty())
        {
            return Err(refuse(format!(
                "pod {} is already assigned to node {bound:?}",
                request.name()
            )));
        }
        let mut next = pod.clone();
        child_mut(&mut next, "spec").insert("nodeName".to_owned(), node.into());
        set_scheduled(&mut next, &crate::clock::rfc3339(request.core.clock.now()));
        for (key, value) in binding["metadata"]["annotations"]
            .as_object()
            .into_iter()
            .flatten()
        {
            child_mut(&mut next["metadata"], "annotations").insert(key.clone(), value.clone());
        }
        Ok(next)
    })?;
    let success = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201,
    });
    Ok(response::value(201, &success, request.accepted))
}

fn check_target(target: &Value) -> Result<&str, ApiError> {
    // Upstream answers these without a reason: they are field errors that nobody wrapped.
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
    match errors.causes() {
        [] => Ok(node),
        [cause, ..] => Err(ApiError::Unknown(format!(
            "{}: {}",
            cause.field, cause.message
        ))),
    }
}

fn set_scheduled(pod: &mut Value, now: &str) {
    let condition = json!({
        "type": "PodScheduled",
        "status": "True",
        "lastProbeTime": null,
        "lastTransitionTime": now,
        "observedGeneration": pod["metadata"]["generation"],
    });
    let status = child_mut(pod, "status");
    let conditions = status.entry("conditions").or_insert_with(|| json!([]));
    let Some(conditions) = conditions.as_array_mut() else {
        return;
    };
    match conditions
        .iter_mut()
        .find(|condition| condition["type"] == "PodScheduled")
    {
        Some(scheduled) => *scheduled = condition,
        None => conditions.push(condition),
    }
}

/// PUT of a namespace's finalizers: the last one gone lets a terminating namespace go.
fn finalize(request: &Request<'_>) -> Answer {
    let dry_run = request.query.dry_run("UpdateOptions")?;
    let wanted = decode::object(request, request.resource.gvk(), "UpdateOptions")?;
    update::check_name(request, name(&wanted))?;
    let store = request.store(dry_run);
    let written = store.update(None, request.name(), Part::Whole, |namespace| {
        let mut next = namespace.clone();
        next["metadata"]["resourceVersion"] = meta(&wanted, "resourceVersion").into();
        let spec = child_mut(&mut next, "spec");
        match &wanted["spec"]["finalizers"] {
            Value::Null => spec.remove("finalizers"),
            finalizers => spec.insert("finalizers".to_owned(), finalizers.clone()),
        };
        Ok(next)
    })?;
    request.written(200, &written)
}
