//! The namespaces that scenarios have on a cluster that is there already.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client, ResourceExt};
use kubeproof_machinery::json::json;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::api::ApiError;
use crate::recording::RESOURCES;

/// By this label a namespace is known as one that a run has made, and may remove.
const MADE_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "kubeproof");
/// A namespace that still exists after this long, in real time, is left to its cluster.
const REMOVAL_TIME_MAX: Duration = Duration::from_secs(120);
const REMOVAL_POLL: Duration = Duration::from_millis(200);
/// Pods that their nodes have not ended after this long, in real time, are removed without them: the scenario may have
/// let a node fail or a pod never stop.
const PODS_TIME_MAX: Duration = Duration::from_secs(20);

/// Why a namespace cannot be made or removed.
#[derive(Debug, thiserror::Error)]
pub enum NamespaceError {
    /// The server refused a request, or did not answer.
    #[error(transparent)]
    Api(ApiError),
    /// There is one of that name which no run has made.
    #[error("it exists already, and kubeproof did not create it")]
    Foreign,
    /// The namespace is not removed in time.
    #[error("it still exists {0} s after its deletion")]
    Remains(u64),
}

impl From<kube::Error> for NamespaceError {
    fn from(error: kube::Error) -> Self {
        Self::Api(error.into())
    }
}

/// The namespaces that runs have made and not removed yet, each with the finalizers that its scenario
/// puts onto objects.
#[derive(Debug, Default)]
pub struct Namespaces(Mutex<BTreeMap<String, BTreeSet<String>>>);

impl Namespaces {
    /// Makes `name`. One that an earlier run has left there is removed first.
    pub(super) async fn make(
        &self,
        client: &Client,
        name: &str,
        finalizers: BTreeSet<String>,
    ) -> Result<(), NamespaceError> {
        // The name is noted first: a caller that drops this future cannot know whether the namespace was created.
        self.0.lock().insert(name.to_owned(), finalizers);
        let api: Api<Namespace> = Api::all(client.clone());
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(name.to_owned());
        namespace
            .labels_mut()
            .insert(MADE_BY.0.into(), MADE_BY.1.into());
        let parameters = PostParams::default();
        match api.create(&parameters, &namespace).await {
            Err(kube::Error::Api(status)) if status.is_already_exists() => {}
            created => return Ok(created.map(drop)?),
        }
        let found = api.get_opt(name).await?;
        if found.is_some_and(|found| !is_ours(&found)) {
            self.0.lock().remove(name);
            return Err(NamespaceError::Foreign);
        }
        self.delete(client, name).await?;
        Ok(api.create(&parameters, &namespace).await.map(drop)?)
    }

    /// Deletes `name` with its objects, and returns when the namespace is gone.
    pub(super) async fn remove(&self, client: &Client, name: &str) -> Result<(), NamespaceError> {
        self.delete(client, name).await?;
        self.0.lock().remove(name);
        Ok(())
    }

    /// Removes what runs have left that were dropped in the middle.
    ///
    /// # Errors
    /// The names of those that remain, with the reason.
    pub async fn remove_all(&self, client: &Client) -> Result<(), Vec<(String, NamespaceError)>> {
        let names: Vec<String> = self.0.lock().keys().cloned().collect();
        let removals = names.into_iter().map(|name| async move {
            let removed = self.remove(client, &name).await;
            removed.err().map(|error| (name, error))
        });
        let remaining = futures::future::join_all(removals).await;
        let remaining: Vec<_> = remaining.into_iter().flatten().collect();
        if remaining.is_empty() {
            Ok(())
        } else {
            Err(remaining)
        }
    }

    async fn delete(&self, client: &Client, name: &str) -> Result<(), NamespaceError> {
        let api: Api<Namespace> = Api::all(client.clone());
        match api.delete(name, &DeleteParams::default()).await {
            Err(kube::Error::Api(status)) if status.is_not_found() => return Ok(()),
            // The namespace is already terminating.
            Err(kube::Error::Api(status)) if status.is_conflict() => {}
            deleted => drop(deleted?),
        }
        let finalizers = self.0.lock().get(name).cloned().unwrap_or_default();
        let began = Instant::now();
        let mut has_forced = false;
        while api.get_opt(name).await?.is_some() {
            if began.elapsed() > REMOVAL_TIME_MAX {
                return Err(NamespaceError::Remains(REMOVAL_TIME_MAX.as_secs()));
            }
            if !has_forced && began.elapsed() > PODS_TIME_MAX {
                let pods: Api<Pod> = Api::namespaced(client.clone(), name);
                let at_once = DeleteParams::default().grace_period(0);
                pods.delete_collection(&at_once, &ListParams::default())
                    .await?;
                has_forced = true;
            }
            if !finalizers.is_empty() {
                release(client, name, &finalizers).await?;
            }
            tokio::time::sleep(REMOVAL_POLL).await;
        }
        Ok(())
    }
}

fn is_ours(namespace: &Namespace) -> bool {
    let label = namespace.labels().get(MADE_BY.0);
    label.is_some_and(|value| value == MADE_BY.1)
}

/// Takes `finalizers` off the objects in the namespace that are being deleted.
async fn release(
    client: &Client,
    namespace: &str,
    finalizers: &BTreeSet<String>,
) -> Result<(), kube::Error> {
    for (group, version, kind, plural) in RESOURCES {
        let gvk = GroupVersionKind::gvk(group, version, kind);
        let resource = ApiResource::from_gvk_with_plural(&gvk, plural);
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
        let listed = match api.list(&ListParams::default()).await {
            // Not every cluster has all kinds.
            Err(kube::Error::Api(status)) if status.code == 404 => continue,
            listed => listed?,
        };
        for object in listed {
            let held = object.finalizers();
            let rest: Vec<_> = held
                .iter()
                .filter(|name| !finalizers.contains(*name))
                .collect();
            if object.metadata.deletion_timestamp.is_none() || rest.len() == held.len() {
                continue;
            }
            let version = &object.metadata.resource_version;
            let patch = json!({"metadata": {"finalizers": rest, "resourceVersion": version}});
            let (name, patch) = (object.name_any(), Patch::Merge(patch));
            match api.patch(&name, &PatchParams::default(), &patch).await {
                // Another client was faster; the next round sees the remaining objects.
                Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
                patched => drop(patched?),
            }
        }
    }
    Ok(())
}
