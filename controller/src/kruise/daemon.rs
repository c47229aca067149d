//! OpenKruise's daemon: a single instance for all simulated nodes, where upstream runs one per node.
//!
//! - `container_meta`: reports the containers of updated pods and restarts those with outdated
//!   variables
//! - `container_recreate`: restarts containers that a ContainerRecreateRequest names
//! - `image_pull`: pulls what NodeImages ask for
//! - `pod_probe`: probes what NodePodProbes ask for
//!
//! Each part serves one resource and begins when that is defined. The requests come from the
//! manager, upstream's or another.
//!
//! Source: openkruise/kruise pkg/daemon.

pub(crate) mod container_meta;
mod container_recreate;
mod image_pull;
mod pod_probe;

use futures::future::join;
use kubeproof_node::Containers;
use kubeproof_runtime::context::Context;

use super::Gates;
use super::definition::defined;

/// Serves what is defined until the future is dropped.
pub(crate) async fn run(ctx: Context, containers: Containers, gates: Gates) {
    let ctx = ctx.for_component("kruise-daemon");
    let annotated = async {
        let pending = std::future::pending::<()>();
        match gates.env_from_metadata {
            true => drop(defined(&ctx, "clonesets").await),
            false => pending.await,
        }
        container_meta::run(ctx.clone(), containers.clone()).await;
    };
    let recreated = async {
        let resource = defined(&ctx, "containerrecreaterequests").await;
        container_recreate::run(ctx.clone(), containers.clone(), resource).await;
    };
    let pulled = async {
        let resource = defined(&ctx, "nodeimages").await;
        image_pull::run(ctx.clone(), containers.clone(), resource).await;
    };
    let probed = async {
        let resource = defined(&ctx, "nodepodprobes").await;
        pod_probe::run(ctx.clone(), containers.clone(), resource).await;
    };
    join(join(annotated, recreated), join(pulled, probed)).await;
}
