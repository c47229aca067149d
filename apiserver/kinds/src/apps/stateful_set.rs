//! StatefulSets.

use std::collections::BTreeSet;

use crate::columns::Printable;
use crate::columns::workload::{TEMPLATE_CONTAINERS, containers, ready_of_desired};
use crate::core::claim_spec::{validate_claim_spec, warn_of_claim_spec};
use crate::core::pod::defaults::default_pod_spec;
use crate::core::pod::template::validate_labels_match;
use crate::core::pod::{validation, warnings};
use crate::go_struct::shown_field;
use crate::json::{Value, json};
use crate::meta::object::{child_mut, default};
use crate::meta::order::Ordered;
use crate::meta::selector::LabelSelector;
use crate::meta::validation::{NameRule, dns1123_label, validate_label_selector};
use crate::status::{FieldErrors, FieldPath};
use crate::unstructured::{items, text};
use crate::validation::{invalid_as, invalid_each};
use crate::{Context, MetadataCheck, Strategy};

/// The fields of the spec that may change.
const MUTABLE: [&str; 7] = [
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
];

#[derive(Debug)]
pub(crate) struct StatefulSet;

impl Strategy for StatefulSet {
    fn metadata_checks(&self) -> &'static [MetadataCheck] {
        &[MetadataCheck::ObjectMeta, MetadataCheck::ObjectMetaUpdate]
    }

    fn name_rule(&self) -> NameRule {
        NameRule::DnsLabel
    }

    fn counts_generation(&self) -> bool {
        true
    }

    fn default(&self, set: &mut Value) {
        let spec = child_mut(set, "spec");
        default(spec, "podManagementPolicy", "OrderedReady");
        let strategy = spec.entry("updateStrategy").or_insert_with(|| json!({}));
        if let Some(strategy) = strategy.as_object_mut() {
            let chosen = strategy
                .get("type")
                .and_then(Value::as_str)
                .unwrap_or_default();
            if chosen.is_empty() {
                strategy.insert("type", "RollingUpdate".into());
                default(strategy, "rollingUpdate", json!({}));
            }
            if let Some(rolling) = strategy
                .get_mut("rollingUpdate")
                .and_then(Value::as_object_mut)
            {
                default(rolling, "partition", 0);
            }
        }
        let policy = spec
            .entry("persistentVolumeClaimRetentionPolicy")
            .or_insert_with(|| json!({}));
        if let Some(policy) = policy.as_object_mut() {
            for field in ["whenDeleted", "whenScaled"] {
                if policy
                    .get(field)
                    .and_then(Value::as_str)
                    .unwrap_or_default()
                    .is_empty()
                {
                    policy.insert(field.to_owned(), "Retain".into());
                }
            }
        }
        default(spec, "replicas", 1);
        default(spec, "revisionHistoryLimit", 10);
        if let Some(template) = spec.get_mut("template").and_then(Value::as_object_mut) {
            default_pod_spec(template.entry("spec").or_insert_with(|| json!({})));
        }
        for claim in spec
            .get_mut("volumeClaimTemplates")
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            default_claim_template(claim);
        }
    }

    fn prepare_for_create(&self, set: &mut Value, context: Context<'_>) {
        set["status"] = json!({ "replicas": 0, "availableReplicas": 0 });
        drop_max_unavailable(set, None, context);
    }

    fn prepare_for_update(&self, new: &mut Value, old: &Value, context: Context<'_>) {
        drop_max_unavailable(new, Some(old), context);
    }

    fn validate(&self, set: &Value) -> FieldErrors {
        validate_set(set, State::New)
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let mut warnings = warnings::of_template(new, old, "spec.template");
        let claims = FieldPath::new("spec.volumeClaimTemplates");
        for (index, claim) in items(&new["spec"]["volumeClaimTemplates"]).enumerate() {
            // Upstream's path is another one at an update.
            let path = match old {
                None => claims.index(index),
                Some(_) => claims.index(index).child("Spec"),
            };
            warn_of_claim_spec(&claim["spec"], &path, &mut warnings);
        }
        let limit = &new["spec"]["revisionHistoryLimit"];
        if limit.as_i64().is_some_and(|own| own < 0) {
            let warning = "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended";
            warnings.push(warning.to_owned());
        }
        warnings
    }

    fn validate_update(&self, new: &Value, old: &Value) -> FieldErrors {
        let mut errors = validate_set(new, State::Stored);
        let others = |set: &Value| {
            let mut spec = set["spec"].clone();
            if let Some(fields) = spec.as_object_mut() {
                fields.retain(|field, _| !MUTABLE.contains(&field.as_str()));
            }
            spec
        };
        if others(new) != others(old) {
            let detail = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
            errors.forbidden(&FieldPath::new("spec"), detail);
        }
        errors
    }

    fn validate_status_update(&self, new: &Value, old: &Value) -> FieldErrors {
        validate_status(new, old)
    }

    fn cells(&self, view: Printable<'_>) -> Option<Vec<Value>> {
        let mut cells = vec![view.name(), json!(ready_of_desired(view)), view.age()];
        cells.extend(containers(view, TEMPLATE_CONTAINERS));
        Some(cells)
    }
}

