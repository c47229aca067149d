//! AdmissionReview: the answer.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::configuration::Webhook;
use super::matching::Invocation;
use super::{Admission, GROUP_OF_REVIEWS, Operation, Phase};
use crate::meta::{GroupVersion, GroupVersionKind};
use crate::patch;
use crate::schema::{self, FieldValidation};
use crate::status::ApiError;

/// Why a webhook that was to be asked does not let the write pass.
pub(super) enum Failure {
    /// It could not be asked or understood; whether that matters is its policy's to say.
    Call(String),
    /// It is not for the policy to say.
    Refused(ApiError),
}

/// What a webhook said.
pub(super) struct Answer {
    /// The status to refuse with, `null` where the webhook gave none.
    pub(super) denied: Option<Value>,
    patch: Vec<u8>,
    patch_type: String,
    pub(super) warnings: Vec<String>,
}

impl Answer {
    /// Checks an answer to the review `uid`.
    ///
    /// # Errors
    /// What is wrong with it.
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
        let patch = STANDARD.decode(patch.replace(['\r', '\n'], ""));
        let patch = patch.map_err(|error| error.to_string())?;
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
        })
    }
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
    let mut denied = json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "code": code.unwrap_or(400),
    });
    if !text("reason").is_empty() {
        denied["reason"] = text("reason").into();
    }
    if status["details"].is_object() {
        denied["details"] = status["details"].clone();
    }
    ApiError::Denied(Box::new(denied))
}

impl Admission<'_> {
    /// Applies the patch of an answer to the object; answers whether that changes it.
    ///
    /// # Errors
    /// `InternalError` when the patch does not apply, unless the failure of the webhook is ignored.
    pub(super) fn patched(
        &self,
        webhook: &Webhook,
        answer: &Answer,
        invocation: &Invocation,
        object: Option<&mut Value>,
    ) -> Result<bool, ApiError> {
        if answer.patch.is_empty() {
            return Ok(false);
        }
        let patch = match patch::JsonPatch::decode(&answer.patch) {
            Ok(patch) => patch,
            Err(why) => {
                let why = format!("received undecodable patch in webhook response: {why}");
                let failed = self.outcome(webhook, Err(Failure::Call(why)));
                return failed.map(|_| false);
            }
        };
        if patch.is_empty() {
            return Ok(false);
        }
        let Some(object) = object else {
            return Err(ApiError::Internal(format!(
                "admission webhook {:?} attempted to modify the object, which is not supported for this operation",
                webhook.name
            )));
        };
        if answer.patch_type != "JSONPatch" {
            let why = format!("unsupported patch type {:?}", answer.patch_type);
            let failed = self.outcome(webhook, Err(Failure::Call(why)));
            return failed.map(|_| false);
        }
        let shown = self.in_form(Some(object), invocation);
        let patched = patch.apply(&shown).map_err(ApiError::Internal)?;
        let next = self.decoded(&patched, &invocation.kind)?;
        let changed = next != shown;
        *object = self.out_of_form(next, invocation);
        self.strategy.default(object);
        Ok(changed)
    }

    /// What a patch left, as the kind has it.
    pub(in crate::admission) fn decoded(
        &self,
        patched: &str,
        kind: &GroupVersionKind,
    ) -> Result<Value, ApiError> {
        let refuse = |why: String| ApiError::Internal(why);
        if self.operation == Operation::Connect {
            return serde_json::from_str(patched).map_err(|error| refuse(error.to_string()));
        }
        let custom = self.resource.custom.as_deref();
        if let (Some(custom), None) = (custom, schema::builtin(kind)) {
            let mut value: Value =
                serde_json::from_str(patched).map_err(|error| refuse(error.to_string()))?;
            let schema = custom.versions.schema(&kind.version).structural();
            schema.prune(&mut value);
            schema.prune_nulls(&mut value);
            schema.fill_defaults(&mut value);
            return Ok(value);
        }
        let schema = schema::builtin(kind)
            .ok_or_else(|| refuse(format!("no kind {:?} is registered", kind.kind)))?;
        let decoded = schema::decode_json(schema, patched.as_bytes(), FieldValidation::Ignore);
        let mut value = decoded.map_err(|error| refuse(error.to_string()))?.value;
        value["kind"] = kind.kind.as_str().into();
        value["apiVersion"] = kind.api_version().into();
        Ok(value)
    }
}
