//! Carries a task out: reads live, judges, writes.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::Api;
use kube::api::{
    DeleteParams, DynamicObject, Patch, PatchParams, Preconditions, PropagationPolicy,
};
use kubeproof_runtime::context::Context;
use kubeproof_runtime::discovery::APIResource;
use kubeproof_runtime::recorder::{EventType, Recorder};
use kubeproof_runtime::retry::DEFAULT_BACKOFF;
use kubeproof_runtime::store::ObjectKey;
use kubeproof_runtime::sync_error::answered;
use serde_json::{Value, json};

use super::action::{Action, OwnerClass, Situation, reconcile};
use super::graph::{self, FOREGROUND, Graph, GroupKind, Node, ORPHAN, Subject, Task};

/// How a task ended without an error.
pub(super) enum Outcome {
    Done(Vec<Task>),
    /// An owner's kind is unknown: nothing can be said before the kinds change.
    Undecided,
    /// An owner is there, and no watch has reported it: the task is to be repeated.
    Unobserved,
}

/// Acts on single objects.
pub(super) struct Collector {
    pub(super) ctx: Context,
    pub(super) recorder: Recorder,
}

/// The classes of an object's owners, or the reason for their absence.
enum Owners {
    Classes {
        classes: Vec<OwnerClass>,
        /// The owners that are there and not in the graph.
        unobserved: Vec<Task>,
    },
    Undecided,
    /// A cluster-scoped object names an owner that lives in a namespace.
    Invalid,
}

impl Collector {
    /// Carries out `task`.
    ///
    /// # Errors
    ///
    /// Whatever should be tried again, conflicts included.
    pub(super) async fn perform(
        &self,
        task: &Task,
        graph: &Graph,
        kinds: &[Arc<APIResource>],
    ) -> Result<Outcome, kube::Error> {
        let subject = match task {
            Task::Report(subject, _) | Task::Orphan(subject) | Task::Collect(subject) => subject,
            Task::Observe(owner) => return self.observe(owner, graph, kinds).await,
        };
        let uid = &subject.uid;
        let Some(node) = graph.get(uid) else {
            return Ok(Outcome::Done(Vec::new()));
        };
        let Some(api) = self.api_of(node, kinds) else {
            return Ok(Outcome::Undecided);
        };
        match task {
            Task::Report(_, owner) => {
                if let Some(reference) = node.reference(owner) {
                    self.report_invalid(node, uid, reference, kinds).await;
                }
                Ok(Outcome::Done(Vec::new()))
            }
            Task::Orphan(_) => self.orphan(uid, node, &api, graph, kinds).await,
            _ => self.collect(uid, node, &api, graph, kinds).await,
        }
    }

    fn api_of(&self, node: &Node, kinds: &[Arc<APIResource>]) -> Option<Api<DynamicObject>> {
        let kind = find(kinds, &node.kind)?;
        Some(kind.api_of(&self.ctx.client, &node.key))
    }

    async fn orphan(
        &self,
        uid: &str,
        node: &Node,
        api: &Api<DynamicObject>,
        graph: &Graph,
        kinds: &[Arc<APIResource>],
    ) -> Result<Outcome, kube::Error> {
        for (dependent, child) in graph.dependents(uid) {
            if let Some(api) = self.api_of(child, kinds) {
                gone_is_fine(strip(&api, &child.key.name, dependent, &[uid]).await)?;
            }
        }
        self.remove_finalizer(api, &node.key.name, uid, ORPHAN)
            .await?;
        Ok(Outcome::Done(Vec::new()))
    }

