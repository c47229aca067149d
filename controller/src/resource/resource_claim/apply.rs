//! The writes of the resourceclaim controller.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::PodResourceClaim;
use k8s_openapi::api::resource::v1::{ResourceClaim, ResourceClaimConsumerReference};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use kubeproof_runtime::clock::later;
use kubeproof_runtime::pod::{self, Pod, reference};
use kubeproof_runtime::recorder::EventType;
use kubeproof_runtime::resource_claim::{
    FINALIZER, check_owner, key_of, of_pod, reserved_for, used_claim, user,
};
use kubeproof_runtime::store;
use kubeproof_runtime::sync_error::Error;
use serde_json::{Value, json};

use super::reconcile::{self, Need};
use super::{Controller, MADE_KEPT};

/// The field manager of the claims in a pod's status.
const FIELD_MANAGER: &str = "ResourceClaimController";

impl Controller {
    fn claims_api(&self, namespace: &str) -> Api<ResourceClaim> {
        Api::namespaced(self.ctx.client.clone(), namespace)
    }

    /// Makes the claims that the pod lacks, and reserves those of a pod that has a node.
    pub(super) async fn sync_pod(&self, pod: &Pod) -> Result<(), Error> {
        let mut made = BTreeMap::new();
        for own in of_pod(pod) {
            match self.claim_for(pod, own).await {
                Ok(Some(claim)) => _ = made.insert(own.name.clone(), claim.name_any()),
                Ok(None) => {}
                Err(why) => {
                    let message = format!("PodResourceClaim {}: {why}", own.name);
                    let reason = "FailedResourceClaimCreation";
                    self.recorder
                        .publish(&reference(pod), EventType::Warning, reason, &message)
                        .await;
                    return Err(Error::Claim(format!("pod {}, {message}", key_of(pod))));
                }
            }
        }
        if !made.is_empty() {
            self.write_names(pod, &made).await?;
        }
        if pod::node(pod).is_empty() {
            return Ok(());
        }
        let namespace = pod.namespace().unwrap_or_default();
        for own in of_pod(pod) {
            // Claims that were made just now are seen in the next sync.
            let used = used_claim(pod, own).map_err(|error| Error::Claim(error.to_string()))?;
            let Some(used) = used else {
                continue;
            };
            let Some(claim) = self.claims.get(&namespace, used.name) else {
                return Ok(());
            };
            if used.is_generated {
                check_owner(pod, &claim).map_err(Error::Claim)?;
            }
            if reconcile::needs_reservation(pod, &claim) {
                self.reserve(pod, &claim).await?;
            }
        }
        Ok(())
    }

    /// Returns the claim that is new to the pod's status: one that was made before, or is made now.
    async fn claim_for(
        &self,
        pod: &Pod,
        own: &PodResourceClaim,
    ) -> Result<Option<Arc<ResourceClaim>>, String> {
        let namespace = pod.namespace().unwrap_or_default();
        let template = match reconcile::need(pod, own, |name| self.claims.get(&namespace, name))? {
            Need::Nothing => return Ok(None),
            Need::Generate(template) => template,
        };
        let uid = pod.uid().unwrap_or_default();
        let known = self.claims.controlled_by(&namespace, &uid);
        let mut known = known.into_iter().chain(self.made_for(pod));
        if let Some(claim) = known.find(|claim| reconcile::is_for(claim, own)) {
            return Ok(Some(claim));
        }
        let found = self.templates.get(&namespace, &template).ok_or_else(|| {
            format!(
                "resource claim template {template:?}: resourceclaimtemplate.resource.k8s.io \
                 {template:?} not found"
            )
        })?;
        let claim = reconcile::generated(pod, own, &found);
        let api = self.claims_api(&namespace);
        let made = api.create(&PostParams::default(), &claim).await;
        // The name is not known before.
        let made =
            made.map_err(|error| format!("create ResourceClaim : {}", Error::from(error)))?;
        let made = Arc::new(made);
        let until = later((self.ctx.now)(), MADE_KEPT);
        let remembered = (Arc::clone(&made), until);
        self.made
            .lock()
            .put(made.uid().unwrap_or_default(), remembered);
        Ok(Some(made))
    }

    /// Returns the claims that were made for the pod lately.
    fn made_for(&self, pod: &Pod) -> Vec<Arc<ResourceClaim>> {
        let now = (self.ctx.now)();
        let made = self.made.lock();
        let made = made.iter().map(|(_, own)| own);
        let made = made.filter(|(claim, until)| *until > now && check_owner(pod, claim).is_ok());
        made.map(|(claim, _)| Arc::clone(claim)).collect()
    }

