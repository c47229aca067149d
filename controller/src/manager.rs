//! Starts a chosen set of controllers and simulated nodes, and owns their tasks.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use kube::Client;
use kubeproof_node as node;
use kubeproof_runtime::clock::Now;
use kubeproof_runtime::context::Context;
use kubeproof_runtime::reflector::SharedWatches;
use kubeproof_runtime::store::ObjectKey;
use kubeproof_runtime::supervisor::{Ended, Ends, Supervisor};
use kubeproof_runtime::task::{Tasks, parallelism};
use kubeproof_runtime::worker;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

use crate::admissionregistration::policy_status;
use crate::apps::{daemonset, deployment, replicaset, statefulset};
use crate::autoscaling::horizontal;
use crate::batch::{cronjob, job, ttl_after_finished};
use crate::cloud::{self, LoadBalancers};
use crate::core::{
    bootstrap, endpoint_slice, endpoint_slice_mirroring, endpoints, legacy_token_cleaner,
    namespace, node_lifecycle, node_ttl, persistent_volume, pod_garbage_collector,
    replication_controller, resource_quota, root_ca, service_account, service_account_tokens,
    taint_eviction,
};
use crate::credentials::Credentials;
use crate::error::Error;
use crate::kruise::{
    self, advanced_statefulset, cloneset, image_pull_job, launch_priority, node_image,
};
use crate::networking::service_cidr;
use crate::policy::disruption;
use crate::rbac::cluster_role_aggregation;
use crate::resource::resource_claim;
use crate::{certificates, garbage_collector};

/// The names of Kubernetes' controllers that run by default, in the order they are started.
pub const CONTROLLERS: &[&str] = &[
    "clusterrole-aggregation",
    "cronjob",
    "csrapproving",
    "csrcleaner",
    "csrsigning",
    "daemonset",
    "deployment",
    "disruption",
    "endpoints",
    "endpointslice",
    "endpointslicemirroring",
    "garbage-collector",
    "horizontal-pod-autoscaler",
    "job",
    "namespace",
    "node-lifecycle",
    "persistent-volume",
    "pod-garbage-collector",
    "replicaset",
    "replicationcontroller",
    "resourceclaim",
    "resourcequota",
    "root-ca-certificate-publisher",
    "serviceaccount",
    "serviceaccount-token",
    "statefulset",
    "taint-eviction",
    "ttl-after-finished",
    "validatingadmissionpolicy-status",
];

/// The names of the controllers that run only when they are named, in the order they are started. kube-controller-manager
/// leaves out `bootstrapsigner` and `tokencleaner`, too; the others would change every cluster for the few tests that look at it.
pub const DISABLED_BY_DEFAULT: &[&str] = &[
    "bootstrapsigner",
    "legacy-serviceaccount-token-cleaner",
    "service-cidr",
    "tokencleaner",
    "ttl",
];

/// The names of OpenKruise's controllers. Those of its workloads need its definitions on the server; the
/// others wait for theirs.
pub const KRUISE_CONTROLLERS: &[&str] = &[
    "advanced-statefulset",
    "cloneset",
    "container-launch-priority",
    "imagepulljob",
    "nodeimage",
];

