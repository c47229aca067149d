//! The configuration of a testbed.

use std::path::PathBuf;

use kubeproof_apiserver::{FieldValidation, LivelockLimits, Manifests};
use kubeproof_controller::apps::statefulset::Settings;
use kubeproof_controller::kruise::Gates;
use kubeproof_controller::{AddressPool, KRUISE_CONTROLLERS};
use kubeproof_node as node;

use super::builder::ControllerUnderTest;
use super::program::{ExternalPrograms, ProgramTime};
use crate::properties::{Declaration, RustProperty};
use crate::scenario::{DEFAULT_NAMESPACE, Timings};
use crate::user_agent;

/// The configuration of a testbed.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct TestbedOptions {
    /// Seed of uids and generated names.
    pub seed: u64,
    /// Seed of the order in which simultaneous requests pass between controllers and server; 0 for the order of their
    /// tasks.
    pub schedule_seed: u64,
    /// Whether every request is noted, for a log.
    pub notes: bool,
    /// The namespace of objects that name none.
    pub namespace: String,
    /// The number of simulated nodes.
    pub nodes: usize,
    /// Whether the metrics APIs are served; if `None`, they are when there are nodes.
    pub metrics: Option<bool>,
    /// Which of the built-in controllers run; those of OpenKruise only when its workloads are there.
    pub controllers: Vec<String>,
    /// Whether kubelets send heartbeats as in a cluster. Without them the node lifecycle controller
    /// does not run, as it would take every node for a failed one.
    pub heartbeats: bool,
    /// The settings of the StatefulSet controller; their gate applies to the server, too.
    pub statefulset: Settings,
    /// Whether OpenKruise's workloads are there, and how their controllers behave.
    pub kruise: Option<Gates>,
    /// Whether there are the storage class `standard` and its provisioner, as in kind; otherwise claims
    /// without a class get volumes at once.
    pub default_storage_class: bool,
    /// The addresses of services of type LoadBalancer, of Ingresses and of Gateways; None without a cloud that gives them.
    pub load_balancers: Option<AddressPool>,
    /// The profiles of the simulated scheduler.
    pub scheduler_config: node::SchedulerConfig,
    /// Images with several names.
    pub same_images: node::SameImages,
    /// Images that no registry has.
    pub missing_images: node::MissingImages,
    /// The durations of simulated pods' phases.
    pub timings: Timings,
    /// Manifests applied before any controller runs, above all definitions of custom resources.
    pub manifests: Manifests,
    /// The treatment of unknown and duplicate fields in `manifests` and [`Testbed::apply`](super::Testbed::apply).
    pub field_validation: FieldValidation,
    /// The user agent of the requests of [`Testbed::api`](super::Testbed::api).
    pub user_agent: &'static str,
    /// Properties that have to hold at every revision, in CEL.
    pub properties: Vec<Declaration>,
    /// Properties that have to hold at every revision, in Rust.
    pub rust_properties: Vec<RustProperty>,
    /// Controllers under test.
    pub under_test: Vec<ControllerUnderTest>,
    /// The user agents of those that may return.
    pub may_end: Vec<String>,
    /// The built-in rules that may be broken.
    pub allowed: Vec<String>,
    /// Whether [`Testbed::settle`](super::Testbed::settle) fails when a property is violated, and dropping a testbed panics when a violation
    /// was not reported.
    pub fails_on_violations: bool,
    /// The kind of the controllers under test, and the time in which everything happens.
    pub mode: Mode,
    /// The program that takes the kubectl steps of scenarios. Needs a runtime with I/O.
    pub kubectl: Option<PathBuf>,
    /// The maximum number of requests of a controller within one instant of virtual time before it is stopped.
    pub livelock_limits: LivelockLimits,
    /// Resources whose tables are part of [`Testbed::outcome`](super::Testbed::outcome), in addition to workloads and custom resources.
    pub shown: Vec<String>,
}

impl Default for TestbedOptions {
    fn default() -> Self {
        Self {
            seed: 1,
            schedule_seed: 0,
            notes: false,
            namespace: DEFAULT_NAMESPACE.to_owned(),
            nodes: 3,
            metrics: None,
            controllers: kubeproof_controller::CONTROLLERS
                .iter()
                .chain(KRUISE_CONTROLLERS)
                .map(|name| (*name).to_owned())
                .collect(),
            heartbeats: false,
            statefulset: Settings::default(),
            kruise: None,
            default_storage_class: false,
            load_balancers: None,
            scheduler_config: node::SchedulerConfig::default(),
            same_images: node::SameImages::default(),
            missing_images: node::MissingImages::default(),
            timings: Timings::default(),
            manifests: Manifests::new(),
            field_validation: FieldValidation::Strict,
            user_agent: user_agent::SCENARIO,
            properties: Vec::new(),
            rust_properties: Vec::new(),
            under_test: Vec::new(),
            may_end: Vec::new(),
            allowed: Vec::new(),
            fails_on_violations: false,
            kubectl: None,
            mode: Mode::Virtual,
            livelock_limits: LivelockLimits::default(),
            shown: Vec::new(),
        }
    }
}

/// The kind of the controllers under test, and the time in which everything happens.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub enum Mode {
    /// Futures in this process, under tokio's paused time.
    Virtual,
    /// Futures in this process, under tokio's time as it is.
    RealTime,
    /// External programs. Needs a runtime with I/O. In real time its time is not paused; under virtual time it is, and
    /// [`share_time`](super::program::share_time) has prepared it.
    Programs(ExternalPrograms),
}

impl Mode {
    /// Whether time is virtual.
    pub(super) fn is_virtual(&self) -> bool {
        match self {
            Self::Virtual => true,
            Self::RealTime => false,
            Self::Programs(programs) => programs.time == ProgramTime::Virtual,
        }
    }
}
