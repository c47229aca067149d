//! The token controller: fills the Secrets that ask for a token of a service account, and deletes
//! them with their account.
//!
//! Source: `pkg/controller/serviceaccount/tokens_controller.go` of Kubernetes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::future::join4;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use kube::api::{DeleteParams, PostParams, Preconditions};
use kube::runtime::watcher;
use kube::{Api, ResourceExt};
use kubeproof_runtime::context::Context;
use kubeproof_runtime::informer::Informer;
use kubeproof_runtime::store::{Change, ObjectKey};
use kubeproof_runtime::sync_error::{Error, answered};
use kubeproof_runtime::work_queue::WorkQueue;
use kubeproof_runtime::worker::{self, Reconcile};
use parking_lot::Mutex;

/// The controller's name: its user agent.
pub const NAME: &str = "tokens-controller";
/// The type of Secrets that hold tokens.
const TOKEN_TYPE: &str = "kubernetes.io/service-account-token";
/// The annotations that name the account of such a Secret.
const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";
/// The keys in the data of such a Secret.
const TOKEN: &str = "token";
const CERTIFICATE: &str = "ca.crt";
const NAMESPACE: &str = "namespace";
/// The number of objects of a kind synced at once.
const WORKERS: usize = 5;

/// A token to be signed.
#[derive(Clone, Copy, Debug)]
pub struct SecretToken<'a> {
    /// The namespace of account and Secret.
    pub namespace: &'a str,
    /// The account's name.
    pub account: &'a str,
    /// The account's uid.
    pub uid: &'a str,
    /// The name of the Secret that is to hold the token.
    pub secret: &'a str,
}

/// Signs tokens with the key of the API server.
pub type SignToken = Arc<dyn Fn(SecretToken<'_>) -> String + Send + Sync>;

struct Controller {
    ctx: Context,
    root_ca: String,
    sign: SignToken,
    secrets_queue: WorkQueue<ObjectKey>,
    /// Accounts that list Secrets which are gone.
    accounts_queue: WorkQueue<ObjectKey>,
    gone: Mutex<BTreeMap<ObjectKey, BTreeSet<String>>>,
    secrets: Informer<Secret>,
    accounts: Informer<ServiceAccount>,
}

/// Runs the controller until the future is dropped.
pub async fn run(ctx: Context, root_ca: String, sign: SignToken) {
    let controller = Controller {
        ctx: ctx.for_component(NAME),
        root_ca,
        sign,
        secrets_queue: WorkQueue::new(),
        accounts_queue: WorkQueue::new(),
        gone: Mutex::default(),
        secrets: Informer::new(),
        accounts: Informer::new(),
    };
    let client = &controller.ctx.client;
    let of_type = watcher::Config::default().fields(&format!("type={TOKEN_TYPE}"));
    let secrets =
        controller
            .secrets
            .run(Api::all(client.clone()), of_type, |change| match change {
                Change::Added(_) | Change::Updated { .. } => {
                    controller.secrets_queue.add(change.key());
                }
                Change::Deleted { last, .. } => controller.forget(last),
            });
    let config = watcher::Config::default();
    let accounts = Api::all(client.clone());
    let accounts = controller.accounts.run(accounts, config, |change| {
        let changed = match change {
            Change::Deleted { last: one, .. } => Some(one),
            Change::Updated { old, new } => (old.uid() != new.uid()).then_some(old),
            Change::Added(_) => None,
        };
        if let Some(account) = changed {
            controller.mark_tokens_of(account);
        }
    });
    let references = async {
        controller.secrets.synced().await;
        worker::run(
            &References(&controller),
            &controller.accounts_queue,
            WORKERS,
        )
        .await;
    };
    let tokens = async {
        controller.secrets.synced().await;
        controller.accounts.synced().await;
        worker::run(&controller, &controller.secrets_queue, WORKERS).await;
    };
    join4(secrets, accounts, references, tokens).await;
}

fn annotation<'a>(secret: &'a Secret, name: &str) -> &'a str {
    secret.annotations().get(name).map_or("", String::as_str)
}

impl Controller {
    /// The account of a Secret that is gone no longer lists it.
    fn forget(&self, secret: &Secret) {
        let key = ObjectKey {
            namespace: secret.namespace().unwrap_or_default(),
            name: annotation(secret, ACCOUNT_NAME).to_owned(),
        };
        let mut gone = self.gone.lock();
        gone.entry(key.clone())
            .or_default()
            .insert(secret.name_any());
        drop(gone);
        self.accounts_queue.add(key);
    }

    fn mark_tokens_of(&self, account: &ServiceAccount) {
        let namespace = account.namespace().unwrap_or_default();
        for secret in self.secrets.in_namespace(&namespace) {
            if annotation(&secret, ACCOUNT_NAME) == account.name_any() {
                self.secrets_queue.add(ObjectKey::of(&*secret));
            }
        }
    }

