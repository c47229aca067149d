//! ResourceSlices.

use std::collections::BTreeSet;

use serde_json::Value;

use super::checks::{entries, invalid_each, items, items_mut, text};
use super::volume_sources::validate_csi_driver_name;
use super::{Context, Strategy};
use crate::clock::rfc3339;
use crate::meta::object::{child_mut, default};
use crate::meta::validation::{dns1123_label, dns1123_subdomain, validate_immutable};
use crate::status::{FieldErrors, FieldPath};

/// The fields that say which nodes reach the devices.
const REACH: [&str; 4] = [
    "nodeName",
    "nodeSelector",
    "allNodes",
    "perDeviceNodeSelection",
];
const ONE_REACH: &str =
    "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
const TAINT_EFFECTS: [&str; 3] = ["NoExecute", "NoSchedule", "None"];

#[derive(Debug)]
pub(super) struct ResourceSlice;

impl Strategy for ResourceSlice {
    fn counts_generation(&self) -> bool {
        true
    }

    fn prepare_for_create(&self, slice: &mut Value, context: Context<'_>) {
        date_taints(slice, context);
    }

    fn prepare_for_update(&self, new: &mut Value, _old: &Value, context: Context<'_>) {
        date_taints(new, context);
    }

    fn validate(&self, slice: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let path = FieldPath::new("spec");
        let spec = &slice["spec"];
        validate_csi_driver_name(&spec["driver"], &path.child("driver"), &mut errors);
        validate_pool(&spec["pool"], &path.child("pool"), &mut errors);
        let is_set = |field: &&str| match &spec[*field] {
            Value::String(own) => !own.is_empty(),
            own => !own.is_null() && *own != false,
        };
        let set: Vec<String> = REACH
            .iter()
            .filter(|field| is_set(field))
            .map(|own| format!("`{own}`"))
            .collect();
        match set.len() {
            0 => errors.required(&path, ONE_REACH),
            1 => {}
            _ => {
                let shown = format!("{{{}}}", set.join(", "));
                let detail = format!("{ONE_REACH}, but multiple fields are set");
                errors.invalid(&path, &shown.into(), &detail);
            }
        }
        let mut names = BTreeSet::new();
        for (index, device) in items(&spec["devices"]).enumerate() {
            let path = path.child("devices").index(index);
            validate_device(device, &path, &mut errors);
            if !names.insert(text(&device["name"])) {
                errors.duplicate(&path, &device["name"]);
            }
        }
        errors
    }

    fn validate_update(&self, new: &Value, old: &Value) -> FieldErrors {
        let mut errors = self.validate(new);
        let path = FieldPath::new("spec");
        let same = |own: &Value, other: &Value, path: &FieldPath, errors: &mut FieldErrors| {
            validate_immutable(own, other, path, errors);
        };
        let (now, before) = (&new["spec"], &old["spec"]);
        same(
            &now["driver"],
            &before["driver"],
            &path.child("driver"),
            &mut errors,
        );
        let pool = path.child("pool").child("name");
        same(
            &now["pool"]["name"],
            &before["pool"]["name"],
            &pool,
            &mut errors,
        );
        for field in ["nodeName", "nodeSelector", "allNodes"] {
            same(&now[field], &before[field], &path.child(field), &mut errors);
        }
        errors
    }
}

/// A taint is dated by when it came.
fn date_taints(slice: &mut Value, context: Context<'_>) {
    let now = rfc3339(context.now);
    for device in items_mut(child_mut(slice, "spec"), "devices") {
        for taint in items_mut(device, "taints") {
            default(taint, "timeAdded", now.as_str());
        }
    }
}

fn validate_pool(pool: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let name = &pool["name"];
    let at = path.child("name");
    if text(name).is_empty() {
        errors.required(&at, "");
    } else {
        for part in text(name).split('/') {
            invalid_each(dns1123_subdomain(part), &part.into(), &at, errors);
        }
    }
    let count = pool["resourceSliceCount"].as_i64().unwrap_or(0);
    if count <= 0 {
        let at = path.child("resourceSliceCount");
        errors.invalid(&at, &count.into(), "must be greater than zero");
    }
    let generation = pool["generation"].as_i64().unwrap_or(0);
    if generation < 0 {
        let at = path.child("generation");
        errors.invalid(
            &at,
            &generation.into(),
            "must be greater than or equal to zero",
        );
    }
}

fn validate_device(device: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let name = &device["name"];
    let at = path.child("name");
    match text(name) {
        "" => errors.required(&at, ""),
        own => invalid_each(dns1123_label(own), name, &at, errors),
    }
    for (key, attribute) in entries(&device["attributes"]) {
        let path = path.child("attributes").key(key);
        let set = entries(attribute).count();
        if set != 1 {
            errors.invalid(&path, &"".into(), "exactly one value must be specified");
        }
    }
    for (index, taint) in items(&device["taints"]).enumerate() {
        let path = path.child("taints").index(index).child("effect");
        match text(&taint["effect"]) {
            "" => errors.required(&path, ""),
            own if TAINT_EFFECTS.contains(&own) => {}
            own => errors.not_supported(&path, &own.into(), &TAINT_EFFECTS),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_slice_says_in_one_way_who_reaches_its_devices() {
        let slice = |more: Value| {
            let mut spec =
                json!({"driver": "d.io", "pool": {"name": "p", "resourceSliceCount": 1}});
            for (field, value) in entries(&more) {
                spec[field] = value.clone();
            }
            ResourceSlice
                .validate(&json!({ "spec": spec }))
                .causes()
                .len()
        };
        assert_eq!(slice(json!({"nodeName": "n"})), 0);
        assert_eq!(slice(json!({})), 1);
        assert_eq!(slice(json!({"nodeName": "n", "allNodes": true})), 1);
    }
}
