//! AdmissionReview: the answer.

use base64::engine::general_purpose::STANDARD;
use base64::{DecodeError, Engine};

use super::configuration::Webhook;
use super::{GROUP_OF_REVIEWS, Phase};
use crate::admission::request::{Admission, Invocation};
use crate::json::Value;
use crate::meta::{GroupVersion, GroupVersionKind};
use crate::nesting;
use crate::patch;
use crate::request::Operation;
use crate::schema::{self, FieldValidation};
use crate::status::{ApiError, Status, quoted};

/// The reason why a webhook does not admit a write.
pub(super) enum Failure {
    /// The call failed, or its answer is not valid; the failure policy decides about the write.
    /// Upstream gives the failure a status code.
    Call { why: String, code: u16 },
    /// The webhook refuses.
    Refused(ApiError),
    /// The server failed, which refuses the write whatever the failure policy is.
    Internal(ApiError),
}

impl Failure {
    /// A failure for which upstream holds the webhook unavailable.
    pub(super) fn unavailable(why: String) -> Self {
        Self::Call { why, code: 503 }
    }
}

/// The response of a webhook.
pub(super) struct Answer {
    /// The status to refuse with, `null` where the webhook gave none.
    pub(super) denied: Option<Value>,
    patch: Vec<u8>,
    patch_type: String,
    pub(super) warnings: Vec<String>,
    /// The audit annotations, by key.
    pub(super) annotations: Vec<(String, String)>,
}

impl Answer {
    /// The patch; empty without a change.
    pub(super) fn patch(&self) -> &[u8] {
        &self.patch
    }

    /// Whether its patch may leave an object that nests deeply.
    pub(super) fn may_deepen(&self) -> bool {
        nesting::may_deepen(&self.patch)
    }

    /// Checks an answer to the review `uid`.
    ///
    /// # Errors
    /// The defect of the response.
    pub(super) fn read(
        review: &Value,
        uid: &str,
        version: &str,
        phase: Phase,
    ) -> Result<Self, String> {
        let response = &review["response"];
        if !response.is_object() {
            return Err("webhook response was absent".to_owned());
        }
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let patch = text(&response["patch"]);
        let patch = patch_bytes(&patch)?;
        let stated = response["patchType"].as_str();
        let mut patch_type = stated.unwrap_or_default().to_owned();
        if version == "v1" {
            let found = text(&response["uid"]);
            if found != uid {
                return Err(format!("expected response.uid={uid:?}, got {found:?}"));
            }
            check_kind(review)?;
            check_patch(phase, &patch, stated)?;
        } else if !patch.is_empty() {
            // The old version never looked at the type.
            patch_type = "JSONPatch".to_owned();
        }
        let warnings = response["warnings"].as_array().into_iter().flatten();
        let annotations = response["auditAnnotations"]
            .as_object()
            .into_iter()
            .flatten();
        let allowed = response["allowed"] == true;
        Ok(Self {
            denied: (!allowed).then(|| response["status"].clone()),
            patch: match phase {
                Phase::Mutating => patch,
                Phase::Validating => Vec::new(),
            },
            patch_type,
            warnings: warnings
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect(),
            annotations: annotations
                .map(|(key, value)| (key.to_string(), text(value)))
                .collect(),
        })
    }
}

/// Checks that an answer can be decoded as a review of `version`.
///
/// # Errors
/// The fault of Go's decoder, of the scheme or of the conversion.
pub(super) fn check_decodes(review: &Value, version: &str) -> Result<(), String> {
    let expected = GroupVersionKind {
        group: GROUP_OF_REVIEWS.to_owned(),
        version: version.to_owned(),
        kind: "AdmissionReview".to_owned(),
    };
    let found = stated_kind(review, &expected)?;
    let version_known = matches!(found.version.as_str(), "v1" | "v1beta1");
    let is_review = found.group == expected.group && found.kind == expected.kind && version_known;
    let is_status = found.api_version() == "v1" && found.kind == "Status";
    if !is_review && !is_status {
        return Err(format!(
            "no kind {} is registered for version {} in scheme {CLIENT_SCHEME:?}",
            quoted(&found.kind),
            quoted(&found.api_version())
        ));
    }
    if is_review {
        check_types(&review["response"])?;
    }
    if found == expected {
        return Ok(());
    }
    Err(format!(
        "converting ({}.{}) to ({version}.AdmissionReview): unknown conversion",
        found.version, found.kind
    ))
}

