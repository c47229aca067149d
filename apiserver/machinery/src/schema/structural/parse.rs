//! Compiling a `JSONSchemaProps` document.

use super::{AdditionalProperties, ListType, Pattern, Structural, ValidationRule, ValueValidation};
use crate::json::Value;

impl Structural {
    /// Compiles an `openAPIV3Schema`; what validation would refuse is left out.
    #[must_use]
    pub fn parse(schema: &Value) -> Self {
        Self {
            value_type: text(schema, "type"),
            nullable: flag(schema, "nullable"),
            default: Some(&schema["default"])
                .filter(|value| !value.is_null())
                .cloned(),
            items: Some(&schema["items"])
                .filter(|items| items.is_object())
                .map(|items| Box::new(Self::parse(items))),
            properties: schema["properties"]
                .as_object()
                .into_iter()
                .flatten()
                .map(|(name, schema)| (name.to_string(), Self::parse(schema)))
                .collect(),
            additional_properties: match &schema["additionalProperties"] {
                Value::Bool(allowed) => Some(AdditionalProperties::Allowed(*allowed)),
                values @ Value::Object(_) => {
                    Some(AdditionalProperties::Schema(Box::new(Self::parse(values))))
                }
                _ => None,
            },
            preserve_unknown_fields: flag(schema, "x-kubernetes-preserve-unknown-fields"),
            embedded_resource: flag(schema, "x-kubernetes-embedded-resource"),
            int_or_string: flag(schema, "x-kubernetes-int-or-string"),
            list_type: match schema["x-kubernetes-list-type"].as_str() {
                Some("set") => Some(ListType::Set),
                Some("map") => Some(ListType::Map),
                Some(_) => Some(ListType::Atomic),
                None => None,
            },
            list_map_keys: texts(&schema["x-kubernetes-list-map-keys"]),
            atomic_map: schema["x-kubernetes-map-type"] == "atomic",
            validations: list(&schema["x-kubernetes-validations"])
                .map(ValidationRule::parse)
                .collect(),
            value: ValueValidation::parse(schema),
        }
    }
}

impl ValidationRule {
    fn parse(rule: &Value) -> Self {
        Self {
            rule: text(rule, "rule"),
            message: text(rule, "message"),
            message_expression: text(rule, "messageExpression"),
            reason: text(rule, "reason"),
            field_path: text(rule, "fieldPath"),
            optional_old_self: rule["optionalOldSelf"].as_bool(),
        }
    }
}

impl ValueValidation {
    fn parse(schema: &Value) -> Self {
        let number = |field: &str| schema[field].as_f64();
        let integer = |field: &str| schema[field].as_i64();
        let nodes = |field: &str| list(&schema[field]).map(Structural::parse).collect();
        Self {
            format: text(schema, "format"),
            maximum: number("maximum"),
            exclusive_maximum: flag(schema, "exclusiveMaximum"),
            minimum: number("minimum"),
            exclusive_minimum: flag(schema, "exclusiveMinimum"),
            multiple_of: number("multipleOf"),
            max_length: integer("maxLength"),
            min_length: integer("minLength"),
            pattern: schema["pattern"]
                .as_str()
                .filter(|text| !text.is_empty())
                .map(Pattern::new),
            max_items: integer("maxItems"),
            min_items: integer("minItems"),
            unique_items: flag(schema, "uniqueItems"),
            max_properties: integer("maxProperties"),
            min_properties: integer("minProperties"),
            enumeration: list(&schema["enum"]).cloned().collect(),
            required: texts(&schema["required"]),
            all_of: nodes("allOf"),
            any_of: nodes("anyOf"),
            one_of: nodes("oneOf"),
            not: Some(&schema["not"])
                .filter(|not| not.is_object())
                .map(|not| Box::new(Structural::parse(not))),
        }
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn texts(value: &Value) -> Vec<String> {
    let texts = list(value).filter_map(Value::as_str);
    texts.map(str::to_owned).collect()
}

fn text(value: &Value, field: &str) -> String {
    value[field].as_str().unwrap_or_default().to_owned()
}

fn flag(value: &Value, field: &str) -> bool {
    value[field].as_bool().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;

    #[test]
    fn every_part_of_a_schema_is_compiled() {
        let schema = Structural::parse(&json!({
            "type": "object",
            "required": ["spec"],
            "properties": {
                "spec": {
                    "type": "object",
                    "x-kubernetes-validations": [{ "rule": "self.a < 3", "message": "less" }],
                    "properties": {
                        "a": { "type": "integer", "format": "int32", "maximum": 2.5, "default": 1 },
                        "tags": {
                            "type": "array", "x-kubernetes-list-type": "map",
                            "x-kubernetes-list-map-keys": ["k"],
                            "items": { "type": "object", "properties": { "k": { "type": "string" } } },
                        },
                        "labels": {
                            "type": "object", "additionalProperties": { "type": "string", "maxLength": 3 },
                        },
                    },
                },
            },
        }));
        let spec = &schema.properties["spec"];
        assert_eq!(schema.value.required, ["spec"]);
        assert_eq!(spec.validations[0].rule, "self.a < 3");
        let a = spec.entry("a").unwrap();
        assert_eq!(
            (a.value.format.as_str(), a.value.maximum),
            ("int32", Some(2.5))
        );
        assert_eq!(a.default, Some(json!(1)));
        let tags = &spec.properties["tags"];
        assert_eq!(tags.list_type, Some(ListType::Map));
        assert_eq!(tags.list_map_keys, ["k"]);
        let labels = spec.properties["labels"].entry("anything").unwrap();
        assert_eq!(labels.value.max_length, Some(3));
    }
}
