//! The controller of ServiceCIDRs: says that a range is ready, and keeps a deleted one as long as services would lose
//! their addresses with it.
//!
//! Source: pkg/controller/servicecidrs of Kubernetes.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::networking::v1::{IPAddress, ServiceCIDR};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Patch, PatchParams};
use kube::{Api, Resource, ResourceExt};
use kubeproof_runtime::clock::later;
use kubeproof_runtime::context::Context;
use kubeproof_runtime::informer::{Informer, Informers};
use kubeproof_runtime::recorder::{EventType, Recorder};
use kubeproof_runtime::store::{Change, ObjectKey};
use kubeproof_runtime::sync_error::Error;
use kubeproof_runtime::work_queue::WorkQueue;
use kubeproof_runtime::worker::{self, Reconcile};
use serde_json::{Value, json};

/// The controller's name: its user agent and field manager.
pub const NAME: &str = "service-cidr-controller";
const WORKERS: usize = 5;
const FINALIZER: &str = "networking.k8s.io/service-cidr-finalizer";
/// The labels of the addresses that the API server has given to services.
const MANAGED_BY: (&str, &str) = ("ipaddress.kubernetes.io/managed-by", "ipallocator");
/// The time from a range's deletion until it goes: the API server may still give addresses of it.
const GRACE: SignedDuration = SignedDuration::from_secs(10);
const READY: &str = "Kubernetes Service CIDR is ready";
const TERMINATING: &str = "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR";

struct Controller {
    ctx: Context,
    recorder: Recorder,
    queue: WorkQueue<ObjectKey>,
    ranges: Informer<ServiceCIDR>,
    addresses: Informer<IPAddress>,
}

/// Runs the controller until the future is dropped.
pub async fn run(ctx: Context) {
    let ctx = ctx.for_component(NAME);
    let controller = Controller {
        recorder: Recorder::new(ctx.clone(), NAME),
        ctx,
        queue: WorkQueue::new(),
        ranges: Informer::new(),
        addresses: Informer::new(),
    };
    Informers::new(&controller.ctx.client)
        .add(&controller.ranges, |change| {
            controller.queue.add(change.key());
            // A new range may free those that it overlaps.
            if let Change::Added(range) = change {
                let own = networks(range);
                controller
                    .queue_those(|other| networks(other).iter().any(|other| overlap(&own, other)));
            }
        })
        .add(&controller.addresses, |change| {
            if let Change::Added(address) | Change::Deleted { last: address, .. } = change
                && let Some(ip) = allocated(address)
            {
                controller.queue_those(|range| contains(range, ip));
            }
        })
        .run(worker::run(&controller, &controller.queue, WORKERS))
        .await;
}

impl Controller {
    fn queue_those(&self, is_meant: impl Fn(&ServiceCIDR) -> bool) {
        for range in self.ranges.all() {
            if is_meant(&range) {
                self.queue.add(ObjectKey {
                    namespace: String::new(),
                    name: range.name_any(),
                });
            }
        }
    }

    fn api(&self) -> Api<ServiceCIDR> {
        Api::all(self.ctx.client.clone())
    }

    /// Lets a deleted range go, or says what holds it.
    async fn finalize(
        &self,
        range: &ServiceCIDR,
        deleted: Timestamp,
    ) -> Result<Option<Duration>, Error> {
        let addresses = self.addresses.all();
        let addresses: BTreeSet<IpAddr> =
            addresses.iter().filter_map(|one| allocated(one)).collect();
        if is_needed(range, &self.ranges.all(), &addresses) {
            self.set_ready(range, "False", "Terminating", TERMINATING)
                .await?;
            return Ok(None);
        }
        let left = later(deleted, GRACE).duration_since((self.ctx.now)());
        if let Ok(left) = Duration::try_from(left)
            && !left.is_zero()
        {
            return Ok(Some(left));
        }
        if range.finalizers().iter().any(|own| own == FINALIZER) {
            let patch = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": [FINALIZER]}});
            self.patch(range, patch).await?;
        }
        Ok(None)
    }

    async fn patch(&self, range: &ServiceCIDR, patch: Value) -> Result<(), Error> {
        let (name, patch) = (range.name_any(), Patch::Strategic(patch));
        let api = self.api();
        let patched = api.patch(&name, &PatchParams::default(), &patch).await;
        match patched.map_err(Error::from) {
            Err(error) if error.is_not_found() => Ok(()),
            patched => patched.map(|_| ()),
        }
    }

    /// Applies the condition `Ready` unless the range has it.
    async fn set_ready(
        &self,
        range: &ServiceCIDR,
        status: &str,
        reason: &str,
        message: &str,
    ) -> Result<(), Error> {
        let conditions = range.status.as_ref();
        let mut conditions = conditions
            .into_iter()
            .flat_map(|own| own.conditions.iter().flatten());
        let current = conditions.find(|own| own.type_ == "Ready");
        if current.is_some_and(|own| {
            (&*own.status, &*own.reason, &*own.message) == (status, reason, message)
        }) {
            return Ok(());
        }
        let name = range.name_any();
        let applied = json!({
            "apiVersion": "networking.k8s.io/v1",
            "kind": "ServiceCIDR",
            "metadata": {"name": name},
            "status": {"conditions": [{
                "type": "Ready", "status": status, "reason": reason, "message": message,
                "lastTransitionTime": Time((self.ctx.now)()),
            }]},
        });
        let params = PatchParams::apply(NAME).force();
        let applied = Patch::Apply(applied);
        self.api().patch_status(&name, &params, &applied).await?;
        Ok(())
    }
}

