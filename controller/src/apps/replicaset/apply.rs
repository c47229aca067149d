//! Creates the pods that a set lacks and deletes those that it has too many.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;

use kube::core::{Selector, SelectorExt};
use kube::{Api, ResourceExt};
use kubeproof_runtime::controller_ref::{controller_of, controller_ref, reference_to};
use kubeproof_runtime::pod::Pod;
use kubeproof_runtime::store::ObjectKey;
use kubeproof_runtime::sync_error::Error;

use super::{Controller, Set, ranking};
use crate::workload::pod_control::{PodControl, pod_from_template, slow_start};

/// The most pods that one sync creates or deletes.
const BURST: usize = 500;

/// The change in the number of pods that a sync makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Nothing,
    Create(usize),
    Delete(usize),
}

fn change(active: usize, replicas: i32) -> Change {
    let wanted = usize::try_from(replicas).unwrap_or(0);
    match active.cmp(&wanted) {
        Ordering::Less => Change::Create((wanted - active).min(BURST)),
        Ordering::Equal => Change::Nothing,
        Ordering::Greater => Change::Delete((active - wanted).min(BURST)),
    }
}

impl<S: Set> Controller<S> {
    /// Creates or deletes pods to approach the desired number.
    pub(super) async fn apply(&self, set: &Arc<S>, active: &[Arc<Pod>]) -> Result<(), Error> {
        let control = PodControl {
            api: Api::namespaced(
                self.ctx.client.clone(),
                &set.namespace().unwrap_or_default(),
            ),
            recorder: &self.recorder,
            involved: reference_to(S::API_VERSION, S::KIND, set.meta()),
        };
        match change(active.len(), set.replicas()) {
            Change::Nothing => Ok(()),
            Change::Create(count) => self.create(set, &control, count).await,
            Change::Delete(count) => {
                let related = self.related_pods(&**set);
                let now = (self.ctx.now)();
                let chosen = ranking::to_delete(active.to_vec(), &related, count, now);
                self.delete(set, &control, &chosen).await
            }
        }
    }

    async fn create(
        &self,
        set: &Arc<S>,
        control: &PodControl<'_>,
        count: usize,
    ) -> Result<(), Error> {
        let key = ObjectKey::of(&**set);
        let template = set.template().cloned();
        let owner = controller_ref(S::API_VERSION, S::KIND, set.meta());
        let pod = pod_from_template(&template.unwrap_or_default(), owner);
        let now = (self.ctx.now)();
        self.expectations.expect(&key, count, BTreeSet::new(), now);
        let mut missing = count;
        let mut first_error = None;
        for size in slow_start(count) {
            for _ in 0..size {
                match control.create(&pod).await {
                    // The namespace is terminating: no retry can succeed. The creation stays expected, as upstream's does.
                    Err(error) if error.is_namespace_terminating() => missing -= 1,
                    Err(error) => first_error = first_error.or(Some(error)),
                    Ok(created) => {
                        self.wrote_pod(set, &created);
                        missing -= 1;
                    }
                }
            }
            if first_error.is_some() {
                break;
            }
        }
        for _ in 0..missing {
            self.expectations.created(&key);
        }
        first_error.map_or(Ok(()), Err)
    }

    async fn delete(
        &self,
        set: &Arc<S>,
        control: &PodControl<'_>,
        chosen: &[Arc<Pod>],
    ) -> Result<(), Error> {
        let key = ObjectKey::of(&**set);
        let uids = chosen.iter().filter_map(|pod| pod.uid()).collect();
        self.expectations.expect(&key, 0, uids, (self.ctx.now)());
        let mut first_error = None;
        for pod in chosen {
            if let Err(error) = control.delete(&pod.name_any()).await {
                let uid = pod.uid().unwrap_or_default();
                self.expectations.deleted(&key, &uid);
                if !error.is_not_found() {
                    first_error = first_error.or(Some(error));
                }
            }
        }
        first_error.map_or(Ok(()), Err)
    }

    /// The pods that sets of the same owner select, this one's included, each once.
    fn related_pods(&self, set: &S) -> Vec<Arc<Pod>> {
        let namespace = set.namespace().unwrap_or_default();
        let owner = controller_of(set.meta()).map(|owner| &owner.uid);
        let is_related = |other: &S| {
            owner.is_some() && controller_of(other.meta()).map(|owner| &owner.uid) == owner
        };
        let selectors: Vec<Selector> = self
            .sets
            .in_namespace(&namespace)
            .iter()
            .filter(|other| is_related(other))
            .filter_map(|other| Selector::try_from(Set::selector(&**other)).ok())
            .collect();
        let mut pods = self.pods.in_namespace(&namespace);
        pods.retain(|pod| selectors.iter().any(|one| one.matches(pod.labels())));
        pods
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_difference_is_made_up_in_bursts() {
        assert_eq!(change(2, 2), Change::Nothing);
        assert_eq!(change(2, 5), Change::Create(3));
        assert_eq!(change(5, 2), Change::Delete(3));
        assert_eq!(change(0, 1000), Change::Create(500));
        assert_eq!(change(1000, 0), Change::Delete(500));
    }
}
