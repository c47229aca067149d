//! Records the log of a scenario's run, and runs a log again.

use kubeproof_apiserver::ServerState;
use kubeproof_node::SchedulerConfig;

use crate::fault_plan::Plan;
use crate::log::{Happened, LogError, Recipe, ScenarioText, recipe, write};
use crate::runner::{self, Run, RunError, RunOptions};
use crate::scenario::ScenarioFile;

/// The result of a replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replay {
    /// Both logs have the same bytes.
    Equal {
        /// The number of lines.
        lines: usize,
    },
    /// The logs differ.
    Differs {
        /// The first line that differs, counted from one.
        number: usize,
        /// The line of the log; `None` past its end.
        recorded: Option<String>,
        /// The line of the replay; `None` past its end.
        replayed: Option<String>,
        /// The version that wrote the log, when it is not this one.
        program: Option<String>,
    },
}

/// Runs the scenario of `file` and writes its log.
///
/// The log is there whatever becomes of the run.
pub fn record(file: &ScenarioFile, options: &RunOptions) -> (Result<Run, RunError>, String) {
    let options = RunOptions {
        notes: true,
        ..options.clone()
    };
    let run = runner::run_whole(&file.scenario, &options);
    let recipe = recipe_of(file, &options);
    let log = match &run {
        Err(error) => write(&recipe, Happened::default(), Some(Err(error.to_string()))),
        Ok(run) => {
            let violations = run.violations(&file.scenario.declared);
            let happened = Happened {
                journal: &run.journal,
                steps: &run.steps,
                exchanges: &run.exchanges,
                hits: &run.hits,
                violations: &violations,
            };
            let end = run.transcript.as_ref().map_err(ToString::to_string);
            write(&recipe, happened, Some(end.map(String::as_str)))
        }
    };
    (run, log)
}

/// Runs the scenario of `text`, a log, and compares the new log with it.
///
/// # Errors
/// [`LogError`] when the text is not a log, or is the log of a testbed.
pub fn replay(text: &str) -> Result<Replay, LogError> {
    if ServerState::is_begun_by(text) {
        return Err(LogError::Server);
    }
    let recipe = recipe(text)?;
    let (file, options) = scenario_of(&recipe)?;
    let (_, again) = record(&file, &options);
    if again == text {
        let lines = text.lines().count();
        return Ok(Replay::Equal { lines });
    }
    let (mut recorded, mut replayed) = (text.lines(), again.lines());
    let mut number = 1;
    let (recorded, replayed) = loop {
        match (recorded.next(), replayed.next()) {
            (Some(one), Some(other)) if one == other => number += 1,
            (one, other) => break (one, other),
        }
    };
    let this = env!("CARGO_PKG_VERSION");
    Ok(Replay::Differs {
        number,
        recorded: recorded.map(str::to_owned),
        replayed: replayed.map(str::to_owned),
        program: (recipe.program != this).then_some(recipe.program),
    })
}

/// Returns the recipe for running `file` with `options` once more.
fn recipe_of(file: &ScenarioFile, options: &RunOptions) -> Recipe {
    let scenario = ScenarioText {
        name: file.name.clone(),
        text: file.text.clone(),
        files: file.files.clone(),
    };
    Recipe {
        scenario: Some(scenario),
        controllers: options.controllers.clone(),
        scheduler_config: options
            .scheduler_config
            .as_ref()
            .map(|config| config.source().to_owned()),
        plan: options.plan.to_string(),
        ..Recipe::of_testbed(file.scenario.seed, options.schedule_seed)
    }
}

/// Returns the scenario with the options of its run.
///
/// # Errors
/// [`LogError`] when the log has no scenario, or it cannot be read.
fn scenario_of(recipe: &Recipe) -> Result<(ScenarioFile, RunOptions), LogError> {
    let scenario = recipe.scenario.as_ref().ok_or(LogError::Testbed)?;
    let read = |name: &str| {
        let text = scenario.files.get(name).cloned();
        text.ok_or_else(|| format!("the file {name} is not in the log"))
    };
    let file = ScenarioFile::parse(scenario.name.clone(), scenario.text.clone(), read);
    let file = file.map_err(LogError::Scenario)?;
    let plan = match recipe.plan.as_str() {
        "" => Plan::default(),
        plan => plan.parse()?,
    };
    let config = recipe.scheduler_config.as_deref();
    let options = RunOptions {
        controllers: recipe.controllers.clone(),
        scheduler_config: config.map(SchedulerConfig::parse).transpose()?,
        plan,
        schedule_seed: recipe.schedule_seed,
        notes: true,
        kubectl: None,
        programs: None,
        unstable: None,
        final_settle: None,
        reconciles_again: false,
        under_test: Vec::new(),
    };
    Ok((file, options))
}
