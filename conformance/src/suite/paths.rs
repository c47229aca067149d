//! The paths of goldens and recordings.

use std::path::{Path, PathBuf};

use crate::scenario::{ScenarioFile, absolute};

/// The directory of recordings, in the directory of goldens.
const RECORDED: &str = "recorded";

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
pub(super) fn root(path: &Path) -> PathBuf {
    let absolute = absolute(path);
    let area = absolute.parent().unwrap_or(Path::new("/"));
    let root = match area.parent() {
        Some(scenarios) if scenarios.ends_with("scenarios") => scenarios.parent(),
        _ => None,
    };
    root.unwrap_or(area).to_owned()
}

/// Returns the path of the recording for a scenario: `…/snapshots/recorded/area__name.snap`.
#[must_use]
pub fn recording_path(file: &ScenarioFile) -> PathBuf {
    let golden = golden_path(&file.path, &file.name);
    let name = format!("{}.snap", snapshot_name(&file.name));
    golden.with_file_name(RECORDED).join(name)
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
        assert_eq!(
            golden_path(Path::new("/p/scenarios/job/../web/a.yaml"), "web/a"),
            Path::new("/p/snapshots/web__a.snap")
        );
    }
}
