//! Runs that share the time before their faults: a run without faults branches off a process for each plan, at the
//! point where the first of its faults strikes. The memory of a process is shared until it is written to, including
//! controllers and time.

use std::collections::{BTreeMap, VecDeque};
use std::io::{PipeReader, PipeWriter, Read, Write};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use fork::Fork;
use parking_lot::Mutex;

use super::{Divergence, Plan, Reference, explore_with, judge, late, verdict_of};
use crate::runner::{self, RunOptions};
use crate::scenario::Scenario;
use crate::testbed::Testbed;

/// The results of the runs of several plans.
#[derive(Debug)]
pub struct Branched {
    /// The divergence of the run without faults, which is possible in a different order.
    pub trunk: Option<Divergence>,
    /// The divergence of each plan, in the order of the plans.
    pub plans: Vec<Option<Divergence>>,
}

/// Runs `scenario` with each of `plans`, as [`explore_with`] does, on at most `at_once` processes. `options` has the
/// rest, and no plan. `ended` is called after each branch.
///
/// Each plan is a process that branches off from this one: there must be no other thread in it.
#[must_use]
pub fn branches(
    scenario: &Scenario,
    reference: &Reference,
    (plans, options): (&[Plan], &RunOptions),
    (at_once, ended): (usize, impl Fn() + Send + 'static),
) -> Branched {
    // Here, so that no branch makes this run again.
    if !options.is_real_time() {
        _ = reference.later(scenario, options);
    }
    #[cfg(target_os = "linux")]
    super::page_tables::hand_on();
    let processes = Arc::new(Mutex::new(Processes::new(at_once, Box::new(ended))));
    let forks = Arc::clone(&processes);
    let run = AssertUnwindSafe(|| {
        let begin = |testbed: &Testbed| {
            testbed.branch(plans, move |index| forks.lock().fork(index));
        };
        runner::run_between(scenario, options, begin, |run| {
            let own = processes.lock().own_plan(plans, options);
            // A branch with an equal outcome has nothing to report.
            if own.is_some_and(|own| judge(scenario, &reference.seen, &own, run).is_none()) {
                processes.lock().leave(None);
            }
        })
    });
    let run = std::panic::catch_unwind(run);
    let mut processes = processes.lock();
    let own = processes.own_plan(plans, options);
    let own = own.unwrap_or_else(|| options.clone());
    let soon = verdict_of(scenario, &reference.seen, &own, run);
    let divergence = soon.and_then(|soon| late(scenario, reference, &own, soon));
    // Only the run without faults continues from here.
    processes.leave(divergence.as_ref());
    while processes.collect() {}
    let each = plans.iter().enumerate().map(|(index, plan)| {
        match processes.answers.remove(&index) {
            Some(Answer::Verdict(divergence)) => divergence,
            Some(Answer::None) => explore_with(scenario, reference, &with_plan(options, plan)),
            // The plan strikes nowhere.
            None => divergence.clone(),
        }
    });
    Branched {
        plans: each.collect(),
        trunk: divergence,
    }
}

fn with_plan(options: &RunOptions, plan: &Plan) -> RunOptions {
    RunOptions {
        plan: plan.clone(),
        ..options.clone()
    }
}

/// The processes that branched off.
struct Processes {
    at_once: usize,
    ended: Box<dyn Fn() + Send>,
    running: VecDeque<Running>,
    answers: BTreeMap<usize, Answer>,
    /// The plan of this process and the pipe for its result; `None` in the process that forks.
    own: Option<(usize, PipeWriter)>,
}

struct Running {
    index: usize,
    process: i32,
    answer: PipeReader,
}

enum Answer {
    Verdict(Option<Divergence>),
    /// The process could not be started, or came to no end.
    None,
}

impl Processes {
    fn new(at_once: usize, ended: Box<dyn Fn() + Send>) -> Self {
        Self {
            at_once: at_once.max(1),
            ended,
            running: VecDeque::new(),
            answers: BTreeMap::new(),
            own: None,
        }
    }

    /// Branches off a process for a plan; true in this process.
    fn fork(&mut self, index: usize) -> bool {
        while self.running.len() >= self.at_once {
            self.collect();
        }
        let Ok((reader, writer)) = std::io::pipe() else {
            self.answers.insert(index, Answer::None);
            return false;
        };
        match fork::fork() {
            Ok(Fork::Child) => {
                self.running.clear();
                self.own = Some((index, writer));
                true
            }
            Ok(Fork::Parent(process)) => {
                self.running.push_back(Running {
                    index,
                    process,
                    answer: reader,
                });
                false
            }
            Err(_) => {
                self.answers.insert(index, Answer::None);
                false
            }
        }
    }

    /// The options of this process if it is a branch.
    fn own_plan(&self, plans: &[Plan], options: &RunOptions) -> Option<RunOptions> {
        let (index, _) = self.own.as_ref()?;
        Some(with_plan(options, &plans[*index]))
    }

    /// Ends this process if it is a branch.
    fn leave(&mut self, divergence: Option<&Divergence>) {
        let Some((_, mut answer)) = self.own.take() else {
            return;
        };
        let verdict = serde_json::to_vec(&divergence).map_err(std::io::Error::from);
        let written = verdict.and_then(|verdict| answer.write_all(&verdict));
        std::process::exit(i32::from(written.is_err()))
    }

    /// Waits for the oldest process; false when no process is running.
    fn collect(&mut self) -> bool {
        let Some(mut oldest) = self.running.pop_front() else {
            return false;
        };
        let mut bytes = Vec::new();
        let read = oldest.answer.read_to_end(&mut bytes);
        let ended = fork::waitpid(oldest.process);
        let verdict = read
            .and(ended)
            .ok()
            .and_then(|_| serde_json::from_slice(&bytes).ok());
        let answer = verdict.map_or(Answer::None, Answer::Verdict);
        self.answers.insert(oldest.index, answer);
        (self.ended)();
        true
    }
}
