//! ResourceSlices.

mod capacity;
mod counters;

use std::sync::LazyLock;

use regex::Regex;

use super::devices::{
    validate_binding, validate_label, validate_list, validate_pool_name, validate_qualified_name,
    validate_set, validate_taint,
};
use crate::clock::rfc3339;
use crate::columns::Printable;
use crate::core::pod::affinity::validate_node_selector;
use crate::core::pod::volume_sources::validate_csi_driver_name;
use crate::go_struct::shown;
use crate::json::{Value, json};
use crate::meta::object::{child_mut, default};
use crate::meta::validation::{dns1123_subdomain, validate_immutable};
use crate::status::{FieldErrors, FieldPath, quoted};
use crate::unstructured::{entries, is_empty, items, items_mut, text};
use crate::validation::{invalid_as, invalid_each};
use crate::{Context, Strategy};

/// The fields that say which nodes reach the devices.
const REACH: [&str; 4] = [
    "nodeName",
    "nodeSelector",
    "allNodes",
    "perDeviceNodeSelection",
];
const ONE_REACH: &str =
    "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
/// Attributes of several values.
const LISTS: [&str; 4] = ["bools", "ints", "strings", "versions"];
const DEVICES_MAX: usize = 128;
const DEVICES_WITH_TAINTS_MAX: usize = 64;
const ATTRIBUTES_MAX: usize = 32;
const TAINTS_MAX: usize = 16;
const VALUE_BYTES_MAX: usize = 64;

#[derive(Debug)]
pub(crate) struct ResourceSlice;

impl Strategy for ResourceSlice {
    fn return_deleted_object(&self) -> bool {
        true
    }

    fn counts_generation(&self) -> bool {
        true
    }

    fn prepare_for_create(&self, slice: &mut Value, context: Context<'_>) {
        drop_gated(slice);
        date_taints(slice, context);
    }

    fn prepare_for_update(&self, new: &mut Value, _old: &Value, context: Context<'_>) {
        drop_gated(new);
        date_taints(new, context);
    }

    fn warnings(&self, slice: &Value, _old: Option<&Value>) -> Vec<String> {
        let driver = text(&slice["spec"]["driver"]);
        match driver == driver.to_lowercase() {
            true => Vec::new(),
            false => vec![format!(
                "spec.driver: driver names should be lowercase; {} contains uppercase characters",
                quoted(driver)
            )],
        }
    }

    fn validate(&self, slice: &Value) -> FieldErrors {
        validate_spec(&slice["spec"], None)
    }

    fn validate_update(&self, new: &Value, old: &Value) -> FieldErrors {
        validate_spec(&new["spec"], Some(&old["spec"]))
    }

    fn cells(&self, view: Printable<'_>) -> Option<Vec<Value>> {
        Some(vec![
            view.name(),
            json!(view.str("/spec/nodeName")),
            json!(view.str("/spec/driver")),
            json!(view.str("/spec/pool/name")),
            view.age(),
        ])
    }
}

fn validate_spec(spec: &Value, old: Option<&Value>) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let path = FieldPath::new("spec");
    validate_csi_driver_name(&spec["driver"], &path.child("driver"), &mut errors);
    validate_pool(&spec["pool"], &path.child("pool"), &mut errors);
    if let Some(old) = old {
        let (now, before) = (&spec["pool"]["name"], &old["pool"]["name"]);
        let at = path.child("pool").child("name");
        validate_immutable(now, before, &at, &mut errors);
        for field in ["driver", "nodeName"] {
            validate_immutable(&spec[field], &old[field], &path.child(field), &mut errors);
        }
    }
    let reach = validate_reach(spec, &REACH, &path, &mut errors);
    let terms = &spec["nodeSelector"]["nodeSelectorTerms"];
    if spec["nodeSelector"].is_object() && items(terms).count() != 1 {
        let path = path.child("nodeSelector").child("nodeSelectorTerms");
        // Upstream prints its internal structs, and null without any.
        let all: Vec<_> = items(terms)
            .map(|term| shown("NodeSelectorTerm", term))
            .collect();
        let all = match all.is_empty() {
            true => "null".to_owned(),
            false => format!("[{}]", all.join(",")),
        };
        let detail = "must have exactly one node selector term";
        invalid_as(&path, &all, detail, &mut errors);
    }
    match reach.len() {
        0 => errors.required(&path, ONE_REACH),
        1 => {}
        _ => {
            let shown = format!("{{{}}}", reach.join(", "));
            let detail = format!("{ONE_REACH}, but multiple fields are set");
            errors.invalid(&path, &shown.into(), &detail);
        }
    }
    let devices = &spec["devices"];
    if !spec["sharedCounters"].is_null() && !devices.is_null() {
        let detail = "only one of `sharedCounters` or `devices` is allowed";
        errors.invalid(&path, &"".into(), detail);
    }
    let is_counted = |own: &Value| !is_empty(&own["taints"]) || counters::consumes(own);
    let most = match items(devices).any(is_counted) {
        true => DEVICES_WITH_TAINTS_MAX,
        false => DEVICES_MAX,
    };
    let per_device = spec["perDeviceNodeSelection"] == true;
    validate_set(
        devices,
        most,
        |own| text(&own["name"]),
        &path.child("devices"),
        &mut errors,
        |device, path, errors| validate_device(device, per_device, path, errors),
    );
    counters::validate_sets(spec, &path, &mut errors);
    errors
}

