//! Publishes the authorities by which cluster components with their own endpoints authenticate callers.

use anyhow::Context;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, Client};
use kubeproof_apiserver::RequestHeaders;
use kubeproof_machinery::json::json;
use kubeproof_runtime::decode::from_value;

const NAME: &str = "extension-apiserver-authentication";
const NAMESPACE: &str = "kube-system";
/// The name by which the server shows itself to the services of APIServices.
pub(super) const PROXY: &str = "front-proxy-client";

/// Removes what another server has published, whose authority was another.
pub(super) async fn withdraw(client: &Client) -> anyhow::Result<()> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    match api.delete(NAME, &DeleteParams::default()).await {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        deleted => deleted.map(drop).context(NAME),
    }
}

/// The authorities by which the server knows clients and proxies, in PEM.
pub(in crate::cli) struct Published {
    pub(in crate::cli) client_ca: Option<String>,
    /// The authorities of proxies, and the headers in which these name users.
    pub(in crate::cli) proxies: Option<(String, RequestHeaders)>,
}

/// Publishes `authority`, in PEM, as the authority of client certificates and of proxies.
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
    let one = |name: &str| vec![name.to_owned()];
    let headers = RequestHeaders {
        allowed_names: one(PROXY),
        username_headers: one("X-Remote-User"),
        uid_headers: one("X-Remote-Uid"),
        group_headers: one("X-Remote-Group"),
        extra_header_prefixes: one("X-Remote-Extra-"),
    };
    let published = Published {
        client_ca: Some(of_clients),
        proxies: Some((authority.to_owned(), headers)),
    };
    publish_given(client, &published).await
}

/// Publishes authorities in the form of kube-apiserver's cluster authentication trust controller. Components started
/// with `--authentication-kubeconfig` look them up as long as they run, and log errors until they exist.
pub(in crate::cli) async fn publish_given(
    client: &Client,
    published: &Published,
) -> anyhow::Result<()> {
    let mut data = json!({});
    if let Some(client_ca) = &published.client_ca {
        data["client-ca-file"] = client_ca.as_str().into();
    }
    if let Some((proxy_ca, headers)) = &published.proxies {
        data["requestheader-client-ca-file"] = proxy_ca.as_str().into();
        for (key, names) in [
            ("allowed-names", &headers.allowed_names),
            ("extra-headers-prefix", &headers.extra_header_prefixes),
            ("group-headers", &headers.group_headers),
            ("uid-headers", &headers.uid_headers),
            ("username-headers", &headers.username_headers),
        ] {
            data[format!("requestheader-{key}")] = json!(names).to_string().into();
        }
    }
    let metadata = json!({"name": NAME, "namespace": NAMESPACE});
    let map: ConfigMap = from_value(json!({"metadata": metadata, "data": data}))?;
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    match api.create(&PostParams::default(), &map).await {
        // `--load` has brought one.
        Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
        created => created.map(drop).context(NAME),
    }
}
