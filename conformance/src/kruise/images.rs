//! Defaults and checks of the ImagePullJob and the NodeImage, whose versions have the same form.

use std::collections::BTreeSet;

use jiff::Timestamp;
use kubeproof_apiserver::meta::selector::LabelSelector;
use kubeproof_controller::kruise::Gates;
use kubeproof_machinery::json::{Value, json};
use kubeproof_node::familiar_name;

use super::update_strategy::fill;
use super::{Change, Refusal, Request};

/// The finalizer that holds a job until its secrets are released.
const FINALIZER: &str = "apps.kruise.io/deletion-protection";
const IMAGES_MAX: usize = 256;
/// The defaults of a pull.
const TIMEOUT_SECONDS: i64 = 600;
const BACKOFF_LIMIT: i64 = 3;

/// A job with defaults.
pub(super) fn default_job(request: &Request<'_>) -> Change {
    let mut spec = request.object["spec"].clone();
    fill(&mut spec, "completionPolicy", json!({}));
    let kind = &mut spec["completionPolicy"]["type"];
    if kind.as_str().is_none_or(str::is_empty) {
        *kind = json!("Always");
    }
    fill(&mut spec, "pullPolicy", json!({}));
    default_pull_policy(&mut spec["pullPolicy"]);
    if spec["imagePullPolicy"].as_str().is_none_or(str::is_empty) {
        spec["imagePullPolicy"] = json!("IfNotPresent");
    }
    let finalizers = request.object["metadata"]["finalizers"].as_array();
    let mut finalizers = finalizers.cloned().unwrap_or_default();
    if request.operation == "CREATE" && !finalizers.contains(&json!(FINALIZER)) {
        finalizers.push(json!(FINALIZER));
    }
    Change {
        spec,
        finalizers: (!finalizers.is_empty()).then_some(finalizers),
        name: None,
    }
}

fn default_pull_policy(policy: &mut Value) {
    fill(policy, "timeoutSeconds", TIMEOUT_SECONDS);
    fill(policy, "backoffLimit", BACKOFF_LIMIT);
}

/// Checks a job.
pub(super) fn validate_job(request: &Request<'_>, gates: Gates) -> Result<(), Refusal> {
    for (name, is_on) in [
        ("KruiseDaemon", gates.daemon),
        ("ImagePullJobGate", gates.image_pull_job),
    ] {
        if !is_on {
            return Err(disabled(name));
        }
    }
    let (spec, old) = (&request.object["spec"], &request.old["spec"]);
    if request.operation == "UPDATE" && spec["pullSecrets"] != old["pullSecrets"] {
        return Err(Refusal {
            code: 403,
            message: "spec.pullSecrets is immutable".to_owned(),
        });
    }
    let checks = [
        check_selectors(spec),
        check_image(&spec["image"]),
        check_parallelism(&spec["parallelism"]),
        check_completion(spec),
    ];
    let first = checks.into_iter().find_map(Result::err);
    first.map_or(Ok(()), |fault| Err(Refusal::bad_request(fault)))
}

fn disabled(gate: &str) -> Refusal {
    Refusal {
        code: 403,
        message: format!("feature-gate {gate} is not enabled"),
    }
}

fn check_selectors(spec: &Value) -> Result<(), String> {
    let selector = &spec["selector"];
    if !selector["matchLabels"].is_null() || !selector["matchExpressions"].is_null() {
        if !selector["names"].is_null() {
            let fault = "can not set both names and labelSelector in this spec.selector";
            return Err(fault.to_owned());
        }
        let read = LabelSelector::from_object(selector);
        read.map_err(|error| format!("invalid selector: {error}"))?;
    }
    if let Some(names) = selector["names"].as_array() {
        let different: BTreeSet<&str> = names.iter().filter_map(Value::as_str).collect();
        if different.len() != names.len() {
            return Err("duplicated name in selector names".to_owned());
        }
    }
    let of_pods = &spec["podSelector"];
    if of_pods.is_null() {
        return Ok(());
    }
    if !selector.is_null() {
        return Err("can not set both selector and podSelector".to_owned());
    }
    let read = LabelSelector::from_object(of_pods);
    read.map(drop)
        .map_err(|error| format!("invalid podSelector: {error}"))
}

fn check_image(image: &Value) -> Result<(), String> {
    let image = image.as_str().unwrap_or_default();
    if image.is_empty() {
        return Err("image can not be empty".to_owned());
    }
    let read = familiar_name(image);
    read.map(drop)
        .map_err(|error| format!("invalid image {image}: {error}"))
}

