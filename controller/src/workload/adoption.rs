//! Adopts the objects that a workload selects, and releases those that it no longer selects.

use std::fmt::Debug;
use std::future::Future;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::{Patch, PatchParams};
use kube::{Api, Resource, ResourceExt};
use kubeproof_runtime::controller_ref::{Claim, adopt_patch, claim, release_patch};
use kubeproof_runtime::sync_error::Error;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The claims of an owner to objects of one kind.
pub(crate) struct Claims<'a, K> {
    pub(crate) api: Api<K>,
    pub(crate) owner: &'a ObjectMeta,
    /// The reference with which the owner controls an object.
    pub(crate) reference: OwnerReference,
    /// Put on what is adopted, and removed from what is released.
    pub(crate) finalizer: Option<&'static str>,
}

impl<K> Claims<'_, K>
where
    K: Resource + Clone + DeserializeOwned + Serialize + Debug,
{
    /// Returns the members of `objects` that the owner controls after adopting and releasing.
    ///
    /// `confirm` is awaited before the first adoption, if any; `wrote` is called with each written
    /// object.
    pub(crate) async fn claim_all(
        &self,
        objects: Vec<Arc<K>>,
        matches: impl Fn(&K) -> bool,
        confirm: impl Future<Output = Result<(), Error>>,
        wrote: impl Fn(&K),
    ) -> Result<Vec<Arc<K>>, Error> {
        let mut claimed = Vec::new();
        let mut errors = Vec::new();
        let mut confirm = Some(confirm);
        let mut confirmed = false;
        for object in objects {
            match claim(self.owner, object.meta(), matches(&object)) {
                Claim::Ignore => {}
                Claim::Keep => claimed.push(object),
                Claim::Release => match self.release(&object).await {
                    Ok(released) => wrote(&released),
                    // Gone, or replaced by another object: released all the same.
                    Err(error) if error.is_not_found() || error.is_invalid() => {}
                    Err(error) => errors.push(error),
                },
                Claim::Adopt => {
                    if let Some(confirm) = confirm.take() {
                        let outcome = confirm.await;
                        confirmed = outcome.is_ok();
                        errors.extend(outcome.err());
                    }
                    if !confirmed {
                        continue;
                    }
                    match self.adopt(&object).await {
                        Ok(adopted) => {
                            wrote(&adopted);
                            claimed.push(object);
                        }
                        Err(error) if error.is_not_found() => {}
                        Err(error) => errors.push(error),
                    }
                }
            }
        }
        Error::collect(errors)?;
        Ok(claimed)
    }

    async fn adopt(&self, object: &K) -> Result<K, Error> {
        let uid = object.uid().unwrap_or_default();
        let patch = adopt_patch(&self.reference, self.finalizer, &uid);
        self.patch(object, patch).await
    }

    async fn release(&self, object: &K) -> Result<K, Error> {
        let uid = object.uid().unwrap_or_default();
        let patch = release_patch(&self.reference.uid, self.finalizer, &uid);
        self.patch(object, patch).await
    }

    async fn patch(&self, object: &K, patch: serde_json::Value) -> Result<K, Error> {
        let (name, params) = (object.name_any(), PatchParams::default());
        let patch = Patch::Strategic(patch);
        Ok(self.api.patch(&name, &params, &patch).await?)
    }
}

/// Confirms with the server, not the cache, that `owner` still exists and may adopt objects.
pub(crate) async fn confirm<K>(
    api: &Api<K>,
    owner: &ObjectMeta,
    kind: &str,
    what: &'static str,
) -> Result<(), Error>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let name = owner.name.as_deref().unwrap_or_default();
    let namespace = owner.namespace.as_deref().unwrap_or_default();
    let wanted = owner.uid.as_deref().unwrap_or_default();
    let live = api.get(name).await?;
    let uid = live.uid().unwrap_or_default();
    if uid != wanted {
        let reason =
            format!("original {kind} {namespace}/{name} is gone: got uid {uid}, wanted {wanted}");
        return Err(Error::CannotAdopt { what, reason });
    }
    if let Some(time) = &live.meta().deletion_timestamp {
        let reason = format!("{namespace}/{name} has just been deleted at {}", time.0);
        return Err(Error::CannotAdopt { what, reason });
    }
    Ok(())
}
