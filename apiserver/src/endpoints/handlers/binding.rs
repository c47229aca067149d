//! POST of a Binding: gives a pod its node, once.

use super::named_create::{admit, success};
use super::{Answer, Request, decode};
use crate::admission;
use crate::clock::rfc3339;
use crate::json::Value;
use crate::meta::object::{meta, name};
use crate::metrics::admission::Plugin;
use crate::registry::core::pod::binding;
use crate::request::options::Preconditions;
use crate::status::ApiError;
use crate::store::{Store, Subresource};

/// POST of a Binding to its pod.
pub(super) async fn bind_pod(request: &Request<'_>) -> Answer {
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
pub(super) async fn create(request: &Request<'_>) -> Answer {
    let dry_run = request.query.dry_run("CreateOptions")?;
    let mut binding = decode::object(request, request.resource.gvk(), "CreateOptions")?;
    request
        .store(dry_run)
        .set_namespace(&mut binding, request.namespace())?;
    admit(request, name(&binding))?;
    let (store, gvk) = (request.store(dry_run), request.resource.gvk());
    let asked = store.admit_below(gvk, &mut binding);
    asked.await?;
    bind(request, name(&binding), &binding, dry_run).await
}

/// Gives a pod its node, once.
async fn bind(request: &Request<'_>, pod_name: &str, object: &Value, dry_run: bool) -> Answer {
    let node = binding::node_of(object)?;
    if pod_name.is_empty() {
        return Err(ApiError::BadRequest("Name parameter required.".to_owned()));
    }
    let now = rfc3339(request.state.clock.now());
    let stated = |field: &str| {
        let value = meta(object, field);
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
    let bound = store.update(
        request.namespace(),
        pod_name,
        Subresource::Unchecked,
        |pod| {
            if let Some(message) = preconditions.violation(pod) {
                let namespace = request.namespace().unwrap_or_default();
                return Err(store.storage_conflict(namespace, pod_name, &message));
            }
            let mut next = binding::bind(pod, node, object, &now)?;
            if request.state.plugins.has(Plugin::PodTopologyLabels) {
                admission::topology::label(request.state, node, &mut next);
            }
            Ok(next)
        },
    );
    bound.await?;
    Ok(success(request))
}
