//! Discovery with the versions that services serve.
//!
//! Source: `pkg/apiserver/handler_apis.go` and `handler_discovery.go` of kube-aggregator.

use std::sync::Arc;

use crate::api_services::{ApiServices, Registered};
use crate::cluster::Cluster;
use crate::json::{Map, Value, json};
use crate::meta::GroupVersion;
use crate::registry::unstructured::{items, text};

/// The versions that services serve, at one time.
#[derive(Debug)]
pub(crate) struct Remote<'c> {
    registered: Arc<Registered>,
    services: &'c ApiServices,
}

impl<'c> Remote<'c> {
    /// The versions of a cluster; `None` without any.
    pub(crate) fn of(cluster: &'c Cluster) -> Option<Self> {
        let services = &cluster.api_services;
        let registered = services.registered(&cluster.storage);
        let is_any = !registered.remote.is_empty();
        is_any.then_some(Self {
            registered,
            services,
        })
    }

    /// Adds the groups to an `APIGroupList`.
    pub(crate) fn add_groups(&self, list: &mut Value) {
        let Some(groups) = list["groups"].as_array_mut() else {
            return;
        };
        for group in self.groups() {
            let place = self.place(groups, group, |own| text(&own["name"]));
            let place = place.unwrap_or_else(|place| {
                groups.insert(place, json!({"name": group}));
                place
            });
            self.add_versions(&mut groups[place], group);
        }
    }

    /// The `APIGroup` of a group, if a service serves a version of it; `local` has the versions of the server itself.
    pub(crate) fn group(&self, group: &str, local: Option<&Value>) -> Option<Value> {
        self.groups().find(|own| *own == group)?;
        let unknown = || json!({"kind": "APIGroup", "apiVersion": "v1", "name": group});
        let mut document = local.cloned().unwrap_or_else(unknown);
        self.add_versions(&mut document, group);
        Some(document)
    }

    /// Adds the groups to an `APIGroupDiscoveryList`.
    pub(crate) fn add_aggregated(&self, list: &mut Value) {
        let Some(groups) = list["items"].as_array_mut() else {
            return;
        };
        for group in self.groups() {
            let place = self.place(groups, group, |own| text(&own["metadata"]["name"]));
            let place = place.unwrap_or_else(|place| {
                let document = json!({"metadata": {"name": group}, "versions": []});
                groups.insert(place, document);
                place
            });
            let versions = groups[place]["versions"].as_array_mut();
            self.merge(versions.expect("every group has them"), group, |version| {
                let said = self.services.discovered(version).map(|said| said.document);
                said.unwrap_or_else(|| stale(&json!({"version": version.version})))
            });
        }
    }

    /// Adds the OpenAPI documents to the index of those of v3.
    #[cfg(feature = "openapi")]
    pub(crate) fn add_documents(&self, index: &mut Value) {
        for GroupVersion { group, version } in self.registered.remote.keys() {
            let key = format!("apis/{group}/{version}");
            let of = GroupVersion {
                group: group.clone(),
                version: version.clone(),
            };
            if let Some(url) = self.services.discovered(&of).and_then(|said| said.openapi) {
                index["paths"][key] = json!({"serverRelativeURL": url});
            }
        }
    }

    /// Adds the paths of groups and versions to those of the root; they are sorted afterwards.
    pub(crate) fn add_paths(&self, root: &mut Value) {
        let Some(paths) = root["paths"].as_array_mut() else {
            return;
        };
        for GroupVersion { group, version } in self.registered.remote.keys() {
            paths.push(format!("/apis/{group}").into());
            paths.push(format!("/apis/{group}/{version}").into());
        }
        paths.sort_by(|left, right| text(left).cmp(text(right)));
        paths.dedup();
    }

    /// The groups with a version that a service serves, in the order of discovery.
    fn groups(&self) -> impl Iterator<Item = &str> {
        let order = self.registered.order.iter();
        let order = order.map(|(group, _)| group.as_str());
        order.filter(|group| {
            let mut remote = self.registered.remote.keys();
            !group.is_empty() && remote.any(|own| own.group == **group)
        })
    }

    /// The place of a group among `groups`, or the one to insert it at.
    fn place(
        &self,
        groups: &[Value],
        group: &str,
        name: impl Fn(&Value) -> &str,
    ) -> Result<usize, usize> {
        if let Some(place) = groups.iter().position(|own| name(own) == group) {
            return Ok(place);
        }
        let mut order = self.registered.order.iter();
        let rank = |name: &str| {
            let mut order = self.registered.order.iter();
            order.position(|(own, _)| own == name)
        };
        let own = order.position(|(own, _)| own == group);
        let next = groups.iter().position(|other| rank(name(other)) > own);
        Err(next.unwrap_or(groups.len()))
    }

