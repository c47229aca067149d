//! Values that need no conversion: known fields with values of their types, texts in normal form.
//!
//! Such values are converted in place into the form that decoding gives; decoding would rebuild all
//! of their maps.

use std::mem;

use crate::json::{Map, Value};
use crate::schema::decode::float;
use crate::schema::quantity::Quantity;
use crate::schema::time::{Precision, normalize};
use crate::schema::{Object, Schema};

/// Returns the decoded form of `value`, if it is plain: then decoding would find nothing to convert and
/// no fault.
pub fn decoded(object: &Object, value: &mut Value) -> Option<Value> {
    if !is_plain_struct(object, value) {
        return None;
    }
    let mut plain = mem::take(value);
    if let Value::Object(fields) = &mut plain {
        settle_struct(object, fields);
    }
    Some(plain)
}

fn is_plain_struct(object: &Object, value: &Value) -> bool {
    let Value::Object(fields) = value else {
        return false;
    };
    fields.iter().all(|(name, value)| {
        let field = object.field(name);
        field.is_some_and(|field| is_plain(&field.schema, value))
    })
}

fn is_plain(schema: &Schema, value: &Value) -> bool {
    match (schema, value) {
        (_, Value::Null) | (Schema::Any | Schema::Raw, _) => true,
        (Schema::Bool, value) => value.is_boolean(),
        (Schema::String(_), value) => value.is_string(),
        (Schema::Float, value) => value.is_number(),
        (Schema::Int64, Value::Number(number)) => number.is_i64(),
        (Schema::Int32 | Schema::IntOrString, Value::Number(number)) => {
            let integer = number.as_i64();
            integer.is_some_and(|integer| i32::try_from(integer).is_ok())
        }
        (Schema::IntOrString, value) => value.is_string(),
        (Schema::Time, Value::String(text)) => is_normal(text, Precision::Seconds),
        (Schema::MicroTime, Value::String(text)) => is_normal(text, Precision::Micros),
        (Schema::Quantity, Value::String(text)) => {
            Quantity::parse(text).is_ok_and(|quantity| quantity.to_string() == *text)
        }
        (Schema::Object(object), value) => is_plain_struct(object, value),
        (Schema::Map(map), Value::Object(entries)) => {
            entries.values().all(|value| is_plain(&map.values, value))
        }
        (Schema::Array(array), Value::Array(items)) => {
            items.iter().all(|item| is_plain(&array.items, item))
        }
        _ => false,
    }
}

fn is_normal(time: &str, precision: Precision) -> bool {
    normalize(time, precision).is_ok_and(|normal| normal.as_deref() == Some(time))
}

fn settle_struct(object: &Object, fields: &mut Map) {
    fields.retain(|name, value| {
        let field = object.field(name);
        field.is_some_and(|field| settle(&field.schema, value) && !field.omits(value))
    });
    for (name, unset) in object.nothing().as_object().into_iter().flatten() {
        if !fields.contains_key(name) {
            fields.insert(name.clone(), unset.clone());
        }
    }
}

/// Brings a plain value into its form; answers whether it says anything.
fn settle(schema: &Schema, value: &mut Value) -> bool {
    match (schema, &mut *value) {
        (_, Value::Null) => return false,
        (Schema::Object(object), Value::Object(fields)) => settle_struct(object, fields),
        (Schema::Map(map), Value::Object(entries)) => {
            for entry in entries.values_mut() {
                if !settle(&map.values, entry) {
                    *entry = map.values.empty_entry();
                }
            }
        }
        (Schema::Array(array), Value::Array(items)) => {
            for item in items {
                if !settle(&array.items, item) {
                    *item = array.items.zero();
                }
            }
        }
        (Schema::Float, Value::Number(number)) => *value = float(number),
        _ => {}
    }
    true
}

#[cfg(test)]
mod tests {
    use super::super::Walk;
    use super::*;
    use crate::json::json;
    use crate::schema::tests::kind;
    use crate::schema::{FieldValidation, decode_value};

    #[test]
    fn plain_values_get_the_form_that_decoding_gives() {
        let pod = |fields: Value| ("v1", "Pod", fields);
        for (version, name, mut value) in [
            pod(json!({})),
            pod(
                json!({ "metadata": { "labels": {}, "annotations": { "a": null } }, "spec": null }),
            ),
            pod(json!({ "spec": {
                "containers": [{ "args": [], "env": [null], "image": "" }, null],
                "overhead": { "cpu": "500m", "memory": null },
                "terminationGracePeriodSeconds": 0,
                "priority": 5,
                "hostNetwork": false,
                "volumes": [{ "emptyDir": {} }],
            } })),
            pod(
                json!({ "status": { "startTime": "2024-01-01T02:00:00Z", "conditions": [
                { "type": "Ready", "lastTransitionTime": null },
                { "lastTransitionTime": "2024-01-01T02:00:00Z", "lastProbeTime": null },
            ] } }),
            ),
            (
                "coordination.k8s.io/v1",
                "Lease",
                json!({ "spec": { "renewTime": "2024-01-01T01:00:00.120000Z" } }),
            ),
            (
                "v1",
                "Service",
                json!({ "spec": { "ports": [{ "port": 80, "targetPort": "web" }, { "targetPort": 1 }] } }),
            ),
            (
                "apps/v1",
                "ControllerRevision",
                json!({ "data": { "any": [null] }, "revision": 1 }),
            ),
        ] {
            let object = kind(version, name);
            let mut walk = Walk {
                path: String::new(),
                unknown: Vec::new(),
            };
            let walked = walk.fields(object, value.clone()).unwrap();
            let want = decode_value(object, walked, FieldValidation::Strict);
            let found = decoded(object, &mut value).expect("it is plain");
            assert_eq!(found, want.unwrap().value);
        }
    }

    #[test]
    fn what_is_to_be_converted_or_refused_is_not_plain() {
        for mut value in [
            json!([]),
            json!({ "spec": { "nope": 1 } }),
            json!({ "spec": { "hostname": 1 } }),
            json!({ "spec": { "hostNetwork": "true" } }),
            json!({ "spec": { "priority": 1.0 } }),
            json!({ "spec": { "priority": 2_147_483_648_u32 } }),
            json!({ "spec": { "activeDeadlineSeconds": 9_223_372_036_854_775_808_u64 } }),
            json!({ "spec": { "containers": {} } }),
            json!({ "spec": { "overhead": { "cpu": 1 } } }),
            json!({ "spec": { "overhead": { "cpu": "x" } } }),
            json!({ "spec": { "overhead": { "memory": "1.953125Ki" } } }),
            json!({ "metadata": { "creationTimestamp": "yesterday" } }),
            json!({ "metadata": { "creationTimestamp": "0001-01-01T00:00:00Z" } }),
            json!({ "status": { "startTime": "2024-01-01T02:00:00.9+02:00" } }),
        ] {
            let given = value.clone();
            assert_eq!(decoded(kind("v1", "Pod"), &mut value), None, "{given}");
            assert_eq!(value, given, "it is left as it is");
        }
        let mut secret = json!({ "data": { "a": "YQ==" } });
        assert_eq!(decoded(kind("v1", "Secret"), &mut secret), None);
    }
}