    async fn collect(
        &self,
        uid: &str,
        node: &Node,
        api: &Api<DynamicObject>,
        graph: &Graph,
        kinds: &[Arc<APIResource>],
    ) -> Result<Outcome, kube::Error> {
        let done = Outcome::Done(Vec::new());
        if !graph.is_suspect(uid) || (node.deleting && !node.foreground) {
            return Ok(done);
        }
        let Some(live) = live(api, &node.key.name, uid).await? else {
            return Ok(done);
        };
        if node.foreground {
            return self.finish_foreground(uid, node, api, graph).await;
        }
        let references = live.owner_references.clone().unwrap_or_default();
        let owners = self.classify(node, &references, graph, kinds).await?;
        let (classes, unobserved) = match owners {
            Owners::Classes {
                classes,
                unobserved,
            } => (classes, unobserved),
            Owners::Undecided => return Ok(Outcome::Undecided),
            Owners::Invalid => return Ok(done),
        };
        let situation = Situation {
            has_dependents: graph.dependents(uid).next().is_some(),
            has_waiting_dependents: graph.dependents(uid).any(|(_, child)| child.foreground),
            orphan_finalizer: graph::has_finalizer(&live, ORPHAN),
            foreground_finalizer: graph::has_finalizer(&live, FOREGROUND),
        };
        match reconcile(&classes, situation) {
            Action::Keep => {}
            Action::Strip => {
                let lost = references.iter().zip(&classes);
                let lost = lost.filter(|(_, class)| **class != OwnerClass::Solid);
                let lost: Vec<&str> = lost.map(|(lost, _)| lost.uid.as_str()).collect();
                gone_is_fine(strip(api, &node.key.name, uid, &lost).await)?;
            }
            Action::Delete { policy, unblock } => {
                let seen = if unblock {
                    clear_blocking(api, &node.key.name, &live).await?
                } else {
                    live
                };
                gone_is_fine(delete(api, &node.key.name, uid, &seen, policy).await)?;
                return Ok(done);
            }
        }
        Ok(Outcome::Done(unobserved))
    }

    /// Looks at an owner that no watch has reported. It may be gone before one does, which no watch reports either.
    ///
    /// Source: `garbagecollector/garbagecollector.go`, `attemptToDeleteWorker`, about virtual nodes; kubernetes#56121.
    async fn observe(
        &self,
        owner: &Subject,
        graph: &Graph,
        kinds: &[Arc<APIResource>],
    ) -> Result<Outcome, kube::Error> {
        if graph.get(&owner.uid).is_some() {
            return Ok(Outcome::Done(Vec::new()));
        }
        let Some(kind) = find(kinds, &owner.kind) else {
            return Ok(Outcome::Undecided);
        };
        let api = kind.api_of(&self.ctx.client, &owner.key);
        if live(&api, &owner.key.name, &owner.uid).await?.is_some() {
            return Ok(Outcome::Unobserved);
        }
        let dependents = graph.dependents(&owner.uid);
        let dependents = dependents.map(|(uid, node)| Task::Collect(Subject::new(uid, node)));
        Ok(Outcome::Done(dependents.collect()))
    }

    /// An owner that waits goes when nothing blocks it any more.
    async fn finish_foreground(
        &self,
        uid: &str,
        node: &Node,
        api: &Api<DynamicObject>,
        graph: &Graph,
    ) -> Result<Outcome, kube::Error> {
        let blocking = graph.dependents(uid).filter(|(_, child)| child.blocks(uid));
        let blocking: Vec<(&Arc<str>, &Node)> = blocking.collect();
        if blocking.is_empty() {
            self.remove_finalizer(api, &node.key.name, uid, FOREGROUND)
                .await?;
        }
        let unasked = blocking.into_iter().filter(|(_, child)| !child.deleting);
        let tasks = unasked
            .map(|(uid, node)| Task::Collect(Subject::new(uid, node)))
            .collect();
        Ok(Outcome::Done(tasks))
    }

