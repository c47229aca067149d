//! CSIStorageCapacities.

use crate::core::node::deprecated_labels;
use crate::json::Value;
use crate::meta::validation::{dns1123_subdomain, validate_immutable, validate_label_selector};
use crate::status::{FieldErrors, FieldPath};
use crate::unstructured::text;
use crate::validation::{NOT_NEGATIVE, invalid_each};
use crate::{MetadataCheck, Strategy};

#[derive(Debug)]
pub(crate) struct CsiStorageCapacity;

impl Strategy for CsiStorageCapacity {
    fn allow_unconditional_update(&self) -> bool {
        false
    }

    fn metadata_checks(&self) -> &'static [MetadataCheck] {
        &[MetadataCheck::ObjectMeta, MetadataCheck::ObjectMetaUpdate]
    }

    fn validate(&self, capacity: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let topology = &capacity["nodeTopology"];
        if !topology.is_null() {
            let path = FieldPath::new("nodeTopology");
            validate_label_selector(topology, false, &path, &mut errors);
        }
        let class = text(&capacity["storageClassName"]);
        let path = FieldPath::new("storageClassName");
        invalid_each(dns1123_subdomain(class), &class.into(), &path, &mut errors);
        let own = &capacity["capacity"];
        if text(own).starts_with('-') {
            errors.invalid(&FieldPath::new("capacity"), own, NOT_NEGATIVE);
        }
        errors
    }

    fn warnings(&self, new: &Value, _old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        let path = FieldPath::new("nodeTopology");
        deprecated_labels::warn_of_selector(&new["nodeTopology"], &path, &mut warnings);
        warnings
    }

    fn validate_update(&self, new: &Value, old: &Value) -> FieldErrors {
        let mut errors = self.validate(new);
        for field in ["nodeTopology", "storageClassName"] {
            let path = FieldPath::new(field);
            validate_immutable(&new[field], &old[field], &path, &mut errors);
        }
        errors
    }
}
