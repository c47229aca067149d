//! CustomResourceDefinitions: how they behave, what they serve, and what follows from a write of
//! one.

mod api_service;
mod approval;
mod conditions;
mod finalizer;
mod formats;
mod hash;
mod naming;
mod served;
mod validation;

use std::sync::Arc;

use parking_lot::RwLock;
use serde_json::{Value, json};

use super::catalog::{Catalog, ResourceInfo};
use super::store::Store;
use super::{Context, Passes, Strategy};
use crate::field_manager::Writer;
use crate::meta::object::{child_mut, default};
use crate::server::Core;
use crate::status::FieldErrors;
use crate::storage::StoredObject;
use served::Served;

pub(super) use served::compare_versions;
pub(super) use validation::webhook_client::validate as validate_webhook_client;

const GROUP: &str = "apiextensions.k8s.io";
const PLURAL: &str = "customresourcedefinitions";

/// The manager of what the server writes itself.
const MANAGER: &str = "kube-apiserver";

/// The strategy of `customresourcedefinitions`.
#[derive(Debug)]
pub(super) struct CustomResourceDefinition;

impl Strategy for CustomResourceDefinition {
    fn counts_generation(&self) -> bool {
        true
    }

    fn default(&self, definition: &mut Value) {
        default_spec(definition);
        if is_empty(&definition["status"]["storedVersions"])
            && let Some(stored) = storage_version(definition)
        {
            let stored = json!([stored]);
            child_mut(definition, "status").insert("storedVersions".to_owned(), stored);
        }
    }

    fn prepare_for_create(&self, definition: &mut Value, _context: Context<'_>) {
        add_stored_version(definition);
    }

    fn prepare_for_update(&self, new: &mut Value, _old: &Value, _context: Context<'_>) {
        add_stored_version(new);
    }

    fn validate(&self, definition: &Value) -> FieldErrors {
        validation::create(definition)
    }

    fn validate_update(&self, new: &Value, old: &Value) -> FieldErrors {
        validation::update(new, old)
    }

    fn validate_status_update(&self, new: &Value, _old: &Value) -> FieldErrors {
        validation::status_update(new)
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        formats::warnings(new, old)
    }

    fn begin_deletion(&self, definition: &Value, now: &str) -> Option<Value> {
        Some(finalizer::begin(definition, now))
    }
}

fn is_empty(list: &Value) -> bool {
    list.as_array().is_none_or(Vec::is_empty)
}

fn default_spec(definition: &mut Value) {
    let spec = child_mut(definition, "spec");
    if !spec.contains_key("conversion") {
        spec.insert("conversion".to_owned(), json!({ "strategy": "None" }));
    }
    if let Some(service) = spec
        .get_mut("conversion")
        .and_then(|conversion| conversion.pointer_mut("/webhook/clientConfig/service"))
        .and_then(Value::as_object_mut)
    {
        default(service, "port", 443);
    }
    let Some(names) = spec.get_mut("names").and_then(Value::as_object_mut) else {
        return;
    };
    let kind = names
        .get("kind")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if kind.is_empty() {
        return;
    }
    let (singular, list_kind) = (kind.to_lowercase(), format!("{kind}List"));
    default(names, "singular", singular);
    default(names, "listKind", list_kind);
}

/// The version that objects are stored in.
fn storage_version(definition: &Value) -> Option<&str> {
    let mut versions = definition["spec"]["versions"].as_array()?.iter();
    versions.find(|version| version["storage"] == true)?["name"].as_str()
}

/// Objects may have been stored in the storage version from now on.
fn add_stored_version(definition: &mut Value) {
    let Some(storage) = storage_version(definition).map(str::to_owned) else {
        return;
    };
    let status = child_mut(definition, "status");
    let stored = status.entry("storedVersions").or_insert_with(|| json!([]));
    if let Some(stored) = stored.as_array_mut()
        && !stored.iter().any(|version| *version == *storage)
    {
        stored.push(storage.into());
    }
}

/// What the definitions of a server declare, kept up to date with each write of one.
///
/// The controllers that a server has for definitions run within the request that gives them
/// something to do, so that its client finds everything done.
#[derive(Debug)]
pub(crate) struct Definitions {
    served: RwLock<Arc<Served>>,
    passes: Passes,
    user_agent: Arc<str>,
}

