//! The catalog of resources: names, verbs, subresources, columns and selectable fields of each.
//!
//! The facts of the built-in resources are data (`resources.json`), so that discovery, OpenAPI,
//! tables and selectors read one source. `cargo xtask import` writes the file.

mod column;
mod metric;
mod rows;
mod selection;

use std::borrow::Cow;
use std::sync::{Arc, LazyLock, OnceLock};

use bytes::Bytes;
use serde::Deserialize;

use super::apiextensions::custom_resource::{Conversion, CustomResource};
use super::autoscaling::scale::Scale;
use super::{ApiGroup, Generic, Strategy, api_group};
use crate::columns::Column;
use crate::json::Value;
use crate::meta::version::compare as compare_versions;
use crate::meta::{GroupVersion, GroupVersionKind, GroupVersionResource};
use crate::schema::{self, Object};
use crate::status::quoted;

use column::{ColumnData, ColumnTexts};

static BUILTIN: LazyLock<Builtin> = LazyLock::new(|| {
    let data: FileData = serde_json::from_str(include_str!("resources.json"))
        .expect("resources.json is part of the program");
    let groups = data.groups.into_iter();
    let catalog = Catalog {
        groups: groups
            .map(|group| {
                let strategies = api_group(&group.group);
                group.read(&data.texts, strategies)
            })
            .collect(),
        documents: Documents::default(),
    };
    Builtin {
        catalog: Arc::new(catalog),
        texts: data.texts,
    }
});

/// The contents of `resources.json`.
struct Builtin {
    catalog: Arc<Catalog>,
    texts: ColumnTexts,
}

/// Scale as a pseudo-resource, for its table columns: it is only the kind of a subresource.
static SCALE: LazyLock<ResourceInfo> = LazyLock::new(|| {
    let replicas = |name: &str, description: &str| Column {
        name: name.to_owned(),
        cell_type: "integer".to_owned(),
        format: String::new(),
        description: description.to_owned(),
        priority: 0,
    };
    let scale = ResourceData {
        plural: "scales".to_owned(),
        singular: "scale".to_owned(),
        kind: "Scale".to_owned(),
        namespaced: true,
        short_names: Vec::new(),
        categories: Vec::new(),
        storage_version_hash: None,
        verbs: Vec::new(),
        warning: None,
        field_labels: default_field_labels(),
        field_label_error: default_field_label_error(),
        subresources: Vec::new(),
        columns: Vec::new(),
    };
    let version = GroupVersion {
        group: "autoscaling".to_owned(),
        version: "v1".to_owned(),
    };
    let columns = vec![
        Column {
            format: String::new(),
            ..Column::name()
        },
        replicas(
            "Desired",
            "replicas is the desired number of instances for the scaled object.",
        ),
        replicas(
            "Available",
            "replicas is the actual number of observed instances of the scaled object.",
        ),
        Column::of_time("Age", "string"),
    ];
    ResourceInfo {
        columns,
        ..scale.into_info(&version, &BUILTIN.texts, &Scale)
    }
});

/// The resources of a server, by group and version, in the order of discovery.
///
/// A clone is shallow: it shares the resources.
#[derive(Clone, Debug)]
pub struct Catalog {
    groups: Vec<Group>,
    /// Documents about the catalog.
    pub documents: Documents,
}

/// Documents about a catalog in JSON, each with its `ETag`; made on first use.
#[derive(Debug, Default)]
pub struct Documents {
    /// Aggregated discovery of `/api`.
    pub aggregated_api: OnceLock<(Bytes, String)>,
    /// Aggregated discovery of `/apis`.
    pub aggregated_apis: OnceLock<(Bytes, String)>,
}

impl Clone for Documents {
    /// Returns no documents, as a catalog is cloned to be changed.
    fn clone(&self) -> Self {
        Self::default()
    }
}

/// An API group; the core group comes first and has the name `""`.
#[derive(Clone, Debug)]
pub struct Group {
    /// Name, such as `apps`.
    pub name: String,
    /// The versions of the group, the preferred version first.
    pub versions: Vec<Version>,
}

/// One version of a group.
#[derive(Clone, Debug)]
pub struct Version {
    /// Group and version.
    pub group_version: GroupVersion,
    /// Resources, sorted by plural.
    pub resources: Vec<Arc<ResourceInfo>>,
}