/// The place where upstream makes the scheme of its webhook client.
const CLIENT_SCHEME: &str = "k8s.io/apiserver/pkg/util/webhook/client.go:71";

/// The place where upstream makes the scheme of built-in kinds.
const LEGACY_SCHEME: &str = "pkg/api/legacyscheme/scheme.go:30";

/// Returns the kind that a document states. What it leaves out is as `expected`.
fn stated_kind(document: &Value, expected: &GroupVersionKind) -> Result<GroupVersionKind, String> {
    let mut kind = expected.clone();
    for field in ["apiVersion", "kind"] {
        let stated = match &document[field] {
            Value::Null => continue,
            Value::String(text) if text.is_empty() => continue,
            Value::String(text) => text,
            other => {
                return Err(format!(
                    "couldn't get version/kind; json parse error: json: cannot unmarshal {} into \
                     Go struct field .{field} of type string",
                    json_type(other)
                ));
            }
        };
        if field == "kind" {
            kind.kind = stated.to_string();
        } else {
            let version = GroupVersion::parse(stated);
            let version =
                version.ok_or_else(|| format!("unexpected GroupVersion string: {stated}"))?;
            kind.group = version.group;
            kind.version = version.version;
        }
    }
    Ok(kind)
}

/// Checks the types of a response's fields.
fn check_types(response: &Value) -> Result<(), String> {
    let Value::Object(fields) = response else {
        return check_type(
            response,
            "object",
            "AdmissionReview.response",
            "v1.AdmissionResponse",
        );
    };
    for (name, value) in fields {
        let (json, go) = match name.as_str() {
            "uid" => ("string", "types.UID"),
            "allowed" => ("bool", "bool"),
            "status" => ("object", "v1.Status"),
            "patch" => ("string", "[]uint8"),
            "patchType" => ("string", "v1.PatchType"),
            "auditAnnotations" => ("object", "map[string]string"),
            "warnings" => ("array", "[]string"),
            _ => continue,
        };
        let path = format!("AdmissionResponse.response.{name}");
        check_type(value, json, &path, go)?;
        let texts: Vec<&Value> = match (name.as_str(), value) {
            ("auditAnnotations", Value::Object(entries)) => entries.values().collect(),
            ("warnings", Value::Array(items)) => items.iter().collect(),
            _ => Vec::new(),
        };
        for text in texts {
            check_type(text, "string", &path, "string")?;
        }
        if let ("patch", Value::String(text)) = (name.as_str(), value) {
            patch_bytes(text)?;
        }
    }
    for (name, json, go) in [
        ("message", "string", "string"),
        ("reason", "string", "v1.StatusReason"),
        ("status", "string", "string"),
        ("code", "number", "int32"),
    ] {
        let path = format!("Status.response.status.{name}");
        check_type(&response["status"][name], json, &path, go)?;
    }
    Ok(())
}

/// Checks one value; null is of every type.
fn check_type(value: &Value, json: &str, path: &str, go: &str) -> Result<(), String> {
    let found = json_type(value);
    if found == "null" || found == json {
        return Ok(());
    }
    Err(format!(
        "json: cannot unmarshal {found} into Go struct field {path} of type {go}"
    ))
}

fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Decodes the bytes of a patch.
fn patch_bytes(text: &str) -> Result<Vec<u8>, String> {
    let text = text.replace(['\r', '\n'], "");
    STANDARD.decode(&text).map_err(|error| {
        let at = match error {
            DecodeError::InvalidByte(at, _) | DecodeError::InvalidLastSymbol(at, _) => at,
            DecodeError::InvalidLength(_) | DecodeError::InvalidPadding => text.len(),
        };
        format!("illegal base64 data at input byte {at}")
    })
}

fn check_kind(review: &Value) -> Result<(), String> {
    let text = |field: &str| review[field].as_str().unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let expected = format!("{GROUP_OF_REVIEWS}/v1");
    if api_version == expected && kind == "AdmissionReview" {
        return Ok(());
    }
    let version = GroupVersion::parse(api_version);
    let (group, version) = version.map_or_else(Default::default, |own| (own.group, own.version));
    Err(format!(
        "expected webhook response of {expected}, Kind=AdmissionReview, got {group}/{version}, Kind={kind}"
    ))
}