/// The options of a [`Manager`].
#[derive(Clone)]
pub struct Options {
    /// Names out of [`CONTROLLERS`], [`DISABLED_BY_DEFAULT`] and [`KRUISE_CONTROLLERS`]; repetitions count once.
    pub controllers: Vec<String>,
    /// The number of simulated nodes.
    pub nodes: usize,
    /// Whether the simulated scheduler binds pods, to simulated nodes and to any others.
    pub scheduler: bool,
    /// The profiles of that scheduler.
    pub scheduler_config: node::SchedulerConfig,
    /// Whether nodes come with the storage class `standard` and its provisioner, as in kind. Unless
    /// `persistent-volume` runs they do in any case, for the external binder. Without the class,
    /// claims that name no class get a volume at once.
    pub default_storage_class: bool,
    /// The addresses of services of type `LoadBalancer`, of Ingresses and of Gateways; None without a cloud that gives
    /// them.
    pub load_balancers: Option<LoadBalancers>,
    /// Images that have several names on the nodes and in registries.
    pub same_images: node::SameImages,
    /// Images that no registry has.
    pub missing_images: node::MissingImages,
    /// The default durations of simulated pods.
    pub timings: node::Timings,
    /// The lifecycle stages of objects; stages of pods replace the kubelets.
    pub stages: Vec<node::Stage>,
    /// The interval at which a kubelet renews its Lease; [`node::LEASE_RENEWAL`] on a cluster.
    pub lease_renewal: Duration,
    /// The certificate, in PEM, by which pods are to know the API server.
    pub root_ca: String,
    /// The API server's signers; without them, `csrapproving`, `csrcleaner`, `csrsigning` and
    /// `serviceaccount-token` do nothing.
    pub credentials: Option<Credentials>,
    /// How the StatefulSet controller behaves.
    pub statefulset: statefulset::Settings,
    /// How the namespace controller behaves.
    pub namespace: namespace::Settings,
    /// How the controllers of OpenKruise's workloads behave.
    pub kruise: kruise::Gates,
    /// Whether the nodes have OpenKruise's daemon: it serves those of its resources that are
    /// defined, for any manager. If false, the nodes have the parts that [`KRUISE_CONTROLLERS`]
    /// need, if one of these runs.
    pub kruise_daemon: bool,
    /// How the expressions of admission policies are checked.
    pub check_types: policy_status::CheckTypes,
    /// How the simulated scheduler compiles the selectors of devices.
    pub compile_selector: node::CompileSelector,
    /// How much objects use of quotas.
    pub count_usage: resource_quota::CountUsage,
    /// The clock of the controllers.
    pub now: Now,
}

