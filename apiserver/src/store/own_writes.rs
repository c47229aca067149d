//! Stores for the server's own controllers, which act without a client's request.

use std::sync::Arc;

use super::{State, Store};
use crate::field_manager::Writer;
use crate::registry::catalog::ResourceInfo;

impl<'a> Store<'a> {
    /// Writes objects of `resource` as `writer`. No webhook is called, and warnings are dropped.
    pub(crate) fn of_server(
        state: &'a State,
        resource: &'a ResourceInfo,
        user_agent: &'a Arc<str>,
        writer: Writer<'a>,
    ) -> Self {
        Self {
            state,
            resource,
            strategy: resource.strategy(),
            user_agent,
            writer: Some(writer),
            warnings: None,
            guards_uid: false,
            dry_run: false,
            request_attributes: None,
            view: None,
        }
    }
}