fn check_patch(phase: Phase, patch: &[u8], patch_type: Option<&str>) -> Result<(), String> {
    let fault = match (phase, patch.is_empty(), patch_type) {
        (Phase::Mutating, false, None) => {
            "webhook returned response.patch but not response.patchType"
        }
        (Phase::Mutating, true, Some(_)) => {
            "webhook returned response.patchType but not response.patch"
        }
        (Phase::Mutating, false, Some("")) => "webhook returned invalid response.patchType of \"\"",
        (Phase::Validating, false, _) => "validating webhook may not return response.patch",
        (Phase::Validating, true, Some(_)) => {
            "validating webhook may not return response.patchType"
        }
        _ => return Ok(()),
    };
    Err(fault.to_owned())
}

/// The status of a refusal: that of the webhook, made to say who refused.
pub(super) fn denial(webhook: &str, status: &Value) -> ApiError {
    let text = |field: &str| status[field].as_str().unwrap_or_default();
    let denied_by = format!("admission webhook {webhook:?} denied the request");
    let message = match (text("message"), text("reason")) {
        ("", "") => format!("{denied_by} without explanation"),
        ("", reason) => format!("{denied_by}: {reason}"),
        (message, _) => format!("{denied_by}: {message}"),
    };
    let code = status["code"].as_u64().filter(|code| *code >= 400);
    let code = code.and_then(|code| u32::try_from(code).ok());
    let mut denied = Status::failure(code.unwrap_or(400), text("reason"), message);
    if status["details"].is_object() {
        denied = denied.with_details(status["details"].clone());
    }
    ApiError::Denied(Box::new(denied))
}

impl Admission<'_> {
    /// Applies the patch of an answer to the object; answers whether that changes it.
    ///
    /// # Errors
    /// A failure of the server when the patch does not apply, or of the webhook when it is
    /// malformed.
    pub(super) fn patched(
        &self,
        webhook: &Webhook,
        answer: &Answer,
        invocation: &Invocation,
        object: Option<&mut Value>,
    ) -> Result<bool, Failure> {
        if answer.patch.is_empty() {
            return Ok(false);
        }
        let patch = patch::JsonPatch::decode(&answer.patch).map_err(|why| {
            Failure::unavailable(format!(
                "received undecodable patch in webhook response: {why}"
            ))
        })?;
        if patch.is_empty() {
            return Ok(false);
        }
        let Some(object) = object else {
            return Err(Failure::Internal(ApiError::Internal(format!(
                "admission webhook {:?} attempted to modify the object, which is not supported for this operation",
                webhook.name
            ))));
        };
        if answer.patch_type != "JSONPatch" {
            // Upstream makes this failure's code of an answer that refuses nothing.
            let why = format!("unsupported patch type {}", quoted(&answer.patch_type));
            return Err(Failure::Call { why, code: 400 });
        }
        let shown = self.in_form(Some(object), invocation);
        let next = patch.apply(&shown).map_err(ApiError::Internal);
        let next = next.and_then(|patched| {
            self.check_kept_kind(&patched, &invocation.kind)?;
            self.decoded(&patched, &invocation.kind)
        });
        let next = next.map_err(Failure::Internal)?;
        let changed = next != shown;
        *object = self.out_of_form(next, invocation);
        self.strategy.default(object);
        Ok(changed)
    }

    /// Checks that a patch left an object of a built-in kind to its kind.
    fn check_kept_kind(&self, patched: &str, kind: &GroupVersionKind) -> Result<(), ApiError> {
        if self.operation == Operation::Connect || schema::builtin(kind).is_none() {
            return Ok(());
        }
        let patched: Value = nesting::from_slice(patched.as_bytes())
            .map_err(|error| ApiError::Internal(error.to_string()))?;
        let found = stated_kind(&patched, kind).map_err(ApiError::Internal)?;
        if found == *kind {
            return Ok(());
        }
        let Some(schema) = schema::builtin(&found) else {
            return Err(ApiError::Internal(format!(
                "no kind {} is registered for version {} in scheme {LEGACY_SCHEME:?}",
                quoted(&found.kind),
                quoted(&found.api_version())
            )));
        };
        let text = patched.to_string();
        let decoded = schema::decode_json(schema, text.as_bytes(), FieldValidation::Ignore);
        decoded.map_err(|error| ApiError::Internal(error.to_string()))?;
        let package = match kind.group.split('.').next() {
            None | Some("") => "core",
            Some(package) => package,
        };
        Err(ApiError::Unknown(format!(
            "converting ({}.{}) to ({package}.{}): unknown conversion",
            found.version, found.kind, kind.kind
        )))
    }
}
