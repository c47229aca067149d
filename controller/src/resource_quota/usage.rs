//! How much of what a quota names is used.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    Container, PersistentVolumeClaim, Pod, PodSpec, ResourceQuotaSpec, Service,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::amount::Amount;
use super::scopes;
use crate::clock::{go_seconds, later};
use crate::pod;

const CLASS_INFIX: &str = ".storageclass.storage.k8s.io/";

type Amounts = BTreeMap<String, Amount>;
type List = BTreeMap<String, Quantity>;

/// The resource whose objects use what goes by `name` in quotas, as `count/` has it.
pub(super) fn resource_of(name: &str) -> &str {
    if let Some(resource) = name.strip_prefix("count/") {
        return resource;
    }
    match name {
        "services" | "services.nodeports" | "services.loadbalancers" => "services",
        "persistentvolumeclaims" | "requests.storage" => "persistentvolumeclaims",
        "configmaps" | "secrets" | "replicationcontrollers" | "resourcequotas" => name,
        _ if name.contains(CLASS_INFIX) => "persistentvolumeclaims",
        // Whatever else there is, pods ask for it.
        _ => "pods",
    }
}

/// What the objects of a namespace use of one quota.
pub(super) struct Counted<'a> {
    spec: &'a ResourceQuotaSpec,
    used: Amounts,
}

impl<'a> Counted<'a> {
    pub(super) fn new(spec: &'a ResourceQuotaSpec, hard: &List) -> Self {
        let used = hard.keys().map(|name| (name.clone(), Amount::default()));
        Self {
            spec,
            used: used.collect(),
        }
    }

    pub(super) fn used(&self) -> List {
        let used = self.used.iter();
        used.map(|(name, amount)| (name.clone(), amount.quantity()))
            .collect()
    }

    fn add(&mut self, name: &str, amount: Amount) {
        if let Some(sum) = self.used.get_mut(name) {
            *sum = sum.add(amount);
        }
    }

    /// A pod that has ended counts as an object, and uses nothing else.
    pub(super) fn add_pod(&mut self, pod: &Pod, now: Timestamp) {
        if !scopes::have(self.spec, pod) {
            return;
        }
        let one = Amount::whole(1);
        self.add("count/pods", one);
        let Some(spec) = pod.spec.as_ref().filter(|_| !has_ended(pod, now)) else {
            return;
        };
        self.add("pods", one);
        for (name, amount) in total(spec, |own| own.resources.as_ref()?.requests.as_ref()) {
            if matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage")
                || name.starts_with("hugepages-")
            {
                self.add(&name, amount);
            }
            self.add(&format!("requests.{name}"), amount);
        }
        for (name, amount) in total(spec, |own| own.resources.as_ref()?.limits.as_ref()) {
            if matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage") {
                self.add(&format!("limits.{name}"), amount);
            }
        }
    }

    pub(super) fn add_service(&mut self, service: &Service) {
        if scopes::is_scoped(self.spec) {
            return;
        }
        let one = Amount::whole(1);
        self.add("count/services", one);
        self.add("services", one);
        let Some(spec) = &service.spec else {
            return;
        };
        let ports = spec.ports.iter().flatten();
        match spec.type_.as_deref() {
            Some("NodePort") => self.add("services.nodeports", Amount::whole(ports.count())),
            Some("LoadBalancer") => {
                let allocates = spec.allocate_load_balancer_node_ports != Some(false);
                let open = ports.filter(|port| allocates || port.node_port.unwrap_or(0) != 0);
                self.add("services.nodeports", Amount::whole(open.count()));
                self.add("services.loadbalancers", one);
            }
            _ => {}
        }
    }

    pub(super) fn add_claim(&mut self, claim: &PersistentVolumeClaim) {
        if scopes::is_scoped(self.spec) {
            return;
        }
        let one = Amount::whole(1);
        self.add("count/persistentvolumeclaims", one);
        self.add("persistentvolumeclaims", one);
        let spec = claim.spec.as_ref();
        let class = spec
            .and_then(|spec| spec.storage_class_name.as_deref())
            .unwrap_or_default();
        let requests = spec.and_then(|spec| spec.resources.as_ref()?.requests.as_ref());
        let storage = requests
            .and_then(|requests| requests.get("storage"))
            .map(Amount::of);
        if !class.is_empty() {
            self.add(&format!("{class}{CLASS_INFIX}persistentvolumeclaims"), one);
        }
        if let Some(storage) = storage {
            self.add("requests.storage", storage);
            if !class.is_empty() {
                self.add(&format!("{class}{CLASS_INFIX}requests.storage"), storage);
            }
        }
    }

    /// So many objects of a resource of which nothing but the number counts.
    pub(super) fn add_others(&mut self, resource: &str, count: usize) {
        if scopes::is_scoped(self.spec) {
            return;
        }
        self.add(&format!("count/{resource}"), Amount::whole(count));
        self.add(resource, Amount::whole(count));
    }
}

/// Whether the pod is over, or should be by now.
fn has_ended(pod: &Pod, now: Timestamp) -> bool {
    let metadata = &pod.metadata;
    let end = metadata
        .deletion_timestamp
        .as_ref()
        .zip(metadata.deletion_grace_period_seconds);
    let is_late = end.is_some_and(|(time, grace)| now > later(time.0, go_seconds(grace)));
    pod::is_finished(pod) || is_late
}

/// What a pod asks for: all that ever runs at the same time.
fn total(spec: &PodSpec, list: impl Fn(&Container) -> Option<&List>) -> Amounts {
    let mut total = Amounts::new();
    let of = |container: &Container| -> Amounts {
        let own = list(container).into_iter().flatten();
        own.map(|(name, quantity)| (name.clone(), Amount::of(quantity)))
            .collect()
    };
    let add = |total: &mut Amounts, more: &Amounts| {
        for (name, amount) in more {
            let sum = total.entry(name.clone()).or_default();
            *sum = sum.add(*amount);
        }
    };
    for container in &spec.containers {
        add(&mut total, &of(container));
    }
    let (mut sidecars, mut peak) = (Amounts::new(), Amounts::new());
    for container in spec.init_containers.iter().flatten() {
        let mut beside = sidecars.clone();
        add(&mut beside, &of(container));
        if container.restart_policy.as_deref() == Some("Always") {
            sidecars.clone_from(&beside);
        }
        for (name, amount) in &beside {
            let highest = peak.entry(name.clone()).or_default();
            *highest = highest.max(*amount);
        }
    }
    add(&mut total, &sidecars);
    for (name, amount) in peak {
        let sum = total.entry(name).or_default();
        *sum = sum.max(amount);
    }
    let overhead = spec.overhead.iter().flatten();
    add(
        &mut total,
        &overhead
            .map(|(name, own)| (name.clone(), Amount::of(own)))
            .collect(),
    );
    total
}

#[cfg(test)]
mod tests;
