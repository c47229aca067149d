//! How a server is set up.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::flow_control::FlowControl;
use super::panics::Panics;
use super::{ApiServer, Components, Core};
use crate::admission::plugins::Tables;
use crate::admission::webhook::Configurations;
use crate::auth::{Authorization, Tokens};
use crate::clock::{Clock, Entropy};
use crate::endpoints::health::Checked;
use crate::endpoints::metrics::Metrics;
use crate::endpoints::openapi::OpenApi;
use crate::endpoints::watch::BOOKMARK_PERIOD;
use crate::fault::Faults;
use crate::registry::Passes;
use crate::registry::bootstrap;
use crate::registry::catalog::Catalog;
use crate::registry::component_status;
use crate::registry::definition::Definitions;
use crate::storage::{Initial, Storage};
use crate::webhook::{Services, Webhook};

/// Past events remembered per resource unless told otherwise.
const WINDOW_EVENTS: usize = 4096;

/// Settings of an [`ApiServer`].
#[derive(Clone, Debug)]
#[must_use]
pub struct ApiServerBuilder {
    clock: Clock,
    seed: u64,
    window_events_max: usize,
    token: Option<String>,
    authorization: Authorization,
    service_accounts: bool,
    journal: bool,
    max_unavailable_stateful_set: bool,
    bookmark_period: Duration,
    services: Services,
}

impl Default for ApiServerBuilder {
    fn default() -> Self {
        Self {
            clock: Clock::real(),
            seed: 0,
            window_events_max: WINDOW_EVENTS,
            token: None,
            authorization: Authorization::Rbac,
            service_accounts: false,
            journal: false,
            max_unavailable_stateful_set: false,
            bookmark_period: BOOKMARK_PERIOD,
            services: Services::default(),
        }
    }
}

impl ApiServerBuilder {
    /// Where time comes from. Default: the machine's clock.
    pub fn clock(self, clock: Clock) -> Self {
        Self { clock, ..self }
    }

    /// Seed of uids and name suffixes. Default: 0.
    pub fn seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// Past events remembered per resource; older versions are Expired. Default: 4096.
    pub fn watch_window_events(self, window_events_max: usize) -> Self {
        Self {
            window_events_max,
            ..self
        }
    }

    /// The administrator's bearer token; others may do what roles grant them. Default: none, and
    /// whoever shows no service account's token is the administrator.
    pub fn token(self, token: Option<String>) -> Self {
        Self { token, ..self }
    }

    /// How it is decided what a user may do. Default: by RBAC.
    pub fn authorization(self, authorization: Authorization) -> Self {
        Self {
            authorization,
            ..self
        }
    }

    /// Whether a pod is refused whose service account does not exist, and is shown a token of the
    /// one that it has. Default: no, as in envtest: there is nobody to create accounts.
    pub fn service_account_admission(self, service_accounts: bool) -> Self {
        Self {
            service_accounts,
            ..self
        }
    }

    /// Whether every commit is kept for [`ApiServer::journal`]. Default: no.
    pub fn journal(self, journal: bool) -> Self {
        Self { journal, ..self }
    }

    /// The feature gate `MaxUnavailableStatefulSet`: StatefulSets keep their `maxUnavailable`.
    /// Default: off, as in a cluster.
    pub fn max_unavailable_stateful_set(self, is_on: bool) -> Self {
        Self {
            max_unavailable_stateful_set: is_on,
            ..self
        }
    }

    /// How often a watch that has nothing else to deliver sends a bookmark, if its client allows them;
    /// one more comes shortly before a watch ends. Default: every minute, as in a cluster. Under
    /// virtual time most of an idle cluster's work goes into them.
    pub fn bookmark_period(self, bookmark_period: Duration) -> Self {
        Self {
            bookmark_period,
            ..self
        }
    }

    /// Where webhooks find a service that no pod of this cluster stands behind: port `port` of
    /// service `name` in `namespace` is at `address`. Default: none, so only services are found
    /// whose endpoints are stored.
    pub fn resolve_service(
        mut self,
        namespace: &str,
        name: &str,
        port: u16,
        address: SocketAddr,
    ) -> Self {
        self.services.add(namespace, name, port, address);
        self
    }

    /// Who answers in this process when webhooks of a service are called: port `port` of service
    /// `name` in `namespace`. Default: nobody.
    pub fn answer_service(
        mut self,
        namespace: &str,
        name: &str,
        port: u16,
        webhook: Arc<dyn Webhook>,
    ) -> Self {
        self.services.answer(namespace, name, port, webhook);
        self
    }

    /// The server, holding what a fresh cluster holds: namespaces, the `kubernetes` service, the
    /// roles of system components, flow control, API services.
    #[must_use]
    pub fn build(self) -> ApiServer {
        let (seed, started) = (self.seed, self.clock.now());
        let components = Components::default();
        let running = Arc::clone(&components);
        let initial = Initial {
            revision: bootstrap::revision(),
            objects: Arc::new(move |resource| match resource.resource.as_str() {
                "componentstatuses" => component_status::objects(&running.lock()),
                _ => bootstrap::objects(resource, seed, started),
            }),
        };
        ApiServer::cyclic(|weak| Core {
            max_unavailable_stateful_set: self.max_unavailable_stateful_set,
            bookmark_period: self.bookmark_period,
            faults: Faults::new(self.clock.clone()),
            clock: self.clock,
            entropy: Entropy::seeded(self.seed),
            storage: Arc::new(Storage::new(initial, self.window_events_max, self.journal)),
            catalog: Catalog::builtin(),
            definitions: Definitions::new(),
            token: self.token,
            authorization: self.authorization,
            service_accounts: self.service_accounts,
            openapi: OpenApi::default(),
            tokens: Tokens::default(),
            components,
            kubelet: Mutex::default(),
            metrics: Arc::new(Metrics::default()),
            checked: Checked::default(),
            started,
            webhooks: Configurations::default(),
            tables: Tables::default(),
            services: self.services.asked_by(weak),
            panics: Panics::default(),
            flow_control: FlowControl::default(),
            flow_schema_passes: Passes::default(),
        })
    }
}
