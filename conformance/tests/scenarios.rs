//! Every scenario file is a test of its own, named `area/name`; so are the rules for the files.

use std::collections::BTreeSet;
use std::path::Path;

use kubeproof::runner::{self, RunOptions};
use kubeproof::scenario::ScenarioFile;
use kubeproof::suite;
use libtest_mimic::{Arguments, Failed, Trial};

fn main() {
    let arguments = Arguments::from_args();
    let paths = suite::find(&suite::scenarios_dir()).expect("the scenarios can be listed");
    let mut trials: Vec<Trial> = paths
        .into_iter()
        .map(|path| {
            let stem = path.with_extension("");
            let name = stem
                .strip_prefix(suite::scenarios_dir())
                .expect("scenarios are below their directory")
                .display()
                .to_string();
            Trial::test(name, move || check(&path))
        })
        .collect();
    trials.push(Trial::test("tidy/scenarios_and_goldens_pair_up", pairs));
    libtest_mimic::run(&arguments, trials).exit();
}

/// Runs the scenario at `path` and asserts that its transcript is the golden.
fn check(path: &Path) -> Result<(), Failed> {
    let file = ScenarioFile::read(path)?;
    let transcript = runner::run(&file.scenario, &RunOptions::default())?;
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(suite::snapshots_dir());
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(suite::snapshot_name(&file.name), transcript));
    Ok(())
}

fn pairs() -> Result<(), Failed> {
    let mut wanted = BTreeSet::new();
    for path in suite::find(&suite::scenarios_dir())? {
        let name = ScenarioFile::read(&path)?.name;
        wanted.insert(format!("{}.snap", suite::snapshot_name(&name)));
    }
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(suite::snapshots_dir())? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.ends_with(".snap") {
            found.insert(name);
        }
    }
    let without_golden: Vec<_> = wanted.difference(&found).collect();
    let without_scenario: Vec<_> = found.difference(&wanted).collect();
    if without_golden.is_empty() && without_scenario.is_empty() {
        return Ok(());
    }
    Err(format!(
        "scenarios without a golden: {without_golden:?}; goldens without a scenario: \
         {without_scenario:?}"
    )
    .into())
}
