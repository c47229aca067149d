//! The attributes of a write, as the plugins for valid objects see it.

use parking_lot::Mutex;

use crate::admission::State;
use crate::audit::Record;
use crate::auth::User;
use crate::json::Value;
use crate::registry::catalog::ResourceInfo;
use crate::status::ApiError;

/// A valid object that is about to be stored; an update replaces `old`.
#[derive(Clone, Copy)]
pub(crate) struct Attributes<'a> {
    pub(crate) state: &'a State,
    pub(crate) resource: &'a ResourceInfo,
    /// The user of the request; `None` where the server itself writes.
    pub(crate) user: Option<&'a User>,
    pub(crate) subresource: &'a str,
    pub(crate) object: &'a Value,
    pub(crate) old: Option<&'a Value>,
    /// The record of the request, if it is audited.
    pub(crate) audit: Option<&'a Record>,
    /// The warnings of the response; `None` where the client gets none.
    pub(crate) warnings: Option<&'a Mutex<Vec<String>>>,
}

impl Attributes<'_> {
    pub(super) fn warn(self, warning: String) {
        if let Some(warnings) = self.warnings {
            let mut warnings = warnings.lock();
            if !warnings.contains(&warning) {
                warnings.push(warning);
            }
        }
    }

    pub(super) fn forbidden(self, message: String) -> ApiError {
        ApiError::Forbidden {
            resource: self.resource.gvr().group_resource(),
            name: super::shown_name(self.object).to_owned(),
            message,
            causes: Vec::new(),
        }
    }
}
