//! Runs a scenario in process under virtual time and writes its transcript.

mod cluster;
mod fitness;
mod kubectl;
mod line;
mod lookup;
mod marks;
mod nodes;
mod pauses;
pub mod remote;
mod remote_cluster;
mod step_error;
mod steps;
mod target;
mod transcript;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use kubeproof_apiserver::fault::{Hit, Point};
use kubeproof_apiserver::meta::ResourceVersion;
use kubeproof_apiserver::{FieldValidation, JournalEntry, Manifest};
use kubeproof_machinery::json::{Value, json};
use kubeproof_node::SchedulerConfig;

use crate::fault_plan::Plan;
pub use crate::log::Taken;
use crate::outcome::Unstable;
use crate::properties::{self, Caches, DeclaredProperties, Observed, Violation, general};
use crate::recording;
use crate::refusals::Refusal;
use crate::scenario::{
    Controllers, DEFAULT_NAMESPACE, Scenario, SchedulerConfiguration, Step, Verb,
};
use crate::testbed::{
    ControllerUnderTest, ExternalPrograms, Mode, PROGRAM_QUIET, ProgramTime, QUIET, SettlePause,
    Testbed, TestbedError, TestbedOptions, VIRTUAL_QUIET, share_time,
};
use crate::wire::Exchange;

use cluster::Cluster;
pub use step_error::{ClusterError, StepError};
use transcript::{Section, Transcript};

