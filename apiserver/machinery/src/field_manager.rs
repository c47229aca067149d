//! Field management: the owners of an object's fields, and server-side apply (KEP-555).
//!
//! - `path` and `set`: sets of fields, the `FieldsV1` of managed fields
//! - `typed`: the schema as ownership sees it
//! - `compare`, `merge`, `owned`: differences, merged objects, owned and removed fields
//! - `created`: the fields of a new object
//! - `apply`: server-side apply
//! - `validate`: whether an applied configuration fits the schema
//! - `managers`: `metadata.managedFields`
//! - `scale`: managed fields of the scale subresource

mod apply;
mod compare;
mod configuration;
mod created;
mod managers;
mod merge;
mod owned;
mod path;
pub mod scale;
mod set;
mod typed;
mod validate;

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};

use crate::json::{Map, Value};
use crate::meta::fields;
use crate::meta::object::{meta, meta_mut};
use crate::meta::{GroupVersion, GroupVersionKind};
use crate::schema::{self, Object};
use compare::Comparison;
use created::created_fields;
use managers::{Entry, Fields, ManagerId, Managers, Operation, is_reset};
use set::FieldSet;
use typed::Shape;

pub use apply::Force;
pub use configuration::merge_configuration;
pub use managers::equal_but_for_times;

/// Bytes that a manager's name taken from a user agent may have.
const USER_AGENT_BYTES_MAX: usize = 128;

/// Fields of an object that no manager owns.
static UNOWNED: LazyLock<FieldSet> = LazyLock::new(|| {
    FieldSet::of(&[
        &["apiVersion"],
        &["kind"],
        &["metadata"],
        &["metadata", "name"],
        &["metadata", "namespace"],
        &["metadata", "creationTimestamp"],
        &["metadata", "selfLink"],
        &["metadata", "uid"],
        &["metadata", "clusterName"],
        &["metadata", "generation"],
        &["metadata", "managedFields"],
        &["metadata", "resourceVersion"],
    ])
});

/// The manager of a request that does not name one: the program in its user agent.
fn manager_of_user_agent(user_agent: &str) -> String {
    let program = user_agent.split('/').next().unwrap_or_default();
    let mut name = String::new();
    for letter in program.chars().filter(|letter| !letter.is_control()) {
        if name.len() + letter.len_utf8() > USER_AGENT_BYTES_MAX {
            break;
        }
        name.push(letter);
    }
    name
}

/// The party that writes: manager, user agent and subresource of the request.
#[derive(Clone, Copy, Debug)]
pub struct Writer<'a> {
    /// The manager that the request names, may be empty.
    pub field_manager: &'a str,
    /// The `User-Agent` header, from which the manager follows when the request names none.
    pub user_agent: &'a str,
    /// The subresource of the request, empty for the object itself.
    pub subresource: &'a str,
}

/// Keeps `metadata.managedFields` for the writes of one request.
#[derive(Clone, Debug)]
pub struct FieldManager {
    kind: GroupVersionKind,
    api_version: String,
    manager: String,
    subresource: String,
    /// Fields that a write of this kind does not change, whatever it says.
    reset: FieldSet,
    schema: Option<Arc<Object>>,
}

impl FieldManager {
    /// Creates a manager for objects of a kind with `schema`; without a schema, ownership is
    /// deduced from the values. Writes through this (sub)resource leave the fields in `reset` as
    /// they are.
    pub fn new(
        kind: &GroupVersionKind,
        schema: Option<Arc<Object>>,
        writer: &Writer<'_>,
        reset: &[&[&str]],
    ) -> Self {
        let manager = match writer.field_manager {
            "" => manager_of_user_agent(writer.user_agent),
            manager => manager.to_owned(),
        };
        Self {
            schema,
            kind: kind.clone(),
            api_version: kind.api_version(),
            manager: if manager.is_empty() {
                "unknown".to_owned()
            } else {
                manager
            },
            subresource: writer.subresource.to_owned(),
            reset: FieldSet::of(reset),
        }
    }

