//! Runs a test once for each possible fault, and compares the outcomes.
//!
//! A run without faults records its points: every request of a controller, and every event delivered to one. For each
//! point and each fitting kind of fault there is a plan, and a run with it. A run passes when its outcome equals the
//! outcome without faults; its timeline may differ.

mod bounds;
#[cfg(unix)]
#[cfg(feature = "cli")]
mod branches;
mod coverage;
mod difference;
mod excuses;
mod library;
#[cfg(target_os = "linux")]
#[cfg(feature = "cli")]
mod page_tables;
mod verdict;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::OnceLock;
use std::time::Duration;

use kubeproof_apiserver::JournalEntry;
use kubeproof_apiserver::fault::Point;

pub use crate::fault_plan::{Kind, Plan, PlanError, Planned};
use crate::outcome::{Facts, Unstable, object_names, program_objects};
use crate::runner::{self, Run, RunError, RunOptions};
use crate::scenario::Scenario;
use crate::testbed::ExternalPrograms;
use crate::user_agent::{LOADER, SCENARIO_ACTOR, actor, is_component};

#[doc(hidden)]
pub use bounds::Bounds;
#[cfg(unix)]
#[doc(hidden)]
#[cfg(feature = "cli")]
pub use branches::{Branched, branches};
#[doc(hidden)]
pub use coverage::Points;
use coverage::situations;
#[doc(hidden)]
pub use excuses::{Explained, Part, explain, stale_faults, stale_orders};
pub use library::{ExploreError, Replay, Report, replay, testbed};
pub use verdict::Divergence;
#[doc(hidden)]
pub use verdict::{Seen, compare};

/// Components whose requests are not explored: they are the cluster, not the controllers under test.
const CLUSTER: &[&str] = &["kubelet", "default-scheduler", "kube-scheduler"];
/// Resources whose writes are reports: losing one of them changes no outcome.
const REPORTS: &[&str] = &[
    "events",
    "events.events.k8s.io",
    "leases.coordination.k8s.io",
];

/// Controllers retry after a thousand seconds at the latest: a write that is still missing after that will not come.
pub(crate) const FINAL_SETTLE: Duration = Duration::from_secs(1100);

/// The faults to explore. By default: those of [`Kind::DEFAULT`], one at a time.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The kinds of faults; those of [`Kind::DEFAULT`] when empty.
    pub kinds: BTreeSet<Kind>,
    /// The user agents whose requests and events meet the faults. When empty: the controllers under test; if there are
    /// none, all controllers.
    pub from: BTreeSet<String>,
    /// The maximum number of additional plans with two faults, spread evenly over all pairs.
    pub pairs_max: usize,
}

/// A scenario's run without faults, which all others are compared with.
#[doc(hidden)]
#[derive(Debug)]
pub struct Reference {
    /// The part of the run that is compared.
    pub seen: Seen,
    /// The part of a longer run that is compared, at whose end [`FINAL_SETTLE`] passes; or the error of that run.
    later: OnceLock<Result<Seen, String>>,
    points: Vec<Point>,
    journal: Vec<JournalEntry>,
}

impl Reference {
    /// Runs `scenario` without faults.
    ///
    /// # Errors
    /// [`RunError`] when even that does not go well.
    pub fn of(scenario: &Scenario) -> Result<Self, RunError> {
        Self::with(scenario, &RunOptions::default())
    }

