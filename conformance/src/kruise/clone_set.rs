//! Defaults and checks of the CloneSet, whose versions differ in form and in strictness.

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kubeproof_apiserver::embedded;
use kubeproof_apiserver::status::{FieldErrors, FieldPath};
use kubeproof_controller::kruise::Gates;
use kubeproof_machinery::json::{Value, json};

use super::go_value::{int_or_string, parse_int_error, scaled, strings};
use super::update_strategy::{
    change_beside_images, changes_others, default_in_place, default_templates, defaulted, fill,
    invalid_go, not_negative, priority_fault, scatter_fault, validate_template,
};
use super::{Refusal, Request};

/// The fields of the spec that may change.
const MUTABLE: [&str; 9] = [
    "replicas",
    "template",
    "lifecycle",
    "scaleStrategy",
    "updateStrategy",
    "minReadySeconds",
    "progressDeadlineSeconds",
    "volumeClaimTemplates",
    "revisionHistoryLimit",
];
const POLICIES: [&str; 3] = ["ReCreate", "InPlaceIfPossible", "InPlaceOnly"];

/// The spec with defaults.
pub(super) fn default(request: &Request<'_>, gates: Gates) -> Result<Value, Refusal> {
    let mut spec = request.object["spec"].clone();
    fill(&mut spec, "replicas", 1);
    fill(&mut spec, "revisionHistoryLimit", 10);
    fill(&mut spec, "scaleStrategy", json!({}));
    fill(&mut spec, "updateStrategy", json!({}));
    let strategy = &mut spec["updateStrategy"];
    if request.version == "v1alpha1" {
        fill(strategy, "type", "ReCreate");
        default_in_place(strategy, "type");
        default_strategy(strategy);
    } else {
        fill(strategy, "type", "RollingUpdate");
        if strategy["type"] == "RollingUpdate" {
            fill(strategy, "rollingUpdate", json!({}));
            let rolling = &mut strategy["rollingUpdate"];
            fill(rolling, "podUpdatePolicy", "ReCreate");
            default_in_place(rolling, "podUpdatePolicy");
            default_strategy(rolling);
        }
    }
    let template = |object: &Value| object["spec"]["template"].clone();
    if request.operation != "UPDATE" || template(request.object) != template(request.old) {
        default_templates(&mut spec, gates)?;
    }
    Ok(spec)
}

fn default_strategy(strategy: &mut Value) {
    fill(strategy, "partition", 0);
    fill(strategy, "maxUnavailable", "20%");
    fill(strategy, "maxSurge", 0);
}

/// Checks a write.
pub(super) async fn validate(
    request: &Request<'_>,
    client: Option<&kube::Client>,
) -> Result<(), Refusal> {
    if !["CREATE", "UPDATE"].contains(&request.operation) {
        return Ok(());
    }
    let (new, old) = (request.object, request.old);
    let (is_update, is_old) = (request.operation == "UPDATE", request.version == "v1alpha1");
    let path = FieldPath::new("spec");
    let mut errors = FieldErrors::new();
    if is_update && changes_others(new, old, &MUTABLE) {
        let detail = "updates to cloneset spec for fields other than 'replicas', 'template', 'lifecycle', 'scaleStrategy', 'updateStrategy', 'minReadySeconds', 'progressDeadlineSeconds', 'volumeClaimTemplates' and 'revisionHistoryLimit' are forbidden";
        errors.forbidden(&path, detail);
    }
    let is_in_place_only = new["spec"]["updateStrategy"]["type"] == "InPlaceOnly";
    if is_update
        && is_old
        && is_in_place_only
        && let Some(change) = change_beside_images(old, new)
    {
        let detail =
            format!("only allowed to update images in spec for InPlaceOnly, but found {change}");
        errors.forbidden(&path, &detail);
    }
    let spec = &new["spec"];
    not_negative(&spec["replicas"], &path.child("replicas"), &mut errors);
    let check = |template: &Value, path: &FieldPath| {
        embedded::validate_pod_template(&with_claims(defaulted(template), spec), path)
    };
    errors.extend(validate_template(spec, "cloneset", &path, check));
    validate_pods_to_delete(request, client, &mut errors).await;
    let at = path.child("updateStrategy");
    match is_old {
        true => validate_v1alpha1(spec, &at, &mut errors),
        false => validate_v1beta1(spec, &at, &mut errors),
    }
    if is_old {
        validate_deadline(spec, &path, &mut errors);
    }
    Refusal::of(&errors)
}

