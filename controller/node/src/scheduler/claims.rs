//! The scheduler's part in ResourceClaims: it allocates devices to them and reserves them for pods.
//!
//! Source: `PreBind`, `PostFilter` and `Unreserve` of the plugin DynamicResources.

use std::sync::Arc;

use k8s_openapi::api::resource::v1::{AllocationResult, ResourceClaim, ResourceClaimStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use kubeproof_machinery::json::json;
use kubeproof_runtime::pod::Pod;
use kubeproof_runtime::resource_claim::{FINALIZER, is_allocated, key_of, user};
use kubeproof_runtime::retry::DEFAULT_RETRY;

use super::Scheduler;
use crate::fit::{FitError, Plugin, Profile, Reservation};

/// The reason why a claim was not reserved.
enum Refused {
    /// The server refused this change.
    Written(&'static str, kube::Error),
    /// The claim could not be read again after a conflict.
    Read(kube::Error),
    /// The claim has changed.
    Changed(&'static str),
}

impl Scheduler {
    fn claims(&self, namespace: &str) -> Api<ResourceClaim> {
        Api::namespaced(self.ctx.client.clone(), namespace)
    }

    /// Allocates and reserves claims for a pod. Returns upstream's error if that fails; no claim stays reserved then.
    pub(super) async fn reserve(
        &mut self,
        pod: &Arc<Pod>,
        reservations: Vec<Reservation>,
    ) -> Result<Result<(), String>, kube::Error> {
        for reservation in reservations {
            let refused = match self.reserve_one(pod, &reservation).await {
                Ok(claim) => {
                    self.devices.assume(claim);
                    continue;
                }
                Err(refused) => refused,
            };
            _ = self.unreserve(pod).await;
            let key = key_of(&*reservation.claim);
            let (text, status) = match refused {
                Refused::Changed(how) => {
                    return Ok(Err(format!("claim {key} got {how} in the meantime")));
                }
                Refused::Read(kube::Error::Api(status)) => {
                    (format!("get updated claim {key} after conflict"), status)
                }
                Refused::Written(what, kube::Error::Api(status)) => {
                    (format!("{what} claim {key}"), status)
                }
                Refused::Read(error) | Refused::Written(_, error) => return Err(error),
            };
            return Ok(Err(format!("{text}: {}", status.message)));
        }
        Ok(Ok(()))
    }

    /// Writes a claim's allocation, if it has none yet, and the pod as its user (`bindClaim`). A conflict is resolved with the
    /// claim as it is now.
    async fn reserve_one(
        &self,
        pod: &Pod,
        Reservation { claim, allocation }: &Reservation,
    ) -> Result<ResourceClaim, Refused> {
        let api = self.claims(&claim.namespace().unwrap_or_default());
        let mut claim = ResourceClaim::clone(claim);
        let mut delays = DEFAULT_RETRY.into_iter();
        loop {
            let name = claim.name_any();
            let (what, error) = match self
                .try_reserve(&api, pod, claim, allocation.as_ref())
                .await
            {
                Err(Refused::Written(what, error)) => (what, error),
                other => return other,
            };
            let delay = delays.next().filter(|_| is_conflict(&error));
            let Some(delay) = delay else {
                return Err(Refused::Written(what, error));
            };
            tokio::time::sleep(delay).await;
            let read = api.get(&name).await;
            claim = read.map_err(Refused::Read)?;
        }
    }

    async fn try_reserve(
        &self,
        api: &Api<ResourceClaim>,
        pod: &Pod,
        mut claim: ResourceClaim,
        allocation: Option<&AllocationResult>,
    ) -> Result<ResourceClaim, Refused> {
        let (name, params) = (claim.name_any(), PostParams::default());
        if claim.metadata.deletion_timestamp.is_some() {
            return Err(Refused::Changed("deleted"));
        }
        if allocation.is_some() && is_allocated(&claim) {
            return Err(Refused::Changed("allocated elsewhere"));
        }
        let is_protected = claim.finalizers().iter().any(|own| own == FINALIZER);
        if allocation.is_some() && !is_protected {
            claim.finalizers_mut().push(FINALIZER.to_owned());
            let written = api.replace(&name, &params, &claim).await;
            claim = written.map_err(|error| Refused::Written("add finalizer to", error))?;
        }
        let status = claim.status.get_or_insert_default();
        if let Some(allocation) = allocation {
            status.allocation = Some(allocation.clone());
        }
        let users = status.reserved_for.get_or_insert_default();
        users.push(user(pod));
        let Some(own) = &mut status.allocation else {
            return Err(Refused::Changed("deallocated elsewhere"));
        };
        let now = (self.ctx.now)();
        own.allocation_timestamp.get_or_insert(Time(now));
        let written = api.replace_status(&name, &params, &claim).await;
        let what = match allocation {
            Some(_) => "add allocation and reservation to",
            None => "add reservation to",
        };
        written.map_err(|error| Refused::Written(what, error))
    }

    /// Takes the pod from the users of all its claims, also of those that an earlier attempt has reserved. Returns whether
    /// there were any. A failure is logged: the next attempt begins with a claim that is reserved already.
    pub(super) async fn unreserve(&mut self, pod: &Pod) -> bool {
        let claims = self.devices.reserved_for(pod);
        for claim in &claims {
            let removed = json!({ "$patch": "delete", "uid": pod.metadata.uid });
            let patch = Patch::Strategic(json!({
                "metadata": { "uid": claim.metadata.uid },
                "status": { "reservedFor": [removed] },
            }));
            let api = self.claims(&claim.namespace().unwrap_or_default());
            let params = PatchParams::default();
            let name = claim.name_any();
            match api.patch_status(&name, &params, &patch).await {
                Ok(claim) => self.devices.assume(claim),
                Err(error) => tracing::warn!(name, %error, "claim not unreserved"),
            }
        }
        !claims.is_empty()
    }

    /// Takes the devices of a claim that the pod cannot reach, if no other pod uses it (`PostFilter`).
    pub(super) async fn deallocate(
        &mut self,
        pod: &Pod,
        profile: &Profile,
        fit_error: &FitError,
    ) -> Result<(), kube::Error> {
        let takes = profile.post_filter.contains(&Plugin::DynamicResources);
        let claim = fit_error.claims.deallocated(pod);
        let Some(claim) = claim.filter(|_| takes && !fit_error.is_error()) else {
            return Ok(());
        };
        let mut claim = ResourceClaim::clone(claim);
        claim.status = Some(ResourceClaimStatus::default());
        let api = self.claims(&claim.namespace().unwrap_or_default());
        let written = api
            .replace_status(&claim.name_any(), &PostParams::default(), &claim)
            .await;
        match written {
            Ok(claim) => self.devices.assume(claim),
            Err(kube::Error::Api(status)) => {
                tracing::warn!(error = status.message, "claim not deallocated");
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.reason == "Conflict")
}
