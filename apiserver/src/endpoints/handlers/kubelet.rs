//! What a pod's kubelet would answer: the streams of its containers, and their logs.
//!
//! No kubelet stands behind a simulated node, so only the refusals that come before it are served.

use serde_json::Value;

use super::{Answer, Request};
use crate::endpoints::response;
use crate::meta::GroupKind;
use crate::registry::store::Store;
use crate::registry::strategy;
use crate::status::{ApiError, FieldErrors, FieldPath};

pub(super) const NO_ADDRESS: &str = "no preferred addresses found; known addresses: []";

/// exec, attach and portforward.
pub(super) fn stream(request: &Request<'_>) -> Answer {
    let pod = pod(request)?;
    check_container(request, &pod)?;
    match node_of(&pod) {
        "" => Err(ApiError::BadRequest(format!(
            "pod {} does not have a host assigned",
            request.name()
        ))),
        node => Err(unreachable(request, node)),
    }
}

/// The log of a container, which is empty until a node has the pod.
pub(super) fn log(request: &Request<'_>) -> Answer {
    check_log_options(request)?;
    let pod = pod(request)?;
    check_container(request, &pod)?;
    match node_of(&pod) {
        "" => Ok(response::whole(200, "text/plain", "")),
        node => Err(unreachable(request, node)),
    }
}

/// Which part of a log is asked for.
fn check_log_options(request: &Request<'_>) -> Result<(), ApiError> {
    let mut errors = FieldErrors::new();
    let mut at_least = |field: &str, least: i64, detail: &str| -> Result<(), ApiError> {
        let value = request.query.integer(field)?;
        if let Some(value) = value.filter(|value| *value < least) {
            errors.invalid(&FieldPath::new(field), &value.into(), detail);
        }
        Ok(())
    };
    at_least("tailLines", 0, "must be greater than or equal to 0")?;
    at_least("limitBytes", 1, "must be greater than 0")?;
    if request.query.get("sinceTime").is_none() {
        at_least("sinceSeconds", 1, "must be greater than 0")?;
    } else if request.query.integer("sinceSeconds")?.is_some() {
        let detail = "at most one of `sinceTime` or `sinceSeconds` may be specified";
        errors.forbidden(&FieldPath::new(""), detail);
    }
    if errors.is_empty() {
        return Ok(());
    }
    Err(ApiError::Invalid {
        kind: GroupKind {
            group: String::new(),
            kind: "PodLogOptions".to_owned(),
        },
        name: request.name().to_owned(),
        errors,
    })
}

fn pod(request: &Request<'_>) -> Result<Value, ApiError> {
    let pod = request
        .store(false)
        .get(request.namespace(), request.name())?;
    Ok((*pod.value).clone())
}

fn node_of(pod: &Value) -> &str {
    pod["spec"]["nodeName"].as_str().unwrap_or_default()
}

/// The container asked for must be one of the pod's; only a lone one needs no name.
fn check_container(request: &Request<'_>, pod: &Value) -> Result<(), ApiError> {
    if request.info.subresource.as_deref() == Some("portforward") {
        return Ok(());
    }
    let names = |list: &str| -> Vec<&str> {
        let containers = pod["spec"][list].as_array();
        let containers = containers.into_iter().flatten();
        containers.filter_map(|own| own["name"].as_str()).collect()
    };
    let (containers, init) = (names("containers"), names("initContainers"));
    let wanted = request.query.get("container").unwrap_or_default();
    let pod = request.name();
    if wanted.is_empty() {
        if containers.len() == 1 {
            return Ok(());
        }
        let mut message = format!(
            "a container name must be specified for pod {pod}, choose one of: [{}]",
            containers.join(" ")
        );
        if !init.is_empty() {
            message += &format!(" or one of the init containers: [{}]", init.join(" "));
        }
        return Err(ApiError::BadRequest(message));
    }
    let known = [containers, init, names("ephemeralContainers")].concat();
    if known.contains(&wanted) {
        return Ok(());
    }
    Err(ApiError::BadRequest(format!(
        "container {wanted} is not valid for pod {pod}"
    )))
}

/// Why the kubelet of `node` can't be asked.
fn unreachable(request: &Request<'_>, node: &str) -> ApiError {
    let nodes = request
        .core
        .catalog
        .resource("", "v1", "nodes")
        .expect("nodes are built in");
    let store = Store {
        resource: nodes,
        strategy: strategy(&nodes.gvr().group_resource()),
        ..request.store(false)
    };
    match store.get(None, node) {
        Err(error) => error,
        Ok(_) => ApiError::Unknown(NO_ADDRESS.to_owned()),
    }
}
