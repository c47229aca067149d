//! Applying a configuration without owners, as mutations of admission policies do.

use super::merge::merge;
use super::typed::Shape;
use super::validate::validate;
use crate::json::Value;
use crate::schema::Object;

/// `live` with the fields that `applied` sets.
///
/// # Errors
/// When the configuration does not fit the schema, or would replace an atomic value.
pub fn merge_configuration(
    schema: Option<&Object>,
    live: &Value,
    applied: &Value,
) -> Result<Value, String> {
    let shape = Shape::of_kind(schema);
    validate(shape, applied)
        .map_err(|why| format!("failed to convert patch object to typed object: {why}"))?;
    let mut atomics = Vec::new();
    find_atomics(shape, applied, "", &mut atomics);
    if !atomics.is_empty() {
        return Err(format!(
            "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {}",
            atomics.join(", ")
        ));
    }
    Ok(merge(shape, live, applied).unwrap_or_default())
}

fn find_atomics(shape: Shape<'_>, value: &Value, path: &str, found: &mut Vec<String>) {
    match (shape, value) {
        (Shape::Leaf, Value::Object(_) | Value::Array(_)) | (Shape::Deduced, Value::Array(_)) => {
            found.push(path.to_owned());
        }
        (_, Value::Object(fields)) => {
            for (name, value) in fields {
                find_atomics(shape.field(name), value, &format!("{path}.{name}"), found);
            }
        }
        (Shape::List(list), Value::Array(items)) => {
            for (index, item) in items.iter().enumerate() {
                find_atomics(list.item(), item, &format!("{path}[{index}]"), found);
            }
        }
        _ => {}
    }
}
