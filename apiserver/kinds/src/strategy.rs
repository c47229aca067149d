//! The hooks by which the generic store handles a kind.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt::Debug;

use jiff::Timestamp;

use super::columns::Printable;
use super::rest::{CreateRest, ReadRest, SubresourceRest};
use crate::clock::Entropy;
use crate::core::service::ServiceRanges;
use crate::json::Value;
use crate::meta::GroupResource;
use crate::meta::selector::LabelSelector;
use crate::meta::validation::NameRule;
use crate::request::options::{DeleteOptions, Propagation};
use crate::status::{ApiError, FieldErrors};
use kubeproof_storage::Table;

/// The server's state that a strategy can read.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The table of the resource. Few kinds look at other objects, so no snapshot is taken for all.
    pub siblings: &'a Table,
    /// The time of the write.
    pub now: Timestamp,
    /// The addresses and ports of services.
    pub service_ranges: &'a ServiceRanges,
    /// The gate `MaxUnavailableStatefulSet`.
    pub max_unavailable_stateful_set: bool,
    /// Whether nothing of the write will be kept.
    pub dry_run: bool,
    /// The source of random names and uids.
    pub entropy: &'a Entropy,
}

/// The paths of fields that a write leaves as they are, so that its manager does not come to own
/// them.
pub type ResetFields = &'static [&'static [&'static str]];

/// A check of the metadata among a kind's own checks of a write.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum MetadataCheck {
    /// As of a new object, the kind's rule of names included. Upstream: `ValidateObjectMeta`.
    ObjectMeta,
    /// Against the metadata that is to be replaced. Upstream: `ValidateObjectMetaUpdate`.
    ObjectMetaUpdate,
}

/// Where a field that selectors can name is in an object. Upstream: the kind's `ToSelectableFields` or `GetAttrs`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SelectableField {
    /// The dotted paths of its value; the first that is there counts.
    pub paths: &'static [&'static str],
    /// The value of an object without a value at these paths.
    pub default: &'static str,
}

/// The behavior of a kind. The defaults are those of a plain kind such as ConfigMap.
///
/// `prepare_*` may change the new object; `validate_*` finds all its faults, in upstream's order.
/// The store has already restored the fields that no client may change (uid, creation, deletion,
/// generation) and, if the resource has a status subresource, the half that the request does not
/// write.
pub trait Strategy: Debug + Sync {
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

    /// Whether an update may leave out `metadata.resourceVersion`. Upstream:
    /// `AllowUnconditionalUpdate`.
    fn allow_unconditional_update(&self) -> bool {
        true
    }

    /// Whether a PUT of an absent object creates it. Upstream: `AllowCreateOnUpdate`.
    fn allow_create_on_update(&self) -> bool {
        false
    }

    /// Whether a DELETE that removes an object at once returns the object instead of a Status.
    /// Upstream: `ReturnDeletedObject`, a field of the generic store.
    fn return_deleted_object(&self) -> bool {
        false
    }

    /// Whether a DELETE first only marks an object, by an update with that update's errors, even
    /// if nothing keeps the object. Upstream's namespaces have such a `Delete` of their own.
    fn deletes_in_two_steps(&self) -> bool {
        false
    }

    /// The fields that a write through `subresource` resets; `""` is the object itself. The store
    /// asks this only for `status` and for resources with a status subresource. Upstream:
    /// `GetResetFields`.
    fn reset_fields(&self, subresource: &str) -> ResetFields {
        match subresource {
            "status" => &[&["spec"]],
            _ => &[&["status"]],
        }
    }

    /// The operation that a POST to the resource performs.
    fn create_rest(&self) -> CreateRest {
        CreateRest::Store
    }

    /// The source of the answers to a GET of the resource.
    fn read_rest(&self) -> ReadRest {
        ReadRest::Store
    }

    /// The storage behind the subresource `name`; `None` for an unknown name. The verbs are in the
    /// catalog.
    fn subresource_rest(&self, name: &str) -> Option<SubresourceRest> {
        match name {
            "status" => Some(SubresourceRest::Status),
            "scale" => Some(SubresourceRest::Scale),
            _ => None,
        }
    }

