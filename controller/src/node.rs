//! Simulated nodes: their registration and heartbeat, a scheduler, and a kubelet that runs a
//! small shell where a node would run containers.

mod container;
mod containers;
mod directives;
mod environment;
mod faults;
pub(crate) mod fit;
mod hold;
mod hook;
mod identity;
mod image;
mod instance;
pub(crate) mod kubelet;
mod lifecycle;
mod pace;
mod part;
mod probe;
mod registration;
mod scheduler;
mod server;
mod sources;
mod stages;
mod start_error;
mod status;

use std::time::Duration;

use crate::context::Context;

pub use container::{Channel, ExecOptions};
pub(crate) use containers::RunId;
pub use containers::{
    Behind, Containers, LogOptions, Network, PodReference, Refusal, Running, Session, Site,
};
pub use directives::loopback;
pub use faults::{Faults, UnknownNode};
pub(crate) use identity::image_id;
pub use image::{BadImageName, SameImages, familiar_name};
pub(crate) use image::{pull_error, reference_to};
pub use pace::Pace;
pub use server::Page;
pub(crate) use server::{Answer, REFUSED};
pub use stages::{BadStage, Stage};

/// How often a kubelet renews its Lease, a quarter of how long that is good for.
pub const LEASE_RENEWAL: Duration = Duration::from_secs(10);

/// How long simulated pods take, unless their annotations say otherwise; by default no time at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timings {
    /// From the binding until the containers run.
    pub start: Duration,
    /// From a container's start until it is ready.
    pub ready: Duration,
    /// From a pod's deletion until its containers have stopped; its grace period may be shorter. With
    /// a pace it is up to the containers.
    pub stop: Duration,
    /// What else takes time; nothing does without it.
    pub pace: Option<Pace>,
}

/// What the simulated nodes share with those who look at them and make them fail.
#[derive(Clone, Debug)]
pub(crate) struct Machines {
    pub(crate) containers: Containers,
    pub(crate) faults: Faults,
}

/// How the nodes behave.
#[derive(Clone)]
pub(crate) struct Conduct {
    pub(crate) timings: Timings,
    pub(crate) lease_renewal: Duration,
    /// Whether somebody else takes the taint of new nodes away once they are ready.
    pub(crate) has_lifecycle_controller: bool,
    /// Whether storage classes count, which say where volumes are made.
    pub(crate) default_storage_class: bool,
    /// How objects move on besides; those about pods take the place of the kubelets.
    pub(crate) stages: Vec<Stage>,
}

/// Registers the nodes `node-1` to `node-N`, as many as there are of `machines`, keeps them alive,
/// schedules pods onto them and runs those, for as long as it is polled.
///
/// Without nodes it only follows the stages, so that pods stay unscheduled.
pub(crate) async fn run(ctx: Context, machines: Machines, conduct: Conduct) {
    let Machines { containers, faults } = machines;
    let nodes = containers.nodes();
    let stager = ctx.for_component("stage-controller");
    let has_kubelets = !stages::concern_pods(&conduct.stages);
    let staged = stages::run(stager, conduct.stages.clone(), nodes);
    if nodes == 0 {
        return staged.await;
    }
    let kubelet = ctx.for_component("kubelet");
    registration::register(&kubelet, nodes, &conduct).await;
    let pods = async {
        if has_kubelets {
            let timings = conduct.timings;
            kubelet::run(kubelet.clone(), containers, faults.clone(), timings).await;
        }
    };
    tokio::join!(
        registration::send_heartbeats(kubelet.clone(), &faults, conduct.lease_renewal),
        scheduler::run(
            ctx.for_component("kube-scheduler"),
            conduct.default_storage_class,
        ),
        pods,
        staged,
    );
}
