//! The APIServices whose group version a service of the cluster serves.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use parking_lot::{Mutex, RwLock};

use crate::json::Value;
use crate::meta::GroupVersion;
use crate::meta::object::name;
use crate::meta::version::compare as compare_versions;
use crate::registry::unstructured::{items, text};
use crate::storage::{Snapshot, Storage, Table};
use crate::webhook::{Identity, ServicePort};

/// The API group of APIServices.
pub(crate) const GROUP: &str = "apiregistration.k8s.io";
pub(crate) const VERSION: &str = "v1";
pub(crate) const PLURAL: &str = "apiservices";

/// The port of a service that names none.
const PORT: u16 = 443;

/// An APIService with a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Backend {
    pub(crate) group_version: GroupVersion,
    /// Namespace, name and port.
    pub(crate) service: ServicePort,
    /// The authorities that sign the certificate, in PEM; empty without any.
    pub(crate) ca_bundle: Vec<u8>,
    /// Whether any certificate is good.
    pub(crate) is_insecure: bool,
}

impl Backend {
    /// The name of the APIService.
    pub(crate) fn name(&self) -> String {
        let GroupVersion { group, version } = &self.group_version;
        format!("{version}.{group}")
    }

    /// The path of its discovery document.
    pub(crate) fn path(&self) -> String {
        let GroupVersion { group, version } = &self.group_version;
        format!("/apis/{group}/{version}")
    }

    /// The name that its certificate must have.
    pub(crate) fn host(&self) -> String {
        let (namespace, name, _) = &self.service;
        format!("{name}.{namespace}.svc")
    }

    fn of(spec: &Value) -> Option<Self> {
        let service = spec.get("service").filter(|service| service.is_object())?;
        let field = |field: &str| text(&service[field]).to_owned();
        let port = service["port"].as_u64();
        let port = port.and_then(|port| port.try_into().ok()).unwrap_or(PORT);
        Some(Self {
            group_version: group_version(spec),
            service: (field("namespace"), field("name"), port),
            ca_bundle: STANDARD.decode(text(&spec["caBundle"])).unwrap_or_default(),
            is_insecure: spec["insecureSkipTLSVerify"] == true,
        })
    }
}

/// A backend and the state of its condition.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) backend: Arc<Backend>,
    /// Whether the condition `Available` is true.
    pub(crate) is_available: bool,
}

/// All APIServices at one time.
#[derive(Debug)]
pub(crate) struct Registered {
    snapshot: Snapshot,
    /// The APIServices with a service.
    pub(crate) remote: BTreeMap<GroupVersion, Entry>,
    /// The names of the APIServices without a service whose condition says something else.
    pub(crate) misjudged: Vec<String>,
    /// The versions of every group, both in the order of discovery.
    pub(crate) order: Vec<(String, Vec<String>)>,
}

/// The documents of a version, from its backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Discovered {
    /// The resources, in the form of `APIVersionDiscovery`.
    pub(crate) document: Value,
    /// The path and query of the OpenAPI document, if its index names one.
    pub(crate) openapi: Option<String>,
}

/// The APIServices of a server, read again when they change, and what their backends serve.
#[derive(Debug, Default)]
pub(crate) struct ApiServices {
    table: OnceLock<Arc<Table>>,
    registered: RwLock<Option<Arc<Registered>>>,
    discovered: Mutex<BTreeMap<GroupVersion, Discovered>>,
    /// The certificate by which the server shows itself to backends.
    pub(crate) identity: Option<Arc<Identity>>,
}

impl ApiServices {
    /// The APIServices of a server that shows itself by this certificate.
    pub(crate) fn with_identity(identity: Option<Arc<Identity>>) -> Self {
        Self {
            identity,
            ..Self::default()
        }
    }

