//! Scenario files, where their goldens are, and how the two compare.

use std::path::{Path, PathBuf};

use similar::TextDiff;

use crate::properties::Violation;
use crate::runner::{self, RunOptions, remote};
use crate::scenario::{Scenario, ScenarioFile};

/// Lines of context around a difference.
const DIFF_CONTEXT_LINES: usize = 3;

/// The scenarios of this project, where it was built.
#[must_use]
pub fn scenarios_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios")
}

/// The goldens of this project's scenarios.
#[must_use]
pub fn snapshots_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("snapshots")
}

/// The scenario files at `path`: itself, or every `.yaml` below it, sorted.
///
/// # Errors
/// Why a directory cannot be read.
pub fn find(path: &Path) -> std::io::Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut found = Vec::new();
    for entry in std::fs::read_dir(path)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(find(&path)?);
        } else if path
            .extension()
            .is_some_and(|extension| extension == "yaml")
        {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// The golden's name without its directory and extension: `area__name`.
#[must_use]
pub fn snapshot_name(scenario_name: &str) -> String {
    scenario_name.replace('/', "__")
}

/// Where the golden of the scenario file at `path` is.
///
/// For `…/scenarios/area/name.yaml` that is `…/snapshots/area__name.snap`, for any other file a
/// directory `snapshots` beside it.
#[must_use]
pub fn golden_path(path: &Path, scenario_name: &str) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let area = absolute.parent().unwrap_or(Path::new("/"));
    let root = match area.parent() {
        Some(scenarios) if scenarios.ends_with("scenarios") => scenarios.parent(),
        _ => None,
    };
    root.unwrap_or(area)
        .join("snapshots")
        .join(format!("{}.snap", snapshot_name(scenario_name)))
}

/// How a scenario ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// As the golden says.
    Passed,
    /// Otherwise; the text says how.
    Failed(String),
}

/// Reads and runs the scenario at `path` and compares its transcript with the golden.
#[must_use]
pub fn check(path: &Path, options: &RunOptions) -> (String, Verdict) {
    let file = match ScenarioFile::read(path) {
        Ok(file) => file,
        Err(error) => {
            return (
                path.display().to_string(),
                Verdict::Failed(error.to_string()),
            );
        }
    };
    let run = runner::run_whole(&file.scenario, options);
    let verdict = match run.map(|run| (run.violations(), run.transcript)) {
        Ok((violations, Ok(transcript))) => {
            let compared = compare(&golden_path(path, &file.name), &transcript);
            match (violates(&file.scenario, &violations), compared) {
                (Some(why), Verdict::Passed) => Verdict::Failed(why),
                (_, compared) => compared,
            }
        }
        Ok((_, Err(error))) | Err(error) => Verdict::Failed(error.to_string()),
    };
    (file.name, verdict)
}

/// Runs the scenario of `file` on the cluster that `client` speaks to, and compares the outcome with
/// the golden's.
pub async fn check_remote(file: &ScenarioFile, client: kube::Client) -> Verdict {
    let transcript = match remote::run(file, client).await {
        Ok(transcript) => transcript,
        Err(error) => return Verdict::Failed(error.to_string()),
    };
    let golden = golden_path(&file.path, &file.name);
    match std::fs::read_to_string(&golden) {
        Ok(text) => {
            let expected = remote::portable_outcome(content(&text));
            differ(&expected, &remote::portable_outcome(&transcript))
        }
        Err(_) => Verdict::Failed(format!("there is no golden {}", golden.display())),
    }
}

/// How a run of `scenario` violates properties that it does not say it violates; `None` when none.
#[must_use]
pub fn violates(scenario: &Scenario, violations: &[Violation]) -> Option<String> {
    let unsaid = violations
        .iter()
        .filter(|one| !scenario.violates.contains(one.property));
    let told: Vec<String> = unsaid.map(ToString::to_string).collect();
    (!told.is_empty()).then(|| told.join("\n"))
}

fn compare(golden: &Path, transcript: &str) -> Verdict {
    let Ok(text) = std::fs::read_to_string(golden) else {
        return Verdict::Failed(format!(
            "there is no golden {}; the transcript:\n{transcript}",
            golden.display()
        ));
    };
    differ(content(&text).trim_end(), transcript.trim_end())
}

fn differ(expected: &str, transcript: &str) -> Verdict {
    if expected == transcript {
        return Verdict::Passed;
    }
    let diff = TextDiff::from_lines(expected, transcript)
        .unified_diff()
        .context_radius(DIFF_CONTEXT_LINES)
        .header("golden", "this run")
        .to_string();
    Verdict::Failed(diff)
}

/// A snapshot file's content: what follows the metadata between its two `---` lines.
fn content(snapshot: &str) -> &str {
    let body = snapshot
        .strip_prefix("---\n")
        .and_then(|text| text.split_once("\n---\n"));
    body.map_or(snapshot, |(_, content)| content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goldens_are_found_beside_the_scenarios_directory() {
        let path = Path::new("/p/scenarios/statefulset/a.yaml");
        assert_eq!(
            golden_path(path, "statefulset/a"),
            Path::new("/p/snapshots/statefulset__a.snap")
        );
        assert_eq!(
            golden_path(Path::new("/mine/a.yaml"), "mine/a"),
            Path::new("/mine/snapshots/mine__a.snap")
        );
    }

    #[test]
    fn the_metadata_of_a_snapshot_is_not_compared() {
        assert_eq!(
            content("---\nsource: x\n---\n# title\n---\n"),
            "# title\n---\n"
        );
    }
}
