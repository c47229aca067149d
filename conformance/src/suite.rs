//! Scenario files, where their goldens are, and how the two compare.

mod evidence;
mod golden;
mod paths;
mod recorded;
#[cfg(feature = "scenarios")]
mod trials;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use similar::TextDiff;

use crate::explore::{self, Bounds, Divergence, Part, Plan, Reference, Seen};
use crate::properties::Violation;
use crate::replay;
use crate::runner::{self, Run, RunOptions, remote};
use crate::scenario::{Scenario, ScenarioFile};

pub use golden::{Update, update};
pub use paths::{golden_path, recording_path, snapshot_name};
pub use recorded::record_remote;
#[cfg(feature = "scenarios")]
pub use trials::Scenarios;

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

/// The names of directories of scenarios, as seen from the directory of a project.
const DIRECTORIES: [&str; 2] = ["scenarios", "conformance/scenarios"];

/// The nearest directory `scenarios` or `conformance/scenarios` that has scenario files, in `from` or upwards from it.
#[must_use]
pub fn nearest(from: &Path) -> Option<PathBuf> {
    let candidates = from
        .ancestors()
        .flat_map(|above| DIRECTORIES.map(|name| above.join(name)));
    let has_files =
        |path: &PathBuf| path.is_dir() && find(path).is_ok_and(|files| !files.is_empty());
    candidates.into_iter().find(has_files)
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
        let entry = entry?;
        // The volume of a ConfigMap has its files once more, in such directories.
        if entry.file_name().as_encoded_bytes().starts_with(b"..") {
            continue;
        }
        let path = entry.path();
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

/// Brings `paths` into an order that the seed determines.
pub fn shuffle(paths: &mut [PathBuf], seed: u64) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    for last in (1..paths.len()).rev() {
        // The remainder favours low indexes by one in 2^64 over the number of paths.
        let chosen = rng.next_u64() % (last as u64 + 1);
        paths.swap(last, usize::try_from(chosen).expect("at most `last`"));
    }
}

/// The result of a scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The transcript equals the golden.
    Passed,
    /// The scenario failed; the text is the reason.
    Failed(String),
}

/// A scenario that was run, compared with its golden.
#[derive(Debug)]
pub struct Checked {
    /// The name of the scenario, or the path of a file that is not a scenario.
    pub name: String,
    /// The result of the comparison.
    pub verdict: Verdict,
    /// The file; `None` if it is not a scenario.
    pub file: Option<ScenarioFile>,
    /// The run, if there was one.
    pub run: Option<Run>,
    /// The golden; `None` if it does not exist.
    pub golden: Option<String>,
    /// The transcripts without and with the faults of the scenario, if those lead to another outcome.
    pub transcripts: Option<[String; 2]>,
    /// The transcript with which the scenario would pass as its golden, if it fails for want of that.
    pub offered: Option<String>,
    /// The log of the run, if requests were to be noted.
    pub log: Option<String>,
    /// The parts of `differs` that explain the differences of another order.
    #[doc(hidden)]
    pub used: BTreeSet<Part>,
}

/// Reads and runs the scenario at `path` and compares its transcript with the golden.
#[must_use]
pub fn check(path: &Path, options: &RunOptions) -> Checked {
    match ScenarioFile::read(path) {
        Ok(file) => check_file(file, options),
        Err(error) => Checked {
            name: crate::scenario::name(path),
            verdict: Verdict::Failed(with_sources(&error)),
            file: None,
            run: None,
            golden: None,
            transcripts: None,
            offered: None,
            log: None,
            used: BTreeSet::new(),
        },
    }
}

/// Returns the message of an error with those of its causes.
fn with_sources(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    let causes: Vec<String> = causes.map(ToString::to_string).collect();
    causes.join(": ")
}

