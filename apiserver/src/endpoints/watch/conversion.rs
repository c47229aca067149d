//! Conversion of the objects that a watch is about to deliver.

use std::sync::Arc;

use crate::registry::catalog::ResourceInfo;
use crate::status::ApiError;
use crate::storage::StoredObject;
use crate::webhook::{OwnedWebhookClient, conversion};

/// Has a webhook convert objects, if the resource is converted by one.
pub(super) struct Converter {
    /// The resource in whose version objects are shown.
    pub(super) resource: Arc<ResourceInfo>,
    /// `None` where no webhook converts.
    pub(super) client: Option<OwnedWebhookClient>,
}

impl Converter {
    /// Returns when the first of `objects` can be shown. If its result is missing, the results of all are requested, so
    /// that one call serves a whole list.
    ///
    /// # Errors
    /// The webhook fails.
    pub(super) async fn convert_first(
        &self,
        objects: &[Arc<StoredObject>],
    ) -> Result<(), ApiError> {
        let (Some(_), Some(conversion)) = (&self.client, self.resource.conversion()) else {
            return Ok(());
        };
        let misses = conversion.misses();
        if let Some(first) = objects.first() {
            drop(self.resource.shown(&first.value()));
        }
        if conversion.misses() == misses {
            return Ok(());
        }
        self.convert(objects.iter()).await
    }

    /// Returns when each of `objects` can be shown: at once, unless the results of a webhook are
    /// missing. One call is made for all of them.
    ///
    /// # Errors
    /// The webhook fails.
    pub(super) async fn convert<'a>(
        &self,
        objects: impl Iterator<Item = &'a Arc<StoredObject>> + Clone,
    ) -> Result<(), ApiError> {
        let (Some(client), Some(conversion)) = (&self.client, self.resource.conversion()) else {
            return Ok(());
        };
        loop {
            let misses = conversion.misses();
            for object in objects.clone() {
                drop(self.resource.shown(&object.value()));
            }
            if conversion.misses() == misses {
                return Ok(());
            }
            conversion::fill(conversion, &client.client(), None).await?;
        }
    }
}