/// While the gate `MaxUnavailableStatefulSet` is off the field is dropped unless it is in use
/// already.
fn drop_max_unavailable(set: &mut Value, old: Option<&Value>, context: Context<'_>) {
    let used = old.is_some_and(|old| {
        !old["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"].is_null()
    });
    if used || context.max_unavailable_stateful_set {
        return;
    }
    let rolling = set.pointer_mut("/spec/updateStrategy/rollingUpdate");
    if let Some(rolling) = rolling.and_then(Value::as_object_mut) {
        rolling.remove("maxUnavailable");
    }
}

fn default_claim_template(claim: &mut Value) {
    if let Some(claim) = claim.as_object_mut() {
        // Upstream's internal type has neither.
        for (field, value) in [("apiVersion", "v1"), ("kind", "PersistentVolumeClaim")] {
            claim.insert(field.to_owned(), value.into());
        }
        let status = claim.entry("status").or_insert_with(|| json!({}));
        if let Some(status) = status.as_object_mut() {
            default(status, "phase", "Pending");
        }
        let spec = claim.entry("spec").or_insert_with(|| json!({}));
        if let Some(spec) = spec.as_object_mut() {
            default(spec, "volumeMode", "Filesystem");
        }
    }
}

/// Whether a set is new or stored; immutable fields of a stored set are not validated.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    New,
    Stored,
}

fn validate_set(set: &Value, state: State) -> FieldErrors {
    let (spec, path) = (&set["spec"], &FieldPath::new("spec"));
    let mut errors = FieldErrors::new();
    let policy = &spec["podManagementPolicy"];
    let policies = ["OrderedReady", "Parallel"];
    if !policy
        .as_str()
        .is_some_and(|policy| policies.contains(&policy))
    {
        let detail = format!("must be '{}' or '{}'", policies[0], policies[1]);
        errors.invalid(&path.child("podManagementPolicy"), policy, &detail);
    }
    validate_update_strategy(
        &spec["updateStrategy"],
        &path.child("updateStrategy"),
        &mut errors,
    );
    validate_retention_policy(
        &spec["persistentVolumeClaimRetentionPolicy"],
        &path.child("persistentVolumeClaimRetentionPolicy"),
        &mut errors,
    );
    if state == State::New {
        let claims = path.child("volumeClaimTemplates");
        for (index, claim) in items(&spec["volumeClaimTemplates"]).enumerate() {
            let path = claims.index(index).child("spec");
            validate_claim_spec(&claim["spec"], &path, &mut errors);
        }
    }
    for field in ["replicas", "minReadySeconds"] {
        not_negative(&spec[field], &path.child(field), &mut errors);
    }
    if !spec["ordinals"].is_null() {
        not_negative(
            &spec["ordinals"]["start"],
            &path.child("ordinals").child("start"),
            &mut errors,
        );
    }
    let service = &spec["serviceName"];
    if state == State::New && !text(service).is_empty() {
        let path = path.child("serviceName");
        invalid_each(dns1123_label(text(service)), service, &path, &mut errors);
    }
    validate_selector(spec, path, &mut errors);
    validate_template(spec, path, &mut errors);
    errors
}

fn not_negative(value: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    if value.as_i64().is_some_and(|number| number < 0) {
        errors.invalid(path, value, "must be greater than or equal to 0");
    }
}

fn validate_update_strategy(strategy: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let rolling = &strategy["rollingUpdate"];
    match strategy["type"].as_str() {
        Some("OnDelete") => {
            if !rolling.is_null() {
                let fields = ["spec", "updateStrategy", "rollingUpdate"];
                let shown = shown_field("apps", "StatefulSet", &fields, rolling);
                let detail = "only allowed for updateStrategy 'RollingUpdate'";
                invalid_as(&path.child("rollingUpdate"), &shown, detail, errors);
            }
        }
        Some("RollingUpdate") => {
            let partition = path.child("rollingUpdate").child("partition");
            not_negative(&rolling["partition"], &partition, errors);
        }
        _ => {
            let detail = "must be 'RollingUpdate' or 'OnDelete'";
            let fields = ["spec", "updateStrategy"];
            let shown = shown_field("apps", "StatefulSet", &fields, strategy);
            invalid_as(path, &shown, detail, errors);
        }
    }
}

