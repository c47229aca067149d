//! Jobs.

mod policies;
mod status;

use crate::columns::workload::containers;
use crate::columns::{Printable, elapsed, or_none};
use crate::core::pod::template::{default_template, validate_labels_match};
use crate::core::pod::validation::validate_pod_template;
use crate::core::pod::warnings;
use crate::go_struct::{shown, shown_field};
use crate::json::{Map, Value, json};
use crate::meta::object::{child_mut, copy_field, default, meta, meta_mut, name};
use crate::meta::selector::LabelSelector;
use crate::meta::validation::{
    FIELD_IMMUTABLE, dns1123_label, semantically_equal, validate_domain_prefixed_path,
    validate_immutable, validate_label_selector,
};
use crate::request::options::{DeleteOptions, Propagation};
use crate::status::{FieldErrors, FieldPath};
use crate::unstructured::{default_text, is_empty, items, items_mut, object_in, text};
use crate::validation::{invalid_as, not_negative, one_of};
use crate::{Context, MetadataCheck, SelectableField, Strategy};

const CONTROLLER_UID: &str = "batch.kubernetes.io/controller-uid";
const LEGACY_CONTROLLER_UID: &str = "controller-uid";
const NAME_LABELS: [&str; 2] = ["job-name", "batch.kubernetes.io/job-name"];
const MAX_INT32: i64 = i32::MAX as i64;
/// The most pods that an indexed job may run at a time.
const MAX_FAILED_INDEXES: i64 = 100_000;
const MAX_INDEXED_PARALLELISM: i64 = 100_000;

#[derive(Debug)]
pub(crate) struct Job;

impl Strategy for Job {
    fn selectable_field(&self, name: &str) -> Option<SelectableField> {
        (name == "status.successful").then_some(SelectableField {
            paths: &["status.succeeded"],
            default: "0",
        })
    }

