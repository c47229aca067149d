//! OpenAPI v3: which operations and parameters each path has, made from the catalog.
//!
//! Operations name no schemas and no request bodies. Clients read these documents for support of
//! parameters (`kubectl` looks for `fieldValidation` under PATCH), and fall back to the types they
//! were built with where an operation describes no body.

use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::{Map, Value, json};

use super::discovery;
use crate::meta::GroupVersionKind;
use crate::registry::catalog::{Catalog, ResourceInfo, SubresourceInfo, Version};

/// Query parameters of an operation: name and type, sorted by name.
type Parameters = &'static [(&'static str, &'static str)];

const LIST: Parameters = &[
    ("allowWatchBookmarks", "boolean"),
    ("continue", "string"),
    ("fieldSelector", "string"),
    ("labelSelector", "string"),
    ("limit", "integer"),
    ("resourceVersion", "string"),
    ("resourceVersionMatch", "string"),
    ("sendInitialEvents", "boolean"),
    ("timeoutSeconds", "integer"),
    ("watch", "boolean"),
];
const WRITE: Parameters = &[
    ("dryRun", "string"),
    ("fieldManager", "string"),
    ("fieldValidation", "string"),
];
const PATCH: Parameters = &[
    ("dryRun", "string"),
    ("fieldManager", "string"),
    ("fieldValidation", "string"),
    ("force", "boolean"),
];
const DELETE: Parameters = &[
    ("dryRun", "string"),
    ("gracePeriodSeconds", "integer"),
    (
        "ignoreStoreReadErrorWithClusterBreakingPotential",
        "boolean",
    ),
    ("orphanDependents", "boolean"),
    ("propagationPolicy", "string"),
];
const DELETE_COLLECTION: Parameters = &[
    ("continue", "string"),
    ("dryRun", "string"),
    ("fieldSelector", "string"),
    ("gracePeriodSeconds", "integer"),
    (
        "ignoreStoreReadErrorWithClusterBreakingPotential",
        "boolean",
    ),
    ("labelSelector", "string"),
    ("limit", "integer"),
    ("orphanDependents", "boolean"),
    ("propagationPolicy", "string"),
    ("resourceVersion", "string"),
    ("resourceVersionMatch", "string"),
    ("sendInitialEvents", "boolean"),
    ("timeoutSeconds", "integer"),
];

/// Subresources that pass a connection through to a pod, node or service.
const CONNECT: [&str; 4] = ["attach", "exec", "portforward", "proxy"];

/// `GET /openapi/v3`: where the document of each group version is, with a hash of its content.
#[must_use]
pub(crate) fn index(catalog: &Catalog) -> Value {
    let groups = catalog
        .groups()
        .iter()
        .filter(|group| !group.name.is_empty());
    let names = groups.map(|group| format!("apis/{}", group.name));
    let versions = catalog.groups().iter().flat_map(|group| &group.versions);
    let mut keys: Vec<String> = versions.map(key).chain(names).collect();
    keys.extend(["api", "apis", "version"].map(str::to_owned));
    let mut paths = Map::new();
    for key in keys {
        let content = document(catalog, &key).expect("every key of the index has a document");
        let url = format!("/openapi/v3/{key}?hash={}", content_hash(&content));
        paths.insert(key, json!({"serverRelativeURL": url}));
    }
    json!({"paths": paths})
}

/// `GET /openapi/v3/KEY`, with `key` as in the index: `api/v1`, `apis/apps/v1`, `apis/apps`, ...
///
/// `None` for a key that isn't in the index.
#[must_use]
pub(crate) fn document(catalog: &Catalog, key: &str) -> Option<Value> {
    let paths = match key.split('/').collect::<Vec<_>>()[..] {
        ["version"] => informational("/version/", "version"),
        ["api"] => informational("/api/", "core"),
        ["apis"] => informational("/apis/", "apis"),
        ["apis", group] => {
            catalog
                .group(group)
                .filter(|group| !group.name.is_empty())?;
            informational(&format!("/apis/{group}/"), &short_group(group).join(""))
        }
        ["api", version] => version_paths(catalog.version("", version)?),
        ["apis", group, version] if !group.is_empty() => {
            version_paths(catalog.version(group, version)?)
        }
        _ => return None,
    };
    let version = &discovery::version()["gitVersion"];
    Some(json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": version},
        "paths": paths,
        "components": {},
    }))
}

