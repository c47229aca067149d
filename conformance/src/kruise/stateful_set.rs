//! Defaults and checks of the Advanced StatefulSet. Both versions have the same form, where the older
//! one knows a field.

use kube::Client;
use kubeproof_apiserver::embedded;
use kubeproof_apiserver::meta::validation::NameRule;
use kubeproof_apiserver::status::{FieldErrors, FieldPath};
use kubeproof_controller::kruise::Gates;
use kubeproof_machinery::json::{Value, json};

use super::claim_templates;
use super::go_value::{int_or_string, ints_or_strings, scaled};
use super::update_strategy::{
    change_beside_images, changes_others, default_templates, fill, invalid_go, not_negative,
    priority_fault, validate_template,
};
use super::{Refusal, Request};

/// The fields of the spec that may change.
const MUTABLE: [&str; 11] = [
    "replicas",
    "ordinals",
    "template",
    "reserveOrdinals",
    "lifecycle",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "volumeClaimTemplates",
    "volumeClaimUpdateStrategy",
    "updateStrategy",
    "scaleStrategy",
];
const MIN_READY_SECONDS_MAX: i64 = 300;

/// The spec with defaults.
pub(super) fn default(request: &Request<'_>, gates: Gates) -> Result<Value, Refusal> {
    let mut spec = request.object["spec"].clone();
    fill(&mut spec, "podManagementPolicy", "OrderedReady");
    fill(&mut spec, "updateStrategy", json!({}));
    let strategy = &mut spec["updateStrategy"];
    fill(strategy, "type", "RollingUpdate");
    if strategy["type"] == "RollingUpdate" {
        fill(strategy, "rollingUpdate", json!({}));
        let rolling = &mut strategy["rollingUpdate"];
        fill(rolling, "partition", 0);
        fill(rolling, "maxUnavailable", 1);
        fill(rolling, "podUpdatePolicy", "ReCreate");
        fill(rolling, "minReadySeconds", 0);
    }
    if request.version != "v1alpha1" {
        fill(&mut spec, "persistentVolumeClaimRetentionPolicy", json!({}));
        let policy = &mut spec["persistentVolumeClaimRetentionPolicy"];
        fill(policy, "whenDeleted", "Retain");
        fill(policy, "whenScaled", "Retain");
    }
    if gates.auto_resize_claims && request.version != "v1alpha1" {
        fill(&mut spec, "volumeClaimUpdateStrategy", json!({}));
        fill(&mut spec["volumeClaimUpdateStrategy"], "type", "OnDelete");
    }
    fill(&mut spec, "replicas", 1);
    fill(&mut spec, "revisionHistoryLimit", 10);
    let template = |object: &Value| object["spec"]["template"].clone();
    if request.operation != "UPDATE" || template(request.object) != template(request.old) {
        default_templates(&mut spec, gates)?;
    }
    Ok(spec)
}

/// Checks a write.
pub(super) async fn validate(
    request: &Request<'_>,
    gates: Gates,
    client: Option<&Client>,
) -> Result<(), Refusal> {
    if !["CREATE", "UPDATE"].contains(&request.operation) {
        return Ok(());
    }
    let (new, old) = (request.object, request.old);
    let path = FieldPath::new("spec");
    let mut errors = FieldErrors::new();
    let name = &new["metadata"]["name"];
    for fault in NameRule::DnsLabel.faults(name.as_str().unwrap_or_default(), false) {
        errors.invalid(&FieldPath::new("metadata.name"), name, &fault);
    }
    errors.extend(validate_spec(&new["spec"], &path));
    if request.operation == "UPDATE" && changes_others(new, old, &MUTABLE) {
        // The quotes are upstream's.
        let detail = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'reserveOrdinals', 'lifecycle', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy', `volumeClaimTemplates`, `VolumeClaimUpdateStrategy` and 'updateStrategy' are forbidden";
        errors.forbidden(&path, detail);
    }
    Refusal::of(&errors)?;
    if request.operation == "UPDATE"
        && gates.auto_resize_claims
        && let Some(client) = client
    {
        claim_templates::check(new, old, client).await?;
    }
    let policy = &new["spec"]["updateStrategy"]["rollingUpdate"]["podUpdatePolicy"];
    if request.operation == "UPDATE"
        && policy == "InPlaceOnly"
        && let Some(change) = change_beside_images(old, new)
    {
        return Err(Refusal::invalid(format!(
            "invalid template modified with InPlaceOnly strategy: {change}, currently only image \
             update is allowed for InPlaceOnly"
        )));
    }
    Ok(())
}