/// A scenario that could not be carried through.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The testbed did not start.
    #[error(transparent)]
    Testbed(#[from] TestbedError),
    /// The existing cluster cannot be used.
    #[error(transparent)]
    Remote(#[from] remote::RemoteError),
    /// The cluster did not settle.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// A step failed.
    #[error("step {number} ({words}): {source}")]
    Step {
        /// `given 1` or `1`, counted from one.
        number: String,
        /// The step in words.
        words: String,
        /// Why.
        source: Box<StepError>,
    },
    /// The objects given could not be created.
    #[error("given: {0}")]
    Given(#[source] StepError),
    /// The scenario's namespace on a cluster that is there already.
    #[error("namespace {name}: {source}")]
    Namespace {
        /// The name of the namespace.
        name: String,
        /// The reason why it cannot be created or removed.
        source: remote::NamespaceError,
    },
    /// The outcome could not be read.
    #[error("the outcome cannot be read: {0}")]
    Outcome(#[source] crate::api::ApiError),
    /// The given state could not be set up, and programs have printed something.
    #[error("{source}\n{output}")]
    Programs {
        /// The error.
        source: Box<Self>,
        /// The last lines of each program.
        output: String,
    },
    /// No runtime for the scenario.
    #[error("cannot start a runtime: {0}")]
    Runtime(#[source] std::io::Error),
}

impl RunError {
    /// Whether a loop of requests has ended the run.
    pub(crate) fn is_livelock(&self) -> bool {
        match self {
            Self::Testbed(error) => error.is_livelock(),
            Self::Cluster(error) => error.is_livelock(),
            Self::Step { source, .. } => source.is_livelock(),
            Self::Given(error) => error.is_livelock(),
            Self::Programs { source, .. } => source.is_livelock(),
            _ => false,
        }
    }

    /// The error with what programs have printed, if that is anything.
    fn with_output(self, output: String) -> Self {
        match output.is_empty() {
            true => self,
            false => Self::Programs {
                source: Box::new(self),
                output,
            },
        }
    }
}

/// Options that override parts of a scenario.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// The controllers that run instead of the scenario's.
    pub controllers: Option<Vec<String>>,
    /// The profiles of the simulated scheduler, instead of the scenario's.
    pub scheduler_config: Option<SchedulerConfig>,
    /// Additional faults, from the first step on.
    pub plan: Plan,
    /// Seed of the order of what happens in one instant, as [`TestbedOptions::schedule_seed`].
    pub schedule_seed: u64,
    /// Whether requests are noted.
    pub notes: bool,
    /// Controllers under test, in addition to those that run anyway.
    pub under_test: Vec<ControllerUnderTest>,
    /// Programs that are the controllers. Then only the controllers of `controllers` run in this process. They start when
    /// the objects of `given` exist.
    pub programs: Option<ExternalPrograms>,
    /// What runs of the programs without faults do not agree on, if that is known.
    pub unstable: Option<Unstable>,
    /// The program for kubectl steps; without a program these are simulated.
    pub kubectl: Option<PathBuf>,
    /// After the last step, waits until nothing was written for this long. If the scenario does not end settled, exactly this
    /// time passes instead.
    pub final_settle: Option<Duration>,
    /// Restarts the controllers when the scenario has ended settled: they are to write nothing more.
    pub reconciles_again: bool,
}

impl RunOptions {
    /// Whether programs run in real time, and everything around them.
    #[must_use]
    pub fn is_real_time(&self) -> bool {
        let programs = self.programs.as_ref();
        programs.is_some_and(|programs| programs.time == ProgramTime::Real)
    }
}

/// The result of a run.
#[derive(Debug)]
pub struct Run {
    /// The transcript.
    pub transcript: Result<String, RunError>,
    /// The marks of the scenario that no line of the transcript carries, each with the reason.
    pub unmet_marks: Vec<String>,
    /// The points since the first step began at which a fault could have struck.
    pub points: Vec<Point>,
    /// Every write.
    pub journal: Vec<JournalEntry>,
    /// The steps taken; the last one may have failed.
    pub steps: Vec<Taken>,
    /// Every write that controllers were refused.
    pub refusals: Vec<Refusal>,
    /// The requests and events that faults met.
    pub hits: Vec<Hit>,
    /// Every request, if they were to be noted.
    pub exchanges: Vec<Exchange>,
    /// The violations by requests of controllers under test since the first step began.
    pub request_violations: Vec<Violation>,
    /// The writes of the controllers that were restarted after the end, if they were to be.
    pub second_writes: Vec<Violation>,
    /// The versions at which everything had settled. A step may wait for less, while controllers back off.
    pub settled: Vec<ResourceVersion>,
    /// Whether the caches of controllers showed the present.
    pub caches: Caches,
    /// The versions of writes whose answer the writer did not get.
    pub unanswered: BTreeSet<ResourceVersion>,
    /// The last lines that each program has printed.
    pub program_output: String,
}

impl Run {
    /// Returns what a recording of the run is made from, where everything is in `namespace`.
    pub(crate) fn observed<'a>(&'a self, namespace: &'a str) -> recording::Observed<'a> {
        recording::Observed {
            journal: &self.journal,
            steps: &self.steps,
            namespace,
            stated: namespace,
        }
    }

    /// Returns the violations of properties of controllers, including the stated ones.
    #[must_use]
    pub fn violations(&self, declared: &DeclaredProperties) -> Vec<Violation> {
        let observed = Observed {
            journal: &self.journal,
            points: &self.points,
            given_rv: self
                .steps
                .first()
                .map_or(ResourceVersion::ZERO, |step| step.after_rv),
            settled: &self.settled,
            caches: self.caches,
            unanswered: &self.unanswered,
            general: &general::of_scenarios(self.caches),
        };
        let mut violations = properties::violations(observed, declared);
        violations.extend_from_slice(&self.request_violations);
        violations
    }
}

/// Runs `scenario` on a runtime of its own and returns its transcript, which a golden holds.
///
/// # Errors
/// [`RunError`] when a request is refused unexpectedly or the scenario never settles.
pub fn run(scenario: &Scenario, options: &RunOptions) -> Result<String, RunError> {
    runtime(options)?.block_on(async {
        let testbed = start(scenario, options).await?;
        let transcript =
            carry_through(Cluster::Testbed(&testbed), scenario, options.final_settle).await;
        testbed.shutdown().await;
        transcript
    })
}

/// Runs `scenario` as [`run`] does, with the faults of the plan, and returns everything that was recorded.
///
/// # Errors
/// [`RunError`] when the testbed does not start or the given state cannot be set up.
pub fn run_whole(scenario: &Scenario, options: &RunOptions) -> Result<Run, RunError> {
    let begin = |testbed: &Testbed| testbed.plan_faults(&options.plan);
    run_between(scenario, options, begin, |_| ())
}

/// Runs `scenario` after `begin` has prepared the faults from the first step on; `ended` sees the run before the
/// testbed is stopped.
pub(crate) fn run_between(
    scenario: &Scenario,
    options: &RunOptions,
    begin: impl FnOnce(&Testbed),
    ended: impl FnOnce(&Run),
) -> Result<Run, RunError> {
    runtime(options)?.block_on(async {
        let testbed = start(scenario, options).await?;
        let cluster = Cluster::Testbed(&testbed);
        let prepared = prepare(cluster, scenario).await;
        let mut steps = Vec::new();
        let transcript = match prepared {
            Ok(()) => {
                testbed.forget_requests();
                begin(&testbed);
                take_steps(cluster, scenario, options.final_settle, &mut steps).await
            }
            Err(error) => {
                let output = testbed.program_output();
                testbed.shutdown().await;
                return Err(error.with_output(output));
            }
        };
        let (transcript, unmet_marks) = match transcript {
            Ok(transcript) => (Ok(transcript.text), transcript.unmet_marks),
            Err(error) => (Err(error), Vec::new()),
        };
        let mut run = Run {
            transcript,
            unmet_marks,
            points: testbed.points(),
            journal: testbed.journal(),
            steps,
            refusals: testbed.refusals(),
            hits: testbed.fault_hits(),
            exchanges: testbed.exchanges(),
            request_violations: testbed.request_violations(),
            second_writes: Vec::new(),
            settled: testbed.settled(QUIET),
            caches: testbed.caches(),
            unanswered: testbed.unanswered(),
            program_output: testbed.program_output(),
        };
        ended(&run);
        if options.reconciles_again && scenario.ends_settled() && run.transcript.is_ok() {
            testbed.reconcile_again(QUIET).await?;
            run.second_writes = testbed.second_writes();
        }
        testbed.shutdown().await;
        Ok(run)
    })
}

/// Starts the testbed of `scenario`, and hands it to `work`.
///
/// # Errors
/// [`RunError`] when the testbed does not start, and what `work` returns.
pub(crate) fn on_testbed<T>(
    scenario: &Scenario,
    options: &RunOptions,
    work: impl AsyncFnOnce(&Testbed) -> Result<T, RunError>,
) -> Result<T, RunError> {
    runtime(options)?.block_on(async {
        let testbed = start(scenario, options).await?;
        let done = work(&testbed).await;
        let output = testbed.program_output();
        testbed.shutdown().await;
        done.map_err(|error| error.with_output(output))
    })
}

/// Sets up the given state of `scenario` on its testbed, and takes the steps.
///
/// # Errors
/// [`RunError`] when one of them fails.
pub(crate) async fn carry_out(testbed: &Testbed, scenario: &Scenario) -> Result<(), RunError> {
    let cluster = Cluster::Testbed(testbed);
    let carried = carry_through(cluster, scenario, None).await;
    carried.map(drop)
}

fn runtime(options: &RunOptions) -> Result<tokio::runtime::Runtime, RunError> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    match (&options.programs, &options.kubectl) {
        (None, None) => builder.enable_time().start_paused(true),
        (None, Some(_)) => builder.enable_all().start_paused(true),
        (Some(_), _) if options.is_real_time() => builder.enable_all(),
        (Some(_), _) => {
            share_time(&mut builder);
            builder.enable_all().start_paused(true)
        }
    };
    builder.build().map_err(RunError::Runtime)
}

async fn start(scenario: &Scenario, options: &RunOptions) -> Result<Testbed, RunError> {
    let mut testbed_options = TestbedOptions {
        seed: scenario.seed,
        schedule_seed: options.schedule_seed,
        notes: options.notes,
        namespace: scenario.given.namespace.clone(),
        nodes: scenario.given.nodes,
        timings: scenario.given.timings,
        statefulset: scenario.given.statefulset(),
        kruise: scenario.given.kruise(),
        default_storage_class: scenario.given.default_storage_class,
        load_balancers: scenario.given.load_balancers.clone(),
        scheduler_config: scheduler_config(scenario, options),
        same_images: scenario.given.same_images.read().clone(),
        missing_images: scenario.given.missing_images.clone(),
        heartbeats: scenario.needs_heartbeats(),
        metrics: scenario.given.metrics,
        under_test: options.under_test.clone(),
        kubectl: options.kubectl.clone(),
        mode: match &options.programs {
            None => Mode::Virtual,
            Some(programs) => Mode::Programs(ExternalPrograms {
                pause: pause(programs, fitness::min_ready(scenario)),
                ..programs.clone()
            }),
        },
        ..TestbedOptions::default()
    };
    if options.programs.is_some() {
        testbed_options.controllers.clear();
    }
    let given = scenario.given.controllers.as_ref();
    let given = given.filter(|_| options.programs.is_none());
    let given = given.map(Controllers::names);
    let controllers = options.controllers.as_deref().or(given);
    if let Some(controllers) = controllers {
        testbed_options.controllers = controllers.to_vec();
    }
    Ok(Testbed::start(testbed_options).await?)
}

fn scheduler_config(scenario: &Scenario, options: &RunOptions) -> SchedulerConfig {
    let own = scenario.given.scheduler_config.as_ref();
    let own = own.map(SchedulerConfiguration::read);
    let chosen = options.scheduler_config.as_ref().or(own);
    chosen.cloned().unwrap_or_default()
}

/// The pause for a scenario in which something happens of its own accord after `min_ready`.
fn pause(programs: &ExternalPrograms, min_ready: Duration) -> SettlePause {
    let quiet = match programs.time {
        ProgramTime::Real => PROGRAM_QUIET,
        ProgramTime::Virtual => VIRTUAL_QUIET,
    };
    match programs.pause {
        pause @ SettlePause::ByActivity if min_ready.is_zero() => pause,
        SettlePause::ByActivity => SettlePause::Fixed(quiet + min_ready),
        SettlePause::Fixed(pause) => SettlePause::Fixed(pause + min_ready),
    }
}

async fn carry_through(
    cluster: Cluster<'_>,
    scenario: &Scenario,
    final_settle: Option<Duration>,
) -> Result<String, RunError> {
    prepare(cluster, scenario).await?;
    let transcript = take_steps(cluster, scenario, final_settle, &mut Vec::new()).await?;
    Ok(transcript.text)
}

/// The namespaces that every API server makes.
const SYSTEM_NAMESPACES: [&str; 4] = [
    DEFAULT_NAMESPACE,
    "kube-node-lease",
    "kube-public",
    "kube-system",
];

/// Sets up the given state, beginning with the namespace.
async fn prepare(cluster: Cluster<'_>, scenario: &Scenario) -> Result<(), RunError> {
    let namespace = &scenario.given.namespace;
    if !SYSTEM_NAMESPACES.contains(&namespace.as_str()) {
        let namespace = json!({
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": namespace},
        });
        let created = cluster.api().create(&namespace).await;
        created.map_err(|error| RunError::Given(error.into()))?;
    }
    prepare_within(cluster, scenario).await
}

/// Whether an object was read from a cluster, and is to be as it was there.
pub(crate) fn is_live(object: &Value) -> bool {
    Manifest::from(object.clone()).is_live()
}

/// Sets up the given state in an existing namespace.
async fn prepare_within(cluster: Cluster<'_>, scenario: &Scenario) -> Result<(), RunError> {
    let field_validation = scenario.given.field_validation;
    let api = cluster.api().clone();
    let api = api.with_field_validation(field_validation.unwrap_or(FieldValidation::Strict));
    let given = scenario.given.objects.iter();
    let live = given.flat_map(|manifest| &manifest.objects);
    let live: Vec<Value> = live.filter(|object| is_live(object)).cloned().collect();
    if !live.is_empty() {
        let testbed = cluster.testbed().map_err(RunError::Given)?;
        testbed.restore(live).await?;
    }
    for manifest in &scenario.given.objects {
        let new = manifest.objects.iter().filter(|object| !is_live(object));
        for object in new {
            let created = api.create(object).await;
            created.map_err(|source| {
                RunError::Given(StepError::Object {
                    object: manifest.object_in_words(object),
                    source: Box::new(source),
                })
            })?;
        }
    }
    cluster.start_programs().await?;
    if scenario.given.settle {
        cluster.settle(QUIET).await?;
    }
    for (index, step) in scenario.given.steps.iter().enumerate() {
        let number = format!("given {}", index + 1);
        take(cluster, step, number, &mut Vec::new()).await?;
    }
    Ok(())
}

/// Takes the steps, each noted in `taken`, and writes the transcript.
async fn take_steps(
    cluster: Cluster<'_>,
    scenario: &Scenario,
    final_settle: Option<Duration>,
    taken: &mut Vec<Taken>,
) -> Result<Transcript, RunError> {
    let mut sections = Vec::new();
    for (index, step) in scenario.steps.iter().enumerate() {
        cluster.begin_step(index);
        sections.push(take(cluster, step, (index + 1).to_string(), taken).await?);
    }
    match final_settle {
        Some(quiet) if scenario.ends_settled() => drop(cluster.settle(quiet).await?),
        // A scenario that ends in the middle of a rollout need not settle.
        Some(time) => tokio::time::sleep(time).await,
        None => {}
    }
    transcript::write(cluster, scenario, &sections).await
}

/// Carries out one step and lets it settle.
async fn take(
    cluster: Cluster<'_>,
    step: &Step,
    number: String,
    taken: &mut Vec<Taken>,
) -> Result<Section, RunError> {
    let words = step.in_words();
    let mut section = Section {
        heading: format!("{number}. {words}"),
        note: step.note.clone(),
        after_rv: cluster.resource_version(),
        after_refusals: cluster.refusals().len(),
        began: cluster.now(),
        said: Vec::new(),
        ended: cluster.now(),
        settled: None,
        awaited: matches!(step.verb, Verb::Wait(_)),
    };
    taken.push(Taken {
        heading: section.heading.clone(),
        note: section.note.clone(),
        after_rv: section.after_rv,
        began: section.began,
    });
    let said = steps::perform(cluster, step).await;
    section.said = said.map_err(|source| RunError::Step {
        number,
        words,
        source: Box::new(source),
    })?;
    if step.settle {
        section.settled = Some(cluster.settle(QUIET).await?);
    }
    section.ended = cluster.now();
    Ok(section)
}
