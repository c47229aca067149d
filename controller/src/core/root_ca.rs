//! The root CA certificate publisher: every namespace has the certificate by which its pods know
//! the API server.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::PostParams;
use kube::runtime::watcher;
use kube::{Api, ResourceExt};
use kubeproof_runtime::context::Context;
use kubeproof_runtime::informer::{Informer, Informers};
use kubeproof_runtime::store::{Change, ObjectKey};
use kubeproof_runtime::sync_error::Error;
use kubeproof_runtime::work_queue::WorkQueue;
use kubeproof_runtime::worker::{self, Reconcile};

/// The controller's name: its user agent.
pub const NAME: &str = "root-ca-cert-publisher";

const CONFIG_MAP: &str = "kube-root-ca.crt";
const KEY: &str = "ca.crt";
const DESCRIPTION: &str = "kubernetes.io/description";
const DESCRIBED: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when \
    using internal endpoints such as the internal service IP or \
    kubernetes.default.svc. No other usage is guaranteed across distributions \
    of Kubernetes clusters.";

struct Controller {
    ctx: Context,
    root_ca: String,
    /// Namespaces, by name alone.
    queue: WorkQueue<ObjectKey>,
    namespaces: Informer<Namespace>,
    config_maps: Informer<ConfigMap>,
}

/// Publishes `root_ca` until the future is dropped.
pub async fn run(ctx: Context, root_ca: String) {
    let controller = Controller {
        ctx: ctx.for_component(NAME),
        root_ca,
        queue: WorkQueue::new(),
        namespaces: Informer::new(),
        config_maps: Informer::new(),
    };
    let config_maps = Api::all(controller.ctx.client.clone());
    let config = watcher::Config::default().fields(&format!("metadata.name={CONFIG_MAP}"));
    Informers::new(&controller.ctx.client)
        .add(&controller.namespaces, |change| {
            if !matches!(change, Change::Deleted { .. }) {
                controller.queue.add(change.key());
            }
        })
        .add_with(&controller.config_maps, config_maps, config, |change| {
            if let Change::Deleted { last: one, .. } | Change::Updated { new: one, .. } = change {
                controller.queue.add(ObjectKey {
                    namespace: String::new(),
                    name: one.namespace().unwrap_or_default(),
                });
            }
        })
        .run(worker::run(&controller, &controller.queue, 1))
        .await;
}

impl Reconcile for Controller {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Option<Duration>, Error> {
        let Some(namespace) = self.namespaces.get("", &key.name) else {
            return Ok(None);
        };
        let phase = namespace
            .status
            .as_ref()
            .and_then(|status| status.phase.as_deref());
        if phase == Some("Terminating") {
            return Ok(None);
        }
        let api: Api<ConfigMap> = Api::namespaced(self.ctx.client.clone(), &key.name);
        let params = PostParams::default();
        let data = BTreeMap::from([(KEY.to_owned(), self.root_ca.clone())]);
        let Some(known) = self.config_maps.get(&key.name, CONFIG_MAP) else {
            let config_map = ConfigMap {
                metadata: ObjectMeta {
                    name: Some(CONFIG_MAP.to_owned()),
                    annotations: Some(described()),
                    ..ObjectMeta::default()
                },
                data: Some(data),
                ..ConfigMap::default()
            };
            return match api.create(&params, &config_map).await.map_err(Error::from) {
                // Somebody else was faster, or the namespace is going away.
                Err(error) if error.is_already_exists() || error.is_namespace_terminating() => {
                    Ok(None)
                }
                created => created.map(|_| None),
            };
        };
        let is_described =
            known.annotations().get(DESCRIPTION).map(String::as_str) == Some(DESCRIBED);
        if known.data.as_ref() == Some(&data) && is_described {
            return Ok(None);
        }
        let mut config_map = ConfigMap::clone(&known);
        config_map.data = Some(data);
        config_map
            .metadata
            .annotations
            .get_or_insert_default()
            .extend(described());
        api.replace(CONFIG_MAP, &params, &config_map).await?;
        Ok(None)
    }
}

fn described() -> BTreeMap<String, String> {
    BTreeMap::from([(DESCRIPTION.to_owned(), DESCRIBED.to_owned())])
}