    /// Runs `scenario` without faults, with these options.
    ///
    /// # Errors
    /// [`RunError`] when it does not go well.
    pub fn with(scenario: &Scenario, options: &RunOptions) -> Result<Self, RunError> {
        let (run, again) = match (&options.programs, &options.unstable) {
            // Programs take real time, so both runs take place at once. The output of the first is kept.
            (Some(programs), None) => std::thread::scope(|scope| {
                let again = RunOptions {
                    programs: Some(ExternalPrograms {
                        output: None,
                        ..programs.clone()
                    }),
                    ..options.clone()
                };
                let again = scope.spawn(move || {
                    let run = runner::run_whole(scenario, &again)?;
                    let names = object_names(&run.journal);
                    Ok::<_, RunError>((objects_of(scenario, &run), names))
                });
                let run = runner::run_whole(scenario, options);
                let again = again.join().unwrap_or_else(|panic| resume_unwind(panic));
                (run, Some(again))
            }),
            _ => (runner::run_whole(scenario, options), None),
        };
        let mut run = run?;
        if options.programs.is_some() {
            let mut points = std::mem::take(&mut run.points);
            let own: BTreeSet<&str> = agents_of(&run).collect();
            points.retain(|point| !own.contains(&*point.from));
            run.points = points;
        }
        let seen = seen(scenario, &run, options);
        let seen = seen.map_err(|_| ());
        run.transcript?;
        let seen = seen.expect("the run has a transcript");
        let unstable = match (again, &options.unstable) {
            (Some(again), _) => {
                let (objects, names) = again?;
                let unstable = Unstable::between(seen.objects(), &objects);
                unstable.with_names(seen.names(), &names)
            }
            (None, Some(unstable)) => unstable.clone(),
            (None, None) => Unstable::default(),
        };
        Ok(Self {
            seen: seen.with_unstable(unstable),
            later: OnceLock::new(),
            points: run.points,
            journal: run.journal,
        })
    }

    /// What runs without faults do not agree on.
    pub(crate) fn unstable(&self) -> &Unstable {
        self.seen.unstable()
    }

    /// Returns the outcome that is expected of a run at whose end [`FINAL_SETTLE`] passes.
    ///
    /// # Errors
    /// The error of the longer run without faults, in words.
    fn later(&self, scenario: &Scenario, options: &RunOptions) -> Result<&Seen, &String> {
        let later = self.later.get_or_init(|| {
            let options = RunOptions {
                plan: Plan::default(),
                schedule_seed: 0,
                final_settle: Some(FINAL_SETTLE),
                ..options.clone()
            };
            let words = |error: &RunError| format!("the longer run without faults failed: {error}");
            let run = runner::run_whole(scenario, &options).map_err(|error| words(&error))?;
            let seen = seen(scenario, &run, &options).map_err(words)?;
            Ok(seen.with_unstable(self.unstable().clone()))
        });
        later.as_ref()
    }

    /// The points of the controllers under test.
    pub fn points<'a>(&'a self, options: &'a Options) -> impl Iterator<Item = &'a Point> {
        under_test(&self.points, options)
    }

    /// Returns the user agents that faults could meet, sorted.
    #[must_use]
    pub fn agents(&self) -> BTreeSet<String> {
        let all = Options::default();
        let agents = under_test(&self.points, &all).map(|point| point.from.clone());
        agents.collect()
    }

    /// Returns the plans with one fault each, in the order in which they would strike.
    #[must_use]
    pub fn plans(&self, options: &Options) -> Vec<Plan> {
        plans(&self.points, options)
    }

    /// Returns the plans with one fault each at these points, in the order in which they would strike.
    #[must_use]
    pub fn plans_at(&self, points: Points, options: &Options) -> Vec<Plan> {
        if points == Points::All {
            return self.plans(options);
        }
        let situations = situations(&self.points, &self.journal);
        let all = self.points.iter().zip(&situations);
        let all = all.flat_map(|(point, situation)| {
            let plans = plans(std::slice::from_ref(point), options).into_iter();
            plans.map(move |plan| ((plan.faults()[0].kind(), situation), plan))
        });
        points.choose(all.collect())
    }
}

fn under_test<'a>(points: &'a [Point], options: &'a Options) -> impl Iterator<Item = &'a Point> {
    points.iter().filter(|point| {
        let is_wanted = options.from.is_empty() || options.from.contains(&point.from);
        let is_controller = is_component(&point.from) && !CLUSTER.contains(&&*point.from);
        let resource = point.resource.split('/').next().unwrap_or_default();
        is_wanted && is_controller && !REPORTS.contains(&resource)
    })
}

