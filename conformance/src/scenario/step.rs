//! The verbs of a scenario's steps.

mod fault;
mod fields;
mod metric;
mod table;
mod words;

use kubeproof_apiserver::FieldValidation;
use kubeproof_machinery::json::Value;
use schemars::JsonSchema;
use serde::Deserialize;

use super::manifest::Manifest;
use crate::time::HumanDuration;

pub use fault::FaultStep;
use fields::StepFields;
pub use metric::MetricStep;
pub use table::TableStep;

/// One step: a verb, and its presentation and expectations.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "StepFields")]
pub struct Step {
    /// Why the step is taken, for the reader.
    pub note: Option<String>,
    /// The refusal expected; without it a refused request fails the scenario.
    pub expect: Option<Expect>,
    /// Whether everything settles before the next step.
    pub settle: bool,
    /// The treatment of unknown and duplicate fields, if the step chooses one.
    pub field_validation: Option<FieldValidation>,
    /// The action of the step.
    pub verb: Verb,
}

impl JsonSchema for Step {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Step".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        StepFields::json_schema(generator)
    }
}

impl Step {
    /// The step in words, as the heading of its part of the timeline.
    #[must_use]
    pub fn in_words(&self) -> String {
        let words = self.verb.in_words();
        match self.field_validation {
            Some(validation) => format!("{words}, fieldValidation {}", validation.as_str()),
            None => words,
        }
    }
}

/// The action of a step.
#[derive(Clone, Debug)]
pub enum Verb {
    /// Creates the objects, or merges them into those that exist (RFC 7386).
    Apply(Manifest),
    /// Creates the objects.
    Create(Manifest),
    /// Replaces one object.
    Update(UpdateStep),
    /// Patches one object.
    Patch(PatchStep),
    /// Sets `spec.replicas`.
    Scale(ScaleStep),
    /// Deletes one object.
    Delete(DeleteStep),
    /// Deletes the objects of a resource.
    DeleteCollection(DeleteCollectionStep),
    /// Sets the behavior of a simulated pod.
    Pod(PodStep),
    /// Makes a node fail or come back, or takes its pods away from it.
    Node(NodeStep),
    /// Injects a fault between clients and server.
    Fault(FaultStep),
    /// Ends the faults of a name.
    Lift(String),
    /// Puts a value of a custom or an external metric.
    Metric(MetricStep),
    /// Restarts all controllers, as after a crash.
    Restart(Restarted),
    /// Does and prints the same as kubectl.
    Kubectl(String),
    /// Shows what runs on the simulated nodes, whatever the API says.
    Containers(String),
    /// Lets time pass until an object is as described.
    Wait(WaitStep),
    /// Lets time pass until nothing was written for this long.
    Settle(HumanDuration),
    /// Lets this much time pass.
    Advance(HumanDuration),
    /// Shows a table as kubectl would.
    Table(TableStep),
    /// Shows fields of an object.
    Show(ShowStep),
}

/// Read from `kind/name`, such as `statefulset/web`; any name of the resource that discovery knows.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, JsonSchema)]
#[serde(try_from = "String")]
pub struct Target {
    /// Plural, singular, short name or kind; case does not matter.
    pub resource: String,
    /// The object's name.
    pub name: String,
}

impl TryFrom<String> for Target {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.split_once('/') {
            Some((resource, name)) if !resource.is_empty() && !name.is_empty() => Ok(Self {
                resource: resource.to_owned(),
                name: name.to_owned(),
            }),
            _ => Err(format!(
                "{text:?} is not kind/name, such as statefulset/web"
            )),
        }
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.resource, self.name)
    }
}

/// A refusal: each field given has to agree.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    /// HTTP status code.
    pub code: u16,
    /// `reason` of the Status.
    pub reason: Option<String>,
}

/// A replacement of one object.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UpdateStep {
    /// The object.
    pub target: Target,
    /// `status` or another subresource.
    pub subresource: Option<String>,
    /// The object that replaces it.
    #[schemars(with = "serde_json::Value")]
    pub object: Value,
}