    async fn classify(
        &self,
        node: &Node,
        references: &[OwnerReference],
        graph: &Graph,
        kinds: &[Arc<APIResource>],
    ) -> Result<Owners, kube::Error> {
        let (mut classes, mut unobserved) = (Vec::new(), Vec::new());
        for reference in references {
            // Of a kind that has gone together with the owner nothing can be read.
            let is_deleted = graph.is_deleted(node, reference);
            let Some(kind) = find(kinds, &GroupKind::of(reference)) else {
                if is_deleted {
                    classes.push(OwnerClass::Dangling);
                    continue;
                }
                return Ok(Owners::Undecided);
            };
            if kind.namespaced && node.key.namespace.is_empty() {
                return Ok(Owners::Invalid);
            }
            let namespace = match kind.namespaced {
                true => node.key.namespace.clone(),
                false => String::new(),
            };
            let owner = ObjectKey {
                namespace,
                name: reference.name.clone(),
            };
            let api = kind.api_of(&self.ctx.client, &owner);
            let found = match live(&api, &owner.name, &reference.uid).await {
                Err(_) if is_deleted => None,
                found => found?,
            };
            if found.is_some() && graph.get(&reference.uid).is_none() {
                unobserved.push(Task::Observe(Subject::owner(reference, owner)));
            }
            classes.push(match found {
                None => OwnerClass::Dangling,
                Some(owner)
                    if owner.deletion_timestamp.is_some()
                        && graph::has_finalizer(&owner, FOREGROUND) =>
                {
                    OwnerClass::Waiting
                }
                Some(_) => OwnerClass::Solid,
            });
        }
        Ok(Owners::Classes {
            classes,
            unobserved,
        })
    }

    async fn report_invalid(
        &self,
        node: &Node,
        uid: &str,
        reference: &OwnerReference,
        kinds: &[Arc<APIResource>],
    ) {
        let kind = find(kinds, &node.kind);
        let namespace = &node.key.namespace;
        let involved = ObjectReference {
            api_version: kind.map(|kind| kind.resource.api_version.clone()),
            kind: Some(node.kind.kind.clone()),
            name: Some(node.key.name.clone()),
            namespace: (!namespace.is_empty()).then(|| namespace.clone()),
            uid: Some(uid.to_owned()),
            ..ObjectReference::default()
        };
        let message = format!(
            "ownerRef [{}/{}, namespace: {namespace}, name: {}, uid: {}] does not exist in \
             namespace {namespace:?}",
            reference.api_version, reference.kind, reference.name, reference.uid
        );
        self.recorder
            .publish(
                &involved,
                EventType::Warning,
                "OwnerRefInvalidNamespace",
                &message,
            )
            .await;
    }

    /// Takes `finalizer` off the object. A conflict is retried with the object as it is then, so that an owner that its
    /// controller goes on to write is not held longer than upstream.
    ///
    /// Source: `garbagecollector/operations.go`, `removeFinalizer`.
    async fn remove_finalizer(
        &self,
        api: &Api<DynamicObject>,
        name: &str,
        uid: &str,
        finalizer: &str,
    ) -> Result<(), kube::Error> {
        let mut delays = DEFAULT_BACKOFF.into_iter();
        loop {
            let Some(live) = live(api, name, uid).await? else {
                return Ok(());
            };
            let mut finalizers = live.finalizers.clone().unwrap_or_default();
            finalizers.retain(|kept| kept != finalizer);
            let patch = json!({ "metadata": {
                "resourceVersion": live.resource_version,
                "finalizers": finalizers,
            } });
            let refusal = match merge(api, name, patch).await {
                Err(error) if answered(&error, 409) => error,
                patched => return gone_is_fine(patched.map(|_| ())),
            };
            let Some(delay) = delays.next() else {
                return Err(refusal);
            };
            tokio::time::sleep(delay).await;
        }
    }
}

fn find<'a>(kinds: &'a [Arc<APIResource>], wanted: &GroupKind) -> Option<&'a APIResource> {
    kinds
        .iter()
        .map(|kind| &**kind)
        .find(|kind| kind.is(&wanted.group, &wanted.kind))
}