    /// Writes the names of claims into the pod's status.
    async fn write_names(&self, pod: &Pod, made: &BTreeMap<String, String>) -> Result<(), Error> {
        let statuses = made.iter();
        let statuses =
            statuses.map(|(own, claim)| json!({"name": own, "resourceClaimName": claim}));
        let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
        let patch = Patch::Apply(json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": { "namespace": namespace, "name": name },
            "status": { "resourceClaimStatuses": statuses.collect::<Vec<Value>>() },
        }));
        let api: Api<Pod> = Api::namespaced(self.ctx.client.clone(), &namespace);
        let params = PatchParams::apply(FIELD_MANAGER).force();
        let written = api.patch_status(&name, &params, &patch).await;
        written.map(|_| ()).map_err(|error| {
            let error = Error::from(error);
            let pod = key_of(pod);
            Error::Claim(format!("update pod {pod} ResourceClaimStatuses: {error}"))
        })
    }

    async fn reserve(&self, pod: &Pod, claim: &ResourceClaim) -> Result<(), Error> {
        let mut claim = claim.clone();
        let status = claim.status.get_or_insert_default();
        let users = status.reserved_for.get_or_insert_default();
        users.push(user(pod));
        self.write_status(&claim).await?;
        Ok(())
    }

    async fn write_status(&self, claim: &ResourceClaim) -> Result<ResourceClaim, Error> {
        let api = self.claims_api(&claim.namespace().unwrap_or_default());
        let params = PostParams::default();
        let written = api.replace_status(&claim.name_any(), &params, claim).await;
        written.map_err(Error::from)
    }

    /// Ends the use of a claim by pods that are done; deletes it if it was made for such a pod.
    pub(super) async fn sync_claim(&self, claim: &ResourceClaim) -> Result<(), Error> {
        let mut remaining = Vec::new();
        for own in reserved_for(claim) {
            if self.is_in_use(claim, own).await? {
                remaining.push(own.clone());
            }
        }
        let release = reconcile::release(claim, remaining);
        let mut written = claim.clone();
        if release.users.is_some() || release.deallocates {
            let status = written.status.get_or_insert_default();
            if let Some(users) = release.users {
                status.reserved_for = Some(users);
            }
            if release.deallocates {
                status.allocation = None;
            }
            written = self.write_status(&written).await?;
        }
        if release.unprotects {
            let finalizers = written.finalizers_mut();
            finalizers.retain(|own| own != FINALIZER);
            let api = self.claims_api(&claim.namespace().unwrap_or_default());
            let params = PostParams::default();
            written = api.replace(&claim.name_any(), &params, &written).await?;
        }
        // The next sync is not to repeat these writes.
        if written.metadata.deletion_timestamp.is_some() && written.finalizers().is_empty() {
            self.claims.wait_for_deletion(&written).await;
        } else {
            let version = store::resource_version(&written);
            self.claims.wait_for(self.claims.wrote_at(version)).await;
        }
        if release.is_unused {
            self.delete_generated(claim).await?;
        }
        Ok(())
    }

    /// Returns whether a user of a claim may still need it. Users other than pods are left alone.
    async fn is_in_use(
        &self,
        claim: &ResourceClaim,
        own: &ResourceClaimConsumerReference,
    ) -> Result<bool, Error> {
        let group = own.api_group.as_deref().unwrap_or_default();
        if !group.is_empty() || own.resource != "pods" {
            return Ok(true);
        }
        if self.deleted.lock().contains(&own.uid) {
            return Ok(false);
        }
        let namespace = claim.namespace().unwrap_or_default();
        if let Some(pod) = self.pods.get(&namespace, &own.name) {
            let is_it = pod.metadata.uid.as_ref() == Some(&own.uid);
            return Ok(is_it && !reconcile::is_done(&pod));
        }
        // The cache may be behind.
        let api: Api<Pod> = Api::namespaced(self.ctx.client.clone(), &namespace);
        let pod = api.get_opt(&own.name).await?;
        Ok(pod.is_some_and(|pod| pod.metadata.uid.as_ref() == Some(&own.uid)))
    }

    /// Deletes an unused claim if it was made for a pod that is done or was replaced. Where the pod is gone, the garbage
    /// collector does that.
    async fn delete_generated(&self, claim: &ResourceClaim) -> Result<(), Error> {
        let namespace = claim.namespace().unwrap_or_default();
        let Some((name, uid)) = reconcile::owning_pod(claim) else {
            return Ok(());
        };
        let Some(pod) = self.pods.get(&namespace, name) else {
            return Ok(());
        };
        if pod.metadata.uid.as_deref() == Some(uid) && !reconcile::is_done(&pod) {
            return Ok(());
        }
        let api = self.claims_api(&namespace);
        let deleted = api
            .delete(&claim.name_any(), &DeleteParams::default())
            .await;
        deleted.map(|_| ()).map_err(|error| {
            let (claim, error) = (key_of(claim), Error::from(error));
            Error::Claim(format!("delete unused generated claim {claim}: {error}"))
        })
    }
}