fn validate_spec(spec: &Value, path: &FieldPath) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let policy = &spec["podManagementPolicy"];
    if policy != "OrderedReady" && policy != "Parallel" {
        let at = path.child("podManagementPolicy");
        errors.invalid(&at, policy, "must be 'OrderedReady' or 'Parallel'");
    }
    validate_reserved(&spec["reserveOrdinals"], &mut errors);
    let scale = &spec["scaleStrategy"]["maxUnavailable"];
    if !scale.is_null() {
        let at = path.child("scaleStrategy").child("maxUnavailable");
        validate_max_unavailable(scale, policy, &at, &mut errors);
    }
    validate_strategy(spec, &path.child("updateStrategy"), path, &mut errors);
    let retention = &spec["persistentVolumeClaimRetentionPolicy"];
    for field in ["whenDeleted", "whenScaled"] {
        let value = &retention[field];
        if retention.is_object() && value != "Retain" && value != "Delete" {
            let at = path
                .child("persistentVolumeClaimRetentionPolicy")
                .child(field);
            errors.not_supported(&at, value, &["Retain", "Delete"]);
        }
    }
    not_negative(&spec["replicas"], &path.child("replicas"), &mut errors);
    // Upstream leaves the spec of pods unchecked: what mounts claims is no template of its own.
    let check = embedded::validate_template_metadata;
    errors.extend(validate_template(spec, "statefulset", path, check));
    errors
}

fn validate_reserved(reserved: &Value, errors: &mut FieldErrors) {
    let root = FieldPath::new("spec");
    for (index, one) in reserved.as_array().into_iter().flatten().enumerate() {
        let shown = ints_or_strings(reserved);
        if let Some(range) = one.as_str() {
            let ends = range.split_once('-').and_then(|(first, last)| {
                let is_number =
                    |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
                (is_number(first) && is_number(last)).then_some((first, last))
            });
            let Some((first, last)) = ends else {
                let detail = format!("{index} th reserve ordinal is not a valid range: {range}");
                invalid_go(&shown, &root, &detail, errors);
                continue;
            };
            let parsed = (first.parse::<i64>(), last.parse::<i64>());
            if let (Ok(first), Ok(last)) = parsed
                && first > last
            {
                let detail = format!(
                    "{index} th reserve ordinal is invalid: {range}, err = invalid range {range}: \
                     start should be less than or equal to end"
                );
                invalid_go(&shown, &root, &detail, errors);
            }
        } else if one.as_i64().is_some_and(|ordinal| ordinal < 0) {
            let detail = format!("{index} th reserve ordinal is negative: {one}");
            invalid_go(&shown, &root, &detail, errors);
        }
    }
}

fn validate_strategy(spec: &Value, at: &FieldPath, path: &FieldPath, errors: &mut FieldErrors) {
    let strategy = &spec["updateStrategy"];
    let rolling = &strategy["rollingUpdate"];
    let at_rolling = at.child("rollingUpdate");
    match strategy["type"].as_str() {
        Some("OnDelete") => {
            if !rolling.is_null() {
                let detail = "only allowed for updateStrategy 'RollingUpdate'";
                errors.invalid(&at_rolling, rolling, detail);
            }
        }
        Some("RollingUpdate") if rolling.is_object() => {
            validate_rolling(spec, &at_rolling, path, errors);
        }
        Some("RollingUpdate") => {}
        _ => errors.invalid(at, strategy, "must be 'RollingUpdate' or 'OnDelete'"),
    }
}

