//! What CustomResourceDefinitions declare, and the controllers that a server has for them: names are accepted, definitions
//! established, their resources served, and their objects deleted with them.

mod api_service;
mod approval;
mod finalizer;
mod naming;

use std::sync::Arc;

use crate::field_manager::Writer;
use crate::registry::apiextensions::custom_resource_definition::approval::is_protected;
use crate::registry::apiextensions::custom_resource_definition::{GROUP, PLURAL};
use crate::registry::catalog::{Catalog, ResourceInfo};
use crate::registry::definitions::{Served, group_of};
use crate::storage::StoredObject;
use crate::store::{State, Store};

/// The field manager of the server's own writes.
const MANAGER: &str = "kube-apiserver";

/// Serves the stored definitions of a new fork, be it of the present or of a past revision.
pub(crate) fn after_fork(state: &State) {
    let held = state.definitions.served();
    let definitions = all(&store(state));
    if definitions.is_empty() && held.is_empty() {
        return;
    }
    // What webhooks have converted is remembered by revision, of which each server gives out its own.
    let before = match held.converts_by_webhook() {
        true => Served::builtin(&state.served),
        false => Served::clone(&held),
    };
    let served = Served::of(&definitions, &before, state.storage.resource_version());
    state.definitions.serve(Arc::new(served));
}

/// Runs the controllers after a write of an object of `resource`.
pub(crate) fn after_write(state: &State, resource: &ResourceInfo) {
    let terminating = resource
        .custom
        .as_ref()
        .is_some_and(|custom| custom.terminating);
    if !is_definitions(resource) && !terminating {
        return;
    }
    state.definitions.passes.run(|| run(state));
}

/// Lets each controller look at each definition once.
fn run(state: &State) {
    let store = store(state);
    let before = state.definitions.served();
    let definitions = all(&store);
    // Names only depend on those of the same group.
    let outdated = before.outdated_groups(&definitions);
    let in_outdated =
        |definition: &&Arc<StoredObject>| outdated.contains(group_of(definition.key.as_str()));
    for definition in definitions.iter().filter(in_outdated) {
        naming::sync(&store, definition);
        naming::establish(&store, definition);
    }
    for definition in &definitions {
        if is_protected(group_of(definition.key.as_str())) {
            approval::sync(&store, definition);
        }
    }
    let next = Arc::new(Served::of(
        &all(&store),
        &before,
        state.storage.resource_version(),
    ));
    if !next.same_as(&before) {
        state.definitions.serve(Arc::clone(&next));
        if count(&next.catalog) < count(&before.catalog) {
            let is_served = |group: &str, plural: &str| serves(&next.catalog, group, plural);
            state.metrics.forget(&is_served);
        }
        if next.versions() != before.versions() {
            api_service::sync(state, &next.versions());
        }
        for resource in next.resources_gone_since(&before) {
            if !serves(&state.catalog, &resource.group, &resource.resource) {
                state.storage.forget(&resource);
            }
        }
    }
    let definitions = all(&store).into_iter();
    for definition in definitions.filter(|definition| next.is_terminating(&definition.key)) {
        finalizer::sync(&store, &definition);
    }
}

/// The number of served resources; each version counts.
fn count(catalog: &Catalog) -> usize {
    let versions = catalog.groups().iter().flat_map(|group| &group.versions);
    versions.map(|version| version.resources.len()).sum()
}

/// Whether a resource is served in any version.
fn serves(catalog: &Catalog, group: &str, resource: &str) -> bool {
    let versions = catalog.group(group).map(|group| &group.versions);
    let mut versions = versions.into_iter().flatten();
    versions.any(|version| {
        let mut resources = version.resources.iter();
        resources.any(|own| own.gvr().resource == resource)
    })
}

fn is_definitions(resource: &ResourceInfo) -> bool {
    let gvr = resource.gvr();
    gvr.group == GROUP && gvr.resource == PLURAL
}

/// Writes definitions on behalf of the server.
fn store(state: &State) -> Store<'_> {
    let resource = state.catalog.resource(GROUP, "v1", PLURAL);
    let resource = resource.expect("definitions are built in");
    let writer = Writer {
        field_manager: MANAGER,
        user_agent: "",
        subresource: "status",
    };
    Store::of_server(state, resource, &state.definitions.user_agent, writer)
}

/// The definitions as they are now, by name.
fn all(store: &Store<'_>) -> Vec<Arc<StoredObject>> {
    store
        .table()
        .snapshot()
        .range(None, None)
        .cloned()
        .collect()
}
