//! Validation of objects: the metadata, as often as the kind's upstream strategy does, and the
//! kind's own rules.

use super::{Store, Subresource};
use crate::admission::devices;
use crate::json::Value;
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

    /// The faults that `search` finds in an object.
    fn faults(&self, search: impl Fn() -> FieldErrors) -> FieldErrors {
        match self.resource.custom.is_some() {
            // The search in a custom resource may be long, and is the same with and without texts of paths.
            true => search(),
            false => FieldErrors::found_by(search),
        }
    }

    pub(super) fn validate_new(&self, object: &Value, name: &str) -> Result<(), ApiError> {
        let meta = &object["metadata"];
        let validates_metadata = self.strategy.validates_new_metadata();
        let errors = self.faults(|| {
            let mut errors = devices::faults(self.state, self.resource, object, None, false);
            if validates_metadata {
                errors.extend(self.validate_metadata(meta, self.strategy.name_rule()));
                errors.extend(self.validate_finalizers(meta));
            }
            errors.extend(self.strategy.validate(object));
            errors
        });
        self.invalid(name, errors)?;
        // A name and a prefix that another rule allows are segments of a path as well.
        let rule = self.strategy.name_rule();
        match validates_metadata && !matches!(rule, NameRule::Any | NameRule::LongName) {
            true => Ok(()),
            false => self.invalid(name, self.validate_metadata(meta, NameRule::PathSegment)),
        }
    }

    pub(super) fn validate_changed(
        &self,
        next: &Value,
        current: &Value,
        name: &str,
        subresource: Subresource,
    ) -> Result<(), ApiError> {
        let meta = &next["metadata"];
        let is_status = subresource == Subresource::Status;
        let checks = match is_status {
            true => self.strategy.status_metadata_checks(),
            false => self.strategy.metadata_checks(),
        };
        let old = Some(current);
        let errors = self.faults(|| {
            let path = FieldPath::new("metadata");
            let updated =
                validation::validate_object_meta_update(meta, &current["metadata"], &path);
            let mut errors = self.validate_metadata(meta, NameRule::PathSegment);
            let is_valid = errors.is_empty();
            errors.extend(updated.clone());
            for check in checks {
                errors.extend(match check {
                    // The rules differ in what names they allow.
                    MetadataCheck::ObjectMeta if is_valid => {
                        validation::validate_names(meta, self.strategy.name_rule(), &path)
                    }
                    MetadataCheck::ObjectMeta => {
                        self.validate_metadata(meta, self.strategy.name_rule())
                    }
                    MetadataCheck::ObjectMetaUpdate => updated.clone(),
                });
                errors.extend(self.validate_finalizers(meta));
            }
            let (state, resource) = (self.state, self.resource);
            errors.extend(devices::faults(state, resource, next, old, is_status));
            errors.extend(match subresource {
                Subresource::None => self.strategy.validate_update(next, current),
                Subresource::Status => self.strategy.validate_status_update(next, current),
                Subresource::Other | Subresource::Unchecked => FieldErrors::new(),
            });
            errors
        });
        self.invalid(name, errors)
    }
}