/// Is called with the controller's name and the key of each sync before the sync begins.
pub type OnSync = Arc<dyn Fn(&'static str, &ObjectKey) + Send + Sync>;

/// Running controllers and nodes. Dropping it ends them without waiting for their tasks.
#[derive(Debug)]
pub struct Manager {
    tasks: JoinSet<()>,
    shared_nodes: node::Nodes,
    /// Wakes controllers in the order in which they were started.
    restart: Arc<Notify>,
    stop: watch::Sender<bool>,
    ends: Arc<Ends>,
    /// None on one thread: each controller then has watches and an order of events of its own.
    shared_watches: Option<SharedWatches>,
}

impl Manager {
    /// Starts what `options` names, with `client`. A controller that panics or returns stays
    /// ended: [`Manager::ended`] reports it, and [`Manager::shutdown`] passes a panic on.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownController`]; nothing is started then.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub fn start(client: Client, options: Options) -> Result<Self, Error> {
        Self::start_under(client, options, Supervisor::reporting(), None)
    }

    /// Starts what `options` names as [`Manager::start`] does; `on_sync` sees the syncs of the controllers.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownController`]; nothing is started then.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub fn start_observed(
        client: Client,
        options: Options,
        on_sync: OnSync,
    ) -> Result<Self, Error> {
        Self::start_under(client, options, Supervisor::reporting(), Some(on_sync))
    }

    /// Starts what `options` names, with `client`. A controller that panics or returns is logged
    /// and started again, after the delays of a container in `CrashLoopBackOff`.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownController`]; nothing is started then.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub fn start_supervised(client: Client, options: Options) -> Result<Self, Error> {
        Self::start_under(client, options, Supervisor::restarting(), None)
    }

    fn start_under(
        client: Client,
        options: Options,
        supervisor: Supervisor,
        on_sync: Option<OnSync>,
    ) -> Result<Self, Error> {
        for name in &options.controllers {
            if !known().any(|known| known == name) {
                return Err(Error::UnknownController {
                    name: name.clone(),
                    known: known().collect(),
                });
            }
        }
        let options = Arc::new(options);
        let ctx = Context {
            client,
            now: options.now.clone(),
        };
        let (stop, stopped) = watch::channel(false);
        let mut manager = Self {
            tasks: JoinSet::new(),
            shared_nodes: shared_nodes(&options),
            restart: Arc::default(),
            stop,
            ends: supervisor.ends(),
            shared_watches: (parallelism() > 1).then(SharedWatches::default),
        };
        // Nodes last: controllers then see them appear, as in a cluster that comes up.
        let chosen = |name: &str| options.controllers.iter().any(|chosen| chosen == name);
        for name in known() {
            if chosen(name) {
                let (ctx, options) = (ctx.clone(), Arc::clone(&options));
                let restarted = Arc::clone(&manager.restart);
                let on_sync = on_sync.clone();
                let lives = supervisor.clone().run(name, restarted, move || {
                    let controller = controller(name, ctx.clone(), &options);
                    match on_sync.clone() {
                        None => controller,
                        Some(on_sync) => {
                            let observer = Arc::new(move |key: &ObjectKey| on_sync(name, key));
                            worker::observed(observer, controller).boxed()
                        }
                    }
                });
                manager.spawn(lives.boxed(), stopped.clone());
            }
        }
        let binds = chosen("persistent-volume");
        let node_config = node::NodeConfig {
            scheduler: options.scheduler,
            scheduler_config: options.scheduler_config.clone(),
            compile_selector: options.compile_selector,
            timings: options.timings,
            lease_renewal: options.lease_renewal,
            stages: options.stages.clone(),
            has_lifecycle_controller: chosen("node-lifecycle"),
            // The provisioner's class waits for the node of a pod.
            default_storage_class: options.default_storage_class || !binds,
        };
        if options.nodes > 0 && (options.default_storage_class || !binds) {
            let ctx = ctx.clone();
            let restarted = Arc::clone(&manager.restart);
            let lives = supervisor.clone().run("provisioner", restarted, move || {
                persistent_volume::provisioner::run(ctx.clone(), binds).boxed()
            });
            manager.spawn(lives.boxed(), stopped.clone());
        }
        if let Some(balancers) = options.load_balancers.clone() {
            let (ctx, restarted) = (ctx.clone(), Arc::clone(&manager.restart));
            let lives = supervisor.clone().run("cloud", restarted, move || {
                cloud::run(ctx.clone(), balancers.clone()).boxed()
            });
            manager.spawn(lives.boxed(), stopped.clone());
        }
        let has_own = KRUISE_CONTROLLERS.iter().any(|name| chosen(name));
        let needs_daemon = has_own && options.kruise.env_from_metadata;
        if options.nodes > 0 && (options.kruise_daemon || needs_daemon) {
            let ctx = ctx.for_component("kruise-daemon");
            let containers = manager.shared_nodes.containers.clone();
            let restarted = Arc::clone(&manager.restart);
            let (gates, serves_all) = (options.kruise, options.kruise_daemon);
            let lives = supervisor.clone().run("kruise-daemon", restarted, move || {
                let (ctx, containers) = (ctx.clone(), containers.clone());
                match serves_all {
                    true => kruise::daemon::run(ctx, containers, gates).boxed(),
                    false => kruise::daemon::container_meta::run(ctx, containers).boxed(),
                }
            });
            manager.spawn(lives.boxed(), stopped.clone());
        }
        if let Some(shared) = manager.shared_watches.clone() {
            let ctx = ctx.for_component("shared-informers");
            manager.spawn_unshared(shared.run(ctx.client).boxed(), stopped.clone());
        }
        // Without nodes, scheduler and stages nothing is simulated; this does not count as an end.
        if options.nodes > 0 || options.scheduler || !node_config.stages.is_empty() {
            let shared_nodes = manager.shared_nodes.clone();
            // Crashes of controllers are not crashes of nodes: these run on.
            let never = Arc::<Notify>::default();
            let lives = supervisor.run("nodes", never, move || {
                node::run(ctx.clone(), shared_nodes.clone(), node_config.clone()).boxed()
            });
            manager.spawn_unshared(lives.boxed(), stopped);
        }
        Ok(manager)
    }

    /// Restarts all controllers, as after a crash: unwritten state is lost. Nodes keep running.
    pub fn restart_controllers(&self) {
        self.restarter().restart();
    }

    /// Returns a handle that restarts the controllers without the manager.
    #[must_use]
    pub fn restarter(&self) -> Restarter {
        Restarter(Arc::clone(&self.restart))
    }

    /// The controllers and nodes that have panicked or returned so far, in the order in which they
    /// did; none of them is meant to.
    #[must_use]
    pub fn ended(&self) -> Vec<Ended> {
        self.ends.list()
    }

    /// The containers of the nodes, whose logs can be read.
    #[must_use]
    pub fn containers(&self) -> &node::Containers {
        &self.shared_nodes.containers
    }

    /// Makes the nodes fail.
    #[must_use]
    pub fn faults(&self) -> &node::Faults {
        &self.shared_nodes.faults
    }

    fn spawn(&mut self, work: BoxFuture<'static, ()>, stopped: watch::Receiver<bool>) {
        let work = match &self.shared_watches {
            Some(shared) => shared.shared_by(work).boxed(),
            None => work,
        };
        self.spawn_unshared(work, stopped);
    }

    fn spawn_unshared(&mut self, work: BoxFuture<'static, ()>, mut stopped: watch::Receiver<bool>) {
        self.tasks.spawn(async move {
            tokio::select! {
                biased;
                _ = stopped.wait_for(|stopped| *stopped) => {}
                () = work => {}
            }
        });
    }

    /// Ends all tasks at their next await and waits until they have ended.
    ///
    /// # Panics
    ///
    /// When one of the tasks has panicked.
    pub async fn shutdown(mut self) {
        self.stop.send_replace(true);
        while let Some(ended) = self.tasks.join_next().await {
            if let Err(error) = ended
                && error.is_panic()
            {
                std::panic::resume_unwind(error.into_panic());
            }
        }
        self.shared_nodes.tasks.ended().await;
    }
}