fn plans(points: &[Point], options: &Options) -> Vec<Plan> {
    let kinds: Vec<Kind> = match options.kinds.is_empty() {
        true => Kind::DEFAULT.to_vec(),
        false => options.kinds.iter().copied().collect(),
    };
    let with_kinds = |point: &Point| {
        let fitting = kinds.iter().filter(|kind| kind.fits(point));
        let planned = fitting.map(|kind| Plan::of(vec![Planned::new(*kind, point.clone())]));
        planned.collect::<Vec<_>>()
    };
    under_test(points, options).flat_map(with_kinds).collect()
}

/// At most `max` plans of two of the faults of `singles`, spread evenly over all pairs.
#[doc(hidden)]
#[must_use]
pub fn pairs(singles: &[Plan], max: usize) -> Vec<Plan> {
    let all = singles.len() * singles.len().saturating_sub(1) / 2;
    let (mut pairs, mut place, mut taken) = (Vec::new(), 0, 0);
    for (index, first) in singles.iter().enumerate() {
        for second in &singles[index + 1..] {
            // The `taken`th of `max` is at that share of all.
            if taken < max && (all <= max || place * max >= taken * all) {
                let faults = first.faults().iter().chain(second.faults()).cloned();
                pairs.push(Plan::of(faults.collect()));
                taken += 1;
            }
            place += 1;
        }
    }
    pairs
}

/// Runs `scenario` with `plan`; `None` when it comes to the outcome of `reference`, soon or late.
#[doc(hidden)]
#[must_use]
pub fn explore(scenario: &Scenario, reference: &Reference, plan: &Plan) -> Option<Divergence> {
    let options = RunOptions {
        plan: plan.clone(),
        ..RunOptions::default()
    };
    explore_with(scenario, reference, &options)
}

/// Runs `scenario` with these options, including their plan, and compares the outcomes.
#[doc(hidden)]
#[must_use]
pub fn explore_with(
    scenario: &Scenario,
    reference: &Reference,
    options: &RunOptions,
) -> Option<Divergence> {
    let soon = attempt(scenario, &reference.seen, options)?;
    late(scenario, reference, options, soon)
}

/// The result of one plan.
#[doc(hidden)]
#[derive(Debug)]
pub struct Carried {
    /// The divergence from the run without faults, if any.
    pub divergence: Option<Divergence>,
    /// The faults that struck nowhere, because their points never came.
    pub unmet: Vec<Planned>,
}

/// Runs `scenario` as [`explore_with`] does, and returns which faults of the plan struck nowhere.
#[doc(hidden)]
#[must_use]
pub fn carry_out(scenario: &Scenario, reference: &Reference, options: &RunOptions) -> Carried {
    compared(scenario, reference, options, run_of(scenario, options))
}

/// Does the same next to `reference`, which makes the run without faults. Both take place at once in real time, as they
/// mostly wait then.
///
/// # Errors
/// What `reference` returns.
pub(crate) fn carry_out_beside<E: Send>(
    scenario: &Scenario,
    reference: impl FnOnce() -> Result<Reference, E> + Send,
    options: &RunOptions,
) -> Result<(Reference, Carried), E> {
    let (reference, run) = match options.is_real_time() {
        true => std::thread::scope(|scope| {
            let run = scope.spawn(|| run_of(scenario, options));
            let reference = reference();
            (reference, run.join().unwrap_or_else(Err))
        }),
        false => (Ok(reference()?), run_of(scenario, options)),
    };
    let reference = reference?;
    let carried = compared(scenario, &reference, options, run);
    Ok((reference, carried))
}

/// A run, or its panic.
type Attempted = std::thread::Result<Result<Run, RunError>>;

fn run_of(scenario: &Scenario, options: &RunOptions) -> Attempted {
    let run = AssertUnwindSafe(|| runner::run_whole(scenario, options));
    std::panic::catch_unwind(run)
}

fn compared(
    scenario: &Scenario,
    reference: &Reference,
    options: &RunOptions,
    run: Attempted,
) -> Carried {
    let unmet = match &run {
        Ok(Ok(run)) => options
            .plan
            .unmet(run.hits.iter().map(|hit| hit.fault.as_str())),
        _ => Vec::new(),
    };
    let soon = verdict_of(scenario, &reference.seen, options, run);
    Carried {
        divergence: soon.and_then(|soon| late(scenario, reference, options, soon)),
        unmet,
    }
}