    /// The pods of a Job stay, unless the request states a propagation policy.
    fn warning_on_delete(&self, options: &DeleteOptions) -> Option<&'static str> {
        let is_stated = options.propagation.is_some() || options.orphan_dependents.is_some();
        (!is_stated).then_some(
            "child pods are preserved by default when jobs are deleted; set \
             propagationPolicy=Background to remove them or set propagationPolicy=Orphan to \
             suppress this warning",
        )
    }

    fn metadata_checks(&self) -> &'static [MetadataCheck] {
        &[MetadataCheck::ObjectMeta, MetadataCheck::ObjectMetaUpdate]
    }

    fn counts_generation(&self) -> bool {
        true
    }

    fn default_propagation(&self) -> Propagation {
        Propagation::Orphan
    }

    fn default(&self, job: &mut Value) {
        // One that is about to be created gets those that are generated only once they are valid.
        let is_new = !meta(job, "uid").is_empty() && meta(job, "resourceVersion").is_empty();
        if !is_new {
            default_labels(job);
        }
        let spec = child_mut(job, "spec");
        if [spec.get("completions"), spec.get("parallelism")] == [None, None] {
            default(spec, "completions", 1);
        }
        default(spec, "parallelism", 1);
        let per_index = spec.contains_key("backoffLimitPerIndex");
        default(spec, "backoffLimit", if per_index { MAX_INT32 } else { 6 });
        default(spec, "completionMode", "NonIndexed");
        default(spec, "suspend", false);
        default(spec, "manualSelector", false);
        let replacement = if spec.contains_key("podFailurePolicy") {
            "Failed"
        } else {
            "TerminatingOrFailed"
        };
        default(spec, "podReplacementPolicy", replacement);
        default_template_of_job(spec);
    }

    /// Gives the job a selector of its own unless it brings one.
    fn prepare_for_create(&self, job: &mut Value, _context: Context<'_>) {
        if job["spec"]["manualSelector"] == true {
            return;
        }
        let uid = meta(job, "uid").to_owned();
        let own_name = name(job).to_owned();
        let spec = child_mut(job, "spec");
        let template = object_in(object_in(spec, "template"), "metadata");
        let labels = object_in(template, "labels");
        for label in NAME_LABELS {
            default(labels, label, own_name.as_str());
        }
        for label in [LEGACY_CONTROLLER_UID, CONTROLLER_UID] {
            default(labels, label, uid.as_str());
        }
        let selector = object_in(object_in(spec, "selector"), "matchLabels");
        default(selector, CONTROLLER_UID, uid);
    }

    fn canonicalize(&self, job: &mut Value) {
        default_labels(job);
    }

    fn validate(&self, job: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let path = FieldPath::new("spec");
        validate_generated_selector(job, &path, &mut errors);
        validate_spec_and_selector(&job["spec"], &path, &mut errors);
        validate_pod_names(job, &mut errors);
        errors
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        if old.is_none() {
            warnings::warn_of_name(new, warnings::POD_NAMES, &mut warnings);
        }
        warn_of_indexes(new, old, "spec", &mut warnings);
        warnings.extend(warnings::of_template(new, old, "spec.template"));
        warnings
    }

    fn validate_update(&self, new: &Value, old: &Value) -> FieldErrors {
        let mut errors = self.validate(new);
        let path = FieldPath::new("spec");
        let (spec, before) = (&new["spec"], &old["spec"]);
        // Upstream validates the spec twice: as that of a new job and as that of a changed job.
        validate_spec_and_selector(spec, &path, &mut errors);
        validate_completions(spec, before, &path, &mut errors);
        let stays = |field: &str, errors: &mut FieldErrors| {
            validate_immutable(&spec[field], &before[field], &path.child(field), errors);
        };
        stays("selector", &mut errors);
        validate_template_update(spec, old, &path, &mut errors);
        stays("completionMode", &mut errors);
        validate_policy_stays(spec, before, "podFailurePolicy", &path, &mut errors);
        stays("backoffLimitPerIndex", &mut errors);
        stays("managedBy", &mut errors);
        validate_policy_stays(spec, before, "successPolicy", &path, &mut errors);
        errors
    }

    fn validate_status_update(&self, new: &Value, old: &Value) -> FieldErrors {
        status::validate_status_update(new, old)
    }

    fn cells(&self, view: Printable<'_>) -> Option<Vec<Value>> {
        let succeeded = view.int("/status/succeeded");
        let completions = match (view.get("/spec/completions"), view.int("/spec/parallelism")) {
            (Some(_), _) => format!("{succeeded}/{}", view.int("/spec/completions")),
            (None, parallelism @ 2..) => format!("{succeeded}/1 of {parallelism}"),
            (None, _) => format!("{succeeded}/1"),
        };
        let duration = view.time("/status/startTime").map(|start| {
            elapsed(
                start,
                view.time("/status/completionTime").unwrap_or(view.now),
            )
        });
        let mut cells = vec![
            view.name(),
            json!(job_status(view)),
            json!(completions),
            json!(duration.unwrap_or_default()),
            view.age(),
        ];
        cells.extend(containers(view, "/spec/template/spec/containers"));
        cells.push(json!(or_none(view.selector("/spec/selector"))));
        Some(cells)
    }
}

/// Warns of more completions and parallelism than a status can track, in the job's spec at `path`.
pub(crate) fn warn_of_indexes(
    new: &Value,
    old: Option<&Value>,
    path: &str,
    warnings: &mut Vec<String>,
) {
    const COMPLETIONS: i64 = 100_000;
    const PARALLELISM: i64 = 10_000;
    let generation = |own: &Value| own["metadata"]["generation"].clone();
    let pointer = format!("/{}", path.replace('.', "/"));
    let spec = new.pointer(&pointer).unwrap_or(&Value::Null);
    let many = |field: &str, most: i64| spec[field].as_i64().is_some_and(|own| own > most);
    if old.is_none_or(|old| generation(old) != generation(new))
        && spec["completionMode"] == "Indexed"
        && many("completions", COMPLETIONS)
        && many("parallelism", PARALLELISM)
    {
        warnings.push(format!("{path}: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail"));
    }
}

