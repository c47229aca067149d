//! `kubeproof new`.

use std::fs;
use std::path::PathBuf;
use std::process::Output;

use crate::support::process::{file, kubeproof};

/// An empty directory of this test run.
fn empty(name: &str) -> PathBuf {
    let path = file(&format!("new/{name}/file"), "");
    let path = path.parent().expect("below a directory");
    fs::remove_dir_all(path).expect("it is this test's");
    fs::create_dir_all(path).expect("it can be made");
    path.to_owned()
}

fn run_in(directory: &PathBuf, arguments: &[&str]) -> Output {
    let ran = kubeproof(arguments).current_dir(directory).output();
    ran.expect("the program runs")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("it prints UTF-8")
}

#[test]
fn a_new_scenario_of_each_kind_runs_as_it_is_written() {
    let directory = empty("kinds");
    let kinds = ["statefulset", "deployment", "daemonset", "job", "cloneset"];
    for kind in kinds {
        let name = format!("web/{kind}");
        let written = run_in(
            &directory,
            &[
                "new",
                "scenario",
                &name,
                "--kind",
                kind,
                "--dir",
                "scenarios",
            ],
        );
        assert!(written.status.success(), "{}", text(&written.stderr));
        assert_eq!(text(&written.stdout), format!("scenarios/{name}.yaml\n"));
        assert!(text(&written.stderr).contains(&format!("--accept scenarios/{name}.yaml")));
    }
    let ran = run_in(&directory, &["run", "--accept"]);
    assert!(
        text(&ran.stdout).contains("5 passed, 0 failed"),
        "{}",
        text(&ran.stdout)
    );
    for kind in kinds {
        let golden = directory.join(format!("snapshots/web__{kind}.snap"));
        let golden = fs::read_to_string(golden).unwrap();
        // The step has an effect beyond its own write.
        let (_, timeline) = golden.split_once("timeline:").unwrap();
        assert!(timeline.contains("created"), "{golden}");
    }
}

#[test]
fn a_new_scenario_is_about_the_first_object_of_a_manifest() {
    let directory = empty("manifest");
    let objects = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\n---\n\
                   apiVersion: v1\nkind: Secret\nmetadata: {name: key}\n";
    fs::write(directory.join("objects.yaml"), objects).unwrap();
    let arguments = [
        "new",
        "scenario",
        "app/settings",
        "--object",
        "objects.yaml",
        "--dir",
        "scenarios",
    ];
    let written = run_in(&directory, &arguments);
    assert!(written.status.success(), "{}", text(&written.stderr));
    let ran = run_in(&directory, &["run", "--accept"]);
    assert!(ran.status.success(), "{}", text(&ran.stdout));
    let golden = fs::read_to_string(directory.join("snapshots/app__settings.snap")).unwrap();
    assert!(golden.contains("configmap settings"), "{golden}");

    // Nothing is written over, and errors name what is wrong.
    let scenario = directory.join("scenarios/app/settings.yaml");
    let before = fs::read_to_string(&scenario).unwrap();
    let again = run_in(&directory, &arguments);
    assert_eq!(again.status.code(), Some(2));
    assert!(text(&again.stderr).contains("scenarios/app/settings.yaml exists"));
    assert_eq!(fs::read_to_string(&scenario).unwrap(), before);
    fs::write(directory.join("none.yaml"), "a: b\n").unwrap();
    let arguments = ["new", "scenario", "app/none", "--object", "none.yaml"];
    let refused = run_in(&directory, &arguments);
    assert!(
        text(&refused.stderr).contains("none.yaml has no kind"),
        "{}",
        text(&refused.stderr)
    );
    let refused = run_in(&directory, &["new", "scenario", "Settings"]);
    assert!(
        text(&refused.stderr).contains("expected AREA/NAME"),
        "{}",
        text(&refused.stderr)
    );
}
