//! Writing of goldens.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::Checked;
use super::evidence::{evidence, with_evidence};
use super::paths::{golden_path, root};
use crate::scenario::absolute;

/// The way to write a golden that is missing or differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Update {
    /// In the golden's own file.
    Accept,
    /// Next to the golden, as `NAME.snap.new`, where `cargo insta review` finds it.
    Review,
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
    let header = with_evidence(header, &evidence(file));
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
    let absolute = absolute(path);
    let source = absolute.strip_prefix(root(path)).unwrap_or(&absolute);
    // A JSON string is a YAML string, whatever the name of the file.
    let source = kubeproof_machinery::json::Value::from(source.display().to_string());
    format!("---\nsource: {source}\n---\n")
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
    fn a_golden_names_its_scenario_as_seen_from_the_directory_of_both() {
        let header = new_header(Path::new("/p/scenarios/statefulset/a.yaml"));
        assert_eq!(
            header,
            "---\nsource: \"scenarios/statefulset/a.yaml\"\n---\n"
        );
    }
}
