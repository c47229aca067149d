//! Specs, and who may write them.

use std::collections::{BTreeMap, BTreeSet};

use kubeproof_apiserver::{EventType, JournalEntry};
use kubeproof_machinery::json::{SmolStr, Value};

use super::super::pods::{controller_of, uid};
use super::super::{Property, World};
use super::{is_by_component, name, named, namespace};
use crate::user_agent::{SCENARIO_ACTOR, TEST, actor};

/// A field of a spec that controllers fill in, because the creator of the object asks for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilledIn {
    /// The resource: `pods`, `persistentvolumeclaims`.
    pub resource: String,
    /// The field below `spec`: `nodeName`.
    pub field: String,
    /// Why a controller may write it.
    pub reason: String,
}

/// The fields of built-in kinds that controllers of a cluster fill in, with the reason.
const FILLED_IN: &[(&str, &str, &str)] = &[
    (
        "pods",
        "nodeName",
        "a pod without a node asks the scheduler for one",
    ),
    (
        "persistentvolumeclaims",
        "volumeName",
        "a claim asks for a volume",
    ),
    (
        "persistentvolumes",
        "claimRef",
        "a volume is bound by the claim that asks for it",
    ),
    (
        "nodes",
        "taints",
        "the node lifecycle controller writes what befalls a node as taints",
    ),
    ("nodes", "podCIDR", "a node asks for a range of addresses"),
    ("nodes", "podCIDRs", "a node asks for a range of addresses"),
    (
        "namespaces",
        "finalizers",
        "the namespace controller finishes a deletion",
    ),
    (
        "nodeimages",
        "images",
        "OpenKruise lists there what its jobs ask nodes to pull",
    ),
    (
        "clonesets",
        "scaleStrategy",
        "OpenKruise removes the names of deleted pods from podsToDelete (truncatePodsToDelete)",
    ),
];

/// No controller changes the spec of an object that another client has created and no controller owns.
///
/// Such a spec says what its author wants; a controller that writes there overwrites the wish, or hides its change
/// from the client that applies the object again. Fields that exist to be filled in are exempt: the node of a pod, the volume of
/// a claim, the replicas of the target of a HorizontalPodAutoscaler, and what [`filled_in`](Self::filled_in) adds.
///
/// ```
/// use kubeproof::Testbed;
/// use kubeproof::properties::general::SpecsAsAsked;
///
/// # let mut runtime = tokio::runtime::Builder::new_current_thread();
/// # let runtime = runtime.enable_time().start_paused(true).build()?;
/// # runtime.block_on(async {
/// let specs = || SpecsAsAsked::default().filled_in("sites", "address", "a site asks for one");
/// let testbed = Testbed::builder().property_in_rust(specs).start().await?;
/// # testbed.shutdown().await;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Source: API conventions, "Spec and Status".
#[derive(Clone, Debug)]
pub struct SpecsAsAsked {
    filled_in: Vec<FilledIn>,
    /// The creator of each object, by uid.
    creators: BTreeMap<String, String>,
}

impl Default for SpecsAsAsked {
    fn default() -> Self {
        let filled_in = FILLED_IN.iter().map(|(resource, field, reason)| FilledIn {
            resource: (*resource).to_owned(),
            field: (*field).to_owned(),
            reason: (*reason).to_owned(),
        });
        Self {
            filled_in: filled_in.collect(),
            creators: BTreeMap::new(),
        }
    }
}

impl SpecsAsAsked {
    /// Allows controllers to write `field` of the specs of a `resource`, such as `sites`, for this `reason`.
    #[must_use]
    pub fn filled_in(mut self, resource: &str, field: &str, reason: &str) -> Self {
        self.filled_in.push(FilledIn {
            resource: resource.to_owned(),
            field: field.to_owned(),
            reason: reason.to_owned(),
        });
        self
    }

    /// The fields that controllers may write.
    #[must_use]
    pub fn exemptions(&self) -> &[FilledIn] {
        &self.filled_in
    }

    fn is_filled_in(&self, resource: &str, field: &str) -> bool {
        let mut filled_in = self.filled_in.iter();
        filled_in.any(|one| one.resource == resource && one.field == field)
    }
}

/// Whether a HorizontalPodAutoscaler has the written object as its target: who creates one asks others for the replicas.
fn is_scaled(entry: &JournalEntry, world: &World) -> bool {
    const AUTOSCALERS: &str = "horizontalpodautoscalers.autoscaling";
    let object = &entry.object;
    let mut autoscalers = world.in_namespace(AUTOSCALERS, namespace(object));
    autoscalers.any(|autoscaler| {
        let target = &autoscaler["spec"]["scaleTargetRef"];
        let api_version = target["apiVersion"].as_str().unwrap_or_default();
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        group == entry.gvr.group
            && target["kind"] == object["kind"]
            && target["name"] == name(object)
    })
}

/// The names of the fields in which two specs differ.
fn changed<'a>(before: &'a Value, after: &'a Value) -> BTreeSet<&'a str> {
    let names = |spec: &'a Value| {
        spec.as_object()
            .into_iter()
            .flat_map(|fields| fields.keys())
    };
    let names = names(before).chain(names(after)).map(SmolStr::as_str);
    names.filter(|name| before[*name] != after[*name]).collect()
}

impl Property for SpecsAsAsked {
    fn name(&self) -> &str {
        "specs stay as asked"
    }

    fn judge(&mut self, entry: &JournalEntry, world: &World) -> Vec<String> {
        let agent = actor(&entry.user_agent);
        let (resource, object) = (&entry.gvr.resource, &entry.object);
        if entry.event == EventType::Added {
            self.creators
                .insert(uid(object).to_owned(), agent.to_owned());
        }
        let before = entry.previous.as_deref();
        let Some(before) =
            before.filter(|_| entry.event == EventType::Modified && is_by_component(entry))
        else {
            return Vec::new();
        };
        let creator = self.creators.get(uid(object)).map_or("", String::as_str);
        if creator == agent || controller_of(before).or(controller_of(object)).is_some() {
            return Vec::new();
        }
        let changed = changed(&before["spec"], &object["spec"]).into_iter();
        let is_exempt = |field: &str| {
            self.is_filled_in(resource, field) || field == "replicas" && is_scaled(entry, world)
        };
        let changed: Vec<&str> = changed.filter(|field| !is_exempt(field)).collect();
        if changed.is_empty() {
            return Vec::new();
        }
        let creator = match creator {
            TEST | SCENARIO_ACTOR => "the test",
            "" | "-" => "the server",
            creator => creator,
        };
        let (fields, named) = (changed.join(", "), named(resource, object));
        vec![format!(
            "{agent} changes {fields} in the spec of {named}, which {creator} created"
        )]
    }
}
