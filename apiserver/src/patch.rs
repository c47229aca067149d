//! Patches: from the body of a `PATCH` request and the current object to the object wanted.
//!
//! - [`json`]: RFC 6902, as the library that upstream uses understands it
//! - [`merge`]: RFC 7396
//! - [`strategic`]: strategic merge patch with its directives, led by the schema of the kind
//!
//! Server-side apply is a patch by its verb only: it goes through managed fields.

mod json;
mod merge;
mod strategic;
mod syntax;

use serde_json::{Map, Value};

use crate::meta::GroupResource;
use crate::schema::{Object, duplicate_fields};
use crate::status::ApiError;

/// The formats of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchType {
    /// `application/json-patch+json`
    Json,
    /// `application/merge-patch+json`
    Merge,
    /// `application/strategic-merge-patch+json`
    StrategicMerge,
    /// `application/apply-patch+yaml`
    Apply,
}

impl PatchType {
    /// The format that a `Content-Type` header names; its parameters do not matter.
    ///
    /// # Errors
    /// `UnsupportedMediaType` for anything that no patch is written in.
    pub(crate) fn from_content_type(content_type: &str) -> Result<Self, ApiError> {
        let media_type = content_type.split(';').next().unwrap_or_default().trim();
        let types = [Self::Json, Self::Merge, Self::StrategicMerge, Self::Apply];
        types
            .into_iter()
            .find(|patch_type| media_type.eq_ignore_ascii_case(patch_type.media_type()))
            .ok_or_else(|| ApiError::UnsupportedMediaType("415: Unsupported Media Type".to_owned()))
    }

    /// The media type of the format.
    #[must_use]
    pub(crate) fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json-patch+json",
            Self::Merge => "application/merge-patch+json",
            Self::StrategicMerge => "application/strategic-merge-patch+json",
            Self::Apply => "application/apply-patch+yaml",
        }
    }
}

/// Applies the patch `body` to `current`.
///
/// `schema` is that of a built-in kind; a custom resource has none here, as upstream does not
/// know patch strategies of its fields. The outcome is not decoded: it may have unknown fields
/// and wrong types.
///
/// # Errors
/// `BadRequest` for a malformed patch; `Invalid` for a JSON patch that does not apply;
/// `UnsupportedMediaType` for a format that the kind does not take or that is not a patch of a
/// document; upstream leaves other faults of a strategic merge patch without a reason.
pub(crate) fn apply(
    patch_type: PatchType,
    body: &[u8],
    current: &Value,
    schema: Option<&Object>,
) -> Result<Value, ApiError> {
    match (patch_type, schema) {
        (PatchType::Json, _) => {
            let patch = parse(body).map_err(in_decoding)?;
            json::apply(patch, current)
        }
        (PatchType::Merge, _) => {
            let patch = parse(body).and_then(object).map_err(in_decoding)?;
            let Some(patch) = patch else {
                return Err(ApiError::BadRequest("Invalid JSON Patch".to_owned()));
            };
            Ok(merge::apply(patch, current))
        }
        (PatchType::StrategicMerge, Some(schema)) => {
            let patch = parse(body).and_then(object).map_err(ApiError::BadRequest)?;
            strategic::apply(patch.unwrap_or_default(), current, schema)
        }
        (PatchType::StrategicMerge | PatchType::Apply, _) => {
            Err(ApiError::UnknownBodyFormat(format!(
                "the body of the request was in an unknown format - accepted media types include: \
                 {}, {}, {}",
                PatchType::Json.media_type(),
                PatchType::Merge.media_type(),
                PatchType::Apply.media_type(),
            )))
        }
    }
}

/// What a strict decoding of the patch finds: duplicate fields, unknown members of operations.
/// They are warned of or refused, as `fieldValidation` asks for.
#[must_use]
pub(crate) fn strict_faults(patch_type: PatchType, body: &[u8]) -> Vec<String> {
    let mut faults = duplicate_fields(body);
    if patch_type != PatchType::Json {
        return faults;
    }
    if let Ok(Value::Array(operations)) = parse(body) {
        for (index, operation) in operations.iter().enumerate() {
            for key in operation.as_object().into_iter().flat_map(Map::keys) {
                if !["op", "path", "from", "value"].contains(&key.as_str()) {
                    faults.push(format!("unknown field \"[{index}].{key}\""));
                }
            }
        }
    }
    faults
        .iter()
        .map(|fault| format!("json patch {fault}"))
        .collect()
}

/// The document, or Go's text for why it is none.
fn parse(body: &[u8]) -> Result<Value, String> {
    serde_json::from_slice(body)
        .map_err(|err| syntax::fault(body).unwrap_or_else(|| err.to_string()))
}

/// A document that is an object; `None` for null.
fn object(document: Value) -> Result<Option<Map<String, Value>>, String> {
    match document {
        Value::Object(object) => Ok(Some(object)),
        Value::Null => Ok(None),
        other => Err(format!(
            "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            json_type(&other)
        )),
    }
}

/// The name of a value's type in Go's decode errors.
pub(crate) fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn in_decoding(fault: String) -> ApiError {
    ApiError::BadRequest(format!("error decoding patch: {fault}"))
}

/// A well-formed patch that the object does not take. Upstream does not tell why.
fn unprocessable() -> ApiError {
    ApiError::InvalidRequest {
        resource: GroupResource {
            group: String::new(),
            resource: String::new(),
        },
        name: String::new(),
        message: String::new(),
    }
}

#[cfg(test)]
mod tests;
