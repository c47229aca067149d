//! The version and paging options of a list, and which of them go together.

use super::Request;
use super::continue_token::ContinueToken;
use crate::meta::GroupKind;
use crate::meta::{ParseResourceVersionError, RequestedVersion, ResourceVersion};
use crate::status::{ApiError, FieldErrors, FieldPath};

/// `limit`, `continue`, `resourceVersion` and `resourceVersionMatch`, checked against one another.
#[derive(Debug)]
pub(super) struct ListOptions {
    limit: i64,
    token: String,
    rv: String,
    rv_match: String,
}

/// The version of a collection to read.
#[derive(Debug)]
pub(super) enum ReadAt {
    /// The rest of a list begun before.
    Continue(ContinueToken),
    /// Exactly this version.
    Exact(ResourceVersion),
    /// The present, which must have reached this version.
    NotOlderThan(ResourceVersion),
}

impl ListOptions {
    /// Reads the options of `request`.
    ///
    /// # Errors
    /// `Invalid` for options that exclude one another, `BadRequest` for malformed numbers.
    pub(super) fn parse(request: &Request<'_>) -> Result<Self, ApiError> {
        let text = |key: &str| request.query.get(key).unwrap_or_default().to_owned();
        let options = Self {
            limit: request.query.integer("limit")?.unwrap_or(0),
            token: text("continue"),
            rv: text("resourceVersion"),
            rv_match: text("resourceVersionMatch"),
        };
        let initial_events = request.query.get("sendInitialEvents").is_some();
        validate(
            &options.rv,
            &options.rv_match,
            &options.token,
            initial_events,
        )?;
        Ok(options)
    }

    /// The maximum number of objects in a page; 0 for all. Upstream reads version 0 from its cache,
    /// which ignores limits.
    pub(super) fn page_size(&self) -> usize {
        match self.rv.as_str() {
            "0" => 0,
            _ => usize::try_from(self.limit).unwrap_or(0),
        }
    }

    /// Whether the client asks for the most recent state, which no stale cache may answer.
    pub(super) fn asks_for_latest(&self) -> bool {
        self.rv.is_empty()
    }

    /// Whether a list begun before goes on.
    pub(super) fn continues(&self) -> bool {
        !self.token.is_empty()
    }

    /// What to read. `whole` distinguishes a list from the look-up of a single name.
    ///
    /// # Errors
    /// `BadRequest` for a malformed token or version.
    pub(super) fn read_at(&self, whole: bool) -> Result<ReadAt, ApiError> {
        if self.continues() {
            let token = ContinueToken::decode(&self.token)?;
            if !matches!(self.rv.as_str(), "" | "0") {
                return Err(ApiError::BadRequest(
                    "specifying resource version is not allowed when using continue".to_owned(),
                ));
            }
            return Ok(ReadAt::Continue(token));
        }
        let requested = requested_version(&self.rv)
            .map_err(|error| ApiError::BadRequest(format!("invalid resource version: {error}")))?;
        // Older clients ask for pages of a version without `resourceVersionMatch`.
        let legacy = self.rv_match.is_empty() && self.limit > 0 && whole;
        let is_exact = self.rv_match == "Exact" || legacy;
        Ok(match requested {
            RequestedVersion::At(rv) if is_exact => ReadAt::Exact(rv),
            requested => ReadAt::NotOlderThan(requested.not_older_than()),
        })
    }
}

/// Checks that the options of a list do not exclude one another.
///
/// # Errors
/// `Invalid`, naming every conflict.
pub(super) fn validate(
    rv: &str,
    rv_match: &str,
    token: &str,
    initial_events: bool,
) -> Result<(), ApiError> {
    let mut errors = FieldErrors::new();
    let path = FieldPath::new("resourceVersionMatch");
    if !rv_match.is_empty() {
        if rv.is_empty() {
            let detail = "resourceVersionMatch is forbidden unless resourceVersion is provided";
            errors.forbidden(&path, detail);
        }
        if !token.is_empty() {
            let detail = "resourceVersionMatch is forbidden when continue is provided";
            errors.forbidden(&path, detail);
        }
        if !matches!(rv_match, "Exact" | "NotOlderThan") {
            errors.not_supported(&path, &rv_match.into(), &["Exact", "NotOlderThan", ""]);
        }
        if rv_match == "Exact" && rv == "0" {
            let detail = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
            errors.forbidden(&path, detail);
        }
    }
    if initial_events {
        let path = FieldPath::new("sendInitialEvents");
        errors.forbidden(&path, "sendInitialEvents is forbidden for list");
    }
    invalid(errors)
}

/// The `resourceVersion` of a get or a watch. Upstream gives no reason for an error here.
pub(super) fn requested_version(text: &str) -> Result<RequestedVersion, ApiError> {
    text.parse().map_err(|error: ParseResourceVersionError| {
        ApiError::Unknown(format!("resourceVersion: Invalid value: {text:?}: {error}"))
    })
}

/// `Invalid` ListOptions, if there are errors.
pub(super) fn invalid(errors: FieldErrors) -> Result<(), ApiError> {
    if errors.is_empty() {
        return Ok(());
    }
    let kind = GroupKind {
        group: "meta.k8s.io".to_owned(),
        kind: "ListOptions".to_owned(),
    };
    Err(ApiError::Invalid {
        kind,
        name: String::new(),
        errors,
    })
}
