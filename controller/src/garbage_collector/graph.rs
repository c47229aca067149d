//! Who owns whom, as far as watches have told, and which objects a change makes worth a look.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use crate::mirror::ObjectKey;

pub(super) const FOREGROUND: &str = "foregroundDeletion";
pub(super) const ORPHAN: &str = "orphan";

/// API group and kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct GroupKind {
    pub(super) group: String,
    pub(super) kind: String,
}

impl GroupKind {
    /// The group and kind a reference names.
    pub(super) fn of(reference: &OwnerReference) -> Self {
        let group = reference
            .api_version
            .rsplit_once('/')
            .map_or("", |(group, _)| group);
        Self {
            group: group.to_owned(),
            kind: reference.kind.clone(),
        }
    }
}

/// An object as the graph knows it.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) kind: GroupKind,
    pub(super) key: ObjectKey,
    pub(super) owners: Vec<OwnerReference>,
    pub(super) deleting: bool,
    /// Stays until its blocking dependents are gone.
    pub(super) foreground: bool,
    /// Stays until its dependents have let go of it.
    pub(super) orphaning: bool,
}

impl Node {
    pub(super) fn new(kind: GroupKind, meta: &ObjectMeta) -> Self {
        let deleting = meta.deletion_timestamp.is_some();
        Self {
            kind,
            key: ObjectKey {
                namespace: meta.namespace.clone().unwrap_or_default(),
                name: meta.name.clone().unwrap_or_default(),
            },
            owners: meta.owner_references.clone().unwrap_or_default(),
            deleting,
            foreground: deleting && has_finalizer(meta, FOREGROUND),
            orphaning: deleting && has_finalizer(meta, ORPHAN),
        }
    }

    fn reference(&self, owner: &str) -> Option<&OwnerReference> {
        self.owners.iter().find(|reference| reference.uid == owner)
    }

    /// Whether this object holds up the foreground deletion of `owner`.
    pub(super) fn blocks(&self, owner: &str) -> bool {
        self.reference(owner)
            .is_some_and(|reference| reference.block_owner_deletion == Some(true))
    }
}

/// Whether `finalizer` is on the object.
pub(super) fn has_finalizer(meta: &ObjectMeta, finalizer: &str) -> bool {
    meta.finalizers
        .iter()
        .flatten()
        .any(|found| found == finalizer)
}

/// Something to look at, by uid.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Task {
    /// Its dependents are to lose their references to it.
    Orphan(String),
    /// It may have lost its owners, or wait for its dependents.
    Collect(String),
}

/// The objects by uid, and who depends on whom.
#[derive(Default)]
pub(super) struct Graph {
    nodes: BTreeMap<String, Node>,
    /// Owner uid (which need not exist) to the uids of its dependents.
    dependents: BTreeMap<String, BTreeSet<String>>,
}

impl Graph {
    pub(super) fn get(&self, uid: &str) -> Option<&Node> {
        self.nodes.get(uid)
    }

    /// The known dependents of `owner`, by uid.
    pub(super) fn dependents(&self, owner: &str) -> impl Iterator<Item = (&String, &Node)> {
        let uids = self.dependents.get(owner).into_iter().flatten();
        uids.filter_map(|uid| self.nodes.get_key_value(uid))
    }

    /// Takes in an object as it is now.
    pub(super) fn upsert(&mut self, uid: &str, node: Node) -> BTreeSet<Task> {
        let old = self.nodes.insert(uid.to_owned(), node.clone());
        let mut tasks = BTreeSet::new();
        let owners_before = old.as_ref().map_or(&[][..], |old| &old.owners);
        for reference in owners_before {
            if node.reference(&reference.uid).is_none() {
                self.unlink(&reference.uid, uid);
            }
            if !node.blocks(&reference.uid) {
                self.look_at_waiting(&reference.uid, &mut tasks);
            }
        }
        for reference in &node.owners {
            let dependents = self.dependents.entry(reference.uid.clone()).or_default();
            dependents.insert(uid.to_owned());
        }
        let mut added = node
            .owners
            .iter()
            .filter(|reference| !owners_before.contains(reference));
        // An owner that waits is known too: it asks for its dependents itself.
        if added.any(|reference| self.owner(&node, reference).is_none()) {
            tasks.insert(Task::Collect(uid.to_owned()));
        }
        if node.foreground && !old.as_ref().is_some_and(|old| old.foreground) {
            tasks.insert(Task::Collect(uid.to_owned()));
            tasks.extend(
                self.dependents(uid)
                    .map(|(uid, _)| Task::Collect(uid.clone())),
            );
        }
        if node.orphaning && !old.as_ref().is_some_and(|old| old.orphaning) {
            tasks.insert(Task::Orphan(uid.to_owned()));
        }
        tasks
    }

    /// Takes in that an object is gone.
    pub(super) fn remove(&mut self, uid: &str) -> BTreeSet<Task> {
        let mut tasks = BTreeSet::new();
        let Some(node) = self.nodes.remove(uid) else {
            return tasks;
        };
        for reference in &node.owners {
            self.unlink(&reference.uid, uid);
            self.look_at_waiting(&reference.uid, &mut tasks);
        }
        tasks.extend(
            self.dependents(uid)
                .map(|(uid, _)| Task::Collect(uid.clone())),
        );
        tasks
    }

