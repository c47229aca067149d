//! Exploration of a testbed with a script in Rust.

use std::collections::BTreeSet;
use std::error::Error;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use kubeproof_apiserver::fault::Point;
use tokio::runtime::Handle;

use super::{Bounds, Divergence, Options, Plan, Seen, compare, pairs, plans};
use crate::causes::write_with_causes;
use crate::outcome::portable_outcome;
use crate::properties::Violation;
use crate::testbed::{QUIET, SETTLE_TIME_MAX, Testbed, TestbedBuilder, TestbedError};
use crate::user_agent::is_component;

/// The period of progress messages of a long exploration.
const PROGRESS_PERIOD: Duration = Duration::from_secs(10);
/// The number of plans that a report names for one outcome.
const PLANS_SHOWN: usize = 3;

/// The result of a script.
type Done = Result<(), Box<dyn Error>>;

/// The findings of an exploration. As text it has each different outcome with up to three of its plans.
#[derive(Debug)]
pub struct Report {
    /// The number of runs, not counting the one without faults.
    pub runs: usize,
    /// The plan of each run, in the order in which the faults would strike.
    pub plans: Vec<Plan>,
    /// The runs with a different outcome, in the order in which their faults would strike.
    pub diverged: Vec<(Plan, Divergence)>,
    /// The timeline of the run without faults.
    pub timeline: String,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Many plans can have one consequence, which is shown once.
        let mut groups: Vec<(&str, Vec<&Plan>)> = Vec::new();
        for (plan, divergence) in &self.diverged {
            let outcome = divergence.outcome.as_str();
            match groups.iter_mut().find(|(known, _)| *known == outcome) {
                Some((_, plans)) => plans.push(plan),
                None => groups.push((outcome, vec![plan])),
            }
        }
        for (outcome, plans) in groups {
            for plan in plans.iter().take(PLANS_SHOWN) {
                writeln!(f, "{plan}")?;
            }
            if let Some(more @ 1..) = plans.len().checked_sub(PLANS_SHOWN) {
                writeln!(f, "and {more} more runs with the same outcome")?;
            }
            writeln!(f, "{outcome}")?;
        }
        write!(f, "{} runs, {} diverged", self.runs, self.diverged.len())
    }
}

/// The result of one run of a testbed.
#[derive(Debug)]
pub struct Replay {
    /// The outcome as explorations compare it: without ages and other values that differ from run to run.
    pub outcome: String,
    /// The timeline of the run.
    pub timeline: String,
    /// The violations of properties after the setup of the testbed.
    pub violations: Vec<Violation>,
    points: Vec<Point>,
    /// The faults of the plan that did not strike.
    unmet: Vec<String>,
}

/// An exploration without a possible fault, or a plan that does not strike. As [`fmt::Debug`] it is the message.
#[derive(thiserror::Error)]
pub enum ExploreError {
    /// No client of that name sends a request.
    #[error("no requests come from {}; the clients are: {}", .unknown.join(", "), .known.join(", "))]
    UnknownAgents {
        /// The user agents asked for that send none.
        unknown: Vec<String>,
        /// The user agents that send requests.
        known: Vec<String>,
    },
    /// No fault of the kinds asked for can strike.
    #[error("no fault is possible: no request or event of the controllers fits the faults")]
    NoPlans,
    /// The requests or events that the plan names do not happen.
    #[error("these faults of the plan did not strike: {0}")]
    NotMet(String),
}

impl fmt::Debug for ExploreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_with_causes(self, f)
    }
}