/// The nodes before anything runs on them.
fn shared_nodes(options: &Options) -> node::Nodes {
    node::Nodes {
        containers: node::Containers::of(
            options.nodes,
            options.same_images.clone(),
            options.missing_images.clone(),
            options.now.clone(),
        ),
        faults: node::Faults::of(options.nodes),
        tasks: Tasks::default(),
    }
}

/// A handle that restarts controllers.
#[derive(Clone, Debug)]
pub struct Restarter(Arc<Notify>);

impl Restarter {
    /// Restarts all controllers, in the order in which they were started.
    pub fn restart(&self) {
        self.0.notify_waiters();
    }
}

/// The names of all controllers, in the order they are started.
pub fn known() -> impl Iterator<Item = &'static str> {
    CONTROLLERS
        .iter()
        .chain(DISABLED_BY_DEFAULT)
        .chain(KRUISE_CONTROLLERS)
        .copied()
}

fn controller(name: &str, ctx: Context, options: &Options) -> BoxFuture<'static, ()> {
    let (settings, gates) = (options.statefulset, options.kruise);
    if let Some(credentials) = &options.credentials
        && let Some(controller) = signing(name, ctx.clone(), options, credentials)
    {
        return controller;
    }
    match name {
        "advanced-statefulset" => advanced_statefulset::run(ctx, gates).boxed(),
        "bootstrapsigner" => bootstrap::signer::run(ctx).boxed(),
        "cloneset" => cloneset::run(ctx, gates).boxed(),
        "clusterrole-aggregation" => cluster_role_aggregation::run(ctx).boxed(),
        "container-launch-priority" => launch_priority::run(ctx).boxed(),
        "cronjob" => cronjob::run(ctx).boxed(),
        "csrapproving" | "csrcleaner" | "csrsigning" | "serviceaccount-token" => {
            std::future::pending().boxed()
        }
        "daemonset" => daemonset::run(ctx).boxed(),
        "deployment" => deployment::run(ctx).boxed(),
        "disruption" => disruption::run(ctx).boxed(),
        "endpoints" => endpoints::run(ctx).boxed(),
        "endpointslice" => endpoint_slice::run(ctx).boxed(),
        "endpointslicemirroring" => endpoint_slice_mirroring::run(ctx).boxed(),
        "garbage-collector" => garbage_collector::run(ctx).boxed(),
        "horizontal-pod-autoscaler" => horizontal::run(ctx).boxed(),
        "imagepulljob" if gates.image_pull_job => image_pull_job::run(ctx).boxed(),
        // A controller that a gate disables is pending rather than ended.
        "imagepulljob" => std::future::pending().boxed(),
        "job" => job::run(ctx).boxed(),
        "legacy-serviceaccount-token-cleaner" => legacy_token_cleaner::run(ctx).boxed(),
        "namespace" => namespace::run(ctx, options.namespace).boxed(),
        "nodeimage" if gates.daemon => node_image::run(ctx).boxed(),
        "nodeimage" => std::future::pending().boxed(),
        "node-lifecycle" => node_lifecycle::run(ctx).boxed(),
        "persistent-volume" => persistent_volume::run(ctx, options.default_storage_class).boxed(),
        "pod-garbage-collector" => pod_garbage_collector::run(ctx).boxed(),
        "replicaset" => replicaset::run(ctx).boxed(),
        "replicationcontroller" => replication_controller::run(ctx).boxed(),
        "resourceclaim" => resource_claim::run(ctx).boxed(),
        "resourcequota" => resource_quota::run(ctx, options.count_usage).boxed(),
        "root-ca-certificate-publisher" => root_ca::run(ctx, options.root_ca.clone()).boxed(),
        "service-cidr" => service_cidr::run(ctx).boxed(),
        "serviceaccount" => service_account::run(ctx).boxed(),
        "statefulset" => statefulset::run(ctx, settings).boxed(),
        "taint-eviction" => taint_eviction::run(ctx).boxed(),
        "tokencleaner" => bootstrap::token_cleaner::run(ctx).boxed(),
        "ttl" => node_ttl::run(ctx).boxed(),
        "ttl-after-finished" => ttl_after_finished::run(ctx).boxed(),
        "validatingadmissionpolicy-status" => policy_status::run(ctx, options.check_types).boxed(),
        name => unreachable!("{name} is not in CONTROLLERS"),
    }
}

