//! Patches: from the body of a `PATCH` request and the current object to the object wanted.
//!
//! - `json`: RFC 6902, as the library that upstream uses understands it
//! - `merge`: RFC 7396
//! - `strategic`: strategic merge patch with its directives, led by the schema of the kind
//!
//! Server-side apply is a patch by its verb only: it goes through managed fields.

mod document;
mod json;
mod merge;
mod strategic;

use std::borrow::Cow;

use http::HeaderMap;
use http::header::CONTENT_TYPE;

use crate::json::{Map, Value};
use crate::meta::GroupResource;
use crate::nesting;
use crate::schema::{self, FieldValidation, Object, duplicate_fields, unique_fields};
use crate::status::ApiError;

/// The formats of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchType {
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
    /// The format of the body of a request with these headers.
    ///
    /// # Errors
    /// `UnsupportedMediaType` for anything that no patch is written in.
    pub fn of(headers: &HeaderMap) -> Result<Self, ApiError> {
        let content_type = headers
            .get(CONTENT_TYPE)
            .and_then(|value| value.to_str().ok());
        Self::from_content_type(content_type.unwrap_or_default())
    }

    /// The format that a `Content-Type` header names; its parameters do not matter.
    ///
    /// # Errors
    /// `UnsupportedMediaType` for anything that no patch is written in.
    fn from_content_type(content_type: &str) -> Result<Self, ApiError> {
        let media_type = content_type.split(';').next().unwrap_or_default().trim();
        let types = [Self::Json, Self::Merge, Self::StrategicMerge, Self::Apply];
        types
            .into_iter()
            .find(|patch_type| media_type == patch_type.media_type())
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

/// The result of a patch before decoding: it may have unknown fields and wrong types.
#[derive(Debug)]
pub struct Patched {
    /// The patched document.
    pub outcome: Outcome,
    /// Duplicate and unknown members of the patch itself.
    pub faults: Vec<String>,
}

/// The form in which a patch leaves its outcome: it decides how that is decoded.
#[derive(Debug)]
pub enum Outcome {
    /// The text that a JSON patch or merge patch was applied to.
    Text(String),
    /// The fields that a strategic merge patch was applied to.
    Fields(Value),
}

/// Applies the patch `body` to `current`.
///
/// `schema` is that of a built-in kind; a custom resource has none here, as upstream does not
/// know patch strategies of its fields.
///
/// # Errors
/// `BadRequest` for a malformed patch; `Invalid` for a JSON patch that does not apply;
/// `UnsupportedMediaType` for a format that the kind does not take or that is not a patch of a
/// document; upstream leaves other faults of a strategic merge patch without a reason.
pub fn apply(
    patch_type: PatchType,
    body: &[u8],
    current: Cow<'_, Value>,
    schema: Option<&Object>,
    validation: FieldValidation,
) -> Result<Patched, ApiError> {
    check_depth(patch_type, body, schema, validation)?;
    match (patch_type, schema) {
        (PatchType::Json, _) => {
            let (patch, faults) = json_patch(body, validation)?;
            let outcome = Outcome::Text(json::apply(patch, &text_of(&current))?);
            Ok(Patched { outcome, faults })
        }
        (PatchType::Merge, _) => {
            let faults = match validation {
                FieldValidation::Ignore => Vec::new(),
                _ => map_faults(body).map_err(in_decoding)?,
            };
            let patch = std::str::from_utf8(body).unwrap_or_default();
            let outcome = merge::apply(patch, &text_of(&current)).map(Outcome::Text);
            let no_patch = || ApiError::BadRequest("Invalid JSON Patch".to_owned());
            Ok(Patched {
                outcome: outcome.ok_or_else(no_patch)?,
                faults,
            })
        }
        (PatchType::StrategicMerge, Some(schema)) => {
            let (fields, mut faults) = match unique_fields(body) {
                Some(fields) => (fields, Vec::new()),
                None => {
                    let faults = map_faults(body).map_err(ApiError::BadRequest)?;
                    (fields_of(body), faults)
                }
            };
            if validation == FieldValidation::Ignore {
                faults.clear();
            }
            let object = strategic::apply(fields, current.into_owned(), schema)?;
            Ok(Patched {
                outcome: Outcome::Fields(object),
                faults,
            })
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

/// Applies the merge patch `body` to `current`, an object of the built-in type `schema`, and returns
/// the decoded outcome. `None` if there is anything to report, convert or refuse: [`apply`] does that.
pub fn merged(body: &[u8], mut current: Value, schema: &Object) -> Option<Value> {
    let patch = unique_fields(body)?;
    merge::merge_fields(current.as_object_mut()?, patch);
    schema::plain(schema, &mut current)
}

/// A JSON patch that is not the body of a request.
#[derive(Debug)]
pub struct JsonPatch(Vec<document::Members>);

impl JsonPatch {
    /// Reads a patch.
    ///
    /// # Errors
    /// Go's error text for a malformed patch.
    pub fn decode(patch: &[u8]) -> Result<Self, String> {
        if let Some(message) = schema::syntax_error(patch) {
            return Err(message);
        }
        if nesting::exceeds_stack(patch) {
            return Err(nesting::TOO_DEEP.to_owned());
        }
        let text = std::str::from_utf8(patch).map_err(|error| error.to_string())?;
        json::operations(text).map(Self)
    }

    /// Whether the patch has no operations.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The text of `object` with the patch applied.
    ///
    /// # Errors
    /// Why an operation does not apply.
    pub fn apply(self, object: &Value) -> Result<String, String> {
        json::applied(self.0, &text_of(object))
    }
}

/// Refuses a patch that nests too deeply: parts of it are followed without a limit.
fn check_depth(
    patch_type: PatchType,
    body: &[u8],
    schema: Option<&Object>,
    validation: FieldValidation,
) -> Result<(), ApiError> {
    let is_taken = match patch_type {
        PatchType::Json | PatchType::Merge => true,
        PatchType::StrategicMerge => schema.is_some(),
        PatchType::Apply => false,
    };
    if !is_taken || !nesting::exceeds_stack(body) {
        return Ok(());
    }
    let why = schema::syntax_error(body).unwrap_or_else(|| nesting::TOO_DEEP.to_owned());
    Err(match (patch_type, validation) {
        (PatchType::Merge, FieldValidation::Ignore) => {
            ApiError::BadRequest("Invalid JSON Patch".to_owned())
        }
        (PatchType::StrategicMerge, _) | (_, FieldValidation::Ignore) => ApiError::BadRequest(why),
        _ => in_decoding(why),
    })
}

/// Returns the operations of a JSON patch, and the faults that strict decoding finds.
fn json_patch(
    body: &[u8],
    validation: FieldValidation,
) -> Result<(Vec<document::Members>, Vec<String>), ApiError> {
    let faults = match validation {
        FieldValidation::Ignore => Vec::new(),
        _ => schema::json_patch_faults(body).map_err(|error| in_decoding(error.to_string()))?,
    };
    if let Some(message) = schema::syntax_error(body) {
        return Err(ApiError::BadRequest(message));
    }
    let text = std::str::from_utf8(body).unwrap_or_default();
    let operations = json::operations(text).map_err(ApiError::BadRequest)?;
    let of_patch = |fault| format!("json patch {fault}");
    Ok((operations, faults.into_iter().map(of_patch).collect()))
}

/// Returns the duplicate fields of a document that is an object or null; the error is Go's text for
/// any other value.
fn map_faults(body: &[u8]) -> Result<Vec<String>, String> {
    if let Some(message) = schema::syntax_error(body) {
        return Err(message);
    }
    match std::str::from_utf8(body).map(json_type) {
        Ok("object" | "null") => Ok(duplicate_fields(body)),
        Ok(other) => Err(format!(
            "json: cannot unmarshal {other} into Go value of type map[string]interface {{}}"
        )),
        Err(error) => Err(error.to_string()),
    }
}

/// The fields of a strategic merge patch.
fn fields_of(body: &[u8]) -> Map {
    match nesting::from_slice(body) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}

/// A strategic merge patch as errors show it: as Go prints it.
pub fn shown(body: &[u8]) -> String {
    strategic::shown(&fields_of(body))
}

/// Drops the null members of all objects in `value`; null items of lists stay.
fn discard_nulls(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|_, member| !member.is_null());
            members.values_mut().for_each(discard_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(discard_nulls),
        _ => {}
    }
}

/// An object as upstream encodes it.
fn text_of(object: &Value) -> String {
    let mut text = Vec::new();
    schema::write_object(&mut text, object);
    String::from_utf8(text).expect("JSON is UTF-8")
}

/// The name of a JSON text's type in Go's decode errors.
fn json_type(json: &str) -> &'static str {
    match json.trim_start().as_bytes().first() {
        Some(b'n') => "null",
        Some(b't' | b'f') => "bool",
        Some(b'"') => "string",
        Some(b'[') => "array",
        Some(b'{') => "object",
        _ => "number",
    }
}

fn in_decoding(fault: String) -> ApiError {
    ApiError::BadRequest(format!("error decoding patch: {fault}"))
}

/// The error for a well-formed patch that the object does not accept. Upstream gives no reason.
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