    fn unlink(&mut self, owner: &str, dependent: &str) {
        if let Some(dependents) = self.dependents.get_mut(owner) {
            dependents.remove(dependent);
            if dependents.is_empty() {
                self.dependents.remove(owner);
            }
        }
    }

    fn look_at_waiting(&self, owner: &str, tasks: &mut BTreeSet<Task>) {
        if self.nodes.get(owner).is_some_and(|owner| owner.foreground) {
            tasks.insert(Task::Collect(owner.to_owned()));
        }
    }

    /// Whether anything about `uid` can't be settled from the graph alone: it waits for its own
    /// dependents, or one of its owners is missing, waits, or is not where the reference says.
    pub(super) fn is_suspect(&self, uid: &str) -> bool {
        self.nodes.get(uid).is_some_and(|node| {
            let mut references = node.owners.iter();
            node.foreground || references.any(|reference| !self.is_solid(node, reference))
        })
    }

    fn is_solid(&self, dependent: &Node, reference: &OwnerReference) -> bool {
        self.owner(dependent, reference)
            .is_some_and(|owner| !owner.foreground)
    }

    /// The owner that `dependent` names, if it is known and where the reference says.
    fn owner(&self, dependent: &Node, reference: &OwnerReference) -> Option<&Node> {
        self.nodes.get(&reference.uid).filter(|owner| {
            let reachable =
                owner.key.namespace.is_empty() || owner.key.namespace == dependent.key.namespace;
            reachable && owner.key.name == reference.name && owner.kind == GroupKind::of(reference)
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn node(meta: Value) -> Node {
        let meta: ObjectMeta = serde_json::from_value(meta).unwrap();
        let kind = GroupKind {
            group: "apps".to_owned(),
            kind: "ReplicaSet".to_owned(),
        };
        Node::new(kind, &meta)
    }

    fn owned_by(owner: &str, block: bool) -> Value {
        json!({
            "name": "child",
            "namespace": "default",
            "ownerReferences": [{
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "name": owner,
                "uid": owner,
                "blockOwnerDeletion": block,
            }],
        })
    }

    fn owner(name: &str, finalizer: Option<&str>) -> Value {
        let mut meta = json!({ "name": name, "namespace": "default" });
        if let Some(finalizer) = finalizer {
            meta["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            meta["finalizers"] = json!([finalizer]);
        }
        meta
    }

    fn collect<const N: usize>(uids: [&str; N]) -> BTreeSet<Task> {
        uids.map(|uid| Task::Collect(uid.to_owned())).into()
    }

    #[test]
    fn a_dependent_may_come_before_its_owner() {
        let mut graph = Graph::default();
        assert_eq!(graph.upsert("c", node(owned_by("o", true))), collect(["c"]));
        assert!(graph.is_suspect("c"));
        graph.upsert("o", node(owner("o", None)));
        assert!(!graph.is_suspect("c"));
        assert_eq!(graph.remove("o"), collect(["c"]));
        assert!(graph.is_suspect("c"));
    }

    #[test]
    fn an_owner_elsewhere_is_suspect() {
        let mut graph = Graph::default();
        graph.upsert("c", node(owned_by("o", true)));
        let mut elsewhere = owner("o", None);
        elsewhere["namespace"] = json!("other");
        graph.upsert("o", node(elsewhere));
        assert!(graph.is_suspect("c"));
        let mut renamed = owner("o", None);
        renamed["name"] = json!("p");
        graph.upsert("o", node(renamed));
        assert!(graph.is_suspect("c"));
        assert_eq!(graph.upsert("d", node(owned_by("o", true))), collect(["d"]));
    }

    #[test]
    fn foreground_deletion_looks_at_dependents_and_back() {
        let mut graph = Graph::default();
        graph.upsert("o", node(owner("o", None)));
        let none = BTreeSet::new();
        assert_eq!(graph.upsert("c", node(owned_by("o", true))), none);
        graph.upsert("d", node(owned_by("o", true)));
        let waiting = node(owner("o", Some(FOREGROUND)));
        assert_eq!(graph.upsert("o", waiting.clone()), collect(["c", "d", "o"]));
        assert_eq!(graph.upsert("o", waiting), none);
        assert_eq!(graph.upsert("e", node(owned_by("o", true))), none);
        assert_eq!(
            graph.upsert("c", node(owned_by("o", false))),
            collect(["o"])
        );
        assert!(!graph.get("c").unwrap().blocks("o"));
        assert_eq!(graph.remove("d"), collect(["o"]));
    }

    #[test]
    fn orphaning_is_noticed_once() {
        let mut graph = Graph::default();
        graph.upsert("o", node(owner("o", None)));
        let orphaning = node(owner("o", Some(ORPHAN)));
        let expected = BTreeSet::from([Task::Orphan("o".to_owned())]);
        assert_eq!(graph.upsert("o", orphaning.clone()), expected);
        assert_eq!(graph.upsert("o", orphaning), BTreeSet::new());
    }
}
