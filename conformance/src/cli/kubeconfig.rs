//! Clients of clusters that a kubeconfig names.

use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, anyhow};
use http::Uri;
use http::uri::Scheme;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use kubeproof_machinery::json::json;
use serde::Deserialize as _;

/// The current context in the kubeconfig at `path`.
///
/// # Errors
/// When the file cannot be read, or is no kubeconfig. The text names the file once.
pub(super) async fn config(path: &Path) -> anyhow::Result<Config> {
    let kubeconfig = Kubeconfig::read_from(path).map_err(|error| match error {
        KubeconfigError::ReadConfig(source, path) => {
            anyhow!("cannot read {}: {source}", path.display())
        }
        other => anyhow!("cannot use {} as a kubeconfig: {other}", path.display()),
    });
    of(kubeconfig?).await
}

/// The current context in the kubeconfig that kubectl would use.
pub(super) async fn usual() -> anyhow::Result<Config> {
    let kubeconfig = Kubeconfig::read();
    of(kubeconfig.context("there is no kubeconfig; name one with --kubeconfig")?).await
}

/// A server at a URL, without credentials.
pub(super) async fn of_url(url: &Uri) -> anyhow::Result<Config> {
    let cluster = json!({"name": "server", "cluster": {"server": url.to_string()}});
    let context = json!({"name": "server", "context": {"cluster": "server", "user": "server"}});
    let kubeconfig = json!({
        "clusters": [cluster],
        "users": [{"name": "server", "user": {}}],
        "contexts": [context],
        "current-context": "server",
    });
    of(Kubeconfig::deserialize(kubeconfig)?).await
}

async fn of(kubeconfig: Kubeconfig) -> anyhow::Result<Config> {
    Ok(current(kubeconfig).await?)
}

/// A connection on which nothing comes for this long is dead: a server sends a bookmark on each idle watch every minute.
const READ_TIMEOUT: Duration = Duration::from_mins(5);

/// The current context of `kubeconfig`, as client-go connects to it: a server on this machine is reached without the
/// proxy of the environment, and only a server that shows a certificate needs the authorities of the machine.
///
/// # Errors
/// When the kubeconfig has no current context, or names what cannot be read.
pub(super) async fn current(kubeconfig: Kubeconfig) -> Result<Config, KubeconfigError> {
    let options = KubeConfigOptions::default();
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &options).await?;
    if is_on_this_machine(&config.cluster_url) {
        config.proxy_url = None;
    }
    config.read_timeout.get_or_insert(READ_TIMEOUT);
    let is_plain = config.cluster_url.scheme() == Some(&Scheme::HTTP);
    if is_plain || config.accept_invalid_certs {
        // Without a value, kube reads the authorities of the machine, and fails if it finds none.
        config.root_cert.get_or_insert_default();
    }
    Ok(config)
}

fn is_on_this_machine(url: &Uri) -> bool {
    let host = url.host().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']');
    let address: Option<IpAddr> = address.parse().ok();
    host == "localhost" || address.is_some_and(|address| address.is_loopback())
}

/// Asks the server of `config` for its version.
///
/// # Errors
/// When the server cannot be reached, or refuses the user of the kubeconfig.
pub(super) async fn version(config: &Config) -> anyhow::Result<String> {
    let version = Client::try_from(config.clone())?.apiserver_version().await;
    let version =
        version.with_context(|| format!("cannot use the API server at {}", config.cluster_url))?;
    Ok(version.git_version)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use kube::Client;
    use kube::config::Kubeconfig;
    use kubeproof_machinery::json::json;

    use super::{config, current};

    async fn of(cluster: kubeproof_machinery::json::Value) -> kube::Config {
        let text = json!({
            "clusters": [{"name": "one", "cluster": cluster}],
            "users": [{"name": "one", "user": {}}],
            "contexts": [{"name": "one", "context": {"cluster": "one", "user": "one"}}],
            "current-context": "one",
        });
        let kubeconfig = Kubeconfig::from_yaml(&text.to_string()).unwrap();
        current(kubeconfig).await.unwrap()
    }

    #[tokio::test]
    async fn a_file_that_cannot_be_used_is_named_once() {
        let missing = config("/nope/config".as_ref()).await.unwrap_err();
        assert!(format!("{missing:#}").starts_with("cannot read /nope/config: No such file"));
        let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        let other = format!("{:#}", config(manifest.as_ref()).await.unwrap_err());
        let begins = format!("cannot use {manifest} as a kubeconfig: failed to parse");
        assert!(other.starts_with(&begins), "{other}");
    }

    #[tokio::test]
    async fn a_server_on_this_machine_is_reached_without_a_proxy() {
        let proxy = "http://proxy.example:3128/";
        for (server, has_proxy) in [
            ("http://127.0.0.1:8080", false),
            ("http://127.9.9.9:8080", false),
            ("https://localhost:6443", false),
            ("https://[::1]:6443", false),
            ("https://10.0.0.1:6443", true),
            ("https://localhost.example:6443", true),
        ] {
            let config = of(json!({"server": server, "proxy-url": proxy})).await;
            let expected = has_proxy.then(|| proxy.parse().unwrap());
            assert_eq!(config.proxy_url, expected, "{server}");
        }
    }

    #[tokio::test]
    async fn authorities_of_the_machine_are_for_certificates_that_are_checked() {
        let plain = of(json!({"server": "http://10.0.0.1"})).await;
        assert_eq!(plain.root_cert, Some(Vec::new()));
        let unchecked = json!({"server": "https://10.0.0.1", "insecure-skip-tls-verify": true});
        assert_eq!(of(unchecked).await.root_cert, Some(Vec::new()));
        let checked = of(json!({"server": "https://10.0.0.1"})).await;
        assert_eq!(checked.root_cert, None);
        Client::try_from(plain).unwrap();
    }

    #[tokio::test]
    async fn a_remote_server_is_reached_through_a_proxy() {
        let cluster = json!({
            "server": "https://10.0.0.1",
            "insecure-skip-tls-verify": true,
            "proxy-url": "http://proxy.example:3128",
        });
        Client::try_from(of(cluster).await).unwrap();
    }
}
