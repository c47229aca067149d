//! The state of a cluster at a time of an audit log of level RequestResponse.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use kubeproof_apiserver::Manifest;
use kubeproof_machinery::json::Value;
use serde::Deserialize;

use super::{IncidentError, Key, key};

/// An event, as far as it is about objects.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    stage: String,
    verb: String,
    stage_timestamp: Timestamp,
    #[serde(default)]
    object_ref: Reference,
    #[serde(default)]
    response_object: Value,
    #[serde(default)]
    response_status: Status,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Reference {
    resource: String,
    api_group: String,
    namespace: String,
    name: String,
    subresource: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    code: u16,
}

/// An object as the last response showed it.
struct Known {
    object: Value,
    resource: (String, String),
}

/// Whether a file begins with an event.
///
/// # Errors
/// When it cannot be opened.
pub(super) fn is_one(path: &Path) -> Result<bool, IncidentError> {
    let file = std::fs::File::open(path).map_err(IncidentError::read(path))?;
    // A line that is not UTF-8 is no event.
    let mut lines = BufReader::new(file).lines().map_while(Result::ok);
    let first = lines.find(|line| !line.trim().is_empty());
    Ok(first.is_some_and(|line| is_event(&line)))
}

/// Reads a log up to `until`: each object as the last response of that time shows it. `None` if the file is no audit log.
///
/// # Errors
/// A line that is no event, or a log without bodies.
pub(super) fn read(
    path: &Path,
    until: Option<Timestamp>,
) -> Result<Option<Vec<Manifest>>, IncidentError> {
    let file = std::fs::File::open(path).map_err(IncidentError::read(path))?;
    let mut events: Vec<Event> = Vec::new();
    for (index, line) in BufReader::new(file).lines().enumerate() {
        let line = match (line, events.is_empty()) {
            (Ok(line), _) => line,
            // It may be anything.
            (Err(_), true) => return Ok(None),
            (Err(error), false) => return Err(IncidentError::read(path)(error)),
        };
        if line.trim().is_empty() {
            continue;
        }
        if events.is_empty() && !is_event(&line) {
            return Ok(None);
        }
        let event = serde_json::from_str(&line);
        events.push(event.map_err(|source| IncidentError::Event {
            path: path.to_owned(),
            line: index + 1,
            source,
        })?);
    }
    if events.is_empty() {
        return Ok(None);
    }
    let has_body = |event: &Event| event.response_object["metadata"].is_object();
    if !events.iter().any(has_body) {
        return Err(IncidentError::NoBodies(path.to_owned()));
    }
    events.retain(|event| {
        let is_in_time = until.is_none_or(|until| event.stage_timestamp <= until);
        event.stage == "ResponseComplete" && event.response_status.code < 300 && is_in_time
    });
    // Events of one time are in the order of the log.
    events.sort_by_key(|event| event.stage_timestamp);
    let mut known: BTreeMap<Key, Known> = BTreeMap::new();
    for event in events {
        take(&mut known, event);
    }
    let file: Arc<Path> = path.into();
    let manifests = known.into_values().map(|known| Manifest {
        object: known.object,
        file: Some(Arc::clone(&file)),
        duplicates: Vec::new(),
    });
    Ok(Some(manifests.filter(Manifest::is_live).collect()))
}

fn is_event(line: &str) -> bool {
    let line: Result<Value, _> = serde_json::from_str(line);
    line.is_ok_and(|line| {
        let version = line["apiVersion"].as_str().unwrap_or_default();
        line["kind"] == "Event" && version.starts_with("audit.k8s.io/")
    })
}

fn take(known: &mut BTreeMap<Key, Known>, event: Event) {
    let Event {
        verb,
        object_ref,
        response_object: object,
        ..
    } = event;
    let resource = (object_ref.api_group, object_ref.resource);
    let is_whole = ["", "status"].contains(&&*object_ref.subresource);
    let is_collection = verb == "deletecollection";
    match verb.as_str() {
        "delete" | "deletecollection" if object["metadata"]["uid"].is_null() && is_whole => {
            // A Status, or a list of those that were there. What has a finalizer stays, and is written again when it goes.
            known.retain(|(_, _, namespace, name), one| {
                let is_meant = one.resource == resource
                    && (*namespace == object_ref.namespace)
                    && (is_collection || *name == object_ref.name);
                !is_meant || has_finalizers(&one.object)
            });
        }
        "create" | "update" | "patch" | "get" | "delete" if is_whole => {
            learn(known, object, &resource);
        }
        "list" if is_whole => {
            let kind = object["kind"]
                .as_str()
                .and_then(|kind| kind.strip_suffix("List"));
            let (kind, version) = (
                kind.unwrap_or_default().to_owned(),
                object["apiVersion"].clone(),
            );
            for item in object["items"].as_array().cloned().unwrap_or_default() {
                let mut item = item;
                if item["kind"].is_null() {
                    (item["kind"], item["apiVersion"]) = (kind.clone().into(), version.clone());
                }
                learn(known, item, &resource);
            }
        }
        _ => {}
    }
}

/// Takes the state of an object, unless a later one is known.
fn learn(known: &mut BTreeMap<Key, Known>, object: Value, resource: &(String, String)) {
    let rv = |object: &Value| -> u64 {
        let rv = object["metadata"]["resourceVersion"].as_str();
        rv.and_then(|rv| rv.parse().ok()).unwrap_or(0)
    };
    let key = key(&object);
    // The response to a dry run has no version, and that of another kind no name.
    if rv(&object) == 0 || key.3.is_empty() {
        return;
    }
    if known
        .get(&key)
        .is_some_and(|before| rv(&before.object) > rv(&object))
    {
        return;
    }
    let metadata = &object["metadata"];
    let waits = metadata["deletionGracePeriodSeconds"].as_u64().unwrap_or(0) > 0;
    // The last state that a server shows of what it removes.
    let is_gone = metadata["deletionTimestamp"].is_string() && !has_finalizers(&object) && !waits;
    match is_gone {
        true => drop(known.remove(&key)),
        false => {
            let resource = resource.clone();
            known.insert(key, Known { object, resource });
        }
    }
}

fn has_finalizers(object: &Value) -> bool {
    let of_metadata = object["metadata"]["finalizers"].as_array();
    let of_namespace = object["spec"]["finalizers"].as_array();
    let mut all = of_metadata.into_iter().chain(of_namespace);
    all.any(|finalizers| !finalizers.is_empty())
}
