//! The same for a testbed and a script in Rust.

use std::error::Error;
use std::fmt;

use super::{Divergence, Options, Plan, compare_outcomes, pairs, plans};
use crate::properties;
use crate::runner::remote::portable_outcome;
use crate::testbed::{QUIET, Testbed, TestbedBuilder};

/// How a script ends.
type Done = Result<(), Box<dyn Error>>;

/// What an exploration found.
#[derive(Debug)]
pub struct Report {
    /// How many runs there were, besides the one without faults.
    pub runs: usize,
    /// The runs that came to another outcome, in the order in which their faults would strike.
    pub diverged: Vec<(Plan, Divergence)>,
    /// The timeline without faults.
    pub timeline: String,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (plan, divergence) in &self.diverged {
            writeln!(f, "{plan}\n{}", divergence.outcome)?;
        }
        write!(f, "{} runs, {} diverged", self.runs, self.diverged.len())
    }
}

/// What one run comes to.
struct Run {
    outcome: String,
    timeline: String,
    points: Vec<kubeproof_apiserver::fault::Point>,
    violations: Vec<properties::Violation>,
}

/// Starts `builder`, waits until it is at rest, lets `script` do its work, and waits again; then the
/// same once for every fault that could strike meanwhile. Every run has a runtime of its own with
/// paused time, so this is called from a plain test.
///
/// # Errors
/// Whatever goes wrong in the run without faults. With faults it is a divergence.
pub fn testbed(
    builder: &TestbedBuilder,
    options: &Options,
    script: impl AsyncFn(&Testbed) -> Done,
) -> Result<Report, Box<dyn Error>> {
    let reference = run(builder, &Plan::default(), &script)?;
    let mut plans = plans(&reference.points, options);
    plans.extend(pairs(&plans, options.pairs_max));
    let runs = plans.len();
    let mut diverged = Vec::new();
    for plan in plans {
        let divergence = match run(builder, &plan, &script) {
            Ok(run) => compare_outcomes(
                (&reference.outcome, &reference.timeline),
                (&run.outcome, &run.timeline),
                &run.violations,
            ),
            Err(error) => Some(Divergence {
                outcome: format!("it does not come to an end: {error}"),
                timelines: String::new(),
            }),
        };
        diverged.extend(divergence.map(|divergence| (plan, divergence)));
    }
    Ok(Report {
        runs,
        diverged,
        timeline: reference.timeline,
    })
}

fn run(
    builder: &TestbedBuilder,
    plan: &Plan,
    script: &impl AsyncFn(&Testbed) -> Done,
) -> Result<Run, Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()?;
    runtime.block_on(async {
        let testbed = builder.clone().start().await?;
        let run = carry_through(&testbed, plan, script).await;
        testbed.shutdown().await;
        run
    })
}

async fn carry_through(
    testbed: &Testbed,
    plan: &Plan,
    script: &impl AsyncFn(&Testbed) -> Done,
) -> Result<Run, Box<dyn Error>> {
    testbed.settle(QUIET).await?;
    testbed.simulated()?.begin(plan);
    let given_rv = testbed.resource_version();
    script(testbed).await?;
    testbed.settle(QUIET).await?;
    Ok(Run {
        outcome: portable_outcome(&format!("\noutcome\n{}", testbed.outcome().await?)),
        timeline: testbed.timeline(),
        violations: testbed.violations(given_rv),
        points: testbed.simulated()?.points(),
    })
}