/// The metadata of the object as it is now; None when it is gone or another has its name.
async fn live(
    api: &Api<DynamicObject>,
    name: &str,
    uid: &str,
) -> Result<Option<ObjectMeta>, kube::Error> {
    let found = api.get_opt(name).await?;
    let found = found.map(|object| object.metadata);
    Ok(found.filter(|meta| meta.uid.as_deref() == Some(uid)))
}

async fn merge(
    api: &Api<DynamicObject>,
    name: &str,
    patch: Value,
) -> Result<DynamicObject, kube::Error> {
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch))
        .await
}

/// Takes the references to `owners` off the object; custom resources know no strategic merge.
async fn strip(
    api: &Api<DynamicObject>,
    name: &str,
    uid: &str,
    owners: &[&str],
) -> Result<(), kube::Error> {
    let removals: Vec<Value> = owners
        .iter()
        .map(|owner| json!({ "$patch": "delete", "uid": owner }))
        .collect();
    let patch = json!({ "metadata": { "uid": uid, "ownerReferences": removals } });
    let patched = api
        .patch(name, &PatchParams::default(), &Patch::Strategic(patch))
        .await;
    match patched {
        Err(error) if answered(&error, 415) => {}
        patched => return patched.map(|_| ()),
    }
    let Some(live) = live(api, name, uid).await? else {
        return Ok(());
    };
    let mut references = live.owner_references.unwrap_or_default();
    references.retain(|reference| !owners.contains(&reference.uid.as_str()));
    let patch = json!({ "metadata": {
        "uid": uid,
        "resourceVersion": live.resource_version,
        "ownerReferences": references,
    } });
    merge(api, name, patch).await.map(|_| ())
}

/// Makes the object hold up none of its owners; its metadata after that.
async fn clear_blocking(
    api: &Api<DynamicObject>,
    name: &str,
    live: &ObjectMeta,
) -> Result<ObjectMeta, kube::Error> {
    let mut references = live.owner_references.clone().unwrap_or_default();
    for reference in &mut references {
        reference.block_owner_deletion = Some(false);
    }
    let patch = json!({ "metadata": {
        "uid": live.uid,
        "resourceVersion": live.resource_version,
        "ownerReferences": references,
    } });
    let patched = merge(api, name, patch).await?;
    Ok(patched.metadata)
}

/// Deletes the object, unless its owners have changed since it was `seen`. Other changes do not save it, because an object
/// that is written all the time would never go otherwise.
///
/// Source: `garbagecollector/operations.go`, `deleteObject`.
async fn delete(
    api: &Api<DynamicObject>,
    name: &str,
    uid: &str,
    seen: &ObjectMeta,
    policy: PropagationPolicy,
) -> Result<(), kube::Error> {
    let version = seen.resource_version.clone();
    let refusal = match delete_at(api, name, uid, version, policy.clone()).await {
        Err(error) if answered(&error, 409) => error,
        result => return result,
    };
    match live(api, name, uid).await? {
        None => Ok(()),
        Some(now)
            if now.resource_version != seen.resource_version
                && now.owner_references == seen.owner_references =>
        {
            delete_at(api, name, uid, None, policy).await
        }
        Some(_) => Err(refusal),
    }
}

async fn delete_at(
    api: &Api<DynamicObject>,
    name: &str,
    uid: &str,
    version: Option<String>,
    policy: PropagationPolicy,
) -> Result<(), kube::Error> {
    let params = DeleteParams {
        propagation_policy: Some(policy),
        preconditions: Some(Preconditions {
            uid: Some(uid.to_owned()),
            resource_version: version,
        }),
        ..DeleteParams::default()
    };
    api.delete(name, &params).await.map(|_| ())
}

fn gone_is_fine(result: Result<(), kube::Error>) -> Result<(), kube::Error> {
    match result {
        Err(error) if answered(&error, 404) => Ok(()),
        result => result,
    }
}
