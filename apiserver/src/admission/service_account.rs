//! The service accounts of pods: which one it is, and the token that it is shown.

use super::service_account_secrets::{refers_to_secrets, secret_fault};
use super::{all_of, forbidden, shown_name};
use crate::admission::State;
use crate::json::{Value, json};
use crate::meta::object::{child_mut, name, namespace};
use crate::status::ApiError;

/// The account of pods that name none.
const DEFAULT: &str = "default";
const MIRROR: &str = "kubernetes.io/config.mirror";
const MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const VOLUME_PREFIX: &str = "kube-api-access-";
/// An hour and seven seconds: kubelets recognize the tokens of default volumes by this duration.
const TOKEN_SECONDS: u32 = 3607;

/// Gives a new pod its account, the account's secrets for images, and a volume with a token.
///
/// # Errors
/// `Forbidden` if there is no such account, the account does not list a secret of the pod and has
/// to, or a pod that mirrors one of a node's own has an account or a secret.
pub(super) fn admit_pod(state: &State, pod: &mut Value) -> Result<(), ApiError> {
    let refuse = |pod: &Value, message: String| forbidden("", "pods", shown_name(pod), message);
    let asked = pod["spec"]["serviceAccountName"].as_str();
    let asked = asked.unwrap_or_default().to_owned();
    if !pod["metadata"]["annotations"][MIRROR].is_null() {
        let message = match () {
            () if !asked.is_empty() => "a mirror pod may not reference service accounts",
            () if refers_to_secrets(&pod["spec"]) => "a mirror pod may not reference secrets",
            () if has_token(&pod["spec"]) => {
                "a mirror pod may not use ServiceAccountToken volume projections"
            }
            () => return Ok(()),
        };
        return Err(refuse(pod, message.to_owned()));
    }
    let asked = if asked.is_empty() {
        DEFAULT.to_owned()
    } else {
        asked
    };
    let own = namespace(pod).to_owned();
    let accounts = all_of(state, "", "serviceaccounts");
    let account = accounts
        .iter()
        .find(|account| namespace(account) == own && name(account) == asked);
    let Some(account) = account else {
        let message = format!(
            "error looking up service account {own}/{asked}: serviceaccount {asked:?} not found"
        );
        return Err(refuse(pod, message));
    };
    let spec = child_mut(pod, "spec");
    for field in ["serviceAccountName", "serviceAccount"] {
        spec.insert(field.to_owned(), asked.as_str().into());
    }
    let secrets = &account["imagePullSecrets"];
    let has_secrets = |own: &Value| own.as_array().is_some_and(|own| !own.is_empty());
    if !spec.get("imagePullSecrets").is_some_and(has_secrets) && has_secrets(secrets) {
        spec.insert("imagePullSecrets", secrets.clone());
    }
    let wanted = |owner: &Value| owner["automountServiceAccountToken"].as_bool();
    if wanted(&pod["spec"]).or(wanted(account)).unwrap_or(true) {
        mount_token(state, pod);
    }
    match secret_fault(account, &pod["spec"]) {
        Some(message) => Err(refuse(pod, message)),
        None => Ok(()),
    }
}

fn has_token(spec: &Value) -> bool {
    let volumes = spec["volumes"].as_array();
    let sources = volumes
        .into_iter()
        .flatten()
        .filter_map(|volume| volume["projected"]["sources"].as_array());
    sources
        .flatten()
        .any(|source| !source["serviceAccountToken"].is_null())
}

/// Mounts a token in every container whose mount path is free.
fn mount_token(state: &State, pod: &mut Value) {
    let volumes = pod["spec"]["volumes"].as_array();
    let mut names = volumes
        .into_iter()
        .flatten()
        .filter_map(|volume| volume["name"].as_str());
    // A pod copied from another pod may bring the volume along.
    let brought = names.find(|name| name.starts_with(VOLUME_PREFIX));
    let volume = match brought {
        Some(name) => name.to_owned(),
        None => format!("{VOLUME_PREFIX}{}", state.entropy.name_suffix()),
    };
    let is_brought = brought.is_some();
    let mut mounted = false;
    let spec = child_mut(pod, "spec");
    for list in ["initContainers", "containers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            let mounts = container["volumeMounts"].as_array();
            let mut mounts = mounts.into_iter().flatten();
            if mounts.any(|mount| mount["mountPath"] == MOUNT_PATH) {
                continue;
            }
            let mount = json!({ "name": volume, "readOnly": true, "mountPath": MOUNT_PATH });
            append(container, "volumeMounts", mount);
            mounted = true;
        }
    }
    if mounted && !is_brought {
        append(&mut pod["spec"], "volumes", token_volume(&volume));
    }
}

fn append(owner: &mut Value, list: &str, item: Value) {
    match owner[list].as_array_mut() {
        Some(items) => items.push(item),
        None => owner[list] = json!([item]),
    }
}

fn token_volume(name: &str) -> Value {
    let namespace = json!({
        "path": "namespace",
        "fieldRef": { "apiVersion": "v1", "fieldPath": "metadata.namespace" },
    });
    json!({
        "name": name,
        "projected": {
            "defaultMode": 0o644,
            "sources": [
                { "serviceAccountToken": { "path": "token", "expirationSeconds": TOKEN_SECONDS } },
                { "configMap": {
                    "name": "kube-root-ca.crt",
                    "items": [{ "key": "ca.crt", "path": "ca.crt" }],
                } },
                { "downwardAPI": { "items": [namespace] } },
            ],
        },
    })
}
