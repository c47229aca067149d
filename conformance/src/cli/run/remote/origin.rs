//! The control plane of a cluster, as recordings name it.

use anyhow::{Context, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, Client};
use kubeproof::scenario::ScenarioFile;

/// The program whose controllers are recorded.
const PROGRAM: &str = "kube-controller-manager";
/// The program with OpenKruise's controllers, and the namespace and the labels of its pods.
const KRUISE_PROGRAM: &str = "kruise-manager";
const KRUISE_NAMESPACE: &str = "kruise-system";
const KRUISE_LABELS: &str = "control-plane=controller-manager";

/// The versions that the user has stated.
#[derive(Clone, Copy)]
pub(super) struct ManagerVersions<'a> {
    pub(super) controller_manager: Option<&'a str>,
    pub(super) kruise_manager: Option<&'a str>,
}

/// The programs of a control plane, with their versions.
#[derive(Clone, Debug)]
pub(super) struct Origin {
    kubernetes: String,
    /// Where the cluster has OpenKruise.
    kruise: Option<String>,
}

impl Origin {
    /// Finds out the versions of the controller managers on the `server` of that version: as stated, or as the tag of
    /// the image of their pods. OpenKruise's need not be known before a scenario of it is recorded.
    ///
    /// # Errors
    /// When there is no such pod and nothing is stated.
    pub(super) async fn of(
        client: &Client,
        server: &str,
        given: ManagerVersions<'_>,
    ) -> anyhow::Result<Self> {
        let labels = format!("component={PROGRAM}");
        let found = match given.controller_manager {
            Some(stated) => Some(stated.to_owned()),
            None => version(client, "kube-system", &labels).await?,
        };
        ensure!(
            found.is_some(),
            "the cluster does not show the version of its controller manager: state it with --controller-manager"
        );
        let version_of_manager = found.unwrap_or_default();
        let kruise = match given.kruise_manager {
            Some(stated) => Some(stated.to_owned()),
            None => version(client, KRUISE_NAMESPACE, KRUISE_LABELS).await?,
        };
        Ok(Self {
            kubernetes: format!("{PROGRAM} {version_of_manager} on kube-apiserver {server}"),
            kruise,
        })
    }

    /// Returns the programs that take part in the scenario of `file`.
    ///
    /// # Errors
    /// When the version of one is not known.
    pub(super) fn words(&self, file: &ScenarioFile) -> anyhow::Result<String> {
        let kubernetes = &self.kubernetes;
        if !file.scenario.given.kruise {
            return Ok(kubernetes.clone());
        }
        let version = self.kruise.as_ref();
        let version = version.context(
            "the cluster does not show the version of OpenKruise's manager: state it with --kruise-manager",
        )?;
        Ok(format!("{KRUISE_PROGRAM} {version} and {kubernetes}"))
    }
}

async fn version(
    client: &Client,
    namespace: &str,
    labels: &str,
) -> Result<Option<String>, kube::Error> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let labelled = ListParams::default().labels(labels);
    let pods = pods.list(&labelled).await?;
    let mut images = pods.items.iter().filter_map(|pod| {
        let containers = &pod.spec.as_ref()?.containers;
        containers.first()?.image.as_deref()
    });
    let tag = images.find_map(|image| image.rsplit_once(':'));
    Ok(tag.map(|(_, tag)| tag.to_owned()))
}
