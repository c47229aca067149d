//! The generic store: every write of every kind passes through this module.

mod admit;
mod create;
mod delete;
mod follow_up;
mod managed_fields;
mod own_writes;
mod refusals;
mod restore;
mod update;
mod validate;

use std::borrow::Cow;
use std::future::Future;
use std::ops::Deref;
use std::sync::Arc;

use futures::FutureExt;
use parking_lot::Mutex;

use crate::admission;
use crate::auth::RequestAttributes;
use crate::field_manager::Writer;
use crate::json::Value;
use crate::meta::object::{self, meta_mut};
use crate::registry::catalog::ResourceInfo;
use crate::registry::core::service::ServiceRanges;
use crate::registry::{Context, Passes, Strategy};
use crate::status::ApiError;
use crate::storage::{ObjectKey, StoredObject, Table};
use refusals::check_name;

pub(crate) use admit::View;
pub(crate) use create::wipe_system_fields;
pub(crate) use delete::Deleted;
pub(crate) use refusals::parse_rv;
pub(crate) use restore::restore_all;

/// The subresource through which an object is written; it decides what the write may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subresource {
    /// Everything but the status, where there is a status subresource.
    None,
    /// The status and nothing else.
    Status,
    /// A subresource that changes the object by rules of its own: nothing is kept for it.
    Other,
    /// A write past the strategy, which does not even count the generation.
    Unchecked,
}

/// The server's state that writes use.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) admission: admission::State,
    /// The addresses and ports of services.
    pub(crate) service_ranges: ServiceRanges,
    /// The gate `MaxUnavailableStatefulSet`.
    pub(crate) max_unavailable_stateful_set: bool,
    /// The passes of the controller of FlowSchema conditions.
    pub(crate) flow_schema_passes: Passes,
    /// The server's own controllers, which run after each write.
    pub(crate) after_write: &'static [AfterWrite],
}

/// A controller of the server that runs after a write of an object of a resource.
pub(crate) type AfterWrite = fn(&State, &ResourceInfo);

impl State {
    /// The state of a server that begins with `admission`, a fork of this one's.
    pub(crate) fn forked(&self, admission: admission::State) -> Self {
        Self {
            admission,
            service_ranges: self.service_ranges,
            max_unavailable_stateful_set: self.max_unavailable_stateful_set,
            flow_schema_passes: Passes::default(),
            after_write: self.after_write,
        }
    }
}

impl Deref for State {
    type Target = admission::State;

    fn deref(&self) -> &admission::State {
        &self.admission
    }
}

/// Writes objects of one resource on behalf of one request.
#[derive(Clone, Copy)]
pub(crate) struct Store<'a> {
    pub(crate) state: &'a State,
    pub(crate) resource: &'a ResourceInfo,
    pub(crate) strategy: &'a dyn Strategy,
    pub(crate) user_agent: &'a Arc<str>,
    /// The new owner of changed fields; without a writer, the owners stay unchanged.
    pub(crate) writer: Option<Writer<'a>>,
    /// The collector of warnings; `None` if no client is warned.
    pub(crate) warnings: Option<&'a Mutex<Vec<String>>>,
    /// Whether a uid in the object guards the write, as in a PUT; a patch may not change it at all.
    pub(crate) guards_uid: bool,
    pub(crate) dry_run: bool,
    /// The user of the request, as admission webhooks see it; without attributes, no webhook is
    /// called.
    pub(crate) request_attributes: Option<RequestAttributes<'a>>,
    /// The form of the objects that webhooks see, if it differs from the objects.
    pub(crate) view: Option<&'a dyn View>,
}

/// The result of a write: the stored object, or the last state after a dry run or a removal.
#[derive(Clone, Debug)]
pub(crate) enum WriteResult {
    Stored(Arc<StoredObject>),
    Unstored(Arc<Value>),
}

/// Returns the result of a write that calls no webhook and so never waits.
pub(crate) fn at_once<T>(write: impl Future<Output = T>) -> T {
    let written = write.now_or_never();
    written.expect("a write without a request waits for nobody")
}

impl WriteResult {
    pub(crate) fn value(&self) -> Arc<Value> {
        match self {
            Self::Stored(object) => object.value(),
            Self::Unstored(value) => Arc::clone(value),
        }
    }
}

impl Store<'_> {
    pub(crate) fn table(&self) -> Arc<Table> {
        self.state.storage.table(self.resource.gvr())
    }

    pub(crate) fn key(&self, namespace: Option<&str>, name: &str) -> ObjectKey {
        ObjectKey::new(namespace.filter(|_| self.resource.namespaced), name)
    }

    /// Reads one object.
    ///
    /// # Errors
    /// `NotFound`.
    pub(crate) fn get(
        &self,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Arc<StoredObject>, ApiError> {
        check_name(name)?;
        self.table()
            .get(&self.key(namespace, name))
            .map(|stored| self.shown(stored))
            .ok_or_else(|| self.not_found(name))
    }

    /// A stored object in the shape of this resource.
    pub(crate) fn shown(&self, stored: Arc<StoredObject>) -> Arc<StoredObject> {
        if self.resource.shows_as_stored() {
            return stored;
        }
        match self.resource.shown(&stored.value()) {
            Cow::Borrowed(_) => stored.clone(),
            Cow::Owned(value) => Arc::new(StoredObject::new(stored.key.clone(), stored.rv, value)),
        }
    }

    fn context<'b>(&'b self, siblings: &'b Table) -> Context<'b> {
        Context {
            siblings,
            now: self.state.clock.now(),
            service_ranges: &self.state.service_ranges,
            max_unavailable_stateful_set: self.state.max_unavailable_stateful_set,
            dry_run: self.dry_run,
            entropy: &self.state.entropy,
        }
    }

    /// Puts `object` into the namespace of the request.
    ///
    /// # Errors
    /// `BadRequest` if it says that it is in another one.
    pub(crate) fn set_namespace(
        &self,
        object: &mut Value,
        namespace: Option<&str>,
    ) -> Result<(), ApiError> {
        let Some(namespace) = namespace.filter(|_| self.resource.namespaced) else {
            if !self.resource.namespaced {
                meta_mut(object).remove("namespace");
            }
            return Ok(());
        };
        let own = object::namespace(object);
        if !own.is_empty() && own != namespace {
            return Err(ApiError::foreign_namespace());
        }
        meta_mut(object).insert("namespace", namespace.into());
        Ok(())
    }
}
