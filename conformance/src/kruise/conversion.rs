//! Conversion between `v1alpha1` and `v1beta1`.
//!
//! Source: openkruise/kruise apis/apps/v1alpha1 (`ConvertTo`, `ConvertFrom`).

use kubeproof_machinery::json::{Value, json};

const EXCLUDE_LABEL: &str = "apps.kruise.io/cloneset-scaling-exclude-preparing-delete";
/// The fields of a strategy that are one level deeper in the newer version.
const ROLLING: [&str; 6] = [
    "partition",
    "maxUnavailable",
    "maxSurge",
    "paused",
    "priorityStrategy",
    "scatterStrategy",
];
/// Fields of the newer version for pulling images before updates in place, with the annotations that hold them in the
/// older version: the parallelism, which may be a string, and two numbers.
const PRE_DOWNLOAD: [(&str, &str); 3] = [
    (
        "imagePreDownloadParallelism",
        "apps.kruise.io/image-predownload-parallelism",
    ),
    (
        "imagePreDownloadTimeoutSeconds",
        "apps.kruise.io/image-predownload-timeout-seconds",
    ),
    (
        "imagePreDownloadMinUpdatedReadyPods",
        "apps.kruise.io/image-predownload-min-updated-ready-pods",
    ),
];
/// Fields of an Advanced StatefulSet that the older version does not have.
const NEW_IN_STATEFUL_SET: [&str; 6] = [
    "reserveOrdinals",
    "lifecycle",
    "scaleStrategy",
    "persistentVolumeClaimRetentionPolicy",
    "ordinals",
    "volumeClaimUpdateStrategy",
];

/// Answers a ConversionReview.
pub(super) fn answer(review: &Value) -> Value {
    let request = &review["request"];
    let desired = request["desiredAPIVersion"].as_str().unwrap_or_default();
    let objects = request["objects"].as_array().into_iter().flatten();
    let converted: Vec<Value> = objects.map(|object| converted(object, desired)).collect();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "ConversionReview",
        "response": {
            "uid": request["uid"],
            "result": { "status": "Success" },
            "convertedObjects": converted,
        },
    })
}

/// The object in the version `desired`.
pub(super) fn converted(object: &Value, desired: &str) -> Value {
    let mut object = object.clone();
    let is_old = |version: &str| version.ends_with("/v1alpha1");
    let from = object["apiVersion"].as_str().unwrap_or_default().to_owned();
    object["apiVersion"] = json!(desired);
    match (is_old(&from), is_old(desired), object["kind"].as_str()) {
        (true, false, Some("CloneSet")) => clone_set_forward(&mut object),
        (false, true, Some("CloneSet")) => clone_set_back(&mut object),
        (false, true, Some("StatefulSet")) => {
            drop_fields(&mut object["spec"], &NEW_IN_STATEFUL_SET);
            let new = [
                "updatedReadyReplicas",
                "updatedAvailableReplicas",
                "volumeClaims",
            ];
            drop_fields(&mut object["status"], &new);
        }
        _ => {}
    }
    object
}

fn drop_fields(object: &mut Value, fields: &[&str]) {
    if let Some(object) = object.as_object_mut() {
        for field in fields {
            object.remove(field);
        }
    }
}

/// Takes `field` out of `object`, null when it is not there.
fn take(object: &mut Value, field: &str) -> Value {
    let fields = object.as_object_mut();
    fields
        .and_then(|fields| fields.remove(field))
        .unwrap_or_default()
}

/// The strategy of updates in place of the newer version; null without any.
fn in_place_forward(old: &Value, annotations: &Value) -> Value {
    let texts =
        PRE_DOWNLOAD.map(|(field, key)| (field, annotations[key].as_str().unwrap_or_default()));
    if old.is_null() && texts.iter().all(|(_, text)| text.is_empty()) {
        return Value::Null;
    }
    let mut new = json!({});
    if !old["gracePeriodSeconds"].is_null() {
        new["gracePeriodSeconds"] = old["gracePeriodSeconds"].clone();
    }
    for (field, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
        match text.parse::<i32>() {
            Ok(number) => new[field] = json!(number),
            Err(_) if field == PRE_DOWNLOAD[0].0 => new[field] = json!(text),
            Err(_) => {}
        }
    }
    new
}

