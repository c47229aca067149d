//! The checks of the built-in plugins on a valid object before it is stored.

use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use serde_json::Value;

use super::chain::Chain;
use super::{certificates, limit_ranger, optional, pod_security};
use crate::admission::State;
use crate::audit::Record;
use crate::auth::{self, User};
use crate::meta::GroupVersionResource;
use crate::metrics::admission::Plugin;
use crate::registry::catalog::ResourceInfo;
use crate::status::ApiError;
use crate::storage::{Storage, Table};

/// The tables that plugins look into, kept at hand because every write may ask.
#[derive(Debug, Default)]
pub(crate) struct Listers {
    namespaces: OnceLock<Arc<Table>>,
    limit_ranges: OnceLock<Arc<Table>>,
    quotas: OnceLock<Arc<Table>>,
    pods: OnceLock<Arc<Table>>,
}

impl Listers {
    pub(super) fn namespaces(&self, storage: &Storage) -> &Table {
        open(&self.namespaces, "namespaces", storage)
    }

    pub(super) fn limit_ranges(&self, storage: &Storage) -> &Table {
        open(&self.limit_ranges, "limitranges", storage)
    }

    pub(super) fn quotas(&self, storage: &Storage) -> &Table {
        open(&self.quotas, "resourcequotas", storage)
    }

    pub(super) fn pods(&self, storage: &Storage) -> &Table {
        open(&self.pods, "pods", storage)
    }
}

fn open<'t>(held: &'t OnceLock<Arc<Table>>, plural: &str, storage: &Storage) -> &'t Table {
    held.get_or_init(|| {
        storage.table(&GroupVersionResource {
            group: String::new(),
            version: "v1".to_owned(),
            resource: plural.to_owned(),
        })
    })
}

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
    /// Asks the plugins that look at valid objects.
    ///
    /// # Errors
    /// The first refusal.
    pub(crate) async fn check(self, chain: &mut Chain<'_>) -> Result<(), ApiError> {
        let plugins = self.state.plugins;
        if plugins.has_optional() {
            optional::check(self, chain).await?;
        }
        if plugins.has(Plugin::PodSecurity)
            && let Some(checked) = pod_security::check(self)
        {
            chain.asked(Plugin::PodSecurity, checked)?;
        }
        if plugins.has(Plugin::LimitRanger)
            && let Some(checked) = limit_ranger::check(self)
        {
            chain.asked(Plugin::LimitRanger, checked)?;
        }
        match auth::resolved(self.state, || certificates::check(self)).await {
            Some((plugin, checked)) => chain.run(plugin, || checked),
            None => Ok(()),
        }
    }

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
            name: crate::meta::object::name(self.object).to_owned(),
            message,
            causes: Vec::new(),
        }
    }
}
