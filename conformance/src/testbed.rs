//! Testbeds, in which scenarios and tests run: a server, simulated nodes and controllers in one process, under virtual
//! time unless a controller under test needs real time.

// rustdoc lists the methods of `Testbed` in the order of these modules, and those of this file after them.
mod builder;

mod apply;

mod settle;

mod failures;

mod faults;

mod snapshot;

mod again;

mod logged;

mod crashes;
mod error;
mod given;
mod kubectl;
mod monitor;
mod options;
mod program;
mod socket;
mod syncs;
mod time;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use jiff::Timestamp;
use kubeproof_apiserver::fault::{Fault, Hit};
use kubeproof_apiserver::meta::ResourceVersion;
use kubeproof_apiserver::{ApiServer, Clock, JournalEntry};
use kubeproof_controller::{KRUISE_CONTROLLERS, Manager, Options};
use kubeproof_machinery::json::Value;
use kubeproof_node as node;
use kubeproof_runtime::context::with_user_agent;
use parking_lot::Mutex;

use crate::api::Api;
use crate::generated::GeneratedNames;
use crate::log::Recipe;
use crate::outcome;
use crate::properties::DeclaredProperties;
pub use crate::quiescence::NotSettled;
use crate::refusals::Recorder;
pub use crate::refusals::Refusal;
use crate::scenario::DEFAULT_NAMESPACE;
use crate::time::EPOCH;
pub use crate::time::HumanDuration;
use crate::timeline::{SyncBegan, Timeline};
use crate::wire::{Exchange, Interleaving, Notes, Wire};
use crate::{credentials, device_selection, kruise, nodes, quota_usage, type_checking, user_agent};

pub use crate::time::QUIET;
use apply::load;
pub use builder::{ControllerUnderTest, TestbedBuilder};
use crashes::Crashes;
pub use error::TestbedError;
use failures::Reported;
pub(crate) use kubectl::Kubectl;
use monitor::{Monitored, RequestMonitor};
pub use options::{Mode, TestbedOptions};
pub(crate) use program::activity::QUIET_TIME as PROGRAM_QUIET;
#[doc(hidden)]
pub use program::{
    AccountName, ExternalPrograms, Pace, ProgramTime, ReservedPrograms, ServedPrograms,
    ServedService, SettlePause, VirtualTime, share_time,
};
use program::{Reserved, RunningPrograms};
pub(crate) use settle::{SETTLE_REAL_TIME_MAX, SETTLE_TIME_MAX, VIRTUAL_QUIET};
use snapshot::Past;
pub use snapshot::Snapshot;
use syncs::Syncs;
use time::{assert_runtime, check_runtime, is_paused};

/// The lease renewal period of kubelets when the node lifecycle controller does not run: at a cluster's ten seconds
/// most of a run would go into renewals while a scenario settles.
const IDLE_LEASE_RENEWAL: Duration = Duration::from_secs(3600);
/// The period of bookmarks on idle watches: at a cluster's one minute most of a run would go into bookmarks.
const BOOKMARK_PERIOD: Duration = Duration::from_secs(3600);
/// More turns of the runtime than controllers take to list and watch existing objects.
const STARTING_TURNS: usize = 256;
/// The OpenKruise controllers that have nodes pull images.
const IMAGE_CONTROLLERS: [&str; 2] = ["imagepulljob", "nodeimage"];
/// The controller that watches heartbeats.
const NODE_LIFECYCLE: &str = "node-lifecycle";

/// The root certificate that pods are given where nothing is encrypted: publicly known, and fixed, so that equal runs
/// write equal objects.
#[doc(hidden)]
pub const ROOT_CA: &str = include_str!("testbed/root-ca.pem");