fn validate_retention_policy(policy: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    for field in ["whenDeleted", "whenScaled"] {
        let value = &policy[field];
        if !matches!(value.as_str(), Some("Retain" | "Delete")) {
            errors.not_supported(&path.child(field), value, &["Retain", "Delete"]);
        }
    }
}

fn validate_selector(spec: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let selector = &spec["selector"];
    let path = path.child("selector");
    if selector.is_null() {
        errors.required(&path, "");
        return;
    }
    validate_label_selector(selector, false, &path, errors);
    let empty = |field: &str| match &selector[field] {
        Value::Array(items) => items.is_empty(),
        Value::Object(entries) => entries.is_empty(),
        _ => true,
    };
    if empty("matchLabels") && empty("matchExpressions") {
        errors.invalid(&path, selector, "empty selector is invalid for statefulset");
    }
}

fn validate_template(spec: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let template = &spec["template"];
    match LabelSelector::from_object(&spec["selector"]) {
        Ok(selector) => {
            validate_labels_match(&selector, template, path, errors);
            let path = path.child("template");
            let template = as_made(template, &spec["volumeClaimTemplates"]);
            validation::validate_pod_template(&template, &path, errors);
            // Upstream validates the metadata twice.
            validation::validate_template_metadata(&template, &path, errors);
        }
        Err(_) => errors.invalid(&path.child("selector"), &spec["selector"], ""),
    }
    let path = path.child("template");
    let policy = &template["spec"]["restartPolicy"];
    if policy != "Always" {
        let path = path.child("spec").child("restartPolicy");
        errors.not_supported(&path, policy, &["Always"]);
    }
    if !template["spec"]["activeDeadlineSeconds"].is_null() {
        let path = path.child("spec").child("activeDeadlineSeconds");
        errors.forbidden(
            &path,
            "activeDeadlineSeconds in StatefulSet is not Supported",
        );
    }
}

/// Returns the template as the controller changes it: with the volumes of `claims`, and without
/// names, which belong to the pods.
fn as_made(template: &Value, claims: &Value) -> Value {
    let mut template = template.clone();
    let claimed = items(claims).map(|claim| {
        let name = &claim["metadata"]["name"];
        json!({ "name": name, "persistentVolumeClaim": { "claimName": name } })
    });
    let mut claimed: Vec<Value> = claimed.collect();
    let Some(spec) = template["spec"].as_object_mut() else {
        return template;
    };
    spec.remove("hostname");
    spec.remove("subdomain");
    if let (false, Some(volumes)) = (
        claimed.is_empty(),
        spec.entry("volumes")
            .or_insert_with(|| json!([]))
            .as_array_mut(),
    ) {
        let names: BTreeSet<_> = claimed.iter().map(|own| Ordered(&own["name"])).collect();
        volumes.retain(|own| !names.contains(&Ordered(&own["name"])));
        claimed.append(volumes);
        *volumes = claimed;
    }
    template
}

fn validate_status(new: &Value, old: &Value) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let path = FieldPath::new("status");
    let status = &new["status"];
    let count = |field: &str| status[field].as_i64().unwrap_or(0);
    let counters = [
        "replicas",
        "readyReplicas",
        "currentReplicas",
        "updatedReplicas",
        "availableReplicas",
    ];
    for field in counters {
        not_negative(&status[field], &path.child(field), &mut errors);
    }
    not_negative(
        &status["observedGeneration"],
        &path.child("observedGeneration"),
        &mut errors,
    );
    not_negative(
        &status["collisionCount"],
        &path.child("collisionCount"),
        &mut errors,
    );
    for field in &counters[1..] {
        if count(field) > count("replicas") {
            let detail = "cannot be greater than status.replicas";
            errors.invalid(&path.child(field), &count(field).into(), detail);
        }
    }
    if count("availableReplicas") > count("readyReplicas") {
        let detail = "cannot be greater than status.readyReplicas";
        let value = count("availableReplicas").into();
        errors.invalid(&path.child("availableReplicas"), &value, detail);
    }
    let collisions = |set: &Value| set["status"]["collisionCount"].as_i64();
    if let Some(before) = collisions(old)
        && collisions(new).is_none_or(|now| now < before)
    {
        let value = collisions(new).unwrap_or(0).into();
        errors.invalid(
            &path.child("collisionCount"),
            &value,
            "cannot be decremented",
        );
    }
    errors
}