/// A document outside of the resources has one path with one operation.
fn informational(path: &str, tag: &str) -> Map<String, Value> {
    let operation = json!({
        "tags": [tag],
        "operationId": format!("get{}", capitalized(tag)),
        "responses": responses(),
    });
    Map::from_iter([(path.to_owned(), json!({"get": operation}))])
}

fn version_paths(version: &Version) -> Map<String, Value> {
    let root = discovery::version_path(version);
    let mut paths = Map::new();
    let operation = json!({
        "tags": [tag(version)],
        "operationId": format!("get{}APIResources", api_name(version)),
        "responses": responses(),
    });
    paths.insert(format!("{root}/"), json!({"get": operation}));
    for info in &version.resources {
        resource_paths(version, &root, info, &mut paths);
    }
    paths
}

fn resource_paths(
    version: &Version,
    root: &str,
    info: &ResourceInfo,
    paths: &mut Map<String, Value>,
) {
    let scope = if info.namespaced { "Namespaced" } else { "" };
    let (plural, kind) = (&info.gvr().resource, &info.gvk().kind);
    let collection = match info.namespaced {
        true => format!("{root}/namespaces/{{namespace}}/{plural}"),
        false => format!("{root}/{plural}"),
    };
    let builder = PathBuilder {
        version,
        gvk: info.gvk(),
        object: format!("{scope}{kind}"),
    };
    let mut on_collection = Map::new();
    let mut on_object = Map::new();
    for verb in &info.verbs {
        match verb.as_str() {
            "list" => builder.add(&mut on_collection, "get", "list", "list", LIST),
            "create" => builder.add(&mut on_collection, "post", "create", "post", WRITE),
            "deletecollection" => {
                let operation = builder.operation(
                    "delete",
                    "Collection",
                    "deletecollection",
                    DELETE_COLLECTION,
                );
                on_collection.insert("delete".to_owned(), operation);
            }
            "watch" => {} // A parameter of list.
            verb => builder.add_object_verb(&mut on_object, verb),
        }
    }
    let parameters = |names: &[&str]| {
        let path = names
            .iter()
            .filter(|name| **name != "namespace" || info.namespaced);
        path_parameters(path.copied())
    };
    if info.namespaced && info.has_verb("list") {
        let object = format!("{kind}ForAllNamespaces");
        let everywhere = PathBuilder {
            version,
            gvk: info.gvk(),
            object,
        };
        let mut operations = Map::new();
        everywhere.add(&mut operations, "get", "list", "list", LIST);
        insert(
            paths,
            format!("{root}/{plural}"),
            operations,
            parameters(&[]),
        );
    }
    insert(
        paths,
        collection.clone(),
        on_collection,
        parameters(&["namespace"]),
    );
    let object_path = format!("{collection}/{{name}}");
    insert(
        paths,
        object_path.clone(),
        on_object,
        parameters(&["name", "namespace"]),
    );
    for sub in &info.subresources {
        let operations = subresource_operations(version, scope, info, sub);
        let path = format!("{object_path}/{}", sub.name);
        insert(paths, path, operations, parameters(&["name", "namespace"]));
    }
}

fn subresource_operations(
    version: &Version,
    scope: &str,
    info: &ResourceInfo,
    sub: &SubresourceInfo,
) -> Map<String, Value> {
    let object = format!("{scope}{}{}", info.gvk().kind, capitalized(&sub.name));
    let builder = PathBuilder {
        version,
        gvk: &sub.gvk,
        object,
    };
    let mut operations = Map::new();
    for verb in &sub.verbs {
        if CONNECT.contains(&sub.name.as_str()) {
            let method = match verb.as_str() {
                "create" => "post",
                "update" => "put",
                other => other,
            };
            let operation = builder.operation("connect", &capitalized(method), "connect", &[]);
            operations.insert(method.to_owned(), operation);
        } else if verb == "create" {
            builder.add(&mut operations, "post", "create", "post", WRITE);
        } else {
            builder.add_object_verb(&mut operations, verb);
        }
    }
    operations
}