/// A cluster for one test: an API server, simulated nodes and controllers, in the process of the test and under its
/// virtual time.
///
/// A test applies objects, waits with [`settle`](Self::settle), and looks at the [`timeline`](Self::timeline) and the
/// [`outcome`](Self::outcome). Equal tests with deterministic controllers give equal bytes. Dropping a
/// testbed panics if a violation, a panic or a livelock of a controller has not been reported to the test.
///
/// ```
/// use std::time::Duration;
///
/// use kubeproof::Testbed;
///
/// # let mut runtime = tokio::runtime::Builder::new_current_thread();
/// # let runtime = runtime.enable_time().start_paused(true).build()?;
/// # runtime.block_on(async {
/// const WEB: &str = "
/// apiVersion: apps/v1
/// kind: Deployment
/// metadata: {name: web}
/// spec:
///   replicas: 2
///   selector: {matchLabels: {app: web}}
///   template:
///     metadata: {labels: {app: web}}
///     spec: {containers: [{name: web, image: 'nginx:1.25'}]}
/// ";
/// let builder = Testbed::builder().nodes(1).controllers(["deployment", "replicaset"]);
/// let testbed = builder.start().await?;
/// testbed.apply(WEB).await?;
/// testbed.settle(Duration::from_secs(60)).await?;
/// assert!(testbed.outcome().await?.contains("2/2"));
/// testbed.shutdown().await;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Testbed {
    api: Api,
    shown: Vec<String>,
    declared: DeclaredProperties,
    /// The cluster; `None` after shutdown.
    cluster: Option<Box<Cluster>>,
    /// Whether processes may branch off from this one.
    branches: Arc<AtomicBool>,
    /// The objects that the builder was given, in words.
    given: Vec<String>,
    /// The version at which its test began.
    started_rv: ResourceVersion,
    /// The versions at which nothing had been written for a time.
    settled: Mutex<Vec<(ResourceVersion, Duration)>>,
    /// The versions from which on, and up to which, restarted controllers had nothing to write.
    again: Mutex<Vec<(ResourceVersion, ResourceVersion)>>,
    reported: Mutex<Reported>,
}

/// A running server with its nodes and controllers.
struct Cluster {
    server: ApiServer,
    recorder: Recorder,
    syncs: Syncs,
    wire: Wire<Recorder>,
    notes: Notes,
    manager: Manager,
    crashes: Crashes,
    /// The requests of the controllers under test.
    monitor: RequestMonitor,
    /// The head of the testbed's log.
    recipe: Recipe,
    /// The programs under test.
    programs: Option<RunningPrograms>,
    /// The program that takes the kubectl steps of scenarios.
    kubectl: Option<Kubectl>,
    /// The configuration, except for the parts that the server was given.
    options: TestbedOptions,
    /// The writes that led to the snapshot from which the testbed began.
    past: Past,
}

/// The parts of a testbed that exist before its nodes and controllers.
struct Before {
    declared: DeclaredProperties,
    /// The objects that the builder was given, in words.
    given: Vec<String>,
    past: Past,
    /// The ports, certificates and log reserved for programs.
    reserved: Option<Reserved>,
}