/// A job without labels has those of its pods.
fn default_labels(job: &mut Value) {
    let labels = job["spec"]["template"]["metadata"]["labels"].clone();
    let meta = meta_mut(job);
    if meta.get("labels").is_none_or(is_empty) && !is_empty(&labels) {
        meta.insert("labels", labels);
    }
}

/// Sets the defaults of the template and of the pod failure policy.
pub(crate) fn default_template_of_job(spec: &mut Map) {
    if let Some(policy) = spec
        .get_mut("podFailurePolicy")
        .and_then(Value::as_object_mut)
    {
        for rule in items_mut(policy, "rules") {
            for condition in items_mut(rule, "onPodConditions") {
                default_text(condition, "status", "True");
            }
        }
    }
    default_template(spec);
}

/// A policy that may not change; upstream shows its internal type.
fn validate_policy_stays(
    spec: &Value,
    before: &Value,
    field: &str,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    if !semantically_equal(&spec[field], &before[field]) {
        let shown = match spec[field].is_null() {
            true => "null".to_owned(),
            false => shown_field("batch", "Job", &["spec", field], &spec[field]),
        };
        invalid_as(&path.child(field), &shown, FIELD_IMMUTABLE, errors);
    }
}

/// The scheduling and resources of pods may change while a suspended job has no active pods.
fn validate_template_update(spec: &Value, old: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let (now, before) = (&spec["template"], &old["spec"]["template"]);
    let path = path.child("template");
    if !is_changeable(old) {
        if !semantically_equal(now, before) {
            invalid_as(
                &path,
                &shown("PodTemplateSpec", now),
                FIELD_IMMUTABLE,
                errors,
            );
        }
        return;
    }
    let (mut is, mut was) = (now.clone(), before.clone());
    for template in [&mut is, &mut was] {
        drop_scheduling(template);
    }
    for list in ["containers", "initContainers"] {
        let names = |template: &Value| items(&template["spec"][list]).count();
        if names(&is) != names(&was) {
            continue;
        }
        let own = was["spec"].get_mut(list).and_then(Value::as_array_mut);
        for (own, new) in own.into_iter().flatten().zip(items(&is["spec"][list])) {
            if own["name"] == new["name"] {
                copy_field(own, new, "resources");
            }
        }
    }
    if !semantically_equal(&is["spec"], &was["spec"]) {
        let shown = shown("PodSpec", &now["spec"]);
        invalid_as(&path.child("spec"), &shown, FIELD_IMMUTABLE, errors);
    }
}

/// Whether no pods run from the template, nor will until the job is resumed.
fn is_changeable(old: &Value) -> bool {
    let active = old["status"]["active"].as_i64().unwrap_or(0);
    if old["spec"]["suspend"] != true || active != 0 {
        return false;
    }
    let mut conditions = items(&old["status"]["conditions"]);
    let suspended = conditions.any(|own| own["type"] == "Suspended" && own["status"] == "True");
    old["status"]["startTime"].is_null() || suspended
}

fn drop_scheduling(template: &mut Value) {
    if let Some(spec) = template["spec"].as_object_mut() {
        for field in ["nodeSelector", "tolerations", "schedulingGates"] {
            spec.remove(field);
        }
        // Affinity to pods is immutable.
        if let Some(affinity) = spec.get_mut("affinity").and_then(Value::as_object_mut) {
            affinity.remove("nodeAffinity");
            if affinity.is_empty() {
                spec.remove("affinity");
            }
        }
    }
    if let Some(meta) = template["metadata"].as_object_mut() {
        meta.remove("annotations");
        meta.remove("labels");
    }
}

