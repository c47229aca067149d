//! Clients of clusters that a kubeconfig names.

use std::path::Path;

use anyhow::Context;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

/// A client of the current context in the kubeconfig at `path`.
pub(super) async fn client(path: &Path) -> anyhow::Result<Client> {
    Ok(Client::try_from(config(path).await?)?)
}

/// The current context in the kubeconfig at `path`.
pub(super) async fn config(path: &Path) -> anyhow::Result<Config> {
    let kubeconfig = Kubeconfig::read_from(path)
        .with_context(|| format!("cannot use {} as a kubeconfig", path.display()))?;
    let options = KubeConfigOptions::default();
    Ok(Config::from_custom_kubeconfig(kubeconfig, &options).await?)
}
