//! Constraints between the devices of a claim.
//!
//! Source: `matchAttributeConstraint` and `distinctAttributeConstraint` of `structured/internal/incubating`.

use std::collections::BTreeMap;

use k8s_openapi::api::resource::v1::{Device, DeviceAttribute, DeviceConstraint};

use super::request::Request;

/// The relation that a constraint asks for.
enum Relation<'a> {
    /// All devices have the same value.
    Match(Option<&'a DeviceAttribute>),
    /// All devices have different values, which are kept by request, of each request the last.
    Distinct(BTreeMap<&'a str, &'a DeviceAttribute>),
}

/// A constraint, and the devices that it counts so far.
pub(super) struct Constraint<'a> {
    /// The requests that it is about; all if empty.
    requests: &'a [String],
    attribute: &'a str,
    relation: Relation<'a>,
    count: usize,
}

impl<'a> Constraint<'a> {
    /// Returns None for a constraint of an unknown type.
    pub(super) fn of(own: &'a DeviceConstraint) -> Option<Self> {
        let (attribute, relation) = match (&own.match_attribute, &own.distinct_attribute) {
            (Some(attribute), _) => (attribute, Relation::Match(None)),
            (None, Some(attribute)) => (attribute, Relation::Distinct(BTreeMap::new())),
            (None, None) => return None,
        };
        Some(Self {
            requests: own.requests.as_deref().unwrap_or_default(),
            attribute,
            relation,
            count: 0,
        })
    }

    /// Adds a device of `driver`. Returns false if that would break the constraint.
    pub(super) fn add(&mut self, request: Request<'a>, driver: &str, device: &'a Device) -> bool {
        if !self.concerns(request) {
            return true;
        }
        let Some(value) = attribute(device, driver, self.attribute) else {
            return false;
        };
        match &mut self.relation {
            Relation::Match(first) if self.count == 0 => *first = Some(value),
            Relation::Match(first) => {
                if !first.is_some_and(|first| is_same(value, first)) {
                    return false;
                }
            }
            Relation::Distinct(values) => {
                let is_taken = values.values().any(|own| is_same(value, own));
                if is_taken {
                    return false;
                }
                values.insert(request.base_name(), value);
            }
        }
        self.count += 1;
        true
    }

    /// Removes a device that was added for this request.
    pub(super) fn remove(&mut self, request: Request<'a>) {
        if !self.concerns(request) {
            return;
        }
        if let Relation::Distinct(values) = &mut self.relation {
            values.remove(request.base_name());
        }
        self.count -= 1;
    }

    fn concerns(&self, request: Request<'a>) -> bool {
        let mut requests = self.requests.iter();
        self.requests.is_empty()
            || requests.any(|own| own == request.base_name() || *own == request.full_name())
    }
}

/// Returns the attribute of this full name; names without a domain are of the driver's.
fn attribute<'a>(device: &'a Device, driver: &str, full_name: &str) -> Option<&'a DeviceAttribute> {
    let attributes = device.attributes.as_ref()?;
    let (domain, name) = full_name.split_once('/')?;
    let own = || attributes.get(name).filter(|_| domain == driver);
    attributes.get(full_name).or_else(own)
}

fn is_same(one: &DeviceAttribute, other: &DeviceAttribute) -> bool {
    if one.string.is_some() {
        return one.string == other.string;
    }
    if one.int.is_some() {
        return one.int == other.int;
    }
    if one.bool.is_some() {
        return one.bool == other.bool;
    }
    one.version.is_some() && one.version == other.version
}