/// Runs the scenario of `file` and compares its transcript with the golden; in another order than that of
/// seed 0, its outcome.
#[must_use]
pub fn check_file(file: ScenarioFile, options: &RunOptions) -> Checked {
    if let Some(plan) = file.scenario.faults.clone() {
        return check_faults(file, plan, options);
    }
    let options = &RunOptions {
        // In other orders a scenario may end before its controllers are done.
        reconciles_again: options.programs.is_none() && options.schedule_seed == 0,
        ..options.clone()
    };
    let (run, log) = match options.notes {
        true => {
            let (run, log) = replay::record(&file, options);
            (run, Some(log))
        }
        false => (runner::run_whole(&file.scenario, options), None),
    };
    let golden = golden_path(&file.path, &file.name);
    let text = std::fs::read_to_string(&golden).ok();
    let evidence = evidence::evidence(&file);
    let is_stated = (text.as_ref()).is_none_or(|text| evidence::states(text, &evidence));
    let golden_text = text.map(|text| content(&text).trim_end().to_owned());
    let mut used = BTreeSet::new();
    let verdict = match &run {
        Err(error) => Verdict::Failed(error.to_string()),
        Ok(run) => match verdict_of(&file, run, golden_text.as_deref(), options, &mut used) {
            Verdict::Passed if !is_stated => Verdict::Failed(format!(
                "the golden is {evidence}, and its description says otherwise"
            )),
            verdict => verdict,
        },
    };
    let run = run.ok();
    let output = run.as_ref().map_or("", |run| &run.program_output);
    let verdict = match verdict {
        Verdict::Failed(why) if !output.is_empty() => {
            Verdict::Failed(format!("{}\n{output}", why.trim_end()))
        }
        verdict => verdict,
    };
    let offered = match &verdict {
        Verdict::Passed => None,
        Verdict::Failed(_) => run
            .as_ref()
            .filter(|run| options.schedule_seed == 0 && violates(&file.scenario, run).is_none())
            .filter(|run| run.unmet_marks.is_empty())
            .and_then(|run| run.transcript.as_ref().ok().cloned()),
    };
    Checked {
        name: file.name.clone(),
        verdict,
        file: Some(file),
        run,
        golden: golden_text,
        transcripts: None,
        offered,
        log,
        used,
    }
}

/// Runs the scenario of `file` without and with its faults: the outcomes have to be the same.
fn check_faults(file: ScenarioFile, plan: Plan, options: &RunOptions) -> Checked {
    let scenario = &file.scenario;
    let without = RunOptions {
        schedule_seed: 0,
        ..options.clone()
    };
    let with = RunOptions {
        schedule_seed: match options.schedule_seed {
            0 => scenario.order,
            asked => asked,
        },
        plan,
        ..options.clone()
    };
    let mut transcripts = None;
    let verdict = match Reference::with(scenario, &without) {
        Err(error) => Verdict::Failed(format!("it fails even without its faults: {error}")),
        Ok(reference) => {
            let carried = explore::carry_out(scenario, &reference, &with);
            let explained = |divergence: &Divergence| {
                let order = (&with.plan, with.schedule_seed);
                let explained = explore::explain(scenario, order, divergence);
                explained.left.is_empty()
            };
            match (carried.divergence, carried.unmet.first()) {
                (Some(divergence), _) if !explained(&divergence) => {
                    let output = divergence.program_output;
                    if !divergence.with_faults.is_empty() {
                        let without = reference.seen.timeline().to_owned();
                        transcripts = Some([without, divergence.with_faults]);
                    }
                    let why = format!("with {}:\n{}\n{output}", with.plan, divergence.outcome);
                    Verdict::Failed(why.trim_end().to_owned())
                }
                (_, Some(unmet)) => {
                    Verdict::Failed(format!("`{unmet}` does not strike: no such point occurs"))
                }
                _ => Verdict::Passed,
            }
        }
    };
    Checked {
        name: file.name.clone(),
        verdict,
        file: Some(file),
        run: None,
        golden: None,
        transcripts,
        offered: None,
        log: None,
        used: BTreeSet::new(),
    }
}

