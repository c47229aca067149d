//! Scenario files: the given state and the steps. Adding a scenario needs no Rust.

mod controllers;
mod differs;
mod manifest;
mod parse_error;
mod scheduler;
mod schema;
mod shows;
mod step;
mod upgrade;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;

use kubeproof_apiserver::FieldValidation;
use kubeproof_controller::AddressPool;
use kubeproof_controller::apps::statefulset::{Profile, Settings};
use kubeproof_controller::kruise::Gates;
use kubeproof_machinery::json::Value;
use kubeproof_node::{BadImageName, MissingImages, SameImages};
use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use crate::fault_plan::Plan;
use crate::properties::{Declaration, DeclaredProperties, Violation};
use crate::time::QUIET;
use crate::{incident, kruise};

pub use crate::time::HumanDuration;
pub use controllers::{Choice, Controllers};
pub use differs::{
    Differs, EventMay, FailureMay, Faults, FieldsMay, May, ObjectPattern, Pattern, ViolationMay,
    WatchedEvent, With, WriteVerb,
};
pub use manifest::{Manifest, read_objects};
pub(crate) use manifest::{in_flow, object_in_words};
pub use scheduler::SchedulerConfiguration;
pub use schema::schema;
pub use shows::{Mark, Place, Shows};
pub(crate) use step::field;
pub use step::{
    DeleteCollectionStep, DeleteStep, Expect, FaultStep, MetricStep, NodeStep, PatchStep,
    PatchType, PodStep, Restarted, ScaleStep, ShowStep, Step, TableStep, Target, UpdateStep, Verb,
    WaitStep,
};
pub use upgrade::{AllowedFinding, FindingKind, UpgradeJudgment};

/// The namespace of scenarios that name none.
pub(crate) const DEFAULT_NAMESPACE: &str = "default";

/// One scenario, as its file states it.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Scenario {
    /// The claim of the scenario, as a sentence.
    pub title: String,
    /// The lines of the golden that show what the title claims.
    #[serde(default)]
    pub shows: Vec<Shows>,
    /// The source of the expected outcome: a KEP, a convention, an upstream test by name.
    pub source: String,
    /// Seed of uids and generated names.
    #[serde(default = "default_seed")]
    pub seed: u64,
    /// The state before the first step.
    #[serde(default)]
    pub given: Given,
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// Properties that hold at each revision from the first step on, in CEL.
    #[serde(default)]
    #[schemars(with = "Vec<schema::Declaration>")]
    pub properties: Vec<Declaration>,
    /// The properties in compiled form.
    #[serde(skip)]
    pub(crate) declared: DeclaredProperties,
    /// The properties that the scenario violates, by name, each with the reason.
    #[serde(default)]
    pub violates: BTreeMap<String, String>,
    /// Faults and orders that rightly lead to another outcome, for `kubeproof explore` and `kubeproof run --seeds`.
    #[serde(default)]
    pub differs: Vec<Differs>,
    /// Faults, as `kubeproof explore` prints plans: the run with them has to have the outcome of the run without them. Such
    /// a scenario has no golden.
    #[serde(default, deserialize_with = "read_text")]
    #[schemars(with = "Option<String>")]
    pub faults: Option<Plan>,
    /// The seed of the order of simultaneous requests in the run with `faults`.
    #[serde(default)]
    pub order: u64,
    /// The judgment of `kubeproof upgrade-test`.
    pub upgrade: Option<UpgradeJudgment>,
    /// Lines of the golden's outcome that a cluster may lack, for `kubeproof run --kubeconfig`.
    #[serde(default)]
    pub optional: Vec<Optional>,
}

/// A line of the outcome that is there on one cluster and not on another, both rightly. In process it
/// is always there.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Optional {
    /// The whole line, as it is compared: an event without its count.
    pub line: String,
    /// Why both are right.
    pub because: String,
}

