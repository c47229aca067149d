//! What everybody shares who works on a request: the objects, the time, the resources that there are.

use std::sync::Arc;

use crate::api_services::ApiServices;
use crate::clock::{Clock, Entropy};
use crate::metrics::Metrics;
use crate::registry::catalog::Catalog;
use crate::registry::definitions::Definitions;
use crate::storage::Storage;
use crate::webhook::{OwnedWebhookClient, Services, WebhookClient};

/// The state of a cluster.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) clock: Clock,
    pub(crate) entropy: Entropy,
    pub(crate) storage: Arc<Storage>,
    /// The built-in resources.
    pub(crate) catalog: Arc<Catalog>,
    /// The built-in resources that are served.
    pub(crate) served: Arc<Catalog>,
    /// Custom resources, and with them all of discovery.
    pub(crate) definitions: Definitions,
    pub(crate) metrics: Arc<Metrics>,
    /// The addresses of services that the server was given.
    pub(crate) services: Services,
    /// The API services that other servers serve.
    pub(crate) api_services: ApiServices,
}

impl Cluster {
    /// What calls of webhooks need.
    pub(crate) fn webhook_client(&self) -> WebhookClient<'_> {
        WebhookClient {
            services: &self.services,
            storage: &self.storage,
            entropy: &self.entropy,
            clock: &self.clock,
            metrics: &self.metrics,
        }
    }

    /// What calls of webhooks need that outlive the request.
    pub(crate) fn owned_webhook_client(&self) -> OwnedWebhookClient {
        OwnedWebhookClient {
            services: self.services.clone(),
            storage: Arc::clone(&self.storage),
            entropy: self.entropy.clone(),
            clock: self.clock.clone(),
            metrics: Arc::clone(&self.metrics),
        }
    }

    /// A cluster that begins with `storage`, a fork of this one's, under `clock`.
    pub(crate) fn forked(&self, storage: Storage, clock: Clock, services: Services) -> Self {
        Self {
            clock,
            entropy: self.entropy.forked(),
            storage: Arc::new(storage),
            catalog: Arc::clone(&self.catalog),
            served: Arc::clone(&self.served),
            definitions: self.definitions.forked(),
            metrics: Arc::new(Metrics::default()),
            services,
            api_services: self.api_services.forked(),
        }
    }
}
