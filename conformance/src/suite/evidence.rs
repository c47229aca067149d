//! The evidence of a golden: what its content is known from.

use super::paths::recording_path;
use crate::recording::Recording;
use crate::scenario::ScenarioFile;

/// The evidence of a golden without a recording: it is derived from the scenario's source.
pub(super) const DERIVED: &str = "derived";

/// Returns what the golden of `file` is known from: `derived`, or `recorded: ` with the programs of the control plane.
pub(super) fn evidence(file: &ScenarioFile) -> String {
    let recorded = std::fs::read_to_string(recording_path(file)).ok();
    match recorded.and_then(|text| Recording::parse(&text).origin) {
        Some(origin) => format!("recorded: {origin}"),
        None => DERIVED.to_owned(),
    }
}

/// The line of the metadata that says what a golden's content is known from.
fn evidence_line(evidence: &str) -> String {
    format!(
        "description: {}",
        kubeproof_machinery::json::Value::from(evidence)
    )
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

#[cfg(test)]
mod tests {
    use super::*;

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
