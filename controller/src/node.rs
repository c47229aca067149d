//! Simulated nodes: their registration and heartbeat, a scheduler, and a kubelet that runs a
//! small shell where a node would run containers.

pub(crate) mod affinity;
mod container;
mod containers;
mod directives;
mod environment;
pub(crate) mod fit;
mod identity;
mod instance;
pub(crate) mod kubelet;
mod lifecycle;
mod probe;
mod registration;
mod scheduler;
mod sources;
mod status;

use std::time::Duration;

use crate::context::Context;

pub use container::Channel;
pub use containers::{Containers, LogOptions, PodReference, Refusal, Session};

/// How often a kubelet renews its Lease, a quarter of how long that is good for.
pub const LEASE_RENEWAL: Duration = Duration::from_secs(10);

/// How long simulated pods take, unless their annotations say otherwise. Zero by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timings {
    /// From the binding until the containers run.
    pub start: Duration,
    /// From a container's start until it is ready.
    pub ready: Duration,
    /// From a pod's deletion until its containers have stopped; its grace period may be shorter.
    pub stop: Duration,
}

/// Registers the nodes `node-1` to `node-N`, as many as `containers` is of, keeps them alive, schedules pods onto them and
/// runs those, for as long as it is polled.
///
/// Without nodes it does nothing at all, so that pods stay unscheduled.
pub(crate) async fn run(
    ctx: Context,
    containers: Containers,
    timings: Timings,
    lease_renewal: Duration,
) {
    let nodes = containers.nodes();
    if nodes == 0 {
        return;
    }
    registration::register(&ctx.for_component("kubelet"), nodes).await;
    tokio::join!(
        registration::renew_leases(ctx.for_component("kubelet"), nodes, lease_renewal),
        scheduler::run(ctx.for_component("kube-scheduler")),
        kubelet::run(ctx.for_component("kubelet"), containers, timings),
    );
}