/// Reads a value that is written as text.
fn read_text<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: fmt::Display>,
{
    let text = Option::<String>::deserialize(deserializer)?;
    let read = text.map(|text| text.parse().map_err(D::Error::custom));
    read.transpose()
}

fn default_seed() -> u64 {
    1
}

/// The state before the first step.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Given {
    /// The namespace of everything that names none; created first, unless every cluster has it.
    pub namespace: String,
    /// The number of simulated nodes.
    pub nodes: usize,
    /// Whether the metrics APIs are served: `metrics.k8s.io` with the use of simulated containers, and the values that
    /// steps put. If absent, they are when there are nodes.
    pub metrics: Option<bool>,
    /// Which controllers run: names, or `*` for all and `-NAME` for each that is left out; all of them when absent.
    #[schemars(with = "Option<Vec<String>>")]
    pub controllers: Option<Controllers>,
    /// The version that the StatefulSet controller behaves as: `1.9`, `1.16` or `1.36`.
    pub profile: ProfileName,
    /// Feature gates, by name.
    pub feature_gates: Vec<FeatureGate>,
    /// Whether OpenKruise's workloads are there: definitions, webhooks and controllers.
    pub kruise: bool,
    /// Whether there are the storage class `standard` and its provisioner, as in kind; otherwise claims
    /// without a class get volumes at once.
    pub default_storage_class: bool,
    /// The networks, separated by commas, whose addresses services of type LoadBalancer, Ingresses and Gateways get; without
    /// them there is no cloud, and they stay pending.
    #[serde(deserialize_with = "read_text")]
    #[schemars(with = "Option<String>")]
    pub load_balancers: Option<AddressPool>,
    /// The profiles of the simulated scheduler, as kube-scheduler's `--config` has them: a
    /// KubeSchedulerConfiguration, or the path of a file with one.
    pub scheduler_config: Option<SchedulerConfiguration>,
    /// Images with several names: the references of each list have the same digest.
    pub same_images: ImageNames,
    /// References to images that no registry has; `*` stands for any text. Their containers wait in ErrImagePull and
    /// ImagePullBackOff.
    #[schemars(with = "Vec<String>")]
    pub missing_images: MissingImages,
    /// The time that simulated pods take to start, to get ready and to stop.
    pub timings: Timings,
    /// Objects created before the first step. Those with a uid and a resourceVersion are stored as they were in their cluster.
    pub objects: Vec<Manifest>,
    /// The treatment of their unknown and duplicate fields: Strict unless it is given.
    #[schemars(with = "Option<schema::FieldValidation>")]
    pub field_validation: Option<FieldValidation>,
    /// Steps that bring the state about; their changes are not part of the timeline.
    pub steps: Vec<Step>,
    /// Whether everything has to settle before the first step.
    pub settle: bool,
}

impl Default for Given {
    fn default() -> Self {
        Self {
            namespace: DEFAULT_NAMESPACE.to_owned(),
            nodes: 3,
            metrics: None,
            controllers: None,
            profile: ProfileName::default(),
            feature_gates: Vec::new(),
            kruise: false,
            default_storage_class: false,
            load_balancers: None,
            scheduler_config: None,
            same_images: ImageNames::default(),
            missing_images: MissingImages::default(),
            timings: Timings::default(),
            objects: Vec::new(),
            field_validation: None,
            steps: Vec::new(),
            settle: true,
        }
    }
}

/// Lists of references, each to one image.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, JsonSchema)]
#[serde(try_from = "Vec<Vec<String>>")]
#[schemars(with = "Vec<Vec<String>>")]
pub struct ImageNames {
    lists: Vec<Vec<String>>,
    read: SameImages,
}

impl ImageNames {
    /// The lists as the file has them.
    #[must_use]
    pub fn lists(&self) -> &[Vec<String>] {
        &self.lists
    }

    /// Returns the images in the form that nodes use.
    #[must_use]
    pub fn read(&self) -> &SameImages {
        &self.read
    }
}

impl TryFrom<Vec<Vec<String>>> for ImageNames {
    type Error = BadImageName;