fn check_parallelism(value: &Value) -> Result<(), String> {
    let number = match value.as_str() {
        None => value.as_i64().unwrap_or(0),
        Some(text) if text.ends_with('%') => {
            return Err("parallelism does not support percentage value".to_owned());
        }
        Some(text) => match text.parse::<i32>() {
            Ok(number) => number.into(),
            Err(error) => {
                let error = super::go_value::parse_int_error(text, &error);
                return Err(format!("parallelism must be a valid integer: {error}"));
            }
        },
    };
    match number < 0 {
        true => Err("parallelism must be non-negative".to_owned()),
        false => Ok(()),
    }
}

fn check_completion(spec: &Value) -> Result<(), String> {
    let policy = &spec["completionPolicy"];
    let deadline = policy["activeDeadlineSeconds"].as_i64();
    match policy["type"].as_str().unwrap_or_default() {
        "Always" => {
            let timeout = spec["pullPolicy"]["timeoutSeconds"].as_i64();
            let timeout = timeout.unwrap_or(TIMEOUT_SECONDS);
            match deadline.is_some_and(|deadline| timeout > deadline) {
                true => Err(
                    "completionPolicy.activeDeadlineSeconds must be greater than \
                             pullPolicy.timeoutSeconds(default 600)"
                        .to_owned(),
                ),
                false => Ok(()),
            }
        }
        "Never" if deadline.is_some() || !policy["ttlSecondsAfterFinished"].is_null() => Err(
            "activeDeadlineSeconds and ttlSecondsAfterFinished can only work with Always \
                 CompletionPolicyType"
                .to_owned(),
        ),
        "Never" => Ok(()),
        other => Err(format!("unknown type of completionPolicy: {other}")),
    }
}

/// The spec of a NodeImage with defaults, its tags in order.
pub(super) fn default_node_image(request: &Request<'_>, now: Timestamp) -> Value {
    let mut spec = request.object["spec"].clone();
    let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
    let images = spec.get_mut("images").and_then(Value::as_object_mut);
    for image in images.into_iter().flat_map(|images| images.values_mut()) {
        let Some(tags) = image.get_mut("tags").and_then(Value::as_array_mut) else {
            continue;
        };
        for tag in tags.iter_mut().filter(|tag| tag.is_object()) {
            fill(tag, "createdAt", json!(now));
            fill(tag, "pullPolicy", json!({}));
            default_pull_policy(&mut tag["pullPolicy"]);
        }
        let name = |tag: &Value| tag["tag"].as_str().unwrap_or_default().to_owned();
        tags.sort_by_key(name);
    }
    spec
}

/// Checks a NodeImage.
pub(super) fn validate_node_image(request: &Request<'_>, gates: Gates) -> Result<(), Refusal> {
    if !gates.daemon {
        return Err(disabled("KruiseDaemon"));
    }
    let images = request.object["spec"]["images"].as_object();
    let count = images.map_or(0, kubeproof_machinery::json::Map::len);
    if count > IMAGES_MAX {
        let fault = format!("spec images length {count} can not be more than {IMAGES_MAX}");
        return Err(Refusal::bad_request(fault));
    }
    for (name, image) in images.into_iter().flatten() {
        check_tags(name, &image["tags"]).map_err(Refusal::bad_request)?;
    }
    Ok(())
}

fn check_tags(name: &str, tags: &Value) -> Result<(), String> {
    if name.is_empty() {
        return Err("image name can not be empty".to_owned());
    }
    let mut seen = BTreeSet::new();
    for asked in tags.as_array().into_iter().flatten() {
        let tag = asked["tag"].as_str().unwrap_or_default();
        if tag.is_empty() {
            return Err(format!("tag for image {name} can not be empty"));
        }
        if !seen.insert(tag) {
            return Err(format!("duplicated tag {tag} for image {name}"));
        }
        let full = format!("{name}/{tag}");
        if asked["createdAt"].is_null() {
            return Err(format!("createAt field for {full} can not be empty"));
        }
        if asked["version"].as_i64().unwrap_or(0) < 0 {
            return Err(format!("version for {full} can not be less than 0"));
        }
        if asked["pullPolicy"].is_null() {
            return Err(format!("pullPolicy field for {full} must set"));
        }
        if asked["pullPolicy"]["ttlSecondsAfterFinished"].is_null() {
            let fault = format!("pullPolicy.ttlSecondsAfterFinished for {full} must set");
            return Err(fault);
        }
    }
    Ok(())
}
