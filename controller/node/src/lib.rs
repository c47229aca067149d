//! Simulated nodes: their registration and heartbeat, a scheduler, and a kubelet that runs a
//! small shell where a node would run containers.
//!
//! [`run`] keeps the nodes alive. [`Containers`] gives access to their containers (logs, exec, attach, ports),
//! and [`Faults`] switches nodes off.
//!
//! - `registration`, `status`, `identity`: the Node objects, the status of pods, ids and addresses
//! - `scheduler`, `fit`: binds pods; finds room for them
//! - `kubelet`, `lifecycle`, `container_run`, `restart_policy`: runs the pods of a node; `lifecycle` decides the next
//!   step of a pod
//! - `containers`, `container`, `image`, `missing_images`, `environment`, `config_sources`: the containers, with a shell,
//!   a file system and the variables and volumes that the kubelet gives them
//! - `probe`, `hook`, `server`, `program`, `annotations`: probes, hooks, the HTTP server of a container, and the annotations
//!   that say how it behaves
//! - `pace`, `hold`, `container_spec`, `faults`: how long things take, and what stops them
//! - `stages`: KWOK's `Stage` objects, which can replace the kubelets

mod annotations;
mod config_sources;
mod container;
mod container_run;
mod container_spec;
mod containers;
mod environment;
mod faults;
mod fit;
mod hold;
mod hook;
mod identity;
mod image;
mod kubelet;
mod lifecycle;
mod missing_images;
mod pace;
mod probe;
mod program;
mod registration;
mod restart_policy;
mod scheduler;
mod server;
mod small_map;
mod stages;
mod start_error;
mod status;

use std::time::Duration;

pub use annotations::loopback;
pub use container::{Channel, ExecOptions};
pub use containers::{
    Asked, Behind, Consumption, Containers, Inside, LogOptions, Network, PodReference, Refusal,
    RunId, Running, Session, Site,
};
pub use faults::{Faults, UnknownNode};
pub use fit::{CompileSelector, DeviceSelector};
pub use identity::image_id;
pub use image::{BadImageName, SameImages, familiar_name, pull_error, reference_to};
use kubeproof_runtime::context::Context;
use kubeproof_runtime::task::Tasks;
pub use missing_images::{BadImagePattern, MissingImages};
pub use pace::Pace;
pub use scheduler::config::{BadSchedulerConfig, SchedulerConfig};
pub use server::{Answer, Page, REFUSED};
pub use stages::{BadStage, Stage};

/// The interval at which a kubelet renews its Lease: a quarter of the Lease's duration.
pub const LEASE_RENEWAL: Duration = Duration::from_secs(10);

/// The durations of a simulated pod's steps, unless its annotations set others; all are zero by
/// default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timings {
    /// From the binding until the containers run.
    pub start: Duration,
    /// From a container's start until it is ready.
    pub ready: Duration,
    /// From a pod's deletion until its containers have stopped, at most its grace period. Ignored
    /// with a pace: the containers decide.
    pub stop: Duration,
    /// The durations of a real machine's other work; `None` for no time at all.
    pub pace: Option<Pace>,
}

/// The state that the simulated nodes share with the API server and with fault injection.
#[derive(Clone, Debug)]
pub struct Nodes {
    /// The containers on the nodes.
    pub containers: Containers,
    /// The faults of the nodes.
    pub faults: Faults,
    /// The tasks of the nodes that run on threads of their own.
    pub tasks: Tasks,
}

/// The configuration of the nodes.
#[derive(Clone)]
pub struct NodeConfig {
    /// Whether the simulated scheduler binds pods to nodes.
    pub scheduler: bool,
    /// The profiles of that scheduler.
    pub scheduler_config: SchedulerConfig,
    /// How that scheduler compiles the selectors of devices.
    pub compile_selector: CompileSelector,
    /// The default durations of pods.
    pub timings: Timings,
    /// The interval at which a kubelet renews its Lease.
    pub lease_renewal: Duration,
    /// Whether a node lifecycle controller removes the taint of new nodes once they are ready.
    pub has_lifecycle_controller: bool,
    /// Whether the scheduler selects the nodes of volumes (`WaitForFirstConsumer`).
    pub default_storage_class: bool,
    /// The stages (KWOK) that move objects on; stages about pods replace the kubelets.
    pub stages: Vec<Stage>,
}

/// Registers the nodes `node-1` to `node-N` of `nodes`, sends their heartbeats, schedules pods
/// and runs those of these nodes, for as long as it is polled.
pub async fn run(ctx: Context, nodes: Nodes, config: NodeConfig) {
    let Nodes {
        containers,
        faults,
        tasks,
    } = nodes;
    // Nodes that failed may have left tasks that run on for a moment.
    tasks.ended().await;
    let nodes = containers.nodes();
    let stager = ctx.for_component("stage-controller");
    let has_kubelets = !stages::concern_pods(&config.stages);
    let staged = stages::run(stager, config.stages.clone(), nodes);
    let scheduled = async {
        if config.scheduler {
            let scheduler = ctx.for_component("kube-scheduler");
            let profiles = config.scheduler_config.clone();
            let follows_volumes = config.default_storage_class;
            let compile = config.compile_selector;
            let scheduled = scheduler::run(scheduler, profiles, follows_volumes, compile);
            tasks.beside(scheduled).await;
        }
    };
    if nodes == 0 {
        tokio::join!(scheduled, staged);
        return;
    }
    let kubelet = ctx.for_component("kubelet");
    let _linked = containers.link(kubelet.client.clone());
    registration::register(&kubelet, nodes, &config).await;
    let pods = async {
        if has_kubelets {
            let timings = config.timings;
            let faults = (faults.clone(), timings);
            kubelet::run_all(kubelet.clone(), &tasks, containers, faults).await;
        }
    };
    tokio::join!(
        registration::send_heartbeats(kubelet.clone(), &faults, config.lease_renewal),
        scheduled,
        pods,
        staged,
    );
}