/// The facts about one resource in one version.
#[derive(Clone, Debug)]
pub struct ResourceInfo {
    gvr: GroupVersionResource,
    gvk: GroupVersionKind,
    /// Singular name, such as `pod`.
    pub singular: String,
    /// Whether objects live in a namespace.
    pub namespaced: bool,
    /// Short names that clients may use, such as `po`.
    pub short_names: Vec<String>,
    /// Categories of the resource, such as `all`.
    pub categories: Vec<String>,
    /// Verbs, in the order of discovery.
    pub verbs: Vec<String>,
    /// Opaque mark of the encoding in storage; only resources in storage have one.
    pub storage_version_hash: Option<String>,
    /// Text of the `Warning` header that every answer carries, for deprecated resources.
    pub warning: Option<String>,
    /// Subresources, sorted by name.
    pub subresources: Vec<SubresourceInfo>,
    /// Columns of the resource's Table.
    pub columns: Vec<Column>,
    /// Labels that a field selector may name.
    pub field_labels: Vec<String>,
    /// The definition of the resource, if it is a custom resource.
    pub custom: Option<Arc<CustomResource>>,
    /// The behavior of a built-in resource.
    builtin: &'static dyn Strategy,
    field_label_error: String,
}

/// The catalog data of a custom resource, from its definition.
#[derive(Debug)]
pub struct CustomData {
    /// The plural name.
    pub plural: String,
    /// The singular name.
    pub singular: String,
    /// Whether objects are in namespaces.
    pub namespaced: bool,
    /// The short names, such as `sts`.
    pub short_names: Vec<String>,
    /// The categories, such as `all`.
    pub categories: Vec<String>,
    /// The verbs, in the order of discovery.
    pub verbs: Vec<String>,
    /// `storageVersionHash` of discovery.
    pub storage_version_hash: Option<String>,
    /// The warning of a deprecated version.
    pub warning: Option<String>,
    /// The subresources.
    pub subresources: Vec<SubresourceInfo>,
    /// The columns of tables.
    pub columns: Vec<Column>,
    /// Selectable fields, without those that every object has.
    pub(crate) field_labels: Vec<String>,
    /// The schema and the rules.
    pub resource: Arc<CustomResource>,
}

/// A subresource, such as `status` of `pods`.
#[derive(Clone, Debug)]
pub struct SubresourceInfo {
    /// Name without that of the resource.
    pub name: String,
    /// The kind that the subresource reads or writes; its group can differ from the resource's
    /// group.
    pub gvk: GroupVersionKind,
    /// Verbs, in the order of discovery.
    pub verbs: Vec<String>,
}

impl Catalog {
    /// The resources that a v1.36 server starts with.
    #[must_use]
    pub fn builtin() -> &'static Arc<Self> {
        &BUILTIN.catalog
    }

    /// The groups in the order of discovery, the core group first.
    #[must_use]
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// The group named `name`; `""` is core.
    #[must_use]
    pub fn group(&self, name: &str) -> Option<&Group> {
        self.groups.iter().find(|group| group.name == name)
    }

    /// One version of a group.
    #[must_use]
    pub fn version(&self, group: &str, version: &str) -> Option<&Version> {
        let mut versions = self.group(group)?.versions.iter();
        versions.find(|found| found.group_version.version == version)
    }

    /// One resource by its plural name.
    #[must_use]
    pub fn resource(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<ResourceInfo>> {
        let resources = &self.version(group, version)?.resources;
        resources.iter().find(|info| info.gvr.resource == plural)
    }

    /// Returns the catalog extended by `group`, which has the resources of `data`, an entry of
    /// `groups` in `resources.json`.
    pub fn with_group(&self, group: &ApiGroup, data: &str) -> Self {
        let data: GroupData = serde_json::from_str(data).expect("it is in the format of the file");
        let mut catalog = self.clone();
        catalog.groups.push(data.read(&BUILTIN.texts, group));
        catalog
    }

    /// Returns the catalog extended by custom resources, whose groups follow by name.
    #[must_use]
    pub fn with(&self, custom: &[Arc<ResourceInfo>]) -> Self {
        let mut catalog = self.clone();
        let builtin = catalog.groups.len();
        for info in custom {
            let version = catalog.version_mut(&info.gvk.group_version());
            version.resources.push(Arc::clone(info));
        }
        catalog.groups[builtin..].sort_by(|left, right| left.name.cmp(&right.name));
        for group in &mut catalog.groups[builtin..] {
            group.versions.sort_by(|left, right| {
                let (left, right) = (&left.group_version, &right.group_version);
                compare_versions(&left.version, &right.version)
            });
            for version in &mut group.versions {
                let resources = &mut version.resources;
                resources.sort_by(|left, right| left.gvr.resource.cmp(&right.gvr.resource));
            }
        }
        catalog
    }

    /// A version of a group, both made if they are not there.
    fn version_mut(&mut self, wanted: &GroupVersion) -> &mut Version {
        let groups = &mut self.groups;
        let at = groups.iter().position(|group| group.name == wanted.group);
        let at = at.unwrap_or_else(|| {
            groups.push(Group {
                name: wanted.group.clone(),
                versions: Vec::new(),
            });
            groups.len() - 1
        });
        let versions = &mut groups[at].versions;
        let found = versions
            .iter()
            .position(|version| version.group_version == *wanted);
        let found = found.unwrap_or_else(|| {
            versions.push(Version {
                group_version: wanted.clone(),
                resources: Vec::new(),
            });
            versions.len() - 1
        });
        &mut versions[found]
    }

    /// The first resource in discovery that is called `plural` or `plural.group`, as kubectl writes it.
    pub fn resource_called(&self, name: &str) -> Option<&Arc<ResourceInfo>> {
        let (plural, group) = name.split_once('.').unwrap_or((name, ""));
        self.resources().find(|own| {
            let gvr = own.gvr();
            gvr.group == group && gvr.resource == plural
        })
    }

    /// Every resource, in the order of discovery.
    pub fn resources(&self) -> impl Iterator<Item = &Arc<ResourceInfo>> {
        let versions = self.groups.iter().flat_map(|group| &group.versions);
        versions.flat_map(|version| &version.resources)
    }
}

