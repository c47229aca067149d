//! Validation of TokenRequests.
//!
//! Source: `pkg/apis/authentication/validation`, `pkg/registry/core/serviceaccount/storage/token.go`.

use crate::json::Value;
use crate::meta::{GroupResource, GroupVersionKind};
use crate::status::{ApiError, FieldErrors, FieldPath};

/// The lifetime of a token unless the request states another.
pub const EXPIRATION_SECONDS: i64 = 3600;
const EXPIRATION_SECONDS_MIN: i64 = 600;
const EXPIRATION_SECONDS_MAX: i64 = 1 << 32;

/// Checks the uid that a request names, which must be that of the account; `wanted` may be empty.
///
/// # Errors
/// `Conflict`.
pub fn check_uid(
    gvk: &GroupVersionKind,
    (account, uid): (&str, &str),
    wanted: &str,
) -> Result<(), ApiError> {
    if wanted.is_empty() || wanted == uid {
        return Ok(());
    }
    // Upstream names the kind here, not the resource.
    Err(ApiError::Conflict {
        resource: GroupResource {
            group: gvk.group.clone(),
            resource: gvk.kind.clone(),
        },
        name: account.to_owned(),
        message: format!(
            "the UID in the token request ({wanted}) does not match the UID of the service account ({uid})"
        ),
    })
}

/// Checks the name that a request names, which must be that of the account; `own` may be empty.
///
/// # Errors
/// `Invalid`.
pub fn check_name(gvk: &GroupVersionKind, own: &str, account: &str) -> Result<(), ApiError> {
    if own.is_empty() || own == account {
        return Ok(());
    }
    let mut errors = FieldErrors::new();
    let detail = "must match the service account name if specified";
    errors.invalid(&FieldPath::new("metadata.name"), &own.into(), detail);
    Err(ApiError::Invalid {
        kind: gvk.group_kind(),
        name: account.to_owned(),
        errors,
    })
}

/// Validates the spec of a TokenRequest.
///
/// # Errors
/// `Invalid` for a lifetime out of bounds.
pub fn validate(gvk: &GroupVersionKind, spec: &Value) -> Result<(), ApiError> {
    let mut errors = FieldErrors::new();
    let seconds = spec["expirationSeconds"]
        .as_i64()
        .unwrap_or(EXPIRATION_SECONDS);
    let path = FieldPath::new("spec.expirationSeconds");
    if seconds < EXPIRATION_SECONDS_MIN {
        let detail = "may not specify a duration less than 10 minutes";
        errors.invalid(&path, &seconds.into(), detail);
    }
    if seconds > EXPIRATION_SECONDS_MAX {
        let detail = "may not specify a duration larger than 2^32 seconds";
        errors.invalid(&path, &seconds.into(), detail);
    }
    if errors.is_empty() {
        return Ok(());
    }
    Err(ApiError::Invalid {
        kind: gvk.group_kind(),
        name: String::new(),
        errors,
    })
}
