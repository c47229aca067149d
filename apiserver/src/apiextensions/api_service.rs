//! The API services of the versions that definitions serve, as the aggregator registers them.

use std::collections::BTreeSet;

use super::MANAGER;
use crate::field_manager::Writer;
use crate::json::{Value, json};
use crate::meta::GroupVersion;
use crate::meta::object::name;
use crate::request::options::DeleteOptions;
use crate::store::{State, Store, at_once};

/// What marks the API services that come and go with definitions.
const AUTOMANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";

/// The priorities of API services for custom resources: among groups, and among versions of a
/// group.
const GROUP_PRIORITY: i64 = 1000;
const VERSION_PRIORITY: i64 = 100;

/// Makes the API services of `served`, and removes those of versions that are served no more.
pub(super) fn sync(state: &State, served: &BTreeSet<GroupVersion>) {
    let resource = state
        .catalog
        .resource("apiregistration.k8s.io", "v1", "apiservices");
    let resource = resource.expect("API services are built in");
    let writer = Writer {
        field_manager: MANAGER,
        user_agent: "",
        subresource: "",
    };
    let user_agent = &state.definitions.user_agent;
    let store = || Store::of_server(state, resource, user_agent, writer);
    let names: BTreeSet<String> = served.iter().map(service_name).collect();
    let present = store().table().snapshot();
    for service in present.range(None, None) {
        let value = service.value();
        let automanaged = &value["metadata"]["labels"][AUTOMANAGED];
        if automanaged == "true" && !names.contains(name(&value)) {
            let options = DeleteOptions::default();
            let store = store();
            let deleted = store.delete(None, name(&value), &options);
            log_failure(service.key.as_str(), at_once(deleted));
        }
    }
    for version in served {
        let service_name = service_name(version);
        let key = store().key(None, &service_name);
        if store().table().get(&key).is_some() {
            continue;
        }
        log_failure(
            &service_name,
            at_once(store().create(None, service(version))),
        );
    }
}

fn service_name(version: &GroupVersion) -> String {
    format!("{}.{}", version.version, version.group)
}

fn service(version: &GroupVersion) -> Value {
    json!({
        "kind": "APIService",
        "apiVersion": "apiregistration.k8s.io/v1",
        "metadata": { "name": service_name(version), "labels": { AUTOMANAGED: "true" } },
        "spec": {
            "group": version.group,
            "version": version.version,
            "groupPriorityMinimum": GROUP_PRIORITY,
            "versionPriority": VERSION_PRIORITY,
        },
    })
}

/// Logs a failed write. A conflict with another writer is left to the next pass.
fn log_failure<T>(name: &str, written: Result<T, crate::status::ApiError>) {
    if let Err(error) = written {
        tracing::debug!(name, %error, "API service not written");
    }
}
