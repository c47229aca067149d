//! The pools of devices that a node can reach.
//!
//! Source: `structured/internal/incubating/pools_incubating.go`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use k8s_openapi::api::core::v1::{Node, NodeSelector};
use k8s_openapi::api::resource::v1::{CounterSet, Device, ResourceSlice};
use kubeproof_runtime::node_affinity;

use super::super::name;
use super::device_id::DeviceId;

/// Whether devices of a pool can be allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PoolState {
    Usable,
    /// The driver is about to publish slices.
    Incomplete,
    /// The slices contradict each other.
    Invalid,
}

/// The devices of a pool, as far as a node can reach them.
#[derive(Debug)]
pub(super) struct Pool<'a> {
    pub(super) driver: &'a str,
    name: &'a str,
    pub(super) state: PoolState,
    /// The slices with devices for the node, by name.
    slices: Vec<&'a ResourceSlice>,
    /// The other slices of the pool, whose devices use the same counters.
    elsewhere: Vec<&'a ResourceSlice>,
    pub(super) counter_sets: BTreeMap<&'a str, &'a CounterSet>,
}

impl fmt::Display for Pool<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.driver, self.name)
    }
}

/// A device with its slice.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate<'a> {
    pub(super) id: DeviceId<'a>,
    pub(super) device: &'a Device,
    pub(super) slice: &'a ResourceSlice,
    /// The index of the pool.
    pub(super) pool: usize,
}

impl<'a> Pool<'a> {
    /// Returns the devices for the node, in the order in which they are tried.
    pub(super) fn candidates(&self, index: usize) -> impl Iterator<Item = Candidate<'a>> {
        self.slices.iter().flat_map(move |slice| {
            devices(slice).iter().map(move |device| Candidate {
                id: id(slice, device),
                device,
                slice,
                pool: index,
            })
        })
    }

    /// Returns all devices of the pool, for whatever node.
    pub(super) fn devices(&self) -> impl Iterator<Item = (DeviceId<'a>, &'a Device)> {
        let slices = self.slices.iter().chain(&self.elsewhere);
        slices.flat_map(|slice| {
            devices(slice)
                .iter()
                .map(|device| (id(slice, device), device))
        })
    }
}

fn id<'a>(slice: &'a ResourceSlice, device: &'a Device) -> DeviceId<'a> {
    DeviceId {
        driver: &slice.spec.driver,
        pool: &slice.spec.pool.name,
        device: &device.name,
    }
}

fn devices(slice: &ResourceSlice) -> &[Device] {
    slice.spec.devices.as_deref().unwrap_or_default()
}

fn has_counters(slice: &ResourceSlice) -> bool {
    let counters = slice.spec.shared_counters.as_ref();
    counters.is_some_and(|counters| !counters.is_empty())
}

/// Returns whether a node is one of those that a slice or a device names (`NodeMatches`).
fn node_matches(
    node: &Node,
    node_name: Option<&str>,
    all_nodes: Option<bool>,
    selector: Option<&NodeSelector>,
) -> bool {
    match (node_name.unwrap_or_default(), all_nodes) {
        ("", Some(true)) => true,
        ("", _) => selector.is_some_and(|own| node_affinity::is_selected(own, node)),
        (node_name, _) => node_name == name(node),
    }
}

/// Returns whether the device of a slice with `perDeviceNodeSelection` is for the node; devices of other slices are.
pub(super) fn is_for_node(slice: &ResourceSlice, device: &Device, node: &Node) -> bool {
    slice.spec.per_device_node_selection != Some(true)
        || node_matches(
            node,
            device.node_name.as_deref(),
            device.all_nodes,
            device.node_selector.as_ref(),
        )
}

/// Returns whether a node needs the slice. Counters are needed wherever the pool is.
fn is_relevant(slice: &ResourceSlice, node: &Node) -> bool {
    let spec = &slice.spec;
    if has_counters(slice) {
        return true;
    }
    if spec.per_device_node_selection == Some(true) {
        let mut devices = devices(slice).iter();
        return devices.any(|device| is_for_node(slice, device, node));
    }
    node_matches(
        node,
        spec.node_name.as_deref(),
        spec.all_nodes,
        spec.node_selector.as_ref(),
    )
}