    fn try_from(lists: Vec<Vec<String>>) -> Result<Self, BadImageName> {
        let read = SameImages::try_new(&lists)?;
        Ok(Self { lists, read })
    }
}

/// A version of the StatefulSet controller.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, JsonSchema)]
#[serde(try_from = "String")]
pub struct ProfileName(#[schemars(with = "String")] pub Profile);

impl TryFrom<String> for ProfileName {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse().map(Self)
    }
}

/// A feature gate of Kubernetes or OpenKruise: its name, which turns it on, or `NAME=false`.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, JsonSchema)]
#[serde(try_from = "String")]
pub struct FeatureGate {
    /// The text in the file.
    text: String,
}

/// The one of Kubernetes' gates that a scenario may turn on: rollouts of StatefulSets may take
/// several pods down at once.
const MAX_UNAVAILABLE: &str = "MaxUnavailableStatefulSet";

impl FeatureGate {
    /// Returns the gate in the form of `--feature-gates`.
    fn assignment(&self) -> String {
        match self.text.contains('=') {
            true => self.text.clone(),
            false => format!("{}=true", self.text),
        }
    }

    fn is_kubernetes(&self) -> bool {
        self.text == MAX_UNAVAILABLE
    }
}

impl TryFrom<String> for FeatureGate {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let gate = Self { text };
        if !gate.is_kubernetes() {
            let read: Result<Gates, _> = gate.assignment().parse();
            read.map_err(|error| format!("{error}, or {MAX_UNAVAILABLE}"))?;
        }
        Ok(gate)
    }
}

impl fmt::Display for FeatureGate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Given {
    /// Returns the settings of the StatefulSet controller.
    #[must_use]
    pub fn statefulset(&self) -> Settings {
        Settings {
            profile: self.profile.0,
            max_unavailable: self.feature_gates.iter().any(FeatureGate::is_kubernetes),
        }
    }

    /// Returns the gates of OpenKruise's controllers; `None` without OpenKruise.
    #[must_use]
    pub fn kruise(&self) -> Option<Gates> {
        self.kruise.then(|| {
            let gates = self.feature_gates.iter();
            let own = gates.filter(|gate| !gate.is_kubernetes());
            let text: Vec<String> = own.map(FeatureGate::assignment).collect();
            text.join(",").parse().expect("each gate has been read")
        })
    }
}

/// The time that a simulated pod takes to start, to get ready and to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Timings {
    /// From bound to Running.
    pub start: HumanDuration,
    /// From Running to ready.
    pub ready: HumanDuration,
    /// From terminating to gone.
    pub stop: HumanDuration,
}

impl Default for Timings {
    fn default() -> Self {
        Self {
            start: HumanDuration::from_secs(1),
            ready: HumanDuration::from_secs(1),
            stop: HumanDuration::from_secs(1),
        }
    }
}

/// A scenario with the place it was read from.
#[derive(Clone, Debug)]
pub struct ScenarioFile {
    /// `area/name`, from the path.
    pub name: String,
    /// The file.
    pub path: PathBuf,
    /// The text of the file.
    pub text: String,
    /// The texts of the files that it names, by the names that it uses.
    pub files: BTreeMap<String, String>,
    /// The scenario that the text describes.
    pub scenario: Scenario,
}

/// A scenario file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// The file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The text is not a scenario.
    #[error("{}: {message}", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// The error, with its place in the file.
        message: String,
    },
}

impl ScenarioFile {
    /// Reads the scenario at `path`; its name is the directory's and the file's.
    ///
    /// # Errors
    /// [`ScenarioError`] when the file cannot be read or is not a scenario.
    pub fn read(path: &Path) -> Result<Self, ScenarioError> {
        let text = std::fs::read_to_string(path).map_err(|source| ScenarioError::Read {
            path: path.to_owned(),
            source,
        })?;
        let directory = path.parent().unwrap_or(Path::new(""));
        let read = |file: &str| {
            let path = directory.join(file);
            incident::text(&path).map_err(|error| error.to_string())
        };
        let parsed = Self::parse(name(path), text, read);
        parsed
            .map(|file| Self {
                path: path.to_owned(),
                ..file
            })
            .map_err(|message| ScenarioError::Parse {
                path: path.to_owned(),
                message,
            })
    }

