//! The outcome of a patch or an apply, taken over into the type of its kind.

use super::kind::{check_custom, type_meta, unconvertible};
use super::{custom, resets_managed_fields, with_type_meta};
use crate::endpoints::handlers::Request;
use crate::json::Value;
use crate::meta::object::meta;
use crate::meta::{GroupKind, GroupVersion, GroupVersionKind};
use crate::nesting;
use crate::patch::{self, Outcome, Patched};
use crate::registry::apiextensions::custom_resource::CustomResource;
use crate::registry::apps::conversion;
use crate::request::options::field_validation;
use crate::schema::{self, Decoded, FieldValidation};
use crate::status::{ApiError, FieldErrors, FieldPath};

/// Decodes a patched object of kind `gvk`.
///
/// # Errors
/// `Invalid` on the field `patch`, as upstream answers.
pub(in crate::endpoints::handlers) fn patched(
    request: &Request<'_>,
    gvk: &GroupVersionKind,
    patched: Patched,
) -> Result<Value, ApiError> {
    let Patched { outcome, faults } = patched;
    let shown_patch = || patch::shown(&schema::readable(&request.body));
    let (shown, resets_managed_fields, decoded) = match outcome {
        Outcome::Text(text) if let Some(custom) = request.custom(gvk) => {
            let Document {
                resets_managed_fields,
                decoded,
            } = custom_text(gvk, custom, &text)?;
            (Some(text), resets_managed_fields, decoded)
        }
        Outcome::Text(text) => {
            let decoded = text_as(gvk, &text);
            let Document {
                resets_managed_fields,
                decoded,
            } = decoded.map_err(|why| invalid_patch(&text, &why))?;
            (Some(text), resets_managed_fields, decoded)
        }
        Outcome::Fields(object) => {
            let resets_managed_fields = resets_managed_fields(&object);
            let schema = schema::builtin(gvk).expect("only built-in kinds are patched by fields");
            let decoded = schema::convert(schema, object);
            let decoded = decoded.map_err(|why| invalid_patch(&shown_patch(), &why))?;
            (None, resets_managed_fields, decoded)
        }
    };
    let mut faults = faults;
    faults.extend(decoded.warnings);
    match field_validation(&request.query, "PatchOptions")? {
        FieldValidation::Strict if !faults.is_empty() => {
            let why = format!("strict decoding error: {}", faults.join(", "));
            return Err(invalid_patch(&shown.unwrap_or_else(shown_patch), &why));
        }
        FieldValidation::Warn => faults.into_iter().for_each(|fault| request.warn(fault)),
        FieldValidation::Strict | FieldValidation::Ignore => {}
    }
    Ok(with_type_meta(decoded.value, resets_managed_fields, gvk))
}

/// Applies the merge patch `body` to `live`, an object of kind `gvk`; `None` unless the outcome is simple:
/// an object of that kind, with nothing to convert, report or refuse.
pub(in crate::endpoints::handlers) fn merged(
    gvk: &GroupVersionKind,
    body: &[u8],
    live: Value,
) -> Option<Value> {
    let object = patch::merged(body, live, schema::builtin(gvk)?)?;
    let is_own = object["kind"] == *gvk.kind && object["apiVersion"] == *gvk.api_version();
    (is_own && conversion::error(&object).is_none()).then_some(object)
}

struct Document {
    resets_managed_fields: bool,
    decoded: Decoded,
}

/// Reads a patched document, which is well-formed but may nest too deeply.
fn parsed(text: &str) -> Result<Value, String> {
    nesting::from_slice(text.as_bytes()).map_err(|error| {
        let why = schema::syntax_error(text.as_bytes()).unwrap_or_else(|| error.to_string());
        format!("couldn't get version/kind; json parse error: {why}")
    })
}

