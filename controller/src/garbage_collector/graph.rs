//! The graph of owners and dependents as watches reported it, and the objects that a change makes
//! worth a check.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kubeproof_runtime::store::ObjectKey;

pub(super) const FOREGROUND: &str = "foregroundDeletion";
pub(super) const ORPHAN: &str = "orphan";

/// Kind and API group, ordered by kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct GroupKind {
    pub(super) kind: String,
    pub(super) group: String,
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

/// An object as the graph knows it. Its [`Subject`] shares its kind and key, and its siblings its owners.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    pub(super) kind: Arc<GroupKind>,
    pub(super) key: Arc<ObjectKey>,
    pub(super) owners: Arc<[OwnerReference]>,
    pub(super) deleting: bool,
    /// Stays until its blocking dependents are gone.
    pub(super) foreground: bool,
    /// Stays until its dependents no longer refer to it.
    pub(super) orphaning: bool,
}

impl Node {
    pub(super) fn new(kind: Arc<GroupKind>, key: Arc<ObjectKey>, meta: &ObjectMeta) -> Self {
        let deleting = meta.deletion_timestamp.is_some();
        Self {
            kind,
            key,
            owners: meta
                .owner_references
                .as_deref()
                .map_or_else(Arc::default, Arc::from),
            deleting,
            foreground: deleting && has_finalizer(meta, FOREGROUND),
            orphaning: deleting && has_finalizer(meta, ORPHAN),
        }
    }

    pub(super) fn reference(&self, owner: &str) -> Option<&OwnerReference> {
        self.owners.iter().find(|reference| reference.uid == owner)
    }

    /// Whether the reference of `dependent`, which has this object's uid, names it where it is.
    fn is_named_by(&self, dependent: &Self, reference: &OwnerReference) -> bool {
        let reachable =
            self.key.namespace.is_empty() || self.key.namespace == dependent.key.namespace;
        reachable && self.key.name == reference.name && *self.kind == GroupKind::of(reference)
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

/// An object to look at. Ordered by kind and name, so that the order of work does not hang on how
/// uids were drawn.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Subject {
    pub(super) kind: Arc<GroupKind>,
    pub(super) key: Arc<ObjectKey>,
    pub(super) uid: Arc<str>,
}

impl Subject {
    pub(super) fn new(uid: &Arc<str>, node: &Node) -> Self {
        Self {
            kind: Arc::clone(&node.kind),
            key: Arc::clone(&node.key),
            uid: Arc::clone(uid),
        }
    }

    /// The owner at `key` that a reference names.
    pub(super) fn owner(reference: &OwnerReference, key: ObjectKey) -> Self {
        Self {
            kind: Arc::new(GroupKind::of(reference)),
            key: Arc::new(key),
            uid: reference.uid.as_str().into(),
        }
    }
}

/// Something to do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Task {
    /// Warn that an object's reference names an owner of another namespace, which has this uid.
    Report(Subject, String),
    /// Remove the references of the dependents to this owner.
    Orphan(Subject),
    /// Check an object that may have lost its owners or be waiting for its dependents.
    Collect(Subject),
    /// Check whether an owner is gone that is not in the graph.
    Observe(Subject),
}

/// The objects by uid, with their owners and dependents.
#[derive(Default)]
pub(super) struct Graph {
    nodes: BTreeMap<Arc<str>, Node>,
    /// Owner uid (which need not exist) to its dependents.
    dependents: BTreeMap<String, BTreeSet<Subject>>,
    /// The deleted owners that still have dependents.
    deleted: BTreeMap<Arc<str>, Node>,
}

impl Graph {
    pub(super) fn get(&self, uid: &str) -> Option<&Node> {
        self.nodes.get(uid)
    }

    /// The known dependents of `owner` with their uids, by kind and name.
    pub(super) fn dependents(&self, owner: &str) -> impl Iterator<Item = (&Arc<str>, &Node)> {
        let subjects = self.dependents.get(owner).into_iter().flatten();
        subjects.filter_map(|subject| self.nodes.get_key_value(&subject.uid))
    }