/// Runs the scenario again with the time of the slowest retry, and returns the divergence that is left. Events of which
/// there were too many stay too many.
fn late(
    scenario: &Scenario,
    reference: &Reference,
    options: &RunOptions,
    soon: Divergence,
) -> Option<Divergence> {
    let excess = soon.excess();
    // Such a wait is too long in real time.
    if options.is_real_time() || excess.as_ref() == Some(&soon) {
        return Some(soon);
    }
    let late = RunOptions {
        final_settle: Some(FINAL_SETTLE),
        ..options.clone()
    };
    let found = match reference.later(scenario, options) {
        Ok(expected) => attempt(scenario, expected, &late),
        Err(why) => Some(Divergence::unended(why.clone(), None)),
    };
    match (found, excess) {
        (Some(late), Some(excess)) => Some(late.with(excess)),
        (late, excess) => late.or(excess),
    }
}

fn attempt(scenario: &Scenario, expected: &Seen, options: &RunOptions) -> Option<Divergence> {
    verdict_of(scenario, expected, options, run_of(scenario, options))
}

fn verdict_of(
    scenario: &Scenario,
    expected: &Seen,
    options: &RunOptions,
    run: Attempted,
) -> Option<Divergence> {
    match run {
        Err(panic) => Some(Divergence::of_panic(&*panic)),
        Ok(Err(error)) => {
            let (error, output) = match error {
                RunError::Programs { source, output } => (*source, output),
                error => (error, String::new()),
            };
            let divergence = compare(expected, Err(&error), &[], &Bounds::default());
            divergence.map(|divergence| divergence.of_programs(&output))
        }
        Ok(Ok(run)) => {
            let divergence = judge(scenario, expected, options, &run);
            divergence.map(|divergence| divergence.of_programs(&run.program_output))
        }
    }
}

/// What is compared of a run. How often something is tried, and so its events, depends on the order of what happens in
/// one instant, and in real time on the machine.
fn seen<'r>(scenario: &Scenario, run: &'r Run, options: &RunOptions) -> Result<Seen, &'r RunError> {
    let seen = Seen::of_transcript(run.transcript.as_ref()?);
    Ok(match (&options.programs, options.schedule_seed) {
        (Some(_), _) => seen.with_objects(objects_of(scenario, run), object_names(&run.journal)),
        (None, 0) => seen.with_events(&run.journal),
        (None, _) => seen,
    })
}

/// The user agents of the controllers in this process.
fn agents_of(run: &Run) -> impl Iterator<Item = &str> {
    run.exchanges.iter().map(|own| actor(&own.user_agent))
}

/// The objects of programs at the end of a run.
fn objects_of(scenario: &Scenario, run: &Run) -> Facts {
    let others = agents_of(run).chain([SCENARIO_ACTOR, LOADER]).collect();
    program_objects(&run.journal, &others, &scenario.given.namespace)
}

fn judge(
    scenario: &Scenario,
    expected: &Seen,
    options: &RunOptions,
    run: &Run,
) -> Option<Divergence> {
    let seen = seen(scenario, run, options);
    compare(
        expected,
        seen.as_ref().map_err(|error| *error),
        &scenario.unsaid(run.violations(&scenario.declared)),
        &Bounds::of(options),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_spread_over_all_pairs() {
        let single = |name: &str| -> Plan {
            let text = format!("crash-before create pods default/{name} from c");
            text.parse().unwrap()
        };
        let singles: Vec<Plan> = (0..10).map(|index| single(&index.to_string())).collect();
        assert_eq!(pairs(&singles, 0), []);
        assert_eq!(pairs(&singles, 100).len(), 45);
        let some = pairs(&singles, 9);
        assert_eq!(some.len(), 9);
        assert!(some.iter().all(|pair| pair.faults().len() == 2));
        assert!(some[8].to_string().contains("default/6 "), "{}", some[8]);
    }
}
