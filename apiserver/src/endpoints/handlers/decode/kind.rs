//! The kind and version that a document states, checked against the requested ones.

use crate::json::Value;
use crate::meta::object::meta;
use crate::meta::{GroupKind, GroupVersion, GroupVersionKind};
use crate::schema::scheme;
use crate::status::{ApiError, FieldErrors, FieldPath};

/// The `apiVersion` and `kind` that an object states.
pub(super) struct TypeMeta {
    pub(super) api_version: String,
    pub(super) kind: String,
}

/// Reads the type of a document.
///
/// # Errors
/// Go's text for why it has none.
pub(super) fn type_meta(value: &Value) -> Result<TypeMeta, String> {
    if !value.is_object() && !value.is_null() {
        return Err(format!(
            "json: cannot unmarshal {} into Go value of type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}",
            type_of(value)
        ));
    }
    let text = |field: &str| match &value[field] {
        Value::Null => Ok(String::new()),
        Value::String(text) => Ok(text.to_string()),
        other => Err(format!(
            "json: cannot unmarshal {} into Go struct field .{field} of type string",
            type_of(other)
        )),
    };
    Ok(TypeMeta {
        api_version: text("apiVersion")?,
        kind: text("kind")?,
    })
}

/// The name of a value's type in Go's decode errors.
pub(super) fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Whether an object that says it is `found` may be handled as a `gvk`.
///
/// # Errors
/// `BadRequest`.
pub(super) fn check_kind(
    gvk: &GroupVersionKind,
    found: &TypeMeta,
    group_version: &GroupVersion,
) -> Result<(), ApiError> {
    if let Some(why) = unconvertible(gvk, found, group_version) {
        let kind = match found.kind.as_str() {
            "" => &gvk.kind,
            kind => kind,
        };
        let version = match found.api_version.as_str() {
            "" => &gvk.version,
            _ => &group_version.version,
        };
        return Err(ApiError::BadRequest(format!(
            "{kind} in version {version:?} cannot be handled as a {}: {why}",
            gvk.kind
        )));
    }
    if !found.api_version.is_empty() && *group_version != gvk.group_version() {
        return Err(foreign_version(gvk, found));
    }
    Ok(())
}

/// Whether an object that says it is `found` is a custom resource of this version. Unlike the types
/// of built-in kinds, what holds it takes any, so this is found out late, by validation.
///
/// # Errors
/// `Invalid`; upstream stumbles over an object without a version.
pub(super) fn check_custom(
    gvk: &GroupVersionKind,
    found: &TypeMeta,
    object: &Value,
) -> Result<(), ApiError> {
    if found.api_version.is_empty() {
        let why = "Object 'apiVersion' is missing in 'object has no apiVersion field'";
        return Err(ApiError::Internal(why.to_owned()));
    }
    let mut errors = FieldErrors::new();
    for (field, own, wanted) in [
        ("kind", &found.kind, &gvk.kind),
        ("apiVersion", &found.api_version, &gvk.api_version()),
    ] {
        if own != wanted {
            let detail = format!("must be {wanted}");
            errors.invalid(&FieldPath::new(field), &own.as_str().into(), &detail);
        }
    }
    if errors.is_empty() {
        return Ok(());
    }
    let group = GroupVersion::parse(&found.api_version).map(|own| own.group);
    Err(ApiError::Invalid {
        kind: GroupKind {
            group: group.unwrap_or_default(),
            kind: found.kind.clone(),
        },
        name: meta(object, "name").to_owned(),
        errors,
    })
}

/// The refusal of an object in another version than that of its request.
pub(super) fn foreign_version(gvk: &GroupVersionKind, found: &TypeMeta) -> ApiError {
    ApiError::BadRequest(format!(
        "the API version in the data ({}) does not match the expected API version ({})",
        found.api_version,
        gvk.api_version()
    ))
}

/// The error of an object of kind `found` that cannot become a `gvk`. Other versions of a kind can.
pub(super) fn unconvertible(
    gvk: &GroupVersionKind,
    found: &TypeMeta,
    group_version: &GroupVersion,
) -> Option<String> {
    let kind = match found.kind.as_str() {
        "" => &gvk.kind,
        kind => kind,
    };
    let wanted = gvk.group_version();
    let group_version = match found.api_version.is_empty() {
        true => &wanted,
        false => group_version,
    };
    if kind == gvk.kind && *group_version == wanted {
        return None;
    }
    if !scheme::is_registered(group_version, kind) {
        let version = match found.api_version.is_empty() {
            true => gvk.api_version(),
            false => found.api_version.clone(),
        };
        return Some(scheme::not_registered(kind, &version));
    }
    (kind != gvk.kind).then(|| scheme::unknown_conversion(group_version, kind, gvk))
}