/// The controllers that need keys of the API server.
fn signing(
    name: &str,
    ctx: Context,
    options: &Options,
    credentials: &Credentials,
) -> Option<BoxFuture<'static, ()>> {
    let (authority, sign) = (credentials.authority.clone(), &credentials.sign_token);
    Some(match name {
        "csrapproving" => certificates::approver::run(ctx, authority).boxed(),
        "csrcleaner" => certificates::cleaner::run(ctx, authority).boxed(),
        "csrsigning" => certificates::signer::run(ctx, authority).boxed(),
        "serviceaccount-token" => {
            let (root_ca, sign) = (options.root_ca.clone(), Arc::clone(sign));
            service_account_tokens::run(ctx, root_ca, sign).boxed()
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// A client whose requests are never answered.
    fn silent_client() -> Client {
        let service = tower::service_fn(|_: http::Request<kube::client::Body>| {
            std::future::pending::<Result<http::Response<kube::client::Body>, std::io::Error>>()
        });
        Client::new(service, "default")
    }

    fn options(controllers: &[&str], nodes: usize) -> Options {
        Options {
            controllers: controllers.iter().map(|name| (*name).to_owned()).collect(),
            nodes,
            scheduler: nodes > 0,
            scheduler_config: node::SchedulerConfig::default(),
            default_storage_class: false,
            load_balancers: None,
            timings: node::Timings::default(),
            same_images: node::SameImages::default(),
            missing_images: node::MissingImages::default(),
            lease_renewal: node::LEASE_RENEWAL,
            stages: Vec::new(),
            root_ca: String::new(),
            credentials: None,
            statefulset: statefulset::Settings::default(),
            namespace: namespace::Settings::default(),
            kruise: kruise::Gates::default(),
            kruise_daemon: false,
            check_types: |_| Vec::new(),
            compile_selector: |_| Err(String::new()),
            count_usage: |_, _, _| std::collections::BTreeMap::new(),
            now: Arc::new(|| jiff::Timestamp::UNIX_EPOCH),
        }
    }

    #[tokio::test]
    async fn unknown_names_are_refused_with_the_known_ones() {
        let refused = Manager::start(silent_client(), options(&["statefulset", "cron"], 0));
        let known: Vec<&str> = known().collect();
        let message = format!("unknown controller \"cron\" (known: {})", known.join(", "));
        assert_eq!(refused.unwrap_err().to_string(), message);
    }

    #[tokio::test]
    async fn shutdown_joins_every_task() {
        let manager = Manager::start(silent_client(), options(CONTROLLERS, 2)).unwrap();
        tokio::task::yield_now().await;
        manager.shutdown().await;
    }
}