/// Decodes a document that says it is a `gvk`; one without a kind is taken for it.
fn text_as(gvk: &GroupVersionKind, text: &str) -> Result<Document, String> {
    let parsed: Value = parsed(text)?;
    let found = type_meta(&parsed)
        .map_err(|why| format!("couldn't get version/kind; json parse error: {why}"))?;
    let resets_managed_fields = resets_managed_fields(&parsed);
    let Some(schema) = schema::builtin(gvk) else {
        let decoded = Decoded {
            value: parsed,
            warnings: Vec::new(),
        };
        return Ok(Document {
            resets_managed_fields,
            decoded,
        });
    };
    if found.api_version.is_empty() {
        return Ok(Document {
            resets_managed_fields: false,
            decoded: unversioned(&parsed),
        });
    }
    let Some(group_version) = GroupVersion::parse(&found.api_version) else {
        return Err(format!(
            "unexpected GroupVersion string: {}",
            found.api_version
        ));
    };
    if let Some(why) = unconvertible(gvk, &found, &group_version) {
        return Err(why);
    }
    let decoded = schema::decode_json(schema, text.as_bytes(), FieldValidation::Warn);
    let decoded = decoded.map_err(|error| error.to_string())?;
    match conversion::error(&decoded.value) {
        Some(why) => Err(why),
        None => Ok(Document {
            resets_managed_fields,
            decoded,
        }),
    }
}

/// Decodes a document that a patch of a custom resource left.
fn custom_text(
    gvk: &GroupVersionKind,
    custom: &CustomResource,
    text: &str,
) -> Result<Document, ApiError> {
    let invalid = |why: &str| invalid_patch(text, why);
    let parsed: Value = parsed(text).map_err(|why| invalid(&why))?;
    let found = type_meta(&parsed).map_err(|why| {
        invalid(&format!(
            "couldn't get version/kind; json parse error: {why}"
        ))
    })?;
    if found.kind.is_empty() {
        return Err(invalid(&format!("Object 'Kind' is missing in '{text}'")));
    }
    check_custom(gvk, &found, &parsed)?;
    let resets_managed_fields = resets_managed_fields(&parsed);
    let coerced = custom::coerce(custom, parsed);
    let coerced = coerced.map_err(|error| invalid(&error.to_string()))?;
    let decoded = Decoded {
        value: coerced.value,
        warnings: coerced.unknown,
    };
    Ok(Document {
        resets_managed_fields,
        decoded,
    })
}

/// A document without a version is decoded into upstream's internal type, in which the document's
/// fields have no names: only its type arrives.
fn unversioned(document: &Value) -> Decoded {
    let names = document.as_object().into_iter().flatten();
    let unknown = names
        .filter(|(name, _)| !matches!(name.as_str(), "kind" | "apiVersion"))
        .map(|(name, _)| format!("unknown field {name:?}"));
    Decoded {
        value: Value::Object(crate::json::Map::new()),
        warnings: unknown.collect(),
    }
}

/// Decodes the result of an apply of `configuration` to an object of kind `gvk`.
///
/// # Errors
/// Upstream has no reason for a value that its type refuses.
pub(in crate::endpoints::handlers) fn applied(
    request: &Request<'_>,
    gvk: &GroupVersionKind,
    configuration: &Value,
    object: Value,
) -> Result<Value, ApiError> {
    if let Some(custom) = request.custom(gvk) {
        let resets_managed_fields = resets_managed_fields(&object);
        let coerced = custom::coerce(custom, object);
        let coerced = coerced.map_err(|error| ApiError::Unknown(error.to_string()))?;
        return Ok(with_type_meta(coerced.value, resets_managed_fields, gvk));
    }
    let Some(schema) = schema::builtin(gvk) else {
        return Ok(object);
    };
    let resets_managed_fields = resets_managed_fields(&object);
    let decoded = schema::convert(schema, object).map_err(|why| {
        let kind = format!("{}/{}, Kind={}", gvk.group, gvk.version, gvk.kind);
        ApiError::Unknown(format!(
            "failed to convert new object ({}/{}; {kind}) to proper version: unable to convert \
             unstructured object to {kind}: {why}",
            meta(configuration, "namespace"),
            meta(configuration, "name"),
        ))
    })?;
    Ok(with_type_meta(decoded.value, resets_managed_fields, gvk))
}

/// A fault of the patch as a whole, which has no kind.
fn invalid_patch(shown: &str, detail: &str) -> ApiError {
    let mut errors = FieldErrors::new();
    errors.invalid(&FieldPath::new("patch"), &shown.into(), detail);
    let kind = GroupKind {
        group: String::new(),
        kind: String::new(),
    };
    ApiError::Invalid {
        kind,
        name: String::new(),
        errors,
    }
}