/// Faults of the fields that say which nodes reach the devices; those that are set.
fn validate_reach(
    own: &Value,
    fields: &[&str],
    path: &FieldPath,
    errors: &mut FieldErrors,
) -> Vec<String> {
    let mut set = Vec::new();
    for field in fields {
        let (value, path) = (&own[*field], path.child(field));
        match value {
            Value::Null => continue,
            Value::Object(_) => validate_node_selector(value, &path, errors),
            Value::String(name) if name.is_empty() => {
                let detail = match fields.len() {
                    4 => "must be either unset or set to a non-empty string",
                    _ => "must not be empty",
                };
                errors.invalid(&path, value, detail);
                continue;
            }
            Value::String(name) => invalid_each(dns1123_subdomain(name), value, &path, errors),
            Value::Bool(false) => {
                errors.invalid(&path, value, "must be either unset or set to true");
                continue;
            }
            _ => {}
        }
        set.push(format!("`{field}`"));
    }
    set
}

/// Leaves out what gates keep from being used unless they are opened: lists as attributes, and
/// what devices take of a node.
fn drop_gated(slice: &mut Value) {
    for device in items_mut(child_mut(slice, "spec"), "devices") {
        device.remove("nodeAllocatableResourceMappings");
        let attributes = device.get_mut("attributes").and_then(Value::as_object_mut);
        let all = attributes.into_iter().flat_map(|own| own.values_mut());
        for attribute in all.filter_map(Value::as_object_mut) {
            attribute.retain(|kind, _| !LISTS.contains(&kind.as_str()));
        }
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
    validate_pool_name(text(&pool["name"]), &path.child("name"), errors);
    let count = pool["resourceSliceCount"].as_i64().unwrap_or(0);
    if count <= 0 {
        let at = path.child("resourceSliceCount");
        errors.invalid(&at, &count.into(), "must be greater than zero");
    }
    let generation = pool["generation"].as_i64().unwrap_or(0);
    if generation < 0 {
        let at = path.child("generation");
        let detail = "must be greater than or equal to zero";
        errors.invalid(&at, &generation.into(), detail);
    }
}

fn validate_device(device: &Value, per_device: bool, path: &FieldPath, errors: &mut FieldErrors) {
    validate_label(text(&device["name"]), &path.child("name"), errors);
    let count = |field: &str| entries(&device[field]).count();
    let all = count("attributes") + count("capacity");
    if all > ATTRIBUTES_MAX {
        let detail = format!(
            "the total number of attributes and capacities must not exceed {ATTRIBUTES_MAX}"
        );
        errors.invalid(path, &all.into(), &detail);
    }
    for (key, attribute) in entries(&device["attributes"]) {
        let path = path.child("attributes");
        validate_qualified_name(key, &path, errors);
        validate_attribute(attribute, &path.key(&shortened(key)), errors);
    }
    let shared = device["allowMultipleAllocations"] == true;
    for (key, capacity) in entries(&device["capacity"]) {
        let path = path.child("capacity");
        validate_qualified_name(key, &path, errors);
        let path = path.key(&shortened(key)).child("requestPolicy");
        if shared {
            capacity::validate_policy(capacity, &path, errors);
        } else if !capacity["requestPolicy"].is_null() {
            errors.forbidden(&path, "allowMultipleAllocations must be true");
        }
    }
    let taints = path.child("taints");
    validate_list(
        &device["taints"],
        TAINTS_MAX,
        &taints,
        errors,
        validate_taint,
    );
    counters::validate_consumption(device, path, errors);
    const OF_DEVICE: &str = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
    let fields = ["nodeName", "nodeSelector", "allNodes"];
    if per_device {
        let reach = validate_reach(device, &fields, path, errors);
        match reach.len() {
            0 => errors.required(path, OF_DEVICE),
            1 => {}
            _ => {
                let shown = format!("{{{}}}", reach.join(", "));
                errors.invalid(path, &shown.into(), OF_DEVICE);
            }
        }
    } else if fields.iter().any(|field| !device[*field].is_null()) {
        let detail = "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
        errors.invalid(path, &Value::Null, detail);
    }
    validate_binding(device, path, errors);
}

/// The name of an attribute as paths have it: of a long one, how it begins and ends.
fn shortened(key: &str) -> String {
    const BYTES_MAX: usize = 63 + 1 + 32;
    const LEFT_OUT: &str = "...";
    if key.len() <= BYTES_MAX || !key.is_ascii() {
        return key.to_owned();
    }
    let left = BYTES_MAX - LEFT_OUT.len();
    let (begin, end) = (&key[..left.div_ceil(2)], &key[key.len() - left / 2..]);
    format!("{begin}{LEFT_OUT}{end}")
}

/// An attribute as upstream's struct.
fn shown_attribute(attribute: &Value) -> String {
    const FIELDS: [(&str, &str); 8] = [
        ("IntValue", "int"),
        ("BoolValue", "bool"),
        ("StringValue", "string"),
        ("VersionValue", "version"),
        ("IntValues", "ints"),
        ("BoolValues", "bools"),
        ("StringValues", "strings"),
        ("VersionValues", "versions"),
    ];
    let fields = FIELDS.map(|(name, field)| format!("\"{name}\":{}", attribute[field]));
    format!("{{{}}}", fields.join(","))
}

/// An attribute is of one type.
fn validate_attribute(attribute: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    static VERSION: LazyLock<Regex> = LazyLock::new(|| {
        let number = r"(0|[1-9]\d*)";
        let before = r"(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)";
        let build = "[0-9a-zA-Z-]+";
        let form = format!(
            r"^{number}\.{number}\.{number}(-{before}(\.{before})*)?(\+{build}(\.{build})*)?$"
        );
        Regex::new(&form).expect("it compiles")
    });
    for field in ["string", "version"] {
        let path = path.child(field);
        let Some(own) = attribute[field].as_str() else {
            continue;
        };
        if field == "version" && !VERSION.is_match(own) {
            let detail = "must be a string compatible with semver.org spec 2.0.0";
            errors.invalid(&path, &own.into(), detail);
        }
        if own.len() > VALUE_BYTES_MAX {
            errors.too_long(&path, VALUE_BYTES_MAX);
        }
    }
    let set = entries(attribute).filter(|(_, own)| !own.is_null()).count();
    if set != 1 {
        let detail = "exactly one value must be specified";
        match set {
            0 => errors.invalid(path, &"".into(), detail),
            _ => invalid_as(path, &shown_attribute(attribute), detail, errors),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::json::json;

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
        assert_eq!(slice(json!({"allNodes": false})), 2);
    }

    #[test]
    fn attributes_have_names_and_one_value() {
        let faults = |more: Value| {
            let mut device = json!({"name": "d"});
            for (field, value) in entries(&more) {
                device[field] = value.clone();
            }
            let mut errors = FieldErrors::new();
            validate_device(&device, false, &FieldPath::new("d"), &mut errors);
            let causes = errors.causes().iter();
            causes.map(|own| own.field.clone()).collect::<Vec<_>>()
        };
        let table = [
            (
                json!({"attributes": {"a": {"string": "x"}, "b.io/c": {"bool": true}}}),
                vec![],
            ),
            (
                json!({"attributes": {"no-dash": {"int": 1}}}),
                vec!["d.attributes"],
            ),
            (json!({"attributes": {"a": {}}}), vec!["d.attributes[a]"]),
            (
                json!({"attributes": {"a": {"version": "1.2"}}}),
                vec!["d.attributes[a].version"],
            ),
            (
                json!({"capacity": {"a": {"value": "1", "requestPolicy": {}}}}),
                vec!["d.capacity[a].requestPolicy"],
            ),
            (json!({"nodeName": "n"}), vec!["d"]),
        ];
        for (more, want) in table {
            assert_eq!(faults(more.clone()), want, "{more}");
        }
    }
}
