//! The pods that run, and the workloads that own them.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use crate::cluster::Cluster;
use crate::json::Value;
use crate::meta::GroupVersion;
use crate::registry::catalog::Catalog;
use crate::storage::{ObjectKey, StoredObject};

/// No chain of owners is followed further: a Deployment owns a ReplicaSet, which owns pods; some operators add two.
const OWNERS_MAX: usize = 4;

/// A workload that owns a pod, directly or through others.
#[derive(Clone, Debug)]
pub(super) struct Holder {
    uid: String,
    /// Kind, namespace and name, for errors.
    pub(super) name: String,
    annotations: Value,
    /// Schedules begin with it.
    pub(super) created: Timestamp,
    owner: Option<Reference>,
}

/// The controller of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Reference {
    api_version: String,
    kind: String,
    namespace: String,
    name: String,
}

/// The running pods of a namespace, or of all, each with its owners, the nearest first.
pub(super) struct Workloads {
    pods: Vec<(Arc<StoredObject>, Vec<Holder>)>,
    /// How many ready pods each workload has, by its uid.
    ready: BTreeMap<String, i64>,
}

impl Holder {
    pub(super) fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations[key].as_str()
    }
}

impl Workloads {
    pub(super) fn of(cluster: &Cluster, namespace: Option<&str>) -> Self {
        let mut own = Self {
            pods: Vec::new(),
            ready: BTreeMap::new(),
        };
        let Some(pods) = cluster.catalog.resource("", "v1", "pods") else {
            return own;
        };
        let catalog = cluster.definitions.catalog();
        let mut known = BTreeMap::new();
        let snapshot = cluster.storage.table(pods.gvr()).snapshot();
        for stored in snapshot.range(namespace, None) {
            let pod = stored.value();
            if pod["status"]["phase"] != "Running" {
                continue;
            }
            let holders = holders(&pod, cluster, &catalog, &mut known);
            if super::is_ready(&pod) {
                for holder in &holders {
                    *own.ready.entry(holder.uid.clone()).or_default() += 1;
                }
            }
            own.pods.push((Arc::clone(stored), holders));
        }
        own
    }

    pub(super) fn pods(&self) -> impl Iterator<Item = (&Arc<StoredObject>, &[Holder])> {
        let pods = self.pods.iter();
        pods.map(|(pod, holders)| (pod, holders.as_slice()))
    }

    /// The number of ready pods of a workload.
    pub(super) fn ready(&self, holder: &Holder) -> i64 {
        self.ready.get(&holder.uid).copied().unwrap_or(0)
    }
}

/// The controllers of a pod, the nearest first.
fn holders(
    pod: &Value,
    cluster: &Cluster,
    catalog: &Catalog,
    known: &mut BTreeMap<Reference, Option<Holder>>,
) -> Vec<Holder> {
    let mut holders = Vec::new();
    let mut next = controller(pod);
    while let Some(reference) = next.take()
        && holders.len() < OWNERS_MAX
    {
        let holder = known
            .entry(reference)
            .or_insert_with_key(|reference| read(reference, cluster, catalog));
        if let Some(holder) = holder {
            next.clone_from(&holder.owner);
            holders.push(holder.clone());
        }
    }
    holders
}

fn read(reference: &Reference, cluster: &Cluster, catalog: &Catalog) -> Option<Holder> {
    let version = GroupVersion::parse(&reference.api_version)?;
    let resources = &catalog.version(&version.group, &version.version)?.resources;
    let resource = resources
        .iter()
        .find(|own| own.gvk().kind == reference.kind && own.namespaced)?;
    let Reference {
        namespace, name, ..
    } = reference;
    let key = ObjectKey::new(Some(namespace), name);
    let stored = cluster.storage.table(resource.gvr()).get(&key)?;
    let object = stored.value();
    let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
    Some(Holder {
        uid: uid.to_owned(),
        name: format!("{} {namespace}/{name}", reference.kind),
        annotations: object["metadata"]["annotations"].clone(),
        created: created(&object),
        owner: controller(&object),
    })
}

fn controller(object: &Value) -> Option<Reference> {
    let metadata = &object["metadata"];
    let mut owners = metadata["ownerReferences"].as_array()?.iter();
    let owner = owners.find(|owner| owner["controller"] == true)?;
    let text = |value: &Value| value.as_str().map(str::to_owned);
    Some(Reference {
        api_version: text(&owner["apiVersion"])?,
        kind: text(&owner["kind"])?,
        namespace: text(&metadata["namespace"])?,
        name: text(&owner["name"])?,
    })
}

/// The creation of an object.
pub(super) fn created(object: &Value) -> Timestamp {
    let text = object["metadata"]["creationTimestamp"].as_str();
    let created = text.and_then(|text| text.parse().ok());
    created.unwrap_or(Timestamp::UNIX_EPOCH)
}
