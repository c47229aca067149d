//! Defaulting: values that a schema fills in.

use super::Structural;
use crate::json::Value;

impl Structural {
    /// Fills in the defaults below `value`, inside of the objects and lists that are present.
    pub fn fill_defaults(&self, value: &mut Value) {
        match value {
            Value::Object(fields) => {
                for (name, schema) in &self.properties {
                    if let Some(default) = &schema.default
                        && fields.get(name).is_none_or(|value| schema.replaces(value))
                    {
                        fields.insert(name.clone(), default.clone());
                    }
                }
                for (name, value) in fields {
                    if let Some(schema) = self.properties.get(name.as_str()) {
                        schema.fill_defaults(value);
                    } else if let Some(schema) = self.map_values() {
                        schema.default_element(value);
                    }
                }
            }
            Value::Array(items) => {
                if let Some(schema) = &self.items {
                    items
                        .iter_mut()
                        .for_each(|item| schema.default_element(item));
                }
            }
            _ => {}
        }
    }

    /// Whether the field `name` has a default.
    pub fn has_default(&self, name: &str) -> bool {
        let property = self.properties.get(name);
        property.is_some_and(|property| property.default.is_some())
    }

    /// Defaults an item of a list or an entry of a map; a null that is not allowed is replaced
    /// itself.
    fn default_element(&self, value: &mut Value) {
        if self.replaces(value)
            && let Some(default) = &self.default
        {
            *value = default.clone();
        }
        self.fill_defaults(value);
    }

    /// Whether `value` is a null that the schema does not allow.
    fn replaces(&self, value: &Value) -> bool {
        value.is_null() && !self.nullable
    }
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;

    #[test]
    fn defaults_are_filled_in_where_their_parent_is() {
        let schema = Structural::parse(&json!({
            "type": "object", "properties": {
                "a": { "type": "object", "properties": { "b": { "type": "integer", "default": 1 } } },
                "n": { "type": "string", "nullable": true, "default": "x" },
                "list": { "type": "array", "items": {
                    "type": "object", "properties": { "c": { "type": "string", "default": "c" } },
                } },
                "made": { "type": "object", "default": {}, "properties": { "d": { "type": "string", "default": "d" } } },
            },
        }));
        let defaulted = |mut object: Value| {
            schema.fill_defaults(&mut object);
            object
        };
        let made = json!({ "d": "d" });
        assert_eq!(defaulted(json!({})), json!({ "n": "x", "made": made }));
        assert_eq!(
            defaulted(json!({ "a": { "b": null }, "n": null, "list": [{}, null] })),
            json!({ "a": { "b": 1 }, "n": null, "list": [{ "c": "c" }, null], "made": made })
        );
    }
}