impl ResourceInfo {
    /// Returns the pseudo-resource of `autoscaling/v1` Scale, the kind of the `scale` subresources,
    /// for its table columns.
    #[must_use]
    pub fn scale() -> &'static Self {
        &SCALE
    }

    /// A custom resource.
    pub fn custom(data: CustomData) -> Self {
        let gvk = data.resource.gvk.clone();
        let mut field_labels = vec!["metadata.name".to_owned()];
        if data.namespaced {
            field_labels.push("metadata.namespace".to_owned());
        }
        field_labels.extend(data.field_labels);
        Self {
            gvr: GroupVersionResource {
                group: gvk.group.clone(),
                version: gvk.version.clone(),
                resource: data.plural,
            },
            field_label_error: "field label not supported: <label>".to_owned(),
            gvk,
            singular: data.singular,
            namespaced: data.namespaced,
            short_names: data.short_names,
            categories: data.categories,
            verbs: data.verbs,
            storage_version_hash: data.storage_version_hash,
            warning: data.warning,
            subresources: data.subresources,
            columns: data.columns,
            field_labels,
            custom: Some(data.resource),
            builtin: &Generic,
        }
    }

    /// Returns the strategy of the resource's objects.
    #[must_use]
    pub fn strategy(&self) -> &dyn Strategy {
        match &self.custom {
            Some(custom) => &**custom,
            None => self.builtin,
        }
    }

    /// The schema of its objects as field management sees it.
    #[must_use]
    pub fn schema(&self) -> Option<&Arc<Object>> {
        match &self.custom {
            Some(custom) => Some(custom.typed()),
            None => schema::builtin(&self.gvk),
        }
    }

    /// The kind of a list of its objects.
    #[must_use]
    pub fn list_kind(&self) -> String {
        match &self.custom {
            Some(custom) => custom.list_kind.clone(),
            None => format!("{}List", self.gvk.kind),
        }
    }

    /// The webhook that converts its objects.
    #[must_use]
    pub fn conversion(&self) -> Option<&Conversion> {
        self.custom.as_ref()?.versions.conversion.as_ref()
    }

    /// A stored object as requests for the resource see it.
    #[must_use]
    pub fn shown<'a>(&self, stored: &'a Value) -> Cow<'a, Value> {
        let version = &self.gvr.version;
        self.strategy().convert_from_storage(version, stored)
    }

    /// Whether objects of this version equal their stored form.
    pub fn shows_as_stored(&self) -> bool {
        self.strategy().is_stored_version(&self.gvr.version)
    }

    /// Returns the stored form of an object.
    #[must_use]
    pub fn stored(&self, object: Value) -> Value {
        let version = &self.gvr.version;
        self.strategy().convert_to_storage(version, object)
    }

    /// Group, version and plural.
    #[must_use]
    pub fn gvr(&self) -> &GroupVersionResource {
        &self.gvr
    }

    /// Group, version and kind.
    #[must_use]
    pub fn gvk(&self) -> &GroupVersionKind {
        &self.gvk
    }

    /// Whether the resource itself (not a subresource) has `verb`.
    #[must_use]
    pub fn has_verb(&self, verb: &str) -> bool {
        self.verbs.iter().any(|has| has == verb)
    }

    /// The subresource called `name`.
    #[must_use]
    pub fn subresource(&self, name: &str) -> Option<&SubresourceInfo> {
        self.subresources.iter().find(|sub| sub.name == name)
    }

    /// The fields that a field selector may name.
    #[must_use]
    pub fn field_labels(&self) -> &[String] {
        &self.field_labels
    }

    /// Whether a field selector may name `label`.
    #[must_use]
    pub fn selects_by(&self, label: &str) -> bool {
        self.field_labels.iter().any(|known| known == label)
    }

    /// Returns the error message for a field selector with the unknown `label`.
    #[must_use]
    pub fn field_label_error(&self, label: &str) -> String {
        let error = self
            .field_label_error
            .replace("\"<label>\"", &quoted(label));
        error.replace("<label>", label)
    }
}

