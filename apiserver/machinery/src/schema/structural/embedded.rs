//! Embedded resources: objects inside of objects, with type and metadata of their own.

use super::Structural;
use crate::json::Value;
use crate::meta::GroupVersion;
use crate::meta::validation::{NameRule, dns1035_label, validate_object_meta};
use crate::schema::{FieldValidation, decode_value, object_meta};
use crate::status::{FieldErrors, FieldPath};

/// An invalid value in the type or the metadata of an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Malformed {
    /// The path of the value.
    pub path: FieldPath,
    /// The value.
    pub value: Value,
    /// The description of the fault.
    pub detail: String,
}

impl Structural {
    /// Decodes the metadata of embedded resources by their type, and returns the paths of unknown
    /// fields in it.
    ///
    /// # Errors
    /// The first value that has a wrong type.
    pub fn coerce_embedded(
        &self,
        path: &FieldPath,
        value: &mut Value,
    ) -> Result<Vec<String>, Malformed> {
        let mut unknown = Vec::new();
        coerce(self, path, value, &mut unknown)?;
        unknown.sort();
        Ok(unknown)
    }

    /// The faults in type and metadata of embedded resources.
    #[must_use]
    pub fn validate_embedded(&self, path: &FieldPath, value: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        validate(self, path, value, &mut errors);
        errors
    }
}

fn coerce(
    schema: &Structural,
    path: &FieldPath,
    value: &mut Value,
    unknown: &mut Vec<String>,
) -> Result<(), Malformed> {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                if schema.embedded_resource {
                    coerce_field(name, &path.child(name), value, unknown)?;
                }
                if let Some(schema) = schema.properties.get(name.as_str()) {
                    coerce(schema, &path.child(name), value, unknown)?;
                } else if let Some(schema) = schema.map_values() {
                    coerce(schema, &path.key(name), value, unknown)?;
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = &schema.items {
                for (index, item) in items.iter_mut().enumerate() {
                    coerce(schema, &path.index(index), item, unknown)?;
                }
            }
        }
        _ => {}
    }
    Ok(())
}

fn coerce_field(
    name: &str,
    path: &FieldPath,
    value: &mut Value,
    unknown: &mut Vec<String>,
) -> Result<(), Malformed> {
    let malformed = |value: &Value, detail: String| Malformed {
        path: path.clone(),
        value: value.clone(),
        detail,
    };
    match name {
        "apiVersion" | "kind" if !value.is_string() => {
            Err(malformed(value, "must be a string".to_owned()))
        }
        "metadata" => {
            let decoded = decode_value(object_meta(), value.clone(), FieldValidation::Warn);
            let decoded = decoded.map_err(|error| malformed(value, error.to_string()))?;
            unknown.extend(decoded.warnings.iter().map(|fault| {
                let field = fault.trim_start_matches("unknown field ").trim_matches('"');
                path.child(field).to_string()
            }));
            *value = decoded.value;
            if value["creationTimestamp"].is_null()
                && let Some(fields) = value.as_object_mut()
            {
                fields.remove("creationTimestamp");
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

fn validate(schema: &Structural, path: &FieldPath, value: &Value, errors: &mut FieldErrors) {
    match value {
        Value::Object(fields) => {
            if schema.embedded_resource {
                validate_resource(path, value, errors);
            }
            for (name, value) in fields {
                if let Some(schema) = schema.properties.get(name.as_str()) {
                    validate(schema, &path.child(name), value, errors);
                } else if let Some(schema) = schema.map_values() {
                    validate(schema, &path.key(name), value, errors);
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = &schema.items {
                for (index, item) in items.iter().enumerate() {
                    validate(schema, &path.index(index), item, errors);
                }
            }
        }
        _ => {}
    }
}

fn validate_resource(path: &FieldPath, resource: &Value, errors: &mut FieldErrors) {
    for name in ["apiVersion", "kind"] {
        if resource.get(name).is_none() {
            errors.required(&path.child(name), "");
        }
    }
    for (name, value) in resource.as_object().into_iter().flatten() {
        let path = path.child(name);
        match (name.as_str(), value) {
            ("apiVersion" | "kind", Value::String(text)) if text.is_empty() => {
                errors.invalid(&path, value, "must not be empty");
            }
            ("apiVersion", Value::String(text)) if GroupVersion::parse(text).is_none() => {
                let detail = format!("unexpected GroupVersion string: {text}");
                errors.invalid(&path, value, &detail);
            }
            ("kind", Value::String(text)) => {
                let faults = dns1035_label(&text.to_lowercase());
                if !faults.is_empty() {
                    let rule = "may have mixed case, but should otherwise match: ";
                    errors.invalid(&path, value, &format!("{rule}{}", faults.join(",")));
                }
            }
            ("apiVersion", Value::String(_)) => {}
            ("apiVersion" | "kind", value) => errors.invalid(&path, value, "must be a string"),
            ("metadata", meta) => {
                let mut meta = meta.clone();
                // A name may be left out, which only this check would mind.
                if meta["name"].as_str().unwrap_or_default().is_empty() {
                    meta["name"] = "fakename".into();
                }
                let namespaced = meta["namespace"]
                    .as_str()
                    .is_some_and(|own| !own.is_empty());
                let rule = NameRule::PathSegment;
                errors.extend(validate_object_meta(&meta, namespaced, rule, &path));
            }
            _ => {}
        }
    }
}
