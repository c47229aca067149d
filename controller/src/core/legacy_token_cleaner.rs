//! The cleaner of legacy tokens. Service accounts once got a Secret with a token each. One that has not been used for a
//! year is marked as invalid, and deleted another year later.
//!
//! Source: pkg/controller/serviceaccount/legacy_serviceaccount_token_cleaner.go of Kubernetes.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{
    ConfigMap, EnvFromSource, EnvVar, PodSpec, Secret, ServiceAccount, Volume,
};
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Api, ResourceExt};
use kubeproof_runtime::clock::later;
use kubeproof_runtime::context::Context;
use kubeproof_runtime::informer::{Informer, Informers};
use kubeproof_runtime::pod::Pod;
use kubeproof_runtime::sync_error::Error;
use serde_json::json;

/// The controller's name: its user agent.
pub const NAME: &str = "legacy-service-account-token-cleaner";
/// The period of the cleanup.
const INTERVAL: Duration = Duration::from_hours(24);
/// The time without use after which a token is marked, and after the mark, deleted
/// (`legacy-service-account-token-clean-up-period`).
const UNUSED: SignedDuration = SignedDuration::from_hours(365 * 24);
/// The type of the Secrets.
const TOKEN_TYPE: &str = "kubernetes.io/service-account-token";
const LAST_USED: &str = "kubernetes.io/legacy-token-last-used";
const INVALID_SINCE: &str = "kubernetes.io/legacy-token-invalid-since";
const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";
/// The ConfigMap in `kube-system` in which the API server keeps the day since when it labels used tokens.
const TRACKING: &str = "kube-apiserver-legacy-service-account-token-tracking";

struct Cleaner {
    ctx: Context,
    accounts: Informer<ServiceAccount>,
    secrets: Informer<Secret>,
    pods: Informer<Pod>,
}

/// Runs the controller until the future is dropped.
pub async fn run(ctx: Context) {
    let cleaner = Cleaner {
        ctx: ctx.for_component(NAME),
        accounts: Informer::new(),
        secrets: Informer::new(),
        pods: Informer::new(),
    };
    let work = async {
        loop {
            if let Err(error) = cleaner.clean().await {
                tracing::warn!(%error, "legacy tokens not cleaned");
            }
            tokio::time::sleep(INTERVAL).await;
        }
    };
    Informers::new(&cleaner.ctx.client)
        .add(&cleaner.accounts, |_| {})
        .add(&cleaner.secrets, |_| {})
        .add(&cleaner.pods, |_| {})
        .run(work)
        .await;
}

impl Cleaner {
    async fn clean(&self) -> Result<(), Error> {
        let now = (self.ctx.now)();
        if !self.is_tracked(now).await? {
            return Ok(());
        }
        for secret in self.secrets.all() {
            let account = secret
                .annotations()
                .get(ACCOUNT_NAME)
                .and_then(|name| self.accounts.get(&namespace(&secret), name));
            let action = action(&secret, account.as_deref(), now);
            if action == Action::Keep || self.is_mounted(&secret) {
                continue;
            }
            if let Err(error) = self.perform(&secret, action).await {
                let (namespace, name) = (namespace(&secret), secret.name_any());
                tracing::warn!(namespace, name, %error, "legacy token not cleaned");
            }
        }
        Ok(())
    }

    /// Whether the API server has labeled used tokens for long enough to tell which are unused.
    async fn is_tracked(&self, now: Timestamp) -> Result<bool, Error> {
        let api: Api<ConfigMap> = Api::namespaced(self.ctx.client.clone(), "kube-system");
        let tracking = api.get(TRACKING).await?;
        let since = tracking.data.as_ref().and_then(|data| data.get("since"));
        let since = since.and_then(|day| day.parse::<Date>().ok());
        // From the next day on each use is known.
        let whole = since.and_then(|day| day.tomorrow().ok()).and_then(midnight);
        Ok(whole.is_some_and(|whole| later(whole, UNUSED) <= now))
    }

