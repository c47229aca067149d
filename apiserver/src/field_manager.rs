//! Field management: who owns which fields of an object, and server-side apply (KEP-555).
//!
//! - [`path`] and [`set`]: sets of fields, the `FieldsV1` of managed fields
//! - [`typed`]: what the schema says of ownership
//! - [`compare`], [`merge`], [`owned`]: what differs, what results, what is owned or removed
//! - [`validate`]: whether an applied configuration fits the schema
//! - [`managers`]: `metadata.managedFields`
//! - [`scale`]: the same, seen through the scale subresource

mod compare;
mod managers;
mod merge;
mod owned;
mod path;
pub(crate) mod scale;
mod set;
mod typed;
mod validate;

#[cfg(test)]
mod tests;

use std::sync::{Arc, LazyLock};

use serde_json::Value;

use crate::meta::object::{meta, meta_mut};
use crate::meta::{GroupVersion, GroupVersionKind};
use crate::schema::{self, Object};
use crate::status::{ApiError, Cause};
use compare::Comparison;
use managers::{Entry, ManagerId, Managers, Operation, is_reset};
use path::PathElement;
use set::FieldSet;
use typed::Shape;

pub(crate) use managers::equal_but_for_times;

/// The annotation in which `kubectl apply` keeps what it applied.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The manager of what was there before the first apply.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// Bytes that a manager's name taken from a user agent may have.
const USER_AGENT_BYTES_MAX: usize = 128;

/// Metadata that nobody owns.
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

/// Who writes, and through which subresource.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Writer<'a> {
    /// The manager that the request names, may be empty.
    pub(crate) field_manager: &'a str,
    pub(crate) user_agent: &'a str,
    pub(crate) subresource: &'a str,
}

/// Keeps `metadata.managedFields` for the writes of one request.
#[derive(Clone, Debug)]
pub(crate) struct FieldManager {
    kind: GroupVersionKind,
    api_version: String,
    manager: String,
    subresource: String,
    /// Fields that a write of this kind does not change, whatever it says.
    reset: FieldSet,
    schema: Option<Arc<Object>>,
}

