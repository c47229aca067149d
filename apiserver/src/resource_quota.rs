//! The usage of a quota by the objects of its namespace, counted as admission counts new objects,
//! for the controller that updates the status of quotas.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::admission::quota::{scopes, usage};
use crate::json::Value;
use crate::meta::GroupResource;
use crate::registry::core::pod::resources::amounts::{Amounts, amounts};
use crate::schema::quantity::Quantity;

/// An object in the namespace of a quota.
#[derive(Clone, Copy, Debug)]
pub struct Counted<'o> {
    /// The resource of the object, as in `count/…` names: `pods`, `deployments.apps`.
    pub resource: &'o str,
    /// The object. Only pods, services and claims have to be whole.
    pub object: &'o Value,
}

/// Sums the usage by `objects` of the quota with this `spec`, at the time `now`: an amount for each
/// limited name.
#[must_use]
pub fn used(spec: &Value, objects: &[Counted<'_>], now: Timestamp) -> BTreeMap<String, String> {
    let zero = || Quantity::from(0);
    let mut used: Amounts = amounts(&spec["hard"])
        .into_keys()
        .map(|name| (name, zero()))
        .collect();
    for Counted { resource, object } in objects {
        let (plural, group) = resource.split_once('.').unwrap_or((resource, ""));
        let resource = GroupResource {
            group: group.into(),
            resource: plural.into(),
        };
        let counts = |name: &String| usage::is_counted(&resource, name);
        if !used.keys().any(counts) || !scopes::match_object(spec, &resource, object) {
            continue;
        }
        for (name, amount) in usage::of(&resource, object, now) {
            if let Some(sum) = used.get_mut(&name) {
                *sum = sum.add(&amount);
            }
        }
    }
    let used = used.into_iter();
    used.map(|(name, amount)| (name, amount.to_string()))
        .collect()
}

#[cfg(test)]
mod tests;
