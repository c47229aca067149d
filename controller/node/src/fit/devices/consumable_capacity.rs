//! The capacity of devices that several claims share.
//!
//! Source: `structured/internal/incubating/consumable_capacity.go`.

use std::collections::BTreeMap;

use k8s_openapi::api::resource::v1::{
    CapacityRequestPolicy, CapacityRequestPolicyRange, CapacityRequirements, Device, DeviceCapacity,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;
use kubeproof_machinery::schema::quantity::Quantity;

use super::device_id::DeviceId;

/// Amounts by the names of a device's capacity.
pub(super) type Amounts<'a> = BTreeMap<&'a str, Quantity>;

/// Consumed capacity by device.
#[derive(Clone, Debug, Default)]
pub(super) struct Capacities<'a>(BTreeMap<DeviceId<'a>, Amounts<'a>>);

impl<'a> Capacities<'a> {
    pub(super) fn add(&mut self, id: DeviceId<'a>, consumed: &Amounts<'a>) {
        let of_device = self.0.entry(id).or_default();
        for (name, amount) in consumed {
            let own = of_device.entry(name).or_insert_with(|| Quantity::from(0));
            *own = own.add(amount);
        }
    }

    pub(super) fn remove(&mut self, id: DeviceId<'a>, consumed: &Amounts<'a>) {
        let Some(of_device) = self.0.get_mut(&id) else {
            return;
        };
        for (name, amount) in consumed {
            if let Some(own) = of_device.get_mut(name) {
                *own = own.add(&amount.negated());
            }
        }
        of_device.retain(|_, amount| !amount.is_zero());
        if of_device.is_empty() {
            self.0.remove(&id);
        }
    }

    pub(super) fn has(&self, id: DeviceId<'_>) -> bool {
        self.0.contains_key(&id)
    }

    fn get(&self, id: DeviceId<'a>, name: &str) -> Option<&Quantity> {
        self.0.get(&id)?.get(name)
    }
}

/// Returns the amount of a quantity of the API, which the server has validated.
pub(super) fn parsed(text: &Text) -> Quantity {
    Quantity::parse(&text.0).unwrap_or_else(|_| Quantity::from(0))
}

/// Returns whether the device has room for a request, where `consumed` lists all parts of it in use
/// (`CmpRequestOverCapacity`).
pub(super) fn has_room<'a>(
    id: DeviceId<'a>,
    device: &Device,
    requested: Option<&CapacityRequirements>,
    consumed: [&Capacities<'a>; 2],
) -> bool {
    let mut names = requests(requested).map(|(name, _)| name);
    if names.any(|name| !capacity(device).any(|(known, _)| known == name)) {
        return false;
    }
    capacity(device).all(|(name, own)| {
        let amount = consumption(request_of(requested, name), own);
        if violates(&amount, own.request_policy.as_ref()) {
            return false;
        }
        let in_use = consumed.iter().filter_map(|one| one.get(id, name));
        let sum = in_use.fold(amount, |sum, one| sum.add(one));
        sum.compare(&parsed(&own.value)).is_le()
    })
}

/// Returns what a request consumes of the device (`GetConsumedCapacityFromRequest`).
pub(super) fn consumed_by<'a>(
    device: &'a Device,
    requested: Option<&CapacityRequirements>,
) -> Amounts<'a> {
    let amounts = capacity(device).map(|(name, own)| {
        let amount = consumption(request_of(requested, name), own);
        (name, amount)
    });
    amounts.collect()
}

fn capacity(device: &Device) -> impl Iterator<Item = (&str, &DeviceCapacity)> {
    let capacity = device.capacity.iter().flatten();
    capacity.map(|(name, own)| (name.as_str(), own))
}

fn requests(requested: Option<&CapacityRequirements>) -> impl Iterator<Item = (&str, &Text)> {
    let requests = requested.and_then(|requested| requested.requests.as_ref());
    let requests = requests.into_iter().flatten();
    requests.map(|(name, amount)| (name.as_str(), amount))
}

fn request_of(requested: Option<&CapacityRequirements>, name: &str) -> Option<Quantity> {
    let mut requests = requests(requested);
    let (_, amount) = requests.find(|(own, _)| *own == name)?;
    Some(parsed(amount))
}

/// Returns the amount that is consumed for a request, by the policy of the capacity (`calculateConsumedCapacity`).
fn consumption(requested: Option<Quantity>, own: &DeviceCapacity) -> Quantity {
    let policy = own.request_policy.as_ref();
    let Some(requested) = requested else {
        let default = policy.and_then(|policy| policy.default.as_ref());
        return parsed(default.unwrap_or(&own.value));
    };
    let Some(policy) = policy else {
        return requested;
    };
    if let Some(range) = &policy.valid_range {
        return rounded_up(requested, range);
    }
    let values = policy.valid_values.iter().flatten().map(parsed);
    let mut large_enough = values.filter(|value| requested.compare(value).is_le());
    large_enough.next().unwrap_or(requested)
}

