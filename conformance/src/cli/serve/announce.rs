//! The lines that a server prints when it is ready.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::path::PathBuf;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Node;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, ResourceExt as _};
use kubeproof_runtime::reflector;
use kubeproof_runtime::taints::NOT_READY;

use super::ServeArgs;
use super::programs::Programs;
use crate::cli::out;

/// The longest wait for the nodes. A webhook may keep them from registering, and its program may start only after the
/// line with the URL.
const NODES_WAIT_MAX: Duration = Duration::from_secs(10);

impl ServeArgs {
    /// Prints the URL once the nodes are ready, for scripts, then to standard error what runs, and starts the programs. Returns
    /// only if that fails.
    ///
    /// # Errors
    /// [`out::Closed`] when the reader of standard output is gone, and the errors of [`Programs::start`].
    pub(super) async fn announce(
        &self,
        url: &str,
        client: Client,
        programs: &Programs,
    ) -> anyhow::Result<Infallible> {
        let ready = tokio::time::timeout(NODES_WAIT_MAX, ready(client.clone(), self.nodes));
        let is_late = ready.await.is_err();
        out::say(&format!("listening on {url}"))?;
        // Scripts wait for that line and may close the pipe after it: the rest goes to standard error.
        for line in self.in_words() {
            out::note(&line);
        }
        if is_late {
            out::note("warning: the nodes are not ready yet; `kubectl get nodes` shows them");
        }
        programs.start(&client).await?;
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

/// Waits until each of the nodes has been seen to take pods. A request that fails is repeated.
async fn ready(client: Client, nodes: usize) {
    let mut awaited: BTreeSet<String> = (1..=nodes).map(|index| format!("node-{index}")).collect();
    let events = reflector::events(Api::all(client), watcher::Config::default());
    let mut events = std::pin::pin!(events);
    while !awaited.is_empty() {
        if let Some(Ok(Event::Apply(node) | Event::InitApply(node))) = events.next().await
            && takes_pods(&node)
        {
            awaited.remove(&node.name_any());
        }
    }
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