/// Runs a test once without faults, then once for each possible fault, and compares the outcomes.
///
/// Each run starts `builder`, settles, calls `script` and settles again. Without [`Options::from`] the faults affect the
/// controllers under test; without any, all controllers. Runs take place on as many threads as there are
/// processors, each in a runtime of its own with paused time, so this is called from a plain test. Progress is printed
/// to standard error every ten seconds.
///
/// ```
/// use kubeproof::explore::{self, Kind, Options};
/// use kubeproof::Testbed;
///
/// # const REPLICA_SET: &str = "
/// # apiVersion: apps/v1
/// # kind: ReplicaSet
/// # metadata: {name: web}
/// # spec:
/// #   replicas: 1
/// #   selector: {matchLabels: {app: web}}
/// #   template:
/// #     metadata: {labels: {app: web}}
/// #     spec: {containers: [{name: web, image: 'nginx:1.25'}]}
/// # ";
///
/// let builder = Testbed::builder().controllers(["replicaset"]);
/// let options = Options { kinds: [Kind::CrashAfter].into(), ..Options::default() };
/// let report = explore::testbed(&builder, &options, async |testbed| {
///     testbed.apply(REPLICA_SET).await?;
///     Ok(())
/// })?;
/// assert!(report.runs > 0);
/// assert!(report.diverged.is_empty(), "{report}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Errors of the run without faults, including violations of properties, and [`ExploreError`] when there is nothing
/// to explore. An error or a panic of a run with faults is a divergence.
///
/// # Panics
/// Within a tokio runtime, and when the run without faults panics.
pub fn testbed(
    builder: &TestbedBuilder,
    options: &Options,
    script: impl AsyncFn(&Testbed) -> Done + Sync,
) -> Result<Report, Box<dyn Error>> {
    assert_no_runtime("testbed");
    let mut options = options.clone();
    if options.from.is_empty() {
        options.from = builder.user_agents().map(str::to_owned).collect();
    }
    let reference = run(builder, &Plan::default(), &script)?;
    if builder.fails_on_violations() && !reference.violations.is_empty() {
        return Err(TestbedError::Violated(reference.violations).into());
    }
    check_agents(&options, &reference.points)?;
    let mut plans = plans(&reference.points, &options);
    plans.extend(pairs(&plans, options.pairs_max));
    if plans.is_empty() {
        return Err(ExploreError::NoPlans.into());
    }
    let verdict = |plan: &Plan| {
        // Scripts assert, and an assertion that fails under faults is what an exploration is for.
        let run = AssertUnwindSafe(|| run(builder, plan, &script));
        match catch_unwind(run) {
            Ok(Ok(run)) => {
                let bounds = Bounds::default();
                compare(&reference.seen(), Ok(&run.seen()), &run.violations, &bounds)
            }
            Ok(Err(error)) => {
                let why = format!("the run failed: {error}");
                Some(Divergence::unended(why, None))
            }
            Err(panic) => Some(Divergence::of_panic(&*panic)),
        }
    };
    let verdicts = each(&plans, verdict);
    let pairs = plans.iter().cloned().zip(verdicts);
    let diverged = pairs.filter_map(|(plan, divergence)| Some((plan, divergence?)));
    Ok(Report {
        runs: plans.len(),
        diverged: diverged.collect(),
        plans,
        timeline: reference.timeline,
    })
}

/// Runs a test once with the faults of `plan`, for example those of an exploration of the same builder and script. As
/// for [`testbed`], the builder is started and settled before the script.
///
/// ```
/// use kubeproof::explore;
/// use kubeproof::Testbed;
///
/// # const REPLICA_SET: &str = "
/// # apiVersion: apps/v1
/// # kind: ReplicaSet
/// # metadata: {name: web}
/// # spec:
/// #   replicas: 1
/// #   selector: {matchLabels: {app: web}}
/// #   template:
/// #     metadata: {labels: {app: web}}
/// #     spec: {containers: [{name: web, image: 'nginx:1.25'}]}
/// # ";
///
/// let builder = Testbed::builder().controllers(["replicaset"]);
/// let plan = "crash-after create pods default/ from replicaset-controller".parse()?;
/// let replay = explore::replay(&builder, &plan, async |testbed| {
///     testbed.apply(REPLICA_SET).await?;
///     Ok(())
/// })?;
/// assert_eq!(replay.timeline.matches("pod web-00001 created").count(), 1);
/// assert_eq!(replay.violations, []);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Any error of the run; [`ExploreError::NotMet`] when a fault of the plan does not strike.
///
/// # Panics
/// Within a tokio runtime.
pub fn replay(
    builder: &TestbedBuilder,
    plan: &Plan,
    script: impl AsyncFn(&Testbed) -> Done,
) -> Result<Replay, Box<dyn Error>> {
    assert_no_runtime("replay");
    let replay = run(builder, plan, &script)?;
    match replay.unmet.is_empty() {
        true => Ok(replay),
        false => Err(ExploreError::NotMet(replay.unmet.join(", ")).into()),
    }
}

impl Replay {
    fn seen(&self) -> Seen {
        Seen::of_testbed(&self.outcome, &self.timeline)
    }
}

fn assert_no_runtime(function: &str) {
    assert!(
        Handle::try_current().is_err(),
        "explore::{function} starts runtimes of its own: call it from a plain #[test], not from \
         #[tokio::test] or another async function"
    );
}

