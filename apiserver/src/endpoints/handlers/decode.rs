//! The body of a write: its encoding, its kind, and its fields against the kind's schema.

mod custom;
mod kind;
mod patched;
mod sniff;
#[cfg(test)]
mod tests;

use std::fmt::{Display, Write};
use std::sync::Arc;

use super::Request;
use crate::endpoints::negotiation::{ContentType, content_type};
use crate::json::Value;
use crate::meta::object::meta_mut;
use crate::meta::{GroupVersion, GroupVersionKind};
use crate::nesting::{self, TOO_DEEP};
use crate::registry::apps::conversion;
use crate::request::options::field_validation;
use crate::schema::number::overflowing;
use crate::schema::protobuf::{self, Envelope};
use crate::schema::{self, Decoded, FieldValidation, Object, scheme};
use crate::status::{ApiError, quoted};
use crate::yaml::decode::{Yaml, json_object, unmarshal_errors};

use kind::{TypeMeta, check_custom, check_kind, foreign_version, type_meta, type_of};
pub(super) use patched::{applied, merged, patched};
use sniff::Sniffed;

/// Bytes of a body that an error shows.
const EXCERPT_BYTES_MAX: usize = 30;

/// Decodes the body as an object of kind `gvk`; `options` names the query's kind in errors.
///
/// # Errors
/// `BadRequest` for a body that is not such an object, `UnsupportedMediaType` for another encoding.
pub(super) fn object(
    request: &Request<'_>,
    gvk: &GroupVersionKind,
    options: &str,
) -> Result<Value, ApiError> {
    let object = decoded(request, gvk, options)?;
    if let Some(record) = &request.audit {
        let strategy = request.resource.strategy();
        let is_own = gvk == request.resource.gvk();
        record.request_object(&object, |object| {
            if is_own {
                strategy.default(object);
            }
        });
    }
    Ok(object)
}

fn decoded(
    request: &Request<'_>,
    gvk: &GroupVersionKind,
    options: &str,
) -> Result<Value, ApiError> {
    let validation = field_validation(&request.query, options)?;
    let unrecognized = |why: &str| unrecognized(request, gvk, why);
    let document = match content_type(&request.headers)? {
        ContentType::Json => Yaml::json(schema::readable(&request.body)),
        ContentType::Yaml => Yaml::parse(&request.body).map_err(|why| unrecognized(&why))?,
        ContentType::Protobuf => {
            let envelope = protobuf::envelope(&request.body);
            return from_protobuf(gvk, envelope.map_err(|why| unrecognized(&why.to_string()))?);
        }
    };
    let fast_path = fast_path(gvk, &document, validation);
    fast_path.map_or_else(|| slow_path(request, gvk, document, validation), Ok)
}

fn unrecognized(request: &Request<'_>, gvk: &GroupVersionKind, why: &str) -> ApiError {
    ApiError::BadRequest(format!(
        "the object provided is unrecognized (must be of type {}): {why} ({})",
        gvk.kind,
        excerpt(&request.body),
    ))
}

