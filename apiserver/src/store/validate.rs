//! Validation of objects: the metadata, as often as the kind's upstream strategy does, and the
//! kind's own rules.

use serde_json::Value;

use super::{Store, Subresource};
use crate::admission::devices;
use crate::meta::validation::{self, NameRule};
use crate::registry::MetadataCheck;
use crate::status::{ApiError, FieldErrors, FieldPath};

impl Store<'_> {
    /// Faults of the metadata as a new object's, by one of the rules of names.
    fn validate_metadata(&self, meta: &Value, rule: NameRule) -> FieldErrors {
        let path = FieldPath::new("metadata");
        validation::validate_object_meta(meta, self.resource.namespaced, rule, &path)
    }

    fn validate_finalizers(&self, meta: &Value) -> FieldErrors {
        match self.strategy.validates_finalizers() {
            true => validation::validate_standard_finalizers(meta, &FieldPath::new("metadata")),
            false => FieldErrors::new(),
        }
    }

    pub(super) fn validate_new(&self, object: &Value, name: &str) -> Result<(), ApiError> {
        let meta = &object["metadata"];
        let mut errors = devices::faults(self.state, self.resource, object, None, false);
        if self.strategy.validates_new_metadata() {
            errors.extend(self.validate_metadata(meta, self.strategy.name_rule()));
            errors.extend(self.validate_finalizers(meta));
        }
        errors.extend(self.strategy.validate(object));
        self.invalid(name, errors)?;
        self.invalid(name, self.validate_metadata(meta, NameRule::PathSegment))
    }

    pub(super) fn validate_changed(
        &self,
        next: &Value,
        current: &Value,
        name: &str,
        subresource: Subresource,
    ) -> Result<(), ApiError> {
        let meta = &next["metadata"];
        let path = FieldPath::new("metadata");
        let updated = validation::validate_object_meta_update(meta, &current["metadata"], &path);
        let mut errors = self.validate_metadata(meta, NameRule::PathSegment);
        errors.extend(updated.clone());
        let checks = match subresource {
            Subresource::Status => self.strategy.status_metadata_checks(),
            Subresource::None | Subresource::Other | Subresource::Unchecked => {
                self.strategy.metadata_checks()
            }
        };
        for check in checks {
            errors.extend(match check {
                MetadataCheck::ObjectMeta => {
                    self.validate_metadata(meta, self.strategy.name_rule())
                }
                MetadataCheck::ObjectMetaUpdate => updated.clone(),
            });
            errors.extend(self.validate_finalizers(meta));
        }
        let is_status = subresource == Subresource::Status;
        let old = Some(current);
        errors.extend(devices::faults(
            self.state,
            self.resource,
            next,
            old,
            is_status,
        ));
        errors.extend(match subresource {
            Subresource::None => self.strategy.validate_update(next, current),
            Subresource::Status => self.strategy.validate_status_update(next, current),
            Subresource::Other | Subresource::Unchecked => FieldErrors::new(),
        });
        self.invalid(name, errors)
    }
}