fn check_agents(options: &Options, points: &[Point]) -> Result<(), ExploreError> {
    let agents = points.iter().map(|point| &*point.from);
    let known: BTreeSet<&str> = agents.filter(|agent| is_component(agent)).collect();
    let unknown = options.from.iter();
    let unknown: Vec<String> = unknown
        .filter(|agent| !known.contains(&***agent))
        .cloned()
        .collect();
    match unknown.is_empty() {
        true => Ok(()),
        false => Err(ExploreError::UnknownAgents {
            unknown,
            known: known.into_iter().map(str::to_owned).collect(),
        }),
    }
}

/// Calls `judge` with each plan, in parallel, and returns the results in the order of the plans.
fn each<T: Send>(plans: &[Plan], judge: impl Fn(&Plan) -> T + Sync) -> Vec<T> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicUsize::new(0);
    let (sender, receiver) = mpsc::channel();
    let mut verdicts: Vec<Option<T>> = plans.iter().map(|_| None).collect();
    std::thread::scope(|scope| {
        for _ in 0..threads.min(plans.len()) {
            let (sender, next, judge) = (sender.clone(), &next, &judge);
            scope.spawn(move || {
                while let Some((index, plan)) = taken(plans, next) {
                    // The receiver is gone when another thread has panicked.
                    let _ = sender.send((index, judge(plan)));
                }
            });
        }
        drop(sender);
        let mut done = 0;
        loop {
            match receiver.recv_timeout(PROGRESS_PERIOD) {
                Ok((index, verdict)) => {
                    verdicts[index] = Some(verdict);
                    done += 1;
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    eprintln!("explored {done} of {} runs", plans.len());
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
            }
        }
    });
    let verdicts = verdicts.into_iter();
    verdicts
        .map(|verdict| verdict.expect("a thread that panics takes the exploration with it"))
        .collect()
}

fn taken<'p>(plans: &'p [Plan], next: &AtomicUsize) -> Option<(usize, &'p Plan)> {
    let index = next.fetch_add(1, Ordering::Relaxed);
    Some((index, plans.get(index)?))
}

fn run(
    builder: &TestbedBuilder,
    plan: &Plan,
    script: &impl AsyncFn(&Testbed) -> Done,
) -> Result<Replay, Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()?;
    runtime.block_on(async {
        let mut testbed = builder.clone().ignore_violations().start().await?;
        let run = carry_through(&testbed, plan, script).await;
        testbed.end().await;
        run
    })
}

async fn carry_through(
    testbed: &Testbed,
    plan: &Plan,
    script: &impl AsyncFn(&Testbed) -> Done,
) -> Result<Replay, Box<dyn Error>> {
    // The script has not yet written anything for the controllers.
    testbed.wait_until_quiet(QUIET, SETTLE_TIME_MAX).await?;
    testbed.plan_faults(plan);
    let given_rv = testbed.resource_version();
    script(testbed).await?;
    testbed.settle(QUIET).await?;
    let planned = plan.to_faults().into_iter().zip(plan.faults());
    let met = testbed.faults_met();
    let is_unmet = |name: &str| {
        met.iter()
            .any(|(own, times)| own.name == name && *times == 0)
    };
    let unmet = planned.filter(|(fault, _)| is_unmet(&fault.name));
    Ok(Replay {
        outcome: portable_outcome(&format!("\noutcome\n{}", testbed.outcome().await?)),
        timeline: testbed.timeline(),
        violations: testbed.violations_since(given_rv),
        points: testbed.points(),
        unmet: unmet.map(|(_, planned)| planned.to_string()).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_shows_an_outcome_once_with_some_of_its_plans() {
        let plan = |n: usize| {
            let text = format!("crash-after patch configmaps default/a #{n} from noter");
            text.parse::<Plan>().unwrap()
        };
        let divergence = |outcome: &str| Divergence {
            outcome: outcome.to_owned(),
            timelines: String::new(),
            with_faults: String::new(),
            program_output: String::new(),
            differences: Vec::new(),
        };
        let mut diverged: Vec<_> = (2..7).map(|n| (plan(n), divergence("-a\n+b"))).collect();
        diverged.insert(1, (plan(9), divergence("the run panicked")));
        let report = Report {
            runs: 8,
            plans: Vec::new(),
            diverged,
            timeline: String::new(),
        };
        assert_eq!(
            report.to_string(),
            "crash-after patch configmaps default/a #2 from noter
crash-after patch configmaps default/a #3 from noter
crash-after patch configmaps default/a #4 from noter
and 2 more runs with the same outcome
-a
+b
crash-after patch configmaps default/a #9 from noter
the run panicked
8 runs, 6 diverged"
        );
    }
}