    /// Updates the graph by a current object.
    pub(super) fn upsert(&mut self, uid: Arc<str>, mut node: Node) -> BTreeSet<Task> {
        let mut tasks = BTreeSet::new();
        let old = self.nodes.get(&uid);
        for reference in old.map_or(&[][..], |old| &old.owners) {
            if !node.blocks(&reference.uid) {
                self.look_at_waiting(&reference.uid, &mut tasks);
            }
        }
        // Most updates change nothing that the graph knows.
        if old == Some(&node) {
            return tasks;
        }
        self.share_owners(&mut node);
        let subject = Subject::new(&uid, &node);
        let old = self.nodes.insert(Arc::clone(&uid), node.clone());
        self.deleted.remove(&uid);
        let owners_before = old.as_ref().map_or(&[][..], |old| &old.owners);
        for reference in owners_before {
            if node.reference(&reference.uid).is_none() {
                self.unlink(&reference.uid, &subject);
            }
        }
        for reference in node.owners.iter() {
            let dependents = self.dependents.entry(reference.uid.clone()).or_default();
            dependents.insert(subject.clone());
        }
        let mut added = node
            .owners
            .iter()
            .filter(|reference| !owners_before.contains(reference));
        // An owner that waits is known too: it asks for its dependents itself.
        if added.any(|reference| self.owner(&node, reference).is_none()) {
            tasks.insert(Task::Collect(subject.clone()));
        }
        tasks.extend(self.invalid_references(&subject, &node, old.as_ref()));
        if node.foreground && !old.as_ref().is_some_and(|old| old.foreground) {
            tasks.insert(Task::Collect(subject.clone()));
            tasks.extend(
                self.dependents(&uid)
                    .map(|(uid, node)| Task::Collect(Subject::new(uid, node))),
            );
        }
        if node.orphaning && !old.as_ref().is_some_and(|old| old.orphaning) {
            tasks.insert(Task::Orphan(subject.clone()));
        }
        tasks
    }

    /// Replaces the owners of `node` by those of a sibling if they are equal: most objects have one owner, and it has many.
    fn share_owners(&self, node: &mut Node) {
        let owner = node.owners.first().map(|reference| &reference.uid);
        let sibling = owner.and_then(|owner| self.dependents(owner).next());
        if let Some((_, sibling)) = sibling.filter(|(_, sibling)| sibling.owners == node.owners) {
            node.owners = Arc::clone(&sibling.owners);
        }
    }

    /// The warnings about references between namespaces that a node brings, which was `old` before: one about a new
    /// reference of its own, and those about references to it if it has only now been seen.
    ///
    /// Source: `garbagecollector/graph_builder.go`, `reportInvalidNamespaceOwnerRef`.
    fn invalid_references(&self, subject: &Subject, node: &Node, old: Option<&Node>) -> Vec<Task> {
        let are_apart = |dependent: &Node, owner: &Node| {
            !owner.key.namespace.is_empty() && owner.key.namespace != dependent.key.namespace
        };
        let is_new =
            |owner: &&OwnerReference| old.is_none_or(|old| old.reference(&owner.uid).is_none());
        let is_invalid = |owner: &&OwnerReference| {
            self.get(&owner.uid)
                .is_some_and(|owner| are_apart(node, owner))
        };
        let own = node.owners.iter().filter(is_new).find(is_invalid);
        let own = own.map(|owner| Task::Report(subject.clone(), owner.uid.clone()));
        // Not for each change: a set may have a hundred thousand pods.
        let dependents = old.is_none().then(|| self.dependents(&subject.uid));
        let of_dependents = dependents
            .into_iter()
            .flatten()
            .filter(|(_, dependent)| are_apart(dependent, node))
            .map(|(dependent, known)| {
                Task::Report(
                    Subject::new(dependent, known),
                    subject.uid.as_ref().to_owned(),
                )
            });
        own.into_iter().chain(of_dependents).collect()
    }

    /// Updates the graph by a deleted object.
    pub(super) fn remove(&mut self, uid: &str) -> BTreeSet<Task> {
        let mut tasks = BTreeSet::new();
        let Some((uid, node)) = self.nodes.remove_entry(uid) else {
            return tasks;
        };
        let subject = Subject::new(&uid, &node);
        for reference in node.owners.iter() {
            self.unlink(&reference.uid, &subject);
            self.look_at_waiting(&reference.uid, &mut tasks);
        }
        tasks.extend(
            self.dependents(&uid)
                .map(|(uid, node)| Task::Collect(Subject::new(uid, node))),
        );
        if self.dependents.contains_key(&*uid) {
            self.deleted.insert(uid, node);
        }
        tasks
    }

    fn unlink(&mut self, owner: &str, dependent: &Subject) {
        if let Some(dependents) = self.dependents.get_mut(owner) {
            dependents.remove(dependent);
            if dependents.is_empty() {
                self.dependents.remove(owner);
                self.deleted.remove(owner);
            }
        }
    }