impl Testbed {
    /// Starts the server, creates the given objects, then starts the nodes and the controllers.
    ///
    /// # Errors
    /// [`TestbedError`] when something given is refused, a controller does not start or discovery
    /// fails, and outside of a tokio runtime.
    #[doc(hidden)]
    pub async fn start(mut options: TestbedOptions) -> Result<Self, TestbedError> {
        check_runtime()?;
        if options.mode.is_virtual() && !is_paused() {
            return Err(TestbedError::NotPaused);
        }
        let clock = match &options.mode {
            Mode::Virtual | Mode::RealTime => Clock::simulated(EPOCH),
            // Their webhooks answer in the time that is theirs, too.
            mode @ Mode::Programs(_) if mode.is_virtual() => Clock::shared(EPOCH),
            Mode::Programs(_) => Clock::real(),
        };
        options.let_end()?;
        options.check_allowed()?;
        let mut builder = ApiServer::builder()
            .clock(clock.clone())
            .seed(options.seed)
            .journal()
            .livelock_limits(options.livelock_limits)
            .bookmark_period(BOOKMARK_PERIOD);
        if options.metrics.unwrap_or(options.nodes > 0) {
            builder = builder.metrics_apis();
        }
        if options.statefulset.max_unavailable {
            builder = builder.max_unavailable_stateful_set();
        }
        let mut manifests = std::mem::take(&mut options.manifests);
        let given = given::objects(&manifests);
        if let Some(gates) = options.kruise {
            let (namespace, service) = (kruise::SERVICE_NAMESPACE, kruise::SERVICE);
            let webhook = kruise::webhook(gates, None);
            builder = builder.answer_service(namespace, service, kruise::PORT, webhook);
            let mut objects = kruise::objects();
            if gates.image_pull_job {
                objects.extend(kruise::image_objects());
            }
            for object in objects {
                let with = manifests.object(&object);
                manifests = with.expect("a definition is an object");
            }
        }
        let mut declared = DeclaredProperties::default();
        if !options.properties.is_empty() {
            let objects = manifests.clone().into_iter();
            let objects: Vec<Value> = objects.map(|manifest| manifest.object).collect();
            let compiled = DeclaredProperties::compile(&options.properties, &objects);
            declared = compiled.map_err(TestbedError::Property)?;
        }
        declared.rust.clone_from(&options.rust_properties);
        let reserved = match &options.mode {
            Mode::Programs(programs) => {
                let (reserved, with) = programs
                    .reserve(builder)
                    .map_err(TestbedError::ExternalProgram)?;
                builder = with;
                Some(reserved)
            }
            Mode::Virtual | Mode::RealTime => None,
        };
        let server = builder.build();
        load(&server, manifests, options.field_validation).await?;
        let before = Before {
            declared,
            given,
            past: Past::default(),
            reserved,
        };
        Self::begin(server, clock, options, before).await
    }

    /// Starts nodes and controllers of a server that holds all that is given.
    async fn begin(
        server: ApiServer,
        clock: Clock,
        options: TestbedOptions,
        Before {
            declared,
            given,
            past,
            reserved,
        }: Before,
    ) -> Result<Self, TestbedError> {
        let recipe = Recipe::of_testbed(options.seed, options.schedule_seed);
        let kept = options.clone();
        let recorder = Recorder::new(server.clone());
        let (notes, interleaving) = (
            Notes::default(),
            Interleaving::seeded(options.schedule_seed),
        );
        let is_program = matches!(options.mode, Mode::Programs(_));
        let noted = (options.notes || is_program).then(|| notes.clone());
        let wire = Wire::new(recorder.clone(), &server, noted.clone(), interleaving);
        // Without jobs no controller asks nodes for images.
        let has_images = options.kruise.is_some_and(|gates| gates.image_pull_job);
        let (controllers, lease_renewal) = controllers_and_leases(&options, has_images);
        let syncs = Syncs::default();
        let manager = Manager::start_observed(
            kube::Client::new(wire.clone(), DEFAULT_NAMESPACE),
            Options {
                controllers,
                nodes: options.nodes,
                scheduler: options.nodes > 0,
                scheduler_config: options.scheduler_config.clone(),
                default_storage_class: options.default_storage_class,
                load_balancers: options.load_balancers.clone().map(Into::into),
                same_images: options.same_images.clone(),
                missing_images: options.missing_images.clone(),
                timings: node::Timings {
                    start: options.timings.start.0,
                    ready: options.timings.ready.0,
                    stop: options.timings.stop.0,
                    pace: None,
                },
                lease_renewal,
                stages: Vec::new(),
                root_ca: ROOT_CA.to_owned(),
                credentials: Some(credentials::of(&server)),
                statefulset: options.statefulset,
                namespace: kubeproof_controller::core::namespace::Settings::default(),
                kruise: options.kruise.unwrap_or_default(),
                kruise_daemon: has_images,
                check_types: type_checking::check,
                compile_selector: device_selection::compile,
                count_usage: quota_usage::count,
                now: Arc::new(move || clock.now()),
            },
            syncs.observer(&server),
        )
        .map_err(TestbedError::Start)?;
        nodes::connect(&server, &manager);
        let monitor = RequestMonitor::default();
        let monitored = Monitored::new(wire.clone(), &server, &monitor);
        let client = kube::Client::new(monitored, options.namespace.as_str());
        let (mut under_test, mut programs) = (options.under_test, None);
        if let (Mode::Programs(started), Some(reserved)) = (&options.mode, reserved) {
            server.record_points();
            let namespace = &options.namespace;
            let prepared = RunningPrograms::prepare(started, reserved, &server, namespace).await;
            let (running, controllers) = prepared.map_err(TestbedError::ExternalProgram)?;
            under_test.extend(controllers);
            programs = Some(running);
        }
        let kubectl = Kubectl::of(&options.kubectl, &server, &options.namespace).await?;
        let crashes = Crashes::watch(&server, &manager, &client, under_test);
        let own = Wire::new(server.clone(), &server, noted, None);
        let api = Api::discover(kube::Client::new(own, options.namespace)).await?;
        let api = api.signed(options.user_agent);
        // The controllers have opened their watches by then, as in a running cluster.
        for _ in 0..STARTING_TURNS {
            tokio::task::yield_now().await;
        }
        let cluster = Cluster {
            server,
            recorder,
            syncs,
            wire,
            notes,
            manager,
            crashes,
            monitor,
            recipe,
            programs,
            kubectl,
            options: kept,
            past,
        };
        Ok(Self {
            api,
            shown: options.shown,
            declared,
            given,
            started_rv: cluster.server.resource_version(),
            cluster: Some(Box::new(cluster)),
            branches: Arc::default(),
            settled: Mutex::default(),
            again: Mutex::default(),
            reported: Mutex::default(),
        })
    }