/// A patch of one object.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PatchStep {
    /// The object.
    pub target: Target,
    /// The type of the patch.
    #[serde(default, rename = "type")]
    pub patch_type: PatchType,
    /// `status` or another subresource.
    pub subresource: Option<String>,
    /// The patch.
    #[schemars(with = "serde_json::Value")]
    pub patch: Value,
}

/// The type of a patch.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PatchType {
    /// RFC 7386.
    Merge,
    /// Strategic merge, as `kubectl patch` does by default.
    #[default]
    Strategic,
    /// RFC 6902.
    Json,
}

impl PatchType {
    /// The media type of the request.
    #[must_use]
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Merge => "application/merge-patch+json",
            Self::Strategic => "application/strategic-merge-patch+json",
            Self::Json => "application/json-patch+json",
        }
    }

    fn in_words(self) -> &'static str {
        match self {
            Self::Merge => "merge",
            Self::Strategic => "strategic merge",
            Self::Json => "JSON",
        }
    }
}

/// The replicas of an object whose kind has the subresource `scale`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScaleStep {
    /// The object.
    pub target: Target,
    /// The number of replicas wanted.
    pub replicas: u32,
}

/// A deletion, with its options.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct DeleteStep {
    /// The object.
    pub target: Target,
    /// Grace; the object's own when absent.
    pub grace_period_seconds: Option<u32>,
    /// `Background`, `Foreground` or `Orphan`.
    pub propagation_policy: Option<String>,
    /// `uid` and `resourceVersion` that must hold.
    #[schemars(with = "Option<serde_json::Value>")]
    pub preconditions: Option<Value>,
}

/// A deletion of several objects.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct DeleteCollectionStep {
    /// Any name of the resource.
    pub resource: String,
    /// Which objects; all in the namespace when absent.
    pub label_selector: Option<String>,
}

/// The behavior of a simulated pod from now on.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct PodStep {
    /// The pod; it need not exist yet.
    pub name: String,
    /// Whether it gets and stays ready.
    pub ready: Option<bool>,
    /// The phase it is driven to.
    pub phase: Option<String>,
    /// Seconds from bound to Running, or `never`.
    #[schemars(with = "Option<serde_json::Value>")]
    pub start_seconds: Option<Value>,
    /// Seconds from Running to ready, or `never`.
    #[schemars(with = "Option<serde_json::Value>")]
    pub ready_seconds: Option<Value>,
    /// Seconds from terminating to gone, or `never`.
    #[schemars(with = "Option<serde_json::Value>")]
    pub stop_seconds: Option<Value>,
}

impl PodStep {
    /// The annotations under `kubeproof.dev/` that say so, without the prefix.
    #[must_use]
    pub fn annotations(&self) -> Vec<(&'static str, String)> {
        let text = |value: &Value| {
            value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned)
        };
        [
            ("ready", self.ready.map(|ready| ready.to_string())),
            ("phase", self.phase.clone()),
            ("start-seconds", self.start_seconds.as_ref().map(text)),
            ("ready-seconds", self.ready_seconds.as_ref().map(text)),
            ("stop-seconds", self.stop_seconds.as_ref().map(text)),
        ]
        .into_iter()
        .filter_map(|(key, value)| Some((key, value?)))
        .collect()
    }
}

/// An action on a node, by the node's name.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum NodeStep {
    /// The node is switched off, and its containers with it.
    Down(String),
    /// The node is cut off from the API server; its containers run on.
    Disconnect(String),
    /// The node is back.
    Back(String),
    /// `kubectl cordon`
    Cordon(String),
    /// `kubectl uncordon`
    Uncordon(String),
    /// `kubectl drain --ignore-daemonsets --delete-emptydir-data`
    Drain(String),
}

/// The components to restart.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Restarted {
    /// The controllers, without the nodes.
    Controllers,
}

/// The condition to wait for. Exactly one of `condition`, `field` and `gone` is given.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WaitStep {
    /// The object.
    #[serde(rename = "for")]
    pub target: Target,
    /// A condition type that has to be True.
    pub condition: Option<String>,
    /// A JSON pointer or dotted path, such as `.status.readyReplicas`.
    pub field: Option<String>,
    /// The value of the field; any value will do when absent.
    #[schemars(with = "Option<serde_json::Value>")]
    pub is: Option<Value>,
    /// Whether the object has to be gone.
    #[serde(default)]
    pub gone: bool,
    /// The limit of the wait.
    #[serde(default = "default_timeout")]
    pub timeout: HumanDuration,
}

