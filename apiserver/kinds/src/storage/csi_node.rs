//! CSINodes.

use std::collections::BTreeSet;

use crate::columns::Printable;
use crate::go_struct::shown_as;
use crate::json::{Value, json};
use crate::meta::GroupVersionKind;
use crate::meta::object::child_mut;
use crate::meta::validation::{FIELD_IMMUTABLE, dns1123_subdomain, qualified_name};
use crate::schema::{Schema, builtin};
use crate::status::{FieldErrors, FieldPath};
use crate::unstructured::{items, text};
use crate::validation::{NOT_NEGATIVE, invalid_as, invalid_each};
use crate::{MetadataCheck, Strategy};

const NODE_ID_BYTES_MAX: usize = 256;
const DRIVER_BYTES_MAX: usize = 63;

#[derive(Debug)]
pub(crate) struct CsiNode;

impl Strategy for CsiNode {
    fn allow_unconditional_update(&self) -> bool {
        false
    }

    fn return_deleted_object(&self) -> bool {
        true
    }

    fn metadata_checks(&self) -> &'static [MetadataCheck] {
        &[MetadataCheck::ObjectMeta]
    }

    fn validate(&self, node: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let path = FieldPath::new("spec.drivers");
        let mut names = BTreeSet::new();
        for (index, driver) in items(&node["spec"]["drivers"]).enumerate() {
            let path = path.index(index);
            validate_driver(driver, &path, &mut errors);
            if !names.insert(text(&driver["name"])) {
                errors.duplicate(&path.child("name"), &driver["name"]);
            }
            validate_topology(driver, &path, &mut errors);
        }
        errors
    }

    fn validate_update(&self, new: &Value, old: &Value) -> FieldErrors {
        let mut errors = self.validate(new);
        for before in items(&old["spec"]["drivers"]) {
            let same = |driver: &&Value| driver["name"] == before["name"];
            for driver in items(&new["spec"]["drivers"]).filter(same) {
                // How many volumes fit may change.
                let fixed = |driver: &Value| {
                    let mut driver = driver.clone();
                    child_mut(&mut driver, "allocatable").clear();
                    driver
                };
                if fixed(driver) != fixed(before) {
                    let mut driver = driver.clone();
                    driver["allocatable"] = Value::Null;
                    let path = FieldPath::new("spec.drivers");
                    invalid_as(&path, &shown(&driver), FIELD_IMMUTABLE, &mut errors);
                }
            }
        }
        errors
    }

    fn cells(&self, view: Printable<'_>) -> Option<Vec<Value>> {
        Some(vec![
            view.name(),
            json!(view.len("/spec/drivers")),
            view.age(),
        ])
    }
}

/// A driver as upstream's struct.
fn shown(driver: &Value) -> String {
    let kind = GroupVersionKind {
        group: "storage.k8s.io".to_owned(),
        version: "v1".to_owned(),
        kind: "CSINode".to_owned(),
    };
    let spec = builtin(&kind).and_then(|own| own.field("spec"));
    let drivers = match spec.map(|own| &own.schema) {
        Some(Schema::Object(spec)) => spec.field("drivers"),
        _ => None,
    };
    match drivers.map(|own| &own.schema) {
        Some(Schema::Array(list)) => match &list.items {
            Schema::Object(of) => shown_as(of, driver),
            _ => driver.to_string(),
        },
        _ => driver.to_string(),
    }
}

fn validate_driver(driver: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let (name, at) = (&driver["name"], path.child("name"));
    if text(name).is_empty() {
        errors.required(&at, "");
    } else {
        if text(name).len() > DRIVER_BYTES_MAX {
            errors.too_long(&at, DRIVER_BYTES_MAX);
        }
        let faults = dns1123_subdomain(&text(name).to_lowercase());
        invalid_each(faults, name, &at, errors);
    }
    let (id, at) = (&driver["nodeID"], path.child("nodeID"));
    if text(id).is_empty() {
        errors.required(&at, "");
    } else if text(id).len() > NODE_ID_BYTES_MAX {
        let detail = format!("must be {NODE_ID_BYTES_MAX} characters or less");
        errors.invalid(&at, id, &detail);
    }
    let count = &driver["allocatable"]["count"];
    if count.as_i64().is_some_and(|own| own < 0) {
        errors.invalid(
            &path.child("allocatable").child("count"),
            count,
            NOT_NEGATIVE,
        );
    }
}

fn validate_topology(driver: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let mut keys = BTreeSet::new();
    for key in items(&driver["topologyKeys"]) {
        if text(key).is_empty() {
            errors.required(path, "");
        }
        if !keys.insert(text(key)) {
            errors.duplicate(path, key);
        }
        invalid_each(qualified_name(text(key)), key, path, errors);
    }
}
