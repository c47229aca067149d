//! The catalog entries of definitions.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{CustomKind, group_of, hash};
use crate::apiextensions::custom_resource::{
    CustomResource, ScalePaths, Versions, printer_columns,
};
use crate::apiextensions::custom_resource_definition::conditions;
use crate::catalog::{Catalog, CustomData, ResourceInfo, SubresourceInfo};
use crate::columns::Column;
use crate::json::Value;
use crate::meta::ResourceVersion;
use crate::meta::object::is_terminating;
use crate::meta::version::compare as compare_versions;
use crate::meta::{GroupResource, GroupVersion, GroupVersionKind};
use kubeproof_storage::{ObjectKey, StoredObject};

/// The verbs of a custom resource in the order of its discovery, and those that are left while its
/// definition is being deleted.
const VERBS: [&str; 8] = [
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "create",
    "update",
    "watch",
];
const TERMINATING_VERBS: [&str; 5] = ["delete", "deletecollection", "get", "list", "watch"];

/// The served resources for one set of definitions.
#[derive(Clone, Debug)]
pub struct Served {
    /// The resources in discovery.
    pub catalog: Arc<Catalog>,
    /// The resources that no definition declares.
    builtin: Arc<Catalog>,
    /// The definitions by name.
    definitions: BTreeMap<String, Definition>,
}

/// The contents of one definition.
#[derive(Clone, Debug)]
struct Definition {
    /// The `resourceVersion` of the definition.
    rv: ResourceVersion,
    /// Whether the definition is in discovery.
    established: bool,
    served: bool,
    /// Whether the definition is being deleted.
    terminating: bool,
    versions: Arc<Versions>,
    /// The versions that are served or stored.
    resources: Vec<Arc<ResourceInfo>>,
    /// The names of the served versions.
    served_versions: Vec<String>,
}

impl Served {
    /// Returns the resources of a server without definitions.
    pub fn builtin(builtin: &Arc<Catalog>) -> Self {
        Self {
            catalog: Arc::clone(builtin),
            builtin: Arc::clone(builtin),
            definitions: BTreeMap::new(),
        }
    }

    /// Whether only built-in resources are served.
    pub fn is_empty(&self) -> bool {
        self.definitions.is_empty()
    }

    /// Whether a webhook converts objects of any definition.
    pub fn converts_by_webhook(&self) -> bool {
        let mut resources = self.definitions.values().flat_map(|own| &own.resources);
        resources.any(|resource| resource.conversion().is_some())
    }

    /// Returns the resources of `definitions`, sharing with `before` what is unchanged. New schemas
    /// are in force for objects stored after version `since`.
    pub fn of(definitions: &[Arc<StoredObject>], before: &Self, since: ResourceVersion) -> Self {
        let definitions: BTreeMap<String, Definition> = definitions
            .iter()
            .map(|stored| {
                let name = stored.key.as_str();
                let held = before.definitions.get(name);
                let definition = match held.filter(|held| held.rv == stored.rv) {
                    Some(held) => held.clone(),
                    None => Definition::of(stored, held, since),
                };
                (name.to_owned(), definition)
            })
            .collect();
        let established = definitions
            .values()
            .filter(|definition| definition.established);
        let listed: Vec<Arc<ResourceInfo>> = established
            .flat_map(Definition::served_resources)
            .cloned()
            .collect();
        Self {
            catalog: Arc::new(before.builtin.with(&listed)),
            builtin: Arc::clone(&before.builtin),
            definitions,
        }
    }

    /// A custom resource that is served.
    pub fn resource(&self, group: &str, version: &str, plural: &str) -> Option<Arc<ResourceInfo>> {
        let definition = self.definitions.get(&format!("{plural}.{group}"))?;
        let mut resources = definition.served_resources();
        let found = resources.find(|info| info.gvr().version == version);
        found.filter(|_| definition.served).cloned()
    }

    /// The groups of which a definition came, changed or went since this was made.
    pub fn outdated_groups(&self, definitions: &[Arc<StoredObject>]) -> BTreeSet<String> {
        let group = |name: &str| group_of(name).to_owned();
        let mut gone: BTreeSet<&str> = self.definitions.keys().map(String::as_str).collect();
        let mut groups = BTreeSet::new();
        for definition in definitions {
            let name = definition.key.as_str();
            gone.remove(name);
            let held = self.definitions.get(name);
            if held.is_none_or(|held| held.rv != definition.rv) {
                groups.insert(group(name));
            }
        }
        groups.extend(gone.into_iter().map(group));
        groups
    }

