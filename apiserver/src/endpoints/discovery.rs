//! Discovery: which groups, versions and resources there are, one by one or aggregated.

use std::fmt::Write;

use super::health;
use crate::auth::{ISSUER_PATH, KEY_SET_PATH};
use crate::json::{Map, Value, json};
use crate::meta::GroupVersionKind;
use crate::registry::catalog::{Catalog, Group, ResourceInfo, SubresourceInfo, Version};

/// `GET /api`: the versions of the core group.
///
/// `server_address` is the `host:port` that clients reach the server at.
#[must_use]
pub(crate) fn api_versions(catalog: &Catalog, server_address: &str) -> Value {
    let versions = catalog.group("").map_or(&[][..], |core| &core.versions);
    let versions: Vec<&str> = versions
        .iter()
        .map(|version| version.group_version.version.as_str())
        .collect();
    json!({
        "kind": "APIVersions",
        "versions": versions,
        "serverAddressByClientCIDRs": [
            {"clientCIDR": "0.0.0.0/0", "serverAddress": server_address},
        ],
    })
}

/// `GET /apis`: the groups other than core.
#[must_use]
pub(crate) fn api_group_list(catalog: &Catalog) -> Value {
    let groups: Vec<Value> = named_groups(catalog)
        .map(|group| Value::Object(group_fields(group)))
        .collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// `GET /apis/GROUP`; `None` for a group that there isn't.
#[must_use]
pub(crate) fn api_group(catalog: &Catalog, group: &str) -> Option<Value> {
    let mut fields = group_fields(
        catalog
            .group(group)
            .filter(|group| !group.name.is_empty())?,
    );
    fields.insert("kind", json!("APIGroup"));
    fields.insert("apiVersion", json!("v1"));
    Some(Value::Object(fields))
}

/// `GET /api/v1` and `GET /apis/GROUP/VERSION`; `None` for a version that there isn't.
#[must_use]
pub(crate) fn api_resource_list(catalog: &Catalog, group: &str, version: &str) -> Option<Value> {
    let found = catalog.version(group, version)?;
    let mut resources = Vec::new();
    for info in &found.resources {
        resources.push(resource(info));
        resources.extend(info.subresources.iter().map(|sub| subresource(info, sub)));
    }
    let mut list = json!({
        "kind": "APIResourceList",
        "groupVersion": found.group_version.to_string(),
        "resources": resources,
    });
    // The core group's document predates `apiVersion` in discovery and still leaves it out.
    if !group.is_empty() {
        list["apiVersion"] = json!("v1");
    }
    Some(list)
}

/// `GET /api` for a client that accepts the aggregated form.
#[must_use]
pub(crate) fn aggregated_api(catalog: &Catalog) -> Value {
    aggregated(
        catalog
            .groups()
            .iter()
            .filter(|group| group.name.is_empty()),
    )
}

/// `GET /apis` for a client that accepts the aggregated form.
#[must_use]
pub(crate) fn aggregated_apis(catalog: &Catalog) -> Value {
    aggregated(named_groups(catalog))
}

/// `GET /`: every path outside of the resources themselves, sorted.
#[must_use]
pub(crate) fn root_paths(catalog: &Catalog, has_issuer: bool) -> Value {
    let mut paths: Vec<String> = [
        "/api",
        "/apis",
        "/apis/",
        "/flagz",
        "/metrics",
        "/metrics/slis",
        "/statusz",
        "/version",
    ]
    .map(str::to_owned)
    .into();
    if cfg!(feature = "openapi") {
        paths.extend(["/openapi/v2", "/openapi/v3", "/openapi/v3/"].map(str::to_owned));
    }
    if has_issuer {
        paths.extend([ISSUER_PATH, KEY_SET_PATH].map(str::to_owned));
    }
    for group in catalog.groups() {
        if !group.name.is_empty() {
            paths.push(format!("/apis/{}", group.name));
        }
        paths.extend(group.versions.iter().map(version_path));
    }
    for probe in health::Probe::ALL {
        paths.push(probe.path().to_owned());
        paths.extend(
            probe
                .checks()
                .map(|check| format!("{}/{check}", probe.path())),
        );
    }
    paths.sort();
    json!({"paths": paths})
}

/// The version of Kubernetes whose behavior this server has, such as `v1.36.2`.
pub const GIT_VERSION: &str = "v1.36.2";

/// `GET /version`: indented, and in the order of the Go type, for everybody.
pub(crate) const VERSION: &str = r#"{
  "major": "1",
  "minor": "36",
  "emulationMajor": "1",
  "emulationMinor": "36",
  "minCompatibilityMajor": "1",
  "minCompatibilityMinor": "35",
  "gitVersion": "v1.36.2",
  "gitCommit": "$Format:%H$",
  "gitTreeState": "",
  "buildDate": "1970-01-01T00:00:00Z",
  "goVersion": "go1.26.6",
  "compiler": "gc",
  "platform": "linux/amd64"
}"#;

