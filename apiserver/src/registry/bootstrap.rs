//! The objects of a fresh server before the first write: namespaces, the `kubernetes` service,
//! roles and their bindings, flow control, API services.
//!
//! The objects are data (`bootstrap.txt`, which `cargo xtask import` writes from the answers of a
//! kube-apiserver right after its start): a line `@group/version/resource`, then the objects of
//! that resource, one a line. The `resourceVersion` of an object is fixed by its place among all
//! objects. So a table is filled when it is first opened, and a server starts without parsing this
//! data.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::Value;

use crate::clock::{Seed, rfc3339};
use crate::field_manager::{FieldManager, Writer};
use crate::meta::{GroupResource, GroupVersion, GroupVersionKind};
use crate::schema;
use crate::storage::{ObjectKey, StoredObject};

const DATA: &str = include_str!("bootstrap.txt");
/// The field manager that upstream names as the writer of these objects.
const MANAGER: &str = "kube-apiserver";

/// The objects of one resource, still as text.
struct Section {
    resource: GroupResource,
    /// The `resourceVersion` before that of the section's first object.
    base: u64,
    lines: Vec<&'static str>,
}

static SECTIONS: LazyLock<Vec<Section>> = LazyLock::new(|| {
    let mut sections: Vec<Section> = Vec::new();
    let mut reached = FIRST_REVISION;
    for line in DATA.lines().filter(|line| !line.starts_with('#')) {
        if let Some(header) = line.strip_prefix('@') {
            let mut parts = header.split('/');
            let mut part = || parts.next().unwrap_or_default().to_owned();
            let (group, _version, resource) = (part(), part(), part());
            sections.push(Section {
                resource: GroupResource { group, resource },
                base: reached,
                lines: Vec::new(),
            });
        } else if let Some(section) = sections.last_mut() {
            section.lines.push(line);
            reached += 1;
        }
    }
    sections
});

/// The version of an empty storage.
const FIRST_REVISION: u64 = 1;

/// The version that a fresh server is at.
pub(crate) fn revision() -> u64 {
    SECTIONS.last().map_or(FIRST_REVISION, |section| {
        section.base + section.lines.len() as u64
    })
}

/// The initial objects of the last server. The next server shares them if its seed and start are
/// equal, as they are for servers of simulated clusters.
static MADE: Mutex<Made> = Mutex::new(Made {
    of: (Seed::fixed(), Timestamp::UNIX_EPOCH),
    objects: BTreeMap::new(),
});

struct Made {
    /// Seed and start.
    of: (Seed, Timestamp),
    objects: BTreeMap<GroupResource, Vec<Arc<StoredObject>>>,
}

/// The initial objects of `resource` on a server with `seed` that started at `now`.
pub(crate) fn objects(
    resource: &GroupResource,
    seed: Seed,
    now: Timestamp,
) -> Vec<Arc<StoredObject>> {
    let mut made = MADE.lock();
    if made.of != (seed, now) {
        made.of = (seed, now);
        made.objects.clear();
    }
    if let Some(objects) = made.objects.get(resource) {
        return objects.clone();
    }
    let objects = make(resource, seed, now);
    made.objects.insert(resource.clone(), objects.clone());
    objects
}

fn make(resource: &GroupResource, seed: Seed, now: Timestamp) -> Vec<Arc<StoredObject>> {
    let section = SECTIONS
        .iter()
        .find(|section| section.resource == *resource);
    let Some(section) = section else {
        return Vec::new();
    };
    let numbered = section.lines.iter().zip(section.base + 1..);
    numbered
        .map(|(line, rv)| Arc::new(object(line, rv, seed, now)))
        .collect()
}

/// The spec that an initial object of `resource` has.
pub(super) fn spec(resource: &GroupResource, name: &str) -> Option<Value> {
    let section = SECTIONS.iter().find(|own| own.resource == *resource)?;
    let objects = section.lines.iter();
    let mut objects = objects.filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut object = objects.find(|own| own["metadata"]["name"] == name)?;
    Some(object["spec"].take())
}

fn object(line: &str, rv: u64, seed: Seed, now: Timestamp) -> StoredObject {
    let uid = seed.uid_at(rv);
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