/// Rounds up to the range's minimum, or to a whole number of steps above it (`roundUpRange`).
fn rounded_up(requested: Quantity, range: &CapacityRequestPolicyRange) -> Quantity {
    let least = parsed(&range.min);
    if requested.compare(&least).is_lt() {
        return least;
    }
    let Some(step) = range.step.as_ref().map(|step| whole(&parsed(step))) else {
        return requested;
    };
    let least = whole(&least);
    let added = whole(&requested).saturating_sub(least);
    let Some(rest) = added.checked_rem(step) else {
        return requested;
    };
    let steps = added / step + i64::from(rest != 0);
    let amount = least.saturating_add(step.saturating_mul(steps));
    Quantity::from(amount).in_binary_units()
}

/// Returns whether the amount breaks the policy (`violatesPolicy`).
fn violates(amount: &Quantity, policy: Option<&CapacityRequestPolicy>) -> bool {
    let Some(policy) = policy else {
        return false;
    };
    let is = |other: &Text| amount.compare(&parsed(other)).is_eq();
    if policy.default.as_ref().is_some_and(is) {
        return false;
    }
    if let Some(range) = &policy.valid_range {
        let exceeds = |most: &Text| amount.compare(&parsed(most)).is_gt();
        let step = range.step.as_ref().map(|step| whole(&parsed(step)));
        let added = whole(amount).saturating_sub(whole(&parsed(&range.min)));
        let rest = step.and_then(|step| added.checked_rem(step));
        return range.max.as_ref().is_some_and(exceeds) || rest.is_some_and(|rest| rest != 0);
    }
    let values = policy.valid_values.as_deref().unwrap_or_default();
    !values.is_empty() && !values.iter().any(is)
}

/// Returns the amount as a whole number, rounded up.
fn whole(amount: &Quantity) -> i64 {
    let whole = amount.scaled_value(0);
    whole
        .and_then(|whole| i64::try_from(whole).ok())
        .unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use kubeproof_machinery::json::{Value, json};
    use kubeproof_runtime::decode::from_value;

    use super::*;

    fn device(policy: &Value) -> Device {
        let memory = json!({"value": "10Gi", "requestPolicy": policy});
        from_value(json!({"name": "d", "capacity": {"memory": memory}})).unwrap()
    }

    /// Returns the amount that a request consumes, and whether the device has room for it. A policy of null is no policy.
    fn consume(policy: &Value, requested: Option<&str>) -> (String, bool) {
        let device = device(policy);
        let requests = requested.map(|amount| json!({"requests": {"memory": amount}}));
        let requests: Option<CapacityRequirements> =
            requests.map(|requests| from_value(requests).unwrap());
        let amount = consumed_by(&device, requests.as_ref())["memory"].to_string();
        let id = DeviceId {
            driver: "d",
            pool: "p",
            device: "d",
        };
        let nothing = Capacities::default();
        let room = has_room(id, &device, requests.as_ref(), [&nothing, &nothing]);
        (amount, room)
    }

    #[test]
    fn policies_round_up_and_refuse() {
        let range =
            json!({"default": "1Gi", "validRange": {"min": "2Gi", "step": "2Gi", "max": "6Gi"}});
        let open = json!({"default": "1Gi", "validRange": {"min": "2Gi"}});
        let values = json!({"default": "1Gi", "validValues": ["1Gi", "4Gi"]});
        for (policy, requested, amount, room) in [
            (&Value::Null, None, "10Gi", true),
            (&Value::Null, Some("3Gi"), "3Gi", true),
            (&Value::Null, Some("11Gi"), "11Gi", false),
            (&range, None, "1Gi", true),
            (&range, Some("1Gi"), "2Gi", true),
            (&range, Some("3Gi"), "4Gi", true),
            (&range, Some("4Gi"), "4Gi", true),
            (&range, Some("7Gi"), "8Gi", false),
            (&open, Some("3Gi"), "3Gi", true),
            (&values, Some("2Gi"), "4Gi", true),
            (&values, Some("5Gi"), "5Gi", false),
        ] {
            let found = consume(policy, requested);
            assert_eq!(found, (amount.to_owned(), room), "{policy} {requested:?}");
        }
    }

    #[test]
    fn a_request_for_what_the_device_does_not_have_has_no_room() {
        let device = device(&Value::Null);
        let requests = json!({"requests": {"cores": "1"}});
        let requests: CapacityRequirements = from_value(requests).unwrap();
        let id = DeviceId {
            driver: "d",
            pool: "p",
            device: "d",
        };
        let nothing = Capacities::default();
        assert!(!has_room(
            id,
            &device,
            Some(&requests),
            [&nothing, &nothing]
        ));
        assert!(!has_room(id, &device, None, [&nothing, &used(id)]));
        assert!(has_room(id, &device, None, [&nothing, &nothing]));
    }

    fn used(id: DeviceId<'_>) -> Capacities<'_> {
        let mut used = Capacities::default();
        used.add(id, &Amounts::from([("memory", Quantity::from(1))]));
        used
    }

    #[test]
    fn capacity_is_given_back() {
        let id = DeviceId {
            driver: "d",
            pool: "p",
            device: "d",
        };
        let mut used = used(id);
        assert!(used.has(id));
        used.remove(id, &Amounts::from([("memory", Quantity::from(1))]));
        assert!(!used.has(id));
    }
}
