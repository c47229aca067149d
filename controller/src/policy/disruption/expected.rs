//! How many pods the owners of a budget's pods want.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::ReplicationController;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::{Api, Client, ResourceExt};
use kubeproof_runtime::controller_ref::controller_of;
use kubeproof_runtime::discovery::{APIResource, server_preferred_resources};
use kubeproof_runtime::int_or_percent::{Round, resolve};
use kubeproof_runtime::pod::Pod;
use kubeproof_runtime::sync_error::Error;
use serde::de::DeserializeOwned;

/// The groups that ReplicaSets and Deployments have or had.
const WORKLOADS: [&str; 2] = ["apps", "extensions"];

/// The numbers of pods that a budget protects.
#[derive(Clone, Copy, Debug)]
pub(super) struct Protected {
    pub(super) expected: i32,
    pub(super) desired_healthy: i32,
    /// Pods have no controller, so their number is not known.
    pub(super) has_unmanaged: bool,
}

/// Computes how many pods the owners of `pods` want, and how many of them have to stay healthy.
///
/// # Errors
/// An owner has no number of replicas, or cannot be read.
pub(super) async fn protect(
    client: &Client,
    budget: &PodDisruptionBudget,
    pods: &[Arc<Pod>],
) -> Result<Protected, Error> {
    let spec = budget.spec.clone().unwrap_or_default();
    if let Some(limit) = &spec.max_unavailable {
        let (expected, has_unmanaged) = scale_of_all(client, pods).await?;
        let limit = resolve(limit, expected, Round::Up).unwrap_or(0);
        return Ok(Protected {
            expected,
            desired_healthy: (expected - limit).max(0),
            has_unmanaged,
        });
    }
    let (expected, has_unmanaged) = match &spec.min_available {
        None => (0, false),
        Some(IntOrString::Int(_)) => (i32::try_from(pods.len()).unwrap_or(i32::MAX), false),
        Some(IntOrString::String(_)) => scale_of_all(client, pods).await?,
    };
    let minimum = spec.min_available.as_ref();
    let minimum = minimum.and_then(|minimum| resolve(minimum, expected, Round::Up));
    Ok(Protected {
        expected,
        desired_healthy: minimum.unwrap_or(0),
        has_unmanaged,
    })
}

/// The replicas of all owners of `pods`, each owner once, and whether there are pods without an owner.
async fn scale_of_all(client: &Client, pods: &[Arc<Pod>]) -> Result<(i32, bool), Error> {
    let mut by_owner: BTreeMap<String, i32> = BTreeMap::new();
    let mut has_unmanaged = false;
    for pod in pods {
        let Some(owner) = controller_of(&pod.metadata) else {
            has_unmanaged = true;
            continue;
        };
        if by_owner.contains_key(&owner.uid) {
            continue;
        }
        let namespace = pod.namespace().unwrap_or_default();
        let owners = Owners { client, namespace };
        let scale = owners.scale_of(owner).await?;
        let (uid, replicas) = scale.ok_or_else(|| Error::NoScale(pod.name_any()))?;
        by_owner.insert(uid, replicas);
    }
    Ok((by_owner.values().sum(), has_unmanaged))
}

/// The uid of a controller and its replicas.
type Scale = (String, i32);

/// The owners of the pods in a namespace.
struct Owners<'a> {
    client: &'a Client,
    namespace: String,
}