#[derive(Deserialize)]
struct FileData {
    #[serde(flatten)]
    texts: ColumnTexts,
    groups: Vec<GroupData>,
}

#[derive(Deserialize)]
struct GroupData {
    group: String,
    versions: Vec<VersionData>,
}

#[derive(Deserialize)]
struct VersionData {
    version: String,
    resources: Vec<ResourceData>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ResourceData {
    plural: String,
    singular: String,
    kind: String,
    #[serde(default)]
    namespaced: bool,
    #[serde(default)]
    short_names: Vec<String>,
    #[serde(default)]
    categories: Vec<String>,
    storage_version_hash: Option<String>,
    verbs: Vec<String>,
    warning: Option<String>,
    #[serde(default = "default_field_labels")]
    field_labels: Vec<String>,
    #[serde(default = "default_field_label_error")]
    field_label_error: String,
    #[serde(default)]
    subresources: Vec<SubresourceData>,
    #[serde(default)]
    columns: Vec<ColumnData>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SubresourceData {
    name: String,
    /// Absent, as `version`, where it is the resource's own.
    group: Option<String>,
    version: Option<String>,
    kind: String,
    verbs: Vec<String>,
}

impl GroupData {
    fn read(self, texts: &ColumnTexts, group: &ApiGroup) -> Group {
        let version = |version: VersionData| {
            let group_version = GroupVersion {
                group: self.group.clone(),
                version: version.version,
            };
            let resource = |data: ResourceData| {
                let strategy = group.strategy(&data.plural);
                Arc::new(data.into_info(&group_version, texts, strategy))
            };
            Version {
                resources: version.resources.into_iter().map(resource).collect(),
                group_version,
            }
        };
        Group {
            versions: self.versions.into_iter().map(version).collect(),
            name: self.group,
        }
    }
}

impl ResourceData {
    fn into_info(
        self,
        gv: &GroupVersion,
        texts: &ColumnTexts,
        builtin: &'static dyn Strategy,
    ) -> ResourceInfo {
        let subresource = |data: SubresourceData| SubresourceInfo {
            name: data.name,
            gvk: GroupVersionKind {
                group: data.group.unwrap_or_else(|| gv.group.clone()),
                version: data.version.unwrap_or_else(|| gv.version.clone()),
                kind: data.kind,
            },
            verbs: data.verbs,
        };
        ResourceInfo {
            gvr: GroupVersionResource {
                group: gv.group.clone(),
                version: gv.version.clone(),
                resource: self.plural,
            },
            gvk: GroupVersionKind {
                group: gv.group.clone(),
                version: gv.version.clone(),
                kind: self.kind,
            },
            singular: self.singular,
            namespaced: self.namespaced,
            short_names: self.short_names,
            categories: self.categories,
            verbs: self.verbs,
            storage_version_hash: self.storage_version_hash,
            warning: self.warning,
            subresources: self.subresources.into_iter().map(subresource).collect(),
            columns: self
                .columns
                .into_iter()
                .map(|own| own.read(texts))
                .collect(),
            field_labels: self.field_labels,
            field_label_error: self.field_label_error,
            custom: None,
            builtin,
        }
    }
}

fn default_field_labels() -> Vec<String> {
    vec!["metadata.name".to_owned(), "metadata.namespace".to_owned()]
}

fn default_field_label_error() -> String {
    let known = r#"only "metadata.name", "metadata.namespace""#;
    format!(r#""<label>" is not a known field selector: {known}"#)
}

#[cfg(test)]
mod tests;
