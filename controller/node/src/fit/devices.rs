//! The devices of a pod: the plugin DynamicResources.
//!
//! Source: `pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go`.

mod allocated;
mod allocation;
mod constraint;
mod consumable_capacity;
mod counters;
mod device_id;
mod pools;
mod request;
mod search;
mod selectors;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::resource::v1::{AllocationResult, DeviceClass, ResourceClaim, ResourceSlice};
use kube::runtime::watcher::Event;
use kubeproof_runtime::node_affinity;
use kubeproof_runtime::pod::Pod;
use kubeproof_runtime::resource_claim::{self as claims, is_allocated, is_reserved_for, key_of};
use kubeproof_runtime::store::{self, ObjectKey, Store};

use super::{Misfit, Reason, name};
use allocated::Allocated;
use pools::PoolState;
use search::{Search, Task};
use selectors::Selectors;
pub use selectors::{CompileSelector, DeviceSelector};

/// The most alternatives of a request.
const ALTERNATIVES_MAX: usize = 8;

/// The objects about devices that the scheduler knows.
#[derive(Debug)]
pub(crate) struct Devices {
    claims: Store<ResourceClaim>,
    pub(crate) classes: Store<DeviceClass>,
    pub(crate) slices: Store<ResourceSlice>,
    /// Claims as the scheduler has written them, until the store shows them.
    assumed: BTreeMap<ObjectKey, Arc<ResourceClaim>>,
    selectors: Selectors,
}

impl Devices {
    pub(crate) fn new(compile: CompileSelector) -> Self {
        Self {
            claims: Store::default(),
            classes: Store::default(),
            slices: Store::default(),
            assumed: BTreeMap::new(),
            selectors: Selectors::new(compile),
        }
    }

    pub(crate) fn is_synced(&self) -> bool {
        self.claims.is_synced() && self.classes.is_synced() && self.slices.is_synced()
    }

    /// Takes in what the watch of claims has delivered.
    pub(crate) fn apply_claims(&mut self, event: Event<Arc<ResourceClaim>>) {
        for change in self.claims.apply(event) {
            let is_deleted = matches!(change, store::Change::Deleted { .. });
            let version = store::resource_version(&**change.object());
            let key = change.key();
            let known = self.assumed.get(&key);
            if known.is_some_and(|own| is_deleted || store::resource_version(&**own) <= version) {
                self.assumed.remove(&key);
            }
        }
    }

    /// Notes a claim as it was written.
    pub(crate) fn assume(&mut self, claim: ResourceClaim) {
        self.assumed.insert(ObjectKey::of(&claim), Arc::new(claim));
    }

    fn claim(&self, key: &ObjectKey) -> Option<&Arc<ResourceClaim>> {
        self.assumed.get(key).or_else(|| self.claims.get(key))
    }

    fn all_claims(&self) -> impl Iterator<Item = &ResourceClaim> {
        let known = self.claims.iter();
        known.map(|claim| match self.assumed.is_empty() {
            true => &**claim,
            false => {
                let assumed = self.assumed.get(&ObjectKey::of(&**claim));
                assumed.unwrap_or(claim)
            }
        })
    }

    /// Returns the allocated claims that are reserved for the pod, each once.
    pub(crate) fn reserved_for(&self, pod: &Pod) -> Vec<Arc<ResourceClaim>> {
        let used = claims::of_pod(pod).iter();
        let used = used.filter_map(|own| claims::used_claim(pod, own).ok().flatten());
        let names: BTreeSet<&str> = used.map(|used| used.name).collect();
        let known = names.into_iter().filter_map(|name| {
            let namespace = pod.metadata.namespace.clone().unwrap_or_default();
            let name = name.to_owned();
            self.claim(&ObjectKey { namespace, name })
        });
        let reserved = known.filter(|claim| is_allocated(claim) && is_reserved_for(claim, pod));
        reserved.map(Arc::clone).collect()
    }

    fn class(&self, name: &str) -> Option<&DeviceClass> {
        let key = ObjectKey {
            namespace: String::new(),
            name: name.to_owned(),
        };
        self.classes.get(&key).map(|class| &**class)
    }