impl FieldManager {
    /// A manager of objects of a kind with `schema`; without one, ownership is deduced from the
    /// values. `reset` are the fields that writes through this (sub)resource leave as they are.
    pub(crate) fn new(
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

    /// The object before it was created: what Go encodes for a kind nobody filled in.
    fn nothing(&self) -> Value {
        let zero = self.schema.as_ref().map(|schema| schema.zero());
        Value::Object(zero.unwrap_or_default())
    }

    /// Sets the managed fields of a new object.
    pub(crate) fn create(&self, new: &mut Value, now: &str) {
        let live = self.nothing();
        self.update(&live, new, now);
    }

    /// Sets the managed fields of `new`, which is to replace `live`, by an operation other than
    /// apply.
    pub(crate) fn update(&self, live: &Value, new: &mut Value, now: &str) {
        let managed = match self.updated(live, new, now) {
            Changed::No => live["metadata"].get("managedFields").cloned(),
            Changed::To(managed) => managed,
        };
        set_managed_fields(new, managed);
    }

    fn updated(&self, live: &Value, new: &Value, now: &str) -> Changed {
        let sent = &new["metadata"]["managedFields"];
        let held = &live["metadata"]["managedFields"];
        let mut managers = None;
        if self.subresource.is_empty() && sent != held {
            if is_reset(sent) {
                managers = Some(Managers::default());
            } else {
                // Empty or broken entries are those of clients that do not know about them.
                managers = Managers::decode(sent)
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
        let comparison = Comparison::of(self.shape(), live, new);
        if managers.is_none() && comparison.is_empty() {
            return Changed::No;
        }
        let mut managers = managers.unwrap_or_else(|| Managers::decode(held).unwrap_or_default());
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
        let mut changed = comparison.set_fields();
        for entry in managers.0.values_mut() {
            entry.fields.subtract(&changed);
            entry.fields.subtract(&comparison.removed);
        }
        managers.drop_empty();
        changed.subtract(&UNOWNED);
        if !changed.is_empty() {
            let id = ManagerId::new(
                manager,
                Operation::Update,
                &self.api_version,
                &self.subresource,
            );
            let entry = managers.0.entry(id).or_insert_with(|| Entry {
                fields: FieldSet::default(),
                api_version: self.api_version.clone(),
                time: None,
            });
            entry.fields = std::mem::take(&mut entry.fields).union(&changed);
            entry.time = Some(now.to_owned());
        }
        managers.cap();
    }

    /// Forgets entries of versions that the kind no longer has.
    fn drop_unknown_versions(&self, managers: &mut Managers) {
        let is_known = |api_version: &str| {
            GroupVersion::parse(api_version).is_some_and(|version| {
                let kind = GroupVersionKind {
                    group: version.group,
                    version: version.version,
                    kind: self.kind.kind.clone(),
                };
                schema::builtin(&kind).is_some()
            })
        };
        let is_builtin = schema::builtin(&self.kind).is_some();
        managers.0.retain(|_, entry| {
            entry.api_version == self.api_version || !is_builtin || is_known(&entry.api_version)
        });
    }

    /// Merges an applied configuration into `live`, or into nothing when there is no object.
    ///
    /// The outcome is not decoded: it may have nulls.
    ///
    /// # Errors
    /// `BadRequest` for another kind or with managed fields, `ApplyConflict` on fields of others
    /// unless `force`; upstream leaves a configuration that does not fit the schema without reason.
    pub(crate) fn apply(
        &self,
        live: Option<&Value>,
        applied: &Value,
        force: Force,
        now: &str,
    ) -> Result<Value, ApiError> {
        self.check(applied)?;
        let mut live = live.cloned().unwrap_or_else(|| self.nothing());
        let held = meta_mut(&mut live)
            .remove("managedFields")
            .unwrap_or_default();
        let mut managers = Managers::decode(&held)
            .map_err(|why| ApiError::Unknown(format!("failed to decode managed fields: {why}")))?;
        if managers.0.is_empty() && !meta(&live, "uid").is_empty() {
            let comparison = Comparison::of(self.shape(), &self.nothing(), &live);
            self.record_update(&mut managers, comparison, BEFORE_FIRST_APPLY, now);
        }
        let outcome = self.applied(&live, applied, managers.clone(), force);
        let outcome = match outcome {
            Err(conflicts) if self.manager == "kubectl" => {
                let allowed = self.last_applied_fields(&live);
                let allowed = allowed.unwrap_or_default();
                let kept: Vec<Conflict> = conflicts
                    .into_iter()
                    .filter(|conflict| !allowed.has(&conflict.path))
                    .collect();
                match kept.is_empty() {
                    true => self.applied(&live, applied, managers, Force::Yes),
                    false => Err(kept),
                }
            }
            outcome => outcome,
        };
        let (mut object, mut managers) = outcome.map_err(|conflicts| conflict(&conflicts))?;
        if object != live
            && let Some(entry) = managers.0.get_mut(&self.applier())
        {
            entry.time = Some(now.to_owned());
        }
        if self.manager == "kubectl" {
            sync_last_applied(&mut object, applied);
        }
        set_managed_fields(&mut object, managers.encode());
        Ok(object)
    }

    fn applier(&self) -> ManagerId {
        ManagerId::new(
            &self.manager,
            Operation::Apply,
            &self.api_version,
            &self.subresource,
        )
    }

    fn check(&self, applied: &Value) -> Result<(), ApiError> {
        let text = |field: &str| applied[field].as_str().unwrap_or_default();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        if api_version != self.api_version || kind != self.kind.kind {
            let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
            return Err(ApiError::BadRequest(format!(
                "invalid object type: {group}/{version}, Kind={kind}"
            )));
        }
        if !applied["metadata"]["managedFields"].is_null() {
            let message = "metadata.managedFields must be nil";
            return Err(ApiError::BadRequest(message.to_owned()));
        }
        validate::validate(self.shape(), applied).map_err(|why| {
            ApiError::Unknown(format!(
                "failed to create typed patch object ({}/{}; {}/{}, Kind={}): {why}",
                meta(applied, "namespace"),
                meta(applied, "name"),
                self.kind.group,
                self.kind.version,
                self.kind.kind,
            ))
        })
    }

    /// The outcome of an apply and its owners, or the fields that stand against it.
    fn applied(
        &self,
        live: &Value,
        applied: &Value,
        mut managers: Managers,
        force: Force,
    ) -> Result<(Value, Managers), Vec<Conflict>> {
        let shape = self.shape();
        self.drop_unknown_versions(&mut managers);
        let mut fields = owned::field_set(shape, applied);
        fields.exclude(&self.reset);
        let id = self.applier();
        let entry = Entry {
            fields,
            api_version: self.api_version.clone(),
            time: managers.0.get(&id).and_then(|entry| entry.time.clone()),
        };
        let last = managers.0.insert(id.clone(), entry);
        let mut object = merge::merge(shape, live, applied).unwrap_or_default();
        if let Some(last) = last.filter(|last| !last.fields.is_empty()) {
            object = self.prune(object, &managers, &last.fields);
        }
        let mut comparison = Comparison::of(shape, live, &object);
        comparison.exclude(&self.reset);
        let changed = comparison.set_fields();
        let mut conflicts = Vec::new();
        for (other, entry) in managers.0.iter_mut().filter(|(other, _)| **other != id) {
            let contested = entry.fields.intersection(&changed);
            let conflict = |path| Conflict {
                manager: other.clone(),
                path,
            };
            conflicts.extend(contested.paths().into_iter().map(conflict));
            entry.fields.subtract(&contested);
            entry.fields.subtract(&comparison.removed);
        }
        if force == Force::No && !conflicts.is_empty() {
            return Err(conflicts);
        }
        if let Some(own) = managers.0.get_mut(&id) {
            own.fields.subtract(&UNOWNED);
        }
        managers.drop_empty();
        Ok((object, managers))
    }

    /// Removes what the applier applied last time and nobody owns now.
    fn prune(&self, merged: Value, managers: &Managers, last: &FieldSet) -> Value {
        let shape = self.shape();
        let named = |set: &FieldSet| owned::with_named_fields(shape, set);
        let last = named(last);
        let pruned = owned::without(shape, &merged, &last);
        let all = named(&owned::field_set(shape, &merged));
        let owned_now = managers
            .0
            .values()
            .fold(FieldSet::default(), |all, entry| all.union(&entry.fields));
        // Back comes what somebody owns, this applier included.
        let kept = named(&owned::field_set(shape, &pruned)).union(&named(&owned_now));
        let pruned = owned::without(shape, &merged, &all.clone().difference(&kept));
        // And what went along with its parent but was never applied.
        let kept = named(&owned::field_set(shape, &pruned));
        owned::without(shape, &merged, &all.difference(&kept).intersection(&last))
    }

    /// The fields that `kubectl apply` says it set, as far as they still have those values.
    fn last_applied_fields(&self, live: &Value) -> Option<FieldSet> {
        let last = live["metadata"]["annotations"][LAST_APPLIED].as_str()?;
        let last: Value = serde_json::from_str(last).ok()?;
        let shape = self.shape();
        if last["apiVersion"] != *self.api_version || validate::validate(shape, &last).is_err() {
            return None;
        }
        let comparison = Comparison::of(shape, &last, live);
        let fields = owned::field_set(shape, &last);
        Some(
            fields
                .difference(&comparison.set_fields())
                .difference(&comparison.removed),
        )
    }
}

/// What an update makes of the managed fields.
enum Changed {
    /// They stay.
    No,
    /// They become these; `None` when nobody owns anything.
    To(Option<Value>),
}

/// Whether an apply takes fields from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Force {
    /// It is refused on conflicts.
    No,
    /// It takes them.
    Yes,
}

/// A field that an apply would take from its manager.
struct Conflict {
    manager: ManagerId,
    path: Vec<PathElement>,
}

fn conflict(conflicts: &[Conflict]) -> ApiError {
    let cause = |conflict: &Conflict| Cause {
        reason: "FieldManagerConflict".to_owned(),
        message: format!("conflict with {}", conflict.manager.describe()),
        field: path::display(&conflict.path),
    };
    let message = match conflicts {
        [conflict] => format!(
            "Apply failed with 1 conflict: conflict with {}: {}",
            conflict.manager.describe(),
            path::display(&conflict.path)
        ),
        conflicts => {
            let mut message = format!("Apply failed with {} conflicts: ", conflicts.len());
            let mut manager = None;
            for conflict in conflicts {
                if manager != Some(&conflict.manager) {
                    let line_break = if manager.is_some() { "\n" } else { "" };
                    let with = conflict.manager.describe();
                    message.push_str(&format!("{line_break}conflicts with {with}:"));
                    manager = Some(&conflict.manager);
                }
                message.push_str(&format!("\n- {}", path::display(&conflict.path)));
            }
            message
        }
    };
    ApiError::ApplyConflict {
        message,
        causes: conflicts.iter().map(cause).collect(),
    }
}

fn set_managed_fields(object: &mut Value, managed: Option<Value>) {
    let meta = meta_mut(object);
    match managed {
        Some(managed) => meta.insert("managedFields".to_owned(), managed),
        None => meta.remove("managedFields"),
    };
}

/// Keeps the annotation of `kubectl apply`, where there is one, in step with `kubectl apply
/// --server-side`.
fn sync_last_applied(object: &mut Value, applied: &Value) {
    let is_kept = object["metadata"]["annotations"][LAST_APPLIED]
        .as_str()
        .is_some_and(|last| !last.is_empty());
    if !is_kept {
        return;
    }
    let mut last = applied.clone();
    if let Some(Value::Object(annotations)) = meta_mut(&mut last).get_mut("annotations") {
        annotations.remove(LAST_APPLIED);
    }
    // As Go's encoder writes JSON.
    let mut text = last.to_string();
    for (letter, escaped) in [('<', "\\u003c"), ('>', "\\u003e"), ('&', "\\u0026")] {
        text = text.replace(letter, escaped);
    }
    text.push('\n');
    object["metadata"]["annotations"][LAST_APPLIED] = text.into();
}
