//! The lines that a server prints when it is ready.

use std::convert::Infallible;
use std::path::PathBuf;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::runtime::wait::await_condition;
use kube::{Api, Client};
use kubeproof_runtime::taints::NOT_READY;

use super::ServeArgs;
use crate::cli::out;

/// The longest wait for the nodes. A webhook may keep them from registering, and its program may start only after the
/// line with the URL.
const NODES_WAIT_MAX: Duration = Duration::from_secs(10);

impl ServeArgs {
    /// Prints the URL once the nodes are ready, for scripts, and then to standard error what runs. Returns only if it
    /// cannot print.
    ///
    /// # Errors
    /// [`out::Closed`] when the reader of standard output is gone.
    pub(super) async fn announce(&self, url: &str, client: Client) -> anyhow::Result<Infallible> {
        let ready = tokio::time::timeout(NODES_WAIT_MAX, ready(client, self.nodes));
        let is_late = !matches!(ready.await, Ok(Ok(())));
        out::say(&format!("listening on {url}"))?;
        // Scripts wait for that line and may close the pipe after it: the rest goes to standard error.
        for line in self.in_words() {
            out::note(&line);
        }
        if is_late {
            out::note("warning: the nodes are not ready yet; `kubectl get nodes` shows them");
        }
        std::future::pending().await
    }

    /// Returns the lines about the running components, the files written, and the way to end the server.
    fn in_words(&self) -> Vec<String> {
        let nodes = match self.nodes {
            0 => "no nodes".to_owned(),
            1 => "1 node".to_owned(),
            nodes => format!("{nodes} nodes"),
        };
        let controllers = match self.chosen() {
            "all" => "all controllers".to_owned(),
            "none" => "no controllers".to_owned(),
            names => format!("controllers {names}"),
        };
        let written = |what: &str, path: &Option<PathBuf>| {
            let path = path.as_ref()?;
            Some(format!("{what} {}", path.display()))
        };
        let lines = [
            Some(format!("{nodes}, {controllers}")),
            written("kubeconfig written to", &self.kubeconfig_out),
            written("recording into", &self.record),
            written("state kept in", &self.state),
            Some("Ctrl-C or SIGTERM ends the server".to_owned()),
        ];
        lines.into_iter().flatten().collect()
    }
}

/// Waits until the last of the nodes takes pods; they register in their order.
async fn ready(client: Client, nodes: usize) -> Result<(), kube::runtime::wait::Error> {
    if nodes == 0 {
        return Ok(());
    }
    let last = format!("node-{nodes}");
    let is_ready = |node: Option<&Node>| node.is_some_and(takes_pods);
    await_condition(Api::all(client), &last, is_ready).await?;
    Ok(())
}

fn takes_pods(node: &Node) -> bool {
    let status = node.status.as_ref();
    let mut conditions = status
        .and_then(|status| status.conditions.as_deref())
        .into_iter()
        .flatten();
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_deref());
    let mut taints = taints.into_iter().flatten();
    conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
        && !taints.any(|taint| taint.key == NOT_READY)
}
