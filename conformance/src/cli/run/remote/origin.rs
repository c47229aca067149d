//! The control plane of a cluster, as recordings name it.

use anyhow::ensure;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, Client};

/// The program whose controllers are recorded.
const PROGRAM: &str = "kube-controller-manager";

/// Returns the versions of the controller manager and of the server: `stated`, or the tag of the image of the
/// controller manager's pod.
///
/// # Errors
/// When there is no such pod and nothing is stated.
pub(super) async fn of(
    client: &Client,
    server: &str,
    stated: Option<&str>,
) -> anyhow::Result<String> {
    let found = match stated {
        Some(stated) => Some(stated.to_owned()),
        None => version(client).await?,
    };
    ensure!(
        found.is_some(),
        "the cluster does not show the version of its controller manager: state it with --controller-manager"
    );
    let version = found.unwrap_or_default();
    Ok(format!("{PROGRAM} {version} on kube-apiserver {server}"))
}

async fn version(client: &Client) -> Result<Option<String>, kube::Error> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), "kube-system");
    let labelled = ListParams::default().labels(&format!("component={PROGRAM}"));
    let pods = pods.list(&labelled).await?;
    let mut images = pods.items.iter().filter_map(|pod| {
        let containers = &pod.spec.as_ref()?.containers;
        containers.first()?.image.as_deref()
    });
    let tag = images.find_map(|image| image.rsplit_once(':'));
    Ok(tag.map(|(_, tag)| tag.to_owned()))
}
