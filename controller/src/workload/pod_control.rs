//! Creates and deletes pods for a workload, recording an event for each.

use k8s_openapi::api::core::v1::{ObjectReference, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::{DeleteParams, PostParams};
use kube::{Api, ResourceExt};
use kubeproof_runtime::pod::{Pod, SharedPodSpec};
use kubeproof_runtime::recorder::{EventType, Recorder};
use kubeproof_runtime::sync_error::Error;

/// The workload whose pods are created and deleted.
pub(crate) struct PodControl<'a> {
    pub(crate) api: Api<Pod>,
    pub(crate) recorder: &'a Recorder,
    /// The workload, for events.
    pub(crate) involved: ObjectReference,
}

impl PodControl<'_> {
    /// Creates `pod`. In a namespace that is going away this fails without an event.
    pub(crate) async fn create(&self, pod: &Pod) -> Result<Pod, Error> {
        match self.api.create(&PostParams::default(), pod).await {
            Ok(created) => {
                let message = format!("Created pod: {}", created.name_any());
                self.record_event(EventType::Normal, "SuccessfulCreate", &message)
                    .await;
                Ok(created)
            }
            Err(error) => {
                let error = Error::from(error);
                if !error.is_namespace_terminating() {
                    let message = format!("Error creating: {error}");
                    self.record_event(EventType::Warning, "FailedCreate", &message)
                        .await;
                }
                Err(error)
            }
        }
    }

    /// Deletes the pod `name`. If the pod does not exist, this fails without an event.
    pub(crate) async fn delete(&self, name: &str) -> Result<(), Error> {
        match self.api.delete(name, &DeleteParams::default()).await {
            Ok(_) => {
                let message = format!("Deleted pod: {name}");
                self.record_event(EventType::Normal, "SuccessfulDelete", &message)
                    .await;
                Ok(())
            }
            Err(error) => {
                let error = Error::from(error);
                if !error.is_not_found() {
                    let message = format!("Error deleting: {error}");
                    self.record_event(EventType::Warning, "FailedDelete", &message)
                        .await;
                }
                Err(error)
            }
        }
    }

    async fn record_event(&self, event_type: EventType, reason: &str, message: &str) {
        self.recorder
            .publish(&self.involved, event_type, reason, message)
            .await;
    }
}

/// A pod made from `template`, which the server will name after `owner`.
#[must_use]
pub(crate) fn pod_from_template(template: &PodTemplateSpec, owner: OwnerReference) -> Pod {
    let meta = template.metadata.clone().unwrap_or_default();
    Pod {
        metadata: ObjectMeta {
            generate_name: Some(format!("{}-", owner.name)),
            labels: meta.labels,
            annotations: meta.annotations,
            finalizers: meta.finalizers,
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        spec: template.spec.clone().map(SharedPodSpec::from),
        status: None,
    }
}

/// The sizes of the batches in which `count` pods are created: a first failure shall be the only
/// one of its kind.
pub(crate) fn slow_start(count: usize) -> impl Iterator<Item = usize> {
    let mut left = count;
    let mut next = 1;
    std::iter::from_fn(move || {
        let size = next.min(left);
        left -= size;
        next = 2 * size;
        (size > 0).then_some(size)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_double() {
        let sizes = |count| slow_start(count).collect::<Vec<_>>();
        assert_eq!(sizes(0), [0; 0]);
        assert_eq!(sizes(1), [1]);
        assert_eq!(sizes(10), [1, 2, 4, 3]);
    }
}
