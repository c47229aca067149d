//! From the choice of a node to the binding of the pod.
//!
//! Source: `bindingCycle` of `pkg/scheduler/schedule_one.go`.

use std::sync::Arc;
use std::time::Duration;

use kube::Api;
use kube::api::PostParams;
use kubeproof_machinery::json::{Value, json};
use kubeproof_runtime::pod::{Pod, reference};
use kubeproof_runtime::recorder::{EventParams, EventType};
use kubeproof_runtime::retry::retry_after;
use kubeproof_runtime::store::{self, ObjectKey};
use kubeproof_runtime::sync_error::answered;

use super::Scheduler;
use super::node_cache::NodeCache;
use crate::fit::{Choice, FitError, NoPlan, Plugin, Profile};
use crate::pace::after;

impl Scheduler {
    /// Takes the pod's claims and volumes on the chosen node, and binds the pod once they are there.
    pub(super) async fn place(
        &mut self,
        key: &ObjectKey,
        pod: &Arc<Pod>,
        choice: Choice,
        cache: &mut NodeCache,
    ) -> Result<(), kube::Error> {
        let Choice { node, bindings, .. } = choice;
        let waits = !bindings.is_empty();
        // The pod keeps its place on the node until its claims are reserved and its volumes are bound.
        if waits || choice.has_claims {
            self.nominate(pod, &node).await?;
        }
        if let Err(error) = self.reserve(pod, choice.reservations).await? {
            self.back_off(store::uid(&**pod));
            let fit_error = FitError::of_claims(&error);
            return self
                .refuse(key, pod, &fit_error, Err(NoPlan::clearing()))
                .await;
        }
        if waits {
            self.bind_volumes(&bindings, &node).await
        } else {
            if self.bind(key, pod, &node).await? {
                cache.add(&node, pod);
            }
            Ok(())
        }
    }

    /// Puts off the next attempt for a pod whose binding has failed, each time for longer.
    fn back_off(&mut self, uid: String) {
        let now = (self.ctx.now)();
        let (failures, next) = self.backoffs.entry(uid).or_insert((0, now));
        *failures += 1;
        *next = after(now, retry_after(*failures));
    }

    /// Returns whether it is too early for another attempt.
    pub(super) fn backs_off(&self, uid: &str) -> bool {
        let now = (self.ctx.now)();
        self.backoffs.get(uid).is_some_and(|(_, next)| *next > now)
    }

    /// Returns the time until the next attempt that was put off.
    pub(super) fn next_attempt(&self) -> Option<Duration> {
        let now = (self.ctx.now)();
        let next = self.backoffs.values().map(|(_, next)| *next);
        let wait = next.filter(|next| *next > now).min()?.duration_since(now);
        Duration::try_from(wait).ok()
    }

    /// Returns whether the pod's claims are not there yet: it is not tried before (`PreEnqueue` of DynamicResources).
    pub(super) fn waits_for_claims(&self, pod: &Pod, profile: &Profile) -> bool {
        profile.pre_filter.contains(&Plugin::DynamicResources)
            && self.devices.claims_of(pod).is_err()
    }

    /// Reports the node where the pod is to run once its claims are reserved and its volumes are bound
    /// (`NominatedNodeNameForExpectation`).
    async fn nominate(&mut self, pod: &Arc<Pod>, node: &str) -> Result<(), kube::Error> {
        let uid = store::uid(&**pod);
        if self.nominated.get(&uid).map(String::as_str) == Some(node) {
            return Ok(());
        }
        self.nominated.insert(uid.clone(), node.to_owned());
        let patch = json!({ "metadata": { "uid": uid }, "status": { "nominatedNodeName": node } });
        self.patch_status(pod, patch).await
    }

    /// Binds the pod. Returns false if it is gone or another scheduler has bound it.
    async fn bind(
        &mut self,
        key: &ObjectKey,
        pod: &Arc<Pod>,
        node: &str,
    ) -> Result<bool, kube::Error> {
        let uid = store::uid(&**pod);
        let binding = json!({
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": { "namespace": key.namespace, "name": key.name, "uid": uid },
            "target": { "apiVersion": "v1", "kind": "Node", "name": node },
        });
        let pods: Api<Pod> = Api::namespaced(self.ctx.client.clone(), &key.namespace);
        let params = PostParams::default();
        let answer: Result<Value, _> = pods
            .create_subresource("binding", &key.name, &params, &binding)
            .await;
        match answer {
            Ok(_) => {
                self.forget(&uid);
                self.assumed.insert(uid, node.to_owned());
                let message = format!(
                    "Successfully assigned {}/{} to {node}",
                    key.namespace, key.name
                );
                let params = EventParams {
                    event_type: EventType::Normal,
                    reason: "Scheduled",
                    action: "Binding",
                    message: &message,
                };
                let involved = reference(pod);
                self.report(pod, (&involved, None), params).await;
                Ok(true)
            }
            Err(error) => {
                let had_claims = self.unreserve(pod).await;
                if answered(&error, 404) || answered(&error, 409) {
                    self.forget(&uid);
                    return Ok(false);
                }
                // The change of the claims is no reason for another attempt.
                if had_claims {
                    self.back_off(uid);
                }
                Err(error)
            }
        }
    }
}
