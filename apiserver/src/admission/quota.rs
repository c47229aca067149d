//! Resource quotas: the usage of a namespace, and its limits.
//!
//! A quota is enforced once its status states the hard limits: a controller sets them, and releases
//! the usage of deleted objects.

pub(crate) mod scopes;
pub(crate) mod usage;

use std::cmp::Ordering;
use std::sync::Arc;

use super::attributes::Attributes;
use crate::json::{Value, json};
use crate::meta::object::{name, namespace};
use crate::registry::core::pod::resources::amounts::{Amounts, amounts};
use crate::schema::quantity::Quantity;
use crate::status::ApiError;
use crate::storage::{Change, StoredObject, Transaction};

/// The options of a charge: whether the write is a dry run, and its user agent.
#[derive(Clone, Copy)]
pub(crate) struct Charge<'a> {
    pub(crate) dry_run: bool,
    pub(crate) user_agent: &'a Arc<str>,
}

/// A quota, and its usage after the write.
struct Used {
    quota: Arc<StoredObject>,
    used: Amounts,
}

impl Attributes<'_> {
    /// Charges the write to the quotas of its namespace; `None` where no quota could be affected.
    ///
    /// The refusal of a write beyond a quota is `Forbidden`.
    pub(crate) fn charge(self, charge: Charge<'_>) -> Option<Result<(), ApiError>> {
        let quotas = self.state.listers.quotas(&self.state.storage);
        if quotas.is_empty() || !self.resource.namespaced || !self.is_charged() {
            return None;
        }
        loop {
            match self.charge_all(charge) {
                Ok(false) => {}
                Ok(true) => return Some(Ok(())),
                Err(refusal) => return Some(Err(refusal)),
            }
        }
    }

    /// Whether the write may increase usage.
    fn is_charged(self) -> bool {
        let resource = self.resource.gvr().group_resource();
        let Some(old) = self.old else {
            return self.subresource.is_empty();
        };
        let state = resource.group.is_empty();
        match (&*resource.resource, self.subresource) {
            ("pods", "") if state => {
                scopes::is_terminating(old) != scopes::is_terminating(self.object)
            }
            ("pods", "resize") | ("services" | "persistentvolumeclaims", "") => state,
            ("persistentvolumeclaims", "status") if state => {
                let allocated =
                    |claim: &Value| claim["status"]["allocatedResources"]["storage"].clone();
                allocated(old) != allocated(self.object)
                    || scopes::attributes_classes(old) != scopes::attributes_classes(self.object)
            }
            _ => false,
        }
    }

    /// Charges the write to every quota; false if another writer has changed one of them meanwhile.
    fn charge_all(self, charge: Charge<'_>) -> Result<bool, ApiError> {
        let resource = self.resource.gvr().group_resource();
        let now = self.state.clock.now();
        let new = usage::of(&resource, self.object, now);
        let old = self.old.map(|old| usage::of(&resource, old, now));
        let table = self.state.listers.quotas(&self.state.storage);
        let snapshot = table.snapshot();
        let mut changed = Vec::new();
        for quota in snapshot.range(Some(namespace(self.object)), None) {
            if let Some(used) = self.used(&quota.value(), &new, old.as_ref())? {
                let quota = Arc::clone(quota);
                changed.push(Used { quota, used });
            }
        }
        if charge.dry_run {
            return Ok(true);
        }
        for Used { quota, used } in changed {
            let mut next = (*quota.value()).clone();
            let shown = used
                .iter()
                .map(|(name, own)| (name.clone(), json!(own.to_string())));
            next["status"]["used"] = Value::Object(shown.collect());
            let commit = Transaction {
                key: &quota.key,
                expected: Some(&quota),
                change: Change::Put(next),
                time: self.state.clock.now(),
                user_agent: charge.user_agent,
            };
            if table.commit(commit).is_err() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The amounts that a quota has used after the write; `None` if it does not count the object.
    fn used(
        self,
        quota: &Value,
        new: &Amounts,
        old: Option<&Amounts>,
    ) -> Result<Option<Amounts>, ApiError> {
        let hard = amounts(&quota["status"]["hard"]);
        let before = amounts(&quota["status"]["used"]);
        let resource = self.resource.gvr().group_resource();
        let counted: Vec<&String> = hard
            .keys()
            .filter(|name| usage::is_counted(&resource, name))
            .collect();
        if counted.is_empty() || !scopes::match_object(&quota["spec"], &resource, self.object) {
            return Ok(None);
        }
        let own = name(quota);
        if let Some(missing) = usage::unstated(&resource, &counted, self.object) {
            return Err(self.forbidden(format!("failed quota: {own}: {missing}")));
        }
        if counted.iter().any(|name| !before.contains_key(*name)) {
            let names: Vec<&str> = counted.iter().map(|name| name.as_str()).collect();
            let names = names.join(",");
            return Err(self.forbidden(format!(
                "status unknown for quota: {own}, resources: {names}"
            )));
        }
        // An object that the quota did not match before is charged as a whole.
        let was_counted = self
            .old
            .is_some_and(|old| scopes::match_object(&quota["spec"], &resource, old));
        let old = old.filter(|_| was_counted);
        let mut requested = Amounts::new();
        for (name, amount) in new.iter().filter(|(name, _)| hard.contains_key(*name)) {
            let delta = match old.and_then(|old| old.get(name)) {
                Some(old) => amount.add(&old.negated()),
                None => amount.clone(),
            };
            if !delta.is_zero() && !delta.is_negative() {
                requested.insert(name.clone(), delta);
            }
        }
        if requested.is_empty() {
            return Ok(None);
        }
        let mut used = before.clone();
        let mut exceeded = Vec::new();
        for (name, amount) in &requested {
            let sum = before
                .get(name)
                .map_or_else(|| amount.clone(), |own| own.add(amount));
            // A status reports usage that exists already.
            if self.subresource != "status" && sum.compare(&hard[name]) == Ordering::Greater {
                exceeded.push(name);
            }
            used.insert(name.clone(), sum);
        }
        if exceeded.is_empty() {
            return Ok(Some(used));
        }
        let shown = |amounts: &Amounts| {
            let zero = Quantity::parse("0").expect("0 is an amount");
            let each = exceeded
                .iter()
                .map(|name| format!("{name}={}", amounts.get(*name).unwrap_or(&zero)));
            each.collect::<Vec<_>>().join(",")
        };
        Err(self.forbidden(format!(
            "exceeded quota: {own}, requested: {}, used: {}, limited: {}",
            shown(&requested),
            shown(&before),
            shown(&hard)
        )))
    }
}
