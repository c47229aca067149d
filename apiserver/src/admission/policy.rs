//! Admission policies: the bound policies that match a write, and their effects.

mod compiled;
mod evaluate;
mod mutate;
mod params;
mod validate;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use super::request::{Admission, GROUP};
use crate::json::Value;
use crate::meta::GroupVersionResource;
use crate::meta::object::{meta, name};
use crate::status::ApiError;
use crate::storage::{Storage, StoredObject, Table};
pub(crate) use compiled::{Compiled, Validation, compile_variables};
pub(in crate::admission) use mutate::Reinvocation;
pub(crate) use validate::message;

use compiled::Policy;

/// The family of a policy: mutating or validating.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    Mutating,
    Validating,
}

/// The tables of policies and bindings, and the policies compiled.
#[derive(Debug, Default)]
pub(crate) struct Policies {
    tables: [OnceLock<Arc<Table>>; 4],
    /// Compiled policies by uid, with the version of each.
    compiled: Mutex<BTreeMap<String, (String, Arc<Policy>)>>,
}

/// A policy that has a say, with its bindings.
struct Bound {
    policy: Arc<Policy>,
    bindings: Vec<Arc<StoredObject>>,
}

impl Policies {
    /// Whether there is any binding: a policy alone has no effect.
    pub(super) fn are_bound(&self, storage: &Storage) -> bool {
        [Family::Mutating, Family::Validating]
            .into_iter()
            .any(|family| !self.bindings(family, storage).is_empty())
    }

    fn table(&self, index: usize, plural: &str, storage: &Storage) -> &Table {
        self.tables[index].get_or_init(|| {
            storage.table(&GroupVersionResource {
                group: GROUP.to_owned(),
                version: "v1".to_owned(),
                resource: plural.to_owned(),
            })
        })
    }

    /// The names of all policies.
    pub(super) fn names(&self, storage: &Storage) -> BTreeSet<String> {
        let families = [Family::Mutating, Family::Validating].into_iter();
        let policies = families.map(|family| self.policies(family, storage).snapshot());
        let names = policies.flat_map(|policies| {
            let policies = policies.range(None, None);
            let names = policies.map(|policy| name(&policy.value()).to_owned());
            names.collect::<Vec<_>>()
        });
        names.collect()
    }

    fn policies(&self, family: Family, storage: &Storage) -> &Table {
        match family {
            Family::Mutating => self.table(0, "mutatingadmissionpolicies", storage),
            Family::Validating => self.table(1, "validatingadmissionpolicies", storage),
        }
    }

    fn bindings(&self, family: Family, storage: &Storage) -> &Table {
        match family {
            Family::Mutating => self.table(2, "mutatingadmissionpolicybindings", storage),
            Family::Validating => self.table(3, "validatingadmissionpolicybindings", storage),
        }
    }

    /// The policies that have a binding, both in the order of their names.
    fn bound(&self, family: Family, storage: &Storage) -> Vec<Bound> {
        let bindings = self.bindings(family, storage);
        if bindings.is_empty() {
            return Vec::new();
        }
        let bindings = bindings.snapshot();
        let policies = self.policies(family, storage).snapshot();
        let policies = policies.range(None, None);
        policies
            .filter_map(|policy| {
                let own = |binding: &&Arc<StoredObject>| {
                    binding.value()["spec"]["policyName"] == name(&policy.value())
                };
                let bindings: Vec<_> = bindings.range(None, None).filter(own).cloned().collect();
                (!bindings.is_empty()).then(|| Bound {
                    policy: self.compiled(&policy.value()),
                    bindings,
                })
            })
            .collect()
    }

    fn compiled(&self, policy: &Value) -> Arc<Policy> {
        let (uid, rv) = (meta(policy, "uid"), meta(policy, "resourceVersion"));
        let mut compiled = self.compiled.lock();
        if let Some((known, policy)) = compiled.get(uid)
            && known == rv
        {
            return Arc::clone(policy);
        }
        let made = Arc::new(Policy::compile(policy));
        compiled.insert(uid.to_owned(), (rv.to_owned(), Arc::clone(&made)));
        made
    }
}

impl Admission<'_> {
    /// The policies to look at: none has a say about policies.
    fn policies(&self, family: Family) -> Vec<Bound> {
        let gvr = self.resource.gvr();
        let is_exempt = gvr.group == GROUP && gvr.resource.contains("admissionpolic");
        match is_exempt {
            true => Vec::new(),
            false => self
                .state
                .webhooks
                .policies
                .bound(family, &self.state.storage),
        }
    }
}

/// The text of a refusal after a failure to match a policy or to find its parameters.
fn config_fault(binding: Option<&Value>, why: &str) -> String {
    match binding {
        None => format!("failed to configure policy: {why}"),
        Some(_) => format!("failed to configure binding: {why}"),
    }
}

/// The text of an error within another error.
fn text_of(error: &ApiError) -> String {
    error.to_string()
}
