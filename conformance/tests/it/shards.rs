//! Shards do all runs together, and `kubeproof merge` says what one command would have said.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use kubeproof::json::Value;
use kubeproof::suite;
use kubeproof_apiserver::{ApiServer, Manifests};

use crate::branches::unexplained;
use crate::outside::ROLE;
use crate::support::process::{file, output, stdout};

/// Runs `arguments` as each of `of` shards; returns the files with what they printed.
fn shards(directory: &str, arguments: &[&str], of: usize) -> Vec<PathBuf> {
    let each = (1..=of).map(|number| {
        let shard = format!("{number}/{of}");
        let ran = output(&[arguments, &["--json", "--shard", &shard]].concat());
        assert!(ran.status.code() < Some(2), "{ran:?}");
        file(&format!("{directory}/{number}.jsonl"), &stdout(&ran))
    });
    each.collect()
}

fn merge(records: &[PathBuf], more: &[&str]) -> (Option<i32>, String, String) {
    let records = records.iter().map(|path| path.to_str().unwrap());
    let arguments: Vec<&str> = ["merge"].into_iter().chain(records).collect();
    let ran = output(&[&arguments, more].concat());
    let stderr = String::from_utf8(ran.stderr.clone()).unwrap();
    (ran.status.code(), stdout(&ran), stderr)
}

/// The lines of JSON without what a clock has measured, sorted.
fn results(text: &str) -> Vec<String> {
    let lines = text.lines().map(|line| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        line.as_object_mut().unwrap().remove("milliseconds");
        line.to_string()
    });
    let mut lines: Vec<String> = lines.collect();
    lines.sort();
    lines
}

fn area() -> String {
    suite::scenarios_dir().join("rc").display().to_string()
}

#[test]
fn each_scenario_is_run_by_one_shard() {
    let (area, mut owners) = (area(), BTreeMap::new());
    let records = shards("shards-run", &["run", &area], 3);
    for path in &records {
        for line in std::fs::read_to_string(path).unwrap().lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            if let Some(name) = line["scenario"].as_str() {
                let before = owners.insert(name.to_owned(), path.clone());
                assert_eq!(before, None, "{name} was run twice");
            }
        }
    }
    let busy: BTreeSet<&PathBuf> = owners.values().collect();
    assert_eq!((owners.len(), busy.len()), (5, 3));
    let whole = stdout(&output(&["run", &area, "--json"]));
    let (code, joined, numbers) = merge(&records, &["--json"]);
    assert_eq!((code, &*numbers), (Some(0), "5 passed, 0 failed\n"));
    assert_eq!(results(&joined), results(&whole));
    // As the log of a pod has them: with lines of standard error.
    let text = std::fs::read_to_string(&records[0]).unwrap();
    let noted = file(
        "shards-run/noted.jsonl",
        &format!("a note\n{text}2 passed\n"),
    );
    let cut = text.lines().next().unwrap();
    let again = file("shards-run/again.jsonl", &format!("{cut}\n{text}"));
    let (code, _, _) = merge(&[again, records[1].clone(), records[2].clone()], &[]);
    assert_eq!(code, Some(0));
    let (code, out, _) = merge(&[noted, records[1].clone(), records[2].clone()], &[]);
    assert_eq!((code, &*out), (Some(0), "5 passed, 0 failed\n"));
}

#[test]
fn the_volume_of_a_config_map_has_each_scenario_once() {
    let (own, copy) = ("shards-volume/a.yaml", "shards-volume/..2026_11_26/a.yaml");
    let (own, _) = (file(own, "title: t"), file(copy, "title: t"));
    let found = suite::find(own.parent().unwrap()).unwrap();
    assert_eq!(found, [own]);
}

