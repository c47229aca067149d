//! The devices and the capacity that claims have.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::resource::v1::{DeviceRequestAllocationResult, ResourceClaim};

use super::consumable_capacity::{Capacities, parsed};
use super::device_id::DeviceId;

/// The allocations of all claims.
///
/// Source: `GatherAllocatedState` of the plugin DynamicResources.
#[derive(Clone, Debug, Default)]
pub(super) struct Allocated<'a> {
    /// The devices that belong to one claim.
    devices: BTreeSet<DeviceId<'a>>,
    /// The devices of which claims have a part.
    shared: BTreeSet<DeviceId<'a>>,
    /// The capacity of these parts.
    pub(super) capacities: Capacities<'a>,
}

impl<'a> Allocated<'a> {
    pub(super) fn of(claims: impl Iterator<Item = &'a ResourceClaim>) -> Self {
        let mut allocated = Self::default();
        for result in claims.flat_map(results) {
            // An administrator shares the devices of others.
            if result.admin_access == Some(true) {
                continue;
            }
            let id = DeviceId {
                driver: &result.driver,
                pool: &result.pool,
                device: &result.device,
            };
            if result.share_id.is_none() {
                allocated.devices.insert(id);
                continue;
            }
            allocated.shared.insert(id);
            let consumed = result.consumed_capacity.iter().flatten();
            let consumed: BTreeMap<&str, _> = consumed
                .map(|(name, amount)| (name.as_str(), parsed(amount)))
                .collect();
            if !consumed.is_empty() {
                allocated.capacities.add(id, &consumed);
            }
        }
        allocated
    }

    /// Returns whether a claim has the whole device.
    pub(super) fn has_device(&self, id: DeviceId<'_>) -> bool {
        self.devices.contains(&id)
    }

    /// Returns whether a claim has the device or a part of it (`IsDeviceAllocated`).
    pub(super) fn has_any_of(&self, id: DeviceId<'_>) -> bool {
        self.devices.contains(&id) || self.shared.contains(&id)
    }
}

fn results(claim: &ResourceClaim) -> &[DeviceRequestAllocationResult] {
    let allocation = claim
        .status
        .as_ref()
        .and_then(|status| status.allocation.as_ref());
    let devices = allocation.and_then(|allocation| allocation.devices.as_ref());
    let results = devices.and_then(|devices| devices.results.as_deref());
    results.unwrap_or_default()
}