/// The template with a volume for each claim template, as its pods will have.
fn with_claims(mut template: Value, spec: &Value) -> Value {
    let claims = spec["volumeClaimTemplates"]
        .as_array()
        .into_iter()
        .flatten();
    let volumes = claims.map(|claim| {
        let name = &claim["metadata"]["name"];
        json!({"name": name, "persistentVolumeClaim": {"claimName": name}})
    });
    let mut all = template["spec"]["volumes"].as_array().cloned();
    all.get_or_insert_default().extend(volumes);
    template["spec"]["volumes"] = all.into();
    template
}

fn validate_deadline(spec: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let deadline = &spec["progressDeadlineSeconds"];
    let at = path.child("progressDeadlineSeconds");
    not_negative(deadline, &at, errors);
    let min_ready = spec["minReadySeconds"].as_i64().unwrap_or(0);
    let is_short = |seconds: i64| seconds != i64::from(i32::MAX) && seconds <= min_ready;
    if deadline.as_i64().is_some_and(is_short) {
        errors.invalid(&at, deadline, "must be greater than minReadySeconds");
    }
}

/// Names are to be of the set's own pods; only those that are new are looked at.
async fn validate_pods_to_delete(
    request: &Request<'_>,
    client: Option<&kube::Client>,
    errors: &mut FieldErrors,
) {
    let names = |object: &Value| -> Vec<String> {
        let list = object["spec"]["scaleStrategy"]["podsToDelete"]
            .as_array()
            .cloned();
        let list = list.unwrap_or_default();
        list.iter()
            .filter_map(|name| Some(name.as_str()?.to_owned()))
            .collect()
    };
    let at = FieldPath::new("spec.scaleStrategy.podsToDelete");
    let stated = names(request.object);
    let mut twice: Vec<&str> = Vec::new();
    for (index, name) in stated.iter().enumerate() {
        if stated[..index].contains(name) {
            twice.push(name);
        }
    }
    if !twice.is_empty() {
        let shown: Vec<&str> = stated.iter().map(String::as_str).collect();
        let detail = format!("duplicated items [{}]", twice.join(" "));
        invalid_go(&strings(&shown), &at, &detail, errors);
        return;
    }
    let Some(client) = client.filter(|_| request.version == "v1alpha1") else {
        return;
    };
    let known = names(request.old);
    let metadata = &request.object["metadata"];
    let namespace = metadata["namespace"].as_str().unwrap_or_default();
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let mut added: Vec<&String> = stated.iter().filter(|name| !known.contains(name)).collect();
    added.sort();
    for name in added {
        let fault = match pods.get(name).await {
            Err(kube::Error::Api(status)) => {
                format!("find pod {name} failed: {}", status.message)
            }
            Err(error) => format!("find pod {name} failed: {error}"),
            Ok(pod) if pod.metadata.deletion_timestamp.is_some() => {
                format!("find pod {name} already terminating")
            }
            Ok(pod) => {
                let owners = pod.metadata.owner_references.unwrap_or_default();
                let is_own = owners
                    .iter()
                    .any(|owner| owner.controller == Some(true) && metadata["uid"] == *owner.uid);
                if is_own {
                    continue;
                }
                format!("find pod {name} owner is not this CloneSet")
            }
        };
        errors.invalid(&at, &json!(name), &fault);
    }
}

fn validate_v1alpha1(spec: &Value, at: &FieldPath, errors: &mut FieldErrors) {
    let strategy = &spec["updateStrategy"];
    let policy = strategy["type"].as_str().unwrap_or_default();
    if !POLICIES.contains(&policy) {
        let detail = "must be 'ReCreate', InPlaceIfPossible or 'InPlaceOnly'";
        errors.invalid(&at.child("type"), &strategy["type"], detail);
    }
    let refusal = "can not use maxSurge with strategy type InPlaceOnly";
    let surge = validate_numbers(spec, strategy, (policy, refusal), at, errors);
    check_progress(spec, strategy, surge, at, errors);
}