    fn is_mounted(&self, secret: &Secret) -> bool {
        let name = secret.name_any();
        let pods = self.pods.in_namespace(&namespace(secret));
        pods.iter()
            .any(|pod| secret_names(pod).contains(name.as_str()))
    }

    async fn perform(&self, secret: &Secret, action: Action) -> Result<(), Error> {
        let name = secret.name_any();
        let api: Api<Secret> = Api::namespaced(self.ctx.client.clone(), &namespace(secret));
        match action {
            Action::Keep => {}
            Action::Mark(day) => {
                let patch = json!({"metadata": {
                    "uid": secret.uid(), "labels": {INVALID_SINCE: day.to_string()},
                }});
                api.patch(&name, &PatchParams::default(), &Patch::Merge(patch))
                    .await?;
            }
            Action::Delete => {
                let params = DeleteParams {
                    preconditions: Some(Preconditions {
                        resource_version: secret.resource_version(),
                        ..Preconditions::default()
                    }),
                    ..DeleteParams::default()
                };
                match api.delete(&name, &params).await.map_err(Error::from) {
                    // It has been used, or it is gone.
                    Err(error) if error.is_conflict() || error.is_not_found() => {}
                    deleted => _ = deleted?,
                }
            }
        }
        Ok(())
    }
}

/// What becomes of a Secret that no pod mounts.
#[derive(Debug, PartialEq, Eq)]
enum Action {
    Keep,
    /// It is labeled as invalid since this day.
    Mark(Date),
    Delete,
}

/// `account` is the one that the Secret names, if it exists.
fn action(secret: &Secret, account: Option<&ServiceAccount>, now: Timestamp) -> Action {
    let limit = later(now, -UNUSED);
    let day = |time: Timestamp| time.to_zoned(TimeZone::UTC).date();
    let created = secret.creation_timestamp().map(|time| time.0);
    if secret.type_.as_deref() != Some(TOKEN_TYPE)
        || created.is_none_or(|created| created >= limit)
        || secret.metadata.deletion_timestamp.is_some()
    {
        return Action::Keep;
    }
    if let Some(used) = secret.labels().get(LAST_USED)
        && used.parse::<Date>().is_ok_and(|used| used >= day(limit))
    {
        return Action::Keep;
    }
    // A label that is no date says nothing.
    let is_unclear = |label: &str| {
        let day = secret.labels().get(label);
        day.is_some_and(|day| day.parse::<Date>().is_err())
    };
    // Only a token that the account lists was made for it by itself.
    if is_unclear(LAST_USED) || !account.is_some_and(|account| lists(account, secret)) {
        return Action::Keep;
    }
    let marked = secret.labels().get(INVALID_SINCE);
    match marked.and_then(|day| day.parse::<Date>().ok()) {
        None => Action::Mark(day(now)),
        Some(marked) if marked >= day(limit) => Action::Keep,
        Some(_) => Action::Delete,
    }
}

/// Whether the Secret is of this very account, and the account lists it.
fn lists(account: &ServiceAccount, secret: &Secret) -> bool {
    let uid = secret.annotations().get(ACCOUNT_UID);
    let is_of = uid.is_none_or(|uid| uid.is_empty() || account.uid().as_ref() == Some(uid));
    let name = secret.name_any();
    let mut listed = account.secrets.iter().flatten();
    is_of && listed.any(|one| one.name.as_deref() == Some(name.as_str()))
}

fn midnight(day: Date) -> Option<Timestamp> {
    let zoned = day.to_zoned(TimeZone::UTC).ok()?;
    Some(zoned.timestamp())
}

fn namespace(secret: &Secret) -> String {
    secret.namespace().unwrap_or_default()
}

/// The names of the Secrets that the pod uses.
fn secret_names(pod: &Pod) -> BTreeSet<&str> {
    let Some(spec) = &pod.spec else {
        return BTreeSet::new();
    };
    let pulled = spec.image_pull_secrets.iter().flatten();
    let volumes = spec.volumes.iter().flatten().flat_map(volume_secrets);
    pulled
        .map(|one| one.name.as_str())
        .chain(volumes)
        .chain(environment_secrets(spec))
        .collect()
}