/// The object in a document that may have any fault.
fn slow_path(
    request: &Request<'_>,
    gvk: &GroupVersionKind,
    document: Yaml,
    validation: FieldValidation,
) -> Result<Value, ApiError> {
    let unrecognized = |why: &str| unrecognized(request, gvk, why);
    let Yaml { json, duplicates } = document;
    let schema = schema::builtin(gvk);
    let parsed = match schema {
        Some(_) => nesting::from_slice(&json).map(|Sniffed(parsed)| parsed),
        None => nesting::from_slice(&json),
    };
    let parsed: Value = parsed.map_err(|_| {
        if let (Some(_), Some(number)) = (request.custom(gvk), overflowing(&json)) {
            let why =
                format!("json: cannot unmarshal number {number} into Go value of type float64");
            return cannot_handle(gvk, why);
        }
        let why = schema::syntax_error(&json).unwrap_or_else(|| TOO_DEEP.to_owned());
        unrecognized(&format!(
            "couldn't get version/kind; json parse error: {why}"
        ))
    })?;
    let found = type_meta(&parsed).map_err(|why| {
        unrecognized(&format!(
            "couldn't get version/kind; json parse error: {why}"
        ))
    })?;
    let Some(group_version) = GroupVersion::parse(&found.api_version) else {
        return Err(unrecognized(&format!(
            "unexpected GroupVersion string: {}",
            found.api_version
        )));
    };
    let resets_managed_fields = resets_managed_fields(&parsed);
    if let Some(custom) = request.custom(gvk) {
        if found.kind.is_empty() {
            let body = String::from_utf8_lossy(&request.body);
            let why = format!("Object 'Kind' is missing in '{body}'");
            // The strict decoder, which Warn also uses, does not name the expected kind.
            return Err(match validation {
                FieldValidation::Ignore => cannot_handle(gvk, why),
                FieldValidation::Warn | FieldValidation::Strict => unrecognized(&why),
            });
        }
        if group_version != gvk.group_version() {
            return Err(foreign_version(gvk, &found));
        }
        check_custom(gvk, &found, &parsed)?;
        let faults = schema::duplicate_fields(&json);
        let coerced = custom::coerce(custom, with_type_meta(parsed, false, gvk));
        let coerced = coerced.map_err(|error| cannot_handle(gvk, error))?;
        let mut faults = [duplicates, faults, coerced.unknown].concat();
        faults.dedup();
        if validation == FieldValidation::Strict && !faults.is_empty() {
            let why = format!("strict decoding error: {}", faults.join(", "));
            return Err(cannot_handle(gvk, why));
        }
        if validation == FieldValidation::Warn {
            faults.into_iter().for_each(|fault| request.warn(fault));
        }
        return Ok(with_type_meta(coerced.value, resets_managed_fields, gvk));
    }
    check_kind(gvk, &found, &group_version)?;
    let is_refused = validation == FieldValidation::Strict && !duplicates.is_empty();
    let decoded = match schema {
        Some(schema) if is_refused => schema::decode_json(schema, &json, FieldValidation::Warn),
        Some(schema) => schema::decode_json(schema, &json, validation),
        None => Ok(Decoded {
            value: parsed,
            warnings: Vec::new(),
        }),
    };
    let Decoded { value, warnings } = decoded.map_err(|error| cannot_handle(gvk, error))?;
    if let Some(why) = conversion::error(&value) {
        return Err(cannot_handle(gvk, why));
    }
    if is_refused {
        let mut faults = vec![unmarshal_errors(&duplicates)];
        faults.extend(warnings);
        let why = format!("strict decoding error: {}", faults.join(", "));
        return Err(cannot_handle(gvk, why));
    }
    if validation == FieldValidation::Warn {
        duplicates.into_iter().for_each(|found| request.warn(found));
    }
    for warning in warnings {
        request.warn(warning);
    }
    Ok(with_type_meta(value, resets_managed_fields, gvk))
}

/// The object in a document, if it is of kind `gvk` and simple: without unknown or duplicate fields
/// and without managed fields.
fn fast_path(
    gvk: &GroupVersionKind,
    document: &Yaml,
    validation: FieldValidation,
) -> Option<Value> {
    let schema = schema::builtin(gvk)?;
    let text = std::str::from_utf8(&document.json).ok()?;
    // Ignored fields are not inspected, and may hide anything; escapes may hide a name.
    let hides = validation == FieldValidation::Ignore || text.contains("\\u");
    if hides || text.contains("managedFields") || !document.duplicates.is_empty() {
        return None;
    }
    let value = schema::decode_orderly(schema, &document.json, validation)?;
    let is_plain = value["kind"] == *gvk.kind
        && value["apiVersion"] == *gvk.api_version()
        && conversion::error(&value).is_none();
    is_plain.then_some(value)
}