/// Compares a run with the golden, and judges it by the properties.
fn verdict_of(
    file: &ScenarioFile,
    run: &Run,
    golden: Option<&str>,
    options: &RunOptions,
    used: &mut BTreeSet<Part>,
) -> Verdict {
    let transcript = match &run.transcript {
        Ok(transcript) => transcript,
        Err(error) => return Verdict::Failed(error.to_string()),
    };
    // Marks are for the golden's order; another order has its lines in other places.
    let is_golden = options.schedule_seed == 0 && options.programs.is_none();
    let unmet_marks = match is_golden {
        true => run.unmet_marks.join("\n"),
        false => String::new(),
    };
    let violated = violates(&file.scenario, run);
    // Before a difference, which would hide it: no golden is accepted while it is there.
    let violation = violated.as_ref().map(|why| format!("{why}\n"));
    let violation = violation.unwrap_or_default();
    let Some(golden) = golden else {
        return Verdict::Failed(format!(
            "{violation}there is no golden {}; the transcript:\n{transcript}{unmet_marks}",
            golden_path(&file.path, &file.name).display()
        ));
    };
    let stale = remote::stale_options(&file.scenario, golden);
    if !stale.is_empty() {
        let fault = format!("the golden has no such lines to be optional: {stale:?}");
        return Verdict::Failed(fault);
    }
    let compared = match options.schedule_seed {
        seed if seed > 0 || options.programs.is_some() => {
            match differ_in_order(&file.scenario, (golden, transcript), seed, used) {
                Verdict::Failed(_) if options.programs.is_none() => {
                    differ_late(&file.scenario, options, used)
                }
                verdict => verdict,
            }
        }
        _ => differ(golden, transcript.trim_end()),
    };
    // Recordings are of the scenario's own controllers, in the order of goldens.
    let is_recorded = options.schedule_seed == 0
        && options.programs.is_none()
        && options.under_test.is_empty()
        && options.controllers.is_none();
    match (violated, compared) {
        (Some(why), Verdict::Passed) => Verdict::Failed(why),
        (_, Verdict::Passed) if !unmet_marks.is_empty() => Verdict::Failed(unmet_marks),
        (_, Verdict::Failed(why)) if !unmet_marks.is_empty() => {
            Verdict::Failed(format!("{violation}{unmet_marks}\n{why}"))
        }
        (Some(_), Verdict::Failed(why)) => Verdict::Failed(format!("{violation}{why}")),
        (None, Verdict::Passed) if is_recorded => match unneeded(&file.scenario, run) {
            Some(why) => Verdict::Failed(why),
            None => recorded::compare(file, run),
        },
        (_, compared) => compared,
    }
}

/// Compares the part that must not depend on the order within one instant: the outcome without events, which report
/// the way there. What `differs` names may differ; `used` takes the parts that were needed for that.
fn differ_in_order(
    scenario: &Scenario,
    (golden, transcript): (&str, &str),
    schedule_seed: u64,
    used: &mut BTreeSet<Part>,
) -> Verdict {
    let (golden, run) = (Seen::of_transcript(golden), Seen::of_transcript(transcript));
    let Some(divergence) = explore::compare(&golden, Ok(&run), &[], &Bounds::default()) else {
        return Verdict::Passed;
    };
    let order = (&Plan::default(), schedule_seed);
    let explained = explore::explain(scenario, order, &divergence);
    if explained.left.is_empty() {
        used.extend(explained.used);
        return Verdict::Passed;
    }
    let left = explained.left.join("\n  ");
    Verdict::Failed(match explained.used.is_empty() {
        true => divergence.outcome,
        false => format!(
            "{}\n`differs` does not explain:\n  {left}",
            divergence.outcome
        ),
    })
}

/// Compares longer runs, in this order and in that of goldens, so that slow convergence is not a difference.
fn differ_late(scenario: &Scenario, options: &RunOptions, used: &mut BTreeSet<Part>) -> Verdict {
    let late = RunOptions {
        final_settle: Some(explore::FINAL_SETTLE),
        ..options.clone()
    };
    let in_order = RunOptions {
        schedule_seed: 0,
        ..late.clone()
    };
    let runs = runner::run(scenario, &in_order)
        .and_then(|expected| Ok((expected, runner::run(scenario, &late)?)));
    match runs {
        Ok((expected, transcript)) => {
            let compared = (expected.as_str(), transcript.as_str());
            differ_in_order(scenario, compared, options.schedule_seed, used)
        }
        Err(error) => Verdict::Failed(error.to_string()),
    }
}

/// The number of orders in one of which each part of `differs` about orders has to explain something.
const ORDERS_TRIED: u64 = 64;

/// Returns the parts of `differs` about other orders that explain nothing, in words: neither in the orders before, which
/// needed the parts `used`, nor in those of the seeds from `next_seed` up to `ORDERS_TRIED`.
#[must_use]
pub fn stale_orders(
    file: &ScenarioFile,
    options: &RunOptions,
    mut used: BTreeSet<Part>,
    next_seed: u64,
) -> Vec<String> {
    for schedule_seed in next_seed..=ORDERS_TRIED {
        if explore::stale_orders(&file.scenario, &used).is_empty() {
            break;
        }
        let options = RunOptions {
            schedule_seed,
            ..options.clone()
        };
        used.extend(check_file(file.clone(), &options).used);
    }
    explore::stale_orders(&file.scenario, &used)
}

