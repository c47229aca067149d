//! The condition `Dangling` of FlowSchemas: whether their priority level is missing.
//!
//! Source: apiserver `pkg/util/flowcontrol/apf_controller.go`, whose controller is part of a server.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::clock::rfc3339;
use crate::field_manager::{Force, Writer};
use crate::json::{Value, json};
use crate::meta::object::name;
use crate::registry::catalog::ResourceInfo;
use crate::registry::flowcontrol::flow_schema::GROUP;
use crate::registry::unstructured::items;
use crate::store::{State, Store, Subresource, at_once};

const VERSION: &str = "v1";
const SCHEMAS: &str = "flowschemas";
const LEVELS: &str = "prioritylevelconfigurations";

/// The manager of the condition.
const MANAGER: &str = "api-priority-and-fairness-config-consumer-v1";

/// Sets the conditions that a write of an object of `resource` has made wrong.
pub(in crate::server) fn after_write(state: &State, resource: &ResourceInfo) {
    let gvr = resource.gvr();
    if gvr.group == GROUP && matches!(gvr.resource.as_str(), SCHEMAS | LEVELS) {
        state.flow_schema_passes.run(|| sync(state));
    }
}

fn sync(state: &State) {
    let user_agent = Arc::from("");
    let store = store(state, &user_agent);
    let snapshot = |resource: &str| {
        let resource = state.catalog.resource(GROUP, VERSION, resource);
        let resource = resource.expect("flow control is built in");
        state.storage.table(resource.gvr()).snapshot()
    };
    let levels = snapshot(LEVELS);
    let levels = levels.range(None, None).map(|level| level.key.as_str());
    let levels: BTreeSet<&str> = levels.collect();
    for schema in snapshot(SCHEMAS).range(None, None) {
        let schema = schema.value();
        let wanted = condition(&schema, &levels);
        let mut held = items(&schema["status"]["conditions"]);
        let is_held = held.any(|own| {
            let mut fields = wanted.as_object().into_iter().flatten();
            fields.all(|(field, value)| own[field] == *value)
        });
        if !is_held {
            apply(&store, name(&schema), wanted);
        }
    }
}

/// The condition of a FlowSchema where there are `levels`.
fn condition(schema: &Value, levels: &BTreeSet<&str>) -> Value {
    let level = &schema["spec"]["priorityLevelConfiguration"]["name"];
    let level = level.as_str().unwrap_or_default();
    let (status, reason, found) = match levels.contains(level) {
        true => ("False", "Found", "and it exists"),
        false => ("True", "NotFound", "but there is no such object"),
    };
    let message = format!(
        "This FlowSchema references the PriorityLevelConfiguration object named {level:?} {found}"
    );
    json!({"type": "Dangling", "status": status, "reason": reason, "message": message})
}

fn apply(store: &Store<'_>, name: &str, mut condition: Value) {
    let manager = store.field_manager().expect("the store has a writer");
    let now = rfc3339(store.state.clock.now());
    condition["lastTransitionTime"] = now.as_str().into();
    let applied = json!({
        "apiVersion": format!("{GROUP}/{VERSION}"),
        "kind": "FlowSchema",
        "metadata": {"name": name},
        "status": {"conditions": [condition]},
    });
    // The outcome of an apply comes with its owners.
    let store = Store {
        writer: None,
        ..*store
    };
    let written = store.update(None, name, Subresource::Status, |live| {
        manager.apply(Some(live), &applied, Force::Yes, &now)
    });
    if let Err(error) = at_once(written) {
        // The object is gone, or will be checked again when it is valid.
        tracing::debug!(name, %error, "condition of a FlowSchema not set");
    }
}

/// Writes FlowSchemas on behalf of the server.
fn store<'a>(state: &'a State, user_agent: &'a Arc<str>) -> Store<'a> {
    let resource = state.catalog.resource(GROUP, VERSION, SCHEMAS);
    let resource = resource.expect("flow control is built in");
    let writer = Writer {
        field_manager: MANAGER,
        user_agent: "",
        subresource: "status",
    };
    Store::of_server(state, resource, user_agent, writer)
}
