//! The runs of an exploration, made one after the other as they are needed.

use std::path::Path;
use std::sync::Arc;

use kubeproof::explore::{self, Divergence, Explained, Options, Plan, Points, Reference};
use kubeproof::runner::{RunError, RunOptions};
use kubeproof::scenario::ScenarioFile;
use kubeproof::threads;

use super::How;
use super::finished::{Finished, Run};
use crate::cli::program;
use crate::cli::shard::Deal;

/// A scenario with its run without faults.
pub(super) struct Subject {
    pub(super) file: ScenarioFile,
    pub(super) reference: Reference,
    /// The flags that say which programs run, each with a blank before it.
    pub(super) programs: String,
}

/// The next job.
pub(super) enum Job {
    /// The run without faults failed.
    Failed(Box<ScenarioFile>, RunError),
    /// This many runs follow, of all scenarios or of one.
    Length(usize),
    /// The next scenario has this many runs, in all shards.
    Planned(usize),
    /// One run, with its number in the scenario.
    Run(Arc<Subject>, Plan, u64, usize),
    /// There are no more of this scenario.
    End(Arc<Subject>),
}

/// The result of a job.
pub(super) enum Done {
    Failed(Box<ScenarioFile>, RunError),
    /// This many runs follow, of all scenarios or of one.
    Length(usize),
    /// The next scenario has this many runs, in all shards.
    Planned(usize),
    /// A run, and its difference from the run without faults.
    Ran(Ran, Option<Divergence>),
    End(Arc<Subject>),
}

/// A run.
pub(super) struct Ran {
    pub(super) subject: Arc<Subject>,
    pub(super) plan: Plan,
    /// The seed of its order.
    pub(super) schedule_seed: u64,
}

impl Job {
    /// Does it. A run that is finished already is not done again, and others are noted.
    ///
    /// # Errors
    /// When the run cannot be noted.
    pub(super) fn run(
        self,
        (base, output): (&RunOptions, Option<&Path>),
        finished: Option<&Finished>,
    ) -> anyhow::Result<Done> {
        Ok(match self {
            Self::Failed(file, error) => Done::Failed(file, error),
            Self::Length(runs) => Done::Length(runs),
            Self::Planned(of_all) => Done::Planned(of_all),
            Self::End(subject) => Done::End(subject),
            Self::Run(subject, plan, schedule_seed, number) => {
                let of = Run {
                    file: &subject.file,
                    plan: &plan,
                    schedule_seed,
                };
                let known = finished.and_then(|finished| finished.get(of));
                let divergence = match known {
                    Some(divergence) => divergence.clone(),
                    None => {
                        let named = (subject.file.name.as_str(), Some(number));
                        let options = RunOptions {
                            plan: plan.clone(),
                            schedule_seed,
                            ..program::with_output(base, output, named)
                        };
                        let (scenario, reference) = (&subject.file.scenario, &subject.reference);
                        let divergence = explore::explore_with(scenario, reference, &options);
                        if let Some(finished) = finished {
                            finished.note(of, divergence.as_ref())?;
                        }
                        divergence
                    }
                };
                let ran = Ran {
                    subject,
                    plan,
                    schedule_seed,
                };
                Done::Ran(ran, divergence)
            }
        })
    }
}

impl Ran {
    /// Which differences the scenario explains.
    pub(super) fn explained(&self, divergence: &Divergence) -> Explained {
        let scenario = &self.subject.file.scenario;
        explore::explain(scenario, (&self.plan, self.schedule_seed), divergence)
    }

    /// The command that runs it again.
    pub(super) fn replay(&self) -> String {
        let (path, programs) = (self.subject.file.path.display(), &self.subject.programs);
        let plan = match self.plan.faults() {
            [] => format!("kubeproof run {path}{programs}"),
            _ => format!("kubeproof explore {path}{programs} --plan '{}'", self.plan),
        };
        match self.schedule_seed {
            0 => plan,
            schedule_seed => format!("{plan} --seed {schedule_seed}"),
        }
    }
}

/// All jobs, scenario by scenario. Those with fewer faults come first, so that the first of several
/// equal differences is one with the shortest plan.
///
/// The runs without faults are done first, so that the number of the others is known.
pub(super) fn of(
    files: Vec<ScenarioFile>,
    how: &How<'_>,
    options: &Options,
    seeds: u64,
) -> impl Iterator<Item = Job> + Send {
    // Each of them is done twice, at once.
    let at_once = how.at_once.div_ceil(2);
    let subjects = threads::at_once(at_once, files, |file| {
        let options_of_first =
            program::with_output(how.base, how.program_output, (&file.name, Some(0)));
        match Reference::with(&file.scenario, &options_of_first) {
            Err(error) => Err((Box::new(file), error)),
            Ok(reference) => Ok(Arc::new(Subject {
                file,
                reference,
                programs: how.programs.to_owned(),
            })),
        }
    });
    let (mut all, mut deal) = (0, how.deal());
    let mut jobs: Vec<Box<dyn Iterator<Item = Job> + Send>> = Vec::new();
    for subject in subjects {
        jobs.push(match subject {
            Err((file, error)) => Box::new(std::iter::once(Job::Failed(file, error))),
            Ok(subject) => {
                let (runs, jobs) = of_subject(subject, (how.points, options), seeds, &mut deal);
                all += runs;
                Box::new(jobs)
            }
        });
    }
    std::iter::once(Job::Length(all)).chain(jobs.into_iter().flatten())
}

/// The jobs of a scenario, and the number of its runs that are this shard's.
fn of_subject(
    subject: Arc<Subject>,
    (points, options): (Points, &Options),
    seeds: u64,
    deal: &mut Deal,
) -> (usize, impl Iterator<Item = Job> + Send + use<>) {
    let singles = subject.reference.plans_at(points, options);
    let pairs = explore::pairs(&singles, options.pairs_max);
    let planned = planned(singles.len(), pairs.len(), seeds);
    let in_orders = |orders: std::ops::RangeInclusive<u64>, plans: Vec<Plan>| {
        orders.flat_map(move |schedule_seed| {
            plans
                .clone()
                .into_iter()
                .map(move |plan| (plan, schedule_seed))
        })
    };
    let orders_alone = in_orders(1..=seeds, vec![Plan::default()]);
    let runs = orders_alone.chain(in_orders(0..=seeds, singles));
    let runs = runs.chain(in_orders(0..=seeds, pairs));
    let runs = runs.enumerate();
    let own: Vec<_> = runs.filter(|(_, (plan, _))| deal.takes(plan)).collect();
    let count = own.len();
    let (of_run, of_end) = (Arc::clone(&subject), subject);
    let runs = own.into_iter().map(move |(index, (plan, schedule_seed))| {
        Job::Run(Arc::clone(&of_run), plan, schedule_seed, index + 1)
    });
    let runs = runs.chain(std::iter::once_with(move || Job::End(of_end)));
    let jobs = std::iter::once(Job::Planned(planned)).chain(runs);
    (count, jobs)
}

/// Returns the number of runs: each plan in each order, and each order alone.
pub(super) fn planned(singles: usize, pairs: usize, seeds: u64) -> usize {
    let seeds = usize::try_from(seeds).unwrap_or(usize::MAX);
    (singles + pairs)
        .saturating_mul(seeds.saturating_add(1))
        .saturating_add(seeds)
}
