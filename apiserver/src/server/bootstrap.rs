//! The objects of a fresh server, as they are stored: with uids, times and managed fields.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;

use crate::clock::{Seed, rfc3339};
use crate::field_manager::{FieldManager, Writer};
use crate::json::{Value, json};
use crate::meta::ResourceVersion;
use crate::meta::{GroupResource, GroupVersion, GroupVersionKind};
use crate::registry::bootstrap;
use crate::registry::core::component_status;
use crate::registry::core::service::ServiceRanges;
use crate::registry::metrics;
use crate::schema;
use crate::storage::{ObjectKey, StoredObject};

/// The field manager that upstream names as the writer of these objects.
const MANAGER: &str = "kube-apiserver";

/// The initial objects of the last server. The next server shares them if its seed and start are
/// equal, as they are for servers of simulated clusters.
static CACHE: Mutex<Cache> = Mutex::new(Cache {
    of: (Seed::fixed(), Timestamp::UNIX_EPOCH, ServiceRanges::DEFAULT),
    objects: BTreeMap::new(),
});

struct Cache {
    /// Seed, start, and the addresses of services.
    of: (Seed, Timestamp, ServiceRanges),
    objects: BTreeMap<GroupResource, Vec<Arc<StoredObject>>>,
}

/// The initial objects of `resource` on a server with this seed and start, which may serve the metrics APIs.
pub(super) fn objects(
    resource: &GroupResource,
    of: (Seed, Timestamp, ServiceRanges),
    has_metrics: bool,
) -> Vec<Arc<StoredObject>> {
    let mut objects = shared(resource, of);
    if has_metrics && resource.resource == "apiservices" {
        objects.extend(metrics_api_services(of));
    }
    objects
}

/// The initial objects of `resource` that every server has.
fn shared(
    resource: &GroupResource,
    of: (Seed, Timestamp, ServiceRanges),
) -> Vec<Arc<StoredObject>> {
    let mut cache = CACHE.lock();
    if cache.of != of {
        cache.of = of;
        cache.objects.clear();
    }
    if let Some(objects) = cache.objects.get(resource) {
        return objects.clone();
    }
    let objects = make(resource, of);
    cache.objects.insert(resource.clone(), objects.clone());
    objects
}

/// The API services of the metrics APIs.
fn metrics_api_services(
    (seed, now, _): (Seed, Timestamp, ServiceRanges),
) -> impl Iterator<Item = Arc<StoredObject>> {
    let versions = (0..).zip(metrics::VERSIONS);
    versions.map(move |(place, (group, version))| {
        let service = json!({
            "kind": "APIService",
            "apiVersion": "apiregistration.k8s.io/v1",
            "metadata": { "name": format!("{version}.{group}") },
            "spec": {
                "group": group, "version": version,
                "groupPriorityMinimum": 100, "versionPriority": 100,
            },
            "status": { "conditions": [{
                "type": "Available", "status": "True", "lastTransitionTime": "<time>",
                "reason": "Local", "message": "Local APIServices are always available",
            }] },
        });
        // Other objects have the versions and uids that they have without metrics.
        let identity = (ResourceVersion::new(1), seed.uid_at(u64::MAX - place));
        Arc::new(object(&service.to_string(), identity, now))
    })
}

/// The statuses of the control plane's components, those in `running` healthy.
pub(super) fn component_statuses(running: &BTreeSet<&'static str>) -> Vec<Arc<StoredObject>> {
    let statuses = component_status::objects(running).into_iter();
    statuses
        .map(|(name, value)| {
            let key = ObjectKey::new(None, name);
            Arc::new(StoredObject::new(key, ResourceVersion::ZERO, value))
        })
        .collect()
}

fn make(
    resource: &GroupResource,
    (seed, now, ranges): (Seed, Timestamp, ServiceRanges),
) -> Vec<Arc<StoredObject>> {
    let lines = bootstrap::lines(resource);
    lines
        .map(|(line, rv)| {
            let line = match ranges == ServiceRanges::DEFAULT {
                true => Cow::Borrowed(line),
                false => Cow::Owned(with_ranges(line, &ranges)),
            };
            Arc::new(object(&line, (rv, seed.uid_at(rv.get())), now))
        })
        .collect()
}

/// An object of the default ranges as it is with other ones.
fn with_ranges(line: &str, ranges: &ServiceRanges) -> String {
    let default = ServiceRanges::DEFAULT;
    let address = |ranges: &ServiceRanges| format!("\"{}\"", ranges.kubernetes());
    if !line.contains(&address(&default)) && !line.contains(&default.cidr()) {
        return line.to_owned();
    }
    line.replace(&address(&default), &address(ranges))
        .replace(&default.cidr(), &ranges.cidr())
        .replace(default.families()[0], ranges.families()[0])
}

fn object(line: &str, (rv, uid): (ResourceVersion, String), now: Timestamp) -> StoredObject {
    let time = rfc3339(now);
    let line = line
        .replace("<time>", &time)
        .replace("<date>", &time[..10])
        .replace("<uid>", &uid);
    let mut value: Value = serde_json::from_str(&line).expect("bootstrap.txt holds objects");
    if value["kind"] == "Lease" {
        value["spec"]["renewTime"] = now.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string().into();
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let gv = GroupVersion::parse(&text(&value["apiVersion"])).expect("it has one slash at most");
    let gvk = GroupVersionKind {
        group: gv.group,
        version: gv.version,
        kind: text(&value["kind"]),
    };
    let writer = Writer {
        field_manager: MANAGER,
        user_agent: "",
        subresource: "",
    };
    let schema = schema::builtin(&gvk).cloned();
    FieldManager::new(&gvk, schema, &writer, &[]).create(&mut value, &time);
    let metadata = &mut value["metadata"];
    metadata["uid"] = uid.into();
    metadata["creationTimestamp"] = time.into();
    metadata["resourceVersion"] = rv.to_string().into();
    let namespace = metadata["namespace"].as_str().map(str::to_owned);
    let key = ObjectKey::new(namespace.as_deref(), &text(&metadata["name"]));
    StoredObject::new(key, rv, value)
}