/// The path under which a version's resources are, such as `/apis/apps/v1`.
pub(super) fn version_path(version: &Version) -> String {
    let mut path = String::from(if version.group_version.group.is_empty() {
        "/api"
    } else {
        "/apis"
    });
    write!(path, "/{}", version.group_version).expect("writing to a String succeeds");
    path
}

fn named_groups(catalog: &Catalog) -> impl Iterator<Item = &Group> {
    catalog
        .groups()
        .iter()
        .filter(|group| !group.name.is_empty())
}

fn group_fields(group: &Group) -> Map {
    let versions: Vec<Value> = group
        .versions
        .iter()
        .map(|version| {
            let group_version = &version.group_version;
            json!({"groupVersion": group_version.to_string(), "version": group_version.version})
        })
        .collect();
    let mut fields = Map::new();
    fields.insert("name", json!(group.name));
    fields.insert(
        "preferredVersion".to_owned(),
        versions.first().cloned().unwrap_or_default(),
    );
    fields.insert("versions", Value::Array(versions));
    fields
}

fn resource(info: &ResourceInfo) -> Value {
    let mut document = json!({
        "name": info.gvr().resource,
        "singularName": info.singular,
        "namespaced": info.namespaced,
        "kind": info.gvk().kind,
        "verbs": info.verbs,
    });
    name_lists(info, &mut document);
    if let Some(hash) = &info.storage_version_hash {
        document["storageVersionHash"] = json!(hash);
    }
    document
}

fn subresource(info: &ResourceInfo, sub: &SubresourceInfo) -> Value {
    let mut document = json!({
        "name": format!("{}/{}", info.gvr().resource, sub.name),
        "singularName": "",
        "namespaced": info.namespaced,
        "kind": sub.gvk.kind,
        "verbs": sub.verbs,
    });
    if is_foreign(info, sub) {
        document["group"] = json!(sub.gvk.group);
        document["version"] = json!(sub.gvk.version);
    }
    document
}

fn aggregated<'a>(groups: impl Iterator<Item = &'a Group>) -> Value {
    let items: Vec<Value> = groups
        .map(|group| {
            let metadata = match group.name.as_str() {
                "" => json!({}),
                name => json!({"name": name}),
            };
            let versions: Vec<Value> = group.versions.iter().map(aggregated_version).collect();
            json!({"metadata": metadata, "versions": versions})
        })
        .collect();
    json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    })
}

fn aggregated_version(version: &Version) -> Value {
    let resources: Vec<Value> = version
        .resources
        .iter()
        .map(|info| aggregated_resource(info))
        .collect();
    json!({
        "version": version.group_version.version,
        "resources": resources,
        "freshness": "Current",
    })
}

fn aggregated_resource(info: &ResourceInfo) -> Value {
    let mut document = json!({
        "resource": info.gvr().resource,
        "responseKind": kind_within(info, info.gvk()),
        "scope": if info.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": info.singular,
        "verbs": info.verbs,
    });
    name_lists(info, &mut document);
    if !info.subresources.is_empty() {
        let subresources = info.subresources.iter().map(|sub| {
            let kind = match is_foreign(info, sub) {
                true => response_kind(&sub.gvk.group, &sub.gvk.version, &sub.gvk),
                false => kind_within(info, &sub.gvk),
            };
            json!({
                "subresource": sub.name,
                "responseKind": kind,
                "verbs": sub.verbs,
            })
        });
        document["subresources"] = subresources.collect();
    }
    document
}

/// A kind of a resource's own version; only custom resources spell their group and version.
fn kind_within(info: &ResourceInfo, gvk: &GroupVersionKind) -> Value {
    match info.custom {
        Some(_) => response_kind(&gvk.group, &gvk.version, gvk),
        None => response_kind("", "", gvk),
    }
}