fn environment_secrets(spec: &PodSpec) -> impl Iterator<Item = &str> {
    type Environment<'a> = (&'a Option<Vec<EnvFromSource>>, &'a Option<Vec<EnvVar>>);

    let init = spec.init_containers.iter().flatten();
    let containers = init.chain(&spec.containers);
    let environments = containers.map(|one| -> Environment<'_> { (&one.env_from, &one.env) });
    let ephemeral = spec.ephemeral_containers.iter().flatten();
    let ephemeral = ephemeral.map(|one| -> Environment<'_> { (&one.env_from, &one.env) });
    environments.chain(ephemeral).flat_map(|(sources, values)| {
        let sources = sources.iter().flatten();
        let whole = sources.filter_map(|source| source.secret_ref.as_ref());
        let values = values.iter().flatten();
        let values = values.filter_map(|value| value.value_from.as_ref()?.secret_key_ref.as_ref());
        whole
            .map(|source| source.name.as_str())
            .chain(values.map(|key| key.name.as_str()))
    })
}

fn volume_secrets(volume: &Volume) -> Vec<&str> {
    let mut names = Vec::new();
    if let Some(source) = &volume.azure_file {
        names.push(source.secret_name.as_str());
    }
    if let Some(source) = &volume.secret {
        names.extend(source.secret_name.as_deref());
    }
    let references = [
        volume
            .cephfs
            .as_ref()
            .and_then(|one| one.secret_ref.as_ref()),
        volume
            .cinder
            .as_ref()
            .and_then(|one| one.secret_ref.as_ref()),
        volume
            .flex_volume
            .as_ref()
            .and_then(|one| one.secret_ref.as_ref()),
        volume.rbd.as_ref().and_then(|one| one.secret_ref.as_ref()),
        volume.scale_io.as_ref().map(|one| &one.secret_ref),
        volume
            .iscsi
            .as_ref()
            .and_then(|one| one.secret_ref.as_ref()),
        volume
            .storageos
            .as_ref()
            .and_then(|one| one.secret_ref.as_ref()),
        volume
            .csi
            .as_ref()
            .and_then(|one| one.node_publish_secret_ref.as_ref()),
    ];
    names.extend(
        references
            .into_iter()
            .flatten()
            .map(|one| one.name.as_str()),
    );
    let projected = volume
        .projected
        .iter()
        .flat_map(|one| one.sources.iter().flatten());
    names.extend(projected.filter_map(|source| Some(source.secret.as_ref()?.name.as_str())));
    names
}

#[cfg(test)]
mod tests {
    use kubeproof_runtime::decode::from_value;
    use serde_json::Value;

    use super::*;

    const NOW: &str = "2028-01-01T12:00:00Z";

    fn secret(changed: &Value) -> Secret {
        let mut object = json!({
            "metadata": {
                "name": "token", "namespace": "shop", "creationTimestamp": "2026-01-01T00:00:00Z",
                "annotations": {ACCOUNT_NAME: "default", ACCOUNT_UID: "u1"},
            },
            "type": TOKEN_TYPE,
        });
        for (path, value) in changed.as_object().unwrap() {
            let (parent, key) = path.rsplit_once('/').unwrap();
            let parent = object.pointer_mut(parent).unwrap();
            parent[key.replace("~1", "/")] = value.clone();
        }
        from_value(object).unwrap()
    }

    fn account(uid: &str, secrets: &[&str]) -> ServiceAccount {
        let secrets: Vec<Value> = secrets.iter().map(|name| json!({"name": name})).collect();
        let object = json!({"metadata": {"name": "default", "uid": uid}, "secrets": secrets});
        from_value(object).unwrap()
    }

    #[test]
    fn an_unused_token_is_marked_and_a_year_later_deleted() {
        let own = account("u1", &["other", "token"]);
        let action =
            |changed: Value| super::action(&secret(&changed), Some(&own), NOW.parse().unwrap());
        let labels = |used: &str, since: &str| {
            let mut labels = serde_json::Map::new();
            for (label, day) in [(LAST_USED, used), (INVALID_SINCE, since)] {
                if !day.is_empty() {
                    labels.insert(label.to_owned(), day.into());
                }
            }
            action(json!({"/metadata/labels": labels}))
        };
        let mark = || Action::Mark("2028-01-01".parse().unwrap());
        assert_eq!(action(json!({})), mark());
        // The limit is 2027-01-01, noon.
        assert_eq!(labels("2026-12-31", ""), mark());
        assert_eq!(labels("2027-01-01", ""), Action::Keep);
        assert_eq!(labels("yesterday", ""), Action::Keep);
        assert_eq!(labels("", "2026-12-31"), Action::Delete);
        assert_eq!(labels("", "2027-01-01"), Action::Keep);
        assert_eq!(labels("", "yesterday"), mark());
        for kept in [
            json!({"/type": "Opaque"}),
            json!({"/metadata/creationTimestamp": "2027-01-01T12:00:00Z"}),
            json!({"/metadata/deletionTimestamp": NOW}),
        ] {
            assert_eq!(action(kept.clone()), Action::Keep, "{kept}");
        }
    }

    #[test]
    fn tokens_that_no_account_lists_were_made_by_hand() {
        let action = |account: Option<&ServiceAccount>, changed: Value| {
            super::action(&secret(&changed), account, NOW.parse().unwrap())
        };
        let any_uid = json!({"/metadata/annotations": {ACCOUNT_NAME: "default"}});
        let (own, other) = (account("u1", &["token"]), account("u2", &["token"]));
        assert_eq!(action(None, json!({})), Action::Keep);
        assert_eq!(action(Some(&account("u1", &[])), json!({})), Action::Keep);
        assert_eq!(action(Some(&other), json!({})), Action::Keep);
        assert!(matches!(action(Some(&other), any_uid), Action::Mark(_)));
        assert!(matches!(action(Some(&own), json!({})), Action::Mark(_)));
    }

    #[test]
    fn all_uses_of_secrets_by_a_pod_are_known() {
        let key = |name: &str| json!([{"name": "A", "valueFrom": {"secretKeyRef": {"name": name, "key": "k"}}}]);
        let pod = json!({"spec": {
            "imagePullSecrets": [{"name": "pull"}],
            "initContainers": [{"name": "i", "env": key("init")}],
            "containers": [{"name": "c", "env": key("env"), "envFrom": [{"secretRef": {"name": "env-from"}}]}],
            "ephemeralContainers": [{"name": "e", "env": key("ephemeral")}],
            "volumes": [
                {"name": "1", "azureFile": {"secretName": "azure", "shareName": "s"}},
                {"name": "2", "cephfs": {"monitors": [], "secretRef": {"name": "ceph"}}},
                {"name": "3", "cinder": {"volumeID": "v", "secretRef": {"name": "cinder"}}},
                {"name": "4", "flexVolume": {"driver": "d", "secretRef": {"name": "flex"}}},
                {"name": "5", "projected": {"sources": [{"secret": {"name": "projected"}}]}},
                {"name": "6", "rbd": {"monitors": [], "image": "i", "secretRef": {"name": "rbd"}}},
                {"name": "7", "secret": {"secretName": "volume"}},
                {"name": "8", "scaleIO": {"gateway": "g", "system": "s", "secretRef": {"name": "scale-io"}}},
                {"name": "9", "iscsi": {"iqn": "i", "lun": 0, "targetPortal": "t", "secretRef": {"name": "iscsi"}}},
                {"name": "a", "storageos": {"secretRef": {"name": "storageos"}}},
                {"name": "b", "csi": {"driver": "d", "nodePublishSecretRef": {"name": "csi"}}},
            ],
        }});
        let pod: Pod = from_value(pod).unwrap();
        let names: Vec<&str> = secret_names(&pod).into_iter().collect();
        assert_eq!(
            names.join(" "),
            "azure ceph cinder csi env env-from ephemeral flex init iscsi projected pull rbd scale-io storageos volume"
        );
    }
}
