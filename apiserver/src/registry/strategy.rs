//! The hooks by which the generic store handles a kind.

use jiff::Timestamp;
use serde_json::Value;

use crate::clock::Entropy;
use crate::meta::validation::NameRule;
use crate::request::options::{DeleteOptions, Propagation};
use crate::status::{ApiError, FieldErrors};
use crate::storage::Snapshot;

/// The server's state that a strategy can read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context<'a> {
    /// The objects of the same resource, all namespaces.
    pub(crate) siblings: &'a Snapshot,
    /// The time of the write.
    pub(crate) now: Timestamp,
    /// The gate `MaxUnavailableStatefulSet`.
    pub(crate) max_unavailable_stateful_set: bool,
    /// Whether nothing of the write will be kept.
    pub(crate) dry_run: bool,
    pub(crate) entropy: &'a Entropy,
}

/// The behavior of a kind. The defaults are those of a plain kind such as ConfigMap.
///
/// `prepare_*` may change the new object; `validate_*` finds all its faults, in upstream's order.
/// The store has already restored the fields that no client may change (uid, creation, deletion,
/// generation) and, if the resource has a status subresource, the half that the request does not
/// write.
pub(crate) trait Strategy: Sync {
    /// The rule that names must follow.
    fn name_rule(&self) -> NameRule {
        NameRule::DnsSubdomain
    }

    /// Whether `metadata.generation` counts changes of the spec.
    fn counts_generation(&self) -> bool {
        false
    }

    /// Whether annotations count as part of the spec there.
    fn counts_annotations(&self) -> bool {
        false
    }

    /// Whether the garbage collector handles the kind, so that its finalizers are set.
    fn is_garbage_collected(&self) -> bool {
        true
    }

    /// Whether a new object brings its status, although there is a subresource for it.
    fn brings_status(&self) -> bool {
        false
    }

    /// The default propagation of a deletion to dependents.
    fn default_propagation(&self) -> Propagation {
        Propagation::Background
    }

    /// Fills in values that were left out; runs on every write, before validation.
    fn default(&self, _object: &mut Value) {}

    /// Prepares a new object before any other check: allocates from resources that objects share,
    /// and synchronizes fields with annotations.
    ///
    /// # Errors
    /// A failure that is not a fault of a field.
    fn begin_create(
        &self,
        _object: &mut Value,
        _context: Context<'_>,
    ) -> Result<FieldErrors, ApiError> {
        Ok(FieldErrors::new())
    }

    /// As [`Strategy::begin_create`], for an update of the main resource.
    ///
    /// # Errors
    /// A failure that is not a fault of a field.
    fn begin_update(
        &self,
        _new: &mut Value,
        _old: &Value,
        _context: Context<'_>,
    ) -> Result<FieldErrors, ApiError> {
        Ok(FieldErrors::new())
    }

    /// Drops or sets fields that a client may not choose at creation.
    fn prepare_for_create(&self, _object: &mut Value, _context: Context<'_>) {}

    /// Faults of a new object, beyond its metadata.
    fn validate(&self, _object: &Value) -> FieldErrors {
        FieldErrors::new()
    }

    /// Returns the warnings about a valid object; `old` is the object that an update replaces.
    fn warnings(&self, _new: &Value, _old: Option<&Value>) -> Vec<String> {
        Vec::new()
    }

    /// Converts a valid new object to its stored form; its name has been generated.
    fn canonicalize(&self, _object: &mut Value) {}

    /// Drops or keeps what an update of the main resource may not change.
    fn prepare_for_update(&self, _new: &mut Value, _old: &Value, _context: Context<'_>) {}

    /// Drops or keeps what an update of `/status` may not change.
    fn prepare_for_status_update(&self, _new: &mut Value, _old: &Value, _context: Context<'_>) {}

    /// Faults of an update of the main resource.
    fn validate_update(&self, new: &Value, _old: &Value) -> FieldErrors {
        self.validate(new)
    }

    /// Faults of an update of `/status`.
    fn validate_status_update(&self, _new: &Value, _old: &Value) -> FieldErrors {
        FieldErrors::new()
    }

    /// Whether something beyond `metadata.finalizers` keeps a terminating object.
    fn is_held(&self, _object: &Value) -> bool {
        false
    }

    /// Shows in the object that its deletion has begun.
    fn prepare_for_termination(&self, _object: &mut Value) {}

    /// The object with its deletion begun, where the kind has a way of its own to begin.
    fn begin_deletion(&self, _object: &Value, _now: &str) -> Option<Value> {
        None
    }

    /// The grace period of a deletion in seconds; `None` for kinds that are removed at once.
    fn grace_period_seconds(&self, _object: &Value, _options: &DeleteOptions) -> Option<i64> {
        None
    }
}

/// A kind without rules of its own yet.
#[derive(Debug)]
pub(crate) struct Generic {
    pub(crate) generation: bool,
}

impl Strategy for Generic {
    fn counts_generation(&self) -> bool {
        self.generation
    }
}
