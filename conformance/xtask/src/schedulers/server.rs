//! A server with a scheduler, to which cases are given.

use std::io::{BufRead, BufReader};

use anyhow::{Context as _, bail};
use serde_json::{Value, json};

/// A stored object, and the status that it gets after its creation.
#[derive(Clone)]
pub(super) struct Stored {
    pub(super) object: Value,
    pub(super) status: Option<Value>,
}

impl Stored {
    pub(super) fn new(object: Value) -> Self {
        Self {
            object,
            status: None,
        }
    }

    pub(super) fn status(self, status: Value) -> Self {
        Self {
            status: Some(status),
            ..self
        }
    }
}

/// An API server without authentication.
pub(super) struct Server {
    agent: ureq::Agent,
    url: String,
}

impl Server {
    pub(super) fn at(url: &str) -> Self {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .build();
        Self {
            agent: config.into(),
            url: url.to_owned(),
        }
    }

    /// Creates an object in the collection of its kind.
    pub(super) fn create(&self, object: &Value) -> anyhow::Result<Value> {
        let url = format!("{}{}", self.url, collection_of(object)?);
        let response = self.agent.post(&url).send(object.to_string());
        read(response, &format!("POST {url} {object}"))
    }

    /// Creates an object and gives it its status.
    pub(super) fn store(&self, stored: &Stored) -> anyhow::Result<()> {
        self.create(&stored.object)?;
        match &stored.status {
            Some(status) => self.patch(&format!("{}/status", path_of(&stored.object)?), status),
            None => Ok(()),
        }
    }

    /// Merges a patch into the object at `path`.
    pub(super) fn patch(&self, path: &str, patch: &Value) -> anyhow::Result<()> {
        let url = format!("{}{path}", self.url);
        let request = self
            .agent
            .patch(&url)
            .header("Content-Type", "application/merge-patch+json");
        read(
            request.send(patch.to_string()),
            &format!("PATCH {url} {patch}"),
        )?;
        Ok(())
    }

    /// Deletes the object at `path`, which may be gone.
    pub(super) fn delete(&self, path: &str, grace: u32) -> anyhow::Result<()> {
        let url = format!("{}{path}?gracePeriodSeconds={grace}", self.url);
        let response = self.agent.delete(&url).call()?;
        match response.status().as_u16() {
            200 | 202 | 404 => Ok(()),
            code => bail!("DELETE {url}: {code}"),
        }
    }

    pub(super) fn list(&self, path: &str) -> anyhow::Result<Vec<Value>> {
        let url = format!("{}{path}", self.url);
        let mut list = read(self.agent.get(&url).call(), &format!("GET {url}"))?;
        match list["items"].take() {
            Value::Array(items) => Ok(items),
            _ => Ok(Vec::new()),
        }
    }

    /// Deletes all objects of these collections at once, whatever their finalizers.
    pub(super) fn clear(&self, collections: &[&str]) -> anyhow::Result<()> {
        for collection in collections {
            for object in self.list(collection)? {
                let path = match object["metadata"]["namespace"].as_str() {
                    None => format!("{collection}/{}", name_of(&object)),
                    Some(namespace) => {
                        let (group, plural) = collection.rsplit_once('/').unwrap_or_default();
                        format!(
                            "{group}/namespaces/{namespace}/{plural}/{}",
                            name_of(&object)
                        )
                    }
                };
                if object["metadata"]["finalizers"].is_array() {
                    self.patch(&path, &json!({ "metadata": { "finalizers": null } }))?;
                }
                self.delete(&path, 0)?;
            }
        }
        Ok(())
    }

    /// Calls `see` with each object of the collection that comes in a watch, until it returns a value. Returns None
    /// after `limit` seconds.
    pub(super) fn watch<T>(
        &self,
        query: &str,
        limit: u32,
        mut see: impl FnMut(&Value) -> Option<T>,
    ) -> anyhow::Result<Option<T>> {
        let url = format!("{}{query}&watch=true&timeoutSeconds={limit}", self.url);
        let response = self.agent.get(&url).call().context("watch")?;
        let reader = BufReader::new(response.into_body().into_reader());
        for line in reader.lines() {
            let event: Value = serde_json::from_str(&line?)?;
            if let Some(found) = see(&event["object"]) {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }
}

fn read(
    response: Result<ureq::http::Response<ureq::Body>, ureq::Error>,
    what: &str,
) -> anyhow::Result<Value> {
    let mut response = response.with_context(|| what.to_owned())?;
    let text = response.body_mut().read_to_string()?;
    if !response.status().is_success() {
        bail!("{what}: {text}");
    }
    Ok(serde_json::from_str(&text)?)
}

pub(super) fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// Returns the path of an object.
pub(super) fn path_of(object: &Value) -> anyhow::Result<String> {
    Ok(format!("{}/{}", collection_of(object)?, name_of(object)))
}

fn collection_of(object: &Value) -> anyhow::Result<String> {
    let kind = object["kind"].as_str().unwrap_or_default();
    let (group, plural) = match kind {
        "CSIDriver" => ("/apis/storage.k8s.io/v1", "csidrivers"),
        "CSINode" => ("/apis/storage.k8s.io/v1", "csinodes"),
        "CSIStorageCapacity" => ("/apis/storage.k8s.io/v1", "csistoragecapacities"),
        "VolumeAttachment" => ("/apis/storage.k8s.io/v1", "volumeattachments"),
        "Namespace" => ("/api/v1", "namespaces"),
        "Node" => ("/api/v1", "nodes"),
        "PersistentVolume" => ("/api/v1", "persistentvolumes"),
        "PersistentVolumeClaim" => ("/api/v1", "persistentvolumeclaims"),
        "Pod" => ("/api/v1", "pods"),
        "PodDisruptionBudget" => ("/apis/policy/v1", "poddisruptionbudgets"),
        "PriorityClass" => ("/apis/scheduling.k8s.io/v1", "priorityclasses"),
        "ReplicaSet" => ("/apis/apps/v1", "replicasets"),
        "ReplicationController" => ("/api/v1", "replicationcontrollers"),
        "Service" => ("/api/v1", "services"),
        "StatefulSet" => ("/apis/apps/v1", "statefulsets"),
        "StorageClass" => ("/apis/storage.k8s.io/v1", "storageclasses"),
        unknown => bail!("no collection of {unknown}"),
    };
    Ok(match object["metadata"]["namespace"].as_str() {
        Some(namespace) => format!("{group}/namespaces/{namespace}/{plural}"),
        None => format!("{group}/{plural}"),
    })
}
