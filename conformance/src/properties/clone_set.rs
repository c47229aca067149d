//! The guarantees of CloneSets.
//!
//! As for StatefulSets, a controller may act upon any generation since its observed one.
//!
//! Source: openkruise/kruise pkg/controller/cloneset/sync.

use std::collections::BTreeSet;

use kubeproof_apiserver::meta::ResourceVersion;
use kubeproof_apiserver::{EventType, JournalEntry};
use kubeproof_machinery::int_or_percent::Round;
use kubeproof_machinery::json::Value;

use super::known::{Caches, KnownPods};
use super::pods::{
    controller, int_or_percent, is_active, is_deletion, is_relabeled, is_terminating, label,
    least_fault, missing_claims, name, namespace, shared_claims, uid,
};
use super::revisions::UpdateRevision;
use super::{Property, World};

const SETS: &str = "clonesets.apps.kruise.io";
const CONTROLLER: &str = "cloneset-controller";
const INSTANCE_ID: &str = "apps.kruise.io/cloneset-instance-id";
const SPECIFIED_DELETE: &str = "apps.kruise.io/specified-delete";
const LIFECYCLE_STATE: &str = "lifecycle.apps.kruise.io/state";

/// The properties of CloneSets.
pub(super) fn all(
    caches: Caches,
    unanswered: &BTreeSet<ResourceVersion>,
) -> Vec<Box<dyn Property>> {
    vec![
        Box::new(OneInstanceOnePod),
        Box::new(OneClaimOnePod),
        Box::new(OwnClaims),
        Box::new(MaxSurge::new(caches, unanswered)),
        Box::new(MaxUnavailable(KnownPods::new(caches))),
        Box::new(Partitioned),
        Box::new(DeletedForReason),
    ]
}

/// A pod of a CloneSet.
#[derive(Clone, Copy)]
struct Pod<'a> {
    object: &'a Value,
    set: &'a Value,
}

impl<'a> Pod<'a> {
    fn of(object: &'a Value, world: &'a World) -> Option<Self> {
        let owner = controller(object).filter(|owner| owner["kind"] == "CloneSet")?;
        let set = world.get(SETS, namespace(object), owner["name"].as_str()?)?;
        (set["metadata"]["uid"] == owner["uid"]).then_some(Self { object, set })
    }

    /// The pod that `entry` is about, if the controller wrote it.
    fn written(entry: &'a JournalEntry, world: &'a World) -> Option<Self> {
        let is_by_controller = entry.user_agent.starts_with(CONTROLLER);
        Self::of(&entry.object, world).filter(|_| is_by_controller)
    }

    /// The pod that the controller makes.
    fn created(entry: &'a JournalEntry, world: &'a World) -> Option<Self> {
        Self::written(entry, world).filter(|_| entry.event == EventType::Added)
    }

    /// The pods of the same set, this one included.
    fn all_of_set(&self, world: &'a World) -> impl Iterator<Item = &'a Value> {
        let owner = uid(self.set);
        let pods = world.in_namespace("pods", namespace(self.set));
        pods.filter(move |pod| controller(pod).is_some_and(|own| own["uid"] == owner))
    }
}

fn replicas(set: &Value) -> i64 {
    set["spec"]["replicas"].as_i64().unwrap_or(1)
}

fn strategy(set: &Value) -> &Value {
    let strategy = &set["spec"]["updateStrategy"];
    match &strategy["rollingUpdate"] {
        Value::Null => strategy,
        rolling => rolling,
    }
}

fn max_surge(set: &Value) -> i64 {
    int_or_percent(&strategy(set)["maxSurge"], replicas(set), Round::Up, 0)
}

fn max_unavailable(set: &Value) -> i64 {
    let (stated, of) = (&strategy(set)["maxUnavailable"], replicas(set));
    let default = int_or_percent(&"20%".into(), of, Round::Up, 1);
    let round = match max_surge(set) {
        0 => Round::Up,
        _ => Round::Down,
    };
    int_or_percent(stated, of, round, default)
}

/// How many pods stay at other revisions; of a share that is not the whole one is updated.
fn partition(set: &Value) -> i64 {
    let (stated, of) = (&strategy(set)["partition"], replicas(set));
    let kept = int_or_percent(stated, of, Round::Up, 0);
    let is_share = stated.as_str().is_some_and(|text| text != "100%");
    match is_share && of > 1 && kept == of {
        true => of - 1,
        false => kept.clamp(0, of.max(0)),
    }
}

fn count<'a>(pods: impl Iterator<Item = &'a Value>) -> i64 {
    i64::try_from(pods.count()).unwrap_or(i64::MAX)
}

