//! The condition `Available` of APIServices.
//!
//! Source: `pkg/controllers/status` of kube-aggregator.

use std::net::SocketAddr;

use crate::api_services::{Backend, GROUP, PLURAL, VERSION};
use crate::clock::rfc3339;
use crate::field_manager::Writer;
use crate::json::{Value, json};
use crate::registry::catalog::ResourceInfo;
use crate::registry::condition::set_condition;
use crate::registry::unstructured::{items, text};
use crate::storage::ObjectKey;
use crate::store::{State, Store, Subresource, at_once};
use crate::webhook::{SERVICE_NAME, resolve};

/// The field manager of the server's own writes.
const MANAGER: &str = "kube-apiserver";

/// A judgement of an APIService.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Judgement {
    status: &'static str,
    reason: &'static str,
    message: String,
}

impl Judgement {
    fn refused(reason: &'static str, message: String) -> Self {
        Self {
            status: "False",
            reason,
            message,
        }
    }

    /// The service answers.
    pub(crate) fn passed() -> Self {
        Self {
            status: "True",
            reason: "Passed",
            message: "all checks passed".to_owned(),
        }
    }

    /// The service does not answer, for this reason.
    pub(crate) fn failed(why: String) -> Self {
        Self::refused("FailedDiscoveryCheck", why)
    }

    /// The server itself serves the group version.
    fn local() -> Self {
        Self {
            status: "True",
            reason: "Local",
            message: "Local APIServices are always available".to_owned(),
        }
    }
}

/// The result of a look at the service of an APIService in the stored objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Finding {
    /// It cannot be asked.
    Judged(Judgement),
    /// It is to be asked at this address.
    At(SocketAddr),
}

/// Looks at the service of an APIService and at its endpoints.
pub(crate) fn find(state: &State, backend: &Backend) -> Finding {
    let (namespace, name, port) = &backend.service;
    let asked = || match resolve(&state.webhook_client(), namespace, name, *port) {
        Ok(address) => Finding::At(address),
        Err(why) => Finding::Judged(Judgement::failed(why)),
    };
    if state.services.get(namespace, name, *port).is_some() {
        return asked();
    }
    let refused = |reason, message| Finding::Judged(Judgement::refused(reason, message));
    let service = state
        .storage
        .table_of("", "services")
        .get(&ObjectKey::new(Some(namespace), name));
    let Some(service) = service else {
        let message = format!("service/{name} in {namespace:?} is not present");
        return refused("ServiceNotFound", message);
    };
    let service = service.fields(&["spec"]);
    let spec = &service["spec"];
    if spec["type"] != "ClusterIP" {
        return asked();
    }
    let wanted = items(&spec["ports"]).find(|own| own["port"].as_u64() == Some((*port).into()));
    let Some(wanted) = wanted else {
        let message = format!("service/{name} in {namespace:?} is not listening on port {port}");
        return refused("ServicePortError", message);
    };
    let port_name = text(&wanted["name"]);
    let slices = state
        .storage
        .table_of("discovery.k8s.io", "endpointslices")
        .snapshot();
    let slices = slices.range(Some(namespace), None);
    let mut slices = slices
        .filter(|slice| slice.label(SERVICE_NAME) == Some(name))
        .peekable();
    if slices.peek().is_none() {
        let message = format!("cannot find endpointslices for service/{name} in {namespace:?}");
        return refused("EndpointsNotFound", message);
    }
    if !slices.any(|slice| has_endpoint(&slice.value(), port_name)) {
        let message = format!(
            "endpointslices for service/{name} in {namespace:?} have no addresses with port name {port_name:?}"
        );
        return refused("MissingEndpoints", message);
    }
    asked()
}

fn has_endpoint(slice: &Value, port_name: &str) -> bool {
    let is_ready = |endpoint: &Value| endpoint["conditions"]["ready"] != false;
    let is_wanted = |port: &Value| text(&port["name"]) == port_name && !port["port"].is_null();
    items(&slice["endpoints"]).any(is_ready) && items(&slice["ports"]).any(is_wanted)
}

/// Judges the APIServices anew after a write of one of them, of a service or of endpoints, as far as stored objects
/// decide.
pub(crate) fn after_write(state: &State, resource: &ResourceInfo) {
    let gvr = resource.gvr();
    let is_service = match (gvr.group.as_str(), gvr.resource.as_str()) {
        (GROUP, PLURAL) => false,
        ("", "services") | ("discovery.k8s.io", "endpointslices") => true,
        _ => return,
    };
    let registered = state.api_services.registered(&state.storage);
    if is_service && registered.remote.is_empty() {
        return;
    }
    for entry in registered.remote.values() {
        if let Finding::Judged(judgement) = find(state, &entry.backend) {
            judge(state, &entry.backend.name(), &judgement);
        }
    }
    for name in &registered.misjudged {
        judge(state, name, &Judgement::local());
    }
}

/// Writes the condition of an APIService, unless it has it.
pub(crate) fn judge(state: &State, name: &str, judgement: &Judgement) {
    let resource = state.catalog.resource(GROUP, VERSION, PLURAL);
    let resource = resource.expect("API services are built in");
    let writer = Writer {
        field_manager: MANAGER,
        user_agent: "",
        subresource: "status",
    };
    let store = Store::of_server(state, resource, &state.definitions.user_agent, writer);
    let Some(held) = store.table().get(&ObjectKey::new(None, name)) else {
        return;
    };
    let held = held.fields(&["status"]);
    let mut conditions = items(&held["status"]["conditions"]);
    let is_held = conditions.any(|own| {
        own["type"] == "Available"
            && own["status"] == judgement.status
            && own["reason"] == judgement.reason
            && own["message"] == judgement.message
    });
    if is_held {
        return;
    }
    let now = rfc3339(state.clock.now());
    let written = store.update(None, name, Subresource::Status, |current| {
        let mut next = current.clone();
        let Judgement {
            status,
            reason,
            message,
        } = judgement;
        let condition = json!({
            "type": "Available", "status": status, "lastTransitionTime": now,
            "reason": reason, "message": message,
        });
        set_condition(&mut next, condition);
        Ok(next)
    });
    // Deleted meanwhile, or written by another: that write is followed by a judgement of its own.
    if let Err(error) = at_once(written) {
        tracing::debug!(name, %error, "condition of an API service not written");
    }
}