/// Returns the pools with devices for the node, by driver and name; those whose devices are ready only after a while are
/// last (`GatherPools`).
pub(super) fn gather<'a>(slices: &[&'a ResourceSlice], node: &Node) -> Vec<Pool<'a>> {
    let mut by_pool: BTreeMap<(&str, &str), Vec<&ResourceSlice>> = BTreeMap::new();
    for slice in slices.iter().filter(|slice| is_relevant(slice, node)) {
        let key = (slice.spec.driver.as_str(), slice.spec.pool.name.as_str());
        let known = by_pool.entry(key).or_default();
        let generation = known.first().map(|first| first.spec.pool.generation);
        // Older slices are outdated by newer ones.
        if generation.is_some_and(|known| slice.spec.pool.generation < known) {
            continue;
        }
        if generation.is_some_and(|known| slice.spec.pool.generation > known) {
            known.clear();
        }
        known.push(slice);
    }
    let pools = by_pool.into_iter().filter_map(|((driver, name), own)| {
        let first = own.first()?.spec.pool.clone();
        let mut all = own.clone();
        if is_incomplete(&own, first.resource_slice_count) {
            let of_pool = slices
                .iter()
                .copied()
                .filter(|slice| slice.spec.driver == driver && slice.spec.pool.name == name);
            let of_pool: Vec<&ResourceSlice> = of_pool.collect();
            let mut newest = of_pool.iter().map(|slice| slice.spec.pool.generation);
            // The driver is replacing these slices by others, which are not for this node.
            if newest.any(|generation| generation > first.generation) {
                return None;
            }
            all = of_pool;
            all.retain(|slice| slice.spec.pool.generation == first.generation);
        }
        let mut pool = Pool {
            driver,
            name,
            state: PoolState::Incomplete,
            slices: Vec::new(),
            elsewhere: Vec::new(),
            counter_sets: BTreeMap::new(),
        };
        if !is_incomplete(&all, first.resource_slice_count) {
            pool.state = match pool.fill(own, &all) {
                Some(()) => PoolState::Usable,
                None => PoolState::Invalid,
            };
        }
        Some(pool)
    });
    let mut pools: Vec<Pool<'_>> = pools.collect();
    pools.sort_by_key(Pool::has_binding_conditions);
    pools
}

fn is_incomplete(slices: &[&ResourceSlice], wanted: i64) -> bool {
    i64::try_from(slices.len()) != Ok(wanted)
}

impl<'a> Pool<'a> {
    /// Takes the slices `own` for the node, and `all` of the pool. Returns None if they contradict each other.
    fn fill(&mut self, mut own: Vec<&'a ResourceSlice>, all: &[&'a ResourceSlice]) -> Option<()> {
        own.sort_by_key(|slice| slice.metadata.name.as_deref());
        let names: BTreeSet<_> = own.iter().map(|slice| &slice.metadata.name).collect();
        let elsewhere = all
            .iter()
            .filter(|slice| !names.contains(&slice.metadata.name));
        let elsewhere: Vec<&ResourceSlice> = elsewhere.copied().collect();
        let (counting, slices): (Vec<_>, Vec<_>) =
            own.into_iter().partition(|slice| has_counters(slice));
        let mut seen = BTreeSet::new();
        let mut own = slices.iter().flat_map(|slice| devices(slice));
        if !own.all(|device| seen.insert(&device.name)) {
            return None;
        }
        let sets = counting
            .iter()
            .flat_map(|slice| slice.spec.shared_counters.iter());
        for set in sets.flatten() {
            if self.counter_sets.insert(&set.name, set).is_some() {
                return None;
            }
        }
        let mut all = slices.iter().chain(&counting).chain(&elsewhere);
        if !all.all(|slice| self.has_counters_of(slice)) {
            return None;
        }
        (self.slices, self.elsewhere) = (slices, elsewhere);
        Some(())
    }

    /// Returns whether the pool has the counters that devices of the slice consume.
    fn has_counters_of(&self, slice: &ResourceSlice) -> bool {
        let consumed = devices(slice)
            .iter()
            .flat_map(|own| own.consumes_counters.iter());
        consumed.flatten().all(|consumed| {
            let set = self.counter_sets.get(consumed.counter_set.as_str());
            let mut names = consumed.counters.keys();
            set.is_some_and(|set| names.all(|name| set.counters.contains_key(name)))
        })
    }

    fn has_binding_conditions(&self) -> bool {
        let mut devices = self.slices.iter().flat_map(|slice| devices(slice));
        devices.any(|device| device.binding_conditions.is_some())
    }
}
