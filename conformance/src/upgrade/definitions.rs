//! Definitions of custom resources are replaced, and the objects that exist are tried on the new ones.

use std::collections::BTreeMap;

use http::Request;
use kubeproof_apiserver::{EventType, JournalEntry};
use kubeproof_machinery::json::Value;

use super::findings::{Finding, name_of};
use crate::api::ApiError;
use crate::runner::RunError;
use crate::scenario::FindingKind;
use crate::testbed::{Testbed, TestbedError};
use crate::timeline::fields;

/// The resource of definitions.
const DEFINITIONS: &str = "customresourcedefinitions";

/// Replaces each definition, as `kubectl replace` does, or creates it; returns the refusals.
///
/// # Errors
/// When the server fails otherwise.
pub(super) async fn replace(
    testbed: &Testbed,
    definitions: &[Value],
) -> Result<Vec<Finding>, RunError> {
    let (api, mut refused) = (testbed.api(), Vec::new());
    for definition in definitions {
        let name = definition["metadata"]["name"].as_str().unwrap_or_default();
        let replaced = match api.get((DEFINITIONS, name), None).await {
            Ok(present) => {
                let mut next = definition.clone();
                next["metadata"]["resourceVersion"] =
                    present["metadata"]["resourceVersion"].clone();
                api.update((DEFINITIONS, name), None, &next).await
            }
            Err(error) if error.is_not_found() => api.create(definition).await,
            Err(error) => Err(error),
        };
        match replaced {
            Ok(_) => {}
            Err(ApiError::Refused(status)) => {
                let words = format!("{} {}", status.code, status.message);
                refused.push(Finding::about(
                    FindingKind::Refused,
                    &name_of(definition),
                    words,
                ));
            }
            Err(error) => return Err(TestbedError::Api(error).into()),
        }
    }
    Ok(refused)
}

/// Sends each object that these definitions are about again, as it was in `journal`, without an effect: it has to be
/// accepted as it is.
pub(super) async fn try_objects(
    testbed: &Testbed,
    journal: &[JournalEntry],
    definitions: &[Value],
) -> Vec<Finding> {
    let is_defined = |entry: &&JournalEntry| {
        definitions.iter().any(|definition| {
            let spec = &definition["spec"];
            spec["group"] == entry.gvr.group && spec["names"]["plural"] == entry.gvr.resource
        })
    };
    let mut objects: BTreeMap<String, &JournalEntry> = BTreeMap::new();
    for entry in journal.iter().filter(is_defined) {
        let path = path(entry);
        match entry.event {
            EventType::Deleted => objects.remove(&path),
            EventType::Added | EventType::Modified => objects.insert(path, entry),
        };
    }
    let (client, mut findings) = (testbed.client(), Vec::new());
    for (path, entry) in objects {
        let not_accepted = |words| {
            let object = name_of(&entry.object);
            Finding::about(FindingKind::NotAccepted, &object, words)
        };
        let present = send(&client, "GET", &path, Vec::new()).await;
        let mut object = Value::clone(&entry.object);
        match &present {
            Ok(present) => {
                object["metadata"]["resourceVersion"] =
                    present["metadata"]["resourceVersion"].clone();
            }
            Err(why) => {
                findings.push(not_accepted(why.clone()));
                continue;
            }
        }
        let body = object.to_string().into_bytes();
        match send(&client, "PUT", &format!("{path}?dryRun=All"), body).await {
            Err(why) => findings.push(not_accepted(why)),
            Ok(accepted) => {
                let lost = fields("spec", &object["spec"], &accepted["spec"]);
                let lost = lost.into_iter().filter(|field| field.ends_with("→ unset"));
                let lost: Vec<String> = lost.collect();
                if !lost.is_empty() {
                    findings.push(not_accepted(format!("loses {}", lost.join(", "))));
                }
            }
        }
    }
    findings
}

/// The path of an object, in the version in which it was stored.
fn path(entry: &JournalEntry) -> String {
    let gvr = &entry.gvr;
    let metadata = &entry.object["metadata"];
    let name = metadata["name"].as_str().unwrap_or_default();
    let namespace = metadata["namespace"].as_str();
    let namespace = namespace.map(|namespace| format!("namespaces/{namespace}/"));
    format!(
        "/apis/{}/{}/{}{}/{name}",
        gvr.group,
        gvr.version,
        namespace.unwrap_or_default(),
        gvr.resource
    )
}

async fn send(
    client: &kube::Client,
    method: &str,
    path: &str,
    body: Vec<u8>,
) -> Result<Value, String> {
    let request = Request::builder().method(method).uri(path);
    let request = request.header(http::header::CONTENT_TYPE, "application/json");
    let request = request.body(body).map_err(|error| error.to_string())?;
    let answer = client.request::<Value>(request).await;
    answer.map_err(|error| match error {
        kube::Error::Api(status) => format!("{} {}", status.code, status.message),
        error => error.to_string(),
    })
}