    /// The APIServices of a fork.
    pub(crate) fn forked(&self) -> Self {
        let discovered = self.discovered.lock().clone();
        Self {
            discovered: Mutex::new(discovered),
            ..Self::with_identity(self.identity.clone())
        }
    }

    /// The table that holds the APIServices.
    pub(crate) fn table(&self, storage: &Storage) -> &Arc<Table> {
        self.table.get_or_init(|| storage.table_of(GROUP, PLURAL))
    }

    /// The present APIServices.
    pub(crate) fn registered(&self, storage: &Storage) -> Arc<Registered> {
        let table = self.table(storage);
        let held = self.registered.read().clone();
        if let Some(held) = held.filter(|held| table.is_as_in(&held.snapshot)) {
            return held;
        }
        let registered = Arc::new(Registered::of(table.snapshot()));
        *self.registered.write() = Some(Arc::clone(&registered));
        registered
    }

    /// Notes what a backend has said about a version.
    pub(crate) fn discover(&self, version: &GroupVersion, said: Discovered) {
        self.discovered.lock().insert(version.clone(), said);
    }

    /// The last documents of a version from its backend.
    pub(crate) fn discovered(&self, version: &GroupVersion) -> Option<Discovered> {
        self.discovered.lock().get(version).cloned()
    }

    /// Forgets the versions that `registered` does not have.
    pub(crate) fn retain(&self, registered: &Registered) {
        let mut discovered = self.discovered.lock();
        discovered.retain(|version, _| registered.remote.contains_key(version));
    }
}

impl Registered {
    fn of(snapshot: Snapshot) -> Self {
        let mut remote = BTreeMap::new();
        let mut misjudged = Vec::new();
        let mut ranked = Vec::new();
        for stored in snapshot.range(None, None) {
            let service = stored.fields(&["metadata.name", "spec", "status"]);
            let spec = &service["spec"];
            let version = group_version(spec);
            let priority = |field: &str| Reverse(spec[field].as_i64().unwrap_or_default());
            ranked.push((
                priority("groupPriorityMinimum"),
                name(&service).to_owned(),
                priority("versionPriority"),
                version.clone(),
            ));
            let mut conditions = items(&service["status"]["conditions"]);
            let available = conditions.find(|own| own["type"] == "Available");
            let is_available = available.is_some_and(|own| own["status"] == "True");
            match Backend::of(spec) {
                Some(backend) => {
                    let backend = Arc::new(backend);
                    let entry = Entry {
                        backend,
                        is_available,
                    };
                    remote.insert(version, entry);
                }
                None if !available.is_some_and(|own| own["reason"] == "Local") => {
                    misjudged.push(name(&service).to_owned());
                }
                None => {}
            }
        }
        Self {
            remote,
            misjudged,
            order: ordered(ranked),
            snapshot,
        }
    }
}

fn group_version(spec: &Value) -> GroupVersion {
    GroupVersion {
        group: text(&spec["group"]).to_owned(),
        version: text(&spec["version"]).to_owned(),
    }
}

type Priority = Reverse<i64>;

/// Groups by the highest priority and then the name of their APIServices, versions by priority and then by age.
fn ordered(
    mut ranked: Vec<(Priority, String, Priority, GroupVersion)>,
) -> Vec<(String, Vec<String>)> {
    ranked.sort();
    let mut groups: Vec<(String, Vec<(Priority, String)>)> = Vec::new();
    for (_, _, priority, GroupVersion { group, version }) in ranked {
        match groups.iter_mut().find(|(own, _)| *own == group) {
            Some((_, versions)) => versions.push((priority, version)),
            None => groups.push((group, vec![(priority, version)])),
        }
    }
    let sorted = groups.into_iter().map(|(group, mut versions)| {
        versions.sort_by(|(left, own), (right, other)| {
            left.cmp(right).then_with(|| compare_versions(own, other))
        });
        let versions = versions.into_iter().map(|(_, version)| version);
        (group, versions.collect())
    });
    sorted.collect()
}
