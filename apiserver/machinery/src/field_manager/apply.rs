//! Server-side apply: merging a configuration into an object, and conflicts.

use super::compare::Comparison;
use super::managers::{Entry, Fields, ManagerId, Managers, Operation};
use super::path::{self, PathElement};
use super::set::FieldSet;
use super::{FieldManager, UNOWNED, merge, owned, set_managed_fields, validate};
use crate::json::Value;
use crate::meta::GroupVersion;
use crate::meta::object::{meta, meta_mut};
use crate::status::{ApiError, Cause};

/// The annotation in which `kubectl apply` keeps the applied configuration.
pub(super) const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The manager of the fields set before the first apply.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

impl FieldManager {
    /// Merges an applied configuration into `live`, or into an empty object if there is none.
    ///
    /// The outcome is not decoded: it may have nulls.
    ///
    /// # Errors
    /// `BadRequest` for another kind or with managed fields, `ApplyConflict` on fields of others
    /// unless `force`; upstream leaves a configuration that does not fit the schema without reason.
    pub fn apply(
        &self,
        live: Option<&Value>,
        applied: &Value,
        force: Force,
        now: &str,
    ) -> Result<Value, ApiError> {
        self.check(applied)?;
        let mut live = live.cloned().unwrap_or_else(|| self.nothing().clone());
        let held = meta_mut(&mut live)
            .remove("managedFields")
            .unwrap_or_default();
        let mut managers = Managers::stored(&held)
            .map_err(|why| ApiError::Unknown(format!("failed to decode managed fields: {why}")))?;
        if managers.0.is_empty() && !meta(&live, "uid").is_empty() {
            let comparison = Comparison::of(self.shape(), self.nothing(), &live);
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
            let named = match GroupVersion::parse(api_version) {
                Some(found) => format!("{}/{}, Kind={kind}", found.group, found.version),
                None => "/, Kind=".to_owned(),
            };
            let message = format!("invalid object type: {named}");
            return Err(ApiError::BadRequest(message));
        }
        if applied["metadata"]["managedFields"].is_array() {
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
            fields: Fields::Set(fields),
            api_version: self.api_version.clone(),
            time: managers.0.get(&id).and_then(|entry| entry.time.clone()),
        };
        let last = managers.0.insert(id.clone(), entry);
        let mut object = merge::merge(shape, live, applied).unwrap_or_default();
        if let Some(mut last) = last {
            let now = managers.0.get_mut(&id).expect("inserted above");
            let dropped = last.fields.set().clone().difference(now.fields.set());
            // Without a field that was applied last time only, there is nothing to remove.
            if !dropped.is_empty() {
                object = self.prune(object, &mut managers, last.fields.set());
            }
        }
        let mut comparison = Comparison::of(shape, live, &object);
        comparison.exclude(&self.reset);
        let (changed, removed) = comparison.into_set_and_removed();
        let mut conflicts = Vec::new();
        for (other, entry) in managers.0.iter_mut().filter(|(other, _)| **other != id) {
            let contested = entry.fields.intersection(&changed);
            let conflict = |path| Conflict {
                manager: other.clone(),
                path,
            };
            conflicts.extend(contested.paths().into_iter().map(conflict));
            entry.fields.subtract(&contested);
            entry.fields.subtract(&removed);
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

    /// Removes the fields that the applier applied last time and that have no owner now.
    fn prune(&self, merged: Value, managers: &mut Managers, last: &FieldSet) -> Value {
        let shape = self.shape();
        let named = |set: &FieldSet| owned::with_named_fields(shape, set);
        let last = named(last);
        let pruned = owned::without(shape, &merged, &last);
        let all = named(&owned::field_set(shape, &merged));
        let owned_now = managers
            .0
            .values_mut()
            .fold(FieldSet::default(), |all, entry| {
                all.union(entry.fields.set().clone())
            });
        // Restores the fields that any manager owns, this applier included.
        let kept = named(&owned::field_set(shape, &pruned)).union(named(&owned_now));
        let pruned = owned::without(shape, &merged, &all.clone().difference(&kept));
        // Also restores fields that were removed with their parent but never applied.
        let kept = named(&owned::field_set(shape, &pruned));
        owned::without(shape, &merged, &all.difference(&kept).intersection(&last))
    }

    /// Returns the fields in the annotation of `kubectl apply` that still have their values.
    fn last_applied_fields(&self, live: &Value) -> Option<FieldSet> {
        let last = live["metadata"]["annotations"][LAST_APPLIED].as_str()?;
        let last: Value = serde_json::from_str(last).ok()?;
        let shape = self.shape();
        if last["apiVersion"] != *self.api_version || validate::validate(shape, &last).is_err() {
            return None;
        }
        let comparison = Comparison::of(shape, &last, live);
        let fields = owned::field_set(shape, &last);
        let (changed, removed) = comparison.into_set_and_removed();
        Some(fields.difference(&changed).difference(&removed))
    }
}

/// Whether an apply takes fields from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Force {
    /// The apply fails on conflicts.
    No,
    /// The apply takes over contested fields.
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
