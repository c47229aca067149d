//! The paths of goldens, and writing them.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::Checked;

/// The evidence of a golden without a recording: it is derived from the scenario's source.
pub(super) const DERIVED: &str = "derived";

/// The way to write a golden that is missing or differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Update {
    /// In the golden's own file.
    Accept,
    /// Next to the golden, as `NAME.snap.new`, where `cargo insta review` finds it.
    Review,
}

/// The golden's name without its directory and extension: `area__name`.
#[must_use]
pub fn snapshot_name(scenario_name: &str) -> String {
    scenario_name.replace('/', "__")
}

/// Returns the path of the golden for the scenario file at `path`.
///
/// For `…/scenarios/area/name.yaml` that is `…/snapshots/area__name.snap`, for any other file a directory `snapshots`
/// next to it.
#[must_use]
pub fn golden_path(path: &Path, scenario_name: &str) -> PathBuf {
    let name = format!("{}.snap", snapshot_name(scenario_name));
    root(path).join("snapshots").join(name)
}

/// The directory of the directory of goldens.
fn root(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let area = absolute.parent().unwrap_or(Path::new("/"));
    let root = match area.parent() {
        Some(scenarios) if scenarios.ends_with("scenarios") => scenarios.parent(),
        _ => None,
    };
    root.unwrap_or(area).to_owned()
}

/// Writes the transcript that `checked` offers, and returns its path; `None` when it offers no transcript. Files left
/// for review are removed once the golden is right.
///
/// # Errors
/// Why a file cannot be written.
pub fn update(checked: &Checked, update: Update) -> std::io::Result<Option<PathBuf>> {
    let Some(file) = &checked.file else {
        return Ok(None);
    };
    let golden = golden_path(&file.path, &file.name);
    let pending = golden.with_extension("snap.new");
    let Some(transcript) = &checked.offered else {
        if checked.verdict == super::Verdict::Passed {
            remove(&pending)?;
        }
        return Ok(None);
    };
    let before = std::fs::read_to_string(&golden).unwrap_or_default();
    let header = match super::content(&before) {
        content if content.len() < before.len() => &before[..before.len() - content.len()],
        _ => &new_header(&file.path),
    };
    let header = with_evidence(header, &super::recorded::evidence(file));
    let text = format!("{header}{}\n", transcript.trim_end());
    if let Some(directory) = golden.parent() {
        std::fs::create_dir_all(directory)?;
    }
    let path = match update {
        Update::Accept => {
            remove(&pending)?;
            golden
        }
        Update::Review => pending,
    };
    std::fs::write(&path, text)?;
    Ok(Some(path))
}

/// The metadata that insta expects of a snapshot: where it comes from.
fn new_header(path: &Path) -> String {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let source = absolute.strip_prefix(root(path)).unwrap_or(&absolute);
    // A JSON string is a YAML string, whatever the name of the file.
    let source = serde_json::Value::from(source.display().to_string());
    format!("---\nsource: {source}\n---\n")
}

/// The line of the metadata that says what a golden's content is known from.
fn evidence_line(evidence: &str) -> String {
    format!("description: {}", serde_json::Value::from(evidence))
}

/// Whether the metadata of `snapshot` states this evidence. A golden that states none is derived.
pub(super) fn states(snapshot: &str, evidence: &str) -> bool {
    let metadata = &snapshot[..snapshot.len() - super::content(snapshot).len()];
    let mut stated = metadata.lines().filter(|line| is_evidence(line));
    match stated.next() {
        Some(line) => line == evidence_line(evidence),
        None => evidence == DERIVED,
    }
}

/// Returns the text of a golden, or only its metadata, with this evidence instead of what it states.
pub(super) fn with_evidence(snapshot: &str, evidence: &str) -> String {
    let content = super::content(snapshot);
    let metadata = &snapshot[..snapshot.len() - content.len()];
    let mut lines: Vec<&str> = metadata.lines().filter(|line| !is_evidence(line)).collect();
    let stated = evidence_line(evidence);
    lines.insert(lines.len().saturating_sub(1), &stated);
    format!("{}\n{content}", lines.join("\n"))
}

fn is_evidence(line: &str) -> bool {
    line.starts_with("description: ")
}

fn remove(path: &Path) -> std::io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
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
    fn a_golden_names_its_scenario_as_seen_from_the_directory_of_both() {
        let header = new_header(Path::new("/p/scenarios/statefulset/a.yaml"));
        assert_eq!(
            header,
            "---\nsource: \"scenarios/statefulset/a.yaml\"\n---\n"
        );
    }

    #[test]
    fn a_golden_states_whether_it_is_recorded() {
        let recorded = "recorded: kube-controller-manager v1.36.2";
        let golden = "---\nsource: a\n---\n# title\ndescription: of the content\n";
        assert!(states(golden, DERIVED) && !states(golden, recorded));
        let stated = with_evidence(golden, recorded);
        assert_eq!(
            stated,
            "---\nsource: a\ndescription: \"recorded: kube-controller-manager v1.36.2\"\n---\n\
             # title\ndescription: of the content\n"
        );
        assert!(states(&stated, recorded) && !states(&stated, DERIVED));
        assert!(!states(
            &stated,
            "recorded: kube-controller-manager v1.37.0"
        ));
        let derived = with_evidence(&stated, DERIVED);
        assert!(states(&derived, DERIVED) && !states(&derived, recorded));
        assert_eq!(derived.matches("description: \"").count(), 1);
    }
}