fn validate_completions(spec: &Value, before: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let path = path.child("completions");
    let completions = &spec["completions"];
    if spec["completionMode"] != "Indexed" {
        validate_immutable(completions, &before["completions"], &path, errors);
    } else if !completions.is_null()
        && *completions != before["completions"]
        && *completions != spec["parallelism"]
    {
        let detail = "can only be modified in tandem with spec.parallelism";
        errors.invalid(&path, completions, detail);
    }
}

/// A selector that the server made must be as the server makes it.
fn validate_generated_selector(job: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let spec = &job["spec"];
    if spec["manualSelector"] == true || spec["selector"].is_null() {
        return;
    }
    let uid = meta(job, "uid");
    let labels = &spec["template"]["metadata"]["labels"];
    let label_path = path.child("template").child("metadata").child("labels");
    let wanted = [
        (LEGACY_CONTROLLER_UID, uid),
        (NAME_LABELS[0], name(job)),
        (CONTROLLER_UID, uid),
        (NAME_LABELS[1], name(job)),
    ];
    for (label, want) in wanted {
        let path = label_path.key(label);
        match labels[label].as_str() {
            None => errors.required(&path, &format!("must be '{want}'")),
            Some(own) if own != want => {
                errors.invalid(&path, labels, &format!("must be '{want}'"));
            }
            Some(_) => {}
        }
    }
    let selector = &spec["selector"];
    let generated = wanted.map(|(label, want)| (label.to_owned(), want.into()));
    let generated = Value::Object(Map::from_iter(generated));
    // A faulty selector is a fault elsewhere.
    let expected = LabelSelector::from_object(selector).map_or(true, |own| own.matches(&generated));
    if !expected {
        errors.invalid(
            &path.child("selector"),
            selector,
            "`selector` not auto-generated",
        );
    }
}

/// The host names of an indexed job's pods end with their indexes, and are labels.
fn validate_pod_names(job: &Value, errors: &mut FieldErrors) {
    let spec = &job["spec"];
    let completions = spec["completions"].as_i64().unwrap_or_default();
    if spec["completionMode"] != "Indexed" || completions <= 0 {
        return;
    }
    let longest = format!("{}-{}", name(job), completions - 1);
    if !dns1123_label(&longest).is_empty() {
        let detail = format!("will not able to create pod with invalid DNS label: {longest}");
        let path = FieldPath::new("metadata").child("name");
        errors.invalid(&path, &name(job).into(), &detail);
    }
}

fn validate_spec_and_selector(spec: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    validate_spec(spec, path, errors);
    let selector = &spec["selector"];
    let selector_path = path.child("selector");
    if selector.is_null() {
        errors.required(&selector_path, "");
    } else {
        validate_label_selector(selector, false, &selector_path, errors);
    }
    if let Ok(selector) = LabelSelector::from_object(selector) {
        validate_labels_match(&selector, &spec["template"], path, errors);
    }
}

/// Rules shared by jobs and job templates.
pub(crate) fn validate_spec(spec: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let numbers = [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ];
    not_negative(spec, &numbers, path, errors);
    if !spec["maxFailedIndexes"].is_null() && spec["backoffLimitPerIndex"].is_null() {
        let detail = "when maxFailedIndexes is specified";
        errors.required(&path.child("backoffLimitPerIndex"), detail);
    }
    validate_managed_by(&spec["managedBy"], &path.child("managedBy"), errors);
    let mode = &spec["completionMode"];
    if !mode.is_null() {
        one_of(
            mode,
            &path.child("completionMode"),
            &["NonIndexed", "Indexed"],
            errors,
        );
    }
    if mode == "Indexed" {
        validate_indexed(spec, path, errors);
    } else if mode.is_null() || mode == "NonIndexed" {
        for field in ["backoffLimitPerIndex", "maxFailedIndexes"] {
            if !spec[field].is_null() {
                let detail = "requires indexed completion mode";
                errors.invalid(&path.child(field), &spec[field], detail);
            }
        }
    }
    policies::validate_failure_policy(spec, &path.child("podFailurePolicy"), errors);
    policies::validate_success_policy(spec, &path.child("successPolicy"), errors);
    let replacement = &spec["podReplacementPolicy"];
    if !replacement.is_null() {
        let path = path.child("podReplacementPolicy");
        let supported: &[&str] = if spec["podFailurePolicy"].is_null() {
            &["Failed", "TerminatingOrFailed"]
        } else {
            &["Failed"]
        };
        one_of(replacement, &path, supported, errors);
    }
    let path = path.child("template");
    validate_pod_template(&spec["template"], &path, errors);
    let policy = text(&spec["template"]["spec"]["restartPolicy"]);
    let path = path.child("spec").child("restartPolicy");
    if matches!(policy, "" | "Always") {
        errors.required(&path, "valid values: \"OnFailure\", \"Never\"");
    } else if !matches!(policy, "OnFailure" | "Never") {
        errors.not_supported(&path, &policy.into(), &["OnFailure", "Never"]);
    } else if policy != "Never" && !spec["podFailurePolicy"].is_null() {
        let detail = "only \"Never\" is supported when podFailurePolicy is specified";
        errors.invalid(&path, &policy.into(), detail);
    }
}