    /// The account that `secret` is for, if it is there and still the same.
    async fn account_of(&self, secret: &Secret) -> Result<Option<Arc<ServiceAccount>>, Error> {
        let namespace = secret.namespace().unwrap_or_default();
        let (name, uid) = (
            annotation(secret, ACCOUNT_NAME),
            annotation(secret, ACCOUNT_UID),
        );
        let is_meant =
            |account: &ServiceAccount| uid.is_empty() || account.uid().as_deref() == Some(uid);
        if let Some(account) = self.accounts.get(&namespace, name)
            && is_meant(&account)
        {
            return Ok(Some(account));
        }
        // The cache may be behind.
        let api: Api<ServiceAccount> = Api::namespaced(self.ctx.client.clone(), &namespace);
        let live = api.get_opt(name).await?.map(Arc::new);
        Ok(live.filter(|account| is_meant(account)))
    }

    /// The Secret with what it lacks; None when it lacks nothing.
    fn filled(&self, secret: &Secret, account: &ServiceAccount) -> Option<Secret> {
        let mut filled = secret.clone();
        let namespace = secret.namespace().unwrap_or_default();
        let data = filled.data.get_or_insert_default();
        let is_empty = |name: &str| data.get(name).is_none_or(|value| value.0.is_empty());
        let needs_namespace = is_empty(NAMESPACE);
        let needs_token = is_empty(TOKEN);
        let certificate = ByteString(self.root_ca.clone().into_bytes());
        let needs_certificate =
            !self.root_ca.is_empty() && data.get(CERTIFICATE) != Some(&certificate);
        if !(needs_namespace || needs_token || needs_certificate) {
            return None;
        }
        let (name, uid) = (account.name_any(), account.uid().unwrap_or_default());
        if needs_certificate {
            data.insert(CERTIFICATE.to_owned(), certificate);
        }
        if needs_namespace {
            let value = ByteString(namespace.clone().into_bytes());
            data.insert(NAMESPACE.to_owned(), value);
        }
        if needs_token {
            let token = (self.sign)(SecretToken {
                namespace: &namespace,
                account: &name,
                uid: &uid,
                secret: &secret.name_any(),
            });
            data.insert(TOKEN.to_owned(), ByteString(token.into_bytes()));
        }
        let annotations = filled.metadata.annotations.get_or_insert_default();
        annotations.insert(ACCOUNT_NAME.to_owned(), name);
        annotations.insert(ACCOUNT_UID.to_owned(), uid);
        Some(filled)
    }
}

impl Reconcile for Controller {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Option<Duration>, Error> {
        let Some(secret) = self.secrets.get(&key.namespace, &key.name) else {
            return Ok(None);
        };
        let api: Api<Secret> = Api::namespaced(self.ctx.client.clone(), &key.namespace);
        let written = match self.account_of(&secret).await? {
            None => {
                let params = DeleteParams {
                    preconditions: Some(Preconditions {
                        uid: secret.uid(),
                        ..Preconditions::default()
                    }),
                    ..DeleteParams::default()
                };
                api.delete(&key.name, &params).await.map(|_| ())
            }
            Some(account) => match self.filled(&secret, &account) {
                None => Ok(()),
                Some(filled) => api
                    .replace(&key.name, &PostParams::default(), &filled)
                    .await
                    .map(|_| ()),
            },
        };
        match written {
            // Somebody else has changed it: the watch brings that.
            Err(error) if answered(&error, 404) || answered(&error, 409) => Ok(None),
            written => written.map(|()| None).map_err(Error::from),
        }
    }
}

/// Removes deleted Secrets from the lists of their accounts.
struct References<'a>(&'a Controller);

impl Reconcile for References<'_> {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Option<Duration>, Error> {
        let mut gone = self.0.gone.lock().get(key).cloned().unwrap_or_default();
        gone.retain(|name| self.0.secrets.get(&key.namespace, name).is_none());
        let api: Api<ServiceAccount> = Api::namespaced(self.0.ctx.client.clone(), &key.namespace);
        let account = match gone.is_empty() {
            true => None,
            false => api.get_opt(&key.name).await?,
        };
        if let Some(mut account) = account {
            let listed = account.secrets.get_or_insert_default();
            let before = listed.len();
            listed.retain(|own| own.name.as_ref().is_none_or(|name| !gone.contains(name)));
            if listed.len() < before {
                match api
                    .replace(&key.name, &PostParams::default(), &account)
                    .await
                {
                    Err(error) if answered(&error, 404) => {}
                    written => _ = written?,
                }
            }
        }
        let mut pending = self.0.gone.lock();
        if let Some(names) = pending.get_mut(key) {
            names.retain(|name| {
                !gone.contains(name) && self.0.secrets.get(&key.namespace, name).is_none()
            });
            if names.is_empty() {
                pending.remove(key);
            }
        }
        Ok(None)
    }
}