impl Definitions {
    /// Those of a server that has none yet.
    pub(crate) fn new() -> Self {
        Self {
            served: RwLock::new(Arc::new(Served::builtin())),
            passes: Passes::default(),
            user_agent: Arc::from(""),
        }
    }

    /// The same, for a server that begins with the same definitions.
    pub(crate) fn forked(&self) -> Self {
        Self {
            served: RwLock::new(Arc::clone(&self.served.read())),
            passes: Passes::default(),
            user_agent: Arc::clone(&self.user_agent),
        }
    }

    /// The resources in discovery, the built-in ones included.
    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.served.read().catalog)
    }

    /// A custom resource that is served.
    pub(crate) fn resource(
        &self,
        group: &str,
        version: &str,
        plural: &str,
    ) -> Option<Arc<ResourceInfo>> {
        self.served.read().resource(group, version, plural)
    }

    /// A custom resource in the version that it is stored in, by the name of its definition.
    fn stored_resource(&self, name: &str) -> Option<Arc<ResourceInfo>> {
        self.served.read().stored_resource(name)
    }
}

/// Serves what a server stores that began where another one is, or was.
pub(crate) fn after_fork(core: &Core) {
    let held = Arc::clone(&core.definitions.served.read());
    let definitions = all(&store(core));
    if definitions.is_empty() && held.is_empty() {
        return;
    }
    // What webhooks have converted is remembered by revision, of which each server gives out its own.
    let before = match held.converts_by_webhook() {
        true => Served::builtin(),
        false => Served::clone(&held),
    };
    let served = Served::of(&definitions, &before, core.storage.revision());
    core.openapi.set_custom(served.documented());
    *core.definitions.served.write() = Arc::new(served);
}

/// Does what follows from a write of an object of `resource`.
pub(super) fn after_write(core: &Core, resource: &ResourceInfo) {
    let terminating = resource
        .custom
        .as_ref()
        .is_some_and(|custom| custom.terminating);
    if !is_definitions(resource) && !terminating {
        return;
    }
    core.definitions.passes.run(|| run(core));
}

/// Lets each controller look at each definition once.
fn run(core: &Core) {
    let store = store(core);
    let before = Arc::clone(&core.definitions.served.read());
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
        if approval::is_protected(group_of(definition.key.as_str())) {
            approval::sync(&store, definition);
        }
    }
    let next = Arc::new(Served::of(&all(&store), &before, core.storage.revision()));
    if !next.same_as(&before) {
        core.openapi.set_custom(next.documented());
        *core.definitions.served.write() = Arc::clone(&next);
        if count(&next.catalog) < count(&before.catalog) {
            let is_served = |group: &str, plural: &str| serves(&next.catalog, group, plural);
            core.metrics.forget(&is_served);
        }
        if next.versions() != before.versions() {
            api_service::sync(core, &next.versions());
        }
        for resource in next.resources_gone_since(&before) {
            if !serves(core.catalog, &resource.group, &resource.resource) {
                core.storage.forget(&resource);
            }
        }
    }
    let definitions = all(&store).into_iter();
    for definition in definitions.filter(|definition| next.is_terminating(&definition.key)) {
        finalizer::sync(&store, &definition);
    }
}

/// How many resources are served, each version counted.
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

/// The group of a definition, which is called by its plural and its group: to read all definitions
/// upon each write of one would take as long as everything else together.
fn group_of(name: &str) -> &str {
    name.split_once('.').map_or("", |(_, group)| group)
}

fn is_definitions(resource: &ResourceInfo) -> bool {
    let gvr = resource.gvr();
    gvr.group == GROUP && gvr.resource == PLURAL
}

/// Writes definitions on behalf of the server.
fn store(core: &Core) -> Store<'_> {
    let resource = core.catalog.resource(GROUP, "v1", PLURAL);
    Store {
        core,
        resource: resource.expect("definitions are built in"),
        strategy: &CustomResourceDefinition,
        user_agent: &core.definitions.user_agent,
        writer: Some(Writer {
            field_manager: MANAGER,
            user_agent: "",
            subresource: "status",
        }),
        warnings: None,
        guards_uid: false,
        dry_run: false,
        requester: None,
        view: None,
    }
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