impl Reconcile for Controller {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Option<Duration>, Error> {
        let Some(range) = self.ranges.get("", &key.name) else {
            return Ok(None);
        };
        if let Some(deleted) = &range.metadata.deletion_timestamp {
            return self.finalize(&range, deleted.0).await;
        }
        if !range.finalizers().iter().any(|own| own == FINALIZER) {
            let patch = json!({"metadata": {"finalizers": [FINALIZER]}});
            self.patch(&range, patch).await?;
        }
        let ready = self.set_ready(&range, "True", "", READY).await;
        if ready.is_err() {
            let message = "The ServiceCIDR Status can not be set to Ready=True";
            let reason = "KubernetesServiceCIDRError";
            self.recorder
                .publish(&range.object_ref(&()), EventType::Warning, reason, message)
                .await;
        }
        ready.map(|()| None)
    }
}

/// The address of an object that the API server has written for a service.
fn allocated(address: &IPAddress) -> Option<IpAddr> {
    let (label, manager) = MANAGED_BY;
    let own = address.labels().get(label).map(String::as_str);
    let name = address.name_any();
    (own == Some(manager)).then(|| name.parse().ok()).flatten()
}

fn networks(range: &ServiceCIDR) -> Vec<IpNet> {
    let cidrs = range
        .spec
        .iter()
        .flat_map(|spec| spec.cidrs.iter().flatten());
    cidrs.filter_map(|cidr| cidr.parse().ok()).collect()
}

fn contains(range: &ServiceCIDR, ip: IpAddr) -> bool {
    networks(range).iter().any(|own| own.contains(&ip))
}

/// Whether one of two networks contains the other, for one of `networks`.
fn overlap(networks: &[IpNet], other: &IpNet) -> bool {
    let mut networks = networks.iter();
    networks.any(|own| own.contains(other) || other.contains(own))
}

/// Whether some service would lose its address with `range`, one of `ranges`: no other range contains all of it, and one
/// of the addresses is in no other range.
fn is_needed(
    range: &ServiceCIDR,
    ranges: &[Arc<ServiceCIDR>],
    addresses: &BTreeSet<IpAddr>,
) -> bool {
    let name = range.name_any();
    let others: Vec<IpNet> = ranges
        .iter()
        .filter(|other| other.name_any() != name)
        .flat_map(|other| networks(other))
        .collect();
    let own = networks(range);
    let is_covered = |own: &IpNet| others.iter().any(|other| other.contains(own));
    if own.iter().all(is_covered) {
        return false;
    }
    let mut orphans = addresses
        .iter()
        .filter(|ip| !others.iter().any(|other| other.contains(*ip)));
    orphans.any(|ip| own.iter().any(|network| network.contains(ip)))
}

#[cfg(test)]
mod tests {
    use kubeproof_runtime::decode::from_value;

    use super::*;

    fn range(name: &str, cidrs: &[&str]) -> Arc<ServiceCIDR> {
        let range = json!({"metadata": {"name": name}, "spec": {"cidrs": cidrs}});
        Arc::new(from_value(range).unwrap())
    }

    /// Source: TestCanDeleteCIDR in pkg/controller/servicecidrs/servicecidrs_controller_test.go.
    #[test]
    fn a_range_is_needed_as_long_as_an_address_is_in_no_other() {
        let needed = |own: &[&str], others: &[(&str, &[&str])], addresses: &[&str]| {
            let own = range("own", own);
            let mut ranges = vec![Arc::clone(&own)];
            ranges.extend(others.iter().map(|(name, cidrs)| range(name, cidrs)));
            let addresses = addresses.iter().map(|one| one.parse().unwrap());
            is_needed(&own, &ranges, &addresses.collect())
        };
        let small = &["192.168.0.0/24"];
        assert!(!needed(small, &[], &[]));
        assert!(needed(small, &[], &["192.168.0.1"]));
        assert!(!needed(small, &[], &["10.0.0.1"]));
        let large: (&str, &[&str]) = ("large", &["192.168.0.0/16"]);
        assert!(!needed(small, &[large], &["192.168.0.1"]));
        let half: (&str, &[&str]) = ("half", &["192.168.0.128/25"]);
        assert!(needed(small, &[half], &["192.168.0.1"]));
        assert!(!needed(small, &[half], &["192.168.0.129"]));
        let both = &["192.168.0.0/24", "2001:db2::/96"];
        assert!(needed(both, &[large], &["2001:db2::1"]));
        assert!(!needed(both, &[large], &["192.168.0.1"]));
        let same: (&str, &[&str]) = ("same", both);
        assert!(!needed(both, &[same], &["192.168.0.1", "2001:db2::1"]));
    }

    #[test]
    fn ranges_overlap_when_one_contains_the_other() {
        let own = networks(&range("own", &["10.0.0.0/16", "2001:db2::/96"]));
        let overlaps = |other: &str| overlap(&own, &other.parse().unwrap());
        assert!(overlaps("10.0.1.0/24"));
        assert!(overlaps("10.0.0.0/8"));
        assert!(overlaps("2001:db2::/112"));
        assert!(!overlaps("10.1.0.0/24"));
    }

    #[test]
    fn only_addresses_that_services_were_given_count() {
        let address = |labels: Value| {
            let address = json!({"metadata": {"name": "10.0.0.1", "labels": labels}});
            allocated(&from_value(address).unwrap())
        };
        let (label, manager) = MANAGED_BY;
        assert_eq!(address(json!({label: manager})), "10.0.0.1".parse().ok());
        assert_eq!(address(json!({label: "me"})), None);
        assert_eq!(address(json!({})), None);
    }
}