impl Owners<'_> {
    /// The uid and the replicas of an owner; of a ReplicaSet's Deployment rather than of the ReplicaSet.
    async fn scale_of(&self, owner: &OwnerReference) -> Result<Option<Scale>, Error> {
        let group = group_of(&owner.api_version)?;
        let known = match (group, &*owner.kind) {
            ("", "ReplicationController") => self.replication_controller(owner).await?,
            ("apps" | "extensions", "ReplicaSet") => self.replica_set(owner).await?,
            ("apps", "StatefulSet") => self.stateful_set(owner).await?,
            _ => None,
        };
        match known {
            Some(known) => Ok(Some(known)),
            None => self.scalable(group, owner).await,
        }
    }

    async fn replication_controller(&self, owner: &OwnerReference) -> Result<Option<Scale>, Error> {
        let found: Option<ReplicationController> = self.get(owner).await?;
        Ok(found.map(|found| {
            let replicas = found.spec.and_then(|spec| spec.replicas);
            (owner.uid.clone(), replicas.unwrap_or(0))
        }))
    }

    async fn stateful_set(&self, owner: &OwnerReference) -> Result<Option<Scale>, Error> {
        let found: Option<StatefulSet> = self.get(owner).await?;
        Ok(found.map(|found| {
            let replicas = found.spec.and_then(|spec| spec.replicas);
            (owner.uid.clone(), replicas.unwrap_or(0))
        }))
    }

    /// The replicas of the ReplicaSet's Deployment, or its own if it has none. A Deployment that is gone leaves it to the subresource.
    async fn replica_set(&self, owner: &OwnerReference) -> Result<Option<Scale>, Error> {
        let Some(set) = self.get::<ReplicaSet>(owner).await? else {
            return Ok(None);
        };
        let Some(above) = controller_of(&set.metadata).filter(|above| above.kind == "Deployment")
        else {
            let replicas = set.spec.and_then(|spec| spec.replicas);
            return Ok(Some((owner.uid.clone(), replicas.unwrap_or(0))));
        };
        if !WORKLOADS.contains(&group_of(&above.api_version)?) {
            return Ok(None);
        }
        let found: Option<Deployment> = self.get(above).await?;
        Ok(found.map(|found| {
            let replicas = found.spec.and_then(|spec| spec.replicas);
            (above.uid.clone(), replicas.unwrap_or(0))
        }))
    }

    /// The uid and the replicas of another owner, by its subresource `scale`.
    async fn scalable(&self, group: &str, owner: &OwnerReference) -> Result<Option<Scale>, Error> {
        let discovered = server_preferred_resources(self.client).await?;
        let mut resources = discovered.resources.into_iter();
        let resource = resources.find(|resource| resource.is(group, &owner.kind));
        let resource = resource.ok_or_else(|| {
            let (kind, version) = (&owner.kind, &owner.api_version);
            Error::Refused(format!(
                "no matches for kind {kind:?} in version {version:?}"
            ))
        })?;
        let api = resource.api(self.client, &self.namespace);
        match api.get_scale(&owner.name).await.map_err(Error::from) {
            Ok(scale) if scale.metadata.uid.as_ref() == Some(&owner.uid) => {
                let replicas = scale.spec.and_then(|spec| spec.replicas);
                Ok(Some((owner.uid.clone(), replicas.unwrap_or(0))))
            }
            Ok(_) => Ok(None),
            Err(error) if error.is_not_found() => {
                if self.implements_scale(&resource).await? {
                    return Ok(None);
                }
                let (plural, dot) = (
                    &resource.resource.plural,
                    if group.is_empty() { "" } else { "." },
                );
                Err(Error::Refused(format!(
                    "{plural}{dot}{group} does not implement the scale subresource"
                )))
            }
            Err(error) => Err(error),
        }
    }

    async fn implements_scale(&self, resource: &APIResource) -> Result<bool, Error> {
        let version = resource.group_version().to_string();
        let listed = if resource.resource.group.is_empty() {
            self.client.list_core_api_resources(&version).await?
        } else {
            self.client.list_api_group_resources(&version).await?
        };
        let name = format!("{}/scale", resource.resource.plural);
        let mut resources = listed.resources.iter();
        Ok(resources.any(|one| one.name == name && one.kind == "Scale"))
    }

    /// Returns the owner; None if it is gone, or if another object has its name.
    async fn get<K>(&self, owner: &OwnerReference) -> Result<Option<K>, Error>
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
        K: Clone + Debug + DeserializeOwned,
    {
        let api: Api<K> = Api::namespaced(self.client.clone(), &self.namespace);
        let found = api.get_opt(&owner.name).await?;
        Ok(found.filter(|found| found.uid().as_ref() == Some(&owner.uid)))
    }
}

/// The group of an API version.
fn group_of(api_version: &str) -> Result<&str, Error> {
    if api_version.matches('/').count() > 1 {
        let what = format!("unexpected GroupVersion string: {api_version}");
        return Err(Error::Refused(what));
    }
    Ok(api_version.split_once('/').map_or("", |(group, _)| group))
}