struct OneInstanceOnePod;

impl Property for OneInstanceOnePod {
    fn name(&self) -> &str {
        "never two pods with one instance id"
    }

    fn judge(&mut self, entry: &JournalEntry, world: &World) -> Vec<String> {
        let Some(pod) = Pod::created(entry, world) else {
            return Vec::new();
        };
        let id = label(pod.object, INSTANCE_ID);
        let own = name(pod.object);
        if id.is_none() || id != own.rsplit_once('-').map(|(_, id)| id) {
            return vec![format!("{own} is created with id {id:?}")];
        }
        let others = pod.all_of_set(world);
        let twins = others.filter(|other| name(other) != own && label(other, INSTANCE_ID) == id);
        let violations = twins.map(|twin| format!("{} and {own} are both there", name(twin)));
        violations.collect()
    }
}

struct OneClaimOnePod;

impl Property for OneClaimOnePod {
    fn name(&self) -> &str {
        "never two pods with one claim"
    }

    fn judge(&mut self, entry: &JournalEntry, world: &World) -> Vec<String> {
        let created = Pod::created(entry, world);
        created.map_or_else(Vec::new, |pod| {
            shared_claims((pod.object, pod.set), pod.all_of_set(world))
        })
    }
}

struct OwnClaims;

impl Property for OwnClaims {
    fn name(&self) -> &str {
        "a pod has its own claims"
    }

    fn judge(&mut self, entry: &JournalEntry, world: &World) -> Vec<String> {
        let created = Pod::created(entry, world);
        created.map_or_else(Vec::new, |pod| missing_claims((pod.object, pod.set), world))
    }
}

/// Never are more pods created than the replicas and `maxSurge`.
///
/// A controller that gets no answer to the creation of a pod learns of the pod by its event. It makes another one while
/// it waits for the event, because a creation that failed is not expected to be seen (`ScaleExpectations` of
/// cloneset_scale.go).
struct MaxSurge {
    caches: Caches,
    unanswered: BTreeSet<ResourceVersion>,
    /// The uids of pods that the controller may not know of.
    unknown: BTreeSet<String>,
}

impl MaxSurge {
    fn new(caches: Caches, unanswered: &BTreeSet<ResourceVersion>) -> Self {
        Self {
            caches,
            unanswered: unanswered.clone(),
            unknown: BTreeSet::new(),
        }
    }
}

impl Property for MaxSurge {
    fn name(&self) -> &str {
        "no more pods than replicas and maxSurge"
    }

    fn judge(&mut self, entry: &JournalEntry, world: &World) -> Vec<String> {
        let Some(pod) = Pod::created(entry, world) else {
            return Vec::new();
        };
        if matches!(self.caches, Caches::MayLag { .. }) && self.unanswered.contains(&entry.rv) {
            self.unknown.insert(uid(pod.object).to_owned());
        }
        let excess = world.asked(uid(pod.set)).map(|set| {
            let excludes = set["spec"]["scaleStrategy"]["excludePreparingDelete"] == true;
            let counts = |other: &&Value| {
                let is_leaving = label(other, LIFECYCLE_STATE) == Some("PreparingDelete");
                is_active(other) && !(excludes && is_leaving) && !self.unknown.contains(uid(other))
            };
            let pods = count(pod.all_of_set(world).filter(counts));
            let max = replicas(set) + max_surge(set);
            (pods > max).then_some((pods, max))
        });
        let violation = least_fault(excess).map(|(pods, max)| {
            format!(
                "{} is created, the {pods}th of {max} at most",
                name(pod.object)
            )
        });
        violation.into_iter().collect()
    }
}

