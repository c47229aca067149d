//! The signer: the ConfigMap `kube-public/cluster-info` has a signature of its kubeconfig by each bootstrap token that
//! may sign. A node that knows a token checks with it whether a description of the cluster is genuine.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;
use kube::api::PostParams;
use kube::runtime::watcher;
use kubeproof_runtime::context::Context;
use kubeproof_runtime::informer::{Informer, Informers};
use kubeproof_runtime::store::{Change, ObjectKey};
use kubeproof_runtime::sync_error::Error;
use kubeproof_runtime::work_queue::WorkQueue;
use kubeproof_runtime::worker::{self, Reconcile};
use serde_json::json;
use sha2::Sha256;

use super::signing_token;

/// The controller's name: its user agent.
pub const NAME: &str = "bootstrap-signer";
const CONFIG_MAP_NAMESPACE: &str = "kube-public";
const CONFIG_MAP: &str = "cluster-info";
const CONTENT: &str = "kubeconfig";
/// What comes before the token's ID in the key of its signature.
const SIGNATURE_PREFIX: &str = "jws-kubeconfig-";

struct Controller {
    ctx: Context,
    /// The ConfigMap's key alone.
    queue: WorkQueue<ObjectKey>,
    config_maps: Informer<ConfigMap>,
    secrets: Informer<Secret>,
}

/// Runs the controller until the future is dropped.
pub async fn run(ctx: Context) {
    let controller = Controller {
        ctx: ctx.for_component(NAME),
        queue: WorkQueue::new(),
        config_maps: Informer::new(),
        secrets: Informer::new(),
    };
    let client = &controller.ctx.client;
    let config_maps = Api::namespaced(client.clone(), CONFIG_MAP_NAMESPACE);
    let config = watcher::Config::default().fields(&format!("metadata.name={CONFIG_MAP}"));
    let (secrets, tokens) = super::tokens(client);
    Informers::new(client)
        .add_with(&controller.config_maps, config_maps, config, |change| {
            if !matches!(change, Change::Deleted { .. }) {
                controller.queue.add(change.key());
            }
        })
        .add_with(&controller.secrets, secrets, tokens, |_| {
            controller.queue.add(key());
        })
        .run(worker::run(&controller, &controller.queue, 1))
        .await;
}

fn key() -> ObjectKey {
    ObjectKey {
        namespace: CONFIG_MAP_NAMESPACE.to_owned(),
        name: CONFIG_MAP.to_owned(),
    }
}

impl Reconcile for Controller {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Option<Duration>, Error> {
        let Some(cached) = self.config_maps.get(&key.namespace, &key.name) else {
            return Ok(None);
        };
        let now = (self.ctx.now)();
        let tokens = self.secrets.all();
        let tokens = tokens
            .iter()
            .filter_map(|secret| signing_token(secret, now));
        let data = cached.data.clone().unwrap_or_default();
        let Some(signed) = signed(&data, tokens.collect()) else {
            return Ok(None);
        };
        let mut config_map = ConfigMap::clone(&cached);
        config_map.data = Some(signed);
        let api: Api<ConfigMap> = Api::namespaced(self.ctx.client.clone(), &key.namespace);
        let replaced = api
            .replace(&key.name, &PostParams::default(), &config_map)
            .await;
        match replaced.map_err(Error::from) {
            // Whoever changed the ConfigMap has begun a new sync.
            Err(error) if error.is_conflict() || error.is_not_found() => Ok(None),
            Err(error) => Err(error),
            Ok(_) => Ok(None),
        }
    }
}

/// The data with the signatures of `tokens`, secret parts by ID, and no others; None if it has them.
fn signed(
    data: &BTreeMap<String, String>,
    tokens: BTreeMap<String, String>,
) -> Option<BTreeMap<String, String>> {
    let content = data.get(CONTENT)?;
    let mut signed = data.clone();
    signed.retain(|key, _| !key.starts_with(SIGNATURE_PREFIX));
    for (id, token) in tokens {
        let signature = detached_signature(content, &id, &token);
        signed.insert(format!("{SIGNATURE_PREFIX}{id}"), signature);
    }
    (signed != *data).then_some(signed)
}

/// A JSON Web Signature (HS256) without its content, as RFC 7515 has it in appendix F.
fn detached_signature(content: &str, id: &str, token: &str) -> String {
    let header = json!({"alg": "HS256", "kid": id}).to_string();
    let header = URL_SAFE_NO_PAD.encode(header);
    let mut mac = Hmac::<Sha256>::new_from_slice(token.as_bytes()).expect("any key length will do");
    mac.update(format!("{header}.{}", URL_SAFE_NO_PAD.encode(content)).as_bytes());
    let signature = URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes());
    format!("{header}..{signature}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        let pairs = pairs.iter();
        pairs
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    }

    /// Source: staging/src/k8s.io/cluster-bootstrap/token/jws/jws_test.go.
    #[test]
    fn a_signature_is_that_of_kubernetes() {
        let content = "Hello from the other side. I must have called a thousand times.";
        let signature = detached_signature(content, "joshua", "my voice is my passcode");
        assert_eq!(
            signature,
            "eyJhbGciOiJIUzI1NiIsImtpZCI6Impvc2h1YSJ9..VShe2taLd-YTrmWuRkcL_8QTNDHYxQIEBsAYYiIj1_8"
        );
    }

    #[test]
    fn each_token_signs_once_and_those_of_others_go() {
        let data = map(&[
            ("kubeconfig", "a"),
            ("jws-kubeconfig-gone00", "x"),
            ("k", "v"),
        ]);
        let tokens = map(&[("abcdef", "0123456789abcdef")]);
        let first = signed(&data, tokens.clone()).unwrap();
        let keys: Vec<&str> = first.keys().map(String::as_str).collect();
        assert_eq!(keys, ["jws-kubeconfig-abcdef", "k", "kubeconfig"]);
        assert_eq!(signed(&first, tokens), None);
        assert_eq!(signed(&map(&[("k", "v")]), map(&[("abcdef", "x")])), None);
        let without = signed(&first, BTreeMap::new()).unwrap();
        assert_eq!(without, map(&[("k", "v"), ("kubeconfig", "a")]));
    }
}
