//! How a server is set up.

use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};

use super::{ApiServer, Core};
use crate::auth::Tokens;
use crate::clock::{Clock, Entropy};
use crate::registry::catalog::Catalog;
use crate::registry::definition::Definitions;
use crate::registry::store::Store;
use crate::storage::Storage;

/// Namespaces that a fresh server has.
const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];
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
    journal: bool,
}

impl Default for ApiServerBuilder {
    fn default() -> Self {
        Self {
            clock: Clock::real(),
            seed: 0,
            window_events_max: WINDOW_EVENTS,
            token: None,
            journal: false,
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

    /// Whether every commit is kept for [`ApiServer::journal`]. Default: no.
    pub fn journal(self, journal: bool) -> Self {
        Self { journal, ..self }
    }

    /// The server, holding the namespaces of a fresh cluster and its `kubernetes` service.
    #[must_use]
    pub fn build(self) -> ApiServer {
        let core = Core {
            clock: self.clock,
            entropy: Entropy::seeded(self.seed),
            storage: Storage::new(self.window_events_max, self.journal),
            catalog: Catalog::builtin(),
            definitions: Definitions::new(),
            token: self.token,
            openapi_index: OnceLock::new(),
            tokens: Tokens::default(),
        };
        for namespace in NAMESPACES {
            create(
                &core,
                "Namespace",
                "namespaces",
                None,
                json!({ "metadata": { "name": namespace } }),
            );
        }
        create(
            &core,
            "Service",
            "services",
            Some("default"),
            kubernetes_service(),
        );
        ApiServer {
            core: Arc::new(core),
        }
    }
}

fn kubernetes_service() -> Value {
    json!({
        "metadata": {
            "name": "kubernetes",
            "labels": { "component": "apiserver", "provider": "kubernetes" },
        },
        "spec": {
            "clusterIP": "10.0.0.1",
            "ports": [{ "name": "https", "port": 443, "targetPort": 6443 }],
        },
    })
}

fn create(core: &Core, kind: &str, plural: &str, namespace: Option<&str>, mut object: Value) {
    object["kind"] = kind.into();
    object["apiVersion"] = "v1".into();
    let resource = core
        .catalog
        .resource("", "v1", plural)
        .expect("core resources are built in");
    let store = Store {
        core,
        resource,
        strategy: resource.strategy(),
        user_agent: &Arc::from(""),
        writer: None,
        guards_uid: true,
        dry_run: false,
    };
    store
        .create(namespace, object)
        .expect("the initial objects are valid");
}
