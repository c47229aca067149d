//! StorageClasses.

use std::collections::{BTreeMap, BTreeSet};

use super::volume_attributes_class::validate_parameters;
use crate::columns::Printable;
use crate::columns::volume::named_default;
use crate::core::node::deprecated_labels;
use crate::json::{Value, json};
use crate::meta::object::default;
use crate::meta::validation::{qualified_name, validate_immutable};
use crate::status::{FieldErrors, FieldPath};
use crate::unstructured::{is_empty, items, text};
use crate::validation::{invalid_each, one_of};
use crate::{MetadataCheck, Strategy};

const DEFAULT_ANNOTATIONS: [&str; 2] = [
    "/metadata/annotations/storageclass.kubernetes.io~1is-default-class",
    "/metadata/annotations/storageclass.beta.kubernetes.io~1is-default-class",
];

#[derive(Debug)]
pub(crate) struct StorageClass;

impl Strategy for StorageClass {
    fn return_deleted_object(&self) -> bool {
        true
    }

    fn metadata_checks(&self) -> &'static [MetadataCheck] {
        &[MetadataCheck::ObjectMeta, MetadataCheck::ObjectMetaUpdate]
    }

    fn default(&self, class: &mut Value) {
        if let Some(fields) = class.as_object_mut() {
            default(fields, "reclaimPolicy", "Delete");
            default(fields, "volumeBindingMode", "Immediate");
        }
    }

    fn validate(&self, class: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let path = FieldPath::new("provisioner");
        let provisioner = text(&class["provisioner"]);
        if provisioner.is_empty() {
            errors.required(&path, "");
        } else {
            // Upstream shows the value as compared, in lower case.
            let own = provisioner.to_lowercase();
            invalid_each(qualified_name(&own), &own.into(), &path, &mut errors);
        }
        let path = FieldPath::new("parameters");
        validate_parameters(&class["parameters"], &path, &mut errors);
        let path = FieldPath::new("reclaimPolicy");
        let policies = ["Delete", "Retain"];
        if !text(&class["reclaimPolicy"]).is_empty() {
            one_of(&class["reclaimPolicy"], &path, &policies, &mut errors);
        }
        let path = FieldPath::new("volumeBindingMode");
        let modes = ["Immediate", "WaitForFirstConsumer"];
        one_of(&class["volumeBindingMode"], &path, &modes, &mut errors);
        let path = FieldPath::new("allowedTopologies");
        validate_topologies(&class["allowedTopologies"], &path, &mut errors);
        errors
    }

    fn warnings(&self, new: &Value, _old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        for (index, term) in items(&new["allowedTopologies"]).enumerate() {
            let path = FieldPath::new("allowedTopologies").index(index);
            for (index, own) in items(&term["matchLabelExpressions"]).enumerate() {
                if let Some(why) = deprecated_labels::deprecation(text(&own["key"])) {
                    let path = path.child("matchLabelExpressions").index(index);
                    warnings.push(format!("{}: {why}", path.child("key")));
                }
            }
        }
        warnings
    }

    fn validate_update(&self, new: &Value, old: &Value) -> FieldErrors {
        let mut errors = self.validate(new);
        let fixed = [
            "parameters",
            "provisioner",
            "reclaimPolicy",
            "volumeBindingMode",
        ];
        for field in fixed {
            let path = FieldPath::new(field);
            validate_immutable(&new[field], &old[field], &path, &mut errors);
        }
        errors
    }

    fn cells(&self, view: Printable<'_>) -> Option<Vec<Value>> {
        Some(vec![
            named_default(view, &DEFAULT_ANNOTATIONS),
            json!(view.str("/provisioner")),
            json!(view.str_or("/reclaimPolicy", "Delete")),
            json!(view.str_or("/volumeBindingMode", "Immediate")),
            json!(view.bool("/allowVolumeExpansion")),
            view.age(),
        ])
    }
}

/// Terms by which volumes are placed: each has keys of its own, and no two are the same.
fn validate_topologies(terms: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let mut seen: Vec<BTreeMap<&str, BTreeSet<&str>>> = Vec::new();
    // Upstream starts with as many empty terms as there are terms.
    let blanks = items(terms).count();
    for (index, term) in items(terms).enumerate() {
        let path = path.index(index).child("matchLabelExpressions");
        let mut own = BTreeMap::new();
        for (index, expression) in items(&term["matchLabelExpressions"]).enumerate() {
            let path = path.index(index);
            let mut values = BTreeSet::new();
            let at = path.child("values");
            if is_empty(&expression["values"]) {
                errors.required(&at, "");
            }
            for (index, value) in items(&expression["values"]).enumerate() {
                if !values.insert(text(value)) {
                    errors.duplicate(&at.index(index), value);
                }
            }
            let (key, at) = (&expression["key"], path.child("key"));
            invalid_each(qualified_name(text(key)), key, &at, errors);
            if own.insert(text(key), values).is_some() {
                errors.duplicate(&at, key);
            }
        }
        let blanks = if own.is_empty() { blanks } else { 0 };
        let same = seen.iter().filter(|other| **other == own).count();
        for _ in 0..blanks + same {
            errors.duplicate(&path, &"".into());
        }
        seen.push(own);
    }
}