    /// The scenario of this `text`; `read` knows the texts of the files that it names. It has no path.
    ///
    /// # Errors
    /// The error in the text or in a file that it names.
    pub fn parse(
        name: String,
        text: String,
        read: impl Fn(&str) -> Result<String, String>,
    ) -> Result<Self, String> {
        let mut scenario: Scenario =
            serde_saphyr::from_str(&text).map_err(|error| parse_error::in_words(&error))?;
        let mut files = BTreeMap::new();
        scenario.load_files(&mut |file| {
            let text = read(file)?;
            files.insert(file.to_owned(), text.clone());
            Ok(text)
        })?;
        scenario.declared = scenario.compile_properties()?;
        Ok(Self {
            name,
            path: PathBuf::new(),
            text,
            files,
            scenario,
        })
    }
}

impl Scenario {
    /// Whether nodes have to send heartbeats: nodes fail in the scenario, and the node lifecycle controller watches
    /// them.
    ///
    /// Elsewhere no controller needs heartbeats, and they would be most of a run.
    #[must_use]
    pub fn needs_heartbeats(&self) -> bool {
        let mut steps = self.given.steps.iter().chain(&self.steps);
        steps.any(|step| matches!(step.verb, Verb::Node(_)))
    }

    /// Whether the outcome may differ when the events of one instant come in another order.
    #[must_use]
    pub fn differs_in_order(&self) -> bool {
        self.differs.iter().any(|one| one.with == With::Order)
    }

    /// Whether the cluster has settled before the outcome: nothing but reads follows the last step that settles.
    #[must_use]
    pub fn ends_settled(&self) -> bool {
        let mut steps = self.given.steps.iter().chain(&self.steps).rev();
        let last = steps.find(|step| step.settle || !step.verb.only_reads());
        last.map_or(self.given.settle, |step| match &step.verb {
            Verb::Settle(quiet) => quiet.0 >= QUIET,
            _ => step.settle,
        })
    }

    /// Returns the `violations` that the scenario does not announce.
    #[must_use]
    pub fn unsaid(&self, mut violations: Vec<Violation>) -> Vec<Violation> {
        violations.retain(|one| !self.violates.contains_key(&one.property));
        violations
    }

    /// Reads the properties, which may be about the kinds that the scenario defines.
    fn compile_properties(&self) -> Result<DeclaredProperties, String> {
        if self.properties.is_empty() {
            return Ok(DeclaredProperties::default());
        }
        let steps = self.given.steps.iter().chain(&self.steps);
        let created = steps.filter_map(|step| match &step.verb {
            Verb::Apply(manifest) | Verb::Create(manifest) => Some(manifest),
            _ => None,
        });
        let objects = self.given.objects.iter().chain(created);
        let mut objects: Vec<Value> = objects.flat_map(|one| one.objects.clone()).collect();
        if let Some(gates) = self.given.kruise() {
            objects.extend(kruise::objects());
            if gates.image_pull_job {
                objects.extend(kruise::image_objects());
            }
        }
        DeclaredProperties::compile(&self.properties, &objects)
    }

    /// Puts the content of each file that a manifest names in its place.
    fn load_files(
        &mut self,
        read: &mut dyn FnMut(&str) -> Result<String, String>,
    ) -> Result<(), String> {
        for manifest in &mut self.given.objects {
            manifest.load(read)?;
        }
        if let Some(config) = &mut self.given.scheduler_config {
            config.load(read)?;
        }
        for step in self.given.steps.iter_mut().chain(&mut self.steps) {
            if let Verb::Apply(manifest) | Verb::Create(manifest) = &mut step.verb {
                manifest.load(read)?;
            }
        }
        Ok(())
    }
}