    /// Adds the versions to a group in the plain form.
    fn add_versions(&self, document: &mut Value, group: &str) {
        let mut versions: Vec<Value> = items(&document["versions"]).cloned().collect();
        self.merge(&mut versions, group, |version| {
            let GroupVersion { group, version } = version;
            json!({"groupVersion": format!("{group}/{version}"), "version": version})
        });
        document["preferredVersion"] = versions.first().cloned().unwrap_or_default();
        document["versions"] = versions.into();
    }

    /// Adds the versions of a group to those of the server itself, which they replace, in the order of preference.
    fn merge(
        &self,
        versions: &mut Vec<Value>,
        group: &str,
        document: impl Fn(&GroupVersion) -> Value,
    ) {
        let order = self.registered.order.iter().find(|(own, _)| own == group);
        let mut local = std::mem::take(versions);
        for version in order.map(|(_, versions)| versions).into_iter().flatten() {
            let place = local.iter().position(|own| own["version"] == **version);
            let own = place.map(|place| local.remove(place));
            let version = GroupVersion {
                group: group.to_owned(),
                version: version.clone(),
            };
            match self.registered.remote.contains_key(&version) {
                true => versions.push(document(&version)),
                false => versions.extend(own),
            }
        }
        versions.append(&mut local);
    }
}

/// The discovery document of a version that could not be read just now.
pub(crate) fn stale(document: &Value) -> Value {
    let mut document = document.clone();
    document["freshness"] = "Stale".into();
    document
}

/// The discovery document of a version with these resources, of which only the fields of the API are kept.
pub(super) fn current(version: &GroupVersion, resources: &Value) -> Value {
    let resources = items(resources).map(|own| {
        let mut kept = picked(own, &["resource", "scope", "singularResource"], &["verbs"]);
        kept.insert(
            "responseKind".to_owned(),
            response_kind(&own["responseKind"]),
        );
        for list in ["shortNames", "categories"] {
            if own[list].is_array() {
                kept.insert(list.to_owned(), strings(&own[list]));
            }
        }
        let subresources = items(&own["subresources"]).map(|own| {
            let mut kept = picked(own, &["subresource"], &["verbs"]);
            kept.insert(
                "responseKind".to_owned(),
                response_kind(&own["responseKind"]),
            );
            Value::Object(kept)
        });
        let subresources: Vec<Value> = subresources.collect();
        if !subresources.is_empty() {
            kept.insert("subresources", subresources.into());
        }
        Value::Object(kept)
    });
    let resources: Vec<Value> = resources.collect();
    let mut document = json!({"version": version.version, "freshness": "Current"});
    if !resources.is_empty() {
        document["resources"] = resources.into();
    }
    document
}

fn picked(from: &Value, texts: &[&str], lists: &[&str]) -> Map {
    let texts = texts
        .iter()
        .map(|field| (*field, text(&from[*field]).into()));
    let lists = lists.iter().map(|field| (*field, strings(&from[*field])));
    let fields = texts.chain(lists);
    fields
        .map(|(field, value)| (field.to_owned(), value))
        .collect()
}

fn strings(list: &Value) -> Value {
    items(list).filter(|own| own.is_string()).cloned().collect()
}

/// Some clients need one, be it empty.
fn response_kind(kind: &Value) -> Value {
    picked(kind, &["group", "version", "kind"], &[]).into()
}

/// The resources of an `APIResourceList` in the aggregated form; `None` if a subresource is in another scope than its
/// resource.
pub(super) fn of_resources(list: &Value) -> Option<Value> {
    let kind = |own: &Value| picked(own, &["group", "version", "kind"], &[]);
    let scope = |own: &Value| match own["namespaced"] == true {
        true => "Namespaced",
        false => "Cluster",
    };
    let mut resources: Vec<Value> = Vec::new();
    let is_resource = |own: &&Value| !text(&own["name"]).contains('/');
    for own in items(list).filter(is_resource) {
        resources.push(json!({
            "resource": own["name"], "scope": scope(own), "responseKind": kind(own),
            "verbs": own["verbs"], "singularResource": own["singularName"],
            "shortNames": own["shortNames"], "categories": own["categories"],
        }));
    }
    for own in items(list) {
        let Some((parent, name)) = text(&own["name"]).split_once('/') else {
            continue;
        };
        let place = resources.iter().position(|own| own["resource"] == parent);
        let place = place.unwrap_or_else(|| {
            resources.push(json!({"resource": parent, "scope": scope(own)}));
            resources.len() - 1
        });
        let resource = &mut resources[place];
        if resource["scope"] != scope(own) {
            return None;
        }
        let subresource =
            json!({"subresource": name, "verbs": own["verbs"], "responseKind": kind(own)});
        match resource["subresources"].as_array_mut() {
            Some(subresources) => subresources.push(subresource),
            None => resource["subresources"] = json!([subresource]),
        }
    }
    Some(resources.into())
}
