//! The arguments of plugins: defaults and validation.
//!
//! Source: `pkg/scheduler/apis/config/v1/defaults.go` and
//! `pkg/scheduler/apis/config/validation/validation_pluginargs.go`.

use k8s_openapi::api::core::v1::{
    NodeAffinity, NodeSelectorRequirement, NodeSelectorTerm, TopologySpreadConstraint,
};
use kubeproof_machinery::json::{Value, json};
use kubeproof_machinery::meta::validation::{label_value, qualified_name};
use kubeproof_machinery::status::{FieldErrors, FieldPath};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::fit::{Arguments, Strategy};

/// The highest score of a point of a shape, which becomes 100.
const SHAPE_SCORE_MAX: i64 = 10;

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct FitArgs {
    ignored_resources: Vec<String>,
    ignored_resource_groups: Vec<String>,
    scoring_strategy: Option<ScoringStrategy>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ScoringStrategy {
    #[serde(rename = "type")]
    kind: String,
    resources: Vec<Resource>,
    requested_to_capacity_ratio: Option<Ratio>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default)]
struct Resource {
    name: String,
    weight: i64,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Ratio {
    shape: Vec<ShapePoint>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ShapePoint {
    utilization: i64,
    score: i64,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct BalancedArgs {
    resources: Vec<Resource>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AffinityArgs {
    added_affinity: Option<NodeAffinity>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SpreadArgs {
    default_constraints: Vec<TopologySpreadConstraint>,
    defaulting_type: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct InterPodArgs {
    hard_pod_affinity_weight: Option<i64>,
    ignore_preferred_terms_of_existing_pods: bool,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PreemptionArgs {
    min_candidate_nodes_percentage: Option<i64>,
    min_candidate_nodes_absolute: Option<i64>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct BindingArgs {
    bind_timeout_seconds: i64,
    shape: Option<Value>,
}

/// Reads arguments whose types have been checked.
fn read<T: DeserializeOwned + Default>(args: &Value) -> T {
    T::deserialize(args).unwrap_or_default()
}

/// Whether the arguments of the plugin have an effect here.
pub(super) fn have_effect(plugin: &str) -> bool {
    matches!(
        plugin,
        "InterPodAffinity"
            | "NodeAffinity"
            | "NodeResourcesBalancedAllocation"
            | "NodeResourcesFit"
            | "PodTopologySpread"
    )
}

/// Returns the faults that kube-scheduler finds when it reads its configuration.
pub(super) fn validate(plugin: &str, args: &Value, path: &FieldPath) -> FieldErrors {
    let mut errors = FieldErrors::new();
    match plugin {
        "DefaultPreemption" => validate_preemption(&read(args), path, &mut errors),
        "InterPodAffinity" => {
            let args: InterPodArgs = read(args);
            let weight = args.hard_pod_affinity_weight.unwrap_or(1);
            if !(0..=100).contains(&weight) {
                let path = path.child("hardPodAffinityWeight");
                errors.invalid(&path, &json!(weight), "not in valid range [0, 100]");
            }
        }
        "NodeAffinity" => {
            let args: AffinityArgs = read(args);
            if let Some(added) = &args.added_affinity {
                validate_affinity(added, &path.child("addedAffinity"), &mut errors);
            }
        }
        "NodeResourcesBalancedAllocation" => {
            validate_balanced(&read(args), &path.child("resources"), &mut errors);
        }
        "PodTopologySpread" => validate_spread(&read(args), path, &mut errors),
        "VolumeBinding" => {
            let args: BindingArgs = read(args);
            if args.bind_timeout_seconds < 0 {
                let detail = "invalid BindTimeoutSeconds, should not be a negative value";
                let path = path.child("bindTimeoutSeconds");
                errors.invalid(&path, &json!(args.bind_timeout_seconds), detail);
            }
            if let Some(shape) = &args.shape {
                let detail = "unexpected field `shape`, remove it or turn on the feature gate \
                              StorageCapacityScoring";
                errors.invalid(&path.child("shape"), shape, detail);
            }
        }
        _ => {}
    }
    errors
}

fn validate_preemption(args: &PreemptionArgs, path: &FieldPath, errors: &mut FieldErrors) {
    let (percentage_path, absolute_path) = (
        path.child("minCandidateNodesPercentage"),
        path.child("minCandidateNodesAbsolute"),
    );
    let percentage = args.min_candidate_nodes_percentage.unwrap_or(10);
    let absolute = args.min_candidate_nodes_absolute.unwrap_or(100);
    let mut fault = |path: &FieldPath, value: i64, detail: &str| {
        errors.invalid(path, &json!(value), detail);
    };
    if !(0..=100).contains(&percentage) {
        fault(&percentage_path, percentage, "not in valid range [0, 100]");
    }
    if absolute < 0 {
        fault(&absolute_path, absolute, "not in valid range [0, inf)");
    }
    if (percentage, absolute) == (0, 0) {
        let with = |other: &str| format!("cannot be zero at the same time as {other}");
        fault(&percentage_path, 0, &with("minCandidateNodesAbsolute"));
        fault(&absolute_path, 0, &with("minCandidateNodesPercentage"));
    }
}

fn validate_balanced(args: &BalancedArgs, path: &FieldPath, errors: &mut FieldErrors) {
    for (index, resource) in args.resources.iter().enumerate() {
        let path = path.index(index);
        let before = &args.resources[..index];
        if before.iter().any(|other| other.name == resource.name) {
            errors.duplicate(&path.child("name"), &json!(resource.name));
        }
        if !matches!(resource.weight, 0 | 1) {
            let weight = json!(resource.weight);
            errors.invalid(&path.child("weight"), &weight, "must be 1");
        }
    }
}

fn validate_spread(args: &SpreadArgs, path: &FieldPath, errors: &mut FieldErrors) {
    let kind = json!(args.defaulting_type);
    let kind_path = path.child("defaultingType");
    match &*args.defaulting_type {
        "" | "System" if !args.default_constraints.is_empty() => {
            let detail = "when .defaultConstraints are not empty";
            errors.invalid(&kind_path, &json!("System"), detail);
        }
        "" | "System" | "List" => {}
        _ => errors.not_supported(&kind_path, &kind, &["System", "List"]),
    }
    let path = path.child("defaultConstraints");
    for (index, own) in args.default_constraints.iter().enumerate() {
        let here = path.index(index);
        if own.max_skew <= 0 {
            let skew = json!(own.max_skew);
            errors.invalid(&here.child("maxSkew"), &skew, "not in valid range (0, inf)");
        }
        let key = here.child("topologyKey");
        match own.topology_key.is_empty() {
            true => errors.required(&key, "can not be empty"),
            false => validate_label_name(&own.topology_key, &key, errors),
        }
        let when = here.child("whenUnsatisfiable");
        match &*own.when_unsatisfiable {
            "" => errors.required(&when, "can not be empty"),
            "DoNotSchedule" | "ScheduleAnyway" => {}
            other => {
                errors.not_supported(&when, &json!(other), &["DoNotSchedule", "ScheduleAnyway"]);
            }
        }
        if own.label_selector.is_some() {
            let detail = "constraint must not define a selector, as they deduced for each pod";
            errors.forbidden(&here.child("labelSelector"), detail);
        }
        let of = |one: &TopologySpreadConstraint| {
            format!("{{{}, {}}}", one.topology_key, one.when_unsatisfiable)
        };
        let mut before = args.default_constraints[..index].iter();
        if before.any(|other| of(other) == of(own)) {
            errors.duplicate(&here, &json!(of(own)));
        }
    }
}

fn validate_label_name(name: &str, path: &FieldPath, errors: &mut FieldErrors) {
    for fault in qualified_name(name) {
        errors.invalid(path, &json!(name), &fault);
    }
}

fn validate_affinity(added: &NodeAffinity, path: &FieldPath, errors: &mut FieldErrors) {
    let field = "requiredDuringSchedulingIgnoredDuringExecution";
    let required = added
        .required_during_scheduling_ignored_during_execution
        .as_ref();
    let terms = path.child(field).child("nodeSelectorTerms");
    for (index, term) in required
        .iter()
        .flat_map(|own| own.node_selector_terms.iter().enumerate())
    {
        validate_term(term, &terms.index(index), errors);
    }
    let path = path.child("preferredDuringSchedulingIgnoredDuringExecution");
    let preferred = kubeproof_runtime::node_affinity::preferred(added);
    for (index, term) in preferred.iter().enumerate() {
        // A term without weight or rules is not looked at.
        if term.weight != 0 {
            validate_term(&term.preference, &path.index(index), errors);
        }
    }
}

fn validate_term(term: &NodeSelectorTerm, path: &FieldPath, errors: &mut FieldErrors) {
    let rules = term.match_expressions.iter().flatten().enumerate();
    for (index, rule) in rules {
        validate_rule(rule, &path.child("matchExpressions").index(index), errors);
    }
    for (index, rule) in term.match_fields.iter().flatten().enumerate() {
        let path = path.child("matchFields").index(index);
        if !matches!(&*rule.operator, "In" | "NotIn") {
            let operator = json!(rule.operator);
            errors.not_supported(&path.child("operator"), &operator, &["In", "NotIn"]);
        } else if rule.values.as_ref().map_or(0, Vec::len) != 1 {
            let values = json!(rule.values);
            errors.invalid(&path.child("values"), &values, "must have one element");
        }
    }
}

fn validate_rule(rule: &NodeSelectorRequirement, path: &FieldPath, errors: &mut FieldErrors) {
    const OPERATORS: &[&str] = &["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"];
    if !OPERATORS.contains(&&*rule.operator) {
        let operator = json!(rule.operator);
        errors.not_supported(&path.child("operator"), &operator, OPERATORS);
        return;
    }
    validate_label_name(&rule.key, &path.child("key"), errors);
    let path = path.child("values");
    let values = rule.values.as_deref().unwrap_or_default();
    let detail = match (&*rule.operator, values.len()) {
        ("In" | "NotIn", 0) => "for 'in', 'notin' operators, values set can't be empty",
        ("Exists" | "DoesNotExist", 1..) => {
            "values set must be empty for exists and does not exist"
        }
        ("Gt" | "Lt", 0 | 2..) => "for 'Gt', 'Lt' operators, exactly one value is required",
        _ => "",
    };
    if !detail.is_empty() {
        errors.invalid(&path, &json!(rule.values), detail);
    }
    for (index, value) in values.iter().enumerate() {
        if matches!(&*rule.operator, "Gt" | "Lt") && value.parse::<i64>().is_err() {
            let detail = "for 'Gt', 'Lt' operators, the value must be an integer";
            errors.invalid(&path.index(index), &json!(value), detail);
        }
    }
    for (index, value) in values.iter().enumerate() {
        for fault in label_value(value) {
            errors.invalid(&path.index(index), &json!(value), &fault);
        }
    }
}

/// Returns the faults that kube-scheduler finds when it sets up NodeResourcesFit.
pub(super) fn validate_fit(args: &Value) -> FieldErrors {
    let args: FitArgs = read(args);
    let mut errors = FieldErrors::new();
    let path = FieldPath::new("ignoredResources");
    for (index, name) in args.ignored_resources.iter().enumerate() {
        validate_label_name(name, &path.index(index), &mut errors);
    }
    let path = FieldPath::new("ignoredResourceGroups");
    for (index, group) in args.ignored_resource_groups.iter().enumerate() {
        let path = path.index(index);
        if group.contains('/') {
            let detail = "resource group name can't contain '/'";
            errors.invalid(&path, &json!(group), detail);
        }
        validate_label_name(group, &path, &mut errors);
    }
    if let Some(strategy) = &args.scoring_strategy {
        validate_strategy(strategy, &FieldPath::new("scoringStrategy"), &mut errors);
    }
    errors
}

fn validate_strategy(strategy: &ScoringStrategy, path: &FieldPath, errors: &mut FieldErrors) {
    const RATIO: &str = "RequestedToCapacityRatio";
    let supported = ["LeastAllocated", "MostAllocated", RATIO];
    if !supported.contains(&&*strategy.kind) {
        let kind = json!(strategy.kind);
        errors.not_supported(&path.child("type"), &kind, &supported);
    }
    for (index, resource) in strategy.resources.iter().enumerate() {
        let (name, weight) = (&resource.name, resource.weight);
        // 0 stands for the default.
        if !(0..=100).contains(&weight) {
            let detail = format!("resource weight of {name} not in valid range (0, 100]");
            let path = path.child("resources").index(index).child("weight");
            errors.invalid(&path, &json!(weight), &detail);
        }
    }
    let path = path.child("requestedToCapacityRatio");
    match (
        &strategy.requested_to_capacity_ratio,
        strategy.kind == RATIO,
    ) {
        (None, true) => errors.required(&path, &format!("must be specified when type is {RATIO}")),
        (Some(ratio), true) => validate_shape(&ratio.shape, &path.child("shape"), errors),
        (Some(_), false) => {
            errors.forbidden(&path, &format!("must be nil when type is not {RATIO}"))
        }
        (None, false) => {}
    }
}

fn validate_shape(shape: &[ShapePoint], path: &FieldPath, errors: &mut FieldErrors) {
    if shape.is_empty() {
        errors.required(path, "at least one point must be specified");
    }
    let falling = shape
        .windows(2)
        .position(|pair| pair[0].utilization >= pair[1].utilization);
    if let Some(before) = falling {
        let detail = "values must be sorted in increasing order";
        let utilization = json!(shape[before + 1].utilization);
        let path = path.index(before + 1).child("utilization");
        errors.invalid(&path, &utilization, detail);
    }
    for (index, point) in shape.iter().enumerate() {
        for (field, value, most) in [
            ("utilization", point.utilization, 100),
            ("score", point.score, SHAPE_SCORE_MAX),
        ] {
            if !(0..=most).contains(&value) {
                let detail = format!("not in valid range [0, {most}]");
                errors.invalid(&path.index(index).child(field), &json!(value), &detail);
            }
        }
    }
}

/// Puts the valid arguments of a plugin into those of the profile.
pub(super) fn apply(plugin: &str, args: &Value, to: &mut Arguments) {
    match plugin {
        "InterPodAffinity" => {
            let args: InterPodArgs = read(args);
            to.hard_affinity_weight = args.hard_pod_affinity_weight.unwrap_or(1);
            to.ignores_preferences_of_others = args.ignore_preferred_terms_of_existing_pods;
        }
        "NodeAffinity" => to.added_affinity = read::<AffinityArgs>(args).added_affinity,
        "NodeResourcesBalancedAllocation" => {
            let args: BalancedArgs = read(args);
            if !args.resources.is_empty() {
                let names = args.resources.into_iter().map(|own| own.name);
                to.balanced = names.collect();
            }
        }
        "NodeResourcesFit" => apply_fit(read(args), to),
        "PodTopologySpread" => {
            let args: SpreadArgs = read(args);
            if args.defaulting_type == "List" {
                to.spread = args.default_constraints;
                to.spreads_without_keys = false;
            }
        }
        _ => {}
    }
}

fn apply_fit(args: FitArgs, to: &mut Arguments) {
    to.ignored_resources = args.ignored_resources.into_iter().collect();
    to.ignored_groups = args.ignored_resource_groups.into_iter().collect();
    let Some(strategy) = args.scoring_strategy else {
        return;
    };
    if !strategy.resources.is_empty() {
        let resources = strategy.resources.into_iter();
        // A weight of 0 counts as none.
        let weighed = resources.map(|own| (own.name, if own.weight == 0 { 1 } else { own.weight }));
        to.resources = weighed.collect();
    }
    to.strategy = match &*strategy.kind {
        "MostAllocated" => Strategy::MostAllocated,
        "RequestedToCapacityRatio" => {
            let ratio = strategy.requested_to_capacity_ratio.unwrap_or_default();
            let scale = 100 / SHAPE_SCORE_MAX;
            let points = ratio.shape.iter();
            Strategy::RequestedToCapacityRatio(
                points
                    .map(|point| (point.utilization, point.score * scale))
                    .collect(),
            )
        }
        _ => Strategy::LeastAllocated,
    };
}