/// The applied configuration in the body, YAML or JSON, and the keys that it sets twice.
///
/// # Errors
/// `BadRequest` for a body that is not an object.
pub(super) fn configuration(request: &Request<'_>) -> Result<(Value, Vec<String>), ApiError> {
    if let Some(fields) = json_object(&request.body) {
        return Ok((Value::Object(fields), Vec::new()));
    }
    let refuse = |why: String| ApiError::BadRequest(format!("error decoding YAML: {why}"));
    let Yaml { json, duplicates } = Yaml::parse(&request.body)
        .map_err(|why| refuse(format!("error converting YAML to JSON: {why}")))?;
    let decoded: Value = nesting::from_slice(&json)
        .map_err(|error| refuse(format!("error unmarshaling JSON: {error}")))?;
    match decoded {
        Value::Object(_) => Ok((decoded, duplicates)),
        Value::Null => Ok((Value::Object(crate::json::Map::new()), duplicates)),
        other => Err(refuse(format!(
            "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            type_of(&other)
        ))),
    }
}

/// Warns of the keys that a configuration sets twice, or refuses them.
///
/// # Errors
/// `BadRequest` under strict validation.
pub(super) fn check_configuration(
    request: &Request<'_>,
    duplicates: Vec<String>,
) -> Result<(), ApiError> {
    match field_validation(&request.query, "PatchOptions")? {
        FieldValidation::Strict if !duplicates.is_empty() => Err(ApiError::BadRequest(format!(
            "error strict decoding YAML: error converting YAML to JSON: {}",
            unmarshal_errors(&duplicates)
        ))),
        FieldValidation::Strict | FieldValidation::Ignore => Ok(()),
        FieldValidation::Warn => {
            duplicates.into_iter().for_each(|found| request.warn(found));
            Ok(())
        }
    }
}

/// The body of a DELETE; `None` if it is empty.
///
/// # Errors
/// `BadRequest` for a body that is not DeleteOptions.
pub(super) fn delete_options(request: &Request<'_>) -> Result<Option<Value>, ApiError> {
    if request.body.is_empty() {
        return Ok(None);
    }
    let json = match content_type(&request.headers)? {
        ContentType::Json => request.body.clone(),
        ContentType::Yaml => {
            Yaml::parse(&request.body)
                .map_err(ApiError::BadRequest)?
                .json
        }
        ContentType::Protobuf => {
            let bad = |why: protobuf::Error| ApiError::BadRequest(why.to_string());
            let envelope = protobuf::envelope(&request.body).map_err(bad)?;
            let schema = delete_options_schema(&envelope.kind, &envelope.api_version)?;
            let value = protobuf::decode(schema, envelope.raw).map_err(bad)?;
            let decoded = schema::decode_value(schema, value, FieldValidation::Ignore)
                .map_err(|error| ApiError::BadRequest(error.to_string()))?;
            note_options(request, &decoded.value, &envelope.api_version);
            return Ok(Some(decoded.value));
        }
    };
    let unparsed = |why: String| {
        ApiError::BadRequest(format!(
            "couldn't get version/kind; json parse error: {why}"
        ))
    };
    let parsed: Value = nesting::from_slice(&json).map_err(|_| {
        unparsed(schema::syntax_error(&json).unwrap_or_else(|| TOO_DEEP.to_owned()))
    })?;
    let found = type_meta(&parsed).map_err(unparsed)?;
    if GroupVersion::parse(&found.api_version).is_none() {
        let why = format!("unexpected GroupVersion string: {}", found.api_version);
        return Err(ApiError::BadRequest(why));
    }
    let schema = delete_options_schema(&found.kind, &found.api_version)?;
    let decoded = schema::decode_json(schema, &json, FieldValidation::Ignore)
        .map_err(|error| ApiError::BadRequest(error.to_string()))?;
    note_options(request, &decoded.value, &found.api_version);
    Ok(Some(decoded.value))
}

/// Shows the options of a DELETE to the audit record.
fn note_options(request: &Request<'_>, options: &Value, version: &str) {
    if let Some(record) = &request.audit {
        record.delete_options(options, version);
    }
}