/// The strategy of the older version; null when it says nothing. Annotations say the rest.
fn in_place_back(new: &Value, annotations: &mut Value) -> Value {
    let grace = new["gracePeriodSeconds"].as_i64().unwrap_or(0);
    let says = |(field, _): &(&str, &str)| !new[*field].is_null();
    if grace == 0 && !PRE_DOWNLOAD.iter().any(says) {
        return Value::Null;
    }
    for (field, key) in PRE_DOWNLOAD.into_iter().filter(says) {
        let text = new[field]
            .as_str()
            .map_or_else(|| new[field].to_string(), str::to_owned);
        annotations[key] = json!(text);
    }
    match grace {
        0 => json!({}),
        grace => json!({ "gracePeriodSeconds": grace }),
    }
}

fn clone_set_forward(object: &mut Value) {
    let annotations = object["metadata"]["annotations"].clone();
    let excludes = object["metadata"]["labels"][EXCLUDE_LABEL] == "true";
    let spec = &mut object["spec"];
    let mut scale = take(spec, "scaleStrategy");
    if scale.is_null() {
        scale = json!({});
    }
    // The two versions name opposite switches.
    let disables = take(&mut scale, "disablePVCReuse") == true;
    scale["enablePVCReuse"] = json!(!disables);
    if excludes {
        scale["excludePreparingDelete"] = json!(true);
    }
    spec["scaleStrategy"] = scale;
    let old = take(spec, "updateStrategy");
    if old["type"] == "OnDelete" {
        spec["updateStrategy"] = json!({ "type": "OnDelete" });
        return;
    }
    let policy = match old["type"].as_str().unwrap_or_default() {
        policy @ ("InPlaceIfPossible" | "InPlaceOnly") => policy,
        _ => "ReCreate",
    };
    let mut rolling = json!({ "podUpdatePolicy": policy });
    for field in ROLLING {
        if !old[field].is_null() {
            rolling[field] = old[field].clone();
        }
    }
    let in_place = in_place_forward(&old["inPlaceUpdateStrategy"], &annotations);
    if !in_place.is_null() {
        rolling["inPlaceUpdateStrategy"] = in_place;
    }
    spec["updateStrategy"] = json!({ "type": "RollingUpdate", "rollingUpdate": rolling });
}

fn clone_set_back(object: &mut Value) {
    let spec = &mut object["spec"];
    let mut scale = take(spec, "scaleStrategy");
    if scale.is_null() {
        scale = json!({});
    }
    let enables = take(&mut scale, "enablePVCReuse") == true;
    if !enables {
        scale["disablePVCReuse"] = json!(true);
    }
    // The older version says this by a label only.
    take(&mut scale, "excludePreparingDelete");
    spec["scaleStrategy"] = scale;
    let new = take(spec, "updateStrategy");
    let rolling = &new["rollingUpdate"];
    let type_ = match (new["type"].as_str(), rolling["podUpdatePolicy"].as_str()) {
        (Some("OnDelete"), _) => "OnDelete",
        (_, Some(policy @ ("InPlaceIfPossible" | "InPlaceOnly"))) => policy,
        _ => "ReCreate",
    };
    let mut strategy = json!({ "type": type_ });
    for field in ROLLING {
        if !rolling[field].is_null() {
            strategy[field] = rolling[field].clone();
        }
    }
    let mut annotations = object["metadata"]["annotations"].clone();
    let in_place = in_place_back(&rolling["inPlaceUpdateStrategy"], &mut annotations);
    if !annotations.is_null() {
        object["metadata"]["annotations"] = annotations;
    }
    if !in_place.is_null() {
        strategy["inPlaceUpdateStrategy"] = in_place;
    }
    object["spec"]["updateStrategy"] = strategy;
}