/// What the operations of one path have in common.
struct PathBuilder<'a> {
    version: &'a Version,
    gvk: &'a GroupVersionKind,
    /// The end of the operation ids, such as `NamespacedPodStatus`.
    object: String,
}

impl PathBuilder<'_> {
    fn add_object_verb(&self, operations: &mut Map<String, Value>, verb: &str) {
        match verb {
            "get" => self.add(operations, "get", "read", "get", &[]),
            "update" => self.add(operations, "put", "replace", "put", WRITE),
            "patch" => self.add(operations, "patch", "patch", "patch", PATCH),
            "delete" => self.add(operations, "delete", "delete", "delete", DELETE),
            _ => {}
        }
    }

    fn add(
        &self,
        operations: &mut Map<String, Value>,
        method: &str,
        id_verb: &str,
        action: &str,
        parameters: Parameters,
    ) {
        operations.insert(
            method.to_owned(),
            self.operation(id_verb, "", action, parameters),
        );
    }

    /// An operation whose id is `id_verb`, group and version, `infix`, object.
    fn operation(&self, id_verb: &str, infix: &str, action: &str, parameters: Parameters) -> Value {
        let id = format!("{id_verb}{}{infix}{}", api_name(self.version), self.object);
        let mut operation = json!({
            "tags": [tag(self.version)],
            "operationId": id,
            "responses": responses(),
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": {
                "group": self.gvk.group, "version": self.gvk.version, "kind": self.gvk.kind,
            },
        });
        if !parameters.is_empty() {
            let query = parameters
                .iter()
                .map(|(name, kind)| parameter(name, "query", kind));
            operation["parameters"] = query.collect();
        }
        operation
    }
}

fn insert(
    paths: &mut Map<String, Value>,
    path: String,
    mut operations: Map<String, Value>,
    parameters: Value,
) {
    if !operations.is_empty() {
        operations.insert("parameters".to_owned(), parameters);
        paths.insert(path, Value::Object(operations));
    }
}

/// Parameters that all operations of a path have.
fn path_parameters<'a>(names: impl Iterator<Item = &'a str>) -> Value {
    let in_path = names.map(|name| {
        let mut parameter = parameter(name, "path", "string");
        parameter["required"] = json!(true);
        parameter
    });
    in_path
        .chain([parameter("pretty", "query", "string")])
        .collect()
}

fn parameter(name: &str, place: &str, kind: &str) -> Value {
    json!({"name": name, "in": place, "schema": {"type": kind, "uniqueItems": true}})
}

fn responses() -> Value {
    json!({"200": {"description": "OK"}, "401": {"description": "Unauthorized"}})
}

/// The key of a version's document, such as `apis/apps/v1`.
fn key(version: &Version) -> String {
    discovery::version_path(version)
        .trim_start_matches('/')
        .to_owned()
}

fn content_hash(content: &Value) -> String {
    let mut hasher = DefaultHasher::new();
    content.to_string().hash(&mut hasher);
    format!("{:016X}", hasher.finish())
}

/// Group and version within an operation id, such as `RbacAuthorizationV1`.
fn api_name(version: &Version) -> String {
    let parts = short_group(&version.group_version.group);
    let name: String = parts.into_iter().map(capitalized).collect();
    name + &capitalized(&version.group_version.version)
}

/// The tag of a version's operations, such as `rbacAuthorization_v1`.
fn tag(version: &Version) -> String {
    let mut parts = short_group(&version.group_version.group).into_iter();
    let first = parts.next().unwrap_or_default().to_owned();
    let group = parts.fold(first, |name, part| name + &capitalized(part));
    format!("{group}_{}", version.group_version.version)
}