/// Returns `path` from the root, without `..`: the parent of `area/../name.yaml` is the one that a reader sees.
pub(crate) fn absolute(path: &Path) -> PathBuf {
    let from_root = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut absolute = PathBuf::new();
    for component in from_root.components() {
        match component {
            Component::ParentDir => drop(absolute.pop()),
            other => absolute.push(other),
        }
    }
    absolute
}

/// The name of the scenario file at `path`: `area/name`.
#[must_use]
pub fn name(path: &Path) -> String {
    let part = |part: Option<&std::ffi::OsStr>| {
        part.map_or_else(String::new, |part| part.to_string_lossy().into_owned())
    };
    let absolute = absolute(path);
    let area = part(absolute.parent().and_then(Path::file_name));
    format!("{area}/{}", part(absolute.file_stem()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Scenario, String> {
        serde_saphyr::from_str(text).map_err(|error| error.to_string())
    }

    #[test]
    fn a_step_has_exactly_one_verb() {
        let error = parse("title: t\nsource: s\nsteps: [{note: nothing}]").unwrap_err();
        assert!(error.contains("a step needs a verb"), "{error}");
        let two = "title: t\nsource: s\nsteps: [{advance: 1s, settle: {quiet: 1m}, table: pods}]";
        assert!(parse(two).unwrap_err().contains("one verb"));
    }

    #[test]
    fn an_unknown_field_is_named_in_the_error() {
        let error = parse("title: t\nsource: s\nstep: []").unwrap_err();
        assert!(error.contains("step"), "{error}");
    }

    #[test]
    fn reads_leave_a_settled_cluster_settled() {
        for (steps, expected) in [
            ("[{lift: a}, {table: pods}, {kubectl: get pods}]", true),
            (
                "[{advance: 1s}, {settle: {quiet: 10m}}, {table: pods}]",
                true,
            ),
            ("[{advance: 1s}, {table: pods, settle: true}]", true),
            ("[{table: pods}]\ngiven: {steps: [{advance: 1s}]}", false),
            ("[{lift: a, settle: false}, {table: pods}]", false),
            ("[{lift: a}, {advance: 1s}, {table: pods}]", false),
            ("[{lift: a}, {settle: {quiet: 1m}}]", false),
            ("[{kubectl: rollout status deployment/a}]", false),
        ] {
            let scenario = parse(&format!("title: t\nsource: s\nsteps: {steps}")).unwrap();
            assert_eq!(scenario.ends_settled(), expected, "{steps}");
        }
    }

    #[test]
    fn gates_are_named_as_upstream_names_them() {
        let given = |gates: &str| {
            let text = format!(
                "title: t\nsource: s\ngiven: {{kruise: true, featureGates: {gates}}}\nsteps: []"
            );
            parse(&text).map(|scenario| scenario.given)
        };
        let some = given("[CloneSetShortHash, MaxUnavailableStatefulSet]").unwrap();
        assert!(some.kruise().unwrap().short_hash && some.statefulset().max_unavailable);
        let all = given("[AllAlpha, TemplateNoDefaults=false]").unwrap();
        let gates = all.kruise().unwrap();
        assert!(gates.start_ordinal && !gates.template_no_defaults);
        assert!(!all.statefulset().max_unavailable);
        let refused = given("[ShortHash]").unwrap_err();
        assert!(
            refused.contains("unrecognized feature gate: ShortHash"),
            "{refused}"
        );
        assert!(refused.contains("CloneSetShortHash"), "{refused}");
    }

    #[test]
    fn the_name_is_the_area_and_the_file_stem() {
        assert_eq!(
            name(Path::new("/x/scenarios/statefulset/a.yaml")),
            "statefulset/a"
        );
        assert_eq!(name(Path::new("/x/scenarios/job/../a.yaml")), "scenarios/a");
    }
}