    /// The resources whose definitions were there before and are not any more.
    pub fn resources_gone_since(&self, before: &Self) -> Vec<GroupResource> {
        let names = before.definitions.keys();
        let gone = names.filter(|name| !self.definitions.contains_key(*name));
        gone.filter_map(|name| name.split_once('.'))
            .map(|(plural, group)| GroupResource {
                group: group.to_owned(),
                resource: plural.to_owned(),
            })
            .collect()
    }

    /// Whether a definition is being deleted.
    pub fn is_terminating(&self, key: &ObjectKey) -> bool {
        let definition = self.definitions.get(key.as_str());
        definition.is_some_and(|definition| definition.terminating)
    }

    /// Whether nothing has changed since `before`.
    pub fn same_as(&self, before: &Self) -> bool {
        let rvs = |served: &Self| -> Vec<ResourceVersion> {
            let definitions = served.definitions.values();
            definitions.map(|definition| definition.rv).collect()
        };
        rvs(self) == rvs(before)
    }

    /// The versions that are in discovery.
    pub fn versions(&self) -> BTreeSet<GroupVersion> {
        let definitions = self.definitions.values();
        let established = definitions.filter(|definition| definition.established);
        let resources = established.flat_map(Definition::served_resources);
        resources.map(|info| info.gvk().group_version()).collect()
    }

    /// Returns the kinds in discovery, for OpenAPI documents.
    pub fn documented(&self) -> Vec<CustomKind> {
        let definitions = self.definitions.values();
        let established = definitions.filter(|definition| definition.established);
        let resources = established.flat_map(Definition::served_resources);
        resources.map(|info| documented(info)).collect()
    }

    /// A custom resource in the version that it is stored in, by the name of its definition.
    pub fn stored_resource(&self, name: &str) -> Option<Arc<ResourceInfo>> {
        let definition = self.definitions.get(name)?;
        let mut resources = definition.resources.iter();
        let found = resources.find(|info| info.gvr().version == definition.versions.storage);
        found.cloned()
    }
}

impl Definition {
    fn of(stored: &StoredObject, held: Option<&Self>, since: ResourceVersion) -> Self {
        let value = &*stored.value();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut versions = Arc::new(Versions::new(
            value,
            held.map(|held| &*held.versions),
            since,
        ));
        if let Some(held) = held.filter(|held| held.versions.same_as(&versions)) {
            versions = Arc::clone(&held.versions);
        }
        let established = conditions::is_true(value, "Established");
        let list = || value["spec"]["versions"].as_array().into_iter().flatten();
        let used = list().filter(|version| version["served"] == true || version["storage"] == true);
        Self {
            rv: stored.rv,
            established,
            served: established || conditions::is_true(value, "NamesAccepted"),
            terminating: is_terminating(value),
            resources: used
                .map(|version| Arc::new(resource(value, version, &versions)))
                .collect(),
            served_versions: list()
                .filter(|version| version["served"] == true)
                .map(|version| text(&version["name"]))
                .collect(),
            versions,
        }
    }

    fn served_resources(&self) -> impl Iterator<Item = &Arc<ResourceInfo>> {
        let is_served = |info: &&Arc<ResourceInfo>| {
            self.served_versions
                .iter()
                .any(|served| *served == info.gvr().version)
        };
        self.resources.iter().filter(is_served)
    }
}

fn documented(info: &ResourceInfo) -> CustomKind {
    let custom = info.custom.as_ref();
    let custom = custom.expect("what a definition declares is custom");
    let schema = custom.versions.schema(&info.gvk().version);
    let subresources = info.subresources.iter();
    let selectable = info.field_labels.iter();
    CustomKind {
        gvk: info.gvk().clone(),
        list_kind: custom.list_kind.clone(),
        plural: info.gvr().resource.clone(),
        namespaced: info.namespaced,
        subresources: subresources.map(|sub| sub.name.clone()).collect(),
        schema: Some(Arc::clone(schema.source())),
        preserve_unknown_fields: false,
        selectable_fields: selectable
            .filter(|label| !label.starts_with("metadata."))
            .map(|label| format!(".{label}"))
            .collect(),
    }
}