#[test]
fn shards_that_are_not_all_of_the_same_runs_are_refused() {
    let area = area();
    let records = shards("shards-refused", &["run", &area], 2);
    let refused = |records: &[&Path]| {
        let records: Vec<PathBuf> = records.iter().map(|path| path.to_path_buf()).collect();
        let (code, _, stderr) = merge(&records, &[]);
        assert_eq!(code, Some(2), "{stderr}");
        stderr
    };
    let (first, second) = (records[0].as_path(), records[1].as_path());
    let stderr = refused(&[first]);
    assert_eq!(stderr, "error: of 2 shards these are missing: 2\n");
    assert!(refused(&[first, first]).contains("are both shard 1"));
    let text = std::fs::read_to_string(second).unwrap();
    let (cut, _) = text.trim_end().rsplit_once('\n').unwrap();
    let cut = file("shards-refused/cut.jsonl", cut);
    assert!(refused(&[first, &cut]).contains("has no summary: this shard did not end"));
    let lost = text
        .lines()
        .filter(|line| !line.contains("\"passed\":true"));
    let lost = lost.collect::<Vec<_>>().join("\n");
    let lost = file("shards-refused/lost.jsonl", &lost);
    assert!(refused(&[first, &lost]).contains("no shard has a result of rc/"));
    let none = file("shards-refused/none.jsonl", "{}\n");
    assert!(refused(&[first, &none]).contains("is not the record of a shard"));
    let others = [
        (vec!["run", &area, "--seeds", "1"], 2, "their flags are {"),
        (vec!["run", &area], 3, "the numbers of shards are 2 and 3"),
        (
            vec!["run", &area, "--only", "quota|scale"],
            2,
            "only one of them knows the scenario rc/rc-adopt-release",
        ),
    ];
    for (index, (arguments, of, why)) in others.into_iter().enumerate() {
        let directory = format!("shards-refused/{index}");
        let other = shards(&directory, &arguments, of);
        let stderr = refused(&[first, &other[1]]);
        assert!(stderr.contains("do not belong together: "), "{stderr}");
        assert!(stderr.contains(why), "{stderr}");
    }
}

#[test]
fn each_run_of_an_exploration_is_done_by_one_shard() {
    let path = unexplained("shards-explore");
    let path = path.to_str().unwrap();
    let explore = ["explore", path, "--from", "statefulset-controller"];
    let faults = [
        "--faults",
        "conflict,refuse",
        "--seeds",
        "1",
        "--pairs",
        "7",
    ];
    let explore = [&explore[..], &faults].concat();
    let whole = output(&[&explore[..], &["--json"]].concat());
    let records = shards("shards-explore", &explore, 3);
    let (code, joined, _) = merge(&records, &["--json"]);
    assert_eq!((code, whole.status.code()), (Some(1), Some(1)));
    assert_eq!(results(&joined), results(&stdout(&whole)));
    let (_, out, _) = merge(&records, &[]);
    let whole = stdout(&output(&explore));
    assert_eq!(out.lines().last(), whole.lines().last());
    assert_eq!(out.matches("DIFF ").count(), whole.matches("DIFF ").count());
}

#[test]
fn the_page_of_a_shared_exploration_has_the_timelines_of_each_difference() {
    let path = unexplained("shards-timelines");
    let directory = path.parent().unwrap();
    let explore = [
        "explore",
        path.to_str().unwrap(),
        "--from",
        "statefulset-controller",
        "--faults",
        "refuse",
        "--report",
    ];
    let explored = |name: &str, more: &[&str]| {
        let report = directory.join(name);
        let report_path = report.to_str().unwrap();
        let ran = output(&[&explore[..], &[report_path], more].concat());
        assert!(ran.status.code() < Some(2), "{ran:?}");
        report
    };
    let shards = ["1/2", "2/2"].map(|shard| explored(&shard[..1], &["--shard", shard]));
    let page = directory.join("page");
    let (_, out, _) = merge(&shards, &["--json", "--report", page.to_str().unwrap()]);
    assert!(!out.contains("withFaults") && !out.contains("withoutFaults"));
    let whole = explored("whole", &[]);
    let [joined, whole] = [page, whole].map(|report| {
        let html = std::fs::read_to_string(report.join("index.html")).unwrap();
        let sides = html.split("<h3>Timelines</h3>").skip(1);
        let sides = sides.map(|sides| sides.split("</details>\n").next().unwrap().to_owned());
        sides.collect::<Vec<_>>()
    });
    assert!(!whole.is_empty());
    assert!(whole.iter().all(|sides| sides.contains("class=\"pair\"")));
    assert_eq!(joined, whole);
}

#[test]
fn what_a_run_of_another_shard_needs_in_differs_is_needed() {
    let path = suite::scenarios_dir().join("statefulset/sts-revision-collision.yaml");
    let path = path.to_str().unwrap();
    let explore = [
        "explore",
        path,
        "--from",
        "statefulset-controller",
        "--faults",
        "refuse",
    ];
    let whole = output(&explore);
    assert_eq!(whole.status.code(), Some(0), "{whole:?}");
    let records = shards("shards-differs", &explore, 4);
    let (code, out, _) = merge(&records, &[]);
    assert_eq!((code, out), (Some(0), stdout(&whole)));
    // An entry that no shard needs is one that nothing needs.
    let text = std::fs::read_to_string(unexplained("shards-stale")).unwrap();
    let entry = "differs: [{with: {fault: refuse, verb: delete, from: statefulset-controller}, because: it is tried here}]";
    let path = file(
        "shards-stale/unexplained.yaml",
        &format!("{text}\n{entry}\n"),
    );
    let path = path.to_str().unwrap();
    let explore = [
        "explore",
        path,
        "--from",
        "statefulset-controller",
        "--faults",
        "refuse",
    ];
    let (code, out, _) = merge(&shards("shards-stale", &explore, 2), &[]);
    let stale = "STALE shards-stale/unexplained: differs with `refuse delete from statefulset-controller`: \
                 this explains no run";
    assert_eq!((code, out.matches(stale).count()), (Some(1), 1), "{out}");
}