fn default_timeout() -> HumanDuration {
    HumanDuration::from_secs(600)
}

/// Fields of an object.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShowStep {
    /// The object.
    pub target: Target,
    /// `scale` or another subresource.
    pub subresource: Option<String>,
    /// JSON pointers or dotted paths, such as `.spec.replicas`.
    pub fields: Vec<String>,
}

/// The value at a JSON pointer or a dotted path.
pub(crate) fn field<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    if path.starts_with('/') {
        return object.pointer(path);
    }
    object.pointer(&format!(
        "/{}",
        path.trim_start_matches('.').replace('.', "/")
    ))
}

/// Renames whole strings of `value`.
fn rename_in(value: &mut Value, rename: &dyn Fn(&str) -> Option<String>) {
    match value {
        Value::Object(map) => map.values_mut().for_each(|value| rename_in(value, rename)),
        Value::Array(items) => items.iter_mut().for_each(|value| rename_in(value, rename)),
        Value::String(text) => {
            if let Some(other) = rename(text) {
                *text = other.into();
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

impl Verb {
    /// Returns the verb with other names where `rename` knows one: the name of its object, and names among the values
    /// that it writes.
    pub(crate) fn renamed(&self, rename: &dyn Fn(&str) -> Option<String>) -> Self {
        let mut verb = self.clone();
        let name = |name: &mut String| {
            if let Some(other) = rename(name) {
                *name = other;
            }
        };
        match &mut verb {
            Self::Update(step) => {
                name(&mut step.target.name);
                rename_in(&mut step.object, rename);
            }
            Self::Patch(step) => {
                name(&mut step.target.name);
                rename_in(&mut step.patch, rename);
            }
            Self::Delete(step) => name(&mut step.target.name),
            Self::Pod(step) => name(&mut step.name),
            Self::Wait(step) => name(&mut step.target.name),
            Self::Show(step) => name(&mut step.target.name),
            Self::Kubectl(command) => {
                let mut words: Vec<String> = command.split(' ').map(str::to_owned).collect();
                words.iter_mut().for_each(name);
                *command = words.join(" ");
            }
            Self::Apply(_)
            | Self::Create(_)
            | Self::Scale(_)
            | Self::DeleteCollection(_)
            | Self::Node(_)
            | Self::Fault(_)
            | Self::Lift(_)
            | Self::Metric(_)
            | Self::Restart(_)
            | Self::Containers(_)
            | Self::Settle(_)
            | Self::Advance(_)
            | Self::Table(_) => {}
        }
        verb
    }

    /// Whether it shows the state of the cluster, and neither changes it nor lets time pass.
    #[must_use]
    pub fn only_reads(&self) -> bool {
        match self {
            Self::Kubectl(command) => {
                let reads = ["get ", "describe ", "logs ", "rollout history "];
                reads.iter().any(|read| command.starts_with(read))
            }
            Self::Containers(_) | Self::Table(_) | Self::Show(_) => true,
            _ => false,
        }
    }

    /// Whether everything settles after the verb unless the step says otherwise.
    fn settles(&self) -> bool {
        match self {
            Self::Kubectl(command) => !self.only_reads() && !command.starts_with("rollout status "),
            Self::Apply(_)
            | Self::Create(_)
            | Self::Update(_)
            | Self::Patch(_)
            | Self::Scale(_)
            | Self::Delete(_)
            | Self::DeleteCollection(_)
            | Self::Pod(_)
            | Self::Node(_)
            | Self::Lift(_)
            | Self::Metric(_)
            | Self::Restart(_) => true,
            Self::Fault(_)
            | Self::Wait(_)
            | Self::Settle(_)
            | Self::Advance(_)
            | Self::Table(_)
            | Self::Show(_)
            | Self::Containers(_) => false,
        }
    }
}
