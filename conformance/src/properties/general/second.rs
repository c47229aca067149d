//! Controllers that start again.

use std::collections::BTreeSet;

use kubeproof_apiserver::JournalEntry;
use kubeproof_apiserver::meta::ResourceVersion;
use kubeproof_machinery::json::Value;

use super::super::{Property, Violation, World};
use super::{is_by_component, named};
use crate::user_agent::actor;

/// Reports, which are written at any time.
const REPORTS: [&str; 2] = ["events", "leases"];

/// Controllers that are started again when everything has settled find nothing to write.
///
/// [`Testbed::reconcile_again`](crate::Testbed::reconcile_again) starts them again and reports violations. As a property
/// it is about the writes after a given version, of all clients but the test and the nodes.
///
/// A DaemonSet may count its nodes again, and a budget its pods: kube-controller-manager does not count when a node is gone or gets a
/// taint with which pods may stay (`syncNodeUpdate`), and not when a pod leaves a budget (`updatePod`).
///
/// Source: Kubernetes documentation, "Controllers" (desired versus current state); kubebuilder book, "Good practices"
/// (reconciliation is idempotent).
#[derive(Clone, Debug)]
pub struct SecondReconcile {
    after_rv: ResourceVersion,
    reported: BTreeSet<String>,
}

impl SecondReconcile {
    /// The property that controllers write nothing after version `after_rv`.
    #[must_use]
    pub fn after(after_rv: ResourceVersion) -> Self {
        Self {
            after_rv,
            reported: BTreeSet::new(),
        }
    }
}

impl Property for SecondReconcile {
    fn name(&self) -> &str {
        "a second reconcile writes nothing"
    }

    fn judge(&mut self, entry: &JournalEntry, _world: &World) -> Vec<String> {
        let is_counted = entry.rv > self.after_rv
            && is_by_component(entry)
            && actor(&entry.user_agent) != "kubelet"
            && !REPORTS.contains(&&*entry.gvr.resource)
            && !counts_again(entry);
        if !is_counted {
            return Vec::new();
        }
        let agent = actor(&entry.user_agent);
        let what = format!(
            "{agent} writes {} again",
            named(&entry.gvr.resource, &entry.object)
        );
        match self.reported.insert(what.clone()) {
            true => vec![what],
            false => Vec::new(),
        }
    }
}

/// Whether a DaemonSet gets another number of nodes that are to have a pod, or a budget another number of healthy pods.
fn counts_again(entry: &JournalEntry) -> bool {
    let counter = match &*entry.gvr.resource {
        "daemonsets" => "desiredNumberScheduled",
        "poddisruptionbudgets" => "currentHealthy",
        _ => return false,
    };
    let Some(previous) = &entry.previous else {
        return false;
    };
    let count = |object: &Value| object["status"][counter].clone();
    entry.object["spec"] == previous["spec"] && count(&entry.object) != count(previous)
}

/// Returns the writes of restarted controllers in `journal`, after the first of these versions and up to the second.
pub(crate) fn second_writes(
    journal: &[JournalEntry],
    (after_rv, last_rv): (ResourceVersion, ResourceVersion),
) -> Vec<Violation> {
    let mut property = SecondReconcile::after(after_rv);
    let begin = journal.partition_point(|entry| entry.rv <= after_rv);
    let writes = journal[begin..]
        .iter()
        .take_while(|entry| entry.rv <= last_rv);
    let mut found = Vec::new();
    for entry in writes {
        let violations = property.judge(entry, &World::default());
        found.extend(violations.into_iter().map(|what| Violation {
            rv: entry.rv,
            property: property.name().to_owned(),
            what,
        }));
    }
    found
}
