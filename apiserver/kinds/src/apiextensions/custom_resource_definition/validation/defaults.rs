//! Whether the defaults of a schema are values that it allows.

use crate::json::{Value, json};
use crate::schema::structural::{META_FIELDS, Structural};
use crate::status::{FieldErrors, FieldPath};

/// The faults of all defaults; `schema` is that of whole objects.
pub(super) fn validate(schema: &Structural, path: &FieldPath) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let place = Place {
        root: schema,
        way: Vec::new(),
        in_meta: false,
    };
    visit(schema, Resource::Yes, path, place, &mut errors);
    errors
}

/// Whether a node is an object with type and metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Resource {
    Yes,
    No,
}

/// The position of a node in its resource.
#[derive(Clone)]
struct Place<'s> {
    /// The schema of the resource.
    root: &'s Structural,
    way: Vec<Step>,
    /// Whether the place is part of the resource's type or metadata.
    in_meta: bool,
}

#[derive(Clone)]
enum Step {
    Field(String),
    Item,
}

fn visit<'s>(
    schema: &'s Structural,
    resource: Resource,
    path: &FieldPath,
    mut place: Place<'s>,
    errors: &mut FieldErrors,
) {
    if resource == Resource::Yes {
        place = Place {
            root: schema,
            way: Vec::new(),
            in_meta: false,
        };
    }
    if let Some(default) = &schema.default {
        let path = path.child("default");
        errors.extend(match place.in_meta {
            true => in_metadata(schema, default, &path, &place),
            false => plain(schema, default, &path),
        });
    }
    let below = |step: Step, in_meta: bool| {
        let mut place = place.clone();
        place.way.push(step);
        place.in_meta |= in_meta;
        place
    };
    let kind = |schema: &Structural| match schema.embedded_resource {
        true => Resource::Yes,
        false => Resource::No,
    };
    if let Some(items) = &schema.items {
        let place = below(Step::Item, false);
        visit(items, kind(items), &path.child("items"), place, errors);
    }
    for (name, property) in &schema.properties {
        let is_meta = resource == Resource::Yes && META_FIELDS.contains(&name.as_str());
        let place = below(Step::Field(name.clone()), is_meta);
        let path = path.child("properties").key(name);
        visit(property, kind(property), &path, place, errors);
    }
}

/// A default outside of metadata: pruned, and valid.
fn plain(schema: &Structural, default: &Value, path: &FieldPath) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let mut pruned = default.clone();
    schema.prune_value(&mut pruned);
    if pruned != *default {
        errors.invalid(path, default, "must not have unknown fields");
    }
    let mut coerced = default.clone();
    if let Err(malformed) = schema.coerce_embedded(path, &mut coerced) {
        errors.invalid(&malformed.path, &malformed.value, &malformed.detail);
        return errors;
    }
    let embedded = schema.validate_embedded(path, &coerced);
    errors.extend(match embedded.is_empty() {
        true => schema.validate(path, &coerced),
        false => embedded,
    });
    errors
}

/// Faults of a default in the type or metadata of a resource, checked in an otherwise empty
/// resource.
fn in_metadata(
    schema: &Structural,
    default: &Value,
    path: &FieldPath,
    place: &Place<'_>,
) -> FieldErrors {
    let mut resource = place
        .way
        .iter()
        .rev()
        .fold(default.clone(), |value, step| match step {
            Step::Field(name) => {
                let mut object = json!({});
                object[name.as_str()] = value;
                object
            }
            Step::Item => json!([value]),
        });
    for (field, value) in [("kind", "Validation"), ("apiVersion", "validation/v1")] {
        if resource.get(field).is_none() {
            resource[field] = value.into();
        }
    }
    let mut root = place.root.clone();
    root.embedded_resource = true;
    let mut errors = FieldErrors::new();
    let top = FieldPath::default();
    let fault = match root.coerce_embedded(&top, &mut resource) {
        Err(malformed) => {
            let mut found = FieldErrors::new();
            found.invalid(&malformed.path, &malformed.value, &malformed.detail);
            found
        }
        Ok(_) => root.validate_embedded(&top, &resource),
    };
    if fault.is_empty() {
        return schema.validate(path, default);
    }
    let texts: Vec<String> = fault
        .causes()
        .iter()
        .map(|cause| format!("{}: {}", cause.field, cause.message))
        .collect();
    let text = match texts.as_slice() {
        [one] => one.clone(),
        texts => format!("[{}]", texts.join(", ")),
    };
    errors.invalid(
        path,
        default,
        &format!("must result in valid metadata: {text}"),
    );
    errors
}
