//! The counters that devices of a pool share (partitionable devices).
//!
//! Source: `checkAvailableCounters` of `structured/internal/incubating`.

use std::collections::BTreeMap;

use k8s_openapi::api::resource::v1::Device;
use kubeproof_machinery::schema::quantity::Quantity;

use super::allocated::Allocated;
use super::consumable_capacity::parsed;
use super::pools::Pool;

/// Amounts by counter set and counter.
type Amounts<'a> = BTreeMap<(&'a str, &'a str), Quantity>;

/// The counters that are left while devices are being chosen, by index of the pool.
#[derive(Debug, Default)]
pub(super) struct Counters<'a>(BTreeMap<usize, Amounts<'a>>);

impl<'a> Counters<'a> {
    /// Takes what the device consumes. Returns false, and takes nothing, if there is not enough left.
    pub(super) fn take(
        &mut self,
        (index, pool): (usize, &Pool<'a>),
        device: &'a Device,
        allocated: &Allocated<'a>,
    ) -> bool {
        let left = self.0.entry(index).or_insert_with(|| left(pool, allocated));
        let mut after = left.clone();
        for (counter, amount) in consumption(device) {
            let amount = amount.negated();
            let own = after.entry(counter).or_insert_with(|| Quantity::from(0));
            *own = own.add(&amount);
        }
        if after.values().any(Quantity::is_negative) {
            return false;
        }
        *left = after;
        true
    }

    /// Gives back what the device consumes.
    pub(super) fn give_back(&mut self, index: usize, device: &'a Device) {
        let Some(left) = self.0.get_mut(&index) else {
            return;
        };
        for (counter, amount) in consumption(device) {
            if let Some(own) = left.get_mut(&counter) {
                *own = own.add(&amount);
            }
        }
    }
}

/// Returns the counters of the pool without those of the devices that claims have.
fn left<'a>(pool: &Pool<'a>, allocated: &Allocated<'a>) -> Amounts<'a> {
    let sets = pool.counter_sets.iter();
    let counters = sets.flat_map(|(set, own)| {
        let counters = own.counters.iter();
        counters.map(|(name, counter)| ((*set, name.as_str()), parsed(&counter.value)))
    });
    let mut left: Amounts<'a> = counters.collect();
    let in_use = pool.devices().filter(|(id, _)| allocated.has_any_of(*id));
    for (counter, amount) in in_use.flat_map(|(_, device)| consumption(device)) {
        if let Some(own) = left.get_mut(&counter) {
            *own = own.add(&amount.negated());
        }
    }
    left
}

fn consumption(device: &Device) -> impl Iterator<Item = ((&str, &str), Quantity)> {
    let consumed = device.consumes_counters.iter().flatten();
    consumed.flat_map(|set| {
        let counters = set.counters.iter();
        counters.map(|(name, counter)| {
            let counter_of = (set.counter_set.as_str(), name.as_str());
            (counter_of, parsed(&counter.value))
        })
    })
}