/// A group and version are spelled only where they differ from those of the list around.
fn response_kind(group: &str, version: &str, gvk: &GroupVersionKind) -> Value {
    json!({"group": group, "version": version, "kind": gvk.kind})
}

fn is_foreign(info: &ResourceInfo, sub: &SubresourceInfo) -> bool {
    sub.gvk.group_version() != info.gvk().group_version()
}

fn name_lists(info: &ResourceInfo, document: &mut Value) {
    if !info.short_names.is_empty() {
        document["shortNames"] = json!(info.short_names);
    }
    if !info.categories.is_empty() {
        document["categories"] = json!(info.categories);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(list: &Value, field: &str, key: &str, name: &str) -> Value {
        let items = list[field].as_array().unwrap().iter();
        items
            .filter(|item| item[key] == name)
            .cloned()
            .collect::<Vec<_>>()
            .remove(0)
    }

    #[test]
    fn groups_name_their_versions_with_the_preferred_one_first() {
        let catalog = Catalog::builtin();
        let autoscaling = json!({
            "name": "autoscaling",
            "versions": [
                {"groupVersion": "autoscaling/v2", "version": "v2"},
                {"groupVersion": "autoscaling/v1", "version": "v1"},
            ],
            "preferredVersion": {"groupVersion": "autoscaling/v2", "version": "v2"},
        });
        assert_eq!(
            find(&api_group_list(catalog), "groups", "name", "autoscaling"),
            autoscaling
        );
        let group = api_group(catalog, "autoscaling").unwrap();
        assert_eq!(
            (&group["kind"], &group["apiVersion"]),
            (&json!("APIGroup"), &json!("v1"))
        );
        assert_eq!(api_group(catalog, ""), None);
        assert_eq!(api_group(catalog, "nope"), None);
    }

    #[test]
    fn resources_of_apps_are_listed_with_their_subresources() {
        let list = api_resource_list(Catalog::builtin(), "apps", "v1").unwrap();
        assert_eq!(list["apiVersion"], "v1");
        assert_eq!(
            find(&list, "resources", "name", "daemonsets"),
            json!({
                "name": "daemonsets", "singularName": "daemonset", "namespaced": true,
                "kind": "DaemonSet", "shortNames": ["ds"], "categories": ["all"],
                "storageVersionHash": "dd7pWHUlMKQ=",
                "verbs": ["create", "delete", "deletecollection", "get", "list", "patch",
                          "update", "watch"],
            })
        );
        assert_eq!(
            find(&list, "resources", "name", "deployments/scale"),
            json!({
                "name": "deployments/scale", "singularName": "", "namespaced": true,
                "group": "autoscaling", "version": "v1", "kind": "Scale",
                "verbs": ["get", "patch", "update"],
            })
        );
    }

    #[test]
    fn the_core_list_has_no_api_version() {
        let list = api_resource_list(Catalog::builtin(), "", "v1").unwrap();
        assert_eq!(
            (&list["groupVersion"], list.get("apiVersion")),
            (&json!("v1"), None)
        );
    }

    #[test]
    fn the_aggregated_form_nests_subresources() {
        let list = aggregated_api(Catalog::builtin());
        assert_eq!(list["items"][0]["metadata"], json!({}));
        let pods = find(
            &list["items"][0]["versions"][0],
            "resources",
            "resource",
            "pods",
        );
        assert_eq!(
            pods["responseKind"],
            json!({"group": "", "version": "", "kind": "Pod"})
        );
        assert_eq!(
            find(&pods, "subresources", "subresource", "eviction"),
            json!({
                "subresource": "eviction", "verbs": ["create"],
                "responseKind": {"group": "policy", "version": "v1", "kind": "Eviction"},
            })
        );
    }

    #[test]
    fn root_lists_versions_and_health_checks() {
        let root = root_paths(Catalog::builtin(), true);
        let has = |path: &str| root["paths"].as_array().unwrap().contains(&json!(path));
        assert!(has("/apis/apps/v1") && has("/api/v1") && has("/livez/ping") && has("/version"));
        assert!(!has("/apis//v1"));
    }

    #[test]
    fn the_version_is_json_in_the_order_of_the_go_type() {
        let version: Value = serde_json::from_str(VERSION).unwrap();
        assert_eq!(version["gitVersion"], GIT_VERSION);
        assert!(VERSION.starts_with("{\n  \"major\": \"1\",\n  \"minor\""));
    }
}
