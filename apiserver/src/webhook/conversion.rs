//! Conversion by webhook: objects of one version posted, objects of another read.

use std::time::Duration;

use super::{CallError, WebhookCalls, WebhookClient, WebhookConfig};
use crate::clock::nanos_between;
use crate::json::{Value, json};
use crate::meta::object::meta;
use crate::meta::{GroupVersion, GroupVersionKind, ResourceVersion};
use crate::metrics::conversion::{ConversionCall, Converted};
use crate::registry::apiextensions::custom_resource::Conversion;
use crate::status::ApiError;

/// The timeout of a webhook; upstream has no setting for it.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Converts the missing objects, with one call for each stored version. `calls` are those of the request, if it is for one.
///
/// # Errors
/// Upstream has no reason for a conversion that fails.
pub(crate) async fn fill(
    conversion: &Conversion,
    client: &WebhookClient<'_>,
    calls: Option<&WebhookCalls>,
) -> Result<(), ApiError> {
    for (version, stored) in conversion.take_missing() {
        let (versions, objects): (Vec<ResourceVersion>, Vec<Value>) = stored.into_iter().unzip();
        let converted = convert(conversion, (client, calls), objects, &version).await?;
        conversion.hold(&version, versions.into_iter().zip(converted));
    }
    Ok(())
}