/// No pod that is up is taken down, by deletion or by an update in place, when that leaves less than
/// the replicas without `maxUnavailable`.
struct MaxUnavailable(KnownPods);

impl Property for MaxUnavailable {
    fn name(&self) -> &str {
        "no more unavailable than maxUnavailable"
    }

    fn judge(&mut self, entry: &JournalEntry, world: &World) -> Vec<String> {
        let pod = Pod::written(entry, world);
        let is_up = self.0.is_taken_from_up(entry, pod.is_some());
        let Some(pod) = pod.filter(|pod| is_up && !is_terminating(pod.set)) else {
            return Vec::new();
        };
        let others = pod.all_of_set(world);
        let others = others.filter(|other| name(other) != name(pod.object));
        let is_up = |other: &&Value| self.0.is_up((namespace(other), name(other)), entry.time);
        let left = count(others.filter(is_up));
        let lack = world.asked(uid(pod.set)).map(|set| {
            let least = replicas(set) - max_unavailable(set);
            (left < least).then_some(least)
        });
        let violation = least_fault(lack).map(|least| {
            format!(
                "{} is taken down, {left} are left, and {least} are to be up",
                name(pod.object)
            )
        });
        violation.into_iter().collect()
    }
}

/// Property: the number of pods that the partition names stays at other revisions than the update revision.
struct Partitioned;

impl Property for Partitioned {
    fn name(&self) -> &str {
        "no more pods of the update revision than the partition leaves"
    }

    fn judge(&mut self, entry: &JournalEntry, world: &World) -> Vec<String> {
        let is_created = entry.event == EventType::Added;
        let pod = Pod::written(entry, world).filter(|_| is_created || is_relabeled(entry));
        let update = pod.and_then(|pod| UpdateRevision::of(pod.set, world));
        let Some((pod, update)) = pod
            .zip(update)
            .filter(|(pod, update)| update.is_new(pod.object))
        else {
            return Vec::new();
        };
        let of_update = |other: &&Value| update.has(other);
        let active = || pod.all_of_set(world).filter(|other| is_active(other));
        let new = count(active().filter(of_update));
        let old = count(active().filter(|other| !of_update(other)));
        let excess = world.asked(uid(pod.set)).map(|set| {
            let kept = partition(set);
            let most = replicas(set) - kept + max_surge(set);
            (new > most && old < kept).then_some((old, kept))
        });
        let verb = if is_created { "created" } else { "updated" };
        let violation = least_fault(excess).map(|(old, kept)| {
            format!(
                "{} is {verb}, {old} are of another revision, and the partition is {kept}",
                name(pod.object)
            )
        });
        violation.into_iter().collect()
    }
}

/// A pod is deleted because its deletion was asked for, or because there are too many.
struct DeletedForReason;

impl Property for DeletedForReason {
    fn name(&self) -> &str {
        "no pod is deleted without a reason"
    }

    fn judge(&mut self, entry: &JournalEntry, world: &World) -> Vec<String> {
        let pod = Pod::written(entry, world).filter(|_| is_deletion(entry));
        let pod = pod.filter(|pod| !is_terminating(pod.set));
        let Some((pod, before)) = pod.zip(entry.previous.as_deref()) else {
            return Vec::new();
        };
        let was_chosen = label(before, SPECIFIED_DELETE).is_some()
            || label(before, LIFECYCLE_STATE) == Some("PreparingDelete")
            || !is_active(before);
        let own = name(pod.object);
        let others = pod.all_of_set(world);
        let others = count(others.filter(|other| name(other) != own && is_active(other)));
        let is_asked_for = |set: &Value| {
            let listed = set["spec"]["scaleStrategy"]["podsToDelete"].as_array();
            let mut listed = listed.into_iter().flatten();
            listed.any(|listed| listed == own) || others >= replicas(set)
        };
        match was_chosen || world.asked(uid(pod.set)).any(is_asked_for) {
            true => Vec::new(),
            false => vec![format!("{own} is deleted, and {others} are left")],
        }
    }
}

#[cfg(test)]
mod tests;