/// The parts of a group's name without the domain that all of them share.
fn short_group(group: &str) -> Vec<&str> {
    match group.trim_end_matches(".k8s.io") {
        "" => vec!["core"],
        group => group.split('.').collect(),
    }
}

fn capitalized(word: &str) -> String {
    let mut letters = word.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(key: &str, path: &str, method: &str) -> Value {
        document(Catalog::builtin(), key).unwrap()["paths"][path][method].clone()
    }

    fn parameters(operation: &Value) -> Vec<&str> {
        let parameters = operation["parameters"].as_array().unwrap().iter();
        parameters
            .map(|parameter| parameter["name"].as_str().unwrap())
            .collect()
    }

    /// What kubectl looks for before it leaves field validation to the server.
    #[test]
    fn every_patch_operation_has_the_parameter_field_validation() {
        let index = index(Catalog::builtin());
        for key in index["paths"].as_object().unwrap().keys() {
            let document = document(Catalog::builtin(), key).unwrap();
            for operations in document["paths"].as_object().unwrap().values() {
                let patch = &operations["patch"];
                if patch["x-kubernetes-action"] == "patch" {
                    assert!(parameters(patch).contains(&"fieldValidation"), "{key}");
                }
            }
        }
    }

    #[test]
    fn operations_carry_kind_action_and_parameters() {
        let path = "/apis/apps/v1/namespaces/{namespace}/statefulsets/{name}";
        let patch = operation("apis/apps/v1", path, "patch");
        assert_eq!(patch["operationId"], "patchAppsV1NamespacedStatefulSet");
        assert_eq!(patch["x-kubernetes-action"], "patch");
        assert_eq!(
            patch["x-kubernetes-group-version-kind"],
            json!({"group": "apps", "version": "v1", "kind": "StatefulSet"})
        );
        assert_eq!(
            parameters(&patch),
            ["dryRun", "fieldManager", "fieldValidation", "force"]
        );
        let scale = operation("apis/apps/v1", &format!("{path}/scale"), "get");
        assert_eq!(scale["operationId"], "readAppsV1NamespacedStatefulSetScale");
        assert_eq!(scale["x-kubernetes-group-version-kind"]["kind"], "Scale");
    }

    #[test]
    fn collections_list_create_and_delete() {
        let pods = "/api/v1/namespaces/{namespace}/pods";
        let delete = operation("api/v1", pods, "delete");
        assert_eq!(delete["operationId"], "deleteCoreV1CollectionNamespacedPod");
        assert_eq!(delete["x-kubernetes-action"], "deletecollection");
        let everywhere = operation("api/v1", "/api/v1/pods", "get");
        assert_eq!(everywhere["operationId"], "listCoreV1PodForAllNamespaces");
        let nodes = operation("api/v1", "/api/v1/nodes", "post");
        assert_eq!(nodes["operationId"], "createCoreV1Node");
        let exec = operation("api/v1", &format!("{pods}/{{name}}/exec"), "post");
        assert_eq!(exec["operationId"], "connectCoreV1PostNamespacedPodExec");
        let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
        let list = operation("apis/rbac.authorization.k8s.io/v1", roles, "get");
        assert_eq!(list["operationId"], "listRbacAuthorizationV1ClusterRole");
        assert_eq!(list["tags"], json!(["rbacAuthorization_v1"]));
    }

    #[test]
    fn the_index_points_at_each_document_with_a_hash_of_it() {
        let catalog = Catalog::builtin();
        let url = |index: &Value, key: &str| index["paths"][key]["serverRelativeURL"].to_string();
        let whole = index(catalog);
        assert!(url(&whole, "apis/apps/v1").starts_with("\"/openapi/v3/apis/apps/v1?hash="));
        assert_eq!(whole, index(catalog));
        let hash = |key: &str| url(&whole, key).split_once("hash=").unwrap().1.to_owned();
        assert_ne!(hash("apis/apps/v1"), hash("api/v1"));
        assert_eq!(document(catalog, "apis/nope.example.com/v1"), None);
        assert_eq!(document(catalog, "apis//v1"), None);
        assert!(document(catalog, "version").is_some());
    }
}