    fn shape(&self) -> Shape<'_> {
        Shape::of_kind(self.schema.as_deref())
    }

    /// The object before its creation: Go's encoding of the kind without any value.
    fn nothing(&self) -> &Value {
        static UNKNOWN: LazyLock<Value> = LazyLock::new(|| Value::Object(Map::new()));
        let schema = self.schema.as_ref();
        schema.map_or(&UNKNOWN, |schema| schema.nothing())
    }

    /// Sets the managed fields of a new object.
    pub fn create(&self, new: &mut Value, now: &str) {
        match self.created(new, now) {
            Some(managed) => set_managed_fields(new, managed),
            None => self.update(self.nothing(), new, now),
        }
    }

    /// The managed fields of a new object of a built-in kind that brings none; the outer `None` if they
    /// have to be determined as those of an update.
    fn created(&self, new: &Value, now: &str) -> Option<Option<Value>> {
        schema::builtin(&self.kind)?;
        if !new["metadata"]["managedFields"].is_null() {
            return None;
        }
        let objects = (self.nothing(), new);
        let json = created_fields(self.shape(), objects, (&self.reset, &UNOWNED))?;
        let mut managers = Managers::default();
        if json != "{}" {
            let entry = Entry {
                fields: Fields::Stored(fields::at_rest(&json)),
                api_version: self.api_version.clone(),
                time: Some(now.to_owned()),
            };
            managers.0.insert(self.updates_of(&self.manager), entry);
        }
        Some(managers.encode())
    }

    /// The identity of a manager's updates.
    fn updates_of(&self, manager: &str) -> ManagerId {
        let operation = Operation::Update;
        ManagerId::new(manager, operation, &self.api_version, &self.subresource)
    }

    /// Sets the managed fields of `new`, which is to replace `live`, by an operation other than
    /// apply.
    pub fn update(&self, live: &Value, new: &mut Value, now: &str) {
        let managed = match self.updated(live, new, now) {
            Changed::No => live["metadata"].get("managedFields").cloned(),
            Changed::To(managed) => managed,
        };
        set_managed_fields(new, managed);
    }

    fn updated(&self, live: &Value, new: &Value, now: &str) -> Changed {
        let mut sent = Cow::Borrowed(&new["metadata"]["managedFields"]);
        let held = &live["metadata"]["managedFields"];
        let mut managers = None;
        if self.subresource.is_empty() && *sent != *held {
            fields::settle(sent.to_mut());
        }
        if self.subresource.is_empty() && *sent != *held {
            if is_reset(&sent) {
                managers = Some(Managers::default());
            } else {
                // Empty or broken entries are those of clients that do not know about them.
                managers = Managers::decode(&sent)
                    .ok()
                    .filter(|sent| !sent.0.is_empty());
            }
        }
        let is_new = meta(live, "uid").is_empty();
        let untracked = match &managers {
            Some(managers) => managers.0.is_empty(),
            None => held.as_array().is_none_or(Vec::is_empty),
        };
        if untracked && !is_new {
            return Changed::To(None);
        }
        // A custom resource can have values of wrong types, in fields that its strategy drops later, and some lists
        // items without keys. Upstream then cannot determine the fields, and drops their owners.
        let may_not_fit = schema::builtin(&self.kind).is_none() || has_optional_keys(&self.kind);
        if may_not_fit
            && ![new, live]
                .iter()
                .all(|object| validate::fits(self.shape(), object))
        {
            return Changed::To(None);
        }
        let comparison = Comparison::of(self.shape(), live, new);
        if managers.is_none() && comparison.is_empty() {
            return Changed::No;
        }
        let mut managers = managers.unwrap_or_else(|| Managers::stored(held).unwrap_or_default());
        self.record_update(&mut managers, comparison, &self.manager, now);
        Changed::To(managers.encode())
    }

    /// Gives the changed fields to an updater, and takes them from everybody else.
    fn record_update(
        &self,
        managers: &mut Managers,
        mut comparison: Comparison,
        manager: &str,
        now: &str,
    ) {
        comparison.exclude(&self.reset);
        self.drop_unknown_versions(managers);
        let (mut changed, removed) = comparison.into_set_and_removed();
        let id = self.updates_of(manager);
        for (own, entry) in &mut managers.0 {
            // The updater keeps its entry; the changed fields are added to that entry below.
            if *own != id {
                entry.fields.subtract(&changed);
            }
            entry.fields.subtract(&removed);
        }
        managers.drop_empty();
        changed.subtract(&UNOWNED);
        if !changed.is_empty() {
            let fields = match managers.0.remove(&id) {
                Some(mut own) => {
                    own.fields.extend(changed);
                    own.fields
                }
                None => Fields::Set(changed),
            };
            let entry = Entry {
                fields,
                api_version: self.api_version.clone(),
                time: Some(now.to_owned()),
            };
            managers.0.insert(id, entry);
        }
        managers.cap();
    }

    /// Forgets entries of versions that the kind no longer has, or has in another group: an event
    /// that is written through one of its groups loses the owners of the other.
    fn drop_unknown_versions(&self, managers: &mut Managers) {
        let is_known = |api_version: &str| {
            let version = GroupVersion::parse(api_version);
            let version = version.filter(|version| version.group == self.kind.group);
            version.is_some_and(|version| {
                let kind = GroupVersionKind {
                    group: version.group,
                    version: version.version,
                    kind: self.kind.kind.clone(),
                };
                schema::builtin(&kind).is_some()
            })
        };
        managers.0.retain(|_, entry| {
            entry.api_version == self.api_version
                || is_known(&entry.api_version)
                || schema::builtin(&self.kind).is_none()
        });
    }
}

/// Returns the error of decoding managed fields; `None` if they are valid.
pub fn managed_fields_fault(entries: &Value) -> Option<String> {
    Managers::decode(entries).err()
}

/// The effect of an update on the managed fields.
enum Changed {
    /// The managed fields stay.
    No,
    /// The managed fields become these; `None` if no manager owns a field.
    To(Option<Value>),
}

fn set_managed_fields(object: &mut Value, managed: Option<Value>) {
    let meta = meta_mut(object);
    match managed {
        Some(managed) => meta.insert("managedFields", managed),
        None => meta.remove("managedFields"),
    };
}

/// Whether a list of a built-in kind may have items without any of its keys. Validation of other kinds refuses such
/// items.
fn has_optional_keys(kind: &GroupVersionKind) -> bool {
    matches!(
        kind.kind.as_str(),
        "ServiceAccount" | "FlowSchema" | "PriorityLevelConfiguration"
    )
}
