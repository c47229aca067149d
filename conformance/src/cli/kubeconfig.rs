//! Clients of clusters that a kubeconfig names.

use std::path::Path;

use anyhow::Context;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

/// The current context in the kubeconfig at `path`.
pub(super) async fn config(path: &Path) -> anyhow::Result<Config> {
    let kubeconfig = Kubeconfig::read_from(path)
        .with_context(|| format!("cannot use {} as a kubeconfig", path.display()))?;
    let options = KubeConfigOptions::default();
    Ok(Config::from_custom_kubeconfig(kubeconfig, &options).await?)
}

/// Asks the server of `config` for its version.
///
/// # Errors
/// When it cannot be reached, or refuses whom the kubeconfig names.
pub(super) async fn version(config: &Config) -> anyhow::Result<String> {
    let version = Client::try_from(config.clone())?.apiserver_version().await;
    let version = version.map_err(|error| match error {
        kube::Error::Api(status) => {
            anyhow::Error::msg(format!("{} {}", status.code, status.message))
        }
        other => other.into(),
    });
    let version =
        version.with_context(|| format!("cannot use the API server at {}", config.cluster_url))?;
    Ok(version.git_version)
}
