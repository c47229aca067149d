//! The objects of a fresh server before the first write: namespaces, the `kubernetes` service,
//! roles and their bindings, flow control, API services.
//!
//! The objects are data (`bootstrap.txt`, which `cargo xtask import` writes from the answers of a
//! kube-apiserver right after its start): a line `@group/version/resource`, then the objects of
//! that resource, one a line. The `resourceVersion` of an object is fixed by its place among all
//! objects. So a table is filled when it is first opened, and a server starts without parsing this
//! data.

use std::sync::LazyLock;

use crate::json::Value;
use crate::meta::{GroupResource, ResourceVersion};

const DATA: &str = include_str!("bootstrap.txt");

/// The objects of one resource, still as text.
struct Section {
    resource: GroupResource,
    /// The `resourceVersion` before that of the section's first object.
    base: u64,
    lines: Vec<&'static str>,
}

static SECTIONS: LazyLock<Vec<Section>> = LazyLock::new(|| {
    let mut sections: Vec<Section> = Vec::new();
    let mut reached = FIRST;
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
const FIRST: u64 = 1;

/// The version that a fresh server is at.
pub fn resource_version() -> ResourceVersion {
    let last = SECTIONS.last();
    ResourceVersion::new(last.map_or(FIRST, |section| section.base + section.lines.len() as u64))
}

/// The initial objects of `resource`, each as text and with its `resourceVersion`.
pub fn lines(resource: &GroupResource) -> impl Iterator<Item = (&'static str, ResourceVersion)> {
    let section = SECTIONS.iter().find(|own| own.resource == *resource);
    section.into_iter().flat_map(|own| {
        let versions = (own.base + 1..).map(ResourceVersion::new);
        own.lines.iter().copied().zip(versions)
    })
}

/// The spec that an initial object of `resource` has.
pub(super) fn spec(resource: &GroupResource, name: &str) -> Option<Value> {
    let section = SECTIONS.iter().find(|own| own.resource == *resource)?;
    let objects = section.lines.iter();
    let mut objects = objects.filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut object = objects.find(|own| own["metadata"]["name"] == name)?;
    Some(object["spec"].take())
}