    fn cluster(&self) -> &Cluster {
        let cluster = self.cluster.as_ref();
        cluster.expect("it is there until the testbed ends")
    }

    /// The API, for a scenario's steps.
    #[doc(hidden)]
    #[must_use]
    pub fn api(&self) -> &Api {
        &self.api
    }

    /// Returns a client of the test in the testbed's namespace, with the user agent `test`. It has all permissions.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    #[must_use]
    pub fn client(&self) -> kube::Client {
        assert_runtime();
        let client = kube::Client::new(self.cluster().wire.clone(), self.api.namespace());
        with_user_agent(&client, user_agent::TEST)
    }

    /// Returns the present time. Virtual time begins at 2026-01-01T00:00:00Z.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.cluster().server.clock().now()
    }

    /// Returns the `resourceVersion` of the last write, of whatever object.
    #[must_use]
    pub fn resource_version(&self) -> ResourceVersion {
        self.cluster().server.resource_version()
    }

    /// Returns every write so far in the order of `resourceVersion`, including the setup of the testbed and, after a
    /// snapshot, of its predecessors.
    #[must_use]
    pub fn journal(&self) -> Vec<JournalEntry> {
        let cluster = self.cluster();
        cluster.past.followed_by(cluster.server.journal())
    }

    /// Returns the refused writes of controllers so far, in the order of the responses. Conflicts, deletions of objects
    /// that are gone, events and leases are left out, because they depend on timing alone.
    #[must_use]
    pub fn refusals(&self) -> Vec<Refusal> {
        self.cluster().recorder.refusals()
    }

    /// The kubectl that takes the steps of scenarios, unless they are simulated.
    pub(crate) fn kubectl(&self) -> Option<&Kubectl> {
        self.cluster().kubectl.as_ref()
    }

    /// The syncs of the controllers of the testbed so far.
    pub(crate) fn syncs(&self) -> Vec<SyncBegan> {
        self.cluster().syncs.began()
    }

    /// Every request of this process so far, if [`TestbedBuilder::notes_requests`] asks for them.
    #[doc(hidden)]
    #[must_use]
    pub fn exchanges(&self) -> Vec<Exchange> {
        self.cluster().notes.exchanges()
    }

    /// Returns the requests and events that faults have met so far, in order.
    #[doc(hidden)]
    #[must_use]
    pub fn fault_hits(&self) -> Vec<Hit> {
        self.cluster().server.fault_hits()
    }

    /// Every fault so far, with how many requests it has met.
    #[doc(hidden)]
    #[must_use]
    pub fn faults_met(&self) -> Vec<(Fault, u32)> {
        self.cluster().server.faults_met()
    }

    /// Woken by each write.
    #[doc(hidden)]
    #[must_use]
    pub fn subscribe(&self) -> tokio::sync::watch::Receiver<u64> {
        self.cluster().server.subscribe()
    }

    /// Lets `time` pass, under virtual time at once. Controllers and nodes do their work meanwhile.
    ///
    /// Cancel safety: the time that has passed stays passed.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub async fn advance(&self, time: Duration) {
        assert_runtime();
        tokio::time::sleep(time).await;
    }

    /// Returns what the builder was given, and then the changes that a reviewer looks for since the testbed has started,
    /// a line each: the time since the epoch, the writer, the change. Uids and random suffixes of names are replaced by
    /// numbers, so that the text suits a golden.
    ///
    /// ```text
    /// # given: 1 node; controllers: deployment, replicaset; customresourcedefinition webapps.example.com
    ///   +0s      test                        webapp shop created (replicas 1)
    ///   +2.5s    kubelet                     pod shop-7f675449cf-00001 ready
    /// ```
    #[must_use]
    pub fn timeline(&self) -> String {
        let changes = self.timeline_since(self.started_rv);
        format!("{}\n{changes}", self.given_in_words())
    }

    /// Returns the changes of the [`timeline`](Self::timeline) after version `rv`; 0 for all, including the setup of
    /// the testbed.
    #[must_use]
    pub fn timeline_since(&self, rv: ResourceVersion) -> String {
        let journal = self.journal();
        let mut timeline = Timeline::default();
        let (before, after) = journal.split_at(journal.partition_point(|entry| entry.rv <= rv));
        before.iter().for_each(|entry| timeline.learn(entry));
        let mut refusals = self.refusals();
        refusals.retain(|refusal| refusal.after_rv >= rv);
        let (lines, _) = timeline.lines(after.iter(), &refusals, EPOCH);
        let lines: Vec<String> = lines.into_iter().map(|line| line.text).collect();
        outcome::mask_uids(&GeneratedNames::of(&journal).mask(&lines.join("\n")))
    }

    /// Returns the present state as text: the tables of `kubectl get` for workloads, pods and custom resources, the
    /// statuses of workloads, and the events. Empty tables are left out.
    ///
    /// # Errors
    /// [`TestbedError`] when a table cannot be read.
    pub async fn outcome(&self) -> Result<String, TestbedError> {
        let journal = self.journal();
        let names = GeneratedNames::of(&journal);
        let mut timeline = Timeline::default();
        journal.iter().for_each(|entry| timeline.learn(entry));
        let custom = outcome::custom_resources(&journal);
        let tables = self.shown.iter().map(String::as_str).chain(custom);
        let given_rv = ResourceVersion::ZERO;
        let lines =
            outcome::describe(&self.api, &journal, &timeline, &names, given_rv, tables).await?;
        Ok(outcome::mask_uids(&names.mask(&lines.join("\n"))))
    }
}

/// The controllers that a testbed starts, and the time between two renewals of a node's lease.
fn controllers_and_leases(options: &TestbedOptions, has_images: bool) -> (Vec<String>, Duration) {
    let (mut controllers, mut lease_renewal) = (options.controllers.clone(), node::LEASE_RENEWAL);
    if options.kruise.is_none() {
        controllers.retain(|name| !KRUISE_CONTROLLERS.contains(&name.as_str()));
    }
    if !has_images {
        controllers.retain(|name| !IMAGE_CONTROLLERS.contains(&name.as_str()));
    }
    if !options.heartbeats {
        controllers.retain(|name| name != NODE_LIFECYCLE);
        lease_renewal = IDLE_LEASE_RENEWAL;
    }
    (controllers, lease_renewal)
}
