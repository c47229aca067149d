//! Carries out what was decided about a pod.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::PodCondition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use kubeproof_runtime::pod::Pod;
use kubeproof_runtime::retry::{DEFAULT_BACKOFF, retry_on_conflict};
use kubeproof_runtime::sync_error::Error;
use serde_json::json;

use super::api::strategy::LifecycleHook;
use super::in_place::{self, READY_CONDITION, START_REASON, UpdateSpec};
use super::lifecycle::{self, SPECIFIED_DELETE_LABEL, STATE_LABEL, State};
use super::pod_readiness;

/// A write of a pod.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum PodWrite {
    /// Writes the pod's status, unless another writer has changed the pod since.
    Status(Box<Pod>),
    /// Writes the pod, unless another writer has changed it since.
    Replace(Box<Pod>),
    /// Changes the state of the pod to `state`, and restores the marks of a hook.
    State {
        state: State,
        restored: Option<LifecycleHook>,
        /// Whether its readiness follows.
        marks_not_ready: bool,
    },
    /// The pod is to be deleted by its workload.
    SpecifyDelete,
}

/// The next step of an update in place.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum UpdateStep {
    /// The pod is held, or there is nothing to write.
    Wait,
    /// The pod has to be prepared by this write.
    Write(PodWrite),
    /// The update can start.
    Start,
}

/// Returns the next step for a pod that can be updated in place.
///
/// # Errors
/// When the state of the pod does not permit an update.
pub(crate) fn update_step(pod: &Pod, hook: Option<&LifecycleHook>) -> Result<UpdateStep, Error> {
    let is_hooked = lifecycle::is_hooked(hook, pod);
    let prepare = |restored: Option<&LifecycleHook>| {
        UpdateStep::Write(PodWrite::State {
            state: State::PreparingUpdate,
            restored: restored.cloned(),
            marks_not_ready: lifecycle::marks_not_ready(hook),
        })
    };
    Ok(match lifecycle::state(pod) {
        None | Some(State::PreparingNormal | State::Normal) if is_hooked => prepare(None),
        // The user released the pod from its hook for an update that is no longer the latest.
        Some(State::Updated) if hook.is_some() => prepare(hook),
        Some(State::Updated) => UpdateStep::Wait,
        Some(State::PreparingUpdate) if is_hooked => UpdateStep::Wait,
        None
        | Some(State::PreparingNormal | State::Normal | State::PreparingUpdate | State::Updating) => {
            UpdateStep::Start
        }
        Some(State::PreparingDelete | State::Unknown) => {
            let state = pod.labels().get(STATE_LABEL);
            return Err(Error::Refused(format!(
                "not allowed to in-place update pod {} in state {}",
                pod.name_any(),
                state.map_or("", String::as_str)
            )));
        }
    })
}

/// Writes pods of one namespace.
pub(crate) struct PodWriter {
    pub(crate) pods: Api<Pod>,
    pub(crate) now: Timestamp,
}

impl PodWriter {
    /// Carries out one write about `pod`; returns the pod as the server answered last, None when
    /// there was nothing to write.
    pub(crate) async fn write(&self, pod: &Pod, write: &PodWrite) -> Result<Option<Pod>, Error> {
        let (name, params) = (pod.name_any(), PostParams::default());
        match write {
            PodWrite::Status(changed) => self.unless_outdated(changed, Part::Status).await,
            PodWrite::Replace(changed) => self.unless_outdated(changed, Part::Whole).await,
            PodWrite::State {
                state,
                restored,
                marks_not_ready,
            } => {
                if *marks_not_ready
                    && let Some(marked) = pod_readiness::entering(pod, *state, self.now)
                {
                    self.pods.replace_status(&name, &params, &marked).await?;
                }
                if lifecycle::state(pod) == Some(*state) {
                    return Ok(None);
                }
                let patch = lifecycle::state_patch(*state, restored.as_ref(), self.now);
                self.patch(&name, patch).await.map(Some)
            }
            PodWrite::SpecifyDelete => {
                if lifecycle::is_specified_delete(pod) {
                    return Ok(None);
                }
                let labels = json!({ SPECIFIED_DELETE_LABEL: "true" });
                let patch = json!({ "metadata": { "labels": labels } });
                self.patch(&name, patch).await.map(Some)
            }
        }
    }

    async fn patch(&self, name: &str, patch: serde_json::Value) -> Result<Pod, Error> {
        let patch = Patch::Strategic(patch);
        let params = PatchParams::default();
        Ok(self.pods.patch(name, &params, &patch).await?)
    }

    /// Takes the pod's readiness away and makes or promises the change; `relabel` puts it at the
    /// new revision.
    pub(crate) async fn start_update(
        &self,
        pod: &Pod,
        spec: &UpdateSpec,
        relabel: impl Fn(&mut Pod),
    ) -> Result<Pod, Error> {
        let mut current = pod.clone();
        if in_place::has_gate(pod) {
            current = self
                .insist(current, |pod| self.unready(pod), Part::Status)
                .await?;
        }
        let update = |pod: &mut Pod| {
            relabel(pod);
            in_place::start(pod, spec, self.now);
        };
        self.insist(current, update, Part::Whole).await
    }

    fn unready(&self, pod: &mut Pod) {
        let condition = PodCondition {
            type_: READY_CONDITION.to_owned(),
            status: "False".to_owned(),
            reason: Some(START_REASON.to_owned()),
            last_transition_time: Some(Time(in_place::whole_second(self.now))),
            ..PodCondition::default()
        };
        in_place::set_condition(pod, condition);
        in_place::follow_gates(pod, self.now);
    }

    async fn put(&self, pod: &Pod, part: Part) -> Result<Pod, Error> {
        let (name, params) = (pod.name_any(), PostParams::default());
        Ok(match part {
            Part::Status => self.pods.replace_status(&name, &params, pod).await?,
            Part::Whole => self.pods.replace(&name, &params, pod).await?,
        })
    }

    /// Writes the pod. After a write of another party it writes nothing: that write brings another
    /// sync, which decides anew. A conflict without another write is retried.
    ///
    /// Upstream counts both as failures of the sync, and retries at once.
    async fn unless_outdated(&self, changed: &Pod, part: Part) -> Result<Option<Pod>, Error> {
        let mut delays = DEFAULT_BACKOFF.into_iter();
        loop {
            let error = match self.put(changed, part).await {
                Ok(written) => return Ok(Some(written)),
                Err(error) => error,
            };
            if error.is_conflict() {
                let current = self.pods.get(&changed.name_any()).await?;
                if current.resource_version() != changed.resource_version() {
                    return Ok(None);
                }
            }
            retry_on_conflict(&mut delays, error).await?;
        }
    }

    /// Changes the pod; after a conflict, retries with the pod as the server returns it.
    async fn insist(
        &self,
        mut pod: Pod,
        change: impl Fn(&mut Pod),
        part: Part,
    ) -> Result<Pod, Error> {
        let mut delays = DEFAULT_BACKOFF.into_iter();
        loop {
            change(&mut pod);
            match self.put(&pod, part).await {
                Ok(written) => return Ok(written),
                Err(error) => retry_on_conflict(&mut delays, error).await?,
            }
            pod = self.pods.get(&pod.name_any()).await?;
        }
    }
}

#[derive(Clone, Copy)]
enum Part {
    Status,
    Whole,
}
