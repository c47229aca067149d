//! Metrics of the tables of storage: objects, versions, events.
//!
//! A table is upstream's storage and watch cache in one: a write is an event in the window at once,
//! and wakes the watches. So the events of storage, those that the cache receives and those that it
//! dispatches are the same.

use super::families::Family;
use crate::storage::Storage;

/// The families of the tables of all resources that `is_served`, by group and name.
pub(super) fn families(storage: &Storage, is_served: &dyn Fn(&str, &str) -> bool) -> Vec<Family> {
    let mut objects = Family::gauge(
        "apiserver_resource_objects",
        "[ALPHA] Number of stored objects at the time of last check split by kind. In case of a fetching error, the value will be -1.",
    );
    let mut old_objects = Family::gauge(
        "apiserver_storage_objects",
        "[STABLE] (Deprecated since 1.34.0) [DEPRECATED, consider using apiserver_resource_objects instead] Number of stored objects at the time of last check split by kind. In case of a fetching error, the value will be -1.",
    );
    let mut versions = Family::gauge(
        "apiserver_watch_cache_resource_version",
        "[ALPHA] Current resource version of watch cache broken by resource type. This is truncated to the 15 least significant digits.",
    );
    let mut capacity = Family::gauge(
        "watch_cache_capacity",
        "[ALPHA] Total capacity of watch cache broken by resource type.",
    );
    let mut initializations = Family::counter(
        "apiserver_watch_cache_initializations_total",
        "[ALPHA] Counter of watch cache initializations broken by resource type.",
    );
    let mut events = [
        Family::counter(
            "apiserver_storage_events_received_total",
            "[BETA] Number of etcd events received split by kind.",
        ),
        Family::counter(
            "apiserver_watch_cache_events_received_total",
            "[ALPHA] Counter of events received in watch cache broken by resource type.",
        ),
        Family::counter(
            "apiserver_watch_cache_events_dispatched_total",
            "[ALPHA] Counter of events dispatched in watch cache broken by resource type.",
        ),
    ];
    let mut counts = Vec::new();
    for (resource, table) in storage.tables() {
        // What componentstatuses show is not stored.
        let is_shown = resource.resource != "componentstatuses";
        if !is_shown || !is_served(&resource.group, &resource.resource) {
            continue;
        }
        let labels = [
            ("group", resource.group.as_str()),
            ("resource", resource.resource.as_str()),
        ];
        let facts = table.facts();
        objects.add(&labels, facts.objects as u64);
        counts.push((resource.to_string(), facts.objects as u64));
        versions.add(&labels, facts.rv.get() % 1_000_000_000_000_000);
        capacity.add(&labels, facts.capacity as u64);
        initializations.add(&labels, 1);
        if facts.events > 0 {
            for family in &mut events {
                family.add(&labels, facts.events);
            }
        }
    }
    counts.sort_unstable();
    for (resource, count) in counts {
        old_objects.add(&[("resource", &resource)], count);
    }
    let mut families = vec![objects, old_objects, versions, capacity, initializations];
    families.extend(events);
    families
}