    fn look_at_waiting(&self, owner: &str, tasks: &mut BTreeSet<Task>) {
        let waiting = self.nodes.get_key_value(owner);
        if let Some((uid, node)) = waiting.filter(|(_, owner)| owner.foreground) {
            tasks.insert(Task::Collect(Subject::new(uid, node)));
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

    /// Whether the owner that `dependent` names was there, and was deleted.
    pub(super) fn is_deleted(&self, dependent: &Node, reference: &OwnerReference) -> bool {
        let owner = self.deleted.get(reference.uid.as_str());
        owner.is_some_and(|owner| owner.is_named_by(dependent, reference))
    }

    /// The owner that `dependent` names, if it is known and where the reference says.
    fn owner(&self, dependent: &Node, reference: &OwnerReference) -> Option<&Node> {
        let owner = self.nodes.get(reference.uid.as_str());
        owner.filter(|owner| owner.is_named_by(dependent, reference))
    }
}

#[cfg(test)]
mod tests {
    use kubeproof_runtime::decode::from_value;
    use serde_json::{Value, json};

    use super::*;

    fn node(meta: Value) -> Node {
        let meta: ObjectMeta = from_value(meta).unwrap();
        let kind = GroupKind {
            group: "apps".to_owned(),
            kind: "ReplicaSet".to_owned(),
        };
        let key = ObjectKey {
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
        };
        Node::new(Arc::new(kind), Arc::new(key), &meta)
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

    /// Returns the uids to collect, in the order of work.
    fn collected(tasks: BTreeSet<Task>) -> Vec<String> {
        let tasks = tasks.into_iter().filter_map(|task| match task {
            Task::Collect(subject) => Some(subject.uid.as_ref().to_owned()),
            Task::Report(..) | Task::Observe(_) => None,
            Task::Orphan(subject) => panic!("{} is to be orphaned", subject.uid),
        });
        tasks.collect()
    }

    #[test]
    fn a_dependent_may_come_before_its_owner() {
        let mut graph = Graph::default();
        assert_eq!(
            collected(graph.upsert("c".into(), node(owned_by("o", true)))),
            ["c"]
        );
        assert!(graph.is_suspect("c"));
        graph.upsert("o".into(), node(owner("o", None)));
        assert!(!graph.is_suspect("c"));
        assert_eq!(collected(graph.remove("o")), ["c"]);
        assert!(graph.is_suspect("c"));
    }

    #[test]
    fn an_object_and_its_subject_share_key_and_uid() {
        let mut graph = Graph::default();
        let (uid, node) = (Arc::from("c"), node(owned_by("o", true)));
        graph.upsert(Arc::clone(&uid), node.clone());
        let (known, kept) = graph.nodes.get_key_value("c").unwrap();
        let subject = graph.dependents["o"].first().unwrap();
        assert!(Arc::ptr_eq(known, &uid) && Arc::ptr_eq(&subject.uid, &uid));
        assert!(Arc::ptr_eq(&kept.key, &node.key) && Arc::ptr_eq(&subject.key, &node.key));
    }

    #[test]
    fn siblings_share_their_owners() {
        let mut graph = Graph::default();
        for uid in ["c", "d", "c"] {
            graph.upsert(uid.into(), node(owned_by("o", true)));
        }
        graph.upsert("e".into(), node(owned_by("o", false)));
        let owners = |uid| &graph.get(uid).unwrap().owners;
        assert!(Arc::ptr_eq(owners("c"), owners("d")));
        assert_ne!(owners("c"), owners("e"));
    }

    #[test]
    fn a_deleted_owner_is_remembered_while_it_has_dependents() {
        let mut graph = Graph::default();
        graph.upsert("o".into(), node(owner("o", None)));
        let child = node(owned_by("o", true));
        graph.upsert("c".into(), child.clone());
        let reference = &child.owners[0];
        assert!(!graph.is_deleted(&child, reference));
        graph.remove("o");
        assert!(graph.is_deleted(&child, reference));
        let renamed = OwnerReference {
            name: "p".to_owned(),
            ..reference.clone()
        };
        assert!(!graph.is_deleted(&child, &renamed));
        graph.remove("c");
        assert!(graph.deleted.is_empty());
    }

    #[test]
    fn an_unchanged_dependent_asks_for_a_waiting_owner_unless_it_blocks_it() {
        let mut graph = Graph::default();
        for (uid, block) in [("blocks", true), ("does-not", false)] {
            let child = node(owned_by("o", block));
            graph.upsert("o".into(), node(owner("o", None)));
            assert_eq!(collected(graph.upsert(uid.into(), child.clone())), [""; 0]);
            assert_eq!(collected(graph.upsert(uid.into(), child.clone())), [""; 0]);
            graph.upsert("o".into(), node(owner("o", Some(FOREGROUND))));
            let asked: &[&str] = if block { &[] } else { &["o"] };
            assert_eq!(collected(graph.upsert(uid.into(), child)), asked);
        }
    }

    #[test]
    fn an_owner_elsewhere_is_suspect() {
        let mut graph = Graph::default();
        graph.upsert("c".into(), node(owned_by("o", true)));
        let mut elsewhere = owner("o", None);
        elsewhere["namespace"] = json!("other");
        graph.upsert("o".into(), node(elsewhere));
        assert!(graph.is_suspect("c"));
        let mut renamed = owner("o", None);
        renamed["name"] = json!("p");
        graph.upsert("o".into(), node(renamed));
        assert!(graph.is_suspect("c"));
        assert_eq!(
            collected(graph.upsert("d".into(), node(owned_by("o", true)))),
            ["d"]
        );
    }

    #[test]
    fn a_reference_to_another_namespace_is_reported_when_it_is_first_seen() {
        let reported = |tasks: BTreeSet<Task>| -> Vec<(String, String)> {
            let pairs = tasks.into_iter().filter_map(|task| match task {
                Task::Report(subject, owner) => Some((subject.uid.as_ref().to_owned(), owner)),
                Task::Orphan(_) | Task::Collect(_) | Task::Observe(_) => None,
            });
            pairs.collect()
        };
        let child_of_o = [("c".to_owned(), "o".to_owned())];
        let mut elsewhere = owner("o", None);
        elsewhere["namespace"] = json!("other");
        let (child, elsewhere) = (node(owned_by("o", true)), node(elsewhere));
        let mut graph = Graph::default();
        assert_eq!(reported(graph.upsert("o".into(), elsewhere.clone())), []);
        assert_eq!(
            reported(graph.upsert("c".into(), child.clone())),
            child_of_o
        );
        assert_eq!(reported(graph.upsert("c".into(), child.clone())), []);
        assert_eq!(reported(graph.upsert("o".into(), elsewhere.clone())), []);
        // The owner is seen only after its dependent.
        let mut graph = Graph::default();
        assert_eq!(reported(graph.upsert("c".into(), child)), []);
        assert_eq!(
            reported(graph.upsert("o".into(), elsewhere.clone())),
            child_of_o
        );
        // Of several owners elsewhere one is reported.
        let mut both = owned_by("o", true);
        let mut second = both["ownerReferences"][0].clone();
        second["uid"] = json!("p");
        both["ownerReferences"].as_array_mut().unwrap().push(second);
        graph.upsert("p".into(), elsewhere);
        let first = [("d".to_owned(), "o".to_owned())];
        assert_eq!(reported(graph.upsert("d".into(), node(both))), first);
        // Every object may refer to an owner without a namespace.
        let mut cluster = owner("o", None);
        cluster["namespace"] = Value::Null;
        let mut graph = Graph::default();
        graph.upsert("o".into(), node(cluster));
        let tasks = graph.upsert("c".into(), node(owned_by("o", true)));
        assert_eq!(tasks, BTreeSet::new());
    }

    #[test]
    fn foreground_deletion_looks_at_dependents_and_back() {
        let mut graph = Graph::default();
        graph.upsert("o".into(), node(owner("o", None)));
        let none = BTreeSet::new();
        assert_eq!(graph.upsert("c".into(), node(owned_by("o", true))), none);
        graph.upsert("d".into(), node(owned_by("o", true)));
        let waiting = node(owner("o", Some(FOREGROUND)));
        assert_eq!(
            collected(graph.upsert("o".into(), waiting.clone())),
            ["c", "d", "o"]
        );
        assert_eq!(graph.upsert("o".into(), waiting), none);
        assert_eq!(graph.upsert("e".into(), node(owned_by("o", true))), none);
        assert_eq!(
            collected(graph.upsert("c".into(), node(owned_by("o", false)))),
            ["o"]
        );
        assert!(!graph.get("c").unwrap().blocks("o"));
        assert_eq!(collected(graph.remove("d")), ["o"]);
    }

    #[test]
    fn orphaning_is_noticed_once() {
        let mut graph = Graph::default();
        graph.upsert("o".into(), node(owner("o", None)));
        let orphaning = node(owner("o", Some(ORPHAN)));
        let expected = BTreeSet::from([Task::Orphan(Subject::new(&"o".into(), &orphaning))]);
        assert_eq!(graph.upsert("o".into(), orphaning.clone()), expected);
        assert_eq!(graph.upsert("o".into(), orphaning), BTreeSet::new());
    }
}