/// Converts objects, all of one version, in one call.
///
/// # Errors
/// Upstream has no reason for a conversion that fails.
pub(crate) async fn convert(
    conversion: &Conversion,
    (client, calls): (&WebhookClient<'_>, Option<&WebhookCalls>),
    objects: Vec<Value>,
    version: &str,
) -> Result<Vec<Value>, ApiError> {
    let to = GroupVersion {
        group: conversion.group.clone(),
        version: version.to_owned(),
    };
    let kind = objects.first().map(shown_kind).unwrap_or_default();
    let known = |own: &&String| matches!(own.as_str(), "v1" | "v1beta1");
    let Some(review) = conversion.review_versions.iter().find(known) else {
        let why = "no supported conversion review versions";
        return Err(ApiError::Unknown(why.to_owned()));
    };
    let uid = client.entropy.review_uid();
    let document = json!({
        "kind": "ConversionReview",
        "apiVersion": format!("apiextensions.k8s.io/{review}"),
        "request": {
            "uid": uid, "desiredAPIVersion": to.to_string(), "objects": objects,
        },
    });
    let config = WebhookConfig {
        client_config: &conversion.client_config,
        timeout: TIMEOUT,
    };
    let started = client.clock.now();
    let answer = match calls {
        Some(calls) => calls.post(client, &config, &document).await,
        None => super::post(client, &config, &document).await,
    };
    let answer = answer.map_err(|error| {
        let why = match error {
            CallError::Config(why) => why,
            CallError::Failed(why) => why.to_string(),
        };
        (Converted::CallFailure, format!("failed: {why}"))
    });
    let converted = answer.and_then(|answer| {
        let converted = read(&answer, &uid, review);
        let converted =
            converted.map_err(|why| (Converted::Malformed, format!("failed: {why}")))?;
        all_restored(&objects, converted, &to)
    });
    let outcome = match &converted {
        Ok(_) => Converted::Success,
        Err((outcome, _)) => *outcome,
    };
    let from = objects.first().map_or("", |object| {
        let stated = object["apiVersion"].as_str().unwrap_or_default();
        stated.rsplit('/').next().unwrap_or_default()
    });
    client.metrics.conversions().called(ConversionCall {
        definition: &conversion.definition,
        from,
        to: version,
        outcome,
        nanos: nanos_between(started, client.clock.now()),
    });
    converted
        .map_err(|(_, what)| ApiError::Unknown(format!("conversion webhook for {kind} {what}")))
}

/// The converted objects with the metadata of the originals, or their defect.
fn all_restored(
    originals: &[Value],
    converted: Vec<Value>,
    to: &GroupVersion,
) -> Result<Vec<Value>, (Converted, String)> {
    if converted.len() != originals.len() {
        let what = format!(
            "returned {} objects, expected {}",
            converted.len(),
            originals.len()
        );
        return Err((Converted::Partial, what));
    }
    let pairs = originals.iter().zip(converted).enumerate();
    let restored = pairs.map(|(index, (original, converted))| {
        restored(original, converted, to).map_err(|fault| {
            let what = format!("returned {}", fault.describe(index));
            (Converted::InvalidObject, what)
        })
    });
    restored.collect()
}

fn shown_kind(object: &Value) -> String {
    let text = |field: &str| object[field].as_str().unwrap_or_default();
    let version = GroupVersion::parse(text("apiVersion")).unwrap_or_else(|| GroupVersion {
        group: String::new(),
        version: String::new(),
    });
    let gvk = GroupVersionKind {
        group: version.group,
        version: version.version,
        kind: text("kind").to_owned(),
    };
    format!("{}/{}, Kind={}", gvk.group, gvk.version, gvk.kind)
}

/// The converted objects of an answer.
fn read(answer: &Value, uid: &str, review: &str) -> Result<Vec<Value>, String> {
    let response = &answer["response"];
    if review == "v1" {
        let expected = "apiextensions.k8s.io/v1, Kind=ConversionReview";
        let found = shown_kind(answer);
        if found != expected {
            return Err(format!(
                "expected webhook response of {expected}, got {found}"
            ));
        }
    }
    if !response.is_object() {
        return Err("no response provided".to_owned());
    }
    let found = response["uid"].as_str().unwrap_or_default();
    if review == "v1" && found != uid {
        return Err(format!("expected response.uid={uid:?}, got {found:?}"));
    }
    let text = |field: &str| response["result"][field].as_str().unwrap_or_default();
    match (text("status"), text("message")) {
        ("Success", _) => {}
        (status, "") => {
            return Err(format!(
                "response.result.status was '{status}', not 'Success'"
            ));
        }
        (_, message) => return Err(message.to_owned()),
    }
    let converted = response["convertedObjects"].as_array();
    Ok(converted.cloned().unwrap_or_default())
}

/// A defect of a converted object.
enum Fault {
    Object(String),
    Metadata(String),
}

impl Fault {
    fn describe(&self, index: usize) -> String {
        match self {
            Self::Object(why) => format!("invalid object at index {index}: {why}"),
            Self::Metadata(why) => format!("invalid metadata: {why}"),
        }
    }
}

/// A converted object with the metadata of the original, of which only labels and annotations may
/// change.
fn restored(original: &Value, mut converted: Value, to: &GroupVersion) -> Result<Value, Fault> {
    let text = |object: &Value, field: &str| object[field].as_str().unwrap_or_default().to_owned();
    let version = text(&converted, "apiVersion");
    if version != to.to_string() {
        return Err(Fault::Object(format!(
            "invalid groupVersion (expected {to}, received {version})"
        )));
    }
    let (kind, found) = (text(original, "kind"), text(&converted, "kind"));
    if kind != found {
        return Err(Fault::Object(format!(
            "invalid kind (expected {kind}, received {found})"
        )));
    }
    for (field, shown) in [("name", "name"), ("namespace", "namespace"), ("uid", "UID")] {
        let (was, is) = (meta(original, field), meta(&converted, field));
        if was != is {
            return Err(Fault::Object(format!(
                "must have the same {shown}: {was} != {is}"
            )));
        }
    }
    if !converted["metadata"].is_object() {
        let why = "missing metadata in converted object";
        return Err(Fault::Metadata(why.to_owned()));
    }
    let mut metadata = original["metadata"].clone();
    for field in ["labels", "annotations"] {
        match &converted["metadata"][field] {
            Value::Null => {
                if let Some(metadata) = metadata.as_object_mut() {
                    metadata.remove(field);
                }
            }
            changed if changed.is_object() => metadata[field] = changed.clone(),
            _ => {
                let why = format!("invalid metadata.{field} in converted object");
                return Err(Fault::Metadata(why));
            }
        }
    }
    converted["metadata"] = metadata;
    Ok(converted)
}