/// Runs the scenario of `file` on a cluster, and compares the outcome with the golden's. Its namespace is one of
/// `namespaces` meanwhile.
pub async fn check_remote(
    file: &ScenarioFile,
    target: &remote::Target,
    namespaces: &remote::Namespaces,
) -> Verdict {
    let pauses = match recorded::run_in_process(file).await {
        Ok(run) => remote::Pauses::of(&file.scenario, &run),
        Err(error) => return Verdict::Failed(error),
    };
    let transcript = match remote::run(file, target, namespaces, &pauses).await {
        Ok(run) => run.transcript,
        Err(error) => return Verdict::Failed(error.to_string()),
    };
    let golden = golden_path(&file.path, &file.name);
    match std::fs::read_to_string(&golden) {
        Ok(text) => {
            let portable = |text| remote::compared_outcome(&file.scenario, text);
            differ(&portable(content(&text)), &portable(&transcript))
        }
        Err(_) => Verdict::Failed(format!("there is no golden {}", golden.display())),
    }
}

/// Returns the violations by `run` that `scenario` does not announce; `None` when there are no such violations.
#[must_use]
pub fn violates(scenario: &Scenario, run: &Run) -> Option<String> {
    let unsaid = scenario.unsaid(all_violations(scenario, run));
    let lines: Vec<String> = unsaid.iter().map(ToString::to_string).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

fn all_violations(scenario: &Scenario, run: &Run) -> Vec<Violation> {
    let mut violations = run.violations(&scenario.declared);
    violations.extend_from_slice(&run.second_writes);
    violations
}

/// Returns the properties that `scenario` announces to violate and `run` keeps; `None` when there are no such.
pub(crate) fn unneeded(scenario: &Scenario, run: &Run) -> Option<String> {
    if scenario.violates.is_empty() {
        return None;
    }
    let violations = all_violations(scenario, run);
    let is_violated = |name: &&String| violations.iter().any(|one| one.property == **name);
    let kept = scenario.violates.keys().filter(|name| !is_violated(name));
    let lines: Vec<String> = kept
        .map(|name| format!("`violates` names {name:?}, which the run does not violate"))
        .collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

fn differ(expected: &str, transcript: &str) -> Verdict {
    if expected == transcript {
        return Verdict::Passed;
    }
    Verdict::Failed(golden_diff(expected, transcript))
}

/// The unified diff of a golden and a transcript.
pub(crate) fn golden_diff(expected: &str, transcript: &str) -> String {
    TextDiff::from_lines(expected, transcript)
        .unified_diff()
        .context_radius(DIFF_CONTEXT_LINES)
        .missing_newline_hint(false)
        .header("golden", "this run")
        .to_string()
}

/// A snapshot file's content: what follows the metadata between its two `---` lines.
pub fn content(snapshot: &str) -> &str {
    let body = snapshot
        .strip_prefix("---\n")
        .and_then(|text| text.split_once("\n---\n"));
    body.map_or(snapshot, |(_, content)| content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scenarios_are_found_upwards() {
        let nearest_of = |from: &Path| nearest(from).expect("there are scenarios upwards");
        let inside = scenarios_dir().join("statefulset");
        assert_eq!(nearest_of(&inside), scenarios_dir());
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
        let workspace = workspace.expect("a member has the workspace above it");
        assert_eq!(nearest_of(workspace), scenarios_dir());
        assert_eq!(nearest(Path::new("/")), None);
    }

    #[test]
    fn a_seed_decides_the_order_and_loses_nothing() {
        let sorted: Vec<PathBuf> = (0..100).map(|n| format!("{n:03}").into()).collect();
        let shuffled = |seed| {
            let mut paths = sorted.clone();
            shuffle(&mut paths, seed);
            paths
        };
        assert_eq!(shuffled(1), shuffled(1));
        assert_ne!(shuffled(1), shuffled(2));
        let mut restored = shuffled(1);
        assert_ne!(restored, sorted);
        restored.sort();
        assert_eq!(restored, sorted);
    }

    #[test]
    fn the_metadata_of_a_snapshot_is_not_compared() {
        assert_eq!(
            content("---\nsource: x\n---\n# title\n---\n"),
            "# title\n---\n"
        );
    }
}
