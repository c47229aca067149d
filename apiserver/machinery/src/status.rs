//! Failures as Kubernetes words them: [`ApiError`] becomes a `metav1.Status` here and nowhere else, and [`Status`]
//! is the only writer of that body.

mod body;
mod field;

use crate::gvk::{GroupKind, GroupResource};
use crate::json::{Value, json};

pub use body::Status;
pub use field::{Cause, CauseReason, FieldErrors, FieldPath, aggregate, found_warnings, quoted};

/// Everything a handler may answer with instead of an object.
///
/// A variant per constructor of apimachinery's `api/errors`; the text after `#[error]` is the
/// message on the wire.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApiError {
    /// 404 `NotFound`. Mirrors `NewNotFound`.
    #[error("{resource} {} not found", quoted(name))]
    NotFound {
        /// The requested resource.
        resource: GroupResource,
        /// The requested name.
        name: String,
    },
    /// 404 for a path that no handler serves. Mirrors `NewGenericServerResponse`.
    #[error("the server could not find the requested resource")]
    NoSuchPath,
    /// A `Status` whose parts someone else has stated: an admission webhook or policy that refuses, an
    /// injected fault.
    #[error("{}", .0.message)]
    Denied(Box<Status>),
    /// 404 in plain text, for a path outside of the resource paths.
    #[error("404 page not found")]
    PageNotFound,
    /// 409 `AlreadyExists`. Mirrors `NewAlreadyExists`.
    #[error("{resource} {} already exists", quoted(name))]
    AlreadyExists {
        /// The resource.
        resource: GroupResource,
        /// The name that is taken.
        name: String,
    },
    /// 409 `AlreadyExists` while the other object is on its way out.
    #[error("object is being deleted: {resource} {} already exists", quoted(name))]
    AlreadyExistsTerminating {
        /// The resource.
        resource: GroupResource,
        /// The name that is taken.
        name: String,
    },
    /// 409 `AlreadyExists` after `generateName` found no free name. Mirrors `NewGenerateNameConflict`.
    #[error(
        "{}{resource} {} already exists, the server was not able to generate a unique name for the object",
        if *terminating { "object is being deleted: " } else { "" },
        quoted(name)
    )]
    GenerateNameConflict {
        /// The resource.
        resource: GroupResource,
        /// The last name tried.
        name: String,
        /// Whether the object of this name is on its way out.
        terminating: bool,
    },
    /// 409 `Conflict`. Mirrors `NewConflict`.
    #[error(
        "Operation cannot be fulfilled on {resource} {}: {message}",
        quoted(name)
    )]
    Conflict {
        /// The resource.
        resource: GroupResource,
        /// The object's name.
        name: String,
        /// The description of the collision.
        message: String,
    },
    /// 409 `Conflict` of server-side apply, a cause per field. Mirrors `NewApplyConflict`.
    #[error("{message}")]
    ApplyConflict {
        /// The whole message.
        message: String,
        /// A `FieldManagerConflict` cause per field.
        causes: Vec<Cause>,
    },
    /// 422 `Invalid`. Mirrors `NewInvalid`; causes keep upstream's order.
    #[error("{}", field::invalid_message(kind, name, errors))]
    Invalid {
        /// The kind of the object.
        kind: GroupKind,
        /// The object's name, may be empty.
        name: String,
        /// Every fault found.
        errors: FieldErrors,
    },
    /// 422 `Invalid` without causes: a JSON patch that cannot be applied and the like.
    /// Mirrors `NewGenericServerResponse(422)`.
    #[error("the server rejected our request due to an error in our request")]
    InvalidRequest {
        /// Resource of the request, for `details`.
        resource: GroupResource,
        /// Name in the request, for `details`.
        name: String,
        /// The description of the fault, as the one cause.
        message: String,
    },
    /// 400 `BadRequest`. Mirrors `NewBadRequest`.
    #[error("{0}")]
    BadRequest(String),
    /// 401 `Unauthorized`.
    #[error("Unauthorized")]
    Unauthorized,
    /// 403 `Forbidden`. Mirrors `NewForbidden`.
    #[error("{}{}", forbidden_prefix(resource, name), message)]
    Forbidden {
        /// The resource.
        resource: GroupResource,
        /// The object's name, may be empty.
        name: String,
        /// Why.
        message: String,
        /// Causes beyond the message, such as `NamespaceTerminating`.
        causes: Vec<Cause>,
    },
    /// 405 `MethodNotAllowed`. Mirrors `NewMethodNotSupported`.
    #[error("{action} is not supported on resources of kind {:?}", resource.to_string())]
    MethodNotSupported {
        /// The resource.
        resource: GroupResource,
        /// The verb refused.
        action: String,
    },
    /// 405 `MethodNotAllowed` for a method that no verb of the path has.
    #[error("the server does not allow this method on the requested resource")]
    MethodNotAllowed,
    /// 406 `NotAcceptable`.
    #[error("{0}")]
    NotAcceptable(String),
    /// 406 `NotAcceptable` for a form that the object does not have; upstream gives no details.
    #[error("{0}")]
    NotAcceptableKind(String),
    /// 410 `Expired`. Mirrors `NewResourceExpired`.
    #[error("{0}")]
    Expired(String),
    /// 410 `Expired` of a page token, with a token to go on inconsistently.
    #[error("{message}")]
    ExpiredContinue {
        /// The message.
        message: String,
        /// The token that continues without consistency.
        next: String,
    },
    /// 413 `RequestEntityTooLarge`. Mirrors `NewRequestEntityTooLargeError`.
    #[error("Request entity too large: {0}")]
    TooLarge(String),
    /// 415 `UnsupportedMediaType`.
    #[error("{0}")]
    UnsupportedMediaType(String),
    /// 415 `UnsupportedMediaType` for a body that no decoder takes; upstream gives no details.
    #[error("{0}")]
    UnknownBodyFormat(String),
    /// 429 `TooManyRequests`. Mirrors `NewTooManyRequests`.
    #[error("{message}")]
    TooManyRequests {
        /// The message.
        message: String,
        /// Seconds to wait.
        retry_after_seconds: i64,
        /// Causes, such as `DisruptionBudget`.
        causes: Vec<Cause>,
    },
    /// 500 `InternalError`. Mirrors `NewInternalError`.
    #[error("Internal error occurred: {0}")]
    Internal(String),
    /// 500 without a reason: upstream's response to an error of no class.
    #[error("{0}")]
    Unknown(String),
    /// 503 `ServiceUnavailable`. Mirrors `NewServiceUnavailable`.
    #[error("{0}")]
    ServiceUnavailable(String),
    /// 504 `Timeout`: the requested version has not been reached. Mirrors `NewTimeoutError`.
    #[error("Timeout: {message}")]
    Timeout {
        /// The message.
        message: String,
        /// Seconds to wait.
        retry_after_seconds: i64,
        /// Causes, such as `ResourceVersionTooLarge`.
        causes: Vec<Cause>,
    },
}

