//! The input of the kubelet's decisions about a pod.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use kubeproof_runtime::pod::{Pod, claims, is_not_owner};
use kubeproof_runtime::store::ObjectKey;

use super::{Kubelet, Record};
use crate::annotations::{Annotations, Behavior};
use crate::container_run::ContainerRuns;
use crate::container_spec::ContainerSpec;
use crate::hold::Hold;
use crate::lifecycle::{self, Deletion, Stage, Step, View};
use crate::pace::after;
use crate::status::unmet_gates;

/// The default `terminationGracePeriodSeconds`.
const GRACE: Duration = Duration::from_secs(30);

impl Kubelet {
    pub(super) fn decide(&self, pod: &Pod, record: &Record) -> Step {
        let container_specs = pod
            .spec
            .as_deref()
            .map(ContainerSpec::all)
            .unwrap_or_default();
        let view = self.view(
            pod,
            record,
            &container_specs,
            &record.container_runs,
            &record.held,
        );
        lifecycle::next(record.stage, &view, self.now())
    }

    pub(super) fn view<'a>(
        &self,
        pod: &Pod,
        record: &'a Record,
        container_specs: &'a [ContainerSpec],
        container_runs: &'a ContainerRuns,
        held: &'a BTreeMap<String, Hold>,
    ) -> View<'a> {
        let spec = pod.spec.as_ref();
        let seconds = |seconds: i64| Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
        let grace = pod.metadata.deletion_grace_period_seconds.unwrap_or(0);
        let deletion = record.deleted.map(|since| Deletion {
            since,
            grace: seconds(grace),
        });
        let active = spec.and_then(|spec| spec.active_deadline_seconds);
        // A pod without a start time has no deadline yet.
        let active = active.filter(|_| record.stage != Stage::Bound);
        View {
            behavior: self.behavior(pod, &record.key),
            volumes_bound: self.volumes_bound(&record.key.namespace, pod),
            gates_met: unmet_gates(pod).is_empty(),
            deletion,
            grace: grace_period(pod),
            deadline: active.map(|active| after(record.started, seconds(active))),
            container_specs,
            container_runs,
            held,
            reported: &record.reported,
        }
    }

    pub(super) fn behavior(&self, pod: &Pod, key: &ObjectKey) -> Behavior {
        Behavior::read(self.annotations(pod, key), &self.timings)
    }

    /// Returns the ports of the pod that are forwarded to programs outside of the simulation.
    pub(super) fn forwards(&self, pod: &Pod, key: &ObjectKey) -> BTreeMap<u16, SocketAddr> {
        self.annotations(pod, key).forwards()
    }

    fn annotations<'a>(&'a self, pod: &'a Pod, key: &'a ObjectKey) -> Annotations<'a> {
        let namespace = self.namespaces.get(&ObjectKey {
            namespace: String::new(),
            name: key.namespace.clone(),
        });
        Annotations {
            name: &key.name,
            pod: pod.metadata.annotations.as_ref(),
            namespace: namespace.and_then(|ns| ns.metadata.annotations.as_ref()),
        }
    }

    fn volumes_bound(&self, namespace: &str, pod: &Pod) -> bool {
        claims(pod).all(|used| {
            let key = ObjectKey {
                namespace: namespace.to_owned(),
                name: used.name.into_owned(),
            };
            self.claims.get(&key).is_some_and(|claim| {
                let phase = claim
                    .status
                    .as_ref()
                    .and_then(|status| status.phase.as_deref());
                let is_own = !used.is_ephemeral || is_not_owner(pod, claim).is_none();
                phase == Some("Bound") && claim.metadata.deletion_timestamp.is_none() && is_own
            })
        })
    }
}

/// Returns the grace period in the pod's spec.
pub(super) fn grace_period(pod: &Pod) -> Duration {
    let stated = pod
        .spec
        .as_ref()
        .and_then(|spec| spec.termination_grace_period_seconds);
    let stated = stated.and_then(|grace| u64::try_from(grace).ok());
    stated.map_or(GRACE, Duration::from_secs)
}