/// The schema of DeleteOptions, for a body that states this kind or no kind.
fn delete_options_schema(kind: &str, version: &str) -> Result<&'static Arc<Object>, ApiError> {
    let gvk = GroupVersionKind {
        group: "meta.k8s.io".to_owned(),
        version: "v1".to_owned(),
        kind: "DeleteOptions".to_owned(),
    };
    match kind {
        "" | "DeleteOptions" => {
            Ok(schema::builtin(&gvk).expect("the table of types has DeleteOptions"))
        }
        // Options and discovery are of every version.
        "CreateOptions" | "UpdateOptions" | "Status" | "APIVersions" | "APIGroup"
        | "APIGroupList" | "APIResourceList" => Err(ApiError::BadRequest(format!(
            "converting (v1.{kind}) to (v1.DeleteOptions): unknown conversion"
        ))),
        _ if version.is_empty() => {
            let why = scheme::not_registered(kind, &gvk.api_version());
            Err(ApiError::BadRequest(why))
        }
        _ => Err(ApiError::BadRequest(scheme::not_registered(kind, version))),
    }
}

/// Decodes an object of kind `gvk` out of its envelope. Protobuf has no unknown names and no
/// duplicates, so field validation finds no faults.
fn from_protobuf(gvk: &GroupVersionKind, envelope: Envelope<'_>) -> Result<Value, ApiError> {
    // An `apiVersion` that cannot be parsed counts as empty.
    let group_version = GroupVersion::parse(&envelope.api_version);
    let found = TypeMeta {
        api_version: group_version
            .as_ref()
            .map_or_else(String::new, |_| envelope.api_version),
        kind: envelope.kind,
    };
    let group_version = group_version.unwrap_or_else(|| gvk.group_version());
    check_kind(gvk, &found, &group_version)?;
    let Some(schema) = schema::builtin(gvk) else {
        return Err(cannot_handle(
            gvk,
            "object *unstructured.Unstructured does not implement the protobuf marshalling interface and cannot be encoded to a protobuf message",
        ));
    };
    let value =
        protobuf::decode(schema, envelope.raw).map_err(|error| cannot_handle(gvk, error))?;
    let decoded = schema::decode_value(schema, value, FieldValidation::Ignore)
        .map_err(|error| cannot_handle(gvk, error))?;
    Ok(with_type_meta(decoded.value, false, gvk))
}

fn cannot_handle(gvk: &GroupVersionKind, error: impl Display) -> ApiError {
    ApiError::BadRequest(format!(
        "{} in version {} cannot be handled as a {}: {error}",
        gvk.kind,
        quoted(&gvk.version),
        gvk.kind
    ))
}

/// Whether an object asks to forget the owners of its fields, by an empty list of them.
fn resets_managed_fields(object: &Value) -> bool {
    object["metadata"]["managedFields"]
        .as_array()
        .is_some_and(Vec::is_empty)
}

/// The decoded object with its type; decoding does not distinguish an empty list of owners from none.
fn with_type_meta(mut value: Value, resets_managed_fields: bool, gvk: &GroupVersionKind) -> Value {
    if resets_managed_fields {
        meta_mut(&mut value).insert("managedFields", Value::Array(Vec::new()));
    }
    value["apiVersion"] = gvk.api_version().into();
    value["kind"] = gvk.kind.as_str().into();
    value
}

/// The beginning of a body as an error shows it: text if it looks like JSON, else hexadecimal.
fn excerpt(body: &[u8]) -> String {
    if body.is_empty() {
        return "<empty>".to_owned();
    }
    let (shown, more) = match body.get(..EXCERPT_BYTES_MAX) {
        Some(shown) if body.len() > EXCERPT_BYTES_MAX => (shown, " ..."),
        _ => (body, ""),
    };
    if shown.starts_with(b"{") {
        return format!("{}{more}", String::from_utf8_lossy(shown));
    }
    let mut hex = String::new();
    for byte in shown {
        write!(hex, "{byte:02x}").expect("writing to a String can't fail");
    }
    format!("{hex}{more}")
}
