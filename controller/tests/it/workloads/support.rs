//! A server, two nodes and selected controllers, with helpers for requests to them.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{Event, ResourceQuotaSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource};
use kubeproof_apiserver::resource_quota::{self, Counted};
use kubeproof_apiserver::{
    ApiServer, Clock, EventType, JournalEntry, SecretToken, certificate_authority, json,
};
use kubeproof_controller::certificates::{Authority, RequestedCertificate};
use kubeproof_controller::credentials::Credentials;
use kubeproof_controller::manager::OnSync;
use kubeproof_controller::{Manager, Options};
use kubeproof_runtime::decode::from_value;
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::support::options;

pub(crate) struct Cluster {
    server: ApiServer,
    client: Client,
    manager: Manager,
    /// The number of syncs by controller.
    syncs: Arc<Mutex<BTreeMap<&'static str, usize>>>,
}

/// A namespaced kind, all of whose objects in these tests are in `default`.
pub(crate) trait Namespaced:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + Debug
    + DeserializeOwned
    + Serialize
{
}

impl<K> Namespaced for K where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned
        + Serialize
{
}

/// The signer of the server's tokens and certificates.
fn credentials(server: &ApiServer) -> Credentials {
    let (tokens, certificates) = (server.clone(), server.clone());
    Credentials {
        sign_token: Arc::new(move |token| {
            tokens.sign_secret_token(SecretToken {
                namespace: token.namespace,
                account: token.account,
                uid: token.uid,
                secret: token.secret,
            })
        }),
        authority: Authority {
            read: |pem| {
                let read = certificate_authority::read_request(pem)?;
                Ok(RequestedCertificate {
                    common_name: read.common_name,
                    organizations: read.organizations,
                    has_dns_names: !read.dns_names.is_empty(),
                    has_email_addresses: !read.email_addresses.is_empty(),
                    has_ip_addresses: read.ip_addresses > 0,
                    has_uris: !read.uris.is_empty(),
                })
            },
            expiry: certificate_authority::expiry,
            sign: Arc::new(move |order| {
                certificates.sign_certificate(certificate_authority::CertificateOrder {
                    request: order.request,
                    usages: order.usages,
                    duration: order.duration,
                })
            }),
        },
    }
}

/// An evaluator that counts a quota's usage as the server does.
fn count_usage(
    spec: &ResourceQuotaSpec,
    objects: &[(&str, &Value)],
    now: Timestamp,
) -> BTreeMap<String, Quantity> {
    let objects = objects.iter();
    let objects: Vec<(&str, json::Value)> = objects
        .map(|&(resource, object)| (resource, object.clone().into()))
        .collect();
    let counted: Vec<Counted<'_>> = objects
        .iter()
        .map(|(resource, object)| Counted { resource, object })
        .collect();
    let spec = json::to_value(spec).unwrap();
    let used = resource_quota::used(&spec, &counted, now).into_iter();
    used.map(|(name, amount)| (name, Quantity(amount)))
        .collect()
}

impl Cluster {
    pub(crate) fn start(controllers: &[&str]) -> Self {
        let clock = Clock::simulated(Timestamp::from_second(1_767_225_600).unwrap());
        let server = ApiServer::builder().clock(clock.clone()).journal().build();
        let client = Client::new(server.clone(), "default");
        let options = Options {
            controllers: controllers.iter().map(|name| (*name).to_owned()).collect(),
            nodes: 2,
            credentials: Some(credentials(&server)),
            count_usage,
            ..options(&clock)
        };
        let syncs: Arc<Mutex<BTreeMap<&str, usize>>> = Arc::default();
        let counted = Arc::clone(&syncs);
        let count: OnSync = Arc::new(move |controller, _| {
            *counted.lock().entry(controller).or_default() += 1;
        });
        let manager = Manager::start_observed(client.clone(), options, count).unwrap();
        Self {
            server,
            client,
            manager,
            syncs,
        }
    }

    /// The number of syncs of a controller so far.
    pub(crate) fn syncs(&self, controller: &str) -> usize {
        self.syncs.lock().get(controller).copied().unwrap_or(0)
    }

    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }

    pub(crate) async fn stop(self) {
        self.manager.shutdown().await;
    }

    /// Advances virtual time until only Leases were written for a minute.
    pub(crate) async fn settle(&self) {
        let mut before = None;
        while before != Some(self.lines().len()) {
            before = Some(self.lines().len());
            tokio::time::sleep(Duration::from_mins(1)).await;
        }
    }

    fn api<K: Namespaced>(&self) -> Api<K> {
        Api::default_namespaced(self.client.clone())
    }

    pub(crate) async fn create<K: Namespaced>(&self, object: Value) {
        self.try_create::<K>(object).await.unwrap();
    }

    pub(crate) async fn try_create<K: Namespaced>(&self, object: Value) -> kube::Result<K> {
        let object: K = from_value(object).unwrap();
        self.api().create(&PostParams::default(), &object).await
    }

    pub(crate) async fn get<K: Namespaced>(&self, name: &str) -> K {
        self.api().get(name).await.unwrap()
    }

    pub(crate) async fn list<K: Namespaced>(&self) -> Vec<K> {
        self.api().list(&ListParams::default()).await.unwrap().items
    }

    pub(crate) async fn patch<K: Namespaced>(&self, name: &str, patch: Value) {
        let patch = Patch::Strategic(patch);
        let api = self.api::<K>();
        api.patch(name, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    pub(crate) async fn delete<K: Namespaced>(&self, name: &str, params: DeleteParams) {
        self.api::<K>().delete(name, &params).await.unwrap();
    }

    /// Returns the reason and message of the events that `component` wrote.
    pub(crate) async fn events(&self, component: &str) -> Vec<String> {
        let events = self.list::<Event>().await;
        let of_component = |event: &&Event| {
            let source = event.source.as_ref();
            source.and_then(|source| source.component.as_deref()) == Some(component)
        };
        let described = |event: &Event| {
            let (reason, message) = (event.reason.clone(), event.message.clone());
            format!("{} {}", reason.unwrap(), message.unwrap())
        };
        events.iter().filter(of_component).map(described).collect()
    }

    /// Returns the largest value of `measure` on the objects of `resource` at any time.
    pub(crate) fn most(
        &self,
        resource: &str,
        measure: impl Fn(&BTreeMap<String, Arc<Value>>) -> i64,
    ) -> i64 {
        let journal = self.server.journal();
        let mut objects = BTreeMap::new();
        let mut most = 0;
        for entry in journal
            .iter()
            .filter(|entry| entry.gvr.resource == resource)
        {
            let name = entry.object["metadata"]["name"].to_string();
            match entry.event {
                EventType::Deleted => objects.remove(&name),
                _ => objects.insert(name, Arc::new(json::Value::clone(&entry.object).into())),
            };
            most = most.max(measure(&objects));
        }
        most
    }

    /// Returns every write except for those of Leases.
    pub(crate) fn lines(&self) -> Vec<String> {
        let journal = self.server.journal();
        let entries = journal
            .iter()
            .filter(|entry| entry.gvr.resource != "leases");
        let described = |entry: &JournalEntry| {
            format!("{} {:?} {}", entry.user_agent, entry.event, *entry.object)
        };
        entries.map(described).collect()
    }
}
