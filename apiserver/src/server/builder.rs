//! The builder of a server.

mod identity;

use std::net::SocketAddr;
use std::sync::{Arc, LazyLock, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;

use super::flags::{FeatureGates, RuntimeConfig};
use super::flow_control::FlowControl;
use super::livelock::{LivelockLimits, Livelocks};
use super::local_webhooks::{LocalWebhooks, Webhook};
use super::offload::Offload;
use super::panics::Panics;
use super::{AFTER_WRITE, ApiServer, Components, Core, LazyAuthority, ServerState, bootstrap};
use crate::admission::listers::Listers;
use crate::admission::optional::event_rate_limit::Buckets;
use crate::admission::webhook::Configurations;
use crate::admission::{AdmissionConfiguration, AdmissionPlugins};
use crate::api_services::ApiServices;
use crate::audit::Audit;
use crate::auth::{self, Authenticators, Authorizers, LastModes, TokenKeys};
use crate::auth::{TokenSettings, Tokens};
use crate::certificate_authority::CertificateAuthority;
use crate::clock::{Clock, Entropy, Seed};
use crate::cluster::Cluster;
use crate::endpoints::deadline::RequestTimeouts;
use crate::endpoints::health::Checked;
#[cfg(feature = "openapi")]
use crate::endpoints::openapi::OpenApi;
use crate::endpoints::pace::{Pace, Pacer};
use crate::endpoints::watch::BOOKMARK_PERIOD;
use crate::fault::Faults;
use crate::metric_values::MetricValues;
use crate::metrics::Metrics;
use crate::metrics::admission::Plugin;
use crate::registry::Passes;
use crate::registry::catalog::Catalog;
use crate::registry::core::service::ServiceRanges;
use crate::registry::definitions::Definitions;
#[cfg(test)]
use crate::registry::{ApiGroup, GroupSource};
#[cfg(test)]
use crate::schema;
use crate::storage::{Initial, Storage, WindowLimits};
use crate::webhook::{Identity, Services};
use crate::x509::Authorities;
use crate::{admission, endpoints, registry, store};

/// The default number of past events remembered per resource.
const WINDOW_EVENTS: usize = 4096;

/// The default size of the past events remembered per resource, in bytes.
const WINDOW_BYTES: usize = 64 * 1024 * 1024;

/// The reason why authorities of client certificates cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct AuthorityError(String);

/// Settings of an [`ApiServer`].
#[derive(Clone, Debug)]
#[must_use]
pub struct ApiServerBuilder {
    clock: Clock,
    seed: Option<u64>,
    is_random: bool,
    window: WindowLimits,
    token: Option<String>,
    asks_for_credentials: bool,
    client_authorities: Option<Arc<Authorities>>,
    own_hosts: Vec<String>,
    authorizers: Authorizers,
    runtime_config: RuntimeConfig,
    admission_plugins: AdmissionPlugins,
    admission_configuration: AdmissionConfiguration,
    journal: bool,
    service_ranges: ServiceRanges,
    max_unavailable_stateful_set: bool,
    bookmark_period: Duration,
    pace: Option<Pace>,
    timeouts: RequestTimeouts,
    services: Services,
    proxy_client: Option<Arc<Identity>>,
    local_webhooks: LocalWebhooks,
    token_keys: Option<TokenKeys>,
    authenticators: Authenticators,
    token_settings: TokenSettings,
    livelock_limits: Option<LivelockLimits>,
    audit: Option<Audit>,
    state: Option<ServerState>,
    /// The resources that are not custom, if they are not those of Kubernetes.
    catalog: Option<Arc<Catalog>>,
}

/// The certificates in a PEM text, of which there is at least one.
fn authorities(pem: &[u8]) -> Result<Authorities, AuthorityError> {
    let authorities = match pem {
        [] => Err("there is no certificate".to_owned()),
        pem => Authorities::read(pem),
    };
    authorities.map_err(AuthorityError)
}

impl Default for ApiServerBuilder {
    fn default() -> Self {
        Self {
            clock: Clock::real(),
            seed: None,
            is_random: false,
            window: WindowLimits {
                events: WINDOW_EVENTS,
                bytes: WINDOW_BYTES,
            },
            token: None,
            asks_for_credentials: false,
            client_authorities: None,
            own_hosts: Vec::new(),
            authorizers: Authorizers::default(),
            runtime_config: RuntimeConfig::default(),
            admission_plugins: AdmissionPlugins::default(),
            admission_configuration: AdmissionConfiguration::default(),
            journal: false,
            service_ranges: ServiceRanges::DEFAULT,
            max_unavailable_stateful_set: false,
            bookmark_period: BOOKMARK_PERIOD,
            pace: None,
            timeouts: RequestTimeouts::DEFAULT,
            services: Services::default(),
            proxy_client: None,
            local_webhooks: LocalWebhooks::default(),
            token_keys: None,
            authenticators: Authenticators::default(),
            token_settings: TokenSettings::default(),
            livelock_limits: None,
            audit: None,
            catalog: None,
            state: None,
        }
    }
}

impl ApiServerBuilder {
    /// Sets the clock of the server. Default: the machine's clock.
    pub fn clock(self, clock: Clock) -> Self {
        Self { clock, ..self }
    }

    /// Seed of uids, name suffixes, and the key that signs tokens of service accounts. Default: 0.
    pub fn seed(self, seed: u64) -> Self {
        Self {
            seed: Some(seed),
            ..self
        }
    }

    /// Draws uids, name suffixes and the key that signs tokens from the machine's randomness, so
    /// that no client can predict them; a seed then determines the initial objects alone. Default:
    /// from the seed.
    pub fn random(self) -> Self {
        Self {
            is_random: true,
            ..self
        }
    }

    /// Keys that sign and verify the tokens of service accounts. Default: one is made.
    pub fn service_account_keys(self, keys: TokenKeys) -> Self {
        Self {
            token_keys: Some(keys),
            ..self
        }
    }

    /// Issuers of the tokens of service accounts: the first issues, the others' tokens count too, and
    /// all are audiences of the server. Default: `https://kubernetes.default.svc`.
    pub fn service_account_issuers(mut self, issuers: Vec<String>) -> Self {
        self.token_settings.issuers = issuers;
        self
    }

    /// Past events remembered per resource; older versions are Expired. Default: 4096.
    pub fn watch_window_events(mut self, window_events_max: usize) -> Self {
        self.window.events = window_events_max;
        self
    }

    /// Bytes of the JSON of past events remembered per resource, whatever their number; older
    /// versions are Expired. Default: 64 MiB.
    pub fn watch_window_bytes(mut self, window_bytes_max: usize) -> Self {
        self.window.bytes = window_bytes_max;
        self
    }

    /// The administrator's bearer token; other users have the permissions of their roles. Default:
    /// none, and a client without a service account's token is the administrator.
    pub fn token(self, token: Option<String>) -> Self {
        Self { token, ..self }
    }

    /// Authorities, in PEM, of the certificates by which clients over TLS are known: the common name is
    /// the user, the organizations are its groups. Default: none.
    ///
    /// # Errors
    /// When the text holds no certificate.
    pub fn client_authorities(self, pem: &[u8]) -> Result<Self, AuthorityError> {
        Ok(Self {
            client_authorities: Some(Arc::new(authorities(pem)?)),
            ..self
        })
    }

    /// Takes a client on a socket that shows no credentials for `system:anonymous`, although there is no
    /// administrator's token. Default: such a client is the administrator.
    pub fn ask_for_credentials(self) -> Self {
        Self {
            asks_for_credentials: true,
            ..self
        }
    }

    /// Names by which clients on a socket reach a server that asks for no credentials; requests for
    /// others are refused, as they may come from a web page. Default: addresses, `localhost`, and the
    /// names of the `kubernetes` service.
    pub fn own_hosts(self, own_hosts: Vec<String>) -> Self {
        Self { own_hosts, ..self }
    }

    /// Enables the ServiceAccount plugin: it refuses pods whose service account does not exist, and
    /// mounts a token of an account that does. Default: off, as in envtest, where no controller
    /// creates accounts.
    pub fn service_account_admission(self) -> Self {
        let plugins = self.admission_plugins;
        self.admission_plugins(plugins.with(Plugin::ServiceAccount, true))
    }

    /// The admission plugins that are on. Default: those of a cluster without ServiceAccount.
    pub fn admission_plugins(self, plugins: AdmissionPlugins) -> Self {
        Self {
            admission_plugins: plugins,
            ..self
        }
    }

    /// The configuration of admission plugins. Default: none, so PodSecurity refuses only what
    /// labels of namespaces say.
    pub fn admission_configuration(self, configuration: AdmissionConfiguration) -> Self {
        Self {
            admission_configuration: configuration,
            ..self
        }
    }

    /// Keeps every commit for [`ApiServer::journal`]. Default: none.
    pub fn journal(self) -> Self {
        Self {
            journal: true,
            ..self
        }
    }

    /// The addresses and node ports that services can have. Default: 10.0.0.0/24 and 30000 to 32767.
    pub fn service_ranges(self, service_ranges: ServiceRanges) -> Self {
        Self {
            service_ranges,
            ..self
        }
    }

    /// Enables the feature gate `MaxUnavailableStatefulSet`: StatefulSets keep their `maxUnavailable`.
    /// Default: off, as in a cluster.
    pub fn max_unavailable_stateful_set(self) -> Self {
        Self {
            max_unavailable_stateful_set: true,
            ..self
        }
    }

    /// Which built-in APIs are served. Default: all that there are.
    pub fn runtime_config(self, runtime_config: RuntimeConfig) -> Self {
        Self {
            runtime_config,
            ..self
        }
    }

    /// The settings of all feature gates. Default: those of a cluster.
    pub fn feature_gates(self, gates: &FeatureGates) -> Self {
        Self {
            max_unavailable_stateful_set: gates.max_unavailable_stateful_set(),
            ..self
        }
    }

    /// Sets the period of bookmarks on an idle watch whose client allows them; another bookmark
    /// comes shortly before a watch ends. Default: a minute, as in a cluster. Under virtual time,
    /// bookmarks are most of an idle cluster's work.
    pub fn bookmark_period(self, bookmark_period: Duration) -> Self {
        Self {
            bookmark_period,
            ..self
        }
    }

    /// Sets how long requests may take. Default: [`RequestTimeouts::DEFAULT`].
    pub fn request_timeouts(self, timeouts: RequestTimeouts) -> Self {
        Self { timeouts, ..self }
    }

    /// Takes the time for requests that a server with etcd takes, for tests that race a faster one. Default: no time.
    pub fn pace(self, pace: Pace) -> Self {
        Self {
            pace: Some(pace),
            ..self
        }
    }

    /// Limits the requests of a client within one instant of a simulated clock. A client over a
    /// limit gets no more answers, and [`ApiServer::livelocks`] names it. Default: no limits.
    pub fn livelock_limits(self, limits: LivelockLimits) -> Self {
        Self {
            livelock_limits: Some(limits),
            ..self
        }
    }

    /// Audits requests, and hands the events to the sinks of `audit`. Default: no auditing.
    pub fn audit(self, audit: Audit) -> Self {
        Self {
            audit: Some(audit),
            ..self
        }
    }

    /// Sets the address of a webhook service without pods in this cluster: port `port` of service
    /// `name` in `namespace` is at `address`. Default: none, so only services with stored endpoints
    /// are found.
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

    /// Authorities, in PEM, that sign the certificates of webhooks whose configuration has no `caBundle`: the trust roots
    /// of the machine of a kube-apiserver. Default: none, so such a webhook fails.
    ///
    /// # Errors
    /// When the text holds no certificate.
    pub fn webhook_authorities(mut self, pem: &[u8]) -> Result<Self, AuthorityError> {
        authorities(pem)?;
        self.services.trust(pem);
        Ok(self)
    }

    /// Serves the webhooks of a service in this process: port `port` of service `name` in
    /// `namespace`. Default: none.
    pub fn answer_service(
        mut self,
        namespace: &str,
        name: &str,
        port: u16,
        webhook: Arc<dyn Webhook>,
    ) -> Self {
        let service = (namespace.to_owned(), name.to_owned(), port);
        self.local_webhooks.add(service, webhook);
        self
    }

    /// Begins with the stored state of another server instead of a fresh cluster. Versions go on
    /// from there, and older ones are Expired; the clock and the keys are the new server's own.
    /// Default: a fresh cluster.
    pub fn holding(self, state: ServerState) -> Self {
        Self {
            state: Some(state),
            ..self
        }
    }

    /// Serves the metrics APIs: `metrics.k8s.io` as metrics-server does, `custom.metrics.k8s.io` and
    /// `external.metrics.k8s.io` with the values of [`ApiServer::put_metric`]. Default: none of them, as in a cluster
    /// without such servers.
    pub fn metrics_apis(self) -> Self {
        Self {
            catalog: Some(Arc::clone(registry::metrics::catalog())),
            ..self
        }
    }

    /// Serves a group that Kubernetes does not have, once in a process. Upstream: `InstallAPIGroup`.
    #[cfg(test)]
    pub(crate) fn install_api_group(self, group: &ApiGroup, source: &GroupSource) -> Self {
        schema::install(source.types);
        let catalog = Catalog::builtin().with_group(group, source.resources);
        Self {
            catalog: Some(Arc::new(catalog)),
            ..self
        }
    }

    /// Builds the server with the objects of a fresh cluster: namespaces, the `kubernetes` service,
    /// the roles of system components, flow control, API services.
    #[must_use]
    pub fn build(self) -> ApiServer {
        let machine = || self.is_random.then(Seed::of_the_machine);
        let given = Seed::number(self.seed.unwrap_or_default());
        let drawn = machine().unwrap_or(given);
        let secret = machine().unwrap_or(given);
        let started = self.clock.now();
        let initial_seed = self.seed.map_or(drawn, |_| given);
        let fresh = (initial_seed, started, self.service_ranges);
        let token_keys = self.token_keys;
        let make_keys = move || token_keys.unwrap_or_else(|| TokenKeys::from_seed(secret));
        let make_authority = move || CertificateAuthority::from_seed(secret, started);
        let authority: Arc<LazyAuthority> = Arc::new(LazyLock::new(Box::new(make_authority)));
        let client_authorities = self.client_authorities.map(|given| {
            let own = Authorities::read(authority.pem().as_bytes());
            Arc::new(given.and(own.expect("the authority is written as it is read")))
        });
        let components = Components::default();
        let running = Arc::clone(&components);
        let is_fresh = self.state.is_none();
        let begun = self.state.as_ref().map(ServerState::resource_version);
        let catalog = (self.catalog).unwrap_or_else(|| Arc::clone(Catalog::builtin()));
        let has_metrics = catalog.group(registry::metrics::RESOURCE).is_some();
        let initial = Initial {
            resource_version: begun.unwrap_or_else(registry::bootstrap::resource_version),
            is_fresh,
            objects: Arc::new(move |resource| match resource.resource.as_str() {
                "componentstatuses" => bootstrap::component_statuses(&running.lock()),
                _ if !is_fresh => Vec::new(),
                _ => bootstrap::objects(resource, fresh, has_metrics),
            }),
        };
        let served = self.runtime_config.served(&catalog);
        let server = ApiServer::cyclic(|weak| {
            let services = self.services;
            let cluster = Cluster {
                clock: self.clock.clone(),
                entropy: Entropy::seeded(drawn),
                storage: Arc::new(Storage::new(initial, self.window, self.journal)),
                definitions: Definitions::new(&served),
                catalog,
                served,
                metrics: Arc::new(Metrics::default()),
                services: services.with_local(self.local_webhooks.called_by(weak)),
                api_services: ApiServices::with_identity(self.proxy_client),
            };
            let auth = auth::State {
                cluster,
                token: self.token,
                asks_for_credentials: self.asks_for_credentials,
                client_authorities,
                authenticators: self.authenticators,
                own_hosts: self.own_hosts,
                authorizers: self.authorizers,
                tokens: Tokens::new(self.token_settings, Box::new(make_keys)),
                last_modes: LastModes::default(),
            };
            let admission = admission::State {
                auth,
                webhooks: Configurations::default(),
                listers: Listers::default(),
                plugins: self.admission_plugins,
                configuration: Arc::new(self.admission_configuration),
                event_buckets: Buckets::default(),
            };
            let store = store::State {
                admission,
                service_ranges: self.service_ranges,
                max_unavailable_stateful_set: self.max_unavailable_stateful_set,
                flow_schema_passes: Passes::default(),
                after_write: AFTER_WRITE,
            };
            let state = endpoints::State {
                store,
                kubelet: Mutex::default(),
                metric_values: MetricValues::default(),
                bookmark_period: self.bookmark_period,
                pacer: self.pace.map(Pacer::new),
                timeouts: self.timeouts,
                faults: Faults::new(self.clock),
            };
            Core {
                state,
                #[cfg(feature = "openapi")]
                openapi: OpenApi::default(),
                authority,
                external_url: OnceLock::new(),
                components,
                checked: Checked::default(),
                started,
                local_webhooks: self.local_webhooks,
                panics: Panics::default(),
                livelocks: Livelocks::new(self.livelock_limits),
                flow_control: FlowControl::default(),
                offload: Offload::new(),
                audit: self.audit,
            }
        });
        if let Some(state) = self.state {
            server.hold(state);
        }
        server
    }
}