fn forbidden_prefix(resource: &GroupResource, name: &str) -> String {
    match (resource.to_string().as_str(), name) {
        ("", _) => "forbidden: ".to_owned(),
        (_, "") => format!("{resource} is forbidden: "),
        _ => format!("{resource} {} is forbidden: ", quoted(name)),
    }
}

impl ApiError {
    /// 400 for an object that names another namespace than its request.
    pub fn foreign_namespace() -> Self {
        Self::BadRequest(
            "the namespace of the provided object does not match the namespace sent on the request"
                .to_owned(),
        )
    }

    /// Creates an error from explicit parts, for combinations that no other constructor has.
    pub fn stated(
        code: u16,
        reason: &str,
        message: &str,
        retry_after_seconds: Option<u32>,
    ) -> Self {
        let mut status = Status::failure(code.into(), reason, message.to_owned());
        if let Some(seconds) = retry_after_seconds {
            status = status.with_details(json!({ "retryAfterSeconds": seconds }));
        }
        Self::Denied(Box::new(status))
    }

    /// The HTTP status code.
    #[must_use]
    pub fn code(&self) -> u16 {
        match self {
            Self::BadRequest(_) => 400,
            // Any other code becomes 400, as the status is a refusal.
            Self::Denied(status) => u16::try_from(status.code)
                .ok()
                .filter(|code| (400..=999).contains(code))
                .unwrap_or(400),
            Self::Unauthorized => 401,
            Self::Forbidden { .. } => 403,
            Self::NotFound { .. } | Self::NoSuchPath | Self::PageNotFound => 404,
            Self::MethodNotSupported { .. } | Self::MethodNotAllowed => 405,
            Self::NotAcceptable(_) | Self::NotAcceptableKind(_) => 406,
            Self::AlreadyExists { .. }
            | Self::AlreadyExistsTerminating { .. }
            | Self::GenerateNameConflict { .. }
            | Self::Conflict { .. }
            | Self::ApplyConflict { .. } => 409,
            Self::Expired(_) | Self::ExpiredContinue { .. } => 410,
            Self::TooLarge(_) => 413,
            Self::UnsupportedMediaType(_) | Self::UnknownBodyFormat(_) => 415,
            Self::Invalid { .. } | Self::InvalidRequest { .. } => 422,
            Self::TooManyRequests { .. } => 429,
            Self::Internal(_) | Self::Unknown(_) => 500,
            Self::ServiceUnavailable(_) => 503,
            Self::Timeout { .. } => 504,
        }
    }

