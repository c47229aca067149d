//! Publishes the authorities by which cluster components with their own endpoints authenticate callers.

use anyhow::Context;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, Client};
use serde_json::json;

const NAME: &str = "extension-apiserver-authentication";
const NAMESPACE: &str = "kube-system";

/// Removes what another server has published, whose authority was another.
pub(super) async fn withdraw(client: &Client) -> anyhow::Result<()> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    match api.delete(NAME, &DeleteParams::default()).await {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        deleted => deleted.map(drop).context(NAME),
    }
}

/// Publishes `authority`, in PEM, as the authority of client certificates, in the form of kube-apiserver's cluster
/// authentication trust controller. Components started with `--authentication-kubeconfig` look it up as long as they
/// run, and log errors until it exists.
///
/// The administrator's certificate is signed by the server's own authority; `others` are further authorities given by
/// the user, in PEM.
pub(super) async fn publish(
    client: &Client,
    authority: &str,
    others: Option<&str>,
) -> anyhow::Result<()> {
    let of_clients = match others {
        Some(others) => format!("{}\n{others}", authority.trim_end()),
        None => authority.to_owned(),
    };
    let map: ConfigMap = serde_json::from_value(json!({
        "metadata": {"name": NAME, "namespace": NAMESPACE},
        "data": {
            "client-ca-file": of_clients,
            "requestheader-allowed-names": r#"["front-proxy-client"]"#,
            "requestheader-client-ca-file": authority,
            "requestheader-extra-headers-prefix": r#"["X-Remote-Extra-"]"#,
            "requestheader-group-headers": r#"["X-Remote-Group"]"#,
            "requestheader-uid-headers": r#"["X-Remote-Uid"]"#,
            "requestheader-username-headers": r#"["X-Remote-User"]"#,
        },
    }))?;
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    match api.create(&PostParams::default(), &map).await {
        // `--load` has brought one.
        Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
        created => created.map(drop).context(NAME),
    }
}