    /// The strategy of a subresource with rules of its own.
    fn subresource(&self, _name: &str) -> Option<&'static dyn Strategy> {
        None
    }

    /// The directory of the objects in etcd, which some errors name. Upstream: the resource prefix
    /// of the storage factory.
    fn storage_prefix(&self, resource: &GroupResource) -> String {
        resource.resource.clone()
    }

    /// The resource in errors about a missing object.
    fn qualified_resource(&self, resource: GroupResource) -> GroupResource {
        resource
    }

    /// Where the selectable field `name` is; `None` if it is the field at that path, and empty if absent.
    fn selectable_field(&self, _name: &str) -> Option<SelectableField> {
        None
    }

    /// Whether objects of `version` of the kind's group equal their stored form. If not, the two conversions differ from
    /// the defaults.
    fn is_stored_version(&self, _version: &str) -> bool {
        true
    }

    /// Converts a stored object to `version` of the kind's group.
    fn convert_from_storage<'a>(&self, _version: &str, stored: &'a Value) -> Cow<'a, Value> {
        Cow::Borrowed(stored)
    }

    /// Converts an object of `version` of the kind's group to its stored form.
    fn convert_to_storage(&self, _version: &str, object: Value) -> Value {
        object
    }

    /// Whether the objects are in storage. Lists of other objects are not counted.
    fn is_stored(&self) -> bool {
        true
    }

    /// Whether responses of `subresource` (`""` for the object itself) can be tables. Upstream: a
    /// `TableConvertor`.
    fn has_table(&self, _subresource: &str) -> bool {
        true
    }

    /// Whether a write of `/status` keeps this field of the stored metadata.
    fn status_update_keeps(&self, _field: &str) -> bool {
        false
    }

    /// Whether a finalizer must be a standard one or have a domain, and is not only warned of.
    fn validates_finalizers(&self) -> bool {
        true
    }

    /// Whether the kind validates the metadata of a new object before the rules of all kinds do.
    fn validates_new_metadata(&self) -> bool {
        true
    }

    /// The kind's own checks of the metadata of an update, each after those of all kinds.
    fn metadata_checks(&self) -> &'static [MetadataCheck] {
        &[MetadataCheck::ObjectMetaUpdate]
    }

    /// As [`Strategy::metadata_checks`], of a write of `/status`.
    fn status_metadata_checks(&self) -> &'static [MetadataCheck] {
        &[MetadataCheck::ObjectMetaUpdate]
    }

    /// Sets fields of a new object that identify the user of the request; `user` returns the
    /// user's `UserInfo`.
    fn set_requestor(&self, _object: &mut Value, _user: &dyn Fn() -> Value) {}

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

    /// Returns the warning about a deletion with these options.
    fn warning_on_delete(&self, _options: &DeleteOptions) -> Option<&'static str> {
        None
    }

    /// The label selector of the object's Scale as text.
    fn scale_selector(&self, object: &Value) -> String {
        let selector = LabelSelector::from_object(&object["spec"]["selector"]);
        let selector = selector.map(|selector| selector.as_selector_string());
        selector.unwrap_or_default()
    }

    /// The cells of an object's row in a table; `None` if name and age are all that is shown.
    /// Upstream: the print handlers of `pkg/printers/internalversion`.
    fn cells(&self, _object: Printable<'_>) -> Option<Vec<Value>> {
        None
    }

    /// The order of rows in a table, if it is not that of the list.
    fn row_order(&self) -> Option<fn(&Value, &Value) -> Ordering> {
        None
    }

    /// The conditions of an object's row.
    fn row_conditions(&self, _object: &Value) -> Vec<Value> {
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

/// A body that is not an object of a resource, such as that of a subresource.
#[derive(Debug)]
pub struct Generic;

impl Strategy for Generic {}

/// A resource whose objects are operations, such as reviews and bindings.
#[derive(Debug)]
pub struct Virtual(pub CreateRest);

impl Strategy for Virtual {
    fn create_rest(&self) -> CreateRest {
        self.0
    }

    fn has_table(&self, _subresource: &str) -> bool {
        false
    }

    fn is_stored(&self) -> bool {
        false
    }
}
