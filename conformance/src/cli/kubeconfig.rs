//! Clients of clusters that a kubeconfig names.

use std::path::Path;

use anyhow::Context;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

/// The current context in the kubeconfig at `path`.
pub(super) async fn config(path: &Path) -> anyhow::Result<Config> {
    let kubeconfig = Kubeconfig::read_from(path)
        .with_context(|| format!("cannot use {} as a kubeconfig", path.display()))?;
    of(kubeconfig).await
}

/// The current context in the kubeconfig that kubectl would use.
pub(super) async fn usual() -> anyhow::Result<Config> {
    let kubeconfig = Kubeconfig::read();
    of(kubeconfig.context("there is no kubeconfig; name one with --kubeconfig")?).await
}

async fn of(kubeconfig: Kubeconfig) -> anyhow::Result<Config> {
    let options = KubeConfigOptions::default();
    Ok(Config::from_custom_kubeconfig(kubeconfig, &options).await?)
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
