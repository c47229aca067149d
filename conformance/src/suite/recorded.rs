//! Goldens of real control planes, next to the derived ones.

use std::path::PathBuf;

use super::Verdict;
use super::evidence::{evidence, with_evidence};
use super::paths::{golden_path, recording_path};
use crate::recording::{Listed, Recording, differences};
use crate::runner::remote::{self, Pauses};
use crate::runner::{self, Run, RunOptions};
use crate::scenario::ScenarioFile;

/// States in the golden of `file`, if there is one, what it is known from.
fn state_evidence(file: &ScenarioFile) -> std::io::Result<()> {
    let path = golden_path(&file.path, &file.name);
    match std::fs::read_to_string(&path) {
        Ok(text) => std::fs::write(&path, with_evidence(&text, &evidence(file))),
        Err(_) => Ok(()),
    }
}

/// Describes a run in process as a recording would.
fn derived(file: &ScenarioFile, run: &Run) -> Recording {
    let given = &file.scenario.given;
    Recording::of(&file.scenario.title, run.observed(&given.namespace))
}

/// Runs the scenario of `file` in process, on a runtime of its own.
pub(super) async fn run_in_process(file: &ScenarioFile) -> Result<Run, String> {
    let scenario = file.scenario.clone();
    let run = move || runner::run_whole(&scenario, &RunOptions::default());
    let run = tokio::task::spawn_blocking(run).await;
    let run = run.map_err(|error| error.to_string())?;
    run.map_err(|error| error.to_string())
}

/// Compares a run in process with the recording of its scenario; passes without a recording.
pub(super) fn compare(file: &ScenarioFile, run: &Run) -> Verdict {
    match std::fs::read_to_string(recording_path(file)) {
        Ok(text) => differ(file, run, &Recording::parse(&text)),
        Err(_) => Verdict::Passed,
    }
}

fn differ(file: &ScenarioFile, run: &Run, recorded: &Recording) -> Verdict {
    let path = recording_path(file);
    let listed = match Listed::read(path.parent().unwrap_or(&path)) {
        Ok(listed) => listed,
        Err(error) => return Verdict::Failed(error.to_string()),
    };
    match differences(&file.name, &derived(file, run), recorded, &listed) {
        None => Verdict::Passed,
        Some(diff) => Verdict::Failed(format!("{}:\n{diff}", path.display())),
    }
}

/// Runs the scenario of `file` on a cluster, writes the recording with its `origin`, and compares it with a run in
/// process. The golden states the origin from then on. Returns the path of the recording, if it was written.
///
/// # Errors
/// Why the file cannot be written.
pub async fn record_remote(
    file: &ScenarioFile,
    target: &remote::Target,
    namespaces: &remote::Namespaces,
    origin: &str,
) -> std::io::Result<(Verdict, Option<PathBuf>)> {
    let run = match run_in_process(file).await {
        Ok(run) => run,
        Err(error) => return Ok((Verdict::Failed(error), None)),
    };
    let pauses = Pauses::of(&file.scenario, &run);
    let recorded = match remote::run(file, target, namespaces, &pauses).await {
        Ok(run) => run.recording.made_by(origin),
        Err(error) => return Ok((Verdict::Failed(error.to_string()), None)),
    };
    let path = recording_path(file);
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory)?;
    }
    std::fs::write(&path, recorded.to_string())?;
    state_evidence(file)?;
    Ok((differ(file, &run, &recorded), Some(path)))
}
