//! The version and paging options of a list, and which of them go together.

use super::Request;
use super::continue_token::ContinueToken;
use crate::meta::GroupKind;
use crate::status::{ApiError, FieldErrors, FieldPath};

/// `limit`, `continue`, `resourceVersion` and `resourceVersionMatch`, checked.
#[derive(Debug)]
pub(super) struct ListOptions {
    /// 0 for no limit.
    pub(super) limit: i64,
    pub(super) token: Option<ContinueToken>,
    /// `None` when unset.
    pub(super) rv: Option<u64>,
    rv_match: String,
}

impl ListOptions {
    /// Reads the options of `request`.
    ///
    /// # Errors
    /// `Invalid` for options that exclude one another, `BadRequest` for malformed ones.
    pub(super) fn parse(request: &Request<'_>) -> Result<Self, ApiError> {
        let query = |key: &str| request.query.get(key).unwrap_or_default();
        let (rv, rv_match, token) = (
            query("resourceVersion"),
            query("resourceVersionMatch"),
            query("continue"),
        );
        validate(
            rv,
            rv_match,
            token,
            request.query.get("sendInitialEvents").is_some(),
        )?;
        let rv = parse_rv(rv)?;
        let token = match token {
            "" => None,
            token => Some(ContinueToken::decode(token)?),
        };
        if token.is_some() && rv.is_some_and(|rv| rv > 0) {
            return Err(ApiError::BadRequest(
                "specifying resource version is not allowed when using continue".to_owned(),
            ));
        }
        let limit = request.query.integer("limit")?.unwrap_or(0);
        Ok(Self {
            limit,
            token,
            rv,
            rv_match: rv_match.to_owned(),
        })
    }

    /// Whether the list must be of the very version given: because it says so, or because pages
    /// of a version were asked for in the way that predates `resourceVersionMatch`.
    pub(super) fn exact(&self) -> bool {
        self.rv_match == "Exact" || (self.rv_match.is_empty() && self.limit > 0)
    }
}

/// The `resourceVersion` of a list; `None` when empty.
fn parse_rv(rv: &str) -> Result<Option<u64>, ApiError> {
    storage_rv(rv)
        .map_err(|error| ApiError::BadRequest(format!("invalid resource version: {error}")))
}

/// The `resourceVersion` of a get or a watch; `None` when empty. Upstream gives no reason here.
pub(super) fn storage_rv(rv: &str) -> Result<Option<u64>, ApiError> {
    if rv.is_empty() {
        return Ok(None);
    }
    rv.parse().map(Some).map_err(|_| {
        ApiError::Unknown(format!(
            "resourceVersion: Invalid value: {rv:?}: strconv.ParseUint: parsing {rv:?}: invalid syntax"
        ))
    })
}

/// Which options of a list exclude one another.
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

/// `Invalid` ListOptions, unless there is nothing wrong.
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