fn validate_indexed(spec: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    if spec["completions"].is_null() {
        errors.required(
            &path.child("completions"),
            "when completion mode is Indexed",
        );
    }
    let parallelism = &spec["parallelism"];
    if parallelism
        .as_i64()
        .is_some_and(|own| own > MAX_INDEXED_PARALLELISM)
    {
        let detail = "must be less than or equal to 100000 when completion mode is Indexed";
        errors.invalid(&path.child("parallelism"), parallelism, detail);
    }
    if !spec["maxFailedIndexes"].is_null() {
        let most = &spec["maxFailedIndexes"];
        let completions = spec["completions"].as_i64();
        if completions.is_some_and(|all| most.as_i64().is_some_and(|most| most > all)) {
            let detail = "must be less than or equal to completions";
            errors.invalid(&path.child("maxFailedIndexes"), most, detail);
        }
        if most.as_i64().is_some_and(|most| most > MAX_FAILED_INDEXES) {
            let detail = "must be less than or equal to 100000";
            errors.invalid(&path.child("maxFailedIndexes"), most, detail);
        }
    }
    let many = spec["completions"].as_i64().unwrap_or(0) > MAX_FAILED_INDEXES;
    if many && !spec["backoffLimitPerIndex"].is_null() {
        validate_many_indexes(spec, path, errors);
    }
}

/// Limits per index are for fewer pods at once where there are many indexes.
fn validate_many_indexes(spec: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    const MAX: i64 = 10_000;
    if spec["maxFailedIndexes"].is_null() {
        let detail = "must be specified when completions is above 100000";
        errors.required(&path.child("maxFailedIndexes"), detail);
    }
    for field in ["parallelism", "maxFailedIndexes"] {
        if spec[field].as_i64().is_some_and(|own| own > MAX) {
            let detail = "must be less than or equal to 10000 when completions are above 100000 \
                 and used with backoff limit per index";
            errors.invalid(&path.child(field), &spec[field], detail);
        }
    }
}

fn validate_managed_by(value: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    const MAX: usize = 63;
    let Some(own) = value.as_str() else {
        return;
    };
    validate_domain_prefixed_path(own, path, errors);
    if own.len() > MAX {
        errors.too_long(path, MAX);
    }
}

fn job_status<'a>(view: Printable<'a>) -> &'a str {
    let holds = |kind: &str| {
        view.condition(kind)
            .is_some_and(|condition| condition.str("/status") == "True")
    };
    for finished in ["Complete", "Failed"] {
        if holds(finished) {
            return finished;
        }
    }
    if view.is_terminating() {
        return "Terminating";
    }
    let pending = ["Suspended", "FailureTarget", "SuccessCriteriaMet"];
    pending
        .into_iter()
        .find(|kind| holds(kind))
        .unwrap_or("Running")
}