    /// Returns the claims of the pod.
    ///
    /// # Errors
    /// The reason why the pod has to wait for them (`foreachPodResourceClaim`).
    pub(crate) fn claims_of(&self, pod: &Pod) -> Result<Vec<Arc<ResourceClaim>>, String> {
        let mut found = Vec::new();
        for own in claims::of_pod(pod) {
            let used = claims::used_claim(pod, own).map_err(|error| error.to_string())?;
            let Some(used) = used else {
                continue;
            };
            let key = ObjectKey {
                namespace: pod.metadata.namespace.clone().unwrap_or_default(),
                name: used.name.to_owned(),
            };
            let claim = self.claim(&key).ok_or_else(|| {
                format!(
                    "could not find ResourceClaim \"{}/{}\"",
                    key.namespace, key.name
                )
            })?;
            if claim.metadata.deletion_timestamp.is_some() {
                return Err(format!("resourceclaim {:?} is being deleted", used.name));
            }
            if used.is_generated {
                claims::check_owner(pod, claim)?;
            }
            found.push(Arc::clone(claim));
        }
        Ok(found)
    }
}

/// A claim of a pod that has a node, and the allocation that it needs there.
#[derive(Clone, Debug)]
pub(crate) struct Reservation {
    pub(crate) claim: Arc<ResourceClaim>,
    /// The devices of a claim that has none yet.
    pub(crate) allocation: Option<AllocationResult>,
}

/// The plugin's findings about a pod that fits on no node.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClaimsSeen {
    /// Whether the plugin has got as far as looking at nodes.
    pub(super) has_claims: bool,
    /// The allocated claims that some node cannot reach.
    unavailable: Vec<Arc<ResourceClaim>>,
}

impl ClaimsSeen {
    /// Returns the claim that is to lose its devices, so that it gets others (`PostFilter`).
    pub(crate) fn deallocated(&self, pod: &Pod) -> Option<&Arc<ResourceClaim>> {
        self.unavailable.iter().find(|claim| {
            let users = claims::reserved_for(claim);
            users.is_empty() || users.len() == 1 && is_reserved_for(claim, pod)
        })
    }
}

/// The state of the plugin for one pod.
pub(super) struct PodClaims<'a> {
    pod: &'a Pod,
    devices: Option<&'a Devices>,
    /// The pod's claims, once they are there.
    claims: Vec<Arc<ResourceClaim>>,
    allocated: Allocated<'a>,
    /// The allocations by node, in the order of the claims that need one.
    found: RefCell<BTreeMap<String, Vec<AllocationResult>>>,
    /// The indexes of allocated claims that some node cannot reach.
    unavailable: RefCell<BTreeSet<usize>>,
}

impl<'a> PodClaims<'a> {
    /// Returns the state before the plugin has looked at the pod.
    pub(super) fn of(pod: &'a Pod, devices: Option<&'a Devices>) -> Self {
        Self {
            pod,
            devices,
            claims: Vec::new(),
            allocated: Allocated::default(),
            found: RefCell::default(),
            unavailable: RefCell::default(),
        }
    }

    /// Finds the pod's claims, and what is allocated to others (`PreFilter`).
    ///
    /// # Errors
    /// The reason why no node can have the pod.
    pub(super) fn find(&mut self) -> Result<(), String> {
        let Some(devices) = self.devices else {
            return Ok(());
        };
        let claims = devices.claims_of(self.pod)?;
        let mut needs_devices = false;
        for claim in claims.iter().filter(|claim| !is_allocated(claim)) {
            needs_devices = true;
            for own in request::of_claim(claim) {
                let alternatives = request::alternatives(own);
                if alternatives.is_empty() {
                    return Err(format!(
                        "resource claim {}, request {}: unknown request type",
                        key_of(&**claim),
                        own.name
                    ));
                }
                for request in alternatives {
                    let class = request.class_name();
                    if devices.class(class).is_none() {
                        let request = request.full_name();
                        return Err(format!(
                            "request {request}: device class {class} does not exist"
                        ));
                    }
                }
            }
        }
        if needs_devices {
            self.allocated = Allocated::of(devices.all_claims());
        }
        self.claims = claims;
        Ok(())
    }

    fn unallocated(&self) -> Vec<&ResourceClaim> {
        let claims = self.claims.iter().map(|claim| &**claim);
        claims.filter(|claim| !is_allocated(claim)).collect()
    }