    /// The `reason`; empty where upstream gives none.
    #[must_use]
    pub fn reason(&self) -> &str {
        match self {
            Self::Denied(status) => &status.reason,
            Self::BadRequest(_) => "BadRequest",
            Self::Unauthorized => "Unauthorized",
            Self::Forbidden { .. } => "Forbidden",
            Self::NotFound { .. } | Self::NoSuchPath | Self::PageNotFound => "NotFound",
            Self::MethodNotSupported { .. } | Self::MethodNotAllowed => "MethodNotAllowed",
            Self::NotAcceptable(_) | Self::NotAcceptableKind(_) => "NotAcceptable",
            Self::AlreadyExists { .. }
            | Self::AlreadyExistsTerminating { .. }
            | Self::GenerateNameConflict { .. } => "AlreadyExists",
            Self::Conflict { .. } | Self::ApplyConflict { .. } => "Conflict",
            Self::Expired(_) | Self::ExpiredContinue { .. } => "Expired",
            Self::TooLarge(_) => "RequestEntityTooLarge",
            Self::UnsupportedMediaType(_) | Self::UnknownBodyFormat(_) => "UnsupportedMediaType",
            Self::Invalid { .. } | Self::InvalidRequest { .. } => "Invalid",
            Self::TooManyRequests { .. } => "TooManyRequests",
            Self::Internal(_) => "InternalError",
            Self::Unknown(_) => "",
            Self::ServiceUnavailable(_) => "ServiceUnavailable",
            Self::Timeout { .. } => "Timeout",
        }
    }

    /// Seconds for the `Retry-After` header, where upstream sends one.
    #[must_use]
    pub fn retry_after_seconds(&self) -> Option<i64> {
        match self {
            Self::TooManyRequests {
                retry_after_seconds,
                ..
            }
            | Self::Timeout {
                retry_after_seconds,
                ..
            } if *retry_after_seconds > 0 => Some(*retry_after_seconds),
            Self::GenerateNameConflict { .. } => Some(1),
            Self::Denied(status) => {
                let seconds = status.details.as_ref()?["retryAfterSeconds"].as_i64();
                seconds.filter(|seconds| *seconds > 0)
            }
            _ => None,
        }
    }

    /// The `details` of the status; `None` where upstream leaves them out.
    fn details(&self) -> Option<Value> {
        let named = |group: &str, kind: &str, name: &str| {
            let mut details = crate::json::Map::new();
            for (key, value) in [("name", name), ("group", group), ("kind", kind)] {
                if !value.is_empty() {
                    details.insert(key.to_owned(), value.into());
                }
            }
            details
        };
        let mut details = match self {
            Self::NotFound { resource, name }
            | Self::AlreadyExists { resource, name }
            | Self::AlreadyExistsTerminating { resource, name }
            | Self::GenerateNameConflict { resource, name, .. }
            | Self::Conflict { resource, name, .. }
            | Self::InvalidRequest { resource, name, .. }
            | Self::Forbidden { resource, name, .. } => {
                named(&resource.group, &resource.resource, name)
            }
            Self::MethodNotSupported { resource, .. } => {
                named(&resource.group, &resource.resource, "")
            }
            Self::Invalid { kind, name, .. } => named(&kind.group, &kind.kind, name),
            Self::NoSuchPath
            | Self::MethodNotAllowed
            | Self::NotAcceptable(_)
            | Self::UnsupportedMediaType(_)
            | Self::ApplyConflict { .. }
            | Self::TooManyRequests { .. }
            | Self::Internal(_)
            | Self::Timeout { .. } => crate::json::Map::new(),
            Self::Denied(_)
            | Self::PageNotFound
            | Self::BadRequest(_)
            | Self::Unauthorized
            | Self::UnknownBodyFormat(_)
            | Self::NotAcceptableKind(_)
            | Self::Expired(_)
            | Self::ExpiredContinue { .. }
            | Self::TooLarge(_)
            | Self::ServiceUnavailable(_)
            | Self::Unknown(_) => return None,
        };
        let causes: Vec<Value> = match self {
            Self::Invalid { errors, .. } => errors.causes().iter().map(Cause::to_value).collect(),
            Self::ApplyConflict { causes, .. }
            | Self::Forbidden { causes, .. }
            | Self::TooManyRequests { causes, .. }
            | Self::Timeout { causes, .. } => causes.iter().map(Cause::to_value).collect(),
            Self::Internal(message) => vec![json!({ "message": message })],
            Self::InvalidRequest { message, .. } if !message.is_empty() => {
                vec![json!({ "reason": "UnexpectedServerResponse", "message": message })]
            }
            _ => Vec::new(),
        };
        if !causes.is_empty() {
            details.insert("causes", Value::Array(causes));
        }
        if let Some(seconds) = self.retry_after_seconds() {
            details.insert("retryAfterSeconds", seconds.into());
        }
        Some(Value::Object(details))
    }

    /// The `metav1.Status` body.
    #[must_use]
    pub fn to_status(&self) -> Value {
        if let Self::Denied(status) = self {
            return status.to_value();
        }
        let mut status = Status::failure(self.code().into(), self.reason(), self.to_string());
        status.details = self.details();
        let mut status = status.to_value();
        if let Self::ExpiredContinue { next, .. } = self {
            status["metadata"]["continue"] = next.as_str().into();
        }
        status
    }

    /// Whether this is a 404 for an object or a path.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.code() == 404
    }
}