/// The facts about a custom resource in one of its versions.
fn resource(definition: &Value, version: &Value, versions: &Arc<Versions>) -> ResourceInfo {
    let spec = &definition["spec"];
    let names = &definition["status"]["acceptedNames"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let texts = |value: &Value| -> Vec<String> {
        let list = value.as_array().into_iter().flatten();
        list.map(text).collect()
    };
    let gvk = GroupVersionKind {
        group: text(&spec["group"]),
        version: text(&version["name"]),
        kind: text(&names["kind"]),
    };
    let terminating = conditions::is_true(definition, "Terminating");
    let verbs: &[&str] = if terminating {
        &TERMINATING_VERBS
    } else {
        &VERBS
    };
    let storage_is_served = spec["versions"]
        .as_array()
        .into_iter()
        .flatten()
        .any(|version| version["storage"] == true && version["served"] == true);
    let storage_version = GroupVersion {
        group: gvk.group.clone(),
        version: versions.storage.clone(),
    };
    let printed = printer_columns(
        &version["additionalPrinterColumns"],
        Column::of_time("Age", "date"),
    );
    let name = Column::name();
    let columns = printed.iter().map(|printed| printed.column.clone());
    let selectable = version["selectableFields"].as_array().into_iter().flatten();
    ResourceInfo::custom(CustomData {
        plural: text(&names["plural"]),
        singular: text(&names["singular"]),
        namespaced: spec["scope"] == "Namespaced",
        short_names: texts(&names["shortNames"]),
        categories: texts(&names["categories"]),
        verbs: verbs.iter().copied().map(str::to_owned).collect(),
        storage_version_hash: storage_is_served
            .then(|| hash::storage_version(&storage_version, &text(&spec["names"]["kind"]))),
        warning: deprecation(spec, version),
        subresources: subresources(&version["subresources"], &gvk),
        columns: std::iter::once(name).chain(columns).collect(),
        field_labels: selectable
            .map(|field| text(&field["jsonPath"]).trim_start_matches('.').to_owned())
            .collect(),
        resource: Arc::new(CustomResource {
            gvk,
            list_kind: text(&names["listKind"]),
            terminating,
            scale: ScalePaths::parse(&version["subresources"]["scale"]),
            columns: printed,
            versions: Arc::clone(versions),
        }),
    })
}

/// Returns the warning of a deprecated version.
fn deprecation(spec: &Value, version: &Value) -> Option<String> {
    if version["deprecated"] != true {
        return None;
    }
    if let Some(warning) = version["deprecationWarning"].as_str() {
        return Some(warning.to_owned());
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (group, kind) = (text(&spec["group"]), text(&spec["names"]["kind"]));
    let deprecated = text(&version["name"]);
    let others = spec["versions"].as_array().into_iter().flatten();
    let mut better: Vec<String> = others
        .filter(|other| other["served"] == true && other["deprecated"] != true)
        .map(|other| text(&other["name"]))
        .filter(|other| compare_versions(other, &deprecated) == Ordering::Less)
        .collect();
    better.sort_by(|left, right| compare_versions(left, right));
    let warning = format!("{group}/{deprecated} {kind} is deprecated");
    Some(match better.first() {
        Some(better) => format!("{warning}; use {group}/{better} {kind}"),
        None => warning,
    })
}

fn subresources(declared: &Value, gvk: &GroupVersionKind) -> Vec<SubresourceInfo> {
    let verbs = || ["get", "patch", "update"].map(str::to_owned).into();
    let mut subresources = Vec::new();
    if declared["status"].is_object() {
        subresources.push(SubresourceInfo {
            name: "status".to_owned(),
            gvk: gvk.clone(),
            verbs: verbs(),
        });
    }
    if declared["scale"].is_object() {
        subresources.push(SubresourceInfo {
            name: "scale".to_owned(),
            gvk: GroupVersionKind {
                group: "autoscaling".to_owned(),
                version: "v1".to_owned(),
                kind: "Scale".to_owned(),
            },
            verbs: verbs(),
        });
    }
    subresources
}