#[test]
fn the_pages_of_shards_are_joined_with_what_is_next_to_them() {
    let scenarios: Vec<PathBuf> = ["a", "b", "c"]
        .iter()
        .map(|name| {
            let text = "title: t\nsource: s\ngiven: {nodes: 0, controllers: []}\nsteps:\n- create: {apiVersion: v1, kind: \
                        ConfigMap, metadata: {name: NAME}}\n";
            file(&format!("shards-page/area/{name}.yaml"), &text.replace("NAME", name))
        })
        .collect();
    let area = scenarios[0].parent().unwrap();
    let directory = area.parent().unwrap();
    let page = directory.join("page");
    let reports = [1, 2].map(|number| {
        let report = directory.join(number.to_string());
        let shard = format!("{number}/2");
        let arguments = ["run", area.to_str().unwrap(), "--shard", &shard, "--report"];
        // Without a golden a scenario fails.
        let ran = output(&[&arguments[..], &[report.to_str().unwrap()]].concat());
        assert_eq!(ran.status.code(), Some(1), "{ran:?}");
        report
    });
    let (code, out, _) = merge(&reports, &["--report", page.to_str().unwrap()]);
    assert_eq!(code, Some(1));
    assert!(out.ends_with("0 passed, 3 failed\n"), "{out}");
    let html = std::fs::read_to_string(page.join("index.html")).unwrap();
    for name in ["a", "b", "c"] {
        assert!(
            html.contains(&format!("<code>area/{name}</code>")),
            "{name}"
        );
        assert!(
            html.contains(&format!("configmap {name} created")),
            "{name}"
        );
        assert!(page.join(format!("logs/area__{name}.log.jsonl")).is_file());
    }
    let whole = directory.join("whole");
    output(&[
        "run",
        area.to_str().unwrap(),
        "--report",
        whole.to_str().unwrap(),
    ]);
    let whole = std::fs::read_to_string(whole.join("index.html")).unwrap();
    let without_maker = |html: &str| -> String {
        let lines = html.lines().filter(|line| !line.contains("made by"));
        lines.collect::<Vec<_>>().join("\n")
    };
    assert_eq!(without_maker(&html), without_maker(&whole));
}

#[test]
fn upgrade_tests_are_shared_out_by_scenario() {
    for name in ["a", "b"] {
        let text = "title: t\nsource: s\ngiven: {nodes: 0}\nsteps: [{advance: 100ms}]\n";
        file(&format!("shards-upgrade/area/{name}.yaml"), text);
    }
    let area = file("shards-upgrade/note", "").with_file_name("area");
    let exe = std::env::current_exe().unwrap();
    let program = format!(
        "export {ROLE}=plain; exec {} --exact outside::controller_program",
        exe.display()
    );
    let (area, program) = (area.to_str().unwrap(), program.as_str());
    let test = ["upgrade-test", area, "--from", program, "--to", program];
    let settled = ["--controllers", "none", "--settle-after", "200ms"];
    let records = shards("shards-upgrade", &[&test[..], &settled].concat(), 2);
    let (code, out, _) = merge(&records, &[]);
    let one =
        |name: &str| format!("ok area/{name}\n  upgrade: nothing found\n  back: nothing found\n");
    let all = format!("{}{}2 passed, 0 failed\n", one("a"), one("b"));
    assert_eq!((code, out), (Some(0), all));
}

#[tokio::test]
async fn a_cluster_takes_the_manifest_of_an_exploration() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../packaging/job/explore.yaml");
    let manifests = Manifests::new().read(path).unwrap();
    let jobs: Vec<Value> = manifests
        .clone()
        .into_iter()
        .map(|manifest| manifest.object)
        .filter(|object| object["kind"] == "Job")
        .collect();
    let spec = &jobs[0]["spec"];
    let arguments = spec["template"]["spec"]["containers"][0]["args"]
        .as_array()
        .unwrap();
    let shard = format!("--shard=job/{}", spec["completions"]);
    assert!(
        arguments.iter().any(|argument| *argument == *shard),
        "{arguments:?}"
    );
    // A loader validates strictly.
    let server = ApiServer::builder().build_with(manifests).await;
    assert!(server.is_ok(), "{:?}", server.err());
}
