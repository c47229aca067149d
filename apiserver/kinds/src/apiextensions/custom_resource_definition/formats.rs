//! Unsupported formats in the schemas of a definition.

use crate::json::Value;
use crate::schema::structural::format::is_supported;
use crate::status::quoted;

/// The warnings of a definition: formats that it uses for the first time and that mean nothing.
pub(super) fn warnings(new: &Value, old: Option<&Value>) -> Vec<String> {
    let known = old.map(unrecognized).unwrap_or_default();
    let mut warnings: Vec<String> = Vec::new();
    for format in unrecognized(new) {
        let warning = format!("unrecognized format {}", quoted(&format));
        if !known.contains(&format) && !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }
    warnings
}

fn unrecognized(definition: &Value) -> Vec<String> {
    let versions = definition["spec"]["versions"].as_array();
    let mut found = Vec::new();
    for version in versions.into_iter().flatten() {
        visit(&version["schema"]["openAPIV3Schema"], &mut found);
    }
    found
}

fn visit(schema: &Value, found: &mut Vec<String>) {
    let text = |field: &str| schema[field].as_str().unwrap_or_default();
    let format = text("format");
    if !format.is_empty() && !is_supported(text("type"), format) {
        found.push(format.to_owned());
    }
    let fields = ["items", "allOf", "anyOf", "oneOf", "not", "properties"];
    for field in fields.into_iter().chain(["additionalProperties"]) {
        match &schema[field] {
            Value::Array(schemas) => schemas.iter().for_each(|schema| visit(schema, found)),
            Value::Object(schemas) if field == "properties" => {
                schemas.values().for_each(|schema| visit(schema, found));
            }
            schema @ Value::Object(_) => visit(schema, found),
            _ => {}
        }
    }
}