fn validate_rolling(spec: &Value, at: &FieldPath, path: &FieldPath, errors: &mut FieldErrors) {
    let rolling = &spec["updateStrategy"]["rollingUpdate"];
    let management = &spec["podManagementPolicy"];
    not_negative(&rolling["partition"], &at.child("partition"), errors);
    let min_ready = &rolling["minReadySeconds"];
    not_negative(min_ready, &at.child("minReadySeconds"), errors);
    if min_ready
        .as_i64()
        .is_some_and(|seconds| seconds > MIN_READY_SECONDS_MAX)
    {
        let detail = "must be no more than 300 seconds";
        errors.invalid(&at.child("minReadySeconds"), min_ready, detail);
    }
    let max_unavailable = &rolling["maxUnavailable"];
    validate_max_unavailable(
        max_unavailable,
        management,
        &at.child("maxUnavailable"),
        errors,
    );
    let policy = rolling["podUpdatePolicy"].as_str().unwrap_or_default();
    match policy {
        "ReCreate" => {}
        "InPlaceIfPossible" | "InPlaceOnly" => {
            let gates = &spec["template"]["spec"]["readinessGates"];
            let listed = gates.as_array().cloned().unwrap_or_default();
            let has_gate = listed
                .iter()
                .any(|gate| gate["conditionType"] == "InPlaceUpdateReady");
            if !has_gate {
                let at = path.child("template").child("spec").child("readinessGates");
                let detail =
                    format!("must contains InPlaceUpdateReady when podUpdatePolicy is {policy}");
                let shown = match gates.is_null() {
                    true => "[]v1.PodReadinessGate(nil)".to_owned(),
                    false => {
                        let items = listed.iter().map(|gate| {
                            format!(
                                "v1.PodReadinessGate{{ConditionType:{}}}",
                                gate["conditionType"]
                            )
                        });
                        let items: Vec<String> = items.collect();
                        format!("[]v1.PodReadinessGate{{{}}}", items.join(", "))
                    }
                };
                invalid_go(&shown, &at, &detail, errors);
            }
        }
        _ => {
            let detail = "must be 'ReCreate', InPlaceIfPossible or 'InPlaceOnly'";
            errors.invalid(&at.child("podUpdatePolicy"), &json!(policy), detail);
        }
    }
    let unordered = &rolling["unorderedUpdate"];
    if unordered.is_object() {
        let at = at.child("unorderedUpdate");
        if management != "Parallel" {
            let detail = "unorderedUpdate can only work with Parallel PodManagementPolicyType";
            errors.required(&at, detail);
        }
        if let Some(fault) = priority_fault(&unordered["priorityStrategy"]) {
            errors.required(&at.child("priorityStrategy"), &fault);
        }
    }
}

fn validate_max_unavailable(
    value: &Value,
    management: &Value,
    at: &FieldPath,
    errors: &mut FieldErrors,
) {
    if value.is_null() {
        errors.required(at, "");
        return;
    }
    let shown = int_or_string(value);
    if let Some(text) = value.as_str()
        && (!text.ends_with('%') || text[..text.len() - 1].parse::<u32>().is_err())
    {
        let detail = "must be an integer or percentage (e.g '5%%')";
        invalid_go(&shown, at, detail, errors);
    }
    not_negative(value, at, errors);
    match scaled(value, 1) {
        Ok(number) if number < 1 => {
            errors.invalid(at, &json!(number), "should not be less than 1");
        }
        Ok(_) => {}
        Err(why) => {
            let detail =
                format!("getValueFromIntOrPercent error: invalid value for IntOrString: {why}");
            errors.invalid(at, &json!(0), &detail);
        }
    }
    if management != "Parallel" && *value != json!(1) {
        invalid_go(
            &shown,
            at,
            "can only work with Parallel PodManagementPolicyType",
            errors,
        );
    }
}