fn validate_v1beta1(spec: &Value, at: &FieldPath, errors: &mut FieldErrors) {
    let strategy = &spec["updateStrategy"];
    let type_ = strategy["type"].as_str().unwrap_or_default();
    if !["", "RollingUpdate", "OnDelete"].contains(&type_) {
        let detail = "must be 'RollingUpdate' or 'OnDelete'";
        errors.invalid(&at.child("type"), &strategy["type"], detail);
    }
    let rolling = &strategy["rollingUpdate"];
    if !rolling.is_object() {
        return;
    }
    let at = at.child("rollingUpdate");
    let policy = rolling["podUpdatePolicy"].as_str().unwrap_or_default();
    if !policy.is_empty() && !POLICIES.contains(&policy) {
        let detail = "must be 'ReCreate', 'InPlaceIfPossible' or 'InPlaceOnly'";
        errors.invalid(&at.child("podUpdatePolicy"), &json!(policy), detail);
    }
    let refusal = "can not use maxSurge with podUpdatePolicy InPlaceOnly";
    validate_numbers(spec, rolling, (policy, refusal), &at, errors);
    // Upstream forgets the surge here.
    check_progress(spec, rolling, 0, &at, errors);
    let at = at.child("inPlaceUpdateStrategy");
    validate_pre_download(&rolling["inPlaceUpdateStrategy"], &at, errors);
}

/// Validates the settings for pulling images ahead.
fn validate_pre_download(strategy: &Value, at: &FieldPath, errors: &mut FieldErrors) {
    let (field, stated) = (
        "imagePreDownloadParallelism",
        &strategy["imagePreDownloadParallelism"],
    );
    let fault = match stated.as_str() {
        Some(text) if text.ends_with('%') => {
            Some("imagePreDownloadParallelism does not support percentage value".to_owned())
        }
        Some(text) => match text.parse::<i32>() {
            Err(error) => Some(format!(
                "imagePreDownloadParallelism must be a valid integer: {}",
                parse_int_error(text, &error)
            )),
            Ok(number) => (number < 0).then(not_negative_pre_download),
        },
        None => {
            let is_negative = stated.as_i64().is_some_and(|number| number < 0);
            is_negative.then(not_negative_pre_download)
        }
    };
    if let Some(fault) = fault {
        errors.invalid(&at.child(field), stated, &fault);
    }
    for field in [
        "imagePreDownloadTimeoutSeconds",
        "imagePreDownloadMinUpdatedReadyPods",
    ] {
        not_negative(&strategy[field], &at.child(field), errors);
    }
}

fn not_negative_pre_download() -> String {
    "imagePreDownloadParallelism must be non-negative".to_owned()
}

/// Checks partition, priorities and limits; returns the surge.
fn validate_numbers(
    spec: &Value,
    strategy: &Value,
    (policy, refusal): (&str, &str),
    at: &FieldPath,
    errors: &mut FieldErrors,
) -> i64 {
    let replicas = spec["replicas"].as_i64().unwrap_or(0);
    let number = |field: &str, errors: &mut FieldErrors| -> i64 {
        let value = &strategy[field];
        match scaled(value, replicas) {
            Ok(number) => number,
            Err(why) => {
                let shown = value.as_str().map_or_else(|| json!(""), |text| json!(text));
                let detail = format!("failed GetScaledValueFromIntOrPercent for {field}: {why}");
                errors.invalid(&at.child(field), &shown, &detail);
                0
            }
        }
    };
    let partition = number("partition", errors);
    not_negative(&json!(partition), &at.child("partition"), errors);
    if let Some(fault) = priority_fault(&strategy["priorityStrategy"]) {
        errors.required(&at.child("priorityStrategy"), &fault);
    }
    if let Some(fault) = scatter_fault(&strategy["scatterStrategy"]) {
        errors.required(&at.child("scatterStrategy"), &fault);
    }
    if !strategy["maxUnavailable"].is_null() {
        number("maxUnavailable", errors);
    }
    if strategy["maxSurge"].is_null() {
        return 0;
    }
    let surge = number("maxSurge", errors);
    if policy == "InPlaceOnly" && surge > 0 {
        let value = &strategy["maxSurge"];
        let shown = value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
        errors.invalid(&at.child("maxSurge"), &json!(shown), refusal);
    }
    surge
}

/// At least one of the two numbers must allow progress, or no pod could ever be updated.
fn check_progress(
    spec: &Value,
    strategy: &Value,
    surge: i64,
    at: &FieldPath,
    errors: &mut FieldErrors,
) {
    let replicas = spec["replicas"].as_i64().unwrap_or(0);
    let unavailable = scaled(&strategy["maxUnavailable"], replicas).unwrap_or(0);
    if replicas > 0 && unavailable < 1 && surge < 1 {
        let shown = int_or_string(&strategy["maxUnavailable"]);
        let detail = "maxUnavailable and maxSurge should not both be less than 1";
        invalid_go(&shown, &at.child("maxUnavailable"), detail, errors);
    }
}