    /// Returns why the node cannot have the pod (`Filter`).
    pub(super) fn misfit(&self, node: &Node) -> Option<Misfit> {
        let devices = self.devices.filter(|_| !self.claims.is_empty())?;
        let unavailable = self.claims.iter().enumerate().filter(|(_, claim)| {
            let allocation = claim
                .status
                .as_ref()
                .and_then(|own| own.allocation.as_ref());
            let selector = allocation.and_then(|own| own.node_selector.as_ref());
            selector.is_some_and(|own| !node_affinity::is_selected(own, node))
        });
        let unavailable: Vec<usize> = unavailable.map(|(index, _)| index).collect();
        let unallocated = self.unallocated();
        let mut results = Vec::new();
        if !unallocated.is_empty() {
            match self.allocate(devices, node, &unallocated) {
                Ok(Some(found)) => results = found,
                Ok(None) => return Some(Misfit::lasting(Reason::NoDevices)),
                Err(Failure::OnNode) => return Some(Misfit::lasting(Reason::InvalidPools)),
                Err(Failure::Everywhere(error)) => {
                    let error = format!("running \"DynamicResources\" filter plugin: {error}");
                    return Some(Misfit::error(error));
                }
            }
        }
        if !unavailable.is_empty() {
            self.unavailable.borrow_mut().extend(unavailable);
            return Some(Misfit::lasting(Reason::ClaimElsewhere));
        }
        let mut found = self.found.borrow_mut();
        found.insert(name(node).to_owned(), results);
        None
    }

    /// Looks for devices for the claims on a node (`Allocate`).
    fn allocate(
        &self,
        devices: &Devices,
        node: &Node,
        claims: &[&ResourceClaim],
    ) -> Result<Option<Vec<AllocationResult>>, Failure> {
        let slices = devices.slices.iter().map(|slice| &**slice);
        let slices: Vec<&ResourceSlice> = slices.collect();
        let pools = pools::gather(&slices, node);
        let class = |name: &str| devices.class(name);
        let mut search = Search::new(Task {
            node,
            claims,
            selectors: &devices.selectors,
            allocated: &self.allocated,
            pools: &pools,
            class: &class,
        });
        if !search.run().map_err(Failure::Everywhere)? {
            let mut invalid = pools.iter().map(|pool| pool.state == PoolState::Invalid);
            return match invalid.any(|is_invalid| is_invalid) {
                true => Err(Failure::OnNode),
                false => Ok(None),
            };
        }
        let results = claims.iter().enumerate();
        let results = results.map(|(index, claim)| {
            let result = allocation::of_claim(&search, (index, claim), node);
            result.map_err(Failure::Everywhere)
        });
        results.collect::<Result<_, _>>().map(Some)
    }

    /// Returns the score of a node that fits: the better the alternatives that its devices allow, the higher
    /// (`computeScore`).
    pub(super) fn score(&self, node: &Node) -> i64 {
        let found = self.found.borrow();
        let Some(found) = found.get(name(node)) else {
            return 0;
        };
        let mut found = found.iter();
        let scores = self.claims.iter().map(|claim| {
            let own = claim
                .status
                .as_ref()
                .and_then(|own| own.allocation.as_ref());
            let allocation = own.or_else(|| found.next());
            allocation.map_or(0, |allocation| score(claim, allocation))
        });
        scores.sum()
    }

    /// Returns the claims that the pod has to reserve on the node, with their allocations.
    pub(super) fn reservations(&self, node: &Node) -> Vec<Reservation> {
        let found = self.found.borrow();
        let mut found = found.get(name(node)).into_iter().flatten();
        let claims = self.claims.iter().map(|claim| Reservation {
            claim: Arc::clone(claim),
            allocation: (!is_allocated(claim))
                .then(|| found.next().cloned())
                .flatten(),
        });
        let claims = claims.filter(|own| !is_reserved_for(&own.claim, self.pod));
        claims.collect()
    }

    /// Returns whether the pod has claims that this plugin looks after.
    pub(super) fn is_empty(&self) -> bool {
        self.claims.is_empty()
    }

    /// Returns what is to be known after no node was found.
    pub(super) fn seen(&self) -> ClaimsSeen {
        let unavailable = self.unavailable.borrow();
        let unavailable = unavailable.iter().map(|index| &self.claims[*index]);
        ClaimsSeen {
            has_claims: !self.claims.is_empty(),
            unavailable: unavailable.map(Arc::clone).collect(),
        }
    }
}

/// The reason why devices could not be looked for.
enum Failure {
    /// Other nodes may have devices.
    OnNode,
    /// The claims cannot be allocated at all.
    Everywhere(String),
}

fn score(claim: &ResourceClaim, allocation: &AllocationResult) -> i64 {
    let devices = allocation.devices.as_ref();
    let results = devices.and_then(|devices| devices.results.as_deref());
    let results = results.unwrap_or_default();
    let requests = request::of_claim(claim).iter();
    let ranks = requests.flat_map(|request| {
        let alternatives = request::alternatives(request).into_iter().enumerate();
        alternatives.filter_map(|(rank, own)| {
            let full_name = own.full_name();
            let is_chosen = results.iter().any(|result| result.request == full_name);
            (own.is_alternative() && is_chosen).then_some(ALTERNATIVES_MAX.saturating_sub(rank))
        })
    });
    i64::try_from(ranks.sum::<usize>()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
