//! Every scenario file is a test of its own, named `area/name`.

use std::path::Path;

use kubeproof::runner::{self, RunOptions};
use kubeproof::scenario::ScenarioFile;
use kubeproof::suite;
use libtest_mimic::{Arguments, Failed, Trial};

fn main() {
    let arguments = Arguments::from_args();
    let paths = suite::find(&suite::scenarios_dir()).expect("the scenarios can be listed");
    let trials: Vec<Trial> = paths
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
    libtest_mimic::run(&arguments, trials).exit();
}

/// Runs the scenario at `path` and asserts that its transcript is the golden.
fn check(path: &Path) -> Result<(), Failed> {
    let file = ScenarioFile::read(path)?;
    let run = runner::run_whole(&file.scenario, &RunOptions::default())?;
    if let Some(why) = suite::violates(&file.scenario, &run) {
        return Err(why.into());
    }
    let transcript = run.transcript?;
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(suite::snapshots_dir());
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(suite::snapshot_name(&file.name), transcript));
    Ok(())
}
