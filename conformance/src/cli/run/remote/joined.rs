//! Simulated nodes that a run joins to a cluster.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::ensure;
use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, ListParams};
use kube::{Api, Client, ResourceExt};
use kubeproof::runner::remote::{OwnNodes, changes_nodes};
use kubeproof::scenario::{Scenario, ScenarioFile};
use kubeproof_controller::Manager;
use kubeproof_node::Timings;
use tokio::time::Instant;

use super::super::super::controllers;
use super::super::super::pace::Pace;

/// Nodes that are not ready, or not gone, after this long in real time are given up.
const READY_TIME_MAX: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(200);

/// Nodes that are part of a cluster.
pub(super) struct Joined {
    manager: Manager,
}

/// Sorts scenarios into groups that can share nodes, the smallest first. A scenario that changes nodes is alone.
pub(super) fn groups(files: Vec<ScenarioFile>) -> Vec<Vec<ScenarioFile>> {
    let mut groups: BTreeMap<(bool, String), Vec<ScenarioFile>> = BTreeMap::new();
    for file in files {
        let (given, is_alone) = (&file.scenario.given, changes_nodes(&file.scenario));
        let name = if is_alone { file.name.as_str() } else { "" };
        let images = (given.same_images.lists(), given.missing_images.patterns());
        let nodes = format!("{} {:?} {images:?} {name}", given.nodes, given.timings);
        groups.entry((is_alone, nodes)).or_default().push(file);
    }
    groups.into_values().collect()
}

impl Joined {
    /// Joins the nodes of `scenario`, and waits until the cluster uses them.
    ///
    /// # Errors
    /// When the cluster has other nodes, or the nodes do not get ready.
    pub(super) async fn to(config: &kube::Config, scenario: &Scenario) -> anyhow::Result<Self> {
        let given = &scenario.given;
        let (client, mut options) =
            controllers::for_cluster(config.clone(), Vec::new(), given.nodes, Pace::Fast)?;
        let nodes: Api<Node> = Api::all(client.clone());
        let present = nodes.list(&ListParams::default()).await?.items.len();
        ensure!(
            present == 0,
            "--join-nodes is for a cluster without nodes; this one has {present}"
        );
        options.timings = Timings {
            start: given.timings.start.0,
            ready: given.timings.ready.0,
            stop: given.timings.stop.0,
            pace: None,
        };
        options.same_images = given.same_images.read().clone();
        options.missing_images = given.missing_images.clone();
        let manager = Manager::start(client, options)?;
        let deadline = Instant::now() + READY_TIME_MAX;
        loop {
            let present = nodes.list(&ListParams::default()).await?;
            if present.items.iter().filter(|node| is_usable(node)).count() == given.nodes {
                return Ok(Self { manager });
            }
            ensure!(
                Instant::now() < deadline,
                "the cluster does not use the joined nodes; does it run the node lifecycle controller?"
            );
            tokio::time::sleep(POLL).await;
        }
    }

    /// The handles of the nodes.
    pub(super) fn handles(&self) -> OwnNodes {
        OwnNodes {
            faults: self.manager.faults().clone(),
            containers: self.manager.containers().clone(),
        }
    }

    /// Stops the nodes and removes them from the cluster.
    ///
    /// # Errors
    /// When the cluster does not remove them.
    pub(super) async fn leave(self, client: &Client) -> anyhow::Result<()> {
        self.manager.shutdown().await;
        let nodes: Api<Node> = Api::all(client.clone());
        let deadline = Instant::now() + READY_TIME_MAX;
        loop {
            let present = nodes.list(&ListParams::default()).await?.items;
            if present.is_empty() {
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "joined nodes are not removed");
            for node in present {
                match nodes
                    .delete(&node.name_any(), &DeleteParams::default())
                    .await
                {
                    Err(kube::Error::Api(status)) if status.is_not_found() => {}
                    deleted => drop(deleted?),
                }
            }
            tokio::time::sleep(POLL).await;
        }
    }
}

/// Whether pods can be put onto the node.
fn is_usable(node: &Node) -> bool {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    let conditions = node.status.as_ref();
    let conditions = conditions.and_then(|status| status.conditions.as_deref());
    let mut conditions = conditions.into_iter().flatten();
    let is_ready = |condition: &k8s_openapi::api::core::v1::NodeCondition| {
        condition.type_ == "Ready" && condition.status == "True"
    };
    taints.is_none_or(Vec::is_empty) && conditions.any(is_ready)
}
