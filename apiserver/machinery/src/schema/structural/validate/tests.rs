//! Values against schemas: faults, their order, and what an update forgives.

use crate::json::{Value, json};
use crate::schema::structural::Structural;
use crate::status::FieldPath;

/// The faults as `field: message`.
fn faults(schema: &Value, value: &Value) -> Vec<String> {
    let errors = Structural::parse(schema).validate(&FieldPath::default(), value);
    let causes = errors.causes().iter();
    causes
        .map(|cause| format!("{}: {}", cause.field, cause.message))
        .collect()
}

#[test]
fn each_keyword_has_its_fault() {
    for (schema, value, want) in [
        (
            json!({ "type": "string" }),
            json!(1),
            r#"a: Invalid value: "integer": a in body must be of type string: "integer""#,
        ),
        (
            json!({ "type": "integer", "enum": [1, 2] }),
            json!(3),
            r#"a: Unsupported value: 3: supported values: "1", "2""#,
        ),
        (
            json!({ "type": "integer", "multipleOf": 0 }),
            json!(1),
            "a: Invalid value: 0: factor MultipleOf declared for a must be positive: 0",
        ),
        (
            json!({ "type": "string", "maxLength": 2 }),
            json!("éèà"),
            "a: Too long: may not be more than 2 bytes",
        ),
        (
            json!({ "type": "array", "maxItems": 1, "items": {} }),
            json!([1, 2]),
            "a: Too many: 2: must have at most 1 item",
        ),
        (
            json!({ "type": "number", "maximum": 2.5, "exclusiveMaximum": true }),
            json!(2.5),
            "a: Invalid value: 2.5: a in body should be less than 2.5",
        ),
        (
            json!({ "type": "object", "minProperties": 1 }),
            json!({}),
            "a: Invalid value: 0: a in body should have at least 1 properties",
        ),
        (
            json!({ "type": "integer", "format": "int32" }),
            json!(3_000_000_000_i64),
            r#"<nil>: Invalid value: "": Checked value must be of type integer with format int32 in a"#,
        ),
        (
            json!({ "type": "object", "additionalProperties": { "type": "string" } }),
            json!({ "k": null }),
            r#"a.k: Invalid value: "null": a.k in body must be of type string: "null""#,
        ),
    ] {
        let schema = json!({ "type": "object", "properties": { "a": schema } });
        assert_eq!(faults(&schema, &json!({ "a": value })), [want]);
    }
}

#[test]
fn of_alternatives_the_closest_is_reported() {
    let schema = json!({ "type": "object", "properties": { "s": {
        "type": "string", "anyOf": [{ "pattern": "^a" }, { "maxLength": 2 }],
    } } });
    assert_eq!(
        faults(&schema, &json!({ "s": "bcd" })),
        [
            r#"<nil>: Invalid value: "": "s" must validate at least one schema (anyOf)"#,
            r#"s: Invalid value: "bcd": s in body should match '^a'"#,
        ]
    );
    let schema =
        json!({ "type": "object", "oneOf": [{ "required": ["a"] }, { "required": ["b"] }] });
    assert_eq!(faults(&schema, &json!({ "a": 1 })), [""; 0]);
    assert_eq!(
        faults(&schema, &json!({ "a": 1, "b": 1 })),
        [
            r#"<nil>: Invalid value: "": "" must validate one and only one schema (oneOf). Found 2 valid alternatives"#
        ]
    );
}

#[test]
fn what_an_update_leaves_as_it_was_is_forgiven() {
    let schema = Structural::parse(&json!({
        "type": "object", "required": ["new"],
        "properties": {
            "a": { "type": "string", "maxLength": 1 },
            "list": { "type": "array", "items": { "type": "string", "maxLength": 1 } },
            "keyed": { "type": "array", "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["k"], "items": { "type": "object", "properties": {
                    "k": { "type": "string" }, "v": { "type": "string", "maxLength": 1 } } } },
        },
    }));
    let old = json!({ "a": "long", "list": ["long"], "keyed": [{ "k": "x", "v": "long" }] });
    let faults = |new: &Value| -> Vec<String> {
        let errors = schema.validate_update(&FieldPath::default(), new, Some(&old));
        errors
            .causes()
            .iter()
            .map(|cause| cause.field.clone())
            .collect()
    };
    assert_eq!(faults(&old), [""; 0], "nothing changed");
    let mut new = old.clone();
    new["keyed"][0]["other"] = json!(1);
    new["list"] = json!(["long", "b"]);
    assert_eq!(
        faults(&new),
        ["list[0]", "new"],
        "items without keys are new"
    );
    new["a"] = json!("longer");
    assert_eq!(faults(&new), ["a", "list[0]", "new"]);
}
